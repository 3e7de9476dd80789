"""gRPC's codes and trailers, on stand-ins of the same shape."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retrykit import DoNotRetry, OnException, RetryAfter, RetryReason, StopReason, retry
from retrykit.classifiers.grpc import GrpcClassifier
from retrykit.events import CallGaveUp, RetryScheduled
from retrykit.outcome import Attempt, Call, Raised, Returned
from retrykit.testing import VirtualClock

FORBIDDEN = DoNotRetry(StopReason.FORBIDDEN)
NOT_IDEMPOTENT = DoNotRetry(StopReason.NOT_IDEMPOTENT)


class RpcError(Exception):
    """As `grpc.RpcError`: without a code of its own."""

    __module__ = "grpc"


class InactiveRpcError(RpcError):
    """As what a call on a blocking channel raises."""

    def __init__(self, code: str, trailers: Any = ()) -> None:
        super().__init__(code)
        self._code = code
        self._trailers = trailers

    def code(self) -> Any:
        return SimpleNamespace(name=self._code, value=(0, self._code.lower()))

    def trailing_metadata(self) -> Any:
        return self._trailers


InactiveRpcError.__module__ = "grpc._channel"
InactiveRpcError.__qualname__ = "_InactiveRpcError"


class AioRpcError(InactiveRpcError):
    """As what `grpc.aio` raises, whose trailers are a mapping of their own kind."""

    def trailing_metadata(self) -> Any:
        return iter(self._trailers)


AioRpcError.__module__ = "grpc.aio._call"


def attempt(outcome: object) -> Attempt:
    made = Raised(outcome) if isinstance(outcome, Exception) else Returned(outcome)
    return Attempt(Call(print), 1, made, 0.1)


def opinions(error: Exception) -> tuple[Any, Any]:
    """What is said of it where work may not be done twice, and where it may."""
    first = GrpcClassifier()(attempt(error))
    return first, GrpcClassifier(idempotent=True)(attempt(error))


CODES = sorted(
    (found[1], row["retry"]["idempotent"], row["retry"]["non_idempotent"])
    for row in json.loads(
        (Path(__file__).parents[1] / "data" / "exceptions.json").read_text(encoding="utf-8")
    )["exceptions"]
    if (found := re.fullmatch(r"grpc\.RpcError\[code=(\w+)\]", row["exception"]))
)


@pytest.mark.parametrize("kind", [InactiveRpcError, AioRpcError])
@pytest.mark.parametrize(("code", "idempotent", "otherwise"), CODES)
def test_each_code_is_decided_as_published(
    code: str, idempotent: str, otherwise: str, kind: type[InactiveRpcError]
) -> None:
    """On a blocking channel and on asyncio's."""
    strictly, loosely = opinions(kind(code))
    assert isinstance(loosely, RetryAfter) is (idempotent == "retry")
    assert isinstance(strictly, RetryAfter) is (otherwise == "retry")
    if not isinstance(strictly, RetryAfter):
        again = isinstance(loosely, RetryAfter)
        assert strictly == (NOT_IDEMPOTENT if again else FORBIDDEN)


def test_the_codes_are_all_there() -> None:
    """The table was read."""
    assert {row[1:] for row in CODES} == {("retry", "retry"), ("retry", "stop"), ("stop", "stop")}
    assert len(CODES) == 16


def test_unavailable_may_mean_that_the_work_was_done() -> None:
    """There is no guarantee that the server saw nothing."""
    assert opinions(InactiveRpcError("UNAVAILABLE")) == (
        NOT_IDEMPOTENT,
        RetryAfter(0.0, RetryReason.CONNECTION_FAILED),
    )


@pytest.mark.parametrize(
    ("said", "delay"), [("0", 0.0), ("250", 0.25), (b"1500", 1.5), ("2147483647", 2147483.647)]
)
@pytest.mark.parametrize("kind", [InactiveRpcError, AioRpcError])
def test_a_pushback_is_the_time_to_wait(kind: Any, said: Any, delay: float) -> None:
    """In milliseconds, and the server's own leave: whatever the method."""
    error = kind("UNAVAILABLE", [("x-other", "1"), ("grpc-retry-pushback-ms", said)])
    again = RetryAfter(delay, RetryReason.THROTTLED)
    assert opinions(error) == (again, again)


@pytest.mark.parametrize(
    "said",
    [
        *["-1", "-2147483648", "", "soon", "1.5", "1e3", "+5", " 5", "5 ", "007", "0x10", "inf"],
        *["nan", "99999999999", "2147483648", "٣", "1_000", "-0", b"\xff", "5, 5", "5\n"],
    ],
)
@pytest.mark.parametrize("code", ["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"])
def test_a_pushback_that_is_negative_or_none_means_stop(code: str, said: Any) -> None:
    """The reverse of a malformed Retry-After (gRPC A6)."""
    error = InactiveRpcError(code, (("grpc-retry-pushback-ms", said),))
    assert opinions(error) == (FORBIDDEN, FORBIDDEN)


def test_retry_info_is_a_time_to_wait() -> None:
    """`google.rpc.RetryInfo` in the details: here 3.5 s, as protocol buffers have it."""
    duration = b"\x08\x03\x10\x80\xca\xb5\xee\x01"
    url = b"type.googleapis.com/google.rpc.RetryInfo"
    info = bytes([0x0A, len(duration)]) + duration
    detail = bytes([0x0A, len(url)]) + url + bytes([0x12, len(info)]) + info
    status = bytes([0x1A, len(detail)]) + detail
    error = InactiveRpcError("RESOURCE_EXHAUSTED", (("grpc-status-details-bin", status),))
    assert opinions(error)[0] == RetryAfter(3.5, RetryReason.THROTTLED)


def test_what_the_server_asks_is_waited() -> None:
    """Through the decorator: never sooner than asked, then a stop."""
    clock = VirtualClock()
    failures = [
        InactiveRpcError("UNAVAILABLE", (("grpc-retry-pushback-ms", "-1"),)),
        InactiveRpcError("UNAVAILABLE", (("grpc-retry-pushback-ms", "2000"),)),
    ]
    events: list[Any] = []

    @retry(
        classify=GrpcClassifier(),
        attempts=5,
        backoff=[0.1] * 4,
        clock=clock,
        listeners=(events.append,),
    )
    def call() -> None:
        raise failures.pop()

    with pytest.raises(InactiveRpcError):
        call()
    (waited,) = clock.sleeps
    assert 2.0 <= waited <= 3.0
    (scheduled,) = (event for event in events if type(event) is RetryScheduled)
    assert scheduled.source == "server"
    assert events[-1].reason is StopReason.FORBIDDEN
    assert type(events[-1]) is not CallGaveUp


def google(name: str, **attributes: Any) -> Exception:
    """An error of google-api-core's, which is raised from grpcio's."""
    base = type("GoogleAPICallError", (Exception,), {"__module__": "google.api_core.exceptions"})
    kind = type(name, (base,), {"__module__": "google.api_core.exceptions", **attributes})
    error: Exception = kind("text")
    return error


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("TooManyRequests", RetryReason.THROTTLED),
        ("Aborted", RetryReason.CONFLICT),
    ],
)
def test_google_s_errors_are_known_too(name: str, reason: RetryReason) -> None:
    """Those that say that nothing was done."""
    again = RetryAfter(0.0, reason)
    assert opinions(google(name)) == (again, again)


@pytest.mark.parametrize(
    "name", ["ServiceUnavailable", "InternalServerError", "BadGateway", "GatewayTimeout"]
)
def test_google_s_errors_of_unknown_outcome_need_a_word(name: str) -> None:
    """As gRPC's own."""
    strictly, loosely = opinions(google(name))
    assert strictly == NOT_IDEMPOTENT
    assert isinstance(loosely, RetryAfter)


def test_a_pushback_behind_google_s_error_counts() -> None:
    """The trailers are on what it was raised from."""
    error = google("ServiceUnavailable")
    error.__cause__ = InactiveRpcError("UNAVAILABLE", (("grpc-retry-pushback-ms", "500"),))
    assert opinions(error)[1] == RetryAfter(0.5, RetryReason.CONNECTION_FAILED)


def test_a_refusal_behind_google_s_error_counts_too() -> None:
    """Whatever the error in front of it says."""
    error = google("TooManyRequests")
    error.__cause__ = InactiveRpcError("UNAVAILABLE", (("grpc-retry-pushback-ms", "never"),))
    assert opinions(error) == (FORBIDDEN, FORBIDDEN)


@pytest.mark.parametrize("name", ["DeadlineExceeded", "RetryError"])
def test_google_s_own_retries_are_not_begun_anew(name: str) -> None:
    """Their time was used up."""
    assert opinions(google(name)) == (FORBIDDEN, FORBIDDEN)


class Hostile(RpcError):
    """One whose methods raise."""

    def code(self) -> Any:
        raise RuntimeError("no code")

    def trailing_metadata(self) -> Any:
        raise RuntimeError("no trailers")


@pytest.mark.parametrize(
    "outcome",
    [
        *["a value", None, KeyError("key"), ConnectionResetError(), RpcError(), Hostile()],
        *[InactiveRpcError("OK"), InactiveRpcError("NEW_CODE"), InactiveRpcError("ok", 7)],
    ],
)
def test_what_says_nothing_is_no_opinion(outcome: object) -> None:
    """So that it stacks with others."""
    assert GrpcClassifier()(attempt(outcome)) is None
    assert GrpcClassifier(idempotent=True)(attempt(outcome)) is None


def test_it_stacks_with_others() -> None:
    """One's own word on a code goes first."""

    def quota(attempt: Attempt) -> DoNotRetry | None:
        gone = "daily" in str(attempt.error)
        return FORBIDDEN if gone else None

    stacked = quota | GrpcClassifier() | OnException(KeyError)
    error = InactiveRpcError("RESOURCE_EXHAUSTED")
    assert stacked(attempt(error)) == RetryAfter(0.0, RetryReason.THROTTLED)
    error.args = ("daily quota",)
    assert stacked(attempt(error)) == FORBIDDEN
    assert stacked(attempt(KeyError())) == RetryAfter()


def test_it_is_a_value() -> None:
    """It compares, hashes, pickles and prints itself."""
    one = GrpcClassifier(idempotent=True)
    assert one == GrpcClassifier(idempotent=True) != GrpcClassifier()
    assert len({one, GrpcClassifier(idempotent=True)}) == 1
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "GrpcClassifier(idempotent=True)"
    with pytest.raises(TypeError, match="idempotent must be a bool, got 1"):
        GrpcClassifier(idempotent=1)  # type: ignore[arg-type]  # that is the test
