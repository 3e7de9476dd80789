"""The blocking driver: make an attempt, wait, make the next."""

from __future__ import annotations

import time
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from retrykit._context import close, enter, leave, new_cell
from retrykit._context import entry as innermost_entry
from retrykit._session import finish, open_session
from retrykit._validate import is_async
from retrykit.clock import LONGEST_SLEEP, SystemClock
from retrykit.outcome import Raised, Returned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrykit._session import Session
    from retrykit.outcome import Call, Outcome


def run(
    factory: Any,
    call: Call,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    continue_async: Callable[..., Any],
) -> Any:
    """Make a whole call. A native coroutine that comes back is driven on by `continue_async`."""
    cell = new_cell(innermost_entry.get(), call)
    session = open_session(cell, factory)
    token = enter(cell)
    handed_on = False
    try:
        session.begin()
        value = drive(session, function, args, kwargs)
        if session.is_open:  # what came back is a coroutine
            handed_on = True
            return continue_async(session, function, args, kwargs, pending=value)
        return value
    finally:
        leave(token)
        if not handed_on:
            close(cell)


def drive(
    session: Session,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> Any:
    """Make attempts until one stands, the first unless its outcome is given.

    A native coroutine is handed back at once, with the session still open.
    """
    try:
        while True:
            if outcome is None:
                try:
                    value = function(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                    outcome = Raised(error)
                else:
                    if type(value) is CoroutineType:
                        return cast("Any", value)  # of whatever it gives
                    if session.takes_any_value:
                        session.succeed()
                        return value
                    outcome = Returned(value)
                    del value
            wait = session.settle(outcome)
            if wait is None or not pause(session, wait):
                return finish(session, outcome)
            outcome = None
    except BaseException:
        session.cancelled()
        raise
    finally:
        outcome = None  # else the error's traceback would hold this frame, and this frame the error


def pause(session: Session, wait: float) -> bool:
    """Wait, and tell whether the next attempt is made."""
    quiet = session.quiet
    if not quiet:
        session.discard()
    try:
        if quiet and wait <= LONGEST_SLEEP:
            time.sleep(wait)
            session.number += 1
            return True
        clock = session.clock
        cut_by = getattr(session.settings.stop_when, "wait", None)
        if cut_by is None or type(clock) is not SystemClock or is_async(cut_by):
            clock.sleep(wait)
        else:
            cut_by(wait)
    except Exception as problem:  # noqa: BLE001 - a foreign clock may raise anything; the outcome stands
        session.could_not_wait(problem)
        return False
    return session.resume()
