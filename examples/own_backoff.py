"""A backoff of one's own, and a property test of its bounds.

A backoff is three things: `delays(rng)`, `bounds()`, and `limits` where it has some. Subclassing
`BackoffBase` gives it `.capped`, `.take`, `+` and the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import RetryPolicy
from retrykit.backoff import BackoffBase
from retrykit.jitter import Bounds


@dataclass(frozen=True)
class Sawtooth(BackoffBase):
    """Grows for some steps, then begins again: for a service that restarts now and then."""

    step: float
    teeth: int

    def delays(self, rng: Random) -> Iterator[float]:
        for low, high in self.bounds():
            yield rng.uniform(low, high)

    def bounds(self) -> Iterator[Bounds]:
        n = 0
        while True:
            n = n % self.teeth + 1
            yield Bounds(self.step * n / 2, self.step * n)


@given(
    backoff=st.builds(
        Sawtooth, st.floats(0.001, 10, allow_nan=False), st.integers(min_value=1, max_value=9)
    ),
    seed=st.integers(),
    attempts=st.integers(min_value=2, max_value=30),
)
@settings(max_examples=200, deadline=None)
def every_wait_lies_within_its_bounds(backoff: Sawtooth, seed: int, attempts: int) -> None:
    policy = RetryPolicy(attempts=attempts, backoff=backoff.capped(5))
    waits = list(policy.schedule(Random(seed)))
    assert len(waits) == attempts - 1
    assert waits == list(policy.schedule(Random(seed)))  # the same seed, the same waits
    for n, wait in enumerate(waits, start=1):
        low, high = policy.delay_bounds(n)
        assert low <= wait <= high <= 5


if __name__ == "__main__":
    every_wait_lies_within_its_bounds()
    print("every wait lies within its bounds")
    policy = RetryPolicy(attempts=6, backoff=Sawtooth(1.0, 3))
    print([tuple(policy.delay_bounds(n)) for n in range(1, 6)])
