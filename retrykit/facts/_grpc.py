"""What a gRPC error carries beside its code: the server's pushback, and google.rpc.RetryInfo.

Errors are asked by shape (`code()`, `trailing_metadata()`), so that grpcio need not be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from retrykit.facts._shapes import get, item

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_ENTRIES: Final = 1_000
_MOST_DETAILS: Final = 100
_LONGEST_DELAY: Final = 2.0**31

# A signed 32-bit number in ASCII "with no unnecessary leading zeros" (gRPC A6).
_PUSHBACK: Final = r"0|-?[1-9][0-9]{0,9}"
_RETRY_INFO: Final = "google.rpc.RetryInfo"
_SECONDS: Final = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s"


def codes(error: object) -> tuple[str, ...]:
    """The name of the status code, as `("UNAVAILABLE",)`; empty where the error has none."""
    name = get(_called(error, "code"), "name")
    return (name,) if isinstance(name, str) else ()


def pushback(error: object) -> float | None:
    """The seconds after which the server allows another attempt; `None` where it says nothing."""
    said = _said(error)
    return None if said is None or said < 0 else said / 1000


def refuses(error: object) -> bool:
    """Whether the server asks for no further attempt: pushback negative or not to be parsed.

    The reverse of a malformed Retry-After, by gRPC A6.
    """
    said = _said(error)
    return said is not None and said < 0


def retry_info(error: object) -> float | None:
    """The `retry_delay` of a RetryInfo among the error's details, in seconds, or `None`."""
    for name, value in _trailers(error):
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            for kind, message in _details(value):
                if kind == _RETRY_INFO:
                    return _duration(message)
    # google-api-core hands out decoded messages, or over REST what the JSON had.
    details = get(error, "details")
    several = cast("list[object]", details) if isinstance(details, list) else []
    for detail in several[:_MOST_DETAILS]:
        asked = re.fullmatch(_SECONDS, str(item(detail, "retryDelay")))
        if asked and str(item(detail, "@type")).rpartition("/")[2] == _RETRY_INFO:
            return min(float(asked[1]), _LONGEST_DELAY)
        delay = get(detail, "retry_delay")
        seconds, nanos = get(delay, "seconds"), get(delay, "nanos")
        if isinstance(seconds, int) and isinstance(nanos, int):
            return _bounded(seconds, nanos)
    return None


def _said(error: object) -> int | None:
    for name, value in _trailers(error):
        if name == "grpc-retry-pushback-ms":
            text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
            said = int(text) if re.fullmatch(_PUSHBACK, text) else -1
            return said if -(2**31) <= said < 2**31 else -1
    return None


def _trailers(error: object) -> Iterator[tuple[str, object]]:
    trailers = _called(error, "trailing_metadata")
    if not isinstance(trailers, Iterable):
        return
    for entry in islice(cast("Iterable[object]", trailers), _MOST_ENTRIES):
        if isinstance(entry, tuple) and len(cast("tuple[object, ...]", entry)) == 2:
            name, value = cast("tuple[object, object]", entry)
            if isinstance(name, str):
                yield name.lower(), value


def _called(error: object, name: str) -> Any:
    method = get(error, name)
    try:
        return method() if callable(method) else None
    except Exception:  # noqa: BLE001 - a foreign method may raise anything
        return None


# Protocol buffers, as much of them as it takes: google.rpc.Status holds its details in field 3,
# each with a type's URL in 1 and its bytes in 2; RetryInfo its Duration in 1, and this its seconds
# in 1, its nanoseconds in 2.


def _details(status: bytes) -> Iterator[tuple[str, bytes]]:
    for count, (number, detail) in enumerate(_fields(status)):
        if count >= _MOST_DETAILS:
            return
        if number == 3 and isinstance(detail, bytes):
            fields = dict(_fields(detail))
            url, value = fields.get(1), fields.get(2, b"")
            if isinstance(url, bytes) and isinstance(value, bytes):
                yield url.decode("utf-8", "replace").rpartition("/")[2], value


def _duration(retry_info: bytes) -> float:
    duration = dict(_fields(retry_info)).get(1, b"")
    fields = dict(_fields(duration)) if isinstance(duration, bytes) else {}
    seconds, nanos = fields.get(1, 0), fields.get(2, 0)
    return _bounded(seconds, nanos) if isinstance(seconds, int) and isinstance(nanos, int) else 0.0


def _bounded(seconds: int, nanos: int) -> float:
    return min(max(0.0, seconds + nanos / 1e9), _LONGEST_DELAY)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message; it ends where the bytes make no further field."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
                # Negative numbers come as 64 bits in two's complement.
                yield tag >> 3, value - 2**64 if value >= 2**63 else value
            case 2:
                length, at = _varint(message, at)
                if at + length > len(message):
                    return
                yield tag >> 3, message[at : at + length]
                at += length
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & (2**64 - 1), at + shift + 1
    return 0, len(message)
