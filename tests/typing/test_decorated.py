"""What the type checkers must say of decorated callables. Checked, not run."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, assert_type, overload

from retrykit import (
    Attempt,
    Call,
    Constant,
    DoNotRetry,
    Exponential,
    Never,
    OnException,
    OnResult,
    RetryAfter,
    RetryDecision,
    RetryExecutor,
    RetryPolicy,
    RetryReason,
    current_attempt,
    disabled,
    override,
    policy_of,
    retry,
    with_policy,
)

# Functions


@retry
def bare(a: int, b: str = "x") -> list[int]:
    return [a]


@retry(on=ConnectionError, attempts=3, backoff=[0.1, timedelta(seconds=1)])
def called(a: int, *, b: str) -> list[int]:
    return [a]


@retry(policy=RetryPolicy(attempts=2))
async def asynchronous(a: int) -> str:
    return str(a)


@retry(policy="github")
def named(a: int) -> int:
    return a


@retry(policy=lambda call: RetryPolicy(name=call.name))
def resolved(a: int) -> int:
    return a


@retry
def generator(n: int) -> Generator[int, str, bool]:
    sent = yield n
    return sent == "x"


@retry
async def async_generator(n: int) -> AsyncIterator[int]:
    yield n


assert_type(bare(1), list[int])
assert_type(bare(1, "y"), list[int])
assert_type(called(1, b="y"), list[int])
assert_type(named(1), int)
assert_type(resolved(1), int)
assert_type(generator(1), Generator[int, str, bool])
assert_type(async_generator(1), AsyncIterator[int])


async def awaiting() -> None:
    assert_type(await asynchronous(1), str)
    assert_type(await RetryPolicy().acall(asynchronous, 1), str)
    assert_type([each async for each in async_generator(1)], list[int])
    async for attempt in RetryPolicy():
        with attempt:
            assert_type(attempt.number, int)


def callbacks(function: Callable[[int], list[int]]) -> None: ...


callbacks(bare)
retrying: Callable[[int], Coroutine[Any, Any, str]] = asynchronous
assert_type(retry(partial(bare, 1))(), list[int])


# Overloads


@overload
def overloaded(a: int) -> int: ...
@overload
def overloaded(a: str) -> str: ...
@retry
def overloaded(a: int | str) -> int | str:
    return a


assert_type(overloaded(1), int)
assert_type(overloaded("x"), str)


# Methods


class Base(abc.ABC):
    @retry(on=OSError)
    def method(self, a: int) -> str:
        return str(a)

    @retry
    async def async_method(self, a: int) -> str:
        return str(a)

    @classmethod
    @retry
    def class_below(cls, a: int) -> str:
        return cls.__name__

    @retry
    @classmethod
    def class_above(cls, a: int) -> str:
        return cls.__name__

    @staticmethod
    @retry
    def static_below(a: int) -> str:
        return str(a)

    @retry
    @staticmethod
    def static_above(a: int) -> str:
        return str(a)

    @property
    @retry
    def value(self) -> int:
        return 1

    @abc.abstractmethod
    @retry
    def abstract(self, a: int) -> int: ...


class Derived(Base):
    @retry(attempts=2)
    def method(self, a: int) -> str:
        return super().method(a)

    def abstract(self, a: int) -> int:
        return a


derived = Derived()
assert_type(derived.method(1), str)
assert_type(Derived.method(derived, 1), str)
assert_type(derived.class_below(1), str)
assert_type(Derived.class_above(1), str)
assert_type(Derived.static_below(1), str)
assert_type(derived.static_above(1), str)
assert_type(derived.value, int)
assert_type(derived.abstract(1), int)


# Policies


class Mine:
    """A factory and an executor in one, known by their shape."""

    def new_executor(self, call: Call, /) -> RetryExecutor:
        return self

    def decide(self, attempt: Attempt, /) -> RetryDecision:
        return RetryAfter(1.0) if attempt.number < 3 else DoNotRetry()


@retry(policy=Mine())
def mine(a: int) -> int:
    return a


def plain(attempt: Attempt) -> RetryDecision | None:
    return RetryAfter(1, RetryReason.THROTTLED) if attempt.error else None


def bool_(value: object) -> bool:
    return bool(value)


policy = RetryPolicy(
    classify=Never(KeyError) | OnException(OSError, after=lambda e: 1.0) | plain | OnResult(bool_),
    attempts=3,
    deadline=timedelta(seconds=30),
    backoff=Exponential(0.1, cap=5).take(3).then(Constant(5)),
    limits={RetryReason.TIMED_OUT: 1},
    listeners=[print],
    unsatisfied="return",
)
assert_type(policy.call(bare, 1, "y"), list[int])
assert_type(policy.replace(attempts=4), RetryPolicy)
assert_type(RetryPolicy.on(OSError, KeyError, attempts=4), RetryPolicy)
assert_type(list(policy.schedule()), list[float])
assert_type(policy.delay_bounds(1).high, float)
assert_type(with_policy(bare, policy)(1), list[int])
assert_type(with_policy(derived.method, policy)(1), str)
policy_of(bare)
assert_type(current_attempt().remaining, float | None)

with override(attempts=1, deadline=3), disabled():
    pass

for each in policy:
    with each as entered:
        assert_type(entered.number, int)
        entered.set_result(3)


def consume(items: Iterator[float]) -> None: ...


consume(policy.schedule())
