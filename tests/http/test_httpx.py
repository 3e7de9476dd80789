"""The transports and clients for httpx, on real servers: blocking, on asyncio and on Trio."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import io
import logging
import os
import re
import runpy
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
import trio
from servers import (
    Step,
    answer,
    early,
    endless,
    hang_up,
    redirect,
    reset,
    stall,
    truncated,
)

from retrykit import (
    DeadlineExceeded,
    OnException,
    RatioBudget,
    RetriesExhausted,
    RetryPolicy,
    ServerDelay,
    StopReason,
    current_attempt,
    disabled,
    override,
    retry,
)
from retrykit._registry import forget, register
from retrykit.events import CallCancelled, CallFailed, CallGaveUp, CallSucceeded, RetryScheduled
from retrykit.http import OnStatus, by_endpoint, http_policy, per_host
from retrykit.http import _httpx as parts
from retrykit.http.httpx import (
    AsyncRetryClient,
    AsyncRetryTransport,
    RetryClient,
    RetryTransport,
)
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    import ssl

    from servers import Serve

# httpx leaves generators of its own to the collector where a request breaks off in its body, which
# Trio tells; what is left of a response that is let go is ended here, and held below.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator '(httpx|httpcore)._(content|multipart):ResourceWarning"
)

BIG = b"x" * 200_000


def policy(**fields: Any) -> RetryPolicy:
    """The preset without waits and without a log."""
    fields.setdefault("backoff", [0.0] * 100)
    fields.setdefault("listeners", ())
    return http_policy(**fields)


class Blocking:
    """An `httpx.Client` with the methods of the async one, so that a test is written once."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.build_request = client.build_request

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return called

    @asynccontextmanager
    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[httpx.Response]:
        with self.client.stream(*args, **kwargs) as response:
            yield response


def run_blocking(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run what never really waits."""
    coroutine: Any = main()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")


def run_asyncio(main: Callable[[], Any]) -> Any:
    return asyncio.run(main())


def run_trio(main: Callable[[], Any]) -> Any:
    return trio.run(main)


@dataclass(frozen=True)
class Way:
    """One of the four classes, on one kind of runner."""

    name: str
    run: Callable[[Callable[[], Awaitable[Any]]], Any]
    is_async: bool
    whole: bool
    """Whether it is a client, for which the body belongs to the attempt."""

    @asynccontextmanager
    async def client(
        self,
        policy: Any = None,
        *,
        pool: int | None = None,
        idempotency_key: Any = False,
        timeout: Any = 5.0,
        verify: Any = False,
        **options: Any,
    ) -> AsyncIterator[Any]:
        own: dict[str, Any] = {"policy": policy, "idempotency_key": idempotency_key}
        network = {"limits": httpx.Limits(max_connections=pool), "verify": verify}
        options |= {"timeout": timeout, "trust_env": False}
        if self.whole and self.is_async:
            options |= {**network, **own}
            made: Any = AsyncRetryClient(**options)
        elif self.whole:
            made = RetryClient(**options, **network, **own)
        elif self.is_async:
            inner: Any = AsyncRetryTransport(httpx.AsyncHTTPTransport(**network), **own)
            made = httpx.AsyncClient(transport=inner, **options)
        else:
            inner = RetryTransport(httpx.HTTPTransport(**network), **own)
            made = httpx.Client(transport=inner, **options)
        if self.is_async:
            async with made:
                yield made
        else:
            with made:
                yield Blocking(made)

    async def read(self, response: httpx.Response) -> bytes:
        return await response.aread() if self.is_async else response.read()

    async def close(self, response: httpx.Response) -> None:
        if self.is_async:
            await response.aclose()
        else:
            response.close()

    def body(self, *chunks: bytes, then: Callable[[], None] = lambda: None) -> Any:
        """A generator of the kind that this client sends."""

        def generator() -> Iterator[bytes]:
            yield from chunks
            then()

        async def async_generator() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk
            then()

        return async_generator() if self.is_async else generator()

    def hook(self, function: Callable[[Any], None]) -> Callable[[Any], Any]:
        """An event hook of the kind that this client calls."""

        async def async_hook(thing: Any) -> None:
            function(thing)

        return async_hook if self.is_async else function


CLIENTS = [
    Way("client", run_blocking, False, True),
    Way("client-asyncio", run_asyncio, True, True),
    Way("client-trio", run_trio, True, True),
]
WAYS = [
    *CLIENTS,
    Way("transport", run_blocking, False, False),
    Way("transport-asyncio", run_asyncio, True, False),
    Way("transport-trio", run_trio, True, False),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
each_client = pytest.mark.parametrize("way", CLIENTS, ids=lambda way: way.name)
blocking = pytest.mark.parametrize("way", [WAYS[0], WAYS[3]], ids=lambda way: way.name)
each_async_way = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.is_async], ids=lambda way: way.name
)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_to_others() -> Iterator[None]:
    """What this module's tests left to the collector shows in this module."""
    yield
    gc.collect()


# What is retried


@each_way
def test_a_failing_server_is_asked_again(way: Way, serve: Serve) -> None:
    """A reset, a 503, and the answer: three requests, no more."""
    server = serve(reset, answer(503), answer(body=b"fine"))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.get(server.url("/path?query=1"))

    response = way.run(main)
    assert (response.status_code, response.content) == (200, b"fine")
    assert [request.target for request in server.requests] == ["/path?query=1"] * 3


@each_way
def test_without_a_policy_the_preset_holds(way: Way, serve: Serve) -> None:
    """`http_policy()`, whose first wait for a reset is 0.1 s at most."""
    server = serve(reset)

    async def main() -> Any:
        async with way.client() as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert len(server.requests) == 2


@each_way
@pytest.mark.parametrize(
    ("step", "sent"),
    [(reset, 1), (hang_up, 1), (answer(503), 1), (answer(500), 1), (answer(429), 2)],
    ids=["reset", "hang up", "503", "500", "429"],
)
def test_a_post_is_repeated_only_if_it_was_not_processed(
    way: Way, serve: Serve, step: Step, sent: int
) -> None:
    """urllib3#1059, encode/httpx#1196: what may have been processed is sent once."""
    server = serve(step)

    async def main() -> Any:
        async with way.client(policy()) as client:
            try:
                return (await client.post(server.url(), content=b"body")).status_code
            except httpx.TransportError as error:
                return type(error)

    assert way.run(main) in (200, 503, 500, httpx.ReadError, httpx.RemoteProtocolError)
    assert len(server.requests) == sent


@each_way
def test_a_post_that_never_left_is_repeated(way: Way, refused: str) -> None:
    """A refused connection is safe for every method; the last error comes out, with a note."""
    events: list[Any] = []

    async def main() -> Any:
        async with way.client(policy(attempts=3, listeners=(events.append,))) as client:
            with pytest.raises(httpx.ConnectError) as caught:
                await client.post(refused, content=b"body")
            return caught.value

    error = way.run(main)
    assert sum(type(event) is RetryScheduled for event in events) == 2
    (note,) = error.__notes__
    assert "gave up after 3 attempts" in note
    assert "attempts_exhausted (ConnectError ×3)" in note


@each_way
def test_a_post_that_found_no_free_connection_is_repeated(way: Way, serve: Serve) -> None:
    """encode/httpx#1196: a pool timeout is safe for every method."""
    server = serve(answer(body=b"held", chunked=True))

    async def main() -> Any:
        async with (
            way.client(policy(attempts=3, listeners=(let_go,)), pool=1) as client,
            client.stream("GET", server.url()) as response,
        ):
            held.append(response)
            timeout = httpx.Timeout(5.0, pool=0.02)
            return await client.post(server.url(), content=b"body", timeout=timeout)

    held: list[httpx.Response] = []
    tries: list[str | None] = []

    def let_go(event: Any) -> None:
        if isinstance(event, RetryScheduled):
            tries.append(event.error_type)

    with pytest.raises(httpx.PoolTimeout):
        way.run(main)
    assert tries == ["PoolTimeout"] * 2
    assert len(server.requests) == 1


@each_way
def test_a_bad_certificate_is_not_asked_again(
    way: Way, serve: Serve, server_tls: ssl.SSLContext
) -> None:
    """The class says connection error, and it is permanent all the same."""
    server = serve(tls=server_tls)

    async def main() -> Any:
        async with way.client(policy(), verify=True) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(server.url())

    way.run(main)
    assert server.connections == 1


@each_way
def test_the_server_s_wait_is_honoured(way: Way, serve: Serve) -> None:
    """Retry-After of 7 s: waited for at least that long, on the policy's clock."""
    server = serve(answer(429, {"Retry-After": "7"}))
    clock = VirtualClock()

    async def main() -> Any:
        async with way.client(policy(clock=clock, backoff=[0.5] * 3)) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    (slept,) = clock.sleeps
    assert 7.0 <= slept <= 8.0


@each_way
def test_a_wait_over_the_limit_ends_the_call_at_once(way: Way, serve: Serve) -> None:
    """openai/openai-python#3555: the response comes out, readable, and nothing is waited for."""
    server = serve(answer(429, {"Retry-After": "61"}, b"tomorrow"))
    clock = VirtualClock()

    async def main() -> Any:
        async with way.client(policy(clock=clock)) as client:
            return await client.get(server.url())

    response = way.run(main)
    assert (response.status_code, response.text) == (429, "tomorrow")
    assert clock.sleeps == []
    assert len(server.requests) == 1


@each_way
def test_an_error_response_that_nobody_retries_is_as_it_was(way: Way, serve: Serve) -> None:
    """A 404 with a large body: one request, the whole body."""
    server = serve(answer(404, {"X-Kept": "yes"}, BIG, chunked=True))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.get(server.url())

    response = way.run(main)
    assert response.headers["x-kept"] == "yes"
    assert response.content == BIG
    assert len(server.requests) == 1


# The body of the request


PAYLOADS: dict[str, Callable[[], dict[str, Any]]] = {
    "bytes": lambda: {"content": b"some bytes"},
    "text": lambda: {"content": "täxt"},
    "form": lambda: {"data": {"name": "value", "more": ["1", "2"]}},
    "json": lambda: {"json": {"name": [1, 2, 3]}},
    "multipart of bytes": lambda: {"files": {"file": ("name", b"some bytes")}},
    "multipart of a file": lambda: {"files": {"file": io.BytesIO(b"the whole file")}},
    "multipart with fields": lambda: {"data": {"a": "b"}, "files": {"f": io.BytesIO(BIG)}},
    "nothing": dict,
}


@each_way
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_body_that_can_be_sent_again_is(way: Way, serve: Serve, payload: str) -> None:
    """aio-libs/aiohttp#13330: 503, 503, 200, and three times the same bytes."""
    server = serve(answer(503), answer(503))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.put(server.url(), **PAYLOADS[payload]())

    assert way.run(main).text == "ok"
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert payload == "nothing" or bodies[0]


UPLOAD = b"01234567890123456789"


def blocking_body(kind: str, tmp_path: Path) -> Any:
    if kind == "list":
        return [b"6789", b"0123456789"]
    path = tmp_path / "upload"
    path.write_bytes(UPLOAD)
    file: Any = path.open("rb") if kind == "file" else io.BytesIO(UPLOAD)
    file.seek(6)
    return file


class AsyncFile:
    """A file with async methods, as anyio, Trio and aiofiles have them."""

    def __init__(self, data: bytes, at: int) -> None:
        self.inner = io.BytesIO(data)
        self.inner.seek(at)

    async def tell(self) -> int:
        return self.inner.tell()

    async def seek(self, position: int) -> int:
        return self.inner.seek(position)

    async def aread(self, size: int) -> bytes:
        return self.inner.read(size)

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise NotImplementedError


class AsyncList:
    """Can be gone through again and again."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"6789"
        yield b"0123456789"


@each_way
@pytest.mark.parametrize("kind", ["file", "memory", "list"])
@pytest.mark.parametrize("step", [answer(503), reset], ids=["503", "reset"])
def test_a_file_is_rewound_to_where_it_stood(
    way: Way, serve: Serve, tmp_path: Path, kind: str, step: Step
) -> None:
    """urllib3#2982: from offset 6, as at first, and not from the start; whatever failed."""
    server = serve(step, step)
    headers = {"Content-Length": "14"}

    async def main() -> Any:
        if not way.is_async:
            content = blocking_body(kind, tmp_path)
        elif kind == "file":
            (tmp_path / "upload").write_bytes(UPLOAD)
            content = await anyio.open_file(tmp_path / "upload", "rb")
            await content.seek(6)
        else:
            content = AsyncFile(UPLOAD, 6) if kind == "memory" else AsyncList()
        try:
            async with way.client(policy()) as client:
                return await client.put(server.url(), content=content, headers=headers)
        finally:
            if kind == "file":
                await content.aclose() if way.is_async else content.close()

    assert way.run(main).text == "ok"
    assert len(server.requests) == 3
    assert [request.body for request in server.requests] == [b"67890123456789"] * 3


@blocking
def test_a_file_is_rewound_when_only_a_part_of_it_was_sent(way: Way, serve: Serve) -> None:
    """The server answered while the upload went on."""
    server = serve(early(answer(503)))
    file = io.BytesIO(BIG * 40)
    file.seek(3)
    headers = {"Content-Length": str(len(BIG) * 40 - 3)}

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.put(server.url(), content=file, headers=headers)

    assert way.run(main).text == "ok"
    assert len(server.requests[-1].body) == len(BIG) * 40 - 3


@each_way
@pytest.mark.parametrize("step", [answer(503, body=b"sorry"), reset], ids=["503", "reset"])
def test_a_body_for_one_time_is_sent_once(way: Way, serve: Serve, step: Step) -> None:
    """lostisland/faraday#297: an empty second request would be answered with 200, and lose data."""
    server = serve(step)
    events: list[Any] = []

    async def main() -> Any:
        async with way.client(policy(listeners=(events.append,))) as client:
            try:
                return await client.put(
                    server.url(), content=way.body(b"ten bytes!", b"ten more!!")
                )
            except httpx.TransportError as error:
                return error

    outcome = way.run(main)
    assert [request.body for request in server.requests] == [b"ten bytes!ten more!!"]
    assert type(events[-1]) is CallGaveUp
    assert events[-1].reason is StopReason.NOT_REPLAYABLE
    if isinstance(outcome, httpx.Response):
        assert (outcome.status_code, outcome.text) == (503, "sorry")
    else:
        assert "can be sent only once" in outcome.__notes__[-1]


def one_shots(way: Way) -> dict[str, Any]:
    class Pipe(io.RawIOBase):
        """A file that cannot be rewound."""

        left = b"ten bytes!"

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            taken, self.left = self.left, b""
            return taken

    class ReadOnly:
        """What has `read` and nothing else."""

        left = b"ten bytes!"

        def read(self, size: int = -1) -> bytes:
            taken, self.left = self.left, b""
            return taken

        def __iter__(self) -> Iterator[bytes]:
            yield self.read()

    class Anext:
        """An async iterator that is no generator."""

        def __init__(self) -> None:
            self.left = [b"ten bytes!"]

        def __aiter__(self) -> Anext:
            return self

        async def __anext__(self) -> bytes:
            if self.left:
                return self.left.pop()
            raise StopAsyncIteration

    multipart = {
        "multipart pipe": {"files": {"f": Pipe()}},
        "multipart": {"files": {"f": ReadOnly()}},
    }
    if way.is_async:
        return {**multipart, "iterator": {"content": Anext()}, "pipe": {"content": Anext()}}
    return {
        **multipart,
        "iterator": {"content": map(bytes, [b"ten ", b"bytes!"])},
        "pipe": {"content": Pipe()},
    }


@each_way
@pytest.mark.parametrize("kind", ["iterator", "pipe", "multipart pipe", "multipart"])
def test_every_kind_of_body_for_one_time_is_sent_once(way: Way, serve: Serve, kind: str) -> None:
    """Iterators that are no generators, and files that cannot be rewound."""
    server = serve(answer(503), answer(503))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.put(server.url(), **one_shots(way)[kind])

    assert way.run(main).status_code == 503
    assert len(server.requests) == 1
    assert b"ten bytes!" in server.requests[0].body


@each_way
def test_a_body_that_ends_sooner_than_before_is_never_sent_as_if_whole(
    way: Way, serve: Serve
) -> None:
    """What looks as if it could be gone through again, and cannot, is an error: no lost data."""
    server = serve(answer(503), answer(503))

    class Shared:
        def __init__(self) -> None:
            self.items = way.body(b"ten bytes!")

        def __iter__(self) -> Iterator[bytes]:
            yield from self.items

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for item in self.items:
                yield item

    class Stream(Shared, httpx.SyncByteStream, httpx.AsyncByteStream):
        pass

    async def main() -> Any:
        async with way.client(policy()) as client:
            request = client.build_request("PUT", server.url(), headers={"Content-Length": "10"})
            request.stream = Stream()
            with pytest.raises(httpx.StreamConsumed):
                await client.send(request)

    way.run(main)
    assert [request.complete for request in server.requests][:1] == [True]
    assert not any(request.complete for request in server.requests[1:])


@each_way
def test_a_generator_that_was_not_begun_may_still_be_sent(way: Way, refused: str) -> None:
    """No byte of it was read before the connection was refused."""
    events: list[Any] = []

    async def main() -> Any:
        async with way.client(policy(attempts=3, listeners=(events.append,))) as client:
            with pytest.raises(httpx.ConnectError):
                await client.post(refused, content=way.body(b"ten bytes!"))

    way.run(main)
    assert events[-1].reason is StopReason.ATTEMPTS_EXHAUSTED


def test_a_closed_file_is_not_sent_again(serve: Serve) -> None:
    """The response stands, and not an error about the file."""
    server = serve(answer(503))
    file = io.BytesIO(b"ten bytes!")
    with RetryClient(policy=policy(), verify=False, trust_env=False) as client:
        client.event_hooks = {"response": [lambda response: file.close()]}
        assert client.put(server.url(), content=file).status_code == 503
    assert len(server.requests) == 1


@each_client
def test_a_body_that_authentication_took_into_memory_is_sent_again(way: Way, serve: Serve) -> None:
    """Buffering was asked for: `requires_request_body`."""

    class Signed(httpx.Auth):
        requires_request_body = True

        def auth_flow(self, request: httpx.Request) -> Any:
            request.headers["X-Length"] = str(len(request.content))
            yield request

    server = serve(answer(503))

    async def main() -> Any:
        async with way.client(policy(), auth=Signed()) as client:
            return await client.put(server.url(), content=way.body(b"ten bytes!"))

    assert way.run(main).text == "ok"
    assert [request.body for request in server.requests] == [b"ten bytes!"] * 2
    assert [request.header("X-Length") for request in server.requests] == ["10", "10"]


@each_way
def test_what_the_caller_hands_in_is_not_changed(way: Way, serve: Serve) -> None:
    """Headers, extensions and stream are the ones that the request was made with."""
    server = serve(answer(503))

    async def main() -> Any:
        async with way.client(policy(deadline=60), idempotency_key=True) as client:
            extensions = {"retrykit": {"attempts": 3}, "timeout": {"read": 3.0}}
            request = client.build_request(
                "POST", server.url(), content=b"a", extensions=extensions
            )
            before = list(request.headers.raw), dict(request.extensions), request.stream
            response = await client.send(request)
            assert (list(request.headers.raw), dict(request.extensions), request.stream) == before
            assert request.extensions["timeout"] == {"read": 3.0}
            return response

    assert way.run(main).text == "ok"
    assert len(server.requests) == 2


# Responses that are let go


@each_way
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_pool_of_one_does_not_dry_up(way: Way, serve: Serve, chunked: bool) -> None:
    """microsoft/kiota-python#564: 200 kB error bodies are let go before the next attempt."""
    failed = answer(503, body=BIG, chunked=chunked)
    server = serve(failed, failed, then=answer(body=b"fine"))

    async def main() -> Any:
        async with way.client(policy(), pool=1, timeout=2.0) as client:
            first = await client.get(server.url())
            second = await client.get(server.url())
            return first.text, second.text

    assert way.run(main) == ("fine", "fine")
    assert len(server.requests) == 4
    server.wait_until(lambda server: server.open == 0)


@each_way
@pytest.mark.parametrize(
    "step",
    [
        answer(503, body=b"a short text"),
        answer(503, body=b"in two chunks", chunked=True),
        answer(503, body=b"x" * 65_536),
        answer(503),
    ],
    ids=["short", "chunked", "the most", "empty"],
)
def test_a_small_rest_is_read_and_the_connection_kept(way: Way, serve: Serve, step: Step) -> None:
    """Three requests over one connection."""
    server = serve(step, step)

    async def main() -> Any:
        async with way.client(policy(), pool=1) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert [request.connection for request in server.requests] == [1, 1, 1]


@each_way
def test_a_head_request_keeps_its_connection(way: Way, serve: Serve) -> None:
    """The length that is announced is not one that comes."""
    server = serve(answer(503, body=BIG))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.head(server.url())

    assert way.run(main).status_code == 200
    assert [request.connection for request in server.requests] == [1, 1]


@each_way
def test_a_misdirected_request_takes_another_connection(way: Way, serve: Serve) -> None:
    """RFC 9110 section 15.5.20, for every method; the last one is as readable as any."""
    server = serve(then=answer(421, body=b"not here"))

    async def main() -> Any:
        async with way.client(policy(attempts=3), pool=1, timeout=2.0) as client:
            return await client.post(server.url())

    assert way.run(main).text == "not here"
    assert [request.connection for request in server.requests] == [1, 2, 3]


@each_async_way
def test_a_cancel_while_a_rest_is_read_leaves_nothing_behind(way: Way, serve: Serve) -> None:
    """Between the decision and the wait there is one more place where a task can be cancelled."""
    stalled = truncated(b"four", 100, status=503, end=stall(10))
    server = serve(stalled)

    async def main() -> Any:
        async with way.client(policy(), pool=1, timeout=2.0) as client:
            with anyio.move_on_after(0.1) as scope:
                async with client.stream("GET", server.url()):
                    pass
            assert scope.cancelled_caught
            return await client.get(server.url())

    assert way.run(main).text == "ok"


@each_way
def test_a_hostile_body_is_read_in_small_part_only(way: Way, serve: Serve) -> None:
    """urllib3 GHSA-38jv-5279-wg99: no end to it, so it is closed after a little."""
    server = serve(endless(503))

    async def main() -> Any:
        async with way.client(policy(), pool=1) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    server.wait_until(lambda server: server.open == 0)
    assert server.sent < 4_000_000


@each_way
def test_a_body_that_stalls_is_not_waited_for(
    way: Way, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that drips without end: the connection is given up."""
    monkeypatch.setattr(parts, "LONGEST_DRAIN", 0.05)
    stalled = truncated(b"four", 100, status=503, end=stall(10))
    dripping = answer(503, body=b"x" * 1000, drip=0.01)
    server = serve(stalled, dripping)

    async def main() -> Any:
        async with (
            way.client(policy(), pool=1) as client,
            client.stream("GET", server.url()) as response,
        ):
            return await way.read(response)

    assert way.run(main) == b"ok"
    assert len({request.connection for request in server.requests}) == 3


@each_way
def test_the_connection_is_free_during_the_wait(way: Way, serve: Serve) -> None:
    """Before the wait and not after it: whoever waits for the pool's one connection gets it."""
    server = serve(answer(503, body=BIG, chunked=True))
    clients: list[Any] = []
    seen: list[int] = []

    class Looking(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            server.wait_until(lambda server: server.open == 0, timeout=2.0)
            seen.append(server.open)

        async def sleep_async(self, seconds: float, /) -> None:
            self.sleep(seconds)

    async def main() -> Any:
        async with way.client(policy(clock=Looking()), pool=1) as client:
            clients.append(client)
            async with client.stream("GET", server.url()) as response:
                return await way.read(response)

    assert way.run(main) == b"ok"
    assert seen == [0]


@each_async_way
def test_a_cancel_in_the_wait_leaves_nothing_behind(way: Way, serve: Serve) -> None:
    """The task ends as cancelled, the call too, and the pool's one connection is free."""
    server = serve(answer(503, body=BIG, chunked=True))
    events: list[Any] = []

    async def main() -> Any:
        slow = policy(backoff=[60.0], listeners=(events.append,))
        async with way.client(slow, pool=1, timeout=2.0) as client:
            with anyio.move_on_after(0.1) as scope:
                await client.get(server.url())
            assert scope.cancelled_caught
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert [
        type(event) for event in events if isinstance(event, (CallCancelled, CallSucceeded))
    ] == [
        CallCancelled,
        CallSucceeded,
    ]


@each_way
@pytest.mark.parametrize("where", ["classifier", "listener"])
def test_an_interrupt_while_it_is_decided_closes_the_response(
    way: Way, serve: Serve, where: str
) -> None:
    """Nobody else has it: the connection does not stay checked out."""
    server = serve(answer(503, body=BIG, chunked=True), then=answer(body=BIG, chunked=True))

    class Interrupt(BaseException):
        pass

    def interrupted(_: Any) -> Any:
        raise Interrupt

    fields: Any = (
        {"unless": interrupted} if where == "classifier" else {"listeners": (interrupted,)}
    )
    if where == "listener":
        interrupted.kinds = (RetryScheduled,)  # type: ignore[attr-defined]

    async def main() -> Any:
        async with way.client(policy(**fields), pool=1, timeout=2.0) as client:
            with pytest.raises(Interrupt):
                async with client.stream("GET", server.url()):
                    pass
            return await client.get(server.url())

    assert way.run(main).content == BIG


@each_way
def test_a_predicate_that_fails_leaves_the_response_open(
    way: Way, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """It stands as it is, readable to its end."""
    server = serve(answer(503, body=BIG))

    def broken(_: Any) -> Any:
        raise LookupError("a bug")

    async def main() -> Any:
        async with (
            way.client(policy(unless=broken)) as client,
            client.stream("GET", server.url()) as response,
        ):
            return response.status_code, await way.read(response)

    assert way.run(main) == (503, BIG)
    assert "its classifier failed" in caplog.text


@each_client
def test_an_error_that_a_hook_raises_is_retried_and_let_go(way: Way, serve: Serve) -> None:
    """`raise_for_status` in a response hook: a failure like any other, with its connection."""
    failed = answer(503, body=BIG, chunked=True)
    server = serve(failed, failed)

    async def main() -> Any:
        hooks = {"response": [way.hook(lambda response: response.raise_for_status())]}
        async with way.client(policy(), pool=1, timeout=2.0, event_hooks=hooks) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert len(server.requests) == 3


@each_client
def test_the_last_error_of_a_hook_carries_its_response(way: Way, serve: Serve) -> None:
    """The same error that the hook raised, with one note."""
    server = serve(then=answer(503, {"X-Kept": "yes"}))

    async def main() -> Any:
        hooks = {"response": [way.hook(lambda response: response.raise_for_status())]}
        async with way.client(policy(attempts=2), event_hooks=hooks) as client:
            with pytest.raises(httpx.HTTPStatusError) as caught:
                await client.get(server.url())
            return caught.value

    error = way.run(main)
    assert error.response.headers["X-Kept"] == "yes"
    assert "attempts_exhausted (HTTPStatusError ×2)" in error.__notes__[-1]
    assert len(server.requests) == 2


# The end


@each_way
@pytest.mark.parametrize("body", [b"the last", BIG], ids=["small", "large"])
def test_the_last_response_comes_out_readable(way: Way, serve: Serve, body: bytes) -> None:
    """hashicorp/go-retryablehttp#156: status, headers and body are the caller's."""
    server = serve(then=answer(503, {"X-Kept": "yes"}, body))

    async def main() -> Any:
        async with way.client(policy(attempts=3)) as client:
            async with client.stream("GET", server.url()) as response:
                streamed = (
                    response.status_code,
                    response.headers["X-Kept"],
                    await way.read(response),
                )
            response = await client.get(server.url())
            return streamed, (response.status_code, response.headers["X-Kept"], response.content)

    streamed, whole = way.run(main)
    assert streamed == whole == (503, "yes", body)
    assert len(server.requests) == 6


@each_way
def test_a_response_that_a_stop_in_the_wait_leaves_is_readable(way: Way, serve: Serve) -> None:
    """It was let go before the wait, and what was read of it is kept."""
    server = serve(then=answer(503, body=b"the last", chunked=True))
    stop = threading.Event()

    class Stopping(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            stop.set()

        async def sleep_async(self, seconds: float, /) -> None:
            stop.set()

    async def main() -> Any:
        async with (
            way.client(policy(clock=Stopping(), stop_when=stop), pool=1) as client,
            client.stream("GET", server.url()) as response,
        ):
            return response.status_code, await way.read(response)

    assert way.run(main) == (503, b"the last")
    assert len(server.requests) == 1


@each_way
def test_a_policy_that_raises_hands_the_response_over_in_its_error(way: Way, serve: Serve) -> None:
    """`unsatisfied="raise"`: `RetriesExhausted`, with the last response open."""
    server = serve(then=answer(503, body=b"the last"))

    async def main() -> Any:
        async with way.client(policy(attempts=2, unsatisfied="raise")) as client:
            with pytest.raises(RetriesExhausted) as caught:
                await client.get(server.url())
            await way.read(caught.value.value)
            return caught.value

    error = way.run(main)
    assert error.value.text == "the last"
    assert error.attempts == 2


@each_way
def test_an_error_is_the_one_that_the_attempt_raised(way: Way, serve: Serve) -> None:
    """httpx's own class, with its request; one note, and no error of ours around it."""
    server = serve(then=hang_up)

    async def main() -> Any:
        async with way.client(policy(attempts=2)) as client:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await client.get(server.url("/asked"))
            return caught.value

    error = way.run(main)
    assert error.request.url.path == "/asked"
    assert len(error.__notes__) == 1
    assert len(server.requests) == 2


# The body of the response


@each_client
@pytest.mark.parametrize(
    "step",
    [
        truncated(),
        truncated(end=reset),
        truncated(b"", 100),
        truncated(b"four", 4, chunked=True),
        truncated(b"x" * 100_000, 200_000),
    ],
    ids=["short", "reset", "no byte", "no last chunk", "long"],
)
def test_a_body_that_breaks_off_is_read_anew(way: Way, serve: Serve, step: Step) -> None:
    """psf/requests#4568: for a call that is not streamed, the body belongs to the attempt."""
    server = serve(step, step, answer(body=b"whole"))

    async def main() -> Any:
        async with way.client(policy(), pool=1) as client:
            return await client.get(server.url())

    assert way.run(main).content == b"whole"
    assert len(server.requests) == 3


@blocking
def test_a_body_that_cannot_be_decoded_is_not_asked_for_again(way: Way, serve: Serve) -> None:
    """It would be the same the next time."""
    server = serve(answer(headers={"Content-Encoding": "gzip"}, body=b"not gzip at all"))

    async def main() -> Any:
        async with way.client(policy()) as client:
            with pytest.raises(httpx.DecodingError):
                await client.get(server.url())

    way.run(main)
    assert len(server.requests) == 1


@each_way
def test_a_body_that_was_read_before_is_decoded_as_ever(way: Way, serve: Serve) -> None:
    """An error's, which was looked into; with a length of its own."""
    plain = b"a long text " * 1000
    server = serve(answer(404, {"Content-Encoding": "gzip"}, gzip.compress(plain)))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.get(server.url())

    response = way.run(main)
    assert response.content == plain
    assert response.num_bytes_downloaded == len(gzip.compress(plain))
    assert response.elapsed.total_seconds() > 0


@each_client
def test_an_error_s_body_that_breaks_off_is_a_failure_too(way: Way, serve: Serve) -> None:
    """A 404 of which not everything came is asked for again."""
    server = serve(truncated(status=404), answer(404, body=b"whole"))

    async def main() -> Any:
        async with way.client(policy()) as client:
            return await client.get(server.url())

    response = way.run(main)
    assert (response.status_code, response.content) == (404, b"whole")


@each_client
def test_the_last_body_that_breaks_off_raises_httpx_s_own_error(way: Way, serve: Serve) -> None:
    """With the request that it is about, and a connection that is not left open."""
    server = serve(then=truncated(status=503))

    async def main() -> Any:
        async with way.client(policy(attempts=2), pool=1, timeout=2.0) as client:
            for _ in range(2):
                with pytest.raises(httpx.RemoteProtocolError) as caught:
                    await client.get(server.url("/asked"))
            return caught.value

    assert way.run(main).request.url.path == "/asked"
    assert len(server.requests) == 4


@each_client
def test_an_answer_that_stands_may_break_off_in_its_rest(way: Way, serve: Serve) -> None:
    """What is read after the decision is httpx's to raise, and leaves no connection."""
    server = serve(truncated(b"x" * 100_000, 200_000, status=404))

    async def main() -> Any:
        async with way.client(policy(), pool=1, timeout=2.0) as client:
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await client.get(server.url("/asked"))
            assert (await client.get(server.url())).text == "ok"
            return caught.value

    assert way.run(main).request.url.path == "/asked"
    assert len(server.requests) == 2


@each_client
def test_a_post_whose_answer_breaks_off_is_not_repeated(way: Way, serve: Serve) -> None:
    """It was processed."""
    server = serve(truncated())

    async def main() -> Any:
        async with way.client(policy()) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(server.url())

    way.run(main)
    assert len(server.requests) == 1


@each_way
def test_a_streamed_response_is_committed_with_its_headers(way: Way, serve: Serve) -> None:
    """Its body is the caller's to read, once, and nothing of it is read before."""
    server = serve(answer(503), truncated())

    async def main() -> Any:
        async with (
            way.client(policy()) as client,
            client.stream("GET", server.url()) as response,
        ):
            assert not response.is_stream_consumed
            with pytest.raises(httpx.RemoteProtocolError):
                await way.read(response)

    way.run(main)
    assert len(server.requests) == 2


def test_a_transport_ends_at_the_headers(serve: Serve) -> None:
    """What breaks off later is the client's to raise; `RetryClient` retries it."""
    server = serve(truncated())
    with (
        httpx.Client(transport=RetryTransport(policy=policy())) as client,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        client.get(server.url())
    assert len(server.requests) == 1


@each_way
def test_a_rule_on_streamed_responses_leaves_the_body(way: Way, serve: Serve) -> None:
    """httpx-retries#74: what was looked at is still there for the caller."""
    server = serve(answer(202), answer(200, body=b"all of it"))

    async def main() -> Any:
        async with (
            way.client(policy(classify=OnStatus(202))) as client,
            client.stream("GET", server.url()) as response,
        ):
            return await way.read(response)

    assert way.run(main) == b"all of it"


@each_client
@pytest.mark.parametrize("body", [b'{"code": "quota"}', b'{"code": "busy"}'], ids=["quota", "busy"])
def test_a_predicate_may_read_the_body(way: Way, serve: Serve, body: bytes) -> None:
    """A quota that is gone for good, where only the body tells."""
    server = serve(answer(429, body=body))

    async def main() -> Any:
        rule = policy(unless=lambda response: response.json()["code"] == "quota")
        async with way.client(rule) as client:
            return await client.get(server.url())

    assert way.run(main).status_code == (429 if b"quota" in body else 200)


def test_a_predicate_may_read_the_body_off_a_blocking_transport(serve: Serve) -> None:
    """Reading keeps what was read, so the caller reads it again."""
    server = serve(answer(429, body=b"quota"))
    rule = policy(unless=lambda response: response.read() == b"quota")
    with httpx.Client(transport=RetryTransport(policy=rule)) as client:
        assert client.get(server.url()).text == "quota"


# The client's own retries


@pytest.mark.parametrize("make", [RetryTransport, lambda inner: RetryClient(transport=inner)])
def test_a_transport_that_retries_by_itself_is_refused(make: Callable[[Any], Any]) -> None:
    """Three connects for each of five attempts would be fifteen."""
    with pytest.raises(ValueError, match="transport must not retry by itself, got retries=3"):
        make(httpx.HTTPTransport(retries=3))
    with pytest.raises(ValueError, match="transport must not retry by itself, got <RetryTransport"):
        make(RetryTransport())


def test_a_mount_that_retries_by_itself_is_refused() -> None:
    """Any of the client's transports."""
    mounts: Any = {"all://a": None, "all://b": httpx.AsyncHTTPTransport(retries=1)}
    with pytest.raises(ValueError, match=r"mounts\['all://b'\] must not retry by itself"):
        AsyncRetryClient(mounts=mounts)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RetryTransport(httpx.AsyncHTTPTransport()), "transport must have handle_request"),  # type: ignore[arg-type]
        (lambda: AsyncRetryTransport(httpx.HTTPTransport()), "must have handle_async_request"),  # type: ignore[arg-type]
        (lambda: RetryTransport(httpx.HTTPTransport), "got the class HTTPTransport"),  # type: ignore[arg-type]
        (lambda: RetryClient(policy=RetryPolicy), "got the class RetryPolicy"),  # type: ignore[arg-type]
        (lambda: RetryClient(policy=3), "policy must"),  # type: ignore[arg-type]
        (lambda: AsyncRetryClient(no_such_option=1), "no_such_option"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_made(make: Callable[[], Any], text: str) -> None:
    """With the name of what is wrong."""
    with pytest.raises(TypeError, match=text):
        make()


def test_an_unknown_style_of_key_is_refused() -> None:
    """`idempotency_key` is True, False or "bare"."""
    with pytest.raises(ValueError, match="idempotency_key must be True, False or 'bare'"):
        RetryTransport(idempotency_key="quoted")  # type: ignore[arg-type]


# Redirects


@each_way
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_do_not_use_up_attempts(way: Way, serve: Serve, status: int) -> None:
    """Two attempts for each step: a failure before and one after the redirect."""
    server = serve(reset, redirect("/there", status), answer(503), answer(body=b"arrived"))

    async def main() -> Any:
        async with way.client(policy(attempts=2), follow_redirects=True) as client:
            return await client.get(server.url("/here"))

    response = way.run(main)
    assert response.text == "arrived"
    assert [each.status_code for each in response.history] == [status]
    assert response.next_request is response.history[0].next_request is None
    assert [request.target for request in server.requests] == ["/here", "/here", "/there", "/there"]


@each_way
def test_a_failure_after_a_redirect_does_not_repeat_the_post(way: Way, serve: Serve) -> None:
    """The GET that a 303 asks for is idempotent; the POST that led there is not sent again."""
    server = serve(redirect("/result", 303), reset, answer(503))

    async def main() -> Any:
        async with way.client(policy(), follow_redirects=True) as client:
            return await client.post(server.url("/work"), content=b"body")

    assert way.run(main).text == "ok"
    asked = [(request.method, request.target) for request in server.requests]
    assert asked == [("POST", "/work"), *[("GET", "/result")] * 3]


@each_way
def test_credentials_stay_stripped_after_a_change_of_origin(way: Way, serve: Serve) -> None:
    """Also where the step there is retried."""
    server = serve()
    other = serve(redirect(server.url("/there", host="localhost"), 302))
    away = serve(redirect(other.url("/between")))

    async def main() -> Any:
        async with way.client(policy(), auth=("user", "pass"), follow_redirects=True) as client:
            return await client.get(away.url("/here"), headers={"Cookie": "a=b"})

    assert way.run(main).text == "ok"
    assert away.requests[0].header("Authorization") is not None
    assert [request.header("Authorization") for request in other.requests] == [None]
    assert [request.header("Authorization") for request in server.requests] == [None]
    assert [request.header("Cookie") for request in server.requests] == [None]


@each_way
def test_credentials_stay_stripped_in_every_attempt_there(way: Way, serve: Serve) -> None:
    """A retry at the other origin is no second chance to leak them."""
    there = serve(answer(503), reset)
    here = serve(redirect(there.url("/there", host="localhost")))

    async def main() -> Any:
        async with way.client(policy(), auth=("user", "pass"), follow_redirects=True) as client:
            return await client.get(here.url())

    assert way.run(main).text == "ok"
    assert [request.header("Authorization") for request in there.requests] == [None] * 3


@each_way
def test_credentials_go_along_within_the_origin(way: Way, serve: Serve) -> None:
    """As httpx does it, in every attempt."""
    server = serve(redirect("/there"), answer(503))

    async def main() -> Any:
        async with way.client(policy(), auth=("user", "pass"), follow_redirects=True) as client:
            return await client.get(server.url("/here"))

    assert way.run(main).text == "ok"
    basic = "Basic " + base64.b64encode(b"user:pass").decode()
    assert [request.header("Authorization") for request in server.requests] == [basic] * 3


@each_client
def test_user_information_in_a_redirect_is_not_taken_for_credentials(
    way: Way, serve: Serve
) -> None:
    """httpx does not either, without retries."""
    there = serve()
    here = serve(redirect(f"http://user:pass@localhost:{there.port}/"))

    async def main() -> Any:
        async with way.client(policy(), follow_redirects=True) as client:
            return await client.get(here.url())

    assert way.run(main).text == "ok"
    assert there.requests[0].header("Authorization") is None


@each_client
def test_a_body_goes_along_with_a_redirect_from_where_it_stood(way: Way, serve: Serve) -> None:
    """A 307 asks for the same request again, and a file has been read by then."""
    server = serve(redirect("/there", 307), answer(503))

    async def main() -> Any:
        content: Any = AsyncFile(b"01234567890123456789", 6)
        if not way.is_async:
            content = io.BytesIO(b"01234567890123456789")
            content.seek(6)
        async with way.client(policy(), follow_redirects=True) as client:
            headers = {"Content-Length": "14"}
            return await client.put(server.url("/here"), content=content, headers=headers)

    assert way.run(main).text == "ok"
    assert [request.body for request in server.requests] == [b"67890123456789"] * 3


@each_client
def test_a_body_for_one_time_does_not_go_along_empty(way: Way, serve: Serve) -> None:
    """httpx's own error for it, and no request without its body."""
    server = serve(redirect("/there", 307))

    async def main() -> Any:
        content: Any = way.body(b"ten bytes!") if way.is_async else iter([b"ten bytes!"])
        async with way.client(policy(), follow_redirects=True) as client:
            with pytest.raises(httpx.StreamConsumed):
                await client.put(server.url("/here"), content=content)

    way.run(main)
    assert [request.body for request in server.requests if request.complete] == [b"ten bytes!"]


@each_client
def test_redirects_without_end_are_given_up(way: Way, serve: Serve) -> None:
    """As httpx does it: `max_redirects`, and none of it is retried."""
    server = serve(then=redirect("/again"))

    async def main() -> Any:
        async with way.client(policy(), follow_redirects=True, max_redirects=3) as client:
            with pytest.raises(httpx.TooManyRedirects) as caught:
                await client.get(server.url())
            return caught.value

    assert way.run(main).request.url.path == "/again"
    assert len(server.requests) == 4


@each_client
def test_a_redirect_that_is_not_followed_shows_the_next_request(way: Way, serve: Serve) -> None:
    """As the caller's own would be: without what was laid over the attempt."""
    server = serve(redirect("/there", 307))

    async def main() -> Any:
        async with way.client(policy(deadline=9), idempotency_key=True, timeout=5.0) as client:
            extensions = {"retrykit": {"attempts": 2}}
            url = server.url("/here")
            response = await client.post(url, content=b"body", extensions=extensions)
            following = response.next_request
            assert following.extensions["retrykit"] == {"attempts": 2}
            assert following.extensions["timeout"]["read"] == 5.0
            return response, await client.send(following)

    response, followed = way.run(main)
    assert (response.status_code, response.history, followed.text) == (307, [], "ok")
    keys = [request.header("Idempotency-Key") for request in server.requests]
    assert keys[0] == keys[1]


@each_client
def test_a_streamed_call_follows_redirects(way: Way, serve: Serve) -> None:
    """The redirect's own body is read, the last one is the caller's."""
    server = serve(redirect("/there"), answer(503), answer(body=b"arrived"))

    async def main() -> Any:
        async with (
            way.client(policy(), pool=1, follow_redirects=True, timeout=2.0) as client,
            client.stream("GET", server.url("/here")) as response,
        ):
            return await way.read(response)

    assert way.run(main) == b"arrived"


@each_client
def test_following_is_as_the_call_says(way: Way, serve: Serve) -> None:
    """`follow_redirects` of a call goes before the client's."""
    server = serve(redirect("/there"), redirect("/there"))

    async def main() -> Any:
        async with way.client(policy(), follow_redirects=True) as client:
            stays = await client.get(server.url("/here"), follow_redirects=False)
            goes = await client.get(server.url("/here"))
            return stays.status_code, goes.status_code

    assert way.run(main) == (302, 200)


@each_client
def test_a_deadline_holds_for_all_redirects_together(way: Way, serve: Serve) -> None:
    """Four seconds here, four there, and no time is left to wait once more."""
    server = serve(answer(503), redirect("/there"), then=answer(503))
    clock = VirtualClock()

    async def main() -> Any:
        rule = policy(deadline=10.0, clock=clock, backoff=[4.0] * 9, attempts=9)
        async with way.client(rule, follow_redirects=True) as client:
            return await client.get(server.url("/here"))

    assert way.run(main).status_code == 503
    assert clock.sleeps == [4.0, 4.0]
    assert [request.target for request in server.requests] == ["/here", "/here", "/there", "/there"]


# Authentication and hooks


@each_client
def test_authentication_runs_in_each_attempt(way: Way, serve: Serve) -> None:
    """A signature is of the attempt, not of the call."""
    server = serve(answer(503), answer(503))
    made = iter(range(1, 10))

    def sign(request: httpx.Request) -> httpx.Request:
        request.headers["X-Signature"] = str(next(made))
        return request

    async def main() -> Any:
        async with way.client(policy(), auth=sign) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert [request.header("X-Signature") for request in server.requests] == ["1", "2", "3"]


@each_way
def test_a_challenge_is_no_failure(way: Way, serve: Serve) -> None:
    """A 401 that the authentication answers uses up no attempt, and shows in the history."""

    class Token(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Any:
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = "Bearer token"
                yield request

    server = serve(answer(401), answer(503), answer(401), answer(body=b"in"))

    async def main() -> Any:
        async with way.client(policy(attempts=2), auth=Token()) as client:
            return await client.get(server.url())

    response = way.run(main)
    if way.whole:
        assert response.text == "in"
        assert [each.status_code for each in response.history] == [401]
    else:  # the flow is around the transport: the second 401 answers the request with the token
        assert response.status_code == 401


@each_client
def test_hooks_run_in_each_attempt(way: Way, serve: Serve) -> None:
    """A request hook sees each request, a response hook each response."""
    server = serve(answer(503))
    seen: list[Any] = []
    hooks = {
        "request": [way.hook(lambda request: seen.append(request.method))],
        "response": [way.hook(lambda response: seen.append(response.status_code))],
    }

    async def main() -> Any:
        async with way.client(policy(), event_hooks=hooks) as client:
            return await client.get(server.url())

    way.run(main)
    assert seen == ["GET", 503, "GET", 200]


# Time


@each_way
def test_the_time_that_is_left_is_the_client_s_timeout(way: Way, serve: Serve) -> None:
    """A server that stalls for 10 s is not waited for: the attempt has 0.05 s."""
    server = serve(stall(10), stall(10), answer(body=b"at last"))

    async def main() -> Any:
        async with way.client(policy(attempt_timeout=0.05), timeout=None) as client:
            return await client.get(server.url())

    assert way.run(main).text == "at last"
    assert len(server.requests) == 3


@each_way
def test_a_deadline_ends_the_call(way: Way, serve: Serve) -> None:
    """Blocking code meets the client's own timeout there; async code is cut."""
    server = serve(then=stall(10))

    async def main() -> Any:
        async with way.client(policy(deadline=0.1), timeout=None) as client:
            with pytest.raises((httpx.ReadTimeout, DeadlineExceeded)) as caught:
                await client.get(server.url())
            return caught.type

    assert way.run(main) is (DeadlineExceeded if way.is_async else httpx.ReadTimeout)
    assert len(server.requests) == 1


@each_client
def test_a_body_that_drips_does_not_outlast_the_attempt(way: Way, serve: Serve) -> None:
    """A client's own limit is for each piece anew, and every piece comes in time."""
    server = serve(answer(body=b"x" * 1000, drip=0.02), answer(404, body=b"x" * 1000, drip=0.02))

    async def main() -> Any:
        async with way.client(policy(attempt_timeout=0.1), pool=1, timeout=5.0) as client:
            return await client.get(server.url())

    assert way.run(main).text == "ok"
    assert len(server.requests) == 3
    server.wait_until(lambda server: server.open == 0)


@each_async_way
def test_an_attempt_that_is_cut_leaves_no_connection(way: Way, serve: Serve) -> None:
    """In mid-body too, where it is read."""
    server = serve(truncated(end=stall(10)), stall(10))

    async def main() -> Any:
        async with way.client(policy(attempt_timeout=0.1), pool=1, timeout=2.0) as client:
            if way.whole:
                assert (await client.get(server.url())).text == "ok"
            else:
                server._next_step()
                assert (await client.get(server.url())).text == "ok"

    way.run(main)
    server.wait_until(lambda server: server.open == 0)


def phases(way: Way, serve: Serve, timeout: Any, **fields: Any) -> list[dict[str, float | None]]:
    """The timeouts that the innermost transport is handed, attempt by attempt."""
    server = serve(answer(503))
    seen: list[dict[str, float | None]] = []

    class Noting(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(dict(request.extensions["timeout"]))
            return super().handle_request(request)

    transport = Noting()
    options: dict[str, Any] = {"timeout": timeout, "trust_env": False}
    if way.whole:
        client: httpx.Client = RetryClient(policy=policy(**fields), transport=transport, **options)
    else:
        retrying = RetryTransport(transport, policy=policy(**fields))
        client = httpx.Client(transport=retrying, **options)
    with client:
        assert client.get(server.url()).text == "ok"
    return seen


@blocking
def test_the_nearer_limit_counts(way: Way, serve: Serve) -> None:
    """googleapis/python-api-core#776: each phase has the least of its own and what remains."""
    clock = VirtualClock()
    timeout = httpx.Timeout(2.0, read=30.0, pool=None)
    first, second = phases(way, serve, timeout, deadline=10.0, clock=clock, backoff=[4.0])
    assert first == {"connect": 2.0, "read": 10.0, "write": 2.0, "pool": 10.0}
    assert second == {"connect": 2.0, "read": 6.0, "write": 2.0, "pool": 6.0}


@blocking
def test_without_a_limit_the_client_s_own_time_holds(way: Way, serve: Serve) -> None:
    """None is none, and a number is that number."""
    timeout = httpx.Timeout(2.0, read=None)
    assert (
        phases(way, serve, timeout)
        == [{"connect": 2.0, "read": None, "write": 2.0, "pool": 2.0}] * 2
    )


@each_way
def test_a_streamed_body_has_the_caller_s_own_time(way: Way, serve: Serve) -> None:
    """The attempt's time ends with the headers: a slow stream is not cut short by it."""
    server = serve(answer(body=b"slow", drip=0.15))

    async def main() -> Any:
        async with (
            way.client(policy(attempt_timeout=0.1), timeout=5.0) as client,
            client.stream("GET", server.url()) as response,
        ):
            return await way.read(response)

    assert way.run(main) == b"slow"


@each_way
def test_a_request_without_its_own_time_has_the_policy_s(way: Way, serve: Serve) -> None:
    """A request made by hand carries no timeout."""
    server = serve(stall(10))

    async def main() -> Any:
        async with way.client(policy(attempt_timeout=0.05), timeout=None) as client:
            return await client.send(httpx.Request("GET", server.url()))

    assert way.run(main).text == "ok"


# The idempotency key


@each_way
def test_a_post_with_a_key_is_retried_with_the_same_key(way: Way, serve: Serve) -> None:
    """lionagi#2393: one key for each call, and another for the next one."""
    server = serve(reset, answer(503), answer(), answer(503))

    async def main() -> Any:
        async with way.client(policy(), idempotency_key=True) as client:
            first = await client.post(server.url(), content=b"one")
            second = await client.patch(server.url(), content=b"two")
            return first.status_code, second.status_code

    assert way.run(main) == (200, 200)
    keys = [request.header("Idempotency-Key") for request in server.requests]
    assert len(keys) == 5
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]
    assert re.fullmatch(r'"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"', str(keys[0]))


@each_way
def test_a_bare_key_has_no_quotes(way: Way, serve: Serve) -> None:
    """For servers that take the header as it is."""
    server = serve()

    async def main() -> Any:
        async with way.client(policy(), idempotency_key="bare") as client:
            await client.post(server.url())

    way.run(main)
    assert re.fullmatch(r"[0-9a-f-]{36}", str(server.requests[0].header("Idempotency-Key")))


@each_way
@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_the_caller_s_own_key_is_kept(way: Way, serve: Serve, name: str) -> None:
    """In any case of letters, once on the wire, and the request is retried for it."""
    server = serve(answer(503))

    async def main() -> Any:
        async with way.client(policy(), idempotency_key=True) as client:
            return await client.post(server.url(), headers={name: "mine"})

    assert way.run(main).text == "ok"
    for request in server.requests:
        own = [value for key, value in request.headers if key.lower() == "idempotency-key"]
        assert own == ["mine"]
    assert len(server.requests) == 2


@each_way
def test_a_key_that_is_there_twice_is_sent_once(way: Way, serve: Serve) -> None:
    """One and the same value, one header."""
    server = serve()

    async def main() -> Any:
        async with way.client(policy(), idempotency_key=True) as client:
            headers = [("Idempotency-Key", "mine"), ("idempotency-key", "mine")]
            await client.post(server.url(), headers=headers)

    way.run(main)
    assert server.requests[0].header("Idempotency-Key") == "mine"


@each_way
@pytest.mark.parametrize(
    "headers",
    [
        [("Idempotency-Key", "")],
        [("Idempotency-Key", "x" * 256)],
        [("Idempotency-Key", "one"), ("Idempotency-Key", "two")],
        [("Idempotency-Key", "ümlaut".encode("latin-1"))],
        [("Idempotency-Key", "a\tb")],
    ],
    ids=["empty", "long", "two", "latin", "tab"],
)
def test_a_key_that_is_none_is_refused_before_anything_is_sent(
    way: Way, serve: Serve, headers: Any
) -> None:
    """The server could not know the request again by it."""
    server = serve()

    async def main() -> Any:
        async with way.client(policy(), idempotency_key=True) as client:
            with pytest.raises(ValueError, match="Idempotency-Key must be one value"):
                await client.post(server.url(), headers=headers)

    way.run(main)
    assert server.connections == 0


@blocking
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "QUERY"])
def test_an_idempotent_request_carries_no_key(way: Way, serve: Serve, method: str) -> None:
    """It needs none."""
    server = serve(answer(503))

    async def main() -> Any:
        async with way.client(policy(), idempotency_key=True) as client:
            return await client.request(method, server.url())

    assert way.run(main).status_code == 200
    assert [request.header("Idempotency-Key") for request in server.requests] == [None, None]


@each_client
def test_a_key_is_not_sent_to_another_origin(way: Way, serve: Serve) -> None:
    """Neither the one that was made nor one of the caller's; the request there goes without."""
    there = serve(then=answer(503))
    redirected = redirect(there.url("/there", host="localhost"), 307)
    here = serve(redirected, redirected)

    async def main() -> Any:
        options: Any = {"idempotency_key": True, "follow_redirects": True}
        async with way.client(policy(), **options) as client:
            made = await client.post(here.url(), content=b"body")
            own = await client.post(here.url(), headers={"Idempotency-Key": "mine"})
            return made.status_code, own.status_code

    assert way.run(main) == (503, 503)
    assert all(request.header("Idempotency-Key") for request in here.requests)
    assert [request.header("Idempotency-Key") for request in there.requests] == [None, None]


@each_client
def test_a_key_goes_along_within_the_origin(way: Way, serve: Serve) -> None:
    """It is the same request, asked for elsewhere."""
    server = serve(redirect("/there", 307), answer(503))

    async def main() -> Any:
        options: Any = {"idempotency_key": True, "follow_redirects": True}
        async with way.client(policy(), **options) as client:
            return await client.post(server.url("/here"), content=b"body")

    assert way.run(main).text == "ok"
    assert len({request.header("Idempotency-Key") for request in server.requests}) == 1


# Other transports, other bodies


@each_way
def test_a_body_of_the_other_kind_is_refused_as_ever(way: Way, serve: Serve) -> None:
    """httpx's own error for a generator that its client cannot send."""
    server = serve()
    other: Any = iter([b"a"]) if way.is_async else AsyncList()

    async def main() -> Any:
        async with way.client(policy()) as client:
            with pytest.raises(RuntimeError, match=r"Attempted to send an? a?sync request"):
                await client.post(server.url(), content=other)

    way.run(main)
    assert server.connections == 0


@each_client
def test_transports_that_stand_for_a_network_work(way: Way) -> None:
    """A function in the server's place, as tests have it."""
    seen: list[bytes] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        return httpx.Response(503 if len(seen) < 3 else 200, text="answer")

    async def main() -> Any:
        transport = httpx.MockTransport(handler)
        async with way.client(policy(), transport=transport) as client:
            response = await client.put("http://test/", content=way.body(b"ten bytes!"))
            failed = await client.put("http://test/", content=b"more")
            return response.text, failed.text

    assert way.run(main) == ("answer", "answer")
    assert seen == [*[b"ten bytes!"] * 3, b"more"]


@pytest.mark.parametrize("run_main", [run_asyncio, run_trio])
def test_a_body_without_end_that_never_waits_is_left(run_main: Any) -> None:
    """From a transport that is no network, so that no cancel reaches it."""
    taken: list[int] = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                while True:
                    taken.append(1000)
                    yield bytes(1000)
            finally:
                taken.append(0)

    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200) if taken else httpx.Response(503, stream=Endless())

    async def main() -> None:
        async with AsyncRetryClient(policy=policy(), transport=Transport()) as client:
            assert (await client.get("http://test/")).status_code == 200

    run_main(main)
    gc.collect()
    assert sum(taken) < 200_000


def test_a_transport_shows_what_it_is_over() -> None:
    """And no secret of it."""
    assert repr(RetryTransport()) == "<RetryTransport over HTTPTransport>"
    assert repr(AsyncRetryTransport()) == "<AsyncRetryTransport over AsyncHTTPTransport>"


def test_an_application_in_this_process_works() -> None:
    """ASGI: a failing application is asked again."""
    asked: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        status = 503 if len(asked) < 3 else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})

    async def main() -> None:
        transport = httpx.ASGITransport(application)
        async with AsyncRetryClient(policy=policy(), transport=transport) as client:
            assert (await client.get("http://test/path")).text == "answer"
        async with httpx.AsyncClient(transport=AsyncRetryTransport(transport)) as other:
            assert (await other.get("http://test/path")).text == "answer"

    asyncio.run(main())
    assert asked == ["/path"] * 4


# The policy


@each_way
def test_a_policy_for_each_endpoint_sees_the_request(way: Way, serve: Serve) -> None:
    """By method and path, as the adapter has them."""
    server = serve(then=answer(503))
    endpoints = by_endpoint(
        {"GET /users/{id}": policy(attempts=3), "GET /**": policy(attempts=2)},
        default=policy(attempts=1),
    )

    async def main() -> Any:
        async with way.client(endpoints) as client:
            await client.get(server.url("/users/7?secret=1"))
            await client.get(server.url("/other/way"))
            await client.put(server.url("/users/7"))

    way.run(main)
    targets = [request.target for request in server.requests]
    assert targets == ["/users/7?secret=1"] * 3 + ["/other/way"] * 2 + ["/users/7"]


@each_way
def test_a_budget_for_each_host_sees_the_request(way: Way, serve: Serve) -> None:
    """One host that is down costs the other nothing."""
    down, up = serve(then=answer(503)), serve(answer(503))
    budget = per_host(RatioBudget(ratio=0.5, reserve=2))

    async def main() -> Any:
        async with way.client(policy(budget=budget)) as client:
            await client.get(down.url())
            return await client.get(up.url(host="localhost"))

    assert way.run(main).text == "ok"
    assert len(down.requests) == 3


@each_way
def test_a_policy_may_be_a_function_of_the_call(way: Way, serve: Serve) -> None:
    """It sees the request among the arguments, and the object whose call it is."""
    server = serve(then=answer(503))
    seen: list[Any] = []

    def chosen(call: Any) -> RetryPolicy:
        seen.append((call.name.rpartition(".")[0], call.args[0].url.path, type(call.instance)))
        return policy(attempts=2)

    async def main() -> Any:
        async with way.client(chosen) as client:
            await client.get(server.url("/path"))

    way.run(main)
    assert len(server.requests) == 2
    ((name, path, kind),) = seen
    assert (name, path) == (kind.__name__, "/path")


def test_a_policy_may_be_named(serve: Serve) -> None:
    """By a name that `retrykit.config` knows; looked up at each call."""
    server = serve(then=answer(503))
    register({"two": policy(attempts=2)})
    try:
        with RetryClient(policy="two", trust_env=False) as client:
            client.get(server.url())
    finally:
        forget("two")
    assert len(server.requests) == 2


@each_way
def test_a_request_lays_fields_over_the_policy(way: Way, serve: Serve) -> None:
    """For itself alone, whatever kind the adapter's policy is."""
    server = serve(then=answer(503))
    kinds: list[Any] = [
        policy(attempts=3),
        by_endpoint({"GET /**": policy(attempts=3)}),
        lambda call: policy(attempts=3),
    ]

    async def main() -> Any:
        sent = []
        for kind in kinds:
            async with way.client(kind) as client:
                await client.get(server.url(), extensions={"retrykit": {"attempts": 2}})
                sent.append(len(server.requests))
                await client.get(server.url())
                sent.append(len(server.requests))
        return sent

    assert way.run(main) == [2, 5, 7, 10, 12, 15]


@each_way
def test_a_request_brings_its_own_policy_or_none(way: Way, serve: Serve) -> None:
    """Another policy, or one attempt; and the extension goes no further."""
    server = serve(then=answer(503))
    events: list[Any] = []

    async def main() -> Any:
        async with way.client(policy(attempts=3, listeners=(events.append,))) as client:
            await client.get(server.url(), extensions={"retrykit": policy(attempts=2)})
            assert len(server.requests) == 2
            response = await client.get(server.url(), extensions={"retrykit": None})
            return response.status_code

    assert way.run(main) == 503
    assert len(server.requests) == 3
    assert type(events[-1]) is CallFailed
    assert events[-1].reason is StopReason.DISABLED


@each_way
@pytest.mark.parametrize(
    ("say", "kind", "text"),
    [
        ({"attempts": 0}, ValueError, "attempts must be at least 1, got 0"),
        ({"atempts": 2}, TypeError, "no field 'atempts': did you mean attempts"),
        (3, TypeError, "policy must"),
        (RetryPolicy, TypeError, "got the class RetryPolicy"),
    ],
)
def test_a_request_that_says_nonsense_is_refused_before_it_is_sent(
    way: Way, serve: Serve, say: Any, kind: type[Exception], text: str
) -> None:
    """With the name of what is wrong."""
    server = serve()

    async def main() -> Any:
        async with way.client(policy()) as client:
            with pytest.raises(kind, match=text):
                await client.get(server.url(), extensions={"retrykit": say})

    way.run(main)
    assert server.connections == 0


@each_way
def test_scopes_hold_for_requests_too(way: Way, serve: Serve) -> None:
    """`disabled()` and `override()` around a call of the client."""
    server = serve(then=answer(503))

    async def main() -> Any:
        async with way.client(policy(attempts=3)) as client:
            with disabled():
                await client.get(server.url())
            assert len(server.requests) == 1
            with override(attempts=2):
                await client.get(server.url())

    way.run(main)
    assert len(server.requests) == 3


@each_way
def test_a_foreign_policy_is_asked_and_its_bodies_are_sent_once(way: Way, serve: Serve) -> None:
    """Whoever writes an executor of their own need not know of bodies."""
    from retrykit import Attempt, Call, RetryAfter, RetryDecision
    from retrykit.decision import DoNotRetry

    class Always:
        def new_executor(self, call: Call, /) -> Always:
            return self

        def decide(self, attempt: Attempt, /) -> RetryDecision:
            if attempt.value is not None and attempt.value.status_code == 200:
                return DoNotRetry(StopReason.SUCCEEDED)
            return RetryAfter(0.0)

    server = serve(answer(503), answer(503))

    async def main() -> Any:
        async with way.client(Always()) as client:
            with pytest.raises(RetriesExhausted) as caught:
                await client.put(server.url(), content=way.body(b"ten bytes!"))
            assert caught.value.reason is StopReason.NOT_REPLAYABLE
            return await client.put(server.url(), content=b"ten bytes!")

    assert way.run(main).text == "ok"
    assert [request.body for request in server.requests] == [b"ten bytes!"] * 3


# Inside and around


@each_way
def test_the_code_inside_sees_the_attempt(way: Way, serve: Serve) -> None:
    """`current_attempt()` in a body that is sent: its number and what came before."""
    server = serve(answer(503))
    seen: list[Any] = []

    class Body:
        def look(self) -> None:
            attempt = current_attempt()
            seen.append((attempt.number, type(attempt.previous).__name__))

        def __iter__(self) -> Iterator[bytes]:
            self.look()
            yield b"x"

        async def __aiter__(self) -> AsyncIterator[bytes]:
            self.look()
            yield b"x"

    async def main() -> Any:
        async with way.client(policy()) as client:
            content: Any = Body()
            request = client.build_request("PUT", server.url(), headers={"Content-Length": "1"})
            request.stream = (
                httpx._content.AsyncIteratorByteStream(content)
                if way.is_async
                else httpx._content.IteratorByteStream(content)
            )
            return await client.send(request)

    assert way.run(main).text == "ok"
    assert seen == [(1, "NoneType"), (2, "Returned")]


def test_an_outer_deadline_reaches_the_client(serve: Serve) -> None:
    """failsafe#234: what a retried function has left is what its requests get."""
    server = serve(then=stall(10))

    @retry(classify=OnException(KeyError), deadline=0.1)
    def outer() -> httpx.Response:
        return client.get(server.url())

    with (
        RetryClient(policy=policy(), timeout=None, trust_env=False) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        outer()
    assert len(server.requests) == 1


def test_threads_share_a_client(serve: Serve) -> None:
    """Each call has its own attempts, key and response."""
    server = serve(*[answer(503)] * 16)
    texts: list[str] = []

    def work() -> None:
        texts.extend(client.post(server.url(), content=b"body").text for _ in range(4))

    with RetryClient(policy=policy(attempts=50), idempotency_key=True, verify=False) as client:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == ["ok"] * 32
    keys = [request.header("Idempotency-Key") for request in server.requests]
    assert len(keys) == 48
    assert len(set(keys)) == 32


@each_async_way
def test_tasks_share_a_client(way: Way, serve: Serve) -> None:
    """Twenty at once, through a pool of two."""
    server = serve(*[answer(503, body=BIG)] * 10)

    async def main() -> Any:
        texts: list[str] = []

        async def work() -> None:
            texts.append((await client.get(server.url())).text)

        async with (
            way.client(policy(attempts=50), pool=2) as client,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(20):
                tasks.start_soon(work)
        return texts

    assert way.run(main) == ["ok"] * 20
    assert len(server.requests) == 30


@each_async_way
def test_the_event_loop_goes_on_during_the_waits(way: Way, serve: Serve) -> None:
    """microsoft/kiota-python#505: a wait of the policy's blocks nobody."""
    server = serve(answer(503), answer(503))

    async def main() -> Any:
        gaps: list[float] = []

        async def heart() -> None:
            last = anyio.current_time()
            while True:
                await anyio.sleep(0.01)
                gaps.append(anyio.current_time() - last)
                last = anyio.current_time()

        async with (
            way.client(policy(backoff=[0.1, 0.1])) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(heart)
            await client.get(server.url())
            tasks.cancel_scope.cancel()
        return gaps

    gaps = way.run(main)
    assert len(gaps) >= 10
    assert max(gaps) < 0.09


@each_way
def test_nothing_secret_is_logged(way: Way, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """No query, no user information, no header: in no record of ours and no note."""
    from retrykit import log_retries

    server = serve(then=answer(503))
    url = f"http://user:s3cret@127.0.0.1:{server.port}/path?token=s3cret"

    async def main() -> Any:
        loud = policy(attempts=2, listeners=(log_retries,))
        async with way.client(loud, idempotency_key=True) as client:
            await client.get(url, headers={"X-Key": "s3cret"})
            await client.post(url, headers={"Idempotency-Key": "s3cret"}, content=b"s3cret")

    with caplog.at_level(logging.DEBUG, logger="retrykit"):
        way.run(main)
    ours = [record for record in caplog.records if record.name.startswith("retrykit")]
    assert len(ours) == 4
    for record in ours:
        assert "s3cret" not in record.getMessage()
        assert "s3cret" not in repr(vars(record))


@each_way
def test_a_client_that_was_closed_says_so(way: Way, serve: Serve) -> None:
    """httpx's own error, at once."""
    server = serve()

    async def main() -> Any:
        async with way.client(policy()) as client:
            await client.get(server.url())
        with pytest.raises(RuntimeError, match="closed"):
            await client.get(server.url())

    way.run(main)


class Failing(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Raises as a network does; httpcore's own errors keep themselves alive on some Pythons."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")


@each_way
def test_no_error_keeps_itself_alive(way: Way) -> None:
    """With the collector off, what an attempt had is freed with the error."""

    class Marker(httpx.SyncByteStream, httpx.AsyncByteStream):
        pass

    rule = policy(attempts=3)
    retrying: Any
    if way.whole:
        retrying = (AsyncRetryClient if way.is_async else RetryClient)(
            policy=rule, transport=Failing()
        )
    elif way.is_async:
        retrying = httpx.AsyncClient(transport=AsyncRetryTransport(Failing(), policy=rule))
    else:
        retrying = httpx.Client(transport=RetryTransport(Failing(), policy=rule))

    notes: list[str] = []

    async def main() -> Any:
        request = httpx.Request("PUT", "http://test/", stream=Marker())
        seen = weakref.ref(request.stream)
        try:
            sent = retrying.send(request)
            if way.is_async:
                await sent
        except httpx.ConnectError as error:
            notes.extend(error.__notes__)
        return seen

    gc.collect()
    gc.disable()
    try:
        alive = way.run(main)() is not None
    finally:
        gc.enable()
    assert not alive
    assert "after 3 attempts" in notes[0]


# Without httpx, and with its successor


def fresh(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_missing_httpx_is_named_with_its_extra() -> None:
    """The message tells what to install; `retrykit.http` does without."""
    program = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "httpx":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import retrykit.http
try:
    import retrykit.http.httpx
except ImportError as error:
    print(error)
"""
    expected = "retrykit.http.httpx needs httpx: install retrykit with the extra [httpx]"
    assert fresh(program) == expected


def test_its_successor_works_under_its_name(serve: Serve) -> None:
    """`httpx2.alias_httpx()` before the first import: blocking and on asyncio."""
    steps = [reset, answer(503, body=BIG, chunked=True), truncated()]
    server = serve(*steps, answer(body=b"ok"), *steps)
    program = f"""
import httpx2
httpx2.alias_httpx()
import asyncio
from retrykit.http import http_policy
from retrykit.http.httpx import AsyncRetryClient, RetryClient

policy = http_policy(backoff=[0] * 5, listeners=())
with RetryClient(policy=policy, trust_env=False) as client:
    response = client.get({server.url()!r})
    print(type(client).__mro__[1].__module__, response.text, response.elapsed is not None)

async def main():
    async with AsyncRetryClient(policy=policy, trust_env=False) as client:
        print((await client.get({server.url()!r})).text)

asyncio.run(main())
"""
    assert fresh(program).splitlines() == ["httpx2 ok True", "ok"]
    assert len(server.requests) == 8


# The examples


def run_example(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What an example prints; its waits take no time."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))
    with override(clock=VirtualClock()):
        started = example["main"](url)
        if started is not None:
            asyncio.run(started)
    return capsys.readouterr().out


def test_the_example_of_a_client(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven requests, of which six fail; each call comes to its end."""
    server = serve(
        reset,
        answer(body=b'{"name": "Ada"}'),
        hang_up,
        answer(503, body=b"busy"),
        answer(201, body=b'{"number": 42}'),
        answer(503),
        answer(503, {"Retry-After": "2"}, BIG),
        answer(body=b"one\ntwo\nthree\n"),
        answer(429, {"Retry-After": "3600"}),
    )
    assert run_example("httpx_client", server.url(), capsys) == (
        "user: Ada\norder: 42\nhealth: 503\nreport: 3 lines\nlimited: come back in 3600 s\n"
    )
    orders = [request for request in server.requests if request.target == "/orders"]
    assert len(orders) == 3
    assert len({request.header("Idempotency-Key") for request in orders}) == 1
    assert len(server.requests) == 9


def test_the_example_of_a_language_model_s_api(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """429 and 529 pass and a quota does not, by the client and around an SDK."""
    throttled = answer(429, {"Retry-After": "20"}, b'{"error": {"type": "rate_limit_error"}}')
    overloaded = answer(
        529,
        {"x-should-retry": "true", "retry-after-ms": "5000"},
        b'{"error": {"type": "overloaded_error"}}',
    )
    quota = answer(429, {"Retry-After": "1"}, b'{"error": {"type": "insufficient_quota"}}')
    refused = answer(500, {"x-should-retry": "false"}, b'{"error": {"type": "api_error"}}')
    hello = answer(body=b'{"text": "Hello to you!"}')
    server = serve(throttled, overloaded, hello, quota, overloaded, throttled, hello, refused)
    with override(server_delay=ServerDelay(spread=0)):
        printed = run_example("llm_api", server.url(), capsys)
    assert printed == (
        "first:\n"
        "  throttled, again in 20 s (server)\n"
        "  throttled, again in 5 s (server)\n"
        "  Hello to you!\n"
        "second:\n"
        "  insufficient_quota\n"
        "third:\n"
        "  throttled, again in 5 s (server)\n"
        "  throttled, again in 20 s (server)\n"
        "  Hello to you!\n"
        "fourth:\n"
        "  api_error\n"
    )
    assert {request.body for request in server.requests} == {server.requests[0].body}
    assert len(server.requests) == 8
