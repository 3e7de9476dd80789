"""What a response asks to wait: every header, every unit, and nothing that can break it."""

from __future__ import annotations

import email
import email.message
import email.policy
import email.utils
import http
import http.client
import io
import json
import math
import time
from collections import UserDict, UserString
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import count, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock, Mock

import httpx
import multidict
import pytest
import requests
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.facts import retry_after
from retrykit.facts.retry_after import parse_retry_after

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOW = NOON.timestamp()
EPOCH_AT_60 = "1796040060"
DATE_AT_60 = "Mon, 30 Nov 2026 12:01:00 GMT"
FOREVER = 2.0**31


NAMES = ["Retry-After", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "RateLimit",
         "RateLimit-Reset", "RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After",
         "X-RateLimit-Remaining", "x-rate-limit-reset", "x-rate-limit-remaining", "Date", "Age",
         "x-ratelimit-reset-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-tokens",
         "anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"]  # fmt: skip


def short(value: object) -> str | None:
    """A test's id for a text that may be a megabyte long; `None` leaves it to pytest."""
    if isinstance(value, (str, bytes)):
        return ascii(value[:40])
    return "huge" if isinstance(value, int) and abs(value) > 10**30 else None


cases = partial(pytest.mark.parametrize, ids=short)


def wait(headers: Any, status: Any = 429, now: Any = NOW) -> float | None:
    return parse_retry_after(headers, status=status, now=now)


def after(value: Any, now: Any = NOW) -> float | None:
    return wait({"Retry-After": value}, now=now)


# The vectors

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "retry_after.json").read_text())[
    "vectors"
]


def decoded(value: Any) -> Any:
    return value["$bytes"].encode("latin-1") if isinstance(value, dict) else value


@cases("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    """Each vector gives the wait that it expects, its first choice."""
    headers = vector["headers"]
    if isinstance(headers, dict):
        headers = {name: decoded(value) for name, value in headers.items()}
    else:
        headers = [(decoded(name), decoded(value)) for name, value in headers]
    got = wait(headers, vector["status"], datetime.fromisoformat(vector["now"]))
    if vector["expect"] is None:
        assert got is None
    else:
        assert got == pytest.approx(vector["expect"], rel=1e-6, abs=1e-6)


def test_every_vector_is_here() -> None:
    """A lost data file would make the test above pass for want of cases."""
    assert len({vector["id"] for vector in VECTORS}) == 187


# Seconds


@cases(
    ("value", "expected"),
    [
        ("0", 0.0),
        ("00", 0.0),
        ("0.0", 0.0),
        ("007.50", 7.5),
        ("0.5", 0.5),
        ("0.999999999999999999999999", 1.0),
        ("1796040060", 1796040060.0),
        ("2147483647.5", 2147483647.5),
        ("2147483648.1", FOREVER),
        ("99999999", 99999999.0),
        ("9" * 18, FOREVER),
        ("9" * 4301, FOREVER),
        ("9" * 1_000_000, FOREVER),
        ("0" * 1_000_000, 0.0),
        ("0" * 1_000_000 + "7", 7.0),
        ("1." + "3" * 1_000_000, 4 / 3),
        ("0." + "0" * 1_000_000 + "1", 0.0),
        ("9" * 5000 + "." + "9" * 5000, FOREVER),
    ],
)
def test_digits_are_seconds_however_many_they_are(value: str, expected: float) -> None:
    """urllib3#1822, PostHog#74113: a fraction counts, and a long run of digits is a long wait."""
    assert after(value) == pytest.approx(expected)


@cases(
    "value",
    [
        *("", " ", "-5", "-0", "+5", "--5", "1e5", "1E5", "1e400", "1e-3", "0x10", "0b1", "1_000"),
        *(
            "inf",
            "-inf",
            "+inf",
            "Infinity",
            "nan",
            "NaN",
            "1.0f",
            "5.",
            ".5",
            ".",
            "1..5",
            "1.2.3",
        ),
        *("1m0s", "120s", "30 seconds", "5 s", "1 000", "1'000", "120 (busy)", '"120"', "120;x=1"),
        *("\u0661\u0662\u0660", "\uff15", "\u00b2", "\u0967", "\u2460", "\u2075", "5\u0660"),
        *("\u00a05", "5\u00a0", "\u30005", "\u20035", "\x0b5", "\x0c5", "\x1c5", "5\x85"),
        *("5\n", "5\r\n", "\n5", "5\x00", "\x005", "5\r", "5\ufeff", "\ufeff5", "5\udcff"),
        *(
            "soon",
            "never",
            "null",
            "None",
            "true",
            "2026-11-30",
            "2026-11-30T12:01:00Z",
            "12:01:00",
        ),
        *("9" * 5000 + "x", "9" * 5000 + "e9", "-" + "9" * 5000, "9" * 200_000 + " 9"),
    ],
)
def test_what_is_no_delay_counts_as_absent(value: str) -> None:
    """openai-agents-python#4021, vane#518, urllib3#2861: no sign, exponent, unit or word."""
    assert after(value) is None


# Blanks, names and types


@cases("value", [" 5", "5 ", "\t5\t", " \t 5 \t ", b"\t5 "])
def test_blanks_around_a_value_are_no_part_of_it(value: str | bytes) -> None:
    """Spaces and tabs are trimmed, and nothing else is."""
    assert after(value) == 5.0


@cases("value", [b"\r\n 30", "30\r\n ", "\r\n \r\n\t30", "\n 30"])
def test_a_folded_line_is_unfolded(value: str | bytes) -> None:
    """RFC 9112 §5.2: each fold counts as a space; http.client and urllib3 leave it in."""
    assert after(value) == 30.0
    assert after("Mon, 30 Nov 2026\r\n 12:01:00 GMT") == 60.0
    assert after("3\r\n 0") is None


@cases(
    "name",
    ["Retry_After", "RetryAfter", " Retry-After", "Retry-After ", "Retry-After:", "X-Retry-After",
     "Retry-After-Seconds", "", "Retry-After\n", "retr\u00fd-after", "Retry\u2010After"],
)  # fmt: skip
def test_another_name_is_another_field(name: str) -> None:
    """A name is matched whole, without case and in ASCII."""
    assert wait({name: "7"}) is None


def test_a_letter_that_only_lowers_to_ascii_is_no_match() -> None:
    """The Kelvin sign lowers to "k", which no header's name is spelt with."""
    assert wait({"x-ratelimit-reset-to\u212aens": "1s"}) is None
    assert wait({"x-ratelimit-reset-TOKENS": "1s"}) == 1.0


@cases(
    ("value", "expected"),
    [
        (120, 120.0),
        (0, 0.0),
        (1.5, 1.5),
        (1e-9, 1e-9),
        (10**5000, FOREVER),
        (1e300, FOREVER),
        (-1, None),
        (-(10**5000), None),
        (-0.5, None),
        (math.inf, None),
        (-math.inf, None),
        (math.nan, None),
        (True, None),
        (None, None),
        (b"120", 120.0),
        (bytearray(b"120"), 120.0),
        (b"\xff\xfe", None),
        (b"5\xb2", None),
        (b"", None),
        (["5", "30"], 30.0),
        (("5",), 5.0),
        ([], None),
        ([None], None),
        ([["5"]], None),
        ({}, None),
        ({"5"}, None),
        (object(), None),
        (UserString("5"), None),
        (timedelta(seconds=5), None),
        (str, None),
    ],
)  # fmt: skip
def test_a_value_may_be_of_any_type(value: object, expected: float | None) -> None:
    """Text, bytes, numbers and lists of them are read, everything else counts as absent."""
    assert after(value) == expected


class Shouting(str):
    """A string that misbehaves where Python lets it."""

    def strip(self, *_: object) -> str:
        raise RuntimeError("strip")

    def lower(self) -> str:
        raise RuntimeError("lower")

    def __str__(self) -> str:
        raise RuntimeError("str")


def test_a_subclass_of_str_is_read_as_the_text_it_holds() -> None:
    """multidict's names are of a subclass; what it overrides is not asked."""
    assert wait([(Shouting("Retry-After"), Shouting(" 5 "))]) == 5.0
    assert wait([(multidict.istr("Retry-After"), "5")]) == 5.0


# Headers of every make


def http_client_message(raw: bytes) -> http.client.HTTPMessage:
    return http.client.parse_headers(io.BytesIO(raw))


class OnlyKeys:
    """Looks like a mapping as far as `dict()` is concerned."""

    def keys(self) -> list[str]:
        return ["Retry-After"]

    def __getitem__(self, name: str) -> str:
        return {"Retry-After": "30"}[name]


HEADERS: dict[str, Any] = {
    "dict": {"Retry-After": "30"},
    "dict of bytes": {b"Retry-After": b"30"},
    "dict of two cases": {"Retry-After": "5", "retry-after": "30"},
    "mapping proxy": MappingProxyType({"retry-after": "30"}),
    "UserDict": UserDict({"retry-after": "30"}),
    "only keys": OnlyKeys(),
    "items view": {"Retry-After": "30"}.items(),
    "list of tuples": [("Retry-After", "30")],
    "list of lists": [["Retry-After", "30"]],
    "tuple": (("Retry-After", "30"),),
    "raw pairs": [(b"retry-after", b"30")],
    "mixed pairs": [(b"retry-after", "5"), ("Retry-After", b"30")],
    "iterator": iter([("Retry-After", "30")]),
    "generator": (pair for pair in [("Retry-After", "30")]),
    "zip": zip(["Retry-After"], ["30"], strict=True),
    "requests": requests.structures.CaseInsensitiveDict({"RETRY-AFTER": "30"}),
    "httpx": httpx.Headers([("Retry-After", "5"), ("retry-after", "30")]),
    "httpx raw": httpx.Headers({"Retry-After": "30"}).raw,
    "urllib3": urllib3.HTTPHeaderDict([("Retry-After", "5"), ("retry-after", "30")]),
    "aiohttp": multidict.CIMultiDict([("Retry-After", "5"), ("retry-after", "30")]),
    "aiohttp proxy": multidict.CIMultiDictProxy(multidict.CIMultiDict({"Retry-After": "30"})),
    "http.client": http_client_message(b"Retry-After: 5\r\nretry-after: 30\r\n\r\n"),
    "folded": http_client_message(b"Retry-After: 5,\r\n\t30\r\nDate:\r\n  yesterday\r\n\r\n"),
    "email": email.message_from_string("Retry-After: 5\nRetry-After: 30\n\n"),
    "email, modern": email.message_from_string("Retry-After: 30\n\n", policy=email.policy.HTTP),
    "mock": Mock(items=Mock(return_value=[("Retry-After", "30")])),
}


@cases("make", HEADERS)
def test_headers_of_every_make_are_read(make: str) -> None:
    """Mappings, pairs and every client's own headers give the same answer, repeats included."""
    assert wait(HEADERS[make]) == 30.0


@cases(
    "headers",
    [
        httpx.Headers([("Retry-After", DATE_AT_60)] * 2),
        urllib3.HTTPHeaderDict([("Retry-After", DATE_AT_60)] * 2),
        multidict.CIMultiDict([("Retry-After", DATE_AT_60)] * 2),
        http_client_message(f"Retry-After: {DATE_AT_60}\r\n".encode() * 2 + b"\r\n"),
    ],
    ids=lambda headers: type(headers).__name__,
)
def test_identical_dates_collapse_where_the_client_keeps_them_apart(headers: Any) -> None:
    """httpx's `items()` would join them to what is no date."""
    assert wait(headers) == 60.0


def test_the_answer_of_a_real_parser_of_undecodable_bytes() -> None:
    """http.client reads Latin-1, email keeps surrogates; neither makes a digit."""
    raw = b"Retry-After: \xb2\r\nX-RateLimit-Reset-Requests: 500\xc2\xb5s\r\n\r\n"
    assert wait(http_client_message(raw)) == pytest.approx(0.0005)
    assert wait(email.message_from_bytes(b"Retry-After: \xb2\xff\n\n")) is None


@cases(
    "headers",
    [None, {}, [], (), "", b"", "Retry-After: 5", b"Retry-After: 5\r\n", 5, 5.0, True, object(),
     dict, type, len, [None], [5], ["Retry-After"], [("Retry-After",)],
     [("Retry-After", "5", "6")], {"Retry-After"}, {None: "5"}, {5: "5"}, {("Retry-After",): "5"},
     [(None, None)], [[]], [{}], Mock(), MagicMock(), NotImplemented, ..., Exception("5"),
     range(10), memoryview(b"Retry-After")],
)  # fmt: skip
def test_what_has_no_headers_says_nothing(headers: Any) -> None:
    """Garbage for headers is no hint, and no error."""
    assert wait(headers) is None


class Broken(Mapping[str, str]):
    """A mapping whose every method raises."""

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __getitem__(self, name: str) -> str:
        raise RuntimeError("getitem")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class Untouchable:
    """An object of which not even an attribute can be read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class EndlesslyDeep:
    """Recurses without end."""

    def items(self) -> Any:
        return self.items()


@cases("broken", [Broken, Untouchable, EndlesslyDeep])
def test_broken_headers_say_nothing(broken: type) -> None:
    """Whatever a headers object raises stays inside."""
    assert wait(broken()) is None


@cases("broken", [Broken, Untouchable])
def test_a_broken_line_does_not_hide_the_others(broken: type) -> None:
    """A line, a name or a value that cannot be read is passed over."""
    odd = broken()
    lines = [odd, (odd, "1"), ("Retry-After", odd), (odd, odd), ("Retry-After", "5")]
    assert wait(lines) == 5.0


def test_lines_read_before_an_error_count() -> None:
    """A source that breaks off has said what it has said."""

    def lines() -> Iterator[tuple[str, str]]:
        yield "Retry-After", "5"
        raise OSError("connection lost")

    assert wait(lines()) == 5.0


class Odd(int):
    """A number that misbehaves where Python lets it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __float__(self) -> float:
        raise RuntimeError("float")


ODD: dict[str, Callable[[], Any]] = {
    "text": lambda: "429",
    "bytes": bytes,
    "list": list,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "huge": lambda: 10**400,
    "object": object,
    "class": lambda: int,
    "odd": lambda: Odd(429),
    "broken": Broken,
    "untouchable": Untouchable,
}


@cases("name", ["status", "now"])
@cases("odd", ODD)
def test_odd_statuses_and_clocks_break_nothing(name: str, odd: str) -> None:
    """A delay needs neither; a limit or a date needs one, and makes do."""
    arguments = {"status": 429, "now": NOW, name: ODD[odd]()}
    assert parse_retry_after({"Retry-After": "5"}, **arguments) == 5.0
    for headers in ({"X-RateLimit-Reset": EPOCH_AT_60}, {"Retry-After": DATE_AT_60}):
        got = parse_retry_after(headers, **arguments)
        assert got is None or 0.0 <= got <= FOREVER


def test_an_exit_is_not_swallowed() -> None:
    """Only what is an `Exception` stays inside: Ctrl-C works here too."""
    with pytest.raises(KeyboardInterrupt):
        wait(Mock(items=Mock(side_effect=KeyboardInterrupt)))


# Bounded work


def test_endless_headers_end() -> None:
    """Of a source that never stops only the first lines are asked for."""
    asked = count()
    assert wait(("X-Filler", str(next(asked))) for _ in repeat(None)) is None
    assert next(asked) == 10_000


def test_the_last_line_that_counts() -> None:
    """The bound is far above what any client lets through."""
    filler = [("X-Filler", "x")] * 9_999
    assert wait([*filler, ("Retry-After", "5")]) == 5.0
    assert wait([*filler, ("X", "x"), ("Retry-After", "5")]) is None


LONG = 300_000
HOSTILE = [
    *("9" * LONG, "0." + "9" * LONG, "9" * LONG + "x", "9" * LONG + "s"),
    *("1," * LONG, "1, " * 20_000 + "1", " " * LONG + "x", "1" + " \t" * LONG + "x"),
    *("Mon, " * LONG, DATE_AT_60 * 30_000, "2026-11-30T12:00:00." + "1" * LONG + "x"),
    *('"' * LONG, '"' + "\\\\" * LONG, ":" + "A" * LONG, "(" * LONG),
    *("a;" * LONG, "a;b" * 20_000, '"a";r=0;t=1,' * 5_000),
    *("(" + "a " * 30_000 + ")", ";" * LONG, "0;" * LONG + "x"),
    *("1s" * LONG, "1h" * 30_000, "\x00" * LONG, "\u0660" * LONG, "\ud800" * LONG),
]  # fmt: skip


@cases("number", range(len(HOSTILE)))
def test_long_values_take_linear_time(number: int) -> None:
    """A value that is read in quadratic time would take hours here, in linear time milliseconds."""
    began = time.process_time()
    for name in NAMES:
        got = wait({name: HOSTILE[number]})
        assert got is None or 0.0 <= got <= FOREVER
    assert time.process_time() - began < 5.0


def test_many_and_long_names_are_passed_over() -> None:
    """Many headers and a very long name cost what the first few cost."""
    began = time.process_time()
    assert wait({f"ratelimit-{number}": "1" for number in range(200_000)}) is None
    assert wait({"retry-after" * LONG: "1", b"retry-after" * LONG: "1"}) is None
    assert time.process_time() - began < 5.0


# Repeats and lists


@cases(
    ("values", "expected"),
    [
        (["120", "120"], 120.0),
        (["120", " 120\t"], 120.0),
        (["5", "30", "7"], 30.0),
        (["5", "0.5"], 5.0),
        (["0", "0.0"], 0.0),
        (["5, 30", "7"], 30.0),
        (["5", "9" * 5000], FOREVER),
        (["5", "soon"], None),
        (["5", "-1"], None),
        (["5", ""], None),
        (["5", None], 5.0),
        ([DATE_AT_60, "5"], None),
        ([DATE_AT_60, DATE_AT_60], 60.0),
        ([DATE_AT_60, "Mon, 30 Nov 2026 12:01:30 GMT"], None),
        ([DATE_AT_60, "Monday, 30-Nov-26 12:01:00 GMT"], None),
        ([b"5", "5"], 5.0),
        (["5"] * 3 + ["6"], 6.0),
    ],
)
def test_repeats(values: list[Any], expected: float | None) -> None:
    """Exact duplicates collapse; of plain numbers the largest counts; all else is ambiguous."""
    assert wait([("Retry-After", value) for value in values]) == expected


@cases(
    ("value", "expected"),
    [
        ("120, 120", 120.0),
        ("5,30", 30.0),
        ("5 ,\t30", 30.0),
        ("0.5, 0.25", 0.5),
        ("5,", None),
        (",5", None),
        ("5,,30", None),
        (",", None),
        ("5; 30", None),
        ("5 30", None),
        ("5, soon", None),
        ("5, 1e3", None),
        (f"{DATE_AT_60}, {DATE_AT_60}", None),
        (f"{DATE_AT_60}, 5", None),
        (f"5, {DATE_AT_60}", None),
    ],
)
def test_comma_lists(value: str, expected: float | None) -> None:
    """What a client joins with a comma counts like the lines that it came from."""
    assert after(value) == expected


def test_the_largest_counts_in_every_numeric_field() -> None:
    """Milliseconds, resets and remaining quotas can be repeated like anything else."""
    assert wait([("retry-after-ms", "1500"), ("retry-after-ms", "250")]) == 1.5
    assert wait({"x-amz-retry-after": "1500, 250"}) == 1.5
    assert wait({"X-RateLimit-Reset": "1796040030, 1796040060"}) == 60.0
    assert wait({"X-RateLimit-Reset": "5, 1796040060000"}) == 60.0
    assert wait({"X-RateLimit-Reset": "5, soon"}) is None
    assert wait({"X-RateLimit-Reset": "5, 1796040060000000"}) is None
    assert wait({"X-RateLimit-Remaining": "0, 0", "X-RateLimit-Reset": "5"}) == 5.0
    assert wait({"X-RateLimit-Remaining": "0, 3", "X-RateLimit-Reset": "5"}) is None


# Dates


def imf(moment: datetime, zone: str = "GMT") -> str:
    return f"{moment:%a, %d %b %Y %H:%M:%S} {zone}"


def rfc850(moment: datetime, zone: str = "GMT") -> str:
    return f"{moment:%A, %d-%b-%y %H:%M:%S} {zone}"


def asctime(moment: datetime) -> str:
    return f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S %Y}"


FORMS = (imf, rfc850, asctime)
moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59)


@cases("form", FORMS)
@cases("spell", [str, str.lower, str.upper, str.swapcase, "  {}\t".format])
def test_each_form_of_a_date_is_read(form: Any, spell: Any) -> None:
    """httpx-retries 0.3.2, retryhttp: all three forms, in any case, to the second."""
    for seconds in (0, 1, 59, 100, 86_400, 5 * 86_400, 400 * 86_400, 18_000 * 86_400):
        assert after(spell(form(NOON + timedelta(seconds=seconds)))) == seconds


@cases("form", FORMS)
def test_a_date_that_has_passed_asks_for_nothing(form: Any) -> None:
    """urllib3 1.26 (#1932): never a negative wait."""
    for seconds in (1, 100, 86_400, 10_000 * 86_400):
        assert after(form(NOON - timedelta(seconds=seconds))) == 0.0


@cases("zone", ["America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
@cases("form", FORMS)
def test_the_local_zone_has_no_say(zone: str, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx-retries 0.5.0, openai-java#853: a date is UTC, wherever the client stands."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert after(form(NOON + timedelta(seconds=100))) == 100.0
        assert after(form(NOON + timedelta(seconds=100)), now=NOON.replace(tzinfo=None)) == 100.0
        monkeypatch.setattr(time, "time", lambda: NOW)
        assert after(form(NOON + timedelta(seconds=100)), now=None) == 100.0
    finally:
        monkeypatch.undo()
        time.tzset()


@settings(max_examples=200, deadline=None)
@given(moments, moments, offsets, st.sampled_from(["", ":"]))
def test_a_date_is_read_to_the_second(
    now: datetime, then: datetime, minutes: int, colon: str
) -> None:
    """In every year and with every offset the wait is the difference, from zero to the ceiling."""
    expected = min(max((then - now).total_seconds(), 0.0), FOREVER)
    clock = (now - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    offset = f"{sign}{size // 60:02d}{colon}{size % 60:02d}"
    spelt = [f"{then:%a, %d %b} {then.year:04d} {then:%H:%M:%S} {zone}" for zone in ("GMT", "UTC")]
    spelt.append(f"{then:%a %b} {then.day:2d} {then:%H:%M:%S} {then.year:04d}")
    try:
        local = (then + timedelta(minutes=minutes)).replace(tzinfo=None)
    except OverflowError:
        pass
    else:
        spelt.append(f"{local:%a, %d %b} {local.year:04d} {local:%H:%M:%S} {offset}")
        instant = f"{local.year:04d}-{local:%m-%dT%H:%M:%S}{offset}"
        assert wait({"X-RateLimit-Reset": instant}, now=clock) == expected
    for text in spelt:
        assert after(text, now=clock) == expected


@cases(
    ("value", "expected"),
    [
        ("Mon, 30 Nov 2026 14:01:00 +0200", 60.0),
        ("Mon, 30 Nov 2026 14:01:00 +02:00", 60.0),
        ("Mon, 30 Nov 2026 06:31:00 -0530", 60.0),
        ("Tue, 01 Dec 2026 02:01:00 +1400", 60.0),
        ("Mon, 30 Nov 2026 12:01:00 +0000", 60.0),
        ("Mon, 30 Nov 2026 12:01:00 -0000", 60.0),
        ("Monday, 30-Nov-26 14:01:00 +0200", 60.0),
        ("Monday, 30-Nov-26 12:01:00 UTC", 60.0),
        ("Mon, 30 Nov 2026 12:01:00 utc", 60.0),
        ("Sun, 30 Nov 2026 12:01:00 GMT", 60.0),
        ("Sunday, 30-Nov-26 12:01:00 GMT", 60.0),
        ("Sun Nov 30 12:01:00 2026", 60.0),
        ("Sun, 6 Dec 2026 12:00:00 GMT", 518400.0),
        ("Sunday, 6-Dec-26 12:00:00 GMT", 518400.0),
        ("Sun Dec  6 12:00:00 2026", 518400.0),
        ("Sun Dec 6 12:00:00 2026", 518400.0),
        ("Sun Dec 06 12:00:00 2026", 518400.0),
    ],
)
def test_harmless_variants_of_a_date_are_read(value: str, expected: float) -> None:
    """An offset is applied; a weekday that contradicts the date is ignored, a short day is read."""
    assert after(value) == expected


@cases(
    "value",
    [
        "Mon, 30 Feb 2026 00:00:00 GMT",
        "Sun, 29 Feb 2026 00:00:00 GMT",
        "Mon, 31 Nov 2026 12:01:00 GMT",
        "Mon, 32 Dec 2026 12:01:00 GMT",
        "Mon, 00 Dec 2026 12:01:00 GMT",
        "Mon, 29 Feb 2100 00:00:00 GMT",
        "Monday, 30-Feb-26 00:00:00 GMT",
        "Mon Feb 30 00:00:00 2026",
        "Mon, 30 Nov 2026 24:00:00 GMT",
        "Mon, 30 Nov 2026 12:60:00 GMT",
        "Mon, 30 Nov 2026 12:00:60 GMT",
        "Mon, 30 Nov 2026 23:59:61 GMT",
        "Monday, 30-Nov-26 12:00:60 GMT",
        "Mon Nov 30 12:00:60 2026",
        "Mon, 30 Nov 0000 12:00:00 GMT",
        "Mon Nov 30 12:00:00 0000",
        "Fri, 31 Dec 10000 23:59:59 GMT",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Fri, 31 Dec 999 23:59:59 GMT",
        "Mon Nov 30 12:00:00 99999",
        "Monday, 30-Nov-2026 12:01:00 GMT",
        "Mon, 30 Nov 26 12:01:00 GMT",
        "30 Nov 2026 12:01:00 GMT",
        "Mon 30 Nov 2026 12:01:00 GMT",
        "Mon, 30 Nov 2026 12:01:00",
        "Mon, 30 Nov 2026 12:01 GMT",
        "Mon, 30 Nov 2026 GMT",
        "Mon, 30 Nov 2026 12:01:00.5 GMT",
        "Mon, 30 Nov 2026 1:01:00 GMT",
        "Mon, 30 Nov 2026 12.01.00 GMT",
        "Mon, 30 Nov 2026 12:01:00 PST",
        "Mon, 30 Nov 2026 12:01:00 EST",
        "Mon, 30 Nov 2026 12:01:00 Z",
        "Mon, 30 Nov 2026 12:01:00 GMT+0200",
        "Mon, 30 Nov 2026 12:01:00 +2400",
        "Mon, 30 Nov 2026 12:01:00 +0060",
        "Mon, 30 Nov 2026 12:01:00 +200",
        "Mon, 30 Nov 2026 12:01:00 0200",
        "Mon, 30 Nov 2026 12:01:00 \u22120200",
        "Mon, 30 Nov 2026 12:01:00GMT",
        "Mon,  30 Nov 2026 12:01:00 GMT",
        "Mon,30 Nov 2026 12:01:00 GMT",
        "Mon, 30\tNov 2026 12:01:00 GMT",
        "Mon, 30\u00a0Nov 2026 12:01:00 GMT",
        "Mon, 30 Nov 2026 12:01:00 GMT\n",
        "Mon, 30 Nov 2026 12:01:00 GMT please",
        "Mon, 30-Nov 2026 12:01:00 GMT",
        "Mon, 30 Nvm 2026 12:01:00 GMT",
        "Mon, 30 November 2026 12:01:00 GMT",
        "Mon, 30 11 2026 12:01:00 GMT",
        "Mon, \u0663\u0660 Nov 2026 12:01:00 GMT",
        "Mon, 30 Nov \uff12\uff10\uff12\uff16 12:01:00 GMT",
        "Mo, 30 Nov 2026 12:01:00 GMT",
        "Xyz, 30 Nov 2026 12:01:00 GMT",
        "lun., 30 nov. 2026 12:01:00 GMT",
        "\u017fun, 06 Dec 2026 12:00:00 GMT",
        "Mon, 30 \u017fep 2026 12:01:00 GMT",
        "Mon Nov 30 12:01:00 2026 GMT",
        "Mon Nov 30 2026 12:01:00 GMT+0000 (Coordinated Universal Time)",
        "Mon Nov  30 12:01:00 2026",
        "2026-11-30T12:01:00Z",
        "1796040060 GMT",
    ],
)
def test_what_is_no_date_counts_as_absent(value: str) -> None:
    """Impossible days and times, unknown zones and other forms are not guessed at."""
    assert after(value) is None


@cases(
    ("value", "expected"),
    [
        ("Sat, 31 Dec 2016 23:59:60 GMT", 30.0),
        ("Saturday, 31-Dec-16 23:59:60 GMT", 30.0),
        ("Sat Dec 31 23:59:60 2016", 30.0),
        ("Sun, 01 Jan 2017 01:59:60 +0200", 30.0),
        ("Sat, 31 Dec 2016 23:59:60 +0200", None),
    ],
)
def test_a_leap_second_is_the_second_after(value: str, expected: float | None) -> None:
    """23:59:60 exists, in UTC; Unix time counts it as the midnight that follows."""
    assert after(value, now=datetime(2016, 12, 31, 23, 59, 30, tzinfo=UTC)) == expected


def test_the_last_leap_second_that_a_year_has_room_for() -> None:
    """The second after 9999 is beyond `datetime`, and no trouble."""
    last = datetime(9999, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert after("Fri, 31 Dec 9999 23:59:60 GMT", now=last) == 2.0
    assert after("Fri, 31 Dec 9999 23:59:59 -2359", now=last) == 1.0 + 23 * 3600 + 59 * 60
    assert after("Mon, 01 Jan 0001 00:00:00 +2359") == 0.0


# RFC 850's two digits


def whole_years_later(moment: datetime, years: int) -> datetime:
    """29 February is 1 March in a year that has none."""
    try:
        return moment.replace(year=moment.year + years)
    except ValueError:
        return moment.replace(year=moment.year + years, month=3, day=1)


@cases(
    "now",
    [NOON, datetime(2028, 2, 29, tzinfo=UTC), datetime(1999, 12, 31, 23, 59, tzinfo=UTC),
     datetime(2050, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
    ids=str,
)  # fmt: skip
def test_two_digits_of_a_year_mean_at_most_fifty_years_ahead(now: datetime) -> None:
    """RFC 9110 §5.6.7, to the second: fifty years ahead is ahead, a second more is the past."""
    latest = whole_years_later(now, 50)
    assert after(rfc850(latest), now=now) == (latest - now).total_seconds()
    assert after(rfc850(latest - timedelta(seconds=1)), now=now) == (
        (latest - now).total_seconds() - 1
    )
    assert after(rfc850(latest + timedelta(seconds=1)), now=now) == 0.0


@settings(max_examples=300, deadline=None)
@given(st.integers(-(2**31), 2**35).map(lambda seconds: NOON + timedelta(seconds=seconds)), moments)
def test_two_digits_of_a_year_mean_the_latest_that_is_allowed(
    now: datetime, written: datetime
) -> None:
    """Checked against the rule as it is written: all years tried, the latest one taken."""
    candidates = []
    for year in range(written.year % 100, now.year + 151, 100):
        try:
            candidates.append(written.replace(year=year))
        except ValueError:
            continue
    allowed = [moment for moment in candidates if moment <= whole_years_later(now, 50)]
    expected = max((allowed[-1] - now).total_seconds(), 0.0)
    assert after(rfc850(written), now=now) == pytest.approx(expected)


@cases(
    ("value", "now", "expected"),
    [
        ("Saturday, 01-Jan-00 00:00:00 GMT", datetime(1999, 12, 31, 23, 59, tzinfo=UTC), 60.0),
        ("Tuesday, 29-Feb-00 00:00:00 GMT", datetime(2060, 1, 1, tzinfo=UTC), 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NOON, 0.0),
        ("Saturday, 30-Nov-69 12:00:00 GMT", NOON, 1356998400.0),
        ("Friday, 01-Jan-77 00:30:00 +0100", datetime(2026, 12, 31, 23, 45, tzinfo=UTC),
         18263 * 86400 - 900.0),
    ],
)  # fmt: skip
def test_a_century_may_turn_in_between(value: str, now: datetime, expected: float) -> None:
    """The next century counts, one without the day does not, and an offset can move the year."""
    assert after(value, now=now) == expected


def test_the_fifty_years_are_counted_from_the_servers_clock() -> None:
    """The clock that absolute times are compared with is the one for the century, too."""
    headers = {"Date": "Fri, 31 Dec 1999 23:59:00 GMT"}
    assert wait({**headers, "Retry-After": "Saturday, 01-Jan-00 00:00:00 GMT"}) == 60.0


def test_two_digits_that_would_lie_too_far_ahead_are_a_hundred_years_less() -> None:
    """RFC 9110's own example, 1994, as the server's clock: exactly so many years ago."""
    headers = {"Date": "Sunday, 06-Nov-94 08:49:37 GMT"}
    assert wait({**headers, "Retry-After": "Sun, 06 Nov 1994 08:50:07 GMT"}) == 30.0


@cases("now", [-1e308, -1e12, 0.0, 1e12, 1e308])
@cases("value", [rfc850(NOON), imf(NOON), asctime(NOON)])
def test_a_clock_beyond_the_calendar_breaks_nothing(value: str, now: float) -> None:
    """From before year 1 and from after 9999, a wait is still between zero and the ceiling."""
    got = after(value, now=now)
    assert got is not None
    assert 0.0 <= got <= FOREVER


# Clocks


@cases("hours", [-1, 1, -24, 5000])
@cases("form", FORMS)
def test_the_servers_date_corrects_a_skewed_clock(hours: int, form: Any) -> None:
    """xllamacpp#155: server and client may differ, the server's two times do not."""
    served = NOON + timedelta(hours=hours)
    headers = {"Date": form(served), "Retry-After": imf(served + timedelta(seconds=30))}
    assert wait(headers) == 30.0
    assert wait({"Date": form(served), "Retry-After": "30"}) == 30.0


@cases(
    ("age", "expected"),
    [
        ("60", 60.0),
        (" 60 ", 60.0),
        ("0", 120.0),
        ("007", 113.0),
        ("600", 0.0),
        ("9" * 5000, 0.0),
        (60, 60.0),
        (b"60", 60.0),
        ("60, 90", 60.0),
        ("-60", 120.0),
        ("+60", 120.0),
        ("60.5", 120.0),
        ("1e1", 120.0),
        ("old", 120.0),
        ("", 120.0),
        (None, 120.0),
        ("\u0666\u0660", 120.0),
        ("60s", 120.0),
    ],
)
def test_age_moves_the_date_of_a_cached_response(age: Any, expected: float) -> None:
    """RFC 9111 §5.1: whole seconds, of several the first; anything else counts as absent."""
    headers = {"Date": "Mon, 30 Nov 2026 11:58:00 GMT", "Age": age, "Retry-After": imf(NOON)}
    assert wait(headers) == expected


def test_age_without_a_date_says_nothing() -> None:
    """The local clock is already the present."""
    assert wait({"Age": "60", "Retry-After": DATE_AT_60}) == 60.0


@cases(
    "date", ["", "yesterday", None, "1796040000", "2026-11-30T11:00:00Z",
             "Mon, 30 Feb 2026 00:00:00 GMT"]
)  # fmt: skip
def test_an_unusable_date_leaves_the_local_clock(date: Any) -> None:
    """Only an HTTP date tells the server's time."""
    assert wait({"Date": date, "Retry-After": DATE_AT_60}) == 60.0


def test_two_different_dates_leave_the_local_clock() -> None:
    """Joined they are no date; the same one twice is one."""
    other = ("Date", "Mon, 30 Nov 2026 11:00:00 GMT")
    assert wait([other, ("Date", imf(NOON)), ("Retry-After", DATE_AT_60)]) == 60.0
    assert wait([other, other, ("Retry-After", DATE_AT_60)]) == 3660.0


@cases(
    "now",
    [NOW, int(NOW), NOON, NOON.replace(tzinfo=None), NOON.astimezone(timezone(timedelta(hours=-5))),
     NOON.astimezone(timezone(timedelta(hours=14)))],
    ids=str,
)  # fmt: skip
def test_now_is_unix_time_or_a_datetime(now: Any) -> None:
    """An aware one in any zone, a naive one as UTC."""
    assert after(DATE_AT_60, now=now) == 60.0


@cases("now", [None, math.nan, math.inf, True, "2026", 10**400, object()])
def test_without_a_time_the_systems_clock_is_read(
    now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`time.time` is looked up at the call, so that a frozen clock is seen."""
    monkeypatch.setattr(time, "time", lambda: NOW - 40)
    assert after(DATE_AT_60, now=now) == 100.0


# Milliseconds


@cases(
    ("value", "expected"),
    [
        ("1500", 1.5),
        ("0", 0.0),
        ("0.5", 0.0005),
        ("1500.5", 1.5005),
        ("1500, 2500", 2.5),
        ("20000", 20.0),
        (1500, 1.5),
        (b"1500", 1.5),
        ("2147483648000", FOREVER),
        ("2147483648001", FOREVER),
        ("2147483647000", FOREVER - 1),
        ("9" * 5000, FOREVER),
        ("-1", None),
        ("1.5s", None),
        ("1500ms", None),
        ("abc", None),
        ("nan", None),
        (DATE_AT_60, None),
        ("", None),
    ],
)
def test_milliseconds(value: Any, expected: float | None) -> None:
    """These three fields are numbers of milliseconds, whatever the status."""
    for name in ("retry-after-ms", "X-MS-Retry-After-Ms", "x-amz-retry-after"):
        for status in (None, 200, 429, 500):
            assert wait({name: value}, status) == pytest.approx(expected)


# Statuses


RESET_HEADERS: list[dict[str, Any]] = [
    {"RateLimit": '"default";r=0;t=60'},
    {"RateLimit": "limit=100, remaining=0, reset=60"},
    {"RateLimit-Remaining": "0", "RateLimit-Reset": "60"},
    {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "60"},
    {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": EPOCH_AT_60},
    {"x-rate-limit-remaining": "0", "x-rate-limit-reset": EPOCH_AT_60},
    {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s"},
    {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "60"},
    {"anthropic-ratelimit-tokens-remaining": "0",
     "anthropic-ratelimit-tokens-reset": "2026-11-30T12:01:00Z"},
]  # fmt: skip


@cases("headers", RESET_HEADERS, ids=lambda headers: next(reversed(headers)))
@cases("status", [429, 503, 403, http.HTTPStatus.TOO_MANY_REQUESTS])
def test_a_used_up_limit_counts_where_it_can_be_the_cause(
    headers: dict[str, Any], status: int
) -> None:
    """429, 503 and, where zero is said, 403."""
    assert wait(headers, status) == pytest.approx(60.0)


@cases("headers", RESET_HEADERS, ids=lambda headers: next(reversed(headers)))
@cases("status", [None, 200, 202, 204, 301, 304, 400, 404, 408, 413, 500, 502, 504, 529])
def test_a_limit_counts_for_no_other_status(headers: dict[str, Any], status: int | None) -> None:
    """A 500 on the last request of a window is not throttling, and a 200 asks for no retry."""
    assert wait(headers, status) is None


@cases(
    "status", [None, 200, 202, 301, 307, 403, 404, 408, 413, 425, 429, 500, 502, 503, 504, 529, 599]
)
def test_retry_after_counts_for_every_status(status: int | None) -> None:
    """The parser reports it; whether a retry makes sense is the classifier's to say."""
    assert wait({"Retry-After": "30"}, status) == 30.0


def without_remaining(headers: dict[str, Any]) -> dict[str, Any]:
    headers = {name: value for name, value in headers.items() if "remaining" not in name.lower()}
    if headers.get("RateLimit", "").startswith("limit"):
        headers["RateLimit"] = "limit=100, reset=60"
    return headers


NAMED = [headers for headers in RESET_HEADERS if without_remaining(headers) != headers]


@cases("headers", NAMED, ids=lambda headers: next(reversed(headers)))
def test_silence_about_the_remaining_quota(headers: dict[str, Any]) -> None:
    """On 429 and 503 a reset alone is enough; on 403 it is not."""
    silent = without_remaining(headers)
    assert len(silent) == 1
    assert wait(silent, 429) == pytest.approx(60.0)
    assert wait(silent, 503) == pytest.approx(60.0)
    assert wait(silent, 403) is None


def with_remaining(headers: dict[str, Any], remaining: str) -> dict[str, Any]:
    return {
        name: remaining if "remaining" in name.lower() else value for name, value in headers.items()
    }


FIELDS = [headers for headers in RESET_HEADERS if len(headers) == 2]


@cases("headers", FIELDS, ids=lambda headers: next(reversed(headers)))
@cases(
    ("remaining", "used_up"),
    [
        *[(zero, True) for zero in ("0", "00", "0.0", " 0\t", "0;w=21600", "0 ; w=1")],
        *[(zero, True) for zero in ("0, 0", "0;w=1, 0;w=60")],
        *[(left, False) for left in ("1", "59", "4999", "0.5", "-1", "-0", "", "many", "0x0")],
        *[(left, False) for left in ("0 left", "null", "0, 3", "0;w=1, 5;w=60", "0,", "\u0660")],
        *[(left, False) for left in ("9" * 5000, "0:0")],
    ],
)  # fmt: skip
@cases("status", [429, 403])
def test_only_a_used_up_limit_counts(
    headers: dict[str, Any], remaining: str, used_up: bool, status: int
) -> None:
    """Zero is used up, however it is spelt; what cannot be read is not trusted."""
    got = wait(with_remaining(headers, remaining), status)
    assert got == (pytest.approx(60.0) if used_up else None)


def test_a_counter_that_is_none_is_absent() -> None:
    """`None` stands for no header here as everywhere."""
    assert wait({"X-RateLimit-Remaining": None, "X-RateLimit-Reset": "60"}, 429) == 60.0
    assert wait({"X-RateLimit-Remaining": None, "X-RateLimit-Reset": "60"}, 403) is None


# Resets


@cases(
    ("value", "expected"),
    [
        ("0", 0.0),
        ("237", 237.0),
        ("0.5", 0.5),
        ("000000000000060", 60.0),
        ("999999999", 999999999.0),
        ("999999999.9", 999999999.9),
        ("1000000000", 0.0),
        (EPOCH_AT_60, 60.0),
        ("1796040060.5", 60.5),
        ("1796039995", 0.0),
        (1796040060, 60.0),
        ("99999999999", FOREVER),
        ("100000000000", 0.0),
        ("1796040060000", 60.0),
        ("1796040060500", 60.5),
        ("1796040060000.75", 60.00075),
        ("99999999999999", FOREVER),
        ("100000000000000", None),
        ("1796040060000000", None),
        ("1796040060000000000", None),
        ("9" * 5000, None),
        ("-60", None),
        ("+60", None),
        ("6e1", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (DATE_AT_60, 60.0),
        (DATE_AT_60.lower(), 60.0),
        ("Monday, 30-Nov-26 12:01:00 GMT", 60.0),
        ("Mon Nov 30 12:01:00 2026", 60.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("2026-11-30T12:01:00Z", 60.0),
        ("2026-11-30t12:01:00z", 60.0),
        ("2026-11-30 12:01:00Z", 60.0),
        ("2026-11-30T12:01Z", 60.0),
        ("2026-11-30T12:01:00.25Z", 60.25),
        ("2026-11-30T12:01:00.123456789Z", 60.123456789),
        ("2026-11-30T12:01:00." + "1" * 5000 + "Z", 60.0 + 1 / 9),
        ("2026-11-30T14:01:00+02:00", 60.0),
        ("2026-11-30T14:01+0200", 60.0),
        ("2026-11-30T06:31:00-05:30", 60.0),
        ("2026-11-30T12:01:00-00:00", 60.0),
        ("2026-11-30T11:00:00Z", 0.0),
        ("2026-11-30T23:59:60Z", 43200.0),
        ("2026-11-30T15:59:60-08:00", 43200.0),
        ("2028-02-29T12:00:00Z", 39398400.0),
        ("9999-12-31T23:59:60Z", FOREVER),
        ("2026-11-30T12:01:00", None),
        ("2026-11-30", None),
        ("2026-11-30T12Z", None),
        ("2026-11-30T12:01:60Z", None),
        ("2026-11-30T24:00:00Z", None),
        ("2026-11-30T12:60:00Z", None),
        ("2026-11-31T12:01:00Z", None),
        ("2026-02-29T12:01:00Z", None),
        ("2026-13-01T12:01:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-11-30T12:01:00.Z", None),
        ("2026-11-30T12:01.5Z", None),
        ("2026-11-30T12:01:00+24:00", None),
        ("2026-11-30T12:01:00+02", None),
        ("2026-11-30T12:01:00 Z", None),
        ("20261130T120100Z", None),
        ("2026-334T12:01:00Z", None),
        ("10000-01-01T00:00:00Z", None),
        ("2026-11-30T12:01:00Z[UTC]", None),
        ("2026-11-3\u0660T12:01:00Z", None),
        ("Mon Nov 30 2026 13:01:00 GMT+0100 (Central European Standard Time)", None),
    ],
)  # fmt: skip
def test_resets(value: Any, expected: float | None) -> None:
    """Seconds, epoch, milliseconds or a time, told apart by size and form."""
    for name in ("RateLimit-Reset", "X-RateLimit-Reset", "x-rate-limit-reset",
                 "x-ratelimit-reset-requests", "anthropic-ratelimit-x-reset"):  # fmt: skip
        assert wait({name: value}) == pytest.approx(expected, abs=1e-6)


@cases(
    ("value", "expected"),
    [("1", 1.0), ("64.57", 64.57), ("0", 0.0), (EPOCH_AT_60, 1796040060.0), ("9" * 99, FOREVER),
     ("-1", None), (DATE_AT_60, None), ("2026-11-30T12:01:00Z", None), ("1s", None), ("5, 7", 7.0)],
)  # fmt: skip
def test_reset_after_is_seconds(value: str, expected: float | None) -> None:
    """The name says from when, so its size decides nothing."""
    assert wait({"X-RateLimit-Reset-After": value}) == expected


@cases("reset", [EPOCH_AT_60, "1796040060000", DATE_AT_60, "2026-11-30T12:01:00Z"])
def test_the_servers_date_corrects_absolute_resets(reset: str) -> None:
    """An instant needs the server's clock, a number of seconds does not."""
    headers = {"Date": "Mon, 30 Nov 2026 11:00:00 GMT", "X-RateLimit-Reset": reset}
    assert wait(headers) == 3660.0
    assert wait({**headers, "Age": "3600"}) == 60.0
    assert wait({**headers, "X-RateLimit-Reset": "60"}) == 60.0


# RateLimit


@cases(
    ("value", "expected"),
    [
        ('"default";r=0;t=30', 30.0),
        ('"default";t=30;r=0', 30.0),
        ('"default";r=0;t=0', 0.0),
        ('"default";r=-0;t=30', 30.0),
        ('"default";r=0;t=999999999999999', FOREVER),
        ('"default";r=0;t=5;t=30', 30.0),
        ('"default";r=5;r=0;t=30', 30.0),
        ('"default"; r=0;  t=30', 30.0),
        ('"default";r=0;t=30;pk=:cHsdsRa894==:', 30.0),
        ('"default";r=0;t=30;acme-x="a,b";acme-y=1.5;acme-z', 30.0),
        ('  "default";r=0;t=30\t', 30.0),
        ('"";r=0;t=30', 30.0),
        ("default;r=0;t=30", 30.0),
        ('"a";r=0;t=5,"b";r=0;t=30', 30.0),
        ('"a";r=0;t=30 , "b";r=0', 30.0),
        ('"a";r=0;t=5, "b";r=12;t=3600', 5.0),
        ('"a,b;r=9";r=0;t=7', 7.0),
        (r'"a\"b\\";r=0;t=7', 7.0),
        ("", None),
        ('"default";r=50;t=30', None),
        ('"default";r=0', None),
        ('"default";t=30', None),
        ('"default"', None),
        ('"a";r=0;t=30, "b"', None),
        ('"a";r=0;t=30, "b";t=5', None),
        ('"a";r=0;t=30, "b";r=5;t=-1', None),
        ('"a";r=0;t=30, "b";r=5;t=1.5', None),
        ('"a";r=0;t=30, (1 2)', None),
        ('"a";r=0;t=30, 5;r=0;t=7', None),
        ('"a";r=0;t=30, ?1;r=0;t=7', None),
        ('"a";r=0;t=30, %"a";r=0;t=7', None),
        ('"a";r=0;t=30,', None),
        ('"a";r=0;t=30,,"b";r=0;t=5', None),
        ('"a";r=0;t=30 "b";r=0;t=5', None),
        ('("a";r=0;t=30)', None),
        ('("a");r=0;t=30', None),
        ('"default";r;t=30', None),
        ('"default";r=?0;t=30', None),
        ('"default";r=0.0;t=30', None),
        ('"default";r="0";t=30', None),
        ('"default";r=-1;t=30', None),
        ('"default";r=0;t', None),
        ('"default";r=0;t=-1', None),
        ('"default";r=0;t=1.5', None),
        ('"default";r=0;t="30"', None),
        ('"default";r=0;t=@30', None),
        ('"default";r=0;t=30s', None),
        ('"default";r=0;t=1000000000000000', None),
        ('"default";R=0;T=30', None),
        ('"default";r=0,t=30', None),
        ('"default" ;r=0;t=30', None),
        ('"default";r =0;t=30', None),
        ('"default";r= 0;t=30', None),
        ('"default;r=0;t=30', None),
        ("'default';r=0;t=30", None),
        ('"d\u00e9faut";r=0;t=30', None),
        ('"default";r=\u0660;t=30', None),
        ("!!", None),
        ("0", None),
        ("30", None),
        ("limit=100, remaining=0, reset=50", 50.0),
        ("limit=100,remaining=0,reset=50", 50.0),
        ("reset=50, remaining=0, limit=100;w=60", 50.0),
        ("limit=100, remaining=0, reset=0", 0.0),
        ("limit=100, reset=50", 50.0),
        ("remaining=5, remaining=0, reset=50", 50.0),
        ("limit=100, remaining=3, reset=50", None),
        ("limit=100, remaining=0", None),
        ("limit=100, remaining=0, reset=-1", None),
        ("limit=100, remaining=0, reset=1.5", None),
        ('limit=100, remaining=0, reset="50"', None),
        ("limit=100, remaining=-1, reset=50", None),
        ("limit=100, remaining, reset=50", None),
        ("limit=100, remaining=0, reset", None),
        ("limit=100, remaining=0, reset=(50)", None),
        ("limit=100; remaining=0; reset=50", None),
        ("limit=100 remaining=0 reset=50", None),
        ("Limit=100, Remaining=0, Reset=50", None),
        ("limit=100, remaining=0, reset=50,", None),
        ("limit: 100, remaining: 0, reset: 50", None),
    ],
)
def test_the_ratelimit_field(value: str, expected: float | None) -> None:
    """A list of limits by RFC 9651, or draft -07's dictionary; anything malformed voids it."""
    assert wait({"RateLimit": value}) == expected


def test_ratelimit_lines_are_one_list() -> None:
    """Its lines belong together: a bad one voids them all, and bytes are as good as text."""
    good = ("RateLimit", '"a";r=0;t=5')
    assert wait([good, ("ratelimit", b'"b";r=0;t=60')]) == 60.0
    assert wait([good, good]) == 5.0
    assert wait([good, ("RateLimit", '"b";r=0;t=x y')]) is None
    assert wait([("RateLimit", "limit=9, remaining=0"), ("RateLimit", "reset=50")]) == 50.0


def test_a_policy_is_no_reset() -> None:
    """RateLimit-Policy tells the window, not the wait."""
    assert wait({"RateLimit-Policy": '"default";q=100;w=60', "RateLimit-Limit": "100;w=60"}) is None


# Vendors' dimensions


@cases(
    ("value", "expected"),
    [
        ("1s", 1.0),
        ("0s", 0.0),
        ("6ms", 0.006),
        ("120ms", 0.12),
        ("6m0s", 360.0),
        ("1m30.5s", 90.5),
        ("2m59.56s", 179.56),
        ("8.64s", 8.64),
        ("1h0m0s", 3600.0),
        ("1h", 3600.0),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("23h59m59.999s", 86399.999),
        ("72h3m0.5s", 259380.5),
        ("1m1ms", 60.001),
        ("1ms1m", 60.001),
        ("500us", 0.0005),
        ("500\u00b5s", 0.0005),
        ("500\u03bcs", 0.0005),
        ("250ns", 2.5e-7),
        (b"500\xb5s", 0.0005),
        ("500\u00b5s".encode(), 0.0005),
        ("500\u03bcs".encode(), 0.0005),
        ("0" * 5000 + "1s", 1.0),
        ("9" * 5000 + "s", FOREVER),
        ("9" * 5000 + "ns", FOREVER - FOREVER + 1e9),
        ("99999999h", FOREVER),
        (" 1s\t", 1.0),
        ("59", 59.0),
        ("59.5", 59.5),
        (EPOCH_AT_60, 60.0),
        ("2026-11-30T12:01:00Z", 60.0),
        ("s", None),
        ("ms", None),
        ("-1s", None),
        ("+1s", None),
        (".5s", None),
        ("5.s", None),
        ("1S", None),
        ("1M", None),
        ("1m 30s", None),
        ("1m30", None),
        ("30 s", None),
        ("1m,30s", None),
        ("1s, 2s", None),
        ("5 parsecs", None),
        ("1d", None),
        ("1w", None),
        ("1min", None),
        ("1sec", None),
        ("1e3s", None),
        ("1_0s", None),
        ("infs", None),
        ("\u0661s", None),
        ("1s\n", None),
        ("PT1M", None),
        ("", None),
    ],
)
@cases("dimension", ["requests", "tokens"])
def test_durations(dimension: str, value: Any, expected: float | None) -> None:
    """What Go prints, a number or a time."""
    headers = {
        f"x-ratelimit-remaining-{dimension}": "0",
        f"x-ratelimit-reset-{dimension}": value,
    }
    assert wait(headers) == (None if expected is None else pytest.approx(expected, rel=1e-6))


def printed(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{seconds // 3600}h{seconds // 60 % 60}m{seconds % 60}.{rest:09d}s"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**15))
def test_durations_add_up(nanoseconds: int) -> None:
    """From hours to nanoseconds."""
    for text in (printed(nanoseconds), f"{nanoseconds}ns"):
        got = wait({"x-ratelimit-reset-tokens": text})
        assert got == pytest.approx(nanoseconds / 1e9, abs=1e-9)


@cases(
    ("headers", "expected"),
    [
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "2s"}, 2.0),
        ({"x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "soon"}, 2.0),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s",
             "x-ratelimit-reset-tokens": "9s"},
            1.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "9s"}, None),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"},
            2.0,
        ),
        (
            {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "0",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"},
            2.0,
        ),
        (
            {"anthropic-ratelimit-requests-remaining": "0",
             "anthropic-ratelimit-requests-reset": "2026-11-30T12:01:00Z",
             "anthropic-ratelimit-input-tokens-remaining": "0",
             "anthropic-ratelimit-input-tokens-reset": "2026-11-30T12:02:00.5Z",
             "anthropic-ratelimit-output-tokens-remaining": "8000",
             "anthropic-ratelimit-output-tokens-reset": "2026-11-30T12:09:00Z"},
            120.5,
        ),
        (
            {"anthropic-ratelimit-requests-reset": "2026-11-30T12:01:00Z",
             "x-ratelimit-reset-requests": "90s"},
            90.0,
        ),
        (
            {"anthropic-ratelimit-requests-remaining": "0",
             "anthropic-ratelimit-requests-reset": "2026-11-30T12:01:00Z",
             "x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "90s"},
            60.0,
        ),
        ({"anthropic-ratelimit-unified-reset": EPOCH_AT_60}, 60.0),
        ({"x-ratelimit-reset-tokens-minute": "33.4", "x-ratelimit-reset-requests-day": "9"}, 33.4),
        ({"x-ratelimit-reset-project-tokens": "1s"}, 1.0),
        ({"x-ratelimit-reset-seconds": "60"}, None),
        ({"x-ratelimit-reset-requests-ms": "60"}, None),
        ({"anthropic-ratelimit-reset": "60"}, None),
    ],
    ids=lambda value: None if isinstance(value, dict) else repr(value),
)  # fmt: skip
def test_the_longest_wait_of_the_used_up_dimensions(
    headers: dict[str, str], expected: float | None
) -> None:
    """Only limits at zero count, or all of them where no remaining quota is told."""
    assert wait(headers) == (None if expected is None else pytest.approx(expected))


# Precedence

SOURCES: list[tuple[dict[str, str], float]] = [
    ({"retry-after-ms": "1000"}, 1.0),
    ({"x-ms-retry-after-ms": "2000"}, 2.0),
    ({"Retry-After": "3"}, 3.0),
    ({"x-amz-retry-after": "4000"}, 4.0),
    ({"RateLimit": '"d";r=0;t=5'}, 5.0),
    ({"RateLimit-Remaining": "0", "RateLimit-Reset": "6"}, 6.0),
    ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "7"}, 7.0),
    ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796040008"}, 8.0),
    ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "1796040009"}, 9.0),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "10s"}, 10.0),
]
DECISIVE = [next(reversed(headers)) for headers, _ in SOURCES]


def every_source(names: set[str], spoilt: str | None = None) -> list[tuple[str, str]]:
    """All of the sources whose deciding header is in `names`, those of the others left out."""
    lines = {name: value for headers, _ in SOURCES for name, value in headers.items()}
    return [
        (name, value if spoilt is None or name in names or name not in DECISIVE else spoilt)
        for name, value in reversed(lines.items())
        if spoilt is not None or name in names or name not in DECISIVE
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.sampled_from(DECISIVE)),
    st.none() | st.sampled_from(["soon", "", "-1", "1e3", "9\n", "nan", "5, soon", ","]),
    st.randoms(),
)
def test_the_first_source_that_can_be_read_decides(
    names: set[str], spoilt: str | None, random: Any
) -> None:
    """Whatever else is there, absent or malformed, and in whatever order."""
    lines = every_source(names, spoilt)
    random.shuffle(lines)
    expected = next(
        (seconds for name, (_, seconds) in zip(DECISIVE, SOURCES, strict=True) if name in names),
        None,
    )
    assert wait(lines) == expected  # fmt: skip


def test_zero_is_an_answer_and_hides_the_rest() -> None:
    """urllib3 and the OpenAI SDK take a zero for no header."""
    assert wait({"retry-after-ms": "0", "Retry-After": "30"}) == 0.0
    assert wait({"Retry-After": "0", "RateLimit": '"d";r=0;t=30'}) == 0.0
    assert wait({"RateLimit": '"d";r=0;t=0', "X-RateLimit-Reset": "30"}) == 0.0
    assert wait({"Retry-After": imf(NOON - timedelta(1)), "X-RateLimit-Reset": "30"}) == 0.0


def test_a_source_with_quota_left_does_not_hide_the_next() -> None:
    """A limit that is not at zero has nothing to say."""
    assert wait({"RateLimit": '"d";r=5;t=30', "X-RateLimit-Reset": "7"}) == 7.0
    assert wait({"X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "7",
                 "x-ratelimit-reset-requests": "9s"}) == 9.0  # fmt: skip


# Anything at all

GOOD = ["0", "5", "1.5", "120, 7", EPOCH_AT_60, "1796040060000", DATE_AT_60, "1m30.5s",
        '"a";r=0;t=30', "limit=1, remaining=0, reset=9", "Monday, 30-Nov-76 12:00:00 GMT",
        "Mon Nov 30 12:01:00 2026", "2026-11-30T12:01:00.5+02:00",
        "Sat, 31 Dec 9999 23:59:60 -2359", "9" * 5000]  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        new = draw(st.text('0159.,:;-+= \t"\\()TZeGMTs\u0660\u00b2\u00a0\n\x00\u00b5', max_size=2))
        text = text[:at] + new + text[at + draw(st.integers(0, 2)) :]
    return text


values = st.one_of(
    spoilt(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.none(),
    st.integers(),
    st.floats(),
    st.lists(spoilt(), max_size=2),
)
clocks = st.one_of(
    st.floats(), st.integers(), st.none(), st.datetimes(timezones=st.none() | st.timezones())
)
statuses = st.sampled_from([429, 429, 403, 503, None, 200])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=6), statuses, clocks)
def test_anything_gives_a_finite_wait_or_none(
    lines: list[tuple[str, Any]], status: int | None, now: Any
) -> None:
    """Never an error, never NaN, infinite or negative; the parser proper raises nothing to hide."""
    fields = retry_after._fields(lines)
    got = retry_after._wait(fields, retry_after._unix_seconds(now), status)
    assert got is None or (type(got) is float and 0.0 <= got <= FOREVER)


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
              st.sampled_from(NAMES), st.builds(Broken), st.builds(Untouchable), st.builds(Odd)),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text() | st.binary() | st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(anything, anything, anything)
def test_no_argument_makes_it_raise(headers: Any, status: Any, now: Any) -> None:
    """Whatever stands for the headers, the status and the time."""
    got = parse_retry_after(headers, status=status, now=now)
    assert got is None or (type(got) is float and 0.0 <= got <= FOREVER)


def test_what_email_formats_is_read() -> None:
    """The dates that Python's own servers send."""
    for usegmt in (True, False):
        assert after(email.utils.formatdate(NOW + 60, usegmt=usegmt)) == 60.0
        assert (
            after(email.utils.format_datetime(NOON + timedelta(seconds=60), usegmt=usegmt)) == 60.0
        )
    zoned = (NOON + timedelta(seconds=60)).astimezone(timezone(timedelta(hours=-3, minutes=-30)))
    assert after(email.utils.format_datetime(zoned)) == 60.0
