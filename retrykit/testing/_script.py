"""A stand-in for the function under retry: it fails and returns as it is told."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from retrykit._context import entry, innermost
from retrykit._validate import seconds, shown
from retrykit.outcome import Raised, Returned
from retrykit.testing._clock import VirtualClock
from retrykit.testing._switches import InstantClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
    from datetime import timedelta


class ScriptError(BaseException):
    """The test is wrong, not the code: its script is over, or needs a clock that it was not given.

    No `Exception`, so that no policy retries it.
    """


class ScriptCall(NamedTuple):
    """The arguments of one call of a script."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Slow:
    """A step of a script that takes `seconds` of virtual time before its outcome.

    The time passes on the clock that the script was given, or else on the clock of the call that
    the script is made in; either must be a `VirtualClock`.

    >>> Slow(2.5, TimeoutError)
    Slow(2.5, TimeoutError)
    """

    __slots__ = ("outcome", "seconds")

    def __init__(self, seconds_taken: float | timedelta, outcome: Any = None, /) -> None:
        if isinstance(outcome, Slow):
            raise TypeError(f"outcome must not be slow again, got {shown(outcome)}")
        self.seconds = seconds("seconds", seconds_taken)
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"Slow({self.seconds!r}, {_written(self.outcome)})"


class Steps:
    """The steps of a script, and the calls that took them."""

    def __init__(self, steps: tuple[Any, ...], clock: VirtualClock | None) -> None:
        if clock is not None and not isinstance(clock, VirtualClock):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
            raise TypeError(f"clock must be a VirtualClock, got {shown(clock)}")
        self.steps = steps
        """What each call comes to."""
        self.calls: list[ScriptCall] = []
        """The arguments of each call so far, the one past the end included."""
        self._clock = clock
        self._lock = Lock()
        self.__name__ = self.__qualname__ = "script"

    @property
    def remaining(self) -> int:
        """How many steps are left."""
        return max(len(self.steps) - len(self.calls), 0)

    def __repr__(self) -> str:
        return f"script({', '.join(map(_written, self.steps))})"

    def _next(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, Any]:
        """The seconds that this call takes, and what it comes to."""
        with self._lock:
            self.calls.append(ScriptCall(args, kwargs))
            number = len(self.calls)
        if number > len(self.steps):
            steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
            raise ScriptError(f"the script is over: call {number} of {self!r}, which has {steps}")
        step = self.steps[number - 1]
        return (step.seconds, step.outcome) if isinstance(step, Slow) else (0.0, step)

    def _time(self) -> VirtualClock:
        """The clock that a slow step moves."""
        clock: object = self._clock
        if clock is None:
            cell = innermost(entry.get())
            session = None if cell is None else cell._session  # pyright: ignore[reportPrivateUsage]  # the test kit may look inside
            clock = None if session is None else session.clock
            while isinstance(clock, InstantClock):
                clock = clock.clock
        if not isinstance(clock, VirtualClock):
            raise ScriptError(
                f"{self!r} has slow steps and no virtual clock: write script(..., clock=clock), or"
                " call it under a policy whose clock is a VirtualClock"
            )
        return clock

    def _play(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        takes, outcome = self._next(args, kwargs)
        if takes:
            self._time().spend(takes)
        return outcome

    async def _play_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        takes, outcome = self._next(args, kwargs)
        if takes:
            await self._time().spend_async(takes)
        return outcome

    async def asynchronous(self, *args: Any, **kwargs: Any) -> Any:
        """The script as a coroutine function."""
        return _come_to(await self._play_async(args, kwargs))

    def generator(self, *args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        """The script as a generator function; a step that is a list or tuple is its items."""
        for item in _items(self._play(args, kwargs)):
            yield _come_to(item)

    async def async_generator(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """The script as an async generator function."""
        for item in _items(await self._play_async(args, kwargs)):
            yield _come_to(item)


class Script(Steps):
    """What `script` makes: a plain function, with its other forms as methods."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Take the next step."""
        return _come_to(self._play(args, kwargs))


class AsyncScript(Steps):
    """What `script(..., asynchronous=True)` makes: a coroutine function."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Take the next step."""
        return _come_to(await self._play_async(args, kwargs))


@overload
def script(
    *steps: Any, clock: VirtualClock | None = ..., asynchronous: Literal[False] = ...
) -> Script: ...
@overload
def script(
    *steps: Any, clock: VirtualClock | None = ..., asynchronous: Literal[True]
) -> AsyncScript: ...
def script(
    *steps: Any, clock: VirtualClock | None = None, asynchronous: bool = False
) -> Script | AsyncScript:
    """A function that takes one step at each call: it raises exceptions and returns all else.

    An exception class or instance is raised, and so is a `Raised`; a `Returned` returns its value,
    should that be an exception. `Slow(seconds, step)` takes virtual time first. Any arguments are
    taken, and recorded in `calls`. A call past the last step is a `ScriptError`, which no policy
    retries.

    Its other forms are methods, on the same steps: `asynchronous` (what `asynchronous=True` makes
    of the script itself), `generator` and `async_generator`, where a step that is a list or tuple
    gives one item after the other.

    >>> fetch = script(ConnectionError, 503, "ok")
    >>> fetch("a")
    Traceback (most recent call last):
        ...
    ConnectionError
    >>> fetch("a"), fetch("b")
    (503, 'ok')
    >>> [call.args for call in fetch.calls]
    [('a',), ('a',), ('b',)]
    """
    return AsyncScript(steps, clock) if asynchronous else Script(steps, clock)


def _come_to(step: object) -> Any:
    outcome: Any = step
    if isinstance(step, Returned):
        return outcome.value
    if isinstance(step, Raised):
        outcome = step.error
    if isinstance(outcome, BaseException) or _is_error_type(outcome):
        raise outcome
    return outcome


def _is_error_type(step: object) -> bool:
    return isinstance(step, type) and issubclass(step, BaseException)


def _items(step: object) -> Iterable[Any]:
    items: Any = step
    return items if isinstance(step, (list, tuple)) else (items,)


def _written(step: object) -> str:
    return step.__qualname__ if isinstance(step, type) else repr(step)
