"""What goes in: the call, and what one attempt of it came to.

Arguments, values and queries never show in a `repr` here: what is logged by accident holds no
secret.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID


T = TypeVar("T")


class Returned(Generic[T]):
    """The attempt returned `value`. The `repr` names the value's type only.

    >>> Returned("secret")
    Returned(<str>)
    """

    __match_args__ = ("value",)
    __slots__ = ("value",)

    value: T

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Returned):
            return NotImplemented
        mine: object = self.value
        return bool(mine == other.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # of whatever type

    __hash__ = None  # type: ignore[assignment]  # the value may be unhashable, so it is not hashed

    def __repr__(self) -> str:
        return f"Returned(<{type(self.value).__qualname__}>)"


class Raised:
    """The attempt raised `error`. The `repr` names the error's type only; compared by identity.

    >>> Raised(ValueError("secret"))
    Raised(<ValueError>)
    """

    __match_args__ = ("error",)
    __slots__ = ("error",)

    error: Exception

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Raised):
            return NotImplemented
        return self.error is other.error

    def __hash__(self) -> int:
        return hash((Raised, id(self.error)))

    def __repr__(self) -> str:
        return f"Raised(<{type(self.error).__qualname__}>)"


Outcome: TypeAlias = Returned[Any] | Raised
"""What one attempt came to."""


class Call:
    """What is being called, all its attempts together.

    `instance` is the object whose method is called, or `None`; it is not repeated in `args`.
    The `repr` shows no arguments. Compared by identity: two calls with the same arguments are two.

    >>> Call(print, args=("secret",))
    <Call of print>
    """

    __slots__ = ("__weakref__", "_id", "_name", "args", "function", "instance", "kwargs")

    function: Callable[..., Any]
    instance: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __init__(
        self,
        function: Callable[..., Any],
        instance: Any = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.instance = instance
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs
        self._id: UUID | None = None
        self._name: str | None = None

    @property
    def name(self) -> str:
        """The function's qualified name, for logs and metrics."""
        if self._name is None:
            self._name = name_of(self.function)
        return self._name

    @property
    def id(self) -> UUID:
        """A random UUID: one for all attempts of this call, another for the next.

        Made on first use; fit for an Idempotency-Key.
        """
        if self._id is None:
            from uuid import uuid4

            self._id = uuid4()
        return self._id

    def __repr__(self) -> str:
        return f"<Call of {self.name}>"


class Attempt:
    """One finished attempt, as it is handed to classifiers and executors.

    `number` counts from 1. `elapsed` is in seconds since the call began, this attempt included;
    `wall` is the Unix time at the attempt's end, `None` where nobody read it.

    >>> attempt = Attempt(Call(print), 2, Raised(OSError()), 0.5)
    >>> attempt.number, attempt.error, attempt.value
    (2, OSError(), None)
    """

    __slots__ = ("call", "elapsed", "number", "outcome", "wall")

    call: Call
    number: int
    outcome: Outcome
    elapsed: float
    wall: float | None

    def __init__(
        self,
        call: Call,
        number: int,
        outcome: Outcome,
        elapsed: float,
        wall: float | None = None,
    ) -> None:
        self.call = call
        self.number = number
        self.outcome = outcome
        self.elapsed = elapsed
        self.wall = wall

    @property
    def error(self) -> Exception | None:
        """The error that the attempt raised, or `None`."""
        outcome = self.outcome
        return outcome.error if type(outcome) is Raised else None

    @property
    def value(self) -> Any:
        """The value that the attempt returned; `None` where it raised."""
        outcome = self.outcome
        return outcome.value if isinstance(outcome, Returned) else None

    def __repr__(self) -> str:
        return f"<Attempt {self.number} of {self.call.name}: {self.outcome!r}>"


def owner_of(function: object) -> Any:
    """The object whose method it is, or `None`: also for a builtin, whose own is its module.

    >>> owner_of([].append), owner_of(print)
    ([], None)
    """
    owner = getattr(function, "__self__", None)
    return None if isinstance(owner, ModuleType) else owner


def name_of(function: object) -> str:
    """A callable's qualified name, looking through partials; its type's for other objects.

    Of a function made inside another one, the part that tells something.

    >>> from functools import partial
    >>> name_of(partial(int, base=2))
    'int'
    """
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__qualname__
    return name.rpartition("<locals>.")[2]
