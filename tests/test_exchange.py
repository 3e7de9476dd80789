"""A call whose outcomes hold a connection: what a driver asks it for, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

from retrykit import Call, Raised, RetryPolicy
from retrykit._async import run_async
from retrykit._blocking import run
from retrykit._exchange import Exchange
from retrykit.testing import VirtualClock


class Request(Exchange):
    """Writes down what it is asked for."""

    __slots__ = ("again", "log")

    advice = "; open the file anew"

    def __init__(self, log: list[Any], again: bool = True) -> None:
        super().__init__(print)
        self.log = log
        self.again = again

    def replayable(self) -> bool:
        return self.again

    def discard(self, outcome: Any, /) -> None:
        self.log.append(("discarded", outcome))

    async def discard_async(self, outcome: Any, /) -> None:
        self.log.append(("discarded", outcome))


class LoggingClock(VirtualClock):
    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    def sleep(self, seconds: float, /) -> None:
        self.log.append("wait")

    async def sleep_async(self, seconds: float, /) -> None:
        self.log.append("wait")


def blocking(policy: RetryPolicy, call: Call, step: Any) -> Any:
    return run(policy, call, step, (), {}, run_async)


def on_asyncio(policy: RetryPolicy, call: Call, step: Any) -> Any:
    return asyncio.run(run_async(policy, call, step, (), {}))


def on_trio(policy: RetryPolicy, call: Call, step: Any) -> Any:
    return trio.run(run_async, policy, call, step, (), {})


FORMS = pytest.mark.parametrize("form", [blocking, on_asyncio, on_trio])


@FORMS
def test_what_failed_is_let_go_between_the_decision_and_the_wait(form: Any) -> None:
    """Each outcome that is retried, and not the one that comes out."""
    log: list[Any] = []
    policy = RetryPolicy.on(
        KeyError, attempts=3, backoff=[1, 1], clock=LoggingClock(log), listeners=()
    )
    errors = [KeyError(1), KeyError(2), KeyError(3)]
    left = iter(errors)

    def step() -> Any:
        raise next(left)

    with pytest.raises(KeyError) as told:
        form(policy, Request(log), step)
    assert told.value is errors[2]
    assert log == [
        ("discarded", Raised(errors[0])),
        "wait",
        ("discarded", Raised(errors[1])),
        "wait",
    ]


@FORMS
def test_what_cannot_be_sent_again_says_what_to_do(form: Any) -> None:
    """In the note on the error, in the adapter's own words."""
    log: list[Any] = []
    policy = RetryPolicy.on(KeyError, clock=LoggingClock(log), listeners=())

    def step() -> Any:
        raise KeyError

    with pytest.raises(KeyError) as told:
        form(policy, Request(log, again=False), step)
    assert log == []
    [note] = told.value.__notes__
    assert "not_replayable" in note
    assert note.endswith("; open the file anew")


@FORMS
def test_an_exchange_that_knows_nothing_lets_go_of_nothing(form: Any) -> None:
    """It can be sent again, and adds no advice."""
    policy = RetryPolicy.on(KeyError, attempts=2, backoff=[0], listeners=())
    errors = iter([KeyError()])

    def step() -> Any:
        for error in errors:
            raise error
        return "done"

    call = Exchange(print)
    assert form(policy, call, step) == "done"
    assert call.replayable() is True
    assert call.advice == ""
