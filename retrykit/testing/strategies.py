"""Hypothesis strategies for everything that a policy is made of, and for what happens to one.

They compose like any others and shrink to the plain case: `Schedule()`, `NoJitter()`, no error.
Policies and their parts have a `repr` that can be evaluated with `NAMES`; so have the steps of
`faults`. The `repr` of an outcome or an attempt shows no values on purpose; a falsifying example
shows how it was made.

>>> from hypothesis import given
>>> from random import Random
>>> @given(backoffs())
... def no_wait_is_negative(backoff):
...     assert next(backoff.delays(Random(0)), 0.0) >= 0
>>> no_wait_is_negative()

Needs the extra `[hypothesis]`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hypothesis import strategies as st

import retrykit
from retrykit import backoff as _backoff
from retrykit import budget as _budget
from retrykit import classify as _classify
from retrykit import clock as _clock
from retrykit import events as _events
from retrykit import jitter as _jitter
from retrykit.backoff import (
    LONGEST,
    BackoffBase,
    ByReason,
    Constant,
    Custom,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Polynomial,
    Schedule,
)
from retrykit.budget import Budget, PerKey, RatioBudget, TokenBudget
from retrykit.classify import Classifier, FirstOf, Never, OnException, OnResult, transient
from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.events import log_retries
from retrykit.http import HttpClassifier
from retrykit.jitter import (
    AdditiveJitter,
    Bounds,
    EqualJitter,
    FullJitter,
    Jitter,
    NoJitter,
    ProportionalJitter,
)
from retrykit.outcome import Attempt, Call, Outcome, Raised, Returned
from retrykit.policy import RetryPolicy
from retrykit.server_delay import ServerDelay
from retrykit.testing._script import Slow

if TYPE_CHECKING:
    from random import Random

    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def _named(build: Callable[[], SearchStrategy[T]]) -> Callable[[], SearchStrategy[T]]:
    """A strategy that is built once, and that shows as its name where it is printed."""
    built = cache(build)

    def drawn(draw: st.DrawFn) -> T:
        return draw(built())

    drawn.__name__ = drawn.__qualname__ = build.__name__
    drawn.__doc__ = build.__doc__
    drawn.__module__ = build.__module__
    return st.composite(drawn)


Headers: TypeAlias = "Mapping[str, str] | list[tuple[str, str]] | list[tuple[bytes, bytes]]"


def durations(*, low: float = 0.0, high: float = LONGEST) -> SearchStrategy[float]:
    """Seconds, mostly such as somebody would write, up to the longest that there is.

    >>> durations().validate()
    """
    usual = [each for each in (0.0, 1.0, 0.1, 0.25, 2.0, 5.0, 20.0, 60.0) if low <= each <= high]
    some = st.floats(low, high, allow_nan=False)
    return st.one_of(st.sampled_from(usual), some) if usual else some


@_named
def jitters() -> SearchStrategy[Jitter]:
    """Every jitter.

    >>> jitters().validate()
    """
    return st.one_of(
        st.just(NoJitter()),
        st.just(FullJitter()),
        st.just(EqualJitter()),
        st.builds(ProportionalJitter, st.floats(0, 1)),
        st.builds(AdditiveJitter, durations()),
    )


@dataclass(frozen=True, slots=True)
class Waits:
    """A backoff without combinators, as somebody else may have written it: the waits, exactly."""

    waits: tuple[float, ...]

    @property
    def limits(self) -> Bounds:
        """None."""
        return Bounds(0.0, math.inf)

    def delays(self, rng: Random, /) -> Iterator[float]:  # noqa: ARG002 - every backoff takes a generator
        """The waits."""
        return iter(self.waits)

    def bounds(self) -> Iterator[Bounds]:
        """Each wait twice."""
        return (Bounds(wait, wait) for wait in self.waits)


@_named
def backoffs() -> SearchStrategy[BackoffBase]:
    """Every backoff, by itself, combined with others, and by reason.

    >>> backoffs().validate()
    """
    exact = st.one_of(
        st.builds(Constant, durations()),
        st.lists(durations(), max_size=5).map(lambda waits: Schedule(*waits)),
        st.lists(durations(), max_size=5).map(lambda waits: Custom(Waits(tuple(waits)))),
    )
    growing = st.one_of(
        _with_cap(durations(), Exponential, factor=st.floats(1, 10), jitter=jitters()),
        st.builds(Linear, durations(), durations(), jitter=jitters()),
        st.builds(Polynomial, durations(), st.floats(0, 10), jitter=jitters()),
        st.builds(Fibonacci, durations(), jitter=jitters()),
        _with_cap(durations(), Decorrelated, always=True),
    )
    jittered = st.builds(_jittered, st.one_of(exact, _continued(exact)), jitters())
    # In layers, which are drawn much faster than `st.recursive`.
    single = st.one_of(exact, growing, jittered)
    combined = _combined(single)
    return st.one_of(single, combined, _combined(st.one_of(single, combined)))


def _combined(inner: SearchStrategy[BackoffBase]) -> SearchStrategy[BackoffBase]:
    return st.one_of(_continued(inner), _limited(inner), _by_reason(inner))


def _with_cap(
    bases: SearchStrategy[float], kind: Any, *, always: bool = False, **fields: SearchStrategy[Any]
) -> SearchStrategy[BackoffBase]:
    """Backoffs with a base and, mostly or always, a cap that is no lower."""

    def build(base: float) -> SearchStrategy[BackoffBase]:
        caps: SearchStrategy[Any] = durations(low=base)
        return st.builds(kind, st.just(base), cap=caps if always else st.none() | caps, **fields)

    return bases.flatmap(build)


def _continued(inner: SearchStrategy[BackoffBase]) -> SearchStrategy[BackoffBase]:
    return st.one_of(
        st.builds(_taken, inner, st.integers(0, 10)),
        st.builds(_followed, inner, inner),
        st.builds(operator.add, inner, inner),
    )


def _taken(backoff: BackoffBase, n: int) -> BackoffBase:
    return backoff.take(n)


def _followed(backoff: BackoffBase, other: BackoffBase) -> BackoffBase:
    return backoff.then(other)


def _jittered(backoff: BackoffBase, jitter: Jitter) -> BackoffBase:
    return backoff.jittered(jitter)


def _capped(backoff: BackoffBase, limit: float) -> BackoffBase:
    return backoff.capped(limit)


def _floored(backoff: BackoffBase, limit: float) -> BackoffBase:
    return backoff.at_least(limit)


def _limited(inner: SearchStrategy[BackoffBase]) -> SearchStrategy[BackoffBase]:
    return st.one_of(
        st.builds(_if_there_is_room, st.just(_capped), inner, durations()),
        st.builds(_if_there_is_room, st.just(_floored), inner, durations()),
    )


def _if_there_is_room(
    limited: Callable[[BackoffBase, float], BackoffBase], backoff: BackoffBase, limit: float
) -> BackoffBase:
    """The backoff inside the limit; as it is, where a part of it has its own limits elsewhere."""
    try:
        return limited(backoff, limit)
    except ValueError:
        return backoff


def _by_reason(inner: SearchStrategy[BackoffBase]) -> SearchStrategy[BackoffBase]:
    branches = st.dictionaries(st.sampled_from(RetryReason), inner, max_size=3)
    return st.builds(ByReason, branches, default=inner)


ERRORS: Final[tuple[type[Exception], ...]] = (
    OSError,
    ConnectionError,
    ConnectionRefusedError,
    ConnectionResetError,
    BrokenPipeError,
    TimeoutError,
    InterruptedError,
    PermissionError,
    FileNotFoundError,
    ValueError,
    KeyError,
    RuntimeError,
    ZeroDivisionError,
    Exception,
)
"""The types of the errors that are generated."""

VALUES: Final[tuple[Any, ...]] = (
    None,
    "ok",
    "pending",
    0,
    200,
    404,
    429,
    503,
    False,
    True,
    b"",
    [],
    {},
)
"""The values that are returned, some of them unhashable."""


@_named
def errors() -> SearchStrategy[Exception]:
    """Errors: of several types, some with a cause, a context or a Retry-After, some in groups.

    >>> errors().validate()
    """
    plain = st.builds(
        _error, st.sampled_from(ERRORS), st.sampled_from(["", "down", "s3cret {} %s"])
    )
    chained = st.builds(_caused, plain, plain, st.booleans())
    groups = st.builds(_group, st.lists(plain | chained, min_size=1, max_size=3))
    return st.one_of(plain, chained, groups, st.builds(_group, st.tuples(groups, plain)))


def _error(kind: type[Exception], text: str) -> Exception:
    return kind(text) if text else kind()


def _caused(error: Exception, cause: Exception, by_context: bool) -> Exception:
    if by_context:
        error.__context__ = cause
    else:
        error.__cause__ = cause
    return error


def _group(leaves: Sequence[Exception]) -> Exception:
    return ExceptionGroup("several", leaves)


def _on_exception(types: list[type[Exception]], **fields: Any) -> OnException:
    return OnException(*types, **fields)


def says_yes(_: object) -> bool:
    """A predicate that is always true."""
    return True


def says_no(_: object) -> bool:
    """A predicate that never is."""
    return False


def asks_for_a_second(_: object) -> float:
    """What an error asks to wait, for `OnException(after=...)`."""
    return 1.0


def is_pending(value: object) -> bool:
    """Whether a result is worth another look."""
    return value is None or value == "pending"


def no_opinion(_: Attempt) -> None:
    """A classifier, as a plain function."""


def always_retry(_: Attempt) -> RetryDecision:
    """A classifier that wants another attempt whatever came."""
    return RetryAfter()


def never_retry(_: Attempt) -> RetryDecision:
    """A classifier that forbids every retry."""
    return DoNotRetry(StopReason.FORBIDDEN)


@_named
def classifiers() -> SearchStrategy[Classifier]:
    """Every classifier, plain functions and stacks included.

    >>> classifiers().validate()
    """
    types = st.lists(st.sampled_from(ERRORS), min_size=1, max_size=3, unique=True)
    reasons = st.sampled_from(RetryReason)
    predicates = st.sampled_from([None, says_yes, says_no])
    single: SearchStrategy[Classifier] = st.one_of(
        st.just(transient),
        st.builds(
            _on_exception,
            types,
            when=predicates,
            after=st.sampled_from([None, asks_for_a_second]),
            causes=st.booleans(),
            reason=reasons,
        ),
        st.builds(OnResult, st.sampled_from([is_pending, says_no, says_yes]), reason=reasons),
        types.map(lambda types: Never(*types)),
        st.builds(
            HttpClassifier,
            method=st.sampled_from([None, "GET", "POST"]),
            unless=predicates,
        ),
    )
    # A plain function's repr cannot be evaluated; in a stack it shows as its name.
    functions = st.sampled_from([no_opinion, always_retry, never_retry])
    stacks = st.lists(single | functions, min_size=2, max_size=4).map(lambda each: FirstOf(*each))
    return st.one_of(single, stacks)


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key for `PerKey`: an attribute of the call."""

    attribute: str

    def __call__(self, call: Call, /) -> Hashable:
        """The attribute."""
        key: Hashable = getattr(call, self.attribute)
        return key


@_named
def budgets() -> SearchStrategy[Budget]:
    """Every budget. Each is a fresh and full one.

    >>> budgets().validate()
    """

    def tokens(most: float) -> SearchStrategy[TokenBudget]:
        prices = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, most)).filter(
            lambda price: price <= most
        )
        by_reason = st.dictionaries(st.sampled_from(RetryReason), prices, max_size=3)
        rewards = st.floats(0.01, 100)
        return st.builds(TokenBudget, st.just(most), by_reason, prices, rewards)

    single: SearchStrategy[Budget] = st.one_of(
        st.builds(
            RatioBudget, st.floats(0.01, 2), st.one_of(st.integers(1, 20), st.floats(1, 100))
        ),
        st.one_of(st.just(500.0), st.floats(0.5, 1000)).flatmap(tokens),
    )
    keys = st.sampled_from([KeyOf("name"), KeyOf("args")])
    return st.one_of(single, st.builds(PerKey, keys, single, st.integers(1, 100)))


@_named
def server_delays() -> SearchStrategy[ServerDelay]:
    """Every setting of the standard answer to a Retry-After.

    >>> server_delays().validate()
    """
    return st.builds(
        ServerDelay,
        limit=durations(high=1e6),
        over_limit=st.sampled_from(["stop", "cap", "ignore"]),
        combine=st.sampled_from(["precedence", "floor"]),
        spread=st.one_of(st.sampled_from([0.1, 0.0]), st.floats(0, 1)),
    )


@_named
def policies() -> SearchStrategy[RetryPolicy]:
    """Policies with any combination of fields. Those that have a budget share it with nobody.

    >>> policies().validate()
    """
    limits = st.none() | durations(low=1e-3, high=1e6)
    return st.builds(
        RetryPolicy,
        classify=st.one_of(st.just(transient), classifiers()),
        attempts=st.sampled_from([*range(1, 11), math.inf]),
        limits=st.dictionaries(st.sampled_from(RetryReason), st.integers(0, 3), max_size=2),
        deadline=limits,
        attempt_timeout=limits,
        backoff=backoffs(),
        server_delay=st.just(ServerDelay()) | server_delays(),
        budget=st.none() | budgets(),
        unsatisfied=st.sampled_from(["raise", "return"]),
        listeners=st.sampled_from([(log_retries,), ()]),
        stop_when=st.sampled_from([None, stops_never]),
        nested=st.sampled_from(["allow", "suppress"]),
        name=st.sampled_from([None, "p"]),
    )


def stops_never() -> bool:
    """A `stop_when` that lets every call go on."""
    return False


@_named
def outcomes() -> SearchStrategy[Outcome]:
    """What one attempt may come to: values and errors.

    >>> outcomes().validate()
    """
    return st.one_of(
        st.builds(Returned[Any], st.sampled_from(VALUES)),
        st.builds(Raised, errors()),
    )


@_named
def attempts() -> SearchStrategy[Attempt]:
    """Finished attempts: first and late ones, quick and slow ones.

    >>> attempts().validate()
    """
    calls = st.builds(Call, st.just(print), args=st.sampled_from([(), ("s3cret",)]))
    return st.builds(
        Attempt,
        call=calls,
        number=st.integers(1, 1_000_000),
        outcome=outcomes(),
        elapsed=durations(),
        wall=st.none() | st.floats(0, 4e9),
    )


def faults(*, min_size: int = 0, max_size: int = 10) -> SearchStrategy[list[Any]]:
    """What happens to a call in the course of time: steps for a `script`.

    Errors and values, some after seconds of virtual time.

    >>> from retrykit.testing import VirtualClock, script
    >>> from hypothesis import given
    >>> @given(faults(min_size=1))
    ... def play(steps):
    ...     clock = VirtualClock()
    ...     play = script(*steps, clock=clock)
    >>> play()
    """
    steps: SearchStrategy[Any] = st.one_of(
        st.sampled_from([ConnectionError, TimeoutError, "ok"]),
        st.sampled_from(VALUES),
        st.sampled_from(ERRORS),
        st.builds(_error, st.sampled_from(ERRORS), st.sampled_from(["down", ""])),
    )
    slow = st.builds(Slow, durations(high=1e6), steps)
    return st.lists(st.one_of(steps, slow), min_size=min_size, max_size=max_size)


_NOW: Final = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _dates() -> SearchStrategy[str]:
    """HTTP dates in their three forms."""
    moments = st.integers(-(10**9), 10**9).map(lambda seconds: _NOW + timedelta(seconds=seconds))
    return st.one_of(
        moments.map(lambda moment: format_datetime(moment, usegmt=True)),
        moments.map(lambda moment: moment.strftime("%A, %d-%b-%y %H:%M:%S GMT")),
        moments.map(lambda moment: moment.strftime("%a %b %e %H:%M:%S %Y")),
    )


ODD_VALUES: Final = (
    "0.5", " 120 ", "120, 120", "120;q=1", "+5", "-5", "-0", "1e5", "0x10", "1_000", "٣", "１２",
    "1m0s", "30 seconds", "2026-11-30T12:00:00Z", "Mon, 30 Feb 2026 12:00:00 GMT", "tomorrow", "",
)  # fmt: skip
"""Values that real servers send, and that are half right."""

HOSTILE_VALUES: Final = (
    "inf", "-inf", "nan", "Infinity", "1e400", "9" * 5000, "0" * 5000 + "1", "1." + "9" * 5000,
    "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 30 Nov 0000 00:00:00 GMT", "\x00", "\r\nX: y", "\ud800",
    "\udcff", "," * 5000, '"' * 999, "(" * 5000, '"a";r=0;t=' + "9" * 999, "🕰" * 100,
)  # fmt: skip
"""Values that are meant to break a parser."""


@_named
def headers() -> SearchStrategy[Headers]:
    """Response headers that say when to come back: well, oddly, with malice or not at all.

    A mapping, or pairs of `str` or of `bytes`; names in any case, some of them twice.

    >>> headers().validate()
    """
    names = st.sampled_from(
        ["Retry-After", "retry-after", "RETRY-AFTER", "Retry-After-Ms", "x-ms-retry-after-ms",
         "X-RateLimit-Reset", "X-RateLimit-Reset-After", "RateLimit-Reset", "RateLimit",
         "x-ratelimit-reset-requests", "Date", "Age", "Content-Type"]
    )  # fmt: skip
    values = st.one_of(
        st.integers(0, 3600).map(str),
        _dates(),
        st.sampled_from(ODD_VALUES),
        st.sampled_from(HOSTILE_VALUES),
        st.text(max_size=20),
    )
    pairs = st.lists(st.tuples(names, values), max_size=4)
    return st.one_of(st.dictionaries(names, values, max_size=4), pairs, pairs.map(_as_bytes))


def _as_bytes(pairs: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("utf-8", "surrogatepass")) for name, value in pairs]


NAMES: Final[dict[str, Any]] = {
    name: value
    for module in (_events, _clock, _jitter, _backoff, _budget, _classify, retrykit)
    for name, value in vars(module).items()
    if not name.startswith("_")
} | {
    each.__name__: each
    for each in (
        Waits, KeyOf, Slow, says_yes, says_no, asks_for_a_second, is_pending, no_opinion,
        always_retry, never_retry, stops_never,
    )
} | {"inf": math.inf, "HttpClassifier": HttpClassifier}  # fmt: skip
"""What the `repr` of a generated object refers to: `eval(repr(policy), NAMES) == policy`."""
