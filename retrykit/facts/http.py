"""What is known about an HTTP request and its outcome, and what follows from it.

>>> verdict(503, "GET", {"Retry-After": "7"})
RetryAfter(delay=7.0, reason=RetryReason.THROTTLED)
>>> verdict(503, "POST")
DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
>>> verdict(method="POST", error=ConnectionRefusedError())
RetryAfter(delay=0.0, reason=RetryReason.CONNECTION_FAILED)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from retrykit._validate import whole
from retrykit.decision import DoNotRetry, RetryDecision, StopReason
from retrykit.facts._headers import Headers
from retrykit.facts._rows import CPYTHON, Row, links
from retrykit.facts._shapes import NOTHING, Seen, request_of, response_in, shown_by
from retrykit.facts.exceptions import HTTP_CLIENTS, asked_delay, decide_error, find
from retrykit.facts.methods import IDEMPOTENCY_KEY, RetryableMethod, classify_method
from retrykit.facts.statuses import FROM_THE_BODY, decide_status

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from retrykit.facts.kinds import RequestState
    from retrykit.outcome import Attempt

__all__ = ["Headers", "HttpFacts", "facts", "verdict"]

_OF_THE_NETWORK: Final = frozenset({"connection_failed", "timed_out"})


@dataclass(frozen=True, slots=True)
class HttpFacts:
    """What an attempt showed of an HTTP request; `None` for what it did not.

    `headers` are the response's. `url_without_query` has no user information either.
    `request_state` is `"answered"` where there is a response, else what is known of the failure:
    `"unsent"`, `"rejected"` or `"ambiguous"`. `safety` is the method's, an Idempotency-Key among
    the request's headers included. The `repr` shows no header's value.

    >>> HttpFacts(503, Headers({"Set-Cookie": "secret"}), "GET", "/path", "answered")
    HttpFacts(status=503, method='GET', url_without_query='/path', request_state='answered')
    """

    status: int | None = None
    headers: Headers = field(default=Headers(), repr=False)
    method: str | None = None
    url_without_query: str | None = None
    request_state: RequestState | None = None
    safety: RetryableMethod | None = field(default=None, repr=False)


def facts(attempt: Attempt, *, key_names: Collection[str] = IDEMPOTENCY_KEY) -> HttpFacts | None:
    """What the attempt shows of an HTTP request, or `None` where it was about none.

    Reads by shape and imports no client: the responses of requests, httpx, aiohttp, urllib3,
    http.client, urllib and botocore; errors that carry one (requests' and urllib's `HTTPError`,
    httpx's `HTTPStatusError`, aiohttp's `ClientResponseError`, the `APIStatusError` of openai and
    anthropic, botocore's `ClientError`, googleapiclient's `HttpError`, stripe's), also along the
    cause chain; errors that show their request only; requests among the call's arguments. No body
    is read. `key_names` are the request headers that count as an idempotency key (see
    `classify_method`). Never raises.

    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> facts(Attempt(Call(print), 1, Raised(ConnectionResetError()), 0.1)).request_state
    'ambiguous'
    >>> facts(Attempt(Call(print), 1, Raised(KeyError()), 0.1)) is None
    True
    """
    try:
        return _facts(attempt, key_names)
    except Exception:  # noqa: BLE001 - a foreign object's attributes may do anything
        return None


def _facts(attempt: Attempt, key_names: Collection[str]) -> HttpFacts | None:
    error = attempt.error
    state: RequestState | None = None
    if error is None:
        seen = response_in(attempt.value)
        if seen is None:
            return None
    else:
        row, bearer = find(error)
        seen = _shown(bearer, error)
        if row is not None and _about_the_network(row):
            state = row.state
        elif seen == NOTHING:
            return None
    if not len(seen.sent):  # urllib3's and http.client's responses show the method at most
        asked = request_of(attempt.call)
        if seen.method in (None, asked.method):
            seen = seen._replace(method=asked.method, url=seen.url or asked.url, sent=asked.sent)
    if seen.status is not None:
        state = "answered"
    safety = seen.safety(key_names)
    return HttpFacts(seen.status, seen.headers, seen.method, seen.url, state, safety)


def _about_the_network(row: Row) -> bool:
    """Whether the row may be about an HTTP request: not a missing file, nor a database's code."""
    if row.library in ("CPython", "asyncio"):
        return row.kind in _OF_THE_NETWORK or row.name.startswith(("ssl.", "socket."))
    return row.library in HTTP_CLIENTS or row.library in CPYTHON


def _shown(bearer: BaseException, error: BaseException) -> Seen:
    """What the deciding error shows, else the first along the chain that shows anything."""
    for link in (bearer, *links(error)):
        seen = shown_by(link)
        if seen != NOTHING:
            return seen
    return NOTHING


def verdict(
    status: int | None = None,
    method: str | bytes | RetryableMethod | None = None,
    headers: object = (),
    error: BaseException | None = None,
    *,
    known: Collection[str] = (),
    now: float | datetime | None = None,
) -> RetryDecision:
    """Whether an HTTP request may be made again, and when, by the tables alone.

    Pure: the same arguments give the same answer; only a Retry-After that is a date, in a response
    without a `Date`, is compared with `now` (Unix seconds or a `datetime`; omitted: the clock).

    `status` and `headers` are the response's. `method` is the request's, case-sensitive; unknown
    (`None`) counts as not idempotent. An idempotency key is a request header, so it comes with the
    method: `verdict(503, classify_method("POST", request_headers))`.

    `error` is what was raised, if anything. What it carries (a response, its request) fills in what
    is not given. Without a response the phase decides: a request that certainly never left may be
    made again with any method; one that may have been processed only where that is idempotent or
    carries a key. A bad certificate is final although its class says connection error.

    The answers: `RetryAfter`, with the wait that the other side asks for;
    `DoNotRetry(SUCCEEDED)`: the response is no failure (1xx to 3xx);
    `DoNotRetry(NOT_IDEMPOTENT)`: only the method stands in the way;
    `DoNotRetry(FORBIDDEN)`: the tables know this failure and it does not pass, or the server says
    no (`x-should-retry: false`, which outranks the tables as `true` does);
    `DoNotRetry(NOT_RETRYABLE)`: the tables do not know it.

    `known` adds what only the body tells; its words are those of
    `retrykit.facts.statuses.decide_status`, any other is a `ValueError`. A status that is no number
    or a method that is no text is a `TypeError`; a status outside 100 to 599 is final.

    >>> verdict(429, "POST", {"Retry-After": "3"})
    RetryAfter(delay=3.0, reason=RetryReason.THROTTLED)
    >>> verdict(method="POST", error=ConnectionResetError())
    DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
    >>> verdict(404, "GET")
    DoNotRetry(reason=StopReason.FORBIDDEN)
    """
    if status is not None:
        whole("status", status, low=-(2**31))
    unknown = set(known) - FROM_THE_BODY
    if unknown:
        words = ", ".join(sorted(FROM_THE_BODY))
        raise ValueError(f"known must be among {words}, got {', '.join(sorted(unknown))}")
    safety = classify_method(method)
    if error is None:
        if status is None:
            return DoNotRetry(StopReason.NOT_RETRYABLE)
        return decide_status(status, safety, headers, known=known, now=now)
    row, bearer = find(error)
    try:
        seen = _shown(bearer, error)
    except Exception:  # noqa: BLE001 - a foreign error's attributes may do anything
        seen = NOTHING
    if method is None:
        safety = seen.safety() or safety
    given = Headers(headers)
    seen = seen._replace(
        status=seen.status if status is None else status,
        headers=given if len(given) else seen.headers,
    )
    decision = decide_error(row, seen, safety, known=known, asked=asked_delay(error), now=now)
    return DoNotRetry(StopReason.NOT_RETRYABLE) if decision is None else decision
