"""What is told while a call is made: one stream of events, the same from every form.

`(AttemptStarted AttemptFailed RetryScheduled)* AttemptStarted [AttemptFailed] End`, where End is
exactly one of `CallSucceeded`, `CallFailed`, `CallGaveUp`, `CallCancelled`. `RetryScheduled` comes
before the wait that it announces; a call that ends in its wait (cancelled, stopped) has its End
right after it. No event holds arguments, and no `repr` shows a value or an error's text.
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from retrykit._validate import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from retrykit.decision import RetryReason, StopReason
    from retrykit.errors import PastAttempt
    from retrykit.outcome import Outcome


class Event:
    """What every event tells. Treat it as immutable.

    `policy` is the policy's name or `None`, `function` the callable's qualified name, `number` the
    attempt's (from 1), `depth` how many retried calls this one runs inside of (the outermost: 0),
    `elapsed` the seconds since the call began.

    >>> event = CallSucceeded("github", "fetch", 2, 0, 1.5, duration=0.5)
    >>> event
    CallSucceeded(policy='github', function='fetch', number=2, depth=0, elapsed=1.5, duration=0.5)
    >>> event.fields
    ('policy', 'function', 'number', 'depth', 'elapsed', 'duration')
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

    `kinds` is read once per call; a base class in it stands for all kinds below. A listener that
    raises is logged and skipped.

    >>> class Waits:
    ...     kinds = frozenset({RetryScheduled})
    ...     def __call__(self, event: RetryScheduled, /) -> None:
    ...         print(f"waiting {event.delay} s")
    >>> kinds_of(Waits()) == {RetryScheduled}
    True
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
BAD_ENDS: Final[Kinds] = frozenset({CallFailed, CallGaveUp})
_ALL: Final[Kinds] = BAD_ENDS | {RetryScheduled}

_LOGGED: Final = frozenset(
    {
        *("policy", "function", "number", "depth", "elapsed"),
        *("delay", "source", "reason", "error_type"),
    }
)


def log_fields(event: Event) -> dict[str, str | int | float | None]:
    """What a log record tells of an event, as plain values: no outcome, so no value and no text.

    The prefix keeps each name apart from a log record's own attributes and from the program's.

    >>> log_fields(AttemptStarted("github", "fetch", 1, 0, 0.0))
    {'retrykit_policy': 'github', 'retrykit_function': 'fetch', 'retrykit_number': 1,
     'retrykit_depth': 0, 'retrykit_elapsed': 0.0}
    """
    fields: dict[str, str | int | float | None] = {}
    for name in event.fields:
        if name in _LOGGED:
            value = getattr(event, name)
            fields["retrykit_" + name] = value.value if isinstance(value, StrEnum) else value
    return fields


class _Line(str):
    """A %-format that fills itself in the same way where a brace-style logger calls `format`."""

    __slots__ = ()

    def __str__(self) -> str:
        # A log record's `getMessage` formats `str(msg)`: that must still be this class.
        return self

    def format(self, *args: object, **_: object) -> str:
        return self % args if args else self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # A record may be unpickled where retrykit is not installed.
        return str, ("".join(self),)


_RETRY: Final = _Line("%s: attempt %d failed (%s, %s), next in %.3f s (%s)")
_GAVE_UP: Final = _Line("%s: gave up after attempt %d (%s, %s), %.3f s in all")
_FAILED: Final = _Line("%s: attempt %d failed for good (%s, %s), %.3f s in all")

_LoggerLike: TypeAlias = "logging.Logger | logging.LoggerAdapter[Any]"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LogRetries:
    """One INFO line per scheduled retry, one WARNING per give-up.

    A failure that nobody retried is the caller's to report, so it is logged only where a retry had
    been made before. The lines name the function, the error's type and the reason, never a text,
    an argument or a value. Each record carries the event's fields as well, prefixed: see
    `log_fields`.

    `logger` is a name, a `logging.Logger` or a `LoggerAdapter`. A plain logger gets a constant
    %-format with its arguments, one of a class of its own (which may format in another style)
    the finished line. Raises `TypeError` for anything else.

    >>> LogRetries("myapp.http")
    LogRetries('myapp.http')
    """

    logger: _LoggerLike

    def __init__(self, logger: _LoggerLike | str = "retrykit") -> None:
        object.__setattr__(self, "logger", _logger("logger", logger))

    @property
    def kinds(self) -> Kinds:
        """What the logger's level lets through, asked once per call."""
        if not self.logger.isEnabledFor(logging.WARNING):
            return _NOTHING
        return _ALL if self.logger.isEnabledFor(logging.INFO) else BAD_ENDS

    def __call__(self, event: Event, /) -> None:
        """Write the line for `event`, where it has one."""
        match event:
            case RetryScheduled():
                self._write(logging.INFO, _RETRY, event, event.delay, event.source)
            case CallGaveUp():
                self._write(logging.WARNING, _GAVE_UP, event, event.elapsed)
            case CallFailed() if event.number > 1:
                self._write(logging.WARNING, _FAILED, event, event.elapsed)
            case _:
                pass

    def _write(
        self, level: int, line: _Line, event: RetryScheduled | CallEnded, *more: object
    ) -> None:
        error_type = event.error_type or "result"
        args = (event.function, event.number, error_type, event.reason.value, *more)
        if not _is_plain(self.logger):
            line, args = _Line(line % args), ()
        fields = log_fields(event)
        _with_fields(self.logger, fields).log(level, line, *args, extra=fields)

    def __repr__(self) -> str:
        if self.logger is logger:
            return "LogRetries()"
        plain = isinstance(self.logger, logging.Logger)
        return f"LogRetries({self.logger.name if plain else self.logger!r})"


def _logger(field: str, value: object) -> _LoggerLike:
    if isinstance(value, str):
        return logging.getLogger(value)
    if isinstance(value, logging.Logger):
        return value
    if isinstance(value, logging.LoggerAdapter):
        return value  # pyright: ignore[reportUnknownVariableType]  # of whatever it adapts
    raise TypeError(f"{field} must be a logger, a LoggerAdapter or a name, got {shown(value)}")


def _is_plain(logger: Any) -> bool:
    """Whether nothing but the standard library formats what this logger is given."""
    while logger.__class__ is logging.LoggerAdapter:
        logger = logger.logger
    return logger.__class__ in (logging.Logger, logging.RootLogger)


def _with_fields(logger: _LoggerLike, fields: dict[str, Any]) -> _LoggerLike:
    """A logger that adds `fields`: an adapter hands on its own extra in place of the caller's."""
    if not isinstance(logger, logging.LoggerAdapter):
        return logger
    both = copy(logger)
    fields = {**fields, **(logger.extra or {})}
    try:
        both.extra = fields
        both.logger = _with_fields(logger.logger, fields)
    except AttributeError:  # an adapter that makes its extra anew each time keeps to that
        return logger
    return both


log_retries: Final = LogRetries()
"""The default listener."""


def kinds_of(listener: Callable[..., object]) -> Kinds:
    """The kinds that a listener takes: its `kinds`, or every kind; none where asking it fails.

    >>> kinds_of(print) == EVERY_KIND
    True
    """
    try:
        kinds: Iterable[type[Event]] | None = getattr(listener, "kinds", None)
        if kinds is None:
            return EVERY_KIND
        return kinds if isinstance(kinds, frozenset) else frozenset(kinds)
    except Exception:
        logger.exception("the kinds of a listener failed")
        return _NOTHING


def takes(kinds: Kinds, kind: type[Event]) -> bool:
    """Whether `kinds` has this kind of event, or a base class, which stands for all below it.

    What is no class is passed over.

    >>> takes(frozenset({CallEnded}), CallGaveUp), takes(frozenset({CallEnded}), CallSucceeded)
    (True, False)
    """
    return any(base in kinds for base in kind.__mro__)
