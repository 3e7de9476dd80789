"""Which row of the exceptions table an error matches, by its class and by what it carries.

Classes are compared by qualified name along the MRO, so that no library is imported, and never by
their bare name: `ConnectionError` exists in six libraries. Of one class's rows those with a
condition come first, then those by code, then what the error wraps, then the plain row.
"""

from __future__ import annotations

import errno
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from retrykit.facts import _grpc
from retrykit.facts._data import load
from retrykit.facts._shapes import arguments_of, get, item, qualified_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from retrykit.facts.kinds import Repeat, RequestState

CPYTHON: Final = frozenset({"CPython", "asyncio", "http.client", "urllib"})
"""The libraries, as the table names them, that come with Python."""

_LONGEST_CHAIN: Final = 50
_LONGEST_TEXT: Final = 2_000
_CERTIFICATE: Final = "ssl.SSLCertVerificationError"

# An error of this kind that was raised while another was handled is a bug in the handler: the
# other says nothing about it. (`raise ... from` is another matter.)
_BUGS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    TypeError,
    ValueError,
)


class Row(NamedTuple):
    """What is known about an exception, or about an exception under a condition."""

    name: str
    library: str
    kind: str
    """`"connection_failed"`, `"timed_out"`, `"throttled"`, `"conflict"`, `"server_error"`,
    `"auth"`, `"permanent"` or `"by_status"`."""
    state: RequestState
    repeat: Repeat
    note: str = ""
    when: str = ""
    """The condition, in words; empty where the class or its code alone decides."""

    @property
    def transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.repeat in ("any", "idempotent")


class Unlisted:
    """A code that the table does not list, in a family that it does: known to be unknown."""


UNLISTED: Final = Unlisted()


def links(error: BaseException, *, own: bool = False) -> Iterator[BaseException]:
    """The error and what it was raised from or wraps, nearest first; each once, at most 50.

    Follows `__cause__`, `__context__` (unless suppressed), `.reason`, `.orig`, `.original_error`
    and `args[0]`. `own=True` leaves out the contexts of what lies behind: an error that was being
    handled while another call was made did not lead to that call's failure.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _LONGEST_CHAIN:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        context = each.__context__
        if each.__suppress_context__ or isinstance(each, _BUGS) or (own and each is not error):
            context = None
        near = (each.__cause__, context, *wrapped(each))
        waiting.extend(link for link in reversed(near) if isinstance(link, BaseException))


def wrapped(error: BaseException) -> Iterator[BaseException]:
    """The errors that this one holds as a value."""
    held_as = (get(error, name) for name in ("reason", "orig", "original_error"))
    for held in (*held_as, *arguments_of(error)[:1]):
        if isinstance(held, BaseException):
            yield held


def own_row(error: BaseException) -> Row | Unlisted | None:
    """The row of this very error, not of what led to it; `None` where the table has none."""
    return _own_row(error, _LONGEST_CHAIN)


def _own_row(error: BaseException, depth: int) -> Row | Unlisted | None:
    state = _sqlstate(error)
    if state is not None:
        return _table().sqlstates.get(state, UNLISTED)
    unlisted = False
    for entry in _entries(error):
        for row, holds in entry.conditional:
            if holds(error):
                return row
        if entry.codes:
            codes = entry.codes_of(error)
            for code in codes:
                if code in entry.codes:
                    return entry.codes[code]
            unlisted = unlisted or bool(codes)
        if entry.unwraps and depth:
            for held in (*wrapped(error), error.__cause__):
                inner = None if held is None else _own_row(held, depth - 1)
                if inner is not None:
                    return inner
        if entry.plain is not None:
            return _certified(entry.plain, error)
    return UNLISTED if unlisted else None


def _certified(row: Row, error: BaseException) -> Row:
    """The row, or that of a bad certificate where this is what the connection failed for.

    It is permanent, and no client's class says so reliably.
    """
    if row.library in CPYTHON or row.kind != "connection_failed" or not row.transient:
        return row
    plain = _table().entries[_CERTIFICATE].plain
    return plain if plain is not None and _led_to(error, (_CERTIFICATE,)) else row


# The table


class _Entry:
    """A class's rows."""

    __slots__ = ("codes", "codes_of", "conditional", "plain", "unwraps")

    def __init__(self) -> None:
        self.conditional: list[tuple[Row, Callable[[BaseException], bool]]] = []
        self.codes: dict[str, Row] = {}
        self.codes_of: Callable[[Any], tuple[str, ...]] = lambda _: ()
        self.unwraps = False
        self.plain: Row | None = None


class _Table(NamedTuple):
    entries: dict[str, _Entry]
    sqlstates: dict[str, Row]
    aliases: Mapping[str, str]


@cache
def _table() -> _Table:
    file = load("exceptions.json")
    table = _Table({}, {}, file.pop("aliases"))
    for library, rows in file.items():
        for each in rows:
            row = Row(
                each["name"],
                library,
                each["kind"],
                each["state"],
                each["repeat"],
                each.get("note", ""),
                each.get("when", ""),
            )
            if "sqlstate" in each:
                table.sqlstates[each["sqlstate"]] = row
                continue
            name = each.get("of", row.name)
            entry = table.entries.setdefault(name, _Entry())
            entry.unwraps |= each.get("unwrap", False)
            holds = _condition(each)
            if holds is not None:
                entry.conditional.append((row, holds))
            elif "code" in each:
                entry.codes.update(dict.fromkeys(each["code"], row))
                entry.codes_of = _CODES[name]
            else:
                entry.plain = row
    return table


def rows() -> list[Row]:
    """Every row of the table, in its order within each class."""
    found: dict[Row, None] = {}
    table = _table()
    for entry in table.entries.values():
        found.update((row, None) for row, _ in entry.conditional)
        found.update((row, None) for row in entry.codes.values())
        if entry.plain is not None:
            found[entry.plain] = None
    found.update((row, None) for row in table.sqlstates.values())
    return list(found)


def class_names() -> frozenset[str]:
    """The qualified name of every class in the table."""
    return frozenset(_table().entries)


# Weak keys: a class that was made for one call is not kept for ever.
_entries_of: WeakKeyDictionary[type, tuple[_Entry, ...]] = WeakKeyDictionary()


def _entries(error: BaseException) -> tuple[_Entry, ...]:
    kind = type(error)
    known = _entries_of.get(kind)
    if known is None:
        known = _entries_of[kind] = tuple(_find_entries(error))
    return known


def _find_entries(error: BaseException) -> Iterator[_Entry]:
    table = _table()
    names = [table_name(name) for name in qualified_names(error)]
    entries = table.entries
    by_errno = "builtins.OSError" if _has_errno(names) else None
    for name in names:
        if name.startswith("builtins.") and by_errno is not None:
            # The number says more than the class: a TimeoutError may be ETIMEDOUT.
            yield entries[by_errno]
            by_errno = None
        if name in entries and name != "builtins.OSError":
            yield entries[name]


def table_name(name: str) -> str:
    """A class's qualified name as the table spells it."""
    module, _, rest = name.rpartition(".")
    alias = _table().aliases.get(module)
    return name if alias is None else f"{alias}.{rest}"


def _has_errno(names: list[str]) -> bool:
    """Whether an error's `errno` is one.

    Of ssl's and the resolver's errors it is a number of their own, and requests' and aiohttp's
    merely inherit from OSError.
    """
    foreign = ("ssl.", "socket.", "requests.", "aiohttp.", "urllib.", "http.", "botocore.")
    return "builtins.OSError" in names and not any(name.startswith(foreign) for name in names)


# Codes


def _errno(error: OSError) -> tuple[str, ...]:
    number = get(error, "errno")
    name = errno.errorcode.get(number) if isinstance(number, int) else None
    # Windows names the numbers of its sockets with a prefix.
    return () if name is None else (name.removeprefix("WSA"),)


def _eai(error: OSError) -> tuple[str, ...]:
    number = get(error, "errno")
    socket = sys.modules.get("socket")  # there, for its error is
    return tuple(
        name
        for name in vars(socket or errno)
        if name.startswith("EAI_") and getattr(socket, name) == number
    )


def _sqlite(error: object) -> tuple[str, ...]:
    code = get(error, "sqlite_errorcode")
    # An extended code that is not listed counts as its primary one.
    return (str(code), str(code & 0xFF)) if isinstance(code, int) else ()


def _aws(error: object) -> tuple[str, ...]:
    response = get(error, "response")
    code = item(item(response, "Error"), "Code")
    return (str(code), f"HTTP {item(item(response, 'ResponseMetadata'), 'HTTPStatusCode')}")


_CODES: Final[dict[str, Callable[[Any], tuple[str, ...]]]] = {
    "builtins.OSError": _errno,
    "socket.gaierror": _eai,
    "sqlite3.Error": _sqlite,
    "botocore.exceptions.ClientError": _aws,
    "grpc.RpcError": _grpc.codes,
}


def _sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE that a database's error carries, whichever driver made it."""
    for name in ("sqlstate", "pgcode"):
        code = get(error, name)
        if isinstance(code, str) and len(code) == 5 and code.isascii() and code.isalnum():
            # asyncpg says "does not exist" also of a connection that is lost in mid-query.
            lost = code == "08003" and "in the middle of operation" in _text(error)
            return "08006" if lost else code
    return None


# Conditions


def _condition(row: dict[str, Any]) -> Callable[[BaseException], bool] | None:
    """The row's condition as a function; `None` where it has none."""
    match row:
        case {"wraps": names}:
            return lambda error: _wraps(error, tuple(names))
        case {"from": names}:
            return lambda error: _led_to(error, tuple(names))
        case {"attr": attributes}:
            return lambda error: all(
                type(get(error, name)) is type(value) and get(error, name) == value
                for name, value in attributes.items()
            )
        case {"labels": labels}:
            return lambda error: all(_has_label(error, label) for label in labels)
        case {"text": pattern}:
            return lambda error: re.search(pattern, _text(error)) is not None
        case {"check": name}:
            return _CHECKS[name]
        case _:
            return None


def _is_a(error: BaseException, names: tuple[str, ...]) -> bool:
    return any(table_name(name) in names for name in qualified_names(error))


def _wraps(error: BaseException, names: tuple[str, ...]) -> bool:
    """Whether one of these is among what the error holds as a value, at whatever depth."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _LONGEST_CHAIN:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        held = tuple(wrapped(each))
        if any(_is_a(inner, names) for inner in held):
            return True
        waiting.extend(reversed(held))
    return False


def _led_to(error: BaseException, names: tuple[str, ...]) -> bool:
    return any(_is_a(link, names) for link in links(error, own=True) if link is not error)


def _has_label(error: BaseException, label: str) -> bool:
    has = get(error, "has_error_label")
    return callable(has) and has(label) is True


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001 - somebody else's text may raise anything
        return ""


# Patterns are compiled on first use (by `re`'s own cache): few programs meet them.
_CONNECTING: Final = (
    r"connection (?:failed|is bad|timeout|to server )|could not (?:connect|translate host name)"
    r"|failed to resolve host|no host found"
)


def _connecting(error: BaseException) -> bool:
    """Whether libpq never got a connection: psycopg then keeps the one that failed."""
    return get(error, "pgconn") is not None or re.match(_CONNECTING, _text(error)) is not None


def _locked(error: BaseException) -> bool:
    """Whether SQLite's text alone says so: an error made by hand, or by another driver."""
    return not _sqlite(error) and _text(error).startswith("database is locked")


# urllib3's and http.client's text, then httpcore's ("407 Proxy Authentication Required") and
# aiohttp's ("407, message=...").
_TUNNEL: Final = r"Tunnel connection failed: ([0-9]{3})\b|^([0-9]{3})[ ,]"
_PASSING: Final = frozenset({"408", "425", "429"})


def _tunnel_refused(error: BaseException) -> bool:
    """Whether a proxy answered CONNECT with a status that another attempt will not change."""
    for link in links(error, own=True):
        found = re.search(_TUNNEL, _text(link))
        if found is not None:
            status = found[1] or found[2]
            return status[0] == "4" and status not in _PASSING
    return False


def _transaction_conflict(error: BaseException) -> bool:
    """Whether DynamoDB gave up a transaction for reasons all of which pass."""
    reasons = item(get(error, "response"), "CancellationReasons")
    if _aws(error)[0] != "TransactionCanceledException" or not isinstance(reasons, list):
        return False
    # Parts of a transaction that did not fail have the code "None".
    codes = {str(item(each, "Code")) for each in cast("list[object]", reasons)} - {"None"}
    return bool(codes) and codes <= {
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
        "TransactionConflict",
    }


_REFUSED_STREAM: Final = 7  # RFC 9113 §7


def _http2_events(error: BaseException) -> Iterator[object]:
    """The HTTP/2 events (h2's) for which a request failed, as httpcore's errors carry them."""
    for link in links(error, own=True):
        yield from arguments_of(link)[:1]


def _stream_refused(error: BaseException) -> bool:
    return any(
        get(event, "error_code") == _REFUSED_STREAM
        and isinstance(get(event, "stream_id"), int)
        and get(event, "remote_reset") is True
        for event in _http2_events(error)
    )


def _stream_unseen(error: BaseException) -> bool:
    """Whether GOAWAY names a last stream below this one.

    httpcore sends such a request again by itself, unless the last stream is 0: then the peer began
    none, whichever this one was.
    """
    streams = [get(link, "stream_id") for link in links(error, own=True)]
    stream = next((each for each in streams if isinstance(each, int)), 1)
    return any(
        isinstance(last := get(event, "last_stream_id"), int) and last < stream
        for event in _http2_events(error)
    )


_CHECKS: Final[dict[str, Callable[[BaseException], bool]]] = {
    "connecting": _connecting,
    "locked": _locked,
    "pushback": lambda error: _grpc.pushback(error) is not None,
    "pushback_refused": _grpc.refuses,
    "retry_info": lambda error: _grpc.retry_info(error) is not None,
    "stream_refused": _stream_refused,
    "stream_unseen": _stream_unseen,
    "transaction_conflict": _transaction_conflict,
    "tunnel_refused": _tunnel_refused,
}
