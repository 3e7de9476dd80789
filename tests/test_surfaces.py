"""Every form of a call, on every kind of runner, gives one and the same trace of events and waits.

This is what keeps the drivers from drifting apart: each scenario is written down once, with the
whole stream of events that it must give, and is then run through every form.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from retrykit import (
    Attempt,
    Call,
    Constant,
    DoNotRetry,
    Never,
    OnException,
    OnResult,
    Raised,
    RatioBudget,
    RetriesExhausted,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    Returned,
    Schedule,
    ServerDelay,
    StopReason,
    retry,
    with_policy,
)
from retrykit.events import (
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)
from retrykit.testing import VirtualClock


class Interrupt:
    """Stands for a cancel (async) or an interrupt (blocking) where a script or a clock has it."""


INTERRUPT = Interrupt()
CANCELLED = "cancelled"


class Clock(VirtualClock):
    """A virtual clock that is interrupted in its n-th wait."""

    def __init__(self, interrupted_at: int | None) -> None:
        super().__init__()
        self.interrupted_at = interrupted_at
        self.waits: list[float] = []

    def sleep(self, seconds: float, /) -> None:
        self.waits.append(round(seconds, 6))
        if len(self.waits) == self.interrupted_at:
            raise KeyboardInterrupt
        super().sleep(seconds)

    async def sleep_async(self, seconds: float, /) -> None:
        self.waits.append(round(seconds, 6))
        if len(self.waits) == self.interrupted_at:
            await interrupt_async()
        await super().sleep_async(seconds)


async def interrupt_async() -> None:
    """Be cancelled, in the runner's own way."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        raise asyncio.CancelledError from None
    OUTER[-1].cancel()
    await trio.lowlevel.checkpoint()


OUTER: list[trio.CancelScope] = []


class Emptied(RatioBudget):
    """A budget with nothing left."""

    def withdraw(self, call: Call, reason: RetryReason, /) -> float | None:
        return None


class Asked(Exception):
    """An error that asks for a wait."""

    def __init__(self, after: float) -> None:
        self.after = after


def on_asked(attempt: Attempt) -> RetryAfter | None:
    error = attempt.error
    return RetryAfter(error.after, RetryReason.THROTTLED) if isinstance(error, Asked) else None


def broken(*_: object) -> Any:
    raise LookupError("this part is broken")


def no_number(*_: object) -> Any:
    return float("nan")


def reset() -> ConnectionResetError:
    return ConnectionResetError("reset")


@dataclass(frozen=True)
class Scenario:
    """What the attempts come to, under which fields, and what must be told of it."""

    name: str
    script: list[Any]
    told: list[str]
    end: Any
    fields: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    """How long each attempt takes."""
    interrupted_at: int | None = None
    by_hand: bool = True
    """Whether an executor that is asked by hand can show it: an interrupt is the driver's."""


RESET = OnException(ConnectionError, reason=RetryReason.CONNECTION_FAILED)
POLLED = OnResult(lambda value: value == "pending")
BASE: dict[str, Any] = {"classify": RESET, "attempts": 3, "backoff": [1, 2, 4]}


def started(n: int) -> str:
    return f"{n} started"


def retried(
    n: int,
    wait: float,
    error: str = "ConnectionResetError",
    reason: str = "connection_failed",
    source: str = "backoff",
) -> list[str]:
    return [
        f"{n} started",
        f"{n} failed {error}",
        f"{n} retry {reason} after {wait:g} by {source}",
    ]


def ended(n: int, how: str, error: str = "ConnectionResetError") -> list[str]:
    return [f"{n} started", f"{n} failed {error}", f"{n} {how}"]


SCENARIOS = [
    Scenario("first try", ["done"], [started(1), "1 succeeded"], "done", BASE),
    Scenario(
        "third try",
        [reset, reset, "done"],
        [*retried(1, 1), *retried(2, 2), started(3), "3 succeeded"],
        "done",
        BASE,
    ),
    Scenario(
        "exhausted",
        [reset, reset, reset],
        [*retried(1, 1), *retried(2, 2), *ended(3, "gave up attempts_exhausted")],
        ConnectionResetError,
        BASE,
    ),
    Scenario(
        "not retryable",
        [lambda: KeyError("k")],
        ended(1, "failed not_retryable", "KeyError"),
        KeyError,
        BASE,
    ),
    Scenario(
        "forbidden",
        [reset, lambda: BrokenPipeError("gone")],
        [*retried(1, 1), *ended(2, "failed forbidden", "BrokenPipeError")],
        BrokenPipeError,
        {**BASE, "classify": Never(BrokenPipeError) | RESET},
    ),
    Scenario(
        "polled result",
        ["pending", "pending", "done"],
        [
            *retried(1, 1, "None", "unsatisfactory"),
            *retried(2, 2, "None", "unsatisfactory"),
            started(3),
            "3 succeeded",
        ],
        "done",
        {**BASE, "classify": POLLED | RESET},
    ),
    Scenario(
        "unsatisfied raise",
        ["pending", "pending"],
        [
            *retried(1, 1, "None", "unsatisfactory"),
            *ended(2, "gave up attempts_exhausted", "None"),
        ],
        RetriesExhausted,
        {**BASE, "classify": POLLED, "attempts": 2},
    ),
    Scenario(
        "unsatisfied return",
        ["pending", "pending"],
        [
            *retried(1, 1, "None", "unsatisfactory"),
            *ended(2, "gave up attempts_exhausted", "None"),
        ],
        "pending",
        {**BASE, "classify": POLLED, "attempts": 2, "unsatisfied": "return"},
    ),
    Scenario(
        "final value",
        ["bad"],
        ended(1, "failed forbidden", "None"),
        "bad",
        {**BASE, "classify": lambda attempt: DoNotRetry(StopReason.FORBIDDEN)},
    ),
    Scenario(
        "deadline before a wait",
        [reset, reset],
        [*retried(1, 1), *ended(2, "gave up deadline_exceeded")],
        ConnectionResetError,
        {**BASE, "deadline": 3.5},
        seconds=0.5,
    ),
    Scenario(
        "server delay honoured",
        [lambda: Asked(7), "done"],
        [*retried(1, 7, "Asked", "throttled", "server"), started(2), "2 succeeded"],
        "done",
        {**BASE, "classify": on_asked, "server_delay": ServerDelay(spread=0)},
    ),
    Scenario(
        "server delay over the limit",
        [lambda: Asked(61)],
        ended(1, "gave up server_delay_too_long", "Asked"),
        Asked,
        {**BASE, "classify": on_asked},
    ),
    Scenario(
        "budget empty",
        [reset],
        ended(1, "gave up budget_exhausted"),
        ConnectionResetError,
        {**BASE, "budget": Emptied()},
    ),
    Scenario(
        "backoff that ends",
        [reset, reset],
        [*retried(1, 1), *ended(2, "gave up backoff_exhausted")],
        ConnectionResetError,
        {**BASE, "backoff": Schedule(1)},
    ),
    Scenario(
        "limit per reason",
        [reset, reset],
        [*retried(1, 1), *ended(2, "gave up reason_exhausted")],
        ConnectionResetError,
        {**BASE, "limits": {RetryReason.CONNECTION_FAILED: 1}},
    ),
    Scenario(
        "stop_when",
        [reset],
        ended(1, "gave up stopped"),
        ConnectionResetError,
        {**BASE, "stop_when": lambda: True},
    ),
    Scenario(
        "cancel in an attempt",
        [reset, INTERRUPT],
        [*retried(1, 1), started(2), "2 cancelled"],
        CANCELLED,
        BASE,
        by_hand=False,
    ),
    Scenario(
        "cancel in a wait",
        [reset, reset],
        [*retried(1, 1), *retried(2, 2), "2 cancelled"],
        CANCELLED,
        BASE,
        interrupted_at=2,
        by_hand=False,
    ),
    Scenario(
        "classifier that raises",
        [reset],
        ended(1, "gave up strategy_failed"),
        ConnectionResetError,
        {**BASE, "classify": broken},
    ),
    Scenario(
        "classifier that raises on a value",
        ["done"],
        ended(1, "gave up strategy_failed", "None"),
        "done",
        {**BASE, "classify": broken},
    ),
    Scenario(
        "classifier that answers nonsense",
        [reset],
        ended(1, "gave up strategy_failed"),
        ConnectionResetError,
        {**BASE, "classify": lambda attempt: True},
    ),
    Scenario(
        "server delay that is no number",
        [lambda: Asked(7)],
        ended(1, "gave up strategy_failed", "Asked"),
        Asked,
        {**BASE, "classify": on_asked, "server_delay": no_number},
    ),
    Scenario(
        "stop_when that raises",
        [reset],
        ended(1, "gave up strategy_failed"),
        ConnectionResetError,
        {**BASE, "stop_when": broken},
    ),
    Scenario(
        "exception group of transient errors",
        [lambda: ExceptionGroup("two", [reset(), Asked(9)]), "done"],
        [*retried(1, 9, "ExceptionGroup", "throttled", "server"), started(2), "2 succeeded"],
        "done",
        {**BASE, "classify": RESET | on_asked, "server_delay": ServerDelay(spread=0)},
    ),
    Scenario(
        "exception group with one fatal leaf",
        [lambda: ExceptionGroup("two", [reset(), KeyError("k")])],
        ended(1, "failed not_retryable", "ExceptionGroup"),
        ExceptionGroup,
        BASE,
    ),
]


class Script:
    """Plays a scenario's attempts, each taking its seconds, and keeps what was done."""

    def __init__(self, scenario: Scenario, clock: VirtualClock) -> None:
        self._steps = iter(scenario.script)
        self._seconds = scenario.seconds
        self._clock = clock
        self.attempts = 0

    def _outcome(self, step: Any) -> Any:
        if callable(step):
            raise step()
        return step

    def __call__(self) -> Any:
        self.attempts += 1
        step = next(self._steps)
        if self._seconds:
            self._clock.spend(self._seconds)
        if step is INTERRUPT:
            raise KeyboardInterrupt
        return self._outcome(step)

    async def run(self) -> Any:
        self.attempts += 1
        step = next(self._steps)
        if self._seconds:
            await self._clock.spend_async(self._seconds)
        if step is INTERRUPT:
            await interrupt_async()
        return self._outcome(step)


class Listener:
    """Writes each event down in a line."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, event: Any) -> None:
        match event:
            case AttemptStarted():
                line = "started"
            case AttemptFailed():
                line = f"failed {event.error_type}"
            case RetryScheduled():
                line = f"retry {event.reason} after {event.delay:g} by {event.source}"
            case CallSucceeded():
                line = "succeeded"
            case CallFailed():
                line = f"failed {event.reason}"
            case CallGaveUp():
                line = f"gave up {event.reason}"
            case CallCancelled():
                line = "cancelled"
        self.told.append(f"{event.number} {line}")


def raising_listener(event: Any) -> None:
    raise OSError("this listener is broken")


# The forms: each makes one call under the policy and returns what it gives.


def by_decorator(policy: RetryPolicy, script: Script) -> Any:
    @retry(policy=policy)
    def function() -> Any:
        return script()

    return function()


def by_method(policy: RetryPolicy, script: Script) -> Any:
    class Holder:
        @retry(policy=policy)
        def method(self) -> Any:
            return script()

    return Holder().method()


def by_class_method(policy: RetryPolicy, script: Script) -> Any:
    class Holder:
        @retry(policy=policy)
        @classmethod
        def method(cls) -> Any:
            return script()

    return Holder.method()


def by_unbound_method(policy: RetryPolicy, script: Script) -> Any:
    class Holder:
        @retry(policy=policy)
        def method(self) -> Any:
            return script()

    return Holder.method(Holder())


def by_resolved_policy(policy: RetryPolicy, script: Script) -> Any:
    @retry(policy=lambda call: policy)
    def function() -> Any:
        return script()

    return function()


def by_other_policy(policy: RetryPolicy, script: Script) -> Any:
    @retry
    def function() -> Any:
        return script()

    return with_policy(function, policy)()


def by_call(policy: RetryPolicy, script: Script) -> Any:
    return policy.call(script)


def by_generator(policy: RetryPolicy, script: Script) -> Any:
    @retry(policy=policy)
    def function() -> Any:
        yield script()

    (value,) = function()
    return value


def by_block(policy: RetryPolicy, script: Script) -> Any:
    value = None
    for attempt in policy:
        with attempt:
            value = script()
            attempt.set_result(value)
    return value


async def by_async_decorator(policy: RetryPolicy, script: Script) -> Any:
    @retry(policy=policy)
    async def function() -> Any:
        return await script.run()

    return await function()


async def by_async_method(policy: RetryPolicy, script: Script) -> Any:
    class Holder:
        @retry(policy=policy)
        async def method(self) -> Any:
            return await script.run()

    return await Holder().method()


async def by_async_class_method(policy: RetryPolicy, script: Script) -> Any:
    class Holder:
        @classmethod
        @retry(policy=policy)
        async def method(cls) -> Any:
            return await script.run()

    return await Holder.method()


async def by_lambda(policy: RetryPolicy, script: Script) -> Any:
    return await retry(policy=policy)(lambda: script.run())()


async def by_acall(policy: RetryPolicy, script: Script) -> Any:
    return await policy.acall(script.run)


async def by_async_generator(policy: RetryPolicy, script: Script) -> Any:
    @retry(policy=policy)
    async def function() -> Any:
        yield await script.run()

    (value,) = [value async for value in function()]
    return value


async def by_async_block(policy: RetryPolicy, script: Script) -> Any:
    value = None
    async for attempt in policy:
        with attempt:
            value = await script.run()
            attempt.set_result(value)
    return value


BLOCKING = [
    by_decorator,
    by_method,
    by_class_method,
    by_unbound_method,
    by_resolved_policy,
    by_other_policy,
    by_call,
    by_generator,
    by_block,
]
ASYNC = [
    by_async_decorator,
    by_async_method,
    by_async_class_method,
    by_lambda,
    by_acall,
    by_async_generator,
    by_async_block,
]


def on_blocking(form: Callable[..., Any], policy: RetryPolicy, script: Script, clock: Clock) -> Any:
    try:
        return form(policy, script)
    except KeyboardInterrupt:
        return CANCELLED
    except Exception as error:
        return error


def on_asyncio(form: Callable[..., Any], policy: RetryPolicy, script: Script, clock: Clock) -> Any:
    async def main() -> Any:
        try:
            return await form(policy, script)
        except asyncio.CancelledError:
            return CANCELLED
        except Exception as error:
            return error

    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        return runner.run(main())


def on_trio(form: Callable[..., Any], policy: RetryPolicy, script: Script, clock: Clock) -> Any:
    async def main() -> Any:
        with trio.CancelScope() as scope:
            OUTER.append(scope)
            try:
                return await form(policy, script)
            except Exception as error:
                return error
            finally:
                OUTER.pop()
        return CANCELLED

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


SURFACES = [
    *[pytest.param(on_blocking, form, id=f"blocking-{form.__name__}") for form in BLOCKING],
    *[pytest.param(on_asyncio, form, id=f"asyncio-{form.__name__}") for form in ASYNC],
    *[pytest.param(on_trio, form, id=f"trio-{form.__name__}") for form in ASYNC],
]


def matches(end: Any, wanted: Any) -> bool:
    return isinstance(end, wanted) if isinstance(wanted, type) else end == wanted


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize(("runner", "form"), SURFACES)
def test_every_form_tells_the_same(
    runner: Callable[..., Any], form: Callable[..., Any], scenario: Scenario
) -> None:
    """The events, the waits and the end are those that the scenario names."""
    clock = Clock(scenario.interrupted_at)
    listener = Listener()
    policy = RetryPolicy(**scenario.fields, clock=clock, listeners=(listener,))
    script = Script(scenario, clock)

    end = runner(form, policy, script, clock)

    assert listener.told == scenario.told
    assert clock.waits == [
        float(line.split(" after ")[1].split()[0]) for line in scenario.told if " after " in line
    ]
    assert script.attempts == sum(line.endswith("started") for line in scenario.told)
    assert matches(end, scenario.end), end


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize(("runner", "form"), SURFACES)
def test_a_listener_that_raises_changes_nothing(
    runner: Callable[..., Any], form: Callable[..., Any], scenario: Scenario
) -> None:
    """The events, the waits and the end stay the same, and later listeners are told."""
    clock = Clock(scenario.interrupted_at)
    listener = Listener()
    policy = RetryPolicy(**scenario.fields, clock=clock, listeners=(raising_listener, listener))

    end = runner(form, policy, Script(scenario, clock), clock)

    assert listener.told == scenario.told
    assert matches(end, scenario.end), end


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.by_hand], ids=lambda scenario: scenario.name
)
def test_an_executor_asked_by_hand_decides_the_same(scenario: Scenario) -> None:
    """`new_executor(call).decide(attempt)` gives the waits and the reasons that the forms show."""
    policy = RetryPolicy(**scenario.fields)
    call = Call(broken)
    executor = policy.new_executor(call)
    elapsed = 0.0
    told = []
    for number, step in enumerate(scenario.script, start=1):
        elapsed += scenario.seconds
        outcome = Raised(step()) if callable(step) else Returned(step)
        decision = executor.decide(Attempt(call, number, outcome, elapsed))
        if isinstance(decision, RetryAfter):
            told.append(f"{number} retry {decision.reason} after {decision.delay:g}")
            elapsed += decision.delay
        else:
            told.append(f"{number} {decision.reason}")
    wanted = [
        line.rpartition(" by ")[0]
        if " by " in line
        else line.replace("gave up ", "").replace("failed ", "")
        for line in scenario.told
        if " retry " in line or line == scenario.told[-1]
    ]
    assert told == wanted


@pytest.mark.parametrize(("runner", "form"), SURFACES)
def test_quiet_calls_take_the_fast_path_to_the_same_end(
    runner: Callable[..., Any], form: Callable[..., Any]
) -> None:
    """With nobody to tell, the prepared closures wait and end as the watched calls do."""
    told: list[Any] = []

    class Ends:
        kinds = frozenset({RetryScheduled, CallFailed, CallGaveUp})

        def __call__(self, event: Any) -> None:
            told.append((type(event).__name__, event.number))

    scenario = Scenario("", [reset, reset, "done"], [], "done")
    clock = Clock(None)
    policy = RetryPolicy(classify=RESET, backoff=Constant(0), listeners=(Ends(),))

    end = runner(form, policy, Script(scenario, clock), clock)

    assert end == "done"
    assert told == [("RetryScheduled", 1), ("RetryScheduled", 2)]


def test_an_event_cuts_a_blocking_wait() -> None:
    """A `threading.Event` at `stop_when` ends a wait on the system's clock at once."""
    stop = threading.Event()
    told: list[Any] = []

    class Scheduled:
        kinds = frozenset({RetryScheduled})

        def __call__(self, event: Any) -> None:
            threading.Timer(0.05, stop.set).start()

    policy = RetryPolicy(
        classify=RESET,
        backoff=Constant(600),
        stop_when=stop,
        listeners=(Scheduled(), lambda event: told.append(type(event))),
    )
    with pytest.raises(ConnectionResetError) as caught:
        policy.call(Script(Scenario("", [reset], [], None), VirtualClock()))
    assert "stopped" in caught.value.__notes__[0]
    assert told[-1] is CallGaveUp


def test_an_event_of_an_event_loop_stops_blocking_code_without_cutting_its_waits() -> None:
    """An `asyncio.Event` cannot be waited on in a thread: it is looked at after the wait."""
    stop = asyncio.Event()
    attempts: list[int] = []

    def step() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            stop.set()
        raise OSError("down")

    policy = RetryPolicy.on(OSError, backoff=[0, 0, 0], stop_when=stop, listeners=())
    with pytest.raises(OSError, match="down") as told:
        policy.call(step)
    assert len(attempts) == 2
    assert "stopped" in told.value.__notes__[-1]
