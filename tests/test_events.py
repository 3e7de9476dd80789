"""What is told of a call, and what the log keeps of it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import logging.handlers
import pickle
import queue
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from retrykit import OnResult, RetriesExhausted, RetryPolicy, retry
from retrykit.decision import RetryReason, StopReason
from retrykit.errors import PastAttempt
from retrykit.events import (
    EVERY_KIND,
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallEnded,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    LogRetries,
    RetryScheduled,
    kinds_of,
    log_fields,
    log_retries,
)
from retrykit.outcome import Raised, Returned
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrykit.events import Event

SECRET = "hunter2"


class Unprintable(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise AssertionError("the text of a user's error was asked for")

    __repr__ = __str__


def scheduled(
    function: str = "fetch",
    *,
    error: Exception | None = None,
    error_type: str | None = "TimeoutError",
    policy: str | None = None,
) -> RetryScheduled:
    """Attempt 1 failed and another follows in a quarter of a second."""
    outcome = Raised(error or TimeoutError(SECRET)) if error_type else Returned(SECRET)
    return RetryScheduled(
        policy, function, 1, 0, 0.125, 0.25, "backoff", RetryReason.TIMED_OUT, error_type, outcome
    )


def end(
    kind: type[CallEnded], number: int, *, reason: StopReason = StopReason.ATTEMPTS_EXHAUSTED
) -> CallEnded:
    """The call's unhappy end after `number` attempts."""
    history = (PastAttempt(1, "TimeoutError", RetryReason.TIMED_OUT, 0.25),)
    outcome = Raised(TimeoutError(SECRET))
    return kind(None, "fetch", number, 0, 1.5, reason, "TimeoutError", outcome, history)


def quick() -> RetryPolicy:
    """Two attempts, in virtual time."""
    return RetryPolicy.on(OSError, attempts=2, clock=VirtualClock())


def leak() -> OSError:
    """An error that carries what a log must not."""
    error = OSError(f"https://user:{SECRET}@example.org/?token={SECRET}")
    error.add_note(SECRET)
    return error


def every_event() -> list[Event]:
    """One event of each kind, with a secret wherever one could hide."""
    outcome = Raised(TimeoutError(SECRET))
    return [
        AttemptStarted(None, "fetch", 1, 0, 0.0),
        AttemptFailed(None, "fetch", 1, 0, 0.1, 0.1, "TimeoutError", outcome),
        scheduled(),
        scheduled(error_type=None),
        CallSucceeded(None, "fetch", 2, 0, 0.5, 0.1),
        *(end(kind, 2) for kind in (CallFailed, CallGaveUp, CallCancelled)),
    ]


class Records(logging.Handler):
    """Keeps what it is given; a line that cannot be formatted is an error, not a note."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def records() -> Iterator[Records]:
    """What the library's own logger writes."""
    handler = Records()
    logger = logging.getLogger("retrykit")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def logger_with(handler: logging.Handler, logger: logging.Logger | None = None) -> logging.Logger:
    """A logger of its own that writes to `handler` alone."""
    logger = logger or logging.Logger("myapp")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    return logger


class TestLines:
    """Which events give a line, and what it says."""

    def test_a_retry_is_one_info_line(self, records: Records) -> None:
        """A scheduled retry names the function, what failed, the wait and who asked for it."""
        log_retries(scheduled())
        (record,) = records.records
        assert (record.name, record.levelno) == ("retrykit", logging.INFO)
        assert record.getMessage() == (
            "fetch: attempt 1 failed (TimeoutError, timed_out), next in 0.250 s (backoff)"
        )

    def test_a_result_has_no_error_type(self, records: Records) -> None:
        """A result that was not good enough is called a result."""
        log_retries(scheduled(error_type=None))
        assert records.lines == [
            "fetch: attempt 1 failed (result, timed_out), next in 0.250 s (backoff)"
        ]

    @pytest.mark.parametrize("number", [1, 4])
    def test_a_give_up_is_one_warning(self, records: Records, number: int) -> None:
        """A limit's refusal is a warning, also where it refused the first retry."""
        log_retries(end(CallGaveUp, number))
        assert [record.levelno for record in records.records] == [logging.WARNING]
        why = "(TimeoutError, attempts_exhausted)"
        assert records.lines == [f"fetch: gave up after attempt {number} {why}, 1.500 s in all"]

    def test_a_failure_after_a_retry_is_one_warning(self, records: Records) -> None:
        """Once a retry was told of, its failure for good is told of too."""
        log_retries(end(CallFailed, 2, reason=StopReason.NOT_RETRYABLE))
        assert [record.levelno for record in records.records] == [logging.WARNING]
        assert records.lines == [
            "fetch: attempt 2 failed for good (TimeoutError, not_retryable), 1.500 s in all"
        ]

    def test_a_failure_that_nobody_retried_is_left_to_the_caller(self, records: Records) -> None:
        """An ordinary exception is logged by whoever catches it."""
        log_retries(end(CallFailed, 1, reason=StopReason.NOT_RETRYABLE))
        assert records.records == []

    @pytest.mark.parametrize(
        "event",
        [
            AttemptStarted(None, "fetch", 1, 0, 0.0),
            AttemptFailed(None, "fetch", 1, 0, 0.1, 0.1, "OSError", Raised(OSError())),
            CallSucceeded(None, "fetch", 2, 0, 0.5, 0.1),
            end(CallCancelled, 2),
        ],
        ids=lambda event: type(event).__name__,
    )
    def test_other_events_give_no_line(self, records: Records, event: Event) -> None:
        """Attempts, successes and cancels are not logged, even when handed over by force."""
        log_retries(event)
        assert records.records == []

    def test_the_format_is_constant(self, records: Records) -> None:
        """Error trackers group by the template: it is the same for every function and error."""
        log_retries(scheduled("fetch"))
        log_retries(scheduled("send", error_type=None))
        first, second = records.records
        assert first.msg == second.msg
        assert first.args == ("fetch", 1, "TimeoutError", "timed_out", 0.25, "backoff")


class TestKinds:
    """Nothing is built for a line that nobody would read."""

    @pytest.mark.parametrize(
        ("level", "kinds"),
        [
            (logging.DEBUG, {RetryScheduled, CallFailed, CallGaveUp}),
            (logging.INFO, {RetryScheduled, CallFailed, CallGaveUp}),
            (logging.WARNING, {CallFailed, CallGaveUp}),
            (logging.ERROR, set()),
        ],
    )
    def test_kinds_follow_the_level(
        self, records: Records, level: int, kinds: set[type[Event]]
    ) -> None:
        """The logger's level decides which events are asked for."""
        logging.getLogger("retrykit").setLevel(level)
        assert log_retries.kinds == kinds

    def test_kinds_follow_the_level_of_an_adapted_logger(self) -> None:
        """An adapter asks the logger behind it."""
        logger = logging.Logger("myapp", logging.ERROR)
        assert LogRetries(logging.LoggerAdapter(logger, {})).kinds == set()

    def test_kinds_are_empty_while_logging_is_disabled(self, records: Records) -> None:
        """`logging.disable` switches the listener off as well."""
        logging.disable(logging.CRITICAL)
        try:
            assert log_retries.kinds == set()
        finally:
            logging.disable(logging.NOTSET)

    def test_a_listener_without_kinds_takes_all(self) -> None:
        """A plain function hears of everything."""
        assert kinds_of(print) == EVERY_KIND

    def test_kinds_may_be_any_collection(self) -> None:
        """A list of kinds is as good as a frozenset."""

        class Mine:
            kinds = [CallGaveUp]  # noqa: RUF012 - what a user would write

            def __call__(self, event: object) -> None: ...

        assert kinds_of(Mine()) == {CallGaveUp}

    @pytest.mark.parametrize("kinds", [property(lambda self: 1 / 0), 7], ids=["raises", "number"])
    def test_a_listener_whose_kinds_fail_is_logged_and_skipped(
        self, records: Records, kinds: Any
    ) -> None:
        """A listener's mistake is no reason to fail a call (hynek/stamina#37)."""
        broken = type("Broken", (), {"kinds": kinds, "__call__": lambda self, event: None})()
        heard: list[Event] = []
        policy = RetryPolicy(listeners=(broken, heard.append, log_retries))
        assert policy.call(lambda: "value") == "value"
        assert [type(event) for event in heard] == [AttemptStarted, CallSucceeded]
        assert records.lines == ["the kinds of a listener failed"]


class TestFields:
    """The structured side of a record."""

    def test_each_record_carries_the_events_fields(self, records: Records) -> None:
        """A JSON formatter finds every field of the event, prefixed, as a plain value."""
        log_retries(scheduled(policy="github"))
        (record,) = records.records
        ours = {k: v for k, v in record.__dict__.items() if k.startswith("retrykit_")}
        assert ours == {
            "retrykit_policy": "github",
            "retrykit_function": "fetch",
            "retrykit_number": 1,
            "retrykit_depth": 0,
            "retrykit_elapsed": 0.125,
            "retrykit_delay": 0.25,
            "retrykit_source": "backoff",
            "retrykit_reason": "timed_out",
            "retrykit_error_type": "TimeoutError",
        }
        assert {type(value) for value in ours.values()} == {str, int, float}

    def test_a_give_up_carries_its_reason(self, records: Records) -> None:
        """The End's fields are those of a retry without the wait."""
        log_retries(end(CallGaveUp, 3))
        (record,) = records.records
        assert record.__dict__["retrykit_reason"] == "attempts_exhausted"
        assert record.__dict__["retrykit_number"] == 3
        assert "retrykit_delay" not in record.__dict__

    @pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
    def test_no_field_meets_a_log_records_own(self, event: Event) -> None:
        """`logging` refuses an extra key that a record has already (`name`, `args`, `module` …)."""
        taken = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
        assert not taken & set(log_fields(event))

    def test_fields_live_with_a_record_factory_that_uses_the_plain_names(
        self, records: Records
    ) -> None:
        """A program whose records have `function`, `reason`, `delay` … of their own keeps them."""
        usual = logging.getLogRecordFactory()

        def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = usual(*args, **kwargs)
            for name in RetryScheduled.fields:
                setattr(record, name, "mine")
            return record

        logging.setLogRecordFactory(factory)
        try:
            log_retries(scheduled())
        finally:
            logging.setLogRecordFactory(usual)
        (record,) = records.records
        assert record.__dict__["reason"] == "mine"
        assert record.__dict__["retrykit_reason"] == "timed_out"


class TestSecrets:
    """What a record must not hold (litl/backoff#16, hynek/stamina's default hook)."""

    def test_no_attribute_of_a_record_holds_a_value_or_an_error_text(
        self, records: Records
    ) -> None:
        """Every attribute of every record is searched, its nested parts by their repr."""
        for event in every_event():
            log_retries(event)
        assert len(records.records) == 4
        for record in records.records:
            assert SECRET not in record.getMessage()
            for name, value in record.__dict__.items():
                assert SECRET not in f"{value!r} {value}", name
            assert record.exc_info is None
            assert record.exc_text is None

    def test_nothing_that_a_call_is_made_with_reaches_the_log(self, records: Records) -> None:
        """Arguments of every kind, the instance, the value, the error and its URL stay out."""

        class Client:
            def __repr__(self) -> str:
                return SECRET

            @retry(policy=quick())
            def get(self, *args: object, **kwargs: object) -> object:
                raise leak()

        @retry(policy=quick())
        async def get(*args: object, **kwargs: object) -> object:
            raise leak()

        @retry(policy=quick())
        def pages(*args: object, **kwargs: object) -> Iterator[str]:
            if args:
                raise leak()
            yield SECRET

        @retry(
            policy=RetryPolicy(classify=OnResult(lambda _: True), attempts=2, clock=VirtualClock())
        )
        def polled(*args: object, **kwargs: object) -> str:
            return SECRET

        def plain(*args: object, **kwargs: object) -> object:
            raise leak()

        def block(*args: object, **kwargs: object) -> None:
            for attempt in quick():
                with attempt:
                    raise leak()

        given = (SECRET, {"Authorization": SECRET})
        named = {"url": f"https://user:{SECRET}@example.org/?token={SECRET}"}
        calls: list[Callable[[], object]] = [
            lambda: Client().get(*given, **named),
            lambda: asyncio.run(get(*given, **named)),
            lambda: list(pages(*given, **named)),
            lambda: polled(*given, **named),
            lambda: quick().call(partial(plain, *given, **named), *given),
            lambda: block(*given, **named),
        ]
        for call in calls:
            with pytest.raises((OSError, RetriesExhausted)):
                call()
        assert [record.levelname for record in records.records] == ["INFO", "WARNING"] * 6
        for record in records.records:
            for name, value in record.__dict__.items():
                assert SECRET not in f"{value!r} {value}", name

    @pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
    def test_no_repr_of_an_event_holds_a_value_or_an_error_text(self, event: Event) -> None:
        """Whoever logs the event itself gives nothing away."""
        assert SECRET not in f"{event!r} {event} {log_fields(event)!r}"


class TestAwkwardTexts:
    """Errors and names that are hostile to formatting."""

    @pytest.mark.parametrize("error", [Unprintable(), OSError("100 %s {} {0!r} %(x)d")])
    def test_an_errors_text_is_never_made(self, records: Records, error: Exception) -> None:
        """An error whose `__str__` raises, or whose text holds formats, is logged by its type."""
        log_retries(scheduled(error=error, error_type=type(error).__name__))
        why = f"({type(error).__name__}, timed_out)"
        assert records.lines == [f"fetch: attempt 1 failed {why}, next in 0.250 s (backoff)"]

    @pytest.mark.parametrize("name", ["%s%d%", "{}{0}{x!r}", "$name", "\N{SNOWMAN}", "%(a)s"])
    def test_names_are_taken_literally(self, records: Records, name: str) -> None:
        """Formats in a function's or a type's name show as they are."""
        log_retries(scheduled(name, error_type=name))
        assert records.lines == [
            f"{name}: attempt 1 failed ({name}, timed_out), next in 0.250 s (backoff)"
        ]


LINE = "{}: attempt 1 failed (TimeoutError, timed_out), next in 0.250 s (backoff)"


class BraceMessage:
    """The logging cookbook's lazy brace-style message."""

    def __init__(self, format: str, args: tuple[Any, ...]) -> None:
        self.format, self.args = format, args

    def __str__(self) -> str:
        return self.format.format(*self.args)


class BraceAdapter(logging.LoggerAdapter[Any]):
    """The logging cookbook's brace-style adapter."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            msg, more = self.process(msg, kwargs)
            self.logger.log(level, BraceMessage(str(msg), args), **more)


class PrefixAdapter(logging.LoggerAdapter[Any]):
    """Puts its context before each message, a percent sign and braces among it."""

    def process(self, msg: Any, kwargs: Any) -> Any:
        return f"[50% {{done}} {dict(self.extra or {})['user']}] {msg}", kwargs


class PrefixingBraceAdapter(BraceAdapter):
    """Both at once."""

    def process(self, msg: Any, kwargs: Any) -> Any:
        msg, kwargs = super().process(msg, kwargs)
        return f"[{dict(self.extra or {})['user']}] {msg}", kwargs


class BraceLogger(logging.Logger):
    """A logger class that formats with braces."""

    def _log(self, level: int, msg: object, args: Any, *more: Any, **kwargs: Any) -> None:
        super()._log(level, BraceMessage(str(msg), args), (), *more, **kwargs)


class BraceRecord(logging.LogRecord):
    """A record that formats with braces."""

    def getMessage(self) -> str:
        return str(self.msg).format(*(self.args or ()))


class TestOtherLoggers:
    """Every logger that the standard library's modules can be dressed up as gets the full line."""

    def test_a_brace_style_adapter(self) -> None:
        """The line is complete although the adapter never looks at a %."""
        handler = Records()
        adapter = BraceAdapter(logger_with(handler), {"user": "ann"})
        LogRetries(adapter)(scheduled("fetch{}%s"))
        assert handler.lines == [LINE.format("fetch{}%s")]
        assert handler.records[0].__dict__["user"] == "ann"
        assert handler.records[0].__dict__["retrykit_delay"] == 0.25

    def test_a_brace_style_logger_class(self) -> None:
        """The same for a subclass of `Logger`."""
        handler = Records()
        LogRetries(logger_with(handler, BraceLogger("myapp")))(scheduled("fetch{}%s"))
        assert handler.lines == [LINE.format("fetch{}%s")]

    def test_a_brace_style_record_factory(self, records: Records) -> None:
        """The same where the records themselves format with braces, under the default logger."""
        usual = logging.getLogRecordFactory()
        logging.setLogRecordFactory(BraceRecord)
        try:
            log_retries(scheduled("fetch{}%s"))
            log_retries(end(CallGaveUp, 2))
        finally:
            logging.setLogRecordFactory(usual)
        assert records.lines == [
            LINE.format("fetch{}%s"),
            "fetch: gave up after attempt 2 (TimeoutError, attempts_exhausted), 1.500 s in all",
        ]

    def test_an_adapter_that_prefixes_a_percent_sign(self) -> None:
        """What the adapter puts before the line is not taken for a format."""
        handler = Records()
        LogRetries(PrefixAdapter(logger_with(handler), {"user": "ann"}))(scheduled())
        assert handler.lines == ["[50% {done} ann] " + LINE.format("fetch")]

    def test_a_brace_style_adapter_that_prefixes(self) -> None:
        """Both at once."""
        handler = Records()
        LogRetries(PrefixingBraceAdapter(logger_with(handler), {"user": "ann"}))(scheduled())
        assert handler.lines == ["[ann] " + LINE.format("fetch")]

    def test_a_plain_adapter_keeps_its_fields_and_ours(self) -> None:
        """`LoggerAdapter` drops a caller's extra for its own; here the record has both."""
        handler = Records()
        inner = logging.LoggerAdapter(logger_with(handler), {"request": "r-1"})
        adapter = logging.LoggerAdapter(inner, {"user": "ann"})
        LogRetries(adapter)(scheduled())
        (record,) = handler.records
        assert record.args == ("fetch", 1, "TimeoutError", "timed_out", 0.25, "backoff")
        assert record.getMessage() == LINE.format("fetch")
        assert record.__dict__["request"] == "r-1"
        assert record.__dict__["user"] == "ann"
        assert record.__dict__["retrykit_reason"] == "timed_out"
        assert adapter.extra == {"user": "ann"}
        assert inner.extra == {"request": "r-1"}

    def test_an_adapter_without_extra(self) -> None:
        """`LoggerAdapter(logger)` has `None` for its extra."""
        handler = Records()
        LogRetries(logging.LoggerAdapter(logger_with(handler)))(scheduled())
        assert handler.records[0].__dict__["retrykit_reason"] == "timed_out"

    def test_an_adapter_that_makes_its_extra_anew(self) -> None:
        """An adapter whose extra cannot be replaced still gets the line."""

        class PerRequest(logging.LoggerAdapter[Any]):
            extra = property(lambda self: {"user": "ann"})

            def __init__(self, logger: logging.Logger) -> None:
                self.logger = logger

            def process(self, msg: Any, kwargs: Any) -> Any:
                return msg, {"extra": self.extra}

        handler = Records()
        LogRetries(PerRequest(logger_with(handler)))(scheduled())
        assert handler.lines == [LINE.format("fetch")]
        assert handler.records[0].__dict__["user"] == "ann"

    def test_a_name(self) -> None:
        """A name stands for the logger of that name."""
        assert LogRetries("myapp.http").logger is logging.getLogger("myapp.http")

    @pytest.mark.parametrize("wrong", [None, 7, print, logging.Logger], ids=repr)
    def test_anything_else_is_refused(self, wrong: Any) -> None:
        """What is no logger is refused when the listener is made."""
        with pytest.raises(TypeError, match=r"logger must be a logger, a LoggerAdapter or a name"):
            LogRetries(wrong)

    def test_a_json_formatter_and_a_queue(self) -> None:
        """A record survives a queue to another process, and its fields a JSON formatter."""
        lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        logger = logger_with(logging.handlers.QueueHandler(lines))
        LogRetries(logger)(scheduled())
        record = pickle.loads(pickle.dumps(lines.get()))
        assert record.getMessage() == LINE.format("fetch")
        assert json.loads(json.dumps(record.__dict__))["retrykit_number"] == 1

    def test_a_raw_record_unpickles_to_builtin_types(self, records: Records) -> None:
        """A receiver that does not have retrykit can read what a socket handler sent."""
        log_retries(scheduled())
        copy = pickle.loads(pickle.dumps(records.records[0]))
        assert type(copy.msg) is str
        assert {type(value) for value in copy.args} == {str, int, float}
        assert copy.getMessage() == LINE.format("fetch")

    def test_a_format_string_can_name_the_fields(self) -> None:
        """A plain formatter may print the fields."""
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(retrykit_function)s %(retrykit_delay)s"))
        LogRetries(logger_with(handler))(scheduled())
        assert stream.getvalue() == "fetch 0.25\n"


class TestValue:
    """`LogRetries` is a value."""

    def test_repr_can_be_evaluated(self) -> None:
        """The default prints without its logger, another with the logger's name."""
        assert repr(log_retries) == "LogRetries()"
        assert repr(LogRetries("myapp")) == "LogRetries('myapp')"
        assert eval(repr(LogRetries("myapp"))) == LogRetries("myapp")
        assert eval(repr(log_retries)) == log_retries

    def test_it_compares_and_hashes_by_its_logger(self) -> None:
        """Two listeners on one logger are equal."""
        assert LogRetries() == log_retries
        assert hash(LogRetries()) == hash(log_retries)
        assert LogRetries("myapp") != log_retries

    @pytest.mark.parametrize("listener", [log_retries, LogRetries("myapp")])
    def test_it_pickles_and_copies(self, listener: LogRetries) -> None:
        """A policy that is sent to another process takes its listener along."""
        assert pickle.loads(pickle.dumps(listener)) == listener
        assert deepcopy(listener) == listener

    def test_it_is_frozen(self) -> None:
        """A shared listener cannot be changed."""
        with pytest.raises(AttributeError):
            log_retries.logger = logging.getLogger("x")  # type: ignore[misc]  # on purpose
        assert not hasattr(log_retries, "__dict__")

    def test_the_librarys_logger_is_quiet_by_default(self) -> None:
        """Nothing reaches standard error in a program that configured no logging."""
        handlers = logging.getLogger("retrykit").handlers
        assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


def test_events_compare_by_their_fields() -> None:
    """Of the same kind, and of no other."""
    one = AttemptStarted(None, "fetch", 1, 0, 0.5)
    assert one == AttemptStarted(None, "fetch", 1, 0, 0.5)
    assert one != AttemptStarted(None, "fetch", 2, 0, 0.5)
    assert one != CallSucceeded(None, "fetch", 1, 0, 0.5, 0.5)
    assert one != "fetch"
