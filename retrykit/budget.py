"""How many retries all calls together may make: what keeps retries from feeding an outage.

A policy's other limits hold for one call each. In an outage every call fails, and five attempts
each are five times the load, at the worst moment. A budget is shared by all calls of its policy,
or of several: successes fill it, retries draw on it. Its balance is the only state in retrykit that
outlives a call. It lives in this process alone.

Amounts are real numbers, held exactly: a setting counts as the simplest fraction that it is as a
float (0.1 as 1/10, 1/3 as 1/3), so ten successes at a ratio of 0.1 earn one retry, no more, no
less, and no rounding error adds up.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from math import lcm
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from retrykit._frozen import FrozenMap
from retrykit._validate import function, instance_not_class, number, shown, whole
from retrykit._value import Value
from retrykit.decision import RetryReason

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from retrykit.outcome import Call


@runtime_checkable
class Budget(Protocol):
    """What a policy's `budget` has. Called from all threads and tasks at once.

    Only retries are charged: a first attempt never asks. What is paid is what `withdraw` answers,
    in a unit of the budget's own. Equality, hash and pickling are of settings: a pickled or copied
    budget is a new one, and full.
    """

    def withdraw(self, call: Call, reason: RetryReason, /) -> float | None:
        """Pay for a retry: what was charged, or `None`, where the balance does not reach."""
        ...

    def settle(self, call: Call, /, *, succeeded: bool, spent: float, unused: float = 0.0) -> None:
        """The call is over, cancelled ones too; told once per call, without retries too.

        `spent`: the price of the last retry that started, zero where none did. `unused`: the price
        of a retry that was paid and not made: always given back.
        """
        ...

    def balance(self, call: Call | None = None, /) -> float:
        """What is there to draw on, for `call` where the budget tells calls apart."""
        ...


# One lock for all budgets: it is held for a handful of instructions, and one is enough to mind at
# a fork. Re-entrant, because comparing two keys may run code that makes a call of its own. What
# is done to an account under it calls no function, so that no signal handler gets in between.
_lock = RLock()


def _acquire_lock() -> None:
    _lock.acquire()


def _release_lock() -> None:
    _lock.release()


def _renew_lock() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    # Held across the fork, no other thread is half-way through a change that the child inherits.
    os.register_at_fork(
        before=_acquire_lock, after_in_parent=_release_lock, after_in_child=_renew_lock
    )


class _Account:
    """A balance between zero and `capacity`, counted in whole units of `1 / scale`.

    Whole numbers do not drift. Full when made. `amounts` are those that it will deal in.
    """

    __slots__ = ("capacity", "known", "scale", "units")

    def __init__(self, capacity: float, *amounts: float) -> None:
        fractions = {amount: _fraction(amount) for amount in (0.0, capacity, *amounts)}
        self.scale = lcm(*(denominator for _, denominator in fractions.values()))
        self.known = {
            amount: numerator * self.scale // denominator
            for amount, (numerator, denominator) in fractions.items()
        }
        self.capacity = self.units = self.known[capacity]

    def units_of(self, field: str, amount: float) -> int:
        """`amount` in units, rounded down: nobody is given back more than was paid.

        Raises `TypeError` or `ValueError`, naming `field`, for what is no amount.
        """
        known = self.known.get(amount)
        if known is not None:
            return known
        numerator, denominator = _fraction(number(field, amount))
        return numerator * self.scale // denominator

    def take(self, units: int) -> bool:
        """Take `units`, or nothing where there are fewer."""
        with _lock:
            left = self.units - units
            if left < 0:
                return False
            self.units = left
        return True

    def give(self, units: int) -> None:
        """Add `units`, up to the capacity."""
        if self.units == self.capacity:
            # Nothing can be added: the usual case, answered without the lock.
            return
        with _lock:
            units += self.units
            self.units = units if units < self.capacity else self.capacity  # noqa: FURB136 - min() is a call


def _fraction(value: float) -> tuple[int, int]:
    """The first continued fraction of `value` that is it as a float: 0.3 is (3, 10)."""
    numerator, denominator = value.as_integer_ratio()
    p, q, p_before, q_before = 1, 0, 0, 1
    while True:
        whole_part, rest = divmod(numerator, denominator)
        p, p_before = whole_part * p + p_before, p
        q, q_before = whole_part * q + q_before, q
        if p / q == value:
            return p, q
        numerator, denominator = denominator, rest


class _Bucket(Value):
    """What the two budgets share: an account that is no part of the settings."""

    __slots__ = ("_account",)

    _account: _Account

    def balance(self, call: Call | None = None) -> float:  # noqa: ARG002 - one balance for all calls
        """What is there to draw on now; the same for every call."""
        account = self._account
        return account.units / account.scale


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class RatioBudget(_Bucket):
    """Each successful call earns `ratio` of a retry; each retry costs 1. There is no clock in it.

    The balance starts at `reserve`, and never passes it. So an outage costs at most `reserve`
    retries, however long it lasts, and a server that fails now and then is helped in full as long
    as its failures stay below `ratio / (1 + ratio)` of the attempts: a third with the default.
    There the load is highest, at most `1 + ratio` times the calls. `ratio=1` helps further, up to
    one half, at the price of nearly twice the load in a brown-out: 1.9 times, measured, where the
    default came to 1.5. (The idea is Finagle's retry budget, without its time window.)

    The reserve is per budget and per process: a hundred workers with 20 each make up to 2,000
    retries in an outage. Scale it down where there are many small ones.

    `ratio` must be above zero and `reserve` at least 1: below, no retry could ever be paid again.
    Both must be finite. Raises `TypeError` or `ValueError`.

    >>> from retrykit.outcome import Call
    >>> call = Call(print)
    >>> budget = RatioBudget(ratio=0.5, reserve=1)
    >>> budget.withdraw(call, RetryReason.TRANSIENT), budget.withdraw(call, RetryReason.TRANSIENT)
    (1.0, None)
    >>> budget.settle(call, succeeded=True, spent=1.0)
    >>> budget.balance()
    0.5
    """

    _: KW_ONLY
    ratio: float
    reserve: float

    def __init__(self, ratio: float = 0.5, reserve: float = 20) -> None:
        share = number("ratio", ratio, above=True)
        most = number("reserve", reserve, low=1.0)
        self._put(ratio=share, reserve=most, _account=_Account(most, share, 1.0))

    def withdraw(self, call: Call, reason: RetryReason) -> float | None:  # noqa: ARG002 - all pay the same
        """Pay 1 for a retry, whatever its reason; `None` where the balance is below 1."""
        account = self._account
        return 1.0 if account.take(account.scale) else None

    def settle(self, call: Call, *, succeeded: bool, spent: float, unused: float = 0.0) -> None:  # noqa: ARG002 - one balance for all calls; what was spent is gone
        """Earn `ratio` if the call succeeded, and take back what it paid and did not use."""
        account = self._account
        units = account.units_of("unused", unused)
        account.give(units + account.known[self.ratio] if succeeded else units)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ratio, self.reserve)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TokenBudget(_Bucket):
    """The AWS SDKs' retry quota: a bucket of tokens, and a retry costs by its reason.

    The bucket starts with `tokens`, and never holds more. A retry costs `prices[reason]`, or
    `default` where the reason has no price of its own. A call that succeeds gives back what its
    last retry cost, or `reward` where it needed none; a call that fails gives nothing back.
    The numbers are those of the AWS SDKs' standard mode since 2026 (botocore's
    `retries/standard.py` and `retries/quota.py`; aws/aws-sdk-cpp#3832): 500 tokens, 14 for
    a transient failure, 5 where the server throttles, 1 for a success at once. So an outage
    costs at most 35 retries, or 100 where it throttles.

    A price of zero is free and never refused: for results that are polled for, say. A price above
    `tokens` is a `ValueError`, for it could never be paid, as are `tokens` and `reward` of zero,
    and what is negative, NaN or infinite. `prices` is kept as a frozen copy. Per process, as
    `RatioBudget`.

    >>> from retrykit.outcome import Call
    >>> call = Call(print)
    >>> budget = TokenBudget()
    >>> budget.withdraw(call, RetryReason.TIMED_OUT), budget.withdraw(call, RetryReason.THROTTLED)
    (14.0, 5.0)
    >>> budget.balance()
    481.0
    >>> budget.settle(call, succeeded=True, spent=5.0)
    >>> budget.balance()
    486.0
    """

    _: KW_ONLY
    tokens: float
    prices: Mapping[RetryReason, float]
    default: float
    reward: float

    def __init__(
        self,
        tokens: float = 500,
        prices: Mapping[RetryReason, float] = FrozenMap({RetryReason.THROTTLED: 5}),
        default: float = 14,
        reward: float = 1,
    ) -> None:
        most = number("tokens", tokens, above=True)
        listed = _prices(prices, most)
        other = _payable("default", default, most)
        gain = number("reward", reward, above=True)
        account = _Account(most, other, gain, *listed.values())
        self._put(tokens=most, prices=listed, default=other, reward=gain, _account=account)

    def withdraw(self, call: Call, reason: RetryReason) -> float | None:  # noqa: ARG002 - one balance for all calls
        """Pay the price of `reason`; `None` where the balance does not reach."""
        account = self._account
        price = self.prices.get(reason, self.default)
        return price if account.take(account.known[price]) else None

    def settle(self, call: Call, *, succeeded: bool, spent: float, unused: float = 0.0) -> None:  # noqa: ARG002 - one balance for all calls
        """Take back what the last retry cost, or `reward`, if the call succeeded; and `unused`."""
        account = self._account
        units = account.units_of("unused", unused)
        if succeeded:
            units += account.units_of("spent", spent) or account.known[self.reward]
        account.give(units)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tokens, self.prices, self.default, self.reward)


def _prices(prices: Mapping[RetryReason, float], tokens: float) -> FrozenMap[RetryReason, float]:
    if not isinstance(prices, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"prices must map reasons to numbers, got {shown(prices)}")
    checked: dict[RetryReason, float] = {}
    for reason, price in prices.items():
        if reason.__class__ is not RetryReason:
            raise TypeError(f"prices must have a RetryReason for each key, got {shown(reason)}")
        checked[reason] = _payable(f"prices[{reason!r}]", price, tokens)
    return FrozenMap(checked)


def _payable(field: str, price: float, tokens: float) -> float:
    checked = number(field, price)
    if checked > tokens:
        raise ValueError(f"{field} must be at most tokens ({tokens:g}), got {price!r}")
    return checked


class _Shelf(Value):
    """What a `PerKey` holds that is no part of its settings."""

    __slots__ = ("_budgets", "_fresh")

    _budgets: OrderedDict[Hashable, Budget]
    _fresh: Budget


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class PerKey(_Shelf):
    """A budget of its own for each key, such as the host: one that is down costs the others none.

    `key` says which: a plain function of the call. `budget` is the template: each key's budget is
    a new and full copy of it, made when the key first asks for a retry; the template itself is
    never charged. What `key` raises comes out of `withdraw` and `settle`; a key that is not
    hashable is a `TypeError` there.

    At most `size` budgets are held. Beyond, the one that was longest ago asked for a retry is
    dropped, and its key starts again with a full one: so choose `size` above the number of keys
    that may be in trouble at the same time, and no key that anybody can make up. Keys whose calls
    need no retry take no room.

    `balance()` without a call is the lowest of all keys. Pickles and copies where `key` and
    `budget` do, to an empty shelf.

    >>> from retrykit.outcome import Call
    >>> budget = PerKey(lambda call: call.args[0], RatioBudget(reserve=1))
    >>> a, b = Call(print, args=("a.example",)), Call(print, args=("b.example",))
    >>> [budget.withdraw(call, RetryReason.TIMED_OUT) for call in (a, a, b)]
    [1.0, None, 1.0]
    """

    key: Callable[[Call], Hashable]
    budget: Budget
    _: KW_ONLY
    size: int

    def __init__(self, key: Callable[[Call], Hashable], budget: Budget, size: int = 1000) -> None:
        function("key", key)
        instance_not_class("budget", budget)
        if not isinstance(budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
            raise TypeError(f"budget must have withdraw, settle and balance, got {shown(budget)}")
        most = whole("size", size, low=1)
        try:
            fresh = deepcopy(budget)
        except Exception as error:
            raise TypeError(f"budget must be copyable, got {shown(budget)}") from error
        budgets: OrderedDict[Hashable, Budget] = OrderedDict()
        self._put(key=key, budget=budget, size=most, _budgets=budgets, _fresh=fresh)

    def withdraw(self, call: Call, reason: RetryReason) -> float | None:
        """Pay from the budget of the call's key, which is made here if it is the key's first."""
        key = self.key(call)
        budgets = self._budgets
        with _lock:
            budget = budgets.get(key)
            if budget is not None:
                budgets.move_to_end(key)
        if budget is None:
            fresh = deepcopy(self._fresh)
            with _lock:
                # Another thread may have been faster: both then draw on the one that is there.
                budget = budgets.setdefault(key, fresh)
                if len(budgets) > self.size:
                    budgets.popitem(last=False)
        return budget.withdraw(call, reason)

    def settle(self, call: Call, *, succeeded: bool, spent: float, unused: float = 0.0) -> None:
        """Settle with the budget of the call's key. A key without one has nothing to earn."""
        budget = self._budgets.get(self.key(call))
        if budget is not None:
            budget.settle(call, succeeded=succeeded, spent=spent, unused=unused)

    def balance(self, call: Call | None = None) -> float:
        """What is there for the call's key; without a call, the lowest of all keys."""
        if call is None:
            with _lock:
                budgets = list(self._budgets.values())
            return min((budget.balance() for budget in budgets), default=self._fresh.balance())
        return self._budgets.get(self.key(call), self._fresh).balance(call)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.budget, self.size)
