"""Budgets: exact, shared by all threads, and refilled by success alone."""

from __future__ import annotations

import copy
import dataclasses
import heapq
import math
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from retrykit.budget import Budget, PerKey, RatioBudget, TokenBudget
from retrykit.decision import RetryReason
from retrykit.outcome import Call

CALL = Call(print)
TRANSIENT, THROTTLED = RetryReason.TRANSIENT, RetryReason.THROTTLED


def host(call):
    """The host that a test's call goes to."""
    return call.args


def call_to(key):
    return Call(print, args=(key,))


def drain(budget, call=CALL, reason=TRANSIENT):
    """Withdraw until the budget refuses; how many retries that were."""
    paid = 0
    while budget.withdraw(call, reason) is not None:
        paid += 1
    return paid


EVERY_BUDGET = [
    RatioBudget(),
    RatioBudget(0.3, 7.5),
    TokenBudget(),
    TokenBudget(40, {RetryReason.TIMED_OUT: 10, RetryReason.CONFLICT: 0.5}, 2.5, 0.1),
    PerKey(host, RatioBudget(0.2, 5), size=3),
    PerKey(host, TokenBudget()),
]
each_budget = pytest.mark.parametrize("budget", EVERY_BUDGET, ids=repr)


# What every budget is


@each_budget
def test_is_a_budget(budget):
    """What a policy accepts as its budget is recognised by shape."""
    assert isinstance(budget, Budget)


@each_budget
def test_a_first_attempt_is_never_charged(budget):
    """A thousand calls that fail at once, without a retry, leave the balance where it was."""
    before = budget.balance()
    for _ in range(1000):
        budget.settle(CALL, succeeded=False, spent=0.0)
    assert budget.balance() == before


@each_budget
def test_starts_full_and_success_does_not_overfill_it(budget):
    """A full budget is as full after a success as before it."""
    budget = copy.copy(budget)
    before = budget.balance(CALL)
    budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.balance(CALL) == before


@each_budget
def test_what_is_paid_and_not_made_is_given_back(budget):
    """A call that is cancelled in its wait gets the price of that retry back."""
    budget = copy.copy(budget)
    before = budget.balance(CALL)
    price = budget.withdraw(CALL, TRANSIENT)
    assert budget.balance(CALL) == before - price
    budget.settle(CALL, succeeded=False, spent=0.0, unused=price)
    assert budget.balance(CALL) == before


@each_budget
def test_giving_back_does_not_overfill(budget):
    """What is given back to a budget that filled up in the meantime is capped, not added."""
    budget = copy.copy(budget)
    full = budget.balance(CALL)
    price = budget.withdraw(CALL, TRANSIENT)
    for _ in range(200):
        budget.settle(CALL, succeeded=True, spent=0.0)
    budget.settle(CALL, succeeded=True, spent=price, unused=price)
    assert budget.balance(CALL) == full


@each_budget
def test_a_drained_budget_recovers_by_successes(budget):
    """A bucket that never refilled after success refused every retry (aws/aws-sdk-java-v2#5345)."""
    budget = copy.copy(budget)
    full = budget.balance(CALL)
    assert drain(budget) > 0
    for _ in range(1000):
        budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.balance(CALL) == full
    assert budget.withdraw(CALL, TRANSIENT) is not None


@each_budget
def test_the_same_settings_are_equal_and_hash_alike_whatever_was_spent(budget):
    """The balance is no part of a budget's identity."""
    drained = copy.copy(budget)
    drain(drained)
    assert drained == budget
    assert hash(drained) == hash(budget)
    assert len({drained, budget}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RatioBudget(0.5), RatioBudget(0.6)),
        (RatioBudget(reserve=20), RatioBudget(reserve=21)),
        (TokenBudget(500), TokenBudget(501)),
        (TokenBudget(prices={}), TokenBudget()),
        (TokenBudget(default=14), TokenBudget(default=13)),
        (TokenBudget(reward=1), TokenBudget(reward=2)),
        (PerKey(host, RatioBudget()), PerKey(host, TokenBudget())),
        (PerKey(host, RatioBudget()), PerKey(print, RatioBudget())),
        (PerKey(host, RatioBudget(), size=2), PerKey(host, RatioBudget(), size=3)),
        (RatioBudget(), TokenBudget()),
    ],
    ids=repr,
)
def test_other_settings_are_not_equal(one, other):
    """Each setting counts in a comparison."""
    assert one != other


@each_budget
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, dataclasses.replace, lambda b: pickle.loads(pickle.dumps(b))],
    ids=["copy", "deepcopy", "replace", "pickle"],
)
def test_a_copy_is_equal_and_full_and_apart(budget, copied):
    """A copied or pickled budget has the settings and none of the spending, then or later."""
    budget = copy.copy(budget)
    full = budget.balance(CALL)
    drain(budget)
    left = budget.balance(CALL)
    twin = copied(budget)
    assert twin == budget
    assert twin.balance(CALL) == full
    drain(twin)
    budget.settle(CALL, succeeded=True, spent=0.0)
    assert twin.balance(CALL) == left < budget.balance(CALL)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@each_budget
def test_pickles_with_every_protocol(budget, protocol):
    """Task queues choose the protocol, old ones too."""
    assert pickle.loads(pickle.dumps(budget, protocol)) == budget


@pytest.mark.parametrize("budget", [b for b in EVERY_BUDGET if not isinstance(b, PerKey)], ids=repr)
def test_the_repr_is_its_documentation(budget):
    """A budget's `repr`, evaluated, is the budget."""
    names = {"RatioBudget": RatioBudget, "TokenBudget": TokenBudget, "RetryReason": RetryReason}
    assert eval(repr(budget), names) == budget


def test_the_repr_of_a_keyed_budget_names_its_template():
    """The `repr` of a `PerKey` shows key, template and size, and nothing that it holds."""
    budget = PerKey(len, RatioBudget(0.5, 20), size=7)
    assert repr(budget) == ("PerKey(len, RatioBudget(ratio=0.5, reserve=20.0), size=7)")


@each_budget
def test_the_settings_are_frozen(budget):
    """No setting can be changed, and no attribute added, once a budget is made."""
    for field in dataclasses.fields(budget):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(budget, field.name, getattr(budget, field.name))
    with pytest.raises((AttributeError, TypeError)):
        budget.attempts = 1


@each_budget
def test_a_subclass_copies_as_itself(budget):
    """A user's subclass stays one when it is pickled or copied."""
    kind = type(type(budget).__name__, (type(budget),), {"__slots__": ()})
    values = {f.name: getattr(budget, f.name) for f in dataclasses.fields(budget)}
    assert type(copy.deepcopy(kind(**values))) is kind


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RatioBudget(0), ValueError, "ratio must be above 0, got 0"),
        (lambda: RatioBudget(-0.5), ValueError, "ratio must be above 0, got -0.5"),
        (lambda: RatioBudget(math.nan), ValueError, "ratio must be finite, got nan"),
        (lambda: RatioBudget(math.inf), ValueError, "ratio must be finite, got inf"),
        (lambda: RatioBudget(True), TypeError, "ratio must be a number, got True"),
        (lambda: RatioBudget("0.5"), TypeError, "ratio must be a number, got '0.5'"),
        (lambda: RatioBudget(None), TypeError, "ratio must be a number, got None"),
        (lambda: RatioBudget(reserve=0), ValueError, "reserve must be at least 1, got 0"),
        (lambda: RatioBudget(reserve=0.9), ValueError, "reserve must be at least 1, got 0.9"),
        (lambda: RatioBudget(reserve=-1), ValueError, "reserve must be at least 1, got -1"),
        (lambda: RatioBudget(reserve=math.inf), ValueError, "reserve must be finite, got inf"),
        (lambda: RatioBudget(reserve=10**400), ValueError, "reserve must be finite"),
        (lambda: RatioBudget(reserve=True), TypeError, "reserve must be a number, got True"),
        (lambda: TokenBudget(0), ValueError, "tokens must be above 0, got 0"),
        (lambda: TokenBudget(math.nan), ValueError, "tokens must be finite, got nan"),
        (lambda: TokenBudget(13), ValueError, "default must be at most tokens (13), got 14"),
        (lambda: TokenBudget(default=-1), ValueError, "default must be at least 0, got -1"),
        (lambda: TokenBudget(default=False), TypeError, "default must be a number, got False"),
        (lambda: TokenBudget(reward=0), ValueError, "reward must be above 0, got 0"),
        (lambda: TokenBudget(reward=math.inf), ValueError, "reward must be finite, got inf"),
        (lambda: TokenBudget(prices=5), TypeError, "prices must map reasons to numbers, got 5"),
        (lambda: TokenBudget(prices=None), TypeError, "prices must map reasons to numbers"),
        (
            lambda: TokenBudget(prices={"throttled": 5}),
            TypeError,
            "prices must have a RetryReason for each key, got 'throttled'",
        ),
        (
            lambda: TokenBudget(prices={THROTTLED: -5}),
            ValueError,
            "prices[RetryReason.THROTTLED] must be at least 0, got -5",
        ),
        (
            lambda: TokenBudget(prices={THROTTLED: 501}),
            ValueError,
            "prices[RetryReason.THROTTLED] must be at most tokens (500), got 501",
        ),
        (lambda: PerKey("host", RatioBudget()), TypeError, "key must be callable, got 'host'"),
        (lambda: PerKey(str, RatioBudget()), TypeError, "key must be an instance"),
        (lambda: PerKey(host, RatioBudget), TypeError, "budget must be an instance"),
        (lambda: PerKey(host, 20), TypeError, "budget must have withdraw, settle and balance"),
        (lambda: PerKey(host, None), TypeError, "budget must have withdraw, settle and balance"),
        (lambda: PerKey(host, RatioBudget(), size=0), ValueError, "size must be at least 1, got 0"),
        (lambda: PerKey(host, RatioBudget(), size=2.5), TypeError, "size must be a whole number"),
        (lambda: PerKey(host, RatioBudget(), size=True), TypeError, "size must be a whole number"),
    ],
)
def test_nonsense_is_refused_at_construction(make, error, text):
    """A bad setting is refused with its name and value before anything is called."""
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


def test_an_async_key_is_refused():
    """A key function that returns a coroutine would give every call a key of its own."""

    async def key(call):
        return 1

    with pytest.raises(TypeError, match="key must be a plain function"):
        PerKey(key, RatioBudget())


def test_a_template_that_cannot_be_copied_is_refused():
    """A template's copies are needed later, in flight: so that it has none is told at once."""

    class Mine(RatioBudget):
        def __reduce__(self):
            raise TypeError("no")

    with pytest.raises(TypeError, match="budget must be copyable"):
        PerKey(host, Mine())


@each_budget
@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, "1"])
def test_a_nonsense_amount_is_refused_and_changes_nothing(budget, amount):
    """What a faulty executor hands back neither poisons nor overfills the balance."""
    budget = copy.copy(budget)
    budget.withdraw(CALL, TRANSIENT)
    before = budget.balance(CALL)
    with pytest.raises((TypeError, ValueError), match="unused"):
        budget.settle(CALL, succeeded=True, spent=0.0, unused=amount)
    assert budget.balance(CALL) == before


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, "1"])
def test_a_nonsense_spending_is_refused_and_changes_nothing(amount):
    """A negative or endless last price would drain the bucket for ever, or fill it."""
    budget = TokenBudget()
    budget.withdraw(CALL, TRANSIENT)
    with pytest.raises((TypeError, ValueError), match="spent"):
        budget.settle(CALL, succeeded=True, spent=amount)
    assert budget.balance() == 486.0


@pytest.mark.parametrize(("amount", "balance"), [(0.25, 0.0), (0.75, 0.5), (1e-9, 0.0), (7.6, 7.5)])
def test_an_amount_that_the_budget_never_charged_is_rounded_down(amount, balance):
    """What another's executor makes up is given back in the budget's own steps, here halves."""
    budget = RatioBudget(0.5, reserve=20)
    drain(budget)
    budget.settle(CALL, succeeded=False, spent=0.0, unused=amount)
    assert budget.balance() == balance


# RatioBudget


def test_each_retry_costs_one_whatever_its_reason():
    """A ratio budget does not tell reasons apart."""
    budget = RatioBudget(reserve=20)
    assert [budget.withdraw(CALL, reason) for reason in RetryReason] == [1.0] * len(RetryReason)
    assert budget.balance() == 20 - len(RetryReason)


def test_refuses_below_one_and_keeps_what_is_left():
    """Half a retry buys none, and is not lost."""
    budget = RatioBudget(reserve=1.5)
    assert budget.withdraw(CALL, TRANSIENT) == 1.0
    assert budget.withdraw(CALL, TRANSIENT) is None
    assert budget.balance() == 0.5


@pytest.mark.parametrize(
    ("ratio", "successes", "retries"),
    [
        (0.6, 100, 60),
        (0.1, 100, 10),
        (0.1, 9, 0),
        (0.3, 10, 3),
        (0.7, 10, 7),
        (1 / 3, 3, 1),
        (1 / 3, 2, 0),
        (2 / 7, 7, 2),
        (0.07, 100, 7),
        (1, 5, 5),
        (1.5, 2, 3),
        (2.5, 2, 5),
    ],
)
def test_successes_earn_their_ratio_to_the_last_digit(ratio, successes, retries):
    """A ratio is a real number: 0.6 is neither 0 nor 100 %, and ten times 0.1 is 1."""
    budget = RatioBudget(ratio, reserve=100)
    drain(budget)
    for _ in range(successes):
        budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.balance() == pytest.approx(ratio * successes)
    assert drain(budget) == retries


def test_a_tiny_ratio_is_not_lost_in_a_large_balance():
    """A thousand times 1e-9 shows in a balance of nearly 1e9, where adding floats lost it."""
    budget = RatioBudget(1e-9, reserve=1e9)
    for _ in range(2):
        budget.withdraw(CALL, TRANSIENT)
    for _ in range(1000):
        budget.settle(CALL, succeeded=True, spent=0.0)
    budget.settle(CALL, succeeded=False, spent=0.0, unused=1.0)
    assert budget.balance() == 999_999_999.000001


@pytest.mark.parametrize("ratio", [5e-324, 1e-300, 1e-9, 1e9, 1e300, sys.float_info.max])
@pytest.mark.parametrize("reserve", [1, 1.1, 1e9, 1e300, sys.float_info.max])
def test_extreme_settings_stay_within_bounds(ratio, reserve):
    """However small or large the settings, the balance stays finite and within its bounds."""
    budget = RatioBudget(ratio, reserve)
    for _ in range(3):
        assert budget.withdraw(CALL, TRANSIENT) in (1.0, None)
        assert 0 <= budget.balance() <= reserve
        budget.settle(CALL, succeeded=True, spent=1.0)
        assert 0 <= budget.balance() <= reserve


def test_an_outage_costs_its_reserve_and_no_more():
    """However many calls fail, all their retries together are those of the reserve."""
    budget = RatioBudget(reserve=20)
    assert sum(drain(budget) for _ in range(10_000)) == 20


def run(failing, ratio=0.5, calls=6000, attempts=5):
    """100 calls a second at a server that fails so often: the share saved, attempts per call."""
    rng, budget = random.Random(1), RatioBudget(ratio)
    at, due = 0.0, []
    for number in range(calls):
        at += rng.expovariate(100)
        heapq.heappush(due, (at, number, 1))
    saved = made = 0
    while due:
        now, number, attempt = heapq.heappop(due)
        made += 1
        if rng.random() >= failing:
            saved += 1
            budget.settle(CALL, succeeded=True, spent=float(attempt > 1))
        elif attempt < attempts and budget.withdraw(CALL, TRANSIENT) is not None:
            wait = rng.uniform(0, 0.25 * 2 ** (attempt - 1))
            heapq.heappush(due, (now + wait, number, attempt + 1))
        else:
            budget.settle(CALL, succeeded=False, spent=float(attempt > 1))
    return saved / calls, made / calls


@pytest.mark.parametrize(("failing", "least"), [(0.1, 0.9995), (0.3, 0.994)])
def test_a_flaky_server_is_still_helped(failing, least):
    """Up to a third of failures, the default budget saves nearly all that five attempts can."""
    saved, _ = run(failing)
    assert saved >= least


@pytest.mark.parametrize(("ratio", "most"), [(0.5, 1.5), (1, 2.0)])
@pytest.mark.parametrize("failing", [0.2, 1 / 3, 0.5, 0.7, 0.95, 1.0])
def test_the_load_stays_below_one_and_the_ratio(failing, ratio, most):
    """Whatever share fails, attempts per call stay below `1 + ratio`, the reserve aside."""
    _, load = run(failing, ratio)
    assert load <= most + 20 / 6000


# TokenBudget


@pytest.mark.parametrize(
    ("reason", "price"),
    [(reason, 5.0 if reason is THROTTLED else 14.0) for reason in RetryReason],
)
def test_the_aws_prices(reason, price):
    """AWS's prices since 2026: 5 where the server throttles, 14 otherwise, out of 500."""
    budget = TokenBudget()
    assert budget.balance() == 500.0
    assert budget.withdraw(CALL, reason) == price
    assert budget.balance() == 500.0 - price
    assert drain(TokenBudget(), reason=reason) == 500 // price


def test_success_gives_back_what_the_last_retry_cost():
    """Of two retries, 14 and 5, the last one's 5 come back."""
    budget = TokenBudget()
    budget.withdraw(CALL, TRANSIENT)
    spent = budget.withdraw(CALL, THROTTLED)
    budget.settle(CALL, succeeded=True, spent=spent)
    assert budget.balance() == 500 - 14


def test_success_without_a_retry_gives_one():
    """A success at once earns the reward."""
    budget = TokenBudget()
    drain(budget)
    before = budget.balance()
    budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.balance() == before + 1


def test_failure_gives_nothing_back():
    """What a call spent in vain is gone."""
    budget = TokenBudget()
    spent = budget.withdraw(CALL, TRANSIENT)
    budget.settle(CALL, succeeded=False, spent=spent)
    assert budget.balance() == 486.0


def test_what_one_reason_cannot_pay_another_may():
    """With 5 to 13 tokens left, a throttled retry is paid and a transient one is not."""
    budget = TokenBudget(20)
    assert budget.withdraw(CALL, TRANSIENT) == 14.0
    assert budget.withdraw(CALL, TRANSIENT) is None
    assert budget.withdraw(CALL, THROTTLED) == 5.0
    assert budget.withdraw(CALL, THROTTLED) is None
    assert budget.balance() == 1.0


def test_a_price_of_zero_is_free_and_never_refused():
    """Polling for a result may be kept out of the budget; zero is charged, not `None`."""
    budget = TokenBudget(14, {RetryReason.UNSATISFACTORY: 0})
    drain(budget)
    assert budget.withdraw(CALL, RetryReason.UNSATISFACTORY) == 0.0
    budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.balance() == 1.0


def test_the_prices_are_a_frozen_copy():
    """A mapping that is changed later changes no price, and the kept one cannot be changed."""
    prices = {THROTTLED: 3}
    budget = TokenBudget(prices=prices)
    prices[THROTTLED] = 1
    assert budget.prices == {THROTTLED: 3.0}
    assert budget.withdraw(CALL, THROTTLED) == 3.0
    with pytest.raises(TypeError):
        budget.prices[THROTTLED] = 1


# PerKey


def test_each_key_has_a_budget_of_its_own():
    """One host that is down leaves the other's retries alone."""
    budget = PerKey(host, RatioBudget(reserve=3))
    assert drain(budget, call_to("a")) == 3
    assert budget.balance(call_to("a")) == 0.0
    assert budget.balance(call_to("b")) == 3.0
    assert drain(budget, call_to("b")) == 3


def test_successes_fill_their_own_key():
    """What one host's successes earn is for that host."""
    budget = PerKey(host, RatioBudget(0.5, 3))
    drain(budget, call_to("a"))
    drain(budget, call_to("b"))
    budget.settle(call_to("a"), succeeded=True, spent=0.0)
    assert budget.balance(call_to("a")) == 0.5
    assert budget.balance(call_to("b")) == 0.0


def test_the_template_is_never_charged():
    """The template may be another policy's budget: neither draws on the other."""
    template = RatioBudget(reserve=3)
    budget = PerKey(host, template)
    drain(budget, call_to("a"))
    assert template.balance() == 3.0
    drain(template)
    assert budget.balance(call_to("b")) == 3.0
    assert drain(budget, call_to("b")) == 3


def test_the_key_longest_ago_in_need_is_dropped():
    """Past `size` keys the one that asked longest ago starts again, with a full budget."""
    budget = PerKey(host, RatioBudget(reserve=5), size=2)
    for key in ("a", "b", "a", "c"):
        budget.withdraw(call_to(key), TRANSIENT)
    assert [budget.balance(call_to(key)) for key in "abc"] == [3.0, 5.0, 4.0]


def test_keys_that_need_no_retry_take_no_room():
    """A thousand healthy hosts do not drop the one in trouble."""
    budget = PerKey(host, RatioBudget(reserve=5), size=1)
    drain(budget, call_to("down"))
    for number in range(1000):
        budget.settle(call_to(number), succeeded=True, spent=0.0)
        budget.balance(call_to(number))
    assert budget.balance(call_to("down")) == 0.0


def test_no_more_than_size_budgets_are_held():
    """Keys without end do not fill the memory."""
    budget = PerKey(host, RatioBudget(), size=10)
    for number in range(1000):
        budget.withdraw(call_to(number), TRANSIENT)
    assert sum(budget.balance(call_to(number)) == 19.0 for number in range(1000)) == 10


def test_a_thousand_keys_unless_told_otherwise():
    """The default room is large, and not without end."""
    assert PerKey(host, RatioBudget()).size == 1000


def test_the_balance_without_a_call_is_the_lowest():
    """An alarm looks at the key that is nearest to its end; a full shelf is a full template."""
    budget = PerKey(host, RatioBudget(reserve=5))
    assert budget.balance() == 5.0
    budget.withdraw(call_to("a"), TRANSIENT)
    for _ in range(3):
        budget.withdraw(call_to("b"), TRANSIENT)
    assert budget.balance() == 2.0


def failing_key(call):
    raise LookupError("no host")


@pytest.mark.parametrize(
    ("key", "error"), [(failing_key, LookupError), (lambda call: [], TypeError)]
)
def test_a_key_that_fails_says_so(key, error):
    """What the key function raises, or an unhashable key, is the caller's to handle."""
    budget = PerKey(key, RatioBudget())
    with pytest.raises(error):
        budget.withdraw(CALL, TRANSIENT)
    with pytest.raises(error):
        budget.settle(CALL, succeeded=True, spent=0.0)
    with pytest.raises(error):
        budget.balance(CALL)
    assert budget.balance() == 20.0


def test_a_keyed_budget_may_be_keyed_again():
    """Keys nest: per tenant, then per host."""
    budget = PerKey(lambda call: call.args[0][0], PerKey(host, RatioBudget(reserve=2)))
    assert drain(budget, call_to("t1")) == 2
    assert drain(budget, call_to("t2")) == 2
    assert drain(budget, call_to("u1")) == 2
    assert budget.balance() == 0.0


class LooksAround:
    """A key that draws on its budget whenever it is compared."""

    def __init__(self):
        self.asked = lambda: None

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.asked()
        return type(other) is LooksAround


def test_a_key_that_makes_calls_when_compared_does_not_deadlock():
    """The lock is re-entrant: what runs under it may come back to a budget."""
    inner, budget = RatioBudget(), PerKey(host, RatioBudget())
    key = LooksAround()
    budget.withdraw(call_to(key), TRANSIENT)
    key.asked = lambda: inner.withdraw(CALL, TRANSIENT)
    worker = threading.Thread(
        target=lambda: budget.withdraw(call_to(LooksAround()), TRANSIENT), daemon=True
    )
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert budget.balance() == 18.0
    assert inner.balance() < 20.0


# Threads and forks


@pytest.fixture
def hurried():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_64_threads(work):
    """`work(number)` in 64 threads that start together; what they return."""
    start = threading.Barrier(64)

    def one(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(64) as pool:
        return list(pool.map(one, range(64)))


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (RatioBudget(reserve=2000), 2000),
        (RatioBudget(reserve=1999.75), 1999),
        (TokenBudget(30_000), 30_000 // 14),
        (PerKey(host, RatioBudget(reserve=2000)), 2000),
    ],
    ids=repr,
)
def test_64_threads_get_exactly_what_is_there(budget, most):
    """Retries of calls that are still waiting count: not one too many, not one too few."""
    budget = copy.copy(budget)
    got = in_64_threads(
        lambda _: sum(budget.withdraw(CALL, TRANSIENT) is not None for _ in range(100))
    )
    assert sum(got) == most


@pytest.mark.usefixtures("hurried")
def test_64_threads_lose_nothing_that_is_given_back():
    """Withdrawn and given back thousands of times at once, the balance is what it was."""
    budget = RatioBudget(reserve=1000)
    for _ in range(500):
        budget.withdraw(CALL, TRANSIENT)

    def work(_):
        for _ in range(100):
            price = budget.withdraw(CALL, TRANSIENT)
            budget.settle(CALL, succeeded=False, spent=0.0, unused=price)

    in_64_threads(work)
    assert budget.balance() == 500.0


@pytest.mark.usefixtures("hurried")
def test_64_threads_earn_exactly_their_share():
    """6,400 successes at 0.3 earn 1,920 retries."""
    budget = RatioBudget(0.3, reserve=5000)
    drain(budget)

    def work(_):
        for _ in range(100):
            budget.settle(CALL, succeeded=True, spent=0.0)

    in_64_threads(work)
    assert budget.balance() == 1920.0


class Hesitant(int):
    """A number that lets every other thread go first before it answers."""

    def __sub__(self, other):
        time.sleep(0.001)
        return Hesitant(int(self) - other)

    def __radd__(self, other):
        time.sleep(0.001)
        return Hesitant(other + int(self))


def test_nobody_gets_between_another_s_look_at_the_balance_and_its_payment():
    """The lock is held from the look to the payment, whatever the interpreter would let in."""
    budget = RatioBudget(reserve=40)
    budget._account.units = Hesitant(budget._account.units)
    assert sum(in_64_threads(lambda _: budget.withdraw(CALL, TRANSIENT) is not None)) == 40
    in_64_threads(lambda _: budget.settle(CALL, succeeded=True, spent=0.0))
    assert budget.balance() == 32.0


class HesitantKey:
    """A key that lets every other thread go first before it is found."""

    def __hash__(self):
        time.sleep(0.0002)
        return id(self)


def test_keys_that_come_and_go_under_64_threads_fail_nobody():
    """Two places and eight keys: budgets are dropped under others' hands, and nothing breaks."""
    budget = PerKey(lambda call: call.args[0], RatioBudget(reserve=1000), size=2)
    keys = [HesitantKey() for _ in range(8)]

    def work(number):
        for step in range(4):
            call = call_to(keys[(number + step) % 8])
            assert budget.withdraw(call, TRANSIENT) == 1.0
            budget.settle(call, succeeded=True, spent=1.0)
            assert budget.balance() > 0

    in_64_threads(work)
    assert sum(budget.balance(call_to(key)) < 1000 for key in keys) <= 2


@pytest.mark.usefixtures("hurried")
def test_64_threads_share_one_budget_for_each_key():
    """A key that is new to many threads at once still gets one budget."""
    budget = PerKey(host, RatioBudget(reserve=40))
    got = Counter()
    for paid in in_64_threads(
        lambda number: {
            key: sum(budget.withdraw(call_to(key), TRANSIENT) is not None for _ in range(3))
            for key in (*range(number % 8, 8), *range(number % 8))
        }
    ):
        got.update(paid)
    assert got == dict.fromkeys(range(8), 40)


def run_python(source):
    """Run in a process of its own, where forking with threads warns nobody."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)


def test_a_fork_while_another_thread_holds_the_lock_leaves_a_usable_budget():
    """A child, and its own child, draw on the budget although the lock's holder is not in them."""
    run_python(
        """
        import os, signal, threading, time
        from retrykit.budget import PerKey, RatioBudget
        from retrykit.decision import RetryReason
        from retrykit.outcome import Call

        class Slow:
            # Compared under the lock, and slow about it.
            held = threading.Event()
            def __hash__(self):
                return 1
            def __eq__(self, other):
                Slow.held.set()
                time.sleep(0.3)
                return True

        plain, keyed = RatioBudget(), PerKey(lambda call: call.args, RatioBudget())

        def draw(key):
            return keyed.withdraw(Call(print, args=key), RetryReason.TRANSIENT)

        def use():
            signal.alarm(10)
            assert plain.withdraw(Call(print), RetryReason.TRANSIENT) == 1.0
            plain.settle(Call(print), succeeded=True, spent=1.0)
            assert plain.balance() == 19.5
            assert draw("b") == 1.0
            drawn = []
            thread = threading.Thread(target=lambda: drawn.append(draw("d")))
            thread.start()
            thread.join()
            assert drawn == [1.0]

        def child_ends_well(work):
            child = os.fork()
            if child == 0:
                try:
                    work()
                    os._exit(0)
                finally:
                    os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        def fork_again():
            use()
            assert child_ends_well(lambda: draw("c"))

        draw((Slow(),))
        holder = threading.Thread(target=draw, args=((Slow(),),))
        holder.start()
        Slow.held.wait()
        assert child_ends_well(fork_again)
        holder.join()
        assert plain.balance() == 20.0
        use()
        print("fine")
        """
    )


def test_forks_in_the_midst_of_busy_threads_leave_a_usable_budget():
    """Thirty forks while four threads draw and give back: each child can use the budget."""
    run_python(
        """
        import os, signal, sys, threading
        from retrykit.budget import RatioBudget
        from retrykit.decision import RetryReason
        from retrykit.outcome import Call

        sys.setswitchinterval(1e-6)
        call, budget, over = Call(print), RatioBudget(reserve=100), threading.Event()

        def draw():
            price = budget.withdraw(call, RetryReason.TRANSIENT)
            budget.settle(call, succeeded=False, spent=0.0, unused=price)

        def busy():
            while not over.is_set():
                draw()

        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                draw()
                os._exit(0 if 95 <= budget.balance() <= 100 else 1)
            assert os.waitpid(child, 0)[1] == 0
        over.set()
        for thread in threads:
            thread.join()
        assert budget.balance() == 100
        print("fine")
        """
    )


# Against slow, obvious models: fractions, one step at a time

fractions = st.builds(Fraction, st.integers(1, 30), st.sampled_from([1, 2, 3, 5, 7, 10]))
reasons = st.sampled_from(list(RetryReason))


class Machine(RuleBasedStateMachine):
    """Calls that begin, retry, wait and end in any order; a subclass has the budget and model."""

    budget: Budget
    running = Bundle("running")
    waiting = Bundle("waiting")

    def withdrawn(self, key, reason):
        """The model's answer to a withdrawal, as a fraction."""
        raise NotImplementedError

    def settled(self, key, succeeded, spent, unused):
        """The model's settling; amounts are fractions."""
        raise NotImplementedError

    def expected(self, key):
        """The model's balance, its capacity."""
        raise NotImplementedError

    def settle(self, key, succeeded, spent, unused=None):
        self.settled(key, succeeded, spent or Fraction(0), unused or Fraction(0))
        more = {} if unused is None else {"unused": float(unused)}
        self.budget.settle(call_to(key), succeeded=succeeded, spent=float(spent or 0), **more)

    @rule(target=running, key=st.integers(0, 4))
    def begin(self, key):
        """A call makes its first attempt; nobody is asked."""
        return key, None

    @rule(target=waiting, call=consumes(running), reason=reasons)
    def fail(self, call, reason):
        """An attempt failed: the call waits for a retry that is paid, or ends."""
        key, spent = call
        price = self.withdrawn(key, reason)
        paid = self.budget.withdraw(call_to(key), reason)
        assert paid == (None if price is None else float(price))
        if price is None:
            self.settle(key, False, spent)
            return multiple()
        return key, spent, price

    @rule(target=running, call=consumes(waiting))
    def start_the_retry(self, call):
        """The wait is over, and the retry starts."""
        key, _, price = call
        return key, price

    @rule(call=consumes(waiting))
    def cancel_the_wait(self, call):
        """A call that is cancelled in its wait."""
        key, spent, price = call
        self.settle(key, False, spent, price)

    @rule(call=consumes(waiting))
    def succeed_without_the_retry(self, call):
        """Odd, but not excluded: success, with a retry that was paid and not made."""
        key, spent, price = call
        self.settle(key, True, spent, price)

    @rule(call=consumes(running), succeeded=st.booleans())
    def end(self, call, succeeded):
        """The last attempt's outcome ends the call."""
        self.settle(call[0], succeeded, call[1])

    @invariant()
    def agrees(self):
        """The balance is the model's, and within its bounds."""
        for key in range(5):
            expected, capacity = self.expected(key)
            assert self.budget.balance(call_to(key)) == float(expected)
            assert 0 <= expected <= capacity


class RatioMachine(Machine):
    """One fraction: less one for a retry, more for a success."""

    @initialize(ratio=fractions, reserve=fractions)
    def make(self, ratio, reserve):
        """Settings that are no whole numbers, as a user writes them."""
        self.ratio, self.reserve = ratio, reserve + 1
        self.left = self.reserve
        self.budget = RatioBudget(float(self.ratio), float(self.reserve))

    def withdrawn(self, key, reason):
        if self.left < 1:
            return None
        self.left -= 1
        return Fraction(1)

    def settled(self, key, succeeded, spent, unused):
        self.left = min(self.reserve, self.left + unused + (self.ratio if succeeded else 0))

    def expected(self, key):
        return self.left, self.reserve


class TokenMachine(Machine):
    """One fraction: less the reason's price, more what the last retry cost."""

    @initialize(
        tokens=fractions,
        default=fractions,
        prices=st.dictionaries(reasons, fractions),
        reward=fractions,
    )
    def make(self, tokens, default, prices, reward):
        """A bucket that can pay each price at least once."""
        self.tokens = tokens + max(default, *prices.values(), 0)
        self.prices = dict.fromkeys(RetryReason, default) | prices
        self.reward, self.left = reward, self.tokens
        listed = {reason: float(price) for reason, price in prices.items()}
        self.budget = TokenBudget(float(self.tokens), listed, float(default), float(reward))

    def withdrawn(self, key, reason):
        price = self.prices[reason]
        if self.left < price:
            return None
        self.left -= price
        return price

    def settled(self, key, succeeded, spent, unused):
        earned = (spent or self.reward) if succeeded else 0
        self.left = min(self.tokens, self.left + unused + earned)

    def expected(self, key):
        return self.left, self.tokens


class KeyMachine(Machine):
    """A list of keys, the last in need at its end, each with a fraction."""

    @initialize(ratio=fractions, reserve=fractions, size=st.integers(1, 5))
    def make(self, ratio, reserve, size):
        """Five keys, and room for one to five."""
        self.ratio, self.reserve, self.size = ratio, reserve + 1, size
        self.left = {}
        self.recent = []
        template = RatioBudget(float(self.ratio), float(self.reserve))
        self.budget = PerKey(host, template, size=size)

    def withdrawn(self, key, reason):
        if key in self.recent:
            self.recent.remove(key)
        else:
            self.left[key] = self.reserve
        self.recent.append(key)
        if len(self.recent) > self.size:
            del self.left[self.recent.pop(0)]
        if self.left[key] < 1:
            return None
        self.left[key] -= 1
        return Fraction(1)

    def settled(self, key, succeeded, spent, unused):
        if key in self.left:
            earned = self.ratio if succeeded else 0
            self.left[key] = min(self.reserve, self.left[key] + unused + earned)

    def expected(self, key):
        return self.left.get(key, self.reserve), self.reserve

    @invariant()
    def lowest(self):
        """Without a call, the lowest balance."""
        assert self.budget.balance() == float(min([self.reserve, *self.left.values()]))


bounded = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRatioBudgetAgainstItsModel = RatioMachine.TestCase
TestRatioBudgetAgainstItsModel.settings = bounded
TestTokenBudgetAgainstItsModel = TokenMachine.TestCase
TestTokenBudgetAgainstItsModel.settings = bounded
TestPerKeyAgainstItsModel = KeyMachine.TestCase
TestPerKeyAgainstItsModel.settings = bounded

positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(positive, st.floats(1, allow_infinity=False), st.lists(st.sampled_from("rsfc"), max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_setting_makes_the_balance_leave_its_bounds(ratio, reserve, steps):
    """Any ratio and reserve, in any order of retries, successes, failures and cancelled waits."""
    budget = RatioBudget(ratio, reserve)
    for step in steps:
        if step == "r":
            before = budget.balance()
            paid = budget.withdraw(CALL, TRANSIENT)
            assert paid == (1.0 if before >= 1 else None)
        elif step == "c" and budget.withdraw(CALL, TRANSIENT) is not None:
            budget.settle(CALL, succeeded=False, spent=0.0, unused=1.0)
        else:
            budget.settle(CALL, succeeded=step == "s", spent=1.0)
        assert 0 <= budget.balance() <= reserve


@given(st.floats(1e-3, 1e6), st.floats(1, 1e6))
@settings(max_examples=100, deadline=None)
def test_a_drained_budget_pays_again_after_one_over_ratio_successes(ratio, reserve):
    """Recovery takes as many successes as one retry costs, and no clock."""
    budget = RatioBudget(ratio, reserve)
    budget.settle(CALL, succeeded=False, spent=0.0)
    for _ in range(math.ceil(reserve) if reserve < 1000 else 0):
        budget.withdraw(CALL, TRANSIENT)
    for _ in range(math.ceil(1 / ratio) + 1):
        budget.settle(CALL, succeeded=True, spent=0.0)
    assert budget.withdraw(CALL, TRANSIENT) == 1.0


@pytest.mark.parametrize(
    ("budget", "told", "text"),
    [
        (RatioBudget(), {"unused": -1}, "unused must be at least 0, got -1"),
        (TokenBudget(), {"unused": math.nan}, "unused must be finite, got nan"),
        (TokenBudget(), {"spent": -2}, "spent must be at least 0, got -2"),
    ],
    ids=repr,
)
def test_a_settlement_in_no_amount_is_named(budget, told, text):
    """A driver that reports nonsense learns which of the two amounts it was."""
    with pytest.raises(ValueError, match=r"^(unused|spent)") as caught:
        budget.settle(Call(print), **{"succeeded": True, "spent": 0.0, **told})
    assert str(caught.value) == text


class Uncopyable(RatioBudget):
    """A budget that cannot be a template."""

    def __deepcopy__(self, memo):
        raise RuntimeError("there is one of me")

    def __repr__(self):
        return "Uncopyable()"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (5, "budget must have withdraw, settle and balance, got 5"),
        (Uncopyable(), "budget must be copyable, got Uncopyable()"),
    ],
    ids=repr,
)
def test_what_is_no_template_is_shown(template, text):
    """The field and the value."""
    with pytest.raises(TypeError) as caught:
        PerKey(len, template)
    assert str(caught.value) == text
