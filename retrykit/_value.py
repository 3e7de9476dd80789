"""What every strategy does as a value, written once instead of generated for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import ClassVar


class Value:
    """Prints, compares and hashes by its fields, for dataclasses with `eq=False, repr=False`.

    The generated methods of one dataclass take half a millisecond of the import; these take none.
    The `repr` repeats the constructor: keyword-only fields by keyword, the others by position.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def _put(self, **fields: object) -> None:
        """Set the fields of a frozen instance: for its `__init__` only."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.__class__, self._values()))

    def __repr__(self) -> str:
        parts = [
            f"{name}={getattr(self, name)!r}" if field.kw_only else repr(getattr(self, name))
            for name, field in self.__dataclass_fields__.items()
        ]
        return f"{type(self).__qualname__}({', '.join(parts)})"
