"""The fields of a policy: their types, and how what a user writes becomes what a field holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast

from retrykit._frozen import FrozenMap
from retrykit._validate import function, instance_not_class, is_async, one_of, shown, whole
from retrykit.backoff import as_backoff
from retrykit.classify import as_classifier
from retrykit.decision import RetryReason
from retrykit.settings import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta
    from random import Random

    from retrykit.backoff import Backoff
    from retrykit.budget import Budget
    from retrykit.classify import Classifier
    from retrykit.clock import Clock
    from retrykit.events import Listener
    from retrykit.server_delay import ServerDelayStrategy
    from retrykit.settings import StopWhen, Unsatisfied


class PolicyFields(TypedDict, total=False):
    """The fields of a policy as they may be written, for `retry`, `replace` and `override`."""

    classify: Classifier | type[BaseException] | Sequence[Classifier | type[BaseException]]
    attempts: float
    limits: Mapping[RetryReason, int]
    deadline: float | timedelta | None
    attempt_timeout: float | timedelta | None
    backoff: Backoff | Sequence[float | timedelta]
    server_delay: ServerDelayStrategy
    budget: Budget | None
    unsatisfied: Unsatisfied
    listeners: Iterable[Listener]
    stop_when: StopWhen | None
    nested: Literal["allow", "suppress"]
    clock: Clock
    rng: Callable[[], Random]
    name: str | None


def _attempts(name: str, value: object) -> float:
    if value == math.inf:
        return math.inf
    if isinstance(value, float):
        # Its type may be right and its value is not: of the floats, infinity alone is taken.
        raise ValueError(f"{name} must be a whole number or math.inf, got {value!r}")  # noqa: TRY004
    return whole(name, value, low=1)


def _limits(name: str, value: object) -> FrozenMap[RetryReason, int]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must map a RetryReason to a number of retries, got {shown(value)}")
    limits: dict[RetryReason, int] = {}
    asked = cast("Mapping[object, object]", value)  # what it maps is checked below
    for reason, limit in asked.items():
        if type(reason) is not RetryReason:
            raise TypeError(f"{name} must have a RetryReason as its key, got {shown(reason)}")
        limits[reason] = whole(f"{name}[{reason!r}]", limit, low=0)
    return FrozenMap(limits)


def _strategy(name: str, value: object) -> object:
    function(name, value)
    return value


def _rng(name: str, value: object) -> object:
    from random import Random

    # A generator's class makes generators: here it is the function that is asked for.
    makes_generators: Any = value
    function(name, value, classes=isinstance(value, type) and issubclass(makes_generators, Random))
    return makes_generators


def _budget(name: str, value: object) -> object:
    if value is None:
        return None
    instance_not_class(name, value)
    for method in ("withdraw", "settle", "balance"):
        asked = getattr(value, method, None)
        if not callable(asked):
            raise TypeError(f"{name} must have withdraw, settle and balance, got {shown(value)}")
        if is_async(asked):
            raise TypeError(f"{name} must have plain methods, got the async {method}")
    return value


def _nested(name: str, value: object) -> object:
    one_of(name, value, ("allow", "suppress"))
    return value


FIELDS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "classify": as_classifier,
    "attempts": _attempts,
    "limits": _limits,
    "backoff": as_backoff,
    "server_delay": _strategy,
    "budget": _budget,
    "nested": _nested,
    "rng": _rng,
    **CHECKS,
}
"""Every field of a policy, and how it is checked and brought to the one type that it holds."""


def checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, each brought to its one type. An unknown name is a `TypeError`.

    >>> checked({"deadline": 3})
    {'deadline': 3.0}
    """
    return {name: known(name)(name, value) for name, value in fields.items()}


def known(name: str) -> Callable[[str, Any], Any]:
    """The check for a field's name; for an unknown one a `TypeError` that names the nearest."""
    check = FIELDS.get(name)
    if check is None:
        from difflib import get_close_matches

        near = get_close_matches(name, FIELDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(FIELDS))}"
        raise TypeError(f"a policy has no field {name!r}: {hint}")
    return check
