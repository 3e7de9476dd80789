"""`run`: a command, retried under a policy."""

from __future__ import annotations

import os
import select
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrykit import RetryPolicy, current_attempt
from retrykit.cli._command import Command, Ending, Stdin
from retrykit.cli._errors import one_line
from retrykit.cli._format import duration
from retrykit.cli._signals import EndedBySignal, SignalClock, Signals
from retrykit.decision import DoNotRetry, RetryAfter, RetryReason, StopReason
from retrykit.events import CallGaveUp, Kinds, RetryScheduled
from retrykit.outcome import Returned

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from retrykit.decision import RetryDecision
    from retrykit.events import Event
    from retrykit.outcome import Attempt, Outcome

CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127


@dataclass(frozen=True, slots=True)
class Rule:
    """Which endings are worth another attempt.

    Those with one of the `statuses`, and those whose output matched. Without either, every status
    but zero. An attempt that took too long always is; one whose output nobody reads never.
    """

    statuses: frozenset[int] | None = None
    by_output: bool = False

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """The decision on an `Ending`."""
        ending = attempt.value
        if not isinstance(ending, Ending):
            return None
        if ending.unheard:
            return DoNotRetry(StopReason.FORBIDDEN)
        if ending.timed_out:
            return RetryAfter(0.0, RetryReason.TIMED_OUT)
        if ending.matched:
            return RetryAfter()
        if self.statuses is not None:
            return RetryAfter() if ending.status in self.statuses else None
        return RetryAfter() if ending.status and not self.by_output else None


class Report:
    """A listener that tells on standard error what is retried, and what is not any more."""

    kinds: Kinds = frozenset({RetryScheduled, CallGaveUp})

    def __call__(self, event: Event, /) -> None:
        """One line for the event."""
        match event:
            case RetryScheduled():
                told = f"next in {duration(event.delay)}"
            case CallGaveUp():
                told = f"giving up after {duration(event.elapsed)}: {event.reason}"
            case _:
                return
        say(f"attempt {event.number} failed ({_shown(event.outcome)}), {told}")


def _shown(outcome: Outcome | None) -> str:
    return str(outcome.value) if isinstance(outcome, Returned) else "not started"


def say(text: str) -> None:
    """A line on standard error, which may be gone."""
    with suppress(OSError):
        print(f"retrykit: {one_line(text)}", file=sys.stderr, flush=True)


def run(
    arguments: Sequence[str],
    policy: RetryPolicy,
    *,
    statuses: frozenset[int] | None = None,
    patterns: Sequence[re.Pattern[str]] = (),
    grace: float = 5.0,
    replay_stdin: bool = False,
    quiet: bool = False,
) -> int:
    """Run the command under the policy; the exit status is its last attempt's.

    The policy's classifier and listeners give way: the `Rule` decides, the `Report` tells.
    """
    _open_standard_files()
    with Signals() as signals:
        policy = policy.replace(
            classify=Rule(statuses, bool(patterns)),
            clock=SignalClock(signals),
            listeners=() if quiet else (Report(),),
            unsatisfied="return",
        )
        try:
            command = Command(
                arguments,
                signals,
                patterns=patterns,
                stdin=_spooled(signals) if replay_stdin else _file_on_stdin(),
                grace=grace,
            )
            ending = policy.call(lambda: command.run(current_attempt().remaining))
        except EndedBySignal as ended:
            return ended.exit_status
        except OSError as error:
            say(f"cannot run {arguments[0]}: {error.strerror or error}")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
    return ending.status


def _open_standard_files() -> None:
    """Have something at each of the three: else a pipe of ours would come to lie there."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _file_on_stdin() -> Stdin | None:
    """Standard input, where it can be read again from where it stands."""
    return Stdin(0, os.lseek(0, 0, os.SEEK_CUR)) if stat.S_ISREG(os.fstat(0).st_mode) else None


def _spooled(signals: Signals) -> Stdin:
    """All of standard input, in a file that can be read again and again."""
    with tempfile.TemporaryFile(buffering=0) as file:
        while True:
            while not signals.wait(1.0, {0: select.POLLIN}):
                signals.check()
            data = os.read(0, 1 << 20)
            if not data:
                return Stdin(os.dup(file.fileno()), 0)
            file.write(data)
