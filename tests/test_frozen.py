"""The mapping that frozen settings hold."""

from __future__ import annotations

import copy
import pickle

import pytest

from retrykit._frozen import FrozenMap

FROZEN = FrozenMap({"a": 1, "b": 2.5})


def test_reads_as_the_mapping_it_was_made_of():
    """Look-up, length, order and items are those of the mapping."""
    assert (FROZEN["a"], FROZEN.get("c", 3), len(FROZEN), list(FROZEN)) == (1, 3, 2, ["a", "b"])
    assert dict(FROZEN) == {"a": 1, "b": 2.5}
    with pytest.raises(KeyError):
        FROZEN["c"]


def test_is_a_copy():
    """What is changed later in the mapping it was made of does not show."""
    items = {"a": 1}
    frozen = FrozenMap(items)
    items["a"] = 2
    assert frozen["a"] == 1


def test_cannot_be_changed():
    """It has no way to set, delete or add."""
    with pytest.raises(TypeError):
        FROZEN["a"] = 2
    with pytest.raises(TypeError):
        del FROZEN["a"]
    with pytest.raises(AttributeError):
        FROZEN.name = 1


def test_compares_with_any_mapping_and_hashes_whatever_the_order():
    """Equal items, equal hash."""
    other = FrozenMap({"b": 2.5, "a": 1})
    assert other == FROZEN == {"a": 1, "b": 2.5}
    assert hash(other) == hash(FROZEN)
    assert FrozenMap({"a": 1}) != FROZEN


def test_what_cannot_be_hashed_inside_makes_it_unhashable():
    """A list in it is found out by `hash`."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenMap({"a": []}))


def test_prints_as_a_dict():
    """The `repr` can stand in a constructor's call."""
    assert repr(FROZEN) == "{'a': 1, 'b': 2.5}"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol):
    """Every pickle protocol brings it back."""
    back = pickle.loads(pickle.dumps(FROZEN, protocol))
    assert (type(back), back) == (FrozenMap, FROZEN)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies(copied):
    """Both kinds of copy are equal and of its type."""
    assert (type(copied(FROZEN)), copied(FROZEN)) == (FrozenMap, FROZEN)
