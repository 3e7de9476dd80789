"""The state machine of one call: an outcome goes in, a decision comes out.

The order of a decision, and nothing else is in here:

    classify -> stop_when, switches -> replayable arguments -> attempts, limits
             -> backoff (with its jitter) -> server delay -> deadline -> budget

It reads no clock, sleeps nowhere and awaits nothing: what happened and when are handed in. Backoff
and jitter draw the wait; from there on a step only lengthens it (a server's own delay may take
precedence) or stops the call, and no step revives one. A token is asked for last, so that a call
which ends for another reason pays nothing.

What a strategy does wrong (it raises, or answers nonsense) ends the call as `STRATEGY_FAILED` and
is kept in `problems` for the driver to report beside the user's own outcome.
"""

from __future__ import annotations

import inspect
import math
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from retrykit._exchange import Exchange
from retrykit._validate import INFINITY, is_number, told
from retrykit.backoff import ByReason
from retrykit.classify import leaves_of
from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.errors import AttemptTimedOut, DeadlineExceeded
from retrykit.outcome import Attempt, Call, Raised
from retrykit.server_delay import ServerDelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from random import Random

    from retrykit.backoff import Backoff
    from retrykit.budget import Budget
    from retrykit.classify import Classifier
    from retrykit.server_delay import ServerDelayStrategy
    from retrykit.settings import StopWhen


@runtime_checkable
class RetryExecutor(Protocol):
    """What decides for one call, asked after each of its attempts.

    It may also have `ended(succeeded: bool)`, called exactly once per call, also on cancel. Both
    are plain methods; what they raise is reported beside the user's own outcome.

    >>> class Patient:
    ...     def decide(self, attempt: Attempt, /) -> RetryDecision:
    ...         return DoNotRetry() if attempt.error is None else RetryAfter(1.0)
    >>> isinstance(Patient(), RetryExecutor)
    True
    """

    def decide(self, attempt: Attempt, /) -> RetryDecision:
        """Whether to try again: the wait itself, or the reason to stop."""
        ...


class HasCall(Protocol):
    """What has the call and makes it only when it is asked for."""

    @property
    def call(self) -> Any: ...


class Recipe(Protocol):
    """The part of a policy that its executor reads."""

    @property
    def classify(self) -> Classifier: ...
    @property
    def attempts(self) -> float: ...
    @property
    def limits(self) -> Mapping[RetryReason, int]: ...
    @property
    def deadline(self) -> float | None: ...
    @property
    def backoff(self) -> Backoff: ...
    @property
    def server_delay(self) -> ServerDelayStrategy: ...
    @property
    def budget(self) -> Budget | None: ...
    @property
    def stop_when(self) -> StopWhen | None: ...
    @property
    def rng(self) -> Callable[[], Random]: ...
    @property
    def judges_results(self) -> bool:
        """Whether its classifier may have an opinion on a value."""
        ...

    @property
    def plain(self) -> bool:
        """Whether nothing but attempts, backoff, server delay and deadline limits its calls."""
        ...

    @property
    def verdicts(self) -> dict[type[BaseException], RetryAfter] | None:
        """The classifier's answers by error type, where the type alone settles them."""
        ...


# Enum members are bound here: an attribute of an enum class is slow to read.
_SUCCEEDED: Final = DoNotRetry(StopReason.SUCCEEDED)
_NOT_RETRYABLE: Final = DoNotRetry(StopReason.NOT_RETRYABLE)
_STRATEGY_FAILED: Final = DoNotRetry(StopReason.STRATEGY_FAILED)
_STOPPED: Final = DoNotRetry(StopReason.STOPPED)
_NOT_REPLAYABLE: Final = DoNotRetry(StopReason.NOT_REPLAYABLE)
_ATTEMPTS_EXHAUSTED: Final = DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)
_REASON_EXHAUSTED: Final = DoNotRetry(StopReason.REASON_EXHAUSTED)
_BACKOFF_EXHAUSTED: Final = DoNotRetry(StopReason.BACKOFF_EXHAUSTED)
_SERVER_DELAY_TOO_LONG: Final = DoNotRetry(StopReason.SERVER_DELAY_TOO_LONG)
_DEADLINE_EXCEEDED: Final = DoNotRetry(StopReason.DEADLINE_EXCEEDED)
_BUDGET_EXHAUSTED: Final = DoNotRetry(StopReason.BUDGET_EXHAUSTED)
_ONE_SHOT: Final = frozenset({GeneratorType, AsyncGeneratorType, CoroutineType})
_TIMED_OUT: Final = RetryAfter(0.0, RetryReason.TIMED_OUT)

MOST_VERDICTS: Final = 200
"""How many error types a policy remembers its classifier's answer for."""


class Verdicts(dict["type[BaseException]", RetryAfter]):
    """A classifier's answers by error type. A copy starts anew: what calls met does not travel."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Verdicts], tuple[()]]:
        return Verdicts, ()


class StrategyError(Exception):
    """A strategy answered what it must not; the text says which and what."""


class PolicyExecutor:
    """The standard executor: a policy's fields, applied to one call and then thrown away."""

    __slots__ = (
        "_branches",
        "_counts",
        "_first",
        "_rng",
        "_sequence",
        "_settled",
        "_spent",
        "_whose",
        "deadline",
        "one_shots",
        "paid",
        "problems",
        "recipe",
        "simple",
        "source",
        "switch",
        "wanted",
    )

    deadline: float | None
    """Seconds from the call's start; the driver lowers it to an outer call's, if that is nearer."""
    switch: DoNotRetry | None
    """What ends every call that would be retried: retries, or nested ones, are off here."""
    source: str
    """Where the last wait came from: `"backoff"` or `"server"`."""
    one_shots: tuple[Any, ...] | None
    """The arguments that can be gone through only once; `None` until somebody has looked."""
    paid: float | None
    """The price of a retry that was decided on and has not started, if any."""
    wanted: bool | None
    """Whether the classifier took the last outcome for worth another attempt; `None` where it has
    not said."""
    problems: list[tuple[str, Exception]] | None
    """What strategies did wrong, and which."""

    def __init__(self, recipe: Recipe, call: Call | HasCall) -> None:
        self.recipe = recipe
        self._branches: dict[RetryReason | None, Iterator[float]] | None = None
        self._whose = call
        self._counts: dict[RetryReason, int] | None = None
        self._first: float | None = None
        self.one_shots = None
        self.paid = None
        self._rng: Random | None = None
        self._sequence: Iterator[float] | None = None
        self._settled = False
        self._spent = 0.0
        self.deadline = recipe.deadline
        self.problems = None
        self.simple = False
        self.source = "backoff"
        self.switch = None
        self.wanted = None

    @property
    def _call(self) -> Call:
        whose = self._whose
        if not isinstance(whose, Call):
            whose = self._whose = whose.call
        return whose

    def decide(self, attempt: Attempt, /) -> RetryDecision:
        """The decision on one finished attempt; asked in the order of the attempts."""
        try:
            wish = self._classify(attempt)
        except Exception as problem:  # noqa: BLE001 - a classifier may raise anything; the outcome stands
            self.wanted = None
            self._report("classifier", problem)
            return _STRATEGY_FAILED
        self.wanted = isinstance(wish, RetryAfter)
        if not isinstance(wish, RetryAfter):
            return wish
        answer = self.weigh(wish, attempt.number, attempt.elapsed)
        return answer if isinstance(answer, DoNotRetry) else RetryAfter(answer, wish.reason)

    def weigh(self, wish: RetryAfter, number: int, elapsed: float) -> float | DoNotRetry:
        """What the steps after the classifier make of its wish: the wait, or why there is none."""
        step = "backoff"
        try:
            if not self.simple:
                step = "stop_when"
                refusal = self._refusal(number, wish.reason)
                if refusal is not None:
                    return refusal
                step = "backoff"
            elif number >= self.recipe.attempts:
                return _ATTEMPTS_EXHAUSTED
            sequence = self._sequence
            if sequence is None:
                sequence = self._sequence_for(wish.reason)
            wait = next(sequence, None)
            if type(wait) is not float or not 0.0 <= wait < INFINITY:
                if wait is None:
                    return _BACKOFF_EXHAUSTED
                wait = _wait(step, wait)
            if self._first is None:
                self._first = wait
            self.source = "backoff"
            if wish.delay != 0.0 or self.deadline is not None:
                step = "server_delay"
                answer = self._heed(wish.delay, wait, elapsed)
                if isinstance(answer, DoNotRetry):
                    return answer
                wait = answer
            if self.simple:
                return wait
            step = "budget"
            budget = self.recipe.budget
            if budget is not None and not self._pay(budget, wish.reason):
                return _BUDGET_EXHAUSTED
        except Exception as problem:  # noqa: BLE001 - a strategy may raise anything; the outcome stands
            self._report(step, problem)
            return _STRATEGY_FAILED
        self._count(wish.reason)
        return wait

    def _refusal(self, number: int, reason: RetryReason) -> DoNotRetry | None:
        """What refuses a retry before its wait is drawn."""
        if self.paid is not None:
            self.begun()
        recipe = self.recipe
        unrepeatable = self.one_shots
        if unrepeatable is None:
            unrepeatable = self.one_shots = one_shots(self._call)
        if recipe.stop_when is not None and asks_to_stop(recipe.stop_when):
            return _STOPPED
        if self.switch is not None:
            return self.switch
        if any(map(begun_using, unrepeatable)):
            return _NOT_REPLAYABLE
        if number >= recipe.attempts:
            return _ATTEMPTS_EXHAUSTED
        if self._over_limit(reason):
            return _REASON_EXHAUSTED
        self.simple = recipe.plain and not unrepeatable
        return None

    def begun(self) -> None:
        """The retry that was decided on last has started: what was paid for it is spent."""
        if self.paid is not None:
            self._spent = self.paid
            self.paid = None

    def ended(self, succeeded: bool) -> None:
        """Settle with the budget, once."""
        budget = self.recipe.budget
        if self._settled:
            return
        self._settled = True
        if budget is None:
            return
        if succeeded:
            self.begun()  # it can only have succeeded in an attempt that was made
        unused = 0.0 if self.paid is None else self.paid
        try:
            budget.settle(self._call, succeeded=succeeded, spent=self._spent, unused=unused)
        except Exception as problem:  # noqa: BLE001 - a budget may raise anything; the user's outcome stands
            self._report("budget", problem)

    def _classify(self, attempt: Attempt) -> RetryDecision:
        """What the classifier says of the attempt; where it has no opinion, what that means."""
        classify = self.recipe.classify
        outcome = attempt.outcome
        if type(outcome) is not Raised:
            opinion = classify(attempt)
            return _SUCCEEDED if opinion is None else _proper(opinion)
        error = outcome.error
        if isinstance(error, BaseExceptionGroup):
            return self._classify_group(attempt, error)
        opinion = classify(attempt)
        verdicts = self.recipe.verdicts
        if verdicts is not None and type(opinion) is RetryAfter and len(verdicts) < MOST_VERDICTS:
            kind = type(error)  # what is looked up, whatever an error says of its own class
            if not issubclass(kind, DeadlineExceeded):  # there it matters whose it is
                verdicts[kind] = opinion
        if opinion is None:
            own = isinstance(error, AttemptTimedOut) and error._owner is self._call
            return _TIMED_OUT if own else _NOT_RETRYABLE
        return _proper(opinion)

    def _classify_group(
        self, attempt: Attempt, group: BaseExceptionGroup[Exception]
    ) -> RetryDecision:
        """Retry if every leaf is retried; the longest wait asked for counts, the first on a tie."""
        longest: RetryAfter | None = None
        unknown = False
        for leaf in leaves_of(group):
            alone = Attempt(
                attempt.call, attempt.number, Raised(leaf), attempt.elapsed, attempt.wall
            )
            opinion = self.recipe.classify(alone)
            if opinion is None:
                unknown = True
                continue
            answer = _proper(opinion)
            if not isinstance(answer, RetryAfter):
                return answer
            if longest is None or answer.delay > longest.delay:
                longest = answer
        return _NOT_RETRYABLE if unknown or longest is None else longest

    def _over_limit(self, reason: RetryReason) -> bool:
        limit = self.recipe.limits.get(reason)
        if limit is None:
            return False
        return (self._counts or {}).get(reason, 0) >= limit

    def _count(self, reason: RetryReason) -> None:
        counts = self._counts
        if counts is None:
            counts = self._counts = {}
        counts[reason] = counts.get(reason, 0) + 1

    def _sequence_for(self, reason: RetryReason) -> Iterator[float]:
        """The waits to draw from: one sequence, or one for each branch of a `ByReason`."""
        recipe = self.recipe
        backoff = recipe.backoff
        if recipe.plain or not isinstance(backoff, ByReason):
            rng = self._rng = recipe.rng()
            sequence = self._sequence = iter(backoff.delays(rng))
            return sequence
        branch = reason if reason in backoff.branches else None
        branches = self._branches
        if branches is None:
            branches = self._branches = {}
        following = branches.get(branch)
        if following is None:
            delays = backoff.branch(reason).delays(self._generator())
            following = branches[branch] = iter(delays)
        return following

    def _heed(self, asked: float, drawn: float, elapsed: float) -> float | DoNotRetry:
        """The wait where one was asked for or time is limited: server delay, then deadline."""
        first = drawn if self._first is None else self._first
        wait = drawn
        if asked != 0.0:
            heeded = self.recipe.server_delay(asked, drawn, first, self._generator())
            if heeded is None:
                return _SERVER_DELAY_TOO_LONG
            wait = _wait("server_delay", heeded)
            self.source = "backoff" if wait == drawn else "server"
        if self.deadline is not None and elapsed + wait >= self.deadline:
            wait = self._without_spread(asked, drawn, first, wait)
            if elapsed + wait >= self.deadline:
                return _DEADLINE_EXCEEDED
        return wait

    def _without_spread(self, asked: float, drawn: float, first: float, wait: float) -> float:
        """The wait with nothing added to what was asked for: the deadline has no room for it."""
        delay = self.recipe.server_delay
        if self.source == "server" and isinstance(delay, ServerDelay):
            least = delay.least(asked, drawn, first)
            if least is not None and least < wait:
                if least == drawn:
                    self.source = "backoff"
                return least
        return wait

    def _pay(self, budget: Budget, reason: RetryReason) -> bool:
        price = budget.withdraw(self._call, reason)
        if price is None:
            return False
        self.paid = _wait("budget", price)
        return True

    def _generator(self) -> Random:
        rng = self._rng
        if rng is None:
            rng = self._rng = self.recipe.rng()
        return rng

    def _report(self, step: str, problem: Exception) -> None:
        if self.problems is None:
            self.problems = []
        self.problems.append((step, problem))


def one_shots(call: Call) -> tuple[Any, ...]:
    """What can be gone through only once, as far as that can be told: arguments, or a request."""
    if isinstance(call, Exchange):
        return (call,)
    return one_shots_among(call.function, call.args, call.kwargs)


def one_shots_among(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The generators, async generators and coroutines among the arguments, a partial's included."""
    values = (*args, *kwargs.values()) if kwargs else args
    while type(function) is partial:
        values = (*function.args, *function.keywords.values(), *values)
        function = function.func
    for each in values:
        if type(each) in _ONE_SHOT:
            return tuple([one for one in values if type(one) in _ONE_SHOT])
    return ()


def begun_using(one_shot: Any) -> bool:
    """Whether a generator, async generator or coroutine has been started, or a body sent."""
    if isinstance(one_shot, Exchange):
        return not one_shot.replayable()
    kind = one_shot.__class__
    if kind is GeneratorType:
        return inspect.getgeneratorstate(one_shot) != inspect.GEN_CREATED
    if kind is CoroutineType:
        return inspect.getcoroutinestate(one_shot) != inspect.CORO_CREATED
    frame = one_shot.ag_frame
    if frame is None or one_shot.ag_running:
        return True
    if hasattr(one_shot, "ag_suspended"):
        return bool(one_shot.ag_suspended)
    # Python 3.11 does not tell, but a new one still stands at the instruction that made it.
    from opcode import opmap

    return bool(frame.f_code.co_code[frame.f_lasti] != opmap["RETURN_GENERATOR"])


def asks_to_stop(stop_when: StopWhen) -> bool:
    """Whether `stop_when`, a function or an event, says to stop."""
    asked: Any = getattr(stop_when, "is_set", stop_when)
    return bool(asked())


def proper_decision(decision: object, step: str) -> RetryDecision:
    """The decision, where it is one; anything else is nonsense."""
    if isinstance(decision, (RetryAfter, DoNotRetry)):
        return decision
    raise StrategyError(f"{step} must answer RetryAfter, DoNotRetry or None, got {told(decision)}")


def _proper(opinion: object) -> RetryDecision:
    return proper_decision(opinion, "classifier")


def _wait(step: str, value: object) -> float:
    """A strategy's number, where it is one: finite and not negative."""
    if is_number(value):
        number = float(value)
        if math.isfinite(number) and number >= 0.0:
            return number
    raise StrategyError(f"{step} must answer a finite number of at least 0, got {told(value)}")
