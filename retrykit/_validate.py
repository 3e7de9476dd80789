"""Refuse bad settings at construction, naming the field and the value."""

from __future__ import annotations

import inspect
import math
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    Duration = float | timedelta

INFINITY: Final = math.inf


def number(field: str, value: object, *, low: float = 0.0, above: bool = False) -> float:
    """`value` as a finite float, at least `low` (`above=True`: greater than it).

    Raises `TypeError` for what is no number (a `bool` is none), `ValueError` for NaN, infinity
    and what lies too low.

    >>> number("cap", 2)
    2.0
    >>> number("cap", -1)
    Traceback (most recent call last):
        ...
    ValueError: cap must be at least 0, got -1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{field} must be a number, got {shown(value)}")
    try:
        result = float(value)
    except OverflowError:
        result = INFINITY
    if not math.isfinite(result):
        raise ValueError(f"{field} must be finite, got {shown(value)}")
    if result < low or (above and result == low):
        raise ValueError(
            f"{field} must be {'above' if above else 'at least'} {low:g}, got {value!r}"
        )
    return result


def seconds(field: str, value: object, *, above: bool = False) -> float:
    """A duration as float seconds: a number or a `timedelta`, not negative (`above`: not zero).

    >>> from datetime import timedelta
    >>> seconds("deadline", timedelta(minutes=1))
    60.0
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{field} must be a number of seconds or a timedelta, got {shown(value)}")
    return number(field, value, above=above)


def whole(field: str, value: object, *, low: int) -> int:
    """A whole number, at least `low`; a `bool` and a float are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field} must be a whole number, got {shown(value)}")
    if value < low:
        raise ValueError(f"{field} must be at least {low}, got {shown(value)}")
    return value


def instance_not_class(field: str, value: object) -> None:
    """Refuse a class where one of its instances belongs: the parentheses were forgotten."""
    if isinstance(value, type):
        raise TypeError(
            f"{field} must be an instance, got the class {value.__name__}: call it first"
        )


def function(field: str, value: object, *, classes: bool = False, generators: bool = False) -> None:
    """Refuse what cannot be called, and what is async where a plain function belongs.

    A generator function is refused with them, since calling it runs nothing (`generators=True`
    takes it).

    A class is refused too, since its parentheses were forgotten; with `classes=True` it is taken,
    where `bool` is as good a predicate as any.
    """
    if not classes:
        instance_not_class(field, value)
    if not callable(value):
        raise TypeError(f"{field} must be callable, got {shown(value)}")
    if is_async(value):
        raise TypeError(f"{field} must be a plain function, got the async {shown(value)}")
    if not generators and is_generating(value):
        raise TypeError(f"{field} must be a plain function, got the generator {shown(value)}")


def one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not among those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"{field} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}"
        )


def is_async(value: object) -> bool:
    """Whether calling `value` gives a coroutine: it, what it is partial of, or its `__call__`."""
    while isinstance(value, partial):
        value = value.func
    if inspect.iscoroutinefunction(value):
        return True
    if isinstance(value, type):
        return False
    call = getattr(type(value), "__call__", None)  # noqa: B004 - the method itself is asked, not whether it exists
    while isinstance(call, partial):
        call = call.func
    return inspect.iscoroutinefunction(call)


def is_generating(value: object) -> bool:
    """Whether calling `value` gives a generator or an async generator, as `is_async` looks."""
    while isinstance(value, partial):
        value = value.func
    asked = [value]
    if not isinstance(value, type):
        asked.append(getattr(type(value), "__call__", None))  # noqa: B004 - as above
    return any(
        inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in asked
    )


def is_number(value: object) -> TypeIs[int | float]:
    """Whether `value` is an int or a float and no `bool`."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def told(value: object) -> str:
    """What may be told of a value that came in a call: a number or a class, else its type's name.

    >>> told(1.5), told("secret")
    ('1.5', 'a str')
    """
    if value is None or isinstance(value, (int, float, type, Enum)):
        return shown(value)
    return f"a {type(value).__name__}"


def shown(value: object) -> str:
    """A short `repr` for an error's text; a `repr` that fails does not hide the error."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - somebody else's repr may raise anything
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
