"""The pytest plugin: virtual time, no waits, fewer attempts, and the retries of a test that failed.

It does nothing to a test that does not ask for it, except to keep a short record of the retries
that the test makes: if the test fails, they are in its report.

- Fixtures `virtual_clock`, `no_waiting` and `retry_trace`.
- Marker `retry_attempts(n)`: no policy makes more than `n` calls in the test.
- Ini option `retrykit_no_waiting = true`: no retry waits in the whole run.
- `--retry-real-time`: waits are real after all, in spite of `no_waiting` and of the ini option.

All of them hold for the whole process, so that code in other threads (a test client, a worker pool)
is covered too. Works beside pytest-asyncio, anyio's plugin, pytest-trio and pytest-xdist, and for
`unittest.TestCase` with `pytest.mark.usefixtures`. The rest of the test kit is loaded where it is
asked for: this module is imported in every run of pytest.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from retrykit._context import laid
from retrykit._session import watchers
from retrykit.clock import SystemClock
from retrykit.decision import StopReason
from retrykit.events import RetryScheduled

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from retrykit.errors import PastAttempt
    from retrykit.events import Event
    from retrykit.settings import CallSettings
    from retrykit.testing._clock import VirtualClock
    from retrykit.testing._trace import RetryTrace

LONGEST_RECORD: Final = 200
"""How many lines the report of one test shows, the latest."""

_running: Final[list[pytest.Item]] = []


class _Record:
    """What the latest calls of one test came to, as text, call by call."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LONGEST_RECORD)
        self._count = 0

    def __call__(
        self, function: str, number: int, past: tuple[PastAttempt, ...], end: StopReason
    ) -> None:
        for attempt in past:
            failed = f"{function}: attempt {attempt.number} failed"
            what = attempt.error_type or "result"
            if attempt.delay is None:
                self._add(f"{failed} ({what}), no retry: {end}")
            else:
                self._add(f"{failed} ({what}, {attempt.reason}), next in {attempt.delay:.3f} s")
        if end is StopReason.SUCCEEDED:
            self._add(f"{function}: attempt {number} succeeded")
        elif not past or past[-1].delay is not None:
            self._add(f"{function}: attempt {number} was the last: {end}")

    def _add(self, line: str) -> None:
        self._count += 1
        self._lines.append(line)

    def __str__(self) -> str:
        left_out = self._count - len(self._lines)
        before = [f"({left_out} earlier lines are left out)"] if left_out else []
        return "\n".join([*before, *self._lines])


_RECORD: Final = pytest.StashKey[_Record]()
_SWITCHES: Final = pytest.StashKey[ExitStack]()
_CLOCK: Final = pytest.StashKey["VirtualClock"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("retrykit", "retries under test (retrykit)")
    group.addoption(
        "--retry-real-time",
        action="store_true",
        help="let retries wait for real, in spite of no_waiting and retrykit_no_waiting",
    )
    parser.addini(
        "retrykit_no_waiting",
        help="take the waits out of every retry in the whole run",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "retry_attempts(n): no policy makes more than n calls in this test (retrykit)"
    )
    if config.getini("retrykit_no_waiting") and not _is_real(config):
        from retrykit.testing._switches import without_waits

        switches = ExitStack()
        switches.enter_context(without_waits(lambda _: None, everywhere=True))
        config.add_cleanup(switches.close)


def _is_real(config: pytest.Config) -> bool:
    return bool(config.getoption("--retry-real-time"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    record = item.stash[_RECORD] = _Record()
    watchers.append(record)
    _running.append(item)
    try:
        with ExitStack() as item.stash[_SWITCHES]:
            return (yield)
    finally:
        _running.remove(item)
        watchers.remove(record)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("retry_attempts")
    if marker is not None:
        from retrykit.testing._switches import limit_attempts

        try:
            limit = limit_attempts(*marker.args, everywhere=True, **marker.kwargs)
        except (TypeError, ValueError) as error:
            pytest.fail(f"retry_attempts takes a number of calls: {error}", pytrace=False)
        item.stash[_SWITCHES].enter_context(limit)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    record = item.stash.get(_RECORD, None)
    text = str(record) if record is not None else ""
    if report.failed and text:
        report.sections.append(("retries", text))
    return report


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Generator[VirtualClock, None, None]:
    """A `VirtualClock`: every policy that has the system's clock runs on it during the test."""
    clock = _clock_of(request.node)
    with laid(adjust=_on(clock), in_all_threads=True):
        yield clock


@pytest.fixture
def no_waiting(request: pytest.FixtureRequest) -> Generator[list[float], None, None]:
    """No retry waits during the test; the list holds the waits, in seconds, as they are asked for.

    With `--retry-real-time` they are waited for all the same, and listed.
    """
    if _is_real(request.config):
        waits: list[float] = []

        def listen(event: Event) -> None:
            if isinstance(event, RetryScheduled):
                waits.append(event.delay)

        with _told_to(listen):
            yield waits
    else:
        from retrykit.testing._switches import instant

        with instant(everywhere=True) as waits:
            yield waits


@pytest.fixture
def retry_trace() -> Generator[RetryTrace, None, None]:
    """The decisions of every retried call that the test makes, a `retrykit.testing.RetryTrace`."""
    from retrykit.testing._trace import RetryTrace

    with _told_to(trace := RetryTrace()):
        yield trace


def _told_to(listener: Callable[[Any], object]) -> AbstractContextManager[None]:
    """Have every call of the process tell the listener too."""

    def adjust(settings: CallSettings) -> CallSettings:
        return replace(settings, listeners=(*settings.listeners, listener))

    return laid(adjust=adjust, in_all_threads=True)


def loop_factory() -> asyncio.AbstractEventLoop:
    """A new event loop: on the clock of the running test where it uses `virtual_clock`.

    Elsewhere an ordinary one. For plugins that take a factory, in `conftest.py`:

        def pytest_asyncio_loop_factories(config, item):
            return {"retrykit": loop_factory}

        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"loop_factory": loop_factory}
    """
    import asyncio

    item = _running[-1] if _running else None
    if item is not None and "virtual_clock" in getattr(item, "fixturenames", ()):
        return _clock_of(item).loop_factory()
    return asyncio.new_event_loop()


def _clock_of(item: pytest.Item) -> VirtualClock:
    clock = item.stash.get(_CLOCK, None)
    if clock is None:
        from retrykit.testing._clock import VirtualClock

        clock = item.stash[_CLOCK] = VirtualClock()
    return clock


def _on(clock: VirtualClock) -> Any:
    """Put on the clock what runs on the system's."""
    from retrykit.testing._switches import InstantClock

    def adjust(settings: CallSettings) -> CallSettings:
        own: object = settings.clock
        while isinstance(own, InstantClock):
            own = own.clock
        return replace(settings, clock=clock) if isinstance(own, SystemClock) else settings

    return adjust
