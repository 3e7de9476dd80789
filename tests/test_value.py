"""What the strategies do as values: print, compare and hash by their fields."""

from __future__ import annotations

import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, fields, is_dataclass

import pytest

from retrykit._value import Value


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Point(Value):
    x: float
    _: KW_ONLY
    label: str

    def __init__(self, x, *, label=""):
        self._put(x=float(x), label=label)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Place(Point):
    pass


def test_the_repr_repeats_the_constructor():
    """Keyword-only fields print by keyword, the others by position, so that it can be evaluated."""
    assert repr(Point(1, label="a")) == "Point(1.0, label='a')"
    assert eval(repr(Point(1, label="a"))) == Point(1, label="a")


def test_equal_fields_are_equal_values():
    """Same class, same fields: equal, with one hash; any other field tells them apart."""
    assert Point(1, label="a") == Point(1.0, label="a")
    assert hash(Point(1, label="a")) == hash(Point(1.0, label="a"))
    assert Point(1, label="a") != Point(2, label="a")
    assert Point(1, label="a") != Point(1, label="b")


def test_another_class_is_another_value():
    """A subclass with the same fields, and anything else, is not equal."""
    assert Point(1) != Place(1)
    assert Point(1) != 1.0
    assert len({Point(1), Place(1)}) == 2


def test_it_is_a_frozen_slotted_dataclass():
    """The fields are there to ask for, cannot be set, and take no dictionary."""
    assert is_dataclass(Point)
    assert [field.name for field in fields(Point)] == ["x", "label"]
    with pytest.raises(FrozenInstanceError):
        Point(1).x = 2.0  # type: ignore[misc]  # refused, as the test shows
    assert not hasattr(Point(1), "__dict__")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_pickles(protocol):
    """Every protocol brings back an equal value."""
    assert pickle.loads(pickle.dumps(Point(1, label="a"), protocol)) == Point(1, label="a")
