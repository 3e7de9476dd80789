"""HTTP/1.1 servers on loopback that misbehave on purpose: one scripted step for each request.

    with RawServer(reset, answer(503, {"Retry-After": "1"})) as server:
        client.get(server.url("/orders"))
        assert [request.target for request in server.requests] == ["/orders"] * 3

Real sockets and no library, so that a fault looks to a client as it looks in production.
A step is any callable that takes an `Exchange`. It begins when the first byte of a request is
there, on a new connection or on a kept one. The steps below cover the usual faults; a step that
takes `then` or `end` goes on with another one, and three wrappers say how much is read first:

    truncated(b"four", end=reset)    100 bytes announced, 4 sent, then a TCP reset
    stall(0.2, then=hang_up)         nothing for 0.2 s, then the connection is closed
    early(answer(413))               an answer while the client still uploads
    unread(reset)                    a reset while the request still waits to be read
    OnAccept(reset)                  a reset at once, on TLS before the handshake

`refused_port` and `unaccepting_port` are the two ways not to get a connection at all.
"""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from io import BufferedReader
    from typing import Self

Text: TypeAlias = str | bytes
Headers: TypeAlias = Mapping[str, Text] | Sequence[tuple[Text, Text]]
Step: TypeAlias = "Callable[[Exchange], None]"

PATIENCE: Final = 10.0
"""Seconds after which a server, or a test that waits for it, gives up: only a hang sees it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    """Pairs in the order they came, names spelled as they came."""
    body: bytes
    """What was read of it, freed from its chunks."""
    complete: bool
    """Whether all of it was read: not by an `early` step, nor if the client went away."""
    connection: int
    """Number of the connection, from 1."""
    arrived: float
    """When its first byte was seen, on `time.monotonic`."""

    def header(self, name: str) -> str | None:
        """The values under `name` in any case, joined as RFC 9110 section 5.3 joins them."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def chunked(self) -> bool:
        """Whether the body came in chunks."""
        return (self.header("Transfer-Encoding") or "").lower() == "chunked"


class Serve(Protocol):
    """Starts a server that somebody else closes: what the tests' fixture `serve` is."""

    def __call__(
        self, *script: Step, then: Step | None = None, tls: ssl.SSLContext | None = None
    ) -> RawServer: ...


class RawServer:
    """A scripted server on a free port of 127.0.0.1: each request takes the next step.

    Requests past the script get `then`. With `tls`, a server-side context, it speaks HTTPS.
    A request is in `requests` once its body is read; if its step never reads it, then it shows
    in `steps_taken` only. All of it is safe with concurrent clients.

    Leaving the block ends stalls, closes every connection and joins every thread.
    """

    def __init__(
        self, *script: Step, then: Step | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._script = deque(script)
        self._then = answer(body=b"ok") if then is None else then
        self._tls = tls
        self._changed = threading.Condition(threading.RLock())
        self._requests: list[Request] = []
        self._live: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._accepted = self._steps_taken = self._sent = self._peak = 0
        self._closing, self._released = _Flag(), _Flag()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        """The address of `path`; under `host="localhost"` the same server is another origin."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    @property
    def requests(self) -> list[Request]:
        """The requests that were read so far."""
        with self._changed:
            return list(self._requests)

    @property
    def steps_taken(self) -> int:
        """Steps begun, `then` included: the requests that arrived, read or not."""
        with self._changed:
            return self._steps_taken

    @property
    def connections(self) -> int:
        """Connections accepted since the start."""
        with self._changed:
            return self._accepted

    @property
    def open(self) -> int:
        """Connections that neither side has closed, as far as the server noticed."""
        with self._changed:
            return len(self._live)

    @property
    def peak(self) -> int:
        """The largest number of connections open at once."""
        with self._changed:
            return self._peak

    @property
    def sent(self) -> int:
        """Bytes handed to the network, on all connections together."""
        with self._changed:
            return self._sent

    def wait_until(self, holds: Callable[[RawServer], bool], timeout: float = PATIENCE) -> None:
        """Block until `holds(server)`; `TimeoutError` after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self), timeout):
                raise TimeoutError(f"{timeout:g} s were not enough: {self!r}")

    def wait_for(self, requests: int, timeout: float = PATIENCE) -> list[Request]:
        """The requests read so far, once there are at least that many."""
        self.wait_until(lambda server: len(server.requests) >= requests, timeout)
        return self.requests

    def release(self) -> None:
        """End every stall of this server, those that run and those to come."""
        self._released.set()

    def close(self) -> None:
        """Stop for good. A second time does nothing."""
        if self._closed:
            return
        self._closing.set()
        self._released.set()
        self._threads[0].join(PATIENCE)  # the acceptor first: after it no thread is added
        with self._changed:
            for connection in self._live:
                with suppress(OSError):  # the client may have closed it
                    # The plain socket's method: the TLS one takes the session from its thread.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        hung = [thread.name for thread in self._threads if thread.is_alive()]
        if hung:
            raise RuntimeError(f"threads that did not end: {hung}; {self!r}")
        self._closing.close()
        self._released.close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<RawServer {self.url()} connections={self.connections} open={self.open}"
            f" steps_taken={self.steps_taken} requests={len(self.requests)}>"
        )

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=f"RawServer:{self.port}")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listener, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._closing, selectors.EVENT_READ)
            while not self._closing.is_set():
                selector.select()
                with suppress(OSError):  # the client may be gone again, or we are closing
                    self._admit(self._listener.accept()[0])

    def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            # The handshake may block: it is left to the connection's own thread.
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._changed:
            self._accepted += 1
            self._live.add(connection)
            self._peak = max(self._peak, len(self._live))
            self._changed.notify_all()
        self._start(self._serve, connection, self._accepted)

    def _serve(self, connection: socket.socket, number: int) -> None:
        stream = connection.makefile("rb")
        try:
            with suppress(OSError):  # the client hung up, or did not like the certificate
                if step := self._step_on_accept():
                    step(Exchange(self, connection, stream, number))
                    return
                if isinstance(connection, ssl.SSLSocket):
                    connection.do_handshake()
                keep = True
                while keep and stream.peek(1):
                    exchange = Exchange(self, connection, stream, number)
                    self._next_step()(exchange)
                    keep = exchange.keep
        finally:
            with suppress(OSError):
                stream.close()
            connection.close()
            with self._changed:
                self._live.remove(connection)
                self._changed.notify_all()

    def _next_step(self) -> Step:
        with self._changed:
            self._steps_taken += 1
            self._changed.notify_all()
            return self._script.popleft() if self._script else self._then

    def _step_on_accept(self) -> Step | None:
        with self._changed:
            coming = self._script[0] if self._script else self._then
            return self._next_step() if isinstance(coming, OnAccept) else None

    def _record(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def _count(self, sent: int) -> None:
        with self._changed:
            self._sent += sent
            self._changed.notify_all()


class Exchange:
    """One request and what is done about it: what a step works with.

    `reads` says how much of the request `read` takes in: `"all"`, `"head"` or `"nothing"`.
    `keep` is whether the connection serves another request afterwards; at first it does not.
    An `OSError`, as when the client has gone, ends the connection and is no fault of the step.
    """

    def __init__(
        self, server: RawServer, connection: socket.socket, stream: BufferedReader, number: int
    ) -> None:
        self.connection = connection
        self.keep = False
        self.reads: Literal["all", "head", "nothing"] = "all"
        self._server = server
        self._stream = stream
        self._number = number
        self._arrived = time.monotonic()
        self._request: Request | None = None
        self._wrote = False

    def read(self) -> Request | None:
        """The request, read on the first call; `None` where this exchange reads nothing.

        Answers `Expect: 100-continue` before it reads a body.
        """
        if self.reads == "nothing" or self._request is not None:
            return self._request
        method, target, headers = self._read_head()
        head = Request(method, target, headers, b"", False, self._number, self._arrived)
        body, complete = bytearray(), False
        try:
            if self.reads == "head":
                complete = head.header("Content-Length") in (None, "0") and not head.chunked
            else:
                if (head.header("Expect") or "").lower() == "100-continue":
                    self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                for piece in self._read_body(head):
                    body += piece
                complete = True
        finally:
            self._request = replace(head, body=bytes(body), complete=complete)
            self._server._record(self._request)
        return self._request

    def send(self, data: bytes) -> None:
        """Hand `data` to the network."""
        self._wrote = True
        self.connection.sendall(data)
        self._server._count(len(data))

    def wait(self, seconds: float) -> None:
        """Sleep; less if the client hangs up or the server releases its stalls or closes."""
        ends = select.poll()
        # RDHUP, where there is one, shows a client that left even behind unread bytes.
        ends.register(self.connection, getattr(select, "POLLRDHUP", 0))
        ends.register(self._server._released, select.POLLIN)
        ends.poll(seconds * 1000)

    def reset(self) -> None:
        """Make the coming close a TCP reset.

        It waits a moment unless the client waits for the response, so that one and the same fault
        comes out: a reset between two writes or reads of the client may look like a plain close.
        """
        if self._wrote or not (self._request and self._request.complete):
            time.sleep(0.02)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False

    def linger(self) -> None:
        """Read on, and throw away, until the client is done sending: else it would meet a reset."""
        self.connection.shutdown(socket.SHUT_WR)
        while self._stream.read1(65536):
            pass
        self.keep = False

    def _read_head(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        if not self._stream.peek(1)[:1].isalpha():
            # For instance a TLS greeting on a plain port: it has no lines to wait for.
            self.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            raise ConnectionAbortedError("not an HTTP request")
        method, target, _ = self._line().split(" ", 2)
        pairs = (line.partition(":")[::2] for line in iter(self._line, ""))
        return method, target, tuple((name, value.strip()) for name, value in pairs)

    def _read_body(self, head: Request) -> Iterator[bytes]:
        if head.chunked:
            while size := int(self._line().partition(";")[0], 16):
                yield from self._pieces(size)
                self._line()
            for _ in iter(self._line, ""):  # trailers, up to the empty line
                pass
        else:
            yield from self._pieces(int(head.header("Content-Length") or 0))

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self._stream.read1(min(size, 65536))
            if not piece:
                raise ConnectionAbortedError("the client left in mid-body")
            yield piece
            size -= len(piece)

    def _line(self) -> str:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionAbortedError("the client left in mid-line")
        return line.rstrip(b"\r\n").decode("latin-1")


def reset(exchange: Exchange) -> None:
    """Read the request, then reset the connection."""
    exchange.read()
    exchange.reset()


def hang_up(exchange: Exchange) -> None:
    """Read the request, then close the connection."""
    exchange.read()
    exchange.keep = False


def answer(
    status: int = 200,
    headers: Headers = (),
    body: bytes = b"",
    *,
    chunked: bool = False,
    keep_alive: bool = True,
    interim: Iterable[int] = (),
    drip: float = 0.0,
) -> Step:
    """Answer as one should; `headers` are sent as they are, with those that frame the body.

    `interim`: statuses of 1xx responses that go before. `drip`: seconds before each byte of the
    body. The connection is kept unless `keep_alive` or the client says no.
    """

    def step(exchange: Exchange) -> None:
        request = exchange.read()
        keep = (
            keep_alive
            and request is not None
            and request.complete
            and (request.header("Connection") or "").lower() != "close"
        )
        bodiless = status in (204, 304) or (request is not None and request.method == "HEAD")
        for number in interim:
            exchange.send(_head(number))
        framing = _framing(None if chunked else len(body)) if status not in (204, 304) else []
        closing = [] if keep else [("Connection", "close")]
        exchange.send(_head(status, [*_pairs(headers), *framing, *closing]))
        for piece in () if bodiless else _drops(body) if drip else [body]:
            exchange.wait(drip)
            exchange.send(_chunk(piece) if chunked else piece)
        if chunked and not bodiless:
            exchange.send(_LAST_CHUNK)
        exchange.keep = keep
        if request is not None and not request.complete:
            exchange.linger()

    return step


def redirect(location: str, status: int = 302) -> Step:
    """Send the client to `location`: a path of the same server or a whole address."""
    return answer(status, {"Location": location})


def raw(data: bytes, *, end: Step = hang_up) -> Step:
    """Send `data` as it is, in place of a response."""

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.send(data)
        end(exchange)

    return step


junk_status_line: Final = raw(b"ICY 200 this is not HTTP\r\n\r\n")
"""A first line that belongs to no HTTP response."""

junk_headers: Final = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\x00\xff junk\r\n\r\nok")
"""A proper first line, then a header line without a colon and with bytes that may not be there."""


def truncated(
    sent: bytes = b"four",
    announced: int = 100,
    *,
    status: int = 200,
    headers: Headers = (),
    chunked: bool = False,
    end: Step = hang_up,
) -> Step:
    """Announce a body of `announced` bytes, send only `sent` of it, then go on with `end`.

    With `sent=b""` that is right after the headers. `chunked`: the announced bytes are one chunk,
    complete if `sent` is that long, and the last chunk never comes.
    """

    def step(exchange: Exchange) -> None:
        exchange.read()
        if chunked:
            complete = b"\r\n" if len(sent) == announced else b""
            body = b"%x\r\n" % announced + sent + complete
        else:
            body = sent
        framing = _framing(None if chunked else announced)
        exchange.send(_head(status, [*_pairs(headers), *framing]) + body)
        end(exchange)

    return step


def stall(seconds: float = 1.0, *, then: Step = hang_up) -> Step:
    """Do nothing for `seconds`, or until `RawServer.release`, then go on with `then`.

    A client that hangs up ends it at once.
    """

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.wait(seconds)
        then(exchange)

    return step


def endless(status: int = 500, *, limit: int = 1 << 26) -> Step:
    """A chunked body that goes on until the client hangs up, or `limit` bytes at most.

    `RawServer.sent` then tells, to a few hundred kB of socket buffers, what the client took.
    """

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        exchange.send(_head(status, _framing(None)))
        piece = _chunk(b"x" * (1 << 14))
        for _ in range(limit // len(piece)):
            exchange.send(piece)

    return step


def early(step: Step) -> Step:
    """Take `step` when only the head of the request was read: the client may still upload."""

    def taken(exchange: Exchange) -> None:
        exchange.reads = "head"
        step(exchange)

    return taken


def unread(step: Step) -> Step:
    """Take `step` when the request has begun to arrive, and read nothing of it.

    Mind that a system answers with a reset if it closes a connection with unread bytes, so that
    what a client sees of `unread(hang_up)` is left to chance.
    """

    def taken(exchange: Exchange) -> None:
        exchange.reads = "nothing"
        step(exchange)

    return taken


@dataclass(frozen=True, slots=True)
class OnAccept:
    """Take `step` as soon as the connection is there: before the request, or a TLS handshake.

    It waits for the next new connection; a request on a kept one takes it like `unread`.
    """

    step: Step

    def __call__(self, exchange: Exchange) -> None:
        unread(self.step)(exchange)


@contextmanager
def refused_port() -> Generator[int]:
    """A port that refuses connections, and that nobody else can get meanwhile."""
    with socket.socket() as bound:  # and never listening
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def unaccepting_port() -> Generator[int]:
    """A port where a connection is never made nor refused: its queue is full for good."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(64):  # how many fit beyond the backlog of 0 is the system's own affair
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.05)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                yield listener.getsockname()[1]
                return
        raise RuntimeError("this system accepts connections beyond the backlog")


class _Flag:
    """An event that `poll` and selectors can wait for together with sockets."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._set = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        if not self._set:
            self._set = True
            self._writer.send(b"!")  # never read: the flag stays up

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


_LAST_CHUNK: Final = b"0\r\n\r\n"


def _pairs(headers: Headers) -> list[tuple[Text, Text]]:
    return [*headers.items()] if isinstance(headers, Mapping) else [*headers]


def _bytes(text: Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _head(status: int, headers: Iterable[tuple[Text, Text]] = ()) -> bytes:
    """A status line and headers; the reason phrase may be empty, as for 529."""
    phrase = next((known.phrase for known in HTTPStatus if known == status), "")
    fields = (_bytes(name) + b": " + _bytes(value) + b"\r\n" for name, value in headers)
    return b"HTTP/1.1 %d %s\r\n" % (status, phrase.encode()) + b"".join(fields) + b"\r\n"


def _framing(length: int | None) -> list[tuple[Text, Text]]:
    """The header that announces a body of so many bytes, or one in chunks."""
    if length is None:
        return [("Transfer-Encoding", "chunked")]
    return [("Content-Length", str(length))]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def _drops(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))
