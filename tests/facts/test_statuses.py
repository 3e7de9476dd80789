"""Every row of the status table, for every kind of method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import DoNotRetry, RetryAfter, RetryReason, StopReason
from retrykit.facts.http import verdict
from retrykit.facts.kinds import reason_of
from retrykit.facts.methods import RetryableMethod
from retrykit.facts.statuses import FROM_THE_BODY, _rows, deciding_row, server_verdict, status_row

TABLE = json.loads((Path(__file__).parents[1] / "data/status.json").read_text("utf-8"))

# What makes a row's condition true: the response's headers, and what only the body tells.
CONDITIONS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "with Retry-After": ({"Retry-After": "7"}, ()),
    "body carries a known throttling code": ({}, ("throttling_code",)),
    "S3 code RequestTimeout": ({}, ("request_timeout_code",)),
    "x-ratelimit-remaining == 0": ({"X-RateLimit-Remaining": "0"}, ()),
    "body mentions secondary rate limit (opt-in predicate)": ({}, ("secondary_limit",)),
    "request carried an idempotency key": ({}, ()),
    "with Retry-After, caller opts in": ({"Retry-After": "7"}, ("opted_in",)),
    "with Retry-After, or AWS": ({"Retry-After": "7"}, ()),
}
SUCCESSES = ("not_an_error", "poll", "redirect")


def statuses_of(row: dict[str, Any]) -> list[int]:
    """The statuses that a row is about: one, or some of its class that have no row."""
    status = row["status"]
    if isinstance(status, int):
        return [status]
    if status.startswith("<"):
        return [0, 99, 600, 999, -1]
    known = {row["status"] for row in TABLE["table"]}
    first = int(status[0]) * 100
    return [status for status in range(first, first + 100) if status not in known]


CASES = [
    pytest.param(row, method, id=f"{row['status']} {row.get('when', '')} {method}")
    for row in TABLE["table"]
    for method in RetryableMethod
    # A request with a key is one that carries a key: of the two rows the one with this condition.
    if (row["status"], row.get("when"), method) != (409, None, "idempotent_with_token")
]


@pytest.mark.parametrize(("row", "method"), CASES)
def test_a_status_is_decided_as_the_table_says(
    row: dict[str, Any], method: RetryableMethod
) -> None:
    """Status by method, under the row's condition."""
    headers, known = CONDITIONS.get(row.get("when", ""), ({}, ()))
    for status in statuses_of(row):
        decision = verdict(status, method, headers, known=known)
        if row[method] == "retry":
            assert isinstance(decision, RetryAfter)
            assert decision.reason is reason_of(row["kind"])
            assert decision.delay == (7.0 if headers.get("Retry-After") else row.get("min_wait", 0))
        elif row["kind"] in SUCCESSES:
            assert decision == DoNotRetry(StopReason.SUCCEEDED)
        elif row["idempotent"] == "retry":
            assert decision == DoNotRetry(StopReason.NOT_IDEMPOTENT)
        else:
            assert decision == DoNotRetry(StopReason.FORBIDDEN)


@pytest.mark.parametrize("row", TABLE["table"], ids=lambda row: str(row["status"]))
def test_a_row_keeps_its_reason_and_source(row: dict[str, Any]) -> None:
    """What an explanation is made of."""
    conditions = {
        "with Retry-After": {"retry_after"},
        "body carries a known throttling code": {"throttling_code"},
        "S3 code RequestTimeout": {"request_timeout_code"},
        "x-ratelimit-remaining == 0": {"nothing_remaining"},
        "body mentions secondary rate limit (opt-in predicate)": {"secondary_limit"},
        "request carried an idempotency key": {"idempotency_key"},
        "with Retry-After, caller opts in": {"retry_after", "opted_in"},
        "with Retry-After, or AWS": {"aws"},
    }.get(row.get("when", ""), set())
    found = status_row(statuses_of(row)[0], conditions)
    assert (found.name, found.kind, found.reason) == (row["name"], row["kind"], row["reason"])
    assert found.source
    assert "(read" not in found.source


def test_the_deciding_row_is_that_of_the_decision() -> None:
    """What an explanation shows is what decided."""
    headers = {"x-ratelimit-remaining": "0"}
    row = deciding_row(403, RetryableMethod.NON_IDEMPOTENT, headers)
    assert row.reason.startswith("GitHub primary limit")
    assert verdict(403, "POST", headers) == RetryAfter(0.0, reason_of(row.kind))


@given(st.integers(-(10**6), 10**6), st.sets(st.sampled_from(sorted(FROM_THE_BODY))))
def test_every_number_has_a_row(status: int, known: set[str]) -> None:
    """No status is without an answer."""
    assert status_row(status, known).name
    assert isinstance(verdict(status, "GET", known=known), (RetryAfter, DoNotRetry))


@pytest.mark.parametrize("status", [413, 423, 403, 503, 509])
@pytest.mark.parametrize("value", ["soon", "", "-5", "1e3"])
def test_a_retry_after_that_cannot_be_read_is_none(status: int, value: str) -> None:
    """Malformed counts as absent: the row without it decides."""
    assert verdict(status, "GET", {"Retry-After": value}) == verdict(status, "GET")


@pytest.mark.parametrize("status", [413, 423, 403, 509])
def test_a_retry_after_of_zero_is_one(status: int) -> None:
    """Zero asks for nothing, but it names a time."""
    assert isinstance(verdict(status, "GET", {"Retry-After": "0"}), RetryAfter)


def test_a_limit_that_names_its_renewal_is_waited_for() -> None:
    """GitHub's primary limit: 403, nothing remaining, a reset."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}
    assert verdict(403, "POST", headers) == RetryAfter(30.0, RetryReason.THROTTLED)


def test_a_limit_that_is_not_used_up_is_no_reason() -> None:
    """A 403 with some calls left is about permission."""
    headers = {"x-ratelimit-remaining": "1", "x-ratelimit-reset": "30"}
    assert verdict(403, "GET", headers) == DoNotRetry(StopReason.FORBIDDEN)


def test_github_s_secondary_limit_waits_a_minute_unless_a_header_names_a_time() -> None:
    """Its documentation asks for at least 60 s."""
    known = ("secondary_limit",)
    assert verdict(403, "GET", known=known) == RetryAfter(60.0, RetryReason.THROTTLED)
    named = verdict(403, "GET", {"Retry-After": "9"}, known=known)
    assert named == RetryAfter(9.0, RetryReason.THROTTLED)


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ("ThrottlingException", RetryAfter(0.0, RetryReason.THROTTLED)),
        ("ThrottlingException:http://internal.amazon.com/", RetryAfter(0.0, RetryReason.THROTTLED)),
        ("aws.protocols#ThrottlingException", RetryAfter(0.0, RetryReason.THROTTLED)),
        ("RequestTimeout", DoNotRetry(StopReason.NOT_IDEMPOTENT)),
        ("ValidationException", DoNotRetry(StopReason.FORBIDDEN)),
        ("", DoNotRetry(StopReason.FORBIDDEN)),
    ],
)
def test_aws_names_its_code_in_a_header(value: str, decision: object) -> None:
    """AWS throttles with 400; its JSON protocols say so in x-amzn-errortype."""
    assert verdict(400, "POST", {"x-amzn-ErrorType": value}) == decision


def test_a_509_of_aws_s_is_throttling() -> None:
    """Elsewhere it lasts until the billing period ends."""
    assert isinstance(verdict(509, "GET", {"x-amzn-RequestId": "1"}), RetryAfter)
    assert verdict(509, "GET") == DoNotRetry(StopReason.FORBIDDEN)


@pytest.mark.parametrize("name", ["x-should-retry", "Stripe-Should-Retry", b"X-SHOULD-RETRY"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_s_yes_outranks_the_table(name: str | bytes, method: str) -> None:
    """Also for what is permanent, or not idempotent: the server knows."""
    value = b"true" if isinstance(name, bytes) else "true"
    for status, reason in ((500, "server_error"), (409, "conflict"), (404, "permanent")):
        assert verdict(status, method, {name: value}) == RetryAfter(0.0, reason_of(reason))


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_server_s_no_outranks_the_table(status: int) -> None:
    """Stripe and OpenAI say it where a retry would be in vain."""
    headers = {"x-should-retry": "false", "Retry-After": "1"}
    assert verdict(status, "GET", headers) == DoNotRetry(StopReason.FORBIDDEN)


@pytest.mark.parametrize("value", ["True", "FALSE", "yes", "1", "", "true, true", "truefalse"])
def test_a_verdict_in_any_other_words_is_none(value: str) -> None:
    """Exact lower case, as both SDKs have it."""
    assert server_verdict({"x-should-retry": value}) is None
    assert isinstance(verdict(503, "GET", {"x-should-retry": value}), RetryAfter)


def test_of_two_verdicts_the_no_counts() -> None:
    """A retry that nobody asked for is the worse mistake."""
    assert server_verdict({"x-should-retry": "true", "stripe-should-retry": "false"}) is False


def test_a_verdict_does_not_make_a_success_a_failure() -> None:
    """`true` beside a 200 says nothing."""
    assert verdict(200, "GET", {"x-should-retry": "true"}) == DoNotRetry(StopReason.SUCCEEDED)


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in TABLE["table"]}))
def test_every_kind_has_a_reason(kind: str) -> None:
    """The one place that maps the tables' words; what is never retried is TRANSIENT."""
    named = {"connection", "timeout", "throttled", "conflict", "server_error"}
    assert (reason_of(kind) is RetryReason.TRANSIENT) == (kind not in named)


def test_the_packaged_table_has_no_word_of_its_own() -> None:
    """Conditions are those that the code knows."""
    known = {*FROM_THE_BODY, "retry_after", "nothing_remaining", "aws", "idempotency_key"}
    packaged = [row for group in _rows().values() for row in group]
    assert {word for row in packaged for group in row.when for word in group} == known
    assert {row.kind for row in packaged} == {row["kind"] for row in TABLE["table"]}
