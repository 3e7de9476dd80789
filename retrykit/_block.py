"""The drivers for a block: `for attempt in policy:` and `with attempt:` inside.

Each `iter()` is a call of its own. The loop makes attempts: leaving the block without an error is
a success, whatever leaves it. The iterators are classes, not generators: one that is dropped after
a failed block ends its call as cancelled, at once and wherever it is dropped.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from retrykit._async import pause_async
from retrykit._blocking import pause
from retrykit._context import LiveAttempt, close, enter, leave
from retrykit._context import entry as innermost_entry
from retrykit._session import finish, open_session
from retrykit.clock import in_event_loop
from retrykit.outcome import Call, Raised, Returned

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from retrykit._context import Entry
    from retrykit.outcome import Outcome


def block() -> None:
    """Stands for the code inside of `with attempt:` in a `Call`."""


_READY, _INSIDE, _LEFT, _OVER = range(4)


class BlockAttempt(LiveAttempt):
    """One attempt of a block: enter it with `with attempt:`.

    `set_result(value)` shows a value to the policy, as if a function had returned it.
    """

    __slots__ = ("_outcome", "_state", "_token", "_wait")

    _outcome: Outcome | None
    _state: int
    _token: Token[Entry] | None
    _wait: float | None

    def set_result(self, value: Any) -> None:
        """Let result classifiers see this value when the block is left without an error."""
        if self._state != _INSIDE:
            raise RuntimeError("set_result belongs inside of `with attempt:`")
        self._outcome = Returned(value)

    def __enter__(self) -> BlockAttempt:
        if self._state != _READY:
            raise RuntimeError("each attempt is entered once: take the next one from the loop")
        self._state = _INSIDE
        self._outcome = None
        self._token = enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        session = self._session
        try:
            if session is None or not (error is None or isinstance(error, Exception)):
                return False
            self._state = _LEFT
            if error is not None:
                self._outcome = Raised(error)
            outcome = self._outcome
            if outcome is None:
                if session.accept():
                    return False
                outcome = self._outcome = Returned(None)
            self._wait = session.settle(outcome)
            if self._wait is not None:
                return True
            if error is None:
                finish(session, outcome)  # raises where a limit refused what the result was worth
            return False
        finally:
            token = self._token
            if token is not None:
                leave(token)
                self._token = None
            if self._wait is None:
                self._end()
            del error, traceback, session
            outcome = None  # else an error's traceback and this frame would hold each other

    def _end(self) -> None:
        """The call is over, one way or another."""
        session = self._session
        self._state = _OVER
        if session is not None:
            session.cancelled()
        self._outcome = None
        close(self)


class _Block:
    """What both loops share: the call's one attempt object, and what its state allows."""

    __slots__ = ("_attempt", "_factory")

    def __init__(self, factory: Any) -> None:
        self._factory = factory
        self._attempt: BlockAttempt | None = None

    def _first(self) -> BlockAttempt:
        attempt = BlockAttempt()
        attempt._outer = innermost_entry.get()
        attempt._raw = Call(block)
        attempt._session = None
        attempt._outcome = attempt._token = attempt._wait = None
        attempt._state = _READY
        session = open_session(attempt, self._factory)
        self._attempt = attempt
        session.begin()
        return attempt

    def _due(self, attempt: BlockAttempt) -> float | None:
        """The wait before the next attempt; `None` where the loop is over."""
        if attempt._state == _OVER:
            return None
        if attempt._state != _LEFT or attempt._wait is None:
            attempt._end()
            raise RuntimeError("the attempt was not entered: write `with attempt:` inside the loop")
        return attempt._wait

    def _resumed(self, attempt: BlockAttempt, going_on: bool) -> BlockAttempt | None:
        """The attempt, ready for the next round; else the last error again, or `None`."""
        outcome = attempt._outcome
        session = attempt._session
        if going_on or session is None or outcome is None:
            attempt._state = _READY
            attempt._wait = None
            return attempt
        attempt._end()
        try:
            finish(session, outcome)
        finally:
            del outcome, session
        return None

    def __del__(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt._state != _OVER:
            attempt._end()


class Attempts(_Block):
    """The iterator behind `for attempt in policy:`."""

    __slots__ = ()

    def __iter__(self) -> Attempts:
        return self

    def __next__(self) -> BlockAttempt:
        attempt = self._attempt
        if attempt is None:
            if in_event_loop():
                warnings.warn(
                    "a blocking loop over a policy runs inside an event loop and stops it during"
                    " its waits: write `async for attempt in policy:`",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return self._first()
        wait = self._due(attempt)
        if wait is None:
            raise StopIteration
        try:
            going_on = pause(attempt._session, wait)  # type: ignore[arg-type]  # the call is not over
        except BaseException:
            attempt._end()
            raise
        following = self._resumed(attempt, going_on)
        if following is None:
            raise StopIteration
        return following


class AsyncAttempts(_Block):
    """The iterator behind `async for attempt in policy:`."""

    __slots__ = ()

    def __aiter__(self) -> AsyncAttempts:
        return self

    async def __anext__(self) -> BlockAttempt:
        attempt = self._attempt
        if attempt is None:
            return self._first()
        wait = self._due(attempt)
        if wait is None:
            raise StopAsyncIteration
        try:
            going_on = await pause_async(attempt._session, wait)  # type: ignore[arg-type]  # as above
        except BaseException:
            attempt._end()
            raise
        following = self._resumed(attempt, going_on)
        if following is None:
            raise StopAsyncIteration
        return following
