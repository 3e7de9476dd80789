"""HTTP statuses: whether a request may be repeated, by status, method and what the headers say."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, StopReason
from retrykit.facts._data import load
from retrykit.facts._headers import Headers
from retrykit.facts.kinds import Repeat, decide, reason_of
from retrykit.facts.methods import RetryableMethod
from retrykit.facts.retry_after import parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

_SUCCESSES: Final = frozenset({"not_an_error", "poll", "redirect"})
_REMAINING: Final = ("x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining")
_AWS: Final = ("x-amzn-requestid", "x-amz-request-id", "x-amz-id-2")

FROM_THE_BODY: Final = frozenset(
    {"throttling_code", "request_timeout_code", "secondary_limit", "opted_in"}
)
"""What only the caller can know: see `known` of `decide_status`."""


class StatusRow(NamedTuple):
    """What is known about a status, or about a status under a condition."""

    status: str
    """The status, its class (`"5xx"`) or `"invalid"`."""
    name: str
    kind: str
    repeat: Repeat
    reason: str
    source: str
    when: tuple[tuple[str, ...], ...] = ()
    """The conditions under which the row counts: all of one of these groups. Empty: always."""
    wait: float = 0.0
    """The least wait in seconds, where no header names one."""


def status_row(status: int, conditions: Collection[str] = ()) -> StatusRow:
    """The row for a status under these conditions: the first that they satisfy, else the plain one.

    A status that has no row of its own has its class's.

    >>> status_row(529).name
    'Overloaded (Anthropic; Qualys, Bedrock)'
    >>> status_row(413).repeat, status_row(413, {"retry_after"}).repeat
    ('never', 'any')
    """
    by_status = _rows()
    of_class = f"{status // 100}xx" if 100 <= status <= 599 else "invalid"
    held = set(conditions)
    plain: StatusRow | None = None
    for row in (*by_status.get(str(status), ()), *by_status[of_class]):
        # A status's own plain row ends the search: its class's rows are for the others.
        if not row.when:
            plain = plain or row
        elif any(held.issuperset(group) for group in row.when) and (
            plain is None or plain.status == row.status
        ):
            return row
    assert plain is not None  # every class has a plain row: tested
    return plain


def decide_status(
    status: int,
    method: RetryableMethod,
    headers: object = (),
    *,
    known: Collection[str] = (),
    now: float | datetime | None = None,
) -> RetryDecision:
    """The decision for a response with this status and these headers.

    What is no failure (1xx, 2xx, 3xx) is `DoNotRetry(SUCCEEDED)`. The server's own verdict
    (`x-should-retry`, `stripe-should-retry`: exactly `true` or `false`) outranks the table, the
    idempotency rule included. The delay is what the headers ask for (`parse_retry_after`).

    `known` tells what neither status nor headers do: `"throttling_code"` (the body has a code of
    AWS's for throttling), `"request_timeout_code"` (S3's), `"secondary_limit"` (GitHub's text),
    `"opted_in"` (a 507 may be repeated once the server names a time).

    >>> decide_status(503, RetryableMethod.IDEMPOTENT, {"Retry-After": "7"})
    RetryAfter(delay=7.0, reason=RetryReason.THROTTLED)
    >>> decide_status(503, RetryableMethod.NON_IDEMPOTENT)
    DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
    """
    fields = headers if isinstance(headers, Headers) else Headers(headers)
    hint = parse_retry_after(fields, status=status, now=now)
    row = status_row(status, _conditions(fields, hint, method, known))
    if row.kind in _SUCCESSES:
        return DoNotRetry(StopReason.SUCCEEDED)
    delay = row.wait if hint is None else hint
    said = server_verdict(fields)
    if said is None:
        return decide(row.repeat, row.kind, method, delay)
    return RetryAfter(delay, reason_of(row.kind)) if said else DoNotRetry(StopReason.FORBIDDEN)


def deciding_row(
    status: int,
    method: RetryableMethod,
    headers: object = (),
    *,
    known: Collection[str] = (),
    now: float | datetime | None = None,
) -> StatusRow:
    """The row by which `decide_status` decides, for whoever explains a decision.

    >>> deciding_row(403, RetryableMethod.IDEMPOTENT, {"Retry-After": "7"}).reason
    'GitHub secondary limit with retry-after.'
    """
    fields = headers if isinstance(headers, Headers) else Headers(headers)
    hint = parse_retry_after(fields, status=status, now=now)
    return status_row(status, _conditions(fields, hint, method, known))


def server_verdict(headers: object) -> bool | None:
    """What the server itself says about a retry, in a header made for it; `None`: nothing.

    Where two such headers disagree, the "no" counts.

    >>> server_verdict({"X-Should-Retry": "false"})
    False
    >>> server_verdict({"X-Should-Retry": "no"}) is None
    True
    """
    fields = headers if isinstance(headers, Headers) else Headers(headers)
    said = {fields.get("x-should-retry"), fields.get("stripe-should-retry")}
    if "false" in said:
        return False
    return True if "true" in said else None


def _conditions(
    fields: Headers, hint: float | None, method: RetryableMethod, known: Collection[str]
) -> set[str]:
    held = set(known)
    if hint is not None:
        held.add("retry_after")
    if method is RetryableMethod.IDEMPOTENT_WITH_TOKEN:
        held.add("idempotency_key")
    if any(fields.get(name) == "0" for name in _REMAINING):
        held.add("nothing_remaining")
    if any(name in fields for name in _AWS):
        held.add("aws")
    # AWS's JSON protocols name the code in a header: "ThrottlingException:http://..." and
    # "aws.protocol#ThrottlingException" among others.
    named = (fields.get("x-amzn-errortype") or "").partition(":")[0].rpartition("#")[2]
    held.update(condition for condition, codes in _codes().items() if named in codes)
    return held


def _codes() -> dict[str, list[str]]:
    return cast("dict[str, list[str]]", _file()["codes"])  # the file is ours, and tested


@cache
def _file() -> Any:
    return load("statuses.json")


@cache
def _rows() -> dict[str, tuple[StatusRow, ...]]:
    rows: dict[str, list[StatusRow]] = {}
    for each in _file()["rows"]:
        when = tuple(tuple(group) for group in each.get("when", ()))
        row = StatusRow(**each)._replace(when=when)
        rows.setdefault(row.status, []).append(row)
    return {status: tuple(group) for status, group in rows.items()}
