"""Time as an argument: what a driver reads and waits on, replaceable as a whole.

>>> clock = SystemClock()
>>> clock.now() <= clock.now()
True
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from types import ModuleType

LONGEST_SLEEP: Final = 1_000_000.0
"""Longer waits are slept in pieces of so many seconds: systems refuse very long ones."""


@runtime_checkable
class Clock(Protocol):
    """What a policy's `clock` has. Times are in seconds.

    All but `sleep_async` are plain methods. One that raises, or tells no finite time, ends the call
    that meets it: the user's own outcome stands.

    >>> isinstance(SystemClock(), Clock)
    True
    """

    def now(self) -> float:
        """The monotonic time, in seconds from an arbitrary start."""
        ...

    def wall(self) -> float:
        """The Unix time, in seconds."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Block this thread for `seconds`; zero gives way and returns."""
        ...

    async def sleep_async(self, seconds: float, /) -> None:
        """Wait for `seconds` without blocking the event loop, on asyncio or Trio."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own clock. Each `time` function is looked up when it is called.

    >>> clock = SystemClock()
    >>> clock.sleep(0)
    >>> clock == SystemClock()
    True
    """

    def now(self) -> float:
        """`time.monotonic()`."""
        return time.monotonic()

    def wall(self) -> float:
        """`time.time()`."""
        return time.time()

    def sleep(self, seconds: float, /) -> None:
        """`time.sleep`, in pieces where the wait is very long."""
        while seconds > LONGEST_SLEEP:
            time.sleep(LONGEST_SLEEP)
            seconds -= LONGEST_SLEEP
        time.sleep(seconds)

    async def sleep_async(self, seconds: float, /) -> None:
        """`asyncio.sleep` or `trio.sleep`, whichever runs this task.

        Raises `RuntimeError` where neither does.
        """
        await async_library().sleep(seconds)


def async_library() -> Any:
    """The module `asyncio` or `trio`: the one whose event loop runs the current task.

    Neither is imported here: the one that runs is loaded already. Raises `RuntimeError` where
    neither runs.
    """
    asyncio: ModuleType | None = sys.modules.get("asyncio")
    trio: ModuleType | None = sys.modules.get("trio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        # As a guest, Trio runs inside of asyncio's loop, and in none of its tasks.
        guest = trio is not None and asyncio.current_task() is None and in_trio(trio)
        return trio if guest else asyncio
    if trio is not None and in_trio(trio):
        return trio
    raise RuntimeError("retrykit waits on asyncio or Trio, and neither runs here")


def in_trio(trio: Any) -> bool:
    """Whether the current code runs in a Trio task."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def in_event_loop() -> bool:
    """Whether an event loop, asyncio's or Trio's, runs in this thread right now.

    >>> in_event_loop()
    False
    """
    try:
        async_library()
    except RuntimeError:
        return False
    return True
