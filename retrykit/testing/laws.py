"""What every strategy must satisfy, whoever wrote it: run on one of your own in one line.

    def test_my_backoff_keeps_the_laws():
        check_backoff(MyBackoff())

A law that does not hold is named in a `LawBroken`, with the smallest counterexample that Hypothesis
finds. The search is the same each time. Needs the extra `[hypothesis]`.
"""

from __future__ import annotations

import math
import random
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import strategies as st

from retrykit._validate import function, instance_not_class, is_number, shown, whole
from retrykit.backoff import as_backoff
from retrykit.budget import Budget
from retrykit.decision import DoNotRetry, RetryAfter, RetryReason, StopReason
from retrykit.outcome import Attempt, Call, Raised
from retrykit.policy import PolicyFactory, RetryPolicy
from retrykit.server_delay import ServerDelay
from retrykit.testing import strategies
from retrykit.testing._search import Always, LawBroken, check, other_chance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import SearchStrategy

    from retrykit.backoff import Backoff
    from retrykit.classify import Classifier
    from retrykit.decision import RetryDecision
    from retrykit.jitter import Bounds, Jitter
    from retrykit.outcome import Outcome
    from retrykit.testing._search import Law

__all__ = [
    "LawBroken",
    "check_backoff",
    "check_budget",
    "check_classifier",
    "check_jitter",
    "check_policy",
]

FAR_OUT: Final = 3000
"""How many steps a backoff is followed: beyond what a power of two survives."""

REPETITIONS: Final = 8
"""How often a classifier is asked the same."""

MOST_CALLS: Final = 1000
"""How many calls a budget gets to run dry, and how many successes to recover."""


def check_backoff(backoff: Backoff, /, *, steps: int = 50) -> None:
    """Check the laws of backoffs on the first `steps` waits.

    - finite: every wait is a finite number of at least zero, also far out
    - within its bounds: no wait lies outside of what `bounds()` says for its step
    - tight bounds: the lowest and the highest draws attain them
    - within its limits: neither waits nor bounds leave `limits`
    - even: waits and bounds end together
    - fresh: each call begins anew, whatever others have drawn
    - seeded: the given generator is the only source of chance

    >>> from retrykit import Exponential
    >>> check_backoff(Exponential(0.5, cap=20))
    """
    whole("steps", steps, low=1)
    check(
        "backoff",
        as_backoff("backoff", backoff),
        {
            "finite": partial(_finite, steps),
            "within its bounds": partial(_within_bounds, steps),
            "tight bounds": partial(_tight_bounds, steps),
            "within its limits": partial(_within_limits, steps),
            "even": partial(_even, steps),
            "fresh": partial(_fresh, steps),
            "seeded": partial(_seeded, steps),
        },
        _seeds(),
        lambda seed: f"with Random({seed})",
        once={"finite": _finite_far_out},
    )


def check_jitter(jitter: Jitter, /) -> None:
    """Check the laws of jitters, on any delay.

    - finite: every draw is a finite number of at least zero
    - within its bounds: no draw lies outside of `bounds(delay)`
    - tight bounds: the lowest and the highest draw attain them
    - seeded: the given generator is the only source of chance, and `bounds` has none

    >>> from retrykit import FullJitter
    >>> check_jitter(FullJitter())
    """
    instance_not_class("jitter", jitter)
    function("jitter", jitter)
    if not callable(getattr(jitter, "bounds", None)):
        raise TypeError(f"jitter must have bounds(delay), got {shown(jitter)}")
    check(
        "jitter",
        jitter,
        {
            "finite": _jitter_finite,
            "within its bounds": _jitter_within_bounds,
            "tight bounds": _jitter_tight,
            "seeded": _jitter_seeded,
        },
        st.tuples(strategies.durations(high=1e9), _seeds()),
        lambda example: f"of {example[0]!r}, with Random({example[1]})",
    )


def check_classifier(
    classifier: Classifier, /, *, attempts: SearchStrategy[Attempt] | None = None
) -> None:
    """Check the laws of classifiers on attempts of every sort, or on `attempts`.

    - pure: it answers the same attempt the same again, and leaves it as it was
    - total: it answers `RetryAfter`, `DoNotRetry` or `None` to every attempt, and raises nothing

    >>> from retrykit import OnException
    >>> check_classifier(OnException(OSError))
    """
    function("classifier", classifier)
    check(
        "classifier",
        classifier,
        {"pure": _pure, "total": _total},  # total would be the first to change something
        strategies.attempts() if attempts is None else attempts,
        lambda attempt: f"to {_told(attempt)}",
    )


def check_budget(budget: Budget, /) -> None:
    """Check the laws of budgets, on copies: the budget itself is not drawn on.

    - solvent: the balance is a finite number of at least zero
    - first attempts are free: a call without retries never lowers it
    - honest: a retry lowers it by what `withdraw` says, and one that is refused by nothing
    - gives back: what was paid and not used is there again
    - settling is free: no call's end lowers it
    - recovers: run dry, it earns by successes until it pays again

    >>> from retrykit import RatioBudget
    >>> check_budget(RatioBudget(ratio=0.1, reserve=5))
    """
    instance_not_class("budget", budget)
    if not isinstance(budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"budget must have withdraw, settle and balance, got {shown(budget)}")
    try:
        deepcopy(budget)
    except Exception as error:
        raise TypeError(f"budget must be copyable, got {shown(budget)}") from error
    calls = st.tuples(
        st.lists(st.sampled_from(RetryReason), max_size=4), st.sampled_from(list(_ENDS))
    )
    check(
        "budget",
        budget,
        {
            "solvent": _solvent,
            "first attempts are free": _first_is_free,
            "honest": _honest,
            "gives back": _gives_back,
            "settling is free": _settling_is_free,
        },
        st.lists(calls, min_size=1, max_size=10),
        lambda calls: f"in {len(calls)} calls, the last with {_retries(calls[-1])},",
        once={"recovers": _recovers},
    )


def check_policy(policy: PolicyFactory, /) -> None:
    """Check the laws of policies, on calls with outcomes of every sort.

    - answers: every decision is `RetryAfter` or `DoNotRetry`, and nothing raises, no part either
    - fresh: two calls side by side are decided as each would be alone
    - bounded: no more attempts than `attempts`, no more retries for a reason than `limits`, and no
      wait that reaches the `deadline`
    - a later step never shortens: the wait is what the backoff drew, or longer where one was asked
      for; a server's precedence does not go below the call's first draw
    - no step revives: what the classifier or the backoff has ended stays ended

    The last three are for a `RetryPolicy`, which is checked with a fresh budget. A foreign policy
    is used as it is.

    >>> from retrykit import RetryPolicy
    >>> check_policy(RetryPolicy(attempts=3))
    """
    if isinstance(policy, type) or not isinstance(policy, PolicyFactory):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"policy must have new_executor(call), got {shown(policy)}")
    laws: dict[str, Law] = {"answers": _answers, "fresh": _policy_fresh}
    if isinstance(policy, RetryPolicy):
        laws |= {
            "bounded": _bounded,
            "a later step never shortens": _never_shortens,
            "no step revives": _never_revives,
        }
    finished = st.tuples(strategies.outcomes(), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    calls = st.lists(finished, min_size=1, max_size=6)
    check("policy", policy, laws, st.tuples(calls, _draws()), _told_call)


def _seeds() -> SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


def _draws() -> SearchStrategy[float]:
    return st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1)


def _is_proper(wait: object) -> bool:
    return is_number(wait) and math.isfinite(wait) and wait >= 0


def _is_near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _is_outside(wait: float, bounds: Bounds) -> bool:
    low, high = bounds
    return not (low <= wait <= high or _is_near(wait, low) or _is_near(wait, high))


# Backoffs: `(steps, backoff, seed)`.


def _waits(backoff: Backoff, rng: random.Random, steps: int) -> list[float]:
    return list(islice(backoff.delays(rng), steps))


def _finite(steps: int, backoff: Backoff, seed: int) -> str | None:
    for number, wait in enumerate(islice(backoff.delays(random.Random(seed)), steps), start=1):
        if not _is_proper(wait):
            return f"wait {number} of Random({seed}) is {wait!r}"
    return None


def _finite_far_out(backoff: Backoff) -> str | None:
    number = 0
    try:
        for number, wait in enumerate(islice(backoff.delays(Always(1)), FAR_OUT), start=1):
            if not _is_proper(wait):
                return f"wait {number} is {wait!r}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"wait {number + 1} raised {type(error).__name__}: {error}"
    return None


def _within_bounds(steps: int, backoff: Backoff, seed: int) -> str | None:
    waits = backoff.delays(random.Random(seed))
    for number, (wait, bounds) in enumerate(
        islice(zip(waits, backoff.bounds(), strict=False), steps), start=1
    ):
        if _is_outside(wait, bounds):
            return f"wait {number} of Random({seed}) is {wait!r}, outside of {_pair(bounds)}"
    return None


def _tight_bounds(steps: int, backoff: Backoff, _: int) -> str | None:
    lowest = _waits(backoff, Always(0), steps)
    highest = _waits(backoff, Always(1), steps)
    for number, (one, other, bounds) in enumerate(
        zip(lowest, highest, backoff.bounds(), strict=False), start=1
    ):
        low, high = min(one, other), max(one, other)
        if not (_is_near(low, bounds[0]) and _is_near(high, bounds[1])):
            return (
                f"wait {number} is drawn from {low!r} to {high!r}, and its bounds are"
                f" {_pair(bounds)}"
            )
    return None


def _within_limits(steps: int, backoff: Backoff, seed: int) -> str | None:
    floor, cap = limits = backoff.limits
    for number, bounds in enumerate(islice(backoff.bounds(), steps), start=1):
        if not floor <= bounds[0] <= bounds[1] <= cap:
            return f"the bounds of wait {number} are {_pair(bounds)}, outside of {_pair(limits)}"
    for number, wait in enumerate(_waits(backoff, random.Random(seed), steps), start=1):
        if not floor <= wait <= cap:
            return f"wait {number} of Random({seed}) is {wait!r}, outside of {_pair(limits)}"
    return None


def _even(steps: int, backoff: Backoff, seed: int) -> str | None:
    waits = len(_waits(backoff, random.Random(seed), steps + 1))
    bounds = len(list(islice(backoff.bounds(), steps + 1)))
    if waits != bounds:
        return f"it ends after {min(waits, bounds)} {'waits' if waits < bounds else 'bounds'} only"
    return None


def _fresh(steps: int, backoff: Backoff, seed: int) -> str | None:
    def draw() -> list[float]:
        with other_chance(seed):
            return _waits(backoff, random.Random(seed), steps)

    alone = draw()
    with other_chance(seed):
        beside = backoff.delays(random.Random(seed))
        next(beside, None)
        again = draw()
        next(beside, None)
    for others, waits in (("one other call", again), ("several other calls", draw())):
        difference = _difference(alone, waits)
        if difference is not None:
            return f"after {others}, {difference}"
    bounds, more = (list(islice(backoff.bounds(), steps)) for _ in range(2))
    difference = _difference(bounds, more)
    return None if difference is None else f"asked for bounds again, {difference}"


def _seeded(steps: int, backoff: Backoff, seed: int) -> str | None:
    with other_chance(1):
        first = _waits(backoff, random.Random(seed), steps)
    with other_chance(2):
        second = _waits(backoff, random.Random(seed), steps)
    difference = _difference(first, second)
    return None if difference is None else f"with Random({seed}) once more, {difference}"


def _difference(first: list[Any], second: list[Any]) -> str | None:
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        if one != other:
            return f"wait {number} is {_pair(other)} and no longer {_pair(one)}"
    if len(first) != len(second):
        return f"there are {len(second)} waits and no longer {len(first)}"
    return None


def _pair(bounds: Any) -> str:
    return f"{bounds[0]!r} to {bounds[1]!r}" if isinstance(bounds, tuple) else repr(bounds)


# Jitters: `(jitter, (delay, seed))`.


def _jitter_finite(jitter: Jitter, example: tuple[float, int]) -> str | None:
    delay, seed = example
    drawn = jitter(delay, random.Random(seed))
    if not _is_proper(drawn):
        return f"of {delay!r}, Random({seed}) draws {drawn!r}"
    low, high = jitter.bounds(delay)
    if not (_is_proper(low) and _is_proper(high) and low <= high):
        return f"the bounds of {delay!r} are {low!r} to {high!r}"
    return None


def _jitter_within_bounds(jitter: Jitter, example: tuple[float, int]) -> str | None:
    delay, seed = example
    drawn, bounds = jitter(delay, random.Random(seed)), jitter.bounds(delay)
    if _is_outside(drawn, bounds):
        return f"of {delay!r}, Random({seed}) draws {drawn!r}, outside of {_pair(bounds)}"
    return None


def _jitter_tight(jitter: Jitter, example: tuple[float, int]) -> str | None:
    delay, _ = example
    low, high = sorted((jitter(delay, Always(0)), jitter(delay, Always(1))))
    bounds = jitter.bounds(delay)
    if not (_is_near(low, bounds[0]) and _is_near(high, bounds[1])):
        return f"{delay!r} is drawn from {low!r} to {high!r}, and its bounds are {_pair(bounds)}"
    return None


def _jitter_seeded(jitter: Jitter, example: tuple[float, int]) -> str | None:
    delay, seed = example
    seen: list[tuple[float, Bounds]] = []
    for other in (1, 2):
        with other_chance(other):
            seen.append((jitter(delay, random.Random(seed)), jitter.bounds(delay)))
    (one, bounds), (again, others) = seen
    if one != again:
        return f"of {delay!r}, Random({seed}) draws {one!r} once and {again!r} once more"
    if bounds != others:
        return f"the bounds of {delay!r} are {_pair(bounds)} once and {_pair(others)} once more"
    return None


# Classifiers: `(classifier, attempt)`.


def _total(classifier: Classifier, attempt: Attempt) -> str | None:
    answer: object = classifier(attempt)
    if answer is None or isinstance(answer, (RetryAfter, DoNotRetry)):
        return None
    return f"to {_told(attempt)} it answers {shown(answer)}"


def _pure(classifier: Classifier, attempt: Attempt) -> str | None:
    before = _state(attempt)
    answers: list[RetryDecision | None] = []
    for other in range(REPETITIONS):
        with other_chance(other):
            try:
                answers.append(classifier(attempt))
            except Exception:  # noqa: BLE001 - that is for the other law
                return None
    for answer in answers:
        if answer != answers[0]:
            return f"to {_told(attempt)} it answers {answers[0]!r} once and {answer!r} once more"
    if _state(attempt) != before:
        return f"it changes {_told(attempt)}"
    return None


def _told(attempt: Attempt) -> str:
    return f"{_told_outcome(attempt.outcome)} in attempt {attempt.number}"


def _told_outcome(outcome: Outcome) -> str:
    what = repr(outcome.error if isinstance(outcome, Raised) else outcome.value)
    return f"{type(outcome).__name__}({what})"


def _state(attempt: Attempt) -> tuple[Any, ...]:
    error = attempt.error
    kept: tuple[Any, ...] = (
        attempt.call,
        attempt.number,
        id(attempt.outcome),
        attempt.elapsed,
        attempt.wall,
        repr(attempt.value),
    )
    if error is None:
        return kept
    chain = (id(error.__cause__), id(error.__context__), error.__suppress_context__)
    return (*kept, repr(error), chain, repr(vars(error)), id(error.__traceback__))


# Budgets: `(budget, calls)`, each call its retries' reasons and its end.


def _retries(call: tuple[list[RetryReason], str]) -> str:
    reasons, end = call
    return f"{len(reasons)} retries and a {end}"


class _Move(NamedTuple):
    """One thing that happened to a budget."""

    told: str
    """What it was, in words."""
    is_retry: bool
    price: float | None
    """What was paid; of an end, what was spent and not used."""
    unused: float
    before: float
    after: float


_ENDS: Final = ("success", "failure", "cancel in the wait")


def _moves(budget: Budget, calls: Iterable[tuple[list[RetryReason], str]]) -> list[_Move]:
    """What happens to a copy of the budget."""
    copied = deepcopy(budget)
    moves: list[_Move] = []
    for number, (reasons, end) in enumerate(calls, start=1):
        call = Call(print)
        spent = unused = 0.0
        for retry, reason in enumerate(reasons, start=1):
            before = copied.balance(call)
            price = copied.withdraw(call, reason)
            after = copied.balance(call)
            told = f"retry {retry} of call {number} ({reason})"
            moves.append(_Move(told, True, price, 0.0, before, after))
            if price is None:
                break
            if end == "cancel in the wait" and retry == len(reasons):
                unused = price
            else:
                spent = price
        before = copied.balance(call)
        copied.settle(call, succeeded=end == "success", spent=spent, unused=unused)
        told = f"the end of call {number} ({end}, spent {spent:g}, unused {unused:g})"
        moves.append(_Move(told, False, spent, unused, before, copied.balance(call)))
    return moves


def _solvent(budget: Budget, calls: Any) -> str | None:
    for move in _moves(budget, calls):
        for balance in (move.before, move.after):
            if not _is_proper(balance):
                return f"around {move.told}, the balance is {balance!r}"
    return None


def _first_is_free(budget: Budget, calls: Any) -> str | None:
    for move in _moves(budget, [([], end) for _, end in calls]):
        if move.after < move.before and not _is_near(move.after, move.before):
            return f"{move.told} takes the balance from {move.before!r} to {move.after!r}"
    return None


def _honest(budget: Budget, calls: Any) -> str | None:
    for move in _moves(budget, calls):
        if not move.is_retry:
            continue
        price: object = move.price
        if price is not None and not _is_proper(price):
            return f"the price of {move.told} is {price!r}"
        if not _is_near(move.after, move.before - (move.price or 0.0)):
            said = "is refused" if price is None else f"costs {price!r}"
            return f"{move.told} {said}: from {move.before!r} to {move.after!r}"
    return None


def _gives_back(budget: Budget, calls: Any) -> str | None:
    for move in _moves(budget, calls):
        due = move.before + move.unused
        if move.unused and move.after < due and not _is_near(move.after, due):
            return f"{move.told} takes the balance from {move.before!r} to {move.after!r}"
    return None


def _settling_is_free(budget: Budget, calls: Any) -> str | None:
    for move in _moves(budget, calls):
        if not move.is_retry and move.after < move.before:
            return f"{move.told} takes the balance from {move.before!r} to {move.after!r}"
    return None


def _recovers(budget: Budget) -> str | None:
    call, reason = Call(print), RetryReason.TRANSIENT
    drained = deepcopy(budget)
    for _ in range(MOST_CALLS):
        if drained.withdraw(call, reason) is None:
            break
    else:
        return None
    empty = drained.balance(call)
    for _ in range(MOST_CALLS):
        drained.settle(call, succeeded=True, spent=0.0, unused=0.0)
        if drained.withdraw(call, reason) is not None:
            return None
    if drained.balance(call) > empty:  # not yet, but it is getting there
        return None
    return f"run dry, it has earned nothing after {MOST_CALLS} successes"


# Policies: `(policy, (finished attempts, what is drawn))`.


def _told_call(example: tuple[list[tuple[Outcome, float]], float]) -> str:
    finished, _ = example
    last, _ = finished[-1]
    return f"in a call of {len(finished)} attempts, the last {_told_outcome(last)},"


class _Step(NamedTuple):
    attempt: Attempt
    decision: RetryDecision


def _play(policy: PolicyFactory, finished: Iterable[tuple[Outcome, float]]) -> list[_Step]:
    """One call, until it ends or there are no more outcomes."""
    call = Call(print)
    executor = policy.new_executor(call)
    steps: list[_Step] = []
    elapsed = 0.0
    for number, (outcome, takes) in enumerate(finished, start=1):
        elapsed += takes
        attempt = Attempt(call, number, outcome, elapsed, 1e9 + elapsed)
        decision = executor.decide(attempt)
        steps.append(_Step(attempt, decision))
        if not isinstance(decision, RetryAfter):
            break
        elapsed += decision.delay
    ended = getattr(executor, "ended", None)
    if ended is not None:
        ended(False)
    return steps


def _prepared(policy: Any, drawn: float) -> Any:
    """The policy with chance taken out and a budget of its own."""
    if isinstance(policy, RetryPolicy):
        return policy.replace(rng=partial(Always, drawn), budget=deepcopy(policy.budget))
    return policy


def _answers(policy: Any, example: Any) -> str | None:
    finished, drawn = example
    for step in _play(_prepared(policy, drawn), finished):
        decision: object = step.decision
        if not isinstance(decision, (RetryAfter, DoNotRetry)):
            return f"to {_told(step.attempt)} it answers {shown(decision)}"
        if decision == DoNotRetry(StopReason.STRATEGY_FAILED):
            return f"to {_told(step.attempt)} a part of it fails"
    return None


def _policy_fresh(policy: Any, example: Any) -> str | None:
    finished, drawn = example
    prepared = _prepared(policy, drawn)
    if isinstance(prepared, RetryPolicy):
        prepared = prepared.replace(budget=None)
    alone = [step.decision for step in _play(prepared, finished)]
    beside = prepared.new_executor(Call(print))
    outcome, takes = finished[0]
    beside.decide(Attempt(Call(print), 1, outcome, takes, 1e9))
    for step, before in zip(_play(prepared, finished), alone, strict=False):
        if step.decision != before:
            told = _told(step.attempt)
            return f"to {told} it answers {step.decision!r}, and {before!r} before another call"
    return None


def _bounded(policy: RetryPolicy, example: Any) -> str | None:
    finished, drawn = example
    retries: dict[RetryReason, int] = {}
    for step in _play(_prepared(policy, drawn), finished):
        decision = step.decision
        if isinstance(decision, DoNotRetry):
            break
        told = _told(step.attempt)
        count = retries[decision.reason] = retries.get(decision.reason, 0) + 1
        if step.attempt.number >= policy.attempts:
            return f"after {told} it retries, and {policy.attempts} attempts are allowed"
        if count > policy.limits.get(decision.reason, count):
            return f"after {told} it retries once more for {decision.reason}"
        ends = step.attempt.elapsed + decision.delay
        if policy.deadline is not None and ends >= policy.deadline:
            return f"after {told} it waits until {ends!r}, and the deadline is {policy.deadline!r}"
    return None


def _bare(policy: RetryPolicy) -> RetryPolicy:
    """Only classifier and backoff."""
    return policy.replace(
        attempts=math.inf,
        limits={},
        deadline=None,
        server_delay=ServerDelay(limit=0, over_limit="ignore"),
        budget=None,
        stop_when=None,
    )


def _both(policy: RetryPolicy, example: Any) -> Iterable[tuple[_Step, RetryDecision]]:
    """What the policy decides, and what its classifier and backoff alone would."""
    finished, drawn = example
    prepared = _prepared(policy, drawn)
    # The standard executor, whatever a subclass of the policy makes of it.
    bare = RetryPolicy.new_executor(_bare(prepared), Call(print))
    return [(step, bare.decide(step.attempt)) for step in _play(prepared, finished)]


def _never_shortens(policy: RetryPolicy, example: Any) -> str | None:
    first: float | None = None
    for step, bare in _both(policy, example):
        if not (isinstance(step.decision, RetryAfter) and isinstance(bare, RetryAfter)):
            break
        drawn, wait = bare.delay, step.decision.delay
        first = drawn if first is None else first
        if wait < min(first, drawn) or (wait < drawn and not _asks(policy, step.attempt)):
            told = _told(step.attempt)
            return f"after {told} it waits {wait!r}, and its backoff drew {drawn!r}"
    return None


def _asks(policy: RetryPolicy, attempt: Attempt) -> bool:
    """Whether the other side asked for a wait; of a group, whether it may have."""
    if isinstance(attempt.error, ExceptionGroup):
        return True
    wish = policy.classify(attempt)
    return isinstance(wish, RetryAfter) and wish.delay > 0


def _never_revives(policy: RetryPolicy, example: Any) -> str | None:
    for step, bare in _both(policy, example):
        if isinstance(step.decision, RetryAfter) and isinstance(bare, DoNotRetry):
            return f"after {_told(step.attempt)} it retries, and {bare.reason} had ended the call"
    return None
