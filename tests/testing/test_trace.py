"""Traces: what a policy decides, as plain data, and waits compared with what was expected."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    Exponential,
    OnException,
    OnResult,
    Raised,
    RatioBudget,
    RetryAfter,
    RetryDecision,
    RetryPolicy,
    RetryReason,
    disabled,
    override,
)
from retrykit.events import Event
from retrykit.settings import CallSettings
from retrykit.testing import (
    Between,
    Decided,
    RetryTrace,
    ScriptError,
    Slow,
    VirtualClock,
    assert_waits,
    decisions,
    limit_attempts,
    script,
)

POLICY = RetryPolicy.on(OSError, attempts=3, backoff=[0.1, 0.5])


class TestDecisions:
    def test_a_trace_tells_decision_wait_and_reason(self) -> None:
        """As tuples that compare with plain ones and print themselves."""
        trace = decisions(POLICY, script(OSError, OSError, "ok"))
        assert trace == [
            ("retry", 0.1, "transient"),
            ("retry", 0.5, "transient"),
            ("stop", None, "succeeded"),
        ]
        assert repr(trace[0]) == "Decided(decision='retry', wait=0.1, reason='transient')"
        assert type(trace[0].reason) is str

    @pytest.mark.parametrize(
        ("policy", "steps", "end"),
        [
            (POLICY, (OSError,) * 3, "attempts_exhausted"),
            (POLICY, (KeyError,), "not_retryable"),
            (POLICY, ("ok",), "succeeded"),
            (POLICY.replace(attempts=9), (OSError,) * 3, "backoff_exhausted"),
            (POLICY.replace(deadline=0.3), (OSError,) * 2, "deadline_exceeded"),
            (POLICY.replace(deadline=5), (Slow(6, OSError),), "deadline_exceeded"),
            (
                POLICY.replace(limits={RetryReason.TRANSIENT: 1}),
                (OSError,) * 2,
                "reason_exhausted",
            ),
            (POLICY.replace(stop_when=lambda: True), (OSError,), "stopped"),
            (
                POLICY.replace(classify=OnException(OSError, after=lambda _: 3600)),
                (OSError,),
                "server_delay_too_long",
            ),
            (POLICY.replace(classify=OnResult(lambda v: v == 1)), (1, 1, 1), "attempts_exhausted"),
            (POLICY.replace(classify=lambda _: 1 / 0), (OSError,), "strategy_failed"),
        ],
    )
    def test_every_end_is_told(self, policy: RetryPolicy, steps: Any, end: str) -> None:
        """The last entry is the stop, with the reason that the caller would see."""
        assert decisions(policy, script(*steps))[-1] == ("stop", None, end)

    def test_a_script_that_is_over_first_ends_the_trace(self) -> None:
        """The last decision is then the retry that was still to come."""
        assert decisions(POLICY, script(OSError)) == [("retry", 0.1, "transient")]

    def test_the_same_trace_comes_again(self) -> None:
        """A policy that draws from the system's generator is seeded; another seed, other waits."""
        policy = RetryPolicy.on(OSError, backoff=Exponential(1))
        first, again, other = (
            decisions(policy, script(*[OSError] * 5), seed=seed) for seed in (0, 0, 1)
        )
        assert first == again
        assert first != other

    def test_a_policys_own_generator_stays(self) -> None:
        """A seed of the policy's own is part of what is tested."""
        policy = RetryPolicy.on(OSError, backoff=Exponential(1), rng=lambda: Random(7))
        waits = [decided.wait for decided in decisions(policy, script(*[OSError] * 3), seed=3)]
        assert waits == list(Exponential(1).take(3).delays(Random(7)))

    def test_listeners_and_budget_are_the_policys_own(self) -> None:
        """It is a real call: a budget that is drained stays so for the next."""
        told: list[Event] = []
        policy = POLICY.replace(budget=RatioBudget(reserve=2), listeners=(told.append,))
        assert decisions(policy, script(*[OSError] * 3))[-1].reason == "attempts_exhausted"
        assert decisions(policy, script(OSError)) == [("stop", None, "budget_exhausted")]
        assert told

    def test_a_foreign_factory_is_traced_too(self) -> None:
        """Anything with `new_executor`, under its own settings."""

        class Twice:
            settings = CallSettings(deadline=20)

            def new_executor(self, call: Call) -> Twice:
                return self

            def decide(self, attempt: Attempt) -> RetryDecision:
                return RetryAfter(15) if attempt.error else DoNotRetry()

        trace = decisions(Twice(), script(OSError, OSError))
        assert trace == [("retry", 15.0, "transient"), ("stop", None, "deadline_exceeded")]

    @pytest.mark.parametrize("form", ["asynchronous", "generator", "async_generator"])
    def test_every_form_gives_the_same_trace(self, form: str) -> None:
        """One engine."""
        steps = (OSError, OSError, "ok")
        trace = decisions(POLICY, getattr(script(*steps), form))
        assert trace == decisions(POLICY, script(*steps))

    def test_an_async_attempt_is_cut_by_its_timeout(self) -> None:
        """In virtual time."""
        policy = RetryPolicy.on(KeyError, attempt_timeout=2, backoff=[0.1])
        trace = decisions(policy, script(Slow(60, "late"), "ok", asynchronous=True))
        assert trace == [("retry", 0.1, "timed_out"), ("stop", None, "succeeded")]

    def test_a_scripted_cancel_ends_the_trace(self) -> None:
        """It is told as a cancel, and not raised."""
        for step in (
            KeyboardInterrupt,
            asyncio.CancelledError(),
            Slow(2, KeyboardInterrupt),
            Raised(SystemExit()),  # type: ignore[arg-type]  # no outcome of a call, and raised as it is
        ):
            assert decisions(POLICY, script(OSError, step))[-1] == ("stop", None, "cancelled")

    def test_an_interrupt_of_the_functions_own_leaves(self) -> None:
        """Ctrl-C is not swallowed."""

        def interrupted() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            decisions(POLICY, interrupted)

        def interrupts(error: BaseException) -> None:
            raise error

        steps = script(Slow(1, OSError), Raised(OSError()))
        with pytest.raises(KeyboardInterrupt):
            decisions(POLICY.replace(stop_when=lambda: interrupts(KeyboardInterrupt())), steps)

    def test_a_script_within_that_is_over_is_an_error(self) -> None:
        """Only the traced script may end early."""
        inner = script()
        with pytest.raises(ScriptError):
            decisions(POLICY, lambda: inner())

    def test_a_call_within_is_not_part_of_the_trace(self) -> None:
        """It makes decisions of its own."""
        inner = POLICY.replace(backoff=[9, 9])
        outer = script(OSError, "ok")

        def function() -> Any:
            inner.call(script(OSError, "fine"))
            return outer()

        assert decisions(POLICY, function) == [
            ("retry", 0.1, "transient"),
            ("stop", None, "succeeded"),
        ]

    def test_switches_around_it_hold(self) -> None:
        """What is traced is what would happen here."""
        with limit_attempts(2), override(backoff=[7]):
            assert decisions(POLICY, script(OSError, OSError)) == [
                ("retry", 7.0, "transient"),
                ("stop", None, "attempts_exhausted"),
            ]
        with disabled():
            assert decisions(POLICY, script(OSError)) == [("stop", None, "disabled")]

    def test_an_async_script_needs_a_place_of_its_own(self) -> None:
        """Inside of a running event loop it says so."""

        async def main() -> None:
            with pytest.raises(RuntimeError, match="event loop of its own"):
                decisions(POLICY, script("ok", asynchronous=True))

        asyncio.run(main())

    @pytest.mark.parametrize("bad", [3, "policy", OSError])
    def test_what_is_no_policy_is_refused(self, bad: Any) -> None:
        """By name."""
        with pytest.raises(TypeError, match=r"policy must have new_executor\(call\), got"):
            decisions(bad, script("ok"))


class TestAssertWaits:
    def test_exact_waits_and_intervals_pass(self) -> None:
        """Numbers are met to nine digits, intervals include their ends; a stop has no wait."""
        trace = decisions(POLICY, script(*[OSError] * 3))
        assert_waits(trace, [0.1, 0.5])
        assert_waits(trace, [Between(0, 0.1), (0.5, 2)])
        assert_waits([0.1 + 0.2], [0.3])
        assert_waits([], [])

    def test_the_bounds_of_a_policy_are_intervals(self) -> None:
        """`policy.delay_bounds(n)` says what the n-th wait may be."""
        policy = RetryPolicy.on(OSError, attempts=4, backoff=Exponential(1, cap=3))
        trace = decisions(policy, script(*[OSError] * 4))
        assert_waits(trace, [policy.delay_bounds(n) for n in (1, 2, 3)])

    def test_a_difference_is_set_side_by_side(self) -> None:
        """Which wait, by how much, and what else there was."""
        with pytest.raises(AssertionError) as caught:
            assert_waits([0.05, 1.5, 0.2, 3], [Between(0, 0.1), 1.0, (0.5, 1)])
        assert str(caught.value).splitlines() == [
            "the waits are not those expected",
            "  wait 1: 0.05, between 0 and 0.1",
            "  wait 2: 1.5, not 1.0: 0.5 s too long  <--",
            "  wait 3: 0.2, not between 0.5 and 1: 0.3 s too short  <--",
            "  wait 4: 3.0, and none is expected  <--",
        ]

    def test_a_missing_wait_is_told(self) -> None:
        """A call that gave up early."""
        with pytest.raises(AssertionError, match=r"wait 2: none, and 1.0 is expected  <--"):
            assert_waits([1.0], [1.0, 1.0])

    @pytest.mark.parametrize(
        ("bad", "text"),
        [
            ([Between(2, 1)], r"expected\[0\] must be a low and a high, got Between\(2, 1\)"),
            ([(1, 2, 3)], r"expected\[0\] must be a low and a high"),
            ([1, float("nan")], r"expected\[1\] must be finite, got nan"),
        ],
    )
    def test_a_senseless_expectation_is_refused(self, bad: Any, text: str) -> None:
        """An interval that nothing lies in would fail for the wrong reason."""
        with pytest.raises(ValueError, match=text):
            assert_waits([1.0, 1.0], bad)


class TestRetryTrace:
    def test_a_trace_listens_to_a_policy(self) -> None:
        """It is a listener, and sorts by function."""
        trace = RetryTrace()

        def fetch() -> None:
            raise OSError("down")

        def load() -> str:
            return "ok"

        policy = POLICY.replace(listeners=(trace,), backoff=[0, 0])
        with pytest.raises(OSError):
            policy.call(fetch)
        policy.call(load)
        assert len(trace) == 4
        assert trace.waits == [0.0, 0.0]
        assert trace.of("load").decisions == [Decided("stop", None, "succeeded")]
        assert trace.of("fetch").decisions[-1].reason == "attempts_exhausted"
        assert repr(trace) == "<RetryTrace of 4 decisions>"

    def test_its_text_is_one_line_a_decision(self) -> None:
        """Function, attempt, what happened, what follows; no argument, no value, no error text."""
        trace = RetryTrace()
        policy = POLICY.replace(listeners=(trace,), backoff=[0.5], clock=VirtualClock())

        def fetch(secret: str) -> None:
            raise OSError(secret)

        with pytest.raises(OSError):
            policy.call(fetch, "s3cret")
        with pytest.raises(KeyError):
            policy.call(script(KeyError("s3cret")))
        with pytest.raises(KeyboardInterrupt):
            policy.call(script(KeyboardInterrupt))
        policy.call(script("s3cret"))
        text = str(trace).replace(
            "TestRetryTrace.test_its_text_is_one_line_a_decision.<locals>.", ""
        )
        assert text.splitlines() == [
            "fetch: attempt 1 failed (OSError, transient), next in 0.500 s (backoff)",
            "fetch: attempt 2 failed (OSError), gave up after 0.500 s (backoff_exhausted)",
            "script: attempt 1 failed (KeyError), not retried after 0.000 s (not_retryable)",
            "script: attempt 1 was cancelled, after 0.000 s in all",
            "script: attempt 1 succeeded, after 0.000 s in all",
        ]
