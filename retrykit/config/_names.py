"""What a name in a configuration may mean: a closed list, and what the program made known.

A file never causes an import. An exception is named by a builtin's name, by a qualified name that
the facts' table has, or by a name that the program registered; everything else by registered names.
"""

from __future__ import annotations

import builtins
import copyreg
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from retrykit._validate import shown
from retrykit.facts._rows import class_names, table_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_reserved: set[str] = {"true", "false"}
_exceptions: dict[str, type[BaseException]] = {}
_parts: dict[str, object] = {}


def register_exception(name: str, type: type[BaseException], /) -> None:
    """Let configurations name an exception type of the program's: `on = ["QuotaError"]`.

    The same name again stands for the new type from then on, in what is read afterwards. Raises
    `TypeError` for what is no exception type, and `ValueError` for a name that means another
    already: a builtin's, one of the facts' table, or a word of the library's.

    >>> class QuotaError(Exception):
    ...     pass
    >>> register_exception("QuotaError", QuotaError)
    """
    _check_name(name)
    if not _is_exception_type(type):
        raise TypeError(f"type must be an exception type, got {shown(type)}")
    known = _known_exception(name)
    if known is not None and known is not type:
        raise ValueError(f"name must not be another exception's, got {name!r}")
    if name in _parts:
        raise ValueError(f"name must not be another part's, got {name!r}")
    # A whole new mapping, so that no thread reads one that grows.
    global _exceptions
    _exceptions = {**_exceptions, name: type}


def register(name: str, part: object, /) -> None:
    """Let configurations name a part of the program's, wherever a policy takes one.

    That is a listener, a classifier, a predicate (`when`, `after`, `kind = "result"`), a budget or
    its key, a `stop_when`, or a backoff, jitter or server delay of your own. Whether it fits is
    checked where it is named. The same name again stands for the new part, in what is read
    afterwards. Raises `TypeError` for a class, and `ValueError` for a name that is taken.

    >>> register("pending", lambda job: job["status"] == "pending")
    """
    _check_name(name)
    if _is_exception_type(part):
        raise TypeError(f"part must not be an exception type: register_exception({name!r}, ...)")
    if isinstance(part, type):
        raise TypeError(f"part must be an instance, got the class {part.__name__}: call it first")
    if name in _exceptions or _known_exception(name) is not None:
        raise ValueError(f"name must not be an exception's, got {name!r}")
    global _parts
    _parts = {**_parts, name: part}


def exception_named(name: str) -> type[BaseException]:
    """The exception type of that name, a stand-in where its module is not imported yet.

    Raises `LookupError` where the name is nowhere.
    """
    found = _exceptions.get(name)
    if found is None:
        found = _known_exception(name)
    if found is None:
        raise LookupError(name)
    return found


def exceptions() -> list[str]:
    """Every name that an exception type has here."""
    return [*_exceptions, *_builtin_exceptions(), *_qualified()]


def name_of_exception(kind: type[BaseException]) -> str | None:
    """The name by which a configuration can say this type; `None` where there is none."""
    if isinstance(kind, _StandInType):
        return kind.__qualname__
    for name, each in _exceptions.items():
        if each is kind:
            return name
    if _builtin_exceptions().get(kind.__name__) is kind:
        return kind.__name__
    qualified = f"{kind.__module__}.{kind.__qualname__}"
    return next(
        (n for n in (qualified, table_name(qualified)) if _known_exception(n) is kind), None
    )


def part_named(name: str) -> object:
    """What the program registered under that name, else `LookupError`."""
    return _parts[name]


def parts() -> list[str]:
    """The names under which something is registered."""
    return list(_parts)


def reserve(*words: str) -> None:
    """Keep words that have a meaning of the library's own from being registered."""
    _reserved.update(words)


def is_registered(part: object) -> bool:
    """Whether this very object is registered: a budget that several policies share, say."""
    return any(each is part for each in _parts.values())


def name_of_part(part: object) -> str | None:
    """The name under which an object is registered, or one that is equal to it."""
    for name, each in _parts.items():
        if each is part:
            return name
    for name, each in _parts.items():
        if type(each) is type(part) and equal(each, part):
            return name
    return None


def nearest(word: str, words: Iterable[str]) -> str:
    """`: did you mean 'cap'?`, or the words, where none is near and they are few, or nothing."""
    from difflib import get_close_matches

    words = sorted(set(words))
    near = get_close_matches(word, words, n=1) if len(word) <= 100 else []
    if near:
        return f": did you mean {near[0]!r}?"
    return f": there are {', '.join(words)}" if 0 < len(words) <= 20 else ""


class _StandInType(type):
    """The type of the classes that stand for exceptions whose modules nobody has imported.

    `isinstance` and `issubclass` ask the class that has the name by then: an error of a class
    exists only once its module does.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        found = _imported(cls.__qualname__)
        return found is not None and isinstance(instance, found)

    def __subclasscheck__(cls, subclass: type) -> bool:
        found = _imported(cls.__qualname__)
        return subclass is cls or (found is not None and issubclass(subclass, found))

    def __repr__(cls) -> str:
        return f"<exception {cls.__qualname__}, not imported>"


def _reduce(kind: type) -> tuple[Any, tuple[str]]:
    return exception_named, (kind.__qualname__,)


copyreg.pickle(_StandInType, _reduce)


@cache
def _stand_in(name: str) -> type[BaseException]:
    # Interned, so that two policies that say the same are equal. The names are the table's, so few.
    fields = {"__qualname__": name, "__module__": __name__}
    kind: Any = _StandInType(name, (Exception,), fields)
    return cast("type[BaseException]", kind)  # for it derives from one


def _known_exception(name: str) -> type[BaseException] | None:
    """A builtin exception, or one of the facts' table, by name."""
    builtin = _builtin_exceptions().get(name.removeprefix("builtins."))
    if builtin is not None:
        return builtin
    full = _qualified().get(name)
    if full is None and table_name(name) in class_names():
        full = (
            name  # an alias that the table knows: httpcore's for httpx's, psycopg2's for psycopg's
        )
    return None if full is None else _imported(full) or _stand_in(full)


def _imported(name: str) -> type[BaseException] | None:
    """The class of that qualified name, where its module is there. Runs nobody's code."""
    module_name, _, attribute = name.rpartition(".")
    module = sys.modules.get(module_name)
    # Not `getattr`: a module's `__getattr__` may import on demand.
    found = None if module is None else vars(module).get(attribute)
    return found if _is_exception_type(found) else None


@cache
def _builtin_exceptions() -> Mapping[str, type[BaseException]]:
    return {name: each for name, each in vars(builtins).items() if _is_exception_type(each)}


@cache
def _qualified() -> Mapping[str, str]:
    """The table's names by themselves and by the package's, where that is unambiguous.

    `requests.exceptions.ConnectionError` also goes by `requests.ConnectionError`, as its users
    know it.
    """
    full = class_names()
    short: dict[str, list[str]] = {}
    for name in full:
        parts = name.split(".")
        short.setdefault(f"{parts[0]}.{parts[-1]}", []).append(name)
    by_package = {each: names[0] for each, names in short.items() if len(names) == 1}
    return {**by_package, **{name: name for name in full}}


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {shown(name)}")
    if not name or name != name.strip() or "," in name or not name.isprintable():
        raise ValueError(f"name must be printable, without commas, got {shown(name)}")
    if name in _reserved:
        raise ValueError(f"name must not be a word of the library's own, got {name!r}")


def _is_exception_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def equal(one: object, other: object) -> bool:
    """Whether two objects are equal; not where they cannot be compared."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - somebody else's comparison may raise anything
        return False
