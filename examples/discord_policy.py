"""A custom policy in the shape of a Discord client's retry RFC.

A policy hands out an executor for each request; the executor is asked after each failed try with
what was called, the error and the number of the try, and answers with a delay or with none. At
most five tries; 429 is tried again at once, a 5xx after a fixed wait, anything else not at all.
Since each request has an executor of its own, it can count each kind of error separately.

It is written twice: with an executor in a class of its own, which counts, and as a policy that is
its own executor, which keeps nothing from call to call and so may.
"""

from collections import Counter

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    RetryAfter,
    RetryDecision,
    RetryReason,
    StopReason,
    retry,
)

TRIES = 5
SERVER_ERROR_WAIT = 0.01


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class CountingPolicy:
    """Makes a counting executor for each request: at most two server errors in one call."""

    def __init__(self) -> None:
        self.finished: list[Counter[str]] = []

    def new_executor(self, call: Call, /) -> "CountingExecutor":
        return CountingExecutor(self)


class CountingExecutor:
    """Lives for one call and counts each kind of error by itself."""

    def __init__(self, policy: CountingPolicy) -> None:
        self._policy = policy
        self._seen: Counter[str] = Counter()

    def decide(self, attempt: Attempt, /) -> RetryDecision:
        match attempt.error:
            case None:
                return DoNotRetry(StopReason.SUCCEEDED)
            case HttpError(status=429):
                self._seen["throttled"] += 1
                again = RetryAfter(0.0, RetryReason.THROTTLED)
            case HttpError(status=status) if status >= 500:
                self._seen["server error"] += 1
                if self._seen["server error"] > 2:
                    return DoNotRetry(StopReason.REASON_EXHAUSTED)
                again = RetryAfter(SERVER_ERROR_WAIT, RetryReason.SERVER_ERROR)
            case _:
                self._seen["other"] += 1
                return DoNotRetry()
        return again if attempt.number < TRIES else DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)

    def ended(self, succeeded: bool) -> None:
        self._policy.finished.append(self._seen)


class PlainPolicy:
    """The same rule without counts: policy and executor in one."""

    def new_executor(self, call: Call, /) -> "PlainPolicy":
        return self

    def decide(self, attempt: Attempt, /) -> RetryDecision:
        if attempt.error is None:
            return DoNotRetry(StopReason.SUCCEEDED)
        if attempt.number >= TRIES:
            return DoNotRetry(StopReason.ATTEMPTS_EXHAUSTED)
        status = getattr(attempt.error, "status", 0)
        if status == 429:
            return RetryAfter(0.0, RetryReason.THROTTLED)
        if status >= 500:
            return RetryAfter(SERVER_ERROR_WAIT, RetryReason.SERVER_ERROR)
        return DoNotRetry()


def request(policy: CountingPolicy | PlainPolicy, *statuses: int) -> str:
    """One request to a server that answers with these statuses in turn."""
    answers = iter(statuses)
    tries = 0

    @retry(policy=policy)
    def send() -> int:
        nonlocal tries
        tries += 1
        status = next(answers)
        if status >= 400:
            raise HttpError(status)
        return status

    try:
        return f"{send()} after {tries} tries"
    except HttpError as error:
        return f"{error} after {tries} tries"


if __name__ == "__main__":
    counting = CountingPolicy()
    print(request(counting, 429, 503, 429, 500, 200))
    print(request(counting, 503, 500, 502))
    print(request(counting, 404))
    print([dict(seen) for seen in counting.finished])
    print(request(PlainPolicy(), 503, 500, 502, 503, 503))
    print(request(PlainPolicy(), 429, 429, 200))
