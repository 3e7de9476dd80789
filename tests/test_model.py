"""The decision core against a slow, obvious model of it.

Several calls of one policy go on at the same time, under one budget: they fail, return, wait, are
retried and cancelled in any order, while time passes, an event says stop, deadlines are lowered,
arguments are used up and retries are switched off. What the executor decides and what the budget
holds is compared, step by step, with a model that knows nothing of the package's code and follows
the documented order word by word.

All times are multiples of a quarter and all prices of a half, so that both sides compute exactly.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from retrykit import (
    Attempt,
    AttemptTimedOut,
    ByReason,
    Call,
    DoNotRetry,
    Never,
    OnResult,
    Raised,
    RatioBudget,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    Returned,
    Schedule,
    ServerDelay,
    StopReason,
    TokenBudget,
)
from retrykit._executor import PolicyExecutor

# The model


@dataclass
class ModelBudget:
    """So many tokens, never more than at the start."""

    kind: str
    tokens: float = 6.0
    most: float = 6.0
    earned: float = 0.5  # for each success, where the kind is "ratio"
    reward: float = 1.0  # for a success without a retry, where the kind is "token"

    def price(self, reason: str) -> float:
        if self.kind == "ratio":
            return 1.0
        return {"throttled": 1.0, "timed_out": 0.0}.get(reason, 2.5)

    def pay(self, reason: str) -> bool:
        price = self.price(reason)
        if self.tokens < price:
            return False
        self.tokens -= price
        return True

    def settle(self, succeeded: bool, spent: float, unused: float) -> None:
        back = unused
        if succeeded and self.kind == "ratio":
            back += self.earned
        if succeeded and self.kind == "token":
            back += spent if spent > 0 else self.reward
        self.tokens = min(self.tokens + back, self.most)


@dataclass
class ModelSettings:
    """What the policy was made of, as plain data."""

    attempts: float
    limits: dict[str, int]
    deadline: float | None
    waits: dict[str | None, list[float]]  # `None` is the default
    longest_asked: float
    over_limit: str
    combine: str
    spread: float
    luck: float  # what every draw comes to


@dataclass
class ModelCall:
    """Where one call stands."""

    began: float
    deadline: float | None
    number: int = 1
    retries: dict[str, int] = field(default_factory=dict)
    position: dict[str | None, int] = field(default_factory=dict)
    first: float | None = None
    used_up: bool = False
    switched: str | None = None
    paid_for_next: float | None = None
    paid_for_last: float = 0.0


Decision = tuple[str, Any]


def classified(outcome: Any) -> Decision:
    """What the classifier of the test says, and what it means where it says nothing."""
    if outcome[0] == "value":
        return (
            ("retry", (0.0, "unsatisfactory")) if outcome[1] == "pending" else ("stop", "succeeded")
        )
    if outcome[0] == "wish":
        return "retry", outcome[1:]
    if outcome[0] == "own timeout":
        return "retry", (0.0, "timed_out")
    if outcome[0] == "forbidden":
        return "stop", "forbidden"
    if outcome[0] in ("unknown", "other's timeout"):
        return "stop", "not_retryable"
    assert outcome[0] == "group"
    answers = [
        classified(("unknown",) if each[0] == "own timeout" else each) for each in outcome[1]
    ]
    for kind, reason in answers:
        if (kind, reason) == ("stop", "forbidden"):
            return kind, reason
    for kind, reason in answers:
        if kind == "stop":
            return kind, reason
    longest = max(delay for _, (delay, _) in answers)
    return "retry", next(wish for _, wish in answers if wish[0] == longest)


def decided(
    made_of: ModelSettings,
    call: ModelCall,
    budget: ModelBudget | None,
    stopped: bool,
    outcome: Any,
    elapsed: float,
) -> Decision:
    """The documented order of a decision, one step after the other."""
    kind, what = classified(outcome)
    if kind == "stop":
        return kind, what
    asked, reason = what
    if stopped:
        return "stop", "stopped"
    if call.switched is not None:
        return "stop", call.switched
    if call.used_up:
        return "stop", "not_replayable"
    if call.number >= made_of.attempts:
        return "stop", "attempts_exhausted"
    if reason in made_of.limits and call.retries.get(reason, 0) >= made_of.limits[reason]:
        return "stop", "reason_exhausted"
    # The backoff: the next wait of the reason's own sequence.
    branch = reason if reason in made_of.waits else None
    place = call.position.get(branch, 0)
    if place == len(made_of.waits[branch]):
        return "stop", "backoff_exhausted"
    call.position[branch] = place + 1
    drawn = made_of.waits[branch][place]
    if call.first is None:
        call.first = drawn
    # The server's delay.
    wait = drawn
    least = drawn
    source = "backoff"
    if asked > 0:
        heeded: float | None = asked
        if asked > made_of.longest_asked:
            if made_of.over_limit == "stop":
                return "stop", "server_delay_too_long"
            heeded = None
            if made_of.over_limit == "cap" and made_of.longest_asked > 0:
                heeded = made_of.longest_asked
        if heeded is not None:
            more = 0.0
            if made_of.spread > 0:
                more = made_of.luck * max(made_of.spread * heeded, min(1.0, heeded))
            floor = call.first if made_of.combine == "precedence" else drawn
            wait = max(heeded + more, floor)
            least = max(heeded, floor)
        source = "backoff" if wait == drawn else "server"
    # The deadline: reached exactly is reached; the spread alone gives way.
    if call.deadline is not None and elapsed + wait >= call.deadline:
        if source == "server" and elapsed + least < call.deadline:
            wait = least
            source = "backoff" if wait == drawn else "server"
        else:
            return "stop", "deadline_exceeded"
    # The budget, last of all.
    if budget is not None:
        if not budget.pay(reason):
            return "stop", "budget_exhausted"
        call.paid_for_next = budget.price(reason)
    call.retries[reason] = call.retries.get(reason, 0) + 1
    return "retry", (wait, reason, source)


# The real thing, from the same data


class Wish(Exception):
    def __init__(self, delay: float, reason: str) -> None:
        super().__init__()
        self.decision = RetryAfter(delay, RetryReason(reason))


class Forbidden(Exception):
    pass


def wished(attempt: Attempt) -> Any:
    return getattr(attempt.error, "decision", None)


class Luck(Random):
    """Draws the same always."""

    def __init__(self, luck: float) -> None:
        super().__init__()
        self.luck = luck

    def random(self) -> float:
        return self.luck


def error_of(outcome: Any, call: Call) -> Exception:
    match outcome:
        case ("wish", delay, reason):
            return Wish(delay, reason)
        case ("forbidden",):
            return Forbidden()
        case ("unknown",):
            return KeyError()
        case ("group", parts):
            return ExceptionGroup("several", [error_of(each, call) for each in parts])
        case (whose, *_):
            error = AttemptTimedOut(1.0)
            error._owner = call if whose == "own timeout" else Call(print)
            return error
    raise AssertionError(outcome)


def outcome_of(outcome: Any, call: Call) -> Any:
    return Returned(outcome[1]) if outcome[0] == "value" else Raised(error_of(outcome, call))


def policy_of(made_of: ModelSettings, budget: Any, event: threading.Event | None) -> RetryPolicy:
    schedules = {each: Schedule(*waits) for each, waits in made_of.waits.items()}
    default = schedules.pop(None)
    branches = {RetryReason(str(each)): waits for each, waits in schedules.items()}
    return RetryPolicy(
        classify=Never(Forbidden) | OnResult(lambda value: value == "pending") | wished,
        attempts=made_of.attempts,
        limits={RetryReason(each): limit for each, limit in made_of.limits.items()},
        deadline=made_of.deadline,
        backoff=ByReason(branches, default=default) if branches else default,
        server_delay=ServerDelay(
            limit=made_of.longest_asked,
            over_limit=made_of.over_limit,  # type: ignore[arg-type]  # one of the three
            combine=made_of.combine,  # type: ignore[arg-type]  # one of the two
            spread=made_of.spread,
        ),
        budget=budget,
        stop_when=event,
        rng=lambda: Luck(made_of.luck),
        listeners=(),
    )


# What is drawn

QUARTERS = st.integers(0, 40).map(lambda each: each / 4)
REASONS = st.sampled_from(["timed_out", "throttled", "transient", "unsatisfactory"])
WAITS = st.lists(QUARTERS, min_size=0, max_size=6)
LONG = st.lists(QUARTERS, min_size=4, max_size=8)

MADE_OF = st.builds(
    ModelSettings,
    attempts=st.sampled_from([math.inf, math.inf, 1, 2, 4, 6]),
    limits=st.one_of(st.just({}), st.dictionaries(REASONS, st.integers(0, 2), max_size=2)),
    deadline=st.one_of(st.none(), st.none(), st.integers(1, 160).map(lambda each: each / 4)),
    waits=st.builds(
        lambda default, more: {None: default, **more},
        st.one_of(LONG, LONG, WAITS),
        st.dictionaries(REASONS, WAITS, max_size=2),
    ),
    longest_asked=st.sampled_from([0.0, 4.0, 8.0, 60.0]),
    over_limit=st.sampled_from(["stop", "cap", "ignore"]),
    combine=st.sampled_from(["precedence", "floor"]),
    spread=st.sampled_from([0.0, 0.5]),
    luck=st.sampled_from([0.0, 0.5, 1.0]),
)

LEAVES = st.one_of(
    st.tuples(st.just("wish"), QUARTERS, REASONS),
    st.tuples(st.just("wish"), st.just(0.0), REASONS),
    st.tuples(st.sampled_from(["unknown", "forbidden", "own timeout", "other's timeout"])),
)
WISHES = st.tuples(st.just("wish"), st.one_of(st.just(0.0), QUARTERS, QUARTERS), REASONS)
FAILURES = st.one_of(
    WISHES,
    WISHES,
    st.tuples(st.just("group"), st.lists(WISHES, min_size=1, max_size=3)),
    st.tuples(st.just("value"), st.just("pending")),
    st.tuples(st.just("group"), st.lists(LEAVES, min_size=1, max_size=3)) | LEAVES,
)
ANY = st.integers(0, 3)


@dataclass(eq=False)
class Pair:
    """One call, in both worlds."""

    model: ModelCall
    real: PolicyExecutor
    call: Call
    argument: Iterator[int]
    in_wait: bool = False


class CoreMachine(RuleBasedStateMachine):
    """Drives both and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.open: list[Pair] = []
        self.event: threading.Event | None = None
        self.budget: ModelBudget | None = None
        self.real_budget: Any = None

    @initialize(
        made_of=MADE_OF, budget=st.sampled_from([None, "ratio", "token"]), stoppable=st.booleans()
    )
    def make(self, made_of: ModelSettings, budget: str | None, stoppable: bool) -> None:
        self.made_of = made_of
        if budget is not None:
            self.budget = ModelBudget(budget)
        if budget == "ratio":
            self.real_budget = RatioBudget(ratio=0.5, reserve=6)
        elif budget == "token":
            prices = {RetryReason.THROTTLED: 1, RetryReason.TIMED_OUT: 0}
            self.real_budget = TokenBudget(tokens=6, prices=prices, default=2.5, reward=1)
        if stoppable:
            self.event = threading.Event()
        self.policy = policy_of(made_of, self.real_budget, self.event)

    # Calls

    def one(self, which: int) -> Pair:
        """One of the calls that go on; where there is none, a new one."""
        if not self.open:
            self.start()
        return self.open[which % len(self.open)]

    @rule()
    def start(self) -> None:
        argument = (each for each in range(1000))
        call = Call(print, args=(argument,))
        real = self.policy.new_executor(call)
        assert isinstance(real, PolicyExecutor)
        model = ModelCall(self.now, self.made_of.deadline)
        self.open.append(Pair(model, real, call, argument))

    @rule(which=ANY, failures=st.lists(st.tuples(FAILURES, QUARTERS), min_size=1, max_size=5))
    def fail(self, which: int, failures: Any) -> None:
        """Attempts end one after the other, each after some time, until the call does."""
        pair = self.one(which)
        for outcome, seconds in failures:
            self.now += seconds / 4
            if not self.retried(pair, outcome):
                return

    def retried(self, pair: Pair, outcome: Any) -> bool:
        if pair.in_wait:
            self.begin(pair)
        model = pair.model
        elapsed = self.now - model.began
        stopped = self.event is not None and self.event.is_set()
        expected = decided(self.made_of, model, self.budget, stopped, outcome, elapsed)
        attempt = Attempt(pair.call, model.number, outcome_of(outcome, pair.call), elapsed)
        decision = pair.real.decide(attempt)
        assert pair.real.problems is None
        assert pair.real.wanted is (classified(outcome)[0] == "retry")
        if isinstance(decision, DoNotRetry):
            assert ("stop", str(decision.reason)) == expected
            self.end(pair, decision.reason is StopReason.SUCCEEDED)
            return False
        told = (decision.delay, str(decision.reason), pair.real.source)
        assert ("retry", told) == expected
        pair.in_wait = True
        return True

    @rule(which=ANY)
    def succeed(self, which: int) -> None:
        assert not self.retried(self.one(which), ("value", "done"))

    @rule(which=ANY)
    def wait(self, which: int) -> None:
        """Its wait is over: the next attempt begins."""
        pair = self.one(which)
        if pair.in_wait:
            self.begin(pair)

    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        """In an attempt or in a wait."""
        self.end(self.one(which), False)

    def begin(self, pair: Pair) -> None:
        model = pair.model
        pair.in_wait = False
        model.number += 1
        if model.paid_for_next is not None:
            model.paid_for_last, model.paid_for_next = model.paid_for_next, None
        pair.real.begun()

    def end(self, pair: Pair, succeeded: bool) -> None:
        model = pair.model
        if self.budget is not None:
            unused = 0.0 if model.paid_for_next is None else model.paid_for_next
            self.budget.settle(succeeded, model.paid_for_last, unused)
        pair.real.ended(succeeded)
        pair.real.ended(not succeeded)  # a second end is none
        self.open.remove(pair)

    # The world around them

    @rule(seconds=QUARTERS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.event is not None)
    @rule(said=st.booleans())
    def say_stop(self, said: bool) -> None:
        assert self.event is not None
        if said:
            self.event.set()
        else:
            self.event.clear()

    @rule(which=ANY)
    def use_up(self, which: int) -> None:
        """The attempt takes an item of its argument."""
        pair = self.one(which)
        next(pair.argument)
        pair.model.used_up = True

    @rule(which=ANY, to=st.sampled_from(["disabled", "nested"]))
    def switch_off(self, which: int, to: str) -> None:
        pair = self.one(which)
        pair.model.switched = to
        pair.real.switch = DoNotRetry(StopReason(to))

    @rule(which=ANY, seconds=QUARTERS)
    def lower_the_deadline(self, which: int, seconds: float) -> None:
        """To that of a call around it."""
        pair = self.one(which)
        model = pair.model
        nearer = self.now - model.began + seconds
        if model.deadline is None or nearer < model.deadline:
            model.deadline = pair.real.deadline = nearer

    # What always holds

    @invariant()
    def the_budget_holds_what_the_model_says(self) -> None:
        if self.budget is not None:
            assert self.real_budget.balance() == self.budget.tokens
            assert 0 <= self.budget.tokens <= self.budget.most

    def teardown(self) -> None:
        """Once all have ended, nothing is owed: what is missing was spent on retries that began."""
        for pair in list(self.open):
            self.end(pair, False)
        if self.real_budget is not None:
            self.the_budget_holds_what_the_model_says()


CoreMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@settings(max_examples=250, deadline=None)
@given(
    made_of=MADE_OF,
    budget=st.sampled_from([None, "ratio", "token"]),
    failures=st.lists(st.tuples(FAILURES, QUARTERS), min_size=1, max_size=12),
)
def test_one_call_that_fails_again_and_again(made_of: Any, budget: Any, failures: Any) -> None:
    """Each of its decisions is the model's, to the last."""
    machine = CoreMachine()
    machine.make(made_of, budget, False)
    machine.start()
    machine.fail(0, failures)
    machine.the_budget_holds_what_the_model_says()
    machine.teardown()


class TestCore(CoreMachine.TestCase):  # type: ignore[misc]  # made by Hypothesis
    """The decisions and the balance are the model's, whatever happens in whatever order."""
