"""Retries for httpx: a transport to put into a client, or a client to take in its place.

What one attempt covers:

- `RetryTransport`, `AsyncRetryTransport`: sending the request, up to the response's headers. What
  fails while the body is read comes after the transport is done, and is not retried.
- `RetryClient`, `AsyncRetryClient`: the same with authentication and event hooks, and, for a call
  that is not streamed, reading the body: one that breaks off is retried. A streamed call
  (`client.stream(...)`, `send(..., stream=True)`) is committed once its headers are there.

Each redirect is a call of its own, with all its attempts; a client's deadline holds for all of them
together. When retrying ends, the last response is
handed over open and readable, or the last error raised. A response that is let go is released
before the wait: of its body a small rest is read, so that the connection can be used again, a large
one is closed. A body that can be sent only once (a generator) is sent once.

A request says for itself how it is retried, by its extensions:

    client.get(url, extensions={"retrykit": {"attempts": 2}})   # fields laid over the policy
    client.get(url, extensions={"retrykit": another_policy})
    client.get(url, extensions={"retrykit": None})              # one attempt

>>> from retrykit.http import http_policy
>>> client = RetryClient(policy=http_policy(attempts=3), base_url="https://api.example.org")
>>> transport = RetryTransport(httpx.HTTPTransport(http1=True), idempotency_key=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrykit._validate import instance_not_class, shown
from retrykit.http._adapter import Retries

try:
    import httpx
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise ImportError(
        "retrykit.http.httpx needs httpx: install retrykit with the extra [httpx]", name=error.name
    ) from error

from retrykit.http._httpx import (
    HttpxExchange,
    Journey,
    own_say,
    read,
    read_async,
    read_in_part,
    read_in_part_async,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from httpx._client import UseClientDefault
    from httpx._types import AuthTypes

    from retrykit._decorator import PolicyLike
    from retrykit.http._adapter import KeyStyle

__all__ = ["AsyncRetryClient", "AsyncRetryTransport", "RetryClient", "RetryTransport"]


class RetryTransport(httpx.BaseTransport):
    """A transport that retries what another one sends: `httpx.Client(transport=RetryTransport())`.

    `transport` is the one that sends (omitted: a plain `httpx.HTTPTransport()`). It is what takes
    `verify`, `http2`, `limits` and `proxy`, since a client that is given a transport leaves these
    to it; its own `retries` must be zero. `policy` is what `retry` takes (omitted:
    `http_policy()`). An attempt ends at the response's headers; see `RetryClient` for calls whose
    body belongs to it.

    `idempotency_key=True` gives each request that is not idempotent, and has none, an
    `Idempotency-Key`: one and the same on all its attempts. It is then retried as an idempotent one
    is, so the server must honour the header; one that does not may do the work twice. The value is
    quoted, as the IETF's draft has it; `"bare"` leaves the quotes out. A transport takes each
    redirect for a request of its own, with a key of its own.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        _check_transport("transport", transport, "handle_request")
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, again where its policy says so."""
        exchange = HttpxExchange(type(self).handle_request, self, request, self._retries)

        def attempt(template: httpx.Request) -> httpx.Response:
            exchange.rewind()
            return self._transport.handle_request(exchange.copy_of(template))

        response: httpx.Response = self._retries.run(exchange, attempt, own_say(request))
        exchange.hand_over()
        return response

    def close(self) -> None:
        """Close the transport that sends."""
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(exc_type, exc_value, traceback)

    def __repr__(self) -> str:
        return f"<RetryTransport over {type(self._transport).__name__}>"


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`, on asyncio and Trio; see `RetryTransport`.

    Here the policy's `attempt_timeout` and `deadline` also cut an attempt that runs. A classifier
    cannot read a body: for `unless=` there is `AsyncRetryClient`.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        _check_transport("transport", transport, "handle_async_request")
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, again where its policy says so."""
        exchange = HttpxExchange(type(self).handle_async_request, self, request, self._retries)

        async def attempt(template: httpx.Request) -> httpx.Response:
            await exchange.rewind_async()
            return await self._transport.handle_async_request(exchange.copy_of(template))

        response: httpx.Response
        response = await self._retries.run_async(exchange, attempt, own_say(request))
        exchange.hand_over()
        return response

    async def aclose(self) -> None:
        """Close the transport that sends."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)

    def __repr__(self) -> str:
        return f"<AsyncRetryTransport over {type(self._transport).__name__}>"


class RetryClient(httpx.Client):
    """An `httpx.Client` whose calls are retried, reading the body included.

    Takes `policy` and `idempotency_key` as `RetryTransport` does, and all that `httpx.Client`
    takes; a `transport` or `mounts` given must not retry by themselves.

    Authentication and event hooks run in each attempt: a signature is never a stale one, and what a
    response hook raises (`raise_for_status`) is classified. Redirects are followed as the client's
    settings say. A failure after one repeats that step alone, never the request before it; a key is
    not sent to another origin, and a request there goes without.

    Of an error response only the beginning is read before it is decided on, at most 64 kB; the rest
    is read if it is handed over.
    """

    def __init__(
        self,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
        **options: Any,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        _check_transports(options, "handle_request")
        super().__init__(**options)

    def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: AuthTypes | UseClientDefault | None = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send the request, again where its policy says so; every other call goes through here."""
        journey = Journey(self, self._retries, request, stream, auth, follow_redirects)
        while True:
            response = self._send_step(journey)
            if journey.ends_with(response):
                return response

    def _send_step(self, journey: Journey) -> httpx.Response:
        """One call under the policy: the request, or what a redirect makes of it."""
        send = super().send
        exchange = journey.exchange(type(self).send)

        def attempt(template: httpx.Request) -> httpx.Response:
            exchange.rewind()
            sent = exchange.copy_of(template)
            try:
                response = send(sent, stream=True, auth=journey.auth, follow_redirects=False)
            finally:
                exchange.keep_what_was_read(sent)
            if journey.reads(response):
                read_in_part(response, exchange.until)
            return response

        response: httpx.Response = self._retries.run(exchange, attempt, journey.own_say)
        exchange.hand_over()
        if journey.reads(response):
            read(response)
        return response


class AsyncRetryClient(httpx.AsyncClient):
    """The same over `httpx.AsyncClient`, on asyncio and Trio; see `RetryClient`.

    Here the policy's `attempt_timeout` and `deadline` also cut an attempt that runs.
    """

    def __init__(
        self,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
        **options: Any,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        _check_transports(options, "handle_async_request")
        super().__init__(**options)

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: AuthTypes | UseClientDefault | None = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send the request, again where its policy says so; every other call goes through here."""
        journey = Journey(self, self._retries, request, stream, auth, follow_redirects)
        while True:
            response = await self._send_step(journey)
            if journey.ends_with(response):
                return response

    async def _send_step(self, journey: Journey) -> httpx.Response:
        """One call under the policy: the request, or what a redirect makes of it."""
        send = super().send
        exchange = journey.exchange(type(self).send)

        async def attempt(template: httpx.Request) -> httpx.Response:
            await exchange.rewind_async()
            sent = exchange.copy_of(template)
            try:
                response = await send(sent, stream=True, auth=journey.auth, follow_redirects=False)
            finally:
                exchange.keep_what_was_read(sent)
            if journey.reads(response):
                await read_in_part_async(response)
            return response

        response: httpx.Response
        response = await self._retries.run_async(exchange, attempt, journey.own_say)
        exchange.hand_over()
        if journey.reads(response):
            await read_async(response)
        return response


def _check_transports(options: Mapping[str, Any], method: str) -> None:
    _check_transport("transport", options.get("transport"), method)
    mounts: Mapping[str, object] = options.get("mounts") or {}
    for pattern, transport in mounts.items():
        _check_transport(f"mounts[{pattern!r}]", transport, method)


def _check_transport(name: str, transport: object, method: str) -> None:
    """Refuse what is no transport of this kind, and what retries by itself: it would multiply."""
    if transport is None:
        return
    instance_not_class(name, transport)
    if not callable(getattr(transport, method, None)):
        raise TypeError(f"{name} must have {method}, got {shown(transport)}")
    retries = getattr(getattr(transport, "_pool", None), "_retries", 0)
    if retries or isinstance(transport, (RetryTransport, AsyncRetryTransport)):
        got = f"retries={retries}" if retries else shown(transport)
        raise ValueError(f"{name} must not retry by itself, got {got}: the attempts would multiply")
