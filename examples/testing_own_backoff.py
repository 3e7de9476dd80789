"""Prove a backoff of one's own: the laws in one line, its own promises with Hypothesis."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import RetryPolicy
from retrykit.backoff import BackoffBase
from retrykit.jitter import Bounds
from retrykit.testing import assert_waits, check_backoff, decisions, script


@dataclass(frozen=True)
class Patient(BackoffBase):
    """Waits at least a second longer each time, and up to half as long again."""

    start: float
    cap: float

    def delays(self, rng: Random) -> Iterator[float]:
        for low, high in self.bounds():
            yield low + (high - low) * rng.random()

    def bounds(self) -> Iterator[Bounds]:
        low = self.start
        while True:
            yield Bounds(min(low, self.cap / 1.5), min(1.5 * low, self.cap))
            low = min(low + 1, self.cap)

    @property
    def limits(self) -> Bounds:
        return Bounds(0.0, self.cap)


@settings(max_examples=50, deadline=None)
@given(st.builds(Patient, st.floats(0, 10), st.floats(15, 60)), st.integers(0, 100))
def a_patient_backoff_never_hurries(backoff: Patient, seed: int) -> None:
    waits = list(backoff.take(20).delays(Random(seed)))
    assert all(later >= earlier / 1.5 for earlier, later in pairwise(waits))


if __name__ == "__main__":
    check_backoff(Patient(start=2, cap=30))
    print("it keeps the laws of backoffs")

    a_patient_backoff_never_hurries()
    print("it keeps its own promise")

    policy = RetryPolicy.on(ConnectionError, attempts=4, backoff=Patient(start=2, cap=30))
    trace = decisions(policy, script(*[ConnectionError] * 4))
    assert_waits(trace, [policy.delay_bounds(n) for n in (1, 2, 3)])
    print([decided.decision for decided in trace], trace[-1].reason)
