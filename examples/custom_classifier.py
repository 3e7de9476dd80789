"""Classifiers stack with `|`, in any order, with each other and with plain functions.

The first opinion wins: so what must never be retried comes first.
"""

from retrykit import (
    Attempt,
    Never,
    OnException,
    OnResult,
    RetryAfter,
    RetryDecision,
    RetryReason,
    current_attempt,
    retry,
)


class Throttled(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"come back in {seconds} s")
        self.seconds = seconds


class WrongPassword(ConnectionError):
    """A connection error by its class, and yet it never passes."""


def half_an_answer(attempt: Attempt) -> RetryDecision | None:
    """A classifier of our own: a plain function of what the attempt came to."""
    if isinstance(attempt.value, str) and attempt.value.endswith("..."):
        return RetryAfter(0.01, RetryReason.UNSATISFACTORY)
    return None


classify = (
    Never(WrongPassword)
    | OnException(Throttled, after=lambda e: e.seconds, reason=RetryReason.THROTTLED)
    | OnException(ConnectionError)
    | half_an_answer
    | OnResult(lambda value: value is None)
)


@retry(classify=classify, backoff=[0.01] * 4)
def ask(question: str) -> str | None:
    match current_attempt().number:
        case 1:
            raise Throttled(0.02)
        case 2:
            raise ConnectionError
        case 3:
            return None
        case 4:
            return "forty-..."
    return "forty-two"


@retry(classify=classify, backoff=[0.01] * 4)
def log_in() -> None:
    print(f"logging in, attempt {current_attempt().number}")
    raise WrongPassword("no")


if __name__ == "__main__":
    print(ask("what is the answer?"))
    try:
        log_in()
    except WrongPassword:
        print("not retried")
    print(Never(WrongPassword) | OnException(ConnectionError) | half_an_answer)
