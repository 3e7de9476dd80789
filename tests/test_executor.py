"""The decision core as tables: an outcome and a time go in, a decision comes out.

No clock, no mock, no event loop: `decide` is called by hand with made-up attempts and times.
"""

from __future__ import annotations

import itertools
import math
import types
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from retrykit import (
    Attempt,
    AttemptTimedOut,
    ByReason,
    Call,
    Constant,
    DoNotRetry,
    Exponential,
    Never,
    OnException,
    OnResult,
    Raised,
    RatioBudget,
    RetryAfter,
    RetryExecutor,
    RetryPolicy,
    RetryReason,
    Returned,
    Schedule,
    ServerDelay,
    StopReason,
    TokenBudget,
    disabled,
)
from retrykit._exchange import Exchange
from retrykit._executor import (
    PolicyExecutor,
    StrategyError,
    begun_using,
    one_shots,
    proper_decision,
)
from retrykit.errors import DeadlineExceeded

TRANSIENT = RetryReason.TRANSIENT
THROTTLED = RetryReason.THROTTLED
TIMED_OUT = RetryReason.TIMED_OUT
CONNECTION_FAILED = RetryReason.CONNECTION_FAILED


class NoClock:
    """A clock that must not be touched: the executor is told what time it is."""

    def now(self) -> float:
        raise AssertionError("the executor read the clock")

    wall = now

    def sleep(self, seconds: float, /) -> None:
        raise AssertionError("the executor slept")

    async def sleep_async(self, seconds: float, /) -> None:
        raise AssertionError("the executor slept")


class Wish(Exception):
    """An error that says itself what the classifier is to answer."""

    def __init__(self, delay: float = 0.0, reason: RetryReason = TRANSIENT) -> None:
        super().__init__()
        self.decision = RetryAfter(delay, reason)


def wished(attempt: Attempt) -> Any:
    error = attempt.error
    return error.decision if isinstance(error, Wish) else None


@dataclass
class Recorder:
    """A budget that grants everything at the reason's price, and keeps what it was told."""

    price: dict[RetryReason, float | None] = field(default_factory=dict)
    withdrawn: list[tuple[Call, RetryReason]] = field(default_factory=list)
    settled: list[dict[str, Any]] = field(default_factory=list)

    def withdraw(self, call: Call, reason: RetryReason, /) -> float | None:
        self.withdrawn.append((call, reason))
        return self.price.get(reason, 1.0)

    def settle(self, call: Call, /, **told: Any) -> None:
        self.settled.append({"call": call, **told})

    def balance(self, call: Call | None = None, /) -> float:
        return math.inf


REFUSING: dict[RetryReason, float | None] = dict.fromkeys(RetryReason)


class Highest(Random):
    """Draws the highest of every range."""

    def random(self) -> float:
        return 1.0


CALL = Call(print)


def policy(**fields: Any) -> RetryPolicy:
    return RetryPolicy(
        **{
            "classify": wished,
            "backoff": Constant(1),
            "clock": NoClock(),
            "rng": Highest,
            **fields,
        }
    )


def executor(call: Call = CALL, **fields: Any) -> PolicyExecutor:
    made = policy(**fields).new_executor(call)
    assert isinstance(made, PolicyExecutor)
    return made


def attempt(
    error: Exception | None = None, number: int = 1, elapsed: float = 0.0, call: Call = CALL
) -> Attempt:
    return Attempt(call, number, Raised(Wish() if error is None else error), elapsed)


def waits(made: RetryExecutor, *errors: Exception) -> list[Any]:
    """The waits that a call with these errors is told, and the reason that ends it."""
    told: list[Any] = []
    for number, error in enumerate(errors, 1):
        decision = made.decide(attempt(error, number))
        told.append(decision.delay if isinstance(decision, RetryAfter) else decision.reason)
    return told


def test_a_policy_makes_what_the_protocol_asks_for() -> None:
    """What `new_executor` gives is a `RetryExecutor`, and another one for each call."""
    shared = policy()
    assert isinstance(shared.new_executor(CALL), RetryExecutor)
    assert shared.new_executor(CALL) is not shared.new_executor(CALL)


def test_before_its_first_decision_an_executor_owes_nothing() -> None:
    """Nothing is wanted, paid for or wrong, and a wait would be the backoff's."""
    made = executor()
    assert not made.wanted
    assert (made.source, made.paid, made.problems) == ("backoff", None, None)


# The order of a decision


def begun_generator() -> Any:
    used = (each for each in "ab")
    next(used)
    return used


@dataclass(frozen=True)
class Step:
    """One step of the order, and what makes it stop the call."""

    reason: StopReason
    fields: dict[str, Any] = field(default_factory=dict)
    switch: StopReason | None = None
    spoils_arguments: bool = False
    delay: float = 0.0
    number: int = 1
    elapsed: float = 0.0

    def __str__(self) -> str:
        return str(self.reason)


STEPS = [
    Step(StopReason.FORBIDDEN, {"classify": lambda attempt: DoNotRetry(StopReason.FORBIDDEN)}),
    Step(StopReason.STOPPED, {"stop_when": lambda: True}),
    Step(StopReason.DISABLED, switch=StopReason.DISABLED),
    Step(StopReason.NOT_REPLAYABLE, spoils_arguments=True),
    Step(StopReason.ATTEMPTS_EXHAUSTED, {"attempts": 3}, number=3),
    Step(StopReason.REASON_EXHAUSTED, {"limits": {TRANSIENT: 0}}),
    Step(StopReason.BACKOFF_EXHAUSTED, {"backoff": Schedule()}),
    Step(StopReason.SERVER_DELAY_TOO_LONG, {"server_delay": ServerDelay(limit=60)}, delay=61.0),
    Step(StopReason.DEADLINE_EXCEEDED, {"deadline": 10, "attempts": 5}, elapsed=9.0),
    Step(StopReason.BUDGET_EXHAUSTED, {"budget": Recorder(REFUSING)}),
]


def decided(*steps: Step, **fields: Any) -> Any:
    """The decision where all these steps would stop the call; of one field the first's counts."""
    merged = dict(fields)
    for step in reversed(steps):
        merged.update(step.fields)
    spoiled = any(step.spoils_arguments for step in steps)
    call = Call(print, args=(begun_generator(),) if spoiled else ())
    made = executor(call, **merged)
    for step in steps:
        if step.switch is not None:
            made.switch = DoNotRetry(step.switch)
    delay = max((step.delay for step in steps), default=0.0)
    number = max((step.number for step in steps), default=1)
    elapsed = max((step.elapsed for step in steps), default=0.0)
    return made.decide(attempt(Wish(delay), number, elapsed, call))


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_each_step_stops_the_call_by_itself(step: Step) -> None:
    """Each step has a reason of its own."""
    assert decided(step) == DoNotRetry(step.reason)


def test_without_any_of_them_the_call_is_retried() -> None:
    """The rows above stop the call for what they say and for nothing else."""
    assert decided() == RetryAfter(1.0, TRANSIENT)


@pytest.mark.parametrize(
    ("earlier", "later"), list(itertools.combinations(STEPS, 2)), ids=lambda step: str(step)
)
def test_of_two_steps_that_would_stop_the_call_the_earlier_one_does(
    earlier: Step, later: Step
) -> None:
    """The order is fixed: classifier, switches, arguments, limits, wait, deadline, budget."""
    assert decided(earlier, later) == DoNotRetry(earlier.reason)


def test_of_any_steps_that_would_stop_the_call_the_first_does() -> None:
    """The same for every set of steps."""
    for size in range(3, len(STEPS) + 1):
        for steps in itertools.combinations(STEPS, size):
            assert decided(*steps) == DoNotRetry(steps[0].reason)


@pytest.mark.parametrize("step", STEPS[:-1], ids=str)
def test_the_budget_is_never_charged_where_another_step_stops_the_call(step: Step) -> None:
    """A token is asked for last: what ends for another reason pays nothing."""
    budget = Recorder()
    assert isinstance(decided(step, budget=budget), DoNotRetry)
    assert budget.withdrawn == []


def broken(*_: object) -> Any:
    raise LookupError("broken")


class BrokenBackoff:
    limits = (0.0, math.inf)

    def delays(self, rng: Random) -> Any:
        raise LookupError("broken")

    def bounds(self) -> Any:
        return iter(())


class BrokenBudget(Recorder):
    def withdraw(self, call: Call, reason: RetryReason, /) -> float | None:
        raise LookupError("broken")


BROKEN = {
    "classifier": ({"classify": broken}, 0),
    "stop_when": ({"stop_when": broken}, 1),
    "backoff": ({"backoff": BrokenBackoff()}, 6),
    "server_delay": ({"server_delay": broken}, 7),
    "budget": ({"budget": BrokenBudget()}, 9),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_broken_strategy_fails_in_its_own_place_in_the_order(name: str, step: Step) -> None:
    """What is asked after the step that stops is not asked; what is asked before it decides."""
    fields, place = BROKEN[name]
    theirs = STEPS.index(step)
    if place == theirs:
        return  # one field cannot both stop and be broken
    breaks = Step(StopReason.STRATEGY_FAILED, fields, delay=5.0)
    if place < theirs:
        assert decided(breaks, step) == DoNotRetry(StopReason.STRATEGY_FAILED)
    else:
        assert decided(step, breaks) == DoNotRetry(step.reason)


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_strategy_raised_is_kept_for_the_driver(name: str) -> None:
    """It names the step and holds the error; the decision is `STRATEGY_FAILED`."""
    fields, _ = BROKEN[name]
    made = executor(**fields)
    assert made.decide(attempt(Wish(5.0))) == DoNotRetry(StopReason.STRATEGY_FAILED)
    assert made.problems is not None
    [(step, problem)] = made.problems
    assert step == name
    assert isinstance(problem, LookupError)


class Answers:
    """A backoff of a user's own that yields what it is told to."""

    limits = (0.0, math.inf)

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def delays(self, rng: Random) -> Any:
        return iter(self.answers)

    def bounds(self) -> Any:
        return iter(())


def raising_late() -> Any:
    yield 1.0
    raise LookupError("broken")


class BreaksLate(Answers):
    def delays(self, rng: Random) -> Any:
        return raising_late()


@pytest.mark.parametrize("backoff", [BreaksLate(), Answers(1.0, "soon")], ids=["raises", "text"])
@pytest.mark.parametrize("fields", [{}, {"budget": Recorder()}], ids=["plain", "with a budget"])
def test_a_backoff_may_break_later_in_a_call(backoff: Any, fields: Any) -> None:
    """What it does wrong at the second retry is told as at the first."""
    made = executor(backoff=backoff, **fields)
    assert waits(made, Wish(), Wish()) == [1.0, StopReason.STRATEGY_FAILED]
    assert made.problems is not None
    assert [step for step, _ in made.problems] == ["backoff"]


def test_a_classifier_that_breaks_later_wants_nothing_more() -> None:
    """What it wanted before is not what it wants now."""
    answers = iter([lambda attempt: RetryAfter(), broken])
    made = executor(classify=lambda attempt: next(answers)(attempt))
    assert waits(made, Wish()) == [1.0]
    assert made.wanted
    assert made.decide(attempt(number=2)) == DoNotRetry(StopReason.STRATEGY_FAILED)
    assert not made.wanted


NONSENSE = [-1.0, -1e-300, math.nan, math.inf, -math.inf, True, "1", 1j, 10**400]


@pytest.mark.parametrize("answer", NONSENSE)
@pytest.mark.parametrize("step", ["backoff", "server_delay", "budget"])
def test_a_strategys_nonsense_ends_the_call_and_is_told(step: str, answer: Any) -> None:
    """Negative, NaN, infinite, `bool`, text: no wait and no price."""
    fields: dict[str, Any] = {
        "backoff": {"backoff": Answers(answer)},
        "server_delay": {"server_delay": lambda asked, drawn, first, rng: answer},
        "budget": {"budget": Recorder({TRANSIENT: answer})},
    }[step]
    made = executor(**fields)
    assert made.decide(attempt(Wish(5.0))) == DoNotRetry(StopReason.STRATEGY_FAILED)
    assert made.paid is None
    assert made.problems is not None
    [(where, problem)] = made.problems
    assert where == step
    if answer != 10**400:
        shown = repr(answer) if isinstance(answer, (int, float)) else f"a {type(answer).__name__}"
        assert str(problem) == f"{step} must answer a finite number of at least 0, got {shown}"


@pytest.mark.parametrize("answer", [0, 3, 2.5, -0.0])
@pytest.mark.parametrize("step", ["backoff", "server_delay", "budget"])
def test_whole_numbers_and_zero_are_answers_too(step: str, answer: float) -> None:
    """An `int` is as good as a float, and the wait is a float."""
    fields: dict[str, Any] = {
        "backoff": {"backoff": Answers(answer)},
        "server_delay": {"server_delay": lambda asked, drawn, first, rng: answer},
        "budget": {"budget": Recorder({TRANSIENT: answer})},
    }[step]
    made = executor(**fields)
    decision = made.decide(attempt(Wish(0.0 if step == "backoff" else 5.0)))
    assert isinstance(decision, RetryAfter)
    assert isinstance(decision.delay, float)
    if step == "budget":
        assert made.paid == answer
    else:
        assert decision.delay == answer


@pytest.mark.parametrize(
    ("opinion", "shown"),
    [
        (True, "True"),
        (1.5, "1.5"),
        ("hunter2", "a str"),
        ({"token": "hunter2"}, "a dict"),
        (RetryAfter, "<class 'retrykit.decision.RetryAfter'>"),
        (RetryReason.TRANSIENT, "RetryReason.TRANSIENT"),
        (StopReason.STOPPED, "StopReason.STOPPED"),
    ],
)
@pytest.mark.parametrize("outcome", [Raised(KeyError()), Returned(1)], ids=["error", "value"])
def test_a_classifier_that_answers_nonsense(outcome: Any, opinion: Any, shown: str) -> None:
    """Only a decision or `None` is an opinion; the text shows what came instead, and no secret."""
    made = executor(classify=lambda attempt: opinion)
    assert made.decide(Attempt(CALL, 1, outcome, 0.0)) == DoNotRetry(StopReason.STRATEGY_FAILED)
    assert made.wanted is None
    assert made.problems is not None
    assert [step for step, _ in made.problems] == ["classifier"]
    assert str(made.problems[0][1]) == (
        f"classifier must answer RetryAfter, DoNotRetry or None, got {shown}"
    )


def test_a_decision_of_an_executor_is_checked_with_its_name() -> None:
    """The same check serves foreign executors."""
    assert proper_decision(DoNotRetry(), "executor") == DoNotRetry()
    with pytest.raises(StrategyError, match=r"executor must answer .*, got None"):
        proper_decision(None, "executor")


def test_problems_add_up() -> None:
    """A second one does not take the first one's place."""
    made = executor(budget=BrokenSettle(), server_delay=broken)
    made.decide(attempt(Wish(5.0)))
    made.ended(False)
    assert made.problems is not None
    assert [step for step, _ in made.problems] == ["server_delay", "budget"]


class BrokenSettle(Recorder):
    def settle(self, call: Call, /, **told: Any) -> None:
        super().settle(call, **told)
        raise LookupError("broken")


# What the classifier's answer comes to

TEN = OnResult(lambda value: value == 10)


@pytest.mark.parametrize(
    ("outcome", "classify", "decision", "wanted"),
    [
        (Returned(1), TEN, DoNotRetry(StopReason.SUCCEEDED), False),
        (Returned(None), TEN, DoNotRetry(StopReason.SUCCEEDED), False),
        (Returned(10), TEN, RetryAfter(1.0, RetryReason.UNSATISFACTORY), True),
        (Returned(1), wished, DoNotRetry(StopReason.SUCCEEDED), False),
        (Raised(KeyError()), TEN, DoNotRetry(StopReason.NOT_RETRYABLE), False),
        (Raised(KeyError()), KeyError, RetryAfter(1.0, TRANSIENT), True),
        (Raised(KeyError()), ValueError, DoNotRetry(StopReason.NOT_RETRYABLE), False),
        (Raised(KeyError()), Never(KeyError), DoNotRetry(StopReason.FORBIDDEN), False),
        (
            Raised(KeyError()),
            lambda attempt: DoNotRetry(StopReason.NOT_IDEMPOTENT),
            DoNotRetry(StopReason.NOT_IDEMPOTENT),
            False,
        ),
        (
            Returned(1),
            lambda attempt: DoNotRetry(StopReason.FORBIDDEN),
            DoNotRetry(StopReason.FORBIDDEN),
            False,
        ),
        (Raised(Wish(0.0, THROTTLED)), wished, RetryAfter(1.0, THROTTLED), True),
    ],
)
def test_the_classifiers_answer_and_what_no_opinion_means(
    outcome: Any, classify: Any, decision: Any, wanted: bool
) -> None:
    """A value without an opinion is a success, an error without one is not retried."""
    made = executor(classify=classify)
    assert made.decide(Attempt(CALL, 1, outcome, 0.0)) == decision
    assert made.wanted is wanted


def test_a_limit_leaves_the_wish_known() -> None:
    """`wanted` stays true where a limit refused the retry, and falls with the next outcome."""
    made = executor(attempts=1)
    assert isinstance(made.decide(attempt()), DoNotRetry)
    assert made.wanted is True
    made.decide(attempt(KeyError(), 2))
    assert made.wanted is False


# Time-outs: three kinds, told apart


def timed_out(owner: Any) -> AttemptTimedOut:
    error = AttemptTimedOut(1.0)
    error._owner = owner
    return error


@pytest.mark.parametrize(
    ("error", "classify", "decision"),
    [
        (timed_out(CALL), wished, RetryAfter(1.0, TIMED_OUT)),
        (timed_out(Call(print)), wished, DoNotRetry(StopReason.NOT_RETRYABLE)),
        (timed_out(None), wished, DoNotRetry(StopReason.NOT_RETRYABLE)),
        (timed_out(CALL), Never(TimeoutError), DoNotRetry(StopReason.FORBIDDEN)),
        (timed_out(CALL), TimeoutError, RetryAfter(1.0, TRANSIENT)),
        (timed_out(Call(print)), TimeoutError, RetryAfter(1.0, TRANSIENT)),
        (TimeoutError(), wished, DoNotRetry(StopReason.NOT_RETRYABLE)),
        (TimeoutError(), TimeoutError, RetryAfter(1.0, TRANSIENT)),
    ],
)
def test_time_outs_of_this_call_of_another_and_of_the_user(
    error: Exception, classify: Any, decision: Any
) -> None:
    """This call's own time-out is retried without anybody's opinion, unless one objects."""
    assert executor(classify=classify).decide(attempt(error)) == decision


def test_a_deadline_exceeded_elsewhere_is_never_remembered_for_its_type() -> None:
    """Whose it is decides, so the type alone does not settle the answer."""
    made = executor(classify=OnException(TimeoutError))
    assert isinstance(made.decide(attempt(DeadlineExceeded(1.0))), RetryAfter)
    assert made.recipe.verdicts == {}


# Groups


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", list(errors))


LEAVES = OnException(OSError, after=lambda error: getattr(error, "after", None)) | wished


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (group(OSError()), RetryAfter(0.0, TRANSIENT)),
        (group(OSError(), Wish(0.0, THROTTLED)), RetryAfter(0.0, TRANSIENT)),
        (group(Wish(0.0, THROTTLED), OSError()), RetryAfter(0.0, THROTTLED)),
        (group(OSError(), Wish(7.0, THROTTLED)), RetryAfter(7.0, THROTTLED)),
        (group(Wish(7.0, THROTTLED), OSError()), RetryAfter(7.0, THROTTLED)),
        (group(Wish(7.0, TIMED_OUT), Wish(9.0, THROTTLED)), RetryAfter(9.0, THROTTLED)),
        (group(Wish(9.0, TIMED_OUT), Wish(9.0, THROTTLED)), RetryAfter(9.0, TIMED_OUT)),
        (group(Wish(9.0, TIMED_OUT), Wish(7.0, THROTTLED)), RetryAfter(9.0, TIMED_OUT)),
        (group(OSError(), group(OSError(), group(Wish(3.0)))), RetryAfter(3.0, TRANSIENT)),
        (group(group(Wish(3.0, TIMED_OUT)), Wish(3.0)), RetryAfter(3.0, TIMED_OUT)),
        (group(OSError(), KeyError()), DoNotRetry(StopReason.NOT_RETRYABLE)),
        (group(KeyError(), OSError()), DoNotRetry(StopReason.NOT_RETRYABLE)),
        (group(OSError(), group(OSError(), KeyError())), DoNotRetry(StopReason.NOT_RETRYABLE)),
        (group(OSError(), ValueError()), DoNotRetry(StopReason.FORBIDDEN)),
        (group(ValueError(), OSError()), DoNotRetry(StopReason.FORBIDDEN)),
        (group(KeyError(), ValueError()), DoNotRetry(StopReason.FORBIDDEN)),
        (group(OSError(), group(group(ValueError()))), DoNotRetry(StopReason.FORBIDDEN)),
    ],
)
def test_a_group_is_retried_only_if_every_leaf_is(error: Exception, decision: Any) -> None:
    """One "no" ends it, a leaf without an opinion too; the longest wait counts, the first on a tie.

    jd/tenacity#501, googleapis/python-api-core#573: a task group's errors matched no rule.
    """
    made = executor(
        classify=Never(ValueError) | LEAVES,
        backoff=Constant(0),
        server_delay=ServerDelay(spread=0),
    )
    assert made.decide(attempt(error)) == decision


def test_a_leaf_is_shown_as_the_whole_attempt_that_it_ended() -> None:
    """Call, number and times are the attempt's own; groups themselves are never shown."""
    seen: list[Attempt] = []

    def look(attempt: Attempt) -> RetryAfter:
        seen.append(attempt)
        return RetryAfter()

    one, two = OSError(), KeyError()
    whole = Attempt(CALL, 3, Raised(group(one, group(two))), 2.5, 1e9)
    executor(classify=look).decide(whole)
    assert [each.error for each in seen] == [one, two]
    for each in seen:
        assert (each.call, each.number, each.elapsed, each.wall) == (CALL, 3, 2.5, 1e9)


def test_after_a_no_the_other_leaves_are_not_asked() -> None:
    """A refusal is final."""
    asked: list[Exception | None] = []

    def refuse(attempt: Attempt) -> DoNotRetry:
        asked.append(attempt.error)
        return DoNotRetry(StopReason.FORBIDDEN)

    executor(classify=refuse).decide(attempt(group(OSError(), KeyError())))
    assert len(asked) == 1


def test_a_classifier_that_fails_on_a_leaf() -> None:
    """It raises, or answers nonsense: the group is not retried and the problem is kept."""
    for classify in (broken, lambda attempt: 5):
        made = executor(classify=classify)
        assert made.decide(attempt(group(OSError()))) == DoNotRetry(StopReason.STRATEGY_FAILED)
        assert made.problems is not None


def test_a_group_is_never_remembered_by_its_type() -> None:
    """Its leaves settle the answer, and the next group has others."""
    made = executor(classify=OnException(OSError))
    assert isinstance(made.decide(attempt(group(OSError()))), RetryAfter)
    assert made.recipe.verdicts == {}
    assert made.decide(attempt(group(KeyError()), 2)) == DoNotRetry(StopReason.NOT_RETRYABLE)


# By hand: made-up attempts and times


@pytest.mark.parametrize(
    ("number", "attempts", "decision"),
    [
        (1, 1, DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)),
        (1, 2, RetryAfter(1.0)),
        (2, 2, DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)),
        (7, 2, DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)),
        (4, 5, RetryAfter(1.0)),
        (5, 5, DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)),
        (10**9, math.inf, RetryAfter(1.0)),
    ],
)
def test_attempts_compare_with_the_attempts_number(
    number: int, attempts: float, decision: Any
) -> None:
    """The number that is handed in counts, not how often the executor was asked."""
    assert executor(attempts=attempts).decide(attempt(number=number)) == decision


@pytest.mark.parametrize(
    ("elapsed", "deadline", "wait", "retried"),
    [
        (0.0, None, 1e9, True),
        (0.0, 10.0, 9.999, True),
        (0.0, 10.0, 10.0, False),
        (0.0, 10.0, 10.001, False),
        (9.0, 10.0, 0.5, True),
        (9.0, 10.0, 1.0, False),
        (9.75, 10.0, 0.25, False),
        (10.0, 10.0, 0.0, False),
        (11.0, 10.0, 0.0, False),
        (9.999, 10.0, 0.0, True),
    ],
)
def test_a_wait_that_ends_at_or_past_the_deadline_is_not_begun(
    elapsed: float, deadline: float | None, wait: float, retried: bool
) -> None:
    """Reached exactly is reached.

    googleapis/google-cloud-python#9872: a wait that crossed the deadline let one more attempt
    start late.
    """
    made = executor(attempts=3, deadline=deadline, backoff=Constant(wait))
    decision = made.decide(attempt(elapsed=elapsed))
    assert decision == (RetryAfter(wait) if retried else DoNotRetry(StopReason.DEADLINE_EXCEEDED))


def test_the_deadline_is_the_executors_own_and_may_be_lowered() -> None:
    """A driver lowers it to that of a call around this one; the policy's stays as it is."""
    made = executor(deadline=10)
    assert made.deadline == 10.0
    made.deadline = 1.0
    assert made.decide(attempt()) == DoNotRetry(StopReason.DEADLINE_EXCEEDED)
    assert executor(deadline=10).decide(attempt()) == RetryAfter(1.0)


@pytest.mark.parametrize(
    ("limits", "reasons", "told"),
    [
        ({}, [TIMED_OUT, TIMED_OUT], [1.0, 1.0]),
        ({TIMED_OUT: 0}, [TIMED_OUT], [StopReason.REASON_EXHAUSTED]),
        ({TIMED_OUT: 1}, [TIMED_OUT, TIMED_OUT], [1.0, StopReason.REASON_EXHAUSTED]),
        ({TIMED_OUT: 2}, [TIMED_OUT] * 3, [1.0, 1.0, StopReason.REASON_EXHAUSTED]),
        ({TIMED_OUT: 1}, [TRANSIENT, TRANSIENT, TRANSIENT], [1.0, 1.0, 1.0]),
        (
            {TIMED_OUT: 1},
            [TRANSIENT, TIMED_OUT, TRANSIENT, TIMED_OUT],
            [1.0, 1.0, 1.0, StopReason.REASON_EXHAUSTED],
        ),
        (
            {TIMED_OUT: 1, THROTTLED: 1},
            [TIMED_OUT, THROTTLED, THROTTLED],
            [1.0, 1.0, StopReason.REASON_EXHAUSTED],
        ),
        ({TIMED_OUT: 0}, [TRANSIENT, TIMED_OUT], [1.0, StopReason.REASON_EXHAUSTED]),
    ],
)
def test_limits_count_the_retries_of_each_reason(
    limits: Any, reasons: list[RetryReason], told: list[Any]
) -> None:
    """A limit holds for its own reason only, within one call."""
    made = executor(limits=limits, attempts=math.inf)
    assert waits(made, *[Wish(0.0, reason) for reason in reasons]) == told


def test_limits_begin_again_with_each_call() -> None:
    """Two calls of one policy do not count together, interleaved or not."""
    shared = policy(limits={TRANSIENT: 1}, backoff=[1, 2, 3])
    one, two = shared.new_executor(CALL), shared.new_executor(CALL)
    assert waits(one, Wish()) == waits(two, Wish()) == [1.0]
    assert waits(one, Wish()) == waits(two, Wish()) == [StopReason.REASON_EXHAUSTED]


@pytest.mark.parametrize(
    ("backoff", "told"),
    [
        ([], [StopReason.BACKOFF_EXHAUSTED]),
        ([0], [0.0, StopReason.BACKOFF_EXHAUSTED]),
        ([1, 5], [1.0, 5.0, StopReason.BACKOFF_EXHAUSTED]),
        (Constant(2).take(1), [2.0, StopReason.BACKOFF_EXHAUSTED]),
        (Exponential(1, factor=3, cap=5), [1.0, 3.0, 5.0, 5.0]),
    ],
)
def test_the_wait_is_the_backoffs_next(backoff: Any, told: list[Any]) -> None:
    """Each decision draws one; the sequence's end ends the call."""
    made = executor(backoff=backoff, attempts=math.inf)
    assert waits(made, *[Wish() for _ in told]) == told


def test_two_calls_of_one_policy_have_a_sequence_each() -> None:
    """Interleaved they draw what they draw alone (litl/backoff#45: a shared iterator)."""
    shared = policy(backoff=[1, 2, 3])
    one, two = shared.new_executor(CALL), shared.new_executor(CALL)
    told = [
        made.decide(attempt(number=number)).delay  # type: ignore[union-attr]
        for number in (1, 2, 3)
        for made in (one, two)
    ]
    assert told == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


BY_REASON = ByReason({THROTTLED: [10, 20], TIMED_OUT: [5]}, default=[1, 2, 3])


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([TRANSIENT, TRANSIENT], [1.0, 2.0]),
        ([THROTTLED, TRANSIENT, THROTTLED, TRANSIENT], [10.0, 1.0, 20.0, 2.0]),
        ([TRANSIENT, THROTTLED, TIMED_OUT, TRANSIENT], [1.0, 10.0, 5.0, 2.0]),
        ([TRANSIENT, CONNECTION_FAILED, TRANSIENT], [1.0, 2.0, 3.0]),
        ([TIMED_OUT, TRANSIENT, TIMED_OUT], [5.0, 1.0, StopReason.BACKOFF_EXHAUSTED]),
        ([THROTTLED] * 3, [10.0, 20.0, StopReason.BACKOFF_EXHAUSTED]),
    ],
)
def test_each_branch_keeps_its_own_position(reasons: list[RetryReason], told: list[Any]) -> None:
    """Reasons without a branch share the default's sequence; one branch's end ends the call."""
    made = executor(backoff=BY_REASON, attempts=math.inf)
    assert waits(made, *[Wish(0.0, reason) for reason in reasons]) == told


def test_a_generator_of_chance_is_made_once_for_each_call() -> None:
    """All branches and the server delay draw from the same one."""
    made: list[Random] = []

    def rng() -> Random:
        made.append(Random(1))
        return made[-1]

    seen: list[Random] = []

    class Seeing(Answers):
        def delays(self, rng: Random) -> Any:
            seen.append(rng)
            return iter([1.0, 2.0])

    def server(asked: float, drawn: float, first: float, rng: Random) -> float:
        seen.append(rng)
        return asked

    backoff = ByReason({THROTTLED: Seeing()}, default=Seeing())
    one = executor(rng=rng, backoff=backoff, server_delay=server)
    waits(one, Wish(), Wish(0.0, THROTTLED), Wish(3.0))
    assert len(made) == 1
    assert seen == [made[0]] * 3
    waits(executor(rng=rng, backoff=backoff), Wish())
    assert len(made) == 2


# What the server asks for


@pytest.mark.parametrize(
    ("fields", "wishes", "told"),
    [
        ({}, [(0.0, TRANSIENT)], [(4.0, "backoff")]),
        ({}, [(30.0, TRANSIENT)], [(30.0, "server")]),
        ({}, [(1.0, TRANSIENT)], [(4.0, "backoff")]),
        ({}, [(4.0, TRANSIENT)], [(4.0, "backoff")]),
        ({}, [(0.0, TRANSIENT), (5.0, TRANSIENT)], [(4.0, "backoff"), (5.0, "server")]),
        ({}, [(0.0, TRANSIENT), (1.0, TRANSIENT)], [(4.0, "backoff"), (4.0, "server")]),
        (
            {"combine": "floor"},
            [(0.0, TRANSIENT), (5.0, TRANSIENT), (9.0, TRANSIENT)],
            [(4.0, "backoff"), (6.0, "backoff"), (9.0, "server")],
        ),
        (
            {},
            [(9.0, TRANSIENT), (0.0, TRANSIENT), (7.0, TRANSIENT)],
            [(9.0, "server"), (6.0, "backoff"), (7.0, "server")],
        ),
        ({}, [(60.0, TRANSIENT)], [(60.0, "server")]),
        ({}, [(60.001, TRANSIENT)], [(StopReason.SERVER_DELAY_TOO_LONG, "backoff")]),
        ({"over_limit": "cap"}, [(3600.0, TRANSIENT)], [(60.0, "server")]),
        ({"over_limit": "ignore"}, [(3600.0, TRANSIENT)], [(4.0, "backoff")]),
    ],
)
def test_the_servers_delay_and_where_the_wait_came_from(
    fields: Any, wishes: list[Any], told: list[Any]
) -> None:
    """Precedence never falls below the first drawn wait; a floor only lengthens."""
    made = executor(
        backoff=[4, 6, 8], server_delay=ServerDelay(spread=0, **fields), attempts=math.inf
    )
    got = []
    for delay, reason in wishes:
        [wait] = waits(made, Wish(delay, reason))
        got.append((wait, made.source))
    assert got == told


def test_the_server_delay_is_handed_what_was_asked_drawn_and_drawn_first() -> None:
    """`first` is the first draw of the call, whatever branch it came from, used or not."""
    seen: list[tuple[float, float, float]] = []

    def server(asked: float, drawn: float, first: float, rng: Random) -> float:
        seen.append((asked, drawn, first))
        return 0.5

    made = executor(backoff=BY_REASON, server_delay=server, attempts=math.inf)
    wishes = [Wish(7.0, THROTTLED), Wish(), Wish(3.0), Wish(2.0, THROTTLED)]
    assert waits(made, *wishes) == [0.5, 1.0, 0.5, 0.5]
    assert seen == [(7.0, 10.0, 10.0), (3.0, 2.0, 10.0), (2.0, 20.0, 10.0)]


def test_a_first_wait_of_zero_is_the_first_wait() -> None:
    """A later draw does not take its place."""
    made = executor(backoff=[0, 50], server_delay=ServerDelay(spread=0))
    assert waits(made, Wish(), Wish(2.0)) == [0.0, 2.0]


def test_the_server_is_not_heard_where_it_asks_for_nothing() -> None:
    """A delay of zero is no wish, so the strategy is not asked."""
    assert waits(executor(server_delay=broken), Wish(), Wish()) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("asked", "elapsed", "deadline", "wait"),
    [
        (10.0, 0.0, None, 11.0),
        (10.0, 0.0, 11.001, 11.0),
        (10.0, 0.0, 11.0, 10.0),
        (10.0, 0.0, 10.5, 10.0),
        (10.0, 0.5, 10.501, 10.0),
        (10.0, 0.0, 10.0, None),
        (10.0, 0.5, 10.5, None),
        (10.0, 0.0, 9.0, None),
        (0.5, 0.0, 1.0, 0.5),
        (0.5, 0.0, 0.75, 0.5),
        (0.5, 0.0, 0.5, None),
    ],
)
def test_the_spread_is_cut_where_the_asked_time_fits_before_the_deadline(
    asked: float, elapsed: float, deadline: float | None, wait: float | None
) -> None:
    """Only the spread gives way: what was asked for is waited for in full, or the call ends."""
    made = executor(backoff=Constant(0.25), deadline=deadline, attempts=3)
    decision = made.decide(attempt(Wish(asked), elapsed=elapsed))
    if wait is None:
        assert decision == DoNotRetry(StopReason.DEADLINE_EXCEEDED)
    else:
        assert decision == RetryAfter(wait)
        assert made.source == "server"


@pytest.mark.parametrize(
    ("settings", "asked", "deadline", "wait", "source"),
    [
        ({"combine": "floor"}, 1.0, 1.5, 1.25, "backoff"),
        ({"combine": "floor"}, 1.0, 1.25, None, None),
        ({"combine": "floor"}, 1.3, 1.5, 1.3, "server"),
        ({"over_limit": "cap", "limit": 5}, 100.0, 5.5, 5.0, "server"),
        ({"over_limit": "ignore", "limit": 5}, 100.0, 1.5, 1.25, "backoff"),
        ({"over_limit": "ignore", "limit": 5}, 100.0, 1.25, None, None),
    ],
)
def test_what_is_left_without_the_spread(
    settings: Any, asked: float, deadline: float, wait: float | None, source: str | None
) -> None:
    """The floor, the cap and the backoff's own wait stand; the source tells which it was."""
    made = executor(
        backoff=Constant(1.25), deadline=deadline, server_delay=ServerDelay(**settings), attempts=3
    )
    [told] = waits(made, Wish(asked))
    assert told == (StopReason.DEADLINE_EXCEEDED if wait is None else wait)
    if source is not None:
        assert made.source == source


def test_a_strategy_of_the_users_own_is_not_cut() -> None:
    """What it added is its own business: its whole wait must fit."""
    made = executor(deadline=10, server_delay=lambda asked, drawn, first, rng: asked + 5)
    assert waits(made, Wish(6.0)) == [StopReason.DEADLINE_EXCEEDED]
    assert waits(made, Wish(4.0)) == [9.0]


class Obstinate(ServerDelay):
    """Waits for an hour where the standard answer is to stop."""

    def __call__(self, asked: float, drawn: float, first: float, rng: Random) -> float | None:
        return super().__call__(asked, drawn, first, rng) or 3600.0


def test_a_subclass_that_answers_where_the_standard_one_stops() -> None:
    """There is no lesser wait to fall back on, so its own must fit before the deadline."""
    for deadline, told in ((3000, StopReason.DEADLINE_EXCEEDED), (4000, 3600.0)):
        made = executor(deadline=deadline, attempts=3, server_delay=Obstinate(limit=1))
        assert waits(made, Wish(30.0)) == [told]


def test_an_old_server_delay_is_not_taken_for_this_ones() -> None:
    """A wait that the backoff drew after one that the server asked for is the backoff's."""
    made = executor(backoff=[1, 9.5], deadline=10, attempts=3)
    assert waits(made, Wish(3.0)) == [4.0]
    assert made.source == "server"
    assert made.decide(attempt(Wish(), 2, 0.4)) == RetryAfter(9.5)
    assert made.source == "backoff"


# Switches and stop_when


@pytest.mark.parametrize("reason", [StopReason.DISABLED, StopReason.NESTED])
def test_a_switch_refuses_every_retry_and_nothing_else(reason: StopReason) -> None:
    """What the classifier calls final, or a success, stays what it is."""
    made = executor(attempts=math.inf)
    made.switch = DoNotRetry(reason)
    assert made.decide(attempt()) == DoNotRetry(reason)
    assert made.decide(attempt(KeyError())) == DoNotRetry(StopReason.NOT_RETRYABLE)
    assert made.decide(Attempt(CALL, 1, Returned(1), 0.0)) == DoNotRetry(StopReason.SUCCEEDED)


def test_an_executor_made_where_retries_are_off() -> None:
    """It is asked as any other and answers `DISABLED`."""
    with disabled():
        made = executor()
    assert made.decide(attempt()) == DoNotRetry(StopReason.DISABLED)
    assert executor().decide(attempt()) == RetryAfter(1.0)


def test_an_executor_made_inside_another_retried_call() -> None:
    """`nested="suppress"` makes one attempt there, and retries outside."""
    outer = RetryPolicy(listeners=())
    inside = {
        nested: outer.call(lambda nested=nested: executor(nested=nested)).decide(attempt())
        for nested in ("suppress", "allow")
    }
    assert inside == {"suppress": DoNotRetry(StopReason.NESTED), "allow": RetryAfter(1.0)}
    assert executor(nested="suppress").decide(attempt()) == RetryAfter(1.0)


@pytest.mark.parametrize("answer", [True, 1, "yes", [0]])
def test_stop_when_is_a_function_that_is_true_of_anything_true(answer: Any) -> None:
    """It is asked at each decision that would retry."""
    assert executor(stop_when=lambda: answer).decide(attempt()) == DoNotRetry(StopReason.STOPPED)


@pytest.mark.parametrize("answer", [False, 0, None, ""])
def test_stop_when_that_says_no(answer: Any) -> None:
    """Then the call goes on."""
    assert executor(stop_when=lambda: answer).decide(attempt()) == RetryAfter(1.0)


def test_stop_when_is_an_event() -> None:
    """It is looked at anew each time."""
    import threading

    event = threading.Event()
    made = executor(stop_when=event)
    assert made.decide(attempt()) == RetryAfter(1.0)
    event.set()
    assert made.decide(attempt(number=2)) == DoNotRetry(StopReason.STOPPED)
    event.clear()
    assert made.decide(attempt(number=2)) == RetryAfter(1.0)


# Arguments that can be gone through only once


def fresh_generator() -> Any:
    return (each for each in "ab")


def finished_generator() -> Any:
    used = (each for each in "")
    list(used)
    return used


async def numbers() -> Any:
    yield 1
    yield 2


def fresh_async_generator() -> Any:
    return numbers()


def run_step(awaitable: Any) -> None:
    with pytest.raises(StopIteration):
        awaitable.__await__().send(None)


def begun_async_generator() -> Any:
    used = numbers()
    run_step(used.asend(None))
    return used


def finished_async_generator() -> Any:
    used = numbers()
    run_step(used.aclose())
    return used


@types.coroutine
def give_way() -> Any:
    yield


async def slow_numbers() -> Any:
    await give_way()
    yield 1


RUNNING: list[Any] = []


def running_async_generator() -> Any:
    used = slow_numbers()
    step = used.asend(None)
    step.send(None)
    RUNNING.append(step)  # kept, so that it stays in the middle of its step
    return used


async def coroutine() -> None:
    await give_way()


COROUTINES: list[Any] = []


def fresh_coroutine() -> Any:
    made = coroutine()
    COROUTINES.append(made)
    return made


def begun_coroutine() -> Any:
    made = fresh_coroutine()
    made.send(None)
    return made


def finished_coroutine() -> Any:
    made = fresh_coroutine()
    made.close()
    return made


@pytest.fixture(autouse=True)
def nothing_left_unawaited() -> Any:
    yield
    while RUNNING:
        with pytest.raises(StopIteration):
            RUNNING.pop().send(None)
    while COROUTINES:
        COROUTINES.pop().close()


@pytest.mark.parametrize(
    ("make", "begun"),
    [
        (fresh_generator, False),
        (begun_generator, True),
        (finished_generator, True),
        (fresh_async_generator, False),
        (begun_async_generator, True),
        (finished_async_generator, True),
        (running_async_generator, True),
        (fresh_coroutine, False),
        (begun_coroutine, True),
        (finished_coroutine, True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("by_keyword", [False, True])
def test_an_argument_that_the_attempt_has_begun_to_use_up(
    make: Any, begun: bool, by_keyword: bool
) -> None:
    """Then nothing is left to send again; one that is still fresh can be (jd/tenacity#66)."""
    argument = make()
    call = Call(sum, kwargs={"of": argument}) if by_keyword else Call(sum, args=(0, argument))
    decision = executor(call).decide(attempt(call=call))
    assert decision == (DoNotRetry(StopReason.NOT_REPLAYABLE) if begun else RetryAfter(1.0))


def test_one_begun_argument_among_several_is_enough() -> None:
    """All of them are looked at, wherever they stand."""
    for arguments in itertools.permutations([fresh_generator(), begun_generator(), 5]):
        call = Call(sum, args=arguments[:1], kwargs=dict(zip("ab", arguments[1:], strict=True)))
        assert executor(call).decide(attempt(call=call)) == DoNotRetry(StopReason.NOT_REPLAYABLE)


def test_what_a_partial_holds_is_an_argument_too() -> None:
    """By position, by keyword, and in a partial of a partial."""
    for function in (
        partial(sum, begun_generator()),
        partial(sum, of=begun_generator()),
        partial(partial(sum, begun_generator()), 5),
    ):
        call = Call(function, args=(0,))
        assert executor(call).decide(attempt(call=call)) == DoNotRetry(StopReason.NOT_REPLAYABLE)
    call = Call(partial(sum, fresh_generator()))
    assert executor(call).decide(attempt(call=call)) == RetryAfter(1.0)


def test_an_argument_is_looked_at_after_each_attempt() -> None:
    """One that the second attempt begins to use stops the third."""
    argument = fresh_generator()
    call = Call(sum, args=(argument,))
    made = executor(call)
    assert made.decide(attempt(call=call)) == RetryAfter(1.0)
    next(argument)
    assert made.decide(attempt(number=2, call=call)) == DoNotRetry(StopReason.NOT_REPLAYABLE)


@pytest.mark.parametrize("argument", [[1, 2], iter([1, 2]), "ab", {1: 2}, None, map(str, "ab")])
def test_other_arguments_are_taken_as_they_are(argument: Any) -> None:
    """Of lists nothing is used up, and of other iterators nobody can tell."""
    assert one_shots(Call(sum, args=(argument,), kwargs={"of": argument})) == ()


def test_python_3_12_says_itself_whether_an_async_generator_has_begun() -> None:
    """Where there is `ag_suspended` it is believed."""
    for suspended in (True, False):
        shown = SimpleNamespace(ag_frame=object(), ag_running=False, ag_suspended=suspended)
        assert begun_using(shown) is suspended


class Upload(Exchange):
    """A request whose body can be sent so many times."""

    __slots__ = ("sent",)

    def __init__(self, sent: bool) -> None:
        super().__init__(print)
        self.sent = sent

    def replayable(self) -> bool:
        return not self.sent


@pytest.mark.parametrize("sent", [False, True])
def test_a_request_says_itself_whether_it_can_be_sent_again(sent: bool) -> None:
    """A client's adapter knows its body; the arguments are not looked at."""
    call = Upload(sent)
    decision = executor(call).decide(attempt(call=call))
    assert decision == (DoNotRetry(StopReason.NOT_REPLAYABLE) if sent else RetryAfter(1.0))


def test_the_call_is_made_when_it_is_first_asked_for() -> None:
    """A holder of the call is asked once, at the first failure."""

    class Holder:
        made = 0

        @property
        def call(self) -> Call:
            self.made += 1
            return CALL

    holder = Holder()
    made = PolicyExecutor(policy(budget=Recorder()), holder)
    assert holder.made == 0
    assert waits(made, Wish(), Wish()) == [1.0, 1.0]
    made.ended(True)
    assert holder.made == 1


# The budget


def retried(*reasons: RetryReason) -> Any:
    def steps(made: PolicyExecutor) -> None:
        for number, reason in enumerate(reasons, 1):
            decision = made.decide(attempt(Wish(0.0, reason), number))
            assert isinstance(decision, RetryAfter)
            made.begun()

    return steps


def waiting(*reasons: RetryReason) -> Any:
    def steps(made: PolicyExecutor) -> None:
        retried(*reasons[:-1])(made)
        made.decide(attempt(Wish(0.0, reasons[-1]), len(reasons)))

    return steps


def by_hand(*reasons: RetryReason) -> Any:
    def steps(made: PolicyExecutor) -> None:
        waits(made, *[Wish(0.0, reason) for reason in reasons])

    return steps


PRICES = {TRANSIENT: 2.0, THROTTLED: 3.0, TIMED_OUT: 0.0, CONNECTION_FAILED: None}


@pytest.mark.parametrize(
    ("steps", "succeeded", "spent", "unused"),
    [
        (retried(), True, 0.0, 0.0),
        (retried(), False, 0.0, 0.0),
        (retried(TRANSIENT), True, 2.0, 0.0),
        (retried(TRANSIENT), False, 2.0, 0.0),
        (retried(TRANSIENT, THROTTLED), True, 3.0, 0.0),
        (retried(THROTTLED, TRANSIENT), False, 2.0, 0.0),
        (retried(TIMED_OUT), True, 0.0, 0.0),
        (retried(THROTTLED, TIMED_OUT), True, 0.0, 0.0),
        (waiting(TRANSIENT), False, 0.0, 2.0),
        (waiting(TRANSIENT, THROTTLED), False, 2.0, 3.0),
        (waiting(THROTTLED, TIMED_OUT), False, 3.0, 0.0),
        (waiting(TRANSIENT), True, 2.0, 0.0),
        (waiting(TRANSIENT, THROTTLED), True, 3.0, 0.0),
        (by_hand(TRANSIENT, THROTTLED), False, 2.0, 3.0),
        (by_hand(TRANSIENT, CONNECTION_FAILED), False, 2.0, 0.0),
        (by_hand(CONNECTION_FAILED), False, 0.0, 0.0),
    ],
)
def test_what_the_budget_is_told_at_the_end(
    steps: Any, succeeded: bool, spent: float, unused: float
) -> None:
    """`spent` is the last retry that started, `unused` one that was paid and not made."""
    budget = Recorder(PRICES)
    made = executor(budget=budget, attempts=math.inf)
    steps(made)
    made.ended(succeeded)
    assert budget.settled == [
        {"call": CALL, "succeeded": succeeded, "spent": spent, "unused": unused}
    ]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_a_call_ends_once(first: bool, second: bool) -> None:
    """A second end is not told."""
    budget = Recorder()
    made = executor(budget=budget)
    made.ended(first)
    made.ended(second)
    assert [told["succeeded"] for told in budget.settled] == [first]


def test_a_budget_that_cannot_settle_is_asked_once_all_the_same() -> None:
    """What it raises is kept for the driver, and the end stays the end."""
    budget = BrokenSettle()
    made = executor(budget=budget)
    made.ended(True)
    made.ended(True)
    assert len(budget.settled) == 1
    assert made.problems is not None
    assert [(step, type(problem)) for step, problem in made.problems] == [("budget", LookupError)]


def test_an_end_without_a_budget_tells_nobody() -> None:
    """There is nothing to settle."""
    made = executor()
    made.ended(True)
    assert made.problems is None


def test_the_budget_is_asked_with_the_call_and_the_reason() -> None:
    """Each retry once, none for a first attempt."""
    budget = Recorder()
    made = executor(budget=budget)
    made.decide(Attempt(CALL, 1, Returned(1), 0.0))
    assert budget.withdrawn == []
    waits(made, Wish(0.0, THROTTLED), Wish(3.0, TIMED_OUT))
    assert budget.withdrawn == [(CALL, THROTTLED), (CALL, TIMED_OUT)]


def test_a_retry_that_the_budget_refuses_is_not_counted() -> None:
    """Neither paid for nor taken for one of its reason's."""
    budget = Recorder({TRANSIENT: None})
    made = executor(budget=budget, limits={TRANSIENT: 1})
    assert waits(made, Wish()) == [StopReason.BUDGET_EXHAUSTED]
    assert made.paid is None
    budget.price[TRANSIENT] = 1.0
    assert waits(made, Wish(), Wish()) == [1.0, StopReason.REASON_EXHAUSTED]


@pytest.mark.parametrize("budget", [RatioBudget(reserve=2), TokenBudget(28)])
def test_the_standard_budgets_run_dry(budget: Any) -> None:
    """Two retries are paid for, the third is refused, whatever the attempts would allow."""
    made = executor(budget=budget, attempts=math.inf)
    assert waits(made, Wish(), Wish(), Wish()) == [1.0, 1.0, StopReason.BUDGET_EXHAUSTED]
    made.ended(False)
    assert budget.balance() == 0.0


def test_a_call_that_is_cancelled_in_its_wait_gives_back_what_it_paid() -> None:
    """The retry was never made."""
    budget = RatioBudget(reserve=5)
    made = executor(budget=budget)
    made.decide(attempt())
    assert budget.balance() == 4.0
    made.ended(False)
    assert budget.balance() == 5.0
