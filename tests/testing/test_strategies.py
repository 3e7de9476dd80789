"""Hypothesis strategies: every kind is reachable, shrinks to a plain one, and prints itself."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from retrykit import Raised, RetryAfter, RetryPolicy, RetryReason, Returned
from retrykit import backoff as backoff_module
from retrykit import budget as budget_module
from retrykit import classify as classify_module
from retrykit import jitter as jitter_module
from retrykit.backoff import BackoffBase
from retrykit.facts.retry_after import parse_retry_after
from retrykit.http import HttpClassifier
from retrykit.testing import Slow, VirtualClock, script
from retrykit.testing import strategies as st

if TYPE_CHECKING:
    from types import ModuleType

    from hypothesis.strategies import SearchStrategy

QUICK = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
PATIENT = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def generated(strategy: SearchStrategy[Any], count: int = 300) -> list[Any]:
    """Many examples, the same each time."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def concrete(module: ModuleType, *bases: type) -> set[type]:
    """The classes that a module defines, those too that its combinators make."""
    return {
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and each.__module__ == module.__name__
        and is_dataclass(each)
        and not inspect.isabstract(each)
        and (not bases or issubclass(each, bases))
    }


def parts(thing: Any) -> set[type]:
    """The types of a value and of all that it is made of."""
    found: set[type] = {type(thing)}
    if is_dataclass(thing):
        for field in fields(thing):
            found |= parts(getattr(thing, field.name))
    elif isinstance(thing, (tuple, list)):
        for each in thing:
            found |= parts(each)
    elif hasattr(thing, "items"):
        for each in thing.values():
            found |= parts(each)
    return found


BACKOFFS = concrete(backoff_module, BackoffBase)
JITTERS = concrete(jitter_module)
CLASSIFIERS = concrete(classify_module) | {HttpClassifier}
BUDGETS = concrete(budget_module)


def test_the_kinds_are_all_there() -> None:
    """The lists below count what the modules define."""
    names = {each.__name__ for each in BACKOFFS | JITTERS | CLASSIFIERS | BUDGETS}
    assert names >= {
        *("Constant", "Schedule", "Exponential", "Linear", "Polynomial", "Fibonacci"),
        *("Decorrelated", "ByReason", "Custom"),
        *("NoJitter", "FullJitter", "EqualJitter", "ProportionalJitter", "AdditiveJitter"),
        *("OnException", "OnResult", "Never", "Transient", "FirstOf"),
        *("RatioBudget", "TokenBudget", "PerKey"),
    }
    assert len(BACKOFFS) >= 13


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        (st.backoffs(), BACKOFFS | JITTERS),
        (st.jitters(), JITTERS),
        (st.classifiers(), CLASSIFIERS | {type(st.no_opinion)}),
        (st.budgets(), BUDGETS),
    ],
    ids=["backoffs", "jitters", "classifiers", "budgets"],
)
def test_every_kind_is_reachable(strategy: SearchStrategy[Any], kinds: set[type]) -> None:
    """By itself or inside of another."""
    found = set[type]().union(*map(parts, generated(strategy)))
    assert kinds - found == set()


def test_by_reason_has_branches_for_several_reasons() -> None:
    """It is generated with any of them, also inside of other backoffs."""
    found: set[RetryReason] = set()

    def collect(backoff: Any) -> None:
        found.update(getattr(backoff, "branches", ()))
        for field in fields(backoff):
            inner = getattr(backoff, field.name)
            if isinstance(inner, BackoffBase):
                collect(inner)

    for each in generated(st.backoffs()):
        collect(each)
    assert len(found) >= 5


def test_every_field_of_a_policy_varies() -> None:
    """Not only the parts."""
    found = generated(st.policies())
    varied = {
        "budget": lambda policy: policy.budget is not None,
        "deadline": lambda policy: policy.deadline is not None,
        "attempt_timeout": lambda policy: policy.attempt_timeout is not None,
        "attempts": lambda policy: policy.attempts == float("inf"),
        "limits": lambda policy: len(policy.limits) > 0,
        "unsatisfied": lambda policy: policy.unsatisfied == "return",
        "stop_when": lambda policy: policy.stop_when is not None,
        "nested": lambda policy: policy.nested == "suppress",
        "listeners": lambda policy: policy.listeners == (),
        "server_delay": lambda policy: policy.server_delay.over_limit == "cap",
        "name": lambda policy: policy.name is not None,
        "classify": lambda policy: not isinstance(policy.classify, classify_module.Transient),
    }
    for name, varies in varied.items():
        assert any(map(varies, found)), name
        assert not all(map(varies, found)), name
    settable = {field.name for field in fields(RetryPolicy) if field.init}
    assert set(varied) == settable - {"backoff", "clock", "rng"}


@pytest.mark.parametrize(
    ("strategy", "predicate", "smallest"),
    [
        (st.backoffs(), lambda _: True, "Schedule()"),
        (st.backoffs(), lambda b: next(b.delays(Random(0)), 0) >= 1, "Constant(1.0)"),
        (st.jitters(), lambda _: True, "NoJitter()"),
        (st.jitters(), lambda j: j.bounds(1.0).high >= 3, "AdditiveJitter(2.0)"),
        (st.classifiers(), lambda _: True, "transient"),
        (st.budgets(), lambda b: b.balance() >= 2, "RatioBudget(ratio=1.0, reserve=2.0)"),
        (st.faults(), lambda _: True, "[]"),
        (st.faults(), lambda f: ConnectionError in f, "[<class 'ConnectionError'>]"),
        (st.headers(), lambda _: True, "{}"),
        (
            st.headers(),
            lambda h: 5 <= (parse_retry_after(h, now=0) or 0) < 99,
            "{'Retry-After': '5'}",
        ),
    ],
)
def test_examples_shrink_to_the_plain_case(
    strategy: SearchStrategy[Any], predicate: Any, smallest: str
) -> None:
    """What a failing test shows is what somebody would have written."""
    assert repr(find(strategy, predicate, settings=PATIENT)).endswith(smallest)


@pytest.mark.parametrize(
    "strategy",
    [
        st.backoffs(),
        st.jitters(),
        st.classifiers(),
        st.budgets(),
        st.server_delays(),
        st.policies(),
        st.durations(),
    ],
    ids=repr,
)
def test_the_repr_of_what_is_generated_can_be_evaluated(strategy: SearchStrategy[Any]) -> None:
    """To an equal object: an example from a report can be pasted into a test."""

    @QUICK
    @given(strategy)
    def check(example: Any) -> None:
        assert eval(repr(example), st.NAMES) == example

    check()


@QUICK
@given(st.faults())
def test_the_repr_of_faults_can_be_evaluated(steps: list[Any]) -> None:
    """To the same text: errors are compared by identity."""
    text = repr(script(*steps))
    again = eval(text, st.NAMES | {"script": script})
    assert repr(again) == text


@QUICK
@given(st.faults(min_size=1, max_size=4))
def test_faults_are_steps_of_a_script(steps: list[Any]) -> None:
    """Times included."""
    assert 1 <= len(steps) <= 4
    clock = VirtualClock()
    play = script(*steps, clock=clock)
    for _ in steps:
        try:
            play()
        except Exception:
            continue
    assert play.remaining == 0
    assert clock.now() == pytest.approx(
        sum(each.seconds for each in steps if isinstance(each, Slow))
    )


@QUICK
@given(st.outcomes())
def test_outcomes_are_values_and_errors(outcome: Any) -> None:
    """Errors are `Exception`s: nothing else is ever judged."""
    assert isinstance(outcome, (Returned, Raised))
    if isinstance(outcome, Raised):
        assert isinstance(outcome.error, Exception)


def test_every_sort_of_outcome_is_reachable() -> None:
    """Groups in groups and chains as well."""
    found = generated(st.outcomes())
    errors = [outcome.error for outcome in found if isinstance(outcome, Raised)]
    groups = [error for error in errors if isinstance(error, ExceptionGroup)]
    assert any(isinstance(outcome, Returned) and outcome.value == 503 for outcome in found)
    assert any(isinstance(leaf, ExceptionGroup) for group in groups for leaf in group.exceptions)
    assert any(error.__cause__ is not None for error in errors)
    assert any(error.__context__ is not None for error in errors)
    assert {type(error) for error in errors} >= set(st.ERRORS)


@QUICK
@given(st.attempts())
def test_attempts_can_be_decided_on(attempt: Any) -> None:
    """By any executor."""
    policy = RetryPolicy(classify=st.always_retry, attempts=float("inf"))
    assert isinstance(policy.new_executor(attempt.call).decide(attempt), RetryAfter)


@settings(QUICK, max_examples=300)
@given(st.headers())
def test_headers_never_break_the_parser(headers: Any) -> None:
    """Valid, odd and hostile ones."""
    seconds = parse_retry_after(headers, status=429, now=1_796_040_000)
    assert seconds is None or 0 <= seconds <= 2**31


def test_every_sort_of_header_is_reachable() -> None:
    """A test that takes them meets them all."""
    found = generated(st.headers(), 500)
    mappings = [each.get("Retry-After", "") for each in found if isinstance(each, dict)]
    assert any(value.isdecimal() for value in mappings)
    assert any(value.endswith("GMT") for value in mappings)
    assert set(st.ODD_VALUES) & set(mappings)
    values = {value for each in found for _, value in pairs_of(each)}
    for family in (st.ODD_VALUES, st.HOSTILE_VALUES):
        assert len(values & set(family)) > len(family) / 2
    assert any(isinstance(value, bytes) for value in values)
    names = [[str(name).lower() for name, _ in pairs_of(each)] for each in found]
    assert any(each.count("retry-after") > 1 for each in names)
    waits = {parse_retry_after(each, now=0) for each in found}
    assert waits >= {0.0, None}
    assert max(wait or 0 for wait in waits) > 2**30


def pairs_of(headers: Any) -> list[tuple[Any, Any]]:
    return list(headers.items()) if isinstance(headers, dict) else headers


def test_strategies_show_as_their_names() -> None:
    """A report says `backoffs()`, not what that is made of."""
    assert repr(st.backoffs()) == "backoffs()"
    assert st.backoffs.__doc__ is not None
