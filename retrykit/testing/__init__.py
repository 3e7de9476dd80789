"""The test kit: prove a schedule without waiting for it.

Nothing is loaded before it is asked for: `retrykit.testing.strategies` and `retrykit.testing.laws`
need Hypothesis (the extra `[hypothesis]`), the rest needs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from retrykit.testing._clock import VirtualClock
    from retrykit.testing._script import ScriptError, Slow, script
    from retrykit.testing._switches import instant, limit_attempts
    from retrykit.testing._trace import Between, Decided, RetryTrace, assert_waits, decisions
    from retrykit.testing.laws import (
        LawBroken,
        check_backoff,
        check_budget,
        check_classifier,
        check_jitter,
        check_policy,
    )

__all__ = [
    "Between",
    "Decided",
    "LawBroken",
    "RetryTrace",
    "ScriptError",
    "Slow",
    "VirtualClock",
    "assert_waits",
    "check_backoff",
    "check_budget",
    "check_classifier",
    "check_jitter",
    "check_policy",
    "decisions",
    "instant",
    "limit_attempts",
    "script",
]

_HOMES: Final = {
    "VirtualClock": "_clock",
    "ScriptError": "_script",
    "Slow": "_script",
    "script": "_script",
    "instant": "_switches",
    "limit_attempts": "_switches",
    "Between": "_trace",
    "Decided": "_trace",
    "RetryTrace": "_trace",
    "assert_waits": "_trace",
    "decisions": "_trace",
    "LawBroken": "laws",
    "check_backoff": "laws",
    "check_budget": "laws",
    "check_classifier": "laws",
    "check_jitter": "laws",
    "check_policy": "laws",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
