"""gRPC: which status codes pass, and what the server says about it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from retrykit.classifiers._facts import ByFacts
from retrykit.decision import DoNotRetry, StopReason
from retrykit.facts import _grpc
from retrykit.facts._rows import links

if TYPE_CHECKING:
    from retrykit.decision import RetryDecision

__all__ = ["GrpcClassifier"]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class GrpcClassifier(ByFacts):
    """Retry by the status code, and by the server's pushback.

    Knows grpcio's `RpcError` (also `grpc.aio`'s) and google-api-core's errors by their shape, and
    imports neither.

    - `grpc-retry-pushback-ms` among the trailers is the server's own word (gRPC A6): a number is
      the time to wait; a negative one, or one that is none, asks for no further attempt and is
      final. That is the reverse of a malformed Retry-After. `google.rpc.RetryInfo` asks for a wait
      too.
    - `UNAVAILABLE` may mean that the work was done: it is retried with `idempotent=True` only.
    - `ABORTED` is a conflict: decorate the whole read-modify-write, not the call alone.
    - `RESOURCE_EXHAUSTED` is throttling. Where a service means a quota that is gone, or a message
      that is too large, put a classifier of your own in front (`mine | GrpcClassifier()`).
    - `DEADLINE_EXCEEDED` is final: the caller's time is over. So are `INTERNAL` and `UNKNOWN`.

    gRPC retries by itself where the channel's service config says so; do not have both.

    >>> from types import SimpleNamespace
    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> class RpcError(Exception):
    ...     __module__ = "grpc"
    ...     def code(self): return SimpleNamespace(name="UNAVAILABLE")
    >>> GrpcClassifier(idempotent=True)(Attempt(Call(print), 1, Raised(RpcError()), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.CONNECTION_FAILED)
    """

    _LIBRARIES = frozenset({"grpcio", "google-api-core"})

    _: KW_ONLY
    idempotent: bool

    def _opinion(self, error: BaseException) -> RetryDecision | None:
        decision = ByFacts._opinion(self, error)  # `super()` does not survive `slots=True`
        # google-api-core's errors have no trailers: those of what they were raised from count.
        if decision is not None and any(map(_grpc.refuses, links(error))):
            return DoNotRetry(StopReason.FORBIDDEN)
        return decision
