"""`retry`: a policy put around a callable, once for all ways of calling it.

wrapt does the binding and keeps every introspection true. What is done here beside it is speed: a
prepared closure stands in the wrapper's `__call__`, a plain function binds as a `MethodType` over
another, and both hold the first attempt's fast path: where nobody watches and nothing limits a
first attempt, a call that succeeds makes no session and no executor.
"""

from __future__ import annotations

import copy
import functools
import inspect
import time
from types import CoroutineType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast, overload

from wrapt import BoundFunctionWrapper, FunctionWrapper

from retrykit import _registry
from retrykit._async import continue_async, drive_async
from retrykit._blocking import drive
from retrykit._context import FIRST, LiveAttempt, call_of, close, everywhere
from retrykit._context import entry as innermost_entry
from retrykit._fields import known
from retrykit._forms import ASYNC, PLAIN, form_of, start
from retrykit._session import open_plainly
from retrykit._validate import is_async, shown, told
from retrykit.clock import SystemClock
from retrykit.events import (
    AttemptStarted,
    CallCancelled,
    CallSucceeded,
    LogRetries,
    kinds_of,
    takes,
)
from retrykit.outcome import Call, Raised, name_of, owner_of
from retrykit.policy import PolicyFactory, RetryPolicy, classifier_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from typing_extensions import Unpack

    from retrykit._fields import PolicyFields
    from retrykit._session import Session
    from retrykit.events import Listener

    Decorable: TypeAlias = Callable[..., Any] | classmethod[Any, ..., Any] | staticmethod[..., Any]

    class Decorator(Protocol):
        """Gives back what it is given, to the type checker."""

        def __call__(self, function: F, /) -> F: ...


F = TypeVar("F", bound="Decorable")

PolicyLike: TypeAlias = "PolicyFactory | Callable[[Call], PolicyFactory] | str"
"""What `policy=` takes: a policy factory, a function from the call to one, or a registered name."""

_EARLY: Final = frozenset({AttemptStarted, CallSucceeded, CallCancelled})
"""The events that a call may send without ever having failed."""


@overload
def retry(function: F, /) -> F: ...
@overload
def retry(*, policy: PolicyLike) -> Decorator: ...
@overload
def retry(
    *,
    on: type[BaseException] | tuple[type[BaseException], ...] | list[type[BaseException]] = ...,
    **fields: Unpack[PolicyFields],
) -> Decorator: ...
def retry(function: Any = None, /, **options: Any) -> Any:
    """Retry the decorated callable: `@retry`, `@retry(policy=p)`, `@retry(on=OSError, attempts=3)`.

    Without anything it retries what is transient, by the defaults of `RetryPolicy`. `on` names
    exception types, `classify` a classifier; both beside any field of `RetryPolicy`. `policy` takes
    a policy factory, a function `(Call) -> policy factory` for settings that live on `self` or in
    the arguments, or a name that `retrykit.config` registered.

    Takes whatever can be called: plain and async functions, generator functions, methods,
    `classmethod` and `staticmethod` on either side, partials, callable objects, builtins. What
    comes back has the same signature and type, and binds as before. For a class, and above
    `property`, it is a `TypeError`.

    >>> from retrykit import current_attempt
    >>> @retry(on=ConnectionError, attempts=3, backoff=[0, 0])
    ... def fetch() -> str:
    ...     if current_attempt().number < 3:
    ...         raise ConnectionError
    ...     return "at the third try"
    >>> fetch()
    'at the third try'
    """
    if function is not None:
        if options or not _is_decorable(function):
            raise TypeError(_misplaced(function))
        return Retried(function, RetryPolicy())
    policy = _policy_from(options)
    return functools.partial(_decorate, policy)


def policy_of(function: Callable[..., Any], /) -> Any:
    """The policy of a decorated callable, bound or not; a name is looked up.

    Raises `TypeError` for what was never decorated.

    >>> policy_of(retry(attempts=3)(print)).attempts
    3
    """
    policy = _retried(function)._self_policy
    return _registry.lookup(policy) if isinstance(policy, str) else policy


def with_policy(function: F, policy: PolicyLike, /) -> F:
    """The same callable under another policy; a bound method stays bound.

    The decorated one keeps its own. Raises `TypeError` for what was never decorated.

    >>> careful = retry(attempts=3)(print)
    >>> policy_of(with_policy(careful, RetryPolicy(attempts=1))).attempts
    1
    """
    retried = _retried(function)
    other = Retried(retried.__wrapped__, _checked_policy(policy))
    if isinstance(function, Retried):
        return other  # type: ignore[return-value]  # a proxy of the same callable
    if isinstance(function, BoundRetried):
        return other.__get__(function._self_instance, function._self_owner)  # type: ignore[no-any-return]  # bound as `function` is
    instance = function.__self__  # type: ignore[union-attr]  # a bound method
    return other.__get__(instance, type(instance))  # type: ignore[no-any-return]  # as above


class BoundRetried(BoundFunctionWrapper[Any, Any]):
    """A decorated method that wrapt bound."""

    def __reduce__(self) -> tuple[Any, ...]:
        holder = self._self_owner if self._self_instance is None else self._self_instance
        return getattr, (holder, self.__wrapped__.__name__)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __copy__(self) -> Any:
        take, of = self.__reduce__()
        return take(*of)

    def __deepcopy__(self, memo: Any) -> Any:
        take, of = self.__reduce__()
        return take(*copy.deepcopy(of, memo))  # a class is its own copy


class Retried(FunctionWrapper[Any, Any]):
    """A decorated callable."""

    __slots__ = ("__call__", "_self_method", "_self_policy")

    __bound_function_wrapper__ = BoundRetried

    def __init__(self, function: Any, policy: Any) -> None:
        super().__init__(function, _Bound(policy))
        self._self_policy = policy
        direct, method = _closures(form_of(_underneath(function)), function, policy)
        direct.__name__ = direct.__qualname__ = name_of(function)  # a coroutine has it from there
        _CALL.__set__(self, direct)
        self._self_method = None
        if method is not None:
            functools.update_wrapper(method, function)
            method.__retrykit__ = self  # type: ignore[attr-defined]  # how a bound method finds back
            self._self_method = method

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        method = self._self_method
        if instance is None or method is None:
            bound: Any = cast("Any", FunctionWrapper).__get__(self, instance, owner)
            return bound
        return MethodType(method, instance)

    def __setattr__(self, name: str, value: Any) -> None:
        cast("Any", FunctionWrapper).__setattr__(self, name, value)
        if not name.startswith("_self_") and self._self_method is not None:
            setattr(self._self_method, name, value)

    def __reduce__(self) -> str:
        return self.__wrapped__.__qualname__  # by name, as functions are

    def __reduce_ex__(self, protocol: Any) -> str:
        return self.__reduce__()

    def __copy__(self) -> Retried:
        return self

    def __deepcopy__(self, memo: Any) -> Retried:
        return self


_CALL: Final[Any] = vars(Retried)["__call__"]
"""The slot, which an assignment on a proxy would pass by."""


class _Bound:
    """What wrapt calls for each call that it bound itself."""

    __slots__ = ("_forms", "_policy")

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __call__(
        self, wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        call = Call(wrapped, instance, args, kwargs)
        return start(form_of(wrapped), _resolved(self._policy, call), call, wrapped, args, kwargs)


def _closures(
    form: str, function: Any, policy: Any
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """What is called directly, and what a plain function binds as (`None`: wrapt binds)."""
    if form == PLAIN:
        make = _fast_plain if _is_quiet(policy) else _plain
    elif form == ASYNC:
        make = _fast_async if _is_quiet(policy) else _async
    else:
        return _generator(form, function, policy), None
    binds = type(function) is FunctionType
    owner = owner_of(function)
    return make(function, policy, owner), make(function, policy, FIRST) if binds else None


def _plain(function: Any, policy: Any, owner: object) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        call = call_of(function, owner, args, kwargs)
        return start(PLAIN, _resolved(policy, call), call, function, args, kwargs)

    return called


def _async(function: Any, policy: Any, owner: object) -> Callable[..., Any]:
    async def called(*args: Any, **kwargs: Any) -> Any:
        call = call_of(function, owner, args, kwargs)
        return await start(ASYNC, _resolved(policy, call), call, function, args, kwargs)

    return called


def _generator(form: str, function: Any, policy: Any) -> Callable[..., Any]:
    owner = owner_of(function)

    def called(*args: Any, **kwargs: Any) -> Any:
        call = call_of(function, owner, args, kwargs)
        return start(form, _resolved(policy, call), call, function, args, kwargs)

    return called


# The fast paths: every line of them is paid for by every call that succeeds. `owner` is the
# object whose method it is, `FIRST` where that is the first argument.

_get: Final = innermost_entry.get
_set: Final = innermost_entry.set
_reset: Final = innermost_entry.reset


def _fast_plain(function: Any, policy: RetryPolicy, owner: object) -> Callable[..., Any]:
    watched = _plain(function, policy, owner)

    def called(*args: Any, **kwargs: Any) -> Any:
        if _get() is not None or everywhere:
            return watched(*args, **kwargs)
        cell: LiveAttempt | None
        session: Session | None
        cell = LiveAttempt()
        cell._outer = cell._session = outcome = session = None
        cell._raw = (function, owner, args, kwargs)
        token = _set(cell)
        started = time.monotonic()
        try:
            try:
                value: Any = function(*args, **kwargs)
                if type(value) is not CoroutineType:
                    return value
            except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                outcome = Raised(error)
                value = None
            session = open_plainly(cell, policy, started, function, args, kwargs)
            if outcome is not None:
                value = drive(session, function, args, kwargs, outcome)
                if not session.is_open:
                    return value
            cell = None  # from here on the coroutine's
            return continue_async(session, function, args, kwargs, pending=cast("Any", value))
        finally:
            if session is None:  # the first attempt stands: all there is to close
                cell._raw = None  # type: ignore[union-attr]  # it is given away later, with a session
            else:
                outcome = session = None  # else an error's traceback and this frame make a cycle
                if cell is not None:
                    close(cell)
            _reset(token)

    return called


def _fast_async(function: Any, policy: RetryPolicy, owner: object) -> Callable[..., Any]:
    watched = _async(function, policy, owner)

    async def called(*args: Any, **kwargs: Any) -> Any:
        if _get() is not None or everywhere:
            return await watched(*args, **kwargs)
        session: Session | None
        cell = LiveAttempt()
        cell._outer = cell._session = outcome = session = None
        cell._raw = (function, owner, args, kwargs)
        token = _set(cell)
        started = time.monotonic()
        try:
            try:
                return await function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the policy decides which errors are retried
                outcome = Raised(error)
            session = open_plainly(cell, policy, started, function, args, kwargs)
            return await drive_async(session, function, args, kwargs, outcome)
        finally:
            if session is None:
                cell._raw = None
            else:
                outcome = session = None  # as in the blocking twin
                close(cell)
            try:  # noqa: SIM105 - as in `leave`, which is written out here
                _reset(token)
            except ValueError:
                pass

    return called


def _is_quiet(policy: Any) -> bool:
    """Whether a call that succeeds at once concerns nobody: nothing watches or limits it."""
    return (
        type(policy) is RetryPolicy
        and type(policy.clock) is SystemClock
        and policy.deadline is None
        and policy.attempt_timeout is None
        and policy.budget is None
        and not policy.judges_results
        and all(map(_is_late, policy.listeners))
    )


def _is_late(listener: Listener) -> bool:
    """Whether a listener is never told of a call that succeeds at once."""
    if isinstance(listener, LogRetries):
        return True
    kinds = inspect.getattr_static(listener, "kinds", None)
    if not isinstance(kinds, (frozenset, tuple)):  # it may tell another tale at the next call
        return False
    asked = kinds_of(listener)
    return not any(takes(asked, kind) for kind in _EARLY)


class _Broken:
    """Stands for a policy that could not be had: its error is reported beside the outcome."""

    __slots__ = ("_problem",)

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    def new_executor(self, call: Call, /) -> Any:  # noqa: ARG002 - it has an executor for none
        raise self._problem


def _resolved(policy: Any, call: Call) -> Any:
    """The policy factory for a call: by name, by asking a function, or as it is."""
    if type(policy) is RetryPolicy:
        return policy
    if isinstance(policy, str):
        policy = _registry.lookup(policy)
    if hasattr(policy, "new_executor"):
        return policy
    try:
        factory = policy(call)
        if hasattr(factory, "new_executor"):
            return factory
        wrong = TypeError(f"policy must answer a policy factory, got {told(factory)}")
    except Exception as problem:  # noqa: BLE001 - the user's function may raise anything; the call is made
        return _Broken(problem)
    return _Broken(wrong)


def _decorate(policy: Any, function: Any, /) -> Any:
    if not _is_decorable(function):
        raise TypeError(_misplaced(function))
    return Retried(function, policy)


def _policy_from(options: dict[str, Any]) -> Any:
    """The policy that the keywords of `retry` describe."""
    if "policy" in options:
        policy = options.pop("policy")
        if options:
            raise TypeError(
                f"retry takes a policy or its fields, not both: got policy and"
                f" {', '.join(options)}; write policy=p.replace({next(iter(options))}=...)"
            )
        return _checked_policy(policy)
    if "on" in options:
        types = options.pop("on")
        options["classify"] = classifier_on(types, options)
    for name in options:
        known(name)
    return RetryPolicy(**options)


def _checked_policy(policy: Any) -> Any:
    if isinstance(policy, type):
        raise TypeError(
            f"policy must be an instance, got the class {policy.__name__}: call it first"
        )
    if isinstance(policy, str):
        return policy
    makes = getattr(policy, "new_executor", None)
    if callable(makes):
        if is_async(makes):
            raise TypeError(f"policy must have a plain new_executor, got the async {shown(makes)}")
        return policy
    if callable(policy) and not is_async(policy):
        return policy
    raise TypeError(
        f"policy must have new_executor(call), or be a function from the call to what has,"
        f" or a registered name; got {shown(policy)}"
    )


def _is_decorable(function: object) -> bool:
    if isinstance(function, (classmethod, staticmethod)):
        return True
    if isinstance(function, type) or hasattr(type(function), "new_executor"):
        return False  # the type is asked, since a mock has every attribute
    return callable(function) and not _is_strategy(function)


def _is_strategy(function: object) -> bool:
    """Whether a callable is one of the library's own parts, which nobody means to retry."""
    home = type(function).__module__.split(".")
    return (
        home[0] == __package__
        and home[1:2] != ["testing"]  # its scripts are there to be retried
        and not isinstance(function, (FunctionType, FunctionWrapper, MethodType))
    )


def _misplaced(function: object) -> str:
    """The right spelling for what stands in the function's place and is none."""
    if isinstance(function, type) and issubclass(function, BaseException):
        return f"retry takes exceptions by keyword: write @retry(on={function.__name__})"
    if isinstance(function, type):
        return (
            f"retry does not take a class: decorate the methods of {function.__name__},"
            " or a function that makes one"
        )
    if hasattr(function, "new_executor"):
        return "retry takes a policy by keyword: write @retry(policy=p)"
    if isinstance(function, property):
        return "retry belongs below @property: decorate the function that it wraps"
    if hasattr(function, "delays") or isinstance(function, (list, tuple)):
        return "retry takes a backoff by keyword: write @retry(backoff=...)"
    if callable(function):
        name = type(function).__name__
        return f"retry takes the fields of a policy by keyword: got {name} in the function's place"
    return (
        f"retry takes a function: write @retry, @retry(policy=p) or @retry(on=..., attempts=...);"
        f" got {shown(function)}"
    )


def _underneath(function: Any) -> Any:
    """The function inside of a classmethod or staticmethod."""
    while isinstance(function, (classmethod, staticmethod)):
        function = cast("Any", function).__func__  # of whatever types
    return function


def _retried(function: Any) -> Retried:
    """The decorated callable behind what was handed in, bound or not."""
    if isinstance(function, Retried):
        return function
    if isinstance(function, BoundRetried):
        parent: Retried = function._self_parent
        return parent
    found = getattr(function, "__retrykit__", None) if isinstance(function, MethodType) else None
    if isinstance(found, Retried):
        return found
    raise TypeError(f"not decorated with retry: {shown(function)}")
