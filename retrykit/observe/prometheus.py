"""Metrics for Prometheus: how calls end, what is retried, how long it waits, why it gives up.

>>> from prometheus_client import CollectorRegistry
>>> registry = CollectorRegistry()
>>> listener = PrometheusListener(registry=registry)
>>> from retrykit.events import CallSucceeded
>>> listener(CallSucceeded(None, "fetch", 2, 0, 0.5, 0.1))
>>> labels = {"policy": "", "function": "fetch", "result": "after_retry"}
>>> registry.get_sample_value("retrykit_calls_total", labels)
1.0
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakKeyDictionary

from retrykit._frozen import FrozenMap
from retrykit._validate import INFINITY, number, shown, whole
from retrykit.events import CallGaveUp, RetryScheduled
from retrykit.observe import _settings
from retrykit.observe._bounded import Bounded
from retrykit.observe._settings import (
    DELAYS,
    LABELS,
    MEASURED,
    balance,
    is_listing,
    result,
    settings_repr,
)

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "prometheus_client":
        raise
    raise ImportError(
        "retrykit.observe.prometheus needs prometheus-client:"
        " install retrykit with the extra [prometheus]",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

    from retrykit.budget import Budget
    from retrykit.events import Event, Kinds
    from retrykit.observe._settings import Label

_NAMESPACE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PrometheusListener:
    """Counts calls and retries in a registry of `prometheus_client`.

    - `retrykit_calls_total`, by `result`: `first_try`, `after_retry`, `failed_without_retry`,
      `failed_after_retries`, `cancelled`;
    - `retrykit_retries_total`, by `reason`;
    - `retrykit_retry_delay_seconds`, a histogram of the waits before retries, with the upper bounds
      `buckets`;
    - `retrykit_give_ups_total`, by the `reason` that stopped the call;
    - `retrykit_budget_balance`, by `budget`: the balance of each of `budgets`, under its key there.

    Each of the first four has the labels `policy` (empty where the policy has no name) and
    `function` too, or those of them that `labels` names. A label has at most `max_values` values
    in a process; the names that come after them are counted together as `other`.

    Listeners on one registry with the same settings share the metrics; with others they are a
    `ValueError`, as is a name that somebody else has taken there. In multiprocess mode
    (`PROMETHEUS_MULTIPROC_DIR`) a balance is that of the lowest living process, as of its last
    call. Bad settings are a `TypeError` or `ValueError`.

    >>> PrometheusListener(registry=CollectorRegistry(), labels=["policy"]).labels
    ('policy',)
    """

    registry: CollectorRegistry = REGISTRY
    namespace: str = "retrykit"
    labels: tuple[Label, ...] = LABELS
    max_values: int = 100
    buckets: tuple[float, ...] = DELAYS
    budgets: Mapping[str, Budget] = FrozenMap[str, "Budget"]({})
    _metrics: _Metrics = field(init=False, compare=False)

    kinds: ClassVar[Kinds] = MEASURED

    def __post_init__(self) -> None:
        put = object.__setattr__
        _registry("registry", self.registry)
        _namespace("namespace", self.namespace)
        put(self, "labels", _settings.labels("labels", self.labels))
        whole("max_values", self.max_values, low=1)
        put(self, "buckets", _buckets("buckets", self.buckets))
        put(self, "budgets", _settings.budgets("budgets", self.budgets))
        put(self, "_metrics", _shared(self))
        self._metrics.watch(self.budgets)

    def __call__(self, event: Event, /) -> None:
        """Count the event."""
        self._metrics.count(event)

    def __reduce__(self) -> tuple[Any, ...]:
        registry = None if self.registry is REGISTRY else self.registry
        settings = (self.namespace, self.labels, self.max_values, self.buckets, self.budgets)
        return self._unpickled, (registry, *settings)

    @classmethod
    def _unpickled(
        cls,
        registry: CollectorRegistry | None,
        namespace: str,
        labels: tuple[Label, ...],
        max_values: int,
        buckets: tuple[float, ...],
        budgets: FrozenMap[str, Budget],
    ) -> PrometheusListener:
        listener = cls(
            registry=REGISTRY if registry is None else registry,
            namespace=namespace,
            labels=labels,
            max_values=max_values,
            buckets=buckets,
        )
        # In the process of the original, its budgets go on being the ones reported.
        object.__setattr__(listener, "budgets", budgets)
        listener._metrics.watch(budgets, keep=True)
        return listener

    # It stands for metrics that there are once in a process: a copy would be the same.

    def __copy__(self) -> PrometheusListener:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrometheusListener:
        return self

    def __repr__(self) -> str:
        return settings_repr(self)


_lock: Final = Lock()
_known: Final[WeakKeyDictionary[CollectorRegistry, dict[str, _Metrics]]] = WeakKeyDictionary()


def _shared(listener: PrometheusListener) -> _Metrics:
    """The metrics of the listener's namespace in its registry, registered at the first."""
    space = listener.namespace
    with _lock:
        known = _known.setdefault(listener.registry, {})
        metrics = known.get(space)
        if metrics is None:
            metrics = _Metrics(listener)
            try:
                metrics.register(listener.registry)
            except ValueError as error:
                raise ValueError(
                    f"namespace {space!r} is not free in this registry, choose another: {error}"
                ) from error
            known[space] = metrics
    settings = _settings_of(listener)
    if metrics.settings != settings:
        raise ValueError(
            f"namespace {space!r} has metrics with other settings in this registry:"
            f" (labels, max_values, buckets) is {metrics.settings}, got {settings}"
        )
    return metrics


def _settings_of(listener: PrometheusListener) -> tuple[object, ...]:
    return listener.labels, listener.max_values, listener.buckets


def _registry(field: str, value: object) -> None:
    if not isinstance(value, CollectorRegistry):
        raise TypeError(f"{field} must be a CollectorRegistry, got {shown(value)}")


def _namespace(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a string, got {shown(value)}")
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(f"{field} must be letters, digits and underscores, got {value!r}")


def _buckets(field: str, value: object) -> tuple[float, ...]:
    if not is_listing(value):
        raise TypeError(f"{field} must be a tuple of seconds, got {shown(value)}")
    given = tuple(value)
    if given and given[-1] == INFINITY:
        given = given[:-1]  # the last bound, which a histogram has anyway
    bounds = tuple(number(field, each, above=True) for each in given)
    if not bounds or any(low >= high for low, high in pairwise(bounds)):
        raise ValueError(f"{field} must be one or more rising bounds, got {shown(value)}")
    return bounds


class _Metrics:
    """The metrics of one namespace in one registry, shared by the listeners there."""

    def __init__(self, listener: PrometheusListener) -> None:
        labels = listener.labels
        space = listener.namespace
        self.settings = _settings_of(listener)
        self._names = {label: Bounded(listener.max_values, rest="other") for label in labels}
        self._calls = Counter(
            "calls", "Calls that ended.", (*labels, "result"), namespace=space, registry=None
        )
        self._retries = Counter(
            "retries", "Retries scheduled.", (*labels, "reason"), namespace=space, registry=None
        )
        self._delay = Histogram(
            "retry_delay",
            "The wait before a retry.",
            labels,
            namespace=space,
            unit="seconds",
            registry=None,
            buckets=listener.buckets,
        )
        self._give_ups = Counter(
            "give_ups",
            "Calls for which a limit refused a retry that was wanted.",
            (*labels, "reason"),
            namespace=space,
            registry=None,
        )
        self._balance = Gauge(
            "budget_balance",
            "What a retry budget holds to draw on.",
            ("budget",),
            namespace=space,
            registry=None,
            # The process that is nearest to refusing retries is the one to know of.
            multiprocess_mode="livemin",
        )
        self._budgets: dict[str, Budget] = {}
        # What a function answers at the scrape never reaches the files that processes share.
        self._multiprocess = bool(
            {"PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"} & set(os.environ)
        )

    def register(self, registry: CollectorRegistry) -> None:
        """Put all of them into the registry, or none."""
        done: list[MetricWrapperBase] = []
        for metric in (self._calls, self._retries, self._delay, self._give_ups, self._balance):
            try:
                registry.register(metric)
            except ValueError:
                for each in done:
                    registry.unregister(each)
                raise
            done.append(metric)

    def watch(self, budgets: Mapping[str, Budget], *, keep: bool = False) -> None:
        """Report these budgets too. A name that another one has is an error, or its (`keep`)."""
        for name, budget in budgets.items():
            taken = self._budgets.setdefault(name, budget)
            if taken is not budget and not keep:
                raise ValueError(f"budgets: another budget is reported as {name!r} already")
        for name, budget in self._budgets.items():
            gauge = self._balance.labels(name)
            if self._multiprocess:
                gauge.set(balance(budget))
            else:
                gauge.set_function(partial(balance, budget))

    def count(self, event: Event) -> None:
        """Count the event."""
        values: list[str] = []
        for label, bounded in self._names.items():
            name: str | None = getattr(event, label)
            values.append(bounded(name) if name else "")
        ending = result(event)
        if ending is not None:
            self._calls.labels(*values, ending).inc()
        if isinstance(event, RetryScheduled):
            self._retries.labels(*values, event.reason.value).inc()
            delay = self._delay.labels(*values) if values else self._delay
            delay.observe(event.delay)
        elif isinstance(event, CallGaveUp):
            self._give_ups.labels(*values, event.reason.value).inc()
        if self._multiprocess:
            for name, budget in self._budgets.items():
                self._balance.labels(name).set(balance(budget))
