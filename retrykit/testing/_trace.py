"""What a policy decided, as plain data: to assert on, to snapshot, to print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from retrykit._context import laid
from retrykit._forms import ASYNC_GENERATOR, GENERATOR, PLAIN, form_of, start
from retrykit._validate import number, shown
from retrykit.clock import in_event_loop
from retrykit.events import CallCancelled, CallEnded, CallFailed, CallSucceeded, RetryScheduled
from retrykit.outcome import Call, Raised
from retrykit.policy import PolicyFactory, RetryPolicy, system_rng
from retrykit.testing._clock import VirtualClock
from retrykit.testing._script import ScriptError, Slow, Steps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from retrykit.events import Event
    from retrykit.settings import CallSettings


class Decided(NamedTuple):
    """One decision: `"retry"` after `wait` seconds, or `"stop"`; each with its reason.

    It equals the plain tuple of its fields, and its reason is the plain word.
    """

    decision: Literal["retry", "stop"]
    wait: float | None
    reason: str


class Line(NamedTuple):
    """One decision with its function, and as a line of text."""

    function: str
    decided: Decided
    text: str


def line_of(event: Event) -> Line | None:
    """What an event tells of a decision; `None` where it tells of none."""
    if isinstance(event, RetryScheduled):
        decided = Decided("retry", event.delay, str(event.reason))
    elif isinstance(event, CallEnded):
        decided = Decided("stop", None, str(event.reason))
    elif isinstance(event, CallSucceeded):
        decided = Decided("stop", None, "succeeded")
    else:
        return None
    return Line(event.function, decided, _text(event))


class RetryTrace:
    """The decisions of all calls that were watched, in the order in which they were made.

    `str` gives one line for each, with its function. It keeps no errors and no values.
    """

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def __call__(self, event: Event, /) -> None:
        """Take an event: a trace is a listener."""
        line = line_of(event)
        if line is not None:
            self._lines.append(line)

    @property
    def decisions(self) -> list[Decided]:
        """What was decided, as plain data."""
        return [line.decided for line in self._lines]

    @property
    def waits(self) -> list[float]:
        """The waits before retries, in seconds, in the order in which they were announced."""
        return [line.decided.wait for line in self._lines if line.decided.wait is not None]

    def of(self, function: str) -> RetryTrace:
        """The part of one function, by its name or its qualified name."""
        part = RetryTrace()
        part._lines = [
            line
            for line in self._lines
            if function in (line.function, line.function.rpartition(".")[2])
        ]
        return part

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        return f"<RetryTrace of {len(self)} decisions>"

    def __str__(self) -> str:
        return "\n".join(line.text for line in self._lines)


def _text(event: Event) -> str:
    where = f"{event.function}: attempt {event.number}"
    if isinstance(event, RetryScheduled):
        what = event.error_type or "result"
        wait = f"next in {event.delay:.3f} s ({event.source})"
        return f"{where} failed ({what}, {event.reason}), {wait}"
    if isinstance(event, CallCancelled):
        return f"{where} was cancelled, after {event.elapsed:.3f} s in all"
    if isinstance(event, CallEnded):
        what = event.error_type or "result"
        end = "not retried" if isinstance(event, CallFailed) else "gave up"
        return f"{where} failed ({what}), {end} after {event.elapsed:.3f} s ({event.reason})"
    return f"{where} succeeded, after {event.elapsed:.3f} s in all"


def decisions(
    policy: PolicyFactory, function: Callable[..., Any], /, *, seed: int = 0
) -> list[Decided]:
    """What the policy decides on the outcomes of `function`, mostly a `script`, one after another.

    Makes one call under the policy, with everything that belongs to it (its listeners, its budget),
    but in virtual time: no wait takes any. A policy that draws from the system's generator draws
    from `Random(seed)` here, so that the same call gives the same trace; one that has an `rng` of
    its own keeps it. Coroutine and generator functions are taken too, outside of event loops.

    The trace ends with the call's `"stop"`, or with the last `"retry"` where the script is over
    before the policy is. What the call returns or raises is not in it.

    >>> from retrykit.testing import decisions, script
    >>> policy = RetryPolicy.on(OSError, attempts=3, backoff=[0.1, 0.5])
    >>> for decided in decisions(policy, script(OSError, OSError, "ok")):
    ...     print(decided)
    Decided(decision='retry', wait=0.1, reason='transient')
    Decided(decision='retry', wait=0.5, reason='transient')
    Decided(decision='stop', wait=None, reason='succeeded')
    """
    if not isinstance(policy, PolicyFactory):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"policy must have new_executor(call), got {shown(policy)}")
    if isinstance(policy, RetryPolicy) and policy.rng is system_rng:
        policy = policy.replace(rng=partial(Random, seed))
    clock = VirtualClock()
    trace = RetryTrace()
    depth: list[int] = []

    def listen(event: Event) -> None:
        # A call that the function itself makes would be a trace of its own.
        depth[:] = depth or [event.depth]
        if event.depth == depth[0]:
            trace(event)

    def adjust(settings: CallSettings) -> CallSettings:
        return replace(settings, clock=clock, listeners=(*settings.listeners, listen))

    with laid(adjust=adjust):
        try:
            _make(policy, function, clock)
        except ScriptError:
            if not _is_over(function):
                raise
            return [decided for decided in trace.decisions if decided.reason != "cancelled"]
        except BaseException as error:
            ended = bool(trace.decisions) and trace.decisions[-1].decision == "stop"
            if not (ended and (isinstance(error, Exception) or _is_scripted(function, error))):
                raise
    return trace.decisions


def _make(policy: PolicyFactory, function: Callable[..., Any], clock: VirtualClock) -> None:
    """Make the call, whatever form it has, and see its items through."""
    form = form_of(function)
    if form not in (PLAIN, GENERATOR) and in_event_loop():
        raise RuntimeError("decisions runs an event loop of its own: call it outside of another")
    made = start(form, policy, Call(function), function, (), {})
    if form == GENERATOR:
        for _ in made:
            pass
    elif form == ASYNC_GENERATOR or iscoroutine(made):
        import asyncio

        with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
            runner.run(made if iscoroutine(made) else _see_through(made))


async def _see_through(items: AsyncGenerator[Any, Any]) -> None:
    async for _ in items:
        pass


def _steps_of(function: Any) -> Steps | None:
    """The script that a function is, or is a form of."""
    owner = getattr(function, "__self__", function)
    return owner if isinstance(owner, Steps) else None


def _is_over(function: Any) -> bool:
    steps = _steps_of(function)
    return steps is not None and len(steps.calls) > len(steps.steps)


def _is_scripted(function: Any, error: BaseException) -> bool:
    """Whether a script was told to raise this; an interrupt, say, may also be a real one."""
    steps = _steps_of(function)
    if steps is None or not steps.calls or _is_over(function):
        return False
    step = steps.steps[len(steps.calls) - 1]
    if isinstance(step, Slow):
        step = step.outcome
    if isinstance(step, Raised):
        step = step.error
    return error is step or type(error) is step


class Between(NamedTuple):
    """An interval that a wait may lie in, both ends included, in seconds."""

    low: float
    high: float

    def __repr__(self) -> str:
        return f"Between({self.low!r}, {self.high!r})"


Waits: TypeAlias = "RetryTrace | Iterable[Decided | float]"
Expected: TypeAlias = "float | tuple[float, float]"


def assert_waits(trace: Waits, expected: Iterable[Expected]) -> None:
    """Assert that the waits of a trace are those expected, each an interval or exact.

    Takes what `decisions` gives, a `RetryTrace`, or a plain list of seconds, such as a clock's
    `sleeps`; a stop has no wait. Expected is a number (met to nine digits) or an interval: a
    `Between`, a pair, or what `policy.delay_bounds(n)` gives. Raises an `AssertionError` that sets
    both side by side.

    >>> assert_waits([0.07, 1.0], [Between(0, 0.1), 1.0])
    >>> assert_waits([0.07, 1.5], [Between(0, 0.1), 1.0])
    Traceback (most recent call last):
        ...
    AssertionError: the waits are not those expected
      wait 1: 0.07, between 0 and 0.1
      wait 2: 1.5, not 1.0: 0.5 s too long  <--
    """
    waits = trace.waits if isinstance(trace, RetryTrace) else _waits_in(trace)
    wanted = list(expected)
    for index, each in enumerate(wanted):
        _check_expected(index, each)
    lines = [
        _compared(index, wait, want)
        for index, (wait, want) in enumerate(zip_longest(waits, wanted), start=1)
    ]
    if any(line.endswith(_WRONG) for line in lines):
        raise AssertionError("\n".join(["the waits are not those expected", *lines]))


_WRONG = "  <--"


def _waits_in(trace: Iterable[Decided | float]) -> list[float]:
    waits: list[float] = []
    for each in trace:
        wait = each.wait if isinstance(each, Decided) else each
        if wait is not None:
            waits.append(number("wait", wait))
    return waits


def _check_expected(index: int, want: Expected) -> None:
    field = f"expected[{index}]"
    if not isinstance(want, tuple):
        number(field, want)
    elif len(want) != 2 or number(field, want[0]) > number(field, want[1]):
        raise ValueError(f"{field} must be a low and a high, got {shown(want)}")


def _compared(index: int, wait: float | None, want: Expected | None) -> str:
    if want is None:
        return f"  wait {index}: {wait!r}, and none is expected{_WRONG}"
    low, high = want if isinstance(want, tuple) else (want, want)
    told = f"between {low!r} and {high!r}" if isinstance(want, tuple) else repr(want)
    if wait is None:
        return f"  wait {index}: none, and {told} is expected{_WRONG}"
    if low <= wait <= high or _is_near(wait, low) or _is_near(wait, high):
        return (
            f"  wait {index}: {wait!r}, {told}"
            if isinstance(want, tuple)
            else f"  wait {index}: {wait!r}"
        )
    off = f"{low - wait:g} s too short" if wait < low else f"{wait - high:g} s too long"
    return f"  wait {index}: {wait!r}, not {told}: {off}{_WRONG}"


def _is_near(wait: float, edge: float) -> bool:
    return math.isclose(wait, edge, rel_tol=1e-9, abs_tol=1e-9)
