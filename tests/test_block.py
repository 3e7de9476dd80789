"""The block form: `for attempt in policy:` and `with attempt:` inside."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from typing import Any

import pytest

from retrykit import OnResult, RetryPolicy, StopReason, current_attempt
from retrykit.events import CallCancelled, CallGaveUp, CallSucceeded
from retrykit.testing import VirtualClock

POLICY = RetryPolicy.on(ConnectionError, attempts=3, backoff=[0, 0], listeners=())


def test_a_loop_whose_block_is_not_entered_is_an_error() -> None:
    """jd/tenacity#191: it would never end."""
    rounds = 0
    with pytest.raises(RuntimeError, match="with attempt"):
        for _ in POLICY:
            rounds += 1
    assert rounds == 1

    async def main() -> None:
        async for _ in POLICY:
            pass

    with pytest.raises(RuntimeError, match="with attempt"):
        asyncio.run(main())


@pytest.mark.parametrize("leave", ["return", "break", "continue", "end"])
def test_each_way_of_leaving_the_block_is_a_success(leave: str) -> None:
    """And the loop ends with it."""
    told: list[Any] = []
    policy = POLICY.replace(listeners=(told.append,))
    entered = 0

    def run() -> None:
        nonlocal entered
        for attempt in policy:
            with attempt:
                entered += 1
                if leave == "return":
                    return
                if leave == "break":
                    break
                if leave == "continue":
                    continue

    run()
    assert entered == 1
    assert isinstance(told[-1], CallSucceeded)


def test_what_is_not_retried_leaves_at_once() -> None:
    """With the loop's `else` and everything after it untouched."""
    rounds = 0
    with pytest.raises(KeyError):
        for attempt in POLICY:
            with attempt:
                rounds += 1
                raise KeyError
    assert rounds == 1


def test_an_error_in_the_loop_after_the_block_is_nobodys_business() -> None:
    """It leaves, and the call that was to be retried ends as cancelled."""
    told: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        for attempt in POLICY.replace(listeners=(told.append,)):
            with attempt:
                raise ConnectionError
            raise ZeroDivisionError
    gc.collect()
    assert isinstance(told[-1], CallCancelled)


def test_an_iterator_that_is_dropped_ends_its_call_as_cancelled() -> None:
    """At once, without the collector's help."""
    told: list[Any] = []
    gc.disable()
    try:
        for attempt in POLICY.replace(listeners=(told.append,)):
            with attempt:
                raise ConnectionError
            break
        assert isinstance(told[-1], CallCancelled)
    finally:
        gc.enable()
    assert len([each for each in told if isinstance(each, CallCancelled)]) == 1


def test_each_iter_is_a_call_of_its_own() -> None:
    """Sequential and interleaved loops over one policy do not share attempts."""
    for _ in range(2):
        assert numbers(POLICY) == [1, 2, 3]
    one, other = iter(POLICY), iter(POLICY)
    for iterator in (one, other, one, other):
        with next(iterator):
            raise ConnectionError
    assert (next(one).number, next(other).number) == (3, 3)


def numbers(policy: RetryPolicy) -> list[int]:
    seen = []
    for attempt in policy:
        with attempt:
            seen.append(attempt.number)
            if attempt.number < 3:
                raise ConnectionError
    return seen


def test_threads_over_one_policy() -> None:
    """Each gets its own attempts."""
    results: list[list[int]] = []
    threads = [threading.Thread(target=lambda: results.append(numbers(POLICY))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[1, 2, 3]] * 8


def test_the_attempt_is_the_live_one() -> None:
    """Number, previous outcome, remaining time; current inside of the block only."""
    clock = VirtualClock()
    policy = POLICY.replace(deadline=10, attempt_timeout=4, backoff=[1, 1], clock=clock)
    for attempt in policy:
        assert current_attempt() is not attempt
        with attempt as entered:
            assert entered is attempt
            assert current_attempt() is attempt
            if attempt.number == 1:
                assert attempt.previous is None
                assert attempt.remaining == 4
            else:
                assert isinstance(attempt.previous.error, ConnectionError)
            clock.advance(3)
            if attempt.number < 3:
                raise ConnectionError(attempt.number)
            assert attempt.remaining == pytest.approx(1e-6)
    assert attempt.number == 3
    assert (attempt.previous, attempt.remaining, attempt.call) == (None, None, None)


def test_misuse_of_an_attempt_says_so() -> None:
    """Entered twice, entered after its call, a result outside of the block."""
    iterator = iter(POLICY)
    attempt = next(iterator)
    with pytest.raises(RuntimeError, match="inside"):
        attempt.set_result(1)
    with attempt, pytest.raises(RuntimeError, match="once"):
        attempt.__enter__()
    with pytest.raises(RuntimeError, match="once"):
        attempt.__enter__()
    with pytest.raises(StopIteration):
        next(iterator)


def test_taking_the_next_attempt_inside_of_the_block_is_an_error() -> None:
    """Re-using one live loop raises instead of mixing attempts up."""
    iterator = iter(POLICY)
    with pytest.raises(RuntimeError, match="with attempt"), next(iterator):
        next(iterator)


def test_a_blocking_loop_inside_an_event_loop_warns() -> None:
    """openstack-charmers/zaza#410: its waits would stop the loop."""

    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="async for attempt in policy"):
            numbers(POLICY)

    asyncio.run(main())


@pytest.mark.parametrize(
    "interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit]
)
def test_interrupts_leave_the_block(interrupt: type[BaseException]) -> None:
    """With one attempt made, told as cancelled."""
    told: list[Any] = []
    with pytest.raises(interrupt):
        for attempt in POLICY.replace(listeners=(told.append,)):
            with attempt:
                raise interrupt
    assert isinstance(told[-1], CallCancelled)


def test_a_deadline_that_passes_in_the_wait() -> None:
    """The last error comes out of the loop itself, and no attempt starts late."""

    class Sleepy(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            super().sleep(seconds + 60)

    policy = POLICY.replace(deadline=10, backoff=[1], clock=Sleepy())
    rounds = 0
    with pytest.raises(ConnectionError) as caught:
        for attempt in policy:
            with attempt:
                rounds += 1
                raise ConnectionError("mine")
    assert rounds == 1
    assert "deadline_exceeded" in caught.value.__notes__[0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_loop_over_attempts_may_be_taken_by_hand(asynchronous: bool) -> None:
    """Its iterator is its own iterator, and stays at its end."""
    if not asynchronous:
        attempts = iter(POLICY)
        assert iter(attempts) is attempts
        with next(attempts):
            pass
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(attempts)
        return

    async def main() -> None:
        attempts = aiter(POLICY)
        assert aiter(attempts) is attempts
        with await anext(attempts):
            pass
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(attempts)

    asyncio.run(main())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_value_that_is_stopped_in_its_wait_ends_the_loop(asynchronous: bool) -> None:
    """With `unsatisfied="return"` nothing is raised: the loop is simply over."""
    answers = iter([False, True])
    told: list[Any] = []
    policy = RetryPolicy(
        classify=OnResult(lambda value: value == "pending"),
        backoff=[1, 1],
        unsatisfied="return",
        stop_when=lambda: next(answers),
        clock=VirtualClock(),
        listeners=(told.append,),
    )
    rounds = 0

    def blocking() -> None:
        nonlocal rounds
        for attempt in policy:
            with attempt:
                rounds += 1
                attempt.set_result("pending")

    async def main() -> None:
        nonlocal rounds
        async for attempt in policy:
            with attempt:
                rounds += 1
                attempt.set_result("pending")

    asyncio.run(main()) if asynchronous else blocking()
    assert rounds == 1
    assert (type(told[-1]), told[-1].reason) == (CallGaveUp, StopReason.STOPPED)


def test_a_block_that_is_left_without_having_been_entered() -> None:
    """An exit stack may take the exit alone: it counts for what it is told."""
    told: list[Any] = []
    attempts = iter(POLICY.replace(listeners=(told.append,)))
    with contextlib.ExitStack() as stack:
        stack.push(next(attempts))
    assert isinstance(told[-1], CallSucceeded)
    assert current_attempt().call is None
