"""HTTP methods: which may be repeated, by RFC 9110, RFC 10008 (QUERY) and the IANA registry."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from retrykit.facts._data import load
from retrykit.facts._headers import Headers

if TYPE_CHECKING:
    from collections.abc import Collection

_TOKEN: Final = frozenset(
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
# What can be sent as a key is printable ASCII, as the draft's String has it, of Stripe's length.
_LONGEST_KEY: Final = 255

IDEMPOTENCY_KEY: Final = ("Idempotency-Key",)
"""The header that makes any method repeatable, where the server honours it."""


class RetryableMethod(StrEnum):
    """How safe it is to send a request twice."""

    IDEMPOTENT = "idempotent"
    """Sending it again changes nothing more: GET, PUT, DELETE, QUERY and others."""
    NON_IDEMPOTENT = "non_idempotent"
    """A second request might do the work twice: POST, PATCH, and every unknown method."""
    IDEMPOTENT_WITH_TOKEN = "idempotent_with_token"
    """Not idempotent by itself, but it carries a key by which the server knows it again."""

    def __repr__(self) -> str:
        return f"RetryableMethod.{self.name}"


class MethodRow(NamedTuple):
    """What the registry says of a method."""

    method: str
    safe: bool
    idempotent: bool
    reference: str
    note: str = ""


def classify_method(
    method: str | bytes | None,
    headers: object = (),
    *,
    key_names: Collection[str] = IDEMPOTENCY_KEY,
) -> RetryableMethod:
    """How safe it is to repeat a request with this method and these request headers.

    Tokens are case-sensitive: `get` is not GET. Whatever the registry does not know, `None`
    included, is not idempotent. `headers` is a mapping or an iterable of pairs, of `str` or
    `bytes`; a header named in `key_names`, in any case, makes such a request
    `IDEMPOTENT_WITH_TOKEN` if it has exactly one value, and that is not empty and can be sent
    (printable ASCII, 255 characters at most). For APIs that call it otherwise, name it:
    `key_names=("PayPal-Request-Id",)`. What is no token at all (`""`, `"GET /"`) is never
    repeatable, key or not.

    A `RetryableMethod` stands for a method of that safety. Anything else is a `TypeError`.

    >>> classify_method("QUERY")
    RetryableMethod.IDEMPOTENT
    >>> classify_method("POST", {"idempotency-key": "8e03978e"})
    RetryableMethod.IDEMPOTENT_WITH_TOKEN
    >>> classify_method("get")
    RetryableMethod.NON_IDEMPOTENT
    """
    if isinstance(method, RetryableMethod):
        if method is not RetryableMethod.NON_IDEMPOTENT:
            return method
    elif isinstance(method, (str, bytes)):
        token = method if isinstance(method, str) else method.decode("latin-1")
        if not is_token(token):
            return RetryableMethod.NON_IDEMPOTENT
        row = method_row(token)
        if row is not None and row.idempotent:
            return RetryableMethod.IDEMPOTENT
    elif method is not None:
        raise TypeError(f"method must be a str or bytes, got {method!r}")
    return (
        RetryableMethod.IDEMPOTENT_WITH_TOKEN
        if _has_key(headers, key_names)
        else RetryableMethod.NON_IDEMPOTENT
    )


def is_token(text: str) -> bool:
    """Whether this can be a method at all (RFC 9110 §5.6.2)."""
    return text != "" and _TOKEN.issuperset(text)


def method_row(method: str) -> MethodRow | None:
    """The registry's row for this token, or `None`.

    >>> method_row("QUERY").reference
    'RFC 10008 (June 2026, Proposed Standard)'
    """
    return _rows().get(method)


def _has_key(headers: object, key_names: Collection[str]) -> bool:
    wanted = {name.lower() for name in key_names}
    # Two different keys are none: which of them the server goes by is anybody's guess.
    values = {value for name, value in Headers(headers).items() if name.lower() in wanted}
    if len(values) != 1:
        return False
    value = values.pop()
    sendable = len(value) <= _LONGEST_KEY and value.isascii() and value.isprintable()
    return sendable and value not in ("", '""')


@cache
def _rows() -> dict[str, MethodRow]:
    return {row["method"]: MethodRow(**row) for row in load("methods.json")["rows"]}
