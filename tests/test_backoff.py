"""Backoffs: their steps, bounds and limits, and what every composition of them keeps."""

# ruff: noqa: RUF005 - a list beside `+` is what these tests are about

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import random
import sys
import threading
from datetime import timedelta
from itertools import count, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.backoff import (
    LONGEST,
    BackoffBase,
    ByReason,
    Constant,
    Custom,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Polynomial,
    Schedule,
    as_backoff,
)
from retrykit.decision import RetryReason
from retrykit.jitter import (
    AdditiveJitter,
    Bounds,
    EqualJitter,
    FullJitter,
    NoJitter,
    ProportionalJitter,
)

exact = NoJitter()
unlimited = Bounds(0.0, math.inf)


class Lowest(random.Random):
    """Draws the lowest of every range."""

    def random(self):
        return 0.0


class Highest(random.Random):
    """Draws the highest that there is below one."""

    def random(self):
        return 1 - 2**-53


def steps(backoff, n=6, rng=None):
    return list(islice(backoff.delays(rng or random.Random(1)), n))


def bounds(backoff, n=6):
    return list(islice(backoff.bounds(), n))


def points(*delays):
    return [(delay, delay) for delay in delays]


@dataclasses.dataclass(frozen=True)
class Wobble:
    """A jitter of a user's own: a second either way, so below zero too."""

    amount: float = 1.0

    def __call__(self, delay, rng):
        return delay - self.amount + 2 * self.amount * rng.random()

    def bounds(self, delay):
        return Bounds(delay - self.amount, delay + self.amount)


@dataclasses.dataclass(frozen=True)
class Plain:
    """A backoff of a user's own with the three members and nothing else."""

    low: float = 1.0
    high: float = 3.0
    limits: Bounds = unlimited

    def delays(self, rng):
        for low, high in self.bounds():
            yield min(low + (high - low) * rng.random(), high)

    def bounds(self):
        for step in count(1):
            yield Bounds(step * self.low, step * self.low + (self.high - self.low))


@dataclasses.dataclass(frozen=True)
class Sawtooth(BackoffBase):
    """A backoff of a user's own on the public base class, exact, with the default limits."""

    top: int = 3

    def delays(self, rng):
        while True:
            yield from map(float, range(self.top))

    def bounds(self):
        return (Bounds(delay, delay) for delay in self.delays(None))


# The sequences


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Constant(0.5), [0.5] * 6),
        (Constant(0), [0.0] * 6),
        (Constant(timedelta(minutes=1)), [60.0] * 6),
        (Schedule(0, 0.5, timedelta(seconds=2)), [0.0, 0.5, 2.0]),
        (Schedule(), []),
        (Exponential(1, jitter=exact), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
        (Exponential(0.25, factor=3, cap=5, jitter=exact), [0.25, 0.75, 2.25, 5.0, 5.0, 5.0]),
        (Exponential(1, factor=1.5, jitter=exact), [1.0, 1.5, 2.25, 3.375, 5.0625, 7.59375]),
        (Exponential(2, factor=1, jitter=exact), [2.0] * 6),
        (Exponential(0, cap=5, jitter=exact), [0.0] * 6),
        (Exponential(5, cap=5, jitter=exact), [5.0] * 6),
        (Linear(1, 2, jitter=exact), [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]),
        (Linear(0, 0.1, jitter=exact), [0.0, 0.1, 0.2, 0.1 * 3, 0.4, 0.5]),
        (Linear(2, 0, jitter=exact), [2.0] * 6),
        (Polynomial(0.5, 2, jitter=exact), [0.5, 2.0, 4.5, 8.0, 12.5, 18.0]),
        (Polynomial(2, 0.5, jitter=exact), [2 * math.sqrt(n) for n in range(1, 7)]),
        (Polynomial(2, 0, jitter=exact), [2.0] * 6),
        (Polynomial(0, 2000, jitter=exact), [0.0] * 6),
        (Fibonacci(1, jitter=exact), [1.0, 1.0, 2.0, 3.0, 5.0, 8.0]),
        (Fibonacci(0.5, jitter=exact), [0.5, 0.5, 1.0, 1.5, 2.5, 4.0]),
        (Custom(Plain(2.0, 2.0)), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]),
        (Sawtooth(), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
    ],
    ids=repr,
)
def test_the_steps(backoff, expected):
    """The waits are the formula's; their bounds are the same points."""
    assert steps(backoff) == expected
    assert bounds(backoff) == points(*expected)


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Exponential(1), [(0, 1), (0, 2), (0, 4), (0, 8)]),
        (Exponential(1, cap=3), [(0, 1), (0, 2), (0, 3), (0, 3)]),
        (Exponential(1, cap=3, jitter=EqualJitter()), [(0.5, 1), (1, 2), (1.5, 3), (1.5, 3)]),
        (Linear(1, 2), [(0, 1), (0, 3), (0, 5), (0, 7)]),
        (Polynomial(1, 2), [(0, 1), (0, 4), (0, 9), (0, 16)]),
        (Fibonacci(1), [(0, 1), (0, 1), (0, 2), (0, 3)]),
        (Decorrelated(1, cap=20), [(1, 3), (1, 9), (1, 20), (1, 20)]),
        (Decorrelated(0, cap=20), points(0, 0, 0, 0)),
        (Decorrelated(2, cap=2), points(2, 2, 2, 2)),
        (Custom(Plain()), [(1, 3), (2, 4), (3, 5), (4, 6)]),
    ],
    ids=repr,
)
def test_the_bounds(backoff, expected):
    """Growing backoffs bring full jitter; the decorrelated one runs from its base to three times
    the highest before."""
    assert bounds(backoff, 4) == expected


@pytest.mark.parametrize("seed", range(5))
def test_exponential_is_aws_full_jitter(seed):
    """The waits are AWS's `random_between(0, min(cap, base * 2 ** attempt))`, seed for seed."""
    rng = random.Random(seed)
    expected = [rng.uniform(0, min(20, 0.25 * 2**attempt)) for attempt in range(12)]
    assert steps(Exponential(0.25, cap=20), 12, random.Random(seed)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_decorrelated_is_aws_formula(seed):
    """The waits are AWS's `min(cap, uniform(base, 3 * previous))`, seed for seed."""
    rng, previous, expected = random.Random(seed), 0.5, []
    for _ in range(30):
        previous = min(10, rng.uniform(0.5, 3 * previous))
        expected.append(previous)
    assert steps(Decorrelated(0.5, cap=10), 30, random.Random(seed)) == pytest.approx(expected)


# Limits


@pytest.mark.parametrize(
    ("backoff", "limits"),
    [
        (Constant(5), (0, math.inf)),
        (Schedule(1, 2), (0, math.inf)),
        (Exponential(1), (0, math.inf)),
        (Exponential(1, cap=3), (0, 3)),
        (Linear(1, 2), (0, math.inf)),
        (Decorrelated(1, cap=20), (1, 20)),
        (Decorrelated(1, cap=20).capped(5), (1, 5)),
        (Decorrelated(1, cap=20).at_least(5), (5, 20)),
        (Sawtooth(), (0, math.inf)),
        (Constant(5).capped(3), (0, 3)),
        (Constant(5).at_least(3), (3, math.inf)),
        (Constant(5).at_least(3).capped(4), (3, 4)),
        (Constant(5).capped(4).at_least(3), (3, 4)),
        (Constant(5).capped(4).capped(6), (0, 4)),
        (Constant(5).at_least(4).at_least(2), (4, math.inf)),
        (Exponential(1, cap=3).capped(5), (0, 3)),
        (Exponential(1, cap=3).capped(2), (0, 2)),
        (Constant(5).capped(timedelta(seconds=4)), (0, 4)),
        (Constant(5).at_least(timedelta(seconds=4)), (4, math.inf)),
        (Constant(5).capped(3).take(2), (0, 3)),
        (Constant(5).take(2).capped(3), (0, 3)),
        (Constant(5).capped(3).jittered(FullJitter()), (0, 3)),
        (Constant(5).jittered(FullJitter()).capped(3), (0, 3)),
        (Constant(1).at_least(1).capped(2).then(Constant(5).capped(6)), (0, 6)),
        (Constant(1).at_least(1).then(Constant(5).at_least(2)), (1, math.inf)),
        (Constant(1).at_least(1).capped(2) + Constant(5).at_least(3).capped(6), (4, 8)),
        (Constant(1).capped(2) + Constant(5), (0, math.inf)),
        (ByReason({RetryReason.THROTTLED: Constant(1).capped(9)}, default=[1]), (0, math.inf)),
        (
            ByReason(
                {RetryReason.THROTTLED: Constant(5).at_least(3).capped(9)},
                default=Constant(1).at_least(1).capped(2),
            ),
            (1, 9),
        ),
        (Custom(Plain(limits=Bounds(1.0, 9.0))), (1, 9)),
        (Custom(Plain(limits=Bounds(1.0, 9.0))).capped(5), (1, 5)),
    ],
    ids=repr,
)
def test_the_limits(backoff, limits):
    """Limits are the tightest floor and cap that were set, zero and infinity without any."""
    assert isinstance(backoff.limits, Bounds)
    assert backoff.limits == limits


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        # Exact waits are cut.
        (Schedule(1, 5, 9).capped(4), points(1, 4, 4)),
        (Schedule(1, 5, 9).at_least(4), points(4, 5, 9)),
        (Schedule(1, 5, 9).at_least(4).capped(6), points(4, 5, 6)),
        (Schedule(1, 5).capped(0), points(0, 0)),
        (Custom(Plain(2, 2)).capped(5).take(3), points(2, 4, 5)),
        (Sawtooth().capped(1).take(3), points(0, 1, 1)),
        # An interval that reaches past the cap moves below it, with its width.
        (Schedule(10).jittered(ProportionalJitter(0.2)).capped(10), [(6, 10)]),
        (Schedule(10).capped(10).jittered(ProportionalJitter(0.2)), [(6, 10)]),
        (Schedule(10).jittered(AdditiveJitter(2)).capped(11), [(9, 11)]),
        (Schedule(10).jittered(EqualJitter()).capped(8), [(3, 8)]),
        (Custom(Plain(1, 3)).capped(3).take(3), [(1, 3), (1, 3), (1, 3)]),
        # And one that reaches below the floor moves above it.
        (Schedule(10).jittered(EqualJitter()).at_least(6), [(6, 11)]),
        (Schedule(1).jittered(FullJitter()).at_least(5), [(5, 6)]),
        (Schedule(1).at_least(5).jittered(FullJitter()), [(5, 10)]),
        (Exponential(1).at_least(5).take(4), [(5, 6), (5, 7), (5, 9), (5, 13)]),
        # Below zero nobody can wait.
        (Schedule(0.5).jittered(Wobble()), [(0, 2)]),
        (Schedule(0.5).jittered(Wobble()).capped(1.5), [(0, 1.5)]),
        # It is squeezed where it is wider than the room.
        (Schedule(10).jittered(ProportionalJitter(0.5)).capped(5), [(0, 5)]),
        (Schedule(10).jittered(ProportionalJitter(0.5)).at_least(4).capped(6), [(4, 6)]),
        (Schedule(10).at_least(4).capped(6).jittered(ProportionalJitter(1)), [(4, 6)]),
        (Schedule(1).jittered(AdditiveJitter(9)).at_least(4).capped(6), [(4, 6)]),
        # Growth stops at the cap first.
        (
            Exponential(1, jitter=EqualJitter()).capped(3).take(4),
            [(0.5, 1), (1, 2), (1.5, 3), (1.5, 3)],
        ),
        (
            Exponential(1, cap=4, jitter=ProportionalJitter(0.5)).take(4),
            [(0.5, 1.5), (1, 3), (0, 4), (0, 4)],
        ),
        (Exponential(8, cap=9, jitter=AdditiveJitter(2)).take(2), [(7, 9), (7, 9)]),
        (Exponential(8).capped(5).take(2), [(0, 5), (0, 5)]),
        # Decorrelated limits are its two parameters.
        (Decorrelated(1, cap=20).capped(5).take(3), [(1, 3), (1, 5), (1, 5)]),
        (Decorrelated(1, cap=20).at_least(2).take(3), [(2, 6), (2, 18), (2, 20)]),
        # Sums are moved as one.
        ((Exponential(4) + Constant(3)).capped(5).take(2), [(1, 5), (0, 5)]),
        ((Exponential(4) + Constant(3)).at_least(4).take(2), [(4, 8), (4, 12)]),
    ],
    ids=repr,
)
def test_a_limit_moves_the_draws_inside(backoff, expected):
    """A cap is hard after the jitter, whenever it was set, and the spread survives it; a floor too
    (openai-agents-python#2676, jd/tenacity#703)."""
    lows, highs = zip(*expected, strict=True)
    assert [low for low, _ in bounds(backoff)] == pytest.approx(lows, abs=1e-12)
    assert [high for _, high in bounds(backoff)] == pytest.approx(highs, abs=1e-12)
    for seed in range(50):
        for wait, (low, high) in zip(steps(backoff, 6, random.Random(seed)), expected, strict=True):
            assert low <= wait <= high
    assert steps(backoff, 6, Lowest()) == pytest.approx(lows, abs=1e-12)
    assert steps(backoff, 6, Highest()) == pytest.approx(highs, abs=1e-12)


def test_a_cap_of_a_growing_backoff_is_its_cap():
    """`capped` and `cap=` are one thing."""
    jitter = EqualJitter()
    for seed in range(20):
        rngs = random.Random(seed), random.Random(seed)
        assert steps(Exponential(1, cap=5, jitter=jitter), 9, rngs[0]) == steps(
            Exponential(1, jitter=jitter).capped(5), 9, rngs[1]
        )


def test_a_moved_draw_keeps_its_place_in_the_interval():
    """A draw a quarter into the interval stays a quarter into where that has moved."""

    class Quarter(random.Random):
        def random(self):
            return 0.25

    squeezed = Constant(10).jittered(ProportionalJitter(0.5)).at_least(2).capped(6)
    assert steps(squeezed, 1, Quarter()) == [3.0]
    moved = Constant(10).jittered(ProportionalJitter(0.5)).capped(12)
    assert steps(moved, 1, Quarter()) == [4.5]


every_jitter = [
    FullJitter(),
    EqualJitter(),
    ProportionalJitter(),
    AdditiveJitter(2.0),
    Wobble(),
]


@pytest.mark.parametrize("jitter", every_jitter, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda jitter: Exponential(1, cap=10, jitter=jitter),
        lambda jitter: Exponential(1, jitter=jitter).capped(10),
        lambda jitter: Linear(1, 3, jitter=jitter).capped(10),
        lambda jitter: Polynomial(1, 3, jitter=jitter).capped(10),
        lambda jitter: Fibonacci(1, jitter=jitter).capped(10),
        lambda jitter: Constant(10).capped(10).jittered(jitter),
        lambda jitter: Constant(10).jittered(jitter).capped(10),
        lambda jitter: Constant(30).jittered(jitter).capped(10),
        lambda jitter: (Exponential(1, jitter=exact) + Constant(1)).jittered(jitter).capped(10),
        lambda jitter: (Exponential(1, jitter=jitter) + Constant(1)).capped(10),
        lambda jitter: ByReason({}, default=Exponential(1, jitter=jitter)).capped(10),
    ],
)
def test_the_spread_survives_the_cap(make, jitter):
    """At the cap 200 clients wait 200 different times, none of them longer (ferd/backoff#8)."""
    backoff = make(jitter)
    last = [steps(backoff, 12, random.Random(seed))[-1] for seed in range(200)]
    assert max(last) <= 10
    assert len(set(last)) == 200
    assert max(last) - min(last) > 0.9 * min(2, 10)


def test_decorrelated_spreads_at_the_cap():
    """AWS's formula waits for just the cap about every other time there, and spreads the rest."""
    last = [steps(Decorrelated(1, cap=10), 40, random.Random(seed))[-1] for seed in range(200)]
    assert max(last) == 10
    assert len(set(last)) > 80


def test_the_spread_survives_the_floor():
    """Waits lifted to a floor do not fall together on it."""
    first = [steps(Exponential(1).at_least(5), 1, random.Random(seed))[0] for seed in range(200)]
    assert min(first) >= 5
    assert len(set(first)) == 200


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Constant(1).at_least(5).capped(3), "cap must be at least the floor, 5, got 3"),
        (lambda: Constant(1).capped(3).at_least(5), "floor must be at most the cap, 3, got 5"),
        (lambda: Exponential(1, cap=3).at_least(5), "floor must be at most the cap, 3, got 5"),
        (lambda: Decorrelated(2, cap=9).capped(1), "cap must be at least the floor, 2, got 1"),
        (lambda: Decorrelated(2, cap=9).at_least(10), "floor must be at most the cap, 9, got 10"),
        (
            lambda: Constant(1).at_least(5).jittered(FullJitter()).capped(3),
            "cap must be at least the floor, 5, got 3",
        ),
        (lambda: Constant(1).at_least(5).take(3).capped(3), "cap must be at least the floor, 5"),
        (
            lambda: Constant(1).then(Constant(1).at_least(5)).capped(3),
            "cap must be at least the floor, 5, got 3",
        ),
        (
            lambda: (Constant(1).at_least(5) + Constant(1).at_least(5)).capped(9),
            "cap must be at least the floor, 10, got 9",
        ),
        (
            lambda: ByReason(
                {RetryReason.THROTTLED: Constant(9).at_least(5)}, default=Constant(1)
            ).capped(3),
            "cap must be at least the floor, 5, got 3",
        ),
        (
            lambda: Custom(Plain(limits=Bounds(5.0, 9.0))).capped(3),
            "cap must be at least the floor, 5, got 3",
        ),
    ],
)
def test_a_floor_above_the_cap_is_refused(make, text):
    """Limits that no wait can keep are refused where they meet, through every combinator."""
    with pytest.raises(ValueError, match=text):
        make()


def test_a_floor_at_the_cap_leaves_one_wait():
    """Where there is no room, there is no spread."""
    backoff = Exponential(1).at_least(5).capped(5)
    assert bounds(backoff, 3) == points(5, 5, 5)
    assert steps(backoff, 3) == [5, 5, 5]


@pytest.mark.parametrize("backoff", [Constant(1), Exponential(1, cap=3), Constant(4).capped(3)])
def test_limits_that_are_no_tighter_change_nothing(backoff):
    """A higher cap and a lower floor leave the backoff as it is."""
    assert backoff.capped(LONGEST).capped(LONGEST) == backoff.capped(LONGEST)
    assert backoff.at_least(0) == backoff
    assert Exponential(1, cap=3).capped(3) == Exponential(1, cap=3)
    assert Exponential(1, cap=3).capped(9) == Exponential(1, cap=3)


# Far out, and huge


growing = [
    Exponential(1, jitter=exact),
    Exponential(0.25, factor=1.5, jitter=exact),
    Exponential(1, factor=1e308, jitter=exact),
    Exponential(1e308, factor=1e308, jitter=exact),
    Exponential(LONGEST, jitter=exact),
    Linear(1, 1e300, jitter=exact),
    Linear(1e300, 1, jitter=exact),
    Polynomial(1, 1e6, jitter=exact),
    Polynomial(1e308, 5, jitter=exact),
    Polynomial(3, 300, jitter=exact),
    Fibonacci(1, jitter=exact),
    Fibonacci(1e308, jitter=exact),
    Exponential(1, jitter=exact) + Exponential(1, jitter=exact),
    Constant(1e308) + Constant(1e308),
]


@pytest.mark.parametrize("backoff", growing, ids=repr)
def test_growth_without_a_cap_stops_at_the_longest_wait(backoff):
    """No step overflows, and growth ends at a wait that the platform can take
    (hynek/stamina#104, redis/redis-py#4320, twisted/twisted#9476)."""
    waits = steps(backoff, 3000)
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST
    assert bounds(backoff, 3000) == points(*waits)


@pytest.mark.parametrize("jitter", [*every_jitter, ProportionalJitter(1)], ids=repr)
def test_the_spread_survives_the_longest_wait(jitter):
    """Even where the growth has stopped by itself, the draws stay below and apart."""
    backoff = Exponential(1e300, jitter=jitter)
    last = [steps(backoff, 1, random.Random(seed))[0] for seed in range(200)]
    assert max(last) <= LONGEST
    assert len(set(last)) == 200


@pytest.mark.parametrize("base", [1, 1.0], ids=["int", "float"])
@pytest.mark.parametrize("attempt", [10, 1025, 5000, 10**5])
def test_the_cap_is_reached_and_kept_at_any_attempt(base, attempt):
    """A capped exponential answers its cap, a float, however far out (hynek/stamina#137,
    jd/tenacity#526)."""
    backoff = Exponential(base, factor=2, cap=60, jitter=exact)
    wait = next(islice(backoff.delays(random.Random(1)), attempt - 1, None))
    assert (wait, type(wait)) == (60.0, float)


def test_the_millionth_wait_is_the_cap():
    """A million attempts are no reason to raise or to slow down."""
    backoff = Exponential(1, cap=60, jitter=exact)
    assert next(islice(backoff.delays(random.Random(1)), 10**6 - 1, None)) == 60.0


@pytest.mark.parametrize(
    "backoff",
    [
        Constant(1),
        Exponential(1),
        Exponential(1, cap=60),
        Exponential(1).capped(60),
        Linear(1, 1),
        Polynomial(1, 3),
        Fibonacci(1),
        Decorrelated(1, cap=60),
        Exponential(1) + Linear(1, 1),
        Constant(1).take(1).then(Exponential(1)).capped(5),
        Constant(1).jittered(Wobble()).capped(1),
        ByReason({}, default=Exponential(1)),
    ],
    ids=repr,
)
def test_every_step_costs_the_same(backoff):
    """A step executes as many lines far out as near, on numbers of the same size.

    Big integers, a power or a loop from the start would make later steps dearer.
    """
    rng = random.Random(1)
    waits = backoff.delays(rng)

    def cost():
        lines = 0

        def trace(frame, event, arg):
            nonlocal lines
            if not frame.f_globals["__name__"].startswith("retrykit"):
                return None
            lines += event == "line"
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            wait = next(waits)
        finally:
            sys.settrace(previous)
        assert type(wait) is float
        return lines

    def dearest():
        return max(cost() for _ in range(20))

    near = dearest()
    for _ in range(20_000):
        next(waits)
    far = dearest()
    assert far <= near
    for _ in range(20_000):
        next(waits)
    assert dearest() == far


def test_the_longest_wait_is_one_that_a_lock_takes():
    """The longest wait is accepted where the platform waits, a longer one is not."""
    lock = threading.Lock()
    assert lock.acquire(timeout=LONGEST)
    lock.release()
    with pytest.raises(OverflowError):
        lock.acquire(timeout=LONGEST * 2)


@pytest.mark.parametrize(
    "backoff",
    [
        Constant(1e300),
        Constant(timedelta.max),
        Schedule(10**300),
        Linear(1e300, 0, jitter=exact),
        Constant(1).at_least(1e300),
        Constant(1e300).capped(1e305),
    ],
    ids=repr,
)
def test_a_wait_that_is_too_long_is_taken_as_the_longest(backoff):
    """What no platform can sleep for is not passed on to a sleep that would raise."""
    assert steps(backoff, 1) == [LONGEST]


# Combinators


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Constant(1).take(0), []),
        (Constant(1).take(2), [1, 1]),
        (Schedule(1, 2, 3).take(2), [1, 2]),
        (Schedule(1, 2, 3).take(9), [1, 2, 3]),
        (Schedule(1, 2, 3).take(2).take(9), [1, 2]),
        (Schedule(1, 2, 3).take(9).take(1), [1]),
        (Schedule(1, 2).take(10**400), [1, 2]),
        (Schedule(1, 2).then(Schedule(3)), [1, 2, 3]),
        (Schedule(1, 2).then([3, 4]), [1, 2, 3, 4]),
        (Schedule(1, 2).then((3,)), [1, 2, 3]),
        (Constant(1).take(2).then(Exponential(1, jitter=exact)), [1, 1, 1, 2, 4, 8]),
        (Constant(1).then(Constant(2)), [1] * 6),
        (Schedule().then([1]), [1]),
        (Schedule(1).then(Sawtooth()), [1, 0, 1, 2, 0, 1]),
        (Schedule(1).then(Plain(2, 2)), [1, 2, 4, 6, 8, 10]),
        (Schedule(1, 2, 3) + Constant(0.5), [1.5, 2.5, 3.5]),
        (Constant(0.5) + Schedule(1, 2, 3), [1.5, 2.5, 3.5]),
        (Schedule(1, 2, 3) + Schedule(10, 20), [11, 22]),
        (Schedule(1, 2, 3) + [10, 20], [11, 22]),
        ([10, 20] + Schedule(1, 2, 3), [11, 22]),
        (Constant(1) + Plain(2, 2), [3, 5, 7, 9, 11, 13]),
        (Plain(2, 2) + Constant(1), [3, 5, 7, 9, 11, 13]),
        (Sawtooth() + Constant(1), [1, 2, 3, 1, 2, 3]),
        (Schedule(1, 2) + Schedule(), []),
        (Schedule(1, 2).jittered(exact), [1, 2]),
        (Custom(Plain(2, 2)).take(2).then([0]), [2, 4, 0]),
    ],
    ids=repr,
)
def test_combined_steps(backoff, expected):
    """`take` ends a sequence, `then` goes on with another, `+` adds while both have a wait."""
    assert steps(backoff) == expected
    assert bounds(backoff) == points(*expected)


def test_the_second_of_two_begins_at_its_beginning():
    """What follows starts afresh, its memory of earlier draws included."""
    backoff = Schedule(100).then(Decorrelated(1, cap=500))
    assert bounds(backoff, 3) == [(100, 100), (1, 3), (1, 9)]
    assert steps(backoff, 3, Highest()) == pytest.approx([100, 3, 9])


def test_a_sum_attains_the_sum_of_the_bounds():
    """Each of two draws can be lowest and highest at the same time."""
    backoff = Exponential(1) + Decorrelated(1, cap=20)
    assert bounds(backoff, 3) == [(1, 4), (1, 11), (1, 24)]
    assert steps(backoff, 3, Lowest()) == [1, 1, 1]
    assert steps(backoff, 3, Highest()) == pytest.approx([4, 11, 24])


def test_jitter_comes_between_the_limits_and_the_draw():
    """What was capped before the jitter keeps the cap after it."""
    backoff = Schedule(1, 5, 9).capped(6).jittered(AdditiveJitter(2))
    assert bounds(backoff) == [(1, 3), (4, 6), (4, 6)]


@pytest.mark.parametrize(
    ("plain", "jittered"),
    [
        (Exponential(1, cap=4, jitter=exact), Exponential(1, cap=4, jitter=EqualJitter())),
        (Linear(1, 2, jitter=exact), Linear(1, 2, jitter=EqualJitter())),
        (Polynomial(1, 2, jitter=exact), Polynomial(1, 2, jitter=EqualJitter())),
        (Fibonacci(1, jitter=exact), Fibonacci(1, jitter=EqualJitter())),
        (
            Schedule(1, 2).take(1).then(Exponential(1, jitter=exact)),
            Schedule(1, 2)
            .jittered(EqualJitter())
            .take(1)
            .then(Exponential(1, jitter=EqualJitter())),
        ),
    ],
    ids=repr,
)
def test_jitter_added_later_is_the_same_jitter(plain, jittered):
    """A growing backoff without jitter takes one as if it had been made with it."""
    assert plain.jittered(EqualJitter()) == jittered
    assert bounds(plain.jittered(EqualJitter())) == bounds(jittered)


@pytest.mark.parametrize(
    "backoff",
    [
        Exponential(1),
        Exponential(1, jitter=EqualJitter()),
        Linear(1, 1),
        Polynomial(1, 1),
        Fibonacci(1),
        Decorrelated(1, cap=9),
        Constant(1).jittered(FullJitter()),
        Constant(1).jittered(Wobble()),
        Exponential(1).capped(9),
        Exponential(1).at_least(1),
        Exponential(1).take(3),
        Exponential(1).then([1]),
        Schedule(1).then(Exponential(1)),
        Exponential(1) + Constant(1),
        Constant(1) + Decorrelated(1, cap=9),
        Constant(1).jittered(FullJitter()).capped(3).take(2).then([1]),
        ByReason({}, default=Exponential(1)),
        ByReason({RetryReason.THROTTLED: Exponential(1)}, default=Constant(1)),
        ByReason({RetryReason.THROTTLED: Constant(1)}, default=Decorrelated(1, cap=9)),
        ByReason({RetryReason.THROTTLED: Plain()}, default=Constant(1)),
        Custom(Plain()),
        Constant(1) + Plain(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("jitter", [FullJitter(), NoJitter(), Wobble()], ids=repr)
def test_jittering_what_is_jittered_is_refused(backoff, jitter):
    """Two jitters on top of one another are a mistake, through every combinator."""
    with pytest.raises(ValueError, match="a backoff can be jittered once"):
        backoff.jittered(jitter)


@pytest.mark.parametrize(
    "backoff",
    [
        Constant(1),
        Schedule(1, 2),
        Exponential(1, jitter=exact),
        Constant(1).jittered(exact),
        Constant(1).capped(9).at_least(1).take(3).then([1]) + Linear(1, 1, jitter=exact),
        Sawtooth(),
        Custom(Plain(1, 1)),
        ByReason({RetryReason.THROTTLED: [1]}, default=Exponential(1, jitter=exact)),
    ],
    ids=repr,
)
def test_exact_waits_take_a_jitter(backoff):
    """What draws nothing, `NoJitter` included, can be jittered."""
    assert bounds(backoff.jittered(FullJitter()), 1) == [
        (0, high) for _, high in bounds(backoff, 1)
    ]


@pytest.mark.parametrize("first", [1, 2, 8])
def test_the_first_bounds_of_a_users_own_tell_that_it_draws(first):
    """It is enough that one of the first eight waits is drawn."""

    class Draws(BackoffBase):
        def delays(self, rng):
            yield from [1.0] * (first - 1)
            yield rng.uniform(2, 4)

        def bounds(self):
            yield from [Bounds(1.0, 1.0)] * (first - 1)
            yield Bounds(2.0, 4.0)

    with pytest.raises(ValueError, match="a backoff can be jittered once"):
        Draws().jittered(FullJitter())


def test_a_late_draw_of_a_users_own_keeps_the_bounds_true():
    """Where a backoff of a user's own begins to draw after its first bounds, they cover it."""

    class Late(BackoffBase):
        def delays(self, rng):
            yield from [1.0] * 8
            while True:
                yield rng.uniform(2, 4)

        def bounds(self):
            yield from [Bounds(1.0, 1.0)] * 8
            while True:
                yield Bounds(2.0, 4.0)

    assert bounds(Late().jittered(EqualJitter()), 10)[8:] == [(1, 4), (1, 4)]


# By reason


def test_a_branch_for_each_reason():
    """A listed reason has its own backoff, every other the default."""
    backoff = ByReason({RetryReason.THROTTLED: Constant(5)}, default=Constant(0.1))
    assert backoff.branch(RetryReason.THROTTLED) == Constant(5)
    assert backoff.branch(RetryReason.TIMED_OUT) == Constant(0.1)
    assert backoff.branches == {RetryReason.THROTTLED: Constant(5)}
    assert backoff.default == Constant(0.1)


def test_the_sequence_of_the_whole_is_the_defaults():
    """`delays` and `bounds` follow the default branch."""
    backoff = ByReason({RetryReason.THROTTLED: [5]}, default=[1, 2])
    assert steps(backoff) == [1, 2]
    assert bounds(backoff) == points(1, 2)


def test_shorthands_stand_in_branches():
    """A list of seconds is a schedule in a branch too."""
    backoff = ByReason({RetryReason.THROTTLED: [5, 6]}, default=(1,))
    assert backoff.branch(RetryReason.THROTTLED) == Schedule(5, 6)
    assert backoff.default == Schedule(1)


throttled, other = RetryReason.THROTTLED, RetryReason.TIMED_OUT


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda b: b.capped(3), ([(3, 3)] * 3, [(1, 1)] * 3)),
        (lambda b: b.at_least(2), ([(4, 4)] * 3, [(2, 2)] * 3)),
        (lambda b: b.take(2), ([(4, 4)] * 2, [(1, 1)] * 2)),
        (lambda b: b.take(1).then([9]), ([(4, 4), (9, 9)], [(1, 1), (9, 9)])),
        (lambda b: b.take(1).then(b), ([(4, 4)] * 3, [(1, 1)] * 3)),
        (lambda b: Schedule(9).then(b), (points(9, 4, 4), points(9, 1, 1))),
        (lambda b: b + Constant(1), ([(5, 5)] * 3, [(2, 2)] * 3)),
        (lambda b: Constant(1) + b, ([(5, 5)] * 3, [(2, 2)] * 3)),
        (lambda b: [1] + b, ([(5, 5)], [(2, 2)])),
        (lambda b: b + b, ([(8, 8)] * 3, [(2, 2)] * 3)),
        (lambda b: b.jittered(FullJitter()), ([(0, 4)] * 3, [(0, 1)] * 3)),
    ],
)
def test_combinators_go_to_every_branch(change, expected):
    """A change to the whole is a change to each branch, which stays a branch."""
    backoff = change(ByReason({throttled: Constant(4)}, default=Constant(1)))
    assert isinstance(backoff, ByReason)
    assert bounds(backoff.branch(throttled), 3) == expected[0]
    assert bounds(backoff.branch(other), 3) == expected[1]


def test_two_backoffs_by_reason_combine_reason_by_reason():
    """A reason that only one of them lists meets the other's default."""
    one = ByReason({throttled: [1]}, default=[10])
    two = ByReason({other: [2]}, default=[20])
    assert one + two == ByReason(
        {throttled: Schedule(1) + [20], other: Schedule(10) + [2]}, default=Schedule(10) + [20]
    )
    assert steps(one.then(two).branch(throttled)) == [1, 20]
    assert steps(one.then(two).branch(other)) == [10, 2]
    assert steps(one.then(two)) == [10, 20]


def test_a_backoff_by_reason_in_a_branch_gives_its_branch():
    """Nesting is flattened: what would be drawn for the reason is what stands there."""
    inner = ByReason({throttled: [1], other: [2]}, default=[3])
    conflict = RetryReason.CONFLICT
    assert ByReason({throttled: inner, conflict: inner}, default=[9]) == ByReason(
        {throttled: [1], conflict: [3]}, default=[9]
    )
    assert ByReason({throttled: [8]}, default=inner) == ByReason(
        {throttled: [8], other: [2]}, default=[3]
    )


def test_a_users_own_backoff_stays_itself_in_a_branch():
    """A branch without combinators is held as it is, and gets them when they are needed."""
    mine = Plain(2, 2)
    backoff = ByReason({throttled: mine}, default=mine)
    assert backoff.branch(throttled) is mine
    assert steps(backoff.capped(3).branch(throttled), 3) == [2, 3, 3]
    assert steps(backoff.take(1)) == [2]


def test_the_branches_are_frozen():
    """Neither the mapping that was given nor the one that is held can change it."""
    given_branches = {throttled: Constant(1)}
    backoff = ByReason(given_branches, default=Constant(2))
    given_branches[other] = Constant(3)
    assert backoff.branch(other) == Constant(2)
    with pytest.raises(TypeError):
        backoff.branches[other] = Constant(3)


def test_the_order_of_branches_does_not_matter():
    """Equal branches are equal backoffs with one hash."""
    one = ByReason({throttled: [1], other: [2]}, default=[3])
    two = ByReason({other: [2], throttled: [1]}, default=[3])
    assert one == two
    assert hash(one) == hash(two)


# Bad settings

never = "must be a number of seconds or a timedelta"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Constant(-1), ValueError, "delay must be at least 0, got -1"),
        (lambda: Constant(math.nan), ValueError, "delay must be finite, got nan"),
        (lambda: Constant(math.inf), ValueError, "delay must be finite, got inf"),
        (lambda: Constant(10**400), ValueError, "delay must be finite, got 1000"),
        (lambda: Constant(True), TypeError, f"delay {never}, got True"),
        (lambda: Constant("1"), TypeError, f"delay {never}, got '1'"),
        (lambda: Constant(None), TypeError, f"delay {never}, got None"),
        (lambda: Constant(timedelta(-1)), ValueError, "delay must be at least 0, got -86400.0"),
        (lambda: Schedule(1, -2), ValueError, "delays[1] must be at least 0, got -2"),
        (lambda: Schedule([1, 2]), TypeError, f"delays[0] {never}, got [1, 2]"),
        (lambda: Exponential(-1), ValueError, "base must be at least 0, got -1"),
        (lambda: Exponential(1, factor=0.5), ValueError, "factor must be at least 1, got 0.5"),
        (lambda: Exponential(1, factor=0), ValueError, "factor must be at least 1, got 0"),
        (lambda: Exponential(1, factor=math.inf), ValueError, "factor must be finite, got inf"),
        (lambda: Exponential(1, factor="2"), TypeError, "factor must be a number, got '2'"),
        (lambda: Exponential(5, cap=3), ValueError, "cap must be at least the base, 5, got 3"),
        (lambda: Exponential(1, cap=math.inf), ValueError, "cap must be finite, got inf"),
        (lambda: Exponential(1, cap=-1), ValueError, "cap must be at least 0, got -1"),
        (lambda: Exponential(1, cap=False), TypeError, f"cap {never}, got False"),
        (
            lambda: Exponential(1, jitter=FullJitter),
            TypeError,
            "jitter must be an instance, got the class FullJitter: call it first",
        ),
        (lambda: Exponential(1, jitter=None), TypeError, "jitter must be callable, got None"),
        (
            lambda: Exponential(1, jitter=max),
            TypeError,
            "jitter.bounds must be callable, got None",
        ),
        (lambda: Linear(-1, 1), ValueError, "start must be at least 0, got -1"),
        (lambda: Linear(1, -1), ValueError, "step must be at least 0, got -1"),
        (lambda: Linear(1, 1, jitter=0.2), TypeError, "jitter must be callable, got 0.2"),
        (lambda: Polynomial(-1, 1), ValueError, "base must be at least 0, got -1"),
        (lambda: Polynomial(1, -1), ValueError, "power must be at least 0, got -1"),
        (lambda: Polynomial(1, True), TypeError, "power must be a number, got True"),
        (lambda: Polynomial(1, 1, jitter="full"), TypeError, "jitter must be callable, got 'full'"),
        (lambda: Fibonacci(math.nan), ValueError, "base must be finite, got nan"),
        (lambda: Fibonacci(1, jitter=1), TypeError, "jitter must be callable, got 1"),
        (lambda: Decorrelated(-1, cap=1), ValueError, "base must be at least 0, got -1"),
        (lambda: Decorrelated(5, cap=3), ValueError, "cap must be at least the base, 5, got 3"),
        (lambda: Decorrelated(1, cap=None), TypeError, f"cap {never}, got None"),
        (lambda: Constant(1).capped(-1), ValueError, "cap must be at least 0, got -1"),
        (lambda: Constant(1).capped("1"), TypeError, f"cap {never}, got '1'"),
        (lambda: Constant(1).at_least(math.inf), ValueError, "floor must be finite, got inf"),
        (lambda: Constant(1).at_least(True), TypeError, f"floor {never}, got True"),
        (lambda: Constant(1).take(-1), ValueError, "n must be at least 0, got -1"),
        (lambda: Constant(1).take(1.0), TypeError, "n must be a whole number, got 1.0"),
        (lambda: Constant(1).take(True), TypeError, "n must be a whole number, got True"),
        (lambda: Constant(1).take(2).take(-1), ValueError, "n must be at least 0, got -1"),
        (lambda: Constant(1).jittered(FullJitter), TypeError, "jitter must be an instance, got"),
        (lambda: Constant(1).jittered(0.1), TypeError, "jitter must be callable, got 0.1"),
        (lambda: Exponential(1).jittered(0.1), TypeError, "jitter must be callable, got 0.1"),
        (lambda: Constant(1).then(5), TypeError, "other must be a backoff or a list of seconds"),
        (lambda: Constant(1) + 5, TypeError, "other must be a backoff or a list of seconds, got 5"),
        (lambda: 5 + Constant(1), TypeError, "other must be a backoff or a list of seconds, got 5"),
        (lambda: Constant(1) + Constant, TypeError, "other must be an instance, got the class"),
        (lambda: Custom(5), TypeError, "backoff must be a backoff or a list of seconds, got 5"),
        (
            lambda: Custom(Constant(1)),
            TypeError,
            "backoff must be without combinators, and Constant(1.0) has them",
        ),
        (
            lambda: ByReason([Constant(1)], default=Constant(1)),
            TypeError,
            "branches must be a mapping by RetryReason, got [Constant(1.0)]",
        ),
        (
            lambda: ByReason({"throttled": Constant(1)}, default=Constant(1)),
            TypeError,
            "branches must be keyed by RetryReason, got 'throttled'",
        ),
        (
            lambda: ByReason({throttled: 5}, default=Constant(1)),
            TypeError,
            "branches[RetryReason.THROTTLED] must be a backoff or a list of seconds, got 5",
        ),
        (
            lambda: ByReason({throttled: [1, -5]}, default=Constant(1)),
            ValueError,
            "branches[RetryReason.THROTTLED][1] must be at least 0, got -5",
        ),
        (
            lambda: ByReason({}, default=None),
            TypeError,
            "default must be a backoff or a list of seconds, got None",
        ),
    ],
)
def test_nonsense_is_refused_at_construction(make, error, text):
    """A setting that would fail in flight names itself and its value when it is made
    (failsafe-lib/failsafe#115, mozilla-releng/redo#5)."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", [Exponential, Linear, Polynomial, Fibonacci])
def test_settings_after_the_first_are_named(kind):
    """A jitter in the wrong place is no number."""
    with pytest.raises(TypeError):
        kind(1, FullJitter(), FullJitter())


# What stands at `backoff=`


@pytest.mark.parametrize(
    "value",
    [
        Constant(1),
        Exponential(1).capped(5),
        ByReason({}, default=[1]),
        Sawtooth(),
        Plain(),
        Custom(Plain()),
    ],
    ids=repr,
)
def test_a_backoff_is_taken_as_it_is(value):
    """The library's own and any object with the three members pass unchanged."""
    assert as_backoff("backoff", value) is value


@pytest.mark.parametrize("value", [[1, 0.5], (1, 0.5), [timedelta(seconds=1), 0.5]], ids=repr)
def test_a_list_of_seconds_is_a_schedule(value):
    """A list or a tuple is converted once, at construction."""
    assert as_backoff("backoff", value) == Schedule(1.0, 0.5)
    assert as_backoff("backoff", []) == Schedule()


class WithoutBounds:
    limits = unlimited

    def delays(self, rng):
        return iter([1.0])


class Coroutine:
    limits = unlimited

    async def delays(self, rng):
        return [1.0]

    def bounds(self):
        return iter([Bounds(1.0, 1.0)])


class NumberForMethod:
    limits = unlimited
    bounds = 5

    def delays(self, rng):
        return iter([1.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "got 5: write Constant(5)"),
        (0.5, "got 0.5: write Constant(0.5)"),
        (timedelta(seconds=5), "write Constant(datetime.timedelta(seconds=5))"),
        (True, "got True: a backoff has delays(rng), bounds() and limits"),
        (None, "got None: a backoff has"),
        ("1, 2", "got '1, 2': a backoff has"),
        (b"12", "got b'12': a backoff has"),
        ({1.0, 2.0}, "a backoff has delays(rng), bounds() and limits"),
        ({1: 2}, "a backoff has delays(rng), bounds() and limits"),
        (lambda attempt: 5, "a backoff has delays(rng), bounds() and limits"),
        (FullJitter(), "got FullJitter(): a backoff has"),
        (WithoutBounds(), "a backoff has delays(rng), bounds() and limits"),
        (iter([1, 2]), "an iterator serves one call only; give a list or a backoff"),
        ((n for n in [1, 2]), "an iterator serves one call only"),
        (count(1), "an iterator serves one call only"),
        (map(float, [1, 2]), "an iterator serves one call only"),
        (Constant(1).delays(random.Random()), "an iterator serves one call only"),
        (Exponential, "must be an instance, got the class Exponential: call it first"),
        (Plain, "must be an instance, got the class Plain: call it first"),
        (Coroutine(), "backoff.delays must be a plain function, got the async"),
        (NumberForMethod(), "backoff.bounds must be callable, got 5"),
        (Plain(limits=5), "backoff.limits must be a pair of numbers, got 5"),
        (Plain(limits=(1,)), "backoff.limits must be a pair of numbers, got (1,)"),
        (Plain(limits=(1, "2")), "backoff.limits must be a pair of numbers, got (1, '2')"),
        (["1"], f"backoff[0] {never}, got '1'"),
        ([[1], [2]], f"backoff[0] {never}, got [1]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_backoff_is_refused(value, text):
    """One-shot iterators, bare numbers, classes and everything else name the field and what to
    write instead."""
    with pytest.raises(TypeError) as caught:
        as_backoff("backoff", value)
    assert str(caught.value).startswith("backoff")
    assert text in str(caught.value)


@pytest.mark.parametrize("limits", [(5, 1), (-1, 1), (math.nan, 1), (0, math.nan)], ids=repr)
def test_limits_of_a_users_own_are_checked(limits):
    """A floor above the cap, below zero or that is no number is refused in any backoff."""
    with pytest.raises(ValueError, match=r"backoff\.limits must run from a floor to a cap, got \("):
        as_backoff("backoff", Plain(limits=limits))


def test_a_floor_may_be_the_cap():
    """Limits of a user's own that leave one wait are limits."""
    backoff = Plain(limits=(5, 5))
    assert as_backoff("backoff", backoff) is backoff


def test_a_plain_pair_serves_as_limits():
    """A tuple of two numbers is as good as `Bounds`."""
    backoff = Constant(1).then(Plain(limits=(0.5, 9)))
    assert backoff.limits == (0, math.inf)
    assert (Constant(1) + Plain(limits=(0.5, 9))).limits == (0.5, math.inf)
    assert Custom(Plain(limits=(0.5, 9))).capped(5).limits == (0.5, 5)


def test_a_plain_pair_serves_as_bounds_of_a_jitter():
    """A jitter of a user's own may answer a tuple."""

    class Half:
        def __call__(self, delay, rng):
            return delay * (1 + 0.5 * rng.random())

        def bounds(self, delay):
            return (delay, delay * 1.5)

    backoff = Constant(2).jittered(Half()).capped(2.5)
    [first] = bounds(backoff, 1)
    assert (first.low, first.high) == (1.5, 2.5)
    assert 1.5 <= steps(backoff, 1)[0] <= 2.5


def test_the_base_class_asks_for_its_two_methods():
    """A subclass without `bounds` cannot be made."""

    class Half(BackoffBase):
        def delays(self, rng):
            return iter([1.0])

    with pytest.raises(TypeError, match="bounds"):
        Half()


# A jitter of a user's own that misbehaves


class Liar:
    def __init__(self, drawn):
        self.drawn = drawn

    def __call__(self, delay, rng):
        return self.drawn

    def bounds(self, delay):
        return Bounds(0.0, delay)


@pytest.mark.parametrize(("drawn", "wait"), [(-5.0, 0.0), (99.0, 8.0), (math.inf, 8.0)])
def test_a_jitter_that_leaves_its_bounds_is_held_to_them(drawn, wait):
    """Limits and bounds hold for whatever a jitter answers."""
    assert steps(Constant(8).jittered(Liar(drawn)), 1) == [wait]


@pytest.mark.parametrize("cap", [8, 4])
def test_a_nan_of_a_jitter_is_not_hidden(cap):
    """Nonsense reaches the one place that reports it."""
    [wait] = steps(Constant(8).jittered(Liar(math.nan)).capped(cap), 1)
    assert math.isnan(wait)


def test_bounds_the_wrong_way_round_by_a_hair_do_not_break_the_cap():
    """Rounding in the bounds of a user's own does not carry a wait past a limit."""
    hair = math.nextafter(5.0, 0.0)

    class Rounded(BackoffBase):
        def delays(self, rng):
            return iter([5.0])

        def bounds(self):
            return iter([Bounds(5.0, hair)])

    assert steps(Rounded().capped(3)) == [3.0]
    assert bounds(Rounded().capped(3)) == points(3)
    assert steps(Rounded().capped(hair)) == [hair]
    assert steps(Rounded().at_least(7)) == [7.0]


# As values

scope = {**globals(), "inf": math.inf}


every_backoff = [
    Constant(1),
    Schedule(1, 2),
    Schedule(),
    Exponential(1),
    Exponential(1, factor=3, cap=9, jitter=EqualJitter()),
    Linear(1, 2),
    Polynomial(1, 2),
    Fibonacci(1),
    Decorrelated(1, cap=9),
    Constant(1).capped(2),
    Constant(1).at_least(2),
    Constant(1).at_least(2).capped(3),
    Exponential(1, cap=9).at_least(2),
    Constant(1).take(2),
    Constant(1).then([2]),
    Constant(1) + [2],
    (Constant(1) + [2]).then([1]).take(5),
    Constant(1).jittered(ProportionalJitter()),
    Constant(1).jittered(Wobble()).capped(3),
    Custom(Plain()),
    Custom(Plain()).capped(5),
    Sawtooth(),
    Sawtooth().capped(5),
    Constant(1) + Plain(),
    ByReason({}, default=[1]),
    ByReason({throttled: [1], other: Plain()}, default=Exponential(1)),
    ByReason({throttled: [1]}, default=Exponential(1)).capped(1).take(3),
]


@pytest.mark.parametrize("backoff", every_backoff, ids=repr)
def test_a_backoff_is_a_value(backoff):
    """It prints as what makes it, pickles, copies, compares and hashes."""
    again = [
        eval(repr(backoff), scope),
        copy.copy(backoff),
        copy.deepcopy(backoff),
        *(pickle.loads(pickle.dumps(backoff, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)),
    ]
    for twin in again:
        assert twin == backoff
        assert hash(twin) == hash(backoff)
        assert repr(twin) == repr(backoff)
        assert bounds(twin) == bounds(backoff)
        assert twin.limits == backoff.limits


def test_different_backoffs_are_different():
    """Another kind or another setting is another value."""
    assert len(set(every_backoff)) == len(every_backoff)


@pytest.mark.parametrize(
    ("backoff", "text"),
    [
        (Constant(1), "Constant(1.0)"),
        (Schedule(1, 2), "Schedule(1.0, 2.0)"),
        (Schedule(), "Schedule()"),
        (
            Exponential(0.25, cap=20),
            "Exponential(0.25, factor=2.0, cap=20.0, jitter=FullJitter())",
        ),
        (Linear(1, 2), "Linear(1.0, 2.0, jitter=FullJitter())"),
        (Polynomial(1, 2), "Polynomial(1.0, 2.0, jitter=FullJitter())"),
        (Fibonacci(1), "Fibonacci(1.0, jitter=FullJitter())"),
        (Decorrelated(1, cap=9), "Decorrelated(1.0, cap=9.0)"),
        (Constant(1).at_least(2).capped(3), "Constant(1.0).at_least(2.0).capped(3.0)"),
        (Constant(1).take(2).capped(3), "Constant(1.0).capped(3.0).take(2)"),
        (Constant(1).then([2]), "Constant(1.0).then(Schedule(2.0))"),
        (Constant(1) + [2], "(Constant(1.0) + Schedule(2.0))"),
        (Constant(1).jittered(EqualJitter()), "Constant(1.0).jittered(EqualJitter())"),
        (
            ByReason({throttled: [5]}, default=Constant(1)),
            "ByReason({RetryReason.THROTTLED: Schedule(5.0)}, default=Constant(1.0))",
        ),
    ],
)
def test_the_repr(backoff, text):
    """It reads as it was written, so that the `repr` of a policy is its documentation."""
    assert repr(backoff) == text


@pytest.mark.parametrize(
    "backoff", [b for b in every_backoff if not isinstance(b, Sawtooth)], ids=repr
)
def test_a_backoff_is_a_frozen_slotted_dataclass(backoff):
    """No field can be set, and there is no dictionary to hide state in."""
    assert not hasattr(backoff, "__dict__")
    [name, *_] = [field.name for field in dataclasses.fields(backoff)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(backoff, name, 5)


def test_dataclasses_replace_makes_a_checked_copy():
    """A changed copy is a new value, and is checked as any other."""
    assert dataclasses.replace(Exponential(1), cap=5) == Exponential(1, cap=5)
    with pytest.raises(ValueError, match="cap must be at least the base, 8, got 5"):
        dataclasses.replace(Exponential(1, cap=5), base=8)


# Every composition

durations = st.one_of(
    st.sampled_from([0.0, 0.25, 1.0, 5.0]),
    st.floats(0, 1000),
    st.integers(0, 1000),
    st.timedeltas(timedelta(0), timedelta(hours=1)),
)
sizes = st.one_of(durations, st.floats(0, 1.7e308), st.integers(0, 10**300))
jitters = st.one_of(
    st.just(NoJitter()),
    st.just(FullJitter()),
    st.just(EqualJitter()),
    st.builds(ProportionalJitter, st.floats(0, 1)),
    st.builds(AdditiveJitter, durations),
    st.builds(Wobble, st.floats(0, 100)),
)


def simple(size):
    jitter = st.one_of(st.just(NoJitter()), jitters)
    return st.one_of(
        st.builds(Constant, size),
        st.lists(size, max_size=5).map(lambda delays: Schedule(*delays)),
        st.builds(Exponential, size, factor=st.floats(1, 10), jitter=jitter),
        st.builds(
            lambda base, more, jitter: Exponential(base, cap=base + more, jitter=jitter),
            st.floats(0, 100),
            st.floats(0, 100),
            jitter,
        ),
        st.builds(Linear, size, size, jitter=jitter),
        st.builds(Polynomial, size, st.floats(0, 5), jitter=jitter),
        st.builds(Fibonacci, size, jitter=jitter),
        st.builds(
            lambda base, more: Decorrelated(base, cap=base + more),
            st.floats(0, 100),
            st.floats(0, 100),
        ),
        st.builds(Sawtooth, st.integers(1, 5)),
        st.builds(
            lambda low, more: Custom(Plain(low, low + more)), st.floats(0, 100), st.floats(0, 100)
        ),
    )


def attempted(combine):
    """The combination, or its first part where the two do not go together."""

    def combined(first, *rest):
        try:
            return combine(first, *rest)
        except ValueError:
            return first

    return combined


def compositions(size):
    def further(backoffs):
        return st.one_of(
            st.builds(attempted(lambda b, s: b.capped(s)), backoffs, size),
            st.builds(attempted(lambda b, s: b.at_least(s)), backoffs, size),
            st.builds(lambda b, n: b.take(n), backoffs, st.integers(0, 30)),
            st.builds(lambda a, b: a.then(b), backoffs, backoffs),
            st.builds(lambda a, n, b: a.take(n).then(b), backoffs, st.integers(0, 3), backoffs),
            st.builds(lambda a, b: a + b, backoffs, backoffs),
            st.builds(attempted(lambda b, j: b.jittered(j)), backoffs, jitters),
            st.builds(
                lambda branches, default: ByReason(branches, default=default),
                st.dictionaries(st.sampled_from(RetryReason), backoffs, max_size=2),
                backoffs,
            ),
        )

    return st.recursive(simple(size), further, max_leaves=5)


def branches(backoff):
    """The backoff's own sequence, and those of its other branches."""
    return [backoff, *(backoff.branches.values() if isinstance(backoff, ByReason) else ())]


@settings(max_examples=300, deadline=None)
@given(compositions(sizes), st.integers())
def test_any_composition_draws_within_bounds_and_limits(backoff, seed):
    """Every draw is finite, not negative, within its bounds, not past its cap or under its floor
    (App-vNext/Polly#1866, App-vNext/Polly#2163, connor4312/cockatiel#86)."""
    for branch in branches(backoff):
        floor, cap = branch.limits
        waits = steps(branch, 60, random.Random(seed))
        spans = bounds(branch, 60)
        assert len(waits) == len(spans)
        for wait, (low, high) in zip(waits, spans, strict=True):
            assert type(wait) is float
            assert 0 <= floor <= low <= wait <= high <= cap
            assert high <= LONGEST


@settings(max_examples=300, deadline=None)
@given(compositions(durations))
def test_any_composition_attains_its_bounds(backoff):
    """Who always draws lowest waits for the lower bound, who always draws highest for the upper."""
    for branch in branches(backoff):
        spans = bounds(branch, 40)
        lowest, highest = steps(branch, 40, Lowest()), steps(branch, 40, Highest())
        assert lowest == pytest.approx([low for low, _ in spans], rel=1e-12, abs=1e-12)
        # A float of that size holds no more digits of where a draw lies in its interval.
        assert highest == pytest.approx([high for _, high in spans], rel=1e-9, abs=1e-5)


@settings(max_examples=200, deadline=None)
@given(compositions(durations))
def test_any_composition_keeps_its_spread(backoff):
    """Wherever the bounds leave room, clients wait different times."""
    for branch in branches(backoff):
        waits = zip(*[steps(branch, 20, random.Random(seed)) for seed in range(12)], strict=True)
        for drawn, (low, high) in zip(waits, bounds(branch, 20), strict=True):
            if high - low > 1e-3 and "Decorrelated" not in repr(branch):
                assert len(set(drawn)) > 6


@settings(max_examples=150, deadline=None)
@given(compositions(sizes), st.integers())
def test_any_composition_starts_afresh_for_each_call(backoff, seed):
    """The same seed gives the same waits, one call after another and both at once
    (Llucs/backon#30, litl/backoff#45)."""
    first = steps(backoff, 20, random.Random(seed))
    assert steps(backoff, 20, random.Random(seed)) == first
    one, two = (backoff.delays(random.Random(seed)) for _ in range(2))
    assert list(islice(zip(one, two, strict=True), 20)) == [(wait, wait) for wait in first]


@settings(max_examples=150, deadline=None)
@given(compositions(sizes))
def test_any_composition_is_a_value(backoff):
    """It prints as what makes it, pickles, compares and hashes."""
    for twin in (eval(repr(backoff), scope), pickle.loads(pickle.dumps(backoff))):
        assert twin == backoff
        assert hash(twin) == hash(backoff)


@settings(max_examples=150, deadline=None)
@given(compositions(durations), durations, st.integers())
def test_a_cap_set_last_holds(backoff, cap, seed):
    """Whatever it is made of, no wait passes a cap that is set at the end."""
    try:
        capped = backoff.capped(cap)
    except ValueError:
        assert "at_least" in repr(backoff) or "Decorrelated" in repr(backoff)
        return
    seconds = cap.total_seconds() if isinstance(cap, timedelta) else cap
    for branch in branches(capped):
        assert max(steps(branch, 40, random.Random(seed)), default=0.0) <= seconds
        assert max((high for _, high in bounds(branch, 40)), default=0.0) <= seconds


def test_at_saturation_no_draw_passes_the_cap():
    """Ten thousand draws at the cap stay below it, with every jitter."""
    for jitter in every_jitter:
        backoff = Exponential(1, cap=4, jitter=jitter)
        assert max(steps(backoff, 10_000)) <= 4


def test_what_cannot_be_jittered_or_wrapped_is_told_in_full():
    """The value, and what to write instead."""
    with pytest.raises(ValueError, match="jittered once") as caught:
        Exponential(1).jittered(FullJitter())
    assert str(caught.value) == (
        "a backoff can be jittered once, and Exponential(1.0, factor=2.0, cap=None,"
        " jitter=FullJitter()) is already: where it takes jitter=, choose it there"
    )
    with pytest.raises(TypeError, match="combinators") as caught:
        Custom(Constant(1))
    assert str(caught.value) == "backoff must be without combinators, and Constant(1.0) has them"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            timedelta(1),
            "got datetime.timedelta(days=1): write Constant(datetime.timedelta(days=1))",
        ),
        (2.5, "got 2.5: write Constant(2.5)"),
        (None, "got None: a backoff has delays(rng), bounds() and limits"),
    ],
)
def test_what_is_no_backoff_is_told_the_right_spelling(value, text):
    """To the last character."""
    with pytest.raises(TypeError, match="backoff must be a backoff or a list of seconds") as caught:
        as_backoff("backoff", value)
    assert str(caught.value) == f"backoff must be a backoff or a list of seconds, {text}"


def test_an_iterator_is_told_why_it_is_none():
    """It would be empty for the second call."""
    with pytest.raises(TypeError, match="iterator") as caught:
        as_backoff("backoff", iter([1.0]))
    assert str(caught.value).endswith(
        ": an iterator serves one call only; give a list or a backoff"
    )
