"""What comes out: another attempt after a delay, or none, each with its reason.

>>> RetryAfter(1.5, RetryReason.THROTTLED)
RetryAfter(delay=1.5, reason=RetryReason.THROTTLED)
>>> DoNotRetry()
DoNotRetry(reason=StopReason.NOT_RETRYABLE)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from retrykit._validate import INFINITY, seconds, shown

if TYPE_CHECKING:
    from datetime import timedelta


class RetryReason(StrEnum):
    """Why another attempt is worth making.

    >>> RetryReason("throttled"), f"{RetryReason.THROTTLED}"
    (RetryReason.THROTTLED, 'throttled')
    """

    CONNECTION_FAILED = "connection_failed"
    TIMED_OUT = "timed_out"
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    CONFLICT = "conflict"
    TRANSIENT = "transient"
    UNSATISFACTORY = "unsatisfactory"

    def __repr__(self) -> str:
        return f"RetryReason.{self.name}"


class StopReason(StrEnum):
    """Why no further attempt is made.

    >>> StopReason("stopped"), f"{StopReason.STOPPED}"
    (StopReason.STOPPED, 'stopped')
    """

    SUCCEEDED = "succeeded"
    NOT_RETRYABLE = "not_retryable"
    """Nobody wanted another attempt."""
    FORBIDDEN = "forbidden"
    """A classifier said no."""
    NOT_IDEMPOTENT = "not_idempotent"
    """A second request might do the work twice."""
    NOT_REPLAYABLE = "not_replayable"
    """An argument or a body is used up: it cannot be sent again."""
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    REASON_EXHAUSTED = "reason_exhausted"
    """The limit for this reason is reached."""
    BACKOFF_EXHAUSTED = "backoff_exhausted"
    """The backoff's sequence ended."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    SERVER_DELAY_TOO_LONG = "server_delay_too_long"
    BUDGET_EXHAUSTED = "budget_exhausted"
    STOPPED = "stopped"
    """`stop_when` said so."""
    CANCELLED = "cancelled"
    """The task was cancelled, or the loop over attempts was left."""
    DISABLED = "disabled"
    """Retries are switched off: `disabled()` or `RETRYKIT_DISABLED=1`."""
    NESTED = "nested"
    """The call runs inside another retried call, and its policy says `nested="suppress"`."""
    STRATEGY_FAILED = "strategy_failed"
    """A classifier, strategy, budget or executor raised or answered nonsense."""

    def __repr__(self) -> str:
        return f"StopReason.{self.name}"


NO_LIMIT: Final = frozenset(
    {
        StopReason.SUCCEEDED,
        StopReason.NOT_RETRYABLE,
        StopReason.FORBIDDEN,
        StopReason.NOT_IDEMPOTENT,
        StopReason.DISABLED,
        StopReason.NESTED,
    }
)
"""The reasons that are no limit: a value that ends so is returned, an error is `CallFailed`."""


class RetryAfter:
    """Worth another attempt, no sooner than `delay` seconds from now; zero asks for nothing.

    From a classifier it is a wish that the backoff may lengthen; from an executor it is the wait
    itself. `delay` takes seconds or a `timedelta`; negative, NaN and infinite are a `ValueError`.
    Compares, hashes and matches by its two fields; treat it as immutable.

    >>> RetryAfter(2).delay
    2.0
    """

    __match_args__ = ("delay", "reason")
    __slots__ = ("delay", "reason")

    delay: float
    reason: RetryReason

    def __init__(
        self, delay: float | timedelta = 0.0, reason: RetryReason = RetryReason.TRANSIENT
    ) -> None:
        # A plain finite float, the common case, is taken without a further call.
        if type(delay) is float and 0.0 <= delay < INFINITY:
            self.delay = delay
        else:
            self.delay = seconds("delay", delay)
        if type(reason) is not RetryReason:
            raise TypeError(f"reason must be a RetryReason, got {shown(reason)}")
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        if type(other) is not RetryAfter:
            return NotImplemented
        return self.delay == other.delay and self.reason is other.reason

    def __hash__(self) -> int:
        return hash((self.delay, self.reason))

    def __repr__(self) -> str:
        return f"RetryAfter(delay={self.delay!r}, reason={self.reason!r})"


class DoNotRetry:
    """Final: no further attempt, for `reason`. Compares, hashes and matches by its field.

    >>> DoNotRetry(StopReason.FORBIDDEN) == DoNotRetry(StopReason.FORBIDDEN)
    True
    """

    __match_args__ = ("reason",)
    __slots__ = ("reason",)

    reason: StopReason

    def __init__(self, reason: StopReason = StopReason.NOT_RETRYABLE) -> None:
        if type(reason) is not StopReason:
            raise TypeError(f"reason must be a StopReason, got {shown(reason)}")
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        if type(other) is not DoNotRetry:
            return NotImplemented
        return self.reason is other.reason

    def __hash__(self) -> int:
        return hash(self.reason)

    def __repr__(self) -> str:
        return f"DoNotRetry(reason={self.reason!r})"


RetryDecision: TypeAlias = RetryAfter | DoNotRetry
"""Either of the two; `match` tells them apart, and `isinstance` takes it."""
