"""One attempt at a command: its process group, its output, its end.

The command runs in a process group of its own, so that all that it starts can be ended with it. As
that group is in the background for the terminal, it is lent the terminal when it asks for it, as a
shell would, and this process stops when the command is stopped.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from retrykit.cli._signals import ENDING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from retrykit.cli._signals import Signals

LONGEST_LINE: Final = 65_536
"""How much of a line without an end is searched at once, in bytes."""

PATIENCE: Final = 2.0
"""How many seconds what was killed may take to be gone."""

MOST_LEFT: Final = 1 << 20
"""How much more is passed on once the command has ended; others may still write, for ever."""

_CHUNK: Final = select.PIPE_BUF
_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Stdin(NamedTuple):
    """A file that each attempt reads from the same place on."""

    fd: int
    start: int


class Ending(NamedTuple):
    """How an attempt ended."""

    status: int
    """As a shell has it: 128 and the signal's number for a process that died of one. 124 for one
    that was ended for taking too long and then called that a success."""
    timed_out: bool = False
    matched: bool = False
    """A pattern was found in the output."""
    unheard: bool = False
    """Nobody reads the output any more."""

    def __str__(self) -> str:
        if self.timed_out:
            return "timed out"
        if self.matched:
            return f"its output matched, status {self.status}"
        if self.status > 128:
            with suppress(ValueError):
                return f"status {self.status}, {signal.Signals(self.status - 128).name}"
        return f"status {self.status}"


class Command:
    """A command that can be run again and again.

    Without `stdin` every attempt reads on from where the one before it stopped. With `patterns`,
    what the command writes is searched for them, line by line, and passed on as it comes.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        signals: Signals,
        *,
        patterns: Sequence[re.Pattern[str]] = (),
        stdin: Stdin | None = None,
        grace: float = 5.0,
    ) -> None:
        self._arguments = list(arguments)
        self._signals = signals
        self._patterns = patterns
        self._stdin = stdin
        self._grace = grace

    def run(self, limit: float | None) -> Ending:
        """Run it once, for `limit` seconds at most.

        Raises `OSError` if it cannot be started, and `EndedBySignal` where a signal asks to end.
        """
        self._signals.check()
        if self._stdin is not None:
            os.lseek(self._stdin.fd, self._stdin.start, os.SEEK_SET)
        streams = [Stream(to, self._patterns) for to in (1, 2)] if self._patterns else []
        try:
            pid = self._start(streams)
            ending = Running(pid, streams, self._signals, self._grace).wait(limit)
        finally:
            for stream in streams:
                stream.close()
        self._signals.check(ending.status)
        return ending

    def _start(self, streams: list[Stream]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, stream.writer, stream.to) for stream in streams]
        if self._stdin is not None and self._stdin.fd != 0:
            actions.append((os.POSIX_SPAWN_DUP2, self._stdin.fd, 0))
        try:
            return os.posix_spawnp(
                self._arguments[0],
                self._arguments,
                os.environ,
                file_actions=actions,
                setpgroup=0,
                # Python ignores these two, which the command would inherit.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        finally:
            for stream in streams:
                os.close(stream.writer)


class Running:
    """A process group, from its start to the end of its first process."""

    def __init__(self, pid: int, streams: list[Stream], signals: Signals, grace: float) -> None:
        self._pid = pid
        self._streams = streams
        self._signals = signals
        self._grace = grace
        self._terminal = Terminal()
        self._kill_at: float | None = None
        self._interrupts = 0

    def wait(self, limit: float | None) -> Ending:
        """Wait for the end of the command, pass on what there is to pass on."""
        due = None if limit is None else time.monotonic() + limit
        timed_out = False
        status: int | None = None
        try:
            while status is None:
                times = [each for each in (due, self._kill_at) if each is not None]
                left = min(times, default=float("inf")) - time.monotonic()
                self._copy(self._signals.wait(left, self._watched()))
                for number in self._signals.take():
                    self._pass_on(number)
                status = self._status()
                now = time.monotonic()
                if status is None and due is not None and now >= due:
                    due, timed_out = None, True
                    self._end(signal.SIGTERM)
                if self._kill_at is not None and now >= self._kill_at:
                    self._send(signal.SIGKILL)
                    self._kill_at = float("inf")
        except BaseException:
            self._send(signal.SIGKILL)
            raise
        finally:
            had_terminal = self._terminal.take_back()
        if had_terminal and status - 128 in (signal.SIGINT, signal.SIGQUIT):
            self._signals.ended_by = status - 128  # the key was pressed, and the command heard it
        if self._kill_at is not None:
            self._end_the_rest()
        self._drain()
        if timed_out and status == 0:
            status = 124
        matched = any(stream.matched for stream in self._streams)
        return Ending(status, timed_out, matched, _is_unheard(1))

    def _status(self) -> int | None:
        """The exit status, once the command has ended."""
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if not os.WIFSTOPPED(status):
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            self._stopped(os.WSTOPSIG(status))

    def _pass_on(self, number: int) -> None:
        if number in ENDING:
            self._interrupts += number == signal.SIGINT
            self._end(number if self._interrupts < 2 else signal.SIGKILL)
        elif number in (signal.SIGUSR1, signal.SIGUSR2):
            # What does not expect one dies of it: so the command itself gets it, and nobody else.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)
        elif number != signal.SIGCHLD:
            self._send(number)

    def _end(self, number: int) -> None:
        """Ask the group to end; what has not within the grace time is killed."""
        self._send(number)
        self._send(signal.SIGCONT)  # what is stopped cannot end
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _end_the_rest(self) -> None:
        """End what the command has started and left behind, where the command was ended."""
        assert self._kill_at is not None
        last = min(self._kill_at, time.monotonic() + self._grace)
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)
        while _lives(self._pid):
            now = time.monotonic()
            if now >= last + PATIENCE:
                return  # the system keeps it, in a read that cannot be broken off, say
            if now >= last:
                self._send(signal.SIGKILL)
            self._signals.wait(0.01)
            if signal.SIGINT in self._signals.take():
                last = min(last, now)

    def _stopped(self, number: int) -> None:
        """The command was stopped: lend it the terminal, or stop too until somebody continues."""
        if number in (signal.SIGTTIN, signal.SIGTTOU):
            if not self._terminal.lend(self._pid):
                if not self._terminal.exists():
                    return
                os.kill(os.getpid(), signal.SIGSTOP)
        elif number == signal.SIGTSTP:
            if self._terminal.take_back():
                # Ctrl-Z went to the command alone: the job is all of this process's group.
                os.kill(0, signal.SIGSTOP)
                self._terminal.lend(self._pid)
            else:
                os.kill(os.getpid(), signal.SIGSTOP)
        else:
            return
        self._send(signal.SIGCONT)

    # What the command writes

    def _watched(self) -> dict[int, int]:
        """What each stream waits for: room for what it has read, or more to read."""
        watched: dict[int, int] = {}
        for stream in self._streams:
            if stream.pending:
                watched[stream.to] = select.POLLOUT
            elif stream.is_open:
                watched[stream.source] = select.POLLIN
        return watched

    def _copy(self, events: dict[int, int]) -> None:
        for stream in self._streams:
            if stream.pending and stream.to in events:
                stream.write()
            elif events.get(stream.source, 0) & _READABLE and not stream.pending:
                stream.read()

    def _drain(self) -> None:
        """Pass on the rest of what the command has written; others may hold its output open."""
        for stream in self._streams:
            stream.last = stream.taken + MOST_LEFT
        while watched := self._watched():
            # Whoever reads it may be slow; after a request to end nobody is waited for.
            slow = any(stream.pending for stream in self._streams)
            patient = slow and self._signals.ended_by is None
            events = self._signals.wait(1.0 if patient else 0.0, watched)
            if not (events or patient):
                break
            self._copy(events)
        for stream in self._streams:
            stream.search_rest()


class Stream:
    """One of the command's outputs on its way to ours."""

    def __init__(self, to: int, patterns: Sequence[re.Pattern[str]]) -> None:
        self.to = to
        self.source, self.writer = os.pipe()
        self.pending = b""
        self.is_open = True
        self.matched = False
        self.taken = 0
        self.last = float("inf")
        """How many bytes are taken, and at most."""
        self._patterns = patterns
        self._line = b""

    def read(self) -> None:
        """Take what is there, and search it."""
        self.pending = os.read(self.source, 65_536) if self.taken < self.last else b""
        self.taken += len(self.pending)
        if not self.pending:
            self.close()
            return
        self._search(self.pending)

    def write(self) -> None:
        """Pass on as much as can be without waiting."""
        try:
            written = os.write(self.to, self.pending[:_CHUNK])
            self.pending = self.pending[written:]
        except OSError:
            # Nobody reads it: closed, ours tells the command so when it writes again.
            self.pending = b""
            self.close()

    def close(self) -> None:
        """Take no more."""
        if self.is_open:
            self.is_open = False
            os.close(self.source)

    def _search(self, data: bytes) -> None:
        if self.matched:
            return
        *lines, self._line = re.split(rb"[\r\n]", self._line + data)
        for line in lines:
            self._search_in(line)
        if len(self._line) > LONGEST_LINE:
            self._search_in(self._line)
            self._line = self._line[-LONGEST_LINE // 2 :]

    def search_rest(self) -> None:
        """Search the last line, which has no end."""
        if self._line:
            self._search_in(self._line)

    def _search_in(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self.matched = self.matched or any(pattern.search(text) for pattern in self._patterns)


class Terminal:
    """The terminal that controls this process, if any, and whose turn it is."""

    def __init__(self) -> None:
        self._lent = False

    def exists(self) -> bool:
        """Whether there is one."""
        with _terminal() as fd:
            return fd is not None

    def lend(self, group: int) -> bool:
        """Put a process group in the foreground, if this process's own is there; whether it was."""
        with _terminal() as fd, suppress(OSError):
            if fd is not None and os.tcgetpgrp(fd) == os.getpgrp():
                os.tcsetpgrp(fd, group)
                self._lent = True
        return self._lent

    def take_back(self) -> bool:
        """Put this process's group in the foreground again; whether it had been lent."""
        lent, self._lent = self._lent, False
        if lent:
            # From the background, it is a SIGTTOU for whoever does not block it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
            with _terminal() as fd, suppress(OSError):
                if fd is not None:
                    os.tcsetpgrp(fd, os.getpgrp())
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return lent


@contextmanager
def _terminal() -> Generator[int | None]:
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _is_unheard(fd: int) -> bool:
    """Whether what is written to this descriptor goes nowhere: the other end was closed."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(what & _GONE for _, what in poll.poll(0))


def _lives(group: int) -> bool:
    """Whether anybody in the process group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # somebody else's by now, or nothing that we could end
    # A process that has ended and that nobody waited for counts as well, so look closer.
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return not stats or any(_is_running_in(group, stat) for stat in stats)


def _is_running_in(group: int, stat: Path) -> bool:
    try:
        state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(its_group) == group and state not in "ZX"
