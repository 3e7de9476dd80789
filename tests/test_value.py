"""What the strategies do as values: print, compare and hash by their fields."""

from __future__ import annotations

import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, fields, is_dataclass, replace
from unittest.mock import ANY

import pytest

from retrykit._value import Value, frozen


@frozen
class Point(Value):
    x: float
    _: KW_ONLY
    label: str

    def __init__(self, x, *, label=""):
        self._put(x=float(x), label=label)


class Place(Point):
    __slots__ = ()


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
    """A subclass with the same fields is not equal; what is no value answers for itself."""
    assert Point(1) != Place(1)
    assert Point(1) != 1.0
    assert Point(1) == ANY
    assert len({Point(1), Place(1)}) == 2


def test_it_is_a_frozen_slotted_dataclass():
    """The fields are there to ask for, cannot be set or deleted, and take no dictionary."""
    point = Point(1)
    assert is_dataclass(Point)
    assert [field.name for field in fields(Point)] == ["x", "label"]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2.0
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'label'"):
        del point.label
    with pytest.raises(AttributeError):
        point.y = 2.0
    with pytest.raises(AttributeError):
        del point.y
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_a_changed_copy_is_made_by_the_constructor():
    """`dataclasses.replace` works, and converts and refuses as the constructor does."""
    assert replace(Point(1, label="a"), x=2) == Point(2.0, label="a")
    with pytest.raises(ValueError, match="could not convert"):
        replace(Point(1), x="far")


def test_a_users_frozen_dataclass_may_inherit():
    """A subclass gets fields of its own, and the methods of any dataclass if it wants them."""

    @dataclass(frozen=True)
    class Labelled(Point):
        z: float = 0.0

    assert Labelled(1, label="a", z=2) == Labelled(1, label="a", z=2)
    assert Labelled(1, label="a", z=2) != Labelled(1, label="a", z=3)
    with pytest.raises(FrozenInstanceError):
        Labelled(1, label="a").z = 5.0


def test_a_plain_subclass_may_have_attributes_of_its_own():
    """Only the fields are frozen: a cache of a user's own is a user's own business."""

    class Cached(Point):
        pass

    point = Cached(1)
    point.cache = {}
    assert point.cache == {}
    del point.cache
    with pytest.raises(FrozenInstanceError):
        point.x = 2.0


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_pickles(protocol):
    """Every protocol brings back an equal value."""
    assert pickle.loads(pickle.dumps(Point(1, label="a"), protocol)) == Point(1, label="a")
