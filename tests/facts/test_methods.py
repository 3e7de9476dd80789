"""Every method of the registry, and every idempotency-key case that is about a single request."""

from __future__ import annotations

import http
import json
from pathlib import Path
from typing import Any

import pytest

from retrykit.decision import DoNotRetry, RetryAfter, StopReason
from retrykit.facts._headers import Headers
from retrykit.facts.http import verdict
from retrykit.facts.methods import RetryableMethod, classify_method, method_row

TABLE = json.loads((Path(__file__).parents[1] / "data/methods.json").read_text("utf-8"))
CASES = {case["id"]: case for case in TABLE["idempotency_key"]["cases"]}

METHODS = pytest.mark.parametrize("row", TABLE["methods"], ids=lambda row: row["method"] or "empty")

IDEMPOTENT = RetryableMethod.IDEMPOTENT
NON_IDEMPOTENT = RetryableMethod.NON_IDEMPOTENT
WITH_TOKEN = RetryableMethod.IDEMPOTENT_WITH_TOKEN
KEY = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}


@METHODS
def test_a_method_has_the_class_of_the_registry(row: dict[str, Any]) -> None:
    """By RFC 9110, RFC 10008 and IANA."""
    assert classify_method(row["method"]) == row["class"]


@METHODS
def test_a_method_is_the_same_in_bytes(row: dict[str, Any]) -> None:
    """Some clients hand out bytes."""
    assert classify_method(row["method"].encode()) == row["class"]


@METHODS
def test_a_method_decides_on_what_may_have_been_done(row: dict[str, Any]) -> None:
    """The column `retry_ambiguous_by_default`."""
    decision = verdict(method=row["method"], error=ConnectionResetError())
    if row["retry_ambiguous_by_default"]:
        assert isinstance(decision, RetryAfter)
    else:
        assert decision == DoNotRetry(StopReason.NOT_IDEMPOTENT)


@METHODS
def test_a_method_s_row_says_where_it_is_defined(row: dict[str, Any]) -> None:
    """Only what is registered has a row."""
    found = method_row(row["method"])
    if row["method"] in ("*", "PURGE", "get", "FOO", ""):
        assert found is None
    else:
        assert found is not None
        assert (found.safe, found.idempotent) == (row["safe"], row["idempotent"])
        assert found.reference == row["reference"]


@METHODS
def test_a_key_makes_every_token_but_the_idempotent_ones_repeatable(row: dict[str, Any]) -> None:
    """A GET needs none; what is no token is never repeated."""
    found = classify_method(row["method"], KEY)
    if row["class"] == "idempotent":
        assert found is IDEMPOTENT
    else:
        assert found is (WITH_TOKEN if row["method"] else NON_IDEMPOTENT)


@pytest.mark.parametrize("method", ["GET ", " GET", "GET\n", "G\u200bET", "GET /", "", "\u212aET"])
def test_what_is_no_token_is_never_repeatable(method: str) -> None:
    """RFC 9110 §9.1: a programming error."""
    assert classify_method(method, KEY) is NON_IDEMPOTENT


def test_an_unknown_method_is_not_idempotent() -> None:
    """`None` is what nobody could see."""
    assert classify_method(None) is NON_IDEMPOTENT
    assert classify_method(None, KEY) is WITH_TOKEN


@pytest.mark.parametrize("method", RetryableMethod)
def test_a_safety_stands_for_a_method_of_that_safety(method: RetryableMethod) -> None:
    """So `verdict` takes either."""
    assert classify_method(method) is method


def test_a_safety_shows_as_code() -> None:
    """As the other enums do."""
    assert repr(IDEMPOTENT) == "RetryableMethod.IDEMPOTENT"
    assert IDEMPOTENT == "idempotent"


def test_the_standard_library_s_methods_are_tokens() -> None:
    """`http.HTTPMethod` is a `str`."""
    assert classify_method(http.HTTPMethod.GET) is IDEMPOTENT
    assert classify_method(http.HTTPMethod.POST) is NON_IDEMPOTENT


@pytest.mark.parametrize("method", [5, True, object(), ["GET"]])
def test_a_method_that_is_no_text_is_refused(method: Any) -> None:
    """The text names the field."""
    with pytest.raises(TypeError, match="method must be a str or bytes"):
        classify_method(method)


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": "k"},
        {"idempotency-key": "k"},
        {b"IDEMPOTENCY-KEY": b"k"},
        [("X", "y"), ("Idempotency-Key", "k")],
        [(b"idempotency-key", b'"k"')],
        (("Idempotency-Key", "k"), ("idempotency-key", "k")),
        Headers({"Idempotency-Key": "k"}),
        iter([("Idempotency-Key", "k")]),
    ],
)
def test_a_key_is_found_in_any_form_of_headers(headers: object) -> None:
    """Mappings and pairs, text and bytes, any case."""
    assert classify_method("POST", headers) is WITH_TOKEN


@pytest.mark.parametrize(
    "headers",
    [
        {},
        None,
        {"Idempotency-Key": ""},
        {"Idempotency-Key": "  \t"},
        {"Idempotency-Key": '""'},
        {"Idempotency-Key": None},
        {"Idempotency-Keys": "k"},
        {"X-Idempotency-Key": "k"},
        {"Idempotency-Key": "a\r\nX: b"},
        {"Idempotency-Key": "schlüssel"},
        {"Idempotency-Key": "k" * 256},
        [("Idempotency-Key", "a"), ("idempotency-key", "b")],
        7,
        object(),
    ],
)
def test_what_is_no_one_key_does_not_count(headers: object) -> None:
    """Empty, unsendable, another header, or two that differ: nothing was promised."""
    assert classify_method("POST", headers) is NON_IDEMPOTENT


@pytest.mark.parametrize("name", ["PayPal-Request-Id", "X-Idempotency-Key", "x-amz-client-token"])
def test_a_key_may_have_another_name(name: str) -> None:
    """The cases' tok-other-names: what the API calls it."""
    headers = {name.upper(): "k"}
    assert classify_method("POST", headers) is NON_IDEMPOTENT
    assert classify_method("POST", headers, key_names=(name,)) is WITH_TOKEN


# The cases of the idempotency key that one decision settles


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        ("tok-same-key", verdict(503, WITH_TOKEN)),
        ("tok-409", verdict(409, WITH_TOKEN)),
        ("tok-409-first", verdict(409, WITH_TOKEN)),
        ("tok-replayed-500", verdict(500, WITH_TOKEN)),
        ("tok-429", verdict(429, WITH_TOKEN)),
        ("tok-hedge", verdict(409, WITH_TOKEN)),
        ("tok-get", verdict(503, classify_method("GET"))),
        ("tok-caller-key", verdict(503, classify_method("POST", KEY))),
        ("tok-syntax", verdict(503, classify_method("POST", {"idempotency-key": "8e03978e"}))),
        ("tok-duplicate-header", verdict(503, classify_method("POST", [*KEY.items()] * 2))),
    ],
)
def test_a_case_of_the_key_is_retried(name: str, decision: object) -> None:
    """The same request with the same key: the server knows it again."""
    assert name in CASES
    assert isinstance(decision, RetryAfter)


@pytest.mark.parametrize(
    ("name", "decision", "reason"),
    [
        ("tok-422", verdict(422, WITH_TOKEN), StopReason.FORBIDDEN),
        ("tok-400-missing", verdict(400, WITH_TOKEN), StopReason.FORBIDDEN),
        ("tok-unknown-server", verdict(503, "POST"), StopReason.NOT_IDEMPOTENT),
        ("tok-openai", verdict(503, classify_method("POST", {})), StopReason.NOT_IDEMPOTENT),
        (
            "tok-chars",
            verdict(503, classify_method("POST", {"Idempotency-Key": "a\nb"})),
            StopReason.NOT_IDEMPOTENT,
        ),
        (
            "tok-other-names",
            verdict(503, classify_method("POST", {"PayPal-Request-Id": "k"})),
            StopReason.NOT_IDEMPOTENT,
        ),
    ],
)
def test_a_case_of_the_key_is_not_retried(name: str, decision: object, reason: StopReason) -> None:
    """A key that is refused, missing, unsendable or unknown to the server."""
    assert name in CASES
    assert decision == DoNotRetry(reason)
