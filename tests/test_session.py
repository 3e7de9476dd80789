"""The end of a call: the error itself, one note, no cycle; and what a broken part does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import pickle
import time
import traceback
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
import trio

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    OnException,
    OnResult,
    RatioBudget,
    RetriesExhausted,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    ServerDelay,
    StopReason,
    current_attempt,
    disabled,
    retry,
)
from retrykit._session import LONGEST_CHAIN, leave_out, watchers
from retrykit.errors import AttemptTimedOut, DeadlineExceeded, PastAttempt
from retrykit.events import AttemptFailed, CallFailed, CallGaveUp, RetryScheduled
from retrykit.testing import VirtualClock

POLICY = RetryPolicy.on(ConnectionError, attempts=3, backoff=[0] * 10_000, listeners=())
WATCHED = POLICY.replace(listeners=(lambda event: None,))
POLICIES = pytest.mark.parametrize(
    "policy", [pytest.param(POLICY, id="fast"), pytest.param(WATCHED, id="watched")]
)


def call_blocking(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    return retry(policy=policy)(function)()


def call_directly(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    return policy.call(function)


def call_method(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    class Holder:
        @retry(policy=policy)
        def method(self) -> Any:
            return function()

    return Holder().method()


def call_block(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    for attempt in policy:
        with attempt:
            return function()
    return None


def call_generator(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    @retry(policy=policy)
    def generator() -> Iterator[Any]:
        yield function()

    return next(generator())


async def call_async(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    @retry(policy=policy)
    async def coroutine() -> Any:
        await policy.clock.sleep_async(0)
        return function()

    return await coroutine()


async def call_async_block(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    async for attempt in policy:
        with attempt:
            await policy.clock.sleep_async(0)
            return function()


async def call_async_timed(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    return await call_async(policy.replace(attempt_timeout=60), function)


async def call_async_generator(policy: RetryPolicy, function: Callable[[], Any]) -> Any:
    @retry(policy=policy)
    async def generator() -> AsyncIterator[Any]:
        await policy.clock.sleep_async(0)
        yield function()

    async with contextlib.aclosing(generator()) as items:
        return await anext(items)


class Form:
    """One way to make a call, on one kind of runner; what it comes to is caught in there."""

    def __init__(self, call: Callable[..., Any], runner: Callable[..., Any] | None = None) -> None:
        self.call = call
        self.runner = runner
        self.block = call.__name__.endswith("block")
        self.__name__ = f"{call.__name__}-{'blocking' if runner is None else runner.__module__}"

    def __call__(self, policy: RetryPolicy, function: Callable[[], Any]) -> Any:
        """The value, or the error raised once more."""
        got = self.outcome(policy, function)
        if isinstance(got, Exception):
            raise got
        return got

    def outcome(
        self, policy: RetryPolicy, function: Callable[[], Any], *, handling: bool = False
    ) -> Any:
        """The value or the error; `handling` makes the call while another error is handled."""
        if self.runner is None:
            try:
                if not handling:
                    return self.call(policy, function)
                try:
                    raise RuntimeError("handled by the caller")
                except RuntimeError:
                    return self.call(policy, function)
            except Exception as error:
                return error

        async def scene() -> Any:
            try:
                if not handling:
                    return await self.call(policy, function)
                try:
                    raise RuntimeError("handled by the caller")
                except RuntimeError:
                    return await self.call(policy, function)
            except Exception as error:
                return error

        return self.runner(scene)

    def then(
        self, policy: RetryPolicy, function: Callable[[], Any], check: Callable[[], Any]
    ) -> Any:
        """Make the call, drop what it comes to, and give what `check` says then."""
        if self.runner is None:
            try:
                self.call(policy, function)
            except Exception:
                pass
            return check()

        async def scene() -> Any:
            try:
                await self.call(policy, function)
            except Exception:
                pass
            return check()

        return self.runner(scene)


def run_asyncio(scene: Callable[[], Any]) -> Any:
    return asyncio.run(scene())


ASYNC = [call_async, call_async_block, call_async_timed, call_async_generator]
FORMS = pytest.mark.parametrize(
    "form",
    [
        *map(Form, [call_blocking, call_directly, call_method, call_block, call_generator]),
        *[Form(call, runner) for call in ASYNC for runner in (run_asyncio, trio.run)],
    ],
    ids=lambda form: form.__name__,
)


def failing(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def function() -> Any:
        raise error()

    return function


# The same object


@FORMS
@POLICIES
def test_the_last_error_itself_comes_out(form: Any, policy: RetryPolicy) -> None:
    """The same object as the last attempt's, not an earlier one's and not a wrapper."""
    raised: list[Exception] = []

    def function() -> None:
        raised.append(ConnectionResetError(len(raised)))
        raise raised[-1]

    with pytest.raises(ConnectionResetError) as caught:
        form(policy, function)
    assert caught.value is raised[2]
    assert len(raised) == 3


def outcome_of(function: Callable[[], Any]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it was to fail")


def from_cause() -> None:
    try:
        raise KeyError("context")
    except KeyError:
        raise ConnectionError("raised") from ValueError("cause")


def from_none() -> None:
    try:
        raise KeyError("context")
    except KeyError:
        raise ConnectionError("raised") from None


def in_context() -> None:
    try:
        raise KeyError("context")
    except KeyError:
        raise ConnectionError("raised")  # noqa: B904 - the implicit context is what is tested


def with_notes() -> None:
    error = ConnectionError("raised")
    error.add_note("first")
    error.add_note("second")
    raise error


@FORMS
@POLICIES
@pytest.mark.parametrize("function", [from_cause, from_none, in_context, with_notes])
@pytest.mark.parametrize("handling", [False, True])
def test_cause_context_and_notes_stay_as_the_user_set_them(
    form: Any, policy: RetryPolicy, function: Callable[[], Any], handling: bool
) -> None:
    """googleapis/python-api-core#879, jd/tenacity#24; also where the caller handles an error."""

    plain = Form(lambda policy, function: function()).outcome(policy, function, handling=handling)
    retried = form.outcome(policy, function, handling=handling)
    assert repr(retried.__cause__) == repr(plain.__cause__)
    assert repr(retried.__context__) == repr(plain.__context__)
    assert retried.__suppress_context__ == plain.__suppress_context__
    notes = list(getattr(plain, "__notes__", ()))
    assert retried.__notes__[:-1] == notes
    assert retried.__notes__[-1].startswith("retrykit: ")
    chain = [repr(each) for each in chain_of(retried)]
    assert chain.count(repr(retried)) == 1, "an earlier attempt was glued on"


def chain_of(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


@FORMS
@POLICIES
def test_the_traceback_ends_where_the_user_raised(form: Any, policy: RetryPolicy) -> None:
    """The last entries are the user's, and earlier attempts are not in it."""

    def deep() -> None:
        raise ConnectionError("here")

    def function() -> None:
        deep()

    error = outcome_of(lambda: form(policy, function))
    names = [each.name for each in traceback.extract_tb(error.__traceback__)]
    assert names[-2:] == ["function", "deep"]
    assert names.count("deep") == 1


@FORMS
@POLICIES
def test_one_error_object_raised_5000_times_keeps_a_short_traceback(
    form: Any, policy: RetryPolicy
) -> None:
    """Neither one object again and again nor two in turn make it grow."""
    for errors in ([ConnectionError("one")], [ConnectionError("one"), ConnectionError("two")]):
        count = 0

        def function(errors: list[ConnectionError] = errors) -> None:
            nonlocal count
            count += 1
            raise errors[count % len(errors)]

        error = outcome_of(lambda: form(policy.replace(attempts=5000), function))
        assert count == 5000
        assert len(traceback.extract_tb(error.__traceback__)) < 30


# Notes


@FORMS
def test_the_note_tells_what_happened(form: Any) -> None:
    """How often, how long, why, and which errors how often."""
    clock = VirtualClock()
    errors = iter([TimeoutError, TimeoutError, TimeoutError, ConnectionResetError])
    policy = RetryPolicy.on(OSError, attempts=4, backoff=[1, 1, 1.2], clock=clock)
    error = outcome_of(lambda: form(policy, failing(lambda: next(errors)())))
    (note,) = error.__notes__
    assert note.endswith(
        " gave up after 4 attempts in 3.2 s: attempts_exhausted"
        " (TimeoutError ×3, ConnectionResetError ×1)"
    )
    assert note.startswith("retrykit: ")


def test_the_note_names_the_function() -> None:
    """By the name that one would look for."""

    @retry(policy=POLICY)
    def fetch() -> None:
        raise ConnectionError

    assert outcome_of(fetch).__notes__[0].startswith("retrykit: fetch gave up after 3 attempts in")


def test_no_note_where_nothing_was_retried() -> None:
    """A first error that the classifier does not retry is nobody else's business."""
    assert not hasattr(outcome_of(lambda: POLICY.call(failing(KeyError))), "__notes__")
    with disabled():
        assert not hasattr(outcome_of(lambda: POLICY.call(failing(ConnectionError))), "__notes__")
    nested = POLICY.replace(nested="suppress")
    inner = outcome_of(
        lambda: POLICY.replace(attempts=1).call(lambda: nested.call(failing(ConnectionError)))
    )
    assert len(inner.__notes__) == 1  # the outer call's, which a limit ended


def test_a_note_where_a_later_error_is_not_retried() -> None:
    """More than one attempt was made: the note says how the last one ended it."""
    errors = iter([ConnectionError, KeyError])
    error = outcome_of(lambda: POLICY.call(failing(lambda: next(errors)())))
    assert "after 2 attempts" in error.__notes__[0]
    assert "not_retryable (ConnectionError ×1, KeyError ×1)" in error.__notes__[0]


def test_one_note_for_each_function() -> None:
    """The same error through the same function again replaces its note; another adds its own."""
    error = ConnectionError("mine")
    error.add_note("by hand")

    @retry(policy=POLICY)
    def inner() -> None:
        raise error

    @retry(policy=POLICY)
    def outer() -> None:
        inner()

    outcome_of(outer)
    outcome_of(inner)
    notes = error.__notes__
    assert notes[0] == "by hand"
    assert sorted(note.split()[1] for note in notes[1:]) == ["inner", "outer"]


class Unnotable(ConnectionError):
    """An error that takes no note."""

    def add_note(self, note: str, /) -> None:
        raise TypeError("no notes here")


def test_an_error_that_takes_no_note_is_raised_without_one() -> None:
    """Whatever makes the note fail, the error itself comes out."""
    assert isinstance(outcome_of(lambda: POLICY.call(failing(Unnotable))), Unnotable)
    broken = ConnectionError()
    broken.__notes__ = "not a list"  # type: ignore[assignment]  # the point of the test
    assert outcome_of(lambda: POLICY.call(failing(lambda: broken))) is broken
    assert broken.__notes__ == "not a list"


def test_many_types_of_errors_keep_the_note_short() -> None:
    """It names the most frequent and counts the others."""
    kinds = [type(f"E{n}", (ConnectionError,), {}) for n in range(200)]
    errors = iter(kinds)
    error = outcome_of(lambda: POLICY.replace(attempts=200).call(failing(lambda: next(errors)())))
    assert "195 more types" in error.__notes__[0]
    assert len(error.__notes__[0]) < 300


# Results


def pending() -> str:
    return "secret value"


@FORMS
def test_an_unsatisfactory_result_at_the_end(form: Any) -> None:
    """jd/tenacity#28, #123: an error that carries the value, or the value, as was asked."""
    policy = POLICY.replace(classify=OnResult(lambda value: value == "secret value"))
    if form.block:  # it sees values through set_result only: the next test
        assert form(policy, pending) in (None, "secret value")
        return
    with pytest.raises(RetriesExhausted) as caught:
        form(policy, pending)
    error = caught.value
    assert (error.value, error.attempts, error.reason) == (
        "secret value",
        3,
        StopReason.ATTEMPTS_EXHAUSTED,
    )
    assert "secret" not in str(error) + repr(error)
    assert error.history[0] == PastAttempt(1, None, RetryReason.UNSATISFACTORY, 0.0)
    assert error.history[-1] == PastAttempt(3, None, StopReason.ATTEMPTS_EXHAUSTED, None)
    assert form(policy.replace(unsatisfied="return"), pending) == "secret value"


def test_the_block_shows_values_by_set_result() -> None:
    """Without it, a block that is left well is a success whatever the result classifiers say."""
    policy = POLICY.replace(classify=OnResult(lambda value: value is None or value == "bad"))
    rounds = 0
    for attempt in policy:
        with attempt:
            rounds += 1
    assert rounds == 1
    with pytest.raises(RetriesExhausted) as caught:
        for attempt in policy:
            with attempt:
                attempt.set_result("bad")
    assert caught.value.value == "bad"


def test_an_error_that_a_value_cannot_follow_pickles() -> None:
    """PrefectHQ/prefect#14417: what does not pickle is left out, and the error travels."""
    policy = POLICY.replace(classify=OnResult(callable))
    with pytest.raises(RetriesExhausted) as caught:
        policy.call(lambda: lambda: None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.value, copy.attempts, copy.reason) == (None, 3, StopReason.ATTEMPTS_EXHAUSTED)
    assert str(copy) == str(caught.value)
    assert copy.history == caught.value.history


@pytest.mark.parametrize("kind", [AttemptTimedOut, DeadlineExceeded])
def test_time_out_errors_pickle(kind: type[Exception]) -> None:
    """With their limit, their text and their notes."""
    error = kind(2.5)
    error.add_note("kept")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert isinstance(copy, TimeoutError)
    assert str(copy) == str(error)
    assert copy.__notes__ == ["kept"]


# Leaks


class Local:
    """Something that an attempt has in a local variable."""


@FORMS
@POLICIES
@pytest.mark.parametrize("ends_well", [False, True])
def test_nothing_of_an_attempt_lives_on(form: Any, policy: RetryPolicy, ends_well: bool) -> None:
    """With the collector off, every attempt's locals go once the caller drops the error.

    cannatag/ldap3#529, ipython/ipython#8017, pyodide/pyodide#1758.
    """
    locals_seen: list[weakref.ref[Local]] = []

    def function() -> int:
        local = Local()
        locals_seen.append(weakref.ref(local))
        if ends_well and len(locals_seen) == 3:
            return 1
        raise ConnectionError("down")

    gc.collect()
    gc.disable()
    try:
        alive = form.then(policy, function, lambda: [each() is not None for each in locals_seen])
    finally:
        gc.enable()
    assert alive == [False, False, False]


@pytest.mark.parametrize("ends_well", [False, True])
def test_the_arguments_of_a_call_go_with_it(ends_well: bool) -> None:
    """With the collector off, nothing of the library's keeps what a call was made with."""

    def function(argument: Local) -> Local | None:
        if ends_well and current_attempt().number == 2:
            return None
        raise ConnectionError("down")

    argument = Local()
    seen = weakref.ref(argument)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ConnectionError):
            WATCHED.call(function, argument)
        del argument
        alive = seen() is not None
    finally:
        gc.enable()
    assert not alive


@pytest.mark.parametrize("form", [call_blocking, call_directly, call_method])
def test_an_exhausted_result_leaves_no_cycle(form: Any) -> None:
    """The value goes with the error that carries it."""
    values: list[weakref.ref[Local]] = []

    def function() -> Local:
        value = Local()
        values.append(weakref.ref(value))
        return value

    gc.collect()
    gc.disable()
    try:
        try:
            form(POLICY.replace(classify=OnResult(lambda value: True)), function)
        except RetriesExhausted:
            pass
        alive = [each() is not None for each in values]
    finally:
        gc.enable()
    assert alive == [False, False, False]


# Broken parts


def broken(*_: object, **__: object) -> Any:
    raise LookupError("broken part")


class BrokenBackoff:
    def __init__(self, *delays: Any) -> None:
        self._delays = delays

    def delays(self, rng: Any) -> Iterator[Any]:
        yield from self._delays
        raise LookupError("broken part")

    def bounds(self) -> Iterator[Any]:
        return iter(())

    @property
    def limits(self) -> Any:
        from retrykit.jitter import Bounds

        return Bounds(0.0, 1.0)


class BrokenBudget(RatioBudget):
    def withdraw(self, call: Call, reason: RetryReason, /) -> float | None:
        raise LookupError("broken part")


class NonsenseBudget(RatioBudget):
    def withdraw(self, call: Call, reason: RetryReason, /) -> Any:
        return "free"


class UnsettledBudget(RatioBudget):
    def settle(self, call: Call, /, **_: Any) -> None:
        raise LookupError("broken part")


class BrokenExecutor:
    def new_executor(self, call: Call, /) -> Any:
        return self

    def decide(self, attempt: Attempt, /) -> Any:
        raise LookupError("broken part")


class NonsenseExecutor(BrokenExecutor):
    def decide(self, attempt: Attempt, /) -> Any:
        return 0.5


class NoExecutor:
    def new_executor(self, call: Call, /) -> Any:
        return object()


class BrokenFactory:
    def new_executor(self, call: Call, /) -> Any:
        raise LookupError("broken part")


class BrokenClock(VirtualClock):
    def sleep(self, seconds: float, /) -> None:
        raise LookupError("broken part")


class StuckEnd(BrokenExecutor):
    def decide(self, attempt: Attempt, /) -> Any:
        return DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)

    def ended(self, succeeded: bool) -> None:
        raise LookupError("broken part")


def asking(attempt: Attempt) -> RetryAfter:
    return RetryAfter(5.0)


BROKEN = {
    "classifier raises": (POLICY.replace(classify=broken), "classifier raised LookupError"),
    "classifier says True": (POLICY.replace(classify=lambda a: True), "classifier must answer"),
    "classifier says a number": (POLICY.replace(classify=lambda a: 1.5), "classifier must answer"),
    "classifier says the class": (
        POLICY.replace(classify=lambda a: RetryAfter),
        "classifier must answer",
    ),
    "when raises": (
        POLICY.replace(classify=OnException(ConnectionError, when=broken)),
        "classifier raised LookupError",
    ),
    "after raises": (
        POLICY.replace(classify=OnException(ConnectionError, after=broken)),
        "classifier raised LookupError",
    ),
    "after is negative": (
        POLICY.replace(classify=OnException(ConnectionError, after=lambda e: -1)),
        "classifier raised ValueError",
    ),
    "after is NaN": (
        POLICY.replace(classify=OnException(ConnectionError, after=lambda e: float("nan"))),
        "classifier raised ValueError",
    ),
    "backoff raises": (POLICY.replace(backoff=BrokenBackoff()), "backoff raised LookupError"),
    "backoff is NaN": (POLICY.replace(backoff=BrokenBackoff(float("nan"))), "backoff must answer"),
    "backoff is negative": (POLICY.replace(backoff=BrokenBackoff(-1.0)), "backoff must answer"),
    "backoff is infinite": (
        POLICY.replace(backoff=BrokenBackoff(float("inf"))),
        "backoff must answer",
    ),
    "backoff is a word": (POLICY.replace(backoff=BrokenBackoff("soon")), "backoff must answer"),
    "server delay raises": (
        POLICY.replace(classify=asking, server_delay=broken),
        "server_delay raised LookupError",
    ),
    "server delay is a word": (
        POLICY.replace(classify=asking, server_delay=lambda *a: "soon"),
        "server_delay must answer",
    ),
    "budget raises": (POLICY.replace(budget=BrokenBudget()), "budget raised LookupError"),
    "budget answers a word": (POLICY.replace(budget=NonsenseBudget()), "budget must answer"),
    "rng raises": (
        POLICY.replace(rng=broken, classify=asking, server_delay=ServerDelay()),
        "backoff raised LookupError",
    ),
    "stop_when raises": (POLICY.replace(stop_when=broken), "stop_when raised LookupError"),
    "executor raises": (BrokenExecutor(), "executor raised LookupError"),
    "executor answers a number": (NonsenseExecutor(), "executor must answer"),
    "no executor": (NoExecutor(), "new_executor must answer"),
    "factory raises": (BrokenFactory(), "policy raised LookupError"),
    "clock raises": (POLICY.replace(clock=BrokenClock()), "clock raised LookupError"),
    "ended raises": (StuckEnd(), "executor raised LookupError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_part_never_takes_the_users_error(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The error itself comes out, at once, with a note of what was wrong, and a log record."""
    policy, said = BROKEN[name]
    mine = ConnectionError("mine")
    calls = 0

    def function() -> None:
        nonlocal calls
        calls += 1
        raise mine

    error = outcome_of(retry(policy=policy)(function))
    assert error is mine
    assert calls == 1
    (note,) = error.__notes__
    assert said in note
    assert [r.levelno for r in caplog.records if r.exc_info] == [logging.ERROR]


@pytest.mark.parametrize("name", [name for name in BROKEN if "classifier" in name])
def test_a_broken_classifier_never_takes_the_users_value(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The value is returned, and the log says what was wrong."""
    policy, _ = BROKEN[name]
    assert retry(policy=policy)(lambda: "value")() == "value"
    assert [r.levelno for r in caplog.records if r.exc_info] == [logging.ERROR]


def test_a_broken_executor_never_takes_the_users_value(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does one that answers nonsense, or that is none."""
    for policy in (BrokenExecutor(), NonsenseExecutor(), NoExecutor(), BrokenFactory()):
        assert retry(policy=policy)(lambda: "value")() == "value"
    assert len([r for r in caplog.records if r.exc_info]) == 4


def test_a_broken_backoff_under_an_unsatisfactory_value() -> None:
    """The value was worth another attempt and got none: it comes in the error that says so."""
    policy = POLICY.replace(
        classify=OnResult(lambda value: value == "bad"), backoff=BrokenBackoff()
    )
    with pytest.raises(RetriesExhausted) as caught:
        policy.call(lambda: "bad")
    assert (caught.value.value, caught.value.reason) == ("bad", StopReason.STRATEGY_FAILED)


def test_a_budget_that_cannot_be_settled_with(caplog: pytest.LogCaptureFixture) -> None:
    """A value stands, an error stands with a note."""
    policy = POLICY.replace(budget=UnsettledBudget())
    assert policy.call(lambda: "value") == "value"
    assert len(caplog.records) == 1
    error = outcome_of(lambda: policy.call(failing(ConnectionError)))
    assert "budget raised LookupError" in error.__notes__[0]


def test_a_listener_that_raises_is_logged_skipped_and_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """hynek/stamina#37, denoland/std#6996: later listeners are told all the same."""
    told: list[Any] = []
    policy = POLICY.replace(listeners=(broken, told.append))
    assert policy.call(lambda: "value") == "value"
    assert [type(each).__name__ for each in told] == ["AttemptStarted", "CallSucceeded"]
    assert len(caplog.records) == 2
    error = outcome_of(lambda: policy.call(failing(ConnectionError)))
    assert error.__notes__[0].count("listener raised LookupError") == 1
    assert isinstance(told[-1], CallGaveUp)


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_in_a_listener_leaves(leaving: type[BaseException]) -> None:
    """It is no failure of the listener's."""

    def listener(event: Any) -> None:
        if isinstance(event, RetryScheduled):
            raise leaving

    with pytest.raises(leaving):
        POLICY.replace(listeners=(listener,)).call(failing(ConnectionError))


def test_history_is_bounded_and_the_counts_are_not() -> None:
    """A call of 1,000 attempts remembers the latest, and counts them all."""
    told: list[Any] = []

    class Ends:
        kinds = frozenset({CallGaveUp})

        def __call__(self, event: Any) -> None:
            told.append(event)

    error = outcome_of(
        lambda: POLICY.replace(attempts=1000, listeners=(Ends(),)).call(failing(ConnectionError))
    )
    history = told[0].history
    assert len(history) <= 50
    assert history[-1].number == 1000
    assert "ConnectionError ×1000" in error.__notes__[0]


@FORMS
def test_who_watches_the_process_is_told_how_each_call_ended(form: Any) -> None:
    """For tests' reports: once per call that did not succeed at once, listeners or none."""
    told: list[Any] = []

    def watch(*end: Any) -> None:
        told.append(end)

    watchers.append(watch)
    try:
        policy = RetryPolicy.on(KeyError, attempts=2, backoff=[0], listeners=())
        assert form(policy, lambda: "at once") == "at once"
        assert told == []
        assert isinstance(form.outcome(policy, failing(KeyError)), KeyError)
        [(_, number, past, reason)] = told
        assert (number, reason) == (2, StopReason.ATTEMPTS_EXHAUSTED)
        assert [(each.number, each.error_type) for each in past] == [
            (1, "KeyError"),
            (2, "KeyError"),
        ]
    finally:
        watchers.remove(watch)


class Unreadable(VirtualClock):
    """A clock that answers `answers` in turn, then goes on as its class does."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)

    def now(self) -> float:
        if not self.answers:
            return super().now()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


@FORMS
@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([LookupError("broken")], "clock raised LookupError"),
        ([0.0, LookupError("broken")], "clock raised LookupError"),
        ([0.0, float("nan")], "clock must answer a finite number, got nan"),
        ([0.0, None], "clock must answer a finite number, got None"),
        ([0.0, Decimal(1)], "clock must answer a finite number, got a Decimal"),
    ],
)
def test_a_clock_that_cannot_be_read_never_takes_the_users_error(
    form: Any, answers: list[Any], said: str
) -> None:
    """The call ends after the wait with the user's own error, and the note says why."""
    mine = ConnectionError("mine")

    def function() -> None:
        raise mine

    policy = WATCHED.replace(clock=Unreadable(*answers))
    with pytest.raises(ConnectionError) as caught:
        form(policy, function)
    assert caught.value is mine
    (note,) = mine.__notes__
    assert said in note
    assert "strategy_failed" in note


def test_a_clock_that_cannot_be_read_never_takes_the_users_value() -> None:
    """What was returned is returned."""
    clock = Unreadable(*[LookupError("broken")] * 10)
    assert WATCHED.replace(clock=clock).call(lambda: "value") == "value"


def test_a_clock_without_a_wall_costs_the_retries_and_nothing_else() -> None:
    """It is the clock that is named."""

    class NoWall(VirtualClock):
        def wall(self) -> float:
            raise LookupError("broken")

    policy = POLICY.replace(clock=NoWall(), classify=lambda attempt: RetryAfter())
    error = outcome_of(lambda: policy.call(failing(ConnectionError)))
    assert "clock raised LookupError" in error.__notes__[0]


@pytest.mark.parametrize(
    "reason", [each for each in StopReason if each is not StopReason.SUCCEEDED]
)
def test_whatever_reason_a_classifier_gives_it_is_no_limit(reason: StopReason) -> None:
    """The value is returned, the error has no note after one attempt; both calls failed."""
    told: list[Any] = []
    policy = RetryPolicy(
        classify=lambda attempt: DoNotRetry(reason), listeners=(told.append,), clock=VirtualClock()
    )
    assert policy.call(lambda: "value") == "value"
    assert (type(told[-1]), told[-1].reason) == (CallFailed, reason)
    error = outcome_of(lambda: policy.call(failing(ConnectionError)))
    assert not hasattr(error, "__notes__")
    assert (type(told[-1]), told[-1].reason) == (CallFailed, reason)


@FORMS
def test_what_a_broken_part_leaves_in_the_log_shows_nothing_of_the_call(
    form: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the text of the user's error nor what a classifier answered in a decision's place."""

    def function() -> None:
        raise ConnectionError("hunter2")

    for classify in (broken, lambda attempt: {"token": "hunter2"}):
        with pytest.raises(ConnectionError) as caught:
            form(POLICY.replace(classify=classify), function)
        assert "hunter2" not in caught.value.__notes__[0]
    assert len(caplog.records) == 2
    assert "hunter2" not in caplog.text


def test_an_error_is_taken_off_its_place_in_a_problems_context() -> None:
    """Wherever along the chain it is, as far as chains are followed."""
    for length in (1, 5, LONGEST_CHAIN, LONGEST_CHAIN + 1):
        error: Exception = KeyError("the user's")
        problem: Exception = error
        for _ in range(length):
            outer = LookupError()
            outer.__context__ = problem
            problem = outer
        leave_out(error, problem)
        chain = list(chain_of_contexts(problem))
        assert (error in chain) is (length > LONGEST_CHAIN)
        assert len(chain) == length + (length > LONGEST_CHAIN)


def chain_of_contexts(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


@dataclass(frozen=True)
class FrozenError(ConnectionError):
    """An error that refuses to have any attribute set."""

    code: int


@FORMS
@POLICIES
def test_a_frozen_error_comes_out_itself(form: Any, policy: RetryPolicy) -> None:
    """Its class lets nobody set its context or add a note, which costs the note alone."""
    raised: list[FrozenError] = []

    def function() -> None:
        raised.append(FrozenError(len(raised)))
        raise raised[-1]

    for handling in (False, True):
        assert form.outcome(policy, function, handling=handling) is raised[-1]
        assert raised[-1].code == len(raised) - 1


def test_a_frozen_error_of_a_broken_part_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """In a block too, where the user's error is taken out of its context."""

    def classify(attempt: Attempt) -> None:
        raise FrozenError(7)

    with pytest.raises(ConnectionError, match="mine"):
        for attempt in POLICY.replace(classify=classify):
            with attempt:
                raise ConnectionError("mine")
    assert "FrozenError" in caplog.text
    assert "mine" not in caplog.text


# What is asked of the system's clock


class Ticks:
    """The system's clock: a second later each time it is read. Waits take none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.slept: list[float] = []
        monkeypatch.setattr(time, "monotonic", self.read)
        monkeypatch.setattr(time, "sleep", self.slept.append)

    def read(self) -> float:
        self.reads += 1
        return float(self.reads)


def fails_until(number: int, **fields: Any) -> Callable[[], str]:
    """A function that succeeds at an attempt; its error's type is known to its policy."""

    @retry(on=ConnectionError, attempts=4, backoff=[1, 2, 3], **fields)
    def function() -> str:
        if current_attempt().number < number:
            raise ConnectionError
        return "value"

    with contextlib.suppress(ConnectionError):
        function()
    return function


def test_retries_that_nobody_watches_leave_the_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once, when the call begins."""
    ticks = Ticks(monkeypatch)
    function = fails_until(4, listeners=())
    before = ticks.reads
    assert function() == "value"
    assert ticks.reads == before + 1
    assert ticks.slept == [1, 2, 3] * 2


def test_the_end_tells_the_time_that_nobody_asked_for_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock is read when the call begins and when it ends: a second, here."""
    ends: list[CallGaveUp] = []

    class OfEnds:
        kinds = frozenset({CallGaveUp})

        def __call__(self, event: CallGaveUp) -> None:
            ends.append(event)

    Ticks(monkeypatch)
    function = fails_until(5, listeners=(OfEnds(),))
    with pytest.raises(ConnectionError) as caught:
        function()
    assert caught.value.__notes__[-1].endswith(
        "gave up after 4 attempts in 1.0 s: attempts_exhausted (ConnectionError ×4)"
    )
    assert [(each.number, each.elapsed) for each in ends[1:]] == [(4, 1.0)]


def test_who_is_told_of_attempts_is_told_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read before and after each of them."""
    failures: list[AttemptFailed] = []

    class OfFailures:
        kinds = frozenset({AttemptFailed})

        def __call__(self, event: AttemptFailed) -> None:
            failures.append(event)

    Ticks(monkeypatch)
    function = fails_until(3, listeners=(OfFailures(),))
    failures.clear()
    assert function() == "value"
    assert [(each.elapsed, each.duration) for each in failures] == [(1.0, 1.0), (3.0, 1.0)]
