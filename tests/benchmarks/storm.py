"""A retry storm in virtual time: each library's real code against one server that goes down.

    python tests/benchmarks/storm.py

An open stream of calls meets a server that can do so much work a second. Refusing is work too, half
of what serving is: that is how retries keep a server down after the outage has passed. For half a
minute it refuses everything. The table tells, for each library:

- amplification: requests for each call in the outage (1.0 is no load on top);
- peak: the most requests in a second after the outage, beside the rate of the calls;
- recovery: seconds after the outage until 99 % of the calls that begin in a second succeed;
- lost: calls from outside of the outage that failed;
- 10 %, 30 %: calls saved by retries where a server without limits fails so often, at random. This
  is what a budget must not spoil; five attempts can save 99.999 % and 99.76 %.

The same seeds for all, and nothing really waits.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from retrykit.testing import VirtualClock

RATE: Final = 100.0
"""Calls a second."""
CAPACITY: Final = 125.0
"""Units of work a second: a request that is served takes one."""
REFUSAL: Final = 0.5
OUTAGE: Final = (20.0, 50.0)
END: Final = 150.0
FLAKY_CALLS: Final = 6000

Decorator: TypeAlias = Callable[[Any], Any]


class Refused(Exception):
    """What every library here is told to retry."""


class Result(NamedTuple):
    """One call: when it began, whether it succeeded."""

    began: float
    succeeded: bool


class Server:
    """Refuses in the outage, and whenever this second's work is done."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.requests: Counter[int] = Counter()
        self._now = now
        self._work: defaultdict[int, float] = defaultdict(float)

    def serve(self) -> None:
        now = self._now()
        second = int(now)
        self.requests[second] += 1
        if OUTAGE[0] <= now < OUTAGE[1] or self._work[second] + 1 > CAPACITY:
            self._work[second] += REFUSAL
            raise Refused
        self._work[second] += 1


async def stream(call: Callable[[], Any], starts: Iterator[float]) -> list[Result]:
    """Begin a call at each of these times, and wait for all of them to end."""
    results: list[Result] = []

    async def one(began: float) -> None:
        try:
            await call()
        except Exception:  # the library's own at the end, for some
            results.append(Result(began, False))
        else:
            results.append(Result(began, True))

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as calls:
        for start in starts:
            await asyncio.sleep(start - loop.time())
            calls.create_task(one(start))
    return results


def starts(seed: int) -> Iterator[float]:
    """The times of a Poisson process, without end."""
    rng, now = Random(seed), 0.0
    while True:
        now += rng.expovariate(RATE)
        yield now


def virtually(main: Callable[[Callable[[], float]], Any]) -> Any:
    """Run a coroutine function, given what tells the time, with that as everybody's time."""
    random.seed(1)
    real = time.monotonic
    with asyncio.Runner(loop_factory=VirtualClock().loop_factory) as runner:
        time.monotonic = runner.get_loop().time
        try:
            return runner.run(main(time.monotonic))
        finally:
            time.monotonic = real


def storm(decorator: Decorator) -> list[str]:
    """The first four cells."""
    servers: list[Server] = []

    async def main(now: Callable[[], float]) -> list[Result]:
        server = Server(now)
        servers.append(server)

        @decorator
        async def call() -> None:
            server.serve()

        return await stream(call, takewhile(lambda start: start < END, starts(2)))

    results = virtually(main)
    requests = servers[0].requests
    within = [each for each in results if OUTAGE[0] <= each.began < OUTAGE[1]]
    without = [each for each in results if not OUTAGE[0] <= each.began < OUTAGE[1]]
    in_outage = sum(requests[second] for second in range(int(OUTAGE[0]), int(OUTAGE[1])))
    after = range(int(OUTAGE[1]), int(END))
    peak = max(requests[second] for second in after) / RATE
    recovered = next((second for second in after if share(results, second) >= 0.99), None)
    recovery = "never" if recovered is None else f"{recovered - OUTAGE[1]:.0f} s"
    lost = 1 - sum(each.succeeded for each in without) / len(without)
    return [f"{in_outage / len(within):.2f}", f"{peak:.2f}", recovery, f"{lost:.1%}"]


def share(results: list[Result], second: int) -> float:
    """How many of the calls that began in this second succeeded."""
    begun = [each.succeeded for each in results if int(each.began) == second]
    return sum(begun) / len(begun)


def saved(decorator: Decorator, failures: float) -> str:
    """How many calls succeed where so many requests fail."""
    chance = Random(3)

    async def main(now: Callable[[], float]) -> list[Result]:
        @decorator
        async def call() -> None:
            if chance.random() < failures:
                raise Refused

        return await stream(call, islice(starts(4), FLAKY_CALLS))

    results = virtually(main)
    return f"{sum(each.succeeded for each in results) / len(results):.2%}"


def no_retries() -> Decorator:
    return lambda function: function


def retrykit(**fields: Any) -> Decorator:
    from retrykit import retry

    return retry(on=Refused, attempts=5, **fields)


def retrykit_with_budget() -> Decorator:
    from retrykit import RatioBudget

    return retrykit(budget=RatioBudget())


def tenacity() -> Decorator:
    import tenacity

    return tenacity.retry(
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_random_exponential(multiplier=0.25, max=20),
        retry=tenacity.retry_if_exception_type(Refused),
    )


def stamina() -> Decorator:
    import stamina

    return stamina.retry(on=Refused)


def stamina_five() -> Decorator:
    import stamina

    return stamina.retry(on=Refused, attempts=5)


def backoff() -> Decorator:
    import backoff

    return backoff.on_exception(backoff.expo, Refused, max_tries=5, logger=None)


def redress(budget: bool = False) -> Decorator:
    from redress import AsyncPolicy, AsyncRetry, Budget, ErrorClass
    from redress.strategies import decorrelated_jitter

    policy = AsyncPolicy(
        retry=AsyncRetry(
            classifier=lambda _: ErrorClass.TRANSIENT,
            strategy=decorrelated_jitter(max_s=5.0),
            max_attempts=5,
            deadline_s=60,
            budget=Budget(max_retries=100, window_s=10.0) if budget else None,
        )
    )
    return lambda function: lambda: policy.call(function)


LIBRARIES: Final[dict[str, Callable[[], Decorator]]] = {
    "no retries": no_retries,
    "retrykit, `RatioBudget()`": retrykit_with_budget,
    "retrykit, no budget": retrykit,
    "redress, budget of 10 a second": lambda: redress(budget=True),
    "redress": redress,
    "tenacity": tenacity,
    "backoff": backoff,
    "stamina, 5 attempts": stamina_five,
    "stamina, as it comes": stamina,
}


def main() -> None:
    logging.disable(logging.CRITICAL)
    left_out: list[str] = []
    print("| | amplification | peak | recovery | lost | 10 % | 30 % |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, make in LIBRARIES.items():
        try:
            decorator = make()
        except ImportError as problem:
            left_out.append(f"Left out: {name}: {problem}")
            continue
        cells = [*storm(decorator), saved(make(), 0.1), saved(make(), 0.3)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for line in left_out:
        print(line)


if __name__ == "__main__":
    main()
