"""The pool managers for urllib3: real pools against real servers, nothing of either replaced."""

from __future__ import annotations

import gzip
import io
import mmap
import runpy
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
from servers import (
    Exchange,
    OnAccept,
    RawServer,
    Serve,
    Step,
    answer,
    endless,
    hang_up,
    junk_status_line,
    raw,
    redirect,
    reset,
    stall,
    truncated,
    unread,
)
from urllib3.exceptions import (
    DecodeError,
    EmptyPoolError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
    UnrewindableBodyError,
)
from urllib3.util import Retry, Timeout

from retrykit import (
    Constant,
    OnResult,
    RatioBudget,
    RetriesExhausted,
    RetryPolicy,
    ServerDelay,
    StopReason,
    disabled,
    override,
    retry,
)
from retrykit.events import CallFailed, CallGaveUp, Event, RetryScheduled
from retrykit.http import OnStatus, by_endpoint, http_policy, per_host
from retrykit.http.urllib3 import Request, RetryPoolManager, RetryProxyManager
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Generator, Iterator

    from retrykit.outcome import Attempt, Call

LONG = 5.0
"""A timeout that only a hang meets, in seconds."""
QUICK = http_policy(attempts=3, backoff=Constant(0), listeners=())
LARGE = b"x" * 200_000
KEY = "Idempotency-Key"
ONE = {"maxsize": 1, "block": True}
"""A pool with one connection, whose users wait for it."""


class Open:
    """Opens managers that are closed with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, *args: Any, kind: Any = RetryPoolManager, **options: Any) -> Any:
        return self._stack.enter_context(kind(*args, **{"policy": QUICK, **options}))


@pytest.fixture
def open_pool() -> Generator[Open]:
    with ExitStack() as stack:
        yield Open(stack)


class Told(list[Event]):
    """A listener that remembers."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def retries(self) -> int:
        return sum(isinstance(event, RetryScheduled) for event in self)

    def end(self) -> StopReason | None:
        return next(e.reason for e in self if isinstance(e, (CallFailed, CallGaveUp)))


def free(pool: RetryPoolManager, server: RawServer) -> int:
    """How many connections of the server's pool nobody holds."""
    slots: Any = pool.connection_from_url(server.url()).pool
    free: int = slots.qsize()
    return free


# What is retried


@pytest.mark.parametrize(
    "fault",
    [
        reset,
        hang_up,
        OnAccept(reset),
        junk_status_line,
        answer(500),
        answer(502),
        answer(503),
        answer(504),
        answer(429),
        answer(408),
        answer(425),
        truncated(),
        truncated(end=reset),
        truncated(b""),
        truncated(chunked=True),
        truncated(b"x" * 100, chunked=True),
        truncated(status=404),
        truncated(status=503),
    ],
)
def test_a_get_is_saved_by_its_third_attempt(fault: Step, serve: Serve, open_pool: Open) -> None:
    """Whatever passes: resets, error statuses, bodies that break off."""
    server = serve(fault, fault, answer(body=b"fine"))
    response = open_pool().request("GET", server.url("/a?b=c"), timeout=LONG)
    assert (response.status, response.data) == (200, b"fine")
    assert server.steps_taken == 3


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "QUERY"])
def test_idempotent_methods_are_retried(method: str, serve: Serve, open_pool: Open) -> None:
    """QUERY too, which has a body and which urllib3 does not know."""
    server = serve(reset, answer(503), answer())
    response = open_pool().request(method, server.url(), timeout=LONG)
    assert response.status == 200
    assert [request.method for request in server.requests] == [method] * 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "LOCK", "BREW"])
@pytest.mark.parametrize(
    "fault", [reset, hang_up, truncated(), truncated(status=503), answer(500), answer(503)]
)
def test_what_may_have_been_done_is_not_done_twice(
    method: str, fault: Step, serve: Serve, open_pool: Open
) -> None:
    """A request that is not idempotent and that the server may have taken (urllib3#1059)."""
    server = serve(fault, answer())
    try:
        status = open_pool().request(method, server.url(), timeout=LONG).status
    except ProtocolError:
        status = 0
    assert status in (0, 500, 503)
    assert len(server.requests) == 1


@pytest.mark.parametrize("refusal", [429, 425, 421])
def test_a_post_that_was_refused_unprocessed_is_sent_again(
    refusal: int, serve: Serve, open_pool: Open
) -> None:
    """The answer says that nothing was done."""
    server = serve(answer(refusal), answer(201))
    assert open_pool().request("POST", server.url(), body=b"x").status == 201
    assert [request.body for request in server.requests] == [b"x", b"x"]


def test_a_post_that_never_left_is_sent_again(refused: str, open_pool: Open) -> None:
    """Connection refused: three attempts, whatever the method."""
    told = Told()
    pool = open_pool(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(NewConnectionError) as caught:
        pool.request("POST", refused, body=b"x", timeout=LONG)
    assert told.retries() == 2
    assert "3 attempts" in caught.value.__notes__[0]


def test_a_post_whose_connection_timed_out_is_sent_again(unaccepting: str, open_pool: Open) -> None:
    """A connect timeout: the request never left."""
    told = Told()
    pool = open_pool(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(urllib3.exceptions.ConnectTimeoutError):
        pool.request("POST", unaccepting, body=b"x", timeout=Timeout(connect=0.05))
    assert told.retries() == 2


def test_a_post_that_found_no_connection_is_sent_again(serve: Serve, open_pool: Open) -> None:
    """The pool's only one is held elsewhere; its wait is limited by what remains too."""
    told = Told()
    server = serve(truncated(end=stall(LONG)))
    pool = open_pool(policy=QUICK.replace(listeners=(told,), attempt_timeout=0.05), **ONE)
    held = pool.request("GET", server.url(), preload_content=False)
    with pytest.raises(EmptyPoolError):
        pool.request("POST", server.url(), body=b"x")
    with pytest.raises(EmptyPoolError):
        pool.request("POST", server.url(), body=b"x", pool_timeout=0.01, retrykit=None)
    assert told.retries() == 2
    held.close()
    held.release_conn()


def test_a_post_whose_answer_timed_out_is_not(serve: Serve, open_pool: Open) -> None:
    """A read timeout: the work may be under way."""
    server = serve(then=stall(LONG))
    with pytest.raises(ReadTimeoutError):
        open_pool().request("POST", server.url(), body=b"x", timeout=0.1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [stall(LONG), truncated(end=stall(LONG))])
def test_a_get_that_timed_out_is(fault: Step, serve: Serve, open_pool: Open) -> None:
    """Before the headers or in the body."""
    server = serve(fault, answer(body=b"whole"))
    assert open_pool().request("GET", server.url(), timeout=0.1).data == b"whole"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501, 505, 507])
def test_final_answers_are_handed_over_at_once(status: int, serve: Serve, open_pool: Open) -> None:
    """Body and all."""
    server = serve(then=answer(status, body=b"why"))
    response = open_pool().request("GET", server.url())
    assert (response.status, response.data) == (status, b"why")
    assert len(server.requests) == 1


def test_a_bad_certificate_is_final(
    serve: Serve, server_tls: ssl.SSLContext, open_pool: Open
) -> None:
    """urllib3 by itself would ask again, even with POST."""
    told = Told()
    pool = open_pool(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(SSLError):
        pool.request("GET", serve(tls=server_tls).url(), timeout=LONG)
    assert told.retries() == 0


@pytest.mark.parametrize("limit", [None, LONG])
def test_over_tls(
    limit: float | None,
    serve: Serve,
    server_tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
    open_pool: Open,
) -> None:
    """The same over HTTPS."""
    server = serve(answer(503), truncated(), answer(body=b"fine"), tls=server_tls)
    pool = open_pool(policy=QUICK.replace(attempt_timeout=limit), ssl_context=client_tls)
    assert pool.request("GET", server.url(), timeout=LONG).data == b"fine"


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(status: int, serve: Serve, open_pool: Open) -> None:
    """There is nothing to read, and nothing hangs."""
    server = serve(answer(503), answer(status))
    response = open_pool().request("GET", server.url(), timeout=LONG)
    assert (response.status, response.data) == (status, b"")


@pytest.mark.parametrize(("method", "requested"), [("PUT", 3), ("POST", 1)], ids=["PUT", "POST"])
def test_an_upload_that_breaks_off(
    method: str, requested: int, serve: Serve, open_pool: Open
) -> None:
    """While the request is written, nobody knows what of it arrived."""
    server = serve(unread(reset), unread(reset), answer())
    try:
        status = open_pool().request(method, server.url(), body=bytes(3_000_000)).status
    except ProtocolError:
        status = 0
    assert (status, server.steps_taken) == (200 if method == "PUT" else 0, requested)


# Bodies that are sent


class Again:
    """An iterable that can be gone through as often as one likes."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"a file"
        yield b" of bytes"


class Once:
    """An iterable that says nothing of it, and can be gone through only once."""

    def __init__(self) -> None:
        self._pieces = iter([b"a file", b" of bytes"])

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


class Pipe:
    """A file that cannot be rewound."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)


class TextPipe:
    """The same, of text."""

    def __init__(self, content: str) -> None:
        self._inner = io.StringIO(content)

    def read(self, size: int = -1) -> str:
        return self._inner.read(size)


def generator() -> Generator[bytes]:
    yield b"a file"
    yield b" of bytes"


def mapped() -> mmap.mmap:
    memory = mmap.mmap(-1, 15)
    memory[:] = b"a file of bytes"
    return memory


def at_6() -> io.BytesIO:
    file = io.BytesIO(b"skip, a file of bytes")
    file.seek(6)
    return file


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"a file of bytes",
        lambda: "a file of bytes",
        lambda: bytearray(b"a file of bytes"),
        lambda: memoryview(b"a file of bytes"),
        lambda: io.BytesIO(b"a file of bytes"),
        lambda: io.StringIO("a file of bytes"),
        at_6,
        mapped,
        Again,
    ],
    ids=[
        "bytes",
        "str",
        "bytearray",
        "view",
        "file",
        "text file",
        "file at an offset",
        "mapped",
        "iterable",
    ],
)
@pytest.mark.parametrize("fault", [answer(503), reset, truncated()])
def test_a_body_is_sent_whole_again(
    make: Callable[[], Any], fault: Step, serve: Serve, open_pool: Open
) -> None:
    """A file from where it stood before the first attempt (urllib3#2982)."""
    server = serve(fault, fault, answer())
    assert open_pool().request("PUT", server.url(), body=make()).status == 200
    assert [request.body for request in server.requests] == [b"a file of bytes"] * 3


@pytest.mark.parametrize(
    "body",
    [
        {"fields": {"name": "value"}},
        {"fields": {"name": "value"}, "encode_multipart": False},
        {"fields": {"upload": ("name.txt", b"value", "text/plain")}},
        {"json": {"name": "value"}},
    ],
    ids=["multipart", "form", "file", "json"],
)
def test_forms_are_sent_alike(body: dict[str, Any], serve: Serve, open_pool: Open) -> None:
    """The same bytes, a multipart boundary included."""
    server = serve(answer(503), reset, answer())
    open_pool().request("PUT", server.url(), **body)
    first, *others = server.requests
    assert b"value" in first.body
    assert [(each.body, each.headers) for each in others] == [(first.body, first.headers)] * 2


@pytest.mark.parametrize(
    "make",
    [
        generator,
        lambda: Pipe(b"a file of bytes"),
        lambda: TextPipe("a file of bytes"),
        lambda: iter([b"a file", b" of bytes"]),
    ],
    ids=["generator", "pipe", "text pipe", "iterator"],
)
def test_a_body_that_is_used_up_is_sent_once(
    make: Callable[[], Any], serve: Serve, open_pool: Open
) -> None:
    """The response comes back as it is; nothing empty is sent after it (urllib3 sent that)."""
    told = Told()
    server = serve(then=answer(503, body=b"busy"))
    pool = open_pool(policy=QUICK.replace(listeners=(told,)))
    response = pool.request("PUT", server.url(), body=make())
    assert (response.status, response.data) == (503, b"busy")
    assert [request.body for request in server.requests] == [b"a file of bytes"]
    assert told.end() is StopReason.NOT_REPLAYABLE


def test_the_original_failure_surfaces_with_advice(serve: Serve, open_pool: Open) -> None:
    """The error of the only attempt, with a note that says why there was no other."""
    server = serve(then=reset)
    with pytest.raises(ProtocolError) as caught:
        open_pool().request("PUT", server.url(), body=generator())
    assert "not_replayable" in caught.value.__notes__[0]
    assert len(server.requests) == 1


def test_a_body_that_was_not_begun_is_still_there(refused: str, open_pool: Open) -> None:
    """Refused connections take nothing from a generator."""
    told = Told()
    body = generator()
    with pytest.raises(NewConnectionError):
        open_pool(policy=QUICK.replace(listeners=(told,))).request("PUT", refused, body=body)
    assert told.retries() == 2
    assert b"".join(body) == b"a file of bytes"


def test_a_file_that_is_closed_is_not_sent_again(serve: Serve, open_pool: Open) -> None:
    """The original answer is handed over, not an error about the file."""
    file = io.BytesIO(b"content")

    def close(attempt: Attempt) -> None:
        file.close()

    server = serve(then=answer(503))
    pool = open_pool(policy=http_policy(classify=close, backoff=Constant(0)))
    assert pool.request("PUT", server.url(), body=file).status == 503
    assert len(server.requests) == 1


def test_a_body_that_ends_sooner_is_never_taken_for_the_whole(
    serve: Serve, open_pool: Open
) -> None:
    """An iterable that is secretly used up: the server sees no complete empty request."""
    server = serve(then=answer(503))
    with pytest.raises(UnrewindableBodyError):
        open_pool().request("PUT", server.url(), body=Once())
    complete = [request.body for request in server.requests if request.complete]
    assert complete == [b"a file of bytes"]


# Responses that are let go


@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize("body", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_pool_of_one_does_not_run_dry(
    preload: bool, body: bytes, serve: Serve, open_pool: Open
) -> None:
    """Error bodies of any size, the only connection free each time (urllib3#1167, #644)."""
    server = serve(answer(503, body=body), answer(503, body=body), answer(body=LARGE))
    pool = open_pool(**ONE)
    response = pool.request("GET", server.url(), preload_content=preload, pool_timeout=LONG)
    assert response.data == LARGE
    assert free(pool, server) == 1


@pytest.mark.parametrize("preload", [True, False])
def test_a_small_error_keeps_its_connection(preload: bool, serve: Serve, open_pool: Open) -> None:
    """Its body is read, so that the next attempt goes over the same one."""
    server = serve(answer(503, body=b"small"), answer(503, body=b"small", chunked=True), answer())
    _ = open_pool().request("GET", server.url(), preload_content=preload).data
    assert server.connections == 1


def test_a_large_error_that_is_streamed_is_not_read_through(serve: Serve, open_pool: Open) -> None:
    """A new connection costs less."""
    server = serve(answer(503, body=LARGE), answer())
    open_pool().request("GET", server.url(), preload_content=False).drain_conn()
    assert server.connections == 2


@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize("body", [b"", b"not here"])
def test_a_misdirected_request_goes_over_another_connection(
    preload: bool, body: bytes, serve: Serve, open_pool: Open
) -> None:
    """421 asks for that (RFC 9110 section 15.5.20); the last answer is readable all the same."""
    server = serve(answer(421, body=body), answer(421, body=body), answer(421, body=b"never"))
    pool = open_pool(**ONE)
    assert pool.request("GET", server.url(), preload_content=preload).data == b"never"
    assert server.connections == 3
    assert free(pool, server) == 1


@pytest.mark.parametrize("preload", [True, False])
def test_an_endless_error_is_cut_short(preload: bool, serve: Serve, open_pool: Open) -> None:
    """Little is read of it, then its connection is closed (GHSA-38jv-5279-wg99)."""
    server = serve(endless(503), answer(body=b"fine"))
    pool = open_pool(**ONE)
    response = pool.request("GET", server.url(), preload_content=preload, pool_timeout=LONG)
    assert response.data == b"fine"
    assert server.sent < 8_000_000


def test_a_stalled_error_is_not_waited_for(serve: Serve, open_pool: Open) -> None:
    """The status decides; the rest of a streamed error gets a second, whatever the timeout."""
    server = serve(truncated(status=503, end=stall(60)), answer(body=b"fine"))
    began = time.monotonic()
    response = open_pool().request("GET", server.url(), preload_content=False, timeout=60)
    assert response.data == b"fine"
    assert time.monotonic() - began < 3


class Watching(VirtualClock):
    """Notes how many connections are free at each wait."""

    def __init__(self, look: Callable[[], int]) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._look = look

    def sleep(self, seconds: float, /) -> None:
        self.seen.append(self._look())
        super().sleep(seconds)


@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize(
    "fault",
    [answer(503, body=LARGE), answer(503, body=b"x"), truncated(status=503), reset, endless(503)],
)
def test_the_connection_is_free_before_the_wait(
    preload: bool, fault: Step, serve: Serve, open_pool: Open
) -> None:
    """Not after it (kiota-python#564)."""
    server = serve(fault, fault, answer(body=b"fine"))
    clock = Watching(lambda: free(pool, server))
    pool = open_pool(policy=QUICK.replace(clock=clock, backoff=Constant(10)), **ONE)
    response = pool.request("GET", server.url(), preload_content=preload, timeout=LONG)
    assert clock.seen == [1, 1]
    assert response.data == b"fine"
    assert free(pool, server) == 1


@pytest.mark.parametrize("moment", ["wait", "decision"])
def test_an_interrupt_leaves_nothing_behind(moment: str, serve: Serve, open_pool: Open) -> None:
    """Nobody else has the response then."""

    class Interrupting(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            raise KeyboardInterrupt

    def interrupt(attempt: Attempt) -> None:
        raise KeyboardInterrupt

    server = serve(answer(503, body=LARGE))
    policy = QUICK.replace(clock=Interrupting())
    if moment == "decision":
        policy = policy.replace(classify=interrupt)
    pool = open_pool(policy=policy, **ONE)
    with pytest.raises(KeyboardInterrupt):
        pool.request("GET", server.url(), preload_content=False)
    assert free(pool, server) == 1


def test_a_classifier_that_raises_costs_the_retries_only(
    serve: Serve, open_pool: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """The response is handed over, and readable."""

    def broken(attempt: Attempt) -> None:
        raise ZeroDivisionError

    server = serve(then=answer(503, body=b"busy"))
    pool = open_pool(policy=http_policy(classify=broken, listeners=()))
    assert pool.request("GET", server.url()).data == b"busy"
    assert len(server.requests) == 1
    assert "its classifier failed" in caplog.text


@pytest.mark.parametrize("preload", [True, False])
def test_a_classifier_may_read_the_body(preload: bool, serve: Serve, open_pool: Open) -> None:
    """It stays there for the caller."""
    server = serve(answer(200, body=b"pending"), answer(200, body=b"done"))
    policy = QUICK.replace(classify=OnResult(lambda response: response.data == b"pending"))
    pool = open_pool(policy=policy)
    assert pool.request("GET", server.url(), preload_content=preload).data == b"done"


def test_a_quota_that_is_gone_for_good_is_final(serve: Serve, open_pool: Open) -> None:
    """`unless` looks into the body."""
    policy = http_policy(unless=lambda response: b"quota" in response.data, backoff=Constant(0))
    server = serve(then=answer(429, body=b"quota exceeded"))
    assert open_pool(policy=policy).request("GET", server.url()).data == b"quota exceeded"
    assert len(server.requests) == 1


def test_a_classifier_leaves_a_streamed_body_alone(serve: Serve, open_pool: Open) -> None:
    """Status and headers are looked at only (urllib3 GHSA-38jv-5279-wg99)."""
    server = serve(answer(503), answer(body=LARGE))
    response = open_pool().request("GET", server.url(), preload_content=False)
    assert response.tell() == 0
    assert b"".join(response.stream(1000)) == LARGE


def test_a_streamed_response_is_committed(serve: Serve, open_pool: Open) -> None:
    """What happens to its body is the reader's."""
    server = serve(answer(503), truncated(), answer())
    response = open_pool().request("GET", server.url(), preload_content=False)
    with pytest.raises(ProtocolError):
        response.read()
    assert len(server.requests) == 2


def test_a_large_error_that_is_final_is_handed_over_whole(serve: Serve, open_pool: Open) -> None:
    """Its beginning, which was read before the decision, included."""
    body = bytes(range(256)) * 20_000
    server = serve(then=answer(404, body=body))
    pool = open_pool(**ONE)
    assert pool.request("GET", server.url()).data == body
    assert free(pool, server) == 1


def spoilt() -> bytes:
    """A compressed body of 2 MB that is fine for three quarters."""
    random = Random(1)
    packed = bytearray(gzip.compress(random.randbytes(1_000_000).hex().encode(), 1))
    rest = len(packed) // 4
    packed[-rest:] = random.randbytes(rest)
    return bytes(packed)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (truncated(b"x" * 3_000_000, 4_000_000, status=404), ProtocolError),
        (answer(200, {"Content-Encoding": "gzip"}, b"not gzip" + LARGE), DecodeError),
        (answer(404, {"Content-Encoding": "gzip"}, b"not gzip" + LARGE), DecodeError),
        (answer(404, {"Content-Encoding": "gzip"}, spoilt()), DecodeError),
    ],
    ids=["breaks off late", "no gzip", "an error, and no gzip", "spoilt late"],
)
def test_an_unreadable_body_is_an_error_and_no_leak(
    fault: Step, error: type[Exception], serve: Serve, open_pool: Open
) -> None:
    """urllib3 keeps the connection of a body that it could not decode."""
    server = serve(then=fault)
    pool = open_pool(**ONE)
    with pytest.raises(error) as caught:
        pool.request("GET", server.url(), timeout=LONG)
    assert caught.tb is not None  # it holds the response, which nothing else closes then
    assert free(pool, server) == 1


@pytest.mark.parametrize("release", [True, False, None])
def test_a_connection_is_released_when_its_body_is_read(
    release: bool | None, serve: Serve, open_pool: Open
) -> None:
    """And not sooner, whatever urllib3 was told: another thread would read from it."""
    seen: list[int] = []

    def halfway(exchange: Exchange) -> None:
        exchange.read()
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        exchange.wait(0.1)
        seen.append(free(pool, server))
        exchange.send(b"half")

    server = serve(answer(503, body=LARGE), then=halfway)
    pool = open_pool(**ONE)
    assert pool.request("GET", server.url(), release_conn=release).data == b"halfhalf"
    assert seen == [0]
    assert free(pool, server) == 1


# The end


@pytest.mark.parametrize("preload", [True, False])
def test_the_last_response_is_handed_over_readable(
    preload: bool, serve: Serve, open_pool: Open
) -> None:
    """Status, headers and body (go-retryablehttp#156)."""
    server = serve(then=answer(503, {"X-Why": "tired"}, LARGE))
    response = open_pool().request("GET", server.url(), preload_content=preload)
    assert (response.status, response.headers["X-Why"]) == (503, "tired")
    assert response.data == LARGE
    assert len(server.requests) == 3


def test_the_last_error_is_raised_itself(serve: Serve, open_pool: Open) -> None:
    """In no `MaxRetryError`, with a note."""
    server = serve(then=reset)
    with pytest.raises(ProtocolError) as caught:
        open_pool().request("GET", server.url())
    assert len(server.requests) == 3
    (note,) = caught.value.__notes__
    assert note.startswith("retrykit: RetryPoolManager.urlopen gave up after 3 attempts")


def test_a_policy_may_have_it_raised(serve: Serve, open_pool: Open) -> None:
    """`unsatisfied="raise"`: the error carries the last response, readable."""
    server = serve(then=answer(503, body=LARGE))
    pool = open_pool(policy=QUICK.replace(unsatisfied="raise"))
    with pytest.raises(RetriesExhausted) as caught:
        pool.request("GET", server.url())
    assert caught.value.value.data == LARGE


def test_a_response_let_go_stays_readable_if_the_wait_was_the_end(
    serve: Serve, open_pool: Open
) -> None:
    """`stop_when` said stop in the wait: the last response stands, its small body kept."""
    stop = threading.Event()

    class Stopping(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            stop.set()

    server = serve(then=answer(503, body=b"busy"))
    pool = open_pool(policy=QUICK.replace(stop_when=stop, clock=Stopping()))
    response = pool.request("GET", server.url(), preload_content=False)
    assert (response.status, response.data) == (503, b"busy")


@pytest.mark.parametrize("body", [LARGE, b"busy"])
@pytest.mark.parametrize("framing", [{}, {"chunked": True}])
def test_a_response_let_go_is_never_half_of_one(
    body: bytes, framing: dict[str, bool], serve: Serve, open_pool: Open
) -> None:
    """Nothing is there of a body that was too large to be kept, or read in part by a classifier."""
    stop = threading.Event()

    class Stopping(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            stop.set()

    def look(attempt: Attempt) -> None:
        if body != LARGE:
            assert next(attempt.value.stream(2)) == b"bu"

    server = serve(then=answer(503, body=body, **framing))
    policy = http_policy(classify=look, stop_when=stop, clock=Stopping(), listeners=())
    pool = open_pool(policy=policy, **ONE)
    response = pool.request("GET", server.url(), preload_content=False)
    assert (response.status, response.data) == (503, b"")
    assert free(pool, server) == 1


# Waits


def test_retry_after_is_honoured(serve: Serve, open_pool: Open) -> None:
    """Never sooner than asked."""
    clock = VirtualClock()
    server = serve(answer(429, {"Retry-After": "7"}), answer(503, {"Retry-After": "9"}), answer())
    assert open_pool(policy=QUICK.replace(clock=clock)).request("GET", server.url()).status == 200
    first, second = clock.sleeps
    assert 7 <= first <= 8
    assert 9 <= second <= 10


@pytest.mark.parametrize("value", ["3600", "1" * 5000])
def test_a_retry_after_over_the_limit_ends_the_call(
    value: str, serve: Serve, open_pool: Open
) -> None:
    """At once, with the response that says so: urllib3 raises over the second, or sleeps."""
    clock = VirtualClock()
    server = serve(then=answer(429, {"Retry-After": value}, b"later"))
    response = open_pool(policy=QUICK.replace(clock=clock)).request("POST", server.url())
    assert (response.status, response.data) == (429, b"later")
    assert clock.sleeps == []


@pytest.mark.parametrize("value", ["1.5", "soon", "", "-1"])
def test_an_odd_retry_after_harms_nobody(value: str, serve: Serve, open_pool: Open) -> None:
    """urllib3 raises `InvalidHeader`."""
    clock = VirtualClock()
    server = serve(answer(503, {"Retry-After": value}), answer())
    assert open_pool(policy=QUICK.replace(clock=clock)).request("GET", server.url()).status == 200


def test_the_presets_policy(serve: Serve, open_pool: Open) -> None:
    """Without a policy: `http_policy()`, under which a second attempt follows a reset."""
    server = serve(reset, answer())
    assert open_pool(policy=None).request("GET", server.url()).status == 200


# Time limits


class Recording(urllib3.HTTPConnectionPool):
    """Notes what its attempts are handed."""

    def urlopen(self, *args: Any, **options: Any) -> Any:
        handed.append(options)
        return super().urlopen(*args, **options)


class Recorded(RetryPoolManager):
    """A manager over a pool class of a user's own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        original = self.pool_classes_by_scheme["http"]
        self.pool_classes_by_scheme["http"] = type("Pool", (original, Recording), {})


handed: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    handed.clear()


DEFAULT = Timeout.DEFAULT_TIMEOUT


@pytest.mark.parametrize(
    ("own", "connect", "read"),
    [
        ({}, 8.0, 9.0),
        ({"timeout": DEFAULT}, 8.0, 9.0),
        ({"timeout": None}, None, None),
        ({"timeout": 2.0}, 2.0, 2.0),
        ({"timeout": Timeout(connect=1.0, read=4.0)}, 1.0, 4.0),
        ({"timeout": Timeout(total=30.0)}, DEFAULT, DEFAULT),
    ],
)
def test_what_remains_becomes_the_timeout(
    own: dict[str, Any], connect: Any, read: Any, serve: Serve, open_pool: Open
) -> None:
    """The caller's own or the pool's is kept, and no attempt gets more than is left."""
    clock = VirtualClock()
    server = serve(answer(503), answer(503), answer())
    policy = QUICK.replace(clock=clock, backoff=Constant(3), deadline=10, attempt_timeout=6)
    pool = open_pool(kind=Recorded, policy=policy, timeout=Timeout(connect=8.0, read=9.0))
    pool.request("GET", server.url(), pool_timeout=5.0, **own)
    assert [each["timeout"].total for each in handed] == [6.0, 6.0, 4.0]
    assert [each["pool_timeout"] for each in handed] == [5.0, 5.0, 4.0]
    assert {(each["timeout"]._connect, each["timeout"]._read) for each in handed} == {
        (connect, read)
    }


def test_without_a_limit_the_timeouts_are_untouched(serve: Serve, open_pool: Open) -> None:
    """They are the caller's very own objects."""
    own = Timeout(total=3.0)
    open_pool(kind=Recorded).request("GET", serve().url(), timeout=own)
    assert handed[0]["timeout"] is own
    assert handed[0]["pool_timeout"] is None


def test_what_remains_is_never_zero(serve: Serve, open_pool: Open) -> None:
    """Clients read zero as an error, or as no timeout at all (python-api-core#776)."""
    policy = QUICK.replace(clock=VirtualClock(), backoff=Constant(4.999999999), deadline=5)
    with pytest.raises(urllib3.exceptions.TimeoutError):
        open_pool(kind=Recorded, policy=policy).request("GET", serve(then=answer(503)).url())
    assert [each["timeout"].total for each in handed] == [5.0, 1e-6]


def test_the_attempt_timeout_cuts_a_stall(serve: Serve, open_pool: Open) -> None:
    """Without a timeout of the caller's own."""
    server = serve(stall(LONG), answer(body=b"fine"))
    pool = open_pool(policy=QUICK.replace(attempt_timeout=0.2))
    assert pool.request("GET", server.url()).data == b"fine"


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("status", [200, 404])
def test_the_attempt_timeout_cuts_a_body_that_drips(
    status: int, keep_alive: bool, serve: Serve, open_pool: Open
) -> None:
    """Each byte comes in time, the body does not."""
    slow = answer(status, body=b"x" * 100, drip=0.05, keep_alive=keep_alive)
    server = serve(slow, answer(body=b"fine"))
    pool = open_pool(policy=QUICK.replace(attempt_timeout=0.3))
    began = time.monotonic()
    assert pool.request("GET", server.url()).data == b"fine"
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("limit", [None, LONG])
@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("options", [{}, {"chunked": True}, {"keep_alive": False}])
def test_a_body_is_read_as_urllib3_reads_it(
    limit: float | None, status: int, options: dict[str, bool], serve: Serve, open_pool: Open
) -> None:
    """In every framing, compressed or not, decoded or not."""
    plain = bytes(range(256)) * 4000
    packed = gzip.compress(plain, mtime=0)
    zipped = {"Content-Encoding": "gzip"}
    server = serve(
        answer(503, zipped, packed, **options),
        answer(status, zipped, packed, **options),
        answer(status, (), plain, **options),
        answer(status, zipped, packed, **options),
    )
    pool = open_pool(policy=QUICK.replace(attempt_timeout=limit))
    url = server.url()
    assert pool.request("GET", url).data == plain
    assert pool.request("GET", url).data == plain
    assert pool.request("GET", url, decode_content=False).data == packed


def test_answers_that_end_oddly_are_read_in_time(serve: Serve, open_pool: Open) -> None:
    """One without a length, one without a body, one to HEAD."""
    unframed = raw(b"HTTP/1.1 200 OK\r\n\r\nto the end")
    server = serve(unframed, answer(204), answer(404, body=b"x"))
    pool = open_pool(policy=QUICK.replace(attempt_timeout=LONG))
    assert pool.request("GET", server.url()).data == b"to the end"
    assert pool.request("GET", server.url()).data == b""
    assert pool.request("HEAD", server.url()).data == b""


@pytest.mark.parametrize("framing", [{}, {"chunked": True}])
def test_a_body_that_breaks_off_under_a_time_limit(
    framing: dict[str, bool], serve: Serve, open_pool: Open
) -> None:
    """It is noticed there as well."""
    server = serve(truncated(**framing), truncated(**framing), answer(body=b"fine"))
    pool = open_pool(policy=QUICK.replace(attempt_timeout=LONG))
    assert pool.request("GET", server.url()).data == b"fine"


def test_an_outer_deadline_is_heeded(serve: Serve, open_pool: Open) -> None:
    """A call within another retried one has no more time than that."""
    server = serve(then=stall(LONG))
    pool = open_pool()

    @retry(policy=RetryPolicy(attempts=1, deadline=0.2))
    def fetch() -> Any:
        return pool.request("GET", server.url())

    began = time.monotonic()
    with pytest.raises(ReadTimeoutError):
        fetch()
    assert time.monotonic() - began < 2


def slow_ending(exchange: Exchange) -> None:
    """Headers and half of the body at once, the rest later than the attempt may last."""
    exchange.read()
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
    exchange.wait(0.5)
    exchange.send(b"half")


def test_a_streamed_response_has_the_callers_time(serve: Serve, open_pool: Open) -> None:
    """Once it is handed over, the attempt is over, and so is its limit."""
    server = serve(then=slow_ending)
    pool = open_pool(policy=QUICK.replace(attempt_timeout=0.25))
    response = pool.request("GET", server.url(), preload_content=False, timeout=LONG)
    assert response.read() == b"halfhalf"


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("preload", [True, False])
def test_a_redirect_uses_up_no_attempts(
    status: int, preload: bool, serve: Serve, open_pool: Open
) -> None:
    """Each step of the way has all of them."""
    busy = answer(503)
    server = serve(busy, busy, redirect("/b", status), busy, busy, answer(body=b"there"))
    response = open_pool().request("GET", server.url("/a"), preload_content=preload)
    assert (response.status, response.data) == (200, b"there")
    assert [request.target for request in server.requests] == ["/a"] * 3 + ["/b"] * 3
    assert response.geturl() == "/b"
    assert [each.redirect_location for each in response.retries.history] == ["/b"]


def test_a_redirected_file_is_rewound(serve: Serve, open_pool: Open) -> None:
    """urllib3 by itself sends nothing after the redirect."""
    server = serve(answer(429), redirect("/b", 307), answer(429), answer(201))
    response = open_pool().request("POST", server.url("/a"), body=at_6())
    assert response.status == 201
    assert [request.body for request in server.requests] == [b"a file of bytes"] * 4


def test_a_body_that_is_used_up_is_not_redirected(serve: Serve, open_pool: Open) -> None:
    """urllib3 by itself sends an empty one, and the server says 200."""
    server = serve(redirect("/b", 307))
    with pytest.raises(UnrewindableBodyError):
        open_pool().request("PUT", server.url("/a"), body=generator())
    assert [request.target for request in server.requests] == ["/a"]


def test_a_redirect_that_asks_for_get_leaves_the_body_behind(serve: Serve, open_pool: Open) -> None:
    """303, after a body that is used up."""
    server = serve(redirect("/b", 303), answer(503), answer(body=b"made"))
    assert open_pool().request("POST", server.url("/a"), body=generator()).data == b"made"
    assert [(each.method, each.body) for each in server.requests] == [
        ("POST", b"a file of bytes"),
        ("GET", b""),
        ("GET", b""),
    ]


def test_credentials_stay_behind(serve: Serve, open_pool: Open) -> None:
    """On another origin, in all attempts there."""
    there = serve(answer(503), answer())
    here = serve(answer(503), redirect(there.url("/b", host="localhost"), 307))
    headers = {"Authorization": "secret", "Cookie": "secret", "X-Other": "kept"}
    assert open_pool().request("GET", here.url("/a"), headers=headers).status == 200
    assert [request.header("Authorization") for request in here.requests] == ["secret"] * 2
    seen = [[each.header(name) for name in headers] for each in there.requests]
    assert seen == [[None, None, "kept"]] * 2


@pytest.mark.parametrize("options", [{"redirect": False}, {"retries": False}])
def test_a_redirect_may_be_handed_over(
    options: dict[str, bool], serve: Serve, open_pool: Open
) -> None:
    """As urllib3 spells it."""
    server = serve(redirect("/b"))
    assert open_pool().request("GET", server.url(), **options).status == 302
    assert len(server.requests) == 1


def test_one_deadline_for_all_of_the_way(serve: Serve, open_pool: Open) -> None:
    """What the steps before took is gone for the next."""
    server = serve(answer(503), redirect("/b"), answer(503), redirect("/c"), answer())
    policy = QUICK.replace(clock=VirtualClock(), backoff=Constant(3), deadline=10)
    pool = open_pool(kind=Recorded, policy=policy)
    assert pool.request("GET", server.url("/a")).status == 200
    assert [each["timeout"].total for each in handed] == [10.0, 7.0, 7.0, 4.0, 4.0]


def test_redirects_without_end(serve: Serve, open_pool: Open) -> None:
    """urllib3's own limit of three holds, or the one that was given."""
    again = redirect("/again")
    only_redirects = Retry(redirect=5, connect=0, read=0, status=0, other=0)
    for options, followed in (({}, 3), ({"retries": only_redirects}, 5)):
        server = serve(then=again)
        with pytest.raises(MaxRetryError, match="too many redirects"):
            open_pool(**options).request("GET", server.url())
        assert len(server.requests) == followed + 1
        server = serve(then=again)
        with pytest.raises(MaxRetryError, match="too many redirects"):
            open_pool().request("GET", server.url(), **options)
        assert len(server.requests) == followed + 1


def test_how_redirects_are_followed_says_nothing_of_retries(serve: Serve, open_pool: Open) -> None:
    """A `Retry` for redirects only leaves the policy its retries."""
    only_redirects = Retry(redirect=5, connect=0, read=0, status=0, other=0)
    server = serve(answer(503), reset, answer())
    pool = open_pool()
    assert pool.request("GET", server.url(), retries=only_redirects).status == 200


@pytest.mark.parametrize("retries", [False, 0, Retry(0), Retry(False)])
def test_a_request_without_retries_is_made_once(
    retries: Any, serve: Serve, open_pool: Open
) -> None:
    """What urllib3's users write, heeded: its response comes back, or its error itself."""
    server = serve(answer(503, {"Retry-After": "1"}, b"busy"), then=reset)
    pool = open_pool()
    assert pool.request("GET", server.url(), retries=retries).data == b"busy"
    with pytest.raises(ProtocolError):
        pool.request("GET", server.url(), retries=retries)
    assert len(server.requests) == 2


def test_a_request_that_says_more_goes_by_that(serve: Serve, open_pool: Open) -> None:
    """`retrykit` before `retries`."""
    server = serve(then=answer(503))
    open_pool().request("GET", server.url(), retries=False, retrykit={"attempts": 2})
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "retries",
    [
        3,
        True,
        Retry(2),
        Retry(total=None),
        Retry(connect=0, read=0, status=0),
        Retry(connect=0, read=0, other=0),
    ],
)
def test_retries_around_retries_are_refused(retries: Any, serve: Serve, open_pool: Open) -> None:
    """In a manager, and of a request."""
    with pytest.raises(ValueError, match="retries must be 0, got "):
        RetryPoolManager(retries=retries)
    server = serve()
    with pytest.raises(ValueError, match="retries must be 0, got "):
        open_pool().request("GET", server.url(), retries=retries)
    assert server.steps_taken == 0


# The idempotency key


def keys(server: RawServer) -> list[str | None]:
    return [request.header(KEY) for request in server.requests]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_call_has_one_key_on_all_attempts(method: str, serve: Serve, open_pool: Open) -> None:
    """With it, what was lost on the way is sent again; quoted, as the draft has it."""
    server = serve(reset, answer(503), answer(201))
    assert open_pool(idempotency_key=True).request(method, server.url(), body=b"x").status == 201
    first = keys(server)[0]
    assert first is not None
    assert (first[0], first[-1], len(first)) == ('"', '"', 38)
    assert keys(server) == [first] * 3


def test_the_next_call_has_another_key(serve: Serve, open_pool: Open) -> None:
    """The caller's headers are left as they were."""
    server = serve()
    headers = {"X-Other": "kept"}
    pool = open_pool(idempotency_key=True)
    pool.request("POST", server.url(), headers=headers)
    pool.request("POST", server.url(), headers=headers)
    pool.urlopen("POST", server.url())
    pool.urlopen("POST", server.url(), headers=None)
    assert len({*keys(server)}) == 4
    assert headers == {"X-Other": "kept"}
    assert dict(pool.headers) == {}


def test_a_bare_key(serve: Serve, open_pool: Open) -> None:
    """For servers that do not know the draft."""
    server = serve(answer(503), answer())
    open_pool(idempotency_key="bare").request("POST", server.url())
    first = keys(server)[0]
    assert first is not None
    assert len(first) == 36
    assert keys(server) == [first] * 2


@pytest.mark.parametrize("name", [KEY, "idempotency-key", "IDEMPOTENCY-KEY"])
@pytest.mark.parametrize("option", [True, "bare", False])
def test_the_callers_own_key_is_kept(name: str, option: Any, serve: Serve, open_pool: Open) -> None:
    """In any case, unquoted, once; and counted, also where none are made."""
    server = serve(answer(503), answer())
    headers = {name: "mine"}
    pool = open_pool(idempotency_key=option)
    assert pool.request("POST", server.url(), headers=headers).status == 200
    assert keys(server) == ["mine", "mine"]
    assert headers == {name: "mine"}


def test_a_key_given_twice_is_sent_once(serve: Serve, open_pool: Open) -> None:
    """Two spellings of one header in a plain dictionary."""
    server = serve(answer(503), answer())
    headers = {KEY: "mine", KEY.lower(): "mine"}
    assert open_pool(idempotency_key=True).request("POST", server.url(), headers=headers).status
    assert keys(server) == ["mine", "mine"]


@pytest.mark.parametrize("value", ["x" * 256, "clé", "", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_refused(value: str, serve: Serve, open_pool: Open) -> None:
    """Before anything is."""
    server = serve()
    with pytest.raises(ValueError, match="Idempotency-Key must be one value of 1 to 255"):
        open_pool(idempotency_key=True).request("POST", server.url(), headers={KEY: value})
    assert server.steps_taken == 0


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_idempotent_requests_need_no_key(method: str, serve: Serve, open_pool: Open) -> None:
    """And get none."""
    server = serve()
    open_pool(idempotency_key=True).request(method, server.url())
    assert keys(server) == [None]


@pytest.mark.parametrize("own", [{}, {KEY: "mine"}])
def test_the_key_goes_along_on_the_same_origin(
    own: dict[str, str], serve: Serve, open_pool: Open
) -> None:
    """One for the whole way."""
    server = serve(answer(503), redirect("/b", 307), answer(503), redirect("/c", 308), answer(201))
    pool = open_pool(idempotency_key=True)
    assert pool.request("POST", server.url("/a"), body=b"x", headers=own).status == 201
    assert len(server.requests) == 5
    assert len({*keys(server)}) == 1
    assert None not in keys(server)


@pytest.mark.parametrize("own", [{}, {KEY: "mine"}])
def test_the_key_does_not_go_to_another_origin(
    own: dict[str, str], serve: Serve, open_pool: Open
) -> None:
    """Nor does another one, and without it the request is sent once there."""
    there = serve(redirect("/c", 307), answer(503))
    here = serve(redirect(there.url("/b", host="localhost"), 307))
    pool = open_pool(idempotency_key=True)
    assert pool.request("POST", here.url(), body=b"x", headers=own).status == 503
    assert None not in keys(here)
    assert keys(there) == [None, None]


def test_a_bad_option_is_refused() -> None:
    """By name and value."""
    with pytest.raises(ValueError, match="idempotency_key must be True, False or 'bare', got 'x'"):
        RetryPoolManager(idempotency_key="x")  # type: ignore[arg-type]  # that is the point


# Policies


def test_a_policy_by_endpoint(serve: Serve, open_pool: Open) -> None:
    """The manager's calls show method and URL."""
    server = serve(then=answer(503))
    policy = by_endpoint({"GET /users/{id}": QUICK.replace(attempts=2)}, default=QUICK)
    pool = open_pool(policy=policy)
    pool.request("GET", server.url("/users/7?x=y"))
    assert len(server.requests) == 2
    pool.request("GET", server.url("/other"))
    assert len(server.requests) == 5


def test_a_policy_from_the_request(serve: Serve, open_pool: Open) -> None:
    """A function of the call finds the request among its arguments."""

    def choose(call: Call) -> RetryPolicy:
        (request,) = call.args
        assert isinstance(request, Request)
        assert isinstance(call.instance, RetryPoolManager)
        assert (request.method, request.url) == ("GET", server.url("/a?secret=1"))
        assert "secret" not in repr(request)
        return QUICK.replace(attempts=int(request.headers["X-Attempts"]))

    server = serve(then=answer(503))
    pool = open_pool(policy=choose)
    pool.request("GET", server.url("/a?secret=1"), headers={"X-Attempts": "2"})
    assert len(server.requests) == 2


def test_a_budget_for_each_host(serve: Serve, open_pool: Open) -> None:
    """One that is down costs the other nothing."""
    down, up = serve(then=answer(503)), serve(answer(503), answer())
    pool = open_pool(policy=QUICK.replace(budget=per_host(RatioBudget(reserve=3))))
    for _ in range(4):
        assert pool.request("GET", down.url()).status == 503
    assert len(down.requests) == 4 + 3
    assert pool.request("GET", up.url()).status == 200


def test_statuses_of_ones_own(serve: Serve, open_pool: Open) -> None:
    """Classifiers stack on the preset's."""
    policy = http_policy(classify=OnStatus(418), attempts=3, backoff=Constant(0))
    server = serve(answer(418), answer(503), answer())
    assert open_pool(policy=policy).request("GET", server.url()).status == 200


@pytest.mark.parametrize(
    ("own", "requested"),
    [
        ({"attempts": 2}, 2),
        (QUICK.replace(attempts=4), 4),
        (lambda call: QUICK.replace(attempts=1), 1),
        (None, 1),
    ],
)
def test_a_request_says_how_it_is_retried(
    own: Any, requested: int, serve: Serve, open_pool: Open
) -> None:
    """Fields over the policy, another policy, or no retries at all; after a redirect too."""
    server = serve(redirect("/b"), then=answer(503, body=b"busy"))
    assert open_pool().request("GET", server.url(), retrykit=own).data == b"busy"
    assert len(server.requests) == 1 + requested


def test_scopes_hold(serve: Serve, open_pool: Open) -> None:
    """`override` and `disabled`, as around every other call."""
    server = serve(then=answer(503))
    pool = open_pool()
    with override(attempts=2):
        pool.request("GET", server.url())
    assert len(server.requests) == 2
    with disabled():
        pool.request("GET", server.url())
    assert len(server.requests) == 3


@pytest.mark.parametrize("policy", [3, RetryPolicy, object()])
def test_a_bad_policy_is_refused(policy: Any) -> None:
    """When the manager is made."""
    with pytest.raises(TypeError, match="policy must"):
        RetryPoolManager(policy=policy)


# Beside it


def test_a_manager_is_a_manager(serve: Serve, open_pool: Open) -> None:
    """urllib3's own arguments by position, its headers, its pools by themselves."""
    pool = open_pool(3, {"X-Own": "here"}, idempotency_key=True)
    server = serve(answer(503), answer(), answer(), answer(), then=answer(503))
    assert pool.request("GET", server.url()).status == 200
    assert pool.urlopen("GET", server.url()).status == 200
    assert pool.urlopen("POST", server.url(), headers=None).status == 200
    assert [request.header("X-Own") for request in server.requests] == ["here"] * 4
    alone = pool.connection_from_url(server.url())
    assert repr(alone).startswith("<")
    assert alone.urlopen("GET", "/", retries=False).status == 503
    assert len(server.requests) == 5


@pytest.mark.parametrize("fault", [answer(503), reset, truncated(), answer(429)])
def test_through_a_proxy(fault: Step, serve: Serve, open_pool: Open) -> None:
    """One that forwards: it sees the whole URL, each time."""
    proxy = serve(fault, fault, answer(body=b"there"))
    pool = open_pool(proxy.url(), kind=RetryProxyManager)
    response = pool.request("GET", "http://retrykit.invalid/a?b=c", timeout=LONG)
    assert response.data == b"there"
    targets = [request.target for request in proxy.requests]
    assert targets == ["http://retrykit.invalid/a?b=c"] * 3
    assert proxy.requests[-1].header("Host") == "retrykit.invalid"


def test_a_proxy_that_refuses_a_tunnel_had_no_request_to_lose(
    serve: Serve, open_pool: Open
) -> None:
    """The POST never left, so it may be sent again."""
    proxy = serve(then=answer(503))
    pool = open_pool(proxy.url(), kind=RetryProxyManager)
    with pytest.raises(urllib3.exceptions.ProxyError):
        pool.request("POST", "https://retrykit.invalid/", body=b"x", timeout=LONG)
    assert [request.method for request in proxy.requests] == ["CONNECT"] * 3


def test_many_threads_share_a_manager(serve: Serve, open_pool: Open) -> None:
    """Each call has its own attempts and its own key."""
    server = serve(*[answer(503)] * 16, then=answer(201))
    pool = open_pool(policy=QUICK.replace(attempts=20), idempotency_key=True, maxsize=2, block=True)

    def order(number: int) -> int:
        status: int = pool.request("POST", server.url(f"/{number}"), body=b"x").status
        return status

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(order, range(24))) == {201}
    by_target: dict[str, set[str | None]] = {}
    for request in server.requests:
        by_target.setdefault(request.target, set()).add(request.header(KEY))
    assert [len(each) for each in by_target.values()] == [1] * 24
    assert len(set.union(*by_target.values())) == 24
    assert len(server.requests) == 24 + 16
    assert server.peak <= 2


def test_nothing_secret_is_logged(
    serve: Serve, open_pool: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """No query, no header: the manager's name alone."""
    caplog.set_level("DEBUG", logger="retrykit")
    server = serve(then=answer(503))
    pool = open_pool(policy=http_policy(attempts=2, backoff=Constant(0)))
    pool.request("GET", server.url("/a?token=secret"), headers={"X-Key": "secret"})
    assert "RetryPoolManager.urlopen: attempt 1 failed" in caplog.text
    ours = [str(vars(record)) for record in caplog.records if record.name == "retrykit"]
    assert not any("secret" in record for record in ours)


def test_without_urllib3_the_extra_is_named() -> None:
    """The message tells what to install."""
    program = (
        "import sys; sys.modules['urllib3'] = None\n"
        "try:\n    import retrykit.http.urllib3\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == (
        "retrykit.http.urllib3 needs urllib3: install retrykit with the extra [urllib3]"
    )


# The example


def test_the_example_of_a_client(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call comes to its end, over all that fails; what may have been done is left alone."""
    server = serve(
        reset,
        answer(200, body=b'{"name": "Ada"}'),
        *[answer(503)] * 5,
        answer(200, body=b'["Ada", "Alan"]'),
        reset,
        answer(503),
        truncated(),
        answer(429, {"Retry-After": "30"}),
        answer(body=LARGE),
        answer(503, body=LARGE),
        truncated(),
    )
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "urllib3_client.py"))
    with override(clock=VirtualClock(), server_delay=ServerDelay(spread=0), deadline=120):
        example["main"](server.url())
    assert capsys.readouterr().out == (
        "user: Ada\n"
        "found: Ada, Alan\n"
        "order: lost, ConnectionResetError\n"
        "health: 503\n"
        "report: 200000 bytes\n"
        "stream: ProtocolError\n"
    )
    assert len(server.requests) == 15
