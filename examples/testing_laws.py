"""A law check that fails, and how it reads: each broken law with its smallest counterexample."""

from collections.abc import Iterator
from itertools import count
from random import Random

from retrykit import Attempt, RetryAfter, RetryDecision
from retrykit.backoff import BackoffBase
from retrykit.jitter import Bounds
from retrykit.testing import LawBroken, check_backoff, check_classifier


class Doubling(BackoffBase):
    """What many a program has: a power of two, and jitter that is added after the cap."""

    def __repr__(self) -> str:
        return "Doubling()"

    def delays(self, rng: Random) -> Iterator[float]:
        return (min(2.0**n, 60.0) + rng.random() for n in count())

    def bounds(self) -> Iterator[Bounds]:
        return (Bounds(min(2.0**n, 60.0), min(2.0**n, 60.0) + 1) for n in count())

    @property
    def limits(self) -> Bounds:
        return Bounds(0.0, 60.0)


def on_server_errors(attempt: Attempt) -> RetryDecision | None:
    return RetryAfter() if attempt.value.status >= 500 else None  # forgets that there may be none


if __name__ == "__main__":
    try:
        check_backoff(Doubling())
    except LawBroken as broken:
        print(broken)
    try:
        check_classifier(on_server_errors)
    except LawBroken as broken:
        print(broken.laws["total"])
