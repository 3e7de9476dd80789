"""Many clients, one server, one outage, in virtual time: what a policy's retries do to the server.

The calls are made by the real async driver, on an event loop whose time is a virtual clock's. Only
the server is a model:

- It has `capacity` units of work for each second. Of what it does not need it saves up a fifth of
  a second's worth, twenty units at least, so that calls that come together by chance are served.
- A request that it serves costs one unit, one that it refuses `refusal_cost`: refusing is work too,
  and that is how an overload outlives its cause (a metastable failure).
- In the outage it refuses every request; otherwise it refuses those that it has no unit left for,
  and of the others the share `failure_rate`, at random.

What the server refuses counts as worth another attempt, whatever the policy's classifier says.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from retrykit.cli._errors import BadInput
from retrykit.decision import RetryAfter, RetryReason
from retrykit.events import CallGaveUp
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrykit import RetryPolicy
    from retrykit.decision import RetryDecision
    from retrykit.events import Event
    from retrykit.outcome import Attempt

MOST_CALLS: Final = 1_000_000
MOST_ATTEMPTS: Final = 1_000_000
"""Bounds on the work; at some ten thousand attempts a second the second one is a matter of minutes.
"""

SAVED_UP: Final = 0.2
LEAST_SAVED_UP: Final = 20.0
"""How many seconds' worth of work an idle server has saved up, and how many units at least."""

WINDOW: Final = 5.0
"""Seconds of calls that must go well for a recovery. Calls so near to the end are not counted."""
GOOD: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The calls and the server; times in seconds, the rate in calls a second of all clients."""

    rate: float = 100.0
    clients: int = 10
    """Each has a budget of its own, as each process has."""
    capacity: float = 125.0
    refusal_cost: float = 0.2
    outage: tuple[float, float] | None = (20.0, 50.0)
    duration: float = 120.0
    latency: float = 0.05
    failure_rate: float = 0.0
    reason: RetryReason = RetryReason.SERVER_ERROR
    """What a refusal counts as."""
    retry_after: float = 0.0
    """The wait that a refusal asks for."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rate * self.duration > MOST_CALLS:
            raise BadInput(
                f"a simulation makes {MOST_CALLS:,} calls at most, and --rate times --duration"
                f" is {self.rate * self.duration:,.0f}"
            )
        if self.outage is not None and not self.outage[0] < self.outage[1] <= self.duration:
            start, end = self.outage
            raise BadInput(
                f"the outage must end after it starts and by the end of the run"
                f" ({self.duration:g} s), got {start:g}-{end:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one policy."""

    name: str
    calls: int
    """Those that count: calls of the last seconds are left out, as they may not have ended."""
    attempts: int
    succeeded: float | None
    """The share of calls that succeeded at last; one that has not ended yet did not. `None`: of
    none, here as below."""
    succeeded_in_outage: float | None
    """Of the calls that began in the outage."""
    succeeded_outside: float | None
    """Of the other calls."""
    amplification: float
    """Attempts in the outage for each call that began in it; without an outage, in the whole run.
    """
    peak: float
    """The most attempts in one second after the outage (in the run), in multiples of the rate."""
    recovery: float | None
    """Seconds after the outage until 99 % of the calls succeed again; `None`: not in this run, or
    there was no outage."""
    give_ups: dict[str, int]
    """Why calls ended without success, by stop reason, the commonest first."""
    offered: tuple[int, ...]
    """Attempts in each second."""
    served: tuple[int, ...]
    """Those that were served."""
    success: tuple[float | None, ...]
    """The share that succeeded at last, of the calls that began in each second."""


class _Refused(Exception):
    """The server's answer."""


class _Overrun(BaseException):
    """More attempts than are simulated; nothing may retry it."""


def simulate(
    name: str,
    policy: RetryPolicy,
    scenario: Scenario,
    progress: Callable[[float], object] | None = None,
) -> Result:
    """Run the scenario under the policy. The same arguments give the same result.

    `progress` is told the virtual time now and then. Raises `BadInput` where the policy makes more
    attempts than are simulated.

    >>> from retrykit import RetryPolicy
    >>> short = Scenario(rate=20, capacity=25, outage=(2, 4), duration=20)
    >>> result = simulate("one", RetryPolicy(attempts=1), short)
    >>> result.amplification, result.recovery
    (1.0, 0.0)
    """
    return _Run(name, policy, scenario, progress).result()


class _Run:
    """One simulation, and what is counted in it."""

    def __init__(
        self,
        name: str,
        policy: RetryPolicy,
        scenario: Scenario,
        progress: Callable[[float], object] | None,
    ) -> None:
        self._name = name
        self._scenario = scenario
        self._progress = progress
        self._clock = VirtualClock(wall=0.0)
        seconds = math.ceil(scenario.duration)
        self._offered = [0] * seconds
        self._served = [0] * seconds
        self._in_outage = 0
        self._attempts = 0
        self._most_credit = self._credit = max(scenario.capacity * SAVED_UP, LEAST_SAVED_UP)
        self._credited_at = 0.0
        self._luck = Random(f"luck {scenario.seed}")
        self._calls: list[tuple[float, bool]] = []
        self._give_ups: Counter[str] = Counter()
        jitter = Random(f"jitter {scenario.seed}")
        self._clients = [
            policy.replace(
                classify=_Answers(scenario.reason, scenario.retry_after),
                budget=deepcopy(policy.budget),  # a copy is full
                listeners=[self._count],
                clock=self._clock,
                rng=lambda: jitter,
                stop_when=None,
            )
            for _ in range(scenario.clients)
        ]

    def result(self) -> Result:
        with asyncio.Runner(loop_factory=self._clock.loop_factory) as runner:
            try:
                runner.run(self._make_calls())
            except _Overrun:
                raise BadInput(
                    f"{self._name!r} made {MOST_ATTEMPTS:,} attempts by second"
                    f" {self._clock.now():.0f}: lower --rate or --duration"
                ) from None
        return self._summary()

    async def _make_calls(self) -> None:
        """Calls that arrive at random, at the same times for every policy, until the time is up."""
        scenario = self._scenario
        arrivals = Random(f"arrivals {scenario.seed}")
        running: set[asyncio.Task[None]] = set()
        failed: list[BaseException] = []
        main = asyncio.current_task()

        def ended(task: asyncio.Task[None]) -> None:
            running.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and main is not None:
                failed.append(error)
                main.cancel()

        start = 0.0
        told = 0
        try:
            while True:
                start += arrivals.expovariate(scenario.rate)
                client = self._clients[arrivals.randrange(scenario.clients)]
                if start >= scenario.duration:
                    break
                await asyncio.sleep(start - self._clock.now())
                if self._progress is not None and int(start) > told:
                    told = int(start)
                    self._progress(start)
                task = asyncio.create_task(self._call(client, start))
                running.add(task)
                task.add_done_callback(ended)
            await asyncio.sleep(scenario.duration - self._clock.now())
        except asyncio.CancelledError:
            if failed:
                raise failed[0] from None
            raise
        for task in running:
            task.cancel()

    async def _call(self, client: RetryPolicy, start: float) -> None:
        succeeded = False
        try:
            await client.acall(self._request)
            succeeded = True
        except (_Refused, TimeoutError):
            pass
        finally:
            self._calls.append((start, succeeded))

    async def _request(self) -> None:
        """One request, as the server deals with it."""
        scenario = self._scenario
        await asyncio.sleep(scenario.latency)
        now = self._clock.now()
        self._attempts += 1
        if self._attempts > MOST_ATTEMPTS:
            raise _Overrun
        second = min(int(now), len(self._offered) - 1)
        self._offered[second] += 1
        earned = (now - self._credited_at) * scenario.capacity
        self._credit = min(self._credit + earned, self._most_credit)
        self._credited_at = now
        down = scenario.outage is not None and scenario.outage[0] <= now < scenario.outage[1]
        self._in_outage += down
        if down or self._credit < 1 or self._luck.random() < scenario.failure_rate:
            self._credit = max(self._credit - scenario.refusal_cost, 0.0)
            raise _Refused
        self._credit -= 1
        self._served[second] += 1

    def _count(self, event: Event) -> None:
        if isinstance(event, CallGaveUp):
            self._give_ups[event.reason.value] += 1

    def _summary(self) -> Result:
        scenario = self._scenario
        counted = max(scenario.duration - WINDOW, scenario.duration / 2)
        calls = sorted(call for call in self._calls if call[0] < counted)
        starts = [start for start, _ in calls]

        def share(first: float, last: float) -> float | None:
            some = calls[bisect_left(starts, first) : bisect_left(starts, last)]
            return sum(succeeded for _, succeeded in some) / len(some) if some else None

        begins, ends = scenario.outage or (0.0, 0.0)
        first, last = bisect_left(starts, begins), bisect_left(starts, ends)
        outside = [succeeded for _, succeeded in (*calls[:first], *calls[last:])]
        return Result(
            name=self._name,
            calls=len(calls),
            attempts=self._attempts,
            succeeded=share(0.0, counted),
            succeeded_in_outage=share(begins, ends),
            succeeded_outside=sum(outside) / len(outside) if outside else None,
            amplification=self._amplification(last - first),
            peak=max(self._offered[int(ends) :], default=0) / scenario.rate,
            recovery=_recovery(share, ends, counted) if scenario.outage else None,
            give_ups=dict(self._give_ups.most_common()),
            offered=tuple(self._offered),
            served=tuple(self._served),
            success=tuple(
                [share(each, min(each + 1, counted)) for each in range(len(self._offered))]
            ),
        )

    def _amplification(self, inside: int) -> float:
        if self._scenario.outage is not None:
            return self._in_outage / max(inside, 1)
        return self._attempts / max(len(self._calls), 1)


def _recovery(
    share: Callable[[float, float], float | None], ends: float, counted: float
) -> float | None:
    """The first whole second after the outage from which a window of calls goes well."""
    for late in range(math.ceil(max(counted - WINDOW - ends, 0)) + 1):
        good = share(ends + late, min(ends + late + WINDOW, counted))
        if good is not None and good >= GOOD:
            return float(late)
    return None


@dataclass(frozen=True, slots=True)
class _Answers:
    """The classifier: what the server refuses is worth another attempt."""

    reason: RetryReason
    asked: float
    sees_results = False

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        if isinstance(attempt.error, _Refused):
            return RetryAfter(self.asked, self.reason)
        return None
