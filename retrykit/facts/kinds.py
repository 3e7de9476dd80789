"""From the tables' words to a decision: the one place that knows both."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.facts.methods import RetryableMethod

Repeat: TypeAlias = Literal["never", "with_token", "idempotent", "any", "by_status"]
"""Which requests may be repeated after this. `"with_token"`: only those with an idempotency key;
`"idempotent"`: those that are idempotent or carry a key; `"by_status"`: the response decides."""

RequestState: TypeAlias = Literal["unsent", "rejected", "ambiguous", "answered"]
"""What became of the request. `"unsent"`: it certainly never left; `"rejected"`: the other side
answered that it did not do the work; `"ambiguous"`: it may have been done; `"answered"`: there is
a complete response."""

_REASONS: Final = {
    "connection_failed": RetryReason.CONNECTION_FAILED,
    "connection": RetryReason.CONNECTION_FAILED,
    "timed_out": RetryReason.TIMED_OUT,
    "timeout": RetryReason.TIMED_OUT,
    "throttled": RetryReason.THROTTLED,
    "conflict": RetryReason.CONFLICT,
    "server_error": RetryReason.SERVER_ERROR,
}


def reason_of(kind: str) -> RetryReason:
    """The reason to retry for one of the tables' kinds; `TRANSIENT` for those that have none.

    >>> reason_of("timeout")
    RetryReason.TIMED_OUT
    """
    return _REASONS.get(kind, RetryReason.TRANSIENT)


def decide(repeat: Repeat, kind: str, method: RetryableMethod, delay: float = 0.0) -> RetryDecision:
    """What a row means for a request of this safety.

    `NOT_IDEMPOTENT` says that another method, or a key, would have been worth another attempt;
    `FORBIDDEN` that none would: the tables know this failure and it does not pass.

    >>> decide("idempotent", "server_error", RetryableMethod.IDEMPOTENT)
    RetryAfter(delay=0.0, reason=RetryReason.SERVER_ERROR)
    >>> decide("idempotent", "server_error", RetryableMethod.NON_IDEMPOTENT)
    DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
    >>> decide("never", "permanent", RetryableMethod.IDEMPOTENT)
    DoNotRetry(reason=StopReason.FORBIDDEN)
    """
    match repeat, method:
        case ("any", _) | ("with_token", RetryableMethod.IDEMPOTENT_WITH_TOKEN):
            return RetryAfter(delay, reason_of(kind))
        case "idempotent", RetryableMethod.NON_IDEMPOTENT:
            return DoNotRetry(StopReason.NOT_IDEMPOTENT)
        case "idempotent", _:
            return RetryAfter(delay, reason_of(kind))
        case _:
            return DoNotRetry(StopReason.FORBIDDEN)
