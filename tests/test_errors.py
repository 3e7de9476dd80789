"""The errors of the library's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from retrykit import (
    AttemptTimedOut,
    DeadlineExceeded,
    RetriesExhausted,
    RetryKitError,
    RetryReason,
    StopReason,
)
from retrykit.errors import PastAttempt, UnknownPolicy

HISTORY = (
    PastAttempt(1, None, RetryReason.UNSATISFACTORY, 0.5),
    PastAttempt(2, "OSError", StopReason.ATTEMPTS_EXHAUSTED, None),
)


def exhausted(**fields: Any) -> RetriesExhausted:
    return RetriesExhausted("fetch", 2, StopReason.ATTEMPTS_EXHAUSTED, **fields)


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        (RetriesExhausted, (RetryKitError,)),
        (AttemptTimedOut, (RetryKitError, TimeoutError, OSError)),
        (DeadlineExceeded, (RetryKitError, TimeoutError, OSError)),
        (UnknownPolicy, (RetryKitError, LookupError)),
    ],
)
def test_what_they_are_caught_as(kind: type[Exception], bases: tuple[type[Exception], ...]) -> None:
    """One base for all; the two limits of time are `TimeoutError`s."""
    for base in bases:
        assert issubclass(kind, base)


def test_the_texts() -> None:
    """What was too long, and the limit in seconds."""
    assert str(AttemptTimedOut(0.5)) == "the attempt took longer than 0.5 s"
    assert str(DeadlineExceeded(30.0)) == "the call took longer than its deadline of 30 s"


@pytest.mark.parametrize(
    ("attempts", "elapsed", "text"),
    [
        (
            1,
            0.0,
            "fetch gave no satisfactory result in 1 attempt and 0.0 s: attempts_exhausted",
        ),
        (
            4,
            3.21,
            "fetch gave no satisfactory result in 4 attempts and 3.2 s: attempts_exhausted",
        ),
    ],
)
def test_an_exhausted_results_text(attempts: int, elapsed: float, text: str) -> None:
    """Never the value, which may be a secret."""
    reason = StopReason.ATTEMPTS_EXHAUSTED
    error = RetriesExhausted("fetch", attempts, reason, value="secret", elapsed=elapsed)
    assert str(error) == text
    assert "secret" not in repr(error)


def fields_of(error: RetriesExhausted) -> Any:
    return error.function, error.attempts, error.reason, error.value, error.elapsed, error.history


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_exhausted_result_travels_with_all_it_holds(protocol: int) -> None:
    """Value, history and notes (PrefectHQ/prefect#14417: an error that did not pickle)."""
    error = exhausted(value=[1], elapsed=1.5, history=HISTORY)
    error.add_note("a note")
    for twin in (pickle.loads(pickle.dumps(error, protocol)), copy.deepcopy(error)):
        assert type(twin) is RetriesExhausted
        assert fields_of(twin) == fields_of(error)
        assert twin.__notes__ == ["a note"]
        assert str(twin) == str(error)


class Refuses:
    """A value that fails in its own way."""

    def __reduce__(self) -> Any:
        raise RuntimeError("not this one")


@pytest.mark.parametrize("value", [lambda: 1, Refuses(), (each for each in "ab")])
def test_a_value_that_does_not_pickle_is_left_out(value: Any) -> None:
    """The error itself travels all the same."""
    twin = pickle.loads(pickle.dumps(exhausted(value=value, history=HISTORY)))
    assert twin.value is None
    assert twin.history == HISTORY


@pytest.mark.parametrize("error", [AttemptTimedOut(0.5), DeadlineExceeded(30.0)])
def test_time_limits_travel_with_their_notes(error: Any) -> None:
    """And without what they belonged to."""
    error._owner = object()
    error.add_note("a note")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == {**vars(error), "_owner": None}
    assert twin.__notes__ == ["a note"]


def test_subclasses_of_a_time_limit_travel_as_themselves() -> None:
    """Where they are made the same way."""
    assert type(pickle.loads(pickle.dumps(Slower(1.0)))) is Slower


class Slower(AttemptTimedOut):
    """A user's own."""


def test_a_line_of_history_is_a_plain_tuple() -> None:
    """It pickles, compares and takes apart as one."""
    number, error_type, reason, delay = HISTORY[0]
    assert (number, error_type, reason, delay) == (1, None, RetryReason.UNSATISFACTORY, 0.5)
    assert pickle.loads(pickle.dumps(HISTORY)) == HISTORY
