"""Laws: the library's own parts keep them all, and for each a wrong one is caught by its name."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, cycle, islice, repeat
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import retrykit.testing
from retrykit import (
    Attempt,
    Call,
    Constant,
    DoNotRetry,
    Exponential,
    OnException,
    Raised,
    RatioBudget,
    RetryAfter,
    RetryDecision,
    RetryPolicy,
    RetryReason,
    ServerDelay,
    StopReason,
    TokenBudget,
    transient,
)
from retrykit.backoff import Backoff, BackoffBase, Custom
from retrykit.budget import Budget, PerKey
from retrykit.classify import Classifier
from retrykit.jitter import Bounds, Jitter
from retrykit.testing import (
    LawBroken,
    check_backoff,
    check_budget,
    check_classifier,
    check_jitter,
    check_policy,
    strategies,
)

OWN = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


# The library's own parts keep the laws.


@OWN
@given(strategies.backoffs())
def test_every_backoff_keeps_the_laws(backoff: BackoffBase) -> None:
    """By itself and combined; inside of a test of Hypothesis's own as well."""
    check_backoff(backoff, steps=20)


@OWN
@given(strategies.jitters())
def test_every_jitter_keeps_the_laws(jitter: Jitter) -> None:
    """All five."""
    check_jitter(jitter)


@OWN
@given(strategies.classifiers())
def test_every_classifier_keeps_the_laws(classifier: Classifier) -> None:
    """Building blocks and stacks."""
    check_classifier(classifier)


@OWN
@given(strategies.budgets())
def test_every_budget_keeps_the_laws(budget: Budget) -> None:
    """By ratio, by tokens and per key."""
    check_budget(budget)


@OWN
@given(strategies.policies())
def test_every_policy_keeps_the_laws(policy: RetryPolicy) -> None:
    """With any fields."""
    check_policy(policy)


def test_the_defaults_keep_the_laws() -> None:
    """Outside of Hypothesis: one line each."""
    check_backoff(Exponential(0.25, cap=20))
    check_classifier(transient)
    check_budget(RatioBudget())
    check_budget(TokenBudget())
    check_policy(RetryPolicy())


def test_a_budget_is_not_drawn_on_by_its_check() -> None:
    """Copies are."""
    budget = RatioBudget(reserve=3)
    check_budget(budget)
    assert budget.balance() == 3


def test_a_policys_budget_is_not_drawn_on_by_its_check() -> None:
    """Nor is that of a policy."""
    budget = RatioBudget(reserve=3)
    check_policy(RetryPolicy(budget=budget))
    assert budget.balance() == 3


def broken(check: Callable[[], None]) -> dict[str, str]:
    with pytest.raises(LawBroken) as caught:
        check()
    return caught.value.laws


# Backoffs that break a law each.


@dataclass(frozen=True)
class Of(BackoffBase):
    """A backoff of given functions: a good one, unless a function is wrong."""

    draw: Callable[[Random], Iterator[float]] = lambda rng: (2 * rng.random() for _ in count())
    bound: Callable[[], Iterator[Bounds]] = lambda: repeat(Bounds(0.0, 2.0))
    within: Bounds = Bounds(0.0, 10.0)  # noqa: RUF009 - a pair of numbers

    def delays(self, rng: Random) -> Iterator[float]:
        return self.draw(rng)

    def bounds(self) -> Iterator[Bounds]:
        return self.bound()

    @property
    def limits(self) -> Bounds:
        return self.within


shared_waits = cycle([1.0, 2.0])
shared_bounds = cycle([Bounds(1.0, 1.0), Bounds(2.0, 2.0)])


def overflowing(rng: Random) -> Iterator[float]:
    return (min(2.0**number, 60.0) * rng.random() for number in count())


def growing_bounds() -> Iterator[Bounds]:
    return (Bounds(0.0, min(2.0 ** min(number, 6), 60.0)) for number in count())


BROKEN_BACKOFFS: dict[str, tuple[Backoff, str, str]] = {
    "a wait is NaN": (
        Of(draw=lambda rng: iter([1.0, float("nan")]), bound=lambda: repeat(Bounds(0, 2), 2)),
        "finite",
        r"wait 2 of Random\(0\) is nan",
    ),
    "a wait is negative": (
        Of(draw=lambda rng: repeat(-1.0)),
        "finite",
        r"wait 1 of Random\(0\) is -1.0",
    ),
    "a wait is infinite": (
        Of(draw=lambda rng: repeat(float("inf"))),
        "finite",
        r"wait 1 of Random\(0\) is inf",
    ),
    "a wait is no number": (
        Of(draw=lambda rng: repeat("1")),  # type: ignore[arg-type,return-value]  # on purpose
        "finite",
        r"wait 1 of Random\(0\) is '1'",
    ),
    "it overflows far out": (
        Of(draw=overflowing, bound=growing_bounds, within=Bounds(0.0, 64.0)),
        "finite",
        r"wait 1025 raised OverflowError",
    ),
    "it raises": (
        Of(draw=lambda rng: iter([1 / 0])),
        "finite",
        r"with Random\(0\) it raised ZeroDivisionError",
    ),
    "it draws past its bounds": (
        Of(draw=lambda rng: (3 * rng.random() for _ in count())),
        "within its bounds",
        r"is 2\.\d+, outside of 0.0 to 2.0",
    ),
    "its bounds are too wide": (
        Of(bound=lambda: repeat(Bounds(0.0, 5.0))),
        "tight bounds",
        "wait 1 is drawn from 0.0 to 1.9+[0-9]*, and its bounds are 0.0 to 5.0",
    ),
    "its lower bound is too low": (
        Of(draw=lambda rng: (1 + rng.random() for _ in count())),
        "tight bounds",
        "wait 1 is drawn from 1.0 to",
    ),
    "it draws without end": (
        Of(
            draw=lambda rng: iter([rng.normalvariate(1.0, 0.1)]),
            bound=lambda: repeat(Bounds(0, 2), 1),
        ),
        "tight bounds",
        "draws without end",
    ),
    "it leaves its cap": (
        Of(within=Bounds(0.0, 1.5)),
        "within its limits",
        r"the bounds of wait 1 are 0.0 to 2.0, outside of 0.0 to 1.5",
    ),
    "it falls below its floor": (
        Of(within=Bounds(0.5, 10.0)),
        "within its limits",
        "the bounds of wait 1 are 0.0 to 2.0, outside of",
    ),
    "a wait leaves the cap and its bounds do not": (
        Of(draw=lambda rng: (11 * rng.random() for _ in count())),
        "within its limits",
        r"is 10\.\d+, outside of 0.0 to 10.0",
    ),
    "its bounds end before its waits": (
        Of(bound=lambda: repeat(Bounds(0.0, 2.0), 3)),
        "even",
        "it ends after 3 bounds only",
    ),
    "its waits end before its bounds": (
        Of(draw=lambda rng: iter([rng.random() * 2])),
        "even",
        "it ends after 1 waits only",
    ),
    "its waits are shared between calls": (
        Of(draw=lambda rng: iter(shared_waits), bound=lambda: repeat(Bounds(1, 2))),
        "fresh",
        "after one other call, wait 1 is 2.0 and no longer 1.0",
    ),
    "its bounds are shared between calls": (
        Of(draw=lambda rng: iter([1.0]), bound=lambda: islice(shared_bounds, 1)),
        "fresh",
        "asked for bounds again, wait 1 is",
    ),
    "it draws from the random module": (
        Of(draw=lambda rng: (2 * random.random() for _ in count())),
        "seeded",
        r"with Random\(0\) once more, wait 1 is",
    ),
}


@pytest.mark.parametrize(
    ("backoff", "law", "complaint"), BROKEN_BACKOFFS.values(), ids=BROKEN_BACKOFFS
)
def test_a_wrong_backoff_is_caught(backoff: Backoff, law: str, complaint: str) -> None:
    """By the law that it breaks."""
    laws = broken(lambda: check_backoff(backoff))
    assert law in laws
    assert re.search(complaint, laws[law]), laws


def test_a_good_backoff_of_ones_own_passes() -> None:
    """The one that the wrong ones are made of; also without combinators."""
    check_backoff(Of())
    check_backoff(Custom(strategies.Waits((1.0, 2.0, 3.0))))


def test_one_wrong_thing_breaks_one_law() -> None:
    """Only the law that does not hold is named."""
    assert set(broken(lambda: check_backoff(Of(within=Bounds(0.0, 1.5))))) == {"within its limits"}


def test_all_broken_laws_are_named_at_once() -> None:
    """With a counterexample each."""
    wrong = Of(draw=lambda rng: repeat(-1.0), bound=lambda: repeat(Bounds(0.0, 2.0), 3))
    with pytest.raises(LawBroken) as caught:
        check_backoff(wrong)
    assert set(caught.value.laws) >= {"finite", "within its bounds", "even"}
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("is no proper backoff")
    assert lines[0] == "  finite: wait 1 of Random(0) is -1.0"


def test_the_counterexample_is_the_smallest() -> None:
    """Shrunk by Hypothesis: the seed 0 and the first wait that is wrong."""
    late = Of(
        draw=lambda rng: iter([2 * rng.random(), 2 * rng.random(), 9.0]),
        bound=lambda: repeat(Bounds(0.0, 2.0), 3),
    )
    laws = broken(lambda: check_backoff(late))
    assert laws["within its bounds"] == "wait 3 of Random(0) is 9.0, outside of 0.0 to 2.0"


def test_the_search_is_the_same_each_time() -> None:
    """No flaky test of a law."""
    wrong = Of(draw=lambda rng: (2.001 * rng.random() for _ in count()))
    assert broken(lambda: check_backoff(wrong)) == broken(lambda: check_backoff(wrong))


def test_a_law_broken_inside_of_a_test_of_hypothesis_is_told_there() -> None:
    """The same error comes out."""

    @OWN
    @given(st.just(None))
    def test(_: None) -> None:
        check_backoff(Of(within=Bounds(0.0, 1.5)))

    assert set(broken(test)) == {"within its limits"}


def test_the_global_generator_is_left_as_it_was() -> None:
    """A check draws nothing from anybody's sequence."""
    state = random.getstate()
    check_backoff(Of())
    assert random.getstate() == state


# Jitters that break a law each.


@dataclass(frozen=True)
class Around:
    """A jitter of given functions, good unless a function is wrong."""

    draw: Callable[[float, Random], float] = lambda delay, rng: delay * rng.random()
    bound: Callable[[float], Bounds] = lambda delay: Bounds(0.0, delay)

    def __call__(self, delay: float, rng: Random) -> float:
        return self.draw(delay, rng)

    def bounds(self, delay: float) -> Bounds:
        return self.bound(delay)


counting = count()

BROKEN_JITTERS: dict[str, tuple[Jitter, str, str]] = {
    "a draw is negative": (
        Around(draw=lambda delay, rng: delay - 1),
        "finite",
        r"of 0.0, Random\(0\) draws -1.0",
    ),
    "a draw is NaN": (
        Around(draw=lambda delay, rng: float("nan") if delay > 5 else delay),
        "finite",
        r"Random\(0\) draws nan",
    ),
    "its bounds are negative": (
        Around(bound=lambda delay: Bounds(-1.0, delay)),
        "finite",
        "the bounds of 0.0 are -1.0 to 0.0",
    ),
    "its bounds are upside down": (
        Around(bound=lambda delay: Bounds(delay, 0.0)),
        "finite",
        r"the bounds of 1.0 are 1.0 to 0.0",
    ),
    "it raises": (
        Around(draw=lambda delay, rng: 1 / delay),
        "finite",
        r"of 0.0, with Random\(0\) it raised Zero",
    ),
    "it draws past its bounds": (
        Around(draw=lambda delay, rng: delay * (1 + rng.random())),
        "within its bounds",
        r"of 1.0, Random\(0\) draws 1\.\d+, outside of 0.0 to 1.0",
    ),
    "its bounds are too wide": (
        Around(bound=lambda delay: Bounds(0.0, 2 * delay)),
        "tight bounds",
        r"1.0 is drawn from 0.0 to 0.9+\d*, and its bounds are 0.0 to 2.0",
    ),
    "it draws from the random module": (
        Around(draw=lambda delay, rng: delay * random.random()),
        "seeded",
        r"of 1.0, Random\(0\) draws .* once and .* once more",
    ),
    "its bounds change": (
        Around(bound=lambda delay: Bounds(0.0, delay + next(counting))),
        "seeded",
        "the bounds of 0.0 are",
    ),
}


@pytest.mark.parametrize(
    ("jitter", "law", "complaint"), BROKEN_JITTERS.values(), ids=BROKEN_JITTERS
)
def test_a_wrong_jitter_is_caught(jitter: Jitter, law: str, complaint: str) -> None:
    """By the law that it breaks, on a delay that shows it."""
    laws = broken(lambda: check_jitter(jitter))
    assert re.search(complaint, laws[law]), laws


def test_a_good_jitter_of_ones_own_passes() -> None:
    """The one that the wrong ones are made of."""
    check_jitter(Around())


# Classifiers that break a law each.


def raising(attempt: Attempt) -> RetryDecision | None:
    return RetryAfter() if attempt.error.errno else None  # type: ignore[union-attr]  # on purpose


def answering_true(attempt: Attempt) -> Any:
    return isinstance(attempt.error, OSError)


def changing(attempt: Attempt) -> RetryDecision | None:
    if attempt.error is not None:
        attempt.error.seen = True  # type: ignore[attr-defined]  # on purpose
    return None


def noting(attempt: Attempt) -> RetryDecision | None:
    if attempt.error is not None:
        attempt.error.add_note("seen")
    return None


@dataclass
class Counting:
    calls: int = 0

    def __call__(self, attempt: Attempt) -> RetryDecision | None:
        self.calls += 1
        return RetryAfter() if self.calls % 2 else None


BROKEN_CLASSIFIERS: dict[str, tuple[Classifier, str, str]] = {
    "it raises": (
        raising,
        "total",
        r"to Returned\(None\) in attempt 1 it raised AttributeError: 'NoneType' object has no",
    ),
    "it answers a bool": (answering_true, "total", r"in attempt 1 it answers False"),
    "it changes the error": (changing, "pure", r"it changes Raised\(OSError\(\)\) in attempt 1"),
    "it leaves a note": (noting, "pure", r"it changes Raised\(OSError\(\)\) in attempt 1"),
    "it counts": (Counting(), "pure", "once and"),
    "it draws": (
        lambda attempt: random.choice([None, RetryAfter()]),
        "pure",
        "once and",
    ),
}


@pytest.mark.parametrize(
    ("classifier", "law", "complaint"), BROKEN_CLASSIFIERS.values(), ids=BROKEN_CLASSIFIERS
)
def test_a_wrong_classifier_is_caught(classifier: Classifier, law: str, complaint: str) -> None:
    """By the law that it breaks."""
    laws = broken(lambda: check_classifier(classifier))
    assert re.search(complaint, laws[law]), laws


def test_a_classifier_may_be_checked_on_attempts_of_ones_own() -> None:
    """Where it is only ever asked about some."""
    only = st.builds(
        Attempt,
        st.just(Call(print)),
        st.just(1),
        st.builds(Raised, st.just(OSError(11))),
        st.just(0.1),
    )
    check_classifier(raising, attempts=only)


# Budgets that break a law each.


@dataclass
class Purse:
    """A budget that is simple and right, unless a function is wrong."""

    coins: float = 5.0
    price: Callable[[Purse], float | None] = lambda purse: 1.0 if purse.coins >= 1 else None
    take: Callable[[Purse, float], float] = lambda purse, price: purse.coins - price
    refuse: Callable[[Purse], float] = lambda purse: purse.coins
    end: Callable[[Purse, bool, float, float], float] = lambda purse, succeeded, spent, unused: min(
        purse.coins + succeeded + unused, 5.0
    )

    def withdraw(self, call: Call, reason: RetryReason) -> float | None:
        price = self.price(self)
        self.coins = self.refuse(self) if price is None else self.take(self, price)
        return price

    def settle(self, call: Call, *, succeeded: bool, spent: float, unused: float = 0.0) -> None:
        self.coins = self.end(self, succeeded, spent, unused)

    def balance(self, call: Call | None = None) -> float:
        return self.coins


BROKEN_BUDGETS: dict[str, tuple[Budget, str, str]] = {
    "it goes into debt": (
        Purse(price=lambda purse: 4.0),
        "solvent",
        r"around retry 2 of call 1 \(connection_failed\), the balance is -3.0",
    ),
    "it raises": (
        Purse(price=lambda purse: 1 / 0),
        "honest",
        "in 1 calls, the last with 1 retries and a success, it raised ZeroDivisionError",
    ),
    "its balance is NaN": (
        Purse(end=lambda *_: float("nan")),
        "solvent",
        "around the end of call 1 .*, the balance is nan",
    ),
    "it charges first attempts": (
        Purse(end=lambda purse, succeeded, spent, unused: purse.coins - 0.5 * (spent == 0)),
        "first attempts are free",
        r"the end of call 1 \(success, spent 0, unused 0\) takes the balance from 5.0 to 4.5",
    ),
    "it charges more than it says": (
        Purse(take=lambda purse, price: purse.coins - 2 * price),
        "honest",
        r"retry 1 of call 1 \(connection_failed\) costs 1.0: from 5.0 to 3.0",
    ),
    "it charges nothing": (
        Purse(take=lambda purse, price: purse.coins),
        "honest",
        r"costs 1.0: from 5.0 to 5.0",
    ),
    "it charges for a refusal": (
        Purse(coins=1.5, refuse=lambda purse: 0.0),
        "honest",
        r"retry 2 of call 1 \(connection_failed\) is refused: from 0.5 to 0.0",
    ),
    "its price is negative": (
        Purse(price=lambda purse: -1.0),
        "honest",
        r"the price of retry 1 of call 1 \(connection_failed\) is -1.0",
    ),
    "it keeps what was not used": (
        Purse(end=lambda purse, succeeded, spent, unused: purse.coins),
        "gives back",
        r"the end of call 1 \(cancel in the wait, spent 0, unused 1\) takes the balance from 4.0",
    ),
    "it punishes failures": (
        Purse(
            end=lambda purse, succeeded, spent, unused: max(
                purse.coins + unused - (0 if succeeded or not spent else 1), 0
            )
        ),
        "settling is free",
        r"the end of call 1 \(failure, spent 1, unused 0\) takes the balance from 4.0 to 3.0",
    ),
    "it never recovers": (
        Purse(end=lambda purse, succeeded, spent, unused: purse.coins + unused),
        "recovers",
        "run dry, it has earned nothing after 1000 successes",
    ),
    "it truncates what it earns": (
        Purse(
            end=lambda purse, succeeded, spent, unused: purse.coins + unused + int(0.6 * succeeded)
        ),
        "recovers",
        "run dry",
    ),
}


@pytest.mark.parametrize(
    ("budget", "law", "complaint"), BROKEN_BUDGETS.values(), ids=BROKEN_BUDGETS
)
def test_a_wrong_budget_is_caught(budget: Budget, law: str, complaint: str) -> None:
    """By the law that it breaks."""
    laws = broken(lambda: check_budget(budget))
    assert re.search(complaint, laws[law]), laws


def test_a_good_budget_of_ones_own_passes() -> None:
    """The one that the wrong ones are made of."""
    check_budget(Purse())
    check_budget(PerKey(strategies.KeyOf("name"), Purse()))


# Policies that break a law each.


@dataclass
class Stubborn:
    """A foreign policy that is its own executor, and right: it keeps nothing."""

    answer: Any = field(default_factory=lambda: RetryAfter(1))

    def new_executor(self, call: Call) -> Any:
        return self

    def decide(self, attempt: Attempt) -> Any:
        return self.answer


@dataclass
class Forgetful:
    """One that counts its retries over all calls."""

    count: int = 0

    def new_executor(self, call: Call) -> Forgetful:
        return self

    def decide(self, attempt: Attempt) -> RetryDecision:
        self.count += 1
        return RetryAfter(float(self.count))


class Raising(Stubborn):
    def decide(self, attempt: Attempt) -> Any:
        raise ZeroDivisionError("on purpose")


class WithExecutor(RetryPolicy):
    """The standard policy with one thing changed in what its executor decides."""

    __slots__ = ()

    def new_executor(self, call: Call) -> Any:
        return Changed(super().new_executor(call), self.name or "")


@dataclass
class Changed:
    inner: Any
    how: str

    def decide(self, attempt: Attempt) -> RetryDecision:
        decision: RetryDecision = self.inner.decide(attempt)
        if self.how == "half" and isinstance(decision, RetryAfter):
            return RetryAfter(decision.delay / 2, decision.reason)
        if self.how == "revive" and decision == DoNotRetry(StopReason.FORBIDDEN):
            return RetryAfter(60)
        limits = (StopReason.ATTEMPTS_EXHAUSTED, StopReason.DEADLINE_EXCEEDED)
        more = (*limits, StopReason.REASON_EXHAUSTED)
        if self.how == "more" and isinstance(decision, DoNotRetry) and decision.reason in more:
            return RetryAfter(60, RetryReason.TRANSIENT)
        return decision

    def ended(self, succeeded: bool) -> None:
        self.inner.ended(succeeded)


def hasty(asked: float, drawn: float, first: float, rng: Random) -> float:
    return 0.0


def asks(attempt: Attempt) -> RetryDecision:
    return RetryAfter(5)


ALWAYS = strategies.always_retry

BROKEN_POLICIES: dict[str, tuple[Any, str, str]] = {
    "it answers nonsense": (
        Stubborn(True),
        "answers",
        r"to Returned\(None\) in attempt 1 it answers",
    ),
    "it raises": (
        Raising(),
        "answers",
        r"in a call of 1 attempts, the last Returned\(None\), it raised ZeroDivisionError: on",
    ),
    "its classifier raises": (
        RetryPolicy(classify=raising),
        "answers",
        r"to Returned\(None\) in attempt 1 a part of it fails",
    ),
    "its backoff gives NaN": (
        RetryPolicy(classify=ALWAYS, backoff=Of(draw=lambda rng: repeat(float("nan")))),
        "answers",
        "a part of it fails",
    ),
    "its calls share a counter": (Forgetful(), "fresh", r"RetryAfter\(delay=\d+.0"),
    "its backoff is shared": (
        RetryPolicy(
            classify=ALWAYS,
            backoff=Of(draw=lambda rng: iter(shared_waits), bound=lambda: repeat(Bounds(1, 2))),
        ),
        "fresh",
        "before another call",
    ),
    "it makes one attempt too many": (
        WithExecutor(classify=ALWAYS, attempts=2, backoff=Constant(1), name="more"),
        "bounded",
        r"in attempt 2 it retries, and 2 attempts are allowed",
    ),
    "it retries too often for a reason": (
        WithExecutor(
            classify=ALWAYS, limits={RetryReason.TRANSIENT: 1}, backoff=Constant(1), name="more"
        ),
        "bounded",
        "it retries once more for transient",
    ),
    "it waits past its deadline": (
        WithExecutor(classify=ALWAYS, deadline=10, backoff=Constant(9), name="more"),
        "bounded",
        "it waits until .*, and the deadline is 10.0",
    ),
    "a later step shortens the wait": (
        WithExecutor(classify=ALWAYS, backoff=Constant(4), name="half"),
        "a later step never shortens",
        "it waits 2.0, and its backoff drew 4.0",
    ),
    "its server delay shortens the wait": (
        RetryPolicy(classify=asks, backoff=Constant(4), server_delay=hasty),
        "a later step never shortens",
        "it waits 0.0, and its backoff drew 4.0",
    ),
    "a later step revives the call": (
        WithExecutor(classify=strategies.never_retry, name="revive"),
        "no step revives",
        "it retries, and forbidden had ended the call",
    ),
}


@pytest.mark.parametrize(
    ("policy", "law", "complaint"), BROKEN_POLICIES.values(), ids=BROKEN_POLICIES
)
def test_a_wrong_policy_is_caught(policy: Any, law: str, complaint: str) -> None:
    """By the law that it breaks."""
    laws = broken(lambda: check_policy(policy))
    assert re.search(complaint, laws[law]), laws


def test_a_server_that_asks_for_less_is_no_shortening() -> None:
    """Precedence over a later, longer draw is the documented exception."""
    check_policy(
        RetryPolicy(
            classify=OnException(Exception, after=lambda _: 2.0),
            backoff=[1, 50, 50],
            server_delay=ServerDelay(spread=0),
        )
    )


def test_good_policies_of_ones_own_pass() -> None:
    """A foreign one, and a subclass that changes nothing."""
    check_policy(Stubborn())
    check_policy(WithExecutor(classify=ALWAYS, attempts=3, backoff=Constant(1)))


# Every law has a wrong one, and bad input is refused.


def test_every_law_is_broken_by_something_above() -> None:
    """The laws that the docstrings list are those that the wrong ones break."""
    for check, cases in [
        (check_backoff, BROKEN_BACKOFFS),
        (check_jitter, BROKEN_JITTERS),
        (check_classifier, BROKEN_CLASSIFIERS),
        (check_budget, BROKEN_BUDGETS),
        (check_policy, BROKEN_POLICIES),
    ]:
        lines = (check.__doc__ or "").splitlines()
        listed = {line.strip()[2:].split(":")[0] for line in lines if line.strip().startswith("- ")}
        assert listed == {law for _, law, _ in cases.values()}


@pytest.mark.parametrize(
    ("check", "bad", "text"),
    [
        (check_backoff, 5, r"write Constant\(5\)"),
        (check_backoff, Exponential, "got the class Exponential"),
        (check_jitter, Around, "jitter must be an instance, got the class Around"),
        (check_jitter, print, r"jitter must have bounds\(delay\)"),
        (check_classifier, 3, "classifier must be callable, got 3"),
        (check_classifier, OnException, "got the class OnException"),
        (check_budget, RatioBudget, "budget must be an instance, got the class RatioBudget"),
        (check_budget, 3, "budget must have withdraw, settle and balance, got 3"),
        (check_policy, RetryPolicy, r"policy must have new_executor\(call\)"),
        (check_policy, 3, r"policy must have new_executor\(call\), got 3"),
    ],
)
def test_what_is_no_strategy_is_refused(check: Callable[[Any], None], bad: Any, text: str) -> None:
    """By name, before anything is tried."""
    with pytest.raises(TypeError, match=text):
        check(bad)


def test_a_budget_that_cannot_be_copied_is_refused() -> None:
    """Its check would draw on the budget itself."""

    class Fixed(Purse):
        def __deepcopy__(self, memo: object) -> Any:
            raise RuntimeError("one of a kind")

    with pytest.raises(TypeError, match="budget must be copyable"):
        check_budget(Fixed())


def test_the_checks_are_at_hand_in_the_test_kit() -> None:
    """Re-exported, and Hypothesis is only loaded with them."""
    assert retrykit.testing.check_backoff is check_backoff
    assert set(retrykit.testing.__all__) <= set(dir(retrykit.testing))
    assert "hypothesis" in sys.modules
    with pytest.raises(AttributeError, match="no attribute 'check_everything'"):
        _ = retrykit.testing.check_everything  # type: ignore[attr-defined]  # on purpose
