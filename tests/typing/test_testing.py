"""What the type checkers must say of the test kit. Checked, not run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, assert_type

from hypothesis.strategies import SearchStrategy

import retrykit.testing
from retrykit import FullJitter, RatioBudget, RetryPolicy, retry, transient
from retrykit.backoff import BackoffBase
from retrykit.clock import Clock
from retrykit.testing import (
    Between,
    Decided,
    RetryTrace,
    Slow,
    VirtualClock,
    assert_waits,
    check_backoff,
    check_budget,
    check_classifier,
    check_jitter,
    check_policy,
    decisions,
    instant,
    limit_attempts,
    script,
    strategies,
)

# The clock

clock = VirtualClock(10, wall=1e9, grace=timedelta(seconds=1))
as_clock: Clock = clock
policy = RetryPolicy(clock=clock)
assert_type(clock.now(), float)
assert_type(clock.sleeps, list[float])
clock.advance(timedelta(minutes=1))
clock.spend(2)
with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
    runner.run(clock.sleep_async(1))
with clock.paused():
    pass

# Switches

with instant() as waits, instant(everywhere=True), limit_attempts(2, everywhere=True):
    assert_type(waits, list[float])

# Scripts and traces

fetch = script(ConnectionError, 503, Slow(1.5, "ok"), clock=clock)
fetch_async = script("ok", asynchronous=True)
assert_type(fetch(1, a=2), Any)
assert_type(fetch.calls[0].args, tuple[Any, ...])
assert_type(retry(fetch)("x"), Any)


async def asynchronous() -> None:
    assert_type(await fetch_async(), Any)
    assert_type(await policy.acall(fetch.asynchronous, 1), Any)


trace = decisions(policy, fetch, seed=1)
assert_type(trace, list[Decided])
assert_type(trace[0].wait, float | None)
assert_waits(trace, [Between(0, 1), 1.0, policy.delay_bounds(1), (0, 2)])
assert_waits(clock.sleeps, [1])
assert_waits(RetryTrace(), [])
RetryPolicy(listeners=(RetryTrace(),))

# Strategies and laws

assert_type(strategies.backoffs(), SearchStrategy[BackoffBase])
assert_type(strategies.policies(), SearchStrategy[RetryPolicy])
check_backoff(policy.backoff, steps=5)
check_jitter(FullJitter())
check_classifier(transient, attempts=strategies.attempts())
check_budget(RatioBudget())
check_policy(policy)
retrykit.testing.check_policy(policy)
