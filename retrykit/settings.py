"""What a driver needs beside decisions.

A driver reads `factory.settings` where the policy factory has it, and the defaults where not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from retrykit._validate import function, instance_not_class, is_async, one_of, seconds, shown
from retrykit.clock import SystemClock
from retrykit.events import BAD_ENDS, EVERY_KIND, kinds_of, log_retries, logger, takes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event as ThreadingEvent

    from retrykit.clock import Clock
    from retrykit.events import Event, Kinds, Listener

    StopWhen: TypeAlias = Callable[[], object] | ThreadingEvent

Unsatisfied: TypeAlias = Literal["raise", "return"]


class Takers(dict["type[Event]", "tuple[Listener, ...]"]):
    """The listeners for each kind of event that anybody takes."""

    __slots__ = ("of_attempts",)

    of_attempts: bool
    """Whether anybody is told more than that a call has ended badly."""

    def __init__(self, listeners: Mapping[type[Event], tuple[Listener, ...]]) -> None:
        super().__init__(listeners)
        self.of_attempts = not self.keys() <= BAD_ENDS


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How a call is driven: its clock, listeners, limits of time and its end.

    Times are seconds or a `timedelta`, above zero; `None` is no limit. A foreign policy factory
    may carry one as its attribute `settings`.

    >>> CallSettings(deadline=30).deadline
    30.0
    """

    clock: Clock = SystemClock()  # noqa: RUF009 - stateless, so one may be shared
    listeners: tuple[Listener, ...] = (log_retries,)
    deadline: float | None = None
    attempt_timeout: float | None = None
    stop_when: StopWhen | None = None
    unsatisfied: Unsatisfied = "raise"
    name: str | None = None
    _takers: dict[Kinds | tuple[Kinds, ...], Takers] = field(
        init=False, repr=False, compare=False, default_factory=dict[Any, Any]
    )

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def takers(self) -> Takers:
        """The listeners for each kind of event that anybody takes, as their `kinds` stand now."""
        listeners = self.listeners
        one = len(listeners) == 1  # the default, spared a tuple
        key = kinds_of(listeners[0]) if one else tuple(map(kinds_of, listeners))
        takers = self._takers.get(key)
        if takers is None:
            found: dict[type[Event], tuple[Listener, ...]] = {}
            answers: Any = (key,) if one else key
            asked = list(zip(listeners, answers, strict=True))
            for odd in [each for kinds in answers for each in kinds if not isinstance(each, type)]:
                logger.error(
                    "the kinds of a listener must be classes of events, got %s", shown(odd)
                )
            for kind in EVERY_KIND:
                those = tuple([each for each, kinds in asked if takes(kinds, kind)])
                if those:
                    found[kind] = those
            takers = self._takers[key] = Takers(found)
        return takers

    def __reduce__(self) -> Any:
        fields = (
            self.clock,
            self.listeners,
            self.deadline,
            self.attempt_timeout,
            self.stop_when,
            self.unsatisfied,
            self.name,
        )
        return CallSettings, fields


def _clock(name: str, value: object) -> object:
    instance_not_class(name, value)
    methods = [getattr(value, method, None) for method in ("now", "wall", "sleep", "sleep_async")]
    if not all(map(callable, methods)):
        raise TypeError(f"{name} must have now, wall, sleep and sleep_async, got {shown(value)}")
    for method in ("now", "wall", "sleep"):
        if is_async(getattr(value, method)):
            raise TypeError(f"{name} must be async in sleep_async only, got the async {method}")
    return value


def _listeners(name: str, value: object) -> object:
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of listeners, got {shown(value)}")
    listeners = tuple(cast("list[object]", value))  # each is checked below
    for each in listeners:
        function(name, each)
    return listeners


def _time_limit(name: str, value: object) -> float | None:
    return None if value is None else seconds(name, value, above=True)


def _stop_when(name: str, value: object) -> object:
    if value is not None:
        instance_not_class(name, value)
        if not callable(getattr(value, "is_set", None)):
            function(name, value)
    return value


def _unsatisfied(name: str, value: object) -> object:
    one_of(name, value, ("raise", "return"))
    return value


def _name(name: str, value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {shown(value)}")
    return value


CHECKS: dict[str, Callable[[str, object], object]] = {
    "clock": _clock,
    "listeners": _listeners,
    "deadline": _time_limit,
    "attempt_timeout": _time_limit,
    "stop_when": _stop_when,
    "unsatisfied": _unsatisfied,
    "name": _name,
}
"""How each field is checked, and brought to the one type that it holds."""
