"""Which driver a callable needs: the one place where that is told."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from retrykit._async import continue_async, run_async
from retrykit._blocking import run
from retrykit._generators import run_async_generator, run_generator
from retrykit._validate import is_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrykit.outcome import Call

PLAIN: Final = "plain"
ASYNC: Final = "async"
GENERATOR: Final = "generator"
ASYNC_GENERATOR: Final = "async generator"


def form_of(function: object) -> str:
    """What calling the function gives: a value, a coroutine, a generator or an async generator.

    Looks at the function, at what it is partial of and at its `__call__`.

    >>> form_of(print), form_of(partial(partial(form_of)))
    ('plain', 'plain')
    """
    while isinstance(function, partial):
        function = function.func
    if is_async(function):
        return ASYNC
    asked = [function]
    if not isinstance(function, (type, FunctionType, MethodType)):
        asked.append(getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is asked
    if any(map(inspect.isasyncgenfunction, asked)):
        return ASYNC_GENERATOR
    if any(map(inspect.isgeneratorfunction, asked)):
        return GENERATOR
    return PLAIN


def start(
    form: str,
    factory: Any,
    call: Call,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Begin a call with the driver for its form, and give what that form gives."""
    if form == PLAIN:
        return run(factory, call, function, args, kwargs, continue_async)
    return _DRIVERS[form](factory, call, function, args, kwargs)


_DRIVERS: Final[dict[str, Callable[..., Any]]] = {
    ASYNC: run_async,
    GENERATOR: run_generator,
    ASYNC_GENERATOR: run_async_generator,
}
