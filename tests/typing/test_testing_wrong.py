"""Wrong uses of the test kit: every ignore here must be needed. Not run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from retrykit import FullJitter, RetryPolicy
from retrykit.testing import (
    VirtualClock,
    assert_waits,
    check_backoff,
    check_jitter,
    decisions,
    instant,
    limit_attempts,
    script,
)

VirtualClock(wall="now")  # type: ignore[arg-type]
VirtualClock().sleep("1")  # type: ignore[arg-type]
VirtualClock().advance(None)  # type: ignore[arg-type]
script("ok", clock=3)  # type: ignore[call-overload]
instant(True)  # type: ignore[call-arg]
limit_attempts("2")  # type: ignore[arg-type]
decisions(3, script("ok"))  # type: ignore[arg-type]
decisions(RetryPolicy(), 3)  # type: ignore[arg-type]
assert_waits([1.0], ["1"])  # type: ignore[list-item]
check_backoff(FullJitter())  # type: ignore[arg-type]
check_jitter(3)  # type: ignore[arg-type]


async def asynchronous() -> None:
    await script("ok", asynchronous=True)  # type: ignore[misc]
