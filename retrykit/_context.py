"""What the code inside a call can ask and set: `current_attempt`, `override`, `disabled`.

One context variable holds the innermost entry: the cell of a running call or a scope of settings,
each with the entry around it. A cell is closed when its call ends, and a closed cell counts for
nothing: a task that was started inside a call and lives on keeps neither its attempt nor its
deadline.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from retrykit._fields import checked
from retrykit.outcome import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager
    from contextvars import Token

    from typing_extensions import Unpack

    from retrykit._fields import PolicyFields
    from retrykit._session import Session
    from retrykit.outcome import Outcome
    from retrykit.settings import CallSettings

MOST_APPLIED: Final = 100
"""How many policies a scope remembers: programs that make one for each call do not fill it."""

LEAST_REMAINING: Final = 1e-6
"""The least `remaining` there is, in seconds: many clients read zero as "no timeout"."""


class LiveAttempt:
    """The attempt that runs right now, as the function itself sees it.

    Outside a retried call it is number 1 and everything else is `None`.

    >>> current_attempt()
    <LiveAttempt 1 outside a retried call>
    """

    # Thin on purpose: one is made for every call, and most calls never ask it anything.
    __slots__ = ("__weakref__", "_number", "_outer", "_raw", "_session")

    _outer: Entry
    _raw: tuple[Callable[..., Any], object, tuple[Any, ...], Mapping[str, Any]] | Call | None
    """What a `Call` is made of on demand, or the call; `None` once the cell is closed."""
    _session: Session | None
    """What knows the rest; `None` while a first attempt runs that nobody watches."""
    _number: int
    """The last attempt's number; set when the cell is closed."""

    @property
    def number(self) -> int:
        """Which attempt this is, from 1."""
        session = self._session
        if session is not None:
            return session.number
        return getattr(self, "_number", 1)

    @property
    def previous(self) -> Outcome | None:
        """What the attempt before came to; `None` in the first."""
        session = self._session
        return None if session is None else session.previous

    @property
    def remaining(self) -> float | None:
        """Seconds left for this attempt: the nearer of attempt timeout and deadline.

        Always above zero, so that it can be handed to a client as its timeout; `None` where there
        is neither, as clients spell "no timeout".
        """
        session = self._session
        if session is not None:
            return session.remaining()
        return None

    @property
    def call(self) -> Call | None:
        """The call that this attempt belongs to."""
        raw = self._raw
        if type(raw) is tuple:
            raw = self._raw = call_of(*raw)
        return raw  # type: ignore[return-value]  # a tuple was turned into a Call just above

    def __repr__(self) -> str:
        call = self.call
        where = "outside a retried call" if call is None else f"of {call.name}"
        return f"<LiveAttempt {self.number} {where}>"


FIRST: Final = object()
"""Stands for the instance that is the first argument."""


def call_of(
    function: Callable[..., Any], owner: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call:
    """The `Call` of a function: of its `owner`'s, or with `FIRST` of its first argument's."""
    if owner is FIRST:
        return Call(function, args[0], args[1:], kwargs)
    return Call(function, owner, args, kwargs)


class Scope:
    """Settings laid over the policies of the code inside.

    `fields` are laid over by name, and an inner scope's win. What follows is the outer one's say,
    whatever fields are laid inside: `attempts_at_most` lowers a policy's own number and never
    raises it, and `adjust` has the last word on what the driver reads.
    """

    __slots__ = ("_applied", "adjust", "attempts_at_most", "disabled", "fields", "outer")

    def __init__(
        self,
        outer: Entry = None,
        *,
        fields: Mapping[str, Any] | None = None,
        attempts_at_most: int | None = None,
        adjust: Callable[[CallSettings], CallSettings] | None = None,
        disabled: bool = False,
    ) -> None:
        self.outer = outer
        self.fields = dict(fields or {})
        self.attempts_at_most = attempts_at_most
        self.adjust = adjust
        self.disabled = disabled
        self._applied: dict[int, tuple[Any, Any]] = {}

    def applied_to(self, policy: Any) -> Any:
        """The policy with this scope's fields; remembered, since it is asked at every call."""
        fields = self.fields
        most = self.attempts_at_most
        if not fields and most is None:
            return policy
        known = self._applied.get(id(policy))
        if known is not None:
            return known[1]
        if most is not None:
            fields = {**fields, "attempts": min(fields.get("attempts", policy.attempts), most)}
        laid = policy.replace(**fields)
        if len(self._applied) >= MOST_APPLIED:
            self._applied.clear()
        self._applied[id(policy)] = (policy, laid)  # it is kept, so that its id stays its own
        return laid


Entry: TypeAlias = LiveAttempt | Scope | None

entry: Final[ContextVar[Entry]] = ContextVar("retrykit", default=None)

everywhere: list[Scope] = []
"""Scopes of the whole process, the outermost first."""

if os.environ.get("RETRYKIT_DISABLED", "").strip().lower() in {"1", "true", "yes", "on"}:
    everywhere.append(Scope(disabled=True))


def new_cell(outer: Entry, call: Call) -> LiveAttempt:
    """An open cell for `call`."""
    cell = LiveAttempt()
    cell._outer = outer
    cell._raw = call
    cell._session = None
    return cell


def close(cell: LiveAttempt) -> None:
    """End what the cell stands for; what it held is let go."""
    session = cell._session
    if session is not None:
        cell._number = session.number
        cell._session = None
    cell._raw = None


def enter(cell: LiveAttempt) -> Token[Entry]:
    """Make the cell the innermost entry."""
    return entry.set(cell)


def leave(token: Token[Entry]) -> None:
    """Undo `enter`; in a foreign context (a generator finished elsewhere) nothing is undone."""
    try:  # noqa: SIM105 - what suppresses here costs nothing where nothing is raised
        entry.reset(token)
    except ValueError:
        pass


def innermost(inside: Entry) -> LiveAttempt | None:
    """The innermost open cell at or around an entry."""
    while inside is not None:
        if isinstance(inside, Scope):
            inside = inside.outer
        elif inside._raw is not None:
            return inside
        else:
            inside = inside._outer
    return None


def scopes(inside: Entry) -> tuple[Scope, ...]:
    """The scopes around an entry, the outermost first: those of the process, then this task's."""
    found: list[Scope] = []
    while inside is not None:
        if isinstance(inside, Scope):
            found.append(inside)
            inside = inside.outer
        else:
            inside = inside._outer
    if not found:
        return tuple(everywhere)
    return (*everywhere, *reversed(found))


_OUTSIDE: Final = LiveAttempt()
_OUTSIDE._outer = None
_OUTSIDE._raw = None
_OUTSIDE._session = None


def current_attempt() -> LiveAttempt:
    """The attempt that this code runs in; outside a retried call, number 1 and all else `None`.

    >>> current_attempt().number, current_attempt().remaining
    (1, None)
    """
    return innermost(entry.get()) or _OUTSIDE


@contextmanager
def laid(*, in_all_threads: bool = False, **settings: Any) -> Generator[None]:
    """A scope around the code inside, for this task or thread, or meanwhile for the process."""
    if in_all_threads:
        scope = Scope(**settings)
        everywhere.append(scope)
        try:
            yield
        finally:
            everywhere.remove(scope)
        return
    token = entry.set(Scope(entry.get(), **settings))
    try:
        yield
    finally:
        leave(token)


def override(**fields: Unpack[PolicyFields]) -> AbstractContextManager[None]:
    """Lay fields over every policy that the code inside uses, for this task or thread only.

    Takes the fields of `RetryPolicy`; a bad one is refused here, with its name and value. Of a
    foreign policy factory, what its driver reads (`retrykit.settings.CallSettings`) is laid over.
    Scopes nest, the inner one winning, and end with the block whatever leaves it.

    >>> with override(attempts=1):
    ...     current_attempt().number
    1
    """
    return laid(fields=checked(fields))


def disabled() -> AbstractContextManager[None]:
    """Switch retries off for the code inside: one attempt, no wait, the first outcome stands.

    For this task or thread only. `RETRYKIT_DISABLED=1` in the environment, read at import, does it
    for a process. Time limits stay in force.

    >>> with disabled():
    ...     current_attempt().number
    1
    """
    return laid(disabled=True)
