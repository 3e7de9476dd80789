"""Redis and Valkey: which failures of a command pass."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from retrykit.classifiers._facts import ByFacts

__all__ = ["RedisClassifier"]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class RedisClassifier(ByFacts):
    """Retry a command, or a block with `WATCH`: lost connections, failovers, conflicts.

    Knows the errors of redis-py and valkey-py by their shape, and imports neither.

    A connection that breaks off while the answer is awaited may have done the work: `INCR` twice is
    one too many. Such a failure is retried with `idempotent=True` only: say so of reads, `SET`,
    `DEL` and their kind. One that never got through is retried either way, as is what the server
    refused: loading, failing over, read-only after a failover.

    `WatchError` says that somebody else was faster: decorate the whole block, from `WATCH` to
    `EXEC`. A lock that is not owned, a wrong type, a password or a full memory is final.

    redis-py retries by itself, up to ten times and also what is not idempotent: switch that off, or
    the attempts multiply:

        Redis(retry=Retry(NoBackoff(), 0))   # from redis.retry and redis.backoff

    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> class WatchError(Exception):
    ...     __module__ = "redis.exceptions"
    >>> RedisClassifier()(Attempt(Call(print), 1, Raised(WatchError()), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.CONFLICT)
    """

    _LIBRARIES = frozenset({"redis"})

    _: KW_ONLY
    idempotent: bool
