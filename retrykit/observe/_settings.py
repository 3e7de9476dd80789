"""What the metrics listeners' settings have in common: how they are checked and printed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from retrykit._frozen import FrozenMap
from retrykit._validate import instance_not_class, shown
from retrykit.budget import Budget
from retrykit.events import (
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from retrykit.events import Event, Kinds

Label: TypeAlias = Literal["policy", "function"]

LABELS: Final[tuple[Label, ...]] = ("policy", "function")
DELAYS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The histogram's upper bounds, in seconds: from a first short wait to a long Retry-After."""
MEASURED: Final[Kinds] = frozenset(
    {RetryScheduled, CallSucceeded, CallFailed, CallGaveUp, CallCancelled}
)


def is_listing(value: object) -> TypeIs[Collection[object]]:
    """Whether `value` is a tuple, list or set: several values, not one string of letters."""
    return isinstance(value, (tuple, list, set, frozenset))


def labels(field: str, value: object) -> tuple[Label, ...]:
    """Which of the labels to give, in the one order that they have."""
    if not is_listing(value):
        raise TypeError(f"{field} must be a tuple of names, got {shown(value)}")
    unknown = [each for each in value if each not in LABELS]
    if unknown:
        known = " and ".join(map(repr, LABELS))
        raise ValueError(f"{field} may hold {known}, got {shown(unknown[0])}")
    return tuple(label for label in LABELS if label in value)


def budgets(field: str, value: object) -> FrozenMap[str, Budget]:
    """Budgets by the name that they are reported under."""
    if not _is_mapping(value):
        raise TypeError(f"{field} must be a mapping of names to budgets, got {shown(value)}")
    held: dict[str, Budget] = {}
    for name, budget in value.items():
        if not isinstance(name, str):
            raise TypeError(f"{field} must have names for keys, got {shown(name)}")
        instance_not_class(f"{field}[{name!r}]", budget)
        if not isinstance(budget, Budget):
            raise TypeError(f"{field}[{name!r}] must be a budget, got {shown(budget)}")
        held[name] = budget
    return FrozenMap(held)


def _is_mapping(value: object) -> TypeIs[Mapping[object, object]]:
    return isinstance(value, Mapping)


def result(event: Event) -> str | None:
    """What a call came to, by its End; `None` for other events.

    >>> result(CallSucceeded(None, "fetch", 1, 0, 0.1, 0.1))
    'first_try'
    """
    match event:
        case CallSucceeded():
            return "first_try" if event.number == 1 else "after_retry"
        case CallFailed() | CallGaveUp():
            return "failed_without_retry" if event.number == 1 else "failed_after_retries"
        case CallCancelled():
            return "cancelled"
        case _:
            return None


def balance(budget: Budget) -> float:
    """What the budget holds; NaN where it cannot tell, so that one budget never costs a scrape."""
    try:
        return float(budget.balance())
    except Exception:  # noqa: BLE001 - somebody else's budget may raise anything
        return float("nan")


def settings_repr(listener: Any) -> str:
    """The listener's constructor call, defaults left out."""
    given = ", ".join(
        f"{field.name}={value!r}"
        for field in fields(listener)
        if field.init and (value := getattr(listener, field.name)) != field.default
    )
    return f"{type(listener).__name__}({given})"
