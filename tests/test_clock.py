"""Time as an argument: the system's clock, and which event loop runs."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from typing import Any

import pytest
import trio

from retrykit import current_attempt, retry
from retrykit.clock import (
    LONGEST_SLEEP,
    Clock,
    SystemClock,
    async_library,
    in_event_loop,
    in_trio,
)
from retrykit.testing import VirtualClock


def test_the_system_clock_is_a_clock() -> None:
    """As is every object with the four methods."""
    assert isinstance(SystemClock(), Clock)
    assert isinstance(VirtualClock(), Clock)
    assert not isinstance(time, Clock)


def test_it_reads_the_machines_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Monotonic and Unix time, looked up at each reading, so that a frozen `time` is seen."""
    monkeypatch.setattr(time, "monotonic", lambda: 12.5)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    clock = SystemClock()
    assert (clock.now(), clock.wall()) == (12.5, 1e9)


@pytest.mark.parametrize(
    ("seconds", "pieces"),
    [
        (0.0, [0.0]),
        (1.5, [1.5]),
        (LONGEST_SLEEP, [LONGEST_SLEEP]),
        (LONGEST_SLEEP + 5, [LONGEST_SLEEP, 5.0]),
        (3 * LONGEST_SLEEP, [LONGEST_SLEEP] * 3),
    ],
)
def test_a_very_long_wait_is_slept_in_pieces(
    monkeypatch: pytest.MonkeyPatch, seconds: float, pieces: list[float]
) -> None:
    """Systems refuse waits of years in one."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    SystemClock().sleep(seconds)
    assert slept == pieces


def test_system_clocks_are_all_the_same() -> None:
    """They hold nothing: they compare, hash and pickle."""
    assert SystemClock() == SystemClock() == pickle.loads(pickle.dumps(SystemClock()))
    assert len({SystemClock(), SystemClock()}) == 1
    assert repr(SystemClock()) == "SystemClock()"


async def looked_up() -> tuple[Any, bool, bool]:
    await SystemClock().sleep_async(0)
    return async_library(), in_event_loop(), in_trio(trio)


def test_asyncio_is_recognised() -> None:
    """By its running loop, also where Trio is loaded."""
    assert asyncio.run(looked_up()) == (asyncio, True, False)


def test_trio_is_recognised() -> None:
    """By its current task, also where asyncio is loaded."""
    assert trio.run(looked_up) == (trio, True, True)


def test_each_waits_on_its_own_time() -> None:
    """On Trio's clock inside of Trio: an hour passes at once on its mock clock."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def wait() -> float:
        before = trio.current_time()
        await SystemClock().sleep_async(3600)
        return trio.current_time() - before

    assert trio.run(wait, clock=clock) == pytest.approx(3600)


def test_the_inner_loop_counts() -> None:
    """A Trio run inside of an asyncio task's thread is another thread's, as ever."""
    found: list[Any] = []

    async def outer() -> None:
        thread = threading.Thread(target=lambda: found.append(trio.run(looked_up)))
        thread.start()
        thread.join()
        found.append(await looked_up())

    asyncio.run(outer())
    assert found == [(trio, True, True), (asyncio, True, False)]


def test_outside_of_a_loop_there_is_nothing_to_wait_on() -> None:
    """It says so, whatever is loaded."""
    assert in_event_loop() is False
    with pytest.raises(RuntimeError, match="retrykit waits on asyncio or Trio, and neither runs"):
        async_library()
    waiting = SystemClock().sleep_async(1)
    with pytest.raises(RuntimeError, match="neither runs here"):
        waiting.send(None)


def test_what_is_not_loaded_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that nobody imported does not run, and is not asked."""
    import sys

    monkeypatch.delitem(sys.modules, "trio")
    monkeypatch.delitem(sys.modules, "asyncio")
    assert in_event_loop() is False
    assert "trio" not in sys.modules


def test_trio_as_a_guest_of_asyncio_is_trio_and_its_host_is_asyncio() -> None:
    """Both run in one thread, and each task waits on its own."""

    @retry(on=OSError, backoff=[0.001], listeners=(), attempt_timeout=10)
    async def fetch() -> str:
        if current_attempt().number == 1:
            raise OSError
        return str(async_library().__name__)

    async def host() -> tuple[str, str]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()
        trio.lowlevel.start_guest_run(
            fetch,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=ended.set_result,
        )
        here = await fetch()
        return here, (await ended).unwrap()

    assert asyncio.run(host()) == ("asyncio", "trio")
