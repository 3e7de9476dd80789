"""The adapter for requests: real sessions against real servers, nothing of either replaced."""

from __future__ import annotations

import gzip
import io
import json
import mmap
import pickle
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
import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth
from servers import (
    Exchange,
    OnAccept,
    RawServer,
    Serve,
    Step,
    answer,
    endless,
    hang_up,
    junk_headers,
    junk_status_line,
    raw,
    redirect,
    reset,
    stall,
    truncated,
    unread,
)
from urllib3.util import Retry, Timeout

from retrykit import (
    Constant,
    OnResult,
    RatioBudget,
    RetriesExhausted,
    RetryPolicy,
    StopReason,
    current_attempt,
    disabled,
    override,
    retry,
)
from retrykit.events import CallFailed, CallGaveUp, Event, RetryScheduled
from retrykit.http import OnStatus, by_endpoint, http_policy, per_host
from retrykit.http.requests import RetryAdapter
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


class Open:
    """Opens sessions, each with a `RetryAdapter` on every URL."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, adapter: HTTPAdapter | None = None, **options: Any) -> requests.Session:
        session = self._stack.enter_context(requests.Session())
        session.trust_env = False
        mounted = adapter or RetryAdapter(**{"policy": QUICK, **options})
        session.mount("http://", mounted)
        session.mount("https://", mounted)
        return session


@pytest.fixture
def open_session() -> Generator[Open]:
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


def free(session: requests.Session) -> int:
    """How many connections of the session's one pool nobody holds."""
    adapter: Any = session.get_adapter("http://")
    (key,) = adapter.poolmanager.pools.keys()
    slots: int = adapter.poolmanager.pools[key].pool.qsize()
    return slots


# What is retried


@pytest.mark.parametrize(
    "fault",
    [
        reset,
        hang_up,
        OnAccept(reset),
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
def test_a_get_is_saved_by_its_third_attempt(fault: Step, serve: Serve, open_session: Open) -> None:
    """Whatever passes: resets, error statuses, bodies that break off."""
    server = serve(fault, fault, answer(body=b"fine"))
    response = open_session().get(server.url("/a?b=c"), timeout=LONG)
    assert (response.status_code, response.content) == (200, b"fine")
    assert server.steps_taken == 3


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "QUERY"])
def test_idempotent_methods_are_retried(method: str, serve: Serve, open_session: Open) -> None:
    """QUERY too, which has a body."""
    server = serve(reset, answer(503), answer())
    response = open_session().request(method, server.url(), timeout=LONG)
    assert response.status_code == 200
    assert [request.method for request in server.requests] == [method] * 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "LOCK", "BREW"])
@pytest.mark.parametrize(
    "fault", [reset, hang_up, truncated(), truncated(status=503), answer(500), answer(503)]
)
def test_what_may_have_been_done_is_not_done_twice(
    method: str, fault: Step, serve: Serve, open_session: Open
) -> None:
    """A request that is not idempotent and that the server may have taken (urllib3#1059)."""
    server = serve(fault, answer())
    try:
        status = open_session().request(method, server.url(), timeout=LONG).status_code
    except requests.RequestException:
        status = 0
    assert status in (0, 500, 503)
    assert len(server.requests) == 1


@pytest.mark.parametrize("refusal", [429, 425, 421])
def test_a_post_that_was_refused_unprocessed_is_sent_again(
    refusal: int, serve: Serve, open_session: Open
) -> None:
    """The answer says that nothing was done."""
    server = serve(answer(refusal), answer(201))
    assert open_session().post(server.url(), data=b"x").status_code == 201
    assert [request.body for request in server.requests] == [b"x", b"x"]


def test_a_post_that_never_left_is_sent_again(refused: str, open_session: Open) -> None:
    """Connection refused: three attempts, whatever the method."""
    told = Told()
    session = open_session(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(requests.ConnectionError) as caught:
        session.post(refused, data=b"x", timeout=LONG)
    assert told.retries() == 2
    assert "3 attempts" in caught.value.__notes__[0]


def test_a_post_whose_connection_timed_out_is_sent_again(
    unaccepting: str, open_session: Open
) -> None:
    """A connect timeout: the request never left."""
    told = Told()
    session = open_session(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(requests.ConnectTimeout):
        session.post(unaccepting, data=b"x", timeout=(0.05, LONG))
    assert told.retries() == 2


def test_a_post_whose_answer_timed_out_is_not(serve: Serve, open_session: Open) -> None:
    """A read timeout: the work may be under way."""
    server = serve(then=stall(LONG))
    with pytest.raises(requests.ReadTimeout):
        open_session().post(server.url(), data=b"x", timeout=0.1)
    assert len(server.requests) == 1


def test_a_get_whose_answer_timed_out_is(serve: Serve, open_session: Open) -> None:
    """The same for what may be repeated."""
    server = serve(stall(LONG), answer())
    assert open_session().get(server.url(), timeout=0.1).status_code == 200


def test_a_body_that_times_out_is_read_again(serve: Serve, open_session: Open) -> None:
    """Half of the body, then nothing."""
    server = serve(truncated(end=stall(LONG)), answer(body=b"whole"))
    assert open_session().get(server.url(), timeout=0.1).content == b"whole"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501, 505, 507])
def test_final_answers_are_handed_over_at_once(
    status: int, serve: Serve, open_session: Open
) -> None:
    """Body and all."""
    server = serve(then=answer(status, body=b"why"))
    response = open_session().get(server.url())
    assert (response.status_code, response.content) == (status, b"why")
    assert len(server.requests) == 1


def test_what_is_not_http_is_a_lost_connection(serve: Serve, open_session: Open) -> None:
    """A first line that belongs to no response."""
    server = serve(junk_status_line, junk_status_line, answer(body=b"fine"))
    assert open_session().get(server.url(), timeout=LONG).content == b"fine"
    server = serve(junk_status_line)
    with pytest.raises(requests.ConnectionError):
        open_session().post(server.url(), timeout=LONG)
    assert len(server.requests) == 1


def test_odd_headers_are_read_as_requests_reads_them(serve: Serve, open_session: Open) -> None:
    """A line without a colon ends them."""
    server = serve(then=junk_headers)
    expected = requests.get(server.url(), timeout=LONG)
    response = open_session().get(server.url(), timeout=LONG)
    assert (response.status_code, response.content) == (expected.status_code, expected.content)
    assert len(server.requests) == 2


def test_a_bad_certificate_is_final(
    serve: Serve, server_tls: ssl.SSLContext, open_session: Open
) -> None:
    """Although its class says connection error."""
    told = Told()
    server = serve(tls=server_tls)
    session = open_session(policy=QUICK.replace(listeners=(told,)))
    with pytest.raises(requests.exceptions.SSLError):
        session.get(server.url(), timeout=LONG)
    assert told.retries() == 0


@pytest.mark.parametrize("limit", [None, LONG])
def test_over_tls(
    limit: float | None,
    serve: Serve,
    server_tls: ssl.SSLContext,
    authority_file: str,
    open_session: Open,
) -> None:
    """The same over HTTPS."""
    server = serve(answer(503), truncated(), answer(body=b"fine"), tls=server_tls)
    session = open_session(policy=QUICK.replace(attempt_timeout=limit))
    response = session.get(server.url(), verify=authority_file, timeout=LONG)
    assert response.content == b"fine"


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(status: int, serve: Serve, open_session: Open) -> None:
    """There is nothing to read, and nothing hangs."""
    server = serve(answer(503), answer(status))
    response = open_session().get(server.url(), timeout=LONG)
    assert (response.status_code, response.content) == (status, b"")


@pytest.mark.parametrize(("method", "requested"), [("PUT", 3), ("POST", 1)], ids=["PUT", "POST"])
def test_an_upload_that_breaks_off(
    method: str, requested: int, serve: Serve, open_session: Open
) -> None:
    """While the request is written, nobody knows what of it arrived."""
    server = serve(unread(reset), unread(reset), answer())
    try:
        status = open_session().request(method, server.url(), data=bytes(3_000_000)).status_code
    except requests.ConnectionError:
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

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._inner)


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
        lambda: io.BytesIO(b"a file of bytes"),
        at_6,
        mapped,
        Again,
    ],
    ids=["bytes", "str", "bytearray", "file", "file at an offset", "mapped", "iterable"],
)
@pytest.mark.parametrize("fault", [answer(503), reset, truncated()])
def test_a_body_is_sent_whole_again(
    make: Callable[[], Any], fault: Step, serve: Serve, open_session: Open
) -> None:
    """A file from where it stood before the first attempt (urllib3#2982, aiohttp#13330)."""
    server = serve(fault, fault, answer())
    assert open_session().put(server.url(), data=make()).status_code == 200
    assert [request.body for request in server.requests] == [b"a file of bytes"] * 3


@pytest.mark.parametrize(
    "body",
    [
        {"data": {"name": "value"}},
        {"json": {"name": "value"}},
        {"files": {"upload": ("name.txt", io.BytesIO(b"content"))}, "data": {"name": "value"}},
    ],
    ids=["form", "json", "multipart"],
)
def test_forms_are_sent_alike(body: dict[str, Any], serve: Serve, open_session: Open) -> None:
    """The same bytes, a multipart boundary included."""
    server = serve(answer(503), reset, answer())
    open_session().put(server.url(), **body)
    first, *others = server.requests
    assert b"value" in first.body
    assert [(each.body, each.headers) for each in others] == [(first.body, first.headers)] * 2


@pytest.mark.parametrize(
    "make",
    [generator, lambda: Pipe(b"a file of bytes"), lambda: iter([b"a file", b" of bytes"])],
    ids=["generator", "pipe", "iterator"],
)
def test_a_body_that_is_used_up_is_sent_once(
    make: Callable[[], Any], serve: Serve, open_session: Open
) -> None:
    """The response comes back as it is; nothing empty is sent after it."""
    told = Told()
    server = serve(then=answer(503, body=b"busy"))
    session = open_session(policy=QUICK.replace(listeners=(told,)))
    response = session.put(server.url(), data=make())
    assert (response.status_code, response.content) == (503, b"busy")
    assert [request.body for request in server.requests] == [b"a file of bytes"]
    assert told.end() is StopReason.NOT_REPLAYABLE


def test_the_original_failure_surfaces_with_advice(serve: Serve, open_session: Open) -> None:
    """The error of the only attempt, with a note that says why there was no other."""
    server = serve(then=reset)
    with pytest.raises(requests.ConnectionError) as caught:
        open_session().put(server.url(), data=generator())
    assert "not_replayable" in caught.value.__notes__[0]
    assert "hand over bytes, or a file that can be rewound" in caught.value.__notes__[0]
    assert len(server.requests) == 1


def test_a_body_that_was_not_begun_is_still_there(refused: str, open_session: Open) -> None:
    """Refused connections take nothing from a generator."""
    told = Told()
    body = generator()
    with pytest.raises(requests.ConnectionError):
        open_session(policy=QUICK.replace(listeners=(told,))).put(refused, data=body)
    assert told.retries() == 2
    assert b"".join(body) == b"a file of bytes"


def test_a_file_that_is_closed_is_not_sent_again(serve: Serve, open_session: Open) -> None:
    """The original answer is handed over, not an error about the file."""
    file = io.BytesIO(b"content")

    def close(attempt: Attempt) -> None:
        file.close()

    server = serve(then=answer(503))
    session = open_session(policy=http_policy(classify=close, backoff=Constant(0)))
    assert session.put(server.url(), data=file).status_code == 503
    assert len(server.requests) == 1


def test_a_body_that_ends_sooner_is_never_taken_for_the_whole(
    serve: Serve, open_session: Open
) -> None:
    """An iterable that is secretly used up: the server sees no complete empty request."""
    server = serve(then=answer(503))
    with pytest.raises(requests.exceptions.UnrewindableBodyError):
        open_session().put(server.url(), data=Once())
    complete = [request.body for request in server.requests if request.complete]
    assert complete == [b"a file of bytes"]


def test_an_answer_to_a_request_that_is_still_sent(serve: Serve, open_session: Open) -> None:
    """An early refusal of a large upload, then the whole of it again."""

    def refuse(exchange: Exchange) -> None:
        exchange.reads = "head"
        answer(503)(exchange)

    server = serve(refuse, answer())
    body = io.BytesIO(b"x" * 3_000_000)
    assert open_session().put(server.url(), data=body, timeout=LONG).status_code == 200
    assert len(server.requests[-1].body) == 3_000_000


# Responses that are let go


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_pool_of_one_does_not_run_dry(
    stream: bool, body: bytes, serve: Serve, open_session: Open
) -> None:
    """Error bodies of any size, the only connection free each time (urllib3#1167, #644)."""
    server = serve(answer(503, body=body), answer(503, body=body), answer(body=LARGE))
    session = open_session(pool_maxsize=1, pool_block=True)
    response = session.get(server.url(), stream=stream, timeout=LONG)
    assert response.content == LARGE
    assert free(session) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_small_error_keeps_its_connection(stream: bool, serve: Serve, open_session: Open) -> None:
    """Its body is read, so that the next attempt goes over the same one."""
    server = serve(answer(503, body=b"small"), answer(503, body=b"small", chunked=True), answer())
    open_session().get(server.url(), stream=stream).close()
    assert server.connections == 1


def test_a_large_error_that_is_streamed_is_not_read_through(
    serve: Serve, open_session: Open
) -> None:
    """A new connection costs less."""
    server = serve(answer(503, body=LARGE), answer())
    open_session().get(server.url(), stream=True).close()
    assert server.connections == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", [b"", b"not here"])
def test_a_misdirected_request_goes_over_another_connection(
    stream: bool, body: bytes, serve: Serve, open_session: Open
) -> None:
    """421 asks for that (RFC 9110 section 15.5.20); the last answer is readable all the same."""
    server = serve(answer(421, body=body), answer(421, body=body), answer(421, body=b"never"))
    session = open_session(pool_maxsize=1, pool_block=True)
    assert session.get(server.url(), stream=stream).content == b"never"
    assert server.connections == 3
    assert free(session) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_endless_error_is_cut_short(stream: bool, serve: Serve, open_session: Open) -> None:
    """Little is read of it, then its connection is closed (GHSA-38jv-5279-wg99)."""
    server = serve(endless(503), answer(body=b"fine"))
    assert open_session().get(server.url(), stream=stream, timeout=LONG).content == b"fine"
    assert server.sent < 8_000_000


def test_a_stalled_error_is_not_waited_for(serve: Serve, open_session: Open) -> None:
    """The status decides; the rest of a streamed error gets a second, whatever the timeout."""
    server = serve(truncated(status=503, end=stall(60)), answer(body=b"fine"))
    began = time.monotonic()
    assert open_session().get(server.url(), stream=True, timeout=60).content == b"fine"
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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault",
    [answer(503, body=LARGE), answer(503, body=b"x"), truncated(status=503), reset, endless(503)],
)
def test_the_connection_is_free_before_the_wait(
    stream: bool, fault: Step, serve: Serve, open_session: Open
) -> None:
    """Not after it (kiota-python#564)."""
    server = serve(fault, fault, answer(body=b"fine"))
    clock = Watching(lambda: free(session))
    policy = QUICK.replace(clock=clock, backoff=Constant(10))
    session = open_session(policy=policy, pool_maxsize=1, pool_block=True)
    response = session.get(server.url(), stream=stream, timeout=LONG)
    assert clock.seen == [1, 1]
    response.close()
    assert free(session) == 1


def test_an_interrupt_in_the_wait_leaves_nothing_behind(serve: Serve, open_session: Open) -> None:
    """The response was let go before."""

    class Interrupting(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            raise KeyboardInterrupt

    server = serve(answer(503, body=LARGE))
    policy = QUICK.replace(clock=Interrupting())
    session = open_session(policy=policy, pool_maxsize=1, pool_block=True)
    with pytest.raises(KeyboardInterrupt):
        session.get(server.url(), stream=True)
    assert free(session) == 1


def test_an_interrupt_while_it_is_decided_leaves_nothing_behind(
    serve: Serve, open_session: Open
) -> None:
    """Nobody else has the response then."""

    def interrupt(attempt: Attempt) -> None:
        raise KeyboardInterrupt

    server = serve(answer(503, body=LARGE))
    policy = http_policy(classify=interrupt)
    session = open_session(policy=policy, pool_maxsize=1, pool_block=True)
    with pytest.raises(KeyboardInterrupt):
        session.get(server.url(), stream=True)
    assert free(session) == 1


def test_a_classifier_that_raises_costs_the_retries_only(
    serve: Serve, open_session: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """The response is handed over, and readable."""

    def broken(attempt: Attempt) -> None:
        raise ZeroDivisionError

    server = serve(then=answer(503, body=b"busy"))
    session = open_session(policy=http_policy(classify=broken, listeners=()))
    assert session.get(server.url()).content == b"busy"
    assert len(server.requests) == 1
    assert "its classifier failed" in caplog.text


def test_a_classifier_may_read_the_body(serve: Serve, open_session: Open) -> None:
    """It is there already, and stays there for the caller."""
    server = serve(answer(200, body=b"pending"), answer(200, body=b"done"))
    policy = QUICK.replace(classify=OnResult(lambda response: response.text == "pending"))
    assert open_session(policy=policy).get(server.url()).text == "done"


def test_a_quota_that_is_gone_for_good_is_final(serve: Serve, open_session: Open) -> None:
    """`unless` looks into the body."""
    policy = http_policy(unless=lambda response: "quota" in response.text, backoff=Constant(0))
    server = serve(then=answer(429, body=b"quota exceeded"))
    response = open_session(policy=policy).get(server.url())
    assert response.text == "quota exceeded"
    assert len(server.requests) == 1


def test_a_classifier_leaves_a_streamed_body_alone(serve: Serve, open_session: Open) -> None:
    """Status and headers are looked at only (urllib3 GHSA-38jv-5279-wg99)."""
    server = serve(answer(503), answer(body=LARGE))
    response = open_session().get(server.url(), stream=True)
    assert response.raw.tell() == 0
    assert b"".join(response.iter_content(1000)) == LARGE


def test_a_streamed_response_is_committed(serve: Serve, open_session: Open) -> None:
    """What happens to its body is the reader's."""
    server = serve(answer(503), truncated(), answer())
    response = open_session().get(server.url(), stream=True)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        _ = response.content
    assert len(server.requests) == 2


def test_a_large_error_that_is_final_is_handed_over_whole(serve: Serve, open_session: Open) -> None:
    """Its beginning, which was read before the decision, included."""
    body = bytes(range(256)) * 20_000
    server = serve(then=answer(404, body=body))
    session = open_session(pool_maxsize=1, pool_block=True)
    response = session.get(server.url())
    assert response.content == body
    assert b"".join(response.iter_content(4096)) == body
    assert free(session) == 1


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
        (
            truncated(b"x" * 3_000_000, 4_000_000, status=404),
            requests.exceptions.ChunkedEncodingError,
        ),
        (
            answer(404, {"Content-Encoding": "gzip"}, spoilt()),
            requests.exceptions.ContentDecodingError,
        ),
    ],
    ids=["broken off", "spoilt"],
)
def test_a_large_error_that_goes_wrong_late_is_the_clients_error(
    fault: Step, error: type[Exception], serve: Serve, open_session: Open
) -> None:
    """Past its beginning nobody retries it, and its connection is free."""
    server = serve(then=fault)
    session = open_session(pool_maxsize=1, pool_block=True)
    with pytest.raises(error) as caught:
        session.get(server.url(), timeout=LONG)
    assert caught.tb is not None  # it holds the response
    assert free(session) == 1
    assert len(server.requests) == 1


def test_a_compressed_body_that_is_broken_is_an_error_and_no_leak(
    serve: Serve, open_session: Open
) -> None:
    """urllib3 keeps the connection of a body that it could not decode."""
    server = serve(then=answer(200, {"Content-Encoding": "gzip"}, b"not gzip" + LARGE))
    session = open_session(pool_maxsize=1, pool_block=True)
    with pytest.raises(requests.exceptions.ContentDecodingError) as caught:
        session.get(server.url(), timeout=LONG)
    assert caught.tb is not None  # it holds the response, which nothing else closes then
    assert free(session) == 1


# The end


@pytest.mark.parametrize("stream", [False, True])
def test_the_last_response_is_handed_over_readable(
    stream: bool, serve: Serve, open_session: Open
) -> None:
    """Status, headers and body (go-retryablehttp#156, requests' own RetryError)."""
    server = serve(then=answer(503, {"X-Why": "tired"}, LARGE))
    response = open_session().get(server.url(), stream=stream)
    assert (response.status_code, response.headers["X-Why"]) == (503, "tired")
    assert response.content == LARGE
    assert len(server.requests) == 3


def test_the_last_error_is_raised_itself(serve: Serve, open_session: Open) -> None:
    """requests' own, with a note."""
    server = serve(then=reset)
    with pytest.raises(requests.ConnectionError) as caught:
        open_session().get(server.url())
    assert type(caught.value) is requests.ConnectionError
    assert len(server.requests) == 3
    (note,) = caught.value.__notes__
    assert note.startswith("retrykit: RetryAdapter.send gave up after 3 attempts")


def test_a_policy_may_have_it_raised(serve: Serve, open_session: Open) -> None:
    """`unsatisfied="raise"`: the error carries the last response, readable."""
    server = serve(then=answer(503, body=LARGE))
    session = open_session(policy=QUICK.replace(unsatisfied="raise"))
    with pytest.raises(RetriesExhausted) as caught:
        session.get(server.url())
    assert caught.value.value.content == LARGE


def test_a_response_let_go_stays_readable_if_the_wait_was_the_end(
    serve: Serve, open_session: Open
) -> None:
    """`stop_when` said stop in the wait: the last response stands, its small body kept."""
    stop = threading.Event()

    class Stopping(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            stop.set()

    server = serve(then=answer(503, body=b"busy"))
    session = open_session(policy=QUICK.replace(stop_when=stop, clock=Stopping()))
    response = session.get(server.url(), stream=True)
    assert (response.status_code, response.content) == (503, b"busy")


@pytest.mark.parametrize("body", [LARGE, b"busy"])
@pytest.mark.parametrize("framing", [{}, {"chunked": True}])
def test_a_response_let_go_is_never_half_of_one(
    body: bytes, framing: dict[str, bool], serve: Serve, open_session: Open
) -> None:
    """Nothing is there of a body that was too large to be kept, or read in part by a classifier."""
    stop = threading.Event()

    class Stopping(VirtualClock):
        def sleep(self, seconds: float, /) -> None:
            stop.set()

    def look(attempt: Attempt) -> None:
        if body != LARGE:
            assert next(attempt.value.iter_content(2)) == b"bu"

    server = serve(then=answer(503, body=body, **framing))
    policy = http_policy(classify=look, stop_when=stop, clock=Stopping(), listeners=())
    session = open_session(policy=policy, pool_maxsize=1, pool_block=True)
    response = session.get(server.url(), stream=True)
    assert (response.status_code, response.content) == (503, b"")
    assert free(session) == 1


# Waits


def test_retry_after_is_honoured(serve: Serve, open_session: Open) -> None:
    """Never sooner than asked."""
    clock = VirtualClock()
    server = serve(answer(429, {"Retry-After": "7"}), answer(503, {"Retry-After": "9"}), answer())
    assert open_session(policy=QUICK.replace(clock=clock)).get(server.url()).status_code == 200
    first, second = clock.sleeps
    assert 7 <= first <= 8
    assert 9 <= second <= 10


def test_a_retry_after_over_the_limit_ends_the_call(serve: Serve, open_session: Open) -> None:
    """At once, with the response that says so."""
    clock = VirtualClock()
    server = serve(then=answer(429, {"Retry-After": "3600"}, b"later"))
    response = open_session(policy=QUICK.replace(clock=clock)).post(server.url())
    assert (response.status_code, response.content) == (429, b"later")
    assert response.headers["Retry-After"] == "3600"
    assert clock.sleeps == []


def test_the_presets_waits(serve: Serve, open_session: Open) -> None:
    """Without a policy: `http_policy()`, under which a second attempt follows a reset."""
    server = serve(reset, answer())
    assert open_session(RetryAdapter()).get(server.url()).status_code == 200


# Time limits


class Recording(HTTPAdapter):
    """Notes the timeout that it is handed."""

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        timeouts.append(options["timeout"])
        return super().send(request, *args, **options)


class Recorded(RetryAdapter, Recording):
    """A `RetryAdapter` over another adapter's `send`."""


timeouts: list[Any] = []


@pytest.mark.parametrize(
    ("own", "connect", "read"),
    [
        (None, None, None),
        (2.0, 2.0, 2.0),
        ((1.0, 3.0), 1.0, 3.0),
        ((None, 3.0), None, 3.0),
        (Timeout(connect=1.0, read=4.0), 1.0, 4.0),
        (Timeout(total=30.0), Timeout.DEFAULT_TIMEOUT, Timeout.DEFAULT_TIMEOUT),
    ],
)
def test_what_remains_becomes_the_timeout(
    own: Any, connect: Any, read: Any, serve: Serve, open_session: Open
) -> None:
    """The caller's own is kept, and no attempt gets more than is left."""
    timeouts.clear()
    clock = VirtualClock()
    server = serve(answer(503), answer(503), answer())
    policy = QUICK.replace(clock=clock, backoff=Constant(3), deadline=10, attempt_timeout=6)
    open_session(Recorded(policy=policy)).get(server.url(), timeout=own)
    assert [each.total for each in timeouts] == [6.0, 6.0, 4.0]
    assert {(each._connect, each._read) for each in timeouts} == {(connect, read)}


def test_a_nearer_timeout_of_the_callers_own_stays(serve: Serve, open_session: Open) -> None:
    """Also one for everything together."""
    timeouts.clear()
    session = open_session(Recorded(policy=QUICK.replace(attempt_timeout=60)))
    session.get(serve().url(), timeout=Timeout(total=2.0))
    assert timeouts[0].total == 2.0


def test_without_a_limit_the_timeout_is_untouched(serve: Serve, open_session: Open) -> None:
    """It is the caller's very own object."""
    timeouts.clear()
    own = (1.5, 2.5)
    open_session(Recorded(policy=QUICK)).get(serve().url(), timeout=own)
    assert timeouts == [own]
    assert timeouts[0] is own


def test_what_remains_is_never_zero(serve: Serve, open_session: Open) -> None:
    """Clients read zero as an error, or as no timeout at all (python-api-core#776)."""
    timeouts.clear()
    wait = 4.999999999
    policy = QUICK.replace(clock=VirtualClock(), backoff=Constant(wait), deadline=5)
    with pytest.raises(requests.Timeout):
        open_session(Recorded(policy=policy)).get(serve(then=answer(503)).url())
    assert [each.total for each in timeouts] == [5.0, 1e-6]


def test_the_attempt_timeout_cuts_a_stall(serve: Serve, open_session: Open) -> None:
    """Without a timeout of the caller's own."""
    server = serve(stall(LONG), answer(body=b"fine"))
    session = open_session(policy=QUICK.replace(attempt_timeout=0.2))
    assert session.get(server.url()).content == b"fine"


@pytest.mark.parametrize("keep_alive", [True, False])
def test_the_attempt_timeout_cuts_a_body_that_drips(
    keep_alive: bool, serve: Serve, open_session: Open
) -> None:
    """Each byte comes in time, the body does not."""
    server = serve(answer(body=b"x" * 100, drip=0.05, keep_alive=keep_alive), answer(body=b"fine"))
    session = open_session(policy=QUICK.replace(attempt_timeout=0.3))
    began = time.monotonic()
    assert session.get(server.url()).content == b"fine"
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("options", [{}, {"chunked": True}, {"keep_alive": False}])
def test_a_body_in_time_is_read_as_ever(
    options: dict[str, bool], serve: Serve, open_session: Open
) -> None:
    """In every framing, compressed or not."""
    plain = bytes(range(256)) * 4000
    server = serve(
        answer(503, body=b"x"),
        answer(200, {"Content-Encoding": "gzip"}, gzip.compress(plain), **options),
        answer(200, (), plain, **options),
    )
    session = open_session(policy=QUICK.replace(attempt_timeout=LONG))
    assert session.get(server.url()).content == plain
    response = session.get(server.url())
    assert response.content == plain
    assert "stream" not in vars(response.raw)  # it is urllib3's own again


def test_answers_that_end_oddly_are_read_in_time(serve: Serve, open_session: Open) -> None:
    """One without a length, one without a body, one to HEAD."""
    unframed = raw(b"HTTP/1.1 200 OK\r\n\r\nto the end")
    server = serve(unframed, answer(204), answer(404, body=b"x"))
    session = open_session(policy=QUICK.replace(attempt_timeout=LONG))
    assert session.get(server.url()).content == b"to the end"
    assert session.get(server.url()).content == b""
    assert session.head(server.url()).content == b""


@pytest.mark.parametrize("framing", [{}, {"chunked": True}])
def test_a_body_that_breaks_off_under_a_time_limit(
    framing: dict[str, bool], serve: Serve, open_session: Open
) -> None:
    """It is noticed there as well."""
    server = serve(truncated(**framing), truncated(**framing), answer(body=b"fine"))
    session = open_session(policy=QUICK.replace(attempt_timeout=LONG))
    assert session.get(server.url()).content == b"fine"


def test_the_deadline_ends_the_call(serve: Serve, open_session: Open) -> None:
    """With the last error, and no attempt after it."""
    server = serve(then=stall(LONG))
    session = open_session(policy=http_policy(deadline=0.3, backoff=Constant(0.05)))
    began = time.monotonic()
    with pytest.raises(requests.ReadTimeout):
        session.get(server.url())
    assert time.monotonic() - began < 2


def test_an_outer_deadline_is_heeded(serve: Serve, open_session: Open) -> None:
    """The adapter's call within another retried one has no more time than that."""
    server = serve(then=stall(LONG))
    session = open_session(policy=QUICK)

    @retry(policy=RetryPolicy(attempts=1, deadline=0.2))
    def fetch() -> requests.Response:
        return session.get(server.url())

    began = time.monotonic()
    with pytest.raises(requests.ReadTimeout):
        fetch()
    assert time.monotonic() - began < 2


def slow_ending(exchange: Exchange) -> None:
    """Headers and half of the body at once, the rest later than the attempt may last."""
    exchange.read()
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
    exchange.wait(0.5)
    exchange.send(b"half")


def test_a_streamed_response_has_the_callers_time(serve: Serve, open_session: Open) -> None:
    """Once it is handed over, the attempt is over, and so is its limit."""
    server = serve(then=slow_ending)
    session = open_session(policy=QUICK.replace(attempt_timeout=0.25))
    response = session.get(server.url(), stream=True, timeout=LONG)
    assert response.content == b"halfhalf"


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_uses_up_no_attempts(status: int, serve: Serve, open_session: Open) -> None:
    """Each step of the way has all of them."""
    busy = answer(503)
    server = serve(busy, busy, redirect("/b", status), busy, busy, answer(body=b"there"))
    response = open_session().get(server.url("/a"))
    assert (response.status_code, response.content) == (200, b"there")
    assert [request.target for request in server.requests] == ["/a"] * 3 + ["/b"] * 3
    assert [each.status_code for each in response.history] == [status]


def test_a_redirected_post_keeps_its_body(serve: Serve, open_session: Open) -> None:
    """307, and a file that is rewound by the session, then by the adapter."""
    server = serve(answer(429), redirect("/b", 307), answer(429), answer(201))
    response = open_session().post(server.url("/a"), data=at_6())
    assert response.status_code == 201
    assert [request.body for request in server.requests] == [b"a file of bytes"] * 4


def test_a_body_that_is_used_up_is_not_redirected(serve: Serve, open_session: Open) -> None:
    """requests by itself sends an empty one, and the server says 200."""
    server = serve(redirect("/b", 307))
    with pytest.raises(requests.exceptions.UnrewindableBodyError):
        open_session().put(server.url("/a"), data=generator())
    assert [request.target for request in server.requests] == ["/a"]


def test_a_redirect_that_asks_for_get_leaves_the_body_behind(
    serve: Serve, open_session: Open
) -> None:
    """303, after a body that is used up."""
    server = serve(redirect("/b", 303), answer(503), answer(body=b"made"))
    assert open_session().post(server.url("/a"), data=generator()).content == b"made"
    assert [(each.method, each.body) for each in server.requests] == [
        ("POST", b"a file of bytes"),
        ("GET", b""),
        ("GET", b""),
    ]


def test_credentials_stay_behind(serve: Serve, open_session: Open) -> None:
    """On another origin, in all attempts there."""
    there = serve(answer(503), answer())
    here = serve(answer(503), redirect(there.url("/b", host="localhost"), 307))
    response = open_session().get(here.url("/a"), auth=("user", "secret"))
    assert response.status_code == 200
    assert [request.header("Authorization") is None for request in here.requests] == [False] * 2
    assert [request.header("Authorization") for request in there.requests] == [None] * 2


def test_one_deadline_for_all_of_the_way(serve: Serve, open_session: Open) -> None:
    """What the steps before took is gone for the next; not so for a caller that goes on himself."""
    timeouts.clear()
    clock = VirtualClock()
    server = serve(answer(503), redirect("/b"), answer(503), redirect("/c"), answer())
    policy = QUICK.replace(clock=clock, backoff=Constant(3), deadline=10)
    session = open_session(Recorded(policy=policy))
    assert session.get(server.url("/a")).status_code == 200
    assert [each.total for each in timeouts] == [10.0, 7.0, 7.0, 4.0, 4.0]
    timeouts.clear()
    server = serve(redirect("/b"), answer())
    response = session.get(server.url("/a"), allow_redirects=False)
    clock.spend(60)
    assert response.next is not None
    assert session.send(response.next).status_code == 200
    assert [each.total for each in timeouts] == [10.0, 10.0]


def test_redirects_without_end(serve: Serve, open_session: Open) -> None:
    """requests' own limit holds."""
    session = open_session()
    session.max_redirects = 4
    with pytest.raises(requests.TooManyRedirects):
        session.get(serve(then=redirect("/again")).url())


def test_a_redirect_whose_body_breaks_off_is_followed(serve: Serve, open_session: Open) -> None:
    """As requests does: nobody reads that body."""
    broken = truncated(status=307, headers={"Location": "/b"})
    server = serve(broken, answer(201))
    assert open_session().post(server.url("/a"), timeout=LONG).status_code == 201


def test_cookies_of_every_response_handed_over_are_kept(serve: Serve, open_session: Open) -> None:
    """Although their bodies were read by the adapter."""
    server = serve(
        answer(503),
        answer(302, {"Location": "/b", "Set-Cookie": "first=1"}),
        answer(200, {"Set-Cookie": "second=2"}, b"x"),
    )
    session = open_session()
    session.get(server.url())
    assert dict(session.cookies) == {"first": "1", "second": "2"}
    assert server.requests[-1].header("Cookie") == "first=1"


# The idempotency key


def keys(server: RawServer) -> list[str | None]:
    return [request.header(KEY) for request in server.requests]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_call_has_one_key_on_all_attempts(method: str, serve: Serve, open_session: Open) -> None:
    """With it, what was lost on the way is sent again; quoted, as the draft has it."""
    server = serve(reset, answer(503), answer(201))
    response = open_session(idempotency_key=True).request(method, server.url(), data=b"x")
    assert response.status_code == 201
    first = keys(server)[0]
    assert first is not None
    assert (first[0], first[-1], len(first)) == ('"', '"', 38)
    assert keys(server) == [first] * 3
    assert response.request.headers[KEY] == first


def test_the_next_call_has_another_key(serve: Serve, open_session: Open) -> None:
    """The same prepared request as well: it is left as it was."""
    server = serve()
    session = open_session(idempotency_key=True)
    prepared = session.prepare_request(requests.Request("POST", server.url(), data=b"x"))
    session.send(prepared)
    session.send(prepared)
    session.send(prepared.copy())
    assert len({*keys(server)}) == 3
    assert KEY not in prepared.headers


def test_a_bare_key(serve: Serve, open_session: Open) -> None:
    """For servers that do not know the draft."""
    server = serve(answer(503), answer())
    open_session(idempotency_key="bare").post(server.url())
    first = keys(server)[0]
    assert first is not None
    assert len(first) == 36
    assert keys(server) == [first] * 2


@pytest.mark.parametrize("name", [KEY, "idempotency-key", "IDEMPOTENCY-KEY"])
@pytest.mark.parametrize("option", [True, "bare", False])
def test_the_callers_own_key_is_kept(
    name: str, option: Any, serve: Serve, open_session: Open
) -> None:
    """In any case, unquoted, once; and counted, also where none are made."""
    server = serve(answer(503), answer())
    headers = {name: "mine"}
    response = open_session(idempotency_key=option).post(server.url(), headers=headers)
    assert response.status_code == 200
    assert keys(server) == ["mine", "mine"]
    assert headers == {name: "mine"}


@pytest.mark.parametrize("value", ["x" * 256, "clé", ""])
def test_a_key_that_cannot_be_sent_is_refused(value: str, serve: Serve, open_session: Open) -> None:
    """Before anything is."""
    server = serve()
    with pytest.raises(ValueError, match="Idempotency-Key must be one value of 1 to 255"):
        open_session(idempotency_key=True).post(server.url(), headers={KEY: value.encode()})
    assert server.steps_taken == 0


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_idempotent_requests_need_no_key(method: str, serve: Serve, open_session: Open) -> None:
    """And get none."""
    server = serve()
    open_session(idempotency_key=True).request(method, server.url())
    assert keys(server) == [None]


def test_a_conflict_of_a_request_with_a_key_is_waited_out(serve: Serve, open_session: Open) -> None:
    """409: the first is still being worked on."""
    server = serve(reset, answer(409), answer(201))
    assert open_session(idempotency_key=True).post(server.url()).status_code == 201


@pytest.mark.parametrize("own", [{}, {KEY: "mine"}])
def test_the_key_goes_along_on_the_same_origin(
    own: dict[str, str], serve: Serve, open_session: Open
) -> None:
    """One for the whole way."""
    server = serve(answer(503), redirect("/b", 307), answer(503), redirect("/c", 308), answer(201))
    open_session(idempotency_key=True).post(server.url("/a"), data=b"x", headers=own)
    assert len(server.requests) == 5
    assert len({*keys(server)}) == 1
    assert None not in keys(server)


@pytest.mark.parametrize("own", [{}, {KEY: "mine"}])
def test_the_key_does_not_go_to_another_origin(
    own: dict[str, str], serve: Serve, open_session: Open
) -> None:
    """Nor does another one, and without it the request is sent once there."""
    there = serve(redirect("/c", 307), answer(503))
    here = serve(redirect(there.url("/b", host="localhost"), 307))
    response = open_session(idempotency_key=True).post(here.url(), data=b"x", headers=own)
    assert response.status_code == 503
    assert None not in keys(here)
    assert keys(there) == [None, None]
    assert [request.body for request in there.requests] == [b"x", b"x"]


def test_a_call_after_a_redirect_that_was_not_followed(serve: Serve, open_session: Open) -> None:
    """It is a call of its own, with a key of its own; `response.next` goes on with the old one."""
    server = serve(redirect("/b", 307), redirect("/b", 307), answer(201))
    session = open_session(idempotency_key=True)
    prepared = session.prepare_request(requests.Request("POST", server.url("/a")))
    session.send(prepared, allow_redirects=False)
    response = session.send(prepared, allow_redirects=False)
    assert response.next is not None
    session.send(response.next)
    first, second, third = keys(server)
    assert first != second
    assert second == third


def test_a_bad_option_is_refused() -> None:
    """By name and value."""
    with pytest.raises(ValueError, match="idempotency_key must be True, False or 'bare', got 'x'"):
        RetryAdapter(idempotency_key="x")  # type: ignore[arg-type]  # that is the point


def test_another_call_to_where_a_redirect_points_has_a_key_of_its_own(
    serve: Serve, open_session: Open
) -> None:
    """It may be made for another reason."""
    server = serve(redirect("/b", 307), answer(201))
    session = open_session(idempotency_key=True)
    session.post(server.url("/a"), allow_redirects=False)
    session.post(server.url("/b"))
    assert len({*keys(server)}) == 2
    assert None not in keys(server)


# Policies


def test_a_policy_by_endpoint(serve: Serve, open_session: Open) -> None:
    """The adapter's calls show method and URL."""
    server = serve(then=answer(503))
    policy = by_endpoint({"GET /users/{id}": QUICK.replace(attempts=2)}, default=QUICK)
    session = open_session(policy=policy)
    session.get(server.url("/users/7?x=y"))
    assert len(server.requests) == 2
    session.get(server.url("/other"))
    assert len(server.requests) == 5


def test_a_policy_from_the_request(serve: Serve, open_session: Open) -> None:
    """A function of the call finds the request among its arguments."""

    def choose(call: Call) -> RetryPolicy:
        assert isinstance(call.instance, RetryAdapter)
        return QUICK.replace(attempts=int(call.args[0].headers["X-Attempts"]))

    server = serve(then=answer(503))
    open_session(policy=choose).get(server.url(), headers={"X-Attempts": "2"})
    assert len(server.requests) == 2


def test_a_budget_for_each_host(serve: Serve, open_session: Open) -> None:
    """One that is down costs the other nothing."""
    down, up = serve(then=answer(503)), serve(answer(503), answer())
    session = open_session(policy=QUICK.replace(budget=per_host(RatioBudget(reserve=3))))
    for _ in range(4):
        assert session.get(down.url()).status_code == 503
    assert len(down.requests) == 4 + 3
    assert session.get(up.url()).status_code == 200


def test_statuses_of_ones_own(serve: Serve, open_session: Open) -> None:
    """Classifiers stack on the preset's."""
    policy = http_policy(classify=OnStatus(418), attempts=3, backoff=Constant(0))
    server = serve(answer(418), answer(503), answer())
    assert open_session(policy=policy).get(server.url()).status_code == 200


def test_a_request_says_how_it_is_retried(serve: Serve, open_session: Open) -> None:
    """Fields over the policy, another policy, or no retries at all."""
    session = open_session()
    own: list[tuple[Any, int]] = [
        ({"attempts": 2}, 2),
        (QUICK.replace(attempts=4), 4),
        (lambda call: QUICK.replace(attempts=1), 1),
        (None, 1),
    ]
    for option, requested in own:
        server = serve(then=answer(503, body=b"busy"))
        prepared = session.prepare_request(requests.Request("GET", server.url()))
        response = session.send(prepared, retrykit=option)
        assert response.content == b"busy"
        assert len(server.requests) == requested


def test_what_a_request_says_goes_along_with_its_redirects(
    serve: Serve, open_session: Open
) -> None:
    """It is the session that hands it on."""
    server = serve(redirect("/b"), then=answer(503))
    session = open_session()
    prepared = session.prepare_request(requests.Request("GET", server.url()))
    session.send(prepared, retrykit={"attempts": 2})
    assert len(server.requests) == 3


def test_a_bad_field_of_a_request_is_refused(serve: Serve, open_session: Open) -> None:
    """By name and value, before anything is sent."""
    server = serve()
    session = open_session()
    prepared = session.prepare_request(requests.Request("GET", server.url()))
    with pytest.raises(ValueError, match="attempts must be at least 1, got 0"):
        session.send(prepared, retrykit={"attempts": 0})
    assert server.steps_taken == 0


def test_scopes_hold(serve: Serve, open_session: Open) -> None:
    """`override` and `disabled` around any of the session's methods."""
    server = serve(then=answer(503))
    session = open_session()
    with override(attempts=2):
        session.get(server.url())
    assert len(server.requests) == 2
    with disabled():
        session.get(server.url())
    assert len(server.requests) == 3


def test_retries_around_retries_are_refused() -> None:
    """`max_retries`, when it is made and later (urllib3 would multiply them)."""
    with pytest.raises(ValueError, match="max_retries must be 0, got 3"):
        RetryAdapter(max_retries=3)
    with pytest.raises(ValueError, match="max_retries must be 0, got Retry"):
        RetryAdapter(max_retries=Retry(connect=0, read=0, other=0, status=2))
    adapter = RetryAdapter(max_retries=0)
    with pytest.raises(ValueError, match="max_retries must be 0"):
        adapter.max_retries = Retry(2)
    assert adapter.max_retries.total == 0
    assert RetryAdapter(max_retries=Retry(False)).max_retries.total is False


@pytest.mark.parametrize("policy", [3, RetryPolicy, object()])
def test_a_bad_policy_is_refused(policy: Any) -> None:
    """When the adapter is made."""
    with pytest.raises(TypeError, match="policy must"):
        RetryAdapter(policy=policy)


# Beside it


def test_the_request_is_left_as_it_was(serve: Serve, open_session: Open) -> None:
    """Headers, body and what others have put on it."""
    server = serve(answer(503), answer())
    session = open_session(idempotency_key=True)
    prepared = session.prepare_request(requests.Request("POST", server.url(), data=generator()))
    body, headers = prepared.body, dict(prepared.headers)
    session.send(prepared)
    assert prepared.body is body
    assert dict(prepared.headers) == headers


def test_the_response_tells_its_request(serve: Serve, open_session: Open) -> None:
    """As requests does: method, URL, the body that was handed over, the adapter."""
    session = open_session()
    body = io.BytesIO(b"content")
    response = session.put(serve(answer(503), answer()).url("/a"), data=body)
    assert response.request.method == "PUT"
    assert response.request.body is body
    assert response.connection is session.get_adapter("http://")


@pytest.mark.parametrize("fault", [answer(503), reset, truncated(), answer(429)])
def test_through_a_proxy(fault: Step, serve: Serve, open_session: Open) -> None:
    """One that forwards: it sees the whole URL, each time."""
    proxy = serve(fault, fault, answer(body=b"there"))
    proxies = {"http": proxy.url()}
    url = "http://retrykit.invalid/a?b=c"
    assert open_session().get(url, proxies=proxies, timeout=LONG).content == b"there"
    assert [request.target for request in proxy.requests] == [url] * 3


def test_a_proxy_that_refuses_a_tunnel_had_no_request_to_lose(
    serve: Serve, open_session: Open
) -> None:
    """The POST never left, so it may be sent again."""
    proxy = serve(then=answer(503))
    with pytest.raises(requests.exceptions.ProxyError):
        open_session().post(
            "https://retrykit.invalid/", data=b"x", proxies={"https": proxy.url()}, timeout=LONG
        )
    assert [request.method for request in proxy.requests] == ["CONNECT"] * 3


def test_digest_authentication(serve: Serve, open_session: Open) -> None:
    """It sends a request again by itself, with a nonce, through the same adapter."""
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}
    server = serve(answer(503), answer(401, challenge), answer(503), answer(body=b"in"))
    auth = HTTPDigestAuth("user", "secret")
    response = open_session().put(server.url(), data=io.BytesIO(b"content"), auth=auth)
    assert response.content == b"in"
    assert [request.body for request in server.requests] == [b"content"] * 4
    assert (server.requests[-1].header("Authorization") or "").startswith("Digest")


def test_current_attempt_within_an_attempt(serve: Serve, open_session: Open) -> None:
    """A body that is made anew each time can tell which attempt it is for."""

    class Numbered:
        def __iter__(self) -> Iterator[bytes]:
            yield b"attempt %d" % current_attempt().number

    server = serve(answer(503), answer())
    open_session().put(server.url(), data=Numbered())
    assert [request.body for request in server.requests] == [b"attempt 1", b"attempt 2"]


def test_a_session_pickles(serve: Serve, open_session: Open) -> None:
    """Its policy included."""
    server = serve(answer(503), answer(503), answer(201))
    session = open_session(idempotency_key=True)
    with pickle.loads(pickle.dumps(session)) as copied:
        assert copied.post(server.url()).status_code == 201
    assert len({*keys(server)}) == 1


def test_many_threads_share_a_session(serve: Serve, open_session: Open) -> None:
    """Each call has its own attempts and its own key."""
    server = serve(*[answer(503)] * 16, then=answer(201))
    session = open_session(policy=QUICK.replace(attempts=20), idempotency_key=True)

    def order(number: int) -> int:
        return session.post(server.url(f"/{number}"), data=b"x").status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(order, range(24))) == {201}
    by_target: dict[str, set[str | None]] = {}
    for request in server.requests:
        by_target.setdefault(request.target, set()).add(request.header(KEY))
    assert [len(each) for each in by_target.values()] == [1] * 24
    assert len(set.union(*by_target.values())) == 24
    assert len(server.requests) == 24 + 16


def test_nothing_secret_is_logged(
    serve: Serve, open_session: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """No query, no credentials, no header: the adapter's name alone."""
    caplog.set_level("DEBUG", logger="retrykit")
    server = serve(answer(503), answer(503), then=answer(503))
    url = server.url("/a?token=secret").replace("//", "//user:secret@")
    session = open_session(policy=http_policy(attempts=2, backoff=Constant(0)))
    session.get(url, headers={"X-Key": "secret"})
    assert "RetryAdapter.send: attempt 1 failed" in caplog.text
    records = [str(vars(record)) for record in caplog.records]
    assert not any("secret" in record for record in records)


def test_without_requests_the_extra_is_named() -> None:
    """The message tells what to install."""
    program = (
        "import sys; sys.modules['requests'] = None\n"
        "try:\n    import retrykit.http.requests\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == (
        "retrykit.http.requests needs requests: install retrykit with the extra [requests]"
    )


# The examples


def run_example(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What an example prints; its waits take no time."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))
    with override(clock=VirtualClock()):
        example["main"](url)
    return capsys.readouterr().out


def test_the_example_of_a_client(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call comes to its end, over all that fails."""
    server = serve(
        reset,
        answer(200, body=b'{"name": "Ada"}'),
        answer(503),
        answer(204),
        *[answer(503, {"Retry-After": "2"}, LARGE)] * 4,
        answer(body=LARGE),
        answer(503),
        answer(503),
        answer(502),
        answer(429, {"Retry-After": "3600"}),
    )
    assert run_example("requests_client", server.url(), capsys) == (
        "user: Ada\n"
        "picture: 204\n"
        "report: 200000 bytes\n"
        "health: 503\n"
        "news: 502\n"
        "limited: come back in 3600 s\n"
    )
    uploads = [request.body for request in server.requests if request.method == "PUT"]
    assert uploads == [b"picture", b"picture"]
    assert len(server.requests) == 13


class Shop:
    """Takes orders, and takes each key once; whatever it answers may be lost."""

    def __init__(self, *lost: bool) -> None:
        self.orders: list[str] = []
        self._known: dict[str, int] = {}
        self._lost = iter(lost)

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.read()
        assert request is not None
        key = request.header(KEY)
        number = self._known.get(key, 0) if key else 0
        if not number:
            self.orders.append(json.loads(request.body)["item"])
            number = len(self.orders)
        if key:
            self._known[key] = number
        if next(self._lost):
            reset(exchange)
        else:
            answer(201, body=b'{"number": %d}' % number)(exchange)


def test_the_example_of_orders_placed_once(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five answers of nine are lost, and nothing is ordered twice."""
    shop = Shop(True, True, True, False, False, True, False, True, False)
    server = serve(then=shop)
    assert run_example("idempotent_post", server.url(), capsys) == (
        "without a key:\n"
        "  attempt 1: not sent again, it may have been done\n"
        "  ConnectionError\n"
        "with a key:\n"
        "  attempt 1: connection_failed, once more\n"
        "  attempt 2: connection_failed, once more\n"
        "  order 2\n"
        "the next one, with another key:\n"
        "  order 3\n"
        "with a key of one's own:\n"
        "  attempt 1: connection_failed, once more\n"
        "  order 4\n"
        "  attempt 1: connection_failed, once more\n"
        "  order 4\n"
    )
    assert shop.orders == ["a book", "a book", "a lamp", "a desk"]
    assert len(server.requests) == 9
