"""Headers as any client hands them out, made readable without regard to case."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST: Final = 10_000  # no client takes as many: a bound on the work for a hostile response
_OWS: Final = " \t"


class Headers:
    """Fields by name in any case; repeats joined with `", "`, in order.

    Made from a mapping or an iterable of pairs, of `str` or `bytes`; what cannot be read is left
    out, and nothing raises. The `repr` shows no values.

    >>> headers = Headers([(b"Via", b"a"), ("VIA", "b")])
    >>> headers["via"], "Via" in headers, headers.get("date")
    ('a, b', True, None)
    >>> headers
    <Headers: Via, VIA>
    """

    __slots__ = ("_by_name", "_pairs")

    def __init__(self, source: object = ()) -> None:
        self._pairs: tuple[tuple[str, str], ...] = (
            source._pairs if isinstance(source, Headers) else tuple(_read(source))
        )
        self._by_name: dict[str, list[str]] | None = None

    def items(self) -> tuple[tuple[str, str], ...]:
        """Every name and value as they came, repeats included."""
        return self._pairs

    def keys(self) -> tuple[str, ...]:
        """The names as they came, each once."""
        return tuple({name.lower(): name for name, _ in reversed(self._pairs)}.values())[::-1]

    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of this field, or the default."""
        if self._by_name is None:
            by_name: dict[str, list[str]] = {}
            for each, value in self._pairs:
                by_name.setdefault(each.lower(), []).append(value)
            self._by_name = by_name
        values = self._by_name.get(name.lower())
        return default if values is None else ", ".join(values)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"<Headers: {', '.join(name for name, _ in self._pairs)}>"


def _read(source: object) -> Iterator[tuple[str, str]]:
    with suppress(Exception):  # whatever a foreign mapping raises, what was read stands
        for pair in islice(_pairs(source), _MOST):
            # One pair that cannot be read does not hide the others.
            with suppress(Exception):
                name, value = map(_text, pair)
                if name and value is not None:
                    yield name, value.strip(_OWS)


def _pairs(source: object) -> Any:
    # Any: a foreign object that is asked by its shape; the caller guards every step.
    foreign: Any = () if source is None else source
    # httpx joins repeats in `items()`. The type is asked, for a mock answers to every name.
    if hasattr(type(source), "multi_items"):
        return foreign.multi_items()
    return foreign.items() if hasattr(source, "items") else foreign


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin-1")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
