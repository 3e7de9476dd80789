"""A mapping that a frozen setting can hold: it compares, hashes and prints as its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V], Generic[K, V]):
    """A copy of `items` that nobody changes. Equal to any mapping with the same items.

    The `repr` is that of a plain `dict`, so that the `repr` of what holds it can be evaluated.
    Hashable where its values are.

    >>> FrozenMap({"a": 1})
    {'a': 1}
    >>> FrozenMap({"a": 1}) == {"a": 1}, hash(FrozenMap({"a": 1})) == hash(FrozenMap({"a": 1}))
    (True, True)
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return type(self), (self._items,)
