"""Virtual waits on event loops that keep real time: they end in order, once the loop rests.

An ordinary asyncio loop does not tell when it has nothing to do; a woken task is given a number of
passes of the loop to come to its next wait. Trio tells.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from retrykit.testing._turns import Turns

PASSES: Final = 10
"""Passes of an asyncio loop that a woken task has to come to its next wait."""


class AsyncioWaits:
    """The virtual waits of one asyncio loop."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._order = count()
        self._queue: list[tuple[float, int, asyncio.Future[None]]] = []
        self._settling = False

    async def wait(self, seconds: float) -> None:
        """Wait in the order of time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        heappush(self._queue, (self._turns.now + seconds, next(self._order), future))
        if not self._settling:
            self._settling = True
            loop.call_soon(self._settle, loop, PASSES)
        await future

    def _settle(self, loop: asyncio.AbstractEventLoop, passes: int) -> None:
        if passes:
            loop.call_soon(self._settle, loop, passes - 1)
            return
        queue = self._queue
        while queue and queue[0][2].done():
            heappop(queue)
        if queue:
            when = queue[0][0]
            self._turns.move_to(when)
            while queue and queue[0][0] == when:
                future = heappop(queue)[2]
                if not future.done():
                    future.set_result(None)
            loop.call_soon(self._settle, loop, PASSES)
        else:
            self._settling = False


class TrioWaits:
    """The virtual waits of one run of Trio whose clock is no `MockClock`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._order = count()
        self._queue: list[tuple[float, int, Any]] = []
        self._settling = False

    async def wait(self, seconds: float) -> None:
        """Wait in the order of time."""
        import trio

        entry = (self._turns.now + seconds, next(self._order), trio.Event())
        heappush(self._queue, entry)
        if not self._settling:
            self._settling = True
            trio.lowlevel.spawn_system_task(self._settle)
        await entry[2].wait()

    async def _settle(self) -> None:
        from trio.testing import wait_all_tasks_blocked

        queue = self._queue
        while queue:
            await wait_all_tasks_blocked()
            when = queue[0][0]
            self._turns.move_to(when)
            while queue and queue[0][0] == when:
                heappop(queue)[2].set()
        self._settling = False
