"""httpx's requests, bodies and responses, as the retrying transports and clients handle them.

What is done here is the same for the blocking ones and the async ones, or a pair of twins.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from retrykit._async import TimeLimit
from retrykit._context import current_attempt
from retrykit._validate import INFINITY
from retrykit.facts.methods import IDEMPOTENCY_KEY
from retrykit.http._adapter import (
    LONGEST_DRAIN,
    MISDIRECTED,
    MOST_DRAINED,
    OPTION,
    POLICY_S_OWN,
    Body,
    HttpExchange,
    Retries,
    tighter,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from typing import Self

_PHASES: Final = ("connect", "read", "write", "pool")
_KEY: Final = IDEMPOTENCY_KEY[0]


class HttpxExchange(HttpExchange):
    """One request of httpx's with its answers."""

    __slots__ = ("_own_time", "_time", "until")

    until: float
    """The monotonic time at which the last attempt's time ends."""

    _own_time: Mapping[str, float | None]
    """The time limits that the request came with."""
    _time: dict[str, float | None] | None
    """Those of the last attempt; what reads the body looks them up as it begins."""

    def __init__(
        self,
        function: Callable[..., Any],
        instance: object,
        request: httpx.Request,
        retries: Retries | None,
        *,
        default_time: Mapping[str, float | None] | None = None,
        body: Body | None = None,
    ) -> None:
        super().__init__(function, instance, request, None)
        headers = httpx.Headers(request.headers)
        key = None if retries is None else retries.key_for(self, request.method, headers)
        if key is not None:
            headers[_KEY] = key
        extensions = {name: each for name, each in request.extensions.items() if name != OPTION}
        if default_time is not None:
            extensions.setdefault("timeout", default_time)
        self._own_time = extensions.get("timeout", {})
        self._time = None
        self.until = INFINITY
        stream = request.stream
        if not isinstance(stream, httpx.ByteStream):
            self.body = Body(*_parts(stream)) if body is None else body
            stream = watched(stream, self.body)
        template = httpx.Request(
            request.method, request.url, headers=headers, stream=stream, extensions=extensions
        )
        self.args = (template,)  # the caller's own is left as it is

    def copy_of(self, template: httpx.Request) -> httpx.Request:
        """What one attempt sends, with what time is left."""
        extensions = dict(template.extensions)
        remaining = current_attempt().remaining
        self.until = INFINITY if remaining is None else time.monotonic() + remaining
        if remaining is not None or "timeout" in extensions:
            own = self._own_time
            self._time = {phase: tighter(own.get(phase), remaining) for phase in _PHASES}
            extensions["timeout"] = self._time
        copy = httpx.Request(
            template.method,
            template.url,
            headers=template.headers,
            stream=template.stream,
            extensions=extensions,
        )
        if isinstance(copy.stream, httpx.ByteStream):
            copy.read()  # so that it has its `content`, as a request that was built has
        return copy

    def rewind(self) -> None:
        """Put the body's files back to where they stood."""
        if self.body is not None:
            self.body.rewind()

    async def rewind_async(self) -> None:
        """The same in async code."""
        if self.body is not None:
            await self.body.rewind_async()

    def keep_what_was_read(self, sent: httpx.Request) -> None:
        """Where authentication or a hook took the whole body into memory, it is sent from there."""
        if self.body is not None and isinstance(sent.stream, httpx.ByteStream):
            self.args[0].stream = sent.stream
            self.body = None

    def hand_over(self) -> None:
        """What is still to be read of the response has the caller's own time again."""
        if self._time is not None:
            self._time.update({phase: self._own_time.get(phase) for phase in _PHASES})

    def let_go(self, response: Any) -> None:
        if not _is_open(response):
            return
        kept = False
        try:
            ahead = self._drainable(response)
            if ahead is not None and ahead.take(time.monotonic() + LONGEST_DRAIN):
                ahead.inner.close()
                kept = True
        finally:
            if not kept:
                response.close()

    async def let_go_async(self, response: Any) -> None:
        if not _is_open(response):
            return
        kept = False
        try:
            ahead = self._drainable(response)
            if ahead is not None:
                async with TimeLimit(LONGEST_DRAIN):
                    if await ahead.take_async():
                        await ahead.inner.aclose()
                        kept = True
        finally:
            if not kept:
                await response.aclose()

    async def close_async(self, response: Any) -> None:
        await response.aclose()

    def _drainable(self, response: httpx.Response) -> Ahead | None:
        """The body, to be read in part where that may free the connection."""
        begun = response.is_stream_consumed or isinstance(response.stream, Ahead)
        unwanted = response.status_code == MISDIRECTED or self._announced(response) > MOST_DRAINED
        if begun or unwanted:
            return None
        if self._time is not None:
            self._time["read"] = tighter(self._time["read"], LONGEST_DRAIN)
        return Ahead.of(response)

    def _announced(self, response: httpx.Response) -> int:
        """The length of the body that is to come, where the response tells; else zero."""
        length = response.headers.get("Content-Length", "")
        if self.args[0].method == "HEAD" or not length.isdecimal():
            return 0
        return int(length[:20])


class Journey:
    """One call of `send` with its redirects: which request is next, and what goes along with it."""

    __slots__ = (
        "_body",
        "_client",
        "_first",
        "_follow",
        "_history",
        "_request",
        "_retries",
        "_strange",
        "_stream",
        "auth",
        "own_say",
    )

    auth: Any
    """The authentication of the next step."""
    own_say: object
    """How the request wants to be retried."""

    def __init__(
        self,
        client: httpx.Client | httpx.AsyncClient,
        retries: Retries,
        request: httpx.Request,
        stream: bool,
        auth: Any,
        follow_redirects: Any,
    ) -> None:
        unsaid = follow_redirects is httpx.USE_CLIENT_DEFAULT
        self._body: Body | None = None
        self._client = client
        self._first: HttpxExchange | None = None
        self._follow: bool = client.follow_redirects if unsaid else follow_redirects
        self._history: list[httpx.Response] = []
        self._request = request
        self._retries = retries
        self._strange = False
        self._stream = stream
        self.auth = auth
        self.own_say = own_say(request)

    def exchange(self, function: Callable[..., Any]) -> HttpxExchange:
        """The next step."""
        exchange = HttpxExchange(
            function,
            self._client,
            self._request,
            None if self._strange else self._retries,
            default_time=self._client.timeout.as_dict(),
            body=self._body,
        )
        self._body = exchange.body
        if self._first is None:
            self._first = exchange
        else:
            exchange.began = self._first.began
        return exchange

    def reads(self, response: httpx.Response) -> bool:
        """Whether the body is read: nothing is streamed, or this is a redirect to follow."""
        return not self._stream or (self._follow and response.next_request is not None)

    def ends_with(self, response: httpx.Response) -> bool:
        """Whether this is the last response; if not, the step that it asks for is the next."""
        response.history = [*self._history, *response.history]
        following = response.next_request
        if following is None:
            return True
        # It was made of an attempt's copy: what was laid over that is taken off again.
        following.extensions = dict(self._request.extensions)
        if isinstance(following.stream, (Watched, AsyncWatched)):
            following.stream = following.stream.inner
        if _origin(following.url) != _origin(self._request.url):
            self._strange = True
            self.auth = httpx.Auth()  # none: what may go along is in the headers already
            if self._retries.idempotency_key:
                following.headers.pop(_KEY, None)
        if not self._follow:
            return True
        response.next_request = None
        self._history = [*response.history, response]
        if len(self._history) > self._client.max_redirects:
            raise httpx.TooManyRedirects("Exceeded maximum allowed redirects.", request=following)
        self._request = following
        return False


class Watched(httpx.SyncByteStream):
    """A body that is not in memory: notes how far it is read, and never ends sooner than before."""

    def __init__(self, inner: Any, body: Body) -> None:
        self.inner = inner
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        body, sent = self._body, 0
        body.begun = True
        for chunk in self.inner:
            sent += len(chunk)
            body.most = max(body.most, sent)
            yield chunk
        if sent < body.most:
            raise httpx.StreamConsumed


class AsyncWatched(httpx.AsyncByteStream):
    """The same for async clients."""

    def __init__(self, inner: Any, body: Body) -> None:
        self.inner = inner
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body, sent = self._body, 0
        body.begun = True
        async for chunk in self.inner:
            sent += len(chunk)
            body.most = max(body.most, sent)
            yield chunk
        if sent < body.most:
            raise httpx.StreamConsumed


class WatchedByBoth(Watched, AsyncWatched):
    """The same for what either kind of client may send, as a multipart body."""


def watched(stream: Any, body: Body) -> Any:
    """The stream, watched; of the same kinds, for a client refuses what is not of its own."""
    if not isinstance(stream, httpx.SyncByteStream):
        return AsyncWatched(stream, body)
    both = isinstance(stream, httpx.AsyncByteStream)
    return WatchedByBoth(stream, body) if both else Watched(stream, body)


def _parts(stream: Any) -> tuple[object, ...]:
    """What a request's body is made of, as far as it shows."""
    fields = getattr(stream, "fields", None)
    if isinstance(fields, list):  # a multipart body's
        return tuple(getattr(field, "file", None) for field in cast("list[object]", fields))
    inner = getattr(stream, "_stream", None)  # what `content=` was given: it is kept nowhere else
    return (stream if inner is None else inner,)


class _Around(httpx.SyncByteStream):
    """A response's body, handled with more care."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def elapsed(self) -> Any:
        """Where httpx2 looks for a response's own."""
        return getattr(self.inner, "elapsed", None)

    def close(self) -> None:
        self.inner.close()


class Timed(_Around):
    """A body that is read up to a monotonic time: a client's own limit is for each piece anew."""

    def __init__(self, inner: Any, until: float) -> None:
        super().__init__(inner)
        self._until = until

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.inner:
            if time.monotonic() > self._until:
                raise httpx.ReadTimeout("the attempt's time is over")
            yield chunk


class Ahead(_Around, httpx.AsyncByteStream):
    """A body of which the beginning was read before anybody asked for it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._begun: list[bytes] = []
        self._rest: Any = None

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """In place of the response's own."""
        ahead = cls(response.stream)
        response.stream = ahead
        return ahead

    def take(self, until: float = INFINITY) -> bool:
        """Read the beginning, up to a monotonic time; whether that was all."""
        size = 0
        self._rest = iter(self.inner)
        for chunk in self._rest:
            self._begun.append(chunk)
            size += len(chunk)
            if size > MOST_DRAINED or time.monotonic() > until:
                return False
        return True

    async def take_async(self) -> bool:
        """The same in async code."""
        size = 0
        self._rest = aiter(self.inner)
        async for chunk in self._rest:
            self._begun.append(chunk)
            size += len(chunk)
            if size > MOST_DRAINED:
                return False
        return True

    def __iter__(self) -> Iterator[bytes]:
        yield from self._begun
        yield from self._rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._begun:
            yield chunk
        async for chunk in self._rest:
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._cut()
        finally:
            await self.inner.aclose()

    async def _cut(self) -> None:
        """End what was begun from within.

        It comes out of generators one inside the other, and nobody closes the inner ones: left as
        they are, Trio warns of each. A cancel where the innermost waits ends them all.
        """
        size = 0
        with suppress(Exception):
            async with TimeLimit(0.0):
                async for chunk in self._rest:
                    size += len(chunk)
                    if size > MOST_DRAINED:
                        return  # what never waits comes from no network


def read_in_part(response: httpx.Response, until: float) -> None:
    """Read the body as part of the attempt: whole, or the beginning of an error's."""
    if response.status_code == MISDIRECTED:
        return
    if until < INFINITY and _is_open(response):
        response.stream = Timed(response.stream, until)
    try:
        if not _may_be_let_go(response) or Ahead.of(response).take():
            response.read()
    except BaseException as error:
        _give_request(error, response)
        response.close()
        raise


async def read_in_part_async(response: httpx.Response) -> None:
    """The same in async code."""
    if response.status_code == MISDIRECTED:
        return
    try:
        if not _may_be_let_go(response) or await Ahead.of(response).take_async():
            await response.aread()
    except BaseException as error:
        _give_request(error, response)
        await response.aclose()
        raise


def read(response: httpx.Response) -> None:
    """Read what there still is of the body."""
    try:
        response.read()
    except BaseException:
        response.close()
        raise


async def read_async(response: httpx.Response) -> None:
    """The same in async code."""
    try:
        await response.aread()
    except BaseException:
        await response.aclose()
        raise


def _may_be_let_go(response: httpx.Response) -> bool:
    return response.status_code >= 400 and _is_open(response) and not response.is_stream_consumed


def _is_open(response: Any) -> bool:
    return isinstance(response, httpx.Response) and not response.is_closed


def _give_request(error: BaseException, response: httpx.Response) -> None:
    """Tell an error of httpx's which request it is about, as httpx does where it reads."""
    if isinstance(error, httpx.RequestError):
        error.request = response.request


def own_say(request: httpx.Request) -> object:
    """How the request wants to be retried."""
    own: object = request.extensions.get(OPTION, POLICY_S_OWN)
    return own


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
