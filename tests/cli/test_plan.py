"""`plan`: when each attempt is made, what it saves, what looks wrong."""

from __future__ import annotations

import asyncio
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import (
    ByReason,
    Constant,
    Decorrelated,
    EqualJitter,
    Exponential,
    NoJitter,
    OnException,
    RatioBudget,
    RetryPolicy,
    RetryReason,
    ServerDelay,
    TokenBudget,
)
from retrykit.budget import PerKey
from retrykit.cli._plan import Spread, make_plan
from retrykit.testing import VirtualClock

EXACT = Exponential(1, jitter=NoJitter())


def codes(policy: RetryPolicy, **settings) -> list[str]:
    """The kinds of warnings for a policy."""
    return [caution.code for caution in make_plan(policy, samples=200, **settings).cautions]


def texts(policy: RetryPolicy, **settings) -> str:
    """What the warnings say."""
    return "; ".join(each.text for each in make_plan(policy, samples=200, **settings).cautions)


# The rows


def test_exact_waits_add_up() -> None:
    """Without jitter everything is known."""
    plan = make_plan(RetryPolicy(attempts=4, backoff=EXACT))
    assert [row.attempt for row in plan.rows] == [1, 2, 3, 4]
    assert [row.wait for row in plan.rows] == [Spread(x, x, x, x) for x in (0, 1, 2, 4)]
    assert [row.start for row in plan.rows] == [Spread(x, x, x, x) for x in (0, 1, 3, 7)]
    assert all(row.reached == 1 for row in plan.rows)
    assert plan.left_out == 0


def test_the_ends_are_the_backoffs_bounds() -> None:
    """Least and greatest are not sampled."""
    plan = make_plan(RetryPolicy(attempts=3, backoff=Exponential(1, cap=3)))
    assert [(row.wait.least, row.wait.greatest) for row in plan.rows[1:]] == [(0, 1), (0, 2)]
    assert (plan.rows[2].start.least, plan.rows[2].start.greatest) == (0, 3)


def test_likely_is_the_median() -> None:
    """Of full jitter half the delay; of a decorrelated one what its chain gives."""
    plan = make_plan(RetryPolicy(attempts=3, backoff=Exponential(1)), samples=4000)
    assert plan.rows[1].wait.median == pytest.approx(0.5, abs=0.03)
    assert plan.rows[1].wait.mean == pytest.approx(0.5, abs=0.03)
    assert plan.rows[2].start.mean == pytest.approx(1.5, abs=0.05)
    chain = make_plan(RetryPolicy(attempts=3, backoff=Decorrelated(1, cap=100)), samples=4000)
    assert chain.rows[1].wait.median == pytest.approx(2, abs=0.1)


def test_the_same_seed_gives_the_same_plan() -> None:
    """And another seed another one."""
    policy = RetryPolicy()
    assert make_plan(policy, seed=3) == make_plan(policy, seed=3)
    assert make_plan(policy, seed=3) != make_plan(policy, seed=4)


def test_the_time_of_the_attempts_counts() -> None:
    """An attempt starts when the one before has failed and its wait is over."""
    policy = RetryPolicy(attempts=3, backoff=Constant(1))
    assert [row.start.median for row in make_plan(policy, attempt_time=2).rows] == [0, 3, 6]
    limited = policy.replace(attempt_timeout=0.5)
    assert [row.start.median for row in make_plan(limited, attempt_time=2).rows] == [0, 1.5, 3]


def test_the_deadline_lets_some_calls_come_to_an_attempt() -> None:
    """The share that does is told: a wait that would end at the deadline is not begun."""
    policy = RetryPolicy(attempts=4, deadline=3, backoff=EXACT)
    assert [row.reached for row in make_plan(policy).rows] == [1, 1, 0, 0]
    jittered = RetryPolicy(attempts=2, deadline=0.5, backoff=Exponential(1))
    assert make_plan(jittered, samples=4000).rows[1].reached == pytest.approx(0.5, abs=0.03)


def test_without_a_limit_the_deadline_ends_the_rows() -> None:
    """No attempt is shown that no call comes to."""
    plan = make_plan(RetryPolicy(deadline=10, backoff=Constant(3)))
    assert [row.attempt for row in plan.rows] == [1, 2, 3, 4]


def test_many_attempts_are_not_all_shown() -> None:
    """The first so many are, and the others counted."""
    plan = make_plan(RetryPolicy(attempts=1000), rows=5, samples=10)
    assert len(plan.rows) == 5
    assert plan.left_out == 995


def test_attempts_that_are_never_made_are_not_left_out() -> None:
    """Neither those past the end of the backoff, nor those past the deadline."""
    assert make_plan(RetryPolicy(attempts=9, backoff=Constant(1).take(2))).left_out == 0
    assert make_plan(RetryPolicy(deadline=5, backoff=Constant(1))).left_out == 0
    assert make_plan(RetryPolicy(deadline=500, backoff=Constant(1)), samples=5).left_out == math.inf


def test_a_million_attempts_take_no_time() -> None:
    """Nor does a backoff that never ends."""
    plan = make_plan(RetryPolicy(attempts=10**9, deadline=1e9), samples=10)
    assert plan.left_out == 10**9 - 20


# The chance to save a call


def test_independent_failures_multiply() -> None:
    """At a failure rate p, n attempts fail with p to the n."""
    plan = make_plan(RetryPolicy(attempts=3, backoff=Constant(1)), rates=(0, 0.1, 1))
    assert [row.saved for row in plan.rows] == [
        (1, pytest.approx(0.9), 0),
        (1, pytest.approx(0.99), 0),
        (1, pytest.approx(0.999), 0),
    ]


def test_an_attempt_after_the_deadline_saves_nothing() -> None:
    """What is not made does not count."""
    plan = make_plan(RetryPolicy(attempts=4, deadline=3, backoff=EXACT), rates=[0.5])
    assert [row.saved[0] for row in plan.rows] == [0.5, 0.75, 0.75, 0.75]


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(attempts=3, backoff=Exponential(1)),
        RetryPolicy(attempts=8, deadline=5, backoff=Exponential(1)),
        RetryPolicy(deadline=3, backoff=Decorrelated(0.5, cap=2)),
    ],
    ids=["attempts", "deadline", "decorrelated"],
)
def test_the_real_driver_saves_as_many(policy: RetryPolicy) -> None:
    """The chance and the attempts of a plan against 1,000 real calls in virtual time."""
    plan = make_plan(policy, rates=[0.5], samples=4000)
    clock, luck, jitter = VirtualClock(), Random(1), Random(2)
    timed = policy.replace(
        classify=OnException(OSError), clock=clock, rng=lambda: jitter, listeners=()
    )
    made = 0

    def call(rate: float) -> None:
        nonlocal made
        made += 1
        if luck.random() < rate:
            raise ConnectionResetError

    async def calls(rate: float) -> int:
        async def attempt() -> None:
            call(rate)

        results = [timed.acall(attempt) for _ in range(1000)]
        return sum(each is None for each in await asyncio.gather(*results, return_exceptions=True))

    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        saved = runner.run(calls(0.5))
        assert saved / 1000 == pytest.approx(plan.rows[-1].saved[0], abs=0.035)
        made = 0
        assert runner.run(calls(1.0)) == 0
        assert made / 1000 == pytest.approx(plan.in_outage, rel=0.03)


# Reasons


def test_a_reason_has_its_own_backoff_and_limit() -> None:
    """Without one, a backoff by reason follows its default."""
    policy = RetryPolicy(
        attempts=5,
        limits={RetryReason.THROTTLED: 1},
        backoff=ByReason({RetryReason.THROTTLED: Constant(9)}, default=Constant(1)),
    )
    assert [row.wait.median for row in make_plan(policy).rows] == [0, 1, 1, 1, 1]
    throttled = make_plan(policy, reason=RetryReason.THROTTLED)
    assert [row.wait.median for row in throttled.rows] == [0, 9]
    assert throttled.attempts == 2


# The worst case


def test_the_slowest_case() -> None:
    """Every wait the longest, as many attempts as the deadline then allows."""
    worst = make_plan(RetryPolicy(attempts=5, backoff=Exponential(1))).worst
    assert (worst.attempts, worst.waits, worst.total) == (5, 15, None)
    cut = make_plan(RetryPolicy(attempts=5, deadline=10, backoff=Exponential(1))).worst
    assert (cut.attempts, cut.waits, cut.total) == (4, 7, 10)
    timed = make_plan(RetryPolicy(attempts=3, attempt_timeout=2, backoff=Constant(1))).worst
    assert (timed.attempts, timed.waits, timed.total) == (3, 2, 8)


def test_the_slowest_case_of_very_many_attempts() -> None:
    """They are all counted, though not all are looked at."""
    worst = make_plan(RetryPolicy(attempts=10**6, backoff=Constant(2)), samples=10).worst
    assert (worst.attempts, worst.waits) == (10**6, 2 * (10**6 - 1))
    endless = make_plan(RetryPolicy(attempts=math.inf), samples=10).worst
    assert (endless.attempts, endless.waits) == (math.inf, math.inf)
    hot = make_plan(RetryPolicy(deadline=5, backoff=Constant(0)), samples=10).worst
    assert (hot.attempts, hot.waits, hot.total) == (math.inf, 0, 5)


def test_what_ends_the_slowest_case() -> None:
    """The deadline, or a backoff that has no more waits."""
    assert make_plan(RetryPolicy(attempts=9, deadline=10, backoff=Constant(3))).worst.by_deadline
    short = RetryPolicy(attempts=9, deadline=10, backoff=Constant(3).take(1))
    assert not make_plan(short).worst.by_deadline


def test_a_server_can_make_it_slower() -> None:
    """By what a Retry-After may ask for, and its spread."""
    assert make_plan(RetryPolicy()).worst.server_wait == 66
    short = RetryPolicy(server_delay=ServerDelay(limit=0.5, spread=0))
    assert make_plan(short).worst.server_wait == 0.5
    own = RetryPolicy(server_delay=lambda asked, drawn, first, rng: asked)
    assert make_plan(own).worst.server_wait is None


# Warnings


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(),
        RetryPolicy(deadline=30),
        RetryPolicy(attempts=3, deadline=30, attempt_timeout=5, budget=RatioBudget()),
        RetryPolicy(budget=TokenBudget()),
        RetryPolicy(attempts=3, backoff=Constant(1).jittered(EqualJitter())),
    ],
)
def test_a_sound_policy_has_no_warnings(policy: RetryPolicy) -> None:
    """The defaults among them."""
    assert codes(policy) == []


def test_attempts_that_the_deadline_can_never_reach() -> None:
    """The least waits add up to more."""
    policy = RetryPolicy(attempts=6, deadline=5, backoff=Exponential(1, jitter=EqualJitter()))
    assert codes(policy) == ["unreachable"]
    assert texts(policy) == (
        "attempts 5 to 6 are never made: the waits before take 7.5 s at least, and the deadline is"
        " 5 s"
    )
    one = RetryPolicy(attempts=3, deadline=5, backoff=[0.5, 5])
    assert "attempt 3 is never made" in texts(one)


def test_attempts_that_hardly_any_call_comes_to() -> None:
    """Full jitter may draw zero, again and again; it does not."""
    policy = RetryPolicy(attempts=30, deadline=5, backoff=Exponential(1))
    assert codes(policy) == ["rarely_reached"]
    assert "attempts 7 to 30 are made in fewer than 1 of 100 calls" in texts(policy)


def test_attempts_without_limit_are_promised_to_nobody() -> None:
    """The deadline ends them: nothing is wrong with that."""
    assert codes(RetryPolicy(deadline=5, backoff=Exponential(1))) == []


def test_no_jitter() -> None:
    """Clients that fail together come back together."""
    assert codes(RetryPolicy(backoff=EXACT)) == ["no_jitter"]
    assert codes(RetryPolicy(backoff=[1, 1, 1, 1])) == ["no_jitter"]
    assert codes(RetryPolicy(attempts=4, backoff=EXACT + Exponential(1))) == []


def test_no_wait() -> None:
    """Retries come as fast as failures."""
    assert codes(RetryPolicy(backoff=Constant(0))) == ["no_wait"]


def test_unbounded() -> None:
    """Nothing ends a call; a deadline does, and so does a list of waits."""
    assert codes(RetryPolicy(attempts=math.inf)) == ["unbounded"]
    assert codes(RetryPolicy(attempts=math.inf, deadline=60)) == []
    assert codes(RetryPolicy(attempts=math.inf, backoff=Exponential(1).take(3))) == []
    assert make_plan(RetryPolicy(attempts=math.inf)).in_outage == math.inf


def test_a_call_that_may_take_hours() -> None:
    """Bounded, in theory."""
    policy = RetryPolicy(attempts=20, backoff=Exponential(1))
    assert codes(policy) == ["long_call"]
    assert "wait for 6.07 days in all" in texts(policy)


def test_a_backoff_that_ends_before_the_attempts_do() -> None:
    """What the attempts promise is not kept."""
    policy = RetryPolicy(attempts=5, backoff=Exponential(1).take(2))
    assert codes(policy) == ["backoff_ends"]
    assert texts(policy) == "attempts 4 to 5 are never made: the backoff ends after 2 waits"


@pytest.mark.parametrize(
    "budget",
    [
        TokenBudget(prices={}, default=0),
        RatioBudget(reserve=1e9),
        PerKey(lambda call: call.name, RatioBudget(reserve=1e9)),
    ],
)
def test_a_budget_that_can_never_refuse(budget) -> None:
    """It costs nothing, or holds so much that no outage empties it."""
    policy = RetryPolicy(budget=budget)
    assert codes(policy) == ["budget_never_refuses"]
    assert make_plan(policy).refused_after == math.inf


def test_a_budget_that_never_refuses_one_reason() -> None:
    """The others it does; results that are polled for may be free."""
    free = {RetryReason.THROTTLED: 0.0, RetryReason.UNSATISFACTORY: 0.0}
    policy = RetryPolicy(budget=TokenBudget(prices=free))
    assert texts(policy) == "the budget never refuses a retry for throttled"
    assert codes(policy, reason=RetryReason.THROTTLED) == ["budget_never_refuses"]
    assert codes(policy, reason=RetryReason.TIMED_OUT) == []
    assert codes(RetryPolicy(budget=TokenBudget(prices={RetryReason.UNSATISFACTORY: 0}))) == []


def test_a_budget_is_asked_as_a_copy() -> None:
    """Looking at it costs nothing."""
    budget = RatioBudget(reserve=3)
    assert make_plan(RetryPolicy(budget=budget)).refused_after == 3
    assert budget.balance() == 3


def test_a_budget_that_a_made_up_call_says_nothing_to() -> None:
    """It may look for a host where there is none: then nothing is said of it."""
    policy = RetryPolicy(budget=PerKey(lambda call: call.args[0], RatioBudget()))
    assert codes(policy) == []
    assert make_plan(policy).refused_after is None


def test_a_time_limit_that_never_counts() -> None:
    """The deadline comes first."""
    policy = RetryPolicy(deadline=5, attempt_timeout=5)
    assert codes(policy) == ["timeout_past_deadline"]


def test_one_attempt_is_no_retry() -> None:
    """And of the rest there is nothing to warn of."""
    assert codes(RetryPolicy(attempts=1, backoff=EXACT)) == ["no_retries"]


backoffs = st.one_of(
    st.builds(Constant, st.floats(0, 100)),
    st.builds(Exponential, st.floats(0, 10), factor=st.floats(1, 3), cap=st.just(50)),
    st.builds(Decorrelated, st.floats(0, 10), cap=st.just(50)),
)


@settings(max_examples=25, deadline=None)
@given(
    backoff=backoffs,
    attempts=st.one_of(st.integers(1, 30), st.just(math.inf)),
    deadline=st.one_of(st.none(), st.floats(0.1, 200)),
    attempt_time=st.floats(0, 5),
)
def test_what_holds_for_every_plan(backoff, attempts, deadline, attempt_time) -> None:
    """Likely is between least and greatest, nothing goes backwards, shares are shares."""
    policy = RetryPolicy(attempts=attempts, deadline=deadline, backoff=backoff)
    plan = make_plan(policy, attempt_time=attempt_time, samples=50)
    assert plan.rows[0].attempt == 1
    for before, row in zip(plan.rows, plan.rows[1:], strict=False):
        for spread in (row.wait, row.start):
            assert spread.least <= spread.median <= spread.greatest
            assert spread.least <= spread.mean <= spread.greatest
        assert (row.wait.least, row.wait.greatest) == policy.delay_bounds(row.attempt - 1)
        assert row.start.least >= before.start.least
        assert row.reached <= before.reached <= 1
        assert all(a >= b for a, b in zip(row.saved, before.saved, strict=True))
        assert all(0 <= share <= 1 for share in row.saved)


# The command


def test_the_table(printed) -> None:
    """A row for each attempt, and what it comes to."""
    shown = printed("plan", "exact", "--failure-rate", "50%")
    assert shown.startswith("exact: RetryPolicy(attempts=4")
    rows = [line.split("  ") for line in shown.splitlines() if line[:1].isdigit()]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["1", "0 s", "0 s", "0 s", "50 %"],
        ["2", "1 s", "1 s", "1 s", "1 s", "1 s", "1 s", "75 %"],
        ["3", "2 s", "2 s", "2 s", "3 s", "3 s", "3 s", "87.5 %"],
        ["4", "4 s", "4 s", "4 s", "7 s", "7 s", "7 s", "93.8 %"],
    ]
    assert "Worst case: 4 attempts and 7 s of waits, no deadline." in shown
    assert "In an outage a call makes 4 attempts on average: no budget limits" in shown
    assert "Warning: no jitter: clients that fail together come back together" in shown


def test_the_table_of_a_policy_with_more(printed) -> None:
    """Deadline and budget are told of."""
    shown = printed("plan", "careful")
    assert "reached" in shown
    assert "within the deadline of 30 s" in shown
    assert "the budget pays for 20 retries of all calls together" in shown
    assert "Warning" not in shown


@pytest.mark.parametrize(
    ("settings", "options", "told"),
    [
        ("attempts = 'inf'", [], "Worst case: no end, no deadline."),
        ("attempts = 'inf'", [], "In an outage a call makes attempts without end: no budget"),
        ("attempts = 'inf'", [], "… and any number of more attempts"),
        ("attempts = 30", ["--rows", "5"], "… and 25 more attempts"),
        ("attempts = 3\nattempt_timeout = 2", [], "and 750 ms of waits, 2 s for each attempt, no"),
        ("deadline = 2\nattempts = 9", [], "the deadline of 2 s allows no more"),
        ("attempts = 3", ["--reason", "throttled"], "for attempts that fail as throttled"),
        ("attempts = 3", ["--attempt-time", "2s"], "attempts take 2 s each"),
        ("attempts = 1", [], "Worst case: 1 attempt and 0 s of waits, no deadline."),
        ("attempts = 1", [], "Warning: nothing is retried"),
        ("server_delay = { limit = '5s', spread = 0 }", [], "can make a wait 5 s long"),
    ],
)
def test_what_it_comes_to(settings: str, options: list[str], told: str, folder, printed) -> None:
    """In words below the table."""
    (folder / "retrykit.toml").write_text(f"[policies.mine]\n{settings}\n")
    assert told in printed("plan", "mine", *options)


def test_a_policys_name_is_shown_as_it_is(printed) -> None:
    """Nothing in it is taken for markup."""
    assert printed("plan", "odd [bold]$x^$ 日本").startswith("odd [bold]$x^$ 日本: RetryPolicy(")


def test_the_endpoints_are_told_of(printed) -> None:
    """And one is chosen by a request."""
    assert "(--endpoint): GET /slow/*" in printed("plan", "web")
    assert "7 s" in printed("plan", "web", "--endpoint", "GET /slow/1")


def test_json(as_json) -> None:
    """The same as plain values, without NaN and infinity."""
    plan = as_json(
        "plan", "exact", "--failure-rate", "0.5", "--failure-rate", "10%,0.5", "--seed", "9"
    )
    assert plan["policy"] == "exact"
    assert (plan["attempts"], plan["deadline"], plan["seed"]) == (4, None, 9)
    assert plan["rows"][1] == {
        "attempt": 2,
        "wait": {"least": 1, "median": 1, "mean": 1, "greatest": 1},
        "start": {"least": 1, "median": 1, "mean": 1, "greatest": 1},
        "reached": 1,
        "saved": {"0.5": 0.75, "0.1": pytest.approx(0.99)},
    }
    assert plan["worst_case"] == {
        "attempts": 4,
        "by_deadline": False,
        "waits": 7,
        "total": None,
        "server_wait": 66,
    }
    assert [warning["code"] for warning in plan["warnings"]] == ["no_jitter"]
    assert plan["budget"] is None


def test_json_has_no_infinity(as_json, folder) -> None:
    """What has no end is null."""
    (folder / "retrykit.toml").write_text("[policies.ever]\nattempts = 'inf'\n")
    plan = as_json("plan", "ever")
    assert plan["attempts"] is None
    assert plan["attempts_in_outage"] is None
    assert plan["worst_case"]["waits"] is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--failure-rate", "1.5"], "between 0 and 1"),
        (["--failure-rate", "10,20"], "between 0 and 1"),
        (["--failure-rate", ""], "between 0 and 1"),
        (["--failure-rate", "nan"], "between 0 and 1"),
        (["--attempt-time", "soon"], "got 'soon'"),
        (["--attempt-time", "-1"], "at least 0"),
        (["--rows", "0"], "'--rows'"),
        (["--seed", "x"], "'--seed'"),
        (["--reason", "bad luck"], "'--reason'"),
        (["--config", "none.toml"], "cannot read none.toml"),
        (["--endpoint", "GET /"], "has no endpoints"),
    ],
)
def test_bad_input(options: list[str], told: str, refused) -> None:
    """One line that names the option and what it got."""
    assert told in refused("plan", "exact", *options)
