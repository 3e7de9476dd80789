"""The async driver on asyncio and Trio: cancels, time limits, and never a blocked loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from retrykit import (
    AttemptTimedOut,
    DeadlineExceeded,
    Never,
    OnException,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    current_attempt,
    retry,
)
from retrykit.events import CallCancelled
from retrykit.testing import VirtualClock

ALWAYS: Callable[..., Any] = lambda attempt: RetryAfter(0.0)  # noqa: E731 - a rule that always says yes


def policy_with(clock: VirtualClock, **fields: Any) -> RetryPolicy:
    fields = {"backoff": [0.1] * 20, "listeners": (), **fields}
    return RetryPolicy(clock=clock, **fields)


def on_asyncio(clock: VirtualClock, main: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        return runner.run(main())


def on_trio(clock: VirtualClock, main: Callable[[], Any]) -> Any:
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


RUNNERS = pytest.mark.parametrize("run", [on_asyncio, on_trio])


# Cancels


@pytest.mark.parametrize("fields", [{"classify": ALWAYS}, {"classify": OnException(BaseException)}])
@pytest.mark.parametrize("extra", [{}, {"attempt_timeout": 60}, {"deadline": 60}])
def test_an_outer_timeout_is_not_retried(fields: Any, extra: Any) -> None:
    """jd/tenacity#529, #186: the cancel leaves at once, after one attempt."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, attempts=3, **fields, **extra))
    async def function() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.3)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await function()

    on_asyncio(clock, main)
    assert calls == 1


@pytest.mark.parametrize("extra", [{}, {"attempt_timeout": 60}, {"deadline": 60}])
def test_an_outer_cancel_scope_is_not_retried(extra: Any) -> None:
    """The same on Trio."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, attempts=3, classify=ALWAYS, **extra))
    async def function() -> None:
        nonlocal calls
        calls += 1
        await trio.sleep(0.3)

    async def main() -> bool:
        with trio.move_on_after(0.1) as scope:
            await function()
        return scope.cancelled_caught

    assert on_trio(clock, main)
    assert calls == 1


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass(leaving: type[BaseException]) -> None:
    """aponysus/redress#33, jd/tenacity#661: whatever the rule says, in async code too."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS))
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise leaving

    with pytest.raises(leaving):
        function().send(None)
    assert calls == 1


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass_a_time_limit(leaving: type[BaseException]) -> None:
    """Inside a time limit too, on a real loop."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS, attempt_timeout=60))
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise leaving

    async def main() -> None:
        with pytest.raises(leaving):
            await function()

    on_asyncio(clock, main)
    assert calls == 1


@pytest.mark.parametrize("extra", [{}, {"attempt_timeout": 60}, {"deadline": 60}])
def test_a_cancel_in_the_tick_in_which_the_attempt_finishes_wins(extra: Any) -> None:
    """python/cpython#86296, volcengine/OpenViking#4021."""
    clock = VirtualClock()
    event = asyncio.Event()

    @retry(policy=policy_with(clock, classify=ALWAYS, **extra))
    async def function() -> str:
        await event.wait()
        return "value"

    async def main() -> None:
        task = asyncio.ensure_future(function())
        await asyncio.sleep(0)
        event.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    on_asyncio(clock, main)


def test_a_cancel_that_meets_an_attempt_timeout_stays_a_cancel() -> None:
    """Both at the same instant: the task ends cancelled and nothing is retried."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS, attempt_timeout=1))
    async def function() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.ensure_future(function())
        asyncio.get_running_loop().call_later(1, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    on_asyncio(clock, main)
    assert calls == 1


def test_a_cancel_from_inside_is_not_retried() -> None:
    """aio-libs/aiohttp#8174: an attempt awaits its own child that somebody cancelled."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS))
    async def function() -> None:
        nonlocal calls
        calls += 1
        child = asyncio.ensure_future(asyncio.sleep(10))
        await asyncio.sleep(0)
        child.cancel()
        await child

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await function()

    on_asyncio(clock, main)
    assert calls == 1


def test_a_cancel_in_a_wait_ends_the_call_and_tells_it_once() -> None:
    """The wait is cut, the retry is not made, the budget gets back what was paid."""
    clock = VirtualClock()
    told: list[Any] = []
    settled: list[Any] = []

    class Budget:
        def withdraw(self, call: Any, reason: Any, /) -> float:
            return 1.0

        def settle(self, call: Any, /, **what: Any) -> None:
            settled.append(what)

        def balance(self, call: Any = None, /) -> float:
            return 1.0

    policy = policy_with(
        clock, classify=ALWAYS, backoff=[60], listeners=(told.append,), budget=Budget()
    )

    @retry(policy=policy)
    async def function() -> None:
        raise ConnectionError

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await function()

    on_asyncio(clock, main)
    assert [type(each) for each in told].count(CallCancelled) == 1
    assert isinstance(told[-1], CallCancelled)
    assert settled == [{"succeeded": False, "spent": 0.0, "unused": 1.0}]


@RUNNERS
def test_signals_of_a_framework_are_never_retried(run: Any) -> None:
    """UKGovernmentBEIS/inspect_ai#4702, getsentry/sentry#94580: `Never` comes first."""

    class SkipSignal(Exception):
        pass

    clock = VirtualClock()
    signal = SkipSignal("skip")
    calls = 0

    @retry(policy=policy_with(clock, classify=Never(SkipSignal) | OnException(Exception)))
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise signal

    async def main() -> None:
        with pytest.raises(SkipSignal) as caught:
            await function()
        assert caught.value is signal

    run(clock, main)
    assert calls == 1


# The three time-outs


@RUNNERS
def test_an_attempt_that_takes_too_long_is_cut_and_retried(run: Any) -> None:
    """Even where no classifier has an opinion on it; the last one's error is `AttemptTimedOut`."""
    clock = VirtualClock()
    seen: list[Any] = []

    @retry(
        policy=policy_with(
            clock, classify=OnException(KeyError), attempts=3, attempt_timeout=1, backoff=[1, 1]
        )
    )
    async def function() -> None:
        seen.append((round(clock.now() - began, 3), current_attempt().previous))
        await clock.sleep_async(30)

    began = 0.0

    async def main() -> Exception:
        nonlocal began
        began = clock.now()
        with pytest.raises(AttemptTimedOut) as caught:
            await function()
        assert clock.now() - began == pytest.approx(5)
        return caught.value

    error = run(clock, main)
    assert [each[0] for each in seen] == [0, 2, 4]
    assert isinstance(seen[1][1].error, AttemptTimedOut)
    assert error.timeout == 1
    assert (
        "after 3 attempts in 5.0 s: attempts_exhausted (AttemptTimedOut ×3)" in error.__notes__[0]
    )


@RUNNERS
def test_a_classifier_may_object_to_a_timed_out_attempt(run: Any) -> None:
    """An explicit no counts."""
    clock = VirtualClock()

    @retry(policy=policy_with(clock, classify=Never(TimeoutError), attempt_timeout=1))
    async def function() -> None:
        await clock.sleep_async(30)

    async def main() -> None:
        began = clock.now()
        with pytest.raises(AttemptTimedOut):
            await function()
        assert clock.now() - began == pytest.approx(1)

    run(clock, main)


@RUNNERS
def test_another_calls_timed_out_attempt_is_an_error_like_others(run: Any) -> None:
    """The inner call's own is retried by the inner call; the outer asks its classifier."""
    clock = VirtualClock()
    outer_calls = inner_calls = 0

    @retry(policy=policy_with(clock, classify=OnException(KeyError), attempts=2, attempt_timeout=1))
    async def inner() -> None:
        nonlocal inner_calls
        inner_calls += 1
        await clock.sleep_async(30)

    @retry(policy=policy_with(clock, classify=OnException(KeyError), attempts=3))
    async def outer() -> None:
        nonlocal outer_calls
        outer_calls += 1
        await inner()

    async def main() -> None:
        with pytest.raises(AttemptTimedOut):
            await outer()

    run(clock, main)
    assert (outer_calls, inner_calls) == (1, 2)


@RUNNERS
def test_the_users_own_timeout_error_is_the_users(run: Any) -> None:
    """It comes out as it is, under a time limit too, and is retried only if the policy says so."""
    clock = VirtualClock()
    mine = TimeoutError("mine")
    calls = 0

    @retry(policy=policy_with(clock, classify=OnException(KeyError), attempt_timeout=5, deadline=9))
    async def function() -> None:
        nonlocal calls
        calls += 1
        await clock.sleep_async(1)
        raise mine

    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            await function()
        assert caught.value is mine

    run(clock, main)
    assert calls == 1


def test_an_error_made_of_the_cut_is_the_users() -> None:
    """A function that turns the cut of its attempt into an error of its own raises that one."""
    clock = VirtualClock()

    class Mine(Exception):
        pass

    @retry(policy=policy_with(clock, classify=OnException(KeyError), attempt_timeout=1))
    async def function() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise Mine from None

    async def main() -> None:
        with pytest.raises(Mine):
            await function()
        await asyncio.sleep(0)  # and the task is not left cancelled

    on_asyncio(clock, main)


@RUNNERS
def test_the_deadline_cuts_a_running_attempt(run: Any) -> None:
    """`DeadlineExceeded`, from the last failure; it is never retried by its owner."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS, deadline=5, backoff=[1] * 10))
    async def function() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError(calls)
        await clock.sleep_async(60)

    async def main() -> DeadlineExceeded:
        began = clock.now()
        with pytest.raises(DeadlineExceeded) as caught:
            await function()
        assert clock.now() - began == pytest.approx(5)
        return caught.value

    error = run(clock, main)
    assert calls == 3
    assert isinstance(error, TimeoutError)
    assert isinstance(error.__cause__, ConnectionError)
    assert error.__cause__.args == (2,)
    assert "deadline_exceeded" in error.__notes__[0]


@RUNNERS
def test_the_deadline_cuts_a_first_attempt(run: Any) -> None:
    """There is no failure yet that it could come from."""
    clock = VirtualClock()

    @retry(policy=policy_with(clock, classify=ALWAYS, deadline=5))
    async def function() -> None:
        await clock.sleep_async(60)

    async def main() -> DeadlineExceeded:
        with pytest.raises(DeadlineExceeded) as caught:
            await function()
        return caught.value

    error = run(clock, main)
    assert error.__cause__ is None
    assert error.deadline == 5


@RUNNERS
def test_the_nearer_of_both_limits_cuts(run: Any) -> None:
    """First the attempt's, then what is left until the deadline."""
    clock = VirtualClock()
    seen: list[float | None] = []

    @retry(policy=policy_with(clock, deadline=5, attempt_timeout=2, backoff=[1, 1]))
    async def function() -> None:
        seen.append(current_attempt().remaining)
        await clock.sleep_async(60)

    async def main() -> None:
        with pytest.raises(DeadlineExceeded):
            await function()

    run(clock, main)
    assert seen == [pytest.approx(2), pytest.approx(2)]


@RUNNERS
def test_an_inner_call_sees_the_outer_deadline(run: Any) -> None:
    """googleapis/python-api-core#776, failsafe#234: nothing inside retries past it."""
    clock = VirtualClock()
    seen: list[Any] = []
    middle_calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS, attempts=50, deadline=1000))
    async def inner() -> None:
        seen.append(current_attempt().remaining)
        await clock.sleep_async(2)
        raise ConnectionError

    @retry(policy=policy_with(clock, classify=ALWAYS, attempts=50))
    async def middle() -> None:
        nonlocal middle_calls
        middle_calls += 1
        await inner()

    @retry(policy=policy_with(clock, classify=ALWAYS, deadline=5))
    async def outer() -> None:
        await middle()

    async def main() -> None:
        began = clock.now()
        with pytest.raises((DeadlineExceeded, ConnectionError)):
            await outer()
        assert clock.now() - began <= 5 + 1e-6

    run(clock, main)
    assert middle_calls == 1
    assert seen[0] == pytest.approx(5)
    assert all(0 < each <= 5 for each in seen)


@RUNNERS
def test_an_inner_deadline_is_an_error_to_the_outer_call(run: Any) -> None:
    """A shorter deadline of the inner call's own may well be retried by the outer one."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=OnException(Exception), deadline=1))
    async def inner() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            await clock.sleep_async(60)
        return "value"

    @retry(policy=policy_with(clock, classify=OnException(TimeoutError), deadline=100))
    async def outer() -> str:
        return await inner()

    async def main() -> str:
        return await outer()

    assert run(clock, main) == "value"
    assert calls == 3


@RUNNERS
def test_no_wait_is_begun_that_would_reach_the_deadline(run: Any) -> None:
    """google-cloud-python#9872, ihrwein/backoff#42, failsafe#121: the last error, at once."""
    clock = VirtualClock()

    @retry(policy=policy_with(clock, classify=ALWAYS, deadline=0.3, backoff=[0.25] * 9))
    async def function() -> None:
        raise ConnectionError

    async def main() -> float:
        began = clock.now()
        with pytest.raises(ConnectionError) as caught:
            await function()
        assert "deadline_exceeded" in caught.value.__notes__[0]
        return clock.now() - began

    assert run(clock, main) == pytest.approx(0.25)


# The loop is never blocked


def test_waits_do_not_block_the_loop() -> None:
    """microsoft/kiota-python#505, jina-ai/serve#6243: a heartbeat goes on through real waits."""

    @retry(on=ConnectionError, attempts=3, backoff=[0.1, 0.1], listeners=())
    async def function() -> int:
        if current_attempt().number < 3:
            raise ConnectionError
        return 1

    async def main() -> float:
        gaps: list[float] = []

        async def heartbeat() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.01)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        beating = asyncio.ensure_future(heartbeat())
        await function()
        beating.cancel()
        return len(gaps)

    # A blocked loop would beat once or twice; a slow machine beats less often than asked.
    assert asyncio.run(main()) >= 6


@RUNNERS
def test_tasks_over_one_shared_policy_do_not_steal_attempts(run: Any) -> None:
    """inspect_k8s_sandbox#182, jd/tenacity#93: each loop over it is a call of its own."""
    clock = VirtualClock()
    policy = policy_with(clock, classify=OnException(ConnectionError), attempts=3)
    done: list[int] = []

    async def worker(number: int) -> None:
        async for attempt in policy:
            with attempt:
                await clock.sleep_async(0.01)
                if attempt.number < 3:
                    raise ConnectionError
                done.append(number)

    async def main() -> None:
        if run is on_asyncio:
            await asyncio.gather(*map(worker, range(6)))
            return
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(worker, number)

    run(clock, main)
    assert sorted(done) == [0, 1, 2, 3, 4, 5]


def test_a_zero_wait_still_lets_others_run() -> None:
    """A retry without a wait is a checkpoint: it can be cancelled."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, classify=ALWAYS, attempts=float("inf"), backoff=[0] * 10**6))
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def main() -> None:
        task = asyncio.ensure_future(function())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_asyncio(clock, main)
    assert 5 < calls < 30


def test_neither_runner_is_an_error_that_says_so() -> None:
    """Driven by hand, without a loop, a wait cannot be made: the call's own error comes out."""

    @retry(on=ConnectionError, backoff=[1], listeners=())
    async def function() -> None:
        raise ConnectionError("mine")

    with pytest.raises(ConnectionError, match="mine") as caught:
        function().send(None)
    assert "clock raised RuntimeError" in caught.value.__notes__[0]


def test_policy_call_refuses_a_coroutine_function() -> None:
    """googleapis/python-api-core#543: instead of a bare coroutine, the right spelling."""

    async def function() -> None: ...

    class Async:
        async def __call__(self) -> None: ...

    for each in (function, Async(), retry(function)):
        with pytest.raises(TypeError, match="acall"):
            RetryPolicy().call(each)


def test_acall_takes_what_returns_a_coroutine_and_refuses_generators() -> None:
    """A lambda is driven as async; for a generator function it names `call`."""

    async def function() -> int:
        if current_attempt().number < 2:
            raise ConnectionResetError
        return 1

    policy = RetryPolicy(backoff=[0], listeners=())
    assert asyncio.run(policy.acall(lambda: function())) == 1
    assert asyncio.run(policy.acall(function)) == 1

    def generator() -> Any:
        yield 1

    with pytest.raises(TypeError, match=r"policy\.call"):
        asyncio.run(policy.acall(generator))


@RUNNERS
def test_stop_when_is_asked_after_the_wait(run: Any) -> None:
    """A shutdown that comes in a wait ends the call there, with the last error."""
    clock = VirtualClock()
    calls = 0
    stopping = False

    @retry(policy=policy_with(clock, classify=ALWAYS, stop_when=lambda: stopping, backoff=[5]))
    async def function() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def main() -> None:
        nonlocal stopping

        async def stop() -> None:
            nonlocal stopping
            await clock.sleep_async(1)
            stopping = True

        if run is on_asyncio:
            task = asyncio.ensure_future(stop())
            with pytest.raises(ConnectionError) as caught:
                await function()
            await task
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop)
                with pytest.raises(ConnectionError) as caught:
                    await function()
        assert "stopped" in caught.value.__notes__[0]

    run(clock, main)
    assert calls == 1


def test_reasons_are_timed_out() -> None:
    """A timed-out attempt counts under `TIMED_OUT`, so that `limits` can bound it."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=policy_with(clock, attempt_timeout=1, limits={RetryReason.TIMED_OUT: 1}))
    async def function() -> None:
        nonlocal calls
        calls += 1
        await clock.sleep_async(60)

    async def main() -> None:
        with pytest.raises(AttemptTimedOut):
            await function()

    on_asyncio(clock, main)
    assert calls == 2


class Compiled:
    """The coroutine of a compiled async function: awaitable, and not of Python's own class."""

    def __init__(self, coroutine: Any) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Any:
        return self.coroutine.__await__()


class CompiledFunction:
    """An async function as compilers make it: like a function, with its flag, and no more."""

    def __init__(self, function: Any) -> None:
        self.function = function
        for name in ("__name__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__"):
            setattr(self, name, getattr(function, name))

    def __call__(self, *args: Any) -> Compiled:
        return Compiled(self.function(*args))


@RUNNERS
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("fields", [{}, {"attempt_timeout": 60}])
def test_the_coroutine_of_a_compiled_function_is_awaited_in_each_attempt(
    run: Any, fields: dict[str, Any], direct: bool
) -> None:
    """The function says that it is async, so what it gives is no value, whatever its class."""
    clock = VirtualClock()
    made: list[int] = []

    async def fetch() -> int:
        made.append(1)
        if len(made) < 3:
            raise OSError
        return len(made)

    function: Any = CompiledFunction(fetch)
    policy = RetryPolicy.on(OSError, backoff=[0, 0], listeners=(), **fields)

    async def main() -> Any:
        return await (policy.acall(function) if direct else retry(policy=policy)(function)())

    assert run(clock, main) == 3
