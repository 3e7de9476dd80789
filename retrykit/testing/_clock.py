"""A clock whose waits take no time: every wait moves it on, in the order of time."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from retrykit import _validate
from retrykit.clock import async_library
from retrykit.testing._turns import Turns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator
    from datetime import timedelta

    from retrykit.testing._foreign import AsyncioWaits, TrioWaits


class VirtualClock:
    """Virtual time: it starts at `start`, waits move it on, and nothing really waits.

    Where a wait is made decides how others see it:

    - *Blocking* (`sleep`): the clock moves on to the end of the wait. Threads take turns in the
      order of time: the clock moves on to the earliest wait once every other thread sleeps on it
      too. A thread that is busy with something else is given `grace` real seconds to come to a wait
      of its own; one that lets them pass is not waited for again until it touches the clock.
    - *asyncio, in a loop made by `loop_factory`*: time jumps to the next timer when nothing is
      ready, for all that the loop does: `asyncio.sleep`, `asyncio.timeout` and `wait_for` too.
      Sockets work; while any is open, each jump first waits `grace` real seconds for them. A
      function in an executor is waited for, up to five real seconds. For other work outside the
      loop there is `paused`.
    - *Trio under `trio.testing.MockClock(autojump_threshold=0)`*: the waits are Trio's, and both
      clocks show the same passage of time.
    - *Any other event loop*: waits made through this clock end in the order of time, once the loop
      has come to rest. The loop's own timers keep real time, timeouts included.

    `wall` is the Unix time at the start; left out, it is the real one.

    >>> clock = VirtualClock()
    >>> clock.sleep(3600)
    >>> clock.now(), clock.sleeps
    (3600.0, [3600.0])
    """

    sleeps: list[float]
    """The waits asked for, in seconds, in the order in which they began. Clear it as you like."""

    def __init__(
        self,
        start: float = 0.0,
        *,
        wall: float | None = None,
        grace: float | timedelta = 0.1,
    ) -> None:
        self.sleeps = []
        now = _validate.number("start", start)
        began = time.time() if wall is None else _validate.number("wall", wall)
        self._wall = began - now
        self._turns = Turns(now, _validate.seconds("grace", grace))
        self._mock: tuple[Any, float] | None = None
        self._foreign: WeakKeyDictionary[object, AsyncioWaits | TrioWaits] = WeakKeyDictionary()

    def now(self) -> float:
        """The virtual time, in seconds."""
        self._turns.touch()
        mock = _mock_clock()
        return self._turns.now if mock is None else self._follow(mock)

    def wall(self) -> float:
        """The Unix time, in seconds: it moves with `now`."""
        return self._wall + self.now()

    def sleep(self, seconds: float, /) -> None:
        """Move the clock on by `seconds`, in turn with the other threads that sleep on it.

        Zero returns at once. Negative, NaN and infinite are a `ValueError`.
        """
        self.spend(self._record(seconds))

    async def sleep_async(self, seconds: float, /) -> None:
        """Wait until the clock has moved on by `seconds`, on asyncio or Trio.

        Raises as `sleep` does, and `RuntimeError` where neither library runs.
        """
        async_library()
        await self.spend_async(self._record(seconds))

    def spend(self, seconds: float | timedelta, /) -> None:
        """Take `seconds`, as `sleep` does, for work and not for a wait: `sleeps` leaves it out.

        >>> clock = VirtualClock()
        >>> def slow():
        ...     clock.spend(2.5)
        >>> slow()
        >>> clock.now(), clock.sleeps
        (2.5, [])
        """
        wait = _validate.seconds("seconds", seconds)
        mock = _mock_clock()
        if mock is not None:
            self._leap(mock, wait)
        elif wait and not self._turns.skip(wait):
            self._turns.sleep(wait)

    async def spend_async(self, seconds: float | timedelta, /) -> None:
        """The same in async code: `sleep_async` for work."""
        wait = _validate.seconds("seconds", seconds)
        library = async_library()
        if not wait:
            await library.sleep(0)
        elif library.__name__ == "asyncio":
            loop = library.get_running_loop()
            if getattr(loop, "turns", None) is self._turns:
                await library.sleep(wait)
            else:
                await self._waits_of(loop).wait(wait)
        elif _mock_clock() is not None:
            self.now()
            await library.sleep(wait)
        else:
            await self._waits_of(library.lowlevel.current_trio_token()).wait(wait)

    def advance(self, seconds: float | timedelta, /) -> None:
        """Let `seconds` pass at once: what is due by then follows, late, in the order of time."""
        step = _validate.seconds("seconds", seconds)
        mock = _mock_clock()
        if mock is not None:
            self._leap(mock, step)
        else:
            self._turns.touch()
            with self._turns.lock:
                self._turns.move_to(self._turns.now + step)

    def loop_factory(self) -> asyncio.AbstractEventLoop:
        """A new asyncio event loop that runs on this clock.

        For `asyncio.Runner(loop_factory=clock.loop_factory)`, from Python 3.12 also `asyncio.run`,
        and anyio's `backend_options`.

        >>> import asyncio
        >>> clock = VirtualClock()
        >>> with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        ...     runner.run(asyncio.sleep(3600))
        >>> clock.now()
        3600.0
        """
        from retrykit.testing._loop import VirtualEventLoop

        return VirtualEventLoop(self._turns)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Stand still while work that the clock cannot see is under way (a slow subprocess, say).

        Inside, only `advance` moves the clock on. It may be nested, also across threads. Event
        loops that are not this clock's, and Trio's `MockClock`, do not know of it.
        """
        turns = self._turns
        with turns.lock:
            turns.paused += 1
        try:
            yield
        finally:
            with turns.lock:
                turns.paused -= 1
                turns.stir()

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._turns.now:g} s>"

    def _record(self, seconds: float) -> float:
        wait = _validate.seconds("seconds", seconds)
        self.sleeps.append(wait)
        return wait

    def _follow(self, mock: Any) -> float:
        """Bring this clock and Trio's `MockClock` to the same time: the later one."""
        turns = self._turns
        with turns.lock:
            theirs: float = mock.current_time()
            if self._mock is None or self._mock[0] is not mock:
                self._mock = (mock, turns.now - theirs)
            ours = theirs + self._mock[1]
            if ours < turns.now:
                mock.jump(turns.now - ours)
            elif ours > turns.now:
                turns.move_to(ours)
            return turns.now

    def _leap(self, mock: Any, step: float) -> None:
        self._follow(mock)
        mock.jump(step)
        self._follow(mock)

    def _waits_of(self, runner: object) -> AsyncioWaits | TrioWaits:
        """The waits of an event loop; of a run of Trio, which is known by its token."""
        waits = self._foreign.get(runner)
        if waits is None:
            from retrykit.testing._foreign import AsyncioWaits, TrioWaits

            kind = AsyncioWaits if hasattr(runner, "call_soon") else TrioWaits
            waits = self._foreign[runner] = kind(self._turns)
        return waits


def _mock_clock() -> Any:
    """The `MockClock` of the Trio run that this code is in, or `None`."""
    trio = sys.modules.get("trio")
    testing = sys.modules.get("trio.testing")
    if trio is None or testing is None or not trio.lowlevel.in_trio_run():
        return None
    clock = trio.lowlevel.current_clock()
    return clock if isinstance(clock, testing.MockClock) else None
