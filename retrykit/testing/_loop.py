"""An asyncio event loop in virtual time: it jumps to the next timer when nothing is ready."""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from retrykit.testing._turns import Job, Sleeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from contextvars import Context

    from retrykit.testing._turns import Turns

    Events = list[tuple[selectors.SelectorKey, int]]


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose time is a virtual clock's."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        selector = WaitingSelector(turns)
        super().__init__(selector)
        selector.count_own()

    def time(self) -> float:
        """The clock's time, in seconds."""
        return self.turns.now

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As in any loop. A function in an executor that calls in is not waited for as before."""
        if self.turns.jobs:
            self.turns.called_in()
        return super().call_soon_threadsafe(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As in any loop. Time waits for the function."""
        job = Job(self.turns, partial(func, *args))
        self.turns.jobs.add(job)
        try:
            future = super().run_in_executor(executor, job)
        except BaseException:
            self.turns.finish(job)
            raise
        future.add_done_callback(lambda _: self.turns.finish(job))
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's own signature
        """As in any loop. Time stands still: the limit is one of real time."""
        ending = Job(self.turns, list)
        ending.running = True
        self.turns.jobs.add(ending)
        try:
            if sys.version_info >= (3, 12):
                await super().shutdown_default_executor(timeout)
            else:
                await super().shutdown_default_executor()
        finally:
            self.turns.finish(ending)


class WaitingSelector(selectors.BaseSelector):
    """The real selector, except that a wait which nothing ends moves the clock on."""

    def __init__(self, turns: Turns) -> None:
        self._real = selectors.DefaultSelector()
        self._turns = turns
        self._own = 0
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._bell_key = self._real.register(self._bell, selectors.EVENT_READ)

    def count_own(self) -> None:
        """What is registered so far is the loop's own; whatever comes later is a socket in use."""
        self._own = len(self._real.get_map())

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def close(self) -> None:
        self._real.close()
        self._bell.close()
        self._ringer.close()

    def select(self, timeout: float | None = None) -> Events:
        """What is ready now; with nothing ready, the clock moves on by `timeout`.

        `None` really waits, as nothing else could end it.
        """
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return self._heard(ready)
        if timeout is not None and not self.has_sockets() and self._turns.skip(timeout):
            return []
        return self._wait(timeout)

    def _wait(self, timeout: float | None) -> Events:
        turns = self._turns
        sleeper = LoopSleeper(self)
        with turns.lock:
            turns.lie_down(sleeper, timeout)
        try:
            while True:
                with turns.lock:
                    patience = turns.serve(sleeper)
                    if sleeper.served:
                        return []
                ready = self._heard(self._real.select(patience))
                if ready:
                    return ready
        finally:
            with turns.lock:
                turns.get_up(sleeper)

    def _heard(self, ready: Events) -> Events:
        """What is ready for the loop: the bell rings for this selector only."""
        for index, (key, _) in enumerate(ready):
            if key.fileobj is self._bell:
                self._bell.recv(4096)
                return ready[:index] + ready[index + 1 :]
        return ready

    def has_sockets(self) -> bool:
        """Whether anything but the loop's own wake-up is registered."""
        return len(self._real.get_map()) > self._own

    def ring(self) -> None:
        """Have `select` look again."""
        with suppress(BlockingIOError):  # then it has been rung often enough to be heard
            self._ringer.send(b"\0")


class LoopSleeper(Sleeper):
    """A thread whose event loop has nothing to do before its next timer."""

    __slots__ = ("_selector",)

    def __init__(self, selector: WaitingSelector) -> None:
        super().__init__()
        self._selector = selector

    def wake(self) -> None:
        self._selector.ring()

    def has_sockets(self) -> bool:
        return self._selector.has_sockets()
