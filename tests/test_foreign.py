"""A foreign policy factory: its executor decides, and the driver adds what is the driver's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    Raised,
    RetriesExhausted,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    Returned,
    StopReason,
    disabled,
    retry,
)
from retrykit._session import Selection
from retrykit.settings import CallSettings
from retrykit.testing import VirtualClock, limit_attempts

YES = RetryAfter(1.0)
SUCCEEDED = DoNotRetry(StopReason.SUCCEEDED)


@dataclass
class Foreign:
    """A factory that is its own executor: it answers from a list and keeps what it was asked."""

    answers: list[Any]
    settings: CallSettings = field(default_factory=CallSettings)
    asked: list[Attempt] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)

    def new_executor(self, call: Call, /) -> Foreign:
        return self

    def decide(self, attempt: Attempt, /) -> Any:
        self.asked.append(attempt)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]

    def ended(self, succeeded: bool) -> None:
        self.ends.append(succeeded)


def blocking(factory: Any, step: Callable[..., Any], *args: Any) -> Any:
    @retry(policy=factory)
    def function(*args: Any) -> Any:
        return step()

    return function(*args)


def on_asyncio(factory: Any, step: Callable[..., Any], *args: Any) -> Any:
    @retry(policy=factory)
    async def function(*args: Any) -> Any:
        return step()

    async def scene() -> Any:
        return await function(*args)

    return asyncio.run(scene())


def on_trio(factory: Any, step: Callable[..., Any], *args: Any) -> Any:
    @retry(policy=factory)
    async def function(*args: Any) -> Any:
        return step()

    return trio.run(function, *args)


def generator(factory: Any, step: Callable[..., Any], *args: Any) -> Any:
    @retry(policy=factory)
    def function(*args: Any) -> Any:
        yield step()

    return next(function(*args))


FORMS = pytest.mark.parametrize("form", [blocking, on_asyncio, on_trio, generator])


class Steps:
    """What the attempts come to, each taking so many seconds of the clock."""

    def __init__(self, clock: VirtualClock, *outcomes: Any, seconds: float = 0.0) -> None:
        self.outcomes = outcomes
        self.clock = clock
        self.seconds = seconds
        self.made = 0

    def __call__(self) -> Any:
        self.made += 1
        self.clock.advance(self.seconds)
        outcome = self.outcomes[min(self.made, len(self.outcomes)) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def quiet(clock: VirtualClock, **fields: Any) -> CallSettings:
    return CallSettings(clock=clock, listeners=(), **fields)


@FORMS
def test_it_is_asked_about_every_attempt_and_its_wait_is_slept(
    form: Any, clock: VirtualClock
) -> None:
    """Errors and values, with numbers and times; the delay it answers is the wait itself."""
    error = KeyError("k")
    factory = Foreign([RetryAfter(2.0), RetryAfter(3.0), SUCCEEDED], quiet(clock))
    wall = clock.wall()
    assert form(factory, Steps(clock, error, "pending", "done", seconds=0.5)) == "done"
    assert [each.number for each in factory.asked] == [1, 2, 3]
    assert [each.outcome for each in factory.asked] == [
        Raised(error),
        Returned("pending"),
        Returned("done"),
    ]
    assert [each.elapsed for each in factory.asked] == [0.5, 3.0, 6.5]
    assert [each.wall for each in factory.asked] == [wall + 0.5, wall + 3.0, wall + 6.5]
    assert clock.sleeps == [2.0, 3.0]
    assert factory.ends == [True]


@FORMS
@pytest.mark.parametrize(
    ("answer", "outcome", "ended"),
    [
        (SUCCEEDED, "value", True),
        (DoNotRetry(StopReason.FORBIDDEN), "value", False),
        (DoNotRetry(StopReason.NOT_RETRYABLE), KeyError("k"), False),
        (DoNotRetry(StopReason.SUCCEEDED), KeyError("k"), False),
        (DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED), KeyError("k"), False),
    ],
    ids=repr,
)
def test_its_end_is_told_once(
    form: Any, clock: VirtualClock, answer: Any, outcome: Any, ended: bool
) -> None:
    """A value that it calls final is returned, an error is raised; only `SUCCEEDED` is success."""
    factory = Foreign([answer], quiet(clock))
    step = Steps(clock, outcome)
    if isinstance(outcome, Exception):
        with pytest.raises(KeyError):
            form(factory, step)
    else:
        assert form(factory, step) == outcome
    assert factory.ends == [ended]


@FORMS
def test_a_value_that_it_gives_up_on_is_exhausted(form: Any, clock: VirtualClock) -> None:
    """A limit of its own is a limit."""
    factory = Foreign([DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)], quiet(clock))
    with pytest.raises(RetriesExhausted) as told:
        form(factory, Steps(clock, "pending"))
    assert (told.value.value, told.value.reason) == ("pending", StopReason.ATTEMPTS_EXHAUSTED)


@FORMS
def test_an_executor_may_lack_ended(form: Any, clock: VirtualClock) -> None:
    """It is optional."""

    class Lean:
        settings = quiet(clock)

        def new_executor(self, call: Call, /) -> Any:
            return self

        def decide(self, attempt: Attempt, /) -> Any:
            return SUCCEEDED if attempt.error is None else YES

    assert form(Lean(), Steps(clock, KeyError(), "done")) == "done"


@FORMS
def test_a_broken_ended_takes_nothing_from_the_user(
    form: Any, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the value comes out."""

    class Broken(Foreign):
        def ended(self, succeeded: bool) -> None:
            raise LookupError("broken")

    assert form(Broken([SUCCEEDED], quiet(clock)), Steps(clock, "value")) == "value"
    assert "its executor failed" in caplog.text


# What the driver adds


def note_on(error: Exception) -> str:
    return "".join(getattr(error, "__notes__", ()))


def begun_generator() -> Any:
    used = (each for each in "ab")
    next(used)
    return used


LIMITS: list[tuple[StopReason, dict[str, Any], Any, int | None]] = [
    (StopReason.STOPPED, {"stop_when": lambda: True}, None, None),
    (StopReason.NOT_REPLAYABLE, {}, begun_generator, None),
    (StopReason.ATTEMPTS_EXHAUSTED, {}, None, 1),
    (StopReason.DEADLINE_EXCEEDED, {"deadline": 1.5}, None, None),
]


@FORMS
@pytest.mark.parametrize("first", range(len(LIMITS)))
@pytest.mark.parametrize("second", range(len(LIMITS)))
def test_the_drivers_limits_hold_for_it_too_in_the_same_order(
    form: Any, clock: VirtualClock, first: int, second: int
) -> None:
    """Its yes is stopped by `stop_when`, used-up arguments, a cap on attempts, the deadline."""
    fields: dict[str, Any] = {}
    arguments: list[Any] = []
    most = 99
    for reason, more, argument, cap in (LIMITS[first], LIMITS[second]):
        fields.update(more)
        if argument is not None:
            arguments.append(argument())
        most = most if cap is None else cap
        assert reason
    error = KeyError()
    factory = Foreign([YES], quiet(clock, **fields))
    step = Steps(clock, error, seconds=0.5)
    with limit_attempts(most), pytest.raises(KeyError):
        form(factory, step, *arguments)
    assert step.made == 1
    assert clock.sleeps == []
    assert f": {LIMITS[min(first, second)][0]} " in note_on(error)
    assert factory.ends == [False]


@FORMS
@pytest.mark.parametrize(("deadline", "made"), [(1.5, 1), (1.500001, 2), (3.0, 2), (3.1, 3)])
def test_a_wait_that_reaches_the_deadline_is_not_begun(
    form: Any, clock: VirtualClock, deadline: float, made: int
) -> None:
    """Reached exactly is reached, counted from the call's start."""
    clock.advance(100.0)
    factory = Foreign([YES], quiet(clock, deadline=deadline))
    step = Steps(clock, *[KeyError() for _ in range(9)], seconds=0.5)
    with pytest.raises(KeyError):
        form(factory, step)
    assert step.made == made


@FORMS
def test_its_no_is_not_asked_any_further(form: Any, clock: VirtualClock) -> None:
    """`stop_when` is for what would be retried."""
    factory = Foreign([DoNotRetry()], quiet(clock, stop_when=broken))
    with pytest.raises(KeyError) as told:
        form(factory, Steps(clock, KeyError()))
    assert note_on(told.value) == ""


def broken(*_: object) -> Any:
    raise LookupError("broken")


@FORMS
def test_a_broken_stop_when_ends_the_call(form: Any, clock: VirtualClock) -> None:
    """As `STRATEGY_FAILED`, told on the user's own error."""
    with pytest.raises(KeyError) as told:
        form(Foreign([YES], quiet(clock, stop_when=broken)), Steps(clock, KeyError()))
    assert "strategy_failed" in note_on(told.value)
    assert "raised LookupError" in note_on(told.value)


@FORMS
def test_where_retries_are_off_it_is_not_asked(form: Any, clock: VirtualClock) -> None:
    """One attempt, no note; but it is told of the end."""
    for outcome, ended in (("value", True), (KeyError(), False)):
        factory = Foreign([YES], quiet(clock))
        with disabled():
            if ended:
                assert form(factory, Steps(clock, outcome)) == outcome
            else:
                with pytest.raises(KeyError) as told:
                    form(factory, Steps(clock, outcome))
                assert note_on(told.value) == ""
        assert factory.asked == []
        assert factory.ends == [ended]


# stop_when after a wait: for policies of our own and foreign ones


def own(clock: VirtualClock, **fields: Any) -> Any:
    return RetryPolicy.on(KeyError, backoff=[1] * 9, clock=clock, listeners=(), **fields)


def foreign(clock: VirtualClock, **fields: Any) -> Any:
    return Foreign([YES], quiet(clock, **fields))


@FORMS
@pytest.mark.parametrize("make", [own, foreign])
def test_stop_when_is_asked_after_each_wait_too(form: Any, make: Any, clock: VirtualClock) -> None:
    """What says stop in the wait keeps the next attempt from being made."""
    answers = iter([False, True])
    step = Steps(clock, KeyError())
    with pytest.raises(KeyError) as told:
        form(make(clock, stop_when=lambda: next(answers)), step)
    assert step.made == 1
    assert clock.sleeps == [1.0]
    assert ": stopped " in note_on(told.value)


@FORMS
@pytest.mark.parametrize("make", [own, foreign])
def test_stop_when_that_breaks_after_a_wait(form: Any, make: Any, clock: VirtualClock) -> None:
    """The last outcome stands, and tells what happened."""
    answers = iter([lambda: False, broken])
    step = Steps(clock, KeyError())
    with pytest.raises(KeyError) as told:
        form(make(clock, stop_when=lambda: next(answers)()), step)
    assert step.made == 1
    assert "stop_when raised LookupError" in note_on(told.value)


@FORMS
@pytest.mark.parametrize("make", [own, foreign])
def test_a_wait_that_came_out_longer_may_pass_the_deadline(form: Any, make: Any) -> None:
    """No attempt starts after it, whatever the clock did in between."""

    class Late(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            super().sleep(seconds + 9)

        async def sleep_async(self, seconds: float, /) -> None:
            await super().sleep_async(seconds + 9)

    clock = Late()
    step = Steps(clock, KeyError())
    with pytest.raises(KeyError) as told:
        form(make(clock, deadline=5), step)
    assert step.made == 1
    assert ": deadline_exceeded " in note_on(told.value)


@FORMS
@pytest.mark.parametrize("make", [own, foreign])
def test_an_event_stops_a_call_in_its_wait(form: Any, make: Any, clock: VirtualClock) -> None:
    """It is looked at when the wait is over."""
    event = threading.Event()

    class Setting(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            event.set()
            super().sleep(seconds)

        async def sleep_async(self, seconds: float, /) -> None:
            event.set()
            await super().sleep_async(seconds)

    setting = Setting()
    step = Steps(setting, KeyError())
    with pytest.raises(KeyError):
        form(make(setting, stop_when=event), step)
    assert step.made == 1


# In the block form, through a policy class of a user's own


class Deciding(RetryPolicy):
    """Its executor is a foreign one."""

    def new_executor(self, call: Call, /) -> Any:
        return EXECUTORS[-1]


EXECUTORS: list[Any] = []


@pytest.mark.parametrize("value", [None, "shown"])
def test_a_block_that_ends_well_is_shown_to_it(clock: VirtualClock, value: Any) -> None:
    """With the value that the block set, if any."""
    EXECUTORS.append(Foreign([YES, SUCCEEDED]))
    made = 0
    for attempt in Deciding(clock=clock, listeners=()):
        with attempt:
            made += 1
            if value is not None:
                attempt.set_result(value)
    executor = EXECUTORS.pop()
    assert made == 2
    assert [each.outcome for each in executor.asked] == [Returned(value)] * 2
    assert executor.ends == [True]


def test_reasons_of_its_own_are_told_as_they_are(clock: VirtualClock) -> None:
    """In the history of what was exhausted."""
    answers = [RetryAfter(0.0, RetryReason.CONFLICT), DoNotRetry(StopReason.REASON_EXHAUSTED)]
    with pytest.raises(RetriesExhausted) as told:
        blocking(Foreign(answers, quiet(clock)), Steps(clock, "pending"))
    assert [(each.number, each.reason) for each in told.value.history] == [
        (1, RetryReason.CONFLICT),
        (2, StopReason.REASON_EXHAUSTED),
    ]


# Odd shapes


class Tenants:
    """A factory with methods and properties of its own that mean nothing to the library."""

    def policy_for(self, tenant: str) -> RetryPolicy:
        return {"a": RetryPolicy.on(OSError, backoff=[1, 1], listeners=())}[tenant]

    @property
    def settings(self) -> Any:
        raise LookupError("no settings yet")

    def new_executor(self, call: Call, /) -> Any:
        return self.policy_for(call.args[0]).new_executor(call)


@FORMS
def test_a_factory_may_have_whatever_else_it_likes(
    form: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own `policy_for` is not called, and `settings` that cannot be read are the default."""

    def step() -> str:
        return "value"

    assert form(Tenants(), step, "a") == "value"
    assert caplog.messages == ["the settings of a policy factory failed"]


class Awaiting:
    """An executor that has to be awaited."""

    def new_executor(self, call: Call, /) -> Awaiting:
        return self

    async def decide(self, attempt: Attempt, /) -> Any: ...


@FORMS
def test_an_async_executor_costs_the_retries_and_nothing_else(form: Any) -> None:
    """It is never asked, so nothing is left that was never awaited."""

    def step() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        form(Awaiting(), step)
    assert "decide must be a plain method" in caught.value.__notes__[0]


# Factories that hand each call on to another one


class Selecting(Selection):
    """Chooses by the call's first argument."""

    def policy_for(self, call: Call, /) -> Any:
        return CHOSEN[-1]

    def new_executor(self, call: Call, /) -> Any:
        raise AssertionError("the chosen one is asked")


CHOSEN: list[Any] = []


@FORMS
def test_a_selection_is_asked_for_each_calls_factory(form: Any, clock: VirtualClock) -> None:
    """And the settings are the chosen one's."""
    error = KeyError("k")
    factory = Foreign([RetryAfter(2.0), SUCCEEDED], quiet(clock))
    CHOSEN.append(factory)
    assert form(Selecting(), Steps(clock, error, "done"), "somebody") == "done"
    CHOSEN.pop()
    assert [each.outcome for each in factory.asked] == [Raised(error), Returned("done")]
    assert clock.sleeps == [2.0]


def test_a_selection_without_a_choice_says_so() -> None:
    """It is for subclasses to make."""
    with pytest.raises(NotImplementedError):
        Selection().policy_for(Call(print))
