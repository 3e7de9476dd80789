"""Frozen dataclasses without generated code: the methods are written here, once for all.

What `@dataclass(frozen=True, slots=True)` generates costs up to a millisecond of the import for
each class; `@frozen` over a subclass of `Value` costs a tenth of that.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import ClassVar

V = TypeVar("V", bound="Value")


class Value:
    """Prints, compares, hashes and pickles by its fields, and refuses to have them set.

    The `repr` repeats the constructor: keyword-only fields by keyword, the others by position. A
    subclass is decorated with `@frozen`, and its `__init__` checks the settings and puts them in.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def _put(self, **fields: object) -> None:
        for name, setting in fields.items():
            object.__setattr__(self, name, setting)

    def __setattr__(self, name: str, setting: object) -> None:
        if name in self.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, setting)

    def __delattr__(self, name: str) -> None:
        if name in self.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def __getstate__(self) -> list[object]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __setstate__(self, state: list[object]) -> None:
        self._put(**dict(zip(self.__dataclass_fields__, state, strict=True)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or other.__class__ is not self.__class__:
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.__class__, *self.__getstate__()))

    def __repr__(self) -> str:
        parts = [
            f"{name}={named(getattr(self, name))}" if field.kw_only else named(getattr(self, name))
            for name, field in self.__dataclass_fields__.items()
        ]
        return f"{type(self).__qualname__}({', '.join(parts)})"


@dataclass_transform(eq_default=False, frozen_default=True)
def frozen(cls: type[V]) -> type[V]:
    """Make a direct subclass of `Value` that has an `__init__` a frozen, slotted dataclass."""
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    # `Value` freezes it. The mark lets a frozen dataclass of a user's own inherit from it.
    made.__dataclass_params__.frozen = True  # type: ignore[attr-defined]  # not in typeshed
    return made


def named(thing: object) -> str:
    """How a value is written in code: a class or function by its name, else by its repr."""
    if isinstance(thing, tuple):
        thing = cast("tuple[object, ...]", thing)  # its parts are named one by one
        return f"({', '.join(map(named, thing))}{',' if len(thing) == 1 else ''})"
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) and "<" not in name else repr(thing)
