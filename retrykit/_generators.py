"""The drivers for generators: retried until the first item is out, then left alone.

What the policy judges is the first item (the return value, where there is no item). From then on
`send`, `throw`, `close` and their results are handed through, and an error is the consumer's. The
entry behind `current_attempt()` is set around each step only: between two steps the consumer's
code runs. No time limit cuts a step, since a cancel scope must not be open across a `yield`;
`current_attempt().remaining` tells what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrykit._async import pause_async
from retrykit._blocking import pause
from retrykit._context import close, enter, leave, new_cell
from retrykit._context import entry as innermost_entry
from retrykit._session import finish, open_session
from retrykit.outcome import Raised, Returned

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping

    from retrykit._context import LiveAttempt
    from retrykit.outcome import Call, Outcome


def run_generator(
    factory: Any,
    call: Call,
    function: Callable[..., Generator[Any, Any, Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Generator[Any, Any, Any]:
    """Make a whole call of a generator function; it begins with the first step."""
    cell = new_cell(innermost_entry.get(), call)
    session = open_session(cell, factory)
    inner: Generator[Any, Any, Any] | None = None
    outcome: Outcome | None = None
    try:
        session.begin()
        while True:
            ended = False
            token = enter(cell)
            try:
                inner = function(*args, **kwargs)
                outcome = Returned(next(inner))
            except StopIteration as stop:
                ended = True
                outcome = Returned(stop.value)
            except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                outcome = Raised(error)
                inner = None
            finally:
                leave(token)
            wait = session.settle(outcome)
            if wait is None:
                item = finish(session, outcome)
                break
            _close(cell, inner)
            if not pause(session, wait):
                return finish(session, outcome)
        outcome = None
        if ended:
            return item
        while True:
            thrown: BaseException | None = None
            sent: Any = None
            try:
                sent = yield item
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever the consumer throws in is handed on
                thrown = error
            try:
                if thrown is not None:
                    item = _step(cell, inner.throw, thrown)  # type: ignore[union-attr]  # an item came out of it
                else:
                    item = _step(cell, inner.send, sent)  # type: ignore[union-attr]  # as above
            except StopIteration as stop:
                return stop.value
            finally:
                thrown = None
    except BaseException:
        session.cancelled()
        raise
    finally:
        outcome = None  # else an error's traceback and this frame would hold each other
        try:
            _close(cell, inner)
        finally:
            inner = None
            close(cell)


async def run_async_generator(
    factory: Any,
    call: Call,
    function: Callable[..., AsyncGenerator[Any, Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> AsyncGenerator[Any, Any]:
    """Make a whole call of an async generator function; the twin of `run_generator`."""
    cell = new_cell(innermost_entry.get(), call)
    session = open_session(cell, factory)
    inner: AsyncGenerator[Any, Any] | None = None
    outcome: Outcome | None = None
    try:
        session.begin()
        while True:
            ended = False
            token = enter(cell)
            try:
                inner = function(*args, **kwargs)
                outcome = Returned(await anext(inner))
            except StopAsyncIteration:
                ended = True
                outcome = Returned(None)
            except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                outcome = Raised(error)
                inner = None
            finally:
                leave(token)
            wait = session.settle(outcome)
            if wait is None:
                item = finish(session, outcome)
                break
            await _close_async(cell, inner)
            if not await pause_async(session, wait):
                finish(session, outcome)
                return
        outcome = None
        if ended:
            return
        while True:
            thrown: BaseException | None = None
            sent: Any = None
            try:
                sent = yield item
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever the consumer throws in is handed on
                thrown = error
            try:
                if thrown is not None:
                    item = await _step_async(cell, inner.athrow, thrown)  # type: ignore[union-attr]  # as above
                else:
                    item = await _step_async(cell, inner.asend, sent)  # type: ignore[union-attr]  # as above
            except StopAsyncIteration:
                return
            finally:
                thrown = None
    except BaseException:
        session.cancelled()
        raise
    finally:
        outcome = None  # as in the blocking twin
        try:
            await _close_async(cell, inner)
        finally:
            inner = None
            close(cell)


def _step(cell: LiveAttempt, step: Callable[..., Any], *args: Any) -> Any:
    """One step of the inner generator, inside of the call's entry."""
    token = enter(cell)
    try:
        return step(*args)
    finally:
        leave(token)


async def _step_async(cell: LiveAttempt, step: Callable[..., Any], *args: Any) -> Any:
    """One step of the inner async generator, inside of the call's entry."""
    token = enter(cell)
    try:
        return await step(*args)
    finally:
        leave(token)


def _close(cell: LiveAttempt, inner: Generator[Any, Any, Any] | None) -> None:
    """Let the inner generator clean up, where it has not ended by itself."""
    if inner is not None:
        _step(cell, inner.close)


async def _close_async(cell: LiveAttempt, inner: AsyncGenerator[Any, Any] | None) -> None:
    """Let the inner async generator clean up, where it has not ended by itself."""
    if inner is not None:
        await _step_async(cell, inner.aclose)
