"""Reading a gRPC error's trailers, whatever they hold."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.facts._grpc import codes, pushback, refuses, retry_info

URL = b"type.googleapis.com/google.rpc.RetryInfo"


def error(*trailers: object) -> Any:
    return SimpleNamespace(trailing_metadata=lambda: trailers)


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a message."""
    return bytes([number << 3 | 2, len(value)]) + value


def status(duration: bytes, *before: bytes) -> Any:
    """An error whose details hold a RetryInfo with this Duration."""
    retry = field(1, URL) + field(2, field(1, duration))
    return error(("grpc-status-details-bin", b"".join(before) + field(3, retry)))


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        (b"", 0.0),
        (b"\x08\x03", 3.0),
        (b"\x10\x80\xca\xb5\xee\x01", 0.5),
        (b"\x08\x03\x10\x80\xca\xb5\xee\x01", 3.5),
        (b"\x08" + b"\xff" * 9 + b"\x01", 0.0),  # -1 s
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 2.0**31),
        (b"\x0a\x01\x03", 0.0),  # seconds that are bytes
    ],
)
def test_a_duration_is_seconds_and_nanoseconds(duration: bytes, seconds: float) -> None:
    """Negative is none, and what is longer than 2**31 s is that."""
    assert retry_info(status(duration)) == seconds


def test_fields_of_other_kinds_are_passed_over() -> None:
    """A varint, 64 bits, a string and 32 bits before the details."""
    before = (b"\x08\x08", b"\x29" + bytes(8), field(2, b"slow down"), b"\x2d" + bytes(4))
    assert retry_info(status(b"\x08\x03", *before)) == 3.0


def test_a_message_ends_where_its_bytes_make_no_field() -> None:
    """A group's start (wire type 3) is no field of ours, and a length may lie."""
    assert retry_info(status(b"\x08\x03", b"\x0b")) is None
    assert retry_info(error(("grpc-status-details-bin", b"\x1a\x7f"))) is None


def test_details_of_other_types_ask_for_nothing() -> None:
    """Nor does one without a type, or a hundred before it."""
    other = field(3, field(1, b"type.googleapis.com/google.rpc.Help") + field(2, b""))
    assert retry_info(status(b"\x08\x03", other)) == 3.0
    assert retry_info(status(b"\x08\x03", *[other] * 100)) is None
    assert retry_info(error(("grpc-status-details-bin", field(3, b"")))) is None


def test_only_a_pair_is_a_trailer() -> None:
    """What a fake puts there besides is passed over."""
    odd = error(None, "ab", ("a",), (1, 2), ("x", "y"), ("GRPC-Retry-Pushback-MS", "5"))
    assert pushback(odd) == 0.005


@pytest.mark.parametrize("trailers", [None, 5, object()])
def test_trailers_that_are_none_say_nothing(trailers: object) -> None:
    """A call that never got an answer has none."""
    odd = SimpleNamespace(trailing_metadata=lambda: trailers)
    assert (pushback(odd), refuses(odd), retry_info(odd)) == (None, False, None)


def test_methods_that_raise_say_nothing() -> None:
    """Classifying raises nothing of its own."""

    def fails() -> None:
        raise RuntimeError

    odd = SimpleNamespace(trailing_metadata=fails, code=fails)
    assert (pushback(odd), codes(odd)) == (None, ())


@given(st.binary(max_size=300))
def test_any_bytes_are_read_to_an_end(value: bytes) -> None:
    """Finite, not negative, or nothing."""
    found = retry_info(error(("grpc-status-details-bin", value)))
    assert found is None or (math.isfinite(found) and found >= 0)


@given(st.text(max_size=20) | st.binary(max_size=20) | st.none() | st.integers())
def test_any_pushback_is_a_delay_or_a_refusal(value: object) -> None:
    """Never neither, and never both."""
    said = error(("grpc-retry-pushback-ms", value))
    assert (pushback(said) is None) is refuses(said)
