"""Read a structured field (RFC 9651): an item, a list or a dictionary, exactly or not at all.

>>> parse_list('"burst";r=0;t=5, "daily";r=12')
[Item(value='burst', params={'r': 0, 't': 5}), Item(value='daily', params={'r': 12})]
>>> parse_list('"burst" ;r=0')
Traceback (most recent call last):
    ...
ValueError: not a structured field: expected ',' at position 8

Integers come as `int`, decimals as `float` (their fifteen digits fit exactly), strings as `str`,
byte sequences as `bytes`, booleans as `bool`. Tokens, dates and display strings have types of
their own below, so that `type(value) is int` and `type(value) is str` mean what they say.
The work is linear in the length of the text.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


class Token(str):
    """A bare word: `default` rather than `"default"`."""

    __slots__ = ()


class DisplayString(str):
    """A string of any Unicode characters: `%"caf%c3%a9"`."""

    __slots__ = ()


class Date(int):
    """Whole seconds since the Unix epoch: `@1659578233`. No calendar limits them."""

    __slots__ = ()


BareItem: TypeAlias = bool | int | float | str | bytes | Token | DisplayString | Date
Parameters: TypeAlias = dict[str, BareItem]


class Item(NamedTuple):
    """One value with its parameters."""

    value: BareItem
    params: Parameters


class InnerList(NamedTuple):
    """Items in parentheses, with the parameters of the whole."""

    items: list[Item]
    params: Parameters


Member: TypeAlias = Item | InnerList

_SP: Final = " "
_OWS: Final = " \t"
_KEY: Final = re.compile(r"[a-z*][a-z0-9_.*-]*")

# One alternative for each bare type. A digit, "." or other character that is left over after a
# match can begin nothing, so the limits on a number's length need no check of their own.
_BARE: Final = re.compile(
    r"""
      (?P<decimal> -?[0-9]{1,12}\.[0-9]{1,3} )
    | (?P<integer> -?[0-9]{1,15} )
    | "(?P<string> (?: [ !\#-\[\]-~] | \\["\\] )* )"
    | (?P<token> [A-Za-z*][!\#$%&'*+.^_`|~0-9A-Za-z:/-]* )
    | :(?P<bytes> [A-Za-z0-9+/]*={0,2} ):
    | \?(?P<boolean> [01] )
    | @(?P<date> -?[0-9]{1,15} )
    | %"(?P<display> (?: [ !\#$&-~] | %[0-9a-f]{2} )* )"
    """,
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\(.)")
_PERCENT: Final = re.compile(rb"%(..)")


def parse_item(text: str) -> Item:
    """The one item that `text` is. Raises `ValueError` for anything else.

    >>> parse_item("text/html;q=0.5;fresh")
    Item(value='text/html', params={'q': 0.5, 'fresh': True})
    """
    reader = _Reader(text)
    item = reader.item()
    reader.end()
    return item


def parse_list(text: str) -> list[Member]:
    """The members of the list that `text` is, none for an empty one. Raises `ValueError`.

    A field that comes in several lines is one list: join them with ", " first.

    >>> parse_list("(1 2);a, ?0")
    [InnerList(items=[Item(value=1, params={}), Item(value=2, params={})], params={'a': True}),
     Item(value=False, params={})]
    """
    reader = _Reader(text)
    members: list[Member] = []
    while reader.another(first=not members):
        members.append(reader.member())
    return members


def parse_dictionary(text: str) -> dict[str, Member]:
    """The members of the dictionary that `text` is, the last of each key. Raises `ValueError`.

    >>> parse_dictionary("limit=100, partial;a=1")
    {'limit': Item(value=100, params={}), 'partial': Item(value=True, params={'a': 1})}
    """
    reader = _Reader(text)
    members: dict[str, Member] = {}
    while reader.another(first=not members):
        key = reader.key()
        members[key] = reader.member() if reader.skip("=") else Item(True, reader.params())
    return members


def _base64(text: str) -> bytes:
    """Padding may be missing or be one too many, as §4.2.7 wants it; it may not stand alone."""
    data = text.rstrip("=")
    if text and not data:
        raise ValueError("padding of nothing")
    return a2b_base64(data + "=" * (-len(data) % 4))


def _display_string(text: str) -> DisplayString:
    encoded = _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())
    return DisplayString(encoded.decode())


_READ: Final[dict[str, Callable[[str], BareItem]]] = {
    "decimal": float,
    "integer": int,
    "string": lambda text: _ESCAPED.sub(r"\1", text),
    "token": Token,
    "bytes": _base64,
    "boolean": lambda text: text == "1",
    "date": Date,
    "display": _display_string,
}


class _Reader:
    """A text and how much of it has been read; the methods follow RFC 9651 §4.2."""

    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._blank(_SP)

    def another(self, *, first: bool) -> bool:
        """Whether a further member follows; past its comma, if it is not the first."""
        if first:
            return self._at < len(self._text)
        self._blank(_OWS)
        if self._at == len(self._text):
            return False
        if not self.skip(","):
            self._fail("','")
        self._blank(_OWS)
        if self._at == len(self._text):
            self._fail("a member")
        return True

    def end(self) -> None:
        self._blank(_SP)
        if self._at < len(self._text):
            self._fail("the end")

    def member(self) -> Member:
        return self._inner_list() if self.skip("(") else self.item()

    def item(self) -> Item:
        return Item(self._bare(), self.params())

    def params(self) -> Parameters:
        params: Parameters = {}
        while self.skip(";"):
            self._blank(_SP)
            key = self.key()
            params[key] = self._bare() if self.skip("=") else True
        return params

    def key(self) -> str:
        found = _KEY.match(self._text, self._at)
        if found is None:
            self._fail("a key")
        self._at = found.end()
        return found.group()

    def skip(self, character: str) -> bool:
        """Whether `character` is next; past it, if so."""
        if not self._text.startswith(character, self._at):
            return False
        self._at += 1
        return True

    def _inner_list(self) -> InnerList:
        items: list[Item] = []
        while True:
            start = self._at
            self._blank(_SP)
            if self.skip(")"):
                return InnerList(items, self.params())
            if items and self._at == start:
                self._fail("' ' or ')'")
            items.append(self.item())

    def _bare(self) -> BareItem:
        found = _BARE.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            self._fail("a value")
        try:
            value = _READ[found.lastgroup](found[found.lastgroup])
        except ValueError:
            self._fail("a value")
        self._at = found.end()
        return value

    def _blank(self, blank: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in blank:
            self._at += 1

    def _fail(self, expected: str) -> NoReturn:
        raise ValueError(f"not a structured field: expected {expected} at position {self._at}")
