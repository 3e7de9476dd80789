"""Retries in traces and meters, through the SDK's in-memory exporters."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import pickle
import subprocess
import sys
import threading
import time
import urllib.error
from email.message import Message
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
import trio
import trio.testing
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from retrykit import (
    Constant,
    OnResult,
    RatioBudget,
    RetryPolicy,
    RetryReason,
    retry,
)
from retrykit.decision import StopReason
from retrykit.events import (
    EVERY_KIND,
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)
from retrykit.observe.opentelemetry import OpenTelemetryListener
from retrykit.outcome import Raised
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan

SECRET = "hunter2"


class Telemetry:
    """An SDK of its own for each test, and what reached it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.tracer_provider.get_tracer("test")
        self.reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def listener(self, **settings: Any) -> OpenTelemetryListener:
        """A listener that tells this SDK."""
        providers = {
            "tracer_provider": self.tracer_provider,
            "meter_provider": self.meter_provider,
        }
        return OpenTelemetryListener(**{**providers, **settings})

    def span(self, name: str) -> Any:
        """A span of the program's, made the current one."""
        return self.tracer.start_as_current_span(name)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order in which they did."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The ended spans of one name."""
        return [span for span in self.spans if span.name == name]

    def events(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """The events on the one span of this name."""
        (span,) = self.named(name)
        return [(event.name, dict(event.attributes or {})) for event in span.events]

    def metrics(self) -> dict[str, Any]:
        """The metrics of the library, by name."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if scope.scope.name == "retrykit"
        }

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """The attributes and the value of each point of a metric."""
        metric = self.metrics().get(name)
        points = metric.data.data_points if metric else ()
        return [(dict(point.attributes), getattr(point, "value", point)) for point in points]


@pytest.fixture
def sdk() -> Telemetry:
    return Telemetry()


@pytest.fixture(autouse=True)
def _no_noise_and_nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No listener failed, OpenTelemetry did not complain, and no span stays current."""
    before = trace.get_current_span()
    yield
    assert [record.getMessage() for record in caplog.records] == []
    assert trace.get_current_span() is before
    held = [value for key, value in contextvars.copy_context().items() if "retrykit" in key.name]
    assert held == [None] * len(held)


def policy(listener: OpenTelemetryListener, **fields: Any) -> RetryPolicy:
    """Three attempts, half a second apart, in virtual time."""
    settings: dict[str, Any] = {
        "attempts": 3,
        "backoff": Constant(0.5),
        "clock": VirtualClock(),
        "listeners": (listener,),
        **fields,
    }
    return RetryPolicy.on(OSError, **settings)


def failing(times: int, error: Callable[[], Exception] | None = None) -> Callable[..., str]:
    """A function that fails so many times before it succeeds."""
    left = [times]

    def fetch(*args: object, **kwargs: object) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError(SECRET) if error is None else error()
        return SECRET

    fetch.__qualname__ = "fetch"
    return fetch


def async_failing(times: int) -> Callable[..., Any]:
    """The same as a coroutine function that gives way first."""
    plain = failing(times)

    async def fetch(*args: object, **kwargs: object) -> str:
        await asyncio.sleep(0)
        return plain()

    fetch.__qualname__ = "fetch"
    return fetch


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: Any) -> int:
    """A span's own id, whether it has ended or not."""
    found: int = span.get_span_context().span_id
    return found


def current_name() -> str:
    """The name of the span that is current."""
    span: Any = trace.get_current_span()
    return str(span.name)


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def everything_in(spans: list[ReadableSpan]) -> str:
    """All that an exporter would send of these spans."""
    return "".join(span.to_json() for span in spans)


class TestEvents:
    """`traces="events"`: an event for each retry on whatever span is current."""

    def test_a_retry_is_an_event_on_the_current_span(self, sdk: Telemetry) -> None:
        """Its attributes say who failed, why there is a retry, and when."""
        with sdk.span("request"):
            policy(sdk.listener(), name="github").call(failing(1))
        assert sdk.events("request") == [
            (
                "retrykit.retry",
                {
                    "code.function.name": "fetch",
                    "retrykit.policy.name": "github",
                    "retrykit.attempt.number": 1,
                    "retrykit.retry.reason": "transient",
                    "retrykit.retry.delay": 0.5,
                    "retrykit.retry.source": "backoff",
                    "error.type": "ConnectionError",
                },
            )
        ]
        assert [span.name for span in sdk.spans] == ["request"]

    def test_a_give_up_is_an_event(self, sdk: Telemetry) -> None:
        """The limit that refused the next retry is told of after the retries."""
        with sdk.span("request"), pytest.raises(ConnectionError):
            policy(sdk.listener()).call(failing(9), SECRET)
        names, last = zip(*sdk.events("request"), strict=True)
        assert names == ("retrykit.retry", "retrykit.retry", "retrykit.give_up")
        assert last[-1] == {
            "code.function.name": "fetch",
            "retrykit.attempt.number": 3,
            "retrykit.stop.reason": "attempts_exhausted",
            "error.type": "ConnectionError",
        }

    def test_a_failure_for_good_after_a_retry_is_an_event(self, sdk: Telemetry) -> None:
        """What nobody retried is the span's own business; after a retry it is told."""
        errors = iter([ConnectionError(), KeyError(), KeyError()])

        def fetch() -> None:
            raise next(errors)

        for name in ("first", "second"):
            with sdk.span(name), pytest.raises(KeyError):
                policy(sdk.listener()).call(fetch)
        assert [name for name, _ in sdk.events("first")] == ["retrykit.retry", "retrykit.give_up"]
        assert sdk.events("first")[-1][1]["retrykit.stop.reason"] == "not_retryable"
        assert sdk.events("second") == []

    def test_nothing_is_told_of_a_call_without_retries(self, sdk: Telemetry) -> None:
        """A first try that succeeds leaves no trace."""
        with sdk.span("request"):
            policy(sdk.listener()).call(failing(0))
        assert sdk.events("request") == []

    def test_concurrent_calls_tell_their_own_spans(self, sdk: Telemetry) -> None:
        """On asyncio each task's retries are on that task's span."""
        quick = policy(sdk.listener())

        async def handle(number: int) -> None:
            with sdk.span(f"request {number}"):
                await quick.acall(async_failing(number))

        async def main() -> None:
            await asyncio.gather(*map(handle, range(3)))

        asyncio.run(main())
        assert [len(sdk.events(f"request {number}")) for number in range(3)] == [0, 1, 2]

    def test_trio(self, sdk: Telemetry) -> None:
        """The same on Trio."""
        quick = policy(sdk.listener())

        async def handle(number: int) -> None:
            plain = failing(number)

            async def fetch() -> str:
                await trio.lowlevel.checkpoint()
                return plain()

            with sdk.span(f"request {number}"):
                await quick.acall(fetch)

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(handle, number)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        assert [len(sdk.events(f"request {number}")) for number in range(3)] == [0, 1, 2]

    def test_a_span_that_is_not_sampled_gets_nothing(self) -> None:
        """No event is built for a span that records nothing."""
        provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
        listener = OpenTelemetryListener()
        with provider.get_tracer("test").start_as_current_span("request"):
            assert listener.kinds == set()
            policy(listener).call(failing(2))


class TestSpans:
    """`traces="spans"`: a span for each attempt."""

    def test_each_attempt_is_a_child_of_the_callers_span(self, sdk: Telemetry) -> None:
        """Attempts are siblings under the span that was current at the call."""
        with sdk.span("request") as request:
            policy(sdk.listener(traces="spans"), name="github").call(failing(2))
        first, second, third = sdk.named("attempt fetch")
        assert {parent_id(span) for span in (first, second, third)} == {id_of(request)}
        assert attributes(first) == {
            "code.function.name": "fetch",
            "retrykit.policy.name": "github",
            "retrykit.attempt.number": 1,
            "error.type": "ConnectionError",
            "retrykit.retry.reason": "transient",
            "retrykit.retry.delay": 0.5,
            "retrykit.retry.source": "backoff",
        }
        assert attributes(third) == {
            "code.function.name": "fetch",
            "retrykit.policy.name": "github",
            "retrykit.attempt.number": 3,
        }
        statuses = [span.status.status_code for span in (first, second, third)]
        assert statuses == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
        assert sdk.events("request") == []

    def test_the_last_attempt_tells_why_the_call_ended(self, sdk: Telemetry) -> None:
        """A limit's or the classifier's no is on the span of the attempt that met it."""
        quick = policy(sdk.listener(traces="spans"))
        with pytest.raises(ConnectionError):
            quick.call(failing(9))
        with pytest.raises(KeyError):
            quick.call(failing(1, KeyError))
        reasons = [attributes(span).get("retrykit.stop.reason") for span in sdk.spans]
        assert reasons == [None, None, "attempts_exhausted", "not_retryable"]

    def test_the_attempts_span_is_current_inside_and_only_there(self, sdk: Telemetry) -> None:
        """What the attempt does is below it; what happens in a wait is not."""
        seen: list[str] = []

        class Watch(VirtualClock):
            def sleep(self, seconds: float, /) -> None:
                seen.append(current_name())
                super().sleep(seconds)

        plain = failing(2)

        def fetch() -> str:
            seen.append(current_name())
            with sdk.span("query"):
                return plain()

        fetch.__qualname__ = "fetch"
        with sdk.span("request"):
            policy(sdk.listener(traces="spans"), clock=Watch()).call(fetch)
            assert current_name() == "request"
        assert seen == ["attempt fetch", "request"] * 2 + ["attempt fetch"]
        attempts = [id_of(span) for span in sdk.named("attempt fetch")]
        assert [parent_id(span) for span in sdk.named("query")] == attempts

    def test_a_span_does_not_last_through_the_wait(self, sdk: Telemetry) -> None:
        """It ends with its attempt, before the wait begins."""
        spans_in_wait: list[int] = []

        class Watch(VirtualClock):
            def sleep(self, seconds: float, /) -> None:
                spans_in_wait.append(len(sdk.spans))

        policy(sdk.listener(traces="spans"), clock=Watch()).call(failing(2))
        assert spans_in_wait == [1, 2]
        first, second, _ = sdk.spans
        assert first.end_time is not None
        assert second.start_time is not None
        assert first.start_time <= first.end_time <= second.start_time  # type: ignore[operator]  # it was started

    def test_a_span_ends_when_its_attempt_was_told_to_have_failed(self, sdk: Telemetry) -> None:
        """What the policy takes to decide is not counted to the attempt."""
        listener = sdk.listener(traces="spans")
        outcome = Raised(OSError())
        why = ("backoff", RetryReason.TRANSIENT, "OSError", outcome)
        listener(AttemptStarted(None, "f", 1, 0, 0.0))
        listener(AttemptFailed(None, "f", 1, 0, 0.1, 0.1, "OSError", outcome))
        failed = time.time_ns()
        time.sleep(0.001)
        listener(RetryScheduled(None, "f", 1, 0, 0.1, 0.5, *why))
        (span,) = sdk.spans
        assert span.end_time is not None
        assert span.end_time <= failed
        listener(CallCancelled(None, "f", 1, 0, 0.2, StopReason.CANCELLED, None, None, ()))

    def test_two_listeners_on_one_call(self, sdk: Telemetry) -> None:
        """The first has its spans, and the context is left as it was found."""
        other = Telemetry()
        listeners = (sdk.listener(traces="spans"), other.listener(traces="spans"))
        policy(listeners[0], listeners=listeners).call(failing(2))
        numbers = [attributes(span)["retrykit.attempt.number"] for span in sdk.spans]
        assert numbers == [1, 2, 3]

    def test_nested_calls_nest(self, sdk: Telemetry) -> None:
        """A retried call inside another's attempt is below that attempt."""
        quick = policy(sdk.listener(traces="spans"))
        outer_fails = failing(1)

        @retry(policy=quick)
        def inner() -> str:
            return "value"

        @retry(policy=quick)
        def outer() -> str:
            inner()
            return outer_fails()

        outer()
        outers = [span for span in sdk.spans if span.name.endswith("outer")]
        inners = [span for span in sdk.spans if span.name.endswith("inner")]
        assert [parent_id(span) for span in outers] == [None, None]
        assert [parent_id(span) for span in inners] == [id_of(span) for span in outers]

    def test_a_function_that_calls_itself(self, sdk: Telemetry) -> None:
        """Recursion nests like any other call."""

        @retry(policy=policy(sdk.listener(traces="spans")))
        def count(down: int) -> int:
            return count(down - 1) + 1 if down else 0

        assert count(3) == 3
        ids = [id_of(span) for span in sdk.spans]
        assert [parent_id(span) for span in sdk.spans] == [*ids[1:], None]

    def test_a_call_that_is_made_in_anothers_wait(self, sdk: Telemetry) -> None:
        """What decides about the wait may be retried itself: the waiting call goes on as before."""
        quick = policy(sdk.listener(traces="spans"))

        def probe() -> bool:
            quick.call(failing(1))
            return False

        with sdk.span("request") as request:
            outer = failing(2, http_error(503))
            outer.__qualname__ = "outer"
            quick.replace(stop_when=probe).call(outer)
        told = [attributes(span) for span in sdk.named("attempt outer")]
        assert [each.get("http.request.resend_count") for each in told] == [None, 1, 2]
        assert {parent_id(span) for span in sdk.named("attempt outer")} == {id_of(request)}

    def test_concurrent_calls_keep_apart(self, sdk: Telemetry) -> None:
        """On asyncio, each attempt is below its own task's span, over all waits."""
        quick = policy(sdk.listener(traces="spans"))

        async def handle(number: int) -> None:
            with sdk.span(f"request {number}"):
                await quick.acall(async_failing(2))
                assert current_name() == f"request {number}"

        async def main() -> None:
            await asyncio.gather(*map(handle, range(20)))

        asyncio.run(main())
        for number in range(20):
            (request,) = sdk.named(f"request {number}")
            mine = [span for span in sdk.spans if parent_id(span) == id_of(request)]
            assert [attributes(span)["retrykit.attempt.number"] for span in mine] == [1, 2, 3]

    def test_concurrent_calls_keep_apart_on_trio(self, sdk: Telemetry) -> None:
        """The same on Trio."""
        quick = policy(sdk.listener(traces="spans"))

        async def handle(number: int) -> None:
            plain = failing(2)

            async def fetch() -> str:
                await trio.sleep(0.1)
                return plain()

            with sdk.span(f"request {number}"):
                await quick.acall(fetch)

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(handle, number)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        for number in range(10):
            (request,) = sdk.named(f"request {number}")
            mine = [span for span in sdk.spans if parent_id(span) == id_of(request)]
            assert [attributes(span)["retrykit.attempt.number"] for span in mine] == [1, 2, 3]

    def test_threads_keep_apart(self, sdk: Telemetry) -> None:
        """A call in a thread of its own has no parent there, and disturbs no other."""
        quick = policy(sdk.listener(traces="spans"))
        threads = [
            threading.Thread(target=quick.call, args=(failing(1),), daemon=True) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(sdk.spans) == 16
        assert {parent_id(span) for span in sdk.spans} == {None}

    def test_two_calls_of_one_function_in_one_attempt(self, sdk: Telemetry) -> None:
        """Tasks that one attempt starts are all below it."""
        quick = policy(sdk.listener(traces="spans"))
        inner = retry(policy=quick)(async_failing(0))

        async def outer() -> None:
            await asyncio.gather(inner(), inner(), inner())

        outer.__qualname__ = "outer"
        asyncio.run(quick.acall(outer))
        (above,) = sdk.named("attempt outer")
        below = sdk.named("attempt fetch")
        assert [parent_id(span) for span in below] == [id_of(above)] * 3

    def test_a_task_that_outlives_its_attempt(self, sdk: Telemetry) -> None:
        """It keeps the attempt for its parent, as it keeps every context; its own calls work."""
        quick = policy(sdk.listener(traces="spans"))
        later: list[asyncio.Task[str]] = []

        async def after() -> str:
            await asyncio.sleep(0.01)
            return await quick.acall(async_failing(1))

        async def outer() -> None:
            later.append(asyncio.ensure_future(after()))

        outer.__qualname__ = "outer"

        async def main() -> None:
            await quick.acall(outer)
            await later[0]

        asyncio.run(main())
        (above,) = sdk.named("attempt outer")
        assert [parent_id(span) for span in sdk.named("attempt fetch")] == [id_of(above)] * 2

    def test_a_cancelled_attempt_is_ended(self, sdk: Telemetry) -> None:
        """It is no error, and says that it was cancelled."""
        quick = policy(sdk.listener(traces="spans"))

        async def fetch() -> None:
            await asyncio.sleep(60)

        fetch.__qualname__ = "fetch"

        async def main() -> None:
            with sdk.span("request"):
                task = asyncio.ensure_future(quick.acall(fetch))
                await asyncio.sleep(0.01)
                task.cancel()
                await asyncio.wait([task])

        asyncio.run(main())
        (attempt,) = sdk.named("attempt fetch")
        assert attributes(attempt)["retrykit.stop.reason"] == "cancelled"
        assert attempt.status.status_code is StatusCode.UNSET
        assert "error.type" not in attributes(attempt)

    def test_an_interrupt_ends_the_span(self, sdk: Telemetry) -> None:
        """Ctrl-C leaves no span open and none current."""

        def fetch() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            policy(sdk.listener(traces="spans")).call(fetch)
        assert [attributes(span)["retrykit.stop.reason"] for span in sdk.spans] == ["cancelled"]

    def test_an_end_in_a_wait_is_told_on_the_callers_span(self, sdk: Telemetry) -> None:
        """There is no attempt then; the reason would be nowhere else."""
        answers = iter([False, True])
        stopped = policy(sdk.listener(traces="spans"), stop_when=lambda: next(answers))
        with sdk.span("request"), pytest.raises(ConnectionError):
            stopped.call(failing(9))
        name, told = sdk.events("request")[0]
        assert name == "retrykit.give_up"
        assert told["retrykit.stop.reason"] == "stopped"
        (attempt,) = sdk.named("attempt fetch")
        assert attributes(attempt)["retrykit.retry.reason"] == "transient"

    def test_an_attempt_that_times_out(self, sdk: Telemetry) -> None:
        """An attempt cut by its timeout is an error of that type."""
        quick = policy(
            sdk.listener(traces="spans"),
            attempts=2,
            attempt_timeout=0.01,
            clock=RetryPolicy().clock,
            backoff=Constant(0),
        )

        async def fetch() -> None:
            await asyncio.sleep(60)

        fetch.__qualname__ = "fetch"

        async def main() -> None:
            with sdk.span("request"), pytest.raises(TimeoutError):
                await quick.acall(fetch)

        asyncio.run(main())
        kinds = [attributes(span)["error.type"] for span in sdk.named("attempt fetch")]
        assert kinds == ["AttemptTimedOut"] * 2

    def test_the_block_form(self, sdk: Telemetry) -> None:
        """The code in the block is inside the attempt's span."""
        fetch = failing(2)
        with sdk.span("request") as request:
            for attempt in policy(sdk.listener(traces="spans")):
                with attempt, sdk.span("query"):
                    fetch()
            assert trace.get_current_span() is request
        attempts = sdk.named("attempt block")
        assert [parent_id(span) for span in attempts] == [id_of(request)] * 3
        assert [parent_id(span) for span in sdk.named("query")] == [
            id_of(span) for span in attempts
        ]

    def test_the_async_block_form(self, sdk: Telemetry) -> None:
        """The same in async code."""
        fetch = async_failing(2)

        async def main() -> None:
            with sdk.span("request") as request:
                async for attempt in policy(sdk.listener(traces="spans")):
                    with attempt, sdk.span("query"):
                        await fetch()
                assert trace.get_current_span() is request

        asyncio.run(main())
        attempts = sdk.named("attempt block")
        assert [parent_id(span) for span in sdk.named("query")] == [
            id_of(span) for span in attempts
        ]

    def test_another_call_between_the_loop_and_its_block(self, sdk: Telemetry) -> None:
        """What is prepared before `with attempt:` does not end the attempt's span."""
        quick = policy(sdk.listener(traces="spans"))
        for attempt in quick:
            quick.call(failing(1))
            with attempt, sdk.span("query"):
                pass
        (block,) = sdk.named("attempt block")
        (query,) = sdk.named("query")
        assert parent_id(query) == id_of(block)
        assert [parent_id(span) for span in sdk.named("attempt fetch")] == [id_of(block)] * 2

    def test_generators(self, sdk: Telemetry) -> None:
        """The attempt ends with the first item; the consumer never runs inside of it."""
        fetch = failing(1)

        @retry(policy=policy(sdk.listener(traces="spans")))
        def pages() -> Iterator[str]:
            yield fetch()
            yield "second"

        with sdk.span("request") as request:
            for _ in pages():
                assert trace.get_current_span() is request
        assert len(sdk.spans) == 3

    def test_async_generators(self, sdk: Telemetry) -> None:
        """The same in async code."""
        fetch = async_failing(1)

        @retry(policy=policy(sdk.listener(traces="spans")))
        async def pages() -> AsyncIterator[str]:
            yield await fetch()
            yield "second"

        async def main() -> None:
            with sdk.span("request") as request:
                async for _ in pages():
                    assert trace.get_current_span() is request

        asyncio.run(main())
        assert len(sdk.spans) == 3

    def test_a_plain_function_that_hands_back_a_coroutine(self, sdk: Telemetry) -> None:
        """Awaited where it is called, it is like any async function."""
        plain = async_failing(2)
        fetch: Callable[[], Any] = lambda: plain()  # noqa: E731 - a plain function of no name
        fetch = retry(policy=policy(sdk.listener(traces="spans")))(fetch)

        async def main() -> None:
            with sdk.span("request") as request:
                await fetch()
                assert trace.get_current_span() is request

        asyncio.run(main())
        (request,) = sdk.named("request")
        assert [parent_id(span) for span in sdk.spans[:-1]] == [id_of(request)] * 3

    def test_a_coroutine_that_is_finished_in_a_task_of_its_own(self, sdk: Telemetry) -> None:
        """Its first attempt began outside the task; its later ones are not below that one."""
        plain = async_failing(2)
        fetch: Callable[[], Any] = lambda: plain()  # noqa: E731 - a plain function of no name
        fetch = retry(policy=policy(sdk.listener(traces="spans")))(fetch)

        def start() -> asyncio.Task[str]:
            return asyncio.ensure_future(fetch())

        async def main() -> None:
            with sdk.span("request"):
                await contextvars.copy_context().run(start)

        asyncio.run(main())
        (request,) = sdk.named("request")
        assert [parent_id(span) for span in sdk.spans[:-1]] == [id_of(request)] * 3

    def test_an_abandoned_block_leaves_no_span_current(self, sdk: Telemetry) -> None:
        """A loop that is left inside of its block, or dropped after one, ends its call."""
        quick = policy(sdk.listener(traces="spans"))
        with sdk.span("request") as request:
            for attempt in quick:
                with attempt:
                    break
            loop = iter(quick)
            with next(loop):
                raise ConnectionError
            del loop
            gc.collect()
            assert trace.get_current_span() is request
        assert len(sdk.named("attempt block")) == 2

    def test_an_end_in_another_context_is_quiet(self, sdk: Telemetry) -> None:
        """An end that is told elsewhere raises nothing, logs nothing and changes nothing there."""
        listener = sdk.listener(traces="spans")
        outcome = Raised(OSError())
        started = AttemptStarted(None, "f", 1, 0, 0.0)
        failed = AttemptFailed(None, "f", 1, 0, 0.1, 0.1, "OSError", outcome)
        ended = CallGaveUp(None, "f", 1, 0, 0.1, StopReason.STOPPED, "OSError", outcome, ())
        with sdk.span("request") as request:
            contextvars.copy_context().run(listener, started)
            listener(failed)
            listener(ended)
            assert trace.get_current_span() is request

    def test_an_end_in_a_copy_of_the_context_ends_the_span(self, sdk: Telemetry) -> None:
        """A task that took the attempt over ends it, and has the caller's span current again."""
        listener = sdk.listener(traces="spans")
        outcome = Raised(OSError())

        def begin() -> contextvars.Context:
            listener(AttemptStarted(None, "f", 1, 0, 0.0))
            return contextvars.copy_context()

        def go_on() -> str:
            listener(AttemptFailed(None, "f", 1, 0, 0.1, 0.1, "OSError", outcome))
            return current_name()

        def go_on_elsewhere() -> str:
            with sdk.span("other"):
                return go_on()

        with sdk.span("request"):
            taken = contextvars.copy_context().run(begin)
            assert taken.run(go_on_elsewhere) == "other"
            taken.run(listener, CallSucceeded(None, "f", 1, 0, 0.1, 0.1))
            taken = contextvars.copy_context().run(begin)
            assert taken.run(go_on) == "request"
            taken.run(listener, CallSucceeded(None, "f", 1, 0, 0.1, 0.1))
        assert len(sdk.named("attempt f")) == 2

    def test_calls_whose_end_is_never_told_do_not_pile_up(self, sdk: Telemetry) -> None:
        """The next call of the same function ends what the last one left, and its context."""
        listener = sdk.listener(traces="spans")

        def abandoned() -> None:
            for _ in range(3):
                listener(AttemptStarted(None, "f", 1, 0, 0.0))
            listener(CallSucceeded(None, "f", 1, 0, 0.1, 0.1))
            assert not trace.get_current_span().get_span_context().is_valid

        contextvars.copy_context().run(abandoned)
        assert [parent_id(span) for span in sdk.named("attempt f")] == [None] * 3

    def test_no_secret_is_exported(self, sdk: Telemetry) -> None:
        """Neither arguments nor values nor error texts, nor a stack trace that could show them."""
        quick = policy(sdk.listener(traces="spans"))
        quick.call(failing(1), SECRET, url=f"https://u:{SECRET}@h/?token={SECRET}")
        with pytest.raises(ConnectionError):
            quick.call(failing(9), SECRET)
        assert len(sdk.spans) == 5
        assert SECRET not in everything_in(sdk.spans)
        assert {event.name for span in sdk.spans for event in span.events} == set()


def http_error(status: int) -> Callable[[], Exception]:
    """requests' error for a response, whose URL is full of secrets."""

    def make() -> Exception:
        response = requests.Response()
        response.status_code = status
        request = requests.Request("GET", f"https://u:{SECRET}@example.org/?token={SECRET}")
        response.request = request.prepare()
        response.url = response.request.url or ""
        return requests.HTTPError(SECRET, response=response)

    return make


class TestHttp:
    """What is said of an HTTP request: the conventions' attributes, and no more."""

    def test_a_resent_request_is_counted(self, sdk: Telemetry) -> None:
        """`http.request.resend_count` is absent at first, then the ordinal of the resend."""
        with sdk.span("request"):
            policy(sdk.listener(traces="spans")).call(failing(2, http_error(503)))
        told = [attributes(span) for span in sdk.named("attempt fetch")]
        assert [each.get("http.request.resend_count") for each in told] == [None, 1, 2]
        assert [each.get("http.response.status_code") for each in told] == [503, 503, None]
        assert [each.get("error.type") for each in told] == ["HTTPError", "HTTPError", None]
        assert SECRET not in everything_in(sdk.spans)

    def test_on_events_too(self, sdk: Telemetry) -> None:
        """A retry's event counts the resend that it announces, a give-up's those that were made."""
        with sdk.span("request"), pytest.raises(requests.HTTPError):
            policy(sdk.listener()).call(failing(9, http_error(503)))
        told = [each for name, each in sdk.events("request") if name.startswith("retrykit")]
        assert [each["http.request.resend_count"] for each in told] == [1, 2, 2]
        assert [each["http.response.status_code"] for each in told] == [503, 503, 503]
        (request,) = sdk.named("request")
        ours = [event.attributes for event in request.events if event.name.startswith("retrykit")]
        assert SECRET not in repr(ours)

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (
                lambda: httpx.HTTPStatusError(
                    SECRET,
                    request=httpx.Request("GET", f"https://h/?token={SECRET}"),
                    response=httpx.Response(502),
                ),
                502,
            ),
            (
                lambda: urllib.error.HTTPError(
                    f"https://h/?t={SECRET}", 504, SECRET, Message(), None
                ),
                504,
            ),
            (lambda: httpx.ConnectError(SECRET, request=httpx.Request("GET", "https://h/")), None),
            (lambda: httpx.ConnectError(SECRET), None),
            (lambda: requests.ConnectionError(SECRET), None),
        ],
        ids=["httpx status", "urllib", "httpx", "httpx, no request", "requests"],
    )
    def test_the_clients_errors_are_known(
        self, sdk: Telemetry, error: Callable[[], Exception], status: int | None
    ) -> None:
        """With a response or without, a client's error is of an HTTP request."""
        listener = sdk.listener(traces="spans")
        RetryPolicy.on(Exception, clock=VirtualClock(), listeners=(listener,)).call(
            failing(1, error)
        )
        first, second = (attributes(span) for span in sdk.spans)
        assert first.get("http.response.status_code") == status
        assert second["http.request.resend_count"] == 1

    def test_a_response_that_is_not_good_enough(self, sdk: Telemetry) -> None:
        """Without an exception the status is the error's type, as the conventions say."""
        answers = iter([httpx.Response(503), httpx.Response(200)])
        polling = RetryPolicy(
            classify=OnResult(lambda answer: answer.status_code == 503),
            clock=VirtualClock(),
            listeners=(sdk.listener(traces="spans"),),
        )
        with sdk.span("request"):
            polling.call(lambda: next(answers))
        first, second, _ = (attributes(span) for span in sdk.spans)
        assert first["error.type"] == "503"
        assert first["http.response.status_code"] == 503
        assert second["http.request.resend_count"] == 1

    @pytest.mark.parametrize("error", [ConnectionResetError, ConnectionError, BrokenPipeError])
    def test_a_lost_connection_alone_is_not_http(
        self, sdk: Telemetry, error: type[Exception]
    ) -> None:
        """It may be a database's or a queue's."""
        policy(sdk.listener(traces="spans")).call(failing(1, error))
        for span in sdk.spans:
            assert not [key for key in attributes(span) if key.startswith("http")]

    def test_a_result_that_is_no_response(self, sdk: Telemetry) -> None:
        """The conventions' word for an error without a type."""
        values = iter([1, 2])
        polling = RetryPolicy(
            classify=OnResult(lambda value: value < 2),
            clock=VirtualClock(),
            listeners=(sdk.listener(traces="spans"),),
        )
        polling.call(lambda: next(values))
        first, _ = sdk.spans
        assert attributes(first)["error.type"] == "_OTHER"
        assert attributes(first)["retrykit.retry.reason"] == "unsatisfactory"


class TestMetrics:
    """The meter's side."""

    def test_calls_by_result(self, sdk: Telemetry) -> None:
        """The five ends of a call, and the error's type where it failed."""
        quick = policy(sdk.listener(), name="github")
        quick.call(failing(0))
        quick.call(failing(1))
        with pytest.raises(ConnectionError):
            quick.call(failing(9))
        with pytest.raises(KeyError):
            quick.call(failing(1, KeyError))
        common = {"retrykit.policy.name": "github", "code.function.name": "fetch"}
        points = sdk.points("retrykit.calls")
        assert sorted(points, key=lambda point: point[0]["retrykit.call.result"]) == [
            ({**common, "retrykit.call.result": "after_retry"}, 1),
            (
                {
                    **common,
                    "retrykit.call.result": "failed_after_retries",
                    "error.type": "ConnectionError",
                },
                1,
            ),
            (
                {
                    **common,
                    "retrykit.call.result": "failed_without_retry",
                    "error.type": "KeyError",
                },
                1,
            ),
            ({**common, "retrykit.call.result": "first_try"}, 1),
        ]

    def test_retries_delays_and_give_ups(self, sdk: Telemetry) -> None:
        """Reasons are attributes, the delay is a histogram in seconds with fitting buckets."""
        with pytest.raises(ConnectionError):
            policy(sdk.listener()).call(failing(9))
        function = {"code.function.name": "fetch"}
        assert sdk.points("retrykit.retries") == [
            (
                {
                    **function,
                    "retrykit.retry.reason": "transient",
                    "error.type": "ConnectionError",
                },
                2,
            )
        ]
        assert sdk.points("retrykit.give_ups") == [
            ({**function, "retrykit.stop.reason": "attempts_exhausted"}, 1)
        ]
        ((labels, delays),) = sdk.points("retrykit.retry.delay")
        assert labels == function
        assert (delays.count, delays.sum) == (2, 1.0)
        assert delays.explicit_bounds[:4] == (0.05, 0.1, 0.25, 0.5)

    def test_units_and_descriptions(self, sdk: Telemetry) -> None:
        """Units as UCUM has them, counted things in braces."""
        with pytest.raises(ConnectionError):
            policy(sdk.listener(budgets={"github": RatioBudget()})).call(failing(9))
        assert {name: metric.unit for name, metric in sdk.metrics().items()} == {
            "retrykit.calls": "{call}",
            "retrykit.retries": "{retry}",
            "retrykit.give_ups": "{call}",
            "retrykit.retry.delay": "s",
            "retrykit.budget.balance": "{retry}",
        }
        assert all(metric.description for metric in sdk.metrics().values())

    def test_the_balance_of_a_budget(self, sdk: Telemetry) -> None:
        """A gauge that is read when the metrics are collected."""
        budget = RatioBudget(ratio=0.5, reserve=10)
        quick = policy(sdk.listener(budgets={"github": budget}), budget=budget)
        quick.call(failing(2))
        assert sdk.points("retrykit.budget.balance") == [({"retrykit.budget.name": "github"}, 8.5)]
        quick.call(failing(0))
        assert sdk.points("retrykit.budget.balance") == [({"retrykit.budget.name": "github"}, 9.0)]

    def test_budgets_of_several_listeners(self, sdk: Telemetry) -> None:
        """Listeners on one provider share the gauge; of two budgets with one name, the first."""
        first, second = RatioBudget(reserve=1), RatioBudget(reserve=2)
        for budgets in ({"a": first}, {"b": second}, {"a": second}):
            policy(sdk.listener(budgets=budgets)).call(failing(0))
        points = sdk.points("retrykit.budget.balance")
        assert {labels["retrykit.budget.name"]: value for labels, value in points} == {
            "a": 1.0,
            "b": 2.0,
        }

    def test_listeners_on_one_provider_share_the_instruments(self, sdk: Telemetry) -> None:
        """The SDK warns of a second instrument of the same name: there is none."""
        for _ in range(2):
            policy(sdk.listener()).call(failing(0))
        assert [value for _, value in sdk.points("retrykit.calls")] == [2]

    def test_names_are_bounded(self, sdk: Telemetry) -> None:
        """Functions, policies and error types that are made up at run time share one series."""
        listener = sdk.listener(max_values=2)
        for number in range(10):
            outcome = Raised(OSError())
            reason = StopReason.STOPPED
            names = (f"policy {number}", f"f{number}", 1, 0, 0.1)
            listener(CallGaveUp(*names, reason, f"Error{number}", outcome, ()))
        points = sdk.points("retrykit.calls")
        assert [value for _, value in points] == [1, 1, 8]
        assert points[-1][0] == {
            "retrykit.policy.name": "other",
            "code.function.name": "other",
            "error.type": "_OTHER",
            "retrykit.call.result": "failed_without_retry",
        }

    @pytest.mark.parametrize(
        ("labels", "keys"),
        [
            ((), set()),
            (("policy",), {"retrykit.policy.name"}),
            (("function",), {"code.function.name"}),
        ],
    )
    def test_labels_can_be_left_out(self, sdk: Telemetry, labels: Any, keys: set[str]) -> None:
        """Whoever has many functions counts by policy only, or by neither."""
        policy(sdk.listener(labels=labels), name="github").call(failing(0))
        ((told, _),) = sdk.points("retrykit.calls")
        assert set(told) == keys | {"retrykit.call.result"}

    def test_metrics_can_be_left_out(self, sdk: Telemetry) -> None:
        """Traces only."""
        with sdk.span("request"):
            policy(sdk.listener(metrics=False)).call(failing(1))
        assert sdk.metrics() == {}
        assert len(sdk.events("request")) == 1

    def test_traces_can_be_left_out(self, sdk: Telemetry) -> None:
        """Metrics only."""
        with sdk.span("request"):
            policy(sdk.listener(traces="off")).call(failing(1))
        assert sdk.events("request") == []
        assert [value for _, value in sdk.points("retrykit.calls")] == [1]

    def test_a_cancelled_call(self, sdk: Telemetry) -> None:
        """A result of its own, without the type of an error that did not end it."""
        ended = (StopReason.CANCELLED, "OSError", Raised(OSError()), ())
        sdk.listener()(CallCancelled(None, "f", 2, 0, 0.1, *ended))
        ((told, _),) = sdk.points("retrykit.calls")
        assert told == {"code.function.name": "f", "retrykit.call.result": "cancelled"}

    def test_no_secret_is_measured(self, sdk: Telemetry) -> None:
        """No attribute of any point holds an argument, a value or an error's text."""
        quick = policy(sdk.listener())
        quick.call(failing(1), SECRET, url=f"https://u:{SECRET}@h/?token={SECRET}")
        with pytest.raises(requests.HTTPError):
            quick.call(failing(9, http_error(503)), SECRET)
        data = sdk.reader.get_metrics_data()
        assert data is not None
        assert "failed_after_retries" in data.to_json()
        assert SECRET not in data.to_json()


WITHOUT_SDK = """
from retrykit import Constant, RetryPolicy
from retrykit.observe.opentelemetry import OpenTelemetryListener

listeners = [OpenTelemetryListener(traces=traces) for traces in ("events", "spans", "off")]
print([len(listener.kinds) for listener in listeners])

def flaky(left=[2]):
    left[0] -= 1
    if left[0] >= 0:
        raise OSError
    return "value"

print(RetryPolicy.on(OSError, backoff=Constant(0), listeners=tuple(listeners)).call(flaky))

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
print([len(listener.kinds) for listener in listeners])
RetryPolicy.on(OSError, backoff=Constant(0), listeners=(listeners[1],)).call(flaky, [2])
print([span.name for span in spans.get_finished_spans()])
print('"retrykit.calls"' in reader.get_metrics_data().to_json())
"""


class TestNothingConfigured:
    """A library may bring the listener along: without an SDK it takes no part."""

    @pytest.mark.parametrize("traces", ["events", "spans", "off"])
    def test_no_event_is_built(self, traces: Any) -> None:
        """Nobody listens, so nothing is asked for."""
        assert OpenTelemetryListener(traces=traces).kinds == set()

    def test_the_global_providers_are_found_whenever_they_are_set(self) -> None:
        """A listener that is made at import serves a program that configures the SDK later."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", WITHOUT_SDK],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.splitlines() == [
            "[0, 0, 0]",
            "value",
            "[5, 7, 5]",
            "['attempt flaky', 'attempt flaky', 'attempt flaky']",
            "True",
        ]

    @pytest.mark.parametrize(
        ("settings", "kinds"),
        [
            ({"traces": "spans"}, EVERY_KIND),
            (
                {"traces": "events"},
                {RetryScheduled, CallSucceeded, CallFailed, CallGaveUp, CallCancelled},
            ),
            ({"traces": "events", "metrics": False}, {RetryScheduled, CallFailed, CallGaveUp}),
            ({"traces": "off", "metrics": False}, set()),
        ],
    )
    def test_no_more_is_asked_for_than_is_used(
        self, sdk: Telemetry, settings: dict[str, Any], kinds: set[type]
    ) -> None:
        """Only attempts that become spans are told of."""
        with sdk.span("request"):
            assert sdk.listener(**settings).kinds == kinds


class TestSettings:
    """What the listener refuses, and that it is a value."""

    @pytest.mark.parametrize(
        ("fields", "error", "text"),
        [
            ({"traces": "all"}, ValueError, "traces must be one of 'events', 'spans', 'off'"),
            ({"traces": None}, ValueError, "traces must be one of 'events', 'spans', 'off'"),
            ({"metrics": "yes"}, TypeError, "metrics must be True or False, got 'yes'"),
            ({"labels": "policy"}, TypeError, "labels must be a tuple of names, got 'policy'"),
            (
                {"labels": ("url",)},
                ValueError,
                "labels may hold 'policy' and 'function', got 'url'",
            ),
            ({"max_values": 0}, ValueError, "max_values must be at least 1, got 0"),
            ({"budgets": {"a": 5}}, TypeError, r"budgets\['a'\] must be a budget, got 5"),
            ({"tracer_provider": 5}, TypeError, "tracer_provider must be a TracerProvider, got 5"),
            (
                {"meter_provider": MeterProvider},
                TypeError,
                "meter_provider must be a MeterProvider, got <class",
            ),
        ],
        ids=str,
    )
    def test_bad_settings_are_refused(
        self, fields: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        """Each names the field and the value."""
        with pytest.raises(error, match=text):
            OpenTelemetryListener(**fields)

    def test_it_compares_hashes_and_prints_by_its_settings(self) -> None:
        """The repr can be evaluated."""
        listener = OpenTelemetryListener(traces="spans", labels=("policy",))
        assert repr(listener) == "OpenTelemetryListener(traces='spans', labels=('policy',))"
        assert eval(repr(listener)) == listener
        assert hash(eval(repr(listener))) == hash(listener)
        assert listener != OpenTelemetryListener()

    def test_it_pickles_and_copies(self, sdk: Telemetry) -> None:
        """On the global providers it goes to another process; a copy keeps its providers."""
        listener = OpenTelemetryListener(traces="spans", budgets={"a": RatioBudget()})
        assert pickle.loads(pickle.dumps(listener)) == listener
        mine = sdk.listener()
        assert copy.copy(mine) is copy.deepcopy(mine) is mine
        whole = RetryPolicy(listeners=(listener,))
        assert pickle.loads(pickle.dumps(whole)) == whole

    def test_it_is_frozen(self) -> None:
        """A shared listener cannot be changed."""
        with pytest.raises(AttributeError):
            OpenTelemetryListener().traces = "off"  # type: ignore[misc]  # on purpose
