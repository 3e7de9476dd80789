"""What is known about an exception, whichever library made it: what it says of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, StopReason
from retrykit.facts import _grpc
from retrykit.facts._rows import CPYTHON, Row, Unlisted, links, own_row
from retrykit.facts._shapes import NOTHING, Seen, shown_by
from retrykit.facts.kinds import decide
from retrykit.facts.methods import RetryableMethod

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

__all__ = ["Row", "asked_delay", "judge", "lookup"]

HTTP_CLIENTS: Final = frozenset(
    {"requests", "httpx", "aiohttp", "urllib3", "HTTP/2", "botocore", "openai", "stripe"}
)
"""The libraries, as the table names them, whose errors are about an HTTP request."""


def lookup(error: BaseException) -> Row | None:
    """The row of the exceptions table that decides for this error, or `None`.

    First the error itself, by its class's qualified name along the MRO and by what it carries
    (errno, SQLSTATE, a status code, what it wraps); where that says nothing, what it was raised
    from: `__cause__`, `__context__` (unless suppressed), `.reason`, `.orig`, `args[0]`. The first
    that is known decides. Cycles and long chains are followed for 50 links at most. Never raises.

    >>> lookup(ConnectionRefusedError()).state
    'unsent'
    >>> lookup(TimeoutError()).state
    'ambiguous'
    >>> lookup(KeyError()) is None
    True
    """
    return find(error)[0]


def find(error: BaseException) -> tuple[Row | None, BaseException]:
    """As `lookup`, with the error along the chain that has this row (else the error itself)."""
    try:
        for link in links(error):
            row = own_row(link)
            if isinstance(row, Unlisted):
                break
            if row is not None:
                return row, link
    except Exception:  # noqa: BLE001 - a foreign error's attributes may do anything
        pass
    return None, error


def asked_delay(error: BaseException) -> float | None:
    """The seconds that an error asks to wait, where it says so by other means than headers.

    gRPC's `grpc-retry-pushback-ms` and `google.rpc.RetryInfo`, at most 2**31. Never raises.
    """
    try:
        for link in links(error):
            for asked in (_grpc.pushback(link), _grpc.retry_info(link)):
                if asked is not None:
                    return asked
    except Exception:  # noqa: BLE001 - a foreign error's attributes may do anything
        pass
    return None


def judge(error: BaseException, *, now: float | datetime | None = None) -> RetryDecision | None:
    """Whether this error by itself is worth another attempt; `None` is no opinion.

    The rule of the default classifier, for calls of which nobody said what may be repeated. It says
    yes to:

    - what Python's own library raises for a failure that passes (`ConnectionError`, `TimeoutError`,
      a dropped connection, name resolution), subclasses included;
    - errors that carry a retryable response, after the time that this asks for;
    - errors of the HTTP clients (requests, httpx, aiohttp, urllib3, botocore, openai, stripe) where
      the request certainly was not processed, or is seen to be idempotent.

    It vouches for nothing. Where the error shows a request that is not idempotent and that may have
    been processed, the answer is `DoNotRetry(NOT_IDEMPOTENT)`; where no request is in sight, errors
    of Python's own are taken as retryable and a client's are left open. A server that says "do not
    retry" (`x-should-retry: false`) is obeyed: `DoNotRetry(FORBIDDEN)`. Everything else, permanent
    failures included, is `None`, so that a classifier further right may still say yes.

    Only the error itself counts, and what it wraps by its library's custom: an error of the user's
    own that was raised from a `ConnectionResetError` is the user's to classify. Never raises.

    >>> judge(ConnectionResetError())
    RetryAfter(delay=0.0, reason=RetryReason.CONNECTION_FAILED)
    >>> judge(PermissionError()) is None
    True
    """
    try:
        return _judge(error, now)
    except Exception:  # noqa: BLE001 - a foreign error's attributes may do anything
        return None


def _judge(error: BaseException, now: float | datetime | None) -> RetryDecision | None:
    row = own_row(error)
    row = None if isinstance(row, Unlisted) else row
    # The common case shows nothing more: a builtin error without attributes of its own.
    plain = type(error).__module__ == "builtins" and not vars(error)
    seen = NOTHING if plain else shown_by(error)
    # A method that is not seen is given the benefit of the doubt.
    method = seen.safety() or RetryableMethod.IDEMPOTENT
    if seen.status is None and not (row is not None and _is_ours(error, row, seen)):
        return None
    match decide_error(row, seen, method, now=now):
        case RetryAfter() | DoNotRetry(StopReason.NOT_IDEMPOTENT) as decision:
            return decision
        case DoNotRetry() as decision if _forbidden_by_server(seen):
            return decision
        case _:
            return None


def _forbidden_by_server(seen: Seen) -> bool:
    if seen.status is None:
        return False
    from retrykit.facts.statuses import server_verdict

    return server_verdict(seen.headers) is False


def _is_ours(error: BaseException, row: Row, seen: Seen) -> bool:
    """Whether the default classifier has an opinion on an error without a response."""
    if row.library in CPYTHON:
        return True
    if row.library not in HTTP_CLIENTS:
        return False
    if row.repeat == "any" or seen.method is not None:
        return True
    # An error that is one of Python's own as well, as aiohttp's time-outs are.
    return isinstance(error, (ConnectionError, TimeoutError))


def decide_error(
    row: Row | None,
    seen: Seen,
    method: RetryableMethod,
    *,
    known: Collection[str] = (),
    asked: float | None = None,
    now: float | datetime | None = None,
) -> RetryDecision | None:
    """The decision for an error with this row that shows this; `None` where neither says anything.

    `asked` is the delay that the error asks for by itself.
    """
    status, hint = seen.status, None
    if status is not None:
        # Loaded with the first response: a bare error needs nothing of it.
        from retrykit.facts.retry_after import parse_retry_after
        from retrykit.facts.statuses import decide_status, server_verdict

        said = server_verdict(seen.headers) if status >= 400 else None
        if said is not None or _status_decides(row, status):
            decision = decide_status(status, method, seen.headers, known=known, now=now)
            # A response may be a success, and the error is none all the same.
            return None if decision == DoNotRetry(StopReason.SUCCEEDED) else decision
        hint = parse_retry_after(seen.headers, status=status, now=now)
    if row is None or row.repeat == "by_status":
        return None
    delays = [delay for delay in (asked, hint) if delay is not None]
    return decide(row.repeat, row.kind, method, max(delays, default=0.0))


def _status_decides(row: Row | None, status: int) -> bool:
    """Whether the status that an error carries decides, rather than the error's own row."""
    if row is None or row.repeat == "by_status":
        return True
    # A client's class repeats the status, less exactly. Not so AWS's and Google's codes, and a body
    # that broke off after a 200 is what its class says.
    return row.transient and status >= 400 and row.library not in ("botocore", "google-api-core")
