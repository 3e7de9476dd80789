"""Read TOML of whatever origin with bounded work, and write what little of it a policy needs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import TypeIs

LONGEST: Final = 1_000_000
"""How many bytes a file may have."""

DEEPEST: Final = 32
"""How deep tables and lists may be nested, in what is read and in what is written."""

# `tomllib` takes time, and memory, by the square of a dotted key's length: 100 kB of `a.a.a…` end
# the process. The possessive quantifiers keep this search itself linear.
_LONG_KEY: Final = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{DEEPEST}}}""", re.ASCII
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text; `ValueError` tells what is wrong with it, and where."""
    if len(text) > LONGEST:
        raise ValueError(f"must not be longer than {LONGEST:,} bytes")
    if _LONG_KEY.search(text) is not None:
        raise ValueError(f"must have no key with more than {DEEPEST} dotted parts")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"must not be nested deeper than {DEEPEST} levels") from None
    except ValueError as error:  # a number with more digits than Python reads
        raise ValueError(f"is not valid TOML: {error}") from None
    if is_too_deep(tables):
        raise ValueError(f"must not be nested deeper than {DEEPEST} levels")
    return tables


def is_too_deep(value: object) -> bool:
    """Whether tables and lists are nested deeper than `DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def is_table(value: object) -> TypeIs[dict[str, Any]]:
    """Whether a value is a table; its keys are text, as TOML's are."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeIs[list[Any]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether a value of the program's is what a table is made of."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeIs[list[Any] | tuple[Any, ...]]:
    """Whether a value of the program's is what a list is made of."""
    return isinstance(value, (list, tuple))


def _inside(value: object) -> Iterator[object]:
    if is_table(value):
        yield from value.values()
    elif is_list(value):
        yield from value


def key(name: str) -> str:
    """A key as TOML writes it.

    >>> key("github"), key("GET /search/*")
    ('github', '"GET /search/*"')
    """
    return name if _BARE.fullmatch(name) else _string(name)


def dotted(*names: str) -> str:
    """A table's name as TOML writes it."""
    return ".".join(map(key, names))


def literal(value: Any) -> str:
    """A value as TOML writes it, on one line.

    >>> literal({"kind": "take", "n": 3, "backoff": [0.5, 1e22]})
    '{ kind = "take", n = 3, backoff = [0.5, 1e+22] }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if is_list(value):
        return f"[{', '.join(map(literal, value))}]"
    if is_table(value):
        inside = ", ".join(f"{key(name)} = {literal(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return repr(value)


def table(names: tuple[str, ...], entries: Mapping[str, Any]) -> str:
    """A section with its header."""
    lines = [f"{key(name)} = {literal(value)}" for name, value in entries.items()]
    return "\n".join([f"[{dotted(*names)}]", *lines]) + "\n"


def _string(text: str) -> str:
    # JSON's escapes are TOML's, for all but DEL and what JSON leaves as it is beyond ASCII.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
