"""Backoffs: how long to wait before each retry, as a sequence that starts afresh for each call.

A backoff is a frozen value that holds no position: `delays(rng)` begins a new sequence, `bounds()`
tells beforehand what each of its waits can be, and `limits` is the floor and the cap that every
wait keeps. The sequence's end ends the call. Backoffs combine:

>>> from random import Random
>>> backoff = Constant(0.1).take(2).then(Exponential(1, cap=3, jitter=NoJitter()))
>>> list(backoff.take(6).delays(Random()))
[0.1, 0.1, 1.0, 2.0, 3.0, 3.0]

Every step costs the same, the millionth as the first. No wait is negative, NaN, infinite or longer
than `LONGEST`: what grows stops there, and a longer duration that is asked for is taken as that.
"""

from __future__ import annotations

from _thread import TIMEOUT_MAX
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from datetime import timedelta
from itertools import chain, count, islice, repeat
from math import inf
from sys import float_info, maxsize
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from retrykit._frozen import FrozenMap
from retrykit._validate import (
    function,
    instance_not_class,
    is_number,
    number,
    seconds,
    shown,
    whole,
)
from retrykit._value import Value, frozen
from retrykit.decision import RetryReason
from retrykit.jitter import Bounds, FullJitter, Jitter, NoJitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from typing_extensions import TypeIs

    BackoffLike: TypeAlias = "Backoff | Sequence[float | timedelta]"

LONGEST: Final = TIMEOUT_MAX
"""The longest wait in seconds: the most that a thread can wait for on this platform (292 years on
Linux and macOS, 49 days on Windows)."""

_NO_LIMITS: Final = Bounds(0.0, inf)


class Backoff(Protocol):
    """The waits of one call, in seconds. Any object with these three members is one.

    To have the combinators too, inherit from `BackoffBase`, or wrap it: `Custom(mine).capped(5)`.
    """

    def delays(self, rng: Random, /) -> Iterator[float]:
        """The waits before the first retry, the second and so on; a new sequence at each call."""
        ...

    def bounds(self) -> Iterator[Bounds]:
        """What the lowest and the highest draw attain at each step, no wider."""
        ...

    @property
    def limits(self) -> Bounds:
        """The floor and the cap that hold for every wait; without any, zero and infinity."""
        ...


class BackoffBase(ABC):
    """The combinators. A subclass gives `delays` and `bounds`, and `limits` where it has any.

    >>> class Alternating(BackoffBase):
    ...     def delays(self, rng):
    ...         while True:
    ...             yield 1.0
    ...             yield 5.0
    ...
    ...     def bounds(self):
    ...         return (Bounds(delay, delay) for delay in self.delays(None))
    >>> from random import Random
    >>> list(Alternating().capped(3).take(4).delays(Random()))
    [1.0, 3.0, 1.0, 3.0]
    """

    __slots__ = ()

    @abstractmethod
    def delays(self, rng: Random) -> Iterator[float]:
        """The waits before the first retry, the second and so on; a new sequence at each call."""

    @abstractmethod
    def bounds(self) -> Iterator[Bounds]:
        """What the lowest and the highest draw attain at each step, no wider."""

    @property
    def limits(self) -> Bounds:
        """The floor and the cap that hold for every wait; without any, zero and infinity."""
        return _NO_LIMITS

    def capped(self, cap: float | timedelta) -> BackoffBase:
        """The same with no wait above `cap` seconds, whatever the jitter draws.

        Where an interval of draws reaches past the cap it is moved below it, with its width, and
        squeezed only where it is wider than the room; so clients that wait for as long as they
        may still do not wake together. A growing backoff stops growing at the cap first, as with
        its own `cap=`. Zero means no waits. A cap below the floor is a `ValueError`; one that is
        no tighter than the present cap changes nothing.

        >>> from retrykit.jitter import EqualJitter
        >>> next(Constant(10).jittered(EqualJitter()).capped(8).bounds())
        Bounds(low=3.0, high=8.0)
        """
        return self._within(Bounds(0.0, _seconds("cap", cap)))

    def at_least(self, floor: float | timedelta) -> BackoffBase:
        """The same with no wait below `floor` seconds: as `capped`, at the other end.

        >>> next(Exponential(1).at_least(5).bounds())
        Bounds(low=5.0, high=6.0)
        """
        return self._within(Bounds(_seconds("floor", floor), inf))

    def take(self, n: int) -> BackoffBase:
        """The first `n` waits only, so at most `n` retries; with zero there is none.

        >>> from random import Random
        >>> list(Constant(1).take(2).delays(Random()))
        [1.0, 1.0]
        """
        return _Taken(self, whole("n", n, low=0))

    def then(self, other: BackoffLike) -> BackoffBase:
        """These waits, and when they end those of `other`, from its beginning.

        >>> from random import Random
        >>> list(Schedule(0, 1).then([5]).delays(Random()))
        [0.0, 1.0, 5.0]
        """
        return _combined(_Then, self, _combinable(as_backoff("other", other)))

    def __add__(self, other: BackoffLike) -> BackoffBase:
        """The sums of both, step by step, ending with the shorter one.

        Each step waits for both, so where one of them has no wait left there is no sum either.
        Floors and caps add up too.

        >>> from random import Random
        >>> list((Schedule(1, 2, 3) + Constant(0.5)).delays(Random()))
        [1.5, 2.5, 3.5]
        """
        return _combined(_Sum, self, _combinable(as_backoff("other", other)))

    def __radd__(self, other: BackoffLike) -> BackoffBase:
        return _combined(_Sum, _combinable(as_backoff("other", other)), self)

    def jittered(self, jitter: Jitter) -> BackoffBase:
        """The same with every wait drawn by `jitter`, inside the limits.

        What is jittered already is a `ValueError`; of an object of your own the first few bounds
        tell. The growing backoffs bring `FullJitter`: choose theirs by `jitter=`.

        >>> next(Constant(10).jittered(FullJitter()).bounds())
        Bounds(low=0.0, high=10.0)
        """
        _check_jitter(jitter)
        if self._draws():
            raise ValueError(
                f"a backoff can be jittered once, and {shown(self)} is already: where it takes"
                " jitter=, choose it there"
            )
        return self._with(jitter)

    def _with(self, jitter: Jitter) -> BackoffBase:
        return _Jittered(self, jitter)

    def _within(self, limits: Bounds) -> BackoffBase:
        """The same inside `limits` and its own."""
        within = _both(self.limits, limits)
        return self if within == self.limits else _Limited(self, within)

    def _delays_within(self, rng: Random, limits: Bounds) -> Iterator[float]:
        """The draws, each moved as its interval moves to get inside `limits`."""
        for delay, bounds in zip(self.delays(rng), self.bounds(), strict=False):
            yield _moved(delay, bounds, _inside(bounds, limits))

    def _bounds_within(self, limits: Bounds) -> Iterator[Bounds]:
        for bounds in self.bounds():
            yield _inside(bounds, limits)

    def _draws(self) -> bool:
        """Whether chance has a part in the waits."""
        return any(low < high for low, high in islice(self.bounds(), 8))


@frozen
class Custom(Value, BackoffBase):
    """Lends the combinators to an object that has a backoff's three members and no more.

    >>> class Mine:
    ...     limits = Bounds(0.0, 60.0)
    ...
    ...     def delays(self, rng):
    ...         return iter([1.0, 60.0])
    ...
    ...     def bounds(self):
    ...         return iter([Bounds(1.0, 1.0), Bounds(60.0, 60.0)])
    >>> from random import Random
    >>> list(Custom(Mine()).capped(30).delays(Random()))
    [1.0, 30.0]
    """

    backoff: Backoff

    def __init__(self, backoff: Backoff) -> None:
        if isinstance(backoff, BackoffBase):
            raise TypeError(f"backoff must be without combinators, and {shown(backoff)} has them")
        self._put(backoff=as_backoff("backoff", backoff))

    @property
    def limits(self) -> Bounds:
        return self.backoff.limits

    def delays(self, rng: Random) -> Iterator[float]:
        return self.backoff.delays(rng)

    def bounds(self) -> Iterator[Bounds]:
        return self.backoff.bounds()


class _Exact(Value, BackoffBase):
    """Waits that are stated, not drawn."""

    __slots__ = ()

    @abstractmethod
    def _steps(self) -> Iterator[float]: ...

    def delays(self, rng: Random) -> Iterator[float]:  # noqa: ARG002 - every backoff takes a generator
        return self._steps()

    def bounds(self) -> Iterator[Bounds]:
        return (Bounds(delay, delay) for delay in self._steps())

    def _draws(self) -> bool:
        return False


@frozen
class Constant(_Exact):
    """The same wait before every retry, exactly, for ever.

    `delay` takes seconds or a `timedelta`. Zero retries at once; negative, NaN and infinite are a
    `ValueError`.

    >>> from random import Random
    >>> list(Constant(0.5).take(2).delays(Random()))
    [0.5, 0.5]
    """

    delay: float

    def __init__(self, delay: float | timedelta) -> None:
        self._put(delay=_seconds("delay", delay))

    def _steps(self) -> Iterator[float]:
        return repeat(self.delay)


@frozen
class Schedule(_Exact):
    """The listed waits, exactly, and then no more: the call ends where the list ends.

    Seconds or `timedelta`s; negative, NaN and infinite are a `ValueError`. A list or a tuple in a
    backoff's place is a `Schedule`. An empty one allows no retry.

    >>> from random import Random
    >>> list(Schedule(0, 0.5, 2).delays(Random()))
    [0.0, 0.5, 2.0]
    """

    waits: tuple[float, ...]

    def __init__(self, *delays: float | timedelta) -> None:
        self._put(waits=tuple([_seconds(f"delays[{i}]", delay) for i, delay in enumerate(delays)]))

    def _steps(self) -> Iterator[float]:
        return iter(self.waits)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(map(repr, self.waits))})"


class _Growing(Value, BackoffBase):
    """Steps that grow without chance; a jitter draws around each."""

    __slots__ = ()

    if TYPE_CHECKING:
        jitter: Jitter

    @abstractmethod
    def _steps(self) -> Iterator[float]:
        """The delays before limits and jitter, none above `LONGEST`."""

    def delays(self, rng: Random) -> Iterator[float]:
        return self._delays_within(rng, self.limits)

    def bounds(self) -> Iterator[Bounds]:
        return self._bounds_within(self.limits)

    def _delays_within(self, rng: Random, limits: Bounds) -> Iterator[float]:
        # The growth stops at the cap before anything is drawn: what is drawn around ever longer
        # steps and then moved below the cap would fill all of the room, with any jitter.
        jitter, cap = self.jitter, limits.high
        return (_drawn(jitter, min(step, cap), limits, rng) for step in self._steps())

    def _bounds_within(self, limits: Bounds) -> Iterator[Bounds]:
        jitter, cap = self.jitter, limits.high
        return (_inside(jitter.bounds(min(step, cap)), limits) for step in self._steps())

    def _with(self, jitter: Jitter) -> BackoffBase:
        return replace(self, jitter=jitter)

    def _draws(self) -> bool:
        return not isinstance(self.jitter, NoJitter)


@frozen
class Exponential(_Growing):
    """Waits that grow by a factor each time: `min(cap, base * factor ** (retry - 1))`, jittered.

    `base` and `cap` take seconds or a `timedelta`; `factor` is at least 1. A base of zero stays
    zero; without a cap the growth stops at `LONGEST`. Negative, NaN and infinite settings, and a
    cap below the base, are a `ValueError`.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter"; with the default `FullJitter`
    its `random_between(0, min(cap, base * 2 ** attempt))`.

    >>> from random import Random
    >>> list(Exponential(1, cap=5, jitter=NoJitter()).take(4).delays(Random()))
    [1.0, 2.0, 4.0, 5.0]
    """

    base: float
    _: KW_ONLY
    factor: float
    cap: float | None
    jitter: Jitter

    def __init__(
        self,
        base: float | timedelta,
        *,
        factor: float = 2,
        cap: float | timedelta | None = None,
        jitter: Jitter = FullJitter(),  # noqa: B008 - a frozen value
    ) -> None:
        _check_jitter(jitter)
        first = _seconds("base", base)
        self._put(
            base=first,
            factor=number("factor", factor, low=1.0),
            cap=None if cap is None else _cap(cap, first),
            jitter=jitter,
        )

    @property
    def limits(self) -> Bounds:
        return _NO_LIMITS if self.cap is None else Bounds(0.0, self.cap)

    def _steps(self) -> Iterator[float]:
        step = self.base
        while True:
            yield step
            step = min(step * self.factor, LONGEST)


@frozen
class Linear(_Growing):
    """Waits that grow by the same number of seconds each time: `start + step * (retry - 1)`.

    Seconds or `timedelta`s; zero is fine for either; negative, NaN and infinite are a
    `ValueError`. The growth stops at `LONGEST`, or at a cap: `Linear(1, 1).capped(30)`.

    >>> from random import Random
    >>> list(Linear(1, 2, jitter=NoJitter()).take(3).delays(Random()))
    [1.0, 3.0, 5.0]
    """

    start: float
    step: float
    _: KW_ONLY
    jitter: Jitter

    def __init__(
        self,
        start: float | timedelta,
        step: float | timedelta,
        *,
        jitter: Jitter = FullJitter(),  # noqa: B008 - a frozen value
    ) -> None:
        _check_jitter(jitter)
        self._put(start=_seconds("start", start), step=_seconds("step", step), jitter=jitter)

    def _steps(self) -> Iterator[float]:
        # A product has no rounding errors that add up, as a running sum has.
        return (min(self.start + self.step * retry, LONGEST) for retry in count())


@frozen
class Polynomial(_Growing):
    """Waits that grow with a power of the retry's number: `base * retry ** power`, jittered.

    `base` takes seconds or a `timedelta`; `power` is any number from zero, which makes the waits
    constant. Negative, NaN and infinite are a `ValueError`. The growth stops at `LONGEST`.

    >>> from random import Random
    >>> list(Polynomial(0.5, 2, jitter=NoJitter()).take(3).delays(Random()))
    [0.5, 2.0, 4.5]
    """

    base: float
    power: float
    _: KW_ONLY
    jitter: Jitter

    def __init__(
        self,
        base: float | timedelta,
        power: float,
        *,
        jitter: Jitter = FullJitter(),  # noqa: B008 - a frozen value
    ) -> None:
        _check_jitter(jitter)
        self._put(base=_seconds("base", base), power=number("power", power), jitter=jitter)

    def _steps(self) -> Iterator[float]:
        return map(self._step, count(1))

    def _step(self, retry: int) -> float:
        try:
            growth: float = float(retry) ** self.power
        except OverflowError:
            growth = float_info.max
        return min(self.base * growth, LONGEST)


@frozen
class Fibonacci(_Growing):
    """Waits that grow as the Fibonacci numbers: `base` times 1, 1, 2, 3, 5, 8 …, jittered.

    By about 1.6 each time, so more gently than by doubling. `base` takes seconds or a `timedelta`;
    zero stays zero; negative, NaN and infinite are a `ValueError`. The growth stops at `LONGEST`.

    >>> from random import Random
    >>> list(Fibonacci(1, jitter=NoJitter()).take(5).delays(Random()))
    [1.0, 1.0, 2.0, 3.0, 5.0]
    """

    base: float
    _: KW_ONLY
    jitter: Jitter

    def __init__(
        self,
        base: float | timedelta,
        *,
        jitter: Jitter = FullJitter(),  # noqa: B008 - a frozen value
    ) -> None:
        _check_jitter(jitter)
        self._put(base=_seconds("base", base), jitter=jitter)

    def _steps(self) -> Iterator[float]:
        step, following = self.base, self.base
        while True:
            yield step
            step, following = following, min(step + following, LONGEST)


@frozen
class Decorrelated(Value, BackoffBase):
    """Waits drawn from the one before: `min(cap, uniform(base, 3 * previous))`, `base` first.

    `base` and `cap` take seconds or a `timedelta`, and are the floor and the cap of every wait. A
    base of zero stays zero; negative, NaN and infinite, and a cap below the base, are a
    `ValueError`. At the cap the formula waits for exactly the cap about every other time; where
    many clients share a fate, `Exponential` with `FullJitter` spreads them better.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter", decorrelated jitter.

    >>> from itertools import islice
    >>> [bounds.high for bounds in islice(Decorrelated(1, cap=20).bounds(), 4)]
    [3.0, 9.0, 20.0, 20.0]
    """

    base: float
    _: KW_ONLY
    cap: float

    def __init__(self, base: float | timedelta, *, cap: float | timedelta) -> None:
        first = _seconds("base", base)
        self._put(base=first, cap=_cap(cap, first))

    @property
    def limits(self) -> Bounds:
        return Bounds(self.base, self.cap)

    def delays(self, rng: Random) -> Iterator[float]:
        base, cap, previous = self.base, self.cap, self.base
        while True:
            drawn = base + (3 * previous - base) * rng.random()
            previous = min(cap, max(base, drawn))
            yield previous

    def bounds(self) -> Iterator[Bounds]:
        high = self.base
        while True:
            high = min(self.cap, 3 * high)
            yield Bounds(self.base, high)

    def _within(self, limits: Bounds) -> BackoffBase:
        base, cap = _both(self.limits, limits)
        return Decorrelated(base, cap=cap)

    def _draws(self) -> bool:
        return True


@frozen
class ByReason(Value, BackoffBase):
    """A backoff for each reason, each at its own position: throttling waits longer than a reset.

    A reason that is not listed follows `default`, and all of these share one sequence. `delays`
    and `bounds` are the default's; `limits` spans all branches. Combinators go to every branch. A
    `ByReason` in a branch's place gives its branch for that reason.

    >>> backoff = ByReason({RetryReason.THROTTLED: Constant(5)}, default=Constant(0.1))
    >>> backoff.branch(RetryReason.THROTTLED)
    Constant(5.0)
    >>> backoff.capped(1)
    ByReason({RetryReason.THROTTLED: Constant(5.0).capped(1.0)}, default=Constant(0.1).capped(1.0))
    """

    branches: Mapping[RetryReason, Backoff]
    _: KW_ONLY
    default: Backoff

    def __init__(
        self, branches: Mapping[RetryReason, BackoffLike], *, default: BackoffLike
    ) -> None:
        if not isinstance(branches, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
            raise TypeError(f"branches must be a mapping by RetryReason, got {shown(branches)}")
        otherwise = as_backoff("default", default)
        held: dict[RetryReason, Backoff] = {}
        if isinstance(otherwise, ByReason):
            held.update(otherwise.branches)
            otherwise = otherwise.default
        for reason, value in branches.items():
            if not isinstance(reason, RetryReason):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
                raise TypeError(f"branches must be keyed by RetryReason, got {shown(reason)}")
            backoff = as_backoff(f"branches[{reason!r}]", value)
            held[reason] = _branch(backoff, reason)
        self._put(branches=FrozenMap(held), default=otherwise)

    def branch(self, reason: RetryReason) -> Backoff:
        """The backoff for `reason`: its own, or the default."""
        return self.branches.get(reason, self.default)

    @property
    def limits(self) -> Bounds:
        return _span(self.default, *self.branches.values())

    def delays(self, rng: Random) -> Iterator[float]:
        return self.default.delays(rng)

    def bounds(self) -> Iterator[Bounds]:
        return self.default.bounds()

    def take(self, n: int) -> BackoffBase:
        return self._each(lambda backoff: backoff.take(n))

    def _within(self, limits: Bounds) -> BackoffBase:
        return self._each(lambda backoff: backoff._within(limits))

    def _with(self, jitter: Jitter) -> BackoffBase:
        return self._each(lambda backoff: backoff._with(jitter))

    def _each(self, change: Callable[[BackoffBase], BackoffBase]) -> ByReason:
        return ByReason(
            {reason: change(_combinable(branch)) for reason, branch in self.branches.items()},
            default=change(_combinable(self.default)),
        )

    def _draws(self) -> bool:
        backoffs = (self.default, *self.branches.values())
        return any(_combinable(backoff)._draws() for backoff in backoffs)


@frozen
class _Limited(Value, BackoffBase):
    """A backoff inside limits that are tighter than its own."""

    backoff: BackoffBase
    within: Bounds

    def __init__(self, backoff: BackoffBase, within: Bounds) -> None:
        self._put(backoff=backoff, within=within)

    @property
    def limits(self) -> Bounds:
        return self.within

    def delays(self, rng: Random) -> Iterator[float]:
        return self.backoff._delays_within(rng, self.within)

    def bounds(self) -> Iterator[Bounds]:
        return self.backoff._bounds_within(self.within)

    def _within(self, limits: Bounds) -> BackoffBase:
        return self.backoff._within(_both(self.within, limits))

    def _draws(self) -> bool:
        return self.backoff._draws()

    def __repr__(self) -> str:
        floor, cap = self.backoff.limits
        text = repr(self.backoff)
        if self.within.low > floor:
            text += f".at_least({self.within.low!r})"
        if self.within.high < cap:
            text += f".capped({self.within.high!r})"
        return text


@frozen
class _Jittered(Value, BackoffBase):
    """A backoff that draws nothing by itself, with a jitter around each of its waits."""

    backoff: BackoffBase
    jitter: Jitter

    def __init__(self, backoff: BackoffBase, jitter: Jitter) -> None:
        self._put(backoff=backoff, jitter=jitter)

    @property
    def limits(self) -> Bounds:
        return self.backoff.limits

    def delays(self, rng: Random) -> Iterator[float]:
        return self._delays_within(rng, self.limits)

    def bounds(self) -> Iterator[Bounds]:
        return self._bounds_within(self.limits)

    def _delays_within(self, rng: Random, limits: Bounds) -> Iterator[float]:
        for delay in self.backoff.delays(rng):
            yield _drawn(self.jitter, delay, limits, rng)

    def _bounds_within(self, limits: Bounds) -> Iterator[Bounds]:
        # One of a user's own may draw after all, later than its first few bounds tell.
        for shortest, longest in self.backoff.bounds():
            low, _ = _inside(self.jitter.bounds(shortest), limits)
            _, high = _inside(self.jitter.bounds(longest), limits)
            yield Bounds(low, high)

    def _draws(self) -> bool:
        return not isinstance(self.jitter, NoJitter)

    def __repr__(self) -> str:
        return f"{self.backoff!r}.jittered({self.jitter!r})"


@frozen
class _Taken(Value, BackoffBase):
    """The first `n` waits of a backoff."""

    backoff: BackoffBase
    n: int

    def __init__(self, backoff: BackoffBase, n: int) -> None:
        self._put(backoff=backoff, n=min(n, maxsize))

    @property
    def limits(self) -> Bounds:
        return self.backoff.limits

    def delays(self, rng: Random) -> Iterator[float]:
        return islice(self.backoff.delays(rng), self.n)

    def bounds(self) -> Iterator[Bounds]:
        return islice(self.backoff.bounds(), self.n)

    def take(self, n: int) -> BackoffBase:
        return _Taken(self.backoff, min(self.n, whole("n", n, low=0)))

    def _within(self, limits: Bounds) -> BackoffBase:
        return _Taken(self.backoff._within(limits), self.n)

    def _with(self, jitter: Jitter) -> BackoffBase:
        return _Taken(self.backoff._with(jitter), self.n)

    def _draws(self) -> bool:
        return self.backoff._draws()

    def __repr__(self) -> str:
        return f"{self.backoff!r}.take({self.n})"


@frozen
class _Then(Value, BackoffBase):
    """One backoff after another."""

    first: BackoffBase
    second: BackoffBase

    def __init__(self, first: BackoffBase, second: BackoffBase) -> None:
        self._put(first=first, second=second)

    @property
    def limits(self) -> Bounds:
        return _span(self.first, self.second)

    def delays(self, rng: Random) -> Iterator[float]:
        return chain(self.first.delays(rng), self.second.delays(rng))

    def bounds(self) -> Iterator[Bounds]:
        return chain(self.first.bounds(), self.second.bounds())

    def _within(self, limits: Bounds) -> BackoffBase:
        return _Then(self.first._within(limits), self.second._within(limits))

    def _with(self, jitter: Jitter) -> BackoffBase:
        return _Then(self.first._with(jitter), self.second._with(jitter))

    def _draws(self) -> bool:
        return self.first._draws() or self.second._draws()

    def __repr__(self) -> str:
        return f"{self.first!r}.then({self.second!r})"


@frozen
class _Sum(Value, BackoffBase):
    """Two backoffs added step by step."""

    first: BackoffBase
    second: BackoffBase

    def __init__(self, first: BackoffBase, second: BackoffBase) -> None:
        self._put(first=first, second=second)

    @property
    def limits(self) -> Bounds:
        (low, high), (more_low, more_high) = self.first.limits, self.second.limits
        return Bounds(min(low + more_low, LONGEST), high + more_high)

    def delays(self, rng: Random) -> Iterator[float]:
        return self._delays_within(rng, self.limits)

    def bounds(self) -> Iterator[Bounds]:
        return self._bounds_within(self.limits)

    def _delays_within(self, rng: Random, limits: Bounds) -> Iterator[float]:
        pairs = zip(self.first.delays(rng), self.second.delays(rng), strict=False)
        for (first, second), bounds in zip(pairs, self._sums(), strict=False):
            yield _moved(first + second, bounds, _inside(bounds, limits))

    def _bounds_within(self, limits: Bounds) -> Iterator[Bounds]:
        return (_inside(bounds, limits) for bounds in self._sums())

    def _sums(self) -> Iterator[Bounds]:
        pairs = zip(self.first.bounds(), self.second.bounds(), strict=False)
        for (low, high), (more_low, more_high) in pairs:
            yield Bounds(low + more_low, high + more_high)

    def _draws(self) -> bool:
        return self.first._draws() or self.second._draws()

    def __repr__(self) -> str:
        return f"({self.first!r} + {self.second!r})"


def as_backoff(field: str, value: object) -> Backoff:
    """`value` as a backoff: itself, or the `Schedule` of a list or tuple of seconds.

    Anything else is a `TypeError` that names the field and, where it can, the right spelling.

    >>> as_backoff("backoff", [1, 5])
    Schedule(1.0, 5.0)
    >>> as_backoff("backoff", 5)
    Traceback (most recent call last):
        ...
    TypeError: backoff must be a backoff or a list of seconds, got 5: write Constant(5)
    """
    instance_not_class(field, value)
    if _is_list(value):
        return Schedule(*[_seconds(f"{field}[{i}]", delay) for i, delay in enumerate(value)])
    wanted = f"{field} must be a backoff or a list of seconds, got {shown(value)}"
    if is_number(value) or isinstance(value, timedelta):
        raise TypeError(f"{wanted}: write Constant({value!r})")
    if hasattr(value, "__next__"):
        raise TypeError(f"{wanted}: an iterator serves one call only; give a list or a backoff")
    if not _has_members(value):
        raise TypeError(f"{wanted}: a backoff has delays(rng), bounds() and limits")
    function(f"{field}.delays", value.delays, generators=True)
    function(f"{field}.bounds", value.bounds, generators=True)
    limits = value.limits
    if not isinstance(limits, tuple) or len(limits) != 2 or not all(map(is_number, limits)):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"{field}.limits must be a pair of numbers, got {shown(limits)}")
    if not 0 <= limits[0] <= limits[1]:
        raise ValueError(f"{field}.limits must run from a floor to a cap, got {shown(limits)}")
    return value


def _is_list(value: object) -> TypeIs[list[float] | tuple[float, ...]]:
    return isinstance(value, (list, tuple))


def _has_members(value: object) -> TypeIs[Backoff]:
    return all(hasattr(value, name) for name in ("delays", "bounds", "limits"))


def _combinable(backoff: Backoff) -> BackoffBase:
    return backoff if isinstance(backoff, BackoffBase) else Custom(backoff)


def _branch(backoff: Backoff, reason: RetryReason) -> Backoff:
    return backoff.branch(reason) if isinstance(backoff, ByReason) else backoff


def _combined(
    kind: Callable[[BackoffBase, BackoffBase], BackoffBase], first: BackoffBase, second: BackoffBase
) -> BackoffBase:
    """`kind` of both; where one differs by reason, so does the result."""
    sides = [side for side in (first, second) if isinstance(side, ByReason)]
    if not sides:
        return kind(first, second)
    defaults = [side.default if isinstance(side, ByReason) else side for side in (first, second)]
    return ByReason(
        {
            reason: kind(*[_combinable(_branch(side, reason)) for side in (first, second)])
            for reason in dict.fromkeys(chain.from_iterable(side.branches for side in sides))
        },
        default=kind(*map(_combinable, defaults)),
    )


def _seconds(field: str, value: object) -> float:
    return min(seconds(field, value), LONGEST)


def _cap(cap: object, base: float) -> float:
    high = _seconds("cap", cap)
    if high < base:
        raise ValueError(f"cap must be at least the base, {base:g}, got {cap!r}")
    return high


def _span(*backoffs: Backoff) -> Bounds:
    """The limits that hold for all of them."""
    floors, caps = zip(*[backoff.limits for backoff in backoffs], strict=True)
    return Bounds(min(floors), max(caps))


def _both(own: Bounds, asked: Bounds) -> Bounds:
    """The tighter of each end."""
    floor, cap = own
    if asked.high < floor:
        raise ValueError(f"cap must be at least the floor, {floor:g}, got {asked.high:g}")
    if asked.low > cap:
        raise ValueError(f"floor must be at most the cap, {cap:g}, got {asked.low:g}")
    return Bounds(max(floor, asked.low), min(cap, asked.high))


def _check_jitter(jitter: object) -> None:
    function("jitter", jitter)
    function("jitter.bounds", getattr(jitter, "bounds", None))


def _inside(bounds: Bounds, limits: Bounds) -> Bounds:
    """The interval moved inside `limits`, below `LONGEST`; squeezed where it is wider."""
    low, high = bounds
    floor, cap = limits[0], min(limits[1], LONGEST)
    # In bounds of a user's own, rounding may have put the ends a hair the wrong way round.
    high = max(low, high)
    width = high - low
    if high > cap:
        low, high = cap - width, cap
    if low < floor:
        low, high = floor, min(floor + width, cap)
    return Bounds(low, high)


def _moved(delay: float, bounds: Bounds, inside: Bounds) -> float:
    """Where a draw from `bounds` comes to lie when they become `inside`."""
    low, high = inside
    width = bounds[1] - bounds[0]
    if width and inside != bounds:
        delay = low + (high - low) * ((delay - bounds[0]) / width)
    # Rounding must not carry it past either end; a NaN goes through, for whoever draws it to see.
    return max(min(delay, high), low)


def _drawn(jitter: Jitter, delay: float, limits: Bounds, rng: Random) -> float:
    low, high = bounds = jitter.bounds(delay)
    drawn = jitter(delay, rng)
    # The common case, in which nothing has to move.
    if limits[0] <= low <= drawn <= high <= limits[1] and high <= LONGEST:
        return drawn
    return _moved(drawn, bounds, _inside(bounds, limits))
