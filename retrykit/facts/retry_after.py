"""How long a response asks its client to wait, from whichever header says so."""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from retrykit._validate import is_number
from retrykit.facts._structured import Item, Token, parse_dictionary, parse_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from retrykit.facts._structured import Member


class SupportsItems(Protocol):
    """Headers that hand out their names and values in pairs, as every client's do."""

    def items(self) -> Iterable[tuple[object, object]]: ...


Headers: TypeAlias = "SupportsItems | Iterable[tuple[object, object]] | None"

LONGEST: Final = 2.0**31
"""What a longer wait is reported as, in seconds (RFC 9111 §1.2.2)."""

# Bounds on the work for a hostile response: no client takes as many fields, nor one as long.
_MOST_LINES: Final = 10_000
_LONGEST_NAME: Final = 100
_LONGEST_LIST: Final = 65_536

_THROTTLED: Final = frozenset({403, 429, 503})


def parse_retry_after(
    headers: Headers, *, status: int | None = None, now: float | datetime | None = None
) -> float | None:
    """The seconds that a response asks to wait, from 0.0 to 2**31; `None` where it does not say.

    The first of these that can be read decides:

    1. `retry-after-ms`, `x-ms-retry-after-ms` (milliseconds)
    2. `Retry-After` (seconds or an HTTP date)
    3. `x-amz-retry-after` (milliseconds)
    4. `RateLimit`, as the IETF's drafts have it from -07 on
    5. `RateLimit-Reset`
    6. `X-RateLimit-Reset-After` (seconds), `X-RateLimit-Reset`, `x-rate-limit-reset`
    7. `x-ratelimit-reset-requests` and `-tokens`, `anthropic-ratelimit-*-reset`: the longest

    4 to 7 tell when a limit is renewed. That matters only where the limit caused the refusal: with
    a `status` of 429, 503 or 403, and nothing remaining of it (403, which mostly means something
    else, has to say so). A reset may be a number, whose size tells seconds from now, the epoch
    in seconds and the epoch in milliseconds apart, an RFC 3339 time or an HTTP date; 7 takes a
    duration such as `6m0s` as well.

    Zero is an answer, and so is a time that has passed: 0.0. What is longer than 2**31 seconds is
    2**31. What is malformed (`-5`, `1e3`, `inf`, `30 seconds`, 30 February) counts as absent.
    Of a repeated or comma-joined number the largest counts. A time is compared with the response's
    own `Date` (and `Age`), since clocks differ; where there is none, with `now`: Unix seconds or an
    aware `datetime` (a naive one is read as UTC), by default `time.time()`.

    `headers` is a mapping or an iterable of pairs, of `str` or `bytes`. Nothing that is passed
    makes this raise; what cannot be read has nothing to say. The work is bounded: of many headers
    the first 10,000 are read.

    >>> parse_retry_after({"Retry-After": "120"})
    120.0
    >>> parse_retry_after({"retry-after": "Mon, 30 Nov 2026 12:01:00 GMT"}, now=1796040000)
    60.0
    >>> parse_retry_after({"RateLimit": '"burst";r=0;t=5, "daily";r=12;t=3600'}, status=429)
    5.0
    >>> print(parse_retry_after({"Retry-After": "soon"}))
    None
    """
    try:
        return _wait(_fields(headers), _unix_seconds(now), status)
    except Exception:  # noqa: BLE001 - foreign objects may raise anything, and a hint is never worth an error
        return None


# Reading the headers, whatever they are


_OWS: Final = " \t"
_FOLD: Final = re.compile(r"\r?\n[ \t]+")

# ASCII only: `"\u212a".lower()` is "k", and a header's name is no such thing.
_WANTED: Final = re.compile(
    r"date|age|[!-~]*(?:retry-after|rate-?limit)[!-~]*", re.IGNORECASE | re.ASCII
)


def _fields(headers: Headers) -> dict[str, str]:
    """The fields that matter, by lower-case name; repeats are joined, exact duplicates dropped."""
    found: dict[str, dict[str, None]] = {}
    with suppress(Exception):
        for line in islice(_lines(headers, type(headers)), _MOST_LINES):
            # One line that cannot be read does not hide the others.
            with suppress(Exception):
                name, value = line
                if (wanted := _wanted(name)) is not None:
                    texts = found.setdefault(wanted, {})
                    # Some clients' tests and recordings keep the repeats of a field in a list.
                    for one in value[:_MOST_LINES] if type(value) in (list, tuple) else (value,):
                        if (text := _text(one)) is not None:
                            texts[text] = None
    return {name: ", ".join(texts) for name, texts in found.items() if texts}


def _lines(headers: Any, kind: type[object]) -> Any:  # whatever a caller has for headers
    """The pairs in `headers`, repeats each by itself where its class can hand them out so."""
    # httpx joins repeats in `items()`. The class is asked, for a mock answers to every name.
    if hasattr(kind, "multi_items"):
        return headers.multi_items()
    if hasattr(headers, "items"):
        return headers.items()
    if hasattr(headers, "keys"):
        return ((name, headers[name]) for name in headers.keys())  # noqa: SIM118 - it may not iterate
    return headers


def _wanted(name: Any) -> str | None:  # whatever stands for a name
    """A header's name in lower case, if it is one that is read here."""
    if isinstance(name, (bytes, bytearray)):
        name = str(name, "latin-1")
    found = _WANTED.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    return None if found is None else found.group().lower()


def _text(value: object) -> str | None:
    """A field's value without the blanks around it; `None` for what is no value."""
    if isinstance(value, (bytes, bytearray)):
        value = str(value, "latin-1")
    if isinstance(value, str):
        # RFC 9112 §5.2; http.client leaves the folds in.
        return _FOLD.sub(" ", value).strip(_OWS)
    if type(value) is int:
        return str(min(max(value, -1), int(_BEYOND)))
    if type(value) is float:
        return f"{value:.9f}"
    return None


def _unix_seconds(now: object) -> float:
    """`now` in seconds since the epoch; the system's clock for what tells no time."""
    with suppress(Exception):
        if isinstance(now, datetime):
            aware = now if now.utcoffset() is not None else now.replace(tzinfo=UTC)
            return aware.timestamp()
        if is_number(now) and math.isfinite(now):
            return float(now)
    return time.time()


def _clock(fields: Mapping[str, str], now: float) -> float:
    """What time it is for the server: its `Date`, plus the `Age` of a cached response."""
    sent = _http_date(fields.get("date", ""), now)
    if sent is None:
        return now
    # RFC 9111 §5.1: of several the first, and whole seconds only.
    age = fields.get("age", "").partition(",")[0].strip(_OWS)
    seconds = None if "." in age else _number(age)
    return sent if seconds is None else sent + min(seconds, LONGEST)


# The sources, in their order of precedence


def _wait(fields: Mapping[str, str], now: float, status: int | None) -> float | None:
    """What the fields ask for: from here on text only, and nothing that can raise."""
    hints = _hints(fields, _clock(fields, now), status)
    hint = next((hint for hint in hints if hint is not None), None)
    return None if hint is None else min(max(hint, 0.0), LONGEST)


def _hints(fields: Mapping[str, str], clock: float, status: int | None) -> Iterator[float | None]:
    yield _milliseconds(fields, "retry-after-ms")
    yield _milliseconds(fields, "x-ms-retry-after-ms")
    yield _retry_after(fields, clock)
    yield _milliseconds(fields, "x-amz-retry-after")
    if status not in _THROTTLED:
        return
    # Most of what is forbidden has nothing to do with a limit: "none remaining" has to be said.
    said = status == 403
    yield _rate_limit(fields.get("ratelimit", ""), said=said)
    if _used_up(fields.get("ratelimit-remaining"), said=said):
        yield _reset(fields.get("ratelimit-reset", ""), clock)
    if _used_up(fields.get("x-ratelimit-remaining"), said=said):
        yield _largest(fields.get("x-ratelimit-reset-after", ""))
        yield _reset(fields.get("x-ratelimit-reset", ""), clock)
    if _used_up(fields.get("x-rate-limit-remaining"), said=said):
        yield _reset(fields.get("x-rate-limit-reset", ""), clock)
    yield _dimensions(fields, clock, said=said)


def _milliseconds(fields: Mapping[str, str], name: str) -> float | None:
    largest = _largest(fields.get(name, ""))
    return None if largest is None else largest / 1000


def _retry_after(fields: Mapping[str, str], clock: float) -> float | None:
    text = fields.get("retry-after", "")
    instant = _http_date(text, clock)
    return _largest(text) if instant is None else instant - clock


_PARAMETERS: Final = re.compile(r";[^,]*")


def _used_up(remaining: str | None, *, said: bool) -> bool:
    """Whether a limit is at zero, or may be: `said` wants to be told."""
    if remaining is None:
        return not said
    return _largest(_PARAMETERS.sub("", remaining).strip(_OWS)) == 0


def _rate_limit(text: str, *, said: bool) -> float | None:
    """The longest `t` of the limits without quota; anything malformed voids the field."""
    if len(text) > _LONGEST_LIST:
        return None
    with suppress(ValueError):
        limits = [_service_limit(member) for member in parse_list(text)]
        return max((t for r, t in limits if r == 0 and t is not None), default=None)
    with suppress(ValueError):
        # Draft -07 has one limit: `limit=100, remaining=0, reset=50`.
        limit = parse_dictionary(text)
        remaining, reset = _quantity(limit.get("remaining")), _quantity(limit.get("reset"))
        return reset if remaining == 0 or (remaining is None and not said) else None
    return None


def _service_limit(member: Member) -> tuple[float, float | None]:
    """How much quota remains, and the seconds until there is more. Raises `ValueError`."""
    # Earlier drafts name a limit by a token, later ones by a string.
    if not isinstance(member, Item) or type(member.value) not in (str, Token):
        raise ValueError("a limit has a name")
    remaining = _quantity(member.params.get("r"))
    if remaining is None:
        raise ValueError("r is required")
    return remaining, _quantity(member.params.get("t"))


def _quantity(value: object) -> float | None:
    """A whole number that is not negative, `None` for an absent one. Raises `ValueError`."""
    if isinstance(value, Item):
        value = value.value
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise ValueError("a quantity is a non-negative Integer")
    return float(value)


_DIMENSION: Final = re.compile(
    r"""
      x-ratelimit-(?P<which> remaining | reset )
      -(?P<name> (?: [a-z]+- )* (?: requests | tokens ) (?: -(?: second | minute | hour | day ) )? )
    | anthropic-ratelimit-(?P<of> .+ )-(?P<its> remaining | reset )
    """,
    re.VERBOSE,
)


def _dimensions(fields: Mapping[str, str], clock: float, *, said: bool) -> float | None:
    """The longest wait of the used-up limits among those that a vendor counts side by side."""
    remaining: dict[tuple[str | None, str | None], str] = {}
    resets: dict[tuple[str | None, str | None], str] = {}
    for name, text in fields.items():
        if found := _DIMENSION.fullmatch(name):
            which = resets if "reset" in (found["which"], found["its"]) else remaining
            which[found["name"], found["of"]] = text
    # Where the vendor tells of some limit what remains, silence about another is no zero.
    said = said or bool(remaining)
    waits = (
        _duration_or_reset(text, clock)
        for limit, text in resets.items()
        if _used_up(remaining.get(limit), said=said)
    )
    return max((wait for wait in waits if wait is not None), default=None)


def _duration_or_reset(text: str, clock: float) -> float | None:
    duration = _duration(text)
    return _reset(text, clock) if duration is None else duration


def _reset(text: str, clock: float) -> float | None:
    """The wait until a limit is renewed: a number, an RFC 3339 time or an HTTP date."""
    instant = _http_date(text, clock)
    if instant is None:
        instant = _rfc3339(text)
    if instant is not None:
        return instant - clock
    waits: list[float] = []
    for number in _numbers(text):
        if number < 1e9:  # As seconds from now 31 years, as an instant 2001.
            waits.append(number)
        elif number < 1e11:  # In seconds the year 5138, in milliseconds 1973.
            waits.append(number - clock)
        elif number < 1e14:
            waits.append(number / 1000 - clock)
        else:
            return None
    return max(waits, default=None)


# Numbers, durations and dates: ASCII digits only, the whole text or nothing


_NUMBER: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_DIGITS: Final = 18
_BEYOND: Final = 1e18


def _number(text: str) -> float | None:
    """Digits, with a fraction or without; however many they are, they are never handed to `int`."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    digits = found[1].lstrip("0")
    if len(digits) > _DIGITS:
        return _BEYOND
    return float(f"{digits or '0'}.{(found[2] or '0')[:_DIGITS]}")


def _numbers(text: str) -> list[float]:
    """The numbers of a comma-separated list; none if one of its members is none."""
    single = _number(text)
    if single is not None:
        return [single]
    if len(text) > _LONGEST_LIST:
        return []
    numbers: list[float] = []
    for member in text.split(","):
        number = _number(member.strip(_OWS))
        if number is None:
            return []
        numbers.append(number)
    return numbers


def _largest(text: str) -> float | None:
    return max(_numbers(text), default=None)


# Go prints "\u00b5s"; its UTF-8 read as Latin-1, as most clients read it, is "\u00c2\u00b5s". Its
# parser takes the Greek letter too.
_MICRO: Final = ("us", "\u00b5s", "\u03bcs", "\u00c2\u00b5s", "\u00ce\u00bcs")
_UNITS: Final = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    **dict.fromkeys(_MICRO, 1e-6),
    "ns": 1e-9,
}
# The longer unit first: "ms" is no "m".
_PART: Final = re.compile(
    rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(sorted(_UNITS, key=len, reverse=True))})"
)
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")


def _duration(text: str) -> float | None:
    """A duration as Go prints it: `1h0m0s`, `6m0s`, `8.64s`, `120ms`."""
    if len(text) > _LONGEST_LIST or not _DURATION.fullmatch(text):
        return None
    return math.fsum((_number(part[1]) or 0.0) * _UNITS[part[2]] for part in _PART.finditer(text))


_WEEKDAY: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)"
_MONTHS: Final[tuple[str, ...]] = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_MONTH: Final = rf"(?P<month>{'|'.join(_MONTHS)})"
_DAY: Final = r"(?P<day>[0-9]{1,2})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_OFFSET: Final = r"(?P<offset>[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])"
_ZONE: Final = rf"(?:GMT|UTC|{_OFFSET})"

# What RFC 9110 §5.6.7 lets servers send, matched without the locale that `strptime` obeys.
_HTTP_DATES: Final = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"{_WEEKDAY}, {_DAY} {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} {_ZONE}",
        rf"{_WEEKDAY}, {_DAY}-{_MONTH}-(?P<short_year>[0-9]{{2}}) {_TIME} {_ZONE}",
        rf"{_WEEKDAY} {_MONTH} (?P<day>[0-9]{{2}}| ?[0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_RFC3339: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[T ]"
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    rf"(?:Z|{_OFFSET})",
    re.IGNORECASE | re.ASCII,
)


def _http_date(text: str, clock: float) -> float | None:
    """The Unix time of an HTTP date in any of its three forms."""
    for form in _HTTP_DATES:
        if found := form.fullmatch(text):
            parts = found.groupdict()
            month = _MONTHS.index(found["month"].lower()) + 1
            if "year" in parts:
                return _instant(parts, int(parts["year"]), month)
            return _within_fifty_years(parts, int(parts["short_year"]), month, clock)
    return None


def _rfc3339(text: str) -> float | None:
    """The Unix time of an RFC 3339 date and time; its seconds may be missing."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    instant = _instant(found.groupdict(), int(found["year"]), int(found["month"]))
    fraction = float(f"0.{(found['fraction'] or '0')[:_DIGITS]}")
    return None if instant is None else instant + fraction


_EPOCH: Final = date(1970, 1, 1).toordinal()
_A_DAY: Final = 86_400


def _instant(parts: Mapping[str, str | None], year: int, month: int) -> float | None:
    """The Unix time of a date's parts; `None` for a day or a time that does not exist."""
    day, hour, minute, second = (
        int(parts[unit] or 0) for unit in ("day", "hour", "minute", "second")
    )
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    whole_minutes = days * _A_DAY + hour * 3600 + minute * 60
    if offset := parts.get("offset"):
        east = int(offset[1:3]) * 3600 + int(offset[-2:]) * 60
        whole_minutes -= east if offset[0] == "+" else -east
    # A leap second is the last of a day in UTC. Unix time has none: it is the second after.
    if second == 60 and whole_minutes % _A_DAY != _A_DAY - 60:
        return None
    return float(whole_minutes + second)


def _within_fifty_years(
    parts: Mapping[str, str | None], short_year: int, month: int, clock: float
) -> float | None:
    """The latest time with these two digits of a year that is at most 50 years from `clock`."""
    ordinal = min(max(int(clock // _A_DAY) + _EPOCH, 1), date.max.toordinal())
    today = date.fromordinal(ordinal)
    latest_year = min(today.year + 50, date.max.year)
    # Counted from the first of the month, 29 February is 1 March where there is none.
    latest_day = date(latest_year, today.month, 1).toordinal() + today.day - 1
    latest = (latest_day - _EPOCH) * _A_DAY + clock % _A_DAY
    # From next year on, for an offset can move the turn of the year; not every century has a
    # 29 February.
    newest = latest_year + 1 - (latest_year + 1 - short_year) % 100
    for year in range(newest, 0, -100):
        instant = _instant(parts, year, month)
        if instant is not None and instant <= latest:
            return instant
    return None
