"""How long to wait when the other side said how long: the answer to a Retry-After."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from retrykit._validate import number, one_of, seconds
from retrykit._value import Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from random import Random

ServerDelayStrategy: TypeAlias = "Callable[[float, float, float, Random], float | None]"
"""`(asked, drawn, first, rng)` to the wait in seconds, or `None`: the call ends now.

`asked` is what the server asked for, `drawn` what the backoff drew for this retry, `first` what it
drew for the call's first retry.
"""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ServerDelay(Value):
    """The standard answer to a Retry-After: never sooner than asked, and not everybody at once.

    `limit`, in seconds: the longest wait that a server may ask for, itself included; compared
    before the spread. Past it, `over_limit` decides: `"stop"` ends the call at once, so that its
    caller sees the answer instead of sleeping for hours; `"cap"` waits for `limit`, and `"ignore"`
    for what the backoff drew: both retry sooner than asked, so they are for servers that ask for
    nonsense. With `limit=0` every wait that is asked for is past it.

    `combine`: with `"precedence"` the server's wait replaces the drawn one, but never falls below
    the first drawn one, so that a server that always asks for a millisecond is not called a
    thousand times a second. With `"floor"` the longer of the two wins.

    `spread` keeps clients that were all told the same from all coming back at the same moment: up
    to `max(spread * asked, min(1 s, asked))` is added, drawn uniformly; nothing with `spread=0`.
    It is never subtracted (RFC 9110, section 10.2.3, calls the value a minimum).

    Zero asks for nothing: the drawn wait stands. Negative, NaN and infinite settings are refused
    with a `ValueError`, as is a limit that its spread would make infinite.

    >>> from random import Random
    >>> answer = ServerDelay(limit=60, spread=0)
    >>> answer(30.0, 0.4, 0.2, Random())
    30.0
    >>> answer(61.0, 0.4, 0.2, Random()) is None
    True
    """

    _: KW_ONLY
    limit: float
    over_limit: Literal["stop", "cap", "ignore"]
    combine: Literal["precedence", "floor"]
    spread: float

    def __init__(
        self,
        limit: float | timedelta = 60.0,
        over_limit: Literal["stop", "cap", "ignore"] = "stop",
        combine: Literal["precedence", "floor"] = "precedence",
        spread: float = 0.1,
    ) -> None:
        checked = seconds("limit", limit)
        one_of("over_limit", over_limit, ("stop", "cap", "ignore"))
        one_of("combine", combine, ("precedence", "floor"))
        share = number("spread", spread)
        if math.isinf(checked + share * checked):
            raise ValueError(f"limit with its spread must be finite, got {limit!r} and {spread!r}")
        self._put(limit=checked, over_limit=over_limit, combine=combine, spread=share)

    def __call__(self, asked: float, drawn: float, first: float, rng: Random) -> float | None:
        """The wait in seconds, its spread included; `None` ends the call."""
        return self._wait(asked, drawn, first, rng)

    def least(self, asked: float, drawn: float, first: float) -> float | None:
        """The same answer without any spread: what must fit before a deadline.

        >>> ServerDelay().least(30.0, 0.4, 0.2)
        30.0
        """
        return self._wait(asked, drawn, first, None)

    def _wait(self, asked: float, drawn: float, first: float, rng: Random | None) -> float | None:
        if not asked > 0:
            return drawn
        if asked > self.limit:
            if self.over_limit == "stop":
                return None
            if self.over_limit == "ignore" or self.limit == 0:
                return drawn
            asked = self.limit
        if rng is not None and self.spread:
            asked += rng.random() * max(self.spread * asked, min(1.0, asked))
        return max(asked, first if self.combine == "precedence" else drawn)
