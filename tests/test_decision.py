"""The nouns that come out: another attempt after a delay, or none, each with its reason."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest

from retrykit import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.decision import NO_LIMIT


def test_the_defaults() -> None:
    """Nothing is asked for; nobody wanted another attempt."""
    assert RetryAfter() == RetryAfter(0.0, RetryReason.TRANSIENT)
    assert DoNotRetry() == DoNotRetry(StopReason.NOT_RETRYABLE)


@pytest.mark.parametrize(
    ("written", "delay"),
    [(0, 0.0), (2, 2.0), (2.5, 2.5), (timedelta(minutes=1), 60.0), (1e300, 1e300)],
)
def test_a_delay_is_held_in_float_seconds(written: Any, delay: float) -> None:
    """A number or a `timedelta` goes in."""
    held = RetryAfter(written).delay
    assert held == delay
    assert type(held) is float


@pytest.mark.parametrize(
    ("delay", "kind", "text"),
    [
        (-1, ValueError, "delay must be at least 0, got -1"),
        (-0.5, ValueError, "delay must be at least 0, got -0.5"),
        (math.nan, ValueError, "delay must be finite, got nan"),
        (math.inf, ValueError, "delay must be finite, got inf"),
        (timedelta(seconds=-1), ValueError, "delay must be at least 0, got -1.0"),
        (True, TypeError, "delay must be a number of seconds or a timedelta, got True"),
        ("1", TypeError, "delay must be a number of seconds or a timedelta, got '1'"),
        (None, TypeError, "delay must be a number of seconds or a timedelta, got None"),
    ],
)
def test_a_bad_delay_is_refused(delay: Any, kind: type[Exception], text: str) -> None:
    """The text names the field and the value."""
    with pytest.raises(kind) as told:
        RetryAfter(delay)
    assert str(told.value) == text


@pytest.mark.parametrize("reason", ["transient", StopReason.STOPPED, None, 1])
def test_a_retrys_reason_is_a_retry_reason(reason: Any) -> None:
    """Its text alone is none, nor is a reason to stop."""
    with pytest.raises(TypeError) as told:
        RetryAfter(1.0, reason)
    assert str(told.value) == f"reason must be a RetryReason, got {reason!r}"


@pytest.mark.parametrize("reason", ["stopped", RetryReason.TRANSIENT, None, 1])
def test_a_stops_reason_is_a_stop_reason(reason: Any) -> None:
    """As above."""
    with pytest.raises(TypeError) as told:
        DoNotRetry(reason)
    assert str(told.value) == f"reason must be a StopReason, got {reason!r}"


EACH: list[Any] = [
    RetryAfter(),
    RetryAfter(1.0),
    RetryAfter(1.0, RetryReason.THROTTLED),
    DoNotRetry(),
    DoNotRetry(StopReason.FORBIDDEN),
]


@pytest.mark.parametrize("decision", EACH, ids=repr)
def test_decisions_are_values(decision: Any) -> None:
    """They compare, hash, pickle, copy and print by their fields."""
    assert sum(decision == other for other in EACH) == 1
    assert decision != decision.reason
    twins = [eval(repr(decision)), pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)]
    for twin in twins:
        assert twin == decision
        assert hash(twin) == hash(decision)


def test_match_and_isinstance_tell_the_two_apart() -> None:
    """The union takes both."""
    told = []
    for decision in EACH:
        assert isinstance(decision, RetryDecision)
        match decision:
            case RetryAfter(delay, reason):
                told.append((delay, reason))
            case DoNotRetry(reason):
                told.append((None, reason))
    assert told == [(getattr(each, "delay", None), each.reason) for each in EACH]


@pytest.mark.parametrize("reason", [*RetryReason, *StopReason])
def test_reasons_print_as_they_are_written_and_read_as_text(reason: Any) -> None:
    """`str` is the value, for logs and labels; the `repr` can be evaluated."""
    assert str(reason) == reason.name.lower()
    assert eval(repr(reason)) is reason


def test_which_reasons_there_are() -> None:
    """The names that others build on."""
    assert [each.name for each in RetryReason] == [
        "CONNECTION_FAILED",
        "TIMED_OUT",
        "THROTTLED",
        "SERVER_ERROR",
        "CONFLICT",
        "TRANSIENT",
        "UNSATISFACTORY",
    ]
    assert [each.name for each in StopReason] == [
        "SUCCEEDED",
        "NOT_RETRYABLE",
        "FORBIDDEN",
        "NOT_IDEMPOTENT",
        "NOT_REPLAYABLE",
        "ATTEMPTS_EXHAUSTED",
        "REASON_EXHAUSTED",
        "BACKOFF_EXHAUSTED",
        "DEADLINE_EXCEEDED",
        "SERVER_DELAY_TOO_LONG",
        "BUDGET_EXHAUSTED",
        "STOPPED",
        "CANCELLED",
        "DISABLED",
        "NESTED",
        "STRATEGY_FAILED",
    ]


def test_which_reasons_are_no_limit() -> None:
    """Where a value ends so, it is returned."""
    assert {each.name for each in NO_LIMIT} == {
        "SUCCEEDED",
        "NOT_RETRYABLE",
        "FORBIDDEN",
        "NOT_IDEMPOTENT",
        "DISABLED",
        "NESTED",
    }
