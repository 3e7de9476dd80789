"""The async driver, for asyncio and Trio: the blocking one's twin, and nothing more."""

from __future__ import annotations

from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from retrykit._context import close, enter, leave, new_cell
from retrykit._context import entry as innermost_entry
from retrykit._session import finish, open_session
from retrykit._validate import is_async
from retrykit.clock import async_library
from retrykit.outcome import Raised, Returned

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType

    from retrykit._session import Session
    from retrykit.outcome import Call, Outcome

_COROUTINE: Final[Any] = CoroutineType
"""To the type checkers without parameters: what it gives, only the function knows."""


async def run_async(
    factory: Any,
    call: Call,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Make a whole call."""
    cell = new_cell(innermost_entry.get(), call)
    session = open_session(cell, factory)
    token = enter(cell)
    try:
        session.begin()
        return await drive_async(session, function, args, kwargs)
    finally:
        leave(token)
        close(cell)


async def continue_async(
    session: Session,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    pending: Coroutine[Any, Any, Any],
) -> Any:
    """Go on with a call whose function turned out to return a native coroutine."""
    cell = session.cell
    token = enter(cell)
    try:
        return await drive_async(session, function, args, kwargs, pending=pending)
    finally:
        leave(token)
        close(cell)


async def drive_async(
    session: Session,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outcome: Outcome | None = None,
    pending: Coroutine[Any, Any, Any] | None = None,
) -> Any:
    """Make attempts until one stands, the first unless its outcome or its coroutine is given.

    Native coroutines are awaited; other awaitables (tasks, futures) are values.
    """
    try:
        while True:
            if outcome is None:
                limit = None if session.quiet else session.timeout()
                if limit is None:
                    try:
                        made = function(*args, **kwargs) if pending is None else pending
                        value = await (made if type(made) is _COROUTINE else given(made, function))
                    except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                        outcome = Raised(error)
                    else:
                        if session.takes_any_value:
                            session.succeed()
                            return value
                        outcome = Returned(value)
                        del value
                else:
                    # The attempt's own error is caught inside of the limit, so that what the limit
                    # raises is the limit's: the user's own TimeoutError is never taken for it.
                    async with TimeLimit(limit) as cut:
                        try:
                            made = function(*args, **kwargs) if pending is None else pending
                            native = type(made) is _COROUTINE
                            outcome = Returned(await (made if native else given(made, function)))
                        except Exception as error:  # noqa: BLE001 - as above
                            outcome = Raised(error)
                    if cut.fell or outcome is None:
                        outcome = Raised(session.timed_out(cut.error))
                    del cut
                pending = None
            wait = session.settle(outcome)
            if wait is None or not await pause_async(session, wait):
                return finish(session, outcome)
            outcome = None
    except BaseException:
        session.cancelled()
        raise
    finally:
        outcome = pending = made = None  # as in the blocking driver


async def given(made: Any, function: Callable[..., Any]) -> Any:
    """What a function gave that is no native coroutine: a value, awaited if the function is async.

    Compiled coroutine functions, and those that are only marked as such, give other awaitables.
    """
    return await made if is_async(function) and isawaitable(made) else made


async def pause_async(session: Session, wait: float) -> bool:
    """Wait, and tell whether the next attempt is made."""
    quiet = session.quiet
    if not quiet:
        await session.discard_async()
    try:
        if quiet:
            await async_library().sleep(wait)
            session.number += 1
            return True
        await session.clock.sleep_async(wait)
    except Exception as problem:  # noqa: BLE001 - a foreign clock may raise anything; the outcome stands
        session.could_not_wait(problem)
        return False
    return session.resume()


class TimeLimit:
    """Cuts the code inside after so many seconds: `asyncio.timeout`, or a cancel scope of Trio's.

    What it cuts ends quietly; `fell` then says so, and `error` shows where that was (asyncio). A
    cancel from outside that arrives at the same time passes.
    """

    __slots__ = ("_scope", "_seconds", "error", "fell")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.error: BaseException | None = None
        self.fell = False

    async def __aenter__(self) -> TimeLimit:
        library = async_library()
        if library.__name__ == "asyncio":
            self._scope = library.timeout(self._seconds)
            await self._scope.__aenter__()
        else:
            self._scope = library.move_on_after(self._seconds)
            self._scope.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        leave_trio = getattr(self._scope, "__exit__", None)
        if leave_trio is not None:
            ends_quietly = bool(leave_trio(kind, error, traceback))
            self.fell = self._scope.cancelled_caught
            return ends_quietly
        try:
            return bool(await self._scope.__aexit__(kind, error, traceback))
        except TimeoutError:
            self.error = error
            self.fell = True
            return True
        finally:
            del error, traceback
