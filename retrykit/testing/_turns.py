"""Virtual time shared by threads: who sleeps, who is awake, and whose wait ends next.

Time moves on to the earliest wait when everybody who could still do something now waits for later.
A thread that is awake and has not said so cannot be told from one that never will, so it is given
`grace` real seconds, once.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 5.0
"""Real seconds that time stands still for a function which an event loop runs in an executor.

Not for ever: the function may be waiting for the very loop that waits for it.
"""

GLANCE: Final = 0.001
"""Real seconds until the first new look at the threads that are awake: an ending makes no sound."""

_bystanders: Final[dict[int, threading.Thread]] = {}
# Threads that let a whole grace pass without touching a virtual clock: nobody waits for them again
# until they touch one. All clocks share it, so that a test runner's helper thread costs one grace
# in a process and not one in each test.


class Sleeper(ABC):
    """A thread in a wait: one that sleeps, or one whose event loop has nothing to do."""

    __slots__ = ("changes", "served", "waited")

    def __init__(self) -> None:
        self.served = False
        """Whether the wait has come to its end."""
        self.changes = 0
        """How many changes there had been when it last looked."""
        self.waited = 0.0
        """The real seconds that it waited since. No clock is asked: a test may have stopped it."""

    @abstractmethod
    def wake(self) -> None:
        """Have the thread look again whether it is its turn. Called under the lock."""

    @abstractmethod
    def has_sockets(self) -> bool:
        """Whether something outside may wake the thread at any moment."""


class ThreadSleeper(Sleeper):
    """A thread in a blocking wait."""

    __slots__ = ("condition",)

    def __init__(self, lock: threading.RLock) -> None:
        super().__init__()
        self.condition = threading.Condition(lock)

    def wake(self) -> None:
        self.condition.notify()

    def has_sockets(self) -> bool:
        return False


class Job:
    """A function that an event loop runs in an executor, from its submission to its result.

    Pickled, it is the plain function: a worker process has no part in this clock.
    """

    __slots__ = ("function", "running", "thread", "turns")

    def __init__(self, turns: Turns, function: Callable[[], Any]) -> None:
        self.turns = turns
        self.function = function
        self.running = False
        """Whether it is under way for certain, and not just in a queue."""
        self.thread: int | None = None

    def __call__(self) -> Any:
        with self.turns.lock:
            self.thread = threading.get_ident()
            self.running = True
            self.turns.stir()
        try:
            return self.function()
        finally:
            with self.turns.lock:
                # The result is on its way: that counts as awake until the loop has it.
                self.thread = None
                self.running = True
                _stand_by([threading.current_thread()])
                self.turns.stir()

    def __reduce__(self) -> tuple[Any, ...]:
        self.running = True
        return _same, (self.function,)


class Turns:
    """One virtual time, and the threads that wait on it."""

    def __init__(self, now: float, grace: float) -> None:
        self.now = now
        self.grace = grace
        self.lock = threading.RLock()
        self.paused = 0
        self.jobs: set[Job] = set()
        self._queue: list[tuple[float, int, Sleeper]] = []
        self._order = count()
        self._asleep: dict[int, int] = {}
        self._changes = 0
        self.touch()

    def touch(self) -> None:
        """This thread uses the clock: the others wait for it again."""
        if _bystanders:
            _bystanders.pop(threading.get_ident(), None)

    def sleep(self, wait: float) -> None:
        """Block this thread until time has moved on by `wait`."""
        with self.lock:
            sleeper = ThreadSleeper(self.lock)
            self.lie_down(sleeper, wait)
            try:
                while True:
                    patience = self.serve(sleeper)
                    if sleeper.served:
                        break
                    sleeper.condition.wait(patience)
            finally:
                self.get_up(sleeper)

    def skip(self, wait: float) -> bool:
        """Move on by `wait` if no other thread exists and nothing is under way; tell whether."""
        if self._queue or self._asleep or self.jobs or self.paused or threading.active_count() != 1:
            return False
        self.now += wait
        return True

    def move_to(self, when: float) -> None:
        """Time is `when`, if it is not later already."""
        with self.lock:
            self.now = max(self.now, when)
            self.stir()

    def lie_down(self, sleeper: Sleeper, wait: float | None) -> None:
        """This thread has nothing to do for `wait` seconds (`None`: until it is woken)."""
        self.touch()
        thread = threading.get_ident()
        self._asleep[thread] = self._asleep.get(thread, 0) + 1
        if wait is not None:
            heappush(self._queue, (self.now + wait, next(self._order), sleeper))
        self.stir(sleeper)

    def get_up(self, sleeper: Sleeper) -> None:
        """This thread goes on, though its wait may not have come to its end."""
        if not sleeper.served:
            self._wake_up()
            self._queue = [entry for entry in self._queue if entry[2] is not sleeper]
            heapify(self._queue)
            self.stir()

    def serve(self, sleeper: Sleeper) -> float | None:
        """End this wait if it is its turn; otherwise the real seconds until the next look.

        `None` is "until woken".
        """
        if not self._queue or self._queue[0][2] is not sleeper:
            return None
        wake = self._queue[0][0]
        if self.paused and wake > self.now:
            return None
        allowance, strangers = self._allowance(sleeper)
        if sleeper.changes != self._changes:
            sleeper.changes = self._changes
            sleeper.waited = 0.0
        left = allowance - sleeper.waited
        if left > 0:
            patience = min(left, GLANCE + sleeper.waited / 4) if strangers else left
            sleeper.waited += patience
            return patience
        _stand_by(strangers)
        heappop(self._queue)
        sleeper.served = True
        self._wake_up()
        self.move_to(wake)
        return None

    def stir(self, cause: Sleeper | None = None) -> None:
        """Something has changed: whoever is next, if it is not the cause, looks again."""
        self._changes += 1
        if self._queue and self._queue[0][2] is not cause:
            self._queue[0][2].wake()

    def called_in(self) -> None:
        """A job's thread has called into its event loop: it may now be waiting for that loop."""
        thread = threading.get_ident()
        with self.lock:
            for job in self.jobs:
                if job.thread == thread:
                    job.running = False
                    self.stir()

    def finish(self, job: Job) -> None:
        """The event loop has the job's result, or waits for it no longer."""
        with self.lock:
            self.jobs.discard(job)
            self.stir()

    def _wake_up(self) -> None:
        thread = threading.get_ident()
        self._asleep[thread] -= 1
        if not self._asleep[thread]:
            del self._asleep[thread]

    def _allowance(self, sleeper: Sleeper) -> tuple[float, list[threading.Thread]]:
        """The real seconds that whoever is awake gets to come to a wait; the unknown threads."""
        allowance = self.grace if sleeper.has_sockets() else 0.0
        working: set[int | None] = set()
        for job in self.jobs:
            if job.thread not in self._asleep:
                allowance = max(allowance, PATIENCE if job.running else self.grace)
                if job.running:
                    working.add(job.thread)
        strangers: list[threading.Thread] = []
        for thread in threading.enumerate():
            if thread.ident in self._asleep or thread.ident in working:
                continue
            if _works_for_anyio(thread):
                allowance = max(allowance, PATIENCE)
            elif _bystanders.get(thread.ident or 0) is thread:
                continue
            strangers.append(thread)
        return max(allowance, self.grace) if strangers else allowance, strangers


def _stand_by(threads: list[threading.Thread]) -> None:
    for ident, thread in list(_bystanders.items()):
        if not thread.is_alive():
            _bystanders.pop(ident, None)
    for thread in threads:
        if thread.ident is not None:
            _bystanders[thread.ident] = thread


def _same(function: Callable[[], Any]) -> Callable[[], Any]:
    return function


def _works_for_anyio(thread: threading.Thread) -> bool:
    """Whether this is a worker thread of anyio's, busy with a function.

    anyio has worker threads of its own, so that its event loop does not see what runs in them. One
    that waits in a queue or for a lock is idle, or waits for the loop itself.
    """
    if type(thread).__module__.partition(".")[0] != "anyio":
        return False
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # public, says the manual
    frame = frames.get(thread.ident or 0)
    return frame is not None and frame.f_globals.get("__name__") not in ("threading", "queue")
