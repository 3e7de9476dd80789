"""AWS: which error codes pass, and what the service asks to wait."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from retrykit.classifiers._facts import ByFacts
from retrykit.facts._rows import links
from retrykit.facts._shapes import qualified_names
from retrykit.facts.exceptions import lookup

if TYPE_CHECKING:
    from retrykit.decision import RetryDecision

__all__ = ["BotocoreClassifier"]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class BotocoreClassifier(ByFacts):
    """Retry by the service's error code; the status counts where the code is not known.

    Knows the errors of botocore (boto3's, and aiobotocore's) by their shape, and imports none.
    Throttling comes with many codes and often with status 400; all of them are known. A wait that
    the service asks for is heeded: `x-amz-retry-after` is in milliseconds, Retry-After in seconds.

    A time-out or a 5xx may come after the work was done: it is retried with `idempotent=True` only.
    Say so of operations that only read or that overwrite, and of those that carry a client token.
    `TransactionCanceledException` is retried where every one of its reasons is a conflict or
    throttling; a condition that failed is final. After an attempt whose outcome is not known such a
    failure may mean that it had succeeded.

    botocore retries by itself; switch that off, or the attempts multiply:

        boto3.client("s3", config=Config(retries={"total_max_attempts": 1}))

    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> class ClientError(Exception):
    ...     __module__ = "botocore.exceptions"
    ...     response = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    >>> BotocoreClassifier()(Attempt(Call(print), 1, Raised(ClientError()), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.THROTTLED)
    """

    _LIBRARIES = frozenset({"botocore"})

    _: KW_ONLY
    idempotent: bool

    def _opinion(self, error: BaseException) -> RetryDecision | None:
        if lookup(error) is not None:
            return ByFacts._opinion(self, error)  # `super()` does not survive `slots=True`
        # A code that is not listed.
        names = (name for link in links(error) for name in qualified_names(link))
        known = any(name == "botocore.exceptions.ClientError" for name in names)
        return self._verdict(error) if known else None
