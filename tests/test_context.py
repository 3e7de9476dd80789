"""What the code inside of a call can ask and set."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

from retrykit import (
    OnException,
    RetriesExhausted,
    RetryPolicy,
    current_attempt,
    disabled,
    override,
    retry,
)
from retrykit.clock import SystemClock
from retrykit.settings import CallSettings
from retrykit.testing import VirtualClock

POLICY = RetryPolicy.on(ConnectionError, attempts=3, backoff=[0, 0], listeners=())


def attempts_of(policy: Any) -> int:
    calls = 0

    @retry(policy=policy)
    def function() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    with pytest.raises(ConnectionError):
        function()
    return calls


# current_attempt


def test_outside_of_a_call() -> None:
    """Number 1, and everything else is `None`."""
    attempt = current_attempt()
    assert (attempt.number, attempt.previous, attempt.remaining, attempt.call) == (
        1,
        None,
        None,
        None,
    )
    assert repr(attempt) == "<LiveAttempt 1 outside a retried call>"


@pytest.mark.parametrize("fields", [{}, {"deadline": 60}])
def test_inside_of_a_call(fields: Any) -> None:
    """Number, previous outcome and call; the same on the fast and on the watched path."""
    seen: list[Any] = []

    @retry(policy=POLICY.replace(**fields))
    def function(a: int, *, b: int) -> None:
        attempt = current_attempt()
        call = attempt.call
        assert call is not None
        seen.append((attempt.number, attempt.previous, call.id, call.args, call.kwargs, call.name))
        raise ConnectionError(attempt.number)

    for _ in range(2):
        with pytest.raises(ConnectionError):
            function(1, b=2)
    assert [each[0] for each in seen] == [1, 2, 3, 1, 2, 3]
    assert seen[0][1] is None
    assert seen[1][1].error.args == (1,)
    assert len({each[2] for each in seen[:3]}) == 1
    assert len({each[2] for each in seen}) == 2
    assert {each[3:] for each in [(*e[:3], e[3], tuple(e[4].items()), e[5]) for e in seen]} == {
        ((1,), (("b", 2),), "function")
    }


def test_a_nested_call_of_the_same_function_leaves_the_outer_record_alone() -> None:
    """jd/tenacity#701, #519, #613."""
    numbers: list[int] = []

    @retry(policy=POLICY)
    def function(depth: int) -> None:
        if depth and current_attempt().number == 2:
            function(0)
            numbers.append(current_attempt().number)
            return
        if current_attempt().number < 3:
            raise ConnectionError

    function(1)
    assert numbers == [2]


def test_records_in_many_threads() -> None:
    """64 calls in 8 threads that fail 0 to 3 times: every number is right."""
    wrong: list[Any] = []

    @retry(policy=POLICY.replace(attempts=4, backoff=[0, 0, 0]))
    def function(failures: int) -> int:
        if current_attempt().number <= failures:
            raise ConnectionError
        return current_attempt().number

    def work(thread: int) -> None:
        for call in range(8):
            failures = (thread + call) % 4
            if function(failures) != failures + 1:
                wrong.append((thread, call))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_remaining_is_handed_to_blocking_code() -> None:
    """Llucs/backon#82, failsafe#257: the function is told, and never abandoned in a thread."""
    clock = VirtualClock()
    seen: list[Any] = []

    @retry(policy=POLICY.replace(attempt_timeout=0.05, deadline=0.12, clock=clock))
    def function() -> None:
        seen.append(current_attempt().remaining)
        clock.advance(0.05)
        assert current_attempt().remaining == 1e-6
        raise ConnectionError

    with pytest.raises(ConnectionError):
        function()
    assert seen == [pytest.approx(0.05), pytest.approx(0.05), pytest.approx(0.02)]


def test_a_closed_cell_counts_for_nothing() -> None:
    """A task that was started inside of a call and lives on keeps neither number nor deadline."""

    async def main() -> Any:
        later = asyncio.Event()
        tasks: list[asyncio.Task[Any]] = []

        async def task() -> Any:
            inside = (current_attempt().number, current_attempt().remaining is not None)
            await later.wait()
            attempt = current_attempt()
            return inside, (attempt.number, attempt.remaining, attempt.call)

        @retry(policy=POLICY.replace(deadline=60))
        async def function() -> None:
            if current_attempt().number == 1:
                raise ConnectionError
            tasks.append(asyncio.ensure_future(task()))
            await asyncio.sleep(0)

        await function()
        later.set()
        return await tasks[0]

    inside, outside = asyncio.run(main())
    assert inside == (2, True)
    assert outside == (1, None, None)


def test_an_attempt_that_is_kept_after_its_call_tells_its_number_only() -> None:
    """The value it had last."""
    kept: list[Any] = []

    @retry(policy=POLICY)
    def function() -> None:
        kept.append(current_attempt())
        if current_attempt().number < 3:
            raise ConnectionError

    function()
    assert {each.number for each in kept} == {3}
    assert (kept[0].previous, kept[0].call) == (None, None)


# Deadlines


def test_a_nested_blocking_call_sees_the_nearer_deadline() -> None:
    """And starts nothing past it."""
    clock = VirtualClock()
    seen: list[Any] = []

    @retry(policy=POLICY.replace(deadline=100, attempts=50, backoff=[1] * 50, clock=clock))
    def inner() -> None:
        seen.append(round(current_attempt().remaining or 0, 3))
        raise ConnectionError

    @retry(policy=POLICY.replace(deadline=3.5, attempts=50, backoff=[1] * 50, clock=clock))
    def outer() -> None:
        inner()

    began = clock.now()
    with pytest.raises(ConnectionError):
        outer()
    assert clock.now() - began <= 3.5
    assert seen == [3.5, 2.5, 1.5, 0.5]


def test_a_deadline_on_another_clock_is_not_compared() -> None:
    """Its instants mean nothing here."""
    clock, other = VirtualClock(), VirtualClock()

    @retry(policy=POLICY.replace(clock=other))
    def inner() -> Any:
        return current_attempt().remaining

    assert POLICY.replace(deadline=3, clock=clock).call(inner) is None


def test_an_attempt_that_overruns_the_deadline_is_the_last() -> None:
    """litl/backoff#186, #130: the clock is read after the attempt."""
    clock = VirtualClock()
    calls = 0

    @retry(policy=POLICY.replace(deadline=0.3, backoff=[0] * 9, attempts=9, clock=clock))
    def function() -> None:
        nonlocal calls
        calls += 1
        clock.advance(0.2)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        function()
    assert calls == 2


# Scopes


def test_override_lies_over_the_policies_of_the_code_inside() -> None:
    """The inner scope wins, and each ends with its block, whatever leaves it."""
    with override(attempts=2):
        assert attempts_of(POLICY) == 2
        with override(attempts=1):
            assert attempts_of(POLICY) == 1
        with pytest.raises(ZeroDivisionError), override(attempts=1):
            raise ZeroDivisionError
        assert attempts_of(POLICY) == 2
    assert attempts_of(POLICY) == 3


def test_override_reaches_every_form() -> None:
    """Decorated, called, looped over, asked by hand, async."""

    def always() -> None:
        raise ConnectionError

    async def always_async() -> None:
        raise ConnectionError

    with override(attempts=1, unsatisfied="return"):
        for call in (
            lambda: POLICY.call(always),
            lambda: asyncio.run(POLICY.acall(always_async)),
            lambda: asyncio.run(retry(policy=POLICY)(always_async)()),
        ):
            with pytest.raises(ConnectionError) as caught:
                call()
            assert "after 1 attempt in" in caught.value.__notes__[0]
        rounds = 0
        with pytest.raises(ConnectionError):
            for attempt in POLICY:
                with attempt:
                    rounds += 1
                    raise ConnectionError
        assert rounds == 1


def test_override_may_bring_a_result_classifier_or_a_deadline_to_a_quiet_function() -> None:
    """The fast path knows when somebody looks."""
    decorated = retry(policy=POLICY)(lambda: current_attempt().remaining)
    assert decorated() is None
    with override(deadline=60):
        assert decorated() == pytest.approx(60, abs=1)
    with (
        override(classify=lambda attempt: None if attempt.error else retry_after()),
        pytest.raises(RetriesExhausted),
    ):
        decorated()


def retry_after() -> Any:
    from retrykit import RetryAfter

    return RetryAfter(0.0)


def test_override_of_a_foreign_factory_lays_over_its_settings() -> None:
    """What the driver reads; its executor decides as before."""

    class Foreign:
        settings = CallSettings(listeners=())

        def new_executor(self, call: Any, /) -> Any:
            return POLICY.new_executor(call)

    told: list[Any] = []
    with override(listeners=(told.append,)):
        attempts_of(Foreign())
    assert len(told) > 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"attempts": 0}, "attempts must be"), ({"atempts": 1}, "did you mean attempts")],
)
def test_override_refuses_bad_fields_at_once(fields: Any, said: str) -> None:
    """With their name and value, before anything is called."""
    with pytest.raises((ValueError, TypeError), match=said), override(**fields):
        raise AssertionError("it was to be refused")


def test_disabled_is_one_attempt_and_no_wait() -> None:
    """hynek/stamina#54, #98: a successful function runs once, a failing one too."""
    calls = 0

    @retry(policy=POLICY.replace(backoff=[3600] * 2))
    def function(fail: bool) -> int:
        nonlocal calls
        calls += 1
        if fail:
            raise ConnectionError
        return calls

    with disabled():
        assert function(False) == 1
        with pytest.raises(ConnectionError) as caught:
            function(True)
    assert calls == 2
    assert not hasattr(caught.value, "__notes__")


def test_disabled_asks_no_foreign_executor() -> None:
    """It cannot revive what is off."""

    class Foreign:
        def new_executor(self, call: Any, /) -> Any:
            return self

        def decide(self, attempt: Any, /) -> Any:
            raise AssertionError("asked")

    with disabled():
        assert attempts_of(Foreign()) == 1
        assert retry(policy=Foreign())(lambda: 5)() == 5


def test_disabled_hands_an_unsatisfactory_value_on() -> None:
    """Being off is no limit that a value could exhaust."""
    policy = POLICY.replace(classify=lambda attempt: retry_after())
    with disabled():
        assert policy.call(lambda: "value") == "value"


def test_scopes_do_not_reach_other_threads_and_tasks() -> None:
    """Only this one, and what it starts."""
    seen: list[int] = []
    with override(attempts=1):
        thread = threading.Thread(target=lambda: seen.append(attempts_of(POLICY)))
        thread.start()
        thread.join()
        assert attempts_of(POLICY) == 1
    assert seen == [3]

    async def main() -> None:
        inside, done = asyncio.Event(), asyncio.Event()

        async def other() -> int:
            await inside.wait()
            count = attempts_of(POLICY)
            done.set()
            return count

        task = asyncio.ensure_future(other())
        await asyncio.sleep(0)
        with override(attempts=1):
            inside.set()
            await done.wait()
        assert await task == 3

    asyncio.run(main())


def test_a_scope_left_in_another_context_does_not_raise() -> None:
    """An async fixture is set up in one context and torn down in another."""
    manager = override(attempts=1)
    contextvars.copy_context().run(manager.__enter__)
    contextvars.copy_context().run(manager.__exit__, None, None, None)
    assert attempts_of(POLICY) == 3


def test_nested_suppress_makes_one_attempt_inside_of_another_call() -> None:
    """And as many as ever on its own."""
    inner = POLICY.replace(nested="suppress")
    counts: list[int] = []

    @retry(policy=POLICY)
    def outer() -> None:
        counts.append(attempts_of(inner))

    assert attempts_of(inner) == 3
    outer()
    assert counts == [1]


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_the_environment_switches_a_process_off(value: str) -> None:
    """`RETRYKIT_DISABLED=1`, read at import; other values leave retries on."""
    program = """
from retrykit import retry
calls = 0
@retry(on=KeyError, backoff=[0, 0], attempts=3, listeners=())
def f():
    global calls
    calls += 1
    raise KeyError
try:
    f()
except KeyError as error:
    print(calls, getattr(error, "__notes__", None) is None)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"RETRYKIT_DISABLED": value, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == (["1", "True"] if value == "1" else ["3", "False"])


def test_the_system_clock_is_looked_up_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that patches `time.sleep` after import is heard (jd/tenacity, its nap module)."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    assert attempts_of(POLICY.replace(backoff=[5, 7], clock=SystemClock())) == 3
    assert slept == [5.0, 7.0]
    assert POLICY.classify == OnException(ConnectionError)


def test_a_scope_remembers_no_end_of_policies() -> None:
    """A program that makes a policy for each call inside of one scope does not fill it."""
    from retrykit._context import MOST_APPLIED, Scope

    scope = Scope(fields={"attempts": 1})
    policies = [POLICY.replace(name=str(n)) for n in range(MOST_APPLIED + 1)]
    for policy in policies:
        assert scope.applied_to(policy).attempts == 1
        assert scope.applied_to(policy) is scope.applied_to(policy)
    assert len(scope._applied) == 1


def test_a_coroutine_may_be_finished_in_another_context() -> None:
    """A reset in a foreign context never raises: a loop that shuts down closes what is left."""

    @retry(policy=POLICY)
    async def function() -> None:
        await asyncio.sleep(0)

    coroutine = function()
    contextvars.copy_context().run(coroutine.send, None)
    contextvars.copy_context().run(coroutine.close)
    assert current_attempt().call is None


@pytest.mark.parametrize(
    ("value", "off"),
    [("1", 1), (" true ", 1), ("Yes", 1), ("on", 1), ("0", 0), ("off", 0), ("", 0), ("2", 0)],
)
def test_which_values_of_the_environment_switch_retries_off(
    monkeypatch: pytest.MonkeyPatch, value: str, off: int
) -> None:
    """Read when the module is loaded, as on the first import of a process."""
    import importlib.util

    from retrykit import _context

    monkeypatch.setenv("RETRYKIT_DISABLED", value)
    spec = importlib.util.spec_from_file_location("context_anew", _context.__file__)
    assert spec is not None
    assert spec.loader is not None
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    assert [scope.disabled for scope in anew.everywhere] == [True] * off
