"""The client middleware for aiohttp, on real servers."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import os
import re
import runpy
import subprocess
import sys
import threading
import time
import warnings
import weakref
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from servers import (
    Step,
    answer,
    early,
    endless,
    hang_up,
    junk_headers,
    junk_status_line,
    redirect,
    reset,
    stall,
    truncated,
)

from retrykit import (
    AttemptTimedOut,
    DeadlineExceeded,
    RatioBudget,
    RetriesExhausted,
    RetryPolicy,
    StopReason,
    current_attempt,
    disabled,
    log_retries,
    override,
    retry,
)
from retrykit._registry import forget, register
from retrykit.events import (
    AttemptStarted,
    CallCancelled,
    CallFailed,
    CallGaveUp,
    CallSucceeded,
    RetryScheduled,
)
from retrykit.http import OnStatus, by_endpoint, http_policy, per_host
from retrykit.http import aiohttp as parts
from retrykit.http.aiohttp import RetryMiddleware, retry_middleware
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from servers import RawServer, Serve

# What aiohttp itself leaves to the collector where an exchange breaks off: a connection that the
# end of the loop kept from closing.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")

BIG = b"x" * 200_000


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_to_others() -> Iterator[None]:
    """What was left is collected here, and not while some other test looks for warnings."""
    yield
    gc.collect()


def policy(**fields: Any) -> RetryPolicy:
    """The preset without waits and without a log."""
    fields.setdefault("backoff", [0.0] * 100)
    fields.setdefault("listeners", ())
    return http_policy(**fields)


@asynccontextmanager
async def session(
    policy: Any = None,
    *,
    idempotency_key: Any = False,
    read: Any = "small",
    pool: int = 100,
    inside: tuple[Any, ...] = (),
    timeout: float | None = 5.0,
    connector: aiohttp.BaseConnector | None = None,
    **options: Any,
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose calls are retried; `inside` are the middlewares behind ours."""
    middleware = retry_middleware(policy=policy, idempotency_key=idempotency_key, read=read)
    async with aiohttp.ClientSession(
        middlewares=(middleware, *inside),
        connector=aiohttp.TCPConnector(limit=pool) if connector is None else connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        **options,
    ) as made:
        yield made


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(main())


async def get(client: aiohttp.ClientSession, url: str, **options: Any) -> tuple[int, bytes]:
    async with client.get(url, **options) as response:
        return response.status, await response.read()


def fetch(url: str, own: Any = None, method: str = "GET", **options: Any) -> tuple[int, bytes]:
    """One call of a session of its own: the status and the body."""
    request = {
        name: options.pop(name)
        for name in ("data", "json", "headers", "allow_redirects", "expect100", "compress")
        if name in options
    }

    async def main() -> tuple[int, bytes]:
        async with (
            session(own, **options) as client,
            client.request(method, url, **request) as response,
        ):
            return response.status, await response.read()

    result: tuple[int, bytes] = run(main)
    return result


class Told:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    @property
    def kinds_told(self) -> list[type]:
        return [type(event) for event in self.events]

    @property
    def end(self) -> Any:
        return self.events[-1]


# What is retried


def test_a_failing_server_is_asked_again(serve: Serve) -> None:
    """A reset, a 503, and the answer: three requests, no more."""
    server = serve(reset, answer(503), answer(body=b"fine"))
    assert fetch(server.url("/path?query=1"), policy()) == (200, b"fine")
    assert [request.target for request in server.requests] == ["/path?query=1"] * 3


def test_without_a_policy_the_preset_holds(serve: Serve) -> None:
    """`http_policy()`, whose first wait for a reset is 0.1 s at most."""
    server = serve(reset)
    assert fetch(server.url()) == (200, b"ok")
    assert len(server.requests) == 2


def test_the_function_is_itself_a_middleware(serve: Serve) -> None:
    """`middlewares=(retry_middleware,)`, as aiohttp's documentation writes its own."""
    server = serve(reset, reset)

    async def main() -> Any:
        async with aiohttp.ClientSession(middlewares=(retry_middleware,)) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("step", "sent"),
    [(reset, 1), (hang_up, 1), (answer(503), 1), (answer(500), 1), (answer(429), 2)],
    ids=["reset", "hang up", "503", "500", "429"],
)
def test_a_post_is_repeated_only_if_it_was_not_processed(
    serve: Serve, step: Step, sent: int
) -> None:
    """urllib3#1059: what may have been processed is sent once."""
    server = serve(step)
    try:
        status: Any = fetch(server.url(), policy(), "POST", data=b"body")[0]
    except aiohttp.ClientConnectionError as error:
        status = type(error)
    assert status in (200, 503, 500, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
    assert len(server.requests) == sent


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "QUERY"])
def test_an_idempotent_method_is_repeated_after_a_reset(serve: Serve, method: str) -> None:
    """Methods by RFC 9110 and RFC 10008, of which aiohttp's own list knows all but QUERY."""
    server = serve(reset, hang_up)
    assert fetch(server.url(), policy(), method)[0] == 200
    assert [request.method for request in server.requests] == [method] * 3


def test_a_post_that_never_left_is_repeated(refused: str) -> None:
    """A refused connection is safe for every method; the last error comes out, with a note."""
    told = Told()
    with pytest.raises(aiohttp.ClientConnectorError) as caught:
        fetch(refused, policy(attempts=3, listeners=(told,)), "POST", data=b"body")
    assert told.kinds_told.count(RetryScheduled) == 2
    (note,) = caught.value.__notes__
    assert "ClientSession.request gave up after 3 attempts" in note
    assert "attempts_exhausted (ClientConnectorError ×3)" in note


def test_a_post_that_could_not_connect_in_time_is_repeated(unaccepting: str) -> None:
    """The client's connect timeout: the request never left."""
    told = Told()

    async def main() -> None:
        own = policy(attempts=2, listeners=(told,))
        async with session(own) as client:
            timeout = aiohttp.ClientTimeout(sock_connect=0.05)
            await client.post(unaccepting, data=b"body", timeout=timeout)

    with pytest.raises(aiohttp.ConnectionTimeoutError):
        run(main)
    assert told.kinds_told.count(AttemptStarted) == 2


def test_a_post_that_found_no_free_connection_is_repeated(serve: Serve) -> None:
    """encode/httpx#1196: waiting for the pool in vain is safe for every method."""
    server = serve(truncated(chunked=True, end=stall(30.0)))
    told = Told()

    async def main() -> None:
        async with (
            session(policy(attempts=3, listeners=(told,)), pool=1) as client,
            client.get(server.url()),
        ):
            timeout = aiohttp.ClientTimeout(connect=0.02)
            await client.post(server.url(), data=b"body", timeout=timeout)

    with pytest.raises(aiohttp.ConnectionTimeoutError):
        run(main)
    assert [event.number for event in told.events if type(event) is RetryScheduled] == [1, 2]
    assert len(server.requests) == 1


def test_a_bad_certificate_is_not_asked_again(serve: Serve, server_tls: ssl.SSLContext) -> None:
    """The class says connection error, and it is permanent all the same."""
    server = serve(tls=server_tls)
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        fetch(server.url(), policy())
    assert server.connections == 1


def test_it_works_over_tls(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    """The copies of a request keep what its connection needs."""
    server = serve(reset, answer(503), tls=server_tls)

    async def main() -> Any:
        async with session(policy()) as client:
            return await get(client, server.url(), ssl=client_tls)

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 3


def test_it_works_over_a_proxy(serve: Serve) -> None:
    """The copies of a request keep their proxy and its headers."""
    proxy = serve(reset, answer(503))

    async def main() -> Any:
        async with session(policy()) as client:
            return await get(
                client, "http://example.org/a", proxy=proxy.url(), proxy_headers={"X-Proxy": "1"}
            )

    assert run(main) == (200, b"ok")
    assert [request.target for request in proxy.requests] == ["http://example.org/a"] * 3


@pytest.mark.parametrize("step", [junk_headers, junk_status_line], ids=["headers", "status line"])
def test_junk_from_the_server_is_a_failure(serve: Serve, step: Step) -> None:
    """A response that is no HTTP: worth another attempt where the method is idempotent."""
    server = serve(step, answer(), step)
    assert fetch(server.url(), policy()) == (200, b"")
    with pytest.raises(aiohttp.ClientResponseError):
        fetch(server.url(), policy(), "POST")
    assert [request.method for request in server.requests] == ["GET", "GET", "POST"]


def test_the_server_s_wait_is_honoured(serve: Serve) -> None:
    """Retry-After in seconds, never sooner than asked; the wait is virtual."""
    server = serve(answer(503, {"Retry-After": "3"}))
    clock = VirtualClock()
    told = Told()

    async def main() -> Any:
        class Clock(VirtualClock):
            async def sleep_async(self, seconds: float, /) -> None:
                clock.sleep(seconds)

        own = policy(clock=Clock(), listeners=(told,))
        async with session(own) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    (waited,) = clock.sleeps
    assert 3.0 <= waited <= 4.0
    (scheduled,) = (event for event in told.events if type(event) is RetryScheduled)
    assert (scheduled.source, scheduled.delay) == ("server", waited)


def test_a_wait_over_the_limit_ends_the_call_at_once(serve: Serve) -> None:
    """openai-python#3555: the response comes out, and nobody asks sooner than he was told to."""
    server = serve(answer(429, {"Retry-After": "3600"}, b"later"))
    told = Told()
    assert fetch(server.url(), policy(listeners=(told,))) == (429, b"later")
    assert len(server.requests) == 1
    assert told.end.reason is StopReason.SERVER_DELAY_TOO_LONG


def test_an_error_response_that_nobody_retries_is_as_it_was(serve: Serve) -> None:
    """A 404 is final."""
    server = serve(answer(404, body=b"no such thing"))
    assert fetch(server.url(), policy()) == (404, b"no such thing")
    assert len(server.requests) == 1


# aiohttp's own repetition


@pytest.mark.parametrize("step", [reset, hang_up], ids=["reset", "hang up"])
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_client_s_own_repetition_multiplies_nothing(
    serve: Serve, step: Step, attempts: int
) -> None:
    """aiohttp asks once more where the connection dropped: all attempts were made."""
    server = serve(then=step)
    told = Told()
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)) as caught:
        fetch(server.url(), policy(attempts=attempts, listeners=(told,)))
    assert len(server.requests) == attempts
    assert told.kinds_told.count(CallGaveUp) == 1
    assert len(caught.value.__notes__) == 1


def test_a_body_does_not_bring_the_repetition_back(serve: Serve, tmp_path: Path) -> None:
    """The same where there is a body to rewind."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    server = serve(then=hang_up)
    with path.open("rb") as file, pytest.raises(aiohttp.ServerDisconnectedError):
        fetch(server.url(), policy(attempts=2), "PUT", data=file)
    assert [request.body for request in server.requests] == [b"content"] * 2


def test_without_a_total_timeout_it_multiplies_nothing_either(serve: Serve) -> None:
    """What tells aiohttp's own repetition is there with `total=None` as well."""
    server = serve(then=hang_up)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        fetch(server.url(), policy(attempts=2), timeout=None)
    assert len(server.requests) == 2


def test_a_call_that_comes_later_is_one_of_its_own(serve: Serve) -> None:
    """The caller holds the first call's error and asks again: real requests are sent."""
    server = serve(hang_up, hang_up, hang_up, hang_up)

    async def main() -> Any:
        async with session(policy(attempts=2), timeout=None) as client:
            errors = []
            for _ in range(2):
                try:
                    await client.get(server.url())
                except aiohttp.ServerDisconnectedError as error:
                    errors.append(error)
            return errors, await get(client, server.url())

    errors, last = run(main)
    assert len(set(map(id, errors))) == 2
    assert last == (200, b"ok")
    assert len(server.requests) == 5


def test_another_middleware_may_ask_again(serve: Serve) -> None:
    """One in front that repeats the same request gets attempts, not the last call's error."""
    server = serve(hang_up, hang_up)

    asked: list[Any] = []

    async def once_more(request: Any, handler: Any) -> Any:
        asked.append(request)
        try:
            return await handler(request)
        except aiohttp.ServerDisconnectedError:
            return await handler(request)

    async def main() -> Any:
        ours = retry_middleware(policy=policy(attempts=2))
        async with aiohttp.ClientSession(middlewares=(once_more, ours)) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 3
    assert len(asked) == 1


def test_nothing_of_a_failed_call_is_kept(serve: Serve) -> None:
    """What tells the repetition is gone with it."""
    server = serve(then=hang_up)
    middleware = retry_middleware(policy=policy(attempts=1))
    assert isinstance(middleware, RetryMiddleware)

    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(middleware,)) as client:
            for method in ("GET", "POST", "PUT"):
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await client.request(method, server.url())
                assert middleware._steps._known == {}

    run(main)
    assert len(server.requests) == 3


def test_what_nobody_asks_for_again_is_forgotten(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A middleware in front that takes the error: aiohttp never sees it."""
    monkeypatch.setattr(parts, "_MOMENT", 0.05)
    server = serve(hang_up, redirect("/next"), then=answer(body=b"ok"))
    middleware = retry_middleware(policy=policy(attempts=1))
    assert isinstance(middleware, RetryMiddleware)

    async def instead(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except aiohttp.ServerDisconnectedError as error:
            raise aiohttp.ClientConnectionError("mine") from error

    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(instead, middleware)) as client:
            with pytest.raises(aiohttp.ClientConnectionError, match="mine"):
                await client.get(server.url())
            assert len(middleware._steps._known) == 1
            await asyncio.sleep(0.1)
            assert middleware._steps._known == {}
            response = await client.get(server.url(), allow_redirects=False)
            assert len(middleware._steps._known) == 1
            response.close()
            del response
            gc.collect()
            assert middleware._steps._known == {}

    run(main)
    assert len(server.requests) == 2


def test_the_repetition_is_told_also_where_the_collector_runs(serve: Serve) -> None:
    """aiohttp lets go of the error before it asks once more."""
    server = serve(then=hang_up)

    async def collect(request: Any, handler: Any) -> Any:
        gc.collect()
        return await handler(request)

    async def main() -> None:
        ours = retry_middleware(policy=policy(attempts=2))
        async with aiohttp.ClientSession(middlewares=(collect, ours)) as client:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await client.get(server.url())

    run(main)
    assert len(server.requests) == 2


def test_without_the_private_name_the_call_is_repeated_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of aiohttp that hides what its steps have in common: nothing breaks."""
    monkeypatch.setattr(parts, "_timer_of", lambda request: None)
    server = serve(then=hang_up)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        fetch(server.url(), policy(attempts=2))
    assert len(server.requests) == 4


# Bodies that are sent


def a_file(tmp_path: Path, content: bytes = b"head: content") -> Any:
    path = tmp_path / "file"
    path.write_bytes(content)
    file = path.open("rb")
    file.seek(6)
    return file


def a_form(tmp_path: Path, *, part: Any = None) -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("name", "value")
    form.add_field("file", a_file(tmp_path) if part is None else part, filename="file.txt")
    return form


def in_memory(_: Path) -> io.BytesIO:
    file = io.BytesIO(b"head: content")
    file.seek(6)
    return file


def as_text(tmp_path: Path) -> Any:
    (tmp_path / "text").write_text("head: content")
    file = (tmp_path / "text").open()
    file.seek(6)
    return file


PAYLOADS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "bytes": lambda _: {"data": b"content"},
    "bytearray": lambda _: {"data": bytearray(b"content")},
    "str": lambda _: {"data": "content"},
    "string io": lambda _: {"data": io.StringIO("content")},
    "json": lambda _: {"json": {"content": 1}},
    "form": lambda _: {"data": {"content": "1"}},
    "file": lambda path: {"data": a_file(path)},
    "text file": lambda path: {"data": as_text(path)},
    "memory": lambda path: {"data": in_memory(path)},
    "multipart": lambda path: {"data": a_form(path)},
    "multipart of bytes": lambda path: {"data": a_form(path, part=b"content")},
    "compressed": lambda _: {"data": b"content" * 100, "compress": "gzip"},
    "expecting": lambda _: {"data": b"content", "expect100": True},
    "nothing": lambda _: {},
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.filterwarnings("ignore:In v4, passing bytes:DeprecationWarning")
def test_a_body_that_can_be_sent_again_is(serve: Serve, payload: str, tmp_path: Path) -> None:
    """aio-libs/aiohttp#5530: the same on every attempt, never empty."""
    server = serve(answer(503, body=b"sorry"), reset, hang_up)
    options = PAYLOADS[payload](tmp_path)
    assert fetch(server.url(), policy(), "PUT", **options)[0] == 200
    first, *others = [request.body for request in server.requests]
    assert len(others) == 3
    assert others == [first] * 3
    assert (payload == "nothing") is (first == b"")
    if payload in ("file", "text file", "memory"):
        assert first == b"content"
    lengths = {request.header("Content-Length") for request in server.requests}
    assert len(lengths) == 1


@pytest.mark.parametrize("step", [answer(503), reset, early(answer(503)), early(reset)])
@pytest.mark.parametrize("multipart", [False, True])
def test_a_large_file_is_rewound_to_where_it_stood(
    serve: Serve, step: Step, multipart: bool, tmp_path: Path
) -> None:
    """Also where the failed attempt got only half-way, or is still sending when it is let go."""
    content = b"head: " + os.urandom(500_000)
    file = a_file(tmp_path, content)
    data: Any = a_form(tmp_path, part=file) if multipart else file
    server = serve(step, step)
    assert fetch(server.url(), policy(), "PUT", data=data)[0] == 200
    last = server.requests[-1]
    assert last.complete
    assert content[6:] in last.body
    assert content[:12] not in last.body


def test_each_attempt_asks_whether_it_may_go_on(serve: Serve) -> None:
    """`Expect: 100-continue`: an answer without the 100 leaves the next attempt its own."""
    server = serve(early(answer(503)), early(reset), early(answer(503)))
    result = fetch(server.url(), policy(), "PUT", data=b"content", expect100=True)
    assert result == (200, b"ok")
    assert [request.body for request in server.requests] == [b"", b"", b"", b"content"]
    assert {request.header("Expect") for request in server.requests} == {"100-continue"}


async def chunks(*parts: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if then is not None:
        raise then


class Chunks:
    """An async iterable that could be begun anew, which aiohttp never does."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"ten bytes!"


class ChunksOnce:
    def __init__(self) -> None:
        self.left = [b"ten bytes!"]

    def __aiter__(self) -> ChunksOnce:
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


def a_pipe() -> Any:
    reader, writer = os.pipe()
    os.write(writer, b"ten bytes!")
    os.close(writer)
    return open(reader, "rb")


class OwnPayload(aiohttp.Payload):
    """One whose nature nobody knows."""

    def __init__(self) -> None:
        super().__init__(iter([b"ten bytes!"]))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError

    async def write(self, writer: Any) -> None:
        for part in self._value:
            await writer.write(part)


ONE_SHOTS: dict[str, Callable[[Path], Any]] = {
    "async generator": lambda _: chunks(b"ten ", b"bytes!"),
    "async iterable": lambda _: Chunks(),
    "async iterator": lambda _: ChunksOnce(),
    "pipe": lambda _: a_pipe(),
    "multipart": lambda path: a_form(
        path, part=aiohttp.AsyncIterablePayload(chunks(b"ten bytes!"))
    ),
    "own payload": lambda _: OwnPayload(),
}


@pytest.mark.parametrize("kind", ONE_SHOTS)
@pytest.mark.parametrize("step", [answer(503, body=b"sorry"), reset], ids=["503", "reset"])
def test_a_body_for_one_time_is_sent_once(
    serve: Serve, step: Step, kind: str, tmp_path: Path
) -> None:
    """aio-libs/aiohttp#13330: no second, empty request that the server says yes to."""
    server = serve(step)
    told = Told()
    data = ONE_SHOTS[kind](tmp_path)
    try:
        result: Any = fetch(server.url(), policy(listeners=(told,)), "PUT", data=data)
    except aiohttp.ClientOSError as error:
        (note,) = error.__notes__
        assert "not_replayable" in note
        assert "the request's body can be sent only once" in note
        result = None
    if isinstance(data, io.BufferedReader):
        data.close()
    assert result in ((503, b"sorry"), None)
    assert len(server.requests) == 1
    assert told.end.reason is StopReason.NOT_REPLAYABLE


@pytest.mark.parametrize("kind", ONE_SHOTS)
def test_a_body_for_one_time_that_was_not_begun_may_still_be_sent(
    refused: str, kind: str, tmp_path: Path
) -> None:
    """Where no connection was made, nothing was read of it."""
    told = Told()
    data = ONE_SHOTS[kind](tmp_path)
    with pytest.raises(aiohttp.ClientConnectorError):
        fetch(refused, policy(attempts=3, listeners=(told,)), "PUT", data=data)
    assert told.end.reason is StopReason.ATTEMPTS_EXHAUSTED
    if isinstance(data, io.BufferedReader):
        data.close()


def test_a_generator_that_the_cut_attempt_did_not_begin_may_still_be_sent(
    unaccepting: str,
) -> None:
    """Cut while it was connecting: an async generator shows that it was not begun."""
    told = Told()
    own = policy(attempts=2, attempt_timeout=0.05, listeners=(told,))
    with pytest.raises(AttemptTimedOut):
        fetch(unaccepting, own, "PUT", data=chunks(b"ten bytes!"))
    assert told.end.reason is StopReason.ATTEMPTS_EXHAUSTED


def test_a_generator_that_fails_raises_what_aiohttp_makes_of_it(serve: Serve) -> None:
    """And is not asked again."""
    server = serve(early(stall(5.0)))
    with pytest.raises(aiohttp.ClientConnectionError, match="no more"):
        fetch(server.url(), policy(), "PUT", data=chunks(b"ten ", then=ValueError("no more")))
    assert server.connections <= 1


def test_a_closed_file_is_not_sent_again(serve: Serve) -> None:
    """The response stands."""
    server = serve(then=answer(503))
    file = io.BytesIO(b"content")

    class Closing:
        def __call__(self, event: Any) -> None:
            file.close()

        kinds = (AttemptStarted,)

    told = Told()

    async def close(request: Any, handler: Any) -> Any:
        response = await handler(request)
        file.close()
        return response

    async def main() -> Any:
        async with (
            session(policy(listeners=(told,)), inside=(close,)) as client,
            client.put(server.url(), data=file) as response,
        ):
            return response.status

    assert run(main) == 503
    assert len(server.requests) == 1
    assert told.end.reason is StopReason.NOT_REPLAYABLE


def test_a_large_upload_that_stalls_is_cut(serve: Serve) -> None:
    """aiohttp bounds an upload by `total` alone; the attempt's own time does."""
    server = serve(early(stall(30.0)))
    told = Told()
    own = policy(attempt_timeout=0.6, listeners=(told,))
    data = io.BytesIO(bytes(10_000_000))

    async def main() -> Any:
        async with session(own) as client, client.put(server.url(), data=data) as response:
            server.release()  # asyncio keeps a socket for as long as something is to be sent
            await asyncio.to_thread(server.wait_until, lambda server: server.open <= 1)
            await asyncio.sleep(0.05)
            return response.status

    assert run(main) == 200
    assert server.steps_taken == 2
    assert [event.error_type for event in told.events if type(event) is RetryScheduled] == [
        "AttemptTimedOut"
    ]


# What is handed in


def test_what_the_caller_hands_in_is_not_changed(serve: Serve) -> None:
    """Headers are the caller's own, and no attempt's are another's."""
    server = serve(answer(503), reset)
    headers = {"X-Own": "1"}

    async def sign(request: Any, handler: Any) -> Any:
        request.headers.add("X-Signed", str(current_attempt().number))
        return await handler(request)

    async def main() -> Any:
        own = policy(attempts=3)
        async with (
            session(own, idempotency_key=True, inside=(sign,)) as client,
            client.post(server.url(), headers=headers, data=b"a") as response,
        ):
            return response.status, response.request_info.headers["X-Signed"]

    assert run(main) == (200, "3")
    assert headers == {"X-Own": "1"}
    signed = [request.header("X-Signed") for request in server.requests]
    assert signed == ["1", "2", "3"]


def test_middlewares_behind_it_run_in_each_attempt(serve: Serve) -> None:
    """Those in front of it run once for each call, redirects and all."""
    server = serve(answer(503), reset)
    ran: list[str] = []

    def middleware(name: str) -> Any:
        async def run_it(request: Any, handler: Any) -> Any:
            ran.append(name)
            return await handler(request)

        return run_it

    async def main() -> Any:
        ours = retry_middleware(policy=policy())
        async with aiohttp.ClientSession(
            middlewares=(middleware("front"), ours, middleware("behind"))
        ) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert ran == ["front", "behind", "behind", "behind"]


def test_an_error_that_a_middleware_raises_is_classified(serve: Serve) -> None:
    """A `raise_for_status` behind ours: its error shows the status, and what to wait."""
    server = serve(answer(503, body=BIG, chunked=True), answer(404))
    told = Told()

    async def strict(request: Any, handler: Any) -> Any:
        response = await handler(request)
        response.raise_for_status()
        return response

    async def main() -> Any:
        own = policy(listeners=(told,))
        async with session(own, inside=(strict,), pool=1) as client:
            await client.get(server.url())

    with pytest.raises(aiohttp.ClientResponseError) as caught:
        run(main)
    assert caught.value.status == 404
    assert len(server.requests) == 2


def test_a_session_that_raises_for_status_raises_for_the_last(serve: Serve) -> None:
    """`raise_for_status=True` is about what comes out."""
    server = serve(answer(503), answer(503))

    async def main() -> Any:
        async with session(policy(), raise_for_status=True) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 3


# Responses that are let go


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
@pytest.mark.parametrize("read", [False, True, "small"])
def test_a_pool_of_one_does_not_dry_up(serve: Serve, chunked: bool, read: Any) -> None:
    """microsoft/kiota-python#564: 200 kB error bodies are let go before the next attempt."""
    failed = answer(503, body=BIG, chunked=chunked)
    server = serve(failed, failed, then=answer(body=b"fine"))

    async def main() -> Any:
        async with session(policy(), pool=1, timeout=3.0, read=read) as client:
            return [await get(client, server.url()) for _ in range(2)]

    assert run(main) == [(200, b"fine")] * 2
    assert len(server.requests) == 4
    server.wait_until(lambda server: server.open == 0)


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
@pytest.mark.parametrize("read", [False, True, "small"])
def test_a_small_rest_is_read_and_the_connection_kept(serve: Serve, step: Step, read: Any) -> None:
    """Three requests over one connection."""
    server = serve(step, step)
    assert fetch(server.url(), policy(), pool=1, read=read) == (200, b"ok")
    assert [request.connection for request in server.requests] == [1, 1, 1]


def test_a_head_request_keeps_its_connection(serve: Serve) -> None:
    """It announces a body that never comes."""
    server = serve(answer(503, body=BIG), answer(503, body=b"short"))
    assert fetch(server.url(), policy(), "HEAD", pool=1) == (200, b"")
    assert {request.connection for request in server.requests} <= {1, 2}
    assert len(server.requests) == 3


@pytest.mark.parametrize("read", [False, True, "small"])
def test_a_hostile_body_is_read_in_small_part_only(serve: Serve, read: Any) -> None:
    """urllib3's GHSA-38jv-5279-wg99 and its kind: a body without end costs little."""
    server = serve(endless(503, limit=1 << 26))
    assert fetch(server.url(), policy(), read=read) == (200, b"ok")
    assert server.sent < 1 << 23


@pytest.mark.parametrize("body", [b"", b"not here", BIG], ids=["empty", "small", "large"])
@pytest.mark.parametrize("read", [False, True, "small"])
def test_a_misdirected_request_goes_over_another_connection(
    serve: Serve, body: bytes, read: Any
) -> None:
    """421 asks for that (RFC 9110 section 15.5.20); the last answer is readable all the same."""
    server = serve(then=answer(421, body=body))
    result = fetch(server.url(), policy(attempts=3), "POST", data=b"body", pool=1, read=read)
    assert result == (421, body)
    assert [request.connection for request in server.requests] == [1, 2, 3]


def test_a_body_that_stalls_is_not_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rest that does not come within a moment is not worth its connection."""
    monkeypatch.setattr(parts, "LONGEST_DRAIN", 0.05)
    server = serve(truncated(status=503, chunked=True, end=stall(30.0)))
    started = time.monotonic()
    assert fetch(server.url(), policy()) == (200, b"ok")
    assert time.monotonic() - started < 3.0
    assert [request.connection for request in server.requests] == [1, 2]


def test_a_large_body_is_not_begun(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is announced as such is closed at once."""
    monkeypatch.setattr(parts, "LONGEST_DRAIN", 4.0)
    server = serve(truncated(b"", 200_000, status=503, end=stall(30.0)))
    started = time.monotonic()
    assert fetch(server.url(), policy()) == (200, b"ok")
    assert time.monotonic() - started < 3.0


class Looking(VirtualClock):
    """A clock whose waits call a function in place of waiting."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.look = look

    async def sleep_async(self, seconds: float, /) -> None:
        self.look()


@pytest.mark.parametrize("body", [BIG, b"small"], ids=["large", "small"])
def test_the_connection_is_free_during_the_wait(serve: Serve, body: bytes) -> None:
    """Before the wait and not after it: whoever waits for the pool's one connection gets it."""
    server = serve(answer(503, body=body, chunked=True))
    seen: list[int] = []

    async def main() -> Any:
        connector = aiohttp.TCPConnector(limit=1)
        look = Looking(lambda: seen.append(len(connector._acquired)))
        async with session(policy(clock=look), connector=connector) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert seen == [0]


def test_an_upload_that_goes_on_is_stopped_before_the_wait(serve: Serve) -> None:
    """An early 503 while a large body is still sent: nothing of it holds the connection."""
    server = serve(early(answer(503, body=b"no")))
    seen: list[int] = []

    async def main() -> Any:
        connector = aiohttp.TCPConnector(limit=1)
        look = Looking(lambda: seen.append(len(connector._acquired)))
        async with (
            session(policy(clock=look), connector=connector) as client,
            client.put(server.url(), data=io.BytesIO(bytes(20_000_000))) as response,
        ):
            return response.status

    assert run(main) == 200
    assert seen == [0]


def test_a_cancel_in_the_wait_leaves_nothing_behind(serve: Serve) -> None:
    """The task ends as cancelled, the call too, and the pool's one connection is free."""
    server = serve(answer(503, body=BIG, chunked=True))
    told = Told()

    async def main() -> Any:
        slow = policy(backoff=[60.0], listeners=(told,))
        async with session(slow, pool=1, timeout=3.0) as client:
            task = asyncio.ensure_future(get(client, server.url()))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert told.kinds_told[-1] is CallCancelled
            return await get(client, server.url())

    assert run(main) == (200, b"ok")


def test_a_cancel_in_an_attempt_leaves_nothing_behind(serve: Serve) -> None:
    """Neither while the response is waited for nor while its body is read ahead."""
    server = serve(stall(30.0), truncated(end=stall(30.0)), truncated(status=503, end=stall(30.0)))

    async def main() -> Any:
        async with session(policy(), pool=1, timeout=3.0) as client:
            for count in (1, 2, 3):
                task = asyncio.ensure_future(get(client, server.url()))
                await asyncio.to_thread(server.wait_for, count)
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 4


@pytest.mark.parametrize("where", ["classifier", "listener"])
def test_an_interrupt_while_it_is_decided_closes_the_response(serve: Serve, where: str) -> None:
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
        async with session(policy(**fields), pool=1, timeout=3.0) as client:
            with pytest.raises(Interrupt):
                await client.get(server.url())
            return await get(client, server.url())

    assert run(main) == (200, BIG)


def test_a_predicate_that_fails_leaves_the_response_open(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """The user's own outcome stands, readable."""
    server = serve(answer(503, body=BIG, chunked=True))

    def failing(_: Any) -> Any:
        raise LookupError

    with caplog.at_level(logging.CRITICAL, logger="retrykit"):
        assert fetch(server.url(), policy(unless=failing)) == (503, BIG)
    assert len(server.requests) == 1


# The end


@pytest.mark.parametrize("body", [b"the last", BIG], ids=["small", "large"])
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
@pytest.mark.parametrize("read", [False, True, "small"])
def test_the_last_response_comes_out_readable(
    serve: Serve, body: bytes, chunked: bool, read: Any
) -> None:
    """hashicorp/go-retryablehttp#156: status, headers and body of the last one."""
    server = serve(then=answer(503, {"X-Last": "1"}, body, chunked=chunked))

    async def main() -> Any:
        async with (
            session(policy(attempts=2), read=read) as client,
            client.get(server.url()) as response,
        ):
            first = await response.read()
            return response.status, response.headers["X-Last"], first, await response.read()

    assert run(main) == (503, "1", body, body)
    assert len(server.requests) == 2


@pytest.mark.parametrize("body", [b"the last", BIG], ids=["small", "large"])
@pytest.mark.parametrize("read", [False, True, "small"])
def test_the_last_response_can_be_streamed(serve: Serve, body: bytes, read: Any) -> None:
    """Whatever was read ahead comes out of `response.content` too."""
    server = serve(then=answer(503, body=body, chunked=True))

    async def main() -> Any:
        async with (
            session(policy(attempts=2), read=read) as client,
            client.get(server.url()) as response,
        ):
            return [chunk async for chunk in response.content.iter_chunked(1000)]

    streamed = run(main)
    assert b"".join(streamed) == body
    assert max(map(len, streamed)) <= 1000


def test_a_response_that_a_stop_in_the_wait_leaves_is_readable(serve: Serve) -> None:
    """It was let go already: a small body was kept."""
    server = serve(then=answer(503, body=b"kept", chunked=True))
    stopped: list[bool] = []

    async def main() -> Any:
        look = Looking(lambda: stopped.append(True))
        own = policy(clock=look, stop_when=lambda: bool(stopped))
        async with session(own) as client, client.get(server.url()) as response:
            return response.status, await response.read(), await response.text()

    assert run(main) == (503, b"kept", "kept")


def test_a_large_one_says_that_it_was_closed(serve: Serve) -> None:
    """As aiohttp says it of a response that was released."""
    server = serve(then=answer(503, body=BIG))
    stopped: list[bool] = []

    async def main() -> Any:
        look = Looking(lambda: stopped.append(True))
        own = policy(clock=look, stop_when=lambda: bool(stopped))
        async with session(own) as client, client.get(server.url()) as response:
            assert response.status == 503
            await response.read()

    with pytest.raises(aiohttp.ClientConnectionError, match="closed"):
        run(main)


@pytest.mark.parametrize("read", [False, True, "small"])
@pytest.mark.parametrize("body", [b"the last", BIG], ids=["small", "large"])
def test_a_policy_that_raises_hands_the_response_over_in_its_error(
    serve: Serve, read: Any, body: bytes
) -> None:
    """`unsatisfied="raise"`: open and readable there."""
    server = serve(then=answer(503, body=body))

    async def main() -> Any:
        async with session(policy(attempts=2, unsatisfied="raise"), read=read) as client:
            with pytest.raises(RetriesExhausted) as caught:
                await client.get(server.url())
            response = caught.value.value
            async with response:
                return response.status, await response.read()

    assert run(main) == (503, body)


def test_an_error_is_the_one_that_the_attempt_raised(serve: Serve) -> None:
    """The same object, with its own cause and context, and one note."""
    server = serve(then=reset)
    raised: list[Exception] = []

    async def watch(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except Exception as error:
            raised.append(error)
            raise

    async def main() -> Any:
        async with session(policy(attempts=3), inside=(watch,)) as client:
            try:
                raise KeyError
            except KeyError:
                await client.get(server.url())

    with pytest.raises(aiohttp.ClientOSError) as caught:
        run(main)
    assert len(raised) == 3
    assert caught.value is raised[-1]
    assert len(caught.value.__notes__) == 1


# Reading the body


@pytest.mark.parametrize(
    "step",
    [
        truncated(end=reset),
        truncated(),
        truncated(b""),
    ],
    ids=["reset", "hang up", "after the headers"],
)
def test_a_small_body_that_breaks_off_is_read_anew(serve: Serve, step: Step) -> None:
    """psf/requests#4568: reading what is announced as small is part of the attempt."""
    server = serve(step, step, answer(body=b"whole"))
    assert fetch(server.url(), policy()) == (200, b"whole")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "step",
    [
        truncated(end=reset),
        truncated(chunked=True),
        truncated(b"x" * 100, 100, chunked=True, end=reset),
        truncated(b"x" * 100_000, 200_000),
    ],
    ids=["announced", "in a chunk", "between chunks", "large"],
)
def test_every_body_is_read_where_that_is_asked_for(serve: Serve, step: Step) -> None:
    """`read=True`: of any length, announced or not."""
    server = serve(step, step, answer(body=BIG, chunked=True))
    assert fetch(server.url(), policy(), read=True) == (200, BIG)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("step", "read"),
    [
        (truncated(), False),
        (truncated(chunked=True), "small"),
        (truncated(b"x" * 100, 65_537), "small"),
        (truncated(headers={"Content-Encoding": "gzip"}, sent=b""), "small"),
    ],
    ids=["not asked for", "unknown length", "large", "compressed"],
)
def test_a_body_that_is_not_read_is_committed_with_its_headers(
    serve: Serve, step: Step, read: Any
) -> None:
    """What fails afterwards is the reader's, as the docstring says."""
    server = serve(step)
    with pytest.raises(aiohttp.ClientPayloadError):
        fetch(server.url(), policy(), read=read)
    assert len(server.requests) == 1


def test_a_stream_is_not_held_up(serve: Serve) -> None:
    """The first event of a stream without end is there before the second is sent."""
    server = serve(truncated(b"data: 1\n\n", 100, chunked=True, end=stall(30.0)))

    async def main() -> Any:
        async with session(policy()) as client, client.get(server.url()) as response:
            return await response.content.readline()

    assert run(main) == b"data: 1\n"


@pytest.mark.parametrize("read", [True, "small"])
def test_a_body_that_was_read_ahead_can_be_read_in_every_way(serve: Serve, read: Any) -> None:
    """As if nobody had: whole, as text, as JSON, line by line, in pieces, at once."""
    body = b'{"first": 1,\n"second": 2}'
    server = serve(then=answer(headers={"Content-Type": "application/json"}, body=body))

    async def main() -> Any:
        async with session(policy(), read=read, pool=1) as client:
            results: list[Any] = []
            ways: list[Any] = [
                lambda response: response.read(),
                lambda response: response.text(),
                lambda response: response.json(),
                lambda response: response.content.read(),
                lambda response: response.content.read(4),
                lambda response: response.content.readexactly(4),
                lambda response: response.content.readline(),
                lambda response: response.content.readany(),
            ]
            for way in ways:
                async with client.get(server.url()) as response:
                    results.append(await way(response))
            async with client.get(server.url()) as response:
                results.append([line async for line in response.content])
            async with client.get(server.url()) as response:
                results.append([piece async for piece, _ in response.content.iter_chunks()])
            return results

    text = body.decode()
    assert run(main) == [
        body,
        text,
        json.loads(text),
        body,
        body[:4],
        body[:4],
        body[:13],
        body,
        [body[:13], body[13:]],
        [body],
    ]
    assert {request.connection for request in server.requests} == {1}


def test_the_last_body_that_breaks_off_raises_aiohttp_s_own_error(serve: Serve) -> None:
    """As one that is not retried would."""
    server = serve(then=truncated())
    with pytest.raises(aiohttp.ClientPayloadError) as caught:
        fetch(server.url(), policy(attempts=2))
    assert len(server.requests) == 2
    assert "gave up after 2 attempts" in caught.value.__notes__[0]


def test_a_post_whose_answer_breaks_off_is_not_repeated(serve: Serve) -> None:
    """It was processed, by all that is known."""
    server = serve(truncated())
    with pytest.raises(aiohttp.ClientPayloadError):
        fetch(server.url(), policy(), "POST", data=b"body")
    assert len(server.requests) == 1


@pytest.mark.parametrize("read", [False, True, "small"])
def test_an_error_s_status_decides_where_its_body_breaks_off(serve: Serve, read: Any) -> None:
    """A POST may be repeated after a 429, whatever becomes of its body."""
    server = serve(truncated(status=429, end=reset), truncated(status=429))
    assert fetch(server.url(), policy(), "POST", data=b"body", read=read) == (200, b"ok")
    assert len(server.requests) == 3


@pytest.mark.parametrize("read", [False, True, "small"])
def test_an_error_s_body_that_breaks_off_fails_its_reader(serve: Serve, read: Any) -> None:
    """The last response comes out; what is wrong with its body shows where it is read."""
    server = serve(then=truncated(status=503))

    async def main() -> Any:
        async with (
            session(policy(attempts=2), read=read) as client,
            client.get(server.url()) as response,
        ):
            assert response.status == 503
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()

    run(main)
    assert len(server.requests) == 2


def test_a_large_error_that_breaks_off_fails_its_reader_too(serve: Serve) -> None:
    """Although its beginning was read ahead."""
    server = serve(then=truncated(b"x" * 100_000, 200_000, status=503))

    async def main() -> None:
        async with (
            session(policy(attempts=1), read=True) as client,
            client.get(server.url()) as response,
        ):
            assert response.status == 503
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()

    run(main)


def test_a_cancel_while_the_last_error_is_read_closes_it(serve: Serve) -> None:
    """The pool's one connection is free."""
    server = serve(truncated(b"x" * 100_000, 200_000, status=503, end=stall(30.0)))

    async def main() -> Any:
        async with session(policy(attempts=1), read=True, pool=1, timeout=3.0) as client:
            task = asyncio.ensure_future(get(client, server.url()))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await get(client, server.url())

    assert run(main) == (200, b"ok")


@pytest.mark.parametrize("body", [b'{"code": "quota"}', b'{"code": "busy"}'], ids=["quota", "busy"])
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_predicate_may_look_into_the_body(serve: Serve, body: bytes, chunked: bool) -> None:
    """A quota that is gone for good; and the caller can read it still."""
    server = serve(then=answer(429, body=body, chunked=chunked))

    def gone(response: aiohttp.ClientResponse) -> bool:
        return b"quota" in response.content.read_nowait()

    own = policy(attempts=3, unless=gone)
    assert fetch(server.url(), own, read=True if chunked else "small") == (429, body)
    assert len(server.requests) == (1 if b"quota" in body else 3)


def test_a_response_may_be_upgraded(serve: Serve) -> None:
    """A websocket is opened through it: after a refusal, and with nothing read ahead."""

    async def main() -> Any:
        from aiohttp import web

        asked: list[int] = []

        async def handler(request: web.Request) -> web.StreamResponse:
            asked.append(1)
            if len(asked) < 3:
                return web.Response(status=503)
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str("hello")
            await socket.close()
            return socket

        app = web.Application()
        app.router.add_get("/", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            async with (
                session(policy(), read=True) as client,
                client.ws_connect(f"http://127.0.0.1:{port}/") as socket,
            ):
                return len(asked), await socket.receive_str()
        finally:
            await runner.cleanup()

    assert run(main) == (3, "hello")


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_do_not_use_up_attempts(serve: Serve, status: int) -> None:
    """Each step has all of them."""
    hop = redirect("/next", status)
    server = serve(reset, answer(503), hop, reset, answer(503), hop, reset, reset)
    assert fetch(server.url(), policy(attempts=3)) == (200, b"ok")
    assert len(server.requests) == 9


def test_a_redirect_s_own_body_is_of_no_concern(serve: Serve) -> None:
    """It may break off, and nobody looks at it."""
    step = truncated(status=302, headers={"Location": "/next"})
    server = serve(step)
    assert fetch(server.url(), policy(), read=True) == (200, b"ok")
    assert [request.target for request in server.requests] == ["/", "/next"]


def test_a_redirect_that_is_not_followed_comes_out(serve: Serve) -> None:
    """With its body."""
    server = serve(answer(302, {"Location": "/next"}, b"over there"))
    result = fetch(server.url(), policy(), allow_redirects=False, read=True)
    assert result == (302, b"over there")


def test_a_failure_after_a_redirect_does_not_repeat_the_post(serve: Serve) -> None:
    """The step that failed is repeated, and no other."""
    server = serve(redirect("/done", 303), reset, answer(503))
    assert fetch(server.url(), policy(), "POST", data=b"order") == (200, b"ok")
    methods = [request.method for request in server.requests]
    assert methods == ["POST", "GET", "GET", "GET"]


def test_credentials_stay_stripped_after_a_change_of_origin(serve: Serve) -> None:
    """In every attempt there."""
    other = serve(reset, answer(503))
    server = serve(reset, redirect(other.url("/there", host="localhost")))
    headers = {"Authorization": "Bearer s3cret", "Cookie": "a=s3cret"}
    assert fetch(server.url(), policy(), headers=headers) == (200, b"ok")
    assert len(other.requests) == 3
    for request in other.requests:
        assert request.header("Authorization") is None
        assert request.header("Cookie") is None
    assert [request.header("Authorization") for request in server.requests] == ["Bearer s3cret"] * 2


def test_credentials_go_along_within_the_origin(serve: Serve) -> None:
    """Also in every attempt there."""
    server = serve(redirect("/there"), reset)
    fetch(server.url(), policy(), headers={"Authorization": "Bearer mine"})
    assert [request.header("Authorization") for request in server.requests] == ["Bearer mine"] * 3


@pytest.mark.parametrize("status", [307, 308])
def test_a_file_goes_along_with_a_redirect_from_where_it_stood(
    serve: Serve, status: int, tmp_path: Path
) -> None:
    """Over attempts before and after it."""
    server = serve(answer(503), redirect("/there", status), answer(503), reset)
    result = fetch(server.url(), policy(), "PUT", data=a_file(tmp_path))
    assert result == (200, b"ok")
    assert [request.body for request in server.requests] == [b"content"] * 5


def test_a_file_that_was_closed_does_not_go_along_empty(serve: Serve) -> None:
    """With the words that aiohttp has for it."""
    server = serve(redirect("/there", 307))
    file = io.BytesIO(b"content")

    async def close(request: Any, handler: Any) -> Any:
        response = await handler(request)
        file.close()
        return response

    async def main() -> None:
        async with session(policy(), inside=(close,)) as client:
            await client.put(server.url(), data=file)

    with pytest.raises(aiohttp.ClientPayloadError, match="consumed"):
        run(main)
    assert len(server.requests) == 1


def test_a_body_for_one_time_does_not_go_along_empty(serve: Serve) -> None:
    """aiohttp refuses it, and nothing is sent."""
    server = serve(redirect("/there", 307))
    with pytest.raises(aiohttp.ClientPayloadError, match="consumed"):
        fetch(server.url(), policy(), "PUT", data=chunks(b"ten bytes!"))
    assert len(server.requests) == 1


def test_redirects_without_end_are_given_up(serve: Serve) -> None:
    """aiohttp's own limit, and its own error, at once."""
    server = serve(then=redirect("/again"))
    with pytest.raises(aiohttp.TooManyRedirects):
        fetch(server.url(), policy())
    assert len(server.requests) == 10


# Time


@pytest.mark.parametrize("where", ["waiting", "connecting", "reading"])
def test_a_slow_attempt_is_cut_and_repeated(serve: Serve, unaccepting: str, where: str) -> None:
    """`attempt_timeout` holds wherever the attempt is."""
    told = Told()
    own = policy(attempts=2, attempt_timeout=0.1, listeners=(told,))
    if where == "connecting":
        url = unaccepting
    else:
        url = serve(then=stall(30.0) if where == "waiting" else truncated(end=stall(30.0))).url()
    with pytest.raises(AttemptTimedOut):
        fetch(url, own)
    assert told.kinds_told.count(AttemptStarted) == 2


def test_a_deadline_ends_the_call(serve: Serve) -> None:
    """It cuts the attempt that runs, and its error comes from the last failure."""
    server = serve(answer(503), stall(30.0))
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        fetch(server.url(), policy(deadline=0.3))
    assert time.monotonic() - started < 2.0
    assert len(server.requests) == 2


def test_a_deadline_holds_for_all_redirects_together(serve: Serve) -> None:
    """What the first step used up is not there for the second."""
    server = serve(stall(0.8, then=redirect("/there")), then=stall(30.0))
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        fetch(server.url(), policy(deadline=1.1))
    assert 1.0 < time.monotonic() - started < 1.7
    assert [request.target for request in server.requests] == ["/", "/there"]


def test_an_outer_deadline_reaches_the_client(serve: Serve) -> None:
    """A decorated function around the session's call: the nearer time counts."""
    server = serve(then=stall(30.0))

    @retry(on=OSError, deadline=0.2, attempts=5, listeners=())
    async def outer() -> Any:
        async with session(policy()) as client:
            return await get(client, server.url())

    with pytest.raises(DeadlineExceeded):
        asyncio.run(outer())
    assert len(server.requests) == 1


def test_an_attempt_that_is_cut_leaves_no_connection(serve: Serve) -> None:
    """The pool's one connection is there for the next attempt."""
    server = serve(stall(30.0))
    assert fetch(server.url(), policy(attempt_timeout=0.1), pool=1) == (200, b"ok")
    server.wait_until(lambda server: server.open == 0)


def test_a_response_has_the_caller_s_own_time(serve: Serve) -> None:
    """The attempt's time ends with what it covers: a slow stream is not cut short by it."""
    server = serve(answer(body=b"slow", drip=0.08, chunked=True))
    assert fetch(server.url(), policy(attempt_timeout=0.2)) == (200, b"slow")


@pytest.mark.parametrize("where", ["waiting", "connecting", "reading", "pausing"])
def test_the_client_s_total_is_for_the_whole_call(
    serve: Serve, unaccepting: str, where: str
) -> None:
    """Its bare TimeoutError comes out as soon as it is over, and nothing is sent any more."""
    told = Told()
    own = policy(backoff=[30.0 if where == "pausing" else 0.0] * 4, listeners=(told,))
    steps = {
        "waiting": stall(30.0),
        "reading": truncated(end=stall(30.0)),
        "pausing": hang_up,
        "connecting": hang_up,
    }
    server = serve(then=steps[where])
    started = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        fetch(unaccepting if where == "connecting" else server.url(), own, timeout=0.2)
    assert type(caught.value) is TimeoutError
    assert type(caught.value.__context__) is asyncio.CancelledError  # and nothing of ours
    assert time.monotonic() - started < 2.0
    assert server.steps_taken <= 1
    assert told.kinds_told[-1] is CallCancelled
    assert not hasattr(caught.value, "__notes__")


def test_a_timeout_of_another_middleware_is_retried(serve: Serve) -> None:
    """A TimeoutError is the client's total only if that is over."""
    server = serve(stall(30.0))

    async def impatient(request: Any, handler: Any) -> Any:
        async with asyncio.timeout(0.1):
            return await handler(request)

    async def main() -> Any:
        async with session(policy(), inside=(impatient,)) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 2


def test_a_read_timeout_is_retried(serve: Serve) -> None:
    """`sock_read` holds for each attempt."""
    server = serve(stall(30.0), stall(30.0))

    async def main() -> Any:
        async with session(policy()) as client:
            timeout = aiohttp.ClientTimeout(sock_read=0.1)
            return await get(client, server.url(), timeout=timeout)

    assert run(main) == (200, b"ok")
    assert len(server.requests) == 3


def test_the_event_loop_goes_on_during_the_waits(serve: Serve) -> None:
    """microsoft/kiota-python#505: nothing blocks the loop."""
    server = serve(answer(503, body=BIG), answer(503))

    async def main() -> Any:
        gaps: list[float] = []

        async def heartbeat() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.02)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        beating = asyncio.ensure_future(heartbeat())
        async with session(policy(backoff=[0.2, 0.2])) as client:
            await get(client, server.url())
        beating.cancel()
        return gaps

    gaps = run(main)
    assert len(gaps) >= 10
    assert max(gaps) < 0.15


# The idempotency key


def keys(server: RawServer) -> list[str | None]:
    return [request.header("Idempotency-Key") for request in server.requests]


def test_a_post_with_a_key_is_retried_with_the_same_key(serve: Serve) -> None:
    """lionagi#2393: one key for each call, and another for the next one."""
    server = serve(reset, answer(503), answer(), reset, answer(503))

    async def main() -> None:
        async with session(policy(), idempotency_key=True) as client:
            for _ in range(2):
                async with client.post(server.url(), data=b"order") as response:
                    assert response.status == 200

    run(main)
    first, second = set(keys(server)[:3]), set(keys(server)[3:])
    assert len(first) == len(second) == 1
    assert first != second
    assert re.fullmatch(r'"[0-9a-f-]{36}"', str(first.pop()))


def test_the_request_of_those_in_front_has_no_key(serve: Serve) -> None:
    """It is on the copies that are sent, and on the response's `request_info`."""
    server = serve(reset)
    seen: list[Any] = []

    async def look(request: Any, handler: Any) -> Any:
        response = await handler(request)
        seen.append("Idempotency-Key" in request.headers)
        seen.append("Idempotency-Key" in response.request_info.headers)
        return response

    async def main() -> None:
        ours = retry_middleware(policy=policy(), idempotency_key=True)
        async with aiohttp.ClientSession(middlewares=(look, ours)) as client:
            await client.post(server.url(), data=b"order")

    run(main)
    assert seen == [False, True]


def test_a_bare_key_has_no_quotes(serve: Serve) -> None:
    """As stripe wants it."""
    server = serve(reset)
    fetch(server.url(), policy(), "PATCH", idempotency_key="bare")
    (key,) = set(keys(server))
    assert re.fullmatch(r"[0-9a-f-]{36}", str(key))


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_the_caller_s_own_key_is_kept(serve: Serve, name: str) -> None:
    """And makes the POST one that may be repeated."""
    server = serve(reset)
    options: Any = {"headers": {name: "mine"}, "idempotency_key": True}
    assert fetch(server.url(), policy(), "POST", **options) == (200, b"ok")
    assert keys(server) == ["mine"] * 2


def test_a_key_that_is_there_twice_is_sent_once(serve: Serve) -> None:
    """Two spellings are one header."""
    server = serve(reset)
    headers = [("Idempotency-Key", "mine"), ("idempotency-key", "mine")]
    fetch(server.url(), policy(), "POST", headers=headers, idempotency_key=True)
    assert keys(server) == ["mine"] * 2


@pytest.mark.parametrize("key", ["", "k" * 256, "ключ"])
def test_a_key_that_is_none_is_refused_before_anything_is_sent(serve: Serve, key: str) -> None:
    """One value of 1 to 255 printable ASCII characters."""
    server = serve()
    with pytest.raises(ValueError, match="Idempotency-Key must be one value of 1 to 255"):
        fetch(
            server.url(),
            policy(),
            "POST",
            headers={"Idempotency-Key": key},
            idempotency_key=True,
        )
    assert server.connections == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "QUERY"])
def test_an_idempotent_request_carries_no_key(serve: Serve, method: str) -> None:
    """It needs none."""
    server = serve(reset)
    fetch(server.url(), policy(), method, idempotency_key=True)
    assert keys(server) == [None, None]


@pytest.mark.parametrize("own", [{}, {"Idempotency-Key": "mine"}], ids=["made", "own"])
def test_a_key_is_not_sent_to_another_origin(serve: Serve, own: dict[str, str]) -> None:
    """Nor is the POST repeated there, nor back where it came from."""
    server = serve()
    back = redirect(server.url("/back"), 307)
    other = serve(back)
    hop = redirect(other.url("/there", host="localhost"), 307)
    server._script.extend([reset, hop, reset])
    with pytest.raises(aiohttp.ClientOSError):
        fetch(server.url(), policy(), "POST", data=b"a", headers=own, idempotency_key=True)
    assert keys(other) == [None]
    here = keys(server)
    assert len(here) == 3
    assert here[0] is not None
    assert here[0] == here[1]
    assert here[2] is None


def test_a_key_is_not_sent_anywhere_on_another_origin(serve: Serve) -> None:
    """Nor where that redirects within itself."""
    other = serve(redirect("/on", 307), then=answer(503))
    server = serve(redirect(other.url("/there", host="localhost"), 307))
    fetch(server.url(), policy(), "POST", data=b"a", idempotency_key=True)
    assert keys(other) == [None, None]


def test_a_key_goes_along_within_the_origin(serve: Serve) -> None:
    """The same one: it is one call."""
    server = serve(reset, redirect("/there", 307), reset)
    fetch(server.url(), policy(), "POST", data=b"order", idempotency_key=True)
    assert len(server.requests) == 4
    assert len(set(keys(server))) == 1
    assert keys(server)[0] is not None


def test_no_key_goes_along_with_what_became_a_get(serve: Serve) -> None:
    """After a 303."""
    server = serve(redirect("/there", 303))
    fetch(server.url(), policy(), "POST", data=b"order", idempotency_key=True)
    post, get = keys(server)
    assert post is not None
    assert get is None


# The policy


def test_a_policy_for_each_endpoint_sees_the_request(serve: Serve) -> None:
    """By method and path."""
    server = serve(then=answer(503))
    own = by_endpoint(
        {"GET /users/*": policy(attempts=3), "* /admin/**": policy(attempts=1)},
        default=policy(attempts=2),
    )

    async def main() -> Any:
        counts = []
        async with session(own) as client:
            for path in ("/users/7", "/admin/a/b", "/else"):
                before = len(server.requests)
                await get(client, server.url(path))
                counts.append(len(server.requests) - before)
        return counts

    assert run(main) == [3, 1, 2]


def test_a_budget_for_each_host_sees_the_request(serve: Serve) -> None:
    """One host that is down costs the other nothing."""
    down, up = serve(then=answer(503)), serve(answer(503))
    own = policy(budget=per_host(RatioBudget(reserve=2)), attempts=10)

    async def main() -> Any:
        async with session(own) as client:
            return [await get(client, each.url()) for each in (down, down, up)]

    assert [status for status, _ in run(main)] == [503, 503, 200]
    assert len(down.requests) == 4
    assert len(up.requests) == 2


def test_a_policy_may_be_a_function_of_the_call(serve: Serve) -> None:
    """It sees the request among the arguments, and the session whose call it is."""
    server = serve(then=answer(503))
    seen: list[Any] = []

    def chosen(call: Any) -> RetryPolicy:
        seen.append((call.name, call.args[0].url.path, type(call.instance)))
        return policy(attempts=2)

    fetch(server.url("/path"), chosen)
    assert len(server.requests) == 2
    assert seen == [("ClientSession.request", "/path", aiohttp.ClientSession)]


def test_a_policy_may_be_named(serve: Serve) -> None:
    """By a name that `retrykit.config` knows; looked up at each call."""
    server = serve(then=answer(503))
    register({"two": policy(attempts=2)})
    try:
        fetch(server.url(), "two")
    finally:
        forget("two")
    assert len(server.requests) == 2


def test_custom_statuses_stack_on_top(serve: Serve) -> None:
    """A classifier of the user's own is asked first."""
    server = serve(answer(418), answer(418))
    assert fetch(server.url(), policy(classify=OnStatus(418)), "POST")[0] == 200
    assert len(server.requests) == 3


def test_a_request_brings_its_own_middleware(serve: Serve) -> None:
    """aiohttp's own argument: it takes the place of the session's."""
    server = serve(then=answer(503))

    async def main() -> Any:
        counts = []
        async with session(policy(attempts=3)) as client:
            two = retry_middleware(policy=policy(attempts=2))
            for middlewares in ((two,), ()):
                before = len(server.requests)
                await get(client, server.url(), middlewares=middlewares)
                counts.append(len(server.requests) - before)
        return counts

    assert run(main) == [2, 1]


def test_scopes_hold_for_requests_too(serve: Serve) -> None:
    """`override` lays fields over the policy, `disabled` leaves one attempt, in this task only."""
    server = serve(then=answer(503))
    told = Told()

    async def main() -> Any:
        counts = []
        async with session(policy(attempts=3, listeners=(told,))) as client:
            with override(attempts=2):
                await get(client, server.url())
            counts.append(len(server.requests))
            with disabled():
                await get(client, server.url())
            counts.append(len(server.requests))
            assert type(told.end) is CallFailed
            assert told.end.reason is StopReason.DISABLED
            await get(client, server.url())
            counts.append(len(server.requests))
        return counts

    assert run(main) == [2, 3, 6]


def test_a_foreign_policy_is_asked_and_its_bodies_are_sent_once(serve: Serve) -> None:
    """What cannot be sent again is not, whoever decides."""
    from retrykit import RetryAfter

    class Always:
        def new_executor(self, call: Any) -> Any:
            return self

        def decide(self, attempt: Any) -> Any:
            return RetryAfter(0.0)

    server = serve(then=answer(503))
    with pytest.raises(RetriesExhausted) as caught:
        fetch(server.url(), Always(), "PUT", data=chunks(b"ten bytes!"))
    assert caught.value.reason is StopReason.NOT_REPLAYABLE
    assert len(server.requests) == 1


def test_the_code_inside_sees_the_attempt(serve: Serve) -> None:
    """`current_attempt` in a middleware behind ours: number, what is left, what was before."""
    server = serve(reset, answer(503))
    seen: list[Any] = []

    async def look(request: Any, handler: Any) -> Any:
        attempt = current_attempt()
        remaining = attempt.remaining
        assert remaining is not None
        previous = attempt.previous
        seen.append((attempt.number, 0 < remaining <= 10, repr(previous), attempt.call))
        return await handler(request)

    async def main() -> Any:
        async with session(policy(attempt_timeout=10), inside=(look,)) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert [each[:3] for each in seen] == [
        (1, True, "None"),
        (2, True, "Raised(<ClientOSError>)"),
        (3, True, "Returned(<ClientResponse>)"),
    ]
    assert len({each[3] for each in seen}) == 1


def test_the_code_inside_may_read_what_was_let_go(serve: Serve) -> None:
    """A small body of the attempt before."""
    server = serve(answer(503, body=b"for this reason", chunked=True))
    read: list[bytes] = []

    async def look(request: Any, handler: Any) -> Any:
        previous = current_attempt().previous
        if previous is not None:
            read.append(await previous.value.read())  # type: ignore[union-attr]  # it returned
        return await handler(request)

    async def main() -> Any:
        async with session(policy(), inside=(look,)) as client:
            return await get(client, server.url())

    assert run(main) == (200, b"ok")
    assert read == [b"for this reason"]


def test_events_tell_one_story(serve: Serve) -> None:
    """The same as everywhere."""
    server = serve(reset, answer(503))
    told = Told()
    fetch(server.url(), policy(listeners=(told,)))
    names = [kind.__name__ for kind in told.kinds_told]
    assert names == [
        *["AttemptStarted", "AttemptFailed", "RetryScheduled"] * 2,
        "AttemptStarted",
        "CallSucceeded",
    ]
    assert {event.function for event in told.events} == {"ClientSession.request"}
    assert told.kinds_told[-1] is CallSucceeded


def test_tasks_share_a_middleware(serve: Serve) -> None:
    """Ten at once, each with its own attempts; none takes another's error."""
    server = serve(*[hang_up] * 10)

    async def main() -> Any:
        async with session(policy(attempts=11)) as client:
            return await asyncio.gather(*(get(client, server.url(f"/{n}")) for n in range(10)))

    assert run(main) == [(200, b"ok")] * 10
    assert len(server.requests) == 20


def test_threads_share_a_middleware(serve: Serve) -> None:
    """Each with a session and a loop of its own."""
    server = serve(*[hang_up, answer(503)] * 4)
    middleware = retry_middleware(policy=policy(attempts=20))
    results: list[Any] = []

    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(middleware,)) as client:
            results.extend([await get(client, server.url()) for _ in range(5)])

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(200, b"ok")] * 20
    assert len(server.requests) == 28


# What is said, and what is refused


def test_nothing_secret_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """No query, no user information, no header: in no record of ours."""
    server = serve(then=answer(503))
    url = f"http://user:s3cret@127.0.0.1:{server.port}/path?token=s3cret"

    async def main() -> None:
        loud = policy(attempts=2, listeners=(log_retries,))
        async with session(loud, idempotency_key=True) as client:
            await get(client, url, headers={"X-Key": "s3cret"})
            headers = {"Idempotency-Key": "s3cret"}
            async with client.post(url, headers=headers, data=b"s3cret"):
                pass

    with caplog.at_level(logging.DEBUG, logger="retrykit"):
        run(main)
    ours = [record for record in caplog.records if record.name.startswith("retrykit")]
    assert len(ours) == 4
    for record in ours:
        assert "s3cret" not in record.getMessage()
        assert "s3cret" not in repr(vars(record))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: retry_middleware(policy=3), TypeError, "policy must"),
        (lambda: retry_middleware(policy=RetryPolicy), TypeError, "got the class RetryPolicy"),
        (lambda: retry_middleware(RetryPolicy()), TypeError, "takes its policy by name"),
        (lambda: retry_middleware(read="all"), ValueError, "read must be True, False or 'small'"),
        (lambda: retry_middleware(read=3), ValueError, "got 3"),
        (
            lambda: retry_middleware(idempotency_key="quoted"),
            ValueError,
            "idempotency_key must be True, False or 'bare', got 'quoted'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_made(
    make: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    """With the name of what is wrong."""
    with pytest.raises(kind, match=text):
        make()


def test_a_session_that_was_closed_says_so(serve: Serve) -> None:
    """aiohttp's own error, at once."""
    server = serve()

    async def main() -> None:
        async with session(policy()) as client:
            await get(client, server.url())
        with pytest.raises(RuntimeError, match="closed"):
            await client.get(server.url())

    run(main)
    assert len(server.requests) == 1


def test_no_error_keeps_itself_alive(refused: str) -> None:
    """With the collector off, the locals of every attempt are freed with the error."""

    class Mine(ConnectionError):
        pass

    class Marker:
        pass

    seen: list[weakref.ref[Marker]] = []

    async def failing(request: Any, handler: Any) -> Any:
        marker = Marker()
        seen.append(weakref.ref(marker))
        raise Mine

    async def main() -> None:
        async with session(policy(attempts=3), inside=(failing,)) as client:
            with suppress(aiohttp.ClientOSError):  # what aiohttp makes of it
                await client.get(refused)

    gc.collect()
    gc.disable()
    try:
        run(main)
        alive = [marker() for marker in seen]
    finally:
        gc.enable()
    assert alive == [None] * 3


def test_nothing_is_said_of_an_unclosed_response(serve: Serve) -> None:
    """In asyncio's debug mode, where aiohttp tells of what nobody closed."""
    server = serve(answer(503, body=BIG), reset, truncated(), answer(503))

    async def main() -> Any:
        asyncio.get_running_loop().set_debug(True)
        async with session(policy(), read=True) as client:
            return await get(client, server.url())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(main) == (200, b"ok")
        gc.collect()


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


def test_a_missing_aiohttp_is_named_with_its_extra() -> None:
    """The message tells what to install; `retrykit.http` does without."""
    program = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "aiohttp":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import retrykit.http
try:
    import retrykit.http.aiohttp
except ImportError as error:
    print(error)
"""
    expected = "retrykit.http.aiohttp needs aiohttp: install retrykit with the extra [aiohttp]"
    assert fresh(program) == expected


def test_the_example_of_a_session(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call comes to its end, over all that fails; what may have been done is done once."""
    json_type = {"Content-Type": "application/json"}
    server = serve(
        reset,
        truncated(headers=json_type),
        answer(200, json_type, b'{"name": "Ada"}'),
        hang_up,
        answer(503),
        answer(201, json_type, b'{"number": 17}'),
        early(answer(503)),
        reset,
        answer(201),
        answer(503),
        *[answer(503, body=BIG)] * 5,
        answer(body=b"line\n" * 100_000, chunked=True),
        answer(429, {"Retry-After": "3600"}),
    )
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "aiohttp_client.py"))
    with override(clock=Looking(lambda: None)):
        asyncio.run(example["main"](server.url("")))
    assert capsys.readouterr().out == (
        "user: Ada\n"
        "order: 17\n"
        "upload: 201\n"
        "health: 503\n"
        "report: 100000 lines\n"
        "limited: come back in 3600 s\n"
    )
    orders = [request for request in server.requests if request.target == "/orders"]
    assert len(orders) == 3
    assert len({request.header("Idempotency-Key") for request in orders}) == 1
    uploads = [request for request in server.requests if request.target == "/files/1"]
    assert [request.body for request in uploads][1:] == [b"x" * 300_000] * 2
