"""Scripts: a function that fails and returns as it is told."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
import trio
import trio.testing

from retrykit import OnException, OnResult, Raised, RetryPolicy, Returned, retry
from retrykit.testing import ScriptError, Slow, VirtualClock, script

EAGER = RetryPolicy.on(Exception, attempts=10, backoff=[0] * 9)


def test_exceptions_are_raised_and_the_rest_is_returned() -> None:
    """A class, an instance and values, one at each call."""
    error = TimeoutError("late")
    fetch = script(ConnectionError, error, 503, None, "ok")
    with pytest.raises(ConnectionError):
        fetch()
    with pytest.raises(TimeoutError) as caught:
        fetch()
    assert caught.value is error
    assert [fetch(), fetch(), fetch()] == [503, None, "ok"]


def test_every_call_is_recorded_with_its_arguments() -> None:
    """Those that raise as well."""
    fetch = script(OSError, "ok")
    EAGER.call(fetch, "/items", page=2)
    assert fetch.calls == [(("/items",), {"page": 2})] * 2
    assert fetch.calls[0].kwargs == {"page": 2}
    assert fetch.remaining == 0


def test_a_call_past_the_end_is_an_error_that_nobody_retries() -> None:
    """Even a policy that retries every exception lets it through, with the script in its text."""
    fetch = script(OSError, KeyError("x"))
    with pytest.raises(ScriptError, match=r"call 3 of script\(OSError, KeyError\('x'\)\), which"):
        EAGER.call(fetch)
    assert len(fetch.calls) == 3
    assert not issubclass(ScriptError, Exception)


def test_an_empty_script_is_over_at_once() -> None:
    """Nothing was to be called."""
    with pytest.raises(ScriptError, match=r"call 1 of script\(\), which has 0 steps"):
        script()()


def test_outcomes_are_taken_as_they_are() -> None:
    """`Returned` returns even an exception; `Raised` raises."""
    error = ValueError("a value")
    fetch = script(Returned(error), Raised(error))
    assert fetch() is error
    with pytest.raises(ValueError, match="a value"):
        fetch()


def test_interrupts_are_raised_too() -> None:
    """A script can play Ctrl-C; the policy lets it pass."""
    fetch = script(KeyboardInterrupt, "never")
    with pytest.raises(KeyboardInterrupt):
        EAGER.call(fetch)
    assert fetch.remaining == 1


def test_the_async_form_is_a_coroutine_function() -> None:
    """Frameworks and decorators take it for what it is."""
    fetch = script(OSError, "ok")
    assert inspect.iscoroutinefunction(fetch.asynchronous)
    assert asyncio.run(EAGER.acall(fetch.asynchronous, 1)) == "ok"
    assert fetch.calls == [((1,), {}), ((1,), {})]


def test_an_asynchronous_script_is_awaited() -> None:
    """The script itself is then the coroutine function, and a decorated one is driven as such."""
    fetch = script(OSError, "ok", asynchronous=True)
    assert asyncio.run(retry(on=OSError, backoff=[0])(fetch)("a")) == "ok"
    assert fetch.calls == [(("a",), {}), (("a",), {})]


def test_the_generator_form_is_retried_until_its_first_item() -> None:
    """A step that is a list gives its items one by one; others are one item."""
    stream = script(OSError, [1, 2, 3])
    assert list(EAGER.call(stream.generator)) == [1, 2, 3]
    assert list(script("one").generator()) == ["one"]


def test_a_generator_may_fail_between_two_items() -> None:
    """What comes after the first item is the consumer's to see."""
    stream = script([1, OSError, 2])
    items: list[int] = []
    with pytest.raises(OSError):
        items.extend(EAGER.call(stream.generator))
    assert inspect.isgeneratorfunction(stream.generator)
    assert len(stream.calls) == 1


def test_the_async_generator_form_is_one() -> None:
    """The async twin."""
    stream = script(OSError, [1, 2])

    async def main() -> list[Any]:
        return [item async for item in EAGER.call(stream.async_generator)]

    assert inspect.isasyncgenfunction(stream.async_generator)
    assert asyncio.run(main()) == [1, 2]


def test_a_slow_step_takes_virtual_time_of_its_call() -> None:
    """The deadline sees it; the clock does not record it as a wait."""
    clock = VirtualClock()
    policy = RetryPolicy.on(OSError, deadline=10, backoff=[1, 1, 1], clock=clock)
    fetch = script(Slow(2.5, OSError), Slow(4, "ok"))
    assert policy.call(fetch) == "ok"
    assert clock.now() == 7.5
    assert clock.sleeps == [1.0]


def test_a_slow_step_takes_time_of_the_clock_that_it_is_given() -> None:
    """Also outside of any call."""
    clock = VirtualClock()
    fetch = script(Slow(3, "ok"), clock=clock)
    assert fetch() == "ok"
    assert clock.now() == 3.0


def test_a_slow_async_step_can_be_cut() -> None:
    """An attempt timeout of one second ends a step of five."""
    clock = VirtualClock()
    policy = RetryPolicy(attempt_timeout=1, attempts=2, backoff=[0.5], clock=clock)
    fetch = script(Slow(5, "late"), "ok", asynchronous=True)
    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        assert runner.run(policy.acall(fetch)) == "ok"
    assert clock.now() == 1.5


def test_a_slow_step_works_on_trio() -> None:
    """It waits on Trio's clock there."""
    clock = VirtualClock()
    fetch = script(Slow(5, "late"), asynchronous=True, clock=clock)

    async def main() -> None:
        with trio.move_on_after(2):
            await fetch()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert clock.now() == 0.0
    assert fetch.remaining == 0


def test_a_slow_step_without_a_virtual_clock_is_an_error() -> None:
    """It would wait for real."""
    for policy in (EAGER, None):
        fetch = script(Slow(5, OSError))
        with pytest.raises(ScriptError, match=r"write script\(\.\.\., clock=clock\)"):
            fetch() if policy is None else policy.call(fetch)


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (lambda: Slow(-1, "ok"), ValueError, "seconds must be at least 0, got -1"),
        (lambda: Slow("1", "ok"), TypeError, "seconds must be a number"),
        (lambda: Slow(1, Slow(1, "ok")), TypeError, "outcome must not be slow again"),
        (lambda: script("ok", clock=7), TypeError, "clock must be a VirtualClock, got 7"),
    ],
)
def test_nonsense_is_refused_when_the_script_is_written(
    bad: Any, error: type[Exception], text: str
) -> None:
    """Before anything is called."""
    with pytest.raises(error, match=text):
        bad()


def test_the_repr_is_what_was_written() -> None:
    """It shows in the error of a script that is over."""
    written = "script(OSError, 503, Slow(1.5, 'ok'), TimeoutError('late'))"
    assert repr(script(OSError, 503, Slow(1.5, "ok"), TimeoutError("late"))) == written


def test_threads_take_each_step_once() -> None:
    """Eight threads share sixty-four steps, and none is taken twice."""
    fetch = script(*range(64))
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.extend(fetch() for _ in range(8))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(64))


def test_a_script_can_be_polled_for_a_result() -> None:
    """Values are judged by result classifiers as a function's would be."""
    clock = VirtualClock()
    policy = RetryPolicy(
        classify=OnResult(lambda v: v == "pending") | OnException(OSError),
        backoff=[1] * 5,
        clock=clock,
    )
    assert policy.call(script("pending", OSError, "pending", "done")) == "done"
    assert clock.sleeps == [1.0, 1.0, 1.0]
