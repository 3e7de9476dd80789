"""From an outcome to a decision, or to no opinion.

A classifier is any plain function `(Attempt) -> RetryDecision | None`. The building blocks here
stack with `|`, with each other and with plain functions, and the first opinion wins:

>>> from retrykit.outcome import Call, Raised
>>> classify = Never(PermissionError) | OnException(OSError)
>>> attempt = Attempt(Call(open), 1, Raised(PermissionError()), 0.1)
>>> classify(attempt)
DoNotRetry(reason=StopReason.FORBIDDEN)

An error on which nobody has an opinion is not retried; a result on which nobody has is a success.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

from retrykit._validate import function, shown
from retrykit._value import named
from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.outcome import Attempt, Returned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta


__all__ = [
    "Classifier",
    "FirstOf",
    "Never",
    "OnException",
    "OnResult",
    "as_classifier",
    "transient",
]

Classifier: TypeAlias = Callable[[Attempt], "RetryDecision | None"]
"""`None` is "no opinion"."""

LONGEST_CHAIN: Final = 100
"""How far a cause chain is followed."""


class Stackable:
    """What gives a classifier its `|`. Subclass it for a classifier class of your own.

    `sees_results = False` says that it has opinions on errors only, so that a call which succeeds
    need not ask it.

    >>> from retrykit.outcome import Call
    >>> class Busy(Stackable):
    ...     def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
    ...         return RetryAfter(1.0) if attempt.value == "busy" else None
    >>> classify = OnException(OSError) | Busy()
    >>> classify(Attempt(Call(print), 1, Returned("busy"), 0.1))
    RetryAfter(delay=1.0, reason=RetryReason.TRANSIENT)
    """

    __slots__ = ()

    sees_results: ClassVar[bool] = True

    @property
    def by_type(self) -> bool:
        """Whether an error's type alone settles the answer, so that it may be remembered."""
        return False

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        raise NotImplementedError

    def __or__(self, other: Classifier | type[BaseException], /) -> FirstOf:
        return _stack(self, other)

    def __ror__(self, other: Classifier | type[BaseException], /) -> FirstOf:
        return _stack(other, self)


def _stack(
    first: Classifier | type[BaseException], second: Classifier | type[BaseException]
) -> FirstOf:
    if not callable(first) or not callable(second):
        return NotImplemented
    return FirstOf(first, second)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class FirstOf(Stackable):
    """Ask each classifier in turn; the first that has an opinion wins. `a | b` makes one.

    >>> FirstOf(OnException(OSError), OnResult(callable))
    FirstOf(OnException(OSError), OnResult(callable))
    """

    classifiers: tuple[Classifier, ...]

    def __init__(self, *classifiers: Classifier | type[BaseException]) -> None:
        flat: list[Classifier] = []
        for each in classifiers:
            one = as_classifier("classify", each)
            flat.extend(one.classifiers if isinstance(one, FirstOf) else (one,))
        object.__setattr__(self, "classifiers", tuple(flat))

    @property
    def by_type(self) -> bool:
        """Whether it is so for each of them."""
        return all(getattr(each, "by_type", False) for each in self.classifiers)

    @property
    def sees_results(self) -> bool:  # type: ignore[override]  # here it depends on the parts
        """Whether one of them may have an opinion on a result."""
        return any(getattr(each, "sees_results", True) for each in self.classifiers)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """The first opinion, or `None`."""
        for classify in self.classifiers:
            opinion = classify(attempt)
            if opinion is not None:
                return opinion
        return None

    def __repr__(self) -> str:
        return f"FirstOf({', '.join(map(named, self.classifiers))})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class OnException(Stackable):
    """Retry on these exception types and their subclasses.

    `when` narrows it to the errors for which it is true. `after` reads a delay off the error, in
    seconds or as a `timedelta`; `None` asks for nothing. With `causes=True` an error also counts if
    one in its cause chain does (`__cause__`, or `__context__` unless suppressed), and that one is
    what `when` and `after` see. `reason` goes into the decision.

    Only `Exception`s are ever asked about, so naming `BaseException` adds nothing: interrupts and
    cancels pass whatever is written here. A class that is no exception is a `TypeError`.

    >>> OnException(ConnectionError, TimeoutError)
    OnException(ConnectionError, TimeoutError)
    >>> from retrykit.outcome import Call, Raised
    >>> late = OnException(OSError, after=lambda error: 2.5)
    >>> late(Attempt(Call(open), 1, Raised(OSError()), 0.1)).delay
    2.5
    """

    sees_results = False

    types: tuple[type[BaseException], ...]
    when: Callable[[Any], object] | None
    after: Callable[[Any], float | timedelta | None] | None
    causes: bool
    reason: RetryReason

    def __init__(
        self,
        *types: type[BaseException],
        when: Callable[[Any], object] | None = None,
        after: Callable[[Any], float | timedelta | None] | None = None,
        causes: bool = False,
        reason: RetryReason = RetryReason.TRANSIENT,
    ) -> None:
        object.__setattr__(self, "types", exception_types("OnException", types))
        for name, value in (("when", when), ("after", after)):
            if value is not None:
                function(name, value, classes=True)
            object.__setattr__(self, name, value)
        if not isinstance(causes, bool):
            raise TypeError(f"causes must be a bool, got {shown(causes)}")
        object.__setattr__(self, "causes", causes)
        RetryAfter(0.0, reason)  # refuses a reason that is none
        object.__setattr__(self, "reason", reason)

    @property
    def by_type(self) -> bool:
        """Whether there is neither `when` nor `after` nor a look along the causes."""
        looks = self.when is not None or self.after is not None or self.causes
        return not looks and settled_by_type(self.types)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """`RetryAfter` for an error that counts, else `None`."""
        error = attempt.error
        if error is None:
            return None
        for each in causes_of(error) if self.causes else (error,):
            if isinstance(each, self.types) and (self.when is None or self.when(each)):
                asked = None if self.after is None else self.after(each)
                return RetryAfter(0.0 if asked is None else asked, self.reason)
        return None

    def __repr__(self) -> str:
        parts = [named(each) for each in self.types]
        if self.when is not None:
            parts.append(f"when={named(self.when)}")
        if self.after is not None:
            parts.append(f"after={named(self.after)}")
        if self.causes:
            parts.append("causes=True")
        if self.reason is not RetryReason.TRANSIENT:
            parts.append(f"reason={self.reason!r}")
        return f"OnException({', '.join(parts)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class OnResult(Stackable):
    """Retry when the predicate is true of the returned value: polling.

    >>> from retrykit.outcome import Call
    >>> pending = OnResult(lambda job: job == "pending")
    >>> pending(Attempt(Call(print), 1, Returned("pending"), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.UNSATISFACTORY)
    """

    predicate: Callable[[Any], object]
    reason: RetryReason

    def __init__(
        self,
        predicate: Callable[[Any], object],
        *,
        reason: RetryReason = RetryReason.UNSATISFACTORY,
    ) -> None:
        function("predicate", predicate, classes=True)
        RetryAfter(0.0, reason)  # refuses a reason that is none
        object.__setattr__(self, "predicate", predicate)
        object.__setattr__(self, "reason", reason)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """`RetryAfter` where the value is unsatisfactory, else `None`."""
        outcome = attempt.outcome
        if isinstance(outcome, Returned) and self.predicate(outcome.value):
            return RetryAfter(0.0, self.reason)
        return None

    def __repr__(self) -> str:
        more = "" if self.reason is RetryReason.UNSATISFACTORY else f", reason={self.reason!r}"
        return f"OnResult({named(self.predicate)}{more})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Never(Stackable):
    """Never retry these exception types; put it first, before any rule that says yes.

    >>> from retrykit.outcome import Call, Raised
    >>> Never(KeyError)(Attempt(Call(print), 1, Raised(KeyError()), 0.1))
    DoNotRetry(reason=StopReason.FORBIDDEN)
    """

    sees_results = False

    types: tuple[type[BaseException], ...]

    def __init__(self, *types: type[BaseException]) -> None:
        object.__setattr__(self, "types", exception_types("Never", types))

    @property
    def by_type(self) -> bool:
        """Always, but for classes that look at the error itself."""
        return settled_by_type(self.types)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """`DoNotRetry` for these types, else `None`."""
        return DoNotRetry(StopReason.FORBIDDEN) if isinstance(attempt.error, self.types) else None

    def __repr__(self) -> str:
        return f"Never({', '.join(map(named, self.types))})"


@dataclass(frozen=True, slots=True, repr=False)
class Transient(Stackable):
    """The default: what the standard library raises when trying again is worth it.

    Refused, reset and dropped connections, time-outs, name resolution, interrupted reads; and
    errors of any client that carry a retryable response. It vouches for nothing: where the error
    shows a request whose method is not idempotent, it retries only what was certainly not
    processed. A certificate that does not verify, a missing file and a denied permission are not
    transient.

    >>> from retrykit.outcome import Call, Raised
    >>> transient(Attempt(Call(open), 1, Raised(ConnectionResetError()), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.CONNECTION_FAILED)
    """

    sees_results = False

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """What the facts say of the error; `None` for a value and for errors not known to them."""
        error = attempt.error
        if error is None:
            return None
        from retrykit.facts.exceptions import judge

        return judge(error)

    def __repr__(self) -> str:
        return "transient"


transient: Final = Transient()
"""The default classifier."""


def as_classifier(field: str, value: object) -> Classifier:
    """A classifier from what may stand for one: an exception type, or a list to be asked in turn.

    >>> as_classifier("classify", [OSError, KeyError])
    FirstOf(OnException(OSError), OnException(KeyError))
    """
    if isinstance(value, type) and issubclass(value, BaseException):
        return OnException(value)
    if isinstance(value, (list, tuple)):
        several = cast("list[Any]", value)  # each is checked in turn
        if not several:
            raise ValueError(f"{field} must not be empty")
        return FirstOf(*several)
    if isinstance(value, BaseException):
        raise TypeError(f"{field} must be an exception type, got an instance: {value!r}")
    function(field, value)  # pyright: ignore[reportUnknownArgumentType]  # whatever it is
    return cast("Classifier", value)  # callable, and what it answers is checked at each call


def exception_types(field: str, types: object) -> tuple[type[BaseException], ...]:
    """One exception type or several, as a tuple; anything else is a `TypeError`."""
    several: tuple[Any, ...] = (types,)
    if isinstance(types, (tuple, list, set, frozenset)):
        several = tuple(cast("list[Any]", types))  # each is checked below
    if not several:
        raise TypeError(f"{field} must name at least one exception type")
    for each in several:
        if isinstance(each, BaseException):
            raise TypeError(f"{field} takes exception types, got an instance: {shown(each)}")
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"{field} takes exception types, got {shown(cast('object', each))}")
    return several


def settled_by_type(types: tuple[type[BaseException], ...]) -> bool:
    """Whether an error's type settles `isinstance`: a metaclass may look at the error itself."""
    return all(type(each) is type for each in types)


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error, then its causes: `__cause__`, or `__context__` unless suppressed. No cycles."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen and len(seen) < LONGEST_CHAIN:
        seen.add(id(each))
        yield each
        cause = each.__cause__
        if cause is None and not each.__suppress_context__:
            cause = each.__context__
        each = cause


def leaves_of(group: BaseExceptionGroup[Any]) -> Iterator[Exception]:
    """The errors inside a group, at whatever depth, in order."""
    waiting: list[Any] = [group]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseExceptionGroup):
            group = each  # pyright: ignore[reportUnknownVariableType]  # of whatever errors
            waiting.extend(reversed(group.exceptions))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        else:
            yield each
