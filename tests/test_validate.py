"""What is refused at construction, and how it is said."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from retrykit._validate import (
    function,
    instance_not_class,
    is_async,
    is_number,
    number,
    one_of,
    seconds,
    shown,
    whole,
)


@pytest.mark.parametrize(
    ("value", "settings", "held"),
    [
        (0, {}, 0.0),
        (-0.0, {}, 0.0),
        (2, {}, 2.0),
        (2.5, {}, 2.5),
        (1e308, {}, 1e308),
        (1, {"low": 1.0}, 1.0),
        (5e-324, {"above": True}, 5e-324),
        (1.5, {"low": 1.0, "above": True}, 1.5),
    ],
)
def test_a_number_is_held_as_a_float(value: Any, settings: Any, held: float) -> None:
    """Whole or not, as long as it is finite and not too low."""
    result = number("x", value, **settings)
    assert result == held
    assert type(result) is float


@pytest.mark.parametrize(
    ("value", "settings", "kind", "text"),
    [
        (-1, {}, ValueError, "x must be at least 0, got -1"),
        (0.5, {"low": 1.0}, ValueError, "x must be at least 1, got 0.5"),
        (0, {"above": True}, ValueError, "x must be above 0, got 0"),
        (-1, {"above": True}, ValueError, "x must be above 0, got -1"),
        (1.0, {"low": 1.0, "above": True}, ValueError, "x must be above 1, got 1.0"),
        (math.nan, {}, ValueError, "x must be finite, got nan"),
        (math.inf, {}, ValueError, "x must be finite, got inf"),
        (-math.inf, {}, ValueError, "x must be finite, got -inf"),
        (10**400, {}, ValueError, "x must be finite, got "),
        (-(10**400), {}, ValueError, "x must be finite, got "),
        (True, {}, TypeError, "x must be a number, got True"),
        ("1", {}, TypeError, "x must be a number, got '1'"),
        (None, {}, TypeError, "x must be a number, got None"),
        (1j, {}, TypeError, "x must be a number, got 1j"),
        (Fraction(1, 2), {}, TypeError, "x must be a number, got Fraction(1, 2)"),
        (timedelta(1), {}, TypeError, "x must be a number, got datetime.timedelta(days=1)"),
    ],
)
def test_what_is_no_number_is_refused(
    value: Any, settings: Any, kind: type[Exception], text: str
) -> None:
    """A wrong type is a `TypeError`, a bad value a `ValueError`."""
    with pytest.raises(kind) as told:
        number("x", value, **settings)
    assert str(told.value).startswith(text)


def test_a_number_too_long_to_print_is_refused_by_its_type() -> None:
    """Python refuses to write out so many digits."""
    with pytest.raises(ValueError, match=r"^x must be finite, got a int$"):
        number("x", 10**5000)
    with pytest.raises(ValueError, match=r"^x must be at least 1, got a int$"):
        whole("x", -(10**5000), low=1)


@pytest.mark.parametrize(
    ("value", "held"), [(3, 3.0), (0, 0.0), (timedelta(minutes=1), 60.0), (timedelta(0), 0.0)]
)
def test_seconds_are_numbers_or_timedeltas(value: Any, held: float) -> None:
    """In, and float seconds out."""
    assert seconds("x", value) == held


@pytest.mark.parametrize(
    ("value", "settings", "kind", "text"),
    [
        (True, {}, TypeError, "x must be a number of seconds or a timedelta, got True"),
        ("3", {}, TypeError, "x must be a number of seconds or a timedelta, got '3'"),
        (timedelta(seconds=-1), {}, ValueError, "x must be at least 0, got -1.0"),
        (timedelta(0), {"above": True}, ValueError, "x must be above 0, got 0.0"),
        (math.nan, {}, ValueError, "x must be finite, got nan"),
    ],
)
def test_what_is_no_duration_is_refused(
    value: Any, settings: Any, kind: type[Exception], text: str
) -> None:
    """The text names both ways to write one."""
    with pytest.raises(kind) as told:
        seconds("x", value, **settings)
    assert str(told.value) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, ValueError, "x must be at least 1, got 0"),
        (1.0, TypeError, "x must be a whole number, got 1.0"),
        (True, TypeError, "x must be a whole number, got True"),
        ("1", TypeError, "x must be a whole number, got '1'"),
    ],
)
def test_what_is_no_whole_number_is_refused(value: Any, kind: Any, text: str) -> None:
    """A float is none, whole as it may be."""
    assert whole("x", 1, low=1) == 1
    with pytest.raises(kind) as told:
        whole("x", value, low=1)
    assert str(told.value) == text


def test_a_word_that_is_not_among_those_allowed() -> None:
    """All of them are named."""
    one_of("x", "a", ("a", "b"))
    for value in ("c", None, 5, "A", ""):
        with pytest.raises(ValueError, match=r"^x must be one of 'a', 'b', got ") as told:
            one_of("x", value, ("a", "b"))
        assert str(told.value).endswith(repr(value))


def test_a_class_where_an_instance_belongs() -> None:
    """The parentheses were forgotten."""
    instance_not_class("x", 5)
    with pytest.raises(TypeError) as told:
        instance_not_class("x", Fraction)
    assert str(told.value) == "x must be an instance, got the class Fraction: call it first"


async def asynchronous() -> None:
    return None


class Plain:
    def __call__(self) -> None:
        return None

    async def method(self) -> None:
        return None

    @staticmethod
    async def static() -> None:
        return None


class Async:
    async def __call__(self) -> None:
        return None


class AsyncByPartial:
    __call__ = partial(partial(asynchronous))


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (asynchronous, True),
        (partial(asynchronous), True),
        (partial(partial(asynchronous)), True),
        (Async(), True),
        (partial(Async()), True),
        (Async().__call__, True),
        (AsyncByPartial(), True),
        (Plain().method, True),
        (Plain.static, True),
        (Plain(), False),
        (partial(Plain()), False),
        (print, False),
        (partial(print), False),
        (Async, False),
        (Plain, False),
        (lambda: asynchronous(), False),
        (5, False),
    ],
)
def test_whether_calling_it_gives_a_coroutine(value: Any, answer: bool) -> None:
    """It, what it is partial of, or its `__call__`; calling a class makes an instance."""
    assert is_async(value) is answer
    if not callable(value) or isinstance(value, type):
        return
    if answer:
        with pytest.raises(TypeError, match=r"^x must be a plain function, got the async "):
            function("x", value)
    else:
        function("x", value)


@pytest.mark.parametrize(
    ("value", "answer"),
    [(1, True), (1.5, True), (math.nan, True), (True, False), ("1", False), (None, False)],
)
def test_what_is_a_number(value: Any, answer: bool) -> None:
    """An `int` or a float and no `bool`."""
    assert is_number(value) is answer


def test_what_is_shown_of_a_value() -> None:
    """Its `repr`, up to eighty characters; its type, where the `repr` fails."""

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    assert shown("x" * 78) == repr("x" * 78)
    assert shown("x" * 79) == "'" + "x" * 76 + "..."
    assert len(shown("x" * 10_000)) == 80
    assert shown(Bad()) == "a Bad"


def generating() -> Iterator[None]:
    yield


async def generating_slowly() -> AsyncIterator[None]:
    yield


class Generating:
    """An object whose call gives a generator."""

    def __call__(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    "value", [generating, generating_slowly, Generating(), partial(partial(generating))]
)
def test_a_generator_function_is_refused_where_a_plain_one_belongs(value: Any) -> None:
    """Calling it would run nothing, and what it gives is always true."""
    with pytest.raises(TypeError, match=r"^x must be a plain function, got the generator "):
        function("x", value)
    function("x", value, generators=True)
