"""What a driver does around the attempts of one call, without I/O: time, events, the end.

A driver makes an attempt, hands its outcome to `settle`, waits as long as that says, asks `resume`
and makes the next. Everything else (events, history, deadlines, the note on the error, the
executor's `ended`) happens here once for all drivers. An attempt that leaves by an interrupt or a
cancel goes to `cancelled`. Exactly one End is told for each call.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from retrykit._context import LEAST_REMAINING, LiveAttempt, entry, everywhere, innermost, scopes
from retrykit._exchange import Exchange
from retrykit._executor import (
    _ATTEMPTS_EXHAUSTED,
    _DEADLINE_EXCEEDED,
    _NOT_REPLAYABLE,
    _STOPPED,
    _STRATEGY_FAILED,
    PolicyExecutor,
    StrategyError,
    asks_to_stop,
    begun_using,
    one_shots,
    one_shots_among,
    proper_decision,
)
from retrykit._validate import INFINITY, is_async, is_number, told
from retrykit.classify import LONGEST_CHAIN
from retrykit.clock import SystemClock
from retrykit.decision import NO_LIMIT, DoNotRetry, RetryAfter, StopReason
from retrykit.errors import AttemptTimedOut, DeadlineExceeded, PastAttempt, RetriesExhausted
from retrykit.events import (
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    Event,
    RetryScheduled,
    logger,
)
from retrykit.outcome import Attempt, Raised
from retrykit.settings import CHECKS, CallSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrykit._context import Entry
    from retrykit._executor import RetryExecutor
    from retrykit.clock import Clock
    from retrykit.decision import RetryDecision
    from retrykit.outcome import Call, Outcome

LONGEST_HISTORY: Final = 50
"""How many attempts a history remembers, the latest; earlier ones are only counted."""
MOST_TYPES: Final = 5
"""How many error types a note names."""

Past: TypeAlias = "tuple[int, type[Exception] | None, RetryDecision, float | None]"
"""An attempt's number, the type of its error if it raised, the decision, the wait after it."""

_SUCCEEDED: Final = StopReason.SUCCEEDED
_CANCELLED: Final = StopReason.CANCELLED
_DISABLED: Final = DoNotRetry(StopReason.DISABLED)
_NESTED: Final = DoNotRetry(StopReason.NESTED)
_NO_VERDICTS: Final[Mapping[type[BaseException], RetryAfter]] = {}
_NO_NOTE: Final = frozenset({StopReason.DISABLED, StopReason.NESTED})
_HINT: Final = (
    "; an argument is a generator or coroutine that the failed attempt has begun to use up:"
    " make it anew in each attempt, as in policy.call(lambda: f(make()))"
)


class StandardPolicy:
    """What is told from a foreign policy factory: its executor is ours, and fields lie over it."""

    __slots__ = ()

    def new_executor(self, call: Call, /) -> RetryExecutor:
        """An executor for one call, under the scopes that hold here."""
        inside = entry.get()
        policy, _, off, _ = laid_over(self, settings_of(self), inside)
        executor = PolicyExecutor(policy, call)
        executor.switch = switch_for(policy, inside, off)
        return executor


class Selection:
    """A policy factory that hands each call on to another one, whose settings are read then."""

    __slots__ = ()

    def policy_for(self, call: Any, /) -> Any:
        """The policy factory for one call."""
        raise NotImplementedError


class Reading:
    """How a clock of the user's own is read: the user's outcome stands whatever it answers.

    Where it fails, the last time that it told counts on, and `problem` is a line for the note.
    """

    __slots__ = ("_clock", "_last", "problem")

    problem: str | None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0.0
        self.problem = None

    def __call__(self) -> float:
        try:
            now = self._clock.now()
            if is_number(now) and -INFINITY < now < INFINITY:
                self._last = now
            else:
                self.problem = f"clock must answer a finite number, got {told(now)}"
        except Exception as problem:  # noqa: BLE001 - a foreign clock may raise anything; the outcome stands
            logger.exception("a clock failed")
            self.problem = f"clock raised {type(problem).__name__}"
        return self._last


class Session:
    """One call, as its driver sees it. Thrown away with the call."""

    __slots__ = (
        "_attempt_at",
        "_cap",
        "_counts",
        "_deadline",
        "_depth",
        "_disabled",
        "_exhausted",
        "_foreign",
        "_history",
        "_now",
        "_own",
        "_owner",
        "_problems",
        "_started",
        "_takers",
        "_timed",
        "_verdicts",
        "cell",
        "exchange",
        "is_open",
        "number",
        "previous",
        "quiet",
        "settings",
        "takes_any_value",
    )

    number: int
    """The attempt that runs, or ran last."""
    previous: Outcome | None
    """What the attempt before the running one came to, or the last one in a wait."""
    exchange: Exchange | None
    """The call, where a client's adapter makes it."""
    is_open: bool
    """Whether the call goes on."""
    takes_any_value: bool
    """Whether a value needs no decision."""
    quiet: bool
    """Whether a wait is nobody's business: nothing limits or cuts it, nobody is told before the
    call's end, and the clock is the system's."""

    def __init__(
        self,
        cell: LiveAttempt,
        settings: CallSettings,
        now: Callable[[], float],
        started: float,
        own: PolicyExecutor | None,
        foreign: RetryExecutor | None = None,
    ) -> None:
        # A call's first failure pays for each line here: what few calls have is `surround`'s.
        self.cell = cell
        self.exchange = None
        self.is_open = True
        self.settings = settings
        self.number = 1
        self.previous = None
        self._attempt_at = started
        self._cap: int | None = None
        self._counts: Counter[type[Exception] | None] | None = None
        self._deadline: float | None = None
        self._depth = 0
        self._disabled = False
        self._exhausted: RetriesExhausted | None = None
        self._foreign = foreign
        self._history: list[Past] = []
        self._own = own
        self._owner: Session | None = None
        self._problems: list[str] | None = None
        self._started = started
        takers = self._takers = settings.takers()
        # Whether somebody wants to know the time of each attempt: else the clock is left alone.
        timed = self._timed = takers.of_attempts or settings.attempt_timeout is not None
        clock = settings.clock
        by_system = type(clock) is SystemClock
        self._now = now
        if own is None:
            self.quiet = self.takes_any_value = False
            self._verdicts = _NO_VERDICTS
        else:
            recipe = own.recipe
            self.quiet = by_system and recipe.plain and not timed
            self.takes_any_value = not recipe.judges_results
            verdicts = recipe.verdicts
            self._verdicts = _NO_VERDICTS if verdicts is None else verdicts
        cell._session = self

    def surround(self, attempts_at_most: int | None, disabled: bool) -> None:
        """Take in what lies around the call: limits of time, an enclosing call, a client."""
        self._cap = attempts_at_most
        self._disabled = disabled
        settings = self.settings
        if settings.deadline is not None:
            self._deadline = self._started + settings.deadline
        outer = innermost(self.cell._outer)
        if outer is not None:
            self._inherit(outer)
        if self._deadline is not None:
            self._timed = True
            if self._own is not None:
                self._own.deadline = self._deadline - self._started
        call = self.call
        if isinstance(call, Exchange):
            self.exchange = call
        if self._timed or self.exchange is not None or settings.stop_when is not None:
            self.quiet = False

    def _inherit(self, outer: LiveAttempt) -> None:
        """Take over from an enclosing call its depth and, on the same clock, its deadline."""
        session = outer._session
        self._depth = 1
        if session is None:
            return
        self._depth += session._depth
        theirs = session._deadline
        if theirs is None or session.clock != self.clock:
            return
        if self._deadline is None or theirs < self._deadline:
            self._deadline = theirs
            self._owner = session.owner

    @property
    def owner(self) -> Session:
        """Whose deadline is the nearest: this session, or the session of a call around it."""
        return self if self._owner is None else self._owner

    @property
    def clock(self) -> Clock:
        """The call's clock."""
        return self.settings.clock

    @property
    def call(self) -> Call:
        """What is being called; made when it is first asked for."""
        return self.cell.call  # type: ignore[return-value]  # the cell is open while its session is asked

    # What a driver calls, in this order.

    def begin(self) -> None:
        """The first attempt is about to be made."""
        if AttemptStarted in self._takers:
            self._tell(AttemptStarted(*self._common(self._attempt_at - self._started)))

    def settle(self, outcome: Outcome) -> float | None:
        """How long to wait before the next attempt, or `None`: the call has ended."""
        kind: type[Exception] | None
        answer: float | DoNotRetry
        decision: RetryDecision
        if type(outcome) is Raised:
            kind = type(outcome.error)
            verdict = self._verdicts.get(kind)
        elif self.takes_any_value:
            self.succeed()
            return None
        else:
            kind = verdict = None
        if verdict is None or self._timed:
            now = self._now()
            elapsed = now - self._started
        else:
            now = elapsed = 0.0  # nobody looks at them
        if verdict is None:
            decision = self._decide(outcome, elapsed)
            answer = decision.delay if isinstance(decision, RetryAfter) else decision
        else:
            decision = verdict
            answer = self._own.weigh(verdict, self.number, elapsed)  # type: ignore[union-attr]  # a foreign executor's answers are not remembered
        if type(answer) is float or not isinstance(answer, DoNotRetry):
            if self._timed:
                self._tell_retry(outcome, now, answer, decision)
            history = self._history
            if len(history) < LONGEST_HISTORY:
                history.append((self.number, kind, decision, answer))
            else:
                self._remember(kind, decision, answer)
                self._trim(outcome)
            self.previous = outcome
            return answer
        own = self._own
        if own is not None and own.problems is not None:
            self._report_all(own)
        if answer.reason is _SUCCEEDED and kind is None:
            self.succeed()
            return None
        if not self._timed:
            now = self._now()
        if AttemptFailed in self._takers:
            self._tell_failed(outcome, now)
        self._remember(kind, answer, None)
        declined = verdict is None and own is not None and own.wanted is False
        self._end(answer.reason, outcome, now - self._started, limited=not declined)
        return None

    def accept(self) -> bool:
        """End the call well, where there is no value to judge. A foreign executor is to be asked:
        then nothing is done, and the answer is false.
        """
        if self._own is None:
            return False
        self.succeed()
        return True

    def succeed(self) -> None:
        """The call has ended well."""
        told = self._timed and CallSucceeded in self._takers
        now = self._now() if told else self._started
        self._close(True)
        if told:
            self._tell(CallSucceeded(*self._common(now - self._started), now - self._attempt_at))
        self._forget(_SUCCEEDED)

    def discard(self) -> None:
        """Before a wait: let go of what the failed attempt left open."""
        if self.exchange is not None and self.previous is not None:
            self.exchange.discard(self.previous)

    async def discard_async(self) -> None:
        """The same for async drivers."""
        if self.exchange is not None and self.previous is not None:
            await self.exchange.discard_async(self.previous)

    def resume(self) -> bool:
        """After a wait: whether the next attempt is made. If not, the last outcome stands."""
        now = self._now()
        stop = self._stop_after_wait(now)
        if stop is not None:
            self._end(stop, self.previous, now - self._started)
            return False
        own = self._own
        if own is not None and own.paid is not None:
            own.begun()
        self.number += 1
        self._attempt_at = now
        if AttemptStarted in self._takers:
            self._tell(AttemptStarted(*self._common(now - self._started)))
        return True

    def cancelled(self) -> None:
        """The call leaves by a cancel or an interrupt; nothing to do where it has ended already."""
        if not self.is_open:
            return
        elapsed = self._now() - self._started
        self._close(False)
        if CallCancelled in self._takers:
            outcome = self.previous
            self._tell(
                CallCancelled(
                    *self._common(elapsed),
                    _CANCELLED,
                    error_type_of(outcome),
                    outcome,
                    self._past(),
                )
            )
        self._forget(_CANCELLED)

    def could_not_wait(self, problem: Exception) -> None:
        """The clock failed in a wait: the last outcome stands."""
        self._report("clock", problem)
        elapsed = self._now() - self._started
        self._end(StopReason.STRATEGY_FAILED, self.previous, elapsed)

    def take_exhausted(self) -> RetriesExhausted | None:
        """The error to raise in a value's place, if any; taken out, so that no cycle is left."""
        exhausted = self._exhausted
        self._exhausted = None
        return exhausted

    # What the code inside asks, and what async drivers ask before an attempt.

    def remaining(self) -> float | None:
        """Seconds left for the attempt, above zero; `None` where nothing limits it."""
        timeout = self.settings.attempt_timeout
        ends = None if timeout is None else self._attempt_at + timeout
        deadline = self._deadline
        if deadline is not None and (ends is None or deadline < ends):
            ends = deadline
        if ends is None:
            return None
        return max(ends - self._now(), LEAST_REMAINING)

    def timeout(self) -> float | None:
        """Seconds after which the attempt that begins now is cut, or `None`."""
        timeout = self.settings.attempt_timeout
        deadline = self._deadline
        if deadline is None:
            return timeout
        left = max(deadline - self._attempt_at, 0.0)
        return left if timeout is None or left <= timeout else timeout

    def timed_out(self, cut: BaseException | None) -> AttemptTimedOut | DeadlineExceeded:
        """The error of an attempt that `timeout` has cut; `cut` shows where it was."""
        timeout = self.settings.attempt_timeout
        deadline = self._deadline
        if deadline is not None and (timeout is None or deadline - self._attempt_at <= timeout):
            owner = self.owner
            limit = owner.settings.deadline
            late = DeadlineExceeded(0.0 if limit is None else limit)
            late._owner = owner
            late.__context__ = cut
            if type(self.previous) is Raised:
                late.__cause__ = self.previous.error
            return late
        slow = AttemptTimedOut(0.0 if timeout is None else timeout)
        slow._owner = self.call
        slow.__context__ = cut
        return slow

    # The rest is private.

    def _decide(self, outcome: Outcome, elapsed: float) -> RetryDecision:
        raised = isinstance(outcome, Raised)
        if isinstance(outcome, Raised):
            error = outcome.error
            if isinstance(error, DeadlineExceeded) and error._owner is self.owner:
                return _DEADLINE_EXCEEDED
        own, foreign = self._own, self._foreign
        if own is None and (foreign is None or self._disabled):
            if not raised:
                return DoNotRetry(_SUCCEEDED)
            return _STRATEGY_FAILED if foreign is None else _DISABLED
        step = "clock"
        try:
            attempt = Attempt(self.call, self.number, outcome, elapsed, self.clock.wall())
            step = "executor"
            if own is not None:
                return own.decide(attempt)
            decision = foreign.decide(attempt)  # type: ignore[union-attr]  # there is one of the two
            return self._limit(proper_decision(decision, step), elapsed)
        except Exception as problem:  # noqa: BLE001 - a foreign executor may raise anything; the user's outcome stands
            self._report(step, problem)
            return _STRATEGY_FAILED

    def _limit(self, decision: RetryDecision, elapsed: float) -> RetryDecision:
        """What the driver adds to a foreign executor's decision."""
        if isinstance(decision, DoNotRetry):
            return decision
        stop_when = self.settings.stop_when
        if stop_when is not None and asks_to_stop(stop_when):
            return _STOPPED
        if any(map(begun_using, one_shots(self.call))):
            return _NOT_REPLAYABLE
        if self._cap is not None and self.number >= self._cap:
            return _ATTEMPTS_EXHAUSTED
        deadline = self._deadline
        if deadline is not None and elapsed + decision.delay >= deadline - self._started:
            return _DEADLINE_EXCEEDED
        return decision

    def _stop_after_wait(self, now: float) -> StopReason | None:
        unread = self._now.problem if isinstance(self._now, Reading) else None
        if unread is not None:
            self._mention(unread)
            return StopReason.STRATEGY_FAILED
        if self._deadline is not None and now >= self._deadline:
            return StopReason.DEADLINE_EXCEEDED
        stop_when = self.settings.stop_when
        if stop_when is None:
            return None
        try:
            return StopReason.STOPPED if asks_to_stop(stop_when) else None
        except Exception as problem:  # noqa: BLE001 - the user's function may raise anything
            self._report("stop_when", problem)
            return StopReason.STRATEGY_FAILED

    def _end(
        self, reason: StopReason, outcome: Outcome | None, elapsed: float, *, limited: bool = True
    ) -> None:
        """The call ends without success; not `limited` where the classifier itself said so."""
        self._close(False)
        self._trim(outcome)
        limited = limited and reason not in NO_LIMIT
        end = CallGaveUp if limited else CallFailed
        if end in self._takers:
            told = self._common(elapsed)
            self._tell(end(*told, reason, error_type_of(outcome), outcome, self._past()))
        if type(outcome) is Raised:
            if self._problems or ((self.number > 1 or limited) and reason not in _NO_NOTE):
                self._note(outcome.error, reason, elapsed, limited)
        elif limited and self._is_unsatisfied(reason) and self.settings.unsatisfied == "raise":
            self._exhausted = RetriesExhausted(
                self.call.name,
                self.number,
                reason,
                value=outcome.value,  # type: ignore[union-attr]  # it returned
                elapsed=elapsed,
                history=self._past(),
            )
        self._forget(reason)

    def _is_unsatisfied(self, reason: StopReason) -> bool:
        """Whether the value that a limit refused was worth another attempt."""
        if self._own is not None:
            return self._own.wanted is True
        return reason is not StopReason.STRATEGY_FAILED

    def _close(self, succeeded: bool) -> None:
        """Tell the executor, once."""
        self.is_open = False
        own = self._own
        if own is not None:
            if not own.simple:
                own.ended(succeeded)
                if own.problems is not None:
                    self._report_all(own)
            return
        ended = getattr(self._foreign, "ended", None)
        if ended is None:
            return
        try:
            ended(succeeded)
        except Exception as problem:  # noqa: BLE001 - a foreign executor may raise anything
            self._report("executor", problem)

    def _trim(self, outcome: Outcome | None) -> None:
        """Keep an error's traceback to its own attempt, where that may be longer."""
        if self.number > 1 and isinstance(outcome, Raised):
            trim(outcome.error)

    def _forget(self, reason: StopReason) -> None:
        """Let go of what would keep errors and arguments alive."""
        if watchers and (self._history or reason is not _SUCCEEDED):
            past = self._past()
            for watch in watchers:
                watch(self.call.name, self.number, past, reason)
        self.previous = None
        self._history.clear()

    def _common(self, elapsed: float) -> tuple[str | None, str, int, int, float]:
        return self.settings.name, self.call.name, self.number, self._depth, elapsed

    def _tell_retry(
        self,
        outcome: Outcome,
        now: float,
        wait: float,
        decision: RetryDecision,
    ) -> None:
        takers = self._takers
        if AttemptFailed in takers:
            self._tell_failed(outcome, now)
        if RetryScheduled in takers:
            source = "backoff" if self._own is None else self._own.source
            told = self._common(now - self._started)
            error_type = error_type_of(outcome)
            self._tell(RetryScheduled(*told, wait, source, decision.reason, error_type, outcome))  # type: ignore[arg-type]  # it is a retry's

    def _tell_failed(self, outcome: Outcome, now: float) -> None:
        told = self._common(now - self._started)
        duration = now - self._attempt_at
        self._tell(AttemptFailed(*told, duration, error_type_of(outcome), outcome))

    def _tell(self, event: Event) -> None:
        for listener in self._takers[event.__class__]:
            try:
                listener(event)
            except Exception as problem:  # noqa: BLE001 - a listener may raise anything; the call goes on
                self._report("listener", problem)

    def _remember(
        self,
        kind: type[Exception] | None,
        decision: RetryDecision,
        delay: float | None,
    ) -> None:
        history = self._history
        if len(history) == LONGEST_HISTORY:
            if self._counts is None:
                self._counts = Counter()
            self._counts[history.pop(0)[1]] += 1
        history.append((self.number, kind, decision, delay))

    def _past(self) -> tuple[PastAttempt, ...]:
        return tuple(
            [
                PastAttempt(number, None if kind is None else kind.__name__, decision.reason, delay)
                for number, kind, decision, delay in self._history
            ]
        )

    def _report_all(self, own: PolicyExecutor) -> None:
        problems = own.problems
        own.problems = None  # else the problem's traceback and the executor would keep each other
        while problems:
            self._report(*problems.pop(0))

    def _report(self, step: str, problem: Exception) -> None:
        """Log what a part of the policy did wrong, and keep a line of it for the note."""
        handled = getattr(self.cell, "_outcome", None)
        if type(handled) is Raised:  # in a block, whose own error is being handled: it is no part
            leave_out(handled.error, problem)
        logger.error("%s: its %s failed", self.call.name, step, exc_info=problem)
        if isinstance(problem, StrategyError):
            text = str(problem)
        else:
            text = f"{step} raised {type(problem).__name__}"
        self._mention(text)

    def _mention(self, text: str) -> None:
        """Keep a line for the note."""
        if self._problems is None:
            self._problems = []
        if text not in self._problems:
            self._problems.append(text)

    def _note(self, error: Exception, reason: StopReason, elapsed: float, limited: bool) -> None:
        """Leave one note on the error, in place of an earlier one by the same function."""
        head = f"retrykit: {self.call.name} gave up after "
        attempts = "1 attempt" if self.number == 1 else f"{self.number} attempts"
        text = f"{head}{attempts} in {elapsed:.1f} s: {reason} ({self._tally()})"
        if limited and reason is StopReason.NOT_REPLAYABLE:
            text += _HINT if self.exchange is None else self.exchange.advice
        for problem in self._problems or ():
            text += f"; {problem}"
        try:
            notes = getattr(error, "__notes__", None)
            if notes:
                notes[:] = [note for note in notes if not str(note).startswith(head)]
            error.add_note(text)
        except Exception:  # noqa: BLE001 - an error that takes no note is raised without one
            logger.debug("%s: its error takes no note", self.call.name)

    def _tally(self) -> str:
        kinds: Counter[type[Exception] | None] = Counter(self._counts)
        kinds.update([kind for _, kind, _, _ in self._history])
        counts: Counter[str] = Counter()  # two types may have one name
        for kind, count in kinds.items():
            counts["unsatisfactory result" if kind is None else kind.__name__] += count
        most = counts.most_common()
        named = [f"{name} ×{count}" for name, count in most[:MOST_TYPES]]
        if len(most) > MOST_TYPES:
            named.append(f"{len(most) - MOST_TYPES} more types")
        return ", ".join(named)


def open_plainly(
    cell: LiveAttempt,
    policy: Any,
    started: float,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Session:
    """The session of a call under the library's own policy, where nothing lies around it."""
    executor = PolicyExecutor(policy, cell)
    found = executor.one_shots = one_shots_among(function, args, kwargs)
    executor.simple = policy.plain and not found
    return Session(cell, policy.settings, time.monotonic, started, executor)


def open_session(cell: LiveAttempt, factory: Any) -> Session:
    """The session of a call that is about to be made.

    The factory is asked for an executor here, before the first attempt. One that raises or answers
    what is no executor costs the call its retries and nothing else: this is logged.
    """
    outer = cell._outer
    while isinstance(factory, Selection):
        factory = factory.policy_for(cell.call)
    settings = settings_of(factory)
    cap, off = None, False
    if outer is not None or everywhere:
        factory, settings, off, cap = laid_over(factory, settings, outer)
    problem: Exception | None = None
    own: PolicyExecutor | None = None
    foreign: RetryExecutor | None = None
    if getattr(factory.__class__, "new_executor", None) is StandardPolicy.new_executor:
        own = PolicyExecutor(factory, cell.call)  # type: ignore[arg-type]  # the cell is open
    else:
        try:
            executor = _executor_of(factory, cell.call)
        except Exception as error:  # noqa: BLE001 - a foreign factory may raise anything; the call is made
            problem = error
        else:
            if isinstance(executor, PolicyExecutor):
                own = executor
            else:
                foreign = executor
    if own is not None:
        own.switch = switch_for(factory, outer, off)
    clock = settings.clock
    now = time.monotonic if type(clock) is SystemClock else Reading(clock)
    session = Session(cell, settings, now, now(), own, foreign)
    session.surround(cap, off)
    if problem is not None:
        session._report("policy", problem)
    return session


watchers: Final[list[Callable[[str, int, tuple[PastAttempt, ...], StopReason], object]]] = []
"""Who is told how each call of the process ended that did not succeed at once: for tests.

With the function, the number of its last attempt, what happened to it, and the end. Unlike
listeners, they change nothing in how a call is driven.
"""


def _executor_of(factory: Any, call: Call | None) -> RetryExecutor:
    executor = factory.new_executor(call)
    decide = getattr(executor, "decide", None)
    if not callable(decide):
        raise StrategyError(f"new_executor must answer an executor, got {told(executor)}")
    if is_async(decide):
        raise StrategyError("decide must be a plain method, got an async one")
    return executor  # type: ignore[no-any-return]  # it has decide, and its answers are checked


def settings_of(factory: object) -> CallSettings:
    """The factory's `settings`, where it has some; else the defaults."""
    try:
        settings = getattr(factory, "settings", None)
    except Exception:  # noqa: BLE001 - a foreign factory may raise anything; the call is made
        logger.exception("the settings of a policy factory failed")
        return _DEFAULTS
    return settings if isinstance(settings, CallSettings) else _DEFAULTS


_DEFAULTS: Final = CallSettings()


def laid_over(
    factory: Any, settings: CallSettings, inside: Entry
) -> tuple[Any, CallSettings, bool, int | None]:
    """A factory and its settings under the scopes around `inside`.

    Returns them, whether retries are off there, and the most attempts allowed.
    """
    cap: int | None = None
    off = False
    found = scopes(inside)
    for scope in found:
        off = off or scope.disabled
        if isinstance(factory, StandardPolicy):
            factory = scope.applied_to(factory)
            settings = settings_of(factory)
        elif scope.fields:
            fields = {name: each for name, each in scope.fields.items() if name in CHECKS}
            settings = replace(settings, **fields)
    for scope in found:
        most = scope.attempts_at_most
        if most is not None and (cap is None or most < cap):
            cap = most
            if isinstance(factory, StandardPolicy):
                factory = scope.applied_to(factory)  # again: a scope inside may have asked for more
                settings = settings_of(factory)
    for scope in found:
        if scope.adjust is not None:
            settings = scope.adjust(settings)
    return factory, settings, off, cap


def switch_for(policy: Any, inside: Entry, off: bool) -> DoNotRetry | None:
    """What refuses every retry of a call made inside this entry, if anything."""
    if off:
        return _DISABLED
    if getattr(policy, "nested", "allow") == "suppress" and innermost(inside) is not None:
        return _NESTED
    return None


def error_type_of(outcome: Outcome | None) -> str | None:
    """The class name of the error, or `None` for a value."""
    return outcome.error.__class__.__name__ if isinstance(outcome, Raised) else None


def finish(session: Session, outcome: Outcome) -> Any:
    """What the caller gets once the call has ended: the value, or the error itself.

    The error keeps the context that it had: raising it again here, perhaps while the caller handles
    another one, would put that in its place.
    """
    if isinstance(outcome, Raised):
        error = outcome.error
        context = error.__context__
        try:
            raise error
        finally:
            _set_context(error, context)
            del outcome, error, context
    exhausted = session.take_exhausted()
    if exhausted is not None:
        try:
            raise exhausted
        finally:
            del exhausted
    return outcome.value


# An error's own class may refuse to have attributes set: a frozen dataclass does.
_set_context: Final = BaseException.__dict__["__context__"].__set__


def leave_out(error: BaseException, problem: BaseException) -> None:
    """Take an error off the end of a problem's context: its text is the user's, and not to log."""
    each: BaseException | None = problem
    for _ in range(LONGEST_CHAIN):
        if each is None:
            return
        if each.__context__ is error:
            _set_context(each, None)
        each = each.__context__


def trim(error: BaseException) -> None:
    """Cut what earlier attempts left in the traceback of an error that is raised again and again.

    The traceback begins with the driver's frame, the same in each attempt: from its second
    appearance on it is an earlier attempt's.
    """
    head = error.__traceback__
    if head is None:
        return
    frame = head.tb_frame
    each = head
    while (following := each.tb_next) is not None:
        if following.tb_frame is frame:
            each.tb_next = None
            return
        each = following
