"""`RetryPolicy`: how to retry, as a value; and the forms in which a call is made under it.

>>> policy = RetryPolicy.on(ConnectionError, attempts=3, backoff=[0.1, 0.5])
>>> policy.call(int, "42")
42
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from retrykit._block import AsyncAttempts, Attempts
from retrykit._executor import Verdicts
from retrykit._fields import known
from retrykit._forms import ASYNC, ASYNC_GENERATOR, PLAIN, form_of, start
from retrykit._frozen import FrozenMap
from retrykit._session import StandardPolicy
from retrykit._validate import whole
from retrykit._value import named
from retrykit.backoff import ByReason, Exponential
from retrykit.classify import FirstOf, OnException, exception_types, transient
from retrykit.clock import SystemClock
from retrykit.events import log_retries
from retrykit.jitter import Bounds
from retrykit.outcome import Call, name_of, owner_of
from retrykit.server_delay import ServerDelay
from retrykit.settings import CHECKS, CallSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from random import Random
    from typing import Literal, Self

    from typing_extensions import Unpack

    from retrykit._executor import RetryExecutor
    from retrykit._fields import PolicyFields
    from retrykit.backoff import Backoff
    from retrykit.budget import Budget
    from retrykit.classify import Classifier
    from retrykit.clock import Clock
    from retrykit.decision import RetryAfter, RetryReason
    from retrykit.events import Listener
    from retrykit.server_delay import ServerDelayStrategy
    from retrykit.settings import StopWhen, Unsatisfied

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_ATTEMPTS = 5


@runtime_checkable
class PolicyFactory(Protocol):
    """What `policy=` takes: for each call it makes an executor of the call's own.

    It may have `settings`, a `retrykit.settings.CallSettings`, for its driver to read. A policy may
    be its own executor, where it keeps nothing from call to call.

    One that raises, or answers what has no `decide`, costs the call its retries and nothing else.

    >>> class Once:
    ...     def new_executor(self, call: Call, /) -> Once:
    ...         return self
    ...     def decide(self, attempt: Attempt, /) -> RetryDecision:
    ...         return RetryAfter() if attempt.number == 1 else DoNotRetry()
    >>> isinstance(Once(), PolicyFactory)
    True
    """

    def new_executor(self, call: Call, /) -> RetryExecutor:
        """A fresh executor for one call."""
        ...


def system_rng() -> Random:
    """The `random` module's own generator, which is seeded anew after a fork."""
    return random._inst


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RetryPolicy(StandardPolicy):
    """How to retry: immutable, shared by any number of calls; each call gets its own executor.

    Times are seconds or a `timedelta`, and are held as float seconds.

    - `classify`: which outcomes are worth another attempt. Also an exception type, or a list.
    - `attempts`: calls at most, the first included. Omitted: 5, or no limit where there is a
      `deadline`; `math.inf` asks for no limit by name.
    - `limits`: retries at most for a reason, within one call.
    - `deadline`: for the whole call, waits included. No attempt starts after it, and a wait that
      would reach it is not begun. Async code is also cut there (`DeadlineExceeded`).
    - `attempt_timeout`: for one attempt. Cut in async code (`AttemptTimedOut`), and retried;
      blocking code is told by `current_attempt().remaining`, never abandoned in a thread.
    - `backoff`: the waits. Also a list of seconds.
    - `server_delay`: what a wait that the other side asked for does to them.
    - `budget`: what all calls together may spend on retries.
    - `unsatisfied`: the end of a call whose result was worth another attempt and got none because
      of a limit: `"raise"` (`RetriesExhausted`) or `"return"` (the last result).
    - `listeners`: told of each event; `()` for silence.
    - `stop_when`: a function asked, or a `threading.Event` looked at, at each decision and after
      each wait; the event also cuts a blocking wait short.
    - `nested`: `"suppress"` makes one attempt inside another retried call.
    - `clock`, `rng`: time and chance, for tests.
    - `name`: for events and metrics.

    Bad values are refused here, each with its field's name.

    >>> RetryPolicy(attempts=0)
    Traceback (most recent call last):
        ...
    ValueError: attempts must be at least 1, got 0
    """

    classify: Classifier = transient
    attempts: float = DEFAULT_ATTEMPTS
    limits: Mapping[RetryReason, int] = FrozenMap({})
    deadline: float | None = None
    attempt_timeout: float | None = None
    backoff: Backoff = Exponential(0.25, factor=2, cap=20)  # noqa: RUF009 - as above
    server_delay: ServerDelayStrategy = ServerDelay()  # noqa: RUF009 - as above
    budget: Budget | None = None
    unsatisfied: Unsatisfied = "raise"
    listeners: tuple[Listener, ...] = (log_retries,)
    stop_when: StopWhen | None = None
    nested: Literal["allow", "suppress"] = "allow"
    clock: Clock = SystemClock()  # noqa: RUF009 - as above
    rng: Callable[[], Random] = system_rng
    name: str | None = None
    settings: CallSettings = field(init=False, repr=False, compare=False)
    judges_results: bool = field(init=False, repr=False, compare=False)
    plain: bool = field(init=False, repr=False, compare=False)
    verdicts: dict[type[BaseException], RetryAfter] | None = field(
        init=False, repr=False, compare=False
    )

    def __init__(self, **fields: Unpack[PolicyFields]) -> None:
        for name in fields:
            known(name)
        held: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            if not each.init:
                continue
            if each.name in fields:
                held[each.name] = known(each.name)(each.name, fields[each.name])  # type: ignore[literal-required]  # a field's name
            else:
                held[each.name] = each.default
        if "attempts" not in fields:
            held["attempts"] = DEFAULT_ATTEMPTS if held["deadline"] is None else math.inf
        classify = held["classify"]
        held["settings"] = CallSettings(**{name: held[name] for name in CHECKS})
        held["judges_results"] = bool(getattr(classify, "sees_results", True))
        held["plain"] = (
            held["stop_when"] is None
            and held["budget"] is None
            and not held["limits"]
            and not isinstance(held["backoff"], ByReason)
        )
        held["verdicts"] = Verdicts() if getattr(classify, "by_type", False) is True else None
        for name, value in held.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        told = [
            f"{each.name}={named(getattr(self, each.name))}"
            for each in dataclasses.fields(self)
            if each.repr and (each.name == "attempts" or getattr(self, each.name) != each.default)
        ]
        return f"{type(self).__qualname__}({', '.join(told)})"

    @classmethod
    def on(cls, *types: type[BaseException], **fields: Unpack[PolicyFields]) -> Self:
        """A policy that retries on these exception types.

        With `classify` too, that one is asked first.

        >>> RetryPolicy.on(OSError, attempts=3).classify
        OnException(OSError)
        """
        changed: Any = {**fields, "classify": classifier_on(types, fields)}
        return cls(**changed)

    def replace(self, **changes: Unpack[PolicyFields]) -> Self:
        """The same policy with some fields changed; `attempts` stays as it is unless named.

        >>> RetryPolicy(deadline=10).replace(deadline=None).attempts
        inf
        """
        for name in changes:
            known(name)
        changed: Any = changes
        return dataclasses.replace(self, **changed)

    @property
    def max_attempts(self) -> float:
        """Calls at most, the first included; `math.inf` for no limit."""
        return self.attempts

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function under this policy and return what it returns.

        A generator function gives its generator, retried until its first item is out. For a
        coroutine function there is `acall`: handing it here is a `TypeError`.

        >>> RetryPolicy().call(max, 1, 2)
        2
        """
        form = form_of(function)
        if form == ASYNC:
            raise TypeError(
                f"policy.call takes plain functions, and {name_of(function)} is async:"
                " write `await policy.acall(...)`"
            )
        result: T = start(form, self, self._call(function, args, kwargs), function, args, kwargs)
        return result

    async def acall(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call the coroutine function under this policy, on asyncio or Trio, and await it.

        A function that merely returns a coroutine (a lambda) is driven just so. Other awaitables
        are values. A generator function is a `TypeError`: `call` takes it.
        """
        form = form_of(function)
        if form not in (ASYNC, PLAIN):
            raise TypeError(
                f"policy.acall takes coroutine functions, and {name_of(function)} is"
                f" a{'n' if form == ASYNC_GENERATOR else ''} {form} function:"
                " write `policy.call(...)`"
            )
        result: T = await start(
            ASYNC, self, self._call(function, args, kwargs), function, args, kwargs
        )
        return result

    def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Call:
        return Call(function, owner_of(function), args, kwargs)

    def __iter__(self) -> Attempts:
        """A loop over attempts, each `iter()` a call of its own: `for attempt in policy:`."""
        return Attempts(self)

    def __aiter__(self) -> AsyncAttempts:
        """The same with waits that do not block: `async for attempt in policy:`."""
        return AsyncAttempts(self)

    def schedule(self, rng: Random | None = None) -> Iterator[float]:
        """The waits that one call would make if every attempt failed at once, in seconds.

        They end with the attempts, the backoff, or the deadline that the next wait would reach.
        `ByReason` follows its default branch. Draws from `rng`, or from the policy's own.

        >>> list(RetryPolicy(attempts=4, backoff=[1, 2, 4]).schedule())
        [1.0, 2.0, 4.0]
        """
        elapsed = 0.0
        delays = self.backoff.delays(self.rng() if rng is None else rng)
        # No more is drawn than a call draws, so that one generator can serve several schedules.
        most = None if self.attempts > sys.maxsize else int(self.attempts) - 1
        for delay in islice(delays, most):
            elapsed += delay
            if self.deadline is not None and elapsed >= self.deadline:
                return
            yield delay

    def delay_bounds(self, n: int) -> Bounds:
        """The least and greatest wait before retry `n`, from 1, as the backoff draws it.

        For `ByReason` it is the union over all branches and steps up to the n-th, since any of them
        may be what comes n-th. Raises `ValueError` where no n-th retry is ever made.

        >>> RetryPolicy(backoff=Exponential(0.5, factor=2, cap=30)).delay_bounds(3)
        Bounds(low=0.0, high=2.0)
        """
        whole("n", n, low=1)
        if n >= self.attempts:
            raise ValueError(f"n must be below the {self.attempts} attempts, got {n}")
        backoff = self.backoff
        if isinstance(backoff, ByReason):
            branches = (*backoff.branches.values(), backoff.default)
            steps = [each for branch in branches for each in islice(branch.bounds(), n)]
            reached = len(steps) >= n  # each branch's end ends the call, at its own position
        else:
            steps = list(islice(backoff.bounds(), n - 1, n))
            reached = bool(steps)
        if not reached:
            raise ValueError(f"n must not be past the backoff's end, got {n}")
        return Bounds(min(each.low for each in steps), max(each.high for each in steps))


def classifier_on(types: Any, fields: Mapping[str, Any]) -> Classifier:
    """The classifier that `on=` stands for; `classify`, if given too, is asked first."""
    rule = OnException(*exception_types("on", types))
    classify = fields.get("classify")
    return rule if classify is None else FirstOf(classify, rule)
