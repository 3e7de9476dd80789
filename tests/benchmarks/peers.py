"""Libraries that retry, each set up alike: up to five attempts, on one exception type.

A library that is not installed is left out and named in `LEFT_OUT`.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Decorator: TypeAlias = Callable[[Any], Any]

ATTEMPTS: Final = 5


class Fault(Exception):
    """What every library here is told to retry."""


@dataclass(frozen=True, slots=True)
class Peer:
    """How a library decorates a function, and a coroutine function; `None` where it does not."""

    blocking: Decorator | None
    asynchronous: Decorator | None
    really_waits: bool = False
    """Whether it cannot be told to retry at once."""


LEFT_OUT: Final[list[str]] = []
_MAKERS: Final[dict[str, Callable[[], Peer]]] = {}


def peer(name: str) -> Callable[[Callable[[], Peer]], None]:
    """Register how a library is set up to wait for no time."""

    def register(make: Callable[[], Peer]) -> None:
        _MAKERS[name] = make

    return register


def peers(names: list[str]) -> dict[str, Peer]:
    """The libraries by name, all if none is named; the hand-written loop is always there."""
    found: dict[str, Peer] = {}
    for name, make in _MAKERS.items():
        if names and name not in (*names, "hand-written loop"):
            continue
        try:
            found[name] = make()
        except Exception as problem:  # not installed, or not working with what is
            LEFT_OUT.append(f"{name}: {type(problem).__name__}: {problem}")
    return found


@peer("hand-written loop")
def _() -> Peer:
    def blocking(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            left = ATTEMPTS
            while True:
                try:
                    return function(*args, **kwargs)
                except Fault:
                    left -= 1
                    if not left:
                        raise
                    time.sleep(0)

        return called

    def asynchronous(function: Any) -> Any:
        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            left = ATTEMPTS
            while True:
                try:
                    return await function(*args, **kwargs)
                except Fault:
                    left -= 1
                    if not left:
                        raise
                    await asyncio.sleep(0)

        return called

    return Peer(blocking, asynchronous)


@peer("retrykit")
def _() -> Peer:
    from retrykit import Constant, retry

    decorator = retry(on=Fault, attempts=ATTEMPTS, backoff=Constant(0))
    return Peer(decorator, decorator)


@peer("tenacity")
def _() -> Peer:
    import tenacity

    decorator = tenacity.retry(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_none(),
        retry=tenacity.retry_if_exception_type(Fault),
        reraise=True,
    )
    return Peer(decorator, decorator)


@peer("stamina")
def _() -> Peer:
    import stamina

    stamina.instrumentation.set_on_retry_hooks([])
    decorator = stamina.retry(
        on=Fault, attempts=ATTEMPTS, wait_initial=0, wait_jitter=0, wait_max=0
    )
    return Peer(decorator, decorator)


@peer("backoff")
def _() -> Peer:
    import backoff

    decorator = backoff.on_exception(
        backoff.constant, Fault, max_tries=ATTEMPTS, interval=0, jitter=None, logger=None
    )
    return Peer(decorator, decorator)


@peer("opnieuw")
def _() -> Peer:
    from opnieuw import retry, retry_async

    settings: dict[str, Any] = {
        "retry_on_exceptions": Fault,
        "max_calls_total": ATTEMPTS,
        "retry_window_after_first_call_in_seconds": 1,
    }
    return Peer(retry(**settings), retry_async(**settings), really_waits=True)


@peer("hyx")
def _() -> Peer:
    from hyx.retry import retry
    from hyx.retry.backoffs import const

    # Its decorator makes a manager for each function.
    return Peer(
        None, lambda function: retry(on=Fault, attempts=ATTEMPTS, backoff=const(0))(function)
    )


@peer("pyresilience")
def _() -> Peer:
    from pyresilience import RetryConfig, resilient

    config = RetryConfig(max_attempts=ATTEMPTS, delay=0, retry_on=(Fault,), jitter=False)
    return Peer(
        lambda function: resilient(retry=config)(function),
        lambda function: resilient(retry=config)(function),
    )


@peer("google-api-core")
def _() -> Peer:
    from google.api_core import retry, retry_async

    # It has a time limit and no number of attempts, and takes no wait of zero.
    settings: dict[str, Any] = {
        "predicate": retry.if_exception_type(Fault),
        "initial": 1e-9,
        "maximum": 1e-9,
    }
    return Peer(retry.Retry(**settings), retry_async.AsyncRetry(**settings))


@peer("redress")
def _() -> Peer:
    from redress import ErrorClass, retry

    def decorator(function: Any) -> Any:
        return retry(
            classifier=lambda _: ErrorClass.TRANSIENT,
            strategy=lambda _: 0.0,
            max_attempts=ATTEMPTS,
        )(function)

    return Peer(decorator, decorator)


@peer("retrying")
def _() -> Peer:
    from retrying import retry

    return Peer(
        retry(
            stop_max_attempt_number=ATTEMPTS,
            retry_on_exception=lambda error: isinstance(error, Fault),
        ),
        None,
    )


@peer("redo")
def _() -> Peer:
    import redo

    return Peer(
        redo.retriable(attempts=ATTEMPTS, sleeptime=0, jitter=0, retry_exceptions=(Fault,)), None
    )
