"""Generators are retried until their first item is out, and are left alone from there on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
import trio

from retrykit import OnException, OnResult, RetryPolicy, StopReason, current_attempt, retry
from retrykit.events import CallCancelled, CallFailed, CallGaveUp, CallSucceeded
from retrykit.testing import VirtualClock

POLICY = RetryPolicy.on(OSError, attempts=3, backoff=[0, 0], listeners=())


def collect(make: Callable[[], Any]) -> Any:
    """All items of a generator or an async generator."""
    items = make()
    if hasattr(items, "__aiter__"):

        async def gather() -> list[Any]:
            return [item async for item in items]

        return asyncio.run(gather())
    return list(items)


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_it_is_retried_until_the_first_item_is_out(kind: str) -> None:
    """jd/tenacity#138, #64, invl/retry#23, litl/backoff#15, #171: never a silent no-op."""
    starts = 0

    def begin() -> None:
        nonlocal starts
        starts += 1
        if starts < 3:
            raise ConnectionError

    @retry(policy=POLICY)
    def generator(n: int) -> Iterator[int]:
        begin()
        yield from range(n)

    @retry(policy=POLICY)
    async def async_generator(n: int) -> AsyncIterator[int]:
        begin()
        for i in range(n):
            yield i

    assert collect(lambda: (generator if kind == "generator" else async_generator)(3)) == [0, 1, 2]
    assert starts == 3


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_failure_after_the_first_item_passes_through(kind: str) -> None:
    """litl/backoff#131, jd/tenacity#58, #63, #611: nobody sees the first items twice."""
    starts = 0
    seen: list[int] = []

    @retry(policy=POLICY)
    def generator() -> Iterator[int]:
        nonlocal starts
        starts += 1
        yield 1
        raise ConnectionError("later")

    @retry(policy=POLICY)
    async def async_generator() -> AsyncIterator[int]:
        nonlocal starts
        starts += 1
        yield 1
        raise ConnectionError("later")

    async def consume() -> None:
        async for item in async_generator():
            seen.append(item)  # noqa: PERF401 - what comes before the failure is to be kept

    with pytest.raises(ConnectionError, match="later"):
        if kind == "generator":
            for item in generator():
                seen.append(item)  # noqa: PERF402 - as above
        else:
            asyncio.run(consume())
    assert (seen, starts) == ([1], 1)


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_an_error_that_the_consumer_throws_in_belongs_to_the_consumer(kind: str) -> None:
    """It is neither retried nor replaced, and the generator is not started again."""
    starts = 0
    mine = OSError("mine")

    @retry(policy=POLICY)
    def generator() -> Iterator[int]:
        nonlocal starts
        starts += 1
        yield 1
        yield 2

    @retry(policy=POLICY)
    async def async_generator() -> AsyncIterator[int]:
        nonlocal starts
        starts += 1
        yield 1
        yield 2

    async def consume() -> None:
        items: Any = async_generator()
        assert await anext(items) == 1
        with pytest.raises(OSError, match="mine") as caught:
            await items.athrow(mine)
        assert caught.value is mine

    if kind == "generator":
        items: Any = generator()
        assert next(items) == 1
        with pytest.raises(OSError, match="mine") as caught:
            items.throw(mine)
        assert caught.value is mine
    else:
        asyncio.run(consume())
    assert starts == 1
    assert mine.__context__ is None


def test_send_throw_and_the_return_value_are_handed_through() -> None:
    """As `yield from` would."""

    @retry(policy=POLICY)
    def generator() -> Generator[Any, Any, str]:
        got = yield "first"
        try:
            got = yield ("sent", got)
        except KeyError as error:
            got = yield ("caught", error.args)
        return f"returned {got}"

    def delegating() -> Generator[Any, Any, str]:
        return (yield from generator())

    items = delegating()
    assert next(items) == "first"
    assert items.send("x") == ("sent", "x")
    assert items.throw(KeyError("k")) == ("caught", ("k",))
    with pytest.raises(StopIteration) as stop:
        items.send("y")
    assert stop.value.value == "returned y"


def test_asend_and_athrow_are_handed_through() -> None:
    """The same for async generators."""

    @retry(policy=POLICY)
    async def generator() -> Any:
        got = yield "first"
        try:
            got = yield ("sent", got)
        except KeyError as error:
            yield ("caught", error.args)

    async def main() -> None:
        items = generator()
        assert await anext(items) == "first"
        assert await items.asend("x") == ("sent", "x")
        assert await items.athrow(KeyError("k")) == ("caught", ("k",))
        with pytest.raises(StopAsyncIteration):
            await anext(items)

    asyncio.run(main())


def test_clean_up_runs_once_and_before_a_restart() -> None:
    """googleapis/python-api-core#495: on close, on break, and of a failed attempt."""
    log: list[str] = []

    @retry(policy=POLICY)
    def generator() -> Iterator[int]:
        number = current_attempt().number
        log.append(f"start {number}")
        try:
            if number < 3:
                raise ConnectionError
            yield number
            yield 0
        finally:
            log.append(f"clean {number}")

    items: Any = generator()
    assert next(items) == 3
    items.close()
    assert log == ["start 1", "clean 1", "start 2", "clean 2", "start 3", "clean 3"]
    log.clear()
    for _ in generator():
        break
    assert log[-2:] == ["start 3", "clean 3"]


def test_clean_up_of_async_generators() -> None:
    """`aclose` reaches the inner generator, which may await in its clean-up."""
    log: list[str] = []

    @retry(policy=POLICY)
    async def generator() -> AsyncIterator[int]:
        try:
            if current_attempt().number < 2:
                raise ConnectionError
            yield 1
        finally:
            await asyncio.sleep(0)
            log.append("clean")

    async def main() -> None:
        async with contextlib.aclosing(generator()) as items:
            async for _ in items:
                break

    asyncio.run(main())
    assert log == ["clean", "clean"]


def test_a_generator_that_ignores_close_says_so() -> None:
    """As without a decorator."""

    @retry(policy=POLICY)
    def generator() -> Iterator[int]:
        yield 1
        yield 2

    def stubborn() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            yield 2

    assert list(generator()) == [1, 2]
    items: Any = retry(policy=POLICY)(stubborn)()
    next(items)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        items.close()
    del items


def test_an_empty_generator_is_a_success() -> None:
    """There is no first item to wait for."""
    starts = 0

    @retry(policy=POLICY)
    def generator() -> Generator[int, None, str]:
        nonlocal starts
        starts += 1
        return "nothing"
        yield

    def delegating() -> Generator[int, None, str]:
        return (yield from generator())

    with pytest.raises(StopIteration) as stop:
        next(delegating())
    assert stop.value.value == "nothing"
    assert starts == 1


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
def test_stop_iteration_is_an_ordinary_error(error: type[Exception]) -> None:
    """jd/tenacity#172: classified, retried and raised as the same object."""
    raised: list[Exception] = []
    policy = RetryPolicy.on(StopIteration, StopAsyncIteration, attempts=3, backoff=[0, 0])

    @retry(policy=policy)
    def function() -> None:
        raised.append(error(len(raised)))
        raise raised[-1]

    with pytest.raises(error) as caught:
        function()
    assert caught.value is raised[2]


def test_stop_async_iteration_in_a_coroutine() -> None:
    """The error is not lost in the loop's own control flow."""
    raised: list[Exception] = []

    @retry(policy=RetryPolicy.on(StopAsyncIteration, attempts=3, backoff=[0, 0]))
    async def function() -> None:
        raised.append(StopAsyncIteration(len(raised)))
        raise raised[-1]

    async def main() -> None:
        with pytest.raises(StopAsyncIteration) as caught:
            await function()
        assert caught.value is raised[2]

    asyncio.run(main())


def test_the_entry_is_set_around_each_step_only() -> None:
    """Between two steps the consumer's code is in no attempt; inside of each it is in this one."""
    inside: list[Any] = []

    @retry(policy=POLICY.replace(deadline=60))
    def generator() -> Iterator[int]:
        for item in range(2):
            inside.append(current_attempt().number)
            assert current_attempt().remaining is not None
            yield item

    outside = [current_attempt().remaining for _ in generator()]
    assert inside == [1, 1]
    assert outside == [None, None]


def test_a_generator_may_be_finished_in_another_context() -> None:
    """A reset in a foreign context never raises."""
    import contextvars

    @retry(policy=POLICY)
    def generator() -> Iterator[int]:
        yield current_attempt().number
        yield current_attempt().number

    items: Any = generator()
    assert contextvars.copy_context().run(next, items) == 1
    assert contextvars.copy_context().run(next, items) == 1
    contextvars.copy_context().run(items.close)


def test_events_end_with_the_first_item() -> None:
    """The call has succeeded when the first item is out; what comes later is not told."""
    told: list[Any] = []

    @retry(policy=POLICY.replace(listeners=(told.append,)))
    def generator() -> Iterator[int]:
        yield 1
        raise ConnectionError

    items: Any = generator()
    assert told == []
    next(items)
    assert isinstance(told[-1], CallSucceeded)
    with pytest.raises(ConnectionError):
        next(items)
    assert isinstance(told[-1], CallSucceeded)


def test_one_that_is_dropped_in_a_wait_ends_as_cancelled() -> None:
    """An interrupt in the wait leaves, and the call is told to be cancelled."""
    told: list[Any] = []

    class Clock(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            raise KeyboardInterrupt

    @retry(policy=POLICY.replace(clock=Clock(), listeners=(told.append,)))
    def generator() -> Iterator[int]:
        raise ConnectionError
        yield

    with pytest.raises(KeyboardInterrupt):
        next(iter(generator()))
    assert isinstance(told[-1], CallCancelled)


def test_failures_and_limits_are_told_and_noted() -> None:
    """As for functions."""
    told: list[Any] = []

    @retry(policy=POLICY.replace(listeners=(told.append,)))
    def generator(error: Exception) -> Iterator[int]:
        raise error
        yield

    with pytest.raises(KeyError):
        next(iter(generator(KeyError())))
    assert isinstance(told[-1], CallFailed)
    with pytest.raises(ConnectionError) as caught:
        next(iter(generator(ConnectionError())))
    assert isinstance(told[-1], CallGaveUp)
    assert "gave up after 3 attempts" in caught.value.__notes__[0]


def summed(numbers: Any) -> int:
    total = sum(numbers)
    raise ConnectionError(total)


@pytest.mark.parametrize("where", ["args", "kwargs", "method"])
def test_an_argument_that_is_used_up_cannot_be_sent_again(where: str) -> None:
    """jd/tenacity#66, #612: later attempts would see nothing and "succeed"."""

    class Holder:
        @retry(policy=POLICY)
        def method(self, numbers: Any) -> int:
            return summed(numbers)

    numbers = (n for n in range(3))
    with pytest.raises(ConnectionError) as caught:
        if where == "args":
            retry(policy=POLICY)(summed)(numbers)
        elif where == "kwargs":
            retry(policy=POLICY)(summed)(numbers=numbers)
        else:
            Holder().method(numbers)
    assert caught.value.args == (3,)
    (note,) = caught.value.__notes__
    assert str(StopReason.NOT_REPLAYABLE) in note
    assert "policy.call(lambda: f(make()))" in note


def test_an_argument_that_was_not_touched_may_be_sent_again() -> None:
    """Only what the failed attempt began to use up is gone."""
    calls = 0

    @retry(policy=POLICY)
    def function(numbers: Iterator[int]) -> int:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError
        return sum(numbers)

    assert function(n for n in range(3)) == 3


def test_async_generators_and_coroutines_among_the_arguments() -> None:
    """The same for them."""

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def value() -> int:
        return 1

    calls = 0

    @retry(policy=POLICY)
    async def takes(given: Any, touch: bool) -> None:
        nonlocal calls
        calls += 1
        if touch:
            await (anext(given) if hasattr(given, "__anext__") else given)
        raise ConnectionError

    async def main() -> None:
        nonlocal calls
        for given, touch, wanted in (
            (items(), True, 1),
            (items(), False, 3),
            (value(), True, 1),
            (value(), False, 3),
        ):
            calls = 0
            with pytest.raises(ConnectionError):
                await takes(given, touch)
            assert calls == wanted
            if hasattr(given, "close"):
                given.close()

    asyncio.run(main())


def test_trio_async_generators() -> None:
    """Retried on Trio too, with no cancel scope left open across a yield."""

    @retry(policy=POLICY.replace(attempt_timeout=60, deadline=60))
    async def generator() -> AsyncIterator[int]:
        if current_attempt().number < 3:
            raise ConnectionError
        assert current_attempt().remaining is not None
        for i in range(3):
            await trio.lowlevel.checkpoint()
            yield i

    async def main() -> list[int]:
        with trio.move_on_after(5):
            async with contextlib.aclosing(generator()) as items:
                return [item async for item in items]
        return []

    assert trio.run(main) == [0, 1, 2]


def test_policy_call_takes_generator_functions() -> None:
    """The generator that comes back is retried until its first item is out."""

    def generator() -> Iterator[int]:
        if current_attempt().number < 3:
            raise ConnectionError
        yield 1

    assert list(POLICY.call(generator)) == [1]
    assert POLICY.classify == OnException(OSError)


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_one_that_is_stopped_in_its_wait_raises_its_last_error(kind: str) -> None:
    """And has been closed before."""
    answers = iter([False, True])
    starts = 0

    def begin() -> None:
        nonlocal starts
        starts += 1
        raise ConnectionError

    policy = POLICY.replace(stop_when=lambda: next(answers))

    @retry(policy=policy)
    def generator() -> Iterator[int]:
        begin()
        yield 1

    @retry(policy=policy)
    async def async_generator() -> AsyncIterator[int]:
        begin()
        yield 1

    with pytest.raises(ConnectionError) as caught:
        collect(generator if kind == "generator" else async_generator)
    assert starts == 1
    assert ": stopped " in caught.value.__notes__[0]


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_first_item_that_is_stopped_in_its_wait(kind: str) -> None:
    """It was not good enough and its generator is closed: with `"return"` there are no items."""
    answers = iter([False, True])
    closed = 0
    policy = RetryPolicy(
        classify=OnResult(lambda item: item == "pending"),
        backoff=[0, 0],
        unsatisfied="return",
        stop_when=lambda: next(answers),
        listeners=(),
    )

    @retry(policy=policy)
    def generator() -> Iterator[str]:
        nonlocal closed
        try:
            yield "pending"
        finally:
            closed += 1

    @retry(policy=policy)
    async def async_generator() -> AsyncIterator[str]:
        nonlocal closed
        try:
            yield "pending"
        finally:
            closed += 1

    assert collect(generator if kind == "generator" else async_generator) == []
    assert closed == 1


def test_an_empty_async_generator_is_a_success() -> None:
    """As an empty generator is: its end is no failure, and no item is made up."""
    told: list[Any] = []

    @retry(policy=POLICY.replace(listeners=(told.append,)))
    async def async_generator() -> AsyncIterator[int]:
        return
        yield 1

    assert collect(async_generator) == []
    assert isinstance(told[-1], CallSucceeded)
