"""What comes out of each client for each fault that a socket can produce, and what is known of it.

Every cell of the table is a real request over a real connection. Its error is looked up in the
facts, which must say of it what the fault is: above all whether the request was sent. They may
say less than is true, `ambiguous` of a request that never left where a client hides that; they
must never say more.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import inspect
import io
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import httpx
import pytest
import requests
import trio
import urllib3
from servers import (
    Exchange,
    OnAccept,
    RawServer,
    Request,
    Step,
    answer,
    early,
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

from retrykit.facts.exceptions import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from servers import Serve

SHORT: Final = 0.1
"""Seconds of a client's patience with a fault that stalls."""
LONG: Final = 5.0
"""And with all others: a machine under load must not turn one fault into another."""


# What two clients leave to the collector when an exchange breaks off: httpx under Trio its own
# generators, aiohttp a connection that the end of the loop kept from closing. (That the servers
# leave nothing is tested with them.)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def leave_nothing_to_others() -> Generator[None]:
    """What was left is collected here, and not while some other test looks for warnings."""
    yield
    gc.collect()


# The clients


@dataclass(frozen=True)
class Post:
    """One request to make: read the whole answer, raise for an error status where one can."""

    url: str
    body: bytes = b"payload"
    timeout: float = LONG
    ca: str | None = None
    """A file of certificate authorities to trust; the system's own otherwise."""
    proxy: str | None = None

    @property
    def proxies(self) -> dict[str, str]:
        """The proxy for both schemes, as most clients want it."""
        return {"http": self.proxy, "https": self.proxy} if self.proxy else {}

    @property
    def context(self) -> ssl.SSLContext:
        """The client's side of TLS."""
        return _context(self.ca)


@cache  # reading the system's authorities takes longer than most of these requests
def _context(ca: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def with_requests(post: Post) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.proxies.update(post.proxies)
        session.verify = post.ca or True
        session.post(post.url, post.body, timeout=post.timeout).raise_for_status()


def with_httpx(post: Post) -> None:
    with httpx.Client(
        timeout=post.timeout,
        verify=post.context,
        proxy=post.proxy,
        trust_env=False,
        follow_redirects=True,
    ) as client:
        client.post(post.url, content=post.body).raise_for_status()


async def with_async_httpx(post: Post) -> None:
    async with httpx.AsyncClient(
        timeout=post.timeout,
        verify=post.context,
        proxy=post.proxy,
        trust_env=False,
        follow_redirects=True,
    ) as client:
        (await client.post(post.url, content=post.body)).raise_for_status()


async def with_aiohttp(post: Post) -> None:
    # `total` is for the upload, which aiohttp bounds by nothing else.
    timeout = aiohttp.ClientTimeout(
        sock_connect=post.timeout, sock_read=post.timeout, total=4 * post.timeout
    )
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        # A file, because aiohttp warns of bytes that are as large as some are here.
        session.post(
            post.url, data=io.BytesIO(post.body), ssl=post.context, proxy=post.proxy
        ) as response,
    ):
        await response.read()
        response.raise_for_status()


def with_urllib3(post: Post, retries: urllib3.Retry | bool = False) -> None:
    pool = (
        urllib3.ProxyManager(post.proxy, ssl_context=post.context)
        if post.proxy
        else urllib3.PoolManager(ssl_context=post.context)
    )
    with pool:
        pool.request("POST", post.url, body=post.body, timeout=post.timeout, retries=retries)


def with_http_client(post: Post) -> None:
    target = urlsplit(post.url)
    via = urlsplit(post.proxy or post.url)
    connection = (
        http.client.HTTPSConnection(
            via.hostname or "", via.port, timeout=post.timeout, context=post.context
        )
        if target.scheme == "https"
        else http.client.HTTPConnection(via.hostname or "", via.port, timeout=post.timeout)
    )
    with closing(connection):
        if post.proxy:
            connection.set_tunnel(target.hostname or "", target.port)
        connection.request("POST", "/", post.body)
        connection.getresponse().read()


def with_urllib(post: Post) -> None:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(post.proxies),
        urllib.request.HTTPSHandler(context=post.context),
    )
    try:
        with opener.open(post.url, post.body, post.timeout) as response:
            response.read()
    except urllib.error.HTTPError as error:
        error.close()  # it is an open response as well
        raise


CLIENTS: Final[Mapping[str, Callable[[Post], None]]] = {
    "requests": with_requests,
    "httpx": with_httpx,
    "httpx asyncio": lambda post: asyncio.run(with_async_httpx(post)),
    "httpx trio": lambda post: trio.run(with_async_httpx, post),
    "aiohttp": lambda post: asyncio.run(with_aiohttp(post)),
    "urllib3": with_urllib3,
    "urllib3 retries": lambda post: with_urllib3(post, urllib3.Retry(0)),
    "http.client": with_http_client,
    "urllib": with_urllib,
}


# The faults


class Comes(NamedTuple):
    """The error a client raises, where what can be known of it is not the fault's own truth."""

    error: str
    kind: str
    state: str


Place = Literal[
    "plain",
    "tls",
    "untrusted",
    "plain to TLS",
    "refused",
    "unaccepting",
    "unknown",
    "proxy",
    "refused proxy",
]
"""Where the client sends its request: to which of the servers, or to what is none."""


@dataclass(frozen=True)
class Fault:
    """One way to fail: what it is, where and how it comes about, and what each client raises.

    `comes` has the full name of the error for each client, `None` where the client takes no
    notice. A client that has no entry of its own takes that of the first word of its name.
    """

    kind: str
    state: str
    comes: Mapping[str, str | Comes | None]
    step: Step | None = None
    at: Place = "plain"
    body: bytes = b"payload"
    timeout: float = LONG

    def expected(self, client: str) -> Comes | None:
        """What `client` raises, and what the facts should say of it."""
        entry = self.comes[client] if client in self.comes else self.comes[client.split()[0]]
        return Comes(entry, self.kind, self.state) if isinstance(entry, str) else entry


def drop_greeting(exchange: Exchange) -> None:
    """Take the client's TLS greeting and close the connection."""
    socket.socket.recv(exchange.connection, 65536)  # not the TLS socket's, which would answer


UPLOAD: Final = b"x" * 8_000_000
"""More than the buffers between the two take."""

RESET: Final = {
    "requests": "requests.exceptions.ConnectionError",
    "httpx": "httpx.ReadError",
    "aiohttp": "aiohttp.client_exceptions.ClientOSError",
    "urllib3": "urllib3.exceptions.ProtocolError",
    "http.client": "builtins.ConnectionResetError",
    "urllib": "builtins.ConnectionResetError",
}
CUT: Final = {
    "requests": "requests.exceptions.ChunkedEncodingError",
    "httpx": "httpx.RemoteProtocolError",
    "aiohttp": "aiohttp.client_exceptions.ClientPayloadError",
    "urllib3": "urllib3.exceptions.ProtocolError",
    "http.client": "http.client.IncompleteRead",
    "urllib": "http.client.IncompleteRead",
}
RESET_IN_BODY: Final = {
    **RESET,
    "requests": "requests.exceptions.ChunkedEncodingError",
    "aiohttp": "aiohttp.client_exceptions.ClientPayloadError",
}
READ_TIMEOUT: Final = {
    "requests": "requests.exceptions.ReadTimeout",
    "httpx": "httpx.ReadTimeout",
    "aiohttp": "aiohttp.client_exceptions.SocketTimeoutError",
    "urllib3": "urllib3.exceptions.ReadTimeoutError",
    "http.client": "builtins.TimeoutError",
    "urllib": "builtins.TimeoutError",
}
JUNK: Final = {
    "requests": "requests.exceptions.ConnectionError",
    "httpx": "httpx.RemoteProtocolError",
    # The error of a response with status 400, which never came: only its cause tells.
    "aiohttp": "aiohttp.client_exceptions.ClientResponseError",
    "urllib3": "urllib3.exceptions.ProtocolError",
    "http.client": "http.client.BadStatusLine",
    "urllib": "http.client.BadStatusLine",
}
LENIENT: Final = dict.fromkeys(("requests", "urllib3", "http.client", "urllib"))
"""The clients on http.client take almost anything for a header."""
NOT_CONNECTED: Final = {
    "requests": "requests.exceptions.ConnectionError",
    "httpx": "httpx.ConnectError",
    "aiohttp": "aiohttp.client_exceptions.ClientConnectorError",
    "urllib3": "urllib3.exceptions.NewConnectionError",
    "urllib3 retries": "urllib3.exceptions.MaxRetryError",
    "http.client": "builtins.ConnectionRefusedError",
    "urllib": "urllib.error.URLError",
}
BAD_TLS: Final = {
    "requests": "requests.exceptions.SSLError",
    "httpx": "httpx.ConnectError",
    "urllib3": "urllib3.exceptions.SSLError",
    "urllib3 retries": "urllib3.exceptions.MaxRetryError",
    "urllib": "urllib.error.URLError",
}
TUNNEL: Final = {
    "requests": "requests.exceptions.ProxyError",
    "httpx": "httpx.ProxyError",
    "urllib3": "urllib3.exceptions.ProxyError",
    "urllib3 retries": "urllib3.exceptions.MaxRetryError",
    "urllib": "urllib.error.URLError",
}


UNKNOWN_OSERROR: Final = Comes("builtins.OSError", "unknown", "unknown")
"""An `OSError` without an errno may be anything: the facts have no opinion."""


def ambiguous(error: str, kind: str = "connection_failed") -> Comes:
    """An error that hides whether the request was sent."""
    return Comes(error, kind, "ambiguous")


FAULTS: Final[Mapping[str, Fault]] = {
    "refused": Fault("connection_failed", "unsent", NOT_CONNECTED, at="refused"),
    "unknown host": Fault(
        "connection_failed",
        "unsent",
        {
            **NOT_CONNECTED,
            "aiohttp": "aiohttp.client_exceptions.ClientConnectorDNSError",
            "urllib3": "urllib3.exceptions.NameResolutionError",
            "http.client": "socket.gaierror",
        },
        at="unknown",
    ),
    "connect timeout": Fault(
        "timed_out",
        "unsent",
        {
            "requests": "requests.exceptions.ConnectTimeout",
            "httpx": "httpx.ConnectTimeout",
            "aiohttp": "aiohttp.client_exceptions.ConnectionTimeoutError",
            "urllib3": "urllib3.exceptions.ConnectTimeoutError",
            "urllib3 retries": "urllib3.exceptions.MaxRetryError",
            # The same as after a request was sent.
            "http.client": ambiguous("builtins.TimeoutError", "timed_out"),
            "urllib": ambiguous("urllib.error.URLError", "timed_out"),
        },
        at="unaccepting",
        timeout=SHORT,
    ),
    "reset on accept": Fault("connection_failed", "ambiguous", RESET, OnAccept(reset)),
    "reset before the request is read": Fault(
        "connection_failed", "ambiguous", RESET, unread(reset)
    ),
    "reset before headers": Fault("connection_failed", "ambiguous", RESET, reset),
    "closed before headers": Fault(
        "connection_failed",
        "ambiguous",
        {
            **RESET,
            "httpx": "httpx.RemoteProtocolError",
            "aiohttp": "aiohttp.client_exceptions.ServerDisconnectedError",
            "http.client": "http.client.RemoteDisconnected",
            "urllib": "http.client.RemoteDisconnected",
        },
        hang_up,
    ),
    "closed in the headers": Fault(
        "connection_failed",
        "ambiguous",
        {
            **LENIENT,
            "httpx": "httpx.RemoteProtocolError",
            "aiohttp": "aiohttp.client_exceptions.ServerDisconnectedError",
        },
        raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    ),
    "reset after headers": Fault(
        "connection_failed", "ambiguous", RESET_IN_BODY, truncated(b"", end=reset)
    ),
    "closed after headers": Fault("connection_failed", "ambiguous", CUT, truncated(b"")),
    "reset in mid-body": Fault(
        "connection_failed", "ambiguous", RESET_IN_BODY, truncated(end=reset)
    ),
    "closed in mid-body": Fault("connection_failed", "ambiguous", CUT, truncated()),
    "closed in a chunk": Fault("connection_failed", "ambiguous", CUT, truncated(chunked=True)),
    "closed before the last chunk": Fault(
        "connection_failed", "ambiguous", CUT, truncated(b"four", 4, chunked=True)
    ),
    "reset in a chunk": Fault(
        "connection_failed", "ambiguous", RESET_IN_BODY, truncated(chunked=True, end=reset)
    ),
    "junk in place of a chunk": Fault(
        "connection_failed",
        "ambiguous",
        {**CUT, "aiohttp": "aiohttp.client_exceptions.ClientResponseError"},
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\njunk\r\n"),
    ),
    "truncated error response": Fault(
        "connection_failed",
        "ambiguous",
        {
            **CUT,
            # Raised before the body is read.
            "urllib": Comes("urllib.error.HTTPError", "by_status", "answered"),
        },
        truncated(status=503, headers={"Retry-After": "1"}),
    ),
    "stall before headers": Fault("timed_out", "ambiguous", READ_TIMEOUT, stall(9), timeout=SHORT),
    "stall in mid-body": Fault(
        "timed_out",
        "ambiguous",
        {**READ_TIMEOUT, "requests": "requests.exceptions.ConnectionError"},
        truncated(end=stall(9)),
        timeout=SHORT,
    ),
    "reset while uploading": Fault(
        "connection_failed",
        "ambiguous",
        {
            "requests": "requests.exceptions.ConnectionError",
            "httpx": "httpx.RemoteProtocolError",
            "httpx asyncio": "httpx.ReadError",
            "aiohttp": "aiohttp.client_exceptions.ClientOSError",
            "urllib3": "urllib3.exceptions.ProtocolError",
            "http.client": "builtins.ConnectionResetError",
            # The class of a refused connection: only its reason tells.
            "urllib": "urllib.error.URLError",
        },
        early(reset),
        body=UPLOAD,
    ),
    "stall while uploading": Fault(
        "timed_out",
        "ambiguous",
        {
            "requests": ambiguous("requests.exceptions.ConnectionError"),
            "httpx": "httpx.WriteTimeout",
            "aiohttp": "builtins.TimeoutError",
            "urllib3": ambiguous("urllib3.exceptions.ProtocolError"),
            "http.client": "builtins.TimeoutError",
            "urllib": "urllib.error.URLError",
        },
        early(stall(9)),
        body=UPLOAD,
        timeout=SHORT,
    ),
    "junk status line": Fault("connection_failed", "ambiguous", JUNK, junk_status_line),
    "binary junk": Fault(
        "connection_failed", "ambiguous", JUNK, raw(b"\x16\x03\x01\x00\xff\xff\r\n\r\n")
    ),
    "junk headers": Fault("connection_failed", "ambiguous", {**JUNK, **LENIENT}, junk_headers),
    "junk content coding": Fault(
        "permanent",
        "answered",
        {
            "requests": Comes("requests.exceptions.ContentDecodingError", "permanent", "ambiguous"),
            "httpx": "httpx.DecodingError",
            # The same as for a truncated body.
            "aiohttp": ambiguous("aiohttp.client_exceptions.ClientPayloadError"),
            "urllib3": "urllib3.exceptions.DecodeError",
            "http.client": None,
            "urllib": None,
        },
        answer(200, {"Content-Encoding": "gzip"}, b"not gzip"),
    ),
    "error status": Fault(
        "by_status",
        "answered",
        {
            "requests": "requests.exceptions.HTTPError",
            "httpx": "httpx.HTTPStatusError",
            "aiohttp": "aiohttp.client_exceptions.ClientResponseError",
            "urllib3": None,
            "http.client": None,
            "urllib": "urllib.error.HTTPError",
        },
        answer(503),
    ),
    "endless redirects": Fault(
        "permanent",
        "answered",
        {
            "requests": "requests.exceptions.TooManyRedirects",
            "httpx": "httpx.TooManyRedirects",
            "aiohttp": "aiohttp.client_exceptions.TooManyRedirects",
            "urllib3": None,
            "urllib3 retries": "urllib3.exceptions.MaxRetryError",
            "http.client": None,
            "urllib": Comes("urllib.error.HTTPError", "by_status", "answered"),
        },
        redirect("/"),
    ),
    "bad certificate": Fault(
        "permanent",
        "unsent",
        {
            **BAD_TLS,
            "aiohttp": "aiohttp.client_exceptions.ClientConnectorCertificateError",
            "http.client": "ssl.SSLCertVerificationError",
        },
        at="untrusted",
    ),
    "TLS to a plain port": Fault(
        "permanent",
        "unsent",
        {
            **BAD_TLS,
            "aiohttp": "aiohttp.client_exceptions.ClientConnectorSSLError",
            "http.client": "ssl.SSLError",
        },
        at="plain to TLS",
    ),
    "reset in the handshake": Fault(
        "connection_failed",
        "unsent",
        {
            "requests": ambiguous("requests.exceptions.ConnectionError"),
            "httpx": "httpx.ConnectError",
            "aiohttp": "aiohttp.client_exceptions.ClientConnectorError",
            "urllib3": ambiguous("urllib3.exceptions.ProtocolError"),
            "http.client": ambiguous("builtins.ConnectionResetError"),
            "urllib": ambiguous("urllib.error.URLError"),
        },
        OnAccept(reset),
        at="tls",
    ),
    "closed in the handshake": Fault(
        "connection_failed",
        "unsent",
        {
            "requests": ambiguous("requests.exceptions.SSLError"),
            "httpx": "httpx.ConnectError",
            "aiohttp": "aiohttp.client_exceptions.ClientConnectorError",
            "urllib3": ambiguous("urllib3.exceptions.SSLError"),
            "urllib3 retries": ambiguous("urllib3.exceptions.MaxRetryError"),
            "http.client": ambiguous("ssl.SSLEOFError"),
            "urllib": ambiguous("urllib.error.URLError"),
        },
        OnAccept(drop_greeting),
        at="tls",
    ),
    "stall in the handshake": Fault(
        "timed_out",
        "unsent",
        {
            "requests": ambiguous("requests.exceptions.ReadTimeout", "timed_out"),
            "httpx": "httpx.ConnectTimeout",
            "aiohttp": "aiohttp.client_exceptions.ConnectionTimeoutError",
            "urllib3": ambiguous("urllib3.exceptions.ReadTimeoutError", "timed_out"),
            "http.client": ambiguous("builtins.TimeoutError", "timed_out"),
            "urllib": ambiguous("urllib.error.URLError", "timed_out"),
        },
        OnAccept(stall(9)),
        at="tls",
        timeout=SHORT,
    ),
    "stall under TLS": Fault(
        "timed_out", "ambiguous", READ_TIMEOUT, stall(9), at="tls", timeout=2 * SHORT
    ),
    "proxy refused": Fault(
        "connection_failed",
        "unsent",
        {
            **NOT_CONNECTED,
            "requests": "requests.exceptions.ProxyError",
            "aiohttp": "aiohttp.client_exceptions.ClientProxyConnectionError",
            "urllib3": "urllib3.exceptions.ProxyError",
        },
        at="refused proxy",
    ),
    "proxy fails": Fault(
        "connection_failed",
        "unsent",
        {
            **TUNNEL,
            "aiohttp": "aiohttp.client_exceptions.ClientHttpProxyError",
            "http.client": UNKNOWN_OSERROR,
        },
        answer(502),
        at="proxy",
    ),
    "proxy wants a password": Fault(
        "auth",
        "unsent",
        {
            **TUNNEL,
            "aiohttp": "aiohttp.client_exceptions.ClientHttpProxyError",
            "http.client": UNKNOWN_OSERROR,
        },
        answer(407),
        at="proxy",
    ),
}


# The cells


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_known_for_what_it_is(
    name: str, client: str, server_tls: ssl.SSLContext, authority_file: str
) -> None:
    """The client raises the error it is known for, and the facts tell what that means.

    They tell the kind of failure and how far the request got; where it got to the server, they
    never say that it did not; where it never left, that any method may be repeated.
    """
    fault = FAULTS[name]
    expected = fault.expected(client)
    error, requests_read = meet(fault, client, server_tls, authority_file)
    if expected is None:
        assert error is None
        return
    assert f"{type(error).__module__}.{type(error).__qualname__}" == expected.error
    assert error is not None
    row = lookup(error)
    if row is None:
        assert (expected.kind, expected.state) == ("unknown", "unknown")
        return
    assert (row.kind, row.state) == (expected.kind, expected.state), row
    assert not (requests_read and (row.state == "unsent" or row.repeat == "any")), row
    if row.state == "unsent":
        assert row.repeat == ("any" if row.kind in ("connection_failed", "timed_out") else "never")


def meet(
    fault: Fault, client: str, server_tls: ssl.SSLContext, authority_file: str
) -> tuple[Exception | None, list[Request]]:
    """What `client` raises when it meets `fault`, and the requests that its server has read."""
    with ExitStack() as stack:
        server = stack.enter_context(
            RawServer(then=fault.step, tls=server_tls if fault.at in ("tls", "untrusted") else None)
        )
        url, proxy = server.url(), None
        match fault.at:
            case "refused":
                url = f"http://127.0.0.1:{stack.enter_context(refused_port())}/"
            case "unaccepting":
                url = f"http://127.0.0.1:{stack.enter_context(unaccepting_port())}/"
            case "unknown":
                url = "http://retrykit.invalid/"  # a name that never exists: RFC 6761
            case "proxy":
                url, proxy = "https://retrykit.invalid/", server.url()
            case "refused proxy":
                url = "https://retrykit.invalid/"
                proxy = f"http://127.0.0.1:{stack.enter_context(refused_port())}"
            case "plain to TLS":
                url = url.replace("http:", "https:")
            case "plain" | "tls" | "untrusted":
                pass
        authority = None if fault.at == "untrusted" else authority_file
        error: Exception | None = None
        try:
            CLIENTS[client](Post(url, fault.body, fault.timeout, authority, proxy))
        except Exception as raised:
            error = raised
        # What a proxy is asked for itself is not the request.
        return error, [read for read in server.requests if read.method != "CONNECT"]


# What only some clients make of an answer


def of_requests_json(url: str) -> None:
    requests.get(url, timeout=LONG).json()


def of_urllib3_retry_after(url: str) -> None:
    with urllib3.PoolManager(retries=urllib3.Retry(1, status_forcelist=[503])) as pool:
        pool.request("GET", url, timeout=LONG)


def of_urlretrieve(url: str) -> None:
    urllib.request.urlretrieve(url)


async def of_asyncio_streams(url: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    try:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(100)
    finally:
        writer.close()
        await writer.wait_closed()


async def of_aiohttp_json(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        await response.json()


async def of_aiohttp_websocket(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(url):
        pass


async def of_aiohttp_fingerprint(url: str) -> None:
    pinned = aiohttp.Fingerprint(bytes(32))
    async with aiohttp.ClientSession() as session, session.get(url, ssl=pinned):
        pass


@pytest.mark.parametrize(
    ("get", "step", "name"),
    [
        (of_requests_json, answer(body=b"<html>"), "requests.exceptions.JSONDecodeError"),
        (
            of_urllib3_retry_after,
            answer(503, {"Retry-After": "1.5"}),
            "urllib3.exceptions.InvalidHeader",
        ),
        (of_urlretrieve, truncated(), "urllib.error.ContentTooShortError"),
        (of_asyncio_streams, truncated(), "asyncio.IncompleteReadError"),
        (of_aiohttp_json, answer(body=b"<html>"), "aiohttp.client_exceptions.ContentTypeError"),
        (of_aiohttp_websocket, answer(503), "aiohttp.client_exceptions.WSServerHandshakeError"),
        (
            of_aiohttp_fingerprint,
            answer(),
            "aiohttp.client_exceptions.ServerFingerprintMismatch",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_only_one_client_objects_to(
    get: Callable[[str], Any], step: Step, name: str, serve: Serve, server_tls: ssl.SSLContext
) -> None:
    """The error has the row of its own name."""
    server = serve(then=step, tls=server_tls if get is of_aiohttp_fingerprint else None)
    row = None
    try:
        if inspect.iscoroutinefunction(get):
            asyncio.run(get(server.url()))
        else:
            get(server.url())
    except Exception as error:
        row = lookup(error)
    assert row is not None
    assert row.name == name


# Faults of the client's own making


def assert_unsent_timeout(error: BaseException) -> None:
    """What waited for a place in a pool in vain may be sent again, whatever it is."""
    row = lookup(error)
    assert row is not None
    assert (row.kind, row.state, row.repeat) == ("timed_out", "unsent", "any")


def test_httpx_with_an_exhausted_pool(serve: Serve) -> None:
    """`PoolTimeout`: the only connection is held by a response that is not read yet."""
    server = serve()
    limits = httpx.Limits(max_connections=1)
    timeout = httpx.Timeout(LONG, pool=0.05)
    with (
        httpx.Client(limits=limits, timeout=timeout) as client,
        client.stream("GET", server.url()),
        pytest.raises(httpx.PoolTimeout) as caught,
    ):
        client.post(server.url())
    assert_unsent_timeout(caught.value)
    assert len(server.requests) == 1


def test_urllib3_with_an_exhausted_pool(serve: Serve) -> None:
    """`EmptyPoolError`, of a pool that blocks."""
    server = serve()
    with urllib3.HTTPConnectionPool("127.0.0.1", server.port, maxsize=1, block=True) as pool:
        held = pool.request("GET", "/", preload_content=False)
        with pytest.raises(urllib3.exceptions.EmptyPoolError) as caught:
            pool.request("POST", "/", pool_timeout=0.05, retries=False)
        held.drain_conn()
        held.release_conn()
    assert_unsent_timeout(caught.value)
    assert len(server.requests) == 1


def test_aiohttp_with_an_exhausted_pool(serve: Serve) -> None:
    """`ConnectionTimeoutError`, where `connect` bounds the wait for a place as well."""
    server = serve(truncated(end=stall(9)))

    async def exhaust() -> aiohttp.ConnectionTimeoutError:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1),
                timeout=aiohttp.ClientTimeout(connect=0.05),
            ) as session,
            session.get(server.url()),
        ):
            with pytest.raises(aiohttp.ConnectionTimeoutError) as caught:
                await session.post(server.url())
            return caught.value

    assert_unsent_timeout(asyncio.run(exhaust()))
    assert len(server.requests) == 1


@pytest.mark.parametrize("client", ["requests", "urllib3"])
def test_an_inner_layer_that_gave_up_is_not_asked_again(client: str, serve: Serve) -> None:
    """Retries around retries multiply: what urllib3 has retried in vain is final."""
    server = serve(then=answer(503))
    inner = urllib3.Retry(1, status_forcelist=[503], allowed_methods=None)
    if client == "requests":
        with requests.Session() as session, pytest.raises(requests.exceptions.RetryError) as caught:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=inner))
            session.get(server.url(), timeout=LONG)
        error: BaseException = caught.value
    else:
        with (
            urllib3.PoolManager(retries=inner) as pool,
            pytest.raises(urllib3.exceptions.MaxRetryError) as gave_up,
        ):
            pool.request("GET", server.url(), timeout=LONG)
        error = gave_up.value
    row = lookup(error)
    assert row is not None
    assert (row.kind, row.transient) == ("permanent", False)
    assert len(server.requests) == 2
