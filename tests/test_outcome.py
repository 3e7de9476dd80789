"""The nouns that go in: call, outcome, attempt. None shows an argument or a value."""

from __future__ import annotations

import copy
import pickle
import weakref
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from retrykit import Attempt, Call, Raised, Returned
from retrykit.outcome import name_of


def function(*args: Any) -> None:
    return None


class Service:
    def method(self) -> None:
        return None

    def __call__(self) -> None:
        return None


def test_outcomes_match_by_their_one_field() -> None:
    """`match` takes them apart."""
    error = KeyError()
    for outcome in (Returned(5), Raised(error)):
        match outcome:
            case Returned(value):
                assert value == 5
            case Raised(raised):
                assert raised is error


def test_a_value_compares_by_value_and_an_error_by_identity() -> None:
    """Two errors that look the same are two."""
    error = KeyError("k")
    assert Returned([1]) == Returned([1])
    assert Returned(1) != Returned(2)
    assert Raised(error) == Raised(error)
    assert Raised(error) != Raised(KeyError("k"))
    assert Returned(error) != Raised(error)
    assert Raised(error) != Returned(error)
    assert Returned(1) != 1
    assert Raised(error) != error


def test_an_error_is_hashable_and_a_value_is_not() -> None:
    """Since what was returned may not be."""
    error = KeyError()
    assert len({Raised(error), Raised(error)}) == 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(Returned(1))


def test_no_repr_shows_a_secret() -> None:
    """Types only: not the value, not the error's text, not the arguments."""
    call = Call(function, Service(), ("secret",), {"key": "secret"})
    assert repr(Returned("secret")) == "Returned(<str>)"
    assert repr(Raised(KeyError("secret"))) == "Raised(<KeyError>)"
    assert repr(call) == "<Call of function>"
    assert repr(Attempt(call, 2, Returned("secret"), 1.0)) == (
        "<Attempt 2 of function: Returned(<str>)>"
    )


@pytest.mark.parametrize("outcome", [Returned([1]), Returned(None)])
def test_outcomes_pickle_when_their_parts_do(outcome: Any) -> None:
    """And copy."""
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert copy.deepcopy(outcome) == outcome
    assert type(pickle.loads(pickle.dumps(Raised(KeyError("k")))).error) is KeyError


def test_an_attempt_has_short_cuts_to_its_outcome() -> None:
    """`error` and `value`: `None` where it is the other."""
    error = KeyError()
    failed = Attempt(Call(function), 1, Raised(error), 0.5)
    passed = Attempt(Call(function), 1, Returned(5), 0.5)
    assert (failed.error, failed.value) == (error, None)
    assert (passed.error, passed.value) == (None, 5)


def test_attempts_and_calls_are_made_by_keyword_too() -> None:
    """With the names of the documentation."""
    service = Service()
    call = Call(function=function, instance=service, args=(1,), kwargs={"b": 2})
    assert (call.function, call.instance, call.args, call.kwargs) == (
        function,
        service,
        (1,),
        {"b": 2},
    )
    attempt = Attempt(call=call, number=3, outcome=Returned(1), elapsed=2.5, wall=1e9)
    assert (attempt.call, attempt.number, attempt.elapsed, attempt.wall) == (call, 3, 2.5, 1e9)
    assert Attempt(call, 1, Returned(1), 0.0).wall is None


def test_a_calls_arguments_may_be_omitted() -> None:
    """Each call has its own empty ones."""
    one, two = Call(function), Call(function)
    assert (one.instance, one.args, one.kwargs) == (None, (), {})
    assert one.kwargs is not two.kwargs


def test_two_calls_with_the_same_arguments_are_two() -> None:
    """Compared and hashed by identity; a reference to one may be weak."""
    one, two = Call(function, args=(1,)), Call(function, args=(1,))
    assert one == one
    assert one != two
    assert len({one, two, one}) == 2
    assert weakref.ref(one)() is one


def test_a_calls_id_is_made_once() -> None:
    """One for all attempts of the call, another for the next call: fit for an Idempotency-Key."""
    one, two = Call(function), Call(function)
    assert isinstance(one.id, UUID)
    assert one.id is one.id
    assert one.id != two.id
    assert one.id.version == 4


class Nameless:
    """A callable that has no name of its own."""

    def __call__(self) -> None:
        return None


class OnlyName:
    """A callable with the short name only."""

    def __init__(self) -> None:
        self.__name__ = "short"

    def __call__(self) -> None:
        return None


def inner_function() -> Any:
    def inside() -> None:
        return None

    class Local:
        def method(self) -> None:
            return None

    return [inside, Local.method]


@pytest.mark.parametrize(
    ("callable_", "name"),
    [
        (function, "function"),
        (Service.method, "Service.method"),
        (Service().method, "Service.method"),
        (Service(), "Service"),
        (Service, "Service"),
        (print, "print"),
        (partial(function, 1), "function"),
        (partial(partial(Service().method)), "Service.method"),
        (partial(Service()), "Service"),
        (OnlyName(), "short"),
        (inner_function()[0], "inside"),
        (inner_function()[1], "Local.method"),
        (lambda: None, "<lambda>"),
    ],
)
def test_the_name_of_a_callable(callable_: Any, name: str) -> None:
    """Qualified, through partials, without the functions around it."""
    assert name_of(callable_) == name
    assert Call(callable_).name == name


def test_a_name_that_is_none_is_its_types() -> None:
    """Some objects answer any attribute with anything."""
    strange: Any = Nameless()
    strange.__qualname__ = 5
    assert name_of(strange) == "Nameless"


def test_a_calls_name_is_worked_out_once() -> None:
    """It is asked for in each event."""
    call = Call(function)
    assert call.name is call.name
