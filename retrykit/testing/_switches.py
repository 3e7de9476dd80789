"""Switches for code under test: no waits, or fewer attempts, without touching its policies.

Both hold for the code inside, in this task or thread only; with `everywhere=True` for the whole
process meanwhile, for suites whose code runs in other threads (a test client, a worker pool). They
nest, they end with the block whatever leaves it, and nothing inside undoes them.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from retrykit._context import entry, innermost, laid
from retrykit._validate import whole
from retrykit.clock import async_library
from retrykit.testing._clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from retrykit.clock import Clock
    from retrykit.settings import CallSettings

_skipped: Final[ContextVar[tuple[Skips, float] | None]] = ContextVar("retrykit_skips", default=None)


class Skips:
    """The waits that a call, with the calls inside of it, did not wait for.

    Each task counts its own: two that skip a minute side by side are a minute later both, not two.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0.0
        _skipped.set((self, 0.0))

    @property
    def seconds(self) -> float:
        """How much has been skipped, for this task."""
        known = _skipped.get()
        # Another call of the same task, a generator's perhaps, may have skipped something since.
        return known[1] if known is not None and known[0] is self else self._last

    def add(self, seconds: float) -> None:
        """Skip a wait."""
        self._last = self.seconds + seconds
        _skipped.set((self, self._last))


@dataclass(frozen=True, slots=True)
class InstantClock:
    """A clock with its waits taken out; what it shows is what it would show after them.

    A virtual clock keeps its waits, which take no time anyway.
    """

    clock: Clock
    skips: Skips
    record: Callable[[float], object] = field(repr=False, compare=False)

    def now(self) -> float:
        """The clock's own time, and all the waits so far."""
        return self.clock.now() + self.skips.seconds

    def wall(self) -> float:
        """The Unix time, the waits included."""
        return self.clock.wall() + self.skips.seconds

    def sleep(self, seconds: float, /) -> None:
        """Record the wait and return."""
        self.record(seconds)
        if isinstance(self.clock, VirtualClock):
            self.clock.sleep(seconds)
        else:
            self.skips.add(seconds)

    async def sleep_async(self, seconds: float, /) -> None:
        """Record the wait and give way once: a cancel arrives."""
        self.record(seconds)
        if isinstance(self.clock, VirtualClock):
            await self.clock.sleep_async(seconds)
        else:
            self.skips.add(seconds)
            await async_library().sleep(0)


@contextmanager
def instant(*, everywhere: bool = False) -> Generator[list[float], None, None]:
    """Take the waits out of every retried call inside; its decisions stay what they were.

    Yields a list to which each wait is added, in seconds, when it would have begun. Elapsed times
    and deadlines count the waits as if they had been waited for, so a call gives up when it
    otherwise would. Time that the functions themselves take is real, and so are the timeouts that
    cut them.

    >>> from contextlib import suppress
    >>> from retrykit import RetryPolicy
    >>> policy = RetryPolicy.on(ZeroDivisionError, deadline=100, backoff=[30, 30, 30, 30])
    >>> with suppress(ZeroDivisionError), instant() as waits:
    ...     policy.call(lambda: 1 / 0)
    >>> waits
    [30.0, 30.0, 30.0]
    """
    waits: list[float] = []
    with without_waits(waits.append, everywhere=everywhere):
        yield waits


def without_waits(
    record: Callable[[float], object], *, everywhere: bool
) -> AbstractContextManager[None]:
    """`instant`, handing each wait to `record`."""

    def adjust(settings: CallSettings) -> CallSettings:
        clock = settings.clock
        if isinstance(clock, InstantClock):  # of an outer scope: both record, and time passes once
            instantly = replace(clock, record=_both(clock.record, record))
        else:
            instantly = InstantClock(clock, _skips_around(clock) or Skips(), record)
        return replace(settings, clock=instantly)

    return laid(adjust=adjust, in_all_threads=everywhere)


def _skips_around(clock: Clock) -> Skips | None:
    """What the call around this one skipped on the same clock: that time has passed here too."""
    cell = innermost(entry.get())
    session = None if cell is None else cell._session  # pyright: ignore[reportPrivateUsage]  # the test kit may look inside
    if session is None or not isinstance(session.clock, InstantClock):
        return None
    return session.clock.skips if session.clock.clock == clock else None


def _both(
    first: Callable[[float], object], second: Callable[[float], object]
) -> Callable[[float], object]:
    def record(wait: float) -> None:
        first(wait)
        second(wait)

    return record


def limit_attempts(n: int, *, everywhere: bool = False) -> AbstractContextManager[None]:
    """Make at most `n` calls under any policy inside; one that allows fewer keeps its own number.

    `n` counts the first call and is at least 1: below, it is a `ValueError`.

    >>> from contextlib import suppress
    >>> from retrykit import RetryPolicy
    >>> policy = RetryPolicy.on(ZeroDivisionError, attempts=10)
    >>> with suppress(ZeroDivisionError), instant() as waits, limit_attempts(3):
    ...     policy.call(lambda: 1 / 0)
    >>> len(waits)
    2
    """
    return laid(attempts_at_most=whole("n", n, low=1), in_all_threads=everywhere)
