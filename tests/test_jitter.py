"""Jitters: each draws within its bounds, attains both ends, and is a value."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import random
import sys
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.jitter import (
    AdditiveJitter,
    Bounds,
    EqualJitter,
    FullJitter,
    NoJitter,
    ProportionalJitter,
)


class Lowest(random.Random):
    """Draws the lowest of every range."""

    def random(self):
        return 0.0


class Highest(random.Random):
    """Draws the highest that there is below one."""

    def random(self):
        return 1 - 2**-53


delays = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
jitters = st.one_of(
    st.builds(NoJitter),
    st.builds(FullJitter),
    st.builds(EqualJitter),
    st.builds(ProportionalJitter, st.floats(0, 1)),
    st.builds(AdditiveJitter, delays),
)
every_jitter = [NoJitter(), FullJitter(), EqualJitter(), ProportionalJitter(), AdditiveJitter()]
names = [type(jitter).__name__ for jitter in every_jitter]


@pytest.mark.parametrize(
    ("jitter", "low", "high"),
    [
        (NoJitter(), 8.0, 8.0),
        (FullJitter(), 0.0, 8.0),
        (EqualJitter(), 4.0, 8.0),
        (ProportionalJitter(), 6.4, 9.6),
        (ProportionalJitter(0.5), 4.0, 12.0),
        (ProportionalJitter(1), 0.0, 16.0),
        (ProportionalJitter(0), 8.0, 8.0),
        (AdditiveJitter(), 8.0, 9.0),
        (AdditiveJitter(0.5), 8.0, 8.5),
        (AdditiveJitter(timedelta(milliseconds=250)), 8.0, 8.25),
        (AdditiveJitter(0), 8.0, 8.0),
    ],
    ids=repr,
)
def test_the_interval_around_a_delay(jitter, low, high):
    """The interval is the formula's: AWS full and equal jitter, gRPC's share, seconds on top."""
    bounds = jitter.bounds(8.0)
    assert isinstance(bounds, Bounds)
    assert bounds == pytest.approx((low, high), rel=1e-15)


@pytest.mark.parametrize(
    ("jitter", "draw"),
    [
        (NoJitter(), lambda d, u: d),
        (FullJitter(), lambda d, u: u * d),
        (EqualJitter(), lambda d, u: d / 2 + u * d / 2),
        (ProportionalJitter(0.2), lambda d, u: d * 0.8 + u * d * 0.4),
        (AdditiveJitter(0.5), lambda d, u: d + u * 0.5),
    ],
    ids=names,
)
def test_a_draw_is_uniform_over_the_interval(jitter, draw):
    """A draw lies as far into the interval as the generator's number says."""
    rng, twin = random.Random(7), random.Random(7)
    for _ in range(5):
        drawn = jitter(3.0, rng)
        assert drawn == pytest.approx(draw(3.0, twin.random()), rel=1e-12)


def test_full_jitter_draws_what_uniform_draws():
    """The same seed gives what AWS's `random_between(0, delay)` gives with `Random.uniform`."""
    assert FullJitter()(8.0, random.Random(3)) == random.Random(3).uniform(0, 8.0)
    assert EqualJitter()(8.0, random.Random(3)) == random.Random(3).uniform(4.0, 8.0)


def test_no_jitter_leaves_the_generator_alone():
    """Where nothing is drawn, the next draw of another strategy does not shift."""
    rng = random.Random(1)
    before = rng.getstate()
    assert NoJitter()(8.0, rng) == 8.0
    assert rng.getstate() == before


@given(jitters, delays, st.integers())
def test_a_draw_lies_within_the_bounds(jitter, delay, seed):
    """For any finite delay every draw is finite, not negative, and within the bounds."""
    low, high = jitter.bounds(delay)
    assert 0 <= low <= high <= sys.float_info.max
    assert low <= jitter(delay, random.Random(seed)) <= high


@given(jitters, delays)
def test_the_bounds_are_attained(jitter, delay):
    """The lowest draw is the lower bound, the highest the upper one but for its last digit."""
    low, high = jitter.bounds(delay)
    assert jitter(delay, Lowest()) == low
    assert high - jitter(delay, Highest()) <= 2 * math.ulp(high)


@given(jitters, delays, st.integers())
def test_the_same_seed_draws_the_same(jitter, delay, seed):
    """Chance comes from the generator alone."""
    assert jitter(delay, random.Random(seed)) == jitter(delay, random.Random(seed))


@pytest.mark.parametrize("jitter", [j for j in every_jitter if j != NoJitter()], ids=names[1:])
def test_draws_spread(jitter):
    """Clients with generators of their own draw waits of their own."""
    assert len({jitter(8.0, random.Random(seed)) for seed in range(200)}) == 200


@pytest.mark.parametrize("jitter", [FullJitter(), EqualJitter(), ProportionalJitter(1)], ids=repr)
def test_a_delay_of_zero_stays_zero(jitter):
    """A share of nothing is nothing."""
    assert jitter.bounds(0.0) == (0.0, 0.0)
    assert jitter(0.0, random.Random(1)) == 0.0


def test_additive_jitter_spreads_a_delay_of_zero():
    """Seconds on top are there whatever the delay is."""
    assert AdditiveJitter(2).bounds(0.0) == (0.0, 2.0)
    assert 0.0 < AdditiveJitter(2)(0.0, random.Random(1)) < 2.0


@pytest.mark.parametrize("delay", [sys.float_info.max, 1.5e308])
@pytest.mark.parametrize("jitter", [ProportionalJitter(1), AdditiveJitter(1.7e308)], ids=repr)
def test_a_sum_past_the_largest_number_stays_finite(jitter, delay):
    """The bounds end at the largest float, so that no draw is infinite or NaN."""
    assert jitter.bounds(delay).high == sys.float_info.max
    for rng in (Lowest(), Highest(), random.Random(1)):
        assert math.isfinite(jitter(delay, rng))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ProportionalJitter(-0.1), ValueError, "ratio must be at least 0, got -0.1"),
        (lambda: ProportionalJitter(1.5), ValueError, "ratio must be at most 1, got 1.5"),
        (lambda: ProportionalJitter(math.nan), ValueError, "ratio must be finite, got nan"),
        (lambda: ProportionalJitter(True), TypeError, "ratio must be a number, got True"),
        (lambda: ProportionalJitter("0.2"), TypeError, "ratio must be a number, got '0.2'"),
        (lambda: AdditiveJitter(-1), ValueError, "amount must be at least 0, got -1"),
        (lambda: AdditiveJitter(math.inf), ValueError, "amount must be finite, got inf"),
        (lambda: AdditiveJitter(math.nan), ValueError, "amount must be finite, got nan"),
        (lambda: AdditiveJitter(10**400), ValueError, "amount must be finite, got 1000"),
        (
            lambda: AdditiveJitter("1"),
            TypeError,
            "amount must be a number of seconds or a timedelta, got '1'",
        ),
        (
            lambda: AdditiveJitter(False),
            TypeError,
            "amount must be a number of seconds or a timedelta, got False",
        ),
    ],
)
def test_nonsense_is_refused_at_construction(make, error, text):
    """A setting that could give a negative or endless wait names itself (mozilla-releng/redo#5)."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value).startswith(text)


@given(jitters)
def test_a_jitter_is_a_value(jitter):
    """It prints as what makes it, pickles, copies, compares, hashes."""
    assert eval(repr(jitter)) == jitter
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(jitter, protocol)) == jitter
    assert copy.deepcopy(jitter) == jitter
    assert hash(copy.copy(jitter)) == hash(jitter)


def test_different_jitters_are_different():
    """Another kind or another setting is another value."""
    others = [*every_jitter, ProportionalJitter(0.3), AdditiveJitter(2)]
    assert len(set(others)) == len(others)
    assert all(a != b for i, a in enumerate(others) for b in others[:i])


@pytest.mark.parametrize("jitter", every_jitter, ids=names)
def test_a_jitter_is_frozen(jitter):
    """Nothing of it can be set, and it carries no dictionary."""
    assert not hasattr(jitter, "__dict__")
    with pytest.raises(AttributeError):
        jitter.ratio = 0.5


@pytest.mark.parametrize(
    ("jitter", "text"),
    [
        (NoJitter(), "NoJitter()"),
        (FullJitter(), "FullJitter()"),
        (EqualJitter(), "EqualJitter()"),
        (ProportionalJitter(), "ProportionalJitter(0.2)"),
        (AdditiveJitter(2), "AdditiveJitter(2.0)"),
    ],
)
def test_the_repr(jitter, text):
    """It reads as it was written."""
    assert repr(jitter) == text


def test_dataclasses_replace_makes_a_checked_copy():
    """A changed copy is a new value, and is checked as any other."""
    assert dataclasses.replace(ProportionalJitter(), ratio=0.5) == ProportionalJitter(0.5)
    with pytest.raises(ValueError, match="ratio must be at most 1, got 2"):
        dataclasses.replace(ProportionalJitter(), ratio=2)
