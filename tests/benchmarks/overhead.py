"""What a retrying call costs beside a hand-written loop: a Markdown table of ratios.

    python tests/benchmarks/overhead.py [--rounds N] [library ...]

Every case is measured for all libraries in turn, round after round, in one process: a machine that
changes its speed does it to all of them. What counts is the least time of all rounds, and only the
ratio means anything. `time.sleep` does nothing meanwhile (it is the library's cost that is
measured, not the system's), and logging is off.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import time
import tracemalloc
from collections.abc import Callable, Iterable
from timeit import Timer
from typing import Any, Final

from peers import LEFT_OUT, Decorator, Fault, Peer, peers

LOOP: Final = "hand-written loop"
PARKED: Final = 4000

Costs = dict[str, float]


def value(x: int) -> int:
    return x


async def async_value(x: int) -> int:
    return x


def failing(times: int) -> Callable[[int], int]:
    """A function that fails so many times, succeeds, and begins anew."""
    calls = 0

    def function(x: int) -> int:
        nonlocal calls
        calls += 1
        if calls % (times + 1):
            raise Fault
        return x

    return function


def async_failing(times: int) -> Callable[[int], Any]:
    calls = 0

    async def function(x: int) -> int:
        nonlocal calls
        calls += 1
        if calls % (times + 1):
            raise Fault
        return x

    return function


class Holder:
    """What has a decorated method."""

    method: Callable[[int], int]


def holder_of(decorator: Decorator) -> Holder:
    class Decorated(Holder):
        @decorator
        def method(self, x: int) -> int:
            return x

    return Decorated()


def blocking_costs(statement: str, cases: dict[str, Any], rounds: int, calls: int) -> Costs:
    """Seconds per call of `f` as the statement has it, the least of all rounds."""
    timers = {name: Timer(statement, globals={"f": case}) for name, case in cases.items()}
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, timer in timers.items():
            least[name] = min(least[name], timer.timeit(calls) / calls)
    return least


def async_costs(cases: dict[str, Callable[[int], Any]], rounds: int, calls: int) -> Costs:
    async def measured() -> Costs:
        least = dict.fromkeys(cases, float("inf"))
        for _ in range(rounds):
            for name, function in cases.items():
                again = range(calls)
                began = time.perf_counter()
                for _ in again:
                    await function(1)
                least[name] = min(least[name], (time.perf_counter() - began) / calls)
        return least

    return asyncio.run(measured())


def bytes_in_flight(decorator: Decorator | None) -> float:
    """What one async call takes while its first attempt runs, beyond the function's own."""

    async def measured() -> float:
        gate = asyncio.Event()

        async def parked(x: int) -> None:
            await gate.wait()

        async def taken_by(function: Callable[[int], Any]) -> float:
            gate.clear()
            for _ in range(3):  # what ended before is let go of first
                await asyncio.sleep(0)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            tasks = [asyncio.ensure_future(function(1)) for _ in range(PARKED)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            after, _ = tracemalloc.get_traced_memory()
            gate.set()
            await asyncio.gather(*tasks)
            return (after - before) / PARKED

        decorated = parked if decorator is None else decorator(parked)
        await taken_by(parked)
        await taken_by(decorated)  # what it keeps for good is there by now
        tracemalloc.start()
        try:
            bare = await taken_by(parked)
            return await taken_by(decorated) - bare
        finally:
            tracemalloc.stop()

    return asyncio.run(measured())


def measure(found: dict[str, Peer], rounds: int) -> dict[str, Costs]:
    """Each case's costs by library."""
    blocking = {name: each.blocking for name, each in found.items() if each.blocking}
    asynchronous = {name: each.asynchronous for name, each in found.items() if each.asynchronous}
    at_once = {name: each for name, each in asynchronous.items() if not found[name].really_waits}

    return {
        "success": blocking_costs("f(1)", decorated(blocking, lambda: value), rounds, 300),
        "method": blocking_costs(
            "f.method(1)", {n: holder_of(d) for n, d in blocking.items()}, rounds, 200
        ),
        "three retries": blocking_costs(
            "f(1)", decorated(blocking, lambda: failing(3)), rounds, 40
        ),
        "async success": async_costs(decorated(asynchronous, lambda: async_value), rounds, 200),
        "async, three retries": async_costs(
            decorated(at_once, lambda: async_failing(3)), rounds, 40
        ),
        "bytes in flight": {name: bytes_in_flight(each) for name, each in asynchronous.items()},
    }


def decorated(decorators: dict[str, Decorator], make: Callable[[], Any]) -> dict[str, Any]:
    """A function of its own for each."""
    return {name: decorator(make()) for name, decorator in decorators.items()}


def table(costs: dict[str, Costs], names: Iterable[str]) -> str:
    """Ratios to the hand-written loop; bytes as they are."""
    lines = [f"| | {' | '.join(costs)} |", f"|---|{'---:|' * len(costs)}"]
    for name in sorted(names, key=lambda each: (each != LOOP, costs["success"].get(each, 0.0))):
        cells: list[str] = []
        for case, row in costs.items():
            if name not in row:
                cells.append("–")
            elif case == "bytes in flight":
                cells.append(f"{row[name]:,.0f}")
            else:
                cells.append(f"{row[name] / row[LOOP]:.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a retrying call costs.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("libraries", nargs="*")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    time.sleep = lambda seconds: None
    found = peers(options.libraries)
    gc.disable()  # as `timeit` does; reference cycles are another matter
    print(table(measure(found, options.rounds), found))
    for line in LEFT_OUT:
        print(f"Left out: {line}")


if __name__ == "__main__":
    main()
