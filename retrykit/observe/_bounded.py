"""Keep a label's values few: names that a program makes up at run time must not fill a store."""

from __future__ import annotations

from itertools import count


class Bounded:
    """Lets the first `limit` names through and answers `rest` for every further one.

    >>> bounded = Bounded(2, rest="other")
    >>> [bounded(name) for name in ("a", "b", "c", "a")]
    ['a', 'b', 'other', 'a']
    """

    __slots__ = ("_limit", "_numbers", "_places", "_rest")

    def __init__(self, limit: int, *, rest: str) -> None:
        self._limit = limit
        self._rest = rest
        self._numbers = count()
        self._places: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        """The name, or the rest's."""
        place = self._places.get(name)
        if place is None:
            if len(self._places) >= self._limit:
                return self._rest
            # Two threads may both get this far: the places handed out keep to the limit, without
            # a lock that a fork could leave held.
            place = self._places.setdefault(name, next(self._numbers))
        return name if place < self._limit else self._rest
