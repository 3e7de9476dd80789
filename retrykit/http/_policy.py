"""The preset for calls over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retrykit.backoff import ByReason, Exponential
from retrykit.budget import PerKey, RatioBudget
from retrykit.classify import FirstOf
from retrykit.decision import RetryReason
from retrykit.facts._shapes import request_of
from retrykit.http._classifier import HttpClassifier
from retrykit.policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from retrykit._fields import PolicyFields
    from retrykit.budget import Budget
    from retrykit.facts.methods import RetryableMethod
    from retrykit.outcome import Call

BACKOFF: Final = ByReason(
    {
        RetryReason.CONNECTION_FAILED: Exponential(0.1, factor=2, cap=5),
        RetryReason.THROTTLED: Exponential(1.0, factor=2, cap=60),
    },
    default=Exponential(0.25, factor=2, cap=20),
)
"""Fast for connection faults, slow where the server is throttling."""


def http_policy(
    *,
    method: str | RetryableMethod | None = None,
    unless: Callable[[Any], object] | None = None,
    **fields: Unpack[PolicyFields],
) -> RetryPolicy:
    """The policy for calls over HTTP, any field of `RetryPolicy` changed by its name.

    `HttpClassifier` decides (`method` and `unless` are its own); a `classify` given here is asked
    first. The backoff is fast for connection faults and begins at 1 s for throttling; a Retry-After
    of up to a minute is honoured. When retrying ends, the last response is returned, open and
    readable, rather than an error raised (`unsatisfied="return"`).

    There is no budget unless one is given. A service should have one, so that its retries never
    feed an outage: `http_policy(budget=per_host())`. A batch that may wait needs none.

    >>> http_policy(attempts=3).unsatisfied
    'return'
    """
    rule: Any = HttpClassifier(method=method, unless=unless)
    if "classify" in fields:
        rule = FirstOf(fields["classify"], rule)  # type: ignore[arg-type]  # one or several, either is taken
    defaults: PolicyFields = {"backoff": BACKOFF, "unsatisfied": "return"}
    changed: Any = {**defaults, **fields, "classify": rule}
    return RetryPolicy(**changed)


def host_of(call: Call) -> str:
    """The host that a call's request goes to, from the request among its arguments; else `""`."""
    url = request_of(call).url or ""
    return url.partition("//")[2].partition("/")[0].lower()


def per_host(budget: Budget | None = None, *, size: int = 1000) -> PerKey:
    """A budget for each host, so that one that is down costs the others nothing.

    `budget` is the template (omitted: `RatioBudget()`). The host is read off the request among the
    call's arguments, as the clients' adapters have it; functions without one share a budget.

    >>> per_host().budget
    RatioBudget(ratio=0.5, reserve=20.0)
    """
    return PerKey(host_of, RatioBudget() if budget is None else budget, size=size)
