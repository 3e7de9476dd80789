"""What a driver needs beside decisions."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import pickle
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from retrykit import RetryPolicy, log_retries
from retrykit.clock import SystemClock
from retrykit.events import (
    EVERY_KIND,
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)
from retrykit.settings import CHECKS, CallSettings


def ignore(event: Any) -> None:
    return None


def test_the_defaults() -> None:
    """Those of a policy without fields."""
    settings = CallSettings()
    told = {name: getattr(settings, name) for name in CHECKS}
    assert told == {
        "clock": SystemClock(),
        "listeners": (log_retries,),
        "deadline": None,
        "attempt_timeout": None,
        "stop_when": None,
        "unsatisfied": "raise",
        "name": None,
    }
    assert settings == RetryPolicy().settings


def test_a_policys_settings_are_its_fields() -> None:
    """So a driver sees what was written."""
    fields: dict[str, Any] = {
        "listeners": (ignore,),
        "deadline": 10.0,
        "attempt_timeout": 2.0,
        "stop_when": threading.Event(),
        "unsatisfied": "return",
        "name": "orders",
    }
    settings = RetryPolicy(**fields).settings
    assert {name: getattr(settings, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("field", "written", "held"),
    [
        ("deadline", 3, 3.0),
        ("deadline", timedelta(seconds=2), 2.0),
        ("attempt_timeout", timedelta(milliseconds=5), 0.005),
        ("listeners", [ignore, print], (ignore, print)),
        ("listeners", [], ()),
        ("name", "", ""),
    ],
)
def test_shorthands_become_the_one_type_that_the_field_holds(
    field: str, written: Any, held: Any
) -> None:
    """As in a policy."""
    value = getattr(CallSettings(**{field: written}), field)
    assert value == held
    assert type(value) is type(held)


class Sleepless:
    """A clock that lacks two methods."""

    def now(self) -> float:
        return 0.0

    wall = now


class Worded(Sleepless):
    """A clock two of whose methods are none."""

    sleep = sleep_async = "soon"


class Awaiting(Sleepless):
    """A clock whose blocking sleep blocks nothing."""

    async def sleep(self, seconds: float) -> None: ...

    sleep_async = sleep


async def asynchronous(event: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("field", "value", "kind", "text"),
    [
        ("clock", Sleepless(), TypeError, "clock must have now, wall, sleep and sleep_async, got"),
        ("clock", Worded(), TypeError, "clock must have now, wall, sleep and sleep_async, got"),
        ("clock", Awaiting(), TypeError, "clock must be async in sleep_async only, got the async"),
        ("clock", SystemClock, TypeError, "clock must be an instance, got the class SystemClock"),
        ("listeners", ignore, TypeError, "listeners must be a tuple of listeners, got <function"),
        ("listeners", (asynchronous,), TypeError, "listeners must be a plain function, got the"),
        (
            "listeners",
            (partial(asynchronous),),
            TypeError,
            "listeners must be a plain function, got the",
        ),
        ("deadline", 0, ValueError, "deadline must be above 0, got 0"),
        ("deadline", math.nan, ValueError, "deadline must be finite, got nan"),
        ("attempt_timeout", -1, ValueError, "attempt_timeout must be above 0, got -1"),
        ("attempt_timeout", True, TypeError, "attempt_timeout must be a number of seconds or a"),
        ("stop_when", 5, TypeError, "stop_when must be callable, got 5"),
        ("stop_when", asynchronous, TypeError, "stop_when must be a plain function, got the"),
        (
            "stop_when",
            asyncio.Event,
            TypeError,
            "stop_when must be an instance, got the class Event",
        ),
        ("unsatisfied", "", ValueError, "unsatisfied must be one of 'raise', 'return', got ''"),
        ("name", 5, TypeError, "name must be a string, got 5"),
    ],
)
def test_bad_values_are_refused_with_field_and_value(
    field: str, value: Any, kind: type[Exception], text: str
) -> None:
    """A foreign factory's settings are checked where they are made, too."""
    with pytest.raises(kind) as told:
        CallSettings(**{field: value})
    assert str(told.value).startswith(text)


def test_settings_are_a_value() -> None:
    """They compare, hash, pickle and copy by their fields, and cannot be set."""
    settings = CallSettings(deadline=3, listeners=(ignore, log_retries), name="orders")
    settings.takers()
    for twin in (
        CallSettings(deadline=3.0, listeners=[ignore, log_retries], name="orders"),  # type: ignore[arg-type]
        pickle.loads(pickle.dumps(settings)),
        copy.copy(settings),
        copy.deepcopy(settings),
        dataclasses.replace(settings),
    ):
        assert twin == settings
        assert hash(twin) == hash(settings)
        assert twin.takers() == settings.takers()
    assert settings != CallSettings(deadline=3)
    assert "takers" not in repr(settings)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.name = "x"  # type: ignore[misc]


# Who takes what


class Taking:
    """A listener that names the kinds it takes."""

    def __init__(self, *kinds: Any) -> None:
        self.kinds = kinds

    def __call__(self, event: Any) -> None:
        return None


ENDS = (CallSucceeded, CallFailed, CallGaveUp, CallCancelled)


def test_a_listener_without_kinds_takes_every_one() -> None:
    """An event is built where somebody takes it."""
    assert CallSettings(listeners=(ignore,)).takers() == dict.fromkeys(EVERY_KIND, (ignore,))
    assert CallSettings(listeners=()).takers() == {}


def test_each_kind_goes_to_those_who_take_it_in_their_order() -> None:
    """And a kind that nobody takes is not built."""
    first, second = Taking(AttemptStarted, RetryScheduled), Taking(RetryScheduled)
    takers = CallSettings(listeners=(first, second)).takers()
    assert takers == {AttemptStarted: (first,), RetryScheduled: (first, second)}
    turned = CallSettings(listeners=(second, first)).takers()
    assert turned[RetryScheduled] == (second, first)


def test_a_base_class_stands_for_the_kinds_below_it() -> None:
    """`Event` for all of them."""
    from retrykit.events import CallEnded, Event

    everything, ends = Taking(Event), Taking(CallEnded)
    takers = CallSettings(listeners=(everything, ends)).takers()
    assert set(takers) == set(EVERY_KIND)
    assert takers[AttemptFailed] == (everything,)
    for kind in (CallFailed, CallGaveUp, CallCancelled):
        assert takers[kind] == (everything, ends)


def test_kinds_that_change_are_seen_at_the_next_call() -> None:
    """With one listener as with several; what was worked out before is kept."""
    for others in ((), (ignore,)):
        listener = Taking(AttemptStarted)
        settings = CallSettings(listeners=(listener, *others))
        before = settings.takers()
        assert settings.takers() is before
        listener.kinds = (RetryScheduled,)
        assert listener in settings.takers()[RetryScheduled]
        assert listener not in settings.takers().get(AttemptStarted, ())
        listener.kinds = (AttemptStarted,)
        assert settings.takers() is before


def test_kinds_that_are_no_classes_are_logged_once_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A misspelt kind costs its listener that kind, and the call nothing."""
    listener = Taking("RetryScheduled", AttemptStarted)
    settings = CallSettings(listeners=(listener,))
    assert settings.takers() == {AttemptStarted: (listener,)}
    assert settings.takers() == {AttemptStarted: (listener,)}
    assert caplog.messages == [
        "the kinds of a listener must be classes of events, got 'RetryScheduled'"
    ]
