"""Retries as structlog's key-value events."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from retrykit import Constant, RetryPolicy
from retrykit.events import CallCancelled, CallFailed, CallGaveUp, RetryScheduled
from retrykit.observe.structlog import StructlogListener, log_retries
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrykit.events import Event

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _default_configuration() -> Iterator[None]:
    """Each test configures structlog for itself."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def json_to(stream: io.StringIO, level: int = logging.INFO) -> None:
    """Production's usual configuration: a level, JSON lines."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )


def policy(listener: StructlogListener = log_retries, **fields: Any) -> RetryPolicy:
    settings: dict[str, Any] = {"attempts": 2, "backoff": Constant(0.5), "clock": VirtualClock()}
    return RetryPolicy.on(OSError, listeners=(listener,), **settings, **fields)


class Unprintable(OSError):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise AssertionError("the text of a user's error was asked for")

    __repr__ = __str__


def fetch(*args: object, **kwargs: object) -> None:
    """Fails with a secret in its text, braces and percent signs around it."""
    raise ConnectionError(f"{SECRET} %s {{}}")


async def afetch() -> None:
    """The same in async code."""
    fetch()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestEvents:
    """Which events are logged, and with what."""

    def test_a_retry_and_a_give_up(self) -> None:
        """One info event for the retry, one warning for the end, the keys of the log fields."""
        stream = io.StringIO()
        json_to(stream)
        with pytest.raises(ConnectionError):
            policy(name="github").call(fetch)
        common = {
            "retrykit_policy": "github",
            "retrykit_function": "fetch",
            "retrykit_depth": 0,
            "retrykit_error_type": "ConnectionError",
        }
        assert lines(stream) == [
            {
                **common,
                "event": "retry scheduled",
                "level": "info",
                "retrykit_number": 1,
                "retrykit_elapsed": 0.0,
                "retrykit_delay": 0.5,
                "retrykit_source": "backoff",
                "retrykit_reason": "transient",
            },
            {
                **common,
                "event": "gave up",
                "level": "warning",
                "retrykit_number": 2,
                "retrykit_elapsed": 0.5,
                "retrykit_reason": "attempts_exhausted",
            },
        ]

    def test_a_failure_after_a_retry(self) -> None:
        """An end that the classifier decides is told of only where a retry was."""
        errors = iter([ConnectionError(), KeyError(), KeyError()])

        def fetch() -> None:
            raise next(errors)

        stream = io.StringIO()
        json_to(stream)
        for _ in range(2):
            with pytest.raises(KeyError):
                policy().call(fetch)
        assert [line["event"] for line in lines(stream)] == ["retry scheduled", "failed for good"]

    def test_other_events_are_not_logged(self) -> None:
        """A cancel is not, even when handed over by force."""
        from retrykit.decision import StopReason

        with structlog.testing.capture_logs() as logs:
            log_retries(CallCancelled(None, "f", 2, 0, 1.0, StopReason.CANCELLED, None, None, ()))
        assert logs == []

    def test_no_secret_is_logged(self) -> None:
        """Neither arguments nor error texts are in any key."""
        with structlog.testing.capture_logs() as logs, pytest.raises(ConnectionError):
            policy().call(fetch, SECRET, url=f"https://u:{SECRET}@h/?token={SECRET}")
        assert len(logs) == 2
        assert SECRET not in repr(logs)

    def test_an_errors_text_is_never_made(self) -> None:
        """An error whose `__str__` raises is logged by its type."""

        def fetch() -> None:
            raise Unprintable

        with structlog.testing.capture_logs() as logs, pytest.raises(Unprintable):
            policy().call(fetch)
        assert [log["retrykit_error_type"] for log in logs] == ["Unprintable"] * 2


class TestLoggers:
    """Every kind of logger that structlog makes."""

    def test_a_bound_logger_keeps_its_context(self) -> None:
        """What the program bound is beside what the event tells, under names of its own."""
        logger = structlog.get_logger().bind(source="web", function="handler")
        with structlog.testing.capture_logs() as logs, pytest.raises(ConnectionError):
            policy(StructlogListener(logger)).call(fetch)
        assert [(log["source"], log["function"]) for log in logs] == [("web", "handler")] * 2

    def test_context_variables_are_merged(self) -> None:
        """A request's context is on the line, as on every other."""
        stream = io.StringIO()
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(stream),
        )
        request = structlog.contextvars.bound_contextvars(request="r-1")
        with request, pytest.raises(ConnectionError):
            policy().call(fetch)
        assert [line["request"] for line in lines(stream)] == ["r-1"] * 2

    def test_the_standard_librarys_loggers(self, caplog: pytest.LogCaptureFixture) -> None:
        """Through `logging`, where braces and percent signs are formats."""
        structlog.configure(
            processors=[
                structlog.stdlib.PositionalArgumentsFormatter(),
                structlog.stdlib.render_to_log_kwargs,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
        caplog.set_level(logging.INFO, "retrykit")
        with pytest.raises(ConnectionError):
            policy().call(fetch)
        first, last = caplog.records
        assert (first.name, first.levelname, first.getMessage()) == (
            "retrykit",
            "INFO",
            "retry scheduled",
        )
        assert first.__dict__["retrykit_delay"] == 0.5
        assert (last.levelname, last.getMessage()) == ("WARNING", "gave up")

    def test_async_loggers_are_used_in_their_blocking_half(self) -> None:
        """No coroutine is made that nobody awaits."""

        async def main() -> None:
            with pytest.raises(ConnectionError):
                await policy().acall(afetch)

        stream = io.StringIO()
        structlog.configure(
            processors=[structlog.processors.JSONRenderer()],
            wrapper_class=structlog.stdlib.AsyncBoundLogger,
            logger_factory=lambda *_: logging.getLogger("retrykit.test_async"),
        )
        logger = logging.getLogger("retrykit.test_async")
        handler = logging.StreamHandler(stream)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            asyncio.run(main())
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        assert [line["event"] for line in lines(stream)] == ["retry scheduled", "gave up"]

    def test_a_generic_logger(self) -> None:
        """A wrapper that hands on whatever method it lacks is not asked for its level."""
        stream = io.StringIO()
        structlog.configure(
            processors=[structlog.processors.JSONRenderer()],
            wrapper_class=structlog.BoundLogger,
            logger_factory=structlog.WriteLoggerFactory(stream),
        )
        assert log_retries.kinds == {RetryScheduled, CallFailed, CallGaveUp}
        assert stream.getvalue() == ""

    def test_the_configuration_is_that_of_the_moment(self) -> None:
        """A listener made at import follows a `configure` that comes later."""
        for _ in range(2):
            stream = io.StringIO()
            json_to(stream)
            with pytest.raises(ConnectionError):
                policy().call(fetch)
            assert len(lines(stream)) == 2

    @pytest.mark.parametrize(
        ("level", "kinds"),
        [
            (logging.DEBUG, {RetryScheduled, CallFailed, CallGaveUp}),
            (logging.INFO, {RetryScheduled, CallFailed, CallGaveUp}),
            (logging.WARNING, {CallFailed, CallGaveUp}),
            (logging.ERROR, set()),
        ],
    )
    def test_kinds_follow_the_level(self, level: int, kinds: set[type[Event]]) -> None:
        """Nothing is built for a line that the level drops."""
        json_to(io.StringIO(), level)
        assert log_retries.kinds == kinds

    def test_kinds_follow_the_standard_librarys_level(self) -> None:
        """A logger of the standard library behind it is asked."""
        logger = logging.Logger("quiet", logging.ERROR)
        wrapped = structlog.wrap_logger(logger, wrapper_class=structlog.stdlib.BoundLogger)
        assert StructlogListener(wrapped).kinds == set()

    @pytest.mark.parametrize("wrong", ["name", logging.getLogger("x"), structlog.BoundLogger, 5])
    def test_other_loggers_are_refused(self, wrong: Any) -> None:
        """What is no structlog logger is refused when the listener is made."""
        with pytest.raises(TypeError, match="logger must be a structlog logger"):
            StructlogListener(wrong)


class TestValue:
    """The listener is a value."""

    def test_it_compares_and_hashes_by_its_logger(self) -> None:
        """A bound logger has no hash, a policy with it has."""
        logger = structlog.get_logger().bind(a=1)
        assert StructlogListener(logger) == StructlogListener(logger) != log_retries
        assert hash(policy(StructlogListener(logger))) is not None
        assert StructlogListener() == log_retries
        assert log_retries != "log_retries"

    def test_the_default_pickles_copies_and_prints(self) -> None:
        """A policy that goes to another process takes it along."""
        assert pickle.loads(pickle.dumps(log_retries)) == log_retries
        assert copy.copy(log_retries) == copy.deepcopy(log_retries) == log_retries
        assert repr(log_retries) == "StructlogListener()"
        assert eval(repr(log_retries)) == log_retries
        assert repr(StructlogListener(structlog.get_logger())).startswith(
            "StructlogListener(<Bound"
        )
