"""`explain` and `retry-after`: a decision, and the rule by which it falls."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from retrykit.cli._explain import explain, read_retry_after
from retrykit.decision import DoNotRetry, RetryAfter
from retrykit.facts.http import verdict
from retrykit.facts.methods import RetryableMethod, classify_method

MALFORMED = (
    "neither whole or decimal seconds nor an HTTP date (RFC 9110 §10.2.3), so it counts as absent"
)


@pytest.mark.parametrize(
    "status", [100, 200, 304, 400, 403, 409, 425, 429, 500, 503, 507, 529, 999]
)
@pytest.mark.parametrize("method", ["GET", "POST", "QUERY", "get"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"Retry-After": "7"}, {"Idempotency-Key": "8e03978e"}, {"x-should-retry": "false"}],
)
def test_the_decision_is_the_librarys(status: int, method: str, headers: dict[str, str]) -> None:
    """For each status, method and header it is what the tables say."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    explained = explain(status, method, lines)
    assert explained.decision == verdict(status, classify_method(method, headers), headers)
    assert explained.retries == isinstance(explained.decision, RetryAfter)
    assert explained.row.status in (str(status), f"{status // 100}xx", "invalid")


def test_a_wait_past_the_limit_ends_the_call() -> None:
    """The tables say retry, and the default policy does not wait for an hour."""
    explained = explain(429, "GET", ["Retry-After: 3600"])
    assert explained.decision.delay == 3600
    assert (explained.retries, explained.reason) == (False, "server_delay_too_long")


def test_the_wait_is_the_policys() -> None:
    """Never sooner than asked, not all at once; without a wish it is the backoff's."""
    assert explain(503, "GET", ["Retry-After: 30"]).waits == (30, 33)
    assert explain(503, "GET").waits == (0, 0.25)
    assert explain(429, "GET").waits == (0, 1)


@pytest.mark.parametrize(
    ("headers", "asked_by"),
    [
        (["Retry-After: 7"], "Retry-After"),
        (["retry-after-ms: 1500", "Retry-After: 7"], "retry-after-ms"),
        (["X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30"], "X-RateLimit-Reset"),
        (['RateLimit: "burst";r=0;t=5'], "RateLimit"),
        (["Retry-After: soon"], None),
        (["Date: Mon, 30 Nov 2026 12:00:00 GMT"], None),
    ],
)
def test_the_header_that_asks_is_named(headers: list[str], asked_by: str | None) -> None:
    """Of several the one that counts."""
    assert explain(429, "GET", headers).asked_by == asked_by


def test_a_key_of_another_name() -> None:
    """Some services call it otherwise."""
    line = "PayPal-Request-Id: 8e03978e"
    assert not explain(503, "POST", [line]).retries
    assert explain(503, "POST", [line], key_names=["PayPal-Request-Id"]).retries


def test_a_key_that_does_not_count() -> None:
    """It is empty, or there are two of them."""
    for headers in (["Idempotency-Key:"], ["Idempotency-Key: a", "idempotency-key: b"]):
        explained = explain(503, "POST", headers)
        assert (explained.retries, explained.key_counts) == (False, False)
        assert explained.safety is RetryableMethod.NON_IDEMPOTENT


def test_what_only_the_body_tells() -> None:
    """It can be said."""
    assert not explain(400, "POST").retries
    assert explain(400, "POST", known=["throttling_code"]).retries


@pytest.mark.parametrize(
    ("value", "seconds", "form", "decision"),
    [
        ("7", 7, "delay-seconds", "wait"),
        (" 7\t", 7, "delay-seconds", "wait"),
        ("0", 0, "delay-seconds", "backoff"),
        ("1.5", 1.5, "delay-seconds", "wait"),
        ("3, 5", 5, "delay-seconds", "wait"),
        ("60", 60, "delay-seconds", "wait"),
        ("61", 61, "delay-seconds", "stop"),
        ("9" * 30, 2**31, "delay-seconds", "stop"),
        ("-5", None, "malformed", "backoff"),
        ("1e3", None, "malformed", "backoff"),
        ("inf", None, "malformed", "backoff"),
        ("30 seconds", None, "malformed", "backoff"),
        ("", None, "malformed", "backoff"),
        ("٣", None, "malformed", "backoff"),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30, "http-date", "wait"),
        ("Monday, 30-Nov-26 12:00:30 GMT", 30, "http-date", "wait"),
        ("Mon Nov 30 12:00:30 2026", 30, "http-date", "wait"),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0, "http-date", "backoff"),
        ("Mon, 30 Feb 2026 12:00:30 GMT", None, "malformed", "backoff"),
    ],
)
def test_a_value_is_read(value: str, seconds: float | None, form: str, decision: str) -> None:
    """What it asks for, and what is done about it."""
    reading = read_retry_after(value, date="Mon, 30 Nov 2026 12:00:00 GMT")
    assert (reading.seconds, reading.form, reading.decision) == (seconds, form, decision)


def test_a_time_counts_from_the_responses_own_date() -> None:
    """Else from now."""
    later = formatdate(time.time() + 40, usegmt=True)
    reading = read_retry_after(later)
    assert reading.seconds == pytest.approx(40, abs=5)
    assert "counted from now" in reading.rule
    assert "the response's own Date" in read_retry_after(later, date=formatdate(usegmt=True)).rule


# The commands


def test_a_retry_is_explained(printed) -> None:
    """The decision first, then its rules with their sources."""
    shown = printed("explain", "503", "GET", "Retry-After: 7").splitlines()
    assert shown[0] == "503 Service Unavailable to a GET: retry (throttled)"
    assert "throttled, given retry after" in shown[1]
    assert "[RFC 9110 §15.6.4, §10.2.3]" in shown[2]
    assert shown[3] == "  method  GET is idempotent [RFC 9110 §9.3.1]"
    assert shown[4] == "  wait    7 s to 8 s, as Retry-After asks"


def test_a_refusal_is_explained(printed) -> None:
    """And what is missing."""
    shown = printed("explain", "503", "POST")
    assert shown.startswith("503 Service Unavailable to a POST: no retry (not_idempotent)\n")
    assert "POST is not idempotent [RFC 9110 §9.3.3]" in shown
    assert "with an Idempotency-Key header it would be retried" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("503", "POST", "Idempotency-Key: 8e03978e"), "Idempotency-Key makes it repeatable"),
        (("503", "POST", "Idempotency-Key:"), "Idempotency-Key does not count"),
        (("503", "get"), "get is not known, and so not idempotent (methods are case-sensitive)"),
        (("500", "POST", "x-should-retry: true"), "its own word on retries, yes, outranks"),
        (("429", "GET", "Retry-After: 3600"), "1 h, as Retry-After asks: longer than the default"),
        (("403", "GET", "--known", "secondary_limit"), "given secondary limit"),
        (("503", "PUT", "Date: x"), "0 s to 250 ms, by the backoff of http_policy()"),
        (("600", "GET"), "600 invalid status to a GET: no retry (forbidden)"),
        (("204", "GET"), "no retry (succeeded)"),
        (("418", "GET", "--", "Via: 1.1 a"), "no retry (forbidden)"),
    ],
)
def test_it_tells_the_rule(arguments: tuple[str, ...], told: str, printed) -> None:
    """In words."""
    assert told in printed("explain", *arguments)


def test_an_explanation_as_json(as_json) -> None:
    """The same as plain values."""
    explained = as_json("explain", "503", "POST", "Idempotency-Key: 8e03978e", "Retry-After: 7")
    rule = explained.pop("rule")
    assert (rule["status"], rule["kind"], rule["repeat"], rule["when"]) == (
        "503", "throttled", "idempotent", [["retry_after"]],
    )  # fmt: skip
    assert rule["source"].startswith("RFC 9110 §15.6.4")
    assert explained == {
        "status": 503,
        "method": "POST",
        "retry": True,
        "reason": "throttled",
        "delay": 7,
        "wait": {"least": 7, "greatest": 8},
        "asked": 7,
        "asked_by": "Retry-After",
        "server_said": None,
        "method_rule": {
            "safety": "idempotent_with_token",
            "safe": False,
            "idempotent": False,
            "source": "RFC 9110 §9.3.3",
        },
        "idempotency_key": "Idempotency-Key",
    }


def test_a_key_is_not_shown(printed) -> None:
    """Its value is nobody's business."""
    for option in ([], ["--json"]):
        assert "8e03978e" not in printed(
            "explain", "503", "POST", "Idempotency-Key: 8e03978e", *option
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("abc", "GET"), "must be a status such as 503, got 'abc'"),
        (("50.3", "GET"), "got '50.3'"),
        (("٥٠٣", "GET"), "must be a status"),
        (("503", "G ET"), "METHOD must be an HTTP method, got 'G ET'"),
        (("503", ""), "METHOD must be an HTTP method, got ''"),
        (("503", "GET", "Retry-After 7"), "HEADER must be written as 'Name: value'"),
        (("503", "GET", ": 7"), "HEADER must be written as 'Name: value'"),
        (("503", "GET", "--known", "luck"), "--known must be one of"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], told: str, refused) -> None:
    """One line."""
    assert told in refused("explain", *arguments)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ("30",),
            [
                "Retry-After: 30 asks for 30 s",
                "  rule  delay-seconds (RFC 9110 §10.2.3)",
                "  then  a retry waits for 30 s to 33 s: never sooner, and not all at once",
            ],
        ),
        (
            ("-5",),
            [
                "Retry-After: -5 asks for nothing",
                f"  rule  {MALFORMED}",
                "  then  a retry waits for what the backoff draws",
            ],
        ),
        (
            ("120",),
            [
                "Retry-After: 120 asks for 2 min",
                "  rule  delay-seconds (RFC 9110 §10.2.3)",
                "  then  no retry: longer than the 1 min that a ServerDelay accepts by default",
            ],
        ),
    ],
)
def test_a_reading_is_explained(arguments: tuple[str, ...], lines: list[str], printed) -> None:
    """What it asks for, by which rule, and what follows."""
    assert printed("retry-after", *arguments).splitlines() == lines


def test_a_date_needs_no_quotes(printed) -> None:
    """The words of the value are put together again."""
    date = "Mon, 30 Nov 2026 12:01:00 GMT"
    words = ["Mon,", "30", "Nov", "2026", "12:01:30", "GMT"]
    shown = printed("retry-after", *words, "--date", date)
    assert "asks for 30 s" in shown
    assert "counted from the response's own Date" in shown


def test_a_reading_as_json(as_json) -> None:
    """The same as plain values."""
    reading = as_json("retry-after", "1e3")
    assert reading.pop("rule") == MALFORMED
    assert reading == {
        "value": "1e3",
        "seconds": None,
        "form": "malformed",
        "decision": "backoff",
        "limit": 60,
        "wait": None,
    }
    assert isinstance(explain(404, "GET").decision, DoNotRetry)
