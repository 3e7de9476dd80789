"""The rules of a typed-policy article: small types, checked when made, decided without a network.

`max_attempts` of at least 1, `base_delay` no longer than `max_delay`; whether a request may be
repeated is a type; 429, 500, 502, 503, 504 and network errors are retried; the wait doubles up to
its cap, and 50 to 100 % of it is slept (`EqualJitter`).

Where the article's code sleeps once more after its last try, or counts its tries from 0, this does
not: `attempts` counts calls from 1, the first included, and after the last one nothing is slept.
"""

from dataclasses import dataclass
from random import Random

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    EqualJitter,
    Exponential,
    Raised,
    RetryAfter,
    RetryDecision,
    RetryPolicy,
    RetryReason,
    StopReason,
)
from retrykit.http import RetryableMethod

RETRYABLE_STATUSES = {429, 500, 502, 503, 504}


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


@dataclass(frozen=True)
class ArticlePolicy:
    """The article's settings, turned into a policy of the toolkit's own parts."""

    max_attempts: int
    base_delay: float
    max_delay: float
    method: RetryableMethod

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, got {self.max_attempts}")
        if self.base_delay > self.max_delay:
            raise ValueError(
                f"base_delay must be at most max_delay, got {self.base_delay} > {self.max_delay}"
            )

    def classify(self, attempt: Attempt) -> RetryDecision | None:
        """Pure: an outcome goes in, a decision comes out."""
        if self.method is RetryableMethod.NON_IDEMPOTENT:
            return DoNotRetry(StopReason.NOT_IDEMPOTENT) if attempt.error else None
        match attempt.error:
            case HttpError(status=429):
                return RetryAfter(reason=RetryReason.THROTTLED)
            case HttpError(status=status) if status in RETRYABLE_STATUSES:
                return RetryAfter(reason=RetryReason.SERVER_ERROR)
            case ConnectionError() | TimeoutError():
                return RetryAfter(reason=RetryReason.CONNECTION_FAILED)
        return None

    def policy(self) -> RetryPolicy:
        backoff = Exponential(self.base_delay, factor=2, cap=self.max_delay, jitter=EqualJitter())
        return RetryPolicy(
            classify=self.classify, attempts=self.max_attempts, backoff=backoff, listeners=()
        )


if __name__ == "__main__":
    article = ArticlePolicy(4, 0.5, 1.5, RetryableMethod.IDEMPOTENT)
    policy = article.policy()
    for n in range(1, article.max_attempts):
        low, high = policy.delay_bounds(n)
        print(f"wait {n}: {low:g} to {high:g} s")
    print(f"{len(list(policy.schedule(Random(1))))} waits for {policy.max_attempts} attempts")

    # Decided by hand: no network, no clock.
    executor = policy.new_executor(Call(print))
    for number, status in enumerate((503, 429, 404), start=1):
        attempt = Attempt(Call(print), number, Raised(HttpError(status)), elapsed=float(number))
        match executor.decide(attempt):
            case RetryAfter(delay, reason):
                low, high = policy.delay_bounds(number)
                print(f"{status}: again, for {reason}, in time: {low <= delay <= high}")
            case DoNotRetry(reason):
                print(f"{status}: {reason}")

    careful = ArticlePolicy(4, 0.5, 1.5, RetryableMethod.NON_IDEMPOTENT).policy()
    attempt = Attempt(Call(print), 1, Raised(HttpError(503)), elapsed=0.1)
    print(careful.new_executor(Call(print)).decide(attempt))
    for wrong in ({"max_attempts": 0}, {"base_delay": 9.0}):
        settings = {"max_attempts": 4, "base_delay": 0.5, "max_delay": 1.5, **wrong}
        try:
            ArticlePolicy(**settings, method=RetryableMethod.IDEMPOTENT)  # type: ignore[arg-type]  # wrong on purpose
        except ValueError as error:
            print(error)
