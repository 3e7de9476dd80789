"""Jitter: a wait drawn at random around a delay, so that clients do not all come back together.

A jitter is called with a delay and a generator, and says in `bounds` what it can draw. It knows
no cap and no floor: the backoff that uses it moves what it draws inside its own limits, so an
object of your own with these two methods keeps them too.

>>> from random import Random
>>> FullJitter().bounds(8.0)
Bounds(low=0.0, high=8.0)
>>> 0.0 <= FullJitter()(8.0, Random(1)) <= 8.0
True
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from retrykit._validate import number, seconds
from retrykit._value import Value, frozen

if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random

_LARGEST: Final = sys.float_info.max


class Bounds(NamedTuple):
    """The shortest and the longest of what can be drawn, in seconds, both included."""

    low: float
    high: float


class Jitter(Protocol):
    """Draws a wait around a delay. Any object with these two methods is one.

    `delay` is in seconds, finite and not negative. `rng.random()` is the only source of chance,
    so that the same seed gives the same waits.
    """

    def __call__(self, delay: float, rng: Random, /) -> float:
        """A wait in seconds, within `bounds(delay)`."""
        ...

    def bounds(self, delay: float, /) -> Bounds:
        """What the lowest and the highest draw attain, no wider."""
        ...


class _Uniform(Value):
    """Every wait within the bounds is as likely as any other."""

    __slots__ = ()

    def __call__(self, delay: float, rng: Random) -> float:
        """A wait in seconds, drawn uniformly from `bounds(delay)`."""
        low, high = self.bounds(delay)
        # The product may round up past the bound.
        return min(low + (high - low) * rng.random(), high)

    if TYPE_CHECKING:

        def bounds(self, delay: float) -> Bounds: ...


@frozen
class NoJitter(_Uniform):
    """The delay itself, each time. Clients that fail together come back together.

    >>> NoJitter().bounds(8.0)
    Bounds(low=8.0, high=8.0)
    """

    def __call__(self, delay: float, rng: Random) -> float:  # noqa: ARG002 - every jitter takes a generator
        """The delay: nothing is drawn."""
        return delay

    def bounds(self, delay: float) -> Bounds:
        """The delay twice."""
        return Bounds(delay, delay)


@frozen
class FullJitter(_Uniform):
    """Anything from nothing to the delay: the widest spread, and half the wait on average.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter": `random_between(0, delay)`.

    >>> FullJitter().bounds(8.0)
    Bounds(low=0.0, high=8.0)
    """

    def bounds(self, delay: float) -> Bounds:
        """From zero to the delay."""
        return Bounds(0.0, delay)


@frozen
class EqualJitter(_Uniform):
    """Half of the delay for certain, the other half at random: never much sooner than meant.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter":
    `delay / 2 + random_between(0, delay / 2)`.

    >>> EqualJitter().bounds(8.0)
    Bounds(low=4.0, high=8.0)
    """

    def bounds(self, delay: float) -> Bounds:
        """From half the delay to the delay."""
        return Bounds(delay / 2, delay)


@frozen
class ProportionalJitter(_Uniform):
    """The delay, give or take a share of it: 20 % unless told otherwise.

    `ratio` lies between 0 (no spread) and 1 (from nothing to twice the delay); anything else is a
    `ValueError`, since no wait is negative.

    Source: gRPC, "Connection Backoff Protocol": jitter 0.2.

    >>> ProportionalJitter(0.25).bounds(8.0)
    Bounds(low=6.0, high=10.0)
    """

    ratio: float

    def __init__(self, ratio: float = 0.2) -> None:
        share = number("ratio", ratio)
        if share > 1:
            raise ValueError(f"ratio must be at most 1, got {ratio!r}")
        self._put(ratio=share)

    def bounds(self, delay: float) -> Bounds:
        """The delay less its share, and the delay with it."""
        return Bounds(delay * (1 - self.ratio), min(delay * (1 + self.ratio), _LARGEST))


@frozen
class AdditiveJitter(_Uniform):
    """The delay and up to `amount` seconds on top, however long the delay is.

    `amount` takes seconds or a `timedelta`; zero adds nothing; negative, NaN and infinite are a
    `ValueError`. It spreads a delay of zero too, which a share of the delay cannot.

    Source: Google Cloud, "Retry strategy", truncated exponential backoff:
    `min(delay + random_number_milliseconds, maximum_backoff)`, with at most a second at random.
    (There the minimum cuts the spread off at the cap; here the interval moves below it.)

    >>> AdditiveJitter(0.5).bounds(8.0)
    Bounds(low=8.0, high=8.5)
    """

    amount: float

    def __init__(self, amount: float | timedelta = 1.0) -> None:
        self._put(amount=seconds("amount", amount))

    def bounds(self, delay: float) -> Bounds:
        """The delay, and the delay with the whole amount."""
        return Bounds(delay, min(delay + self.amount, _LARGEST))
