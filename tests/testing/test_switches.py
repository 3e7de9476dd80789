"""Switches: no waits and fewer attempts for the code under test, and everything as it was after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    RetryAfter,
    RetryDecision,
    RetryPolicy,
    disabled,
    override,
    retry,
)
from retrykit._context import entry, everywhere
from retrykit.clock import SystemClock
from retrykit.events import RetryScheduled
from retrykit.testing import ScriptError, VirtualClock, instant, limit_attempts, script

HOURS = RetryPolicy.on(OSError, attempts=4, backoff=[3600, 7200, 10800])


@pytest.fixture(autouse=True)
def _left_as_found() -> Iterator[None]:
    """No test leaves a switch on, in this thread or in the process."""
    before = (entry.get(), list(everywhere))
    yield
    assert (entry.get(), everywhere) == before


def fail() -> None:
    raise OSError("down")


async def fail_async() -> None:
    raise OSError("down")


def calls_under(policy: Any) -> int:
    fetch = script(*[OSError] * 20)
    with pytest.raises(OSError):
        policy.call(fetch)
    return len(fetch.calls)


def in_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


class TestInstant:
    def test_waits_are_recorded_and_not_waited_for(self) -> None:
        """Six hours in no time, with every attempt made."""
        began = time.monotonic()
        with instant() as waits:
            assert calls_under(HOURS) == 4
        assert waits == [3600.0, 7200.0, 10800.0]
        assert time.monotonic() - began < 5

    def test_decisions_stay_what_they_were(self) -> None:
        """The deadline counts the waits that were left out."""
        with instant() as waits:
            assert calls_under(HOURS.replace(deadline=4 * 3600)) == 3
        assert waits == [3600.0, 7200.0]

    def test_announced_waits_are_the_recorded_ones(self) -> None:
        """What a listener hears is what the list holds."""
        told: list[float] = []

        def listen(event: Any) -> None:
            if isinstance(event, RetryScheduled):
                told.append(event.delay)

        with instant() as waits:
            calls_under(HOURS.replace(listeners=(listen,)))
        assert told == waits

    def test_elapsed_time_counts_the_waits(self) -> None:
        """Classifiers see the time that would have passed."""
        seen: list[float] = []

        def classify(attempt: Attempt) -> RetryDecision:
            seen.append(round(attempt.elapsed))
            return RetryAfter()

        with instant():
            calls_under(HOURS.replace(classify=classify))
        assert seen == [0, 3600, 10800, 21600]

    def test_the_unix_time_counts_the_waits(self) -> None:
        """A Retry-After date that the waits have reached is in the past."""
        seen: list[float] = []

        def classify(attempt: Attempt) -> RetryDecision:
            seen.append((attempt.wall or 0.0) - time.time())
            return RetryAfter()

        with instant():
            calls_under(HOURS.replace(classify=classify, attempts=2))
        assert seen == pytest.approx([0, 3600], abs=60)

    def test_a_virtual_clock_keeps_its_waits(self) -> None:
        """They take no time, and whoever looks at that clock sees them."""
        clock = VirtualClock(start=50)
        with instant() as waits:
            calls_under(HOURS.replace(clock=clock))
        assert clock.sleeps == waits
        assert clock.now() == 50 + 6 * 3600

        async def main() -> None:
            with instant() as more, pytest.raises(OSError):
                await HOURS.replace(clock=clock).acall(fail_async)
            assert clock.sleeps[3:] == more

        asyncio.run(main())
        assert clock.now() == 50 + 12 * 3600

    def test_decorated_functions_are_covered(self) -> None:
        """Those that were decorated before the switch as well, by any path."""

        @retry(on=OSError, attempts=2, backoff=[3600])
        def fetch() -> None:
            raise OSError("down")

        with instant() as waits, pytest.raises(OSError):
            fetch()
        assert waits == [3600.0]

    def test_the_block_form_is_covered(self) -> None:
        """`for attempt in policy:` too."""
        with instant() as waits, pytest.raises(OSError):
            for attempt in HOURS:
                with attempt:
                    fail()
        assert len(waits) == 3

    def test_foreign_policies_are_covered(self) -> None:
        """The driver waits, whoever decides."""

        class Daily:
            def new_executor(self, call: Call) -> Daily:
                return self

            def decide(self, attempt: Attempt) -> RetryDecision:
                return RetryAfter(86400) if attempt.number < 3 else DoNotRetry()

        with instant() as waits, pytest.raises(OSError):
            retry(policy=Daily())(fail)()
        assert waits == [86400.0, 86400.0]

    def test_async_waits_give_way(self) -> None:
        """Other tasks run at each of them, and a cancel arrives."""

        async def main() -> int:
            beats = 0

            async def beat() -> None:
                nonlocal beats
                while True:
                    beats += 1
                    await asyncio.sleep(0)

            heart = asyncio.create_task(beat())
            with instant() as waits, pytest.raises(OSError):
                await HOURS.acall(fail_async)
            heart.cancel()
            assert len(waits) == 3
            return beats

        assert asyncio.run(main()) >= 3

    def test_tasks_side_by_side_do_not_add_up(self) -> None:
        """Ten tasks that each wait ten of fifteen seconds all stay inside their deadlines."""
        policy = RetryPolicy.on(OSError, deadline=15, backoff=[10])

        async def main() -> list[str]:
            with instant() as waits:
                fetches = [script(OSError, "ok", asynchronous=True) for _ in range(10)]
                results = await asyncio.gather(*map(policy.acall, fetches))
            assert waits == [10.0] * 10
            return results

        assert asyncio.run(main()) == ["ok"] * 10

    def test_it_works_on_trio(self) -> None:
        """The same on the other library."""

        async def main() -> list[float]:
            with instant() as waits, pytest.raises(OSError):
                await HOURS.acall(fail_async)
            return waits

        assert trio.run(main) == [3600.0, 7200.0, 10800.0]

    def test_stop_when_is_still_asked(self) -> None:
        """An event that is set cuts the retries as it would in a wait."""
        event = threading.Event()
        policy = HOURS.replace(stop_when=event, listeners=(lambda _: event.set(),))
        with instant() as waits:
            assert calls_under(policy) == 1
        assert waits == []

    def test_nested_scopes_both_record_and_time_passes_once(self) -> None:
        """The outer list holds all, the inner its own."""
        policy = RetryPolicy.on(OSError, attempts=2, backoff=[10], deadline=11)
        with instant() as outer:
            calls_under(policy)
            with instant() as inner:
                assert calls_under(policy) == 2
            calls_under(policy)
        assert outer == [10.0, 10.0, 10.0]
        assert inner == [10.0]

    def test_an_error_inside_switches_it_off_again(self) -> None:
        """The real clock is back after the block."""
        clock = VirtualClock()
        with pytest.raises(KeyError), instant():
            raise KeyError
        calls_under(HOURS.replace(clock=clock))
        assert clock.sleeps == [3600.0, 7200.0, 10800.0]

    def test_other_threads_and_tasks_keep_their_waits(self) -> None:
        """It is this thread's and this task's switch only."""
        clock = VirtualClock()
        policy = HOURS.replace(clock=clock)
        with instant() as waits:
            assert in_thread(lambda: calls_under(policy)) == 4
        assert waits == []
        assert len(clock.sleeps) == 3

        async def main() -> None:
            outside = asyncio.Event()

            async def other() -> None:
                await outside.wait()
                with pytest.raises(OSError):
                    await policy.acall(fail_async)

            task = asyncio.create_task(other())
            with instant() as waits:
                outside.set()
                await task
            assert waits == []

        clock.sleeps.clear()
        asyncio.run(main())
        assert len(clock.sleeps) == 3

    def test_everywhere_reaches_other_threads(self) -> None:
        """For code that runs in a worker pool or a test client's thread."""
        with instant(everywhere=True) as waits:
            assert in_thread(lambda: calls_under(HOURS)) == 4
        assert waits == [3600.0, 7200.0, 10800.0]
        assert everywhere == [] or waits

    def test_everywhere_ends_with_the_block_on_errors_too(self) -> None:
        """A failing test does not switch off the waits of the next."""
        clock = VirtualClock()
        with pytest.raises(KeyError), instant(everywhere=True):
            raise KeyError
        in_thread(lambda: calls_under(HOURS.replace(clock=clock)))
        assert len(clock.sleeps) == 3

    def test_scopes_may_end_in_any_order(self) -> None:
        """Process-wide scopes of two threads overlap and do not take each other down."""
        first, second = instant(everywhere=True), instant(everywhere=True)
        waits = first.__enter__()
        more = second.__enter__()
        first.__exit__(None, None, None)
        calls_under(HOURS)
        second.__exit__(None, None, None)
        assert (waits, len(more)) == ([], 3)

    def test_an_inner_clock_does_not_bring_the_waits_back(self) -> None:
        """Code under test may lay a clock of its own over its policies."""
        with instant() as waits, override(clock=SystemClock()):
            calls_under(HOURS)
        assert len(waits) == 3

    def test_a_nested_call_sees_the_outer_deadline(self) -> None:
        """Both calls are on the same clock still."""
        inner = RetryPolicy.on(OSError, attempts=9, backoff=[10] * 9, nested="allow")
        outer = RetryPolicy.on(KeyError, deadline=25)
        with instant() as waits, pytest.raises(OSError):
            outer.call(lambda: inner.call(fail))
        assert waits == [10.0, 10.0]

    def test_calls_begin_at_the_real_time(self) -> None:
        """What one call skipped does not make the next one late."""
        seen: list[float] = []

        def classify(attempt: Attempt) -> RetryDecision:
            seen.append((attempt.wall or 0.0) - time.time())
            return RetryAfter()

        policy = HOURS.replace(classify=classify, attempts=2)
        with instant():
            calls_under(policy)
            calls_under(policy)
        assert seen == pytest.approx([0, 3600] * 2, abs=60)

    def test_an_outer_call_counts_the_waits_of_those_inside(self) -> None:
        """Its own deadline passes while an inner call retries."""
        inner = RetryPolicy.on(OSError, attempts=3, backoff=[10, 10])
        outer = RetryPolicy.on(OSError, attempts=9, backoff=[1] * 8, deadline=42)
        with instant() as waits, pytest.raises(OSError):
            outer.call(lambda: inner.call(fail))
        assert waits == [10.0, 10.0, 1.0, 10.0, 10.0]

    def test_interleaved_calls_keep_their_own_time(self) -> None:
        """Two loops over attempts, stepped in turn, each see their own waits only."""
        policy = RetryPolicy.on(OSError, attempts=9, backoff=[10] * 8, deadline=35)
        rounds = 0
        with instant() as waits:
            one, two = iter(policy), iter(policy)
            with pytest.raises(OSError):
                while True:
                    rounds += 1
                    for attempts in (one, two):
                        with next(attempts):
                            fail()
        del one, two
        assert rounds == 4
        assert waits == [10.0] * 5

    def test_a_switch_inside_of_a_call_shares_its_time(self) -> None:
        """An inner scope in the function records too, and the outer deadline still holds."""
        inner = RetryPolicy.on(OSError, attempts=9, backoff=[10] * 8)
        outer = RetryPolicy.on(KeyError, deadline=25)
        with instant() as waits:

            def function() -> None:
                with instant() as own, pytest.raises(OSError):
                    inner.call(fail)
                assert own == [10.0, 10.0]

            outer.call(function)
        assert waits == [10.0, 10.0]

    def test_a_sleep_that_is_patched_late_takes_effect(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Suites that patch `time.sleep` go on working, also for functions decorated before."""
        waits: list[float] = []

        @retry(on=OSError, attempts=3, backoff=[3600, 7200])
        def fetch() -> None:
            raise OSError("down")

        monkeypatch.setattr(time, "sleep", waits.append)
        with pytest.raises(OSError):
            fetch()
        assert waits == [3600.0, 7200.0]


class TestLimitAttempts:
    def test_a_policy_makes_no_more_calls_than_that(self) -> None:
        """The first call included."""
        with instant(), limit_attempts(2):
            assert calls_under(HOURS) == 2
        with instant():
            assert calls_under(HOURS) == 4

    def test_the_policys_own_number_is_never_raised(self) -> None:
        """Test mode must not retry what production would not (hynek/stamina#98)."""
        with instant(), limit_attempts(100):
            assert calls_under(HOURS) == 4
            assert calls_under(HOURS.replace(attempts=1)) == 1

    def test_an_unlimited_policy_is_limited(self) -> None:
        """`math.inf` attempts too."""
        policy = RetryPolicy.on(OSError, attempts=float("inf"), backoff=[1] * 19)
        with instant(), limit_attempts(3):
            assert calls_under(policy) == 3

    def test_one_attempt_is_exactly_one(self) -> None:
        """And no wait."""
        with instant() as waits, limit_attempts(1):
            assert calls_under(HOURS) == 1
        assert waits == []

    def test_a_success_runs_once(self) -> None:
        """A switched-off retry does not run a successful block again (hynek/stamina#94)."""
        fetch = script("ok")
        with limit_attempts(1):
            assert HOURS.call(fetch) == "ok"
            for attempt in HOURS:
                with attempt:
                    fetch.calls.append(None)  # type: ignore[arg-type]  # counted only
        with disabled():
            for attempt in HOURS:
                with attempt:
                    fetch.calls.append(None)  # type: ignore[arg-type]  # counted only
        assert len(fetch.calls) == 3

    def test_the_tightest_of_nested_limits_counts(self) -> None:
        """An inner limit cannot widen an outer one, and each is undone in turn."""
        with instant(), limit_attempts(3):
            with limit_attempts(2):
                assert calls_under(HOURS) == 2
            assert calls_under(HOURS) == 3
            with limit_attempts(9):
                assert calls_under(HOURS) == 3

    def test_an_inner_override_does_not_raise_it(self) -> None:
        """Code under test that asks for more attempts gets no more."""
        with instant(), limit_attempts(2), override(attempts=4):
            assert calls_under(HOURS) == 2

    def test_an_inner_override_may_ask_for_less(self) -> None:
        """It is a limit, not a number."""
        with instant(), limit_attempts(3), override(attempts=2):
            assert calls_under(HOURS) == 2

    def test_an_outer_override_is_limited_too(self) -> None:
        """In either order."""
        with instant(), override(attempts=4), limit_attempts(2):
            assert calls_under(HOURS) == 2

    def test_a_foreign_policy_is_limited(self) -> None:
        """Its executor is asked, and its retry refused."""

        class Always:
            def new_executor(self, call: Call) -> Always:
                return self

            def decide(self, attempt: Attempt) -> RetryDecision:
                return RetryAfter(1) if attempt.error else DoNotRetry()

        fetch = script(OSError, OSError, OSError)
        with instant() as waits, limit_attempts(2), pytest.raises(OSError):
            retry(policy=Always())(fetch)()
        assert (len(fetch.calls), waits) == (2, [1.0])

    def test_an_error_inside_lifts_it(self) -> None:
        """Scopes restore in order, on errors too (hynek/stamina#98)."""
        with instant(), limit_attempts(3):
            with pytest.raises(KeyError), limit_attempts(1):
                raise KeyError
            assert calls_under(HOURS) == 3
        with instant():
            assert calls_under(HOURS) == 4

    def test_other_threads_are_not_limited(self) -> None:
        """Unless it is asked for."""
        with instant(everywhere=True), limit_attempts(1):
            assert in_thread(lambda: calls_under(HOURS)) == 4
        with instant(everywhere=True), limit_attempts(2, everywhere=True):
            assert in_thread(lambda: calls_under(HOURS)) == 2

    def test_parallel_threads_keep_their_own(self) -> None:
        """Eight threads, eight limits, at the same time."""
        policy = RetryPolicy.on(OSError, attempts=20, backoff=[1] * 19)
        barrier = threading.Barrier(8)

        def limited(n: int) -> int:
            with instant(), limit_attempts(n):
                barrier.wait()
                return calls_under(policy)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(limited, range(1, 9))) == list(range(1, 9))

    def test_parallel_tasks_keep_their_own(self) -> None:
        """The same for tasks."""
        policy = RetryPolicy.on(OSError, attempts=20, backoff=[1] * 19)

        async def limited(n: int) -> int:
            fetch = script(*[OSError] * 20, asynchronous=True)
            with instant(), limit_attempts(n):
                await asyncio.sleep(0)
                with pytest.raises(OSError):
                    await policy.acall(fetch)
            return len(fetch.calls)

        async def main() -> list[int]:
            return await asyncio.gather(*map(limited, range(1, 9)))

        assert asyncio.run(main()) == list(range(1, 9))

    @pytest.mark.parametrize(
        ("bad", "error", "text"),
        [
            (0, ValueError, "n must be at least 1, got 0"),
            (-1, ValueError, "n must be at least 1, got -1"),
            (1.5, TypeError, "n must be a whole number, got 1.5"),
            (True, TypeError, "n must be a whole number, got True"),
        ],
    )
    def test_a_senseless_limit_is_refused(
        self, bad: Any, error: type[Exception], text: str
    ) -> None:
        """At once, and nothing is switched."""
        with pytest.raises(error, match=text):
            limit_attempts(bad)


def test_a_call_that_has_begun_goes_on_as_it_began() -> None:
    """A process-wide switch thrown by another thread in the middle of a call is the next call's."""
    inside, thrown = threading.Event(), threading.Event()

    @retry(on=OSError, attempts=2, backoff=[0])
    def fetch(steps: Any) -> Any:
        inside.set()
        thrown.wait(5)
        return steps()

    def run() -> Any:
        return fetch(script(OSError, "ok"))

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run)
        assert inside.wait(5)
        with limit_attempts(1, everywhere=True), instant(everywhere=True) as waits:
            thrown.set()
            assert result.result() == "ok"
            assert waits == []
            with pytest.raises(OSError):
                fetch(script(OSError))


def test_a_script_that_is_over_passes_every_switch() -> None:
    """Nothing takes a broken test for a failing call."""
    with instant(), limit_attempts(5), pytest.raises(ScriptError):
        HOURS.call(script(OSError))
