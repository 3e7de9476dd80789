"""Test decorated functions in virtual time, sync and async: an hour of retries takes no time."""

import asyncio
import time
from collections.abc import Callable

from retrykit import RetryPolicy, override, retry, with_policy
from retrykit.testing import Slow, VirtualClock, assert_waits, instant, limit_attempts, script

policy = RetryPolicy.on(ConnectionError, attempts=5, backoff=[60, 600, 3000], deadline=3600)


@retry(policy=policy)
def fetch(source: Callable[[], str]) -> str:
    return source()


def test_sync() -> None:
    clock = VirtualClock()
    with override(clock=clock):  # every policy in the block runs on this clock
        assert fetch(script(ConnectionError, ConnectionError, "ok")) == "ok"
    assert clock.sleeps == [60, 600]
    assert clock.now() == 660


def test_async() -> None:
    clock = VirtualClock()
    source = script(Slow(2.5, ConnectionError), "ok", asynchronous=True)
    fetch_async = retry(policy=policy.replace(clock=clock, attempt_timeout=10))(source)

    async def both() -> list[str]:
        # Other waits in the loop are virtual too: this takes an hour, and no time.
        result, _ = await asyncio.gather(fetch_async(), asyncio.sleep(3600))
        return [result]

    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        assert runner.run(both()) == ["ok"]
    assert_waits(clock.sleeps, [60])
    assert clock.now() == 3600


def test_without_waits() -> None:
    with instant() as waits, limit_attempts(2):  # nothing is touched, no clock is needed
        try:
            fetch(script(ConnectionError, ConnectionError))
        except ConnectionError as error:
            print(*error.__notes__)
    assert waits == [60]


def test_another_policy() -> None:
    impatient = with_policy(fetch, policy.replace(deadline=30))
    source = script(ConnectionError, "too late")
    with instant() as waits:
        try:
            impatient(source)
        except ConnectionError:
            print(f"gave up at once, with {source.remaining} step left")
    assert waits == []


if __name__ == "__main__":
    began = time.monotonic()
    for test in (test_sync, test_async, test_without_waits, test_another_policy):
        test()
        print(f"{test.__name__} passed")
    print("in no time" if time.monotonic() - began < 30 else "far too slowly")
