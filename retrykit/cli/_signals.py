"""Signals as something to look at: noted when they arrive, acted upon where it is safe to."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrykit.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType, TracebackType
    from typing import Any, Self

ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Those that ask to end: no further attempt is made."""

_NOTED: Final = ENDING | {
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
}


class EndedBySignal(BaseException):
    """A signal asked to end; nothing may retry it.

    `status` is that of the attempt that it ended, if one was running.
    """

    def __init__(self, number: int, status: int | None = None) -> None:
        super().__init__(number, status)
        self.number = number
        self.status = status

    @property
    def exit_status(self) -> int:
        """130 for Ctrl-C; else the attempt's, or that of a process that died of the signal."""
        if self.status is None or self.number == signal.SIGINT:
            return 128 + self.number
        return self.status


class Signals:
    """Notes the signals of this process while it is entered; what was ignored stays ignored.

    No handler raises or does anything else, so that nothing is ever left half done: a process that
    is being started is known before a signal can be passed on to it. Outside of the main thread,
    where Python has no signals, none is noted.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        """The first signal that asked to end."""
        self._arrived: deque[int] = deque()
        self._before: dict[int, Any] = {}
        self._here = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        self._bell, self._ringer = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ringer, False)
        if self._here:
            for number in _NOTED:
                # An ignored SIGCHLD would have the kernel take the exit status from us.
                if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGCHLD:
                    self._before[number] = signal.signal(number, self._note)
            self._fd_before = signal.set_wakeup_fd(self._ringer, warn_on_full_buffer=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._here:
            signal.set_wakeup_fd(self._fd_before)
            for number, handler in self._before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        os.close(self._bell)
        os.close(self._ringer)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._arrived.append(number)
        if number in ENDING and self.ended_by is None:
            self.ended_by = number

    def take(self) -> list[int]:
        """The signals that have arrived since the last time."""
        with suppress(BlockingIOError):
            os.read(self._bell, 4096)
        return [self._arrived.popleft() for _ in range(len(self._arrived))]

    def wait(self, seconds: float, fds: Mapping[int, int] | None = None) -> dict[int, int]:
        """Wait for a signal, for an event on one of the file descriptors, or the end of the time.

        Answers what happened on which descriptor.
        """
        poll = select.poll()
        for fd, events in (fds or {}).items():
            poll.register(fd, events)
        poll.register(self._bell, select.POLLIN)
        # Now and then it looks anyway: a signal may be blocked by whoever started this process.
        seconds = min(seconds, 1.0 if self._here else 0.02)
        happened = poll.poll(max(seconds, 0.0) * 1000)
        return {fd: what for fd, what in happened if fd != self._bell}

    def sleep(self, seconds: float) -> None:
        """Wait; raises `EndedBySignal` as soon as a signal asks to end."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            for number in self.take():
                if number == signal.SIGTSTP:
                    os.kill(os.getpid(), signal.SIGSTOP)
            left = end - time.monotonic()
            if left <= 0:
                return
            self.wait(left)

    def check(self, status: int | None = None) -> None:
        """Raise `EndedBySignal` if a signal has asked to end."""
        if self.ended_by is not None:
            raise EndedBySignal(self.ended_by, status)


@dataclass(frozen=True, slots=True)
class SignalClock(SystemClock):
    """The system's clock, whose waits end with an `EndedBySignal` where a signal asks to."""

    signals: Signals

    def sleep(self, seconds: float, /) -> None:
        """Wait for `seconds`, or until a signal asks to end."""
        self.signals.sleep(seconds)
