"""Traces and metrics for OpenTelemetry: retries as span events or as spans, and how calls end.

>>> from retrykit import RetryPolicy
>>> from retrykit.events import log_retries
>>> policy = RetryPolicy(listeners=(log_retries, OpenTelemetryListener()))
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from retrykit._frozen import FrozenMap
from retrykit._validate import one_of, shown, whole
from retrykit._version import __version__
from retrykit.events import (
    EVERY_KIND,
    AttemptFailed,
    AttemptStarted,
    CallCancelled,
    CallEnded,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)
from retrykit.observe import _settings
from retrykit.observe._bounded import Bounded
from retrykit.observe._settings import DELAYS, LABELS, MEASURED, balance, result, settings_repr
from retrykit.outcome import Attempt, Call, Raised

try:
    from opentelemetry import trace
    from opentelemetry.context import attach, detach, get_current
    from opentelemetry.metrics import (
        CallbackOptions,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
    from opentelemetry.trace import Status, StatusCode, TracerProvider
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "opentelemetry":
        raise
    raise ImportError(
        "retrykit.observe.opentelemetry needs opentelemetry-api:"
        " install retrykit with the extra [opentelemetry]",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from retrykit.budget import Budget
    from retrykit.events import Event, Kinds
    from retrykit.facts.http import HttpFacts
    from retrykit.observe._settings import Label
    from retrykit.outcome import Outcome

    Attributes: TypeAlias = dict[str, str | int | float]

Traces: TypeAlias = Literal["events", "spans", "off"]

_NOTHING: Final[Kinds] = frozenset()
_TOLD: Final[Kinds] = frozenset({RetryScheduled, CallFailed, CallGaveUp})
_OTHER: Final = "_OTHER"
"""What the semantic conventions call an error that has no type."""
_KEYS: Final = {"policy": "retrykit.policy.name", "function": "code.function.name"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpenTelemetryListener:
    """Tells the current trace of retries, and counts calls in a meter.

    `traces` is one of

    - `"events"`: an event `retrykit.retry` on the current span for each retry, and
      `retrykit.give_up` where the call failed after a retry or a limit refused one;
    - `"spans"`: a child span for each attempt, current while the attempt runs and not while the
      call waits, so that what the attempt does (an instrumented client's spans) is below it;
    - `"off"`.

    They carry the policy, the function, the attempt's number, `retrykit.retry.reason`, `.delay`
    and `.source` or `retrykit.stop.reason`, `error.type`, and where the attempt was an HTTP request
    `http.response.status_code` and `http.request.resend_count`.

    `metrics`: the counters `retrykit.calls` (by `retrykit.call.result`: `first_try`,
    `after_retry`, `failed_without_retry`, `failed_after_retries`, `cancelled`), `retrykit.retries`
    and `retrykit.give_ups` (by reason), the histogram `retrykit.retry.delay` in seconds, and the
    gauge `retrykit.budget.balance` for each of `budgets` under its key there. `labels` says whether
    policy and function are told apart in them; each has at most `max_values` values, and those
    that come after are counted together as `other`.

    Without providers of its own it uses the global ones, whenever they are set. As long as there
    are none and no span is recorded it takes no events at all. No argument, URL, header, value or
    error text goes into any of this. Bad settings are a `TypeError` or `ValueError`.

    With `"spans"`, the coroutine that a plain function hands back is to be awaited where the
    function was called: the attempt's span is current from there. (`async def` has no such limit.)

    >>> OpenTelemetryListener(traces="spans", metrics=False)
    OpenTelemetryListener(traces='spans', metrics=False)
    """

    traces: Traces = "events"
    metrics: bool = True
    labels: tuple[Label, ...] = LABELS
    max_values: int = 100
    budgets: Mapping[str, Budget] = FrozenMap[str, "Budget"]({})
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    _names: dict[str, Bounded] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        one_of("traces", self.traces, ("events", "spans", "off"))
        _flag("metrics", self.metrics)
        put(self, "labels", _settings.labels("labels", self.labels))
        whole("max_values", self.max_values, low=1)
        put(self, "budgets", _settings.budgets("budgets", self.budgets))
        _provider("tracer_provider", self.tracer_provider, TracerProvider)
        _provider("meter_provider", self.meter_provider, MeterProvider)
        names = {label: Bounded(self.max_values, rest="other") for label in LABELS}
        put(self, "_names", {**names, "error": Bounded(self.max_values, rest=_OTHER)})

    @property
    def kinds(self) -> Kinds:
        """What somebody would see, asked once per call."""
        if self.traces == "spans" and _is_configured(self._tracer_provider()):
            return EVERY_KIND
        if self.metrics and _is_configured(self._meter_provider()):
            return MEASURED
        if self.traces == "events" and trace.get_current_span().is_recording():
            return _TOLD
        return _NOTHING

    def __call__(self, event: Event, /) -> None:
        """Tell the trace and the meter of the event."""
        if self.metrics and _is_configured(self._meter_provider()):
            self._measure(event)
        if self.traces == "spans":
            self._trace(event)
        elif self.traces == "events":
            self._tell(event)

    # Metrics.

    def _measure(self, event: Event) -> None:
        instruments = _instruments_of(self._meter_provider())
        instruments.watch(self.budgets)
        attributes: Attributes = {}
        for label in self.labels:
            name: str | None = getattr(event, label)
            if name:
                attributes[_KEYS[label]] = self._names[label](name)
        ending = result(event)
        if isinstance(event, RetryScheduled):
            instruments.delay.record(event.delay, attributes)
            reason = {"retrykit.retry.reason": event.reason.value}
            instruments.retries.add(1, {**attributes, **reason, **self._error_type(event)})
        elif isinstance(event, CallEnded):
            if isinstance(event, CallGaveUp):
                instruments.give_ups.add(
                    1, {**attributes, "retrykit.stop.reason": event.reason.value}
                )
            if not isinstance(event, CallCancelled):  # what it tells of is an attempt before
                attributes |= self._error_type(event)
        if ending is not None:
            instruments.calls.add(1, {**attributes, "retrykit.call.result": ending})

    def _error_type(self, event: RetryScheduled | CallEnded) -> Attributes:
        if event.outcome is None:
            return {}
        return {"error.type": self._names["error"](_error_type(event.error_type, event.outcome))}

    # Events on the current span.

    def _tell(self, event: Event) -> None:
        """Add the event to the current span, where it is one to tell."""
        match event:
            case RetryScheduled():
                name, resent = "retrykit.retry", event.number
            case CallGaveUp():
                name, resent = "retrykit.give_up", event.number - 1
            case CallFailed() if event.number > 1:
                name, resent = "retrykit.give_up", event.number - 1
            case _:
                return
        span = trace.get_current_span()
        if span.is_recording():
            attributes = _common(event) | _reason(event)
            if event.outcome is not None:
                attributes["error.type"] = _error_type(event.error_type, event.outcome)
                attributes |= _http_attributes(_http(event.outcome), resent)
            span.add_event(name, attributes)

    # A span for each attempt.

    def _trace(self, event: Event) -> None:
        call = self._traced(event)
        match event:
            case AttemptStarted():
                if call is None or event.number == 1:
                    call = _Traced(self, event, _without_stale(self, event))
                call.begin(_tracer_of(self._tracer_provider()), event)
            case AttemptFailed() if call is not None:
                call.fail(event)
            case RetryScheduled() if call is not None:
                call.finish(_reason(event))
            case CallEnded() | CallSucceeded():
                reason = _reason(event) if isinstance(event, CallEnded) else {}
                if call is None or not call.finish(reason):
                    self._tell(event)  # it ended in a wait, of which there is no span
                if call is not None:
                    call.is_over = True
                    _innermost.set(call.outer)
            case _:
                pass

    def _traced(self, event: Event) -> _Traced | None:
        """The event's call, if its first attempt began in this context."""
        call = _innermost.get()
        while call is not None and not call.is_of(self, event):
            call = call.outer
        return call

    def _tracer_provider(self) -> TracerProvider:
        mine = self.tracer_provider
        return trace.get_tracer_provider() if mine is None else mine

    def _meter_provider(self) -> MeterProvider:
        mine = self.meter_provider
        return get_meter_provider() if mine is None else mine

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {
            "traces": self.traces,
            "metrics": self.metrics,
            "labels": self.labels,
            "max_values": self.max_values,
            "budgets": self.budgets,
            "tracer_provider": self.tracer_provider,
            "meter_provider": self.meter_provider,
        }
        return _unpickled, (settings,)

    # Providers are one of a kind, and a frozen listener's copy would be the same.

    def __copy__(self) -> OpenTelemetryListener:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OpenTelemetryListener:
        return self

    def __repr__(self) -> str:
        return settings_repr(self)


_innermost: Final[ContextVar[_Traced | None]] = ContextVar("retrykit.opentelemetry", default=None)


class _Traced:
    """A call whose attempts are spans: known in its context from its first attempt to its end."""

    __slots__ = (
        "_depth",
        "_ended",
        "_entered",
        "_function",
        "_is_http",
        "_listener",
        "_span",
        "is_over",
        "outer",
    )

    def __init__(
        self, listener: OpenTelemetryListener, event: Event, outer: _Traced | None
    ) -> None:
        self.is_over = False
        self.outer = outer
        self._listener = listener
        self._function = event.function
        self._depth = event.depth
        self._is_http = False
        self._span: Span | None = None
        self._ended: int | None = None
        self._entered: tuple[Token[_Traced | None], Token[Context], Context, Context] | None = None

    def is_of(self, listener: OpenTelemetryListener, event: Event) -> bool:
        """Whether the event is this call's."""
        return (
            self._listener is listener
            and self._depth == event.depth
            and self._function == event.function
        )

    def begin(self, tracer: Tracer, event: AttemptStarted) -> None:
        """Start the attempt's span, and make it the current one."""
        attributes = _common(event)
        if self._is_http and event.number > 1:
            attributes["http.request.resend_count"] = event.number - 1
        span = self._span = tracer.start_span(f"attempt {event.function}", attributes=attributes)
        self._ended = None
        before = get_current()
        inside = trace.set_span_in_context(span, before)
        self._entered = (_innermost.set(self), attach(inside), before, inside)

    def fail(self, event: AttemptFailed) -> None:
        """The attempt is over; why, and what follows, is told next."""
        self._leave()
        self._ended = time_ns()
        if self._span is not None:
            seen = _http(event.outcome)
            self._is_http = self._is_http or seen is not None
            attributes = _http_attributes(seen, event.number - 1)
            attributes["error.type"] = _error_type(event.error_type, event.outcome)
            self._span.set_attributes(attributes)
            self._span.set_status(Status(StatusCode.ERROR))
        _innermost.set(self)

    def finish(self, attributes: Attributes) -> bool:
        """End the attempt's span; answers whether there was one."""
        self._leave()
        span, self._span = self._span, None
        if span is None:
            return False
        span.set_attributes(attributes)
        span.end(self._ended)
        return True

    def _leave(self) -> None:
        """Make the span current that was so before the attempt."""
        if self._entered is None:
            return
        mine, theirs, before, inside = self._entered
        self._entered = None
        try:
            _innermost.reset(mine)
        except ValueError:
            # A foreign context: OpenTelemetry's token belongs to the other one too, and would be
            # complained of. Here the span is current only if it came along with a copy.
            if get_current() is inside:
                attach(before)
        else:
            detach(theirs)


def _without_stale(listener: OpenTelemetryListener, event: Event) -> _Traced | None:
    """The calls around the one that begins, without those of its like whose end was never told.

    The same function cannot run twice at the same depth: the older of the two was dropped.
    """
    call = _innermost.get()
    while call is not None and (call.is_over or call.is_of(listener, event)):
        call.finish({})
        call = call.outer
    return call


class _Instruments:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = self._meter = provider.get_meter("retrykit", __version__)
        self.calls = meter.create_counter("retrykit.calls", "{call}", "Calls that ended.")
        self.retries = meter.create_counter("retrykit.retries", "{retry}", "Retries scheduled.")
        self.give_ups = meter.create_counter(
            "retrykit.give_ups",
            "{call}",
            "Calls for which a limit refused a retry that was wanted.",
        )
        self.delay = meter.create_histogram(
            "retrykit.retry.delay",
            "s",
            "The wait before a retry.",
            explicit_bucket_boundaries_advisory=DELAYS,
        )
        self._budgets: dict[str, Budget] = {}

    def watch(self, budgets: Mapping[str, Budget]) -> None:
        """Report these budgets too; of two with one name, the first."""
        for name, budget in budgets.items():
            if name not in self._budgets:
                if not self._budgets:
                    self._meter.create_observable_gauge(
                        "retrykit.budget.balance",
                        [self._observe],
                        "{retry}",
                        "What a retry budget holds to draw on.",
                    )
                self._budgets[name] = budget

    def _observe(self, options: CallbackOptions) -> Iterable[Observation]:  # noqa: ARG002 - the API's shape
        for name, budget in self._budgets.items():
            yield Observation(balance(budget), {"retrykit.budget.name": name})


# What is made of a provider serves all listeners: it would warn of a second instrument of a name.
_instruments: Final[WeakKeyDictionary[MeterProvider, _Instruments]] = WeakKeyDictionary()
_tracers: Final[WeakKeyDictionary[TracerProvider, Tracer]] = WeakKeyDictionary()


def _instruments_of(provider: MeterProvider) -> _Instruments:
    made = _instruments.get(provider)
    return _instruments.setdefault(provider, _Instruments(provider)) if made is None else made


def _tracer_of(provider: TracerProvider) -> Tracer:
    made = _tracers.get(provider)
    if made is None:
        made = _tracers.setdefault(provider, provider.get_tracer("retrykit", __version__))
    return made


def _is_configured(provider: object) -> bool:
    """Whether there is anything behind the API: what it provides by itself records nothing."""
    return not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )


def _common(event: Event) -> Attributes:
    attributes: Attributes = {
        "code.function.name": event.function,
        "retrykit.attempt.number": event.number,
    }
    if event.policy is not None:
        attributes["retrykit.policy.name"] = event.policy
    return attributes


def _reason(event: RetryScheduled | CallEnded) -> Attributes:
    """Why the call goes on or ends."""
    if isinstance(event, CallEnded):
        return {"retrykit.stop.reason": event.reason.value}
    return {
        "retrykit.retry.reason": event.reason.value,
        "retrykit.retry.delay": event.delay,
        "retrykit.retry.source": event.source,
    }


def _error_type(error_type: str | None, outcome: Outcome) -> str:
    """The error's class, else the response's status, as the semantic conventions have it."""
    if error_type is not None:
        return error_type
    seen = _http(outcome)
    return _OTHER if seen is None or seen.status is None else str(seen.status)


def _http(outcome: Outcome) -> HttpFacts | None:
    """What the outcome shows of an HTTP request, if the attempt was one."""
    # Not needed before the first failure, and then the tables are loaded already.
    from retrykit.facts.exceptions import HTTP_CLIENTS, lookup
    from retrykit.facts.http import facts

    seen = facts(Attempt(_UNKNOWN, 1, outcome, 0.0))
    if seen is None or seen.status is not None or seen.method is not None:
        return seen
    # A lost connection alone may be any protocol's.
    row = lookup(outcome.error) if isinstance(outcome, Raised) else None
    return seen if row is not None and row.library in HTTP_CLIENTS else None


def _http_attributes(seen: HttpFacts | None, resent: int) -> Attributes:
    """`resent`: how many times the request was sent again, this time included."""
    attributes: Attributes = {}
    if seen is not None:
        if resent:
            attributes["http.request.resend_count"] = resent
        if seen.status is not None:
            attributes["http.response.status_code"] = seen.status
    return attributes


def _unpickled(settings: dict[str, Any]) -> OpenTelemetryListener:
    return OpenTelemetryListener(**settings)


def _flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{field} must be True or False, got {shown(value)}")


def _provider(field: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{field} must be a {kind.__name__}, got {shown(value)}")


def _nothing() -> None:
    """Stands for the function of a call of which only the outcome is known."""


_UNKNOWN: Final = Call(_nothing)
