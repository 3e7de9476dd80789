"""What is told while a call is made: one stream of events, the same from every form.

`(AttemptStarted AttemptFailed RetryScheduled)* AttemptStarted [AttemptFailed] End`, where End is
exactly one of `CallSucceeded`, `CallFailed`, `CallGaveUp`, `CallCancelled`. `RetryScheduled` comes
before the wait that it announces; a call that ends in its wait (cancelled, stopped) has its End
right after it. No event holds arguments, and no `repr` shows a value or an error's text.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from retrykit.decision import RetryReason, StopReason
    from retrykit.errors import PastAttempt
    from retrykit.outcome import Outcome


class Event:
    """What every event tells. Treat it as immutable.

    `policy` is the policy's name or `None`, `function` the callable's qualified name, `number` the
    attempt's (from 1), `depth` how many retried calls this one runs inside of (0 for the outermost),
    `elapsed` the seconds since the call began.
    """

    __slots__ = ("depth", "elapsed", "function", "number", "policy")

    fields: ClassVar[tuple[str, ...]] = ("policy", "function", "number", "depth", "elapsed")

    policy: str | None
    function: str
    number: int
    depth: int
    elapsed: float

    def __init__(
        self, policy: str | None, function: str, number: int, depth: int, elapsed: float
    ) -> None:
        self.policy = policy
        self.function = function
        self.number = number
        self.depth = depth
        self.elapsed = elapsed

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]  # an outcome may be unhashable, so no event is hashed

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({told})"


class AttemptStarted(Event):
    """An attempt is about to be made."""

    __slots__ = ()


class AttemptFailed(Event):
    """An attempt raised, or returned what the policy does not take for a success.

    `duration` is the attempt's own, in seconds; `error_type` the error's class name, `None` for a
    value.
    """

    __slots__ = ("duration", "error_type", "outcome")

    fields = (*Event.fields, "duration", "error_type", "outcome")

    duration: float
    error_type: str | None
    outcome: Outcome

    def __init__(
        self,
        policy: str | None,
        function: str,
        number: int,
        depth: int,
        elapsed: float,
        duration: float,
        error_type: str | None,
        outcome: Outcome,
    ) -> None:
        super().__init__(policy, function, number, depth, elapsed)
        self.duration = duration
        self.error_type = error_type
        self.outcome = outcome


class RetryScheduled(Event):
    """Attempt `number` failed and another follows after `delay` seconds, announced before the wait.

    `source` tells where the delay came from: `"backoff"` or `"server"`.
    """

    __slots__ = ("delay", "error_type", "outcome", "reason", "source")

    fields = (*Event.fields, "delay", "source", "reason", "error_type", "outcome")

    delay: float
    source: str
    reason: RetryReason
    error_type: str | None
    outcome: Outcome

    def __init__(
        self,
        policy: str | None,
        function: str,
        number: int,
        depth: int,
        elapsed: float,
        delay: float,
        source: str,
        reason: RetryReason,
        error_type: str | None,
        outcome: Outcome,
    ) -> None:
        super().__init__(policy, function, number, depth, elapsed)
        self.delay = delay
        self.source = source
        self.reason = reason
        self.error_type = error_type
        self.outcome = outcome


class CallSucceeded(Event):
    """The call returned a value that the policy takes; `number` attempts were made."""

    __slots__ = ("duration",)

    fields = (*Event.fields, "duration")

    duration: float

    def __init__(
        self,
        policy: str | None,
        function: str,
        number: int,
        depth: int,
        elapsed: float,
        duration: float,
    ) -> None:
        super().__init__(policy, function, number, depth, elapsed)
        self.duration = duration


class CallEnded(Event):
    """What the three unhappy ends share: why, and what led there."""

    __slots__ = ("error_type", "history", "outcome", "reason")

    fields = (*Event.fields, "reason", "error_type", "outcome", "history")

    reason: StopReason
    error_type: str | None
    outcome: Outcome | None
    history: tuple[PastAttempt, ...]

    def __init__(
        self,
        policy: str | None,
        function: str,
        number: int,
        depth: int,
        elapsed: float,
        reason: StopReason,
        error_type: str | None,
        outcome: Outcome | None,
        history: tuple[PastAttempt, ...],
    ) -> None:
        super().__init__(policy, function, number, depth, elapsed)
        self.reason = reason
        self.error_type = error_type
        self.outcome = outcome
        self.history = history


class CallFailed(CallEnded):
    """No retry was wanted: the classifier said no, or retries are off here."""

    __slots__ = ()


class CallGaveUp(CallEnded):
    """A retry was wanted and a limit refused it."""

    __slots__ = ()


class CallCancelled(CallEnded):
    """The call was cancelled or interrupted, in an attempt or in a wait."""

    __slots__ = ()


class Listener(Protocol):
    """A plain function of one event; attribute `kinds`, where there is one, names those it takes.

    `kinds` is read once per call. A listener that raises is logged and skipped.
    """

    def __call__(self, event: Any, /) -> object: ...


Kinds: TypeAlias = "frozenset[type[Event]]"

EVERY_KIND: Final[Kinds] = frozenset(
    {
        AttemptStarted,
        AttemptFailed,
        RetryScheduled,
        CallSucceeded,
        CallFailed,
        CallGaveUp,
        CallCancelled,
    }
)

logger: Final = logging.getLogger("retrykit")
logger.addHandler(logging.NullHandler())

_NOTHING: Final[Kinds] = frozenset()
_ENDS: Final[Kinds] = frozenset({CallFailed, CallGaveUp})
_ALL: Final[Kinds] = _ENDS | {RetryScheduled}


@dataclass(frozen=True, slots=True)
class LogRetries:
    """One INFO line per scheduled retry, one WARNING per give-up.

    A failure that nobody retried is the caller's to report, so it is logged only where a retry had
    been made before. The lines name the function, the error's type and the reason, never a text,
    an argument or a value.

    >>> LogRetries()
    LogRetries()
    """

    @property
    def kinds(self) -> Kinds:
        """What the logger's level lets through, asked once per call."""
        if logger.isEnabledFor(logging.INFO):
            return _ALL
        return _ENDS if logger.isEnabledFor(logging.WARNING) else _NOTHING

    def __call__(self, event: Event, /) -> None:
        """Write the line for `event`."""
        match event:
            case RetryScheduled():
                logger.info(
                    "%s: attempt %d failed (%s, %s), next in %.3f s (%s)",
                    event.function,
                    event.number,
                    event.error_type or "result",
                    event.reason,
                    event.delay,
                    event.source,
                )
            case CallEnded() if event.number > 1 or event.__class__ is CallGaveUp:
                logger.warning(
                    "%s: gave up after %d attempts in %.3f s (%s, %s)",
                    event.function,
                    event.number,
                    event.elapsed,
                    event.error_type or "result",
                    event.reason,
                )
            case _:
                pass


log_retries: Final = LogRetries()
"""The default listener."""


def kinds_of(listener: Callable[..., object]) -> Kinds:
    """The kinds that a listener takes: its `kinds`, or every kind.

    >>> kinds_of(print) == EVERY_KIND
    True
    """
    kinds: Iterable[type[Event]] | None = getattr(listener, "kinds", None)
    if kinds is None:
        return EVERY_KIND
    return kinds if isinstance(kinds, frozenset) else frozenset(kinds)
