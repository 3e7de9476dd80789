"""Retries for aiohttp (3.12 or newer): a client middleware.

    async with aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session:
        async with session.get(url) as response: ...

What one attempt covers: getting a connection, sending the request, the response's headers, and of a
success the body where it is announced as small (64 kB) and comes uncompressed; with `read=True` any
body, with `read=False` none. So responses can be streamed as ever: a larger body, or one of unknown
length, is committed once its headers are there, and what fails while it is read is not retried.
The middlewares behind this one in the list run in each attempt, so it stands first.

Each redirect is a call of its own, with all its attempts; the policy's deadline holds for all of
them together. When retrying ends, the last response is handed over open and readable, or the last
error raised. A response that is let go is released before the wait: a small rest of its body is
read, so that the connection can be used again, and a large one is closed. aiohttp repeats an
idempotent request once by itself where the connection drops: not behind this middleware, whose
attempts are all there are.

A request says for itself how it is retried by aiohttp's own argument, or inside of a scope:

    session.get(url, middlewares=(retry_middleware(policy=another_policy),))
    session.get(url, middlewares=())      # no middleware: aiohttp as it is
    with override(attempts=2):            # these fields laid over the policy
        await session.get(url)

Time limits: the policy's `attempt_timeout` and `deadline` cut an attempt that runs, wherever it is,
uploads included. `ClientTimeout(total=…)` is, as ever with aiohttp, for the whole call: with all
attempts and the waits between them. Where it runs out the call ends, whatever the policy says.
(Its default is 5 minutes.) `connect`, `sock_connect` and `sock_read` hold for each attempt.
"""

from __future__ import annotations

import asyncio
import copy
import weakref
from contextlib import suppress
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from retrykit._async import TimeLimit
from retrykit._executor import begun_using
from retrykit._validate import shown
from retrykit.errors import RetriesExhausted
from retrykit.facts.exceptions import lookup
from retrykit.facts.methods import IDEMPOTENCY_KEY
from retrykit.http._adapter import (
    LONGEST_DRAIN,
    MISDIRECTED,
    MOST_DRAINED,
    Body,
    HttpExchange,
    Retries,
)

try:
    import aiohttp
except ModuleNotFoundError as error:
    if error.name != "aiohttp":
        raise
    raise ImportError(
        "retrykit.http.aiohttp needs aiohttp: install retrykit with the extra [aiohttp]",
        name=error.name,
    ) from error

from aiohttp.base_protocol import BaseProtocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from yarl import URL

    from retrykit._decorator import PolicyLike
    from retrykit.http._adapter import KeyStyle

__all__ = ["RetryMiddleware", "retry_middleware"]

Reading: TypeAlias = bool | Literal["small"]
"""Which bodies are read as part of the attempt: all, none, or those announced as small."""

_KEY: Final = IDEMPOTENCY_KEY[0]
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOMENT: Final = 1.0
"""Seconds in which aiohttp asks once more, if it does at all."""


class RetryMiddleware:
    """A client middleware that retries; made by `retry_middleware`, which says how."""

    __slots__ = ("_read", "_retries", "_steps")

    def __init__(
        self,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
        read: Reading = "small",
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        if not (isinstance(read, bool) or read == "small"):
            raise ValueError(f"read must be True, False or 'small', got {shown(read)}")
        self._read: Reading = read
        self._steps = _Steps()

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send the request, again where its policy says so."""
        before = self._steps.before(request)
        if before is not None and before.error is not None:
            try:
                raise before.error  # aiohttp asks once more by itself; all attempts were made
            finally:
                del before
        exchange = _Exchange(request, self._retries, before)
        if not exchange.replayable():  # begun in an earlier step
            raise aiohttp.ClientPayloadError(
                "Cannot follow redirect with a consumed request body: hand over bytes or a file"
            )

        async def attempt(template: ClientRequest) -> ClientResponse:
            await exchange.rewind_async()
            sent = exchange.again(template)
            try:
                response = await handler(sent)
                exchange.begun(None)
                await exchange.read(response, self._read)
            except BaseException as error:
                exchange.begun(error)
                if isinstance(error, Exception) and _time_is_up(request):
                    raise _TimeIsUp(error) from None
                raise
            return response

        error: Exception
        try:
            response: ClientResponse = await self._retries.run_async(exchange, attempt)
        except _TimeIsUp as up:
            error = up.error
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as failure:
            self._steps.failed(request, failure, exchange)
            raise
        except RetriesExhausted as exhausted:
            if isinstance(exhausted.value, aiohttp.ClientResponse):
                await exchange.hand_over(exhausted.value)
            raise
        else:
            await exchange.hand_over(response)
            if response.status in _REDIRECTS:
                self._steps.redirected(request, response, exchange)
            return response
        try:
            raise error
        finally:
            del error

    def __repr__(self) -> str:
        return "<RetryMiddleware>"


@overload
def retry_middleware(
    *,
    policy: PolicyLike | None = None,
    idempotency_key: KeyStyle = False,
    read: Reading = "small",
) -> RetryMiddleware: ...


@overload
def retry_middleware(
    request: ClientRequest, handler: ClientHandlerType, /
) -> Awaitable[ClientResponse]: ...


def retry_middleware(
    request: ClientRequest | None = None,
    handler: ClientHandlerType | None = None,
    /,
    *,
    policy: PolicyLike | None = None,
    idempotency_key: KeyStyle = False,
    read: Reading = "small",
) -> RetryMiddleware | Awaitable[ClientResponse]:
    """A middleware that retries: `aiohttp.ClientSession(middlewares=(retry_middleware(),))`.

    `policy` is what `retry` takes (omitted: `http_policy()`). Without anything to set up, the
    function is such a middleware itself: `middlewares=(retry_middleware,)`.

    `read` says whose body is read before the attempt counts as a success, so that one that breaks
    off is retried: `"small"` (announced as 64 kB at most, uncompressed), `True` (any: nothing can
    be streamed then, and all of it is held in memory), or `False` (none). It can be read as ever
    afterwards, also through `response.content`. Of an error response no more than 64 kB are read
    before it is decided on; what fails there is left to the reader. An `unless` that wants to look
    into it finds what there is by `response.content.read_nowait()`.

    `idempotency_key=True` gives every request that is not idempotent, and has none, an
    `Idempotency-Key`, one and the same on all attempts, and retries it like an idempotent one. The
    server must honour the header; one that does not may do the work twice. The value is quoted, as
    the IETF's draft has it; `"bare"` leaves the quotes out. It goes along with a redirect, but not
    to another origin.

    Bytes, forms and files are sent again, files from where they stood (aiohttp 3.12.0 closes them).
    What is sent once, such as an async iterator, is not: where it was begun, the failure stands
    (`NOT_REPLAYABLE`).

    >>> from retrykit.http import http_policy
    >>> retry_middleware(policy=http_policy(attempts=3), idempotency_key=True, read=True)
    <RetryMiddleware>
    """
    if request is None and handler is None:
        return RetryMiddleware(policy=policy, idempotency_key=idempotency_key, read=read)
    if request is None or handler is None:
        raise TypeError("retry_middleware takes its policy by name: retry_middleware(policy=…)")
    return _PLAIN(request, handler)


class _Exchange(HttpExchange):
    """One request of aiohttp's with its answers."""

    __slots__ = ("_data", "_part", "_sent", "_stream", "origin", "strange")

    _data: bytes | None
    """The body of the last response, where all of it was read ahead."""
    _part: bytes
    """Its beginning, where it was too long for that."""
    _sent: ClientRequest | None
    """What the last attempt sent."""
    _stream: object
    """The one async iterator that is sent, if any."""
    origin: URL
    strange: bool
    """Whether a redirect led to another origin."""

    def __init__(self, request: ClientRequest, retries: Retries, before: _Step | None) -> None:
        super().__init__(aiohttp.ClientSession.request, request.session, request, None)
        self._data = self._sent = None
        self._part = b""
        self.origin = request.url.origin()
        self.strange = before is not None and (before.strange or before.origin != self.origin)
        self.began = None if before is None else before.began
        template = copy.copy(request)  # not aiohttp's own: it may get a key
        template.headers = request.headers.copy()
        if self.strange:
            if retries.idempotency_key:
                template.headers.popall(_KEY, None)
        else:
            key = retries.key_for(self, request.method, request.headers)
            if key is not None:
                theirs = None if before is None else before.key
                template.headers[_KEY] = key if theirs is None else theirs
        self.args = (template,)
        self._stream = getattr(request.body, "_value", None)
        if before is not None and before.payload is request.body:
            self.body = before.body  # goes along with a redirect
        else:
            parts = list(_parts(request.body))
            self.body = Body(*parts) if parts else None

    @property
    def key(self) -> str | None:
        """The key that is sent."""
        key: str | None = self.args[0].headers.get(_KEY)
        return key

    async def rewind_async(self) -> None:
        """Before an attempt: the body stands where it stood at first."""
        await self._stop_sending()
        if self.body is not None:
            await self.body.rewind_async()

    async def _stop_sending(self) -> None:
        """Wait until nothing of the last attempt is sent any more: it has been told to stop."""
        if self._sent is not None:
            with suppress(Exception):  # how it ended is of no account now
                await self._sent.close()

    def again(self, template: ClientRequest) -> ClientRequest:
        """A copy for one attempt."""
        sent = copy.copy(template)
        sent.headers = template.headers.copy()
        sent.update_expect_continue()  # the server is asked anew, where it is asked
        self._sent = sent
        self._data, self._part = None, b""
        return sent

    def begun(self, error: BaseException | None) -> None:
        """Take down whether the attempt began to send the body."""
        if self.body is None or self.body.begun:
            return
        if isinstance(self._stream, AsyncGeneratorType):
            self.body.begun = begun_using(self._stream)  # pyright: ignore[reportUnknownMemberType]  # of whatever it yields
            return
        row = None if error is None else lookup(error)
        self.body.begun = row is None or row.state != "unsent"

    async def read(self, response: ClientResponse, which: Reading) -> None:
        """Read the body, where that is part of the attempt."""
        if 300 <= response.status < 400 or response.status in (101, MISDIRECTED):
            return
        if which is False:
            return
        if which == "small" and not _is_small(response):
            return
        try:
            if response.status < 400:
                self._data = await response.content.read()
            else:
                await self._read_beginning(response)
        except BaseException as error:
            if response.status < 400 or not isinstance(error, Exception):
                response.close()
                raise
        self._refill(response)

    async def _read_beginning(self, response: ClientResponse) -> None:
        beginning, ended = await _taken(response.content)
        if ended:
            self._data = beginning
        else:
            self._part = beginning

    def _refill(self, response: ClientResponse) -> None:
        """Where the whole body was read: it can be read."""
        if self._data is not None:
            response.content = _stream_of(self._data)

    async def hand_over(self, response: ClientResponse) -> None:
        """The caller gets the response with all of its body."""
        if self._part:
            try:
                self._data = self._part + await response.content.read()
            except Exception:  # noqa: BLE001 - its reader meets it again, whatever it is
                return
            except BaseException:
                response.close()
                raise
        self._refill(response)

    async def let_go_async(self, response: Any) -> None:
        wanted = response.status != MISDIRECTED and _announced(response) <= MOST_DRAINED
        try:
            if wanted and self._data is None and not self._part:
                async with TimeLimit(LONGEST_DRAIN):
                    await self._read_beginning(response)
            self._refill(response)
        finally:
            if self._data is None:
                response.close()
            if response.status == MISDIRECTED:
                _close_connection(response)
        await self._stop_sending()  # only then is the connection free


class _Step:
    """What one step of a client's call leaves for the next: a redirect, or aiohttp's own repeat."""

    __slots__ = (
        "_request",
        "began",
        "body",
        "ends",
        "error",
        "key",
        "origin",
        "payload",
        "strange",
        "timer",
    )

    ends: asyncio.TimerHandle | weakref.ref[ClientResponse] | None
    """What makes it be forgotten."""
    error: Exception | None
    """The error that it ended with."""

    def __init__(
        self, request: ClientRequest, exchange: _Exchange, error: Exception | None = None
    ) -> None:
        self._request = weakref.ref(request)
        self.ends = None
        self.error = error
        self.timer = _timer_of(request)
        self.began = exchange.began
        self.body = exchange.body
        self.key = exchange.key
        self.origin = exchange.origin
        self.payload = request.body
        self.strange = exchange.strange

    def is_before(self, request: ClientRequest) -> bool:
        """Whether this request is another step of the same call.

        The same request again is none: another middleware asks for it, and is to get it.
        """
        return self.timer is _timer_of(request) and self._request() is not request


class _Steps:
    """The steps that other steps may follow.

    A middleware is asked for each step of a call, and not told that it is one. What the steps of
    one call have in common is the timer of its `total`, which has no public name. A step that was
    redirected is remembered for as long as its response lives; one that failed until it is asked
    for again, which aiohttp does at once, or else for a moment.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, _Step] = {}

    def failed(self, request: ClientRequest, error: Exception, exchange: _Exchange) -> None:
        """A step ended with an error after which aiohttp may repeat it."""
        repeated = getattr(aiohttp.client, "IDEMPOTENT_METHODS", (request.method,))
        if request.method in repeated:
            step = _Step(request, exchange, error)
            step.ends = request.loop.call_later(_MOMENT, self._leave(step))

    def redirected(
        self, request: ClientRequest, response: ClientResponse, exchange: _Exchange
    ) -> None:
        """A step ended with a redirect, which aiohttp may follow."""
        step = _Step(request, exchange)
        step.ends = weakref.ref(response, self._leave(step))

    def _leave(self, step: _Step) -> Callable[..., None]:
        """Remember a step; what forgets it again."""
        known, at = self._known, id(step.timer)
        if step.timer is not None:
            known[at] = step

        def forget(*_: object) -> None:
            known.pop(at, None)

        return forget

    def before(self, request: ClientRequest) -> _Step | None:
        """The step that was before this one, in the same call of the client's."""
        step = self._known.pop(id(_timer_of(request)), None)
        if step is None:
            return None
        if isinstance(step.ends, asyncio.TimerHandle):
            step.ends.cancel()
        return step if step.is_before(request) else None


class _TimeIsUp(BaseException):
    """The client's own limit for the whole call ran out: the attempt leaves like a cancel."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _timer_of(request: ClientRequest) -> Any:
    return getattr(request, "_timer", None)


def _time_is_up(request: ClientRequest) -> bool:
    """Whether `ClientTimeout(total=…)` ran out."""
    check = getattr(_timer_of(request), "assert_timeout", None)
    try:
        if check is not None:
            check()
    except TimeoutError:
        return True
    return False


def _parts(payload: Any) -> Iterator[object]:
    """What is sent beside bytes in memory, in parts as `Body` knows them."""
    if isinstance(payload, aiohttp.MultipartWriter):
        for part, *_ in payload:
            yield from _parts(part)
    elif isinstance(payload, aiohttp.IOBasePayload):
        # Files are kept under a private name only; without it they count as what is sent once.
        yield getattr(payload, "_value", _ONCE)
    elif not isinstance(payload, (bytes, aiohttp.BytesPayload)):
        yield _ONCE  # aiohttp begins any async iterable at once, and never again


_ONCE: Final = iter(())


def _is_small(response: ClientResponse) -> bool:
    """Whether the body is announced as small, in that many bytes."""
    headers = response.headers
    told = "Content-Length" in headers and "Content-Encoding" not in headers
    return told and _announced(response) <= MOST_DRAINED


def _announced(response: ClientResponse) -> int:
    """The length of the body, where the response tells; else zero."""
    length = response.headers.get("Content-Length", "")
    return int(length[:20]) if length.isdecimal() else 0


def _close_connection(response: ClientResponse) -> None:
    """Close the connection that it came over, although it may be in the pool again.

    A response whose body has arrived gives its connection back at once, and knows it by a private
    name only from then on.
    """
    protocol = getattr(response, "_protocol", None)
    if protocol is not None:
        protocol.close()


async def _taken(content: aiohttp.StreamReader) -> tuple[bytes, bool]:
    """The beginning of a body, and whether that was all."""
    taken: list[bytes] = []
    size = 0
    while size <= MOST_DRAINED:
        chunk = await content.readany()
        if not chunk:
            return b"".join(taken), True
        taken.append(chunk)
        size += len(chunk)
    return b"".join(taken), False


def _stream_of(data: bytes) -> aiohttp.StreamReader:
    """A body that is there already."""
    loop = asyncio.get_running_loop()
    stream = aiohttp.StreamReader(BaseProtocol(loop), max(len(data), 1), loop=loop)
    stream.feed_data(data)
    stream.feed_eof()
    return stream


_PLAIN: Final = RetryMiddleware()
"""What `retry_middleware` is where it stands for itself."""
