"""The misbehaving servers do what they say, shown by real clients and by plain sockets."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import aiohttp
import httpx
import pytest
import requests
import trustme
import urllib3
from servers import (
    Exchange,
    OnAccept,
    RawServer,
    Step,
    answer,
    early,
    endless,
    hang_up,
    junk_headers,
    junk_status_line,
    raw,
    redirect,
    refused_port,
    reset,
    stall,
    truncated,
    unaccepting_port,
    unread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = b"payload"
UPLOAD = b"x" * 8_000_000
"""More than the buffers of both ends take, so that a client that sends it must wait."""


@pytest.fixture
def pool() -> Iterator[urllib3.PoolManager]:
    """A urllib3 pool that neither retries nor follows redirects."""
    with urllib3.PoolManager(retries=False, timeout=2.0) as manager:
        yield manager


class TestAnswers:
    def test_each_request_takes_the_next_step_and_then_it_is_200(
        self, pool: urllib3.PoolManager
    ) -> None:
        """A script of two is followed by the fallback for as long as requests come."""
        with RawServer(answer(503), answer(404, body=b"no")) as server:
            seen = [pool.request("GET", server.url()) for _ in range(4)]
        assert [(got.status, got.data) for got in seen] == [
            (503, b""),
            (404, b"no"),
            (200, b"ok"),
            (200, b"ok"),
        ]

    def test_the_fallback_is_chosen_by_then(self, pool: urllib3.PoolManager) -> None:
        """`then` is what every request past the script gets."""
        with RawServer(answer(), then=answer(529)) as server:
            assert [pool.request("GET", server.url()).status for _ in range(3)] == [200, 529, 529]

    def test_headers_arrive_as_they_were_given(self, pool: urllib3.PoolManager) -> None:
        """Repeated names, odd spellings and raw bytes are sent untouched and in order."""
        headers: list[tuple[str, str | bytes]] = [
            ("Retry-After", "1"),
            ("retry-AFTER", b"\xe9"),
            ("X-Empty", ""),
        ]
        with RawServer(answer(503, headers)) as server:
            got = pool.request("GET", server.url())
        assert [pair for pair in got.headers.items() if pair[0].lower() != "content-length"] == [
            ("Retry-After", "1"),
            ("Retry-After", "é"),
            ("X-Empty", ""),
        ]

    @pytest.mark.parametrize("value", ["0", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT", "soon", "-1"])
    def test_any_retry_after_can_be_sent(self, value: str) -> None:
        """The header's value is the test's own affair."""
        with RawServer(answer(429, {"Retry-After": value})) as server:
            assert requests.get(server.url(), timeout=2).headers["Retry-After"] == value

    def test_a_head_request_gets_no_body_and_keeps_the_connection(
        self, pool: urllib3.PoolManager
    ) -> None:
        """The length is announced as for GET, and the next response is not taken for the body."""
        with RawServer(answer(body=b"12345")) as server:
            head = pool.request("HEAD", server.url())
            assert (head.headers["Content-Length"], head.data) == ("5", b"")
            assert pool.request("GET", server.url()).data == b"ok"
            assert server.connections == 1

    @pytest.mark.parametrize("status", [204, 304])
    def test_statuses_without_a_body_have_none(
        self, status: int, pool: urllib3.PoolManager
    ) -> None:
        """204 and 304 end at their headers, so that the connection can go on."""
        with RawServer(answer(status)) as server:
            assert pool.request("GET", server.url()).data == b""
            assert pool.request("GET", server.url()).data == b"ok"
            assert server.connections == 1

    def test_a_body_can_come_in_chunks(self, pool: urllib3.PoolManager) -> None:
        """`chunked` frames the same body without announcing its length, also an empty one."""
        with RawServer(answer(body=b"hello", chunked=True), answer(chunked=True)) as server:
            got = pool.request("GET", server.url())
            assert (got.data, "Content-Length" in got.headers) == (b"hello", False)
            assert pool.request("GET", server.url()).data == b""
            assert server.connections == 1

    def test_a_body_can_drip(self, pool: urllib3.PoolManager) -> None:
        """No single wait is long, but all of them together are: only a deadline notices."""
        with RawServer(answer(body=b"12345", drip=0.03)) as server:
            started = time.monotonic()
            assert pool.request("GET", server.url(), timeout=0.1).data == b"12345"
            assert time.monotonic() - started >= 0.15

    def test_interim_responses_go_before_the_answer(self) -> None:
        """100 and 103 may come first; clients pass over them."""
        with RawServer(answer(body=b"real", interim=(100, 103))) as server:
            assert httpx.post(server.url(), content=BODY).content == b"real"

    def test_a_redirect_leads_to_another_path(self) -> None:
        """The client comes back on the same server."""
        with RawServer(redirect("/there", 307)) as server:
            requests.post(server.url("/here"), data=BODY, timeout=2)
            assert [(r.method, r.target, r.body) for r in server.requests] == [
                ("POST", "/here", BODY),
                ("POST", "/there", BODY),
            ]

    def test_a_redirect_to_another_origin_shows_whether_credentials_go_along(self) -> None:
        """One server under two names is two origins: requests strips what was for the first."""
        with RawServer() as second, RawServer(redirect(second.url(host="localhost"))) as first:
            requests.get(first.url(), headers={"Authorization": "Bearer secret"}, timeout=2)
            assert first.requests[0].header("authorization") == "Bearer secret"
            assert second.requests[0].header("authorization") is None

    def test_a_huge_error_body_is_sent_whole(self) -> None:
        """200 kB behind a 500."""
        with RawServer(answer(500, body=b"x" * 200_000)) as server:
            assert len(requests.get(server.url(), timeout=2).content) == 200_000

    def test_an_endless_body_ends_when_the_client_hangs_up(self) -> None:
        """A client that reads a little and closes has cost little more than the buffers."""
        with RawServer(endless()) as server:
            with httpx.stream("GET", server.url()) as response:
                assert response.status_code == 500
                assert len(next(response.iter_bytes(1000))) == 1000
            server.wait_until(lambda server: server.open == 0)
            assert 1000 < server.sent < 4_000_000

    def test_an_endless_body_is_bounded(self) -> None:
        """A client that reads without a bound is cut off at the limit."""
        with (
            RawServer(endless(limit=1_000_000)) as server,
            pytest.raises(requests.exceptions.ChunkedEncodingError),
        ):
            requests.get(server.url(), timeout=2)
        assert 900_000 < server.sent < 1_100_000


class TestRecords:
    def test_a_request_is_recorded_as_it_came(self) -> None:
        """Method, target, headers in order with their own spelling, and the body."""
        with RawServer() as server, socket.create_connection(("127.0.0.1", server.port)) as client:
            before = time.monotonic()
            client.sendall(
                b"QUERY /a?b=c HTTP/1.1\r\nhost: x\r\nX-Two: 1\r\nx-two:2\r\n"
                b"Content-Length: 7\r\n\r\n" + BODY
            )
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            (request,) = server.requests
        assert (request.method, request.target, request.body) == ("QUERY", "/a?b=c", BODY)
        assert request.headers[:3] == (("host", "x"), ("X-Two", "1"), ("x-two", "2"))
        assert (request.complete, request.connection) == (True, 1)
        assert before <= request.arrived <= time.monotonic()

    def test_header_joins_the_values_of_one_name(self) -> None:
        """A header that was sent twice cannot be mistaken for one that was sent once."""
        with RawServer() as server:
            httpx.get(server.url(), headers=[("Idempotency-Key", "a"), ("idempotency-key", "b")])
            (request,) = server.requests
        assert request.header("IDEMPOTENCY-KEY") == "a, b"
        assert request.header("X-Absent") is None

    def test_a_chunked_body_is_recorded_without_its_chunks(self) -> None:
        """What a generator gave is what is in the record."""
        with RawServer() as server:
            requests.post(server.url(), data=iter([b"pay", b"load"]), timeout=2)
            (request,) = server.requests
        assert (request.body, request.complete, request.chunked) == (BODY, True, True)

    def test_trailers_after_a_chunked_body_are_passed_over(self) -> None:
        """The next request on the connection starts where the trailers end."""
        with RawServer() as server, socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(
                b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"7;ext=1\r\npayload\r\n0\r\nX-Trailer: 1\r\n\r\nGET /next HTTP/1.1\r\n\r\n"
            )
            assert [r.target for r in server.wait_for(2)] == ["/", "/next"]
            assert server.requests[0].body == BODY

    def test_connections_are_told_apart(self, pool: urllib3.PoolManager) -> None:
        """A kept connection keeps its number; after `Connection: close` there is a new one."""
        with RawServer(answer(), answer(keep_alive=False)) as server:
            for _ in range(3):
                pool.request("GET", server.url())
            assert [request.connection for request in server.requests] == [1, 1, 2]
            assert server.connections == 2

    def test_a_client_that_wants_to_close_is_not_kept(self) -> None:
        """The server honours the client's `Connection: close`."""
        with RawServer() as server:
            requests.get(server.url(), headers={"Connection": "close"}, timeout=2)
            server.wait_until(lambda server: server.open == 0)

    def test_open_connections_are_counted(self) -> None:
        """`open` follows what clients hold, `peak` remembers the most."""
        with RawServer() as server:
            clients = [urllib3.PoolManager() for _ in range(3)]
            for client in clients:
                client.request("GET", server.url())
            assert server.open == 3
            for client in clients:
                client.clear()
            server.wait_until(lambda server: server.open == 0)
            assert (server.peak, server.connections) == (3, 3)

    def test_a_client_that_leaves_in_mid_body_leaves_an_incomplete_record(self) -> None:
        """What came is there, and it says that more was announced."""
        with RawServer() as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\npay")
            (request,) = server.wait_for(1)
        assert (request.body, request.complete) == (b"pay", False)

    def test_a_client_that_leaves_in_mid_header_leaves_no_record(self) -> None:
        """That is no request; the step was taken all the same."""
        with RawServer() as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"POST / HTTP/1.1\r\nContent-Le")
            server.wait_until(lambda server: server.connections == 1 and server.open == 0)
            assert (server.requests, server.steps_taken) == ([], 1)

    def test_a_connection_without_a_request_takes_no_step(self) -> None:
        """Somebody who only connects does not use up the script."""
        with RawServer(answer(418)) as server:
            socket.create_connection(("127.0.0.1", server.port)).close()
            server.wait_until(lambda server: server.connections == 1 and server.open == 0)
            assert requests.get(server.url(), timeout=2).status_code == 418

    def test_waiting_in_vain_ends_with_what_was_seen(self) -> None:
        """`wait_for` is bounded and its error shows the server's counts."""
        with RawServer() as server, pytest.raises(TimeoutError, match="requests=0"):
            server.wait_for(1, timeout=0.01)


class TestUploads:
    def test_expect_100_continue_is_answered_before_the_body(self) -> None:
        """A client that waits for leave to send gets it."""
        with RawServer() as server:

            async def post() -> int:
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(server.url(), data=BODY, expect100=True) as response,
                ):
                    return response.status

            assert asyncio.run(asyncio.wait_for(post(), 2)) == 200
            assert server.requests[0].body == BODY

    def test_an_early_answer_refuses_a_body_that_waits_for_leave(self) -> None:
        """With 417 before `100 Continue` the body is never sent."""
        with RawServer(early(answer(417))) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(
                    b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n"
                )
                assert client.recv(12) == b"HTTP/1.1 417"
            (request,) = server.requests
        assert (request.body, request.complete) == (b"", False)

    def test_an_early_answer_can_be_read_by_a_client_that_still_uploads(self) -> None:
        """The server reads on after its answer, so that no reset overtakes it."""
        with RawServer(early(answer(413))) as server:
            assert requests.post(server.url(), data=UPLOAD, timeout=5).status_code == 413
            assert httpx.post(server.url(), content=UPLOAD, timeout=5).status_code == 200
            assert [request.complete for request in server.requests] == [False, True]

    def test_an_early_reset_hits_a_client_that_still_uploads(self) -> None:
        """The fault comes out of the write, and the record shows how little was read."""
        with RawServer(early(reset)) as server:
            with (
                closing(http.client.HTTPConnection("127.0.0.1", server.port)) as client,
                pytest.raises((ConnectionResetError, BrokenPipeError)),
            ):
                client.request("PUT", "/", UPLOAD)
            assert (server.requests[0].body, server.requests[0].complete) == (b"", False)

    def test_a_server_that_does_not_read_stalls_the_upload(self) -> None:
        """Buffers fill up and the client's write times out."""
        with RawServer(early(stall(5))) as server, pytest.raises(httpx.WriteTimeout):
            httpx.put(server.url(), content=UPLOAD, timeout=0.1)

    def test_an_early_answer_to_a_request_without_a_body_keeps_the_connection(
        self, pool: urllib3.PoolManager
    ) -> None:
        """There is nothing that was left unread."""
        with RawServer(early(answer(503))) as server:
            assert pool.request("GET", server.url()).status == 503
            assert pool.request("GET", server.url()).status == 200
            assert server.connections == 1


class TestFaults:
    def fault(self, *script: Step) -> BaseException:
        """What comes out of a urllib3 POST that meets `script`, down to the cause."""
        with (
            RawServer(*script) as server,
            urllib3.PoolManager(retries=False, timeout=0.1) as pool,
            pytest.raises(urllib3.exceptions.HTTPError) as caught,
        ):
            pool.request("POST", server.url(), body=BODY)
        self.server = server
        return caught.value.__cause__ or caught.value.__context__ or caught.value

    @pytest.mark.parametrize("step", [reset, unread(reset), OnAccept(reset)])
    def test_a_reset_in_place_of_a_response(self, step: Step) -> None:
        """ECONNRESET, whether or not the server looked at the request."""
        assert type(self.fault(step)) is ConnectionResetError

    def test_only_a_reset_that_reads_records_the_request(self) -> None:
        """A request left unread counts as a step and leaves no record."""
        self.fault(unread(reset))
        assert (self.server.steps_taken, self.server.requests) == (1, [])
        self.fault(reset)
        assert (self.server.steps_taken, self.server.requests[0].body) == (1, BODY)

    def test_a_close_in_place_of_a_response(self) -> None:
        """An orderly end of the connection where a status line belongs."""
        assert type(self.fault(hang_up)) is http.client.RemoteDisconnected

    def test_a_reset_on_a_kept_connection(self, pool: urllib3.PoolManager) -> None:
        """The first request is served, the second meets the fault on the same connection."""
        with RawServer(answer(), reset) as server:
            pool.request("GET", server.url())
            with pytest.raises(urllib3.exceptions.ProtocolError):
                pool.request("GET", server.url())
            assert [request.connection for request in server.requests] == [1, 1]

    def test_a_reset_on_accept_lets_a_kept_connection_go_on(self) -> None:
        """It belongs to the next connection; a request that is sooner takes it unread."""
        with RawServer(answer(), OnAccept(reset)) as server:
            with urllib3.PoolManager(retries=False) as first:
                first.request("GET", server.url())
                with pytest.raises(urllib3.exceptions.ProtocolError):
                    urllib3.PoolManager(retries=False).request("GET", server.url())
                assert first.request("GET", server.url()).status == 200
            assert [request.connection for request in server.requests] == [1, 1]

    @pytest.mark.parametrize("sent", [b"", b"four"])
    def test_a_reset_after_the_headers(self, sent: bytes) -> None:
        """The client has the status and what came of the body, and then the reset."""
        with (
            RawServer(truncated(sent, end=reset)) as server,
            httpx.stream("GET", server.url()) as response,
        ):
            assert response.status_code == 200
            body = b""
            with pytest.raises(httpx.ReadError):
                for piece in response.iter_raw():
                    body += piece
            assert body == sent

    @pytest.mark.parametrize("sent", [b"", b"four"])
    def test_a_close_in_mid_body(self, sent: bytes) -> None:
        """Fewer bytes than announced."""
        error = self.fault(truncated(sent, 100))
        assert isinstance(error, http.client.IncompleteRead)
        assert error.expected == 100 - len(sent)

    @pytest.mark.parametrize("announced", [4, 100])
    def test_a_chunked_body_that_is_cut(self, announced: int) -> None:
        """In the middle of a chunk, or between chunks with the last one missing."""
        step = truncated(b"four", announced, chunked=True)
        assert isinstance(self.fault(step), http.client.IncompleteRead)

    @pytest.mark.parametrize(
        "step", [stall(5), truncated(end=stall(5)), truncated(b"", end=stall(5))]
    )
    def test_a_stall(self, step: Step) -> None:
        """Nothing comes, before the headers or in mid-body, and the client's patience ends."""
        assert isinstance(self.fault(step), TimeoutError)

    def test_a_stall_ends_when_the_client_hangs_up(self) -> None:
        """No thread sleeps on for a client that has gone."""
        self.fault(stall(1000))
        self.server.wait_until(lambda server: server.open == 0)

    def test_a_stall_ends_by_itself_and_goes_on(self) -> None:
        """After its time comes the next step, here a proper answer."""
        with RawServer(stall(0.05, then=answer(202))) as server:
            started = time.monotonic()
            assert requests.get(server.url(), timeout=2).status_code == 202
            assert time.monotonic() - started >= 0.05

    def test_a_stall_ends_on_release(self) -> None:
        """The test decides when the server goes on, for those to come as well."""
        with RawServer(then=stall(1000, then=answer(202))) as server:
            with ThreadPoolExecutor(3) as threads:
                waiting = [threads.submit(requests.get, server.url(), timeout=5) for _ in "abc"]
                server.wait_for(3)
                server.release()
                assert [future.result().status_code for future in waiting] == [202, 202, 202]
            assert requests.get(server.url(), timeout=5).status_code == 202

    def test_a_junk_status_line(self) -> None:
        """What comes first is no HTTP."""
        assert isinstance(self.fault(junk_status_line), http.client.BadStatusLine)

    def test_junk_headers(self) -> None:
        """A strict client refuses them."""
        with RawServer(junk_headers) as server, pytest.raises(httpx.RemoteProtocolError):
            httpx.get(server.url())

    def test_raw_bytes_can_be_anything(self) -> None:
        """Here a chunk size that is no number."""
        step = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsome\r\n")
        assert isinstance(self.fault(step), http.client.IncompleteRead)

    def test_a_step_of_ones_own_is_a_function(self) -> None:
        """Whatever is not on offer takes a few lines."""

        def echo(exchange: Exchange) -> None:
            request = exchange.read()
            assert request is not None
            answer(body=request.body)(exchange)

        with RawServer(echo) as server:
            assert requests.post(server.url(), data=BODY, timeout=2).content == BODY


class TestPorts:
    def test_a_refused_port(self, pool: urllib3.PoolManager) -> None:
        """Nobody listens, and nobody else can begin to."""
        with refused_port() as port:
            with pytest.raises(urllib3.exceptions.NewConnectionError) as caught:
                pool.request("GET", f"http://127.0.0.1:{port}/")
            assert isinstance(caught.value.__cause__, ConnectionRefusedError)
            with pytest.raises(OSError, match="in use"), socket.socket() as other:
                other.bind(("127.0.0.1", port))

    def test_an_unaccepting_port(self) -> None:
        """The connection is neither made nor refused, for every client that tries."""
        with unaccepting_port() as port:
            for _ in range(3):
                with pytest.raises(httpx.ConnectTimeout):
                    httpx.get(f"http://127.0.0.1:{port}/", timeout=0.05)


class TestTls:
    @pytest.fixture
    def authority(self) -> trustme.CA:
        """An authority that nobody trusts unless told to."""
        return trustme.CA()

    @pytest.fixture
    def tls(self, authority: trustme.CA) -> ssl.SSLContext:
        """The server's side, with a certificate for 127.0.0.1."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return context

    @pytest.fixture
    def trusting(self, authority: trustme.CA) -> ssl.SSLContext:
        """The side of a client that trusts the authority."""
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    def test_a_client_that_trusts_the_certificate_is_served(
        self, tls: ssl.SSLContext, trusting: ssl.SSLContext
    ) -> None:
        """The same steps over HTTPS, on a connection that is kept."""
        with RawServer(answer(503), tls=tls) as server, httpx.Client(verify=trusting) as client:
            assert [client.get(server.url()).status_code for _ in range(2)] == [503, 200]
            assert server.connections == 1

    def test_a_client_that_does_not_trust_it_sends_no_request(self, tls: ssl.SSLContext) -> None:
        """The certificate is the fault; no step is taken."""
        with RawServer(tls=tls) as server:
            with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
                requests.get(server.url(), timeout=2)
            server.wait_until(lambda server: server.connections == 1 and server.open == 0)
            assert server.steps_taken == 0

    def test_a_reset_in_the_handshake(self, tls: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
        """On accept is before the handshake."""
        with RawServer(OnAccept(reset), tls=tls) as server:
            with pytest.raises(httpx.ConnectError):
                httpx.get(server.url(), verify=trusting)
            assert (server.requests, server.steps_taken) == ([], 1)

    def test_faults_after_the_handshake(
        self, tls: ssl.SSLContext, trusting: ssl.SSLContext
    ) -> None:
        """A body cut short under TLS is a body cut short."""
        with (
            RawServer(truncated(), truncated(end=reset), stall(5), tls=tls) as server,
            httpx.Client(verify=trusting, timeout=0.2) as client,
        ):
            with pytest.raises(httpx.RemoteProtocolError):
                client.get(server.url())
            # Which of the two a reset is under TLS depends on the version of Python.
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                client.get(server.url())
            with pytest.raises(httpx.ReadTimeout):
                client.get(server.url())

    def test_tls_spoken_to_a_plain_port(self) -> None:
        """The greeting is no request: it is refused at once rather than waited out."""
        with RawServer() as server:
            with pytest.raises(requests.exceptions.SSLError):
                requests.get(server.url().replace("http:", "https:"), timeout=5)
            assert server.requests == []

    def test_closing_while_a_client_is_silent_in_the_handshake(self, tls: ssl.SSLContext) -> None:
        """The server does not wait for a greeting that never comes."""
        with socket.socket() as client:
            with RawServer(tls=tls) as server:
                client.connect(("127.0.0.1", server.port))
                server.wait_until(lambda server: server.open == 1)
                started = time.monotonic()
            assert time.monotonic() - started < 1


class TestTheEnd:
    @pytest.mark.parametrize(
        "step",
        [
            stall(1000),
            early(stall(1000)),
            OnAccept(stall(1000)),
            endless(),
            answer(keep_alive=True),
        ],
        ids=["stall", "early", "on accept", "endless", "kept"],
    )
    def test_no_thread_and_no_socket_is_left(self, step: Step) -> None:
        """Whatever goes on, closing ends it at once and for good."""
        before = set(threading.enumerate())
        with warnings.catch_warnings(record=True) as caught, socket.socket() as client:
            warnings.simplefilter("always")
            server = RawServer(then=step)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
            server.wait_until(lambda server: server.steps_taken == 1)
            started = time.monotonic()
            server.close()
            assert time.monotonic() - started < 1
            assert set(threading.enumerate()) == before
            assert server.open == 0
            del server
        assert [str(warning.message) for warning in caught] == []

    def test_closing_twice_is_harmless(self) -> None:
        """A test may close a server that its fixture closes again."""
        with RawServer() as server:
            server.close()

    def test_a_closed_server_refuses(self) -> None:
        """The port is given back."""
        with RawServer() as server:
            server.close()
            with pytest.raises(httpx.ConnectError):
                httpx.get(server.url())

    def test_many_clients_at_once(self) -> None:
        """200 requests from 20 threads take 200 steps, each of them once."""
        script = [answer(body=b"%d" % number) for number in range(200)]
        with RawServer(*script, then=answer(500)) as server:

            def twenty(_: int) -> list[bytes]:
                with httpx.Client() as client:
                    return [client.get(server.url()).content for _ in range(10)]

            with ThreadPoolExecutor(20) as threads:
                bodies = [body for part in threads.map(twenty, range(20)) for body in part]
            assert sorted(bodies, key=int) == [b"%d" % number for number in range(200)]
            assert len(server.requests) == server.steps_taken == 200
            assert server.connections <= 20
