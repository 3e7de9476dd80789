"""What a policy comes to: when each attempt is made, what it saves, and what looks wrong.

Pure: a policy goes in, numbers come out. The least and the greatest wait are exact, from the
backoff's bounds; what lies between is taken from sampled calls, the same ones for the same seed.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from retrykit.backoff import ByReason
from retrykit.cli._chance import Highest
from retrykit.cli._format import duration, plural
from retrykit.decision import RetryReason
from retrykit.outcome import Call
from retrykit.server_delay import ServerDelay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrykit import RetryPolicy
    from retrykit.backoff import Backoff
    from retrykit.budget import Budget

RATES: Final = (0.1, 0.3, 0.5)
ROWS: Final = 20
SAMPLES: Final = 4_000
MOST_STEPS: Final = 10_000
"""How many waits are looked at to find the worst case."""
MOST_PAID: Final = 100_000
"""How many retries are asked for to empty a budget."""
RARE: Final = 0.01
LONG: Final = 3600.0


class Spread(NamedTuple):
    """What can be drawn, in seconds: the ends exactly, median and mean of the samples."""

    least: float
    median: float
    mean: float
    greatest: float


class Row(NamedTuple):
    """One attempt."""

    attempt: int
    wait: Spread
    """Before it; nothing before the first."""
    start: Spread
    """Since the call began, if every attempt before it failed."""
    reached: float
    """The share of calls that come to it before the deadline, if every attempt before it fails."""
    saved: tuple[float, ...]
    """The chance that a call has succeeded by then, for each failure rate."""


class Caution(NamedTuple):
    """Something that looks wrong."""

    code: str
    text: str


class Worst(NamedTuple):
    """The slowest case: every wait is the longest, every attempt fails."""

    attempts: float
    """How many are made."""
    by_deadline: bool
    """Whether it is the deadline that allows no more."""
    waits: float
    """Their waits together, in seconds; infinite where nothing ends them."""
    total: float | None
    """The whole call, in seconds; `None` where nothing limits the time of an attempt."""
    server_wait: float | None
    """The longest wait that a server's Retry-After can bring; `None`: a strategy of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `plan` shows."""

    policy: RetryPolicy
    reason: RetryReason | None
    attempts: float
    """What the policy allows for this reason."""
    possible: float
    """What the backoff has waits for, of them."""
    attempt_time: float
    rates: tuple[float, ...]
    rows: tuple[Row, ...]
    left_out: float
    """How many attempts more there may be than rows."""
    worst: Worst
    refused_after: float | None
    """How many retries the budget pays for in an outage; `None` where there is none to ask."""
    cautions: tuple[Caution, ...]
    samples: int
    seed: int

    @property
    def in_outage(self) -> float:
        """The attempts that a call makes in an outage, on average: the load on the server, in
        calls. At least, where there are more of them than rows; infinite where nothing ends them.
        """
        if self.policy.deadline is None:
            return self.possible
        return sum(row.reached for row in self.rows)


def make_plan(
    policy: RetryPolicy,
    *,
    reason: RetryReason | None = None,
    rates: Sequence[float] = RATES,
    attempt_time: float = 0.0,
    rows: int = ROWS,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Plan:
    """The plan of a policy for calls whose attempts fail for `reason`, each after `attempt_time`.

    Without a reason a `ByReason` follows its default branch, and no limit by reason counts.

    >>> from retrykit import Constant, RetryPolicy
    >>> plan = make_plan(RetryPolicy(attempts=3, backoff=Constant(2)), rates=[0.5])
    >>> [(row.attempt, row.start.median, row.saved) for row in plan.rows]
    [(1, 0.0, (0.5,)), (2, 2.0, (0.75,)), (3, 4.0, (0.875,))]
    >>> [caution.code for caution in plan.cautions]
    ['no_jitter']
    """
    backoff = policy.backoff
    if isinstance(backoff, ByReason):
        backoff = backoff.default if reason is None else backoff.branch(reason)
    attempts = policy.attempts
    if reason is not None and reason in policy.limits:
        attempts = min(attempts, policy.limits[reason] + 1)
    if policy.attempt_timeout is not None:
        attempt_time = min(attempt_time, policy.attempt_timeout)
    case = _Case(policy, backoff, attempts, attempt_time, reason)
    worst = case.worst()
    refused_after = None if policy.budget is None else _refused_after(policy.budget, reason)
    table = case.rows(tuple(rates), rows, samples, seed)
    return Plan(
        policy=policy,
        reason=reason,
        attempts=attempts,
        possible=case.possible(),
        attempt_time=attempt_time,
        rates=tuple(rates),
        rows=table,
        left_out=case.possible() - rows if len(table) == rows else 0,
        worst=worst,
        refused_after=refused_after,
        cautions=tuple(case.cautions(table, worst, refused_after)),
        samples=samples,
        seed=seed,
    )


class _Case(NamedTuple):
    """A policy for one reason."""

    policy: RetryPolicy
    backoff: Backoff
    attempts: float
    attempt_time: float
    reason: RetryReason | None

    def rows(self, rates: tuple[float, ...], most: int, samples: int, seed: int) -> tuple[Row, ...]:
        shown = int(min(self.attempts, most))
        bounds = list(islice(self.backoff.bounds(), shown - 1))
        waits, starts = self._drawn(len(bounds), samples, seed)
        deadline = self.policy.deadline
        now = Spread(0.0, 0.0, 0.0, 0.0)
        saved = [1 - rate for rate in rates]
        made = [Row(1, now, now, 1.0, tuple(saved))]
        least = greatest = 0.0
        for index, (low, high) in enumerate(bounds):
            least += low + self.attempt_time
            greatest += high + self.attempt_time
            start = starts[index]
            reached = 1.0
            if deadline is not None:
                reached = sum(each < deadline for each in start) / samples
            if reached == 0 and self.attempts == math.inf:
                break  # it promises no more of them
            for each, rate in enumerate(rates):
                saved[each] += reached * rate ** (index + 1) * (1 - rate)
            made.append(
                Row(
                    index + 2,
                    _spread(low, waits[index], high),
                    _spread(least, start, greatest),
                    reached,
                    tuple(saved),
                )
            )
        return tuple(made)

    def _drawn(
        self, steps: int, samples: int, seed: int
    ) -> tuple[list[list[float]], list[list[float]]]:
        """The sampled waits before each retry, and the times at which the attempts start."""
        waits: list[list[float]] = [[] for _ in range(steps)]
        starts: list[list[float]] = [[] for _ in range(steps)]
        rng = Random(seed)
        for _ in range(samples):
            now = 0.0
            for step, wait in enumerate(islice(self.backoff.delays(rng), steps)):
                now += wait + self.attempt_time
                waits[step].append(wait)
                starts[step].append(now)
        return waits, starts

    def possible(self) -> float:
        """The attempts that the backoff has waits for."""
        waits = sum(1 for _ in self._bounds())
        return self.attempts if waits == MOST_STEPS else waits + 1

    def worst(self) -> Worst:
        deadline = self.policy.deadline
        timeout = self.policy.attempt_timeout
        slow = self.attempt_time if timeout is None else timeout
        made, waits, now, high = 1.0, 0.0, slow, 0.0
        cut = False
        for _, high in self._bounds():
            if deadline is not None and now + high >= deadline:
                cut = True
                break
            made += 1
            waits += high
            now += high + slow
        possible = self.possible()
        if not cut and made < possible:
            # Of so many that not all were looked at, the others are at least like the last.
            endless = possible == math.inf and deadline is None
            waits = math.inf if endless else waits + (min(possible, 1e18) - made) * high
            now = math.inf if endless else now + (min(possible, 1e18) - made) * (high + slow)
            made = possible
        total = None if timeout is None else now
        if deadline is not None:
            total = deadline if total is None else min(total, deadline)
        return Worst(made, cut, waits, total, self._server_wait())

    def _server_wait(self) -> float | None:
        heeds = self.policy.server_delay
        if not isinstance(heeds, ServerDelay):
            return None
        return heeds(heeds.limit, 0.0, 0.0, Highest())

    def _bounds(self) -> Iterator[tuple[float, float]]:
        """Every wait that the policy may make, up to a bound on the work."""
        return islice(self.backoff.bounds(), int(min(self.attempts - 1, MOST_STEPS)))

    def cautions(
        self, rows: tuple[Row, ...], worst: Worst, refused_after: float | None
    ) -> Iterator[Caution]:
        policy = self.policy
        deadline, attempts = policy.deadline, self.attempts
        if attempts == 1:
            yield Caution("no_retries", "nothing is retried: one attempt is all there is")
            return
        bounds = list(islice(self._bounds(), ROWS))
        if math.isinf(worst.waits):
            yield Caution(
                "unbounded",
                "nothing ends a call: attempts has no limit, and there is no deadline",
            )
        elif deadline is None and worst.waits > LONG:
            yield Caution(
                "long_call",
                f"a call may wait for {duration(worst.waits)} in all; a deadline would end it",
            )
        if bounds and not any(high for _, high in bounds):
            yield Caution("no_wait", "no wait between attempts: retries come as fast as failures")
        elif bounds and all(low == high for low, high in bounds):
            yield Caution(
                "no_jitter", "no jitter: clients that fail together come back together, each time"
            )
        possible = self.possible()
        if possible < attempts != math.inf:
            yield Caution(
                "backoff_ends",
                f"{_range(possible + 1, attempts)} never made: the backoff ends after"
                f" {plural(possible - 1, 'wait')}",
            )
        if deadline is not None and attempts != math.inf:
            yield from self._past_deadline(deadline, possible, rows)
        if deadline is not None and (policy.attempt_timeout or 0) >= deadline:
            yield Caution(
                "timeout_past_deadline",
                f"attempt_timeout ({duration(policy.attempt_timeout or 0)}) never counts: the"
                f" deadline ({duration(deadline)}) comes first",
            )
        if policy.budget is not None:
            yield from _budget_cautions(policy.budget, self.reason, refused_after)

    def _past_deadline(
        self, deadline: float, possible: float, rows: tuple[Row, ...]
    ) -> Iterator[Caution]:
        now = 0.0
        reachable = 1
        for low, _ in self._bounds():
            now += low + self.attempt_time
            if now >= deadline:
                break
            reachable += 1
        else:
            reachable = max(reachable, int(possible))  # of very many, the first say nothing else
        if reachable < possible:
            yield Caution(
                "unreachable",
                f"{_range(reachable + 1, possible)} never made: {_before_it(self.attempt_time)}"
                f" take {duration(now)} at least, and the deadline is {duration(deadline)}",
            )
        rare = next((row for row in rows if row.reached < RARE and row.attempt <= reachable), None)
        if rare is not None:
            yield Caution(
                "rarely_reached",
                f"{_range(rare.attempt, min(reachable, possible))} made in fewer than 1 of"
                f" {1 / RARE:.0f} calls: the deadline of {duration(deadline)} comes first",
            )


def _before_it(attempt_time: float) -> str:
    return "what comes before" if attempt_time else "the waits before"


def _range(first: float, last: float) -> str:
    """`attempt 5 is`, `attempts 5 to 9 are`."""
    if first == last:
        return f"attempt {first:.0f} is"
    return f"attempts {first:.0f} to {last:.0f} are"


def _spread(low: float, drawn: list[float], high: float) -> Spread:
    """The samples' middle, inside the exact ends: sums of sums are rounded now and then."""
    ordered = sorted(drawn)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    mean = math.fsum(ordered) / len(ordered)
    return Spread(low, min(max(median, low), high), min(max(mean, low), high), high)


def _budget_cautions(
    budget: Budget, reason: RetryReason | None, refused_after: float | None
) -> Iterator[Caution]:
    if refused_after == math.inf:
        yield Caution(
            "budget_never_refuses",
            f"the budget never refuses: it pays for {MOST_PAID:,} retries of an outage and more",
        )
    elif reason is None:
        free = [
            each.value
            for each in RetryReason
            # Results that are polled for may well be free: nothing has failed.
            if each is not RetryReason.UNSATISFACTORY and _refused_after(budget, each) == math.inf
        ]
        if free:
            yield Caution(
                "budget_never_refuses", f"the budget never refuses a retry for {', '.join(free)}"
            )


def _refused_after(budget: Budget, reason: RetryReason | None) -> float | None:
    """How many retries in a row a full copy of the budget pays for; infinity: it does not end."""
    call = Call(print)
    try:
        fresh = deepcopy(budget)
        for paid in range(MOST_PAID):
            if fresh.withdraw(call, reason or RetryReason.TRANSIENT) is None:
                return paid
    except Exception:  # noqa: BLE001 - it may ask the made-up call for what it does not have
        return None
    return math.inf
