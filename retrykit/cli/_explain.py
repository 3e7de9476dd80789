"""What retrykit would decide on a response, and by which row of its tables.

Pure: the words of the command go in, the answer and its reasons come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from retrykit.backoff import ByReason
from retrykit.cli._chance import Highest
from retrykit.cli._errors import BadInput
from retrykit.decision import DoNotRetry, RetryAfter, StopReason
from retrykit.facts.http import verdict
from retrykit.facts.methods import (
    IDEMPOTENCY_KEY,
    RetryableMethod,
    classify_method,
    is_token,
    method_row,
)
from retrykit.facts.retry_after import LONGEST, _http_date, parse_retry_after
from retrykit.facts.statuses import deciding_row, server_verdict
from retrykit.http import http_policy
from retrykit.server_delay import ServerDelay

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from retrykit.decision import RetryDecision, RetryReason
    from retrykit.facts.methods import MethodRow
    from retrykit.facts.statuses import StatusRow
    from retrykit.jitter import Bounds

Pairs = list[tuple[str, str]]

_OWS: Final = " \t"
_ASKING: Final = ("retry-after", "reset")
"""What is in the name of every header that may ask for a wait, but for `RateLimit`."""


class Waits(NamedTuple):
    """The least and the greatest wait before the next attempt, in seconds."""

    least: float
    greatest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision, and what it follows from."""

    status: int
    method: str
    decision: RetryDecision
    """What the tables say, the wait that is asked for included."""
    waits: Waits | None
    """What the default HTTP policy makes of it before the first retry; `None`: no retry."""
    too_long: bool
    """The tables say retry, and the wait that is asked for is past the limit."""
    row: StatusRow
    method_row: MethodRow | None
    safety: RetryableMethod
    key_names: tuple[str, ...]
    key: str | None
    """The name of the header that carries an idempotency key, as it was given."""
    key_counts: bool
    a_key_would_do: bool
    """Only an idempotency key is missing."""
    asked: float | None
    asked_by: str | None
    """The header that asks for the wait."""
    server_said: bool | None
    """The server's own word in a header made for it."""

    @property
    def retries(self) -> bool:
        """Whether there is another attempt."""
        return isinstance(self.decision, RetryAfter) and not self.too_long

    @property
    def reason(self) -> RetryReason | StopReason:
        """Why, or why not."""
        return StopReason.SERVER_DELAY_TOO_LONG if self.too_long else self.decision.reason


def explain(
    status: int,
    method: str,
    headers: Sequence[str] = (),
    *,
    key_names: Collection[str] = IDEMPOTENCY_KEY,
    known: Collection[str] = (),
    now: float | None = None,
) -> Explanation:
    """Explain the decision on a response with this status to a request with this method.

    `headers` are lines, `Name: value`: the response's, and the request's idempotency key. Raises
    `BadInput`.

    >>> explained = explain(503, "GET", ["Retry-After: 7"])
    >>> explained.decision, explained.waits, explained.asked_by
    (RetryAfter(delay=7.0, reason=RetryReason.THROTTLED), Waits(least=7.0, greatest=8.0),
     'Retry-After')
    >>> explain(503, "POST").a_key_would_do
    True
    """
    if not is_token(method):
        raise BadInput(f"METHOD must be an HTTP method, got {method!r}")
    pairs = [_pair(line) for line in headers]
    safety = classify_method(method, pairs, key_names=key_names)
    decision = verdict(status, safety, pairs, known=known, now=now)
    waits = _waits(decision) if isinstance(decision, RetryAfter) else None
    asked = parse_retry_after(pairs, status=status, now=now)
    wanted = {name.lower() for name in key_names}
    key = next((name for name, _ in pairs if name.lower() in wanted), None)
    with_key = verdict(status, RetryableMethod.IDEMPOTENT_WITH_TOKEN, pairs, known=known, now=now)
    return Explanation(
        status=status,
        method=method,
        decision=decision,
        waits=waits,
        too_long=isinstance(decision, RetryAfter) and waits is None,
        row=deciding_row(status, safety, pairs, known=known, now=now),
        method_row=method_row(method),
        safety=safety,
        key_names=tuple(key_names),
        key=key,
        key_counts=_counts(pairs, key_names),
        a_key_would_do=isinstance(decision, DoNotRetry) and isinstance(with_key, RetryAfter),
        asked=asked,
        asked_by=None if asked is None else _asking(pairs, status, now, asked),
        server_said=server_verdict(pairs),
    )


def _pair(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not is_token(name):
        raise BadInput(f"HEADER must be written as 'Name: value', got {line!r}")
    return name, value.strip(_OWS)


def _counts(pairs: Pairs, key_names: Collection[str]) -> bool:
    """Whether the key among the headers is one that can be sent."""
    safety = classify_method("POST", pairs, key_names=key_names)
    return safety is RetryableMethod.IDEMPOTENT_WITH_TOKEN


def _asking(pairs: Pairs, status: int, now: float | None, asked: float) -> str | None:
    """The header without which the wait would be another, else the first that may ask for one."""
    asking = {
        name.lower(): name
        for name, _ in pairs
        if name.lower() == "ratelimit" or any(each in name.lower() for each in _ASKING)
    }
    for name, given in asking.items():
        others = [pair for pair in pairs if pair[0].lower() != name]
        if parse_retry_after(others, status=status, now=now) != asked:
            return given
    return next(iter(asking.values()), None)


def _waits(decision: RetryAfter) -> Waits | None:
    """The waits of the default HTTP policy before the first retry; `None`: it ends the call."""
    policy = http_policy()
    low, high = _first_bounds(decision.reason)
    heeds = policy.server_delay
    assert isinstance(heeds, ServerDelay)  # it is the default
    least = heeds.least(decision.delay, low, low)
    greatest = heeds(decision.delay, high, high, Highest())
    return None if least is None or greatest is None else Waits(least, greatest)


def _first_bounds(reason: RetryReason) -> Bounds:
    backoff = http_policy().backoff
    if isinstance(backoff, ByReason):
        backoff = backoff.branch(reason)
    return next(iter(backoff.bounds()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A Retry-After's value, and what it is taken for."""

    value: str
    seconds: float | None
    """What it asks for; `None`: nothing, as it is malformed."""
    form: str
    """`"delay-seconds"`, `"http-date"` or `"malformed"`."""
    rule: str
    """Which rule, and where it is from."""
    limit: float
    """The longest wait that the default policy accepts."""
    waits: Waits | None
    """What the policy then waits for before a retry; `None`: the call ends, or the backoff alone
    decides."""

    @property
    def decision(self) -> str:
        """`"wait"`, `"backoff"` (it asks for nothing) or `"stop"` (for too long)."""
        if not self.seconds:
            return "backoff"
        return "stop" if self.waits is None else "wait"


def read_retry_after(value: str, *, date: str | None = None, now: float | None = None) -> Reading:
    """Explain a Retry-After's value, as a response has it; `date` is the response's own `Date`.

    >>> read_retry_after("120").decision, read_retry_after("soon").decision
    ('stop', 'backoff')
    >>> read_retry_after("30").waits
    Waits(least=30.0, greatest=33.0)
    """
    pairs: Pairs = [("Retry-After", value)]
    if date is not None:
        pairs.append(("Date", date))
    asked = parse_retry_after(pairs, now=now)
    form, rule = _form(value.strip(_OWS), asked, date is not None)
    heeds = ServerDelay()
    waits = None
    if asked:
        least = heeds.least(asked, 0.0, 0.0)
        greatest = heeds(asked, 0.0, 0.0, Highest())
        waits = None if least is None or greatest is None else Waits(least, greatest)
    return Reading(value=value, seconds=asked, form=form, rule=rule, limit=heeds.limit, waits=waits)


def _form(text: str, asked: float | None, has_date: bool) -> tuple[str, str]:
    if asked is None:
        return "malformed", (
            "neither whole or decimal seconds nor an HTTP date (RFC 9110 §10.2.3), so it counts as"
            " absent"
        )
    longest = "; what is longer than 2**31 s is taken as that (RFC 9111 §1.2.2)"
    suffix = longest if asked >= LONGEST else ""
    if _http_date(text, 0.0) is not None:
        since = "the response's own Date" if has_date else "now, as the response has no Date"
        past = "; a time that has passed asks for nothing" if asked == 0 else suffix
        return "http-date", f"an HTTP date (RFC 9110 §5.6.7), counted from {since}{past}"
    if "," in text:
        suffix = f"; of several numbers the largest counts{suffix}"
    elif "." in text:
        suffix = f"; decimals are not standard, but sent{suffix}"
    return "delay-seconds", f"delay-seconds (RFC 9110 §10.2.3){suffix}"
