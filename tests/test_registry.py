"""Policies by name: known at the call, not at the decoration."""

from __future__ import annotations

from typing import Any

import pytest

from retrykit import RetryPolicy, retry
from retrykit import _registry as registry
from retrykit.errors import UnknownPolicy

ONCE = RetryPolicy.on(KeyError, attempts=1, listeners=())
TWICE = RetryPolicy.on(KeyError, attempts=2, backoff=[0], listeners=())


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_policies", {})


def attempts_of(name: str) -> int:
    made = 0

    @retry(policy=name)
    def fail() -> None:
        nonlocal made
        made += 1
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    return made


def test_a_name_means_what_it_means_when_the_call_is_made() -> None:
    """It may be made known after the function was decorated, and changed between two calls."""
    made = 0

    @retry(policy="orders")
    def fail() -> None:
        nonlocal made
        made += 1
        raise KeyError

    for policy, attempts in ((TWICE, 2), (ONCE, 1)):
        registry.register({"orders": policy})
        made = 0
        with pytest.raises(KeyError):
            fail()
        assert made == attempts


@pytest.mark.parametrize(
    ("known", "there"),
    [
        ({}, "none: retrykit.config.load(path) makes them known"),
        ({"b": ONCE, "a": TWICE}, "a, b"),
    ],
)
def test_an_unknown_name_says_which_there_are(known: Any, there: str) -> None:
    """As a `LookupError`, at the call."""
    registry.register(known)

    @retry(policy="orders")
    def function() -> None:
        raise AssertionError("it was called")

    with pytest.raises(UnknownPolicy) as told:
        function()
    assert str(told.value) == f"no policy is named 'orders'; there are {there}"


def test_registering_adds_and_forgetting_takes_out() -> None:
    """The others stay; names that are not there are passed over."""
    registry.register({"a": ONCE})
    registry.register({"b": TWICE})
    assert (attempts_of("a"), attempts_of("b")) == (1, 2)
    registry.forget("a", "c")
    assert registry.registered() == {"b": TWICE}


def test_replacing_leaves_what_has_another_meaning_by_now() -> None:
    """A file that is read again takes out its own policies, and nobody else's."""
    registry.register({"a": ONCE, "b": ONCE, "c": ONCE})
    mine = {"a": TWICE, "b": ONCE}
    registry.replace(mine, {"d": TWICE})
    assert registry.registered() == {"a": ONCE, "c": ONCE, "d": TWICE}
    registry.replace({}, {"c": TWICE})
    assert registry.registered() == {"a": ONCE, "c": TWICE, "d": TWICE}


def test_what_is_registered_is_handed_out_as_a_copy() -> None:
    """Changing it changes nothing."""
    registry.register({"a": ONCE})
    registry.registered().clear()
    assert registry.lookup("a") is ONCE
