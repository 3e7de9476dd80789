"""The answer to a Retry-After: never sooner than asked, within a limit, not all at once."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import random
import sys
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.server_delay import ServerDelay


class Lowest(random.Random):
    """Draws the lowest of every range."""

    def random(self):
        return 0.0


class Highest(random.Random):
    """Draws the highest that there is below one."""

    def random(self):
        return math.nextafter(1.0, 0.0)


def answers(rule, asked, drawn=0.4, first=0.2, draws=200):
    rng = random.Random(1)
    return [rule(asked, drawn, first, rng) for _ in range(draws)]


# Within the limit


@pytest.mark.parametrize("combine", ["precedence", "floor"])
@pytest.mark.parametrize("over_limit", ["stop", "cap", "ignore"])
@pytest.mark.parametrize("drawn", [0.0, 0.4, 100.0])
def test_zero_asks_for_nothing(combine, over_limit, drawn):
    """A zero or a date in the past is no wish: the backoff decides, unchanged."""
    rule = ServerDelay(combine=combine, over_limit=over_limit)
    assert rule(0.0, drawn, 0.2, Highest()) == drawn
    assert rule.least(0.0, drawn, 0.2) == drawn


@pytest.mark.parametrize("asked", [0.001, 0.5, 1.0, 30.0, 60.0])
def test_exactly_the_asked_wait_without_a_spread(asked):
    """With `spread=0` nothing is added; a wait of exactly the limit is within it."""
    assert ServerDelay(spread=0)(asked, 0.0, 0.0, Highest()) == asked


@pytest.mark.parametrize(
    ("asked", "drawn", "first", "precedence", "floor"),
    [
        (5.0, 0.4, 0.2, 5.0, 5.0),
        (5.0, 20.0, 0.2, 5.0, 20.0),
        (0.1, 0.4, 0.2, 0.2, 0.4),
        (0.3, 0.4, 0.2, 0.3, 0.4),
        (0.1, 0.05, 0.2, 0.2, 0.1),
        (60.0, 61.0, 62.0, 62.0, 61.0),
    ],
)
def test_precedence_replaces_the_drawn_wait_and_floor_keeps_the_longer(
    asked, drawn, first, precedence, floor
):
    """Precedence stays above the first drawn wait; a floor above this retry's."""
    assert ServerDelay(spread=0)(asked, drawn, first, Lowest()) == precedence
    assert ServerDelay(spread=0, combine="floor")(asked, drawn, first, Lowest()) == floor


# Past the limit


@pytest.mark.parametrize("asked", [math.nextafter(60.0, 61.0), 61.0, 99_999_999.0, 1e308])
@pytest.mark.parametrize("combine", ["precedence", "floor"])
def test_past_the_limit_the_call_stops(asked, combine):
    """A wait of hours is neither slept nor cut: the caller learns of it (openai-python#3555)."""
    rule = ServerDelay(combine=combine)
    assert rule(asked, 0.4, 0.2, Lowest()) is None
    assert rule.least(asked, 0.4, 0.2) is None


def test_the_limit_is_compared_before_the_spread():
    """60 seconds are within 60 even where their spread goes past it (openai-node#1840)."""
    waits = answers(ServerDelay(limit=60), 60.0)
    assert min(waits) >= 60
    assert max(waits) > 60


def test_capped_past_the_limit():
    """`"cap"` waits for the limit, and its spread."""
    rule = ServerDelay(limit=10, over_limit="cap")
    assert rule(99_999_999.0, 0.4, 0.2, Lowest()) == 10.0
    assert rule(99_999_999.0, 0.4, 0.2, Highest()) == pytest.approx(11.0)
    assert rule(99_999_999.0, 0.4, 20.0, Lowest()) == 20.0


def test_ignored_past_the_limit():
    """`"ignore"` waits for what the backoff drew."""
    rule = ServerDelay(limit=10, over_limit="ignore")
    assert rule(11.0, 0.4, 0.2, Highest()) == 0.4
    assert rule(10.0, 0.4, 0.2, Lowest()) == 10.0


@pytest.mark.parametrize(("over_limit", "wait"), [("stop", None), ("cap", 0.4), ("ignore", 0.4)])
def test_a_limit_of_zero_grants_no_wait(over_limit, wait):
    """Zero is a limit like any other, and not "no limit"."""
    assert ServerDelay(limit=0, over_limit=over_limit)(0.001, 0.4, 0.2, Highest()) == wait


# Spread


@pytest.mark.parametrize(
    ("asked", "spread", "room"),
    [
        (30.0, 0.1, 3.0),
        (5.0, 0.1, 1.0),
        (1.0, 0.1, 1.0),
        (0.25, 0.1, 0.25),
        (0.25, 2.0, 0.5),
        (60.0, 0.5, 30.0),
        (5.0, 1e-9, 1.0),
    ],
)
def test_the_spread_is_a_share_or_a_second_or_the_wait_again(asked, spread, room):
    """Up to `max(spread * asked, min(1 s, asked))` is added, and nothing is taken away."""
    rule = ServerDelay(spread=spread)
    assert rule(asked, 0.0, 0.0, Lowest()) == asked
    assert rule(asked, 0.0, 0.0, Highest()) == pytest.approx(asked + room)


@pytest.mark.parametrize("asked", [0.001, 1.0, 30.0, 60.0])
@pytest.mark.parametrize("combine", ["precedence", "floor"])
def test_clients_told_the_same_come_back_apart(asked, combine):
    """200 draws are 200 waits, none sooner than asked (HoneyryderChuck/httpx#141)."""
    waits = answers(ServerDelay(combine=combine), asked, drawn=0.0, first=0.0)
    assert len(set(waits)) == 200
    assert min(waits) >= asked
    assert max(waits) - min(waits) > 0.9 * max(0.1 * asked, min(1.0, asked))


def test_half_of_jitter_never_shortens_a_second():
    """A spread of 50 % around 1 s was seen to send half the retries too early (openclaw#68541)."""
    assert min(answers(ServerDelay(spread=0.5), 1.0, drawn=0.0, first=0.0)) >= 1.0


def test_the_least_answer_has_no_spread():
    """What must fit before the deadline is the asked wait; the spread may be cut."""
    assert ServerDelay().least(30.0, 0.4, 0.2) == 30.0
    assert ServerDelay(combine="floor").least(30.0, 40.0, 0.2) == 40.0
    assert ServerDelay(limit=10, over_limit="cap").least(30.0, 0.4, 0.2) == 10.0
    assert ServerDelay().least(0.1, 0.4, 0.2) == 0.2


# As a value


def test_the_defaults_are_the_documented_ones():
    """A minute at most, stop past it, precedence, a tenth of spread."""
    assert ServerDelay() == ServerDelay(
        limit=60.0, over_limit="stop", combine="precedence", spread=0.1
    )


EVERY_RULE = [
    ServerDelay(),
    ServerDelay(0, "cap", "floor", 0),
    ServerDelay(timedelta(minutes=5), over_limit="ignore", spread=1),
]


@pytest.mark.parametrize("rule", EVERY_RULE, ids=repr)
def test_prints_copies_and_pickles_as_its_settings(rule):
    """The `repr`, evaluated, is the rule; so is what was pickled, copied or replaced."""
    assert eval(repr(rule), {"ServerDelay": ServerDelay}) == rule
    assert hash(copy.deepcopy(rule)) == hash(rule)
    assert copy.copy(rule) == copy.deepcopy(rule) == dataclasses.replace(rule) == rule
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(rule, protocol)) == rule


@pytest.mark.parametrize(
    "other",
    [
        ServerDelay(61),
        ServerDelay(over_limit="cap"),
        ServerDelay(combine="floor"),
        ServerDelay(spread=0),
    ],
    ids=repr,
)
def test_each_setting_counts_in_a_comparison(other):
    """Other settings make another rule."""
    assert other != ServerDelay()


def test_a_timedelta_is_seconds():
    """Durations may be written as `timedelta`; the field is float seconds."""
    assert ServerDelay(timedelta(minutes=2)).limit == 120.0


def test_is_frozen():
    """A rule is shared by all calls, and nobody can change it."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerDelay().limit = 1


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"limit": -1}, ValueError, "limit must be at least 0, got -1"),
        ({"limit": timedelta(seconds=-1)}, ValueError, "limit must be at least 0"),
        ({"limit": math.nan}, ValueError, "limit must be finite, got nan"),
        ({"limit": math.inf}, ValueError, "limit must be finite, got inf"),
        ({"limit": True}, TypeError, "limit must be a number of seconds or a timedelta, got True"),
        ({"limit": None}, TypeError, "limit must be a number of seconds or a timedelta, got None"),
        ({"limit": "60"}, TypeError, "limit must be a number of seconds or a timedelta, got '60'"),
        ({"over_limit": "raise"}, ValueError, "over_limit must be one of 'stop', 'cap', 'ignore'"),
        ({"over_limit": None}, ValueError, "over_limit must be one of"),
        ({"combine": "max"}, ValueError, "combine must be one of 'precedence', 'floor', got 'max'"),
        ({"spread": -0.1}, ValueError, "spread must be at least 0, got -0.1"),
        ({"spread": math.nan}, ValueError, "spread must be finite, got nan"),
        ({"spread": math.inf}, ValueError, "spread must be finite, got inf"),
        ({"spread": False}, TypeError, "spread must be a number, got False"),
        (
            {"limit": 1e200, "spread": 1e200},
            ValueError,
            "limit with its spread must be finite, got 1e+200 and 1e+200",
        ),
        ({"limit": 1.7e308}, ValueError, "limit with its spread must be finite"),
    ],
)
def test_nonsense_is_refused_at_construction(fields, error, text):
    """A bad setting is refused with its name and value."""
    with pytest.raises(error) as caught:
        ServerDelay(**fields)
    assert text in str(caught.value)


@pytest.mark.parametrize("asked", [-1.0, math.nan, -math.inf])
def test_what_is_no_wish_leaves_the_drawn_wait(asked):
    """A classifier that answers nonsense shortens no wait and stops no call."""
    assert ServerDelay()(asked, 0.4, 0.2, Highest()) == 0.4


# For any settings and any wish

delays = st.floats(0, 1e6)
wishes = st.one_of(
    st.floats(0, 100), st.floats(0, allow_infinity=False), st.sampled_from([0.0, 60.0, 61.0])
)
rules = st.builds(
    ServerDelay,
    st.one_of(st.floats(0, 100), st.floats(0, 1e9), st.just(60.0)),
    st.sampled_from(["stop", "cap", "ignore"]),
    st.sampled_from(["precedence", "floor"]),
    st.one_of(st.floats(0, 5), st.just(0.0)),
)
rngs = st.one_of(st.builds(random.Random, st.integers(0, 9)), st.just(Lowest()), st.just(Highest()))


@given(rules, wishes, delays, delays, rngs)
@settings(max_examples=500, deadline=None)
def test_never_sooner_than_asked_and_never_below_what_was_drawn(rule, asked, drawn, first, rng):
    """A wish within the limit is a minimum, above the first drawn wait or this retry's."""
    wait = rule(asked, drawn, first, rng)
    if asked > rule.limit:
        if rule.over_limit == "stop":
            assert wait is None
            return
        if rule.over_limit == "ignore":
            assert wait == drawn
            return
        asked = rule.limit
    assert math.isfinite(wait)
    if asked == 0:
        assert wait == drawn
        return
    assert wait >= asked
    assert wait >= (first if rule.combine == "precedence" else drawn)
    room = max(rule.spread * asked, min(1.0, asked)) if rule.spread else 0.0
    assert wait <= max(asked + room, first if rule.combine == "precedence" else drawn)


@given(rules, wishes, delays, delays, rngs)
@settings(max_examples=300, deadline=None)
def test_the_least_answer_is_a_lower_bound_that_the_lowest_draw_attains(
    rule, asked, drawn, first, rng
):
    """`least` is what the lowest draw gives, and no draw falls below it."""
    least = rule.least(asked, drawn, first)
    assert rule(asked, drawn, first, Lowest()) == least
    wait = rule(asked, drawn, first, rng)
    assert wait is least is None or wait >= least


@given(rules, wishes, delays, delays, st.integers())
@settings(max_examples=100, deadline=None)
def test_the_same_seed_gives_the_same_wait(rule, asked, drawn, first, seed):
    """The generator is the only source of chance."""
    one = rule(asked, drawn, first, random.Random(seed))
    assert rule(asked, drawn, first, random.Random(seed)) == one


@pytest.mark.parametrize("limit", [1e-300, 1.0, 1e300, sys.float_info.max / 3])
def test_extreme_limits_stay_finite(limit):
    """However small or large the wait, it is finite and not sooner than asked."""
    wait = ServerDelay(limit, spread=1)(limit, 0.0, 0.0, Highest())
    assert limit <= wait < math.inf
