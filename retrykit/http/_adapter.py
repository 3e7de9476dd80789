"""What the clients' adapters share: which policy, what may be sent again, and what is let go.

An adapter makes an `HttpExchange` for each request, with a request of its own as the one argument
(so that classifiers, `by_endpoint` and `per_host` see it), and hands it to `Retries.run` with the
function that makes one attempt. There is no loop in any of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from retrykit._context import LEAST_REMAINING, disabled
from retrykit._decorator import PolicyLike, _checked_policy, _resolved
from retrykit._exchange import Exchange
from retrykit._fields import checked
from retrykit._forms import ASYNC, PLAIN, start
from retrykit._session import Selection, StandardPolicy, settings_of
from retrykit._validate import shown
from retrykit.facts._headers import Headers
from retrykit.facts._shapes import get
from retrykit.facts.methods import IDEMPOTENCY_KEY, RetryableMethod, classify_method
from retrykit.http._policy import http_policy
from retrykit.outcome import Raised
from retrykit.settings import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from retrykit._executor import RetryExecutor
    from retrykit.outcome import Call, Outcome

OPTION: Final = "retrykit"
"""Under this name a request says how it, and no other, is retried."""
MOST_DRAINED: Final = 65_536
"""Bytes read at most of a response that is let go, to keep its connection; then it is closed."""
LONGEST_DRAIN: Final = 1.0
"""Seconds after which the rest is not waited for."""
MISDIRECTED: Final = 421
"""The status that asks for another connection: this one is closed, whatever the body."""

KeyStyle: TypeAlias = bool | Literal["bare"]
"""`idempotency_key` of an adapter: off, quoted as the draft says, or bare."""

POLICY_S_OWN: Final = object()
"""In the place of a request's own say: it has none."""


class HttpExchange(Exchange):
    """One request with its answers. A client's adapter says how a response is let go."""

    __slots__ = ("began", "body", "held")

    advice = (
        "; the request's body can be sent only once, and it was begun: hand over bytes, or a file"
        " that can be rewound"
    )

    began: float | None
    """When it began, on the policy's clock; set beforehand for a step of a longer call, whose
    deadline holds for all steps together."""
    body: Body | None
    """What is sent, where the adapter keeps watch over it."""
    held: Any
    """The response that the last attempt gave, until it is let go or handed over."""

    def __init__(
        self, function: Callable[..., Any], instance: object, request: object, body: Body | None
    ) -> None:
        super().__init__(function, instance, (request,))
        self.began = None
        self.body = body
        self.held = None

    def replayable(self) -> bool:
        return self.body is None or self.body.replayable()

    def discard(self, outcome: Outcome, /) -> None:
        self.held = None
        response = response_of(outcome)
        if response is not None:
            with suppress(Exception):  # it is thrown away: how that goes is nobody's concern
                self.let_go(response)

    async def discard_async(self, outcome: Outcome, /) -> None:
        self.held = None
        response = response_of(outcome)
        if response is not None:
            with suppress(Exception):  # as above
                await self.let_go_async(response)

    def let_go(self, response: Any) -> None:
        """Release the response's connection: read a small rest of the body, else close it."""
        raise NotImplementedError

    async def let_go_async(self, response: Any) -> None:
        """The same for an async client."""
        raise NotImplementedError

    def close(self, response: Any) -> None:
        """Close the response at once."""
        response.close()

    async def close_async(self, response: Any) -> None:
        """The same for an async client."""
        self.close(response)


def response_of(outcome: Outcome) -> Any:
    """The response that an outcome holds: the value, or what the error carries, else `None`."""
    if isinstance(outcome, Raised):
        return get(outcome.error, "response")
    return outcome.value


class Body:
    """What is sent, in parts: bytes, files, iterators. Says whether all can be sent once more.

    Bytes always can; a file from where it stood, as long as it is open; an iterator only as long
    as nothing was taken from it. Other iterables are begun anew each time.
    """

    __slots__ = ("_async_files", "_files", "_once", "_stood", "begun", "most")

    begun: bool
    """Whether any of it was read."""
    most: int
    """The most bytes that an attempt got to, where the adapter counts: none may end sooner."""

    def __init__(self, *parts: object) -> None:
        self._files: list[tuple[Any, int]] = []
        self._async_files: list[Any] = []
        self._stood: list[int] | None = None
        self._once = False
        self.begun = False
        self.most = 0
        for part in parts:
            if inspect.iscoroutinefunction(getattr(part, "tell", None)):
                self._async_files.append(part)
                continue
            position = position_of(part)
            if position is not None:
                self._files.append((part, position))
            elif is_one_shot(part):
                self._once = True

    def replayable(self) -> bool:
        """Whether the next attempt would send the same."""
        if not self.begun:
            return True
        files = (*(file for file, _ in self._files), *self._async_files)
        return not self._once and not any(getattr(file, "closed", False) for file in files)

    def rewind(self) -> None:
        """Before an attempt: put every file back to where it stood at first."""
        if self.begun:
            for file, position in self._files:
                file.seek(position)

    async def rewind_async(self) -> None:
        """The same in async code, files with async methods among them."""
        self.rewind()
        if self._stood is None:
            try:
                self._stood = [await file.tell() for file in self._async_files]
            except Exception:  # noqa: BLE001 - a foreign file may raise anything: it is no file then
                self._stood, self._async_files, self._once = [], [], True
        elif self.begun:
            for file, position in zip(self._async_files, self._stood, strict=True):
                await file.seek(position)


def position_of(part: object) -> int | None:
    """Where a file stands that can be rewound; `None` for every other part."""
    if isinstance(part, (bytes, bytearray, memoryview, str)):
        return None
    file: Any = part
    try:
        if not file.seekable():
            return None
    except AttributeError:
        pass  # file-likes of old have `seek` only
    except ValueError:
        return None  # closed
    try:
        position = file.tell()
        return position if isinstance(position, int) and callable(file.seek) else None
    except Exception:  # noqa: BLE001 - a foreign file may raise anything: it is no file then
        return None


def is_one_shot(part: object) -> bool:
    """Whether what is read of a part is gone: an iterator, or a file that cannot be rewound."""
    if isinstance(part, (bytes, bytearray, memoryview, str)) or part is None:
        return False
    return hasattr(part, "read") or hasattr(part, "__next__") or hasattr(part, "__anext__")


def tighter(timeout: float | None, remaining: float | None) -> float | None:
    """The nearer of two time limits; `None` is no limit.

    >>> tighter(None, 3.0), tighter(2.0, 3.0), tighter(5.0, None)
    (3.0, 2.0, 5.0)
    """
    if timeout is None or (remaining is not None and remaining < timeout):
        return remaining
    return timeout


class Retries:
    """What an adapter is set up with: a policy, and whether its requests carry a key."""

    __slots__ = ("idempotency_key", "policy")

    def __init__(self, policy: PolicyLike | None = None, idempotency_key: KeyStyle = False) -> None:
        self.policy: PolicyLike = http_policy() if policy is None else _checked_policy(policy)
        if not (isinstance(idempotency_key, bool) or idempotency_key == "bare"):
            raise ValueError(
                f"idempotency_key must be True, False or 'bare', got {shown(idempotency_key)}"
            )
        self.idempotency_key: KeyStyle = idempotency_key

    def run(
        self,
        exchange: HttpExchange,
        attempt: Callable[[Any], Any],
        own: object = POLICY_S_OWN,
    ) -> Any:
        """Make the call with the blocking driver.

        `own` is what the request says for itself: another policy, fields laid over the adapter's,
        or `None` for one attempt.
        """

        def kept(request: Any) -> Any:
            response = attempt(request)
            exchange.held = response
            return response

        factory, scope = self._under(exchange, own)
        try:
            with scope:
                return start(PLAIN, factory, exchange, kept, exchange.args, {})
        except Exception:
            raise
        except BaseException:
            if exchange.held is not None:  # nobody else has it: an interrupt or a cancel took over
                with suppress(Exception):
                    exchange.close(exchange.held)
            raise
        finally:
            exchange.held = None

    async def run_async(
        self,
        exchange: HttpExchange,
        attempt: Callable[[Any], Any],
        own: object = POLICY_S_OWN,
    ) -> Any:
        """The same with the async driver."""

        async def kept(request: Any) -> Any:
            response = await attempt(request)
            exchange.held = response
            return response

        factory, scope = self._under(exchange, own)
        try:
            with scope:
                return await start(ASYNC, factory, exchange, kept, exchange.args, {})
        except Exception:
            raise
        except BaseException:
            if exchange.held is not None:
                with suppress(Exception):
                    await exchange.close_async(exchange.held)
            raise
        finally:
            exchange.held = None

    def _under(
        self, exchange: HttpExchange, own: object
    ) -> tuple[Any, AbstractContextManager[None]]:
        """The policy factory for a request, and the scope that it is made in."""
        policy: Any = self.policy
        fields: dict[str, Any] = {}
        if isinstance(own, Mapping):
            fields = checked(cast("Mapping[str, Any]", own))  # names and values are checked here
        elif own is not None and own is not POLICY_S_OWN:
            policy = _checked_policy(own)
        factory: Any = _resolved(policy, exchange)
        while isinstance(factory, Selection):
            factory = factory.policy_for(exchange)
        settings = settings_of(factory)
        now = settings.clock.now()
        deadline = fields.get("deadline", settings.deadline)
        if exchange.began is None:
            exchange.began = now
        elif deadline is not None:
            fields["deadline"] = max(deadline - (now - exchange.began), LEAST_REMAINING)
        if fields and isinstance(factory, StandardPolicy):
            factory = cast("Any", factory).replace(**fields)  # as the scopes do it
        elif fields:
            factory = _Adjusted(factory, fields)
        return factory, disabled() if own is None else nullcontext()

    def key_for(self, call: Call, method: str, headers: object) -> str | None:
        """The Idempotency-Key to send with this request; `None` where its headers stay as they are.

        A request that is not idempotent gets one, the same for all attempts of the call; its own
        is kept, and sent once. Raises `ValueError` for one of its own that cannot be sent.
        """
        if not self.idempotency_key:
            return None
        name = IDEMPOTENCY_KEY[0]
        own = [value for key, value in Headers(headers).items() if key.lower() == name.lower()]
        safety = classify_method(method, headers)
        if safety is RetryableMethod.IDEMPOTENT:
            return None
        if not own:
            return str(call.id) if self.idempotency_key == "bare" else f'"{call.id}"'
        if safety is not RetryableMethod.IDEMPOTENT_WITH_TOKEN:
            raise ValueError(f"{name} must be one value of 1 to 255 printable ASCII characters")
        return own[0] if len(own) > 1 else None


class _Adjusted:
    """A foreign policy factory with other settings for its driver."""

    __slots__ = ("_factory", "settings")

    def __init__(self, factory: Any, fields: Mapping[str, Any]) -> None:
        self._factory = factory
        mine = {name: value for name, value in fields.items() if name in CHECKS}
        self.settings = replace(settings_of(factory), **mine)

    def new_executor(self, call: Call, /) -> RetryExecutor:
        executor: RetryExecutor = self._factory.new_executor(call)
        return executor
