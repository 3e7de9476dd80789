"""AWS's error codes, on stand-ins of botocore's shape."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from retrykit import DoNotRetry, RetryAfter, RetryReason, StopReason, retry
from retrykit.classifiers.botocore import BotocoreClassifier
from retrykit.outcome import Attempt, Call, Raised, Returned
from retrykit.testing import VirtualClock

FORBIDDEN = DoNotRetry(StopReason.FORBIDDEN)
NOT_IDEMPOTENT = DoNotRetry(StopReason.NOT_IDEMPOTENT)
THROTTLED = RetryAfter(0.0, RetryReason.THROTTLED)


class BotoCoreError(Exception):
    __module__ = "botocore.exceptions"


class ClientError(Exception):
    """As botocore's: half of a response."""

    __module__ = "botocore.exceptions"

    def __init__(
        self, code: str, status: int = 400, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(f"An error occurred ({code})")
        self.response = {
            "Error": {"Code": code, "Message": "text"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}},
            **more,
        }
        self.operation_name = "PutItem"


class ModelledError(ClientError):
    """As the classes that botocore makes of a service's model."""


ModelledError.__module__ = "botocore.errorfactory"


def made(name: str, *bases: type[Exception]) -> Exception:
    """An error of this class of botocore's."""
    kind = type(name, bases or (BotoCoreError,), {"__module__": "botocore.exceptions"})
    return kind("text")


def attempt(outcome: object) -> Attempt:
    held = Raised(outcome) if isinstance(outcome, Exception) else Returned(outcome)
    return Attempt(Call(print), 1, held, 0.1)


def opinions(error: Exception) -> tuple[Any, Any]:
    """What is said of it where work may not be done twice, and where it may."""
    first = BotocoreClassifier()(attempt(error))
    return first, BotocoreClassifier(idempotent=True)(attempt(error))


ROWS = [
    row
    for row in json.loads(
        (Path(__file__).parents[1] / "data" / "exceptions.json").read_text(encoding="utf-8")
    )["exceptions"]
    if row["library"].startswith("botocore")
]
CODES = sorted(
    (code, row["retry"]["idempotent"], row["retry"]["non_idempotent"])
    for row in ROWS
    if (found := re.fullmatch(r"botocore\.exceptions\.ClientError\[(.+)\]", row["exception"]))
    for code in re.split(r" ?[/,] ?", found[1])
    if re.fullmatch(r"[A-Za-z]\w+", code) and code != "TransactionCanceledException"
)
CLASSES = sorted(
    (
        row["exception"].rpartition(".")[2],
        row["retry"]["idempotent"],
        row["retry"]["non_idempotent"],
    )
    for row in ROWS
    if "[" not in row["exception"]
)


@pytest.mark.parametrize("kind", [ClientError, ModelledError])
@pytest.mark.parametrize(("code", "idempotent", "otherwise"), CODES)
def test_each_code_is_decided_as_published(
    code: str, idempotent: str, otherwise: str, kind: type[ClientError]
) -> None:
    """Throttling often comes with status 400."""
    strictly, loosely = opinions(kind(code))
    assert isinstance(loosely, RetryAfter) is (idempotent == "retry")
    assert isinstance(strictly, RetryAfter) is (otherwise == "retry")


@pytest.mark.parametrize(("name", "idempotent", "otherwise"), CLASSES)
def test_each_class_is_decided_as_published(name: str, idempotent: str, otherwise: str) -> None:
    """Those without a response."""
    strictly, loosely = opinions(made(name))
    assert isinstance(loosely, RetryAfter) is (idempotent == "retry")
    assert isinstance(strictly, RetryAfter) is (otherwise == "retry")


def test_there_are_codes_and_classes() -> None:
    """The table was read."""
    assert len(CODES) >= 18
    assert len(CLASSES) >= 12
    assert {row[1:] for row in (*CODES, *CLASSES)} == {
        ("retry", "retry"),
        ("retry", "stop"),
        ("stop", "stop"),
    }


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"x-amz-retry-after": "1500"}, 1.5),
        ({"X-Amz-Retry-After": "20"}, 0.02),
        ({"retry-after": "2"}, 2.0),
        ({"x-amz-retry-after": "soon"}, 0.0),
        ({"x-amz-retry-after": "-5"}, 0.0),
        ({"x-amz-retry-after": "9" * 5000}, 2.0**31),
        ({}, 0.0),
    ],
)
@pytest.mark.parametrize("code", ["ThrottlingException", "SlowDown"])
def test_what_the_service_asks_to_wait_is_heeded(
    code: str, headers: dict[str, str], delay: float
) -> None:
    """`x-amz-retry-after` is in milliseconds: read as seconds it would be hours."""
    decision = BotocoreClassifier()(attempt(ClientError(code, 400, headers)))
    assert isinstance(decision, RetryAfter)
    assert math.isfinite(decision.delay)
    assert decision.delay == pytest.approx(delay, rel=1e-3)


def test_it_is_waited() -> None:
    """Through the decorator: never sooner."""
    clock = VirtualClock()
    failures = [ClientError("SlowDown", 503, {"x-amz-retry-after": "1500"})]

    @retry(classify=BotocoreClassifier(), attempts=3, backoff=[0.1] * 2, clock=clock, listeners=())
    def call() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert call() == "done"
    (waited,) = clock.sleeps
    assert 1.5 <= waited <= 2.5


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_code_that_is_not_listed_goes_by_its_status(status: int) -> None:
    """What may have been done is repeated where that is allowed only."""
    strictly, loosely = opinions(ClientError("SomethingNew", status))
    assert strictly == NOT_IDEMPOTENT
    assert isinstance(loosely, RetryAfter)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412, 501])
def test_a_client_s_fault_is_final(status: int) -> None:
    """Whatever its code."""
    assert opinions(ClientError("SomethingNew", status)) == (FORBIDDEN, FORBIDDEN)


def test_a_bare_429_is_throttling() -> None:
    """botocore's standard mode ignores it."""
    assert opinions(ClientError("429", 429)) == (THROTTLED, THROTTLED)


CONFLICTS = [
    ["None", "TransactionConflict"],
    ["ThrottlingError"],
    ["ProvisionedThroughputExceeded", "None", "RequestLimitExceeded"],
]


@pytest.mark.parametrize("codes", CONFLICTS)
def test_a_cancelled_transaction_is_retried_where_all_its_reasons_pass(codes: list[str]) -> None:
    """DynamoDB tells one for each part."""
    reasons = [{"Code": code} for code in codes]
    error = ClientError("TransactionCanceledException", CancellationReasons=reasons)
    again = RetryAfter(0.0, RetryReason.CONFLICT)
    assert opinions(error) == (again, again)


@pytest.mark.parametrize(
    "reasons",
    [
        None,
        [],
        "TransactionConflict",
        [{"Code": "None"}],
        [{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}],
        [{}],
        [7],
    ],
)
def test_a_cancelled_transaction_is_final_else(reasons: Any) -> None:
    """A condition that failed, or reasons that cannot be read."""
    error = ClientError("TransactionCanceledException", CancellationReasons=reasons)
    assert opinions(error) == (FORBIDDEN, FORBIDDEN)


def test_a_bad_certificate_is_final() -> None:
    """botocore's class says connection error."""
    connection = type("ConnectionError", (BotoCoreError,), {"__module__": "botocore.exceptions"})
    assert opinions(made("SSLError", connection)) == (FORBIDDEN, FORBIDDEN)


@pytest.mark.parametrize(
    "outcome",
    [
        *["a value", None, KeyError("key"), ConnectionResetError()],
        {"ResponseMetadata": {"HTTPStatusCode": 200}},
        {"ResponseMetadata": {"HTTPStatusCode": 503}},
    ],
)
def test_what_is_none_of_botocore_s_is_no_opinion(outcome: object) -> None:
    """Nor is a value: botocore raises for what failed."""
    assert BotocoreClassifier()(attempt(outcome)) is None


@pytest.mark.parametrize("response", [None, {}, {"Error": None}, {"Error": {"Code": None}}, 7])
def test_a_response_that_is_none_is_no_opinion(response: Any) -> None:
    """Nothing raises, and nothing is guessed."""
    error = ClientError("x")
    error.response = response
    assert opinions(error) == (None, None)


def test_it_is_a_value() -> None:
    """It compares, hashes, pickles and prints itself."""
    one = BotocoreClassifier(idempotent=True)
    assert one == BotocoreClassifier(idempotent=True) != BotocoreClassifier()
    assert len({one, BotocoreClassifier(idempotent=True)}) == 1
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "BotocoreClassifier(idempotent=True)"
    with pytest.raises(TypeError, match="idempotent must be a bool, got None"):
        BotocoreClassifier(idempotent=None)  # type: ignore[arg-type]  # that is the test
