"""`RetryPolicy`: its fields and what they refuse, its value, and what it tells of its waits."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import (
    Attempt,
    ByReason,
    Call,
    Constant,
    Decorrelated,
    EqualJitter,
    Exponential,
    Never,
    NoJitter,
    OnException,
    OnResult,
    PolicyFactory,
    Raised,
    RatioBudget,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    Schedule,
    ServerDelay,
    TokenBudget,
    log_retries,
    override,
    policy_of,
    retry,
    transient,
)
from retrykit.classify import FirstOf
from retrykit.clock import SystemClock
from retrykit.events import LogRetries
from retrykit.jitter import Bounds
from retrykit.policy import DEFAULT_ATTEMPTS, system_rng
from retrykit.settings import CallSettings

CALL = Call(print)
THROTTLED = RetryReason.THROTTLED
TIMED_OUT = RetryReason.TIMED_OUT


# What the fields hold

BUDGET = TokenBudget(100)


def test_the_defaults() -> None:
    """The table of the documentation."""
    policy = RetryPolicy()
    assert {each.name: getattr(policy, each.name) for each in dataclasses.fields(policy)} == {
        "classify": transient,
        "attempts": 5,
        "limits": {},
        "deadline": None,
        "attempt_timeout": None,
        "backoff": Exponential(0.25, factor=2, cap=20),
        "server_delay": ServerDelay(),
        "budget": None,
        "unsatisfied": "raise",
        "listeners": (log_retries,),
        "stop_when": None,
        "nested": "allow",
        "clock": SystemClock(),
        "rng": system_rng,
        "name": None,
        "settings": CallSettings(),
        "judges_results": False,
        "plain": True,
        "verdicts": None,
    }


def test_a_policy_is_a_policy_factory() -> None:
    """It has the one method of the protocol."""
    assert isinstance(RetryPolicy(), PolicyFactory)


@pytest.mark.parametrize(
    ("field", "written", "held"),
    [
        ("classify", OSError, OnException(OSError)),
        ("classify", [OSError, KeyError], FirstOf(OnException(OSError), OnException(KeyError))),
        ("attempts", 1, 1),
        ("attempts", math.inf, math.inf),
        ("attempts", 10**30, 10**30),
        ("limits", {TIMED_OUT: 0}, {TIMED_OUT: 0}),
        ("deadline", 3, 3.0),
        ("deadline", timedelta(minutes=1), 60.0),
        ("deadline", 5e-324, 5e-324),
        ("attempt_timeout", 3, 3.0),
        ("attempt_timeout", timedelta(milliseconds=5), 0.005),
        ("backoff", [1, timedelta(seconds=2)], Schedule(1, 2)),
        ("backoff", (1.5,), Schedule(1.5)),
        ("backoff", [], Schedule()),
        ("listeners", [print], (print,)),
        ("listeners", (), ()),
        ("listeners", [], ()),
        ("unsatisfied", "return", "return"),
        ("nested", "suppress", "suppress"),
        ("name", "orders", "orders"),
        ("name", "", ""),
        ("budget", None, None),
        ("budget", BUDGET, BUDGET),
        ("rng", random.Random, random.Random),
        ("rng", random.SystemRandom, random.SystemRandom),
    ],
)
def test_shorthands_become_the_one_type_that_the_field_holds(
    field: str, written: Any, held: Any
) -> None:
    """At construction, the same through `replace` and `override`."""
    policies = [RetryPolicy(**{field: written}), RetryPolicy().replace(**{field: written})]
    with override(**{field: written}):
        executor = RetryPolicy().new_executor(CALL)
    policies.append(executor.recipe)  # type: ignore[attr-defined]
    for policy in policies:
        value = getattr(policy, field)
        assert value == held
        assert type(value) is type(held) or field == "limits"


async def asynchronous(*_: object) -> None:
    return None


class AsyncCallable:
    async def __call__(self, *_: object) -> None:
        return None


class AsyncPartialCallable:
    __call__ = partial(asynchronous)


ASYNC = [
    asynchronous,
    partial(asynchronous),
    partial(partial(asynchronous)),
    AsyncCallable(),
    partial(AsyncCallable()),
    AsyncCallable().__call__,
    AsyncPartialCallable(),
]


@pytest.mark.parametrize("field", ["classify", "server_delay", "listeners", "stop_when", "rng"])
@pytest.mark.parametrize("value", ASYNC)
def test_async_strategies_are_refused(field: str, value: Any) -> None:
    """A strategy is a plain function: what it gives is never awaited.

    Partials, their partials, and objects with an async `__call__` are seen through.
    """
    written = (value,) if field == "listeners" else value
    with pytest.raises(TypeError, match=f"^{field} must be a plain function, got the async"):
        RetryPolicy(**{field: written})


ONE_SHOTS = [iter([1.0, 2.0]), (each for each in [1.0]), map(float, "12")]


class Half:
    """A budget that lacks a method."""

    withdraw = settle = print


class AsyncBudget(TokenBudget):
    """A budget that nobody would await."""

    async def settle(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        return None


class NoLimits:
    def delays(self, rng: Random) -> Iterator[float]:
        return iter([1.0])

    def bounds(self) -> Iterator[Bounds]:
        return iter([Bounds(1.0, 1.0)])


class UpsideDown(NoLimits):
    limits = Bounds(5.0, 1.0)


class OneLimit(NoLimits):
    limits = (5.0,)


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("attempts", 0, ValueError, "attempts must be at least 1, got 0"),
    ("attempts", -1, ValueError, "attempts must be at least 1, got -1"),
    ("attempts", -math.inf, ValueError, "attempts must be a whole number or math.inf, got -inf"),
    ("attempts", math.nan, ValueError, "attempts must be a whole number or math.inf, got nan"),
    ("attempts", 3.0, ValueError, "attempts must be a whole number or math.inf, got 3.0"),
    ("attempts", 2.5, ValueError, "attempts must be a whole number or math.inf, got 2.5"),
    ("attempts", True, TypeError, "attempts must be a whole number, got True"),
    ("attempts", None, TypeError, "attempts must be a whole number, got None"),
    ("attempts", "3", TypeError, "attempts must be a whole number, got '3'"),
    ("attempts", Decimal(3), TypeError, "attempts must be a whole number, got Decimal('3')"),
    *[
        (field, value, kind, f"{field} must be {text}")
        for field in ("deadline", "attempt_timeout")
        for value, kind, text in [
            (0, ValueError, "above 0, got 0"),
            (0.0, ValueError, "above 0, got 0.0"),
            (timedelta(0), ValueError, "above 0, got 0.0"),
            (-1, ValueError, "above 0, got -1"),
            (timedelta(seconds=-1), ValueError, "above 0, got -1.0"),
            (math.nan, ValueError, "finite, got nan"),
            (math.inf, ValueError, "finite, got inf"),
            (-math.inf, ValueError, "finite, got -inf"),
            (True, TypeError, "a number of seconds or a timedelta, got True"),
            ("3", TypeError, "a number of seconds or a timedelta, got '3'"),
            ([3], TypeError, "a number of seconds or a timedelta, got [3]"),
        ]
    ],
    ("limits", 3, TypeError, "limits must map a RetryReason to a number of retries, got 3"),
    ("limits", None, TypeError, "limits must map a RetryReason to a number of retries, got None"),
    ("limits", [TIMED_OUT], TypeError, "limits must map a RetryReason to a number of retries, got"),
    (
        "limits",
        {"timed_out": 1},
        TypeError,
        "limits must have a RetryReason as its key, got 'timed_out'",
    ),
    (
        "limits",
        {TIMED_OUT: -1},
        ValueError,
        "limits[RetryReason.TIMED_OUT] must be at least 0, got -1",
    ),
    (
        "limits",
        {TIMED_OUT: 1.0},
        TypeError,
        "limits[RetryReason.TIMED_OUT] must be a whole number, got 1.0",
    ),
    (
        "limits",
        {TIMED_OUT: True},
        TypeError,
        "limits[RetryReason.TIMED_OUT] must be a whole number, got True",
    ),
    (
        "limits",
        {TIMED_OUT: None},
        TypeError,
        "limits[RetryReason.TIMED_OUT] must be a whole number, got None",
    ),
    ("classify", None, TypeError, "classify must be callable, got None"),
    ("classify", 503, TypeError, "classify must be callable, got 503"),
    ("classify", [], ValueError, "classify must not be empty"),
    ("classify", KeyError("k"), TypeError, "classify must be an exception type, got an instance"),
    ("classify", OnException, TypeError, "classify must be an instance, got the class OnException"),
    (
        "backoff",
        5,
        TypeError,
        "backoff must be a backoff or a list of seconds, got 5: write Constant(5)",
    ),
    ("backoff", True, TypeError, "backoff must be a backoff or a list of seconds, got True"),
    ("backoff", None, TypeError, "backoff must be a backoff or a list of seconds, got None"),
    (
        "backoff",
        Exponential,
        TypeError,
        "backoff must be an instance, got the class Exponential: call it first",
    ),
    ("backoff", [1, -1], ValueError, "backoff[1] must be at least 0, got -1"),
    ("backoff", [math.nan], ValueError, "backoff[0] must be finite, got nan"),
    ("backoff", [math.inf], ValueError, "backoff[0] must be finite, got inf"),
    ("backoff", [True], TypeError, "backoff[0] must be a number of seconds or a timedelta"),
    *[
        ("backoff", value, TypeError, "backoff must be a backoff or a list of seconds, got")
        for value in [*ONE_SHOTS, NoLimits()]
    ],
    ("backoff", UpsideDown(), ValueError, "backoff.limits must run from a floor to a cap, got"),
    ("backoff", OneLimit(), TypeError, "backoff.limits must be a pair of numbers, got (5.0,)"),
    ("server_delay", None, TypeError, "server_delay must be callable, got None"),
    ("server_delay", 60, TypeError, "server_delay must be callable, got 60"),
    (
        "server_delay",
        ServerDelay,
        TypeError,
        "server_delay must be an instance, got the class ServerDelay: call it first",
    ),
    ("budget", 20, TypeError, "budget must have withdraw, settle and balance, got 20"),
    ("budget", Half(), TypeError, "budget must have withdraw, settle and balance, got <"),
    ("budget", AsyncBudget(), TypeError, "budget must have plain methods, got the async settle"),
    (
        "budget",
        RatioBudget,
        TypeError,
        "budget must be an instance, got the class RatioBudget: call it first",
    ),
    ("unsatisfied", "ignore", ValueError, "unsatisfied must be one of 'raise', 'return', got 'ig"),
    ("unsatisfied", None, ValueError, "unsatisfied must be one of 'raise', 'return', got None"),
    ("nested", "deny", ValueError, "nested must be one of 'allow', 'suppress', got 'deny'"),
    ("nested", True, ValueError, "nested must be one of 'allow', 'suppress', got True"),
    ("listeners", print, TypeError, "listeners must be a tuple of listeners, got <built-in"),
    ("listeners", None, TypeError, "listeners must be a tuple of listeners, got None"),
    ("listeners", iter([print]), TypeError, "listeners must be a tuple of listeners, got <"),
    ("listeners", {print}, TypeError, "listeners must be a tuple of listeners, got {"),
    ("listeners", (print, 5), TypeError, "listeners must be callable, got 5"),
    (
        "listeners",
        (AsyncCallable,),
        TypeError,
        "listeners must be an instance, got the class AsyncCallable: call it first",
    ),
    ("stop_when", 5, TypeError, "stop_when must be callable, got 5"),
    ("stop_when", True, TypeError, "stop_when must be callable, got True"),
    ("clock", None, TypeError, "clock must have now, wall, sleep and sleep_async, got None"),
    (
        "clock",
        SystemClock,
        TypeError,
        "clock must be an instance, got the class SystemClock: call it first",
    ),
    ("rng", None, TypeError, "rng must be callable, got None"),
    ("rng", 7, TypeError, "rng must be callable, got 7"),
    ("rng", Random(7), TypeError, "rng must be callable, got <random.Random"),
    ("rng", int, TypeError, "rng must be an instance, got the class int"),
    ("name", 5, TypeError, "name must be a string, got 5"),
    ("name", b"x", TypeError, "name must be a string, got b'x'"),
]


def making(field: str, value: Any) -> list[Callable[[], Any]]:
    fields: dict[str, Any] = {field: value}
    return [
        lambda: RetryPolicy(**fields),
        lambda: RetryPolicy().replace(**fields),
        lambda: retry(**fields),
        lambda: override(**fields),
    ]


@pytest.mark.parametrize(("field", "value", "kind", "text"), REFUSED)
def test_bad_values_are_refused_with_field_and_value(
    field: str, value: Any, kind: type[Exception], text: str
) -> None:
    """Where they are written, in every form: nothing is called first.

    failsafe#115, jd/tenacity: nonsense was noticed at the first failure only.
    """
    for make in making(field, value):
        with pytest.raises(kind) as told:
            make()
        assert type(told.value) is kind
        assert str(told.value).startswith(text)


def test_a_value_whose_repr_fails_is_refused_all_the_same() -> None:
    """Its type is named then."""

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(TypeError, match=r"^attempts must be a whole number, got a Bad$"):
        RetryPolicy(attempts=Bad())  # type: ignore[arg-type]


def test_a_long_value_is_shown_in_part() -> None:
    """The text stays one line."""
    with pytest.raises(TypeError) as told:
        RetryPolicy(name=list(range(1000)))  # type: ignore[arg-type]
    assert len(str(told.value)) < 120
    assert str(told.value).endswith("...")


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("max_attempts", "did you mean attempts?"),
        ("timeout", "did you mean attempt_timeout?"),
        ("jitter", "there are attempt_timeout, attempts, backoff, budget, "),
        ("settings", "did you mean "),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest(field: str, hint: str) -> None:
    """In every form that takes fields."""
    for make in making(field, 3):
        with pytest.raises(TypeError) as told:
            make()
        assert str(told.value).startswith(f"a policy has no field {field!r}: ")
        if hint != "did you mean ":
            assert hint in str(told.value)


# attempts, where they are omitted


@pytest.mark.parametrize(
    ("make", "attempts"),
    [
        (lambda: RetryPolicy(), DEFAULT_ATTEMPTS),
        (lambda: RetryPolicy(deadline=10), math.inf),
        (lambda: RetryPolicy(deadline=None), DEFAULT_ATTEMPTS),
        (lambda: RetryPolicy(attempt_timeout=10), DEFAULT_ATTEMPTS),
        (lambda: RetryPolicy(deadline=10, attempts=3), 3),
        (lambda: RetryPolicy.on(OSError), DEFAULT_ATTEMPTS),
        (lambda: RetryPolicy.on(OSError, deadline=10), math.inf),
        (lambda: RetryPolicy().replace(deadline=10), DEFAULT_ATTEMPTS),
        (lambda: RetryPolicy(deadline=10).replace(deadline=None), math.inf),
        (lambda: RetryPolicy(deadline=10).replace(deadline=20), math.inf),
        (lambda: RetryPolicy(deadline=10).replace(attempts=2), 2),
        (lambda: RetryPolicy(attempts=7).replace(deadline=10), 7),
        (lambda: RetryPolicy(attempts=7).replace(), 7),
        (lambda: policy_of(retry(deadline=10)(print)), math.inf),
    ],
)
def test_omitted_attempts_are_settled_when_the_policy_is_first_made(
    make: Callable[[], RetryPolicy], attempts: float
) -> None:
    """5, or no limit where there is a deadline; later changes keep what came out."""
    assert make().attempts == make().max_attempts == attempts


def test_override_keeps_the_attempts_too() -> None:
    """Unless it names them: of a policy with five, laying a deadline over it leaves five."""
    errors = iter(range(100))

    @retry(on=KeyError, backoff=[0] * 99, listeners=())
    def fail() -> None:
        raise KeyError(next(errors))

    for fields, made in [({"deadline": 60}, 5), ({"attempts": 2}, 2), ({"name": "x"}, 5)]:
        before = next(errors)
        with override(**fields), pytest.raises(KeyError):  # type: ignore[arg-type]
            fail()
        assert next(errors) - before - 1 == made


# RetryPolicy.on


def is_mine(attempt: Attempt) -> Any:
    return None


def test_on_names_the_exception_types() -> None:
    """What stands in `OnException`."""
    assert RetryPolicy.on(OSError, KeyError).classify == OnException(OSError, KeyError)


@pytest.mark.parametrize(
    ("classify", "held"),
    [
        (Never(KeyError), FirstOf(Never(KeyError), OnException(Exception))),
        (is_mine, FirstOf(is_mine, OnException(Exception))),
        (KeyError, FirstOf(OnException(KeyError), OnException(Exception))),
        ([Never(KeyError), OSError], FirstOf(Never(KeyError), OSError, OnException(Exception))),
    ],
)
def test_on_asks_a_classifier_first(classify: Any, held: Any) -> None:
    """Given together, the classifier may refuse what `on` would retry."""
    assert RetryPolicy.on(Exception, classify=classify).classify == held


def test_on_makes_a_policy_of_its_own_class() -> None:
    """Subclasses keep theirs, also through `replace`."""

    class Mine(RetryPolicy):
        pass

    made = Mine.on(OSError, attempts=2).replace(attempts=3)
    assert type(made) is Mine
    assert made.attempts == 3


@pytest.mark.parametrize("types", [(), (5,), (KeyError(),), (int,)])
def test_on_refuses_what_is_no_exception_type(types: Any) -> None:
    """And nothing at all."""
    with pytest.raises(TypeError, match=r"^on (takes exception types|must name at least one)"):
        RetryPolicy.on(*types)


# A policy is a value


def my_rng() -> Random:
    return Random(1)


def enough() -> bool:
    return False


POLICIES = [
    RetryPolicy(),
    RetryPolicy(attempts=3),
    RetryPolicy(attempts=math.inf),
    RetryPolicy(deadline=10),
    RetryPolicy(deadline=10, attempts=5),
    RetryPolicy.on(OSError),
    RetryPolicy.on(OSError, KeyError, classify=Never(ValueError)),
    RetryPolicy(classify=is_mine),
    RetryPolicy(classify=OnResult(callable) | OnException(OSError, causes=True)),
    RetryPolicy(limits={TIMED_OUT: 1, THROTTLED: 0}),
    RetryPolicy(attempt_timeout=2.5),
    RetryPolicy(backoff=[1, 2]),
    RetryPolicy(backoff=Exponential(1, cap=9, jitter=EqualJitter()).take(3)),
    RetryPolicy(backoff=ByReason({THROTTLED: Constant(5)}, default=Decorrelated(1, cap=3))),
    RetryPolicy(server_delay=ServerDelay(limit=5, over_limit="cap")),
    RetryPolicy(budget=RatioBudget(ratio=1)),
    RetryPolicy(budget=TokenBudget()),
    RetryPolicy(unsatisfied="return"),
    RetryPolicy(listeners=()),
    RetryPolicy(listeners=(log_retries, print)),
    RetryPolicy(listeners=(print,)),
    RetryPolicy(stop_when=enough),
    RetryPolicy(nested="suppress"),
    RetryPolicy(rng=my_rng),
    RetryPolicy(rng=Random),
    RetryPolicy(name="orders"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policies_compare_hash_and_copy_by_their_fields(policy: RetryPolicy) -> None:
    """Pickled and copied ones are equal and give the same waits (jd/tenacity#147)."""
    assert sum(policy == other for other in POLICIES) == 1
    protocols = range(2, pickle.HIGHEST_PROTOCOL + 1)
    twins = [
        policy.replace(),
        copy.copy(policy),
        copy.deepcopy(policy),
        *[pickle.loads(pickle.dumps(policy, protocol)) for protocol in protocols],
    ]
    for twin in twins:
        assert twin == policy
        assert hash(twin) == hash(policy)
        assert twin.settings == policy.settings
        assert (twin.plain, twin.judges_results) == (policy.plain, policy.judges_results)
        assert [*islice(twin.schedule(Random(1)), 5)] == [*islice(policy.schedule(Random(1)), 5)]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_the_repr_of_a_policy_makes_an_equal_one(policy: RetryPolicy) -> None:
    """It shows what is not the default, and the attempts always."""
    names = {**globals(), "inf": math.inf, "LogRetries": LogRetries}
    assert eval(repr(policy), names) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (RetryPolicy(), "RetryPolicy(attempts=5)"),
        (RetryPolicy(deadline=10), "RetryPolicy(attempts=inf, deadline=10.0)"),
        (
            RetryPolicy.on(OSError, attempts=3, backoff=[1]),
            "RetryPolicy(classify=OnException(OSError), attempts=3, backoff=Schedule(1.0))",
        ),
        (RetryPolicy(listeners=(print,)), "RetryPolicy(attempts=5, listeners=(print,))"),
        (
            RetryPolicy(limits={TIMED_OUT: 1}, name="x"),
            "RetryPolicy(attempts=5, limits={RetryReason.TIMED_OUT: 1}, name='x')",
        ),
    ],
)
def test_how_a_policy_prints(policy: RetryPolicy, text: str) -> None:
    """As it would be written."""
    assert repr(policy) == text


def test_a_subclass_prints_its_own_name() -> None:
    """And is equal to none of another class."""
    assert repr(Renamed(attempts=2)) == "Renamed(attempts=2)"
    assert Renamed(attempts=2) != RetryPolicy(attempts=2)


class Renamed(RetryPolicy):
    """A policy class of a user's own."""


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(RetryPolicy)])
def test_no_field_of_a_policy_can_be_set(field: str) -> None:
    """Configuration is immutable: `replace` makes another."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(RetryPolicy(), field, None)


def test_limits_are_held_as_a_copy() -> None:
    """What becomes of the mapping later does not show."""
    limits = {TIMED_OUT: 1}
    policy = RetryPolicy(limits=limits)
    limits[TIMED_OUT] = 9
    assert policy.limits == {TIMED_OUT: 1}
    with pytest.raises(TypeError):
        policy.limits[TIMED_OUT] = 2  # type: ignore[index]


def test_lists_are_held_as_copies() -> None:
    """Listeners, waits and classifiers too."""
    listeners: list[Any] = [print]
    waits: list[Any] = [1]
    rules: list[Any] = [OSError]
    policy = RetryPolicy(listeners=listeners, backoff=waits, classify=rules)
    for each in (listeners, waits, rules):
        each.clear()
    assert policy == RetryPolicy(listeners=[print], backoff=[1], classify=[OSError])


def test_a_policy_pickles_after_it_met_errors_that_do_not() -> None:
    """What its calls met is no part of it: its copies begin anew."""

    class Local(Exception):
        pass

    policy = RetryPolicy.on(Exception, attempts=2, backoff=[0], listeners=())

    def fail() -> None:
        raise Local

    with pytest.raises(Local):
        policy.call(fail)
    assert policy.verdicts == {Local: RetryAfter()}
    for twin in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert twin == policy
        assert twin.verdicts == {}


def test_replace_changes_what_is_named_and_nothing_else() -> None:
    """Each field in turn."""
    policy = RetryPolicy(attempts=3, deadline=10, name="x")
    changes: dict[str, Any] = {
        "classify": is_mine,
        "attempts": 4,
        "limits": {TIMED_OUT: 1},
        "deadline": None,
        "attempt_timeout": 1.0,
        "backoff": Constant(1),
        "server_delay": ServerDelay(limit=1),
        "budget": RatioBudget(),
        "unsatisfied": "return",
        "listeners": (),
        "stop_when": enough,
        "nested": "suppress",
        "clock": OtherClock(),
        "rng": my_rng,
        "name": None,
    }
    assert set(changes) == {each.name for each in dataclasses.fields(policy) if each.init}
    for name, value in changes.items():
        changed = policy.replace(**{name: value})
        for each in changes:
            expected = value if each == name else getattr(policy, each)
            assert getattr(changed, each) == expected


class OtherClock(SystemClock):
    pass


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ({}, True),
        ({"attempts": 2, "deadline": 3, "backoff": [1], "server_delay": ServerDelay()}, True),
        ({"stop_when": enough}, False),
        ({"budget": RatioBudget()}, False),
        ({"limits": {TIMED_OUT: 1}}, False),
        ({"backoff": ByReason({}, default=[1])}, False),
    ],
)
def test_a_plain_policy_has_nothing_but_attempts_waits_and_a_deadline(
    fields: Any, plain: bool
) -> None:
    """What the executor may skip."""
    assert RetryPolicy(**fields).plain is plain


# schedule


@pytest.mark.parametrize(
    ("fields", "schedule"),
    [
        ({"attempts": 1}, []),
        ({"attempts": 2}, [1.0]),
        ({"attempts": 4}, [1.0, 2.0, 4.0]),
        ({"attempts": 9}, [1.0, 2.0, 4.0, 8.0]),
        ({"attempts": math.inf}, [1.0, 2.0, 4.0, 8.0]),
        ({"attempts": 10**30}, [1.0, 2.0, 4.0, 8.0]),
        ({"deadline": 7.5}, [1.0, 2.0, 4.0]),
        ({"deadline": 7}, [1.0, 2.0]),
        ({"deadline": 1}, []),
        ({"deadline": 7.5, "attempts": 3}, [1.0, 2.0]),
        ({"backoff": []}, []),
        ({"backoff": Constant(2), "deadline": 7}, [2.0, 2.0, 2.0]),
        ({"backoff": ByReason({THROTTLED: [9]}, default=[1, 2])}, [1.0, 2.0]),
    ],
)
def test_the_schedule_is_what_a_call_waits_when_all_fails_at_once(
    fields: Any, schedule: list[float]
) -> None:
    """Ended by the attempts, the backoff or the deadline, whichever is first."""
    policy = RetryPolicy(**{"backoff": [1, 2, 4, 8], **fields})
    assert list(policy.schedule()) == schedule


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"attempts": 2},
        {"deadline": 5},
        {"backoff": Decorrelated(0.1, cap=3)},
        {"backoff": ByReason({THROTTLED: [9]}, default=Exponential(1).take(3))},
    ],
)
def test_the_schedule_is_what_the_executor_answers(fields: Any) -> None:
    """With the same seed, wait for wait."""
    policy = RetryPolicy(classify=lambda attempt: RetryAfter(), rng=my_rng, **fields)
    executor = policy.new_executor(CALL)
    told: list[float] = []
    elapsed = 0.0
    while True:
        attempt = Attempt(CALL, len(told) + 1, Raised(KeyError()), elapsed)
        decision = executor.decide(attempt)
        if not isinstance(decision, RetryAfter):
            break
        told.append(decision.delay)
        elapsed += decision.delay
    assert list(policy.schedule()) == list(policy.schedule(Random(1))) == told


def test_the_schedule_draws_what_a_call_draws_and_no_more() -> None:
    """So one seeded generator gives several schedules as it gives several calls."""
    policy = RetryPolicy(attempts=3, backoff=Exponential(1))
    rng, other = Random(7), Random(7)
    both = [*policy.schedule(rng), *policy.schedule(rng)]
    assert both == [step * other.random() for step in (1.0, 2.0, 1.0, 2.0)]


def test_a_schedule_may_be_endless() -> None:
    """And is drawn step by step."""
    policy = RetryPolicy(attempts=math.inf, backoff=Constant(1))
    assert list(islice(policy.schedule(), 1000)) == [1.0] * 1000


# delay_bounds

EXACT = Exponential(1, cap=8, jitter=NoJitter())


@pytest.mark.parametrize(
    ("backoff", "n", "bounds"),
    [
        (EXACT, 1, (1.0, 1.0)),
        (EXACT, 3, (4.0, 4.0)),
        (EXACT, 9, (8.0, 8.0)),
        (Exponential(1, cap=8), 3, (0.0, 4.0)),
        (Exponential(1, cap=8).at_least(2), 1, (2.0, 3.0)),
        (Schedule(5, 1), 2, (1.0, 1.0)),
        (Decorrelated(1, cap=20), 2, (1.0, 9.0)),
        (ByReason({}, default=EXACT), 3, (1.0, 4.0)),
        (ByReason({THROTTLED: [30]}, default=EXACT), 1, (1.0, 30.0)),
        (ByReason({THROTTLED: [30]}, default=EXACT), 2, (1.0, 30.0)),
        (ByReason({THROTTLED: [30, 0.5]}, default=EXACT), 2, (0.5, 30.0)),
        (ByReason({THROTTLED: [30, 0.5]}, default=EXACT), 1, (1.0, 30.0)),
        (ByReason({THROTTLED: [5], TIMED_OUT: [7]}, default=[6]), 3, (5.0, 7.0)),
    ],
)
def test_the_bounds_of_the_nth_wait(backoff: Any, n: int, bounds: tuple[float, float]) -> None:
    """Tight; over all branches and steps so far where the backoff differs by reason."""
    assert RetryPolicy(backoff=backoff, attempts=20).delay_bounds(n) == Bounds(*bounds)


@pytest.mark.parametrize(
    ("fields", "n", "text"),
    [
        ({"attempts": 3}, 3, "n must be below the 3 attempts, got 3"),
        ({"attempts": 1}, 1, "n must be below the 1 attempts, got 1"),
        ({"backoff": [1, 2]}, 3, "n must not be past the backoff's end, got 3"),
        ({"backoff": []}, 1, "n must not be past the backoff's end, got 1"),
        (
            {"backoff": ByReason({THROTTLED: [1]}, default=[2])},
            3,
            "n must not be past the backoff's end, got 3",
        ),
        ({}, 0, "n must be at least 1, got 0"),
        ({}, -1, "n must be at least 1, got -1"),
    ],
)
def test_a_wait_that_is_never_made_has_no_bounds(fields: Any, n: int, text: str) -> None:
    """Past the attempts, past the backoff's end, before the first."""
    with pytest.raises(ValueError, match=r"^n must") as told:
        RetryPolicy(**fields).delay_bounds(n)
    assert str(told.value) == text


@pytest.mark.parametrize("n", [1.0, True, "1", None])
def test_n_is_a_whole_number(n: Any) -> None:
    """A `bool` is none."""
    with pytest.raises(TypeError, match=r"^n must be a whole number, got"):
        RetryPolicy().delay_bounds(n)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    backoff=st.sampled_from(
        [
            EXACT,
            Exponential(0.5, factor=3, cap=10),
            Decorrelated(0.5, cap=4),
            Exponential(1).capped(3).at_least(1),
            Schedule(0, 3, 1),
        ]
    ),
)
def test_every_scheduled_wait_is_within_its_bounds(seed: int, backoff: Any) -> None:
    """Whatever is drawn."""
    policy = RetryPolicy(backoff=backoff, attempts=12)
    for n, wait in enumerate(policy.schedule(Random(seed)), 1):
        low, high = policy.delay_bounds(n)
        assert low <= wait <= high


# Its forms, where they refuse


def plain() -> str:
    return "plain"


async def coroutine() -> str:
    return "coroutine"


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


def test_call_refuses_a_coroutine_function() -> None:
    """And names the one that takes it (googleapis/python-api-core#543: a bare coroutine)."""
    for function in (coroutine, partial(coroutine), AsyncCallable()):
        with pytest.raises(TypeError, match=r"is async: write `await policy.acall\(...\)`"):
            RetryPolicy().call(function)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (generator, "generator is a generator function: write `policy.call(...)`"),
        (
            async_generator,
            "async_generator is an async generator function: write `policy.call(...)`",
        ),
    ],
)
def test_acall_refuses_generator_functions(function: Any, text: str) -> None:
    """The one that takes them is named."""
    with pytest.raises(TypeError) as told:
        asyncio.run(RetryPolicy().acall(function))
    assert str(told.value) == f"policy.acall takes coroutine functions, and {text}"


def test_the_forms_of_a_policy() -> None:
    """Each gives what the function gives."""
    policy = RetryPolicy()
    assert policy.call(plain) == "plain"
    assert list(policy.call(generator)) == [1]
    assert asyncio.run(policy.acall(coroutine)) == "coroutine"
    assert asyncio.run(policy.acall(lambda: coroutine())) == "coroutine"


def test_a_bound_methods_call_knows_its_instance() -> None:
    """For listeners, classifiers and policies that look at `self`."""
    seen: list[Call] = []

    def look(attempt: Attempt) -> None:
        seen.append(attempt.call)

    class Service:
        def fetch(self, key: str) -> None:
            raise KeyError(key)

    service = Service()
    with pytest.raises(KeyError):
        RetryPolicy(classify=look, listeners=()).call(service.fetch, "k")
    [call] = seen
    assert (call.instance, call.args, call.kwargs) == (service, ("k",), {})


def test_the_default_generator_of_chance_is_the_systems() -> None:
    """The `random` module's own: seeded anew after a fork, and by `random.seed`."""
    assert system_rng() is random._inst  # type: ignore[attr-defined]
    policy = RetryPolicy(backoff=Exponential(1))
    drawn = []
    for _ in range(2):
        random.seed(5)
        drawn.append(list(policy.schedule()))
    assert drawn[0] == drawn[1]


def test_an_event_may_stop_a_policys_calls() -> None:
    """An object with `is_set` need not be callable."""
    event = threading.Event()
    assert RetryPolicy(stop_when=event).stop_when is event
