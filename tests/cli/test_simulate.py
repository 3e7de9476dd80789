"""`simulate`: what policies do to a server, by the real driver in virtual time."""

from __future__ import annotations

import time

import pytest

from retrykit import Constant, Exponential, NoJitter, RatioBudget, RetryPolicy, RetryReason
from retrykit.cli._errors import BadInput
from retrykit.cli._simulate import Scenario, simulate

SHORT = Scenario(rate=40, capacity=50, outage=(5, 10), duration=25, clients=4)
STORM = RetryPolicy(attempts=10, backoff=Exponential(0.1, cap=2, jitter=NoJitter()))

SMALL = (
    "--rate",
    "20",
    "--capacity",
    "25",
    "--outage",
    "2-4",
    "--duration",
    "15",
    "--clients",
    "2",
)


def test_without_retries_nothing_is_amplified() -> None:
    """Each call is one request, and the end of the outage is the end."""
    result = simulate("none", RetryPolicy(attempts=1), SHORT)
    assert result.amplification == pytest.approx(1, abs=0.02)
    assert result.recovery == 0
    assert result.succeeded_in_outage == pytest.approx(0, abs=0.02)
    assert result.succeeded_outside == pytest.approx(1, abs=0.02)
    assert sum(result.offered) == result.attempts


def test_retries_multiply_in_an_outage() -> None:
    """With three attempts at once, each call makes three requests."""
    result = simulate("three", RetryPolicy(attempts=3, backoff=Constant(0)), SHORT)
    assert result.amplification == pytest.approx(3, rel=0.05)
    assert result.peak < 1.6


def test_a_budget_ends_that() -> None:
    """A reserve of two for each of four clients, and no more."""
    policy = RetryPolicy(attempts=3, backoff=Constant(0), budget=RatioBudget(reserve=2))
    result = simulate("budget", policy, SHORT)
    assert result.amplification == pytest.approx(1.04, abs=0.03)
    assert next(iter(result.give_ups)) == "budget_exhausted"


def storm(refusal_cost: float) -> Scenario:
    """An outage, and a server with half as much again as the calls need."""
    return Scenario(
        rate=40, capacity=60, outage=(5, 10), duration=40, clients=4, refusal_cost=refusal_cost
    )


def test_a_storm_outlives_its_cause() -> None:
    """Refusing is work: the retries keep the server busy with nothing else."""
    result = simulate("storm", STORM, storm(0.2))
    assert result.recovery is None
    assert result.peak > 5
    assert result.succeeded_outside is not None
    assert result.succeeded_outside < 0.6
    assert sum(result.served[12:]) < 0.5 * 40 * 28


def test_where_refusing_is_free_it_does_not() -> None:
    """So it is the work that does it."""
    result = simulate("storm", STORM, storm(0))
    assert result.recovery is not None
    assert result.recovery < 15
    assert result.succeeded_outside is not None
    assert result.succeeded_outside > 0.95


def test_the_server_serves_what_it_can() -> None:
    """No more than its capacity and what it has saved up, and no less where refusing is free."""
    busy = Scenario(rate=60, capacity=30, outage=None, duration=10, refusal_cost=0)
    result = simulate("much", RetryPolicy(attempts=1), busy)
    assert all(second <= 30 + 20 for second in result.served)
    assert 30 * 9.5 < sum(result.served) <= 30 * 10 + 20


def test_a_server_that_fails_now_and_then() -> None:
    """Retries save what they should: with three attempts at 30 %, 97.3 %."""
    scenario = Scenario(
        rate=100, capacity=300, outage=None, duration=20, failure_rate=0.3, refusal_cost=0
    )
    result = simulate("flaky", RetryPolicy(attempts=3, backoff=Constant(0.01)), scenario)
    assert result.succeeded == pytest.approx(0.973, abs=0.012)
    assert result.amplification == pytest.approx(1.39, abs=0.05)
    assert result.recovery is None


def test_the_same_seed_gives_the_same_result() -> None:
    """Every number; another seed gives others."""
    policy = RetryPolicy()
    first = simulate("a", policy, SHORT)
    assert simulate("a", policy, SHORT) == first
    other = Scenario(rate=40, capacity=50, outage=(5, 10), duration=25, clients=4, seed=2)
    assert simulate("a", policy, other) != first


def test_every_policy_meets_the_same_calls() -> None:
    """They arrive at the same times, whatever is retried."""
    one = simulate("one", RetryPolicy(attempts=1), SHORT)
    two = simulate("two", RetryPolicy(attempts=2), SHORT)
    assert one.calls == two.calls
    assert one.offered[:5] == two.offered[:5]


def test_the_policys_own_parts_are_left_alone() -> None:
    """The budget that it has is as full afterwards, and its listeners heard nothing."""
    heard: list[object] = []
    budget = RatioBudget(reserve=2)
    policy = RetryPolicy(budget=budget, listeners=[heard.append])
    simulate("mine", policy, SHORT)
    assert budget.balance() == 2
    assert heard == []


def test_a_policy_that_retries_something_else_is_simulated_too() -> None:
    """What is refused is retried, whatever the classifier says."""
    result = simulate("keys", RetryPolicy.on(KeyError, attempts=3, backoff=Constant(0)), SHORT)
    assert result.amplification == pytest.approx(3, rel=0.05)


def test_a_reason_counts_for_limits() -> None:
    """What a refusal counts as can be said."""
    policy = RetryPolicy(attempts=5, limits={RetryReason.THROTTLED: 1}, backoff=Constant(0))
    throttled = Scenario(
        rate=40, capacity=50, outage=(5, 10), duration=25, reason=RetryReason.THROTTLED
    )
    assert simulate("five", policy, SHORT).amplification == pytest.approx(5, rel=0.07)
    assert simulate("two", policy, throttled).amplification == pytest.approx(2, rel=0.05)


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    """No retry comes sooner than after three seconds."""
    policy = RetryPolicy(attempts=2, backoff=Constant(0))
    asking = Scenario(rate=40, capacity=200, outage=(5, 7), duration=20, retry_after=3)
    result = simulate("asked", policy, asking)
    assert result.amplification == pytest.approx(1, abs=0.05)
    assert result.succeeded == 1


def test_the_deadline_and_time_limits_are_the_drivers() -> None:
    """Calls end at theirs, also where the answer is late."""
    policy = RetryPolicy(deadline=2, backoff=Constant(0.5))
    result = simulate("deadline", policy, SHORT)
    assert result.amplification == pytest.approx(3.4, rel=0.1)  # 4, but for the last two seconds
    assert next(iter(result.give_ups)) == "deadline_exceeded"
    slow = Scenario(rate=10, capacity=50, outage=None, duration=20, latency=2)
    late = simulate("late", RetryPolicy(attempts=2, attempt_timeout=1), slow)
    assert late.succeeded == 0
    assert late.attempts == 0  # none of them came to an answer


def test_a_long_run_takes_a_moment() -> None:
    """Nothing really waits."""
    before = time.monotonic()
    sparse = Scenario(rate=0.01, capacity=1, outage=(1000, 2000), duration=20_000)
    result = simulate("sparse", RetryPolicy(deadline=3600), sparse)
    assert result.calls > 100
    assert time.monotonic() - before < 10


def test_progress_is_told() -> None:
    """Second by second."""
    told: list[float] = []
    simulate("a", RetryPolicy(attempts=1), SHORT, told.append)
    assert len(told) >= 20
    assert told == sorted(told)
    assert 23 < told[-1] < 25


def test_a_policy_beyond_all_measure_is_stopped(monkeypatch) -> None:
    """It says when, and what to change."""
    monkeypatch.setattr("retrykit.cli._simulate.MOST_ATTEMPTS", 2000)
    policy = RetryPolicy(deadline=30, backoff=Constant(0))
    instant = Scenario(rate=40, capacity=50, outage=(5, 10), duration=25, latency=0)
    with pytest.raises(BadInput, match=r"'hot' made 2,000 attempts by second \d+: lower --rate"):
        simulate("hot", policy, instant)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rate": 1e6, "duration": 1e6}, "makes 1,000,000 calls at most"),
        ({"outage": (50.0, 20.0)}, "must end after it starts"),
        ({"outage": (20.0, 20.0)}, "must end after it starts"),
        ({"outage": (20.0, 500.0)}, "by the end of the run"),
    ],
)
def test_scenarios_that_make_no_sense(fields: dict, told: str) -> None:
    """They are refused before anything runs."""
    with pytest.raises(BadInput, match=told):
        Scenario(**fields)


# The command


def test_the_table(printed) -> None:
    """A line for each policy."""
    shown = printed("simulate", "careful", "exact", *SMALL)
    assert shown.startswith(
        "20 calls a second from 2 clients, a server for 25 a second, an outage from 2 s to 4 s,"
        " 15 s in all (seed 1)\n"
    )
    assert {line.split()[0] for line in shown.splitlines() if "×" in line} == {"careful", "exact"}
    assert "budget_exhausted" in shown
    for column in ("offered", "served", "amplification", "recovery"):
        assert column in shown


def test_without_an_outage(printed) -> None:
    """There is nothing to recover from."""
    shown = printed("simulate", "exact", *SMALL, "--outage", "none", "--failure-rate", "10%")
    assert "no outage" in shown
    assert "recovery" not in shown.lower()


def test_the_command_is_deterministic(printed) -> None:
    """The same words give the same text."""
    assert printed("simulate", "careful", *SMALL) == printed("simulate", "careful", *SMALL)
    assert printed("simulate", "careful", *SMALL) != printed(
        "simulate", "careful", *SMALL, "--seed", "2"
    )


def test_json(as_json) -> None:
    """The scenario, and a result for each policy with its course in time."""
    found = as_json("simulate", "careful", "exact", *SMALL, "--seed", "5", "--retry-after", "1s")
    assert found["scenario"] == {
        "rate": 20,
        "clients": 2,
        "capacity": 25,
        "refusal_cost": 0.2,
        "outage": [2, 4],
        "duration": 15,
        "latency": 0.05,
        "failure_rate": 0,
        "reason": "server_error",
        "retry_after": 1,
        "seed": 5,
    }
    assert [result["policy"] for result in found["results"]] == ["careful", "exact"]
    for result in found["results"]:
        assert len(result["offered"]) == len(result["served"]) == len(result["success"]) == 15
        assert sum(result["offered"]) == result["attempts"]
        assert result["amplification"] >= 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rate", "0"], "above 0"),
        (["--rate", "fast"], "got 'fast'"),
        (["--rate", "inf"], "above 0"),
        (["--capacity", "-1"], "above 0"),
        (["--clients", "0"], "'--clients'"),
        (["--refusal-cost", "2"], "between 0 and 1"),
        (["--outage", "20s"], "must be START-END"),
        (["--outage", "50s-20s"], "must end after it starts"),
        (["--outage", "20s-500s"], "by the end of the run"),
        (["--duration", "0"], "above 0"),
        (["--rate", "1000000"], "calls at most"),
        (["--latency", "x"], "got 'x'"),
        (["--retry-after", "nan"], "finite"),
        (["nobody"], "no policy 'nobody'"),
    ],
)
def test_bad_input(options: list[str], told: str, refused) -> None:
    """One line that says what is wrong."""
    assert told in refused("simulate", "careful", *options)


def test_that_retries_are_switched_off_is_told(folder, capsys) -> None:
    """Else nobody would understand the picture."""
    from retrykit._context import laid
    from retrykit.cli import main

    with laid(in_all_threads=True, disabled=True):
        assert main(["simulate", "careful", *SMALL]) == 0
    assert "RETRYKIT_DISABLED is set" in capsys.readouterr().err
