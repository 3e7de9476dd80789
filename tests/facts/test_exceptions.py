"""Every row of the exceptions table, by the real class where the library is among the test extras.

The classes of the other libraries are stood in for by classes of the same qualified names, bases
and attributes.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import http.client
import io
import json
import socket
import sqlite3
import ssl
import threading
import urllib.error
import weakref
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpcore
import httpx
import pytest
import redis
import requests
import urllib3
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from retrykit.decision import DoNotRetry, RetryAfter, RetryReason, StopReason
from retrykit.facts._rows import rows
from retrykit.facts.exceptions import asked_delay, judge, lookup
from retrykit.facts.http import verdict
from retrykit.facts.kinds import reason_of
from retrykit.facts.methods import RetryableMethod

TABLE = json.loads((Path(__file__).parents[1] / "data/exceptions.json").read_text("utf-8"))

# Qualified names along the MRO, as the installed libraries have them (versions: see the table).
BASES = {
    "psycopg.Error": "builtins.Exception",
    "psycopg.InterfaceError": "psycopg.Error",
    "psycopg.DatabaseError": "psycopg.Error",
    "psycopg.OperationalError": "psycopg.DatabaseError",
    "psycopg.InternalError": "psycopg.DatabaseError",
    "psycopg.ProgrammingError": "psycopg.DatabaseError",
    "psycopg.IntegrityError": "psycopg.DatabaseError",
    "psycopg.errors.ConnectionTimeout": "psycopg.OperationalError",
    "psycopg2.Error": "builtins.Exception",
    "psycopg2.DatabaseError": "psycopg2.Error",
    "psycopg2.OperationalError": "psycopg2.DatabaseError",
    "psycopg_pool.PoolTimeout": "psycopg.OperationalError",
    "asyncpg.exceptions._base.PostgresError": "builtins.Exception",
    "asyncpg.exceptions.PostgresConnectionError": "asyncpg.exceptions._base.PostgresError",
    "asyncpg.exceptions.ConnectionDoesNotExistError": "asyncpg.exceptions.PostgresConnectionError",
    "sqlalchemy.exc.SQLAlchemyError": "builtins.Exception",
    "sqlalchemy.exc.StatementError": "sqlalchemy.exc.SQLAlchemyError",
    "sqlalchemy.exc.DBAPIError": "sqlalchemy.exc.StatementError",
    "sqlalchemy.exc.DatabaseError": "sqlalchemy.exc.DBAPIError",
    "sqlalchemy.exc.OperationalError": "sqlalchemy.exc.DatabaseError",
    "sqlalchemy.exc.InternalError": "sqlalchemy.exc.DatabaseError",
    "sqlalchemy.exc.IntegrityError": "sqlalchemy.exc.DatabaseError",
    "sqlalchemy.exc.TimeoutError": "sqlalchemy.exc.SQLAlchemyError",
    "sqlalchemy.exc.DisconnectionError": "sqlalchemy.exc.SQLAlchemyError",
    "sqlalchemy.exc.InvalidRequestError": "sqlalchemy.exc.SQLAlchemyError",
    "sqlalchemy.exc.PendingRollbackError": "sqlalchemy.exc.InvalidRequestError",
    "sqlalchemy.orm.exc.StaleDataError": "sqlalchemy.exc.SQLAlchemyError",
    "pymongo.errors.PyMongoError": "builtins.Exception",
    "pymongo.errors.ConnectionFailure": "pymongo.errors.PyMongoError",
    "pymongo.errors.AutoReconnect": "pymongo.errors.ConnectionFailure",
    "pymongo.errors.NetworkTimeout": "pymongo.errors.AutoReconnect",
    "pymongo.errors.NotPrimaryError": "pymongo.errors.AutoReconnect",
    "pymongo.errors.ServerSelectionTimeoutError": "pymongo.errors.AutoReconnect",
    "pymongo.errors.WaitQueueTimeoutError": "pymongo.errors.ConnectionFailure",
    "pymongo.errors.ConfigurationError": "pymongo.errors.PyMongoError",
    "pymongo.errors.OperationFailure": "pymongo.errors.PyMongoError",
    "pymongo.errors.CursorNotFound": "pymongo.errors.OperationFailure",
    "pymongo.errors.ExecutionTimeout": "pymongo.errors.OperationFailure",
    "pymongo.errors.WriteError": "pymongo.errors.OperationFailure",
    "pymongo.errors.DuplicateKeyError": "pymongo.errors.WriteError",
    "pymongo.errors.WriteConcernError": "pymongo.errors.OperationFailure",
    "pymongo.errors.WTimeoutError": "pymongo.errors.WriteConcernError",
    "pymongo.errors.BulkWriteError": "pymongo.errors.OperationFailure",
    "grpc.RpcError": "builtins.Exception",
    "grpc._channel._InactiveRpcError": "grpc.RpcError",
    "grpc.aio._call.AioRpcError": "grpc.RpcError",
    "google.api_core.exceptions.GoogleAPIError": "builtins.Exception",
    "google.api_core.exceptions.RetryError": "google.api_core.exceptions.GoogleAPIError",
    "google.api_core.exceptions.GoogleAPICallError": "google.api_core.exceptions.GoogleAPIError",
    "google.api_core.exceptions.ClientError": "google.api_core.exceptions.GoogleAPICallError",
    "google.api_core.exceptions.Conflict": "google.api_core.exceptions.ClientError",
    "google.api_core.exceptions.Aborted": "google.api_core.exceptions.Conflict",
    "google.api_core.exceptions.AlreadyExists": "google.api_core.exceptions.Conflict",
    "google.api_core.exceptions.NotFound": "google.api_core.exceptions.ClientError",
    "google.api_core.exceptions.TooManyRequests": "google.api_core.exceptions.ClientError",
    "google.api_core.exceptions.ServerError": "google.api_core.exceptions.GoogleAPICallError",
    "google.api_core.exceptions.InternalServerError": "google.api_core.exceptions.ServerError",
    "google.api_core.exceptions.BadGateway": "google.api_core.exceptions.ServerError",
    "google.api_core.exceptions.ServiceUnavailable": "google.api_core.exceptions.ServerError",
    "google.api_core.exceptions.GatewayTimeout": "google.api_core.exceptions.ServerError",
    "google.api_core.exceptions.DeadlineExceeded": "google.api_core.exceptions.GatewayTimeout",
    "botocore.exceptions.ClientError": "builtins.Exception",
    "botocore.exceptions.BotoCoreError": "builtins.Exception",
    "botocore.exceptions.HTTPClientError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.ConnectionError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.EndpointConnectionError": "botocore.exceptions.ConnectionError",
    "botocore.exceptions.ConnectTimeoutError": "botocore.exceptions.ConnectionError",
    "botocore.exceptions.ProxyConnectionError": "botocore.exceptions.ConnectionError",
    "botocore.exceptions.SSLError": "botocore.exceptions.ConnectionError",
    "botocore.exceptions.ReadTimeoutError": "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.ConnectionClosedError": "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.ResponseStreamingError": "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.IncompleteReadError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.NoCredentialsError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.ParamValidationError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.UnseekableStreamError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.NoRegionError": "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.EndpointProviderError": "botocore.exceptions.BotoCoreError",
    "openai.OpenAIError": "builtins.Exception",
    "openai.APIError": "openai.OpenAIError",
    "openai.APIConnectionError": "openai.APIError",
    "openai.APITimeoutError": "openai.APIConnectionError",
    "openai.APIStatusError": "openai.APIError",
    "openai.RateLimitError": "openai.APIStatusError",
    "openai.InternalServerError": "openai.APIStatusError",
    "openai.ConflictError": "openai.APIStatusError",
    "openai.BadRequestError": "openai.APIStatusError",
    "openai.AuthenticationError": "openai.APIStatusError",
    "stripe._error.StripeError": "builtins.Exception",
    "stripe._error.APIConnectionError": "stripe._error.StripeError",
    "stripe._error.RateLimitError": "stripe._error.StripeError",
    "stripe._error.IdempotencyError": "stripe._error.StripeError",
}


@functools.cache
def stand_in(name: str, base: str | None = None) -> type[Exception]:
    """A class with this qualified name, and bases to match."""
    if name == "builtins.Exception":
        return Exception
    module, _, short = name.rpartition(".")
    parent = stand_in(base or BASES[name])
    return type(short, (parent,), {"__module__": module})


def made(name: str, *args: object, **attributes: object) -> Exception:
    """An error of a library that is not installed, with these attributes."""
    error = stand_in(name)(*args)
    vars(error).update(attributes)
    return error


def raised(error: BaseException, *, cause: BaseException | None = None) -> Any:
    """The error as it is after `raise error from cause`."""
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def response(status: int, headers: dict[str, str] | None = None, method: str = "GET") -> Any:
    request = httpx.Request(method, "https://api.example.org/v1?key=secret")
    return httpx.Response(status, headers=headers, request=request)


def grpc_error(code: str, trailers: tuple[tuple[str, object], ...] = ()) -> Exception:
    error = made("grpc._channel._InactiveRpcError")
    vars(error).update(
        code=lambda: SimpleNamespace(name=code, value=(0, code.lower())),
        trailing_metadata=lambda: trailers,
    )
    return error


def client_error(code: str, status: int = 400, **more: object) -> Exception:
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
    content = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": metadata, **more}
    return made("botocore.exceptions.ClientError", response=content, operation_name="Op")


KEY = ConnectionKey("localhost", 80, False, True, None, None, None)
REQUEST_INFO = aiohttp.RequestInfo(
    URL("http://localhost/"), "GET", CIMultiDictProxy(CIMultiDict()), URL("http://localhost/")
)
POOL = urllib3.HTTPConnectionPool("localhost")
CONNECTION = urllib3.connection.HTTPConnection("localhost")
CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")

# From a row's exception (and its `when`, where several rows have the same) to an error of it.
MAKERS: dict[Any, Any] = {
    ("requests.exceptions.ConnectionError", "reason is NewConnectionError / NameResolutionError"): (
        lambda: requests.ConnectionError(
            urllib3.exceptions.MaxRetryError(
                POOL, "/", urllib3.exceptions.NewConnectionError(CONNECTION, "refused")
            )
        )
    ),
    ("requests.exceptions.ConnectionError", "args[0] is ProtocolError"): lambda: (
        requests.ConnectionError(
            urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError())
        )
    ),
    ("requests.exceptions.ConnectionError", "args[0] is ReadTimeoutError"): lambda: (
        requests.ConnectionError(urllib3.exceptions.ReadTimeoutError(POOL, "/", "timed out"))
    ),
    ("requests.exceptions.ConnectionError", "otherwise"): lambda: requests.ConnectionError("?"),
    ("httpx.ConnectError", "cause chain is OSError/gaierror, not ssl"): lambda: raised(
        httpx.ConnectError("refused"), cause=ConnectionRefusedError()
    ),
    ("httpx.ConnectError", "chain contains ssl.SSLCertVerificationError"): lambda: raised(
        httpx.ConnectError("bad certificate"),
        cause=raised(httpcore.ConnectError(CERTIFICATE), cause=CERTIFICATE),
    ),
    "httpx.StreamConsumed": httpx.StreamConsumed,
    "httpx.HTTPStatusError": lambda: httpx.HTTPStatusError(
        "", request=response(503).request, response=response(503)
    ),
    "aiohttp.client_exceptions.ClientConnectorDNSError": lambda: aiohttp.ClientConnectorDNSError(
        KEY, socket.gaierror(socket.EAI_NONAME, "unknown")
    ),
    "aiohttp.client_exceptions.ServerFingerprintMismatch": lambda: (
        aiohttp.ServerFingerprintMismatch(b"a", b"b", "localhost", 443)
    ),
    "aiohttp.client_exceptions.InvalidURL": lambda: aiohttp.InvalidURL("x"),
    ("builtins.TimeoutError", "raised by aiohttp total timeout"): TimeoutError,
    "urllib3.exceptions.NewConnectionError": lambda: urllib3.exceptions.NewConnectionError(
        CONNECTION, "refused"
    ),
    "urllib3.exceptions.NameResolutionError": lambda: urllib3.exceptions.NameResolutionError(
        "localhost", CONNECTION, socket.gaierror()
    ),
    "urllib3.exceptions.ReadTimeoutError": lambda: urllib3.exceptions.ReadTimeoutError(
        POOL, "/", "timed out"
    ),
    "urllib3.exceptions.IncompleteRead": lambda: urllib3.exceptions.IncompleteRead(4, 96),
    "urllib3.exceptions.MaxRetryError": lambda: urllib3.exceptions.MaxRetryError(POOL, "/"),
    "urllib3.exceptions.EmptyPoolError": lambda: urllib3.exceptions.EmptyPoolError(POOL, "empty"),
    "urllib3.exceptions.ClosedPoolError": lambda: urllib3.exceptions.ClosedPoolError(POOL, "shut"),
    "urllib3.exceptions.ProxyError": lambda: urllib3.exceptions.ProxyError("", OSError("gone")),
    "requests.exceptions.JSONDecodeError": lambda: requests.exceptions.JSONDecodeError("", "", 0),
    "requests.exceptions.HTTPError": lambda: requests.HTTPError(response=requests_response(503)),
    "http.client.IncompleteRead": lambda: http.client.IncompleteRead(b"abcd", 96),
    "urllib.error.URLError": lambda: urllib.error.URLError(OSError("?")),
    "urllib.error.HTTPError": lambda: http_error(503),
    "asyncio.TimeoutError": asyncio.TimeoutError,
    "asyncio.CancelledError": asyncio.CancelledError,
    "asyncio.IncompleteReadError": lambda: asyncio.IncompleteReadError(b"", 4),
    ("redis.exceptions.ConnectionError", "cause is ConnectionRefusedError or gaierror"): lambda: (
        raised(redis.ConnectionError("Error 111"), cause=ConnectionRefusedError())
    ),
    "redis.exceptions.MovedError": lambda: redis.exceptions.MovedError("3999 127.0.0.1:6381"),
    ("psycopg.OperationalError", "sqlstate is None during connect"): lambda: made(
        "psycopg.OperationalError", "connection failed: refused", sqlstate=None, pgconn=object()
    ),
    ("psycopg.OperationalError", "sqlstate is None and the connection is broken"): lambda: made(
        "psycopg.OperationalError",
        "consuming input failed: server closed the connection unexpectedly",
        sqlstate=None,
        pgconn=None,
    ),
    ("sqlalchemy.exc.DBAPIError", "connection_invalidated is True"): lambda: made(
        "sqlalchemy.exc.DBAPIError", orig=ValueError(), connection_invalidated=True
    ),
    "sqlalchemy.exc.OperationalError": lambda: made(
        "sqlalchemy.exc.OperationalError", orig=Exception("?"), connection_invalidated=False
    ),
    ("grpc trailer grpc-retry-pushback-ms", "value >= 0"): lambda: grpc_error(
        "UNAVAILABLE", (("grpc-retry-pushback-ms", "250"),)
    ),
    "google.rpc.RetryInfo": lambda: grpc_error(
        "RESOURCE_EXHAUSTED", (("grpc-status-details-bin", RETRY_INFO),)
    ),
    "HTTP/2 RST_STREAM REFUSED_STREAM": lambda: http2_error(
        SimpleNamespace(stream_id=1, error_code=7, remote_reset=True)
    ),
    "HTTP/2 GOAWAY, stream id > last-stream-id": lambda: http2_error(
        SimpleNamespace(error_code=0, last_stream_id=0, additional_data=None)
    ),
    "stripe.APIConnectionError": lambda: made(
        "stripe._error.APIConnectionError", http_status=None, headers={}, should_retry=True
    ),
}

# google.rpc.Status with an ErrorInfo and a RetryInfo of 3.5 s, as protobuf serialises it.
RETRY_INFO = (
    b"\x08\x08\x12\tslow down\x1a:\n(type.googleapis.com/google.rpc.ErrorInfo"
    b"\x12\x0e\n\x01x\x12\x01y\x1a\x06\n\x01a\x12\x01b"
    b"\x1a6\n(type.googleapis.com/google.rpc.RetryInfo\x12\n\n\x08\x08\x03\x10\x80\xca\xb5\xee\x01"
)


def requests_response(
    status: int, headers: dict[str, str] | None = None, method: str = "GET"
) -> requests.Response:
    made_up = requests.Response()
    made_up.status_code = status
    made_up.headers.update(headers or {})
    made_up.url = "https://user:pw@example.org/path?token=secret"
    made_up.request = requests.Request(method, made_up.url).prepare()
    return made_up


def http_error(status: int, headers: dict[str, str] | None = None) -> urllib.error.HTTPError:
    fields = http.client.HTTPMessage()
    for name, value in (headers or {}).items():
        fields[name] = value
    error = urllib.error.HTTPError("http://x/", status, "", fields, io.BytesIO())
    weakref.finalize(error, error.close)
    return error


def http2_error(event: object) -> Exception:
    inner = httpcore.RemoteProtocolError(event)
    return raised(httpx.RemoteProtocolError(str(event)), cause=inner)


def by_rule(row: dict[str, Any]) -> Any:
    """The errors that follow from their row's name."""
    name = row["exception"]
    base, _, code = name.rstrip("]").partition("[")
    short = base.rpartition(".")[2]
    if base.startswith("psycopg.errors.") and code:
        return type(short, (stand_in("psycopg.OperationalError"),), {"sqlstate": code})()
    if base.startswith("sqlite3.") and code:
        error = getattr(sqlite3, short)("?")
        error.sqlite_errorcode = int(code.partition("=")[2] or 0)
        return error
    if base == "OSError":
        return OSError(getattr(errno, code.partition("=")[2]), "?")
    if base == "socket.gaierror":
        return socket.gaierror(getattr(socket, code), "?")
    if base == "grpc.RpcError":
        return grpc_error(code.partition("=")[2])
    if code.startswith("HTTP "):
        return client_error("InternalError", int(code[5:8]))
    if base == "botocore.exceptions.ClientError":
        return client_error(code)
    if row.get("when", "").startswith("label "):
        return labelled(base, row["when"][6:])
    if row.get("when") == "both backpressure labels":
        return labelled(base, "SystemOverloadedError", "RetryableError")
    if base.startswith("stripe."):
        return made(f"stripe._error.{short}")
    if base in BASES:
        return made(base)
    module: Any = {
        "requests": requests.exceptions,
        "httpx": httpx,
        "aiohttp": aiohttp,
        "urllib3": urllib3.exceptions,
        "http": http.client,
        "ssl": ssl,
        "redis": redis.exceptions,
        "builtins": __import__("builtins"),
        "sqlite3": sqlite3,
    }[base.partition(".")[0]]
    kind = getattr(module, short)
    if issubclass(kind, aiohttp.ClientResponseError):
        return kind(REQUEST_INFO, (), status=503)
    if issubclass(kind, (aiohttp.ClientConnectorError, aiohttp.ClientConnectorCertificateError)):
        return kind(KEY, OSError(errno.ECONNREFUSED, "refused"))
    return kind("?")


def labelled(name: str, *labels: str) -> Exception:
    return made(name, has_error_label=lambda label: label in labels)


def make(row: dict[str, Any]) -> Any:
    name = row["exception"]
    maker = MAKERS.get((name, row.get("when"))) or MAKERS.get(name)
    return by_rule(row) if maker is None else maker()


def identified(row: dict[str, Any]) -> str:
    return f"{row['exception']} {row.get('when', '')}".strip()


ROWS = pytest.mark.parametrize("row", TABLE["exceptions"], ids=identified)

REPEATS = {
    ("stop", "stop", "stop"): "never",
    ("retry", "stop", "retry"): "idempotent",
    ("retry", "retry", "retry"): "any",
    ("use status.json",) * 3: "by_status",
}


@ROWS
def test_an_error_is_found_in_the_table(row: dict[str, Any]) -> None:
    """The row that an error matches says what the published table says."""
    found = lookup(make(row))
    assert found is not None
    assert (found.transient, found.kind, found.state) == (
        row["transient"],
        row["kind"],
        row["request_state"],
    )
    assert found.repeat == REPEATS[tuple(row["retry"].values())]


@ROWS
def test_an_error_is_found_under_its_own_name(row: dict[str, Any]) -> None:
    """Two rows that say the same are still two rows."""
    found = lookup(make(row))
    assert found is not None
    name = row["exception"]
    # On Python 3.11 and newer these two are one class, and a time-out of aiohttp's is that.
    assert found.name == {"asyncio.TimeoutError": "builtins.TimeoutError"}.get(name, name)


@ROWS
@pytest.mark.parametrize("method", RetryableMethod)
def test_an_error_decides_for_each_kind_of_method(
    row: dict[str, Any], method: RetryableMethod
) -> None:
    """urllib3#1059: what was not sent may be sent again; what may have been done, if idempotent."""
    decision = verdict(method=method, error=make(row))
    match row["retry"][method]:
        case "retry":
            assert isinstance(decision, RetryAfter)
            assert decision.reason is reason_of(row["kind"])
        case "stop" if row["retry"]["idempotent"] == "retry":
            assert decision == DoNotRetry(StopReason.NOT_IDEMPOTENT)
        case "stop":
            assert decision == DoNotRetry(StopReason.FORBIDDEN)
        case _:  # each of these carries a 503
            assert decision == verdict(503, method)


def test_the_packaged_table_leaves_out_no_row() -> None:
    """Every row of the published table is in the package, but for one class under two names."""
    packaged = {row.name for row in rows()}
    published = {row["exception"] for row in TABLE["exceptions"]}
    assert published - packaged == {"asyncio.TimeoutError"}
    assert len(TABLE["exceptions"]) == 285


def test_every_packaged_row_agrees_with_itself() -> None:
    """A row that says "any" is about work that was not done; a permanent kind is never repeated."""
    for row in rows():
        assert row.repeat != "any" or row.state in ("unsent", "rejected"), row
        assert row.kind not in ("permanent", "auth") or row.repeat == "never", row
        assert (row.kind == "by_status") == (row.repeat == "by_status"), row


# What a class alone cannot tell


def test_a_number_that_the_table_does_not_list_says_nothing() -> None:
    """ENOSPC is no row: the class OSError decides nothing by itself."""
    assert lookup(OSError(errno.ENOSPC, "full")) is None
    assert lookup(OSError()) is None


def test_a_connection_error_with_an_unlisted_number_is_a_connection_error() -> None:
    """Where the errno says nothing the class still does."""
    found = lookup(ConnectionError(errno.ENOSPC, "?"))
    assert found is not None
    assert found.name == "builtins.ConnectionError"


def test_a_subclass_of_oserror_is_known_by_its_errno() -> None:
    """A program's own OSError carries a real errno."""

    class DeviceError(OSError):
        pass

    found = lookup(DeviceError(errno.ECONNREFUSED, "refused"))
    assert found is not None
    assert found.name == "OSError[errno=ECONNREFUSED]"


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLError(1, "WRONG_VERSION_NUMBER"),
        socket.herror(errno.ECONNREFUSED, "host not found"),
        requests.RequestException(errno.ECONNREFUSED, "x"),
        aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(errno.EPERM, "x")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_number_of_another_library_is_no_errno(error: OSError) -> None:
    """`ssl.SSLError.errno` 1 looks like EPERM, and a resolver's code like ECONNREFUSED."""
    found = lookup(error)
    assert found is None or not found.name.startswith("OSError[")


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (socket.gaierror(socket.EAI_FAMILY, "x"), False),
        (socket.gaierror(socket.EAI_SERVICE, "x"), False),
        (socket.gaierror(socket.EAI_SOCKTYPE, "x"), False),
        (socket.gaierror(socket.EAI_BADFLAGS, "x"), False),
        (socket.gaierror(socket.EAI_MEMORY, "x"), True),
        (socket.gaierror("the name does not resolve"), True),
    ],
    ids=str,
)
def test_a_name_that_does_not_resolve_was_never_sent_to(
    error: socket.gaierror, transient: bool
) -> None:
    """The codes that the table does not list: programming errors are final, the rest pass."""
    found = lookup(error)
    assert found is not None
    assert (found.transient, found.state) == (transient, "unsent")


@pytest.mark.parametrize(
    ("cause", "transient"),
    [
        (CERTIFICATE, False),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), False),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), True),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), True),
        (None, True),
    ],
    ids=repr,
)
def test_httpx_uses_one_class_for_a_refusal_and_a_bad_certificate(
    cause: BaseException | None, transient: bool
) -> None:
    """Which of them it was is told by what the error was raised from."""
    found = lookup(raised(httpx.ConnectError("x"), cause=cause))
    assert found is not None
    assert (found.transient, found.state) == (transient, "unsent")


@pytest.mark.parametrize(
    "error",
    [
        requests.ConnectionError(urllib3.exceptions.MaxRetryError(POOL, "/", CERTIFICATE)),
        raised(redis.ConnectionError("Error 1 connecting"), cause=CERTIFICATE),
        raised(made("openai.APIConnectionError"), cause=CERTIFICATE),
        raised(
            made("openai.APIConnectionError"),
            cause=raised(httpx.ConnectError("x"), cause=CERTIFICATE),
        ),
        raised(made("botocore.exceptions.HTTPClientError"), cause=CERTIFICATE),
        aiohttp.ClientConnectorCertificateError(KEY, CERTIFICATE),
        aiohttp.ClientConnectorError(KEY, CERTIFICATE),
        urllib.error.URLError(CERTIFICATE),
        made("pymongo.errors.ServerSelectionTimeoutError", "x:1: certificate verify failed"),
    ],
    ids=lambda error: type(error).__module__,
)
def test_a_bad_certificate_is_final_whatever_the_class_says(error: BaseException) -> None:
    """Half of the clients derive it from their connection error."""
    if isinstance(error, aiohttp.ClientConnectorError):
        error = raised(error, cause=CERTIFICATE)
    found = lookup(error)
    assert found is not None
    assert not found.transient
    assert verdict(method="GET", error=error) == DoNotRetry(StopReason.FORBIDDEN)
    assert judge(error) is None


def test_a_certificate_met_before_does_not_spoil_a_later_failure() -> None:
    """A reset while the program handles a bad certificate is a reset."""
    try:
        try:
            raise CERTIFICATE
        except ssl.SSLError:
            raise ConnectionResetError  # noqa: B904 - the implicit context is what is tested
    except ConnectionResetError as error:
        found = lookup(error)
    assert found is not None
    assert found.name == "builtins.ConnectionResetError"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (urllib.error.URLError(ConnectionRefusedError()), "builtins.ConnectionRefusedError"),
        (urllib.error.URLError(socket.gaierror(socket.EAI_FAIL, "")), "socket.gaierror[EAI_FAIL]"),
        (urllib.error.URLError(TimeoutError()), "builtins.TimeoutError"),
        (urllib.error.URLError("something"), "urllib.error.URLError"),
    ],
    ids=repr,
)
def test_a_url_error_is_what_it_wraps(error: urllib.error.URLError, name: str) -> None:
    """urllib wraps what happens up to the request's end."""
    found = lookup(error)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("reason", ["unknown url type: htp", "no host given"])
def test_a_wrong_url_is_final(reason: str) -> None:
    """urllib says it with the class that it has for network failures."""
    found = lookup(urllib.error.URLError(reason))
    assert found is not None
    assert not found.transient


def test_a_download_that_broke_off_was_sent() -> None:
    """`urlretrieve`'s own error derives from the one that says "could not connect"."""
    found = lookup(urllib.error.ContentTooShortError("", (b"", None)))
    assert found is not None
    assert (found.transient, found.state) == (True, "ambiguous")


@pytest.mark.parametrize(
    ("text", "transient"),
    [
        ("Tunnel connection failed: 407 Proxy Authentication Required", False),
        ("Tunnel connection failed: 403 Forbidden", False),
        ("Tunnel connection failed: 429 Too Many Requests", True),
        ("Tunnel connection failed: 502 Bad Gateway", True),
        ("Connection refused", True),
    ],
)
def test_a_proxy_that_refuses_the_tunnel_for_good_is_final(text: str, transient: bool) -> None:
    """407 inside a ProxyError asks for credentials, and no retry brings them."""
    inner = urllib3.exceptions.ProxyError("Cannot connect to proxy", OSError(text))
    errors = [
        inner,
        requests.exceptions.ProxyError(urllib3.exceptions.MaxRetryError(POOL, "/", inner)),
        urllib.error.URLError(OSError(text)),
        httpx.ProxyError(text.removeprefix("Tunnel connection failed: ")),
    ]
    if text.startswith("Tunnel"):
        connect = REQUEST_INFO._replace(method="CONNECT")
        status = int(text.split()[3])
        errors.append(aiohttp.ClientHttpProxyError(connect, (), status=status))
    for error in errors:
        found = lookup(error)
        assert found is not None
        assert found.transient is transient, error


def test_a_proxy_s_answer_is_not_the_server_s() -> None:
    """aiohttp's error for CONNECT has the proxy's status and method: the POST never left."""
    connect = REQUEST_INFO._replace(method="CONNECT")
    error = aiohttp.ClientHttpProxyError(connect, (), status=502)
    assert verdict(method="POST", error=error) == RetryAfter(0.0, RetryReason.CONNECTION_FAILED)
    assert judge(error) == RetryAfter(0.0, RetryReason.CONNECTION_FAILED)


def test_a_wrapped_failure_decides_for_urllib3() -> None:
    """Its MaxRetryError is whatever the last attempt ended in."""
    refused = urllib3.exceptions.NewConnectionError(CONNECTION, "refused")
    found = lookup(urllib3.exceptions.MaxRetryError(POOL, "/", refused))
    assert found is not None
    assert found.name == "urllib3.exceptions.NewConnectionError"


def test_requests_does_not_take_an_earlier_failure_for_the_last_one() -> None:
    """Only what the error wraps counts, not what was handled on the way."""
    refused = urllib3.exceptions.NewConnectionError(CONNECTION, "refused")
    try:
        try:
            raise refused
        except urllib3.exceptions.NewConnectionError:
            raise requests.ConnectionError(
                urllib3.exceptions.ProtocolError("Connection aborted.")
            ) from None
    except requests.ConnectionError as error:
        error.__suppress_context__ = False
        found = lookup(error)
    assert found is not None
    assert found.state == "ambiguous"


def test_an_answer_that_aiohttp_could_not_parse_is_no_400() -> None:
    """Its error for garbage carries a status that no server sent."""
    error = raised(
        aiohttp.ClientResponseError(REQUEST_INFO, (), status=400, message="bad"),
        cause=aiohttp.http_exceptions.BadStatusLine("garbage"),
    )
    found = lookup(error)
    assert found is not None
    assert (found.transient, found.state) == (True, "ambiguous")
    assert verdict(error=error) == RetryAfter(0.0, RetryReason.CONNECTION_FAILED)


@pytest.mark.parametrize("module", ["httpx2", "httpcore"])
def test_a_library_with_the_same_names_has_the_same_rows(module: str) -> None:
    """httpx2 and httpcore name their errors as httpx does."""
    kind = type("ReadTimeout", (Exception,), {"__module__": module})
    found = lookup(kind())
    assert found is not None
    assert found.name == "httpx.ReadTimeout"


def test_anthropic_s_errors_are_openai_s() -> None:
    """Both SDKs are made by one generator."""
    kind = type("APITimeoutError", (Exception,), {"__module__": "anthropic"})
    found = lookup(kind())
    assert found is not None
    assert found.name == "openai.APITimeoutError"


@pytest.mark.parametrize(
    "name",
    ["retrykit_test.ConnectionError", "redis.exceptions.TimeoutErrorX", "my.httpx.ConnectError"],
)
def test_a_bare_class_name_says_nothing(name: str) -> None:
    """`ConnectionError` exists in six libraries, and in many programs."""
    module, _, short = name.rpartition(".")
    assert lookup(type(short, (Exception,), {"__module__": module})()) is None


def test_a_subclass_counts_as_its_nearest_known_parent() -> None:
    """Most specific class first, along the MRO."""

    class Mine(redis.exceptions.BusyLoadingError):
        pass

    found = lookup(Mine())
    assert found is not None
    assert found.name == "redis.exceptions.BusyLoadingError"


@pytest.mark.parametrize(
    ("message", "transient"),
    [
        ("LOADING Redis is loading the dataset in memory", True),
        ("CLUSTERDOWN The cluster is down", True),
        ("READONLY You can't write against a read only replica.", True),
        ("OOM command not allowed when used memory > 'maxmemory'.", False),
        ("WRONGTYPE Operation against a key", False),
        ("LOADINGS", False),
    ],
)
def test_redis_s_own_word_decides_where_the_class_is_the_general_one(
    message: str, transient: bool
) -> None:
    """Within scripts and pipelines the code is in the text."""
    found = lookup(redis.exceptions.ResponseError(message))
    assert found is not None
    assert found.transient is transient


def test_a_redis_time_out_while_connecting_was_not_sent() -> None:
    """redis-py has one class for both, and says which in the text."""
    found = lookup(redis.exceptions.TimeoutError("Timeout connecting to server"))
    assert found is not None
    assert found.state == "unsent"


def test_valkey_s_errors_are_redis_s() -> None:
    """valkey-py kept the names."""
    kind = type("BusyLoadingError", (Exception,), {"__module__": "valkey.exceptions"})
    found = lookup(kind())
    assert found is not None
    assert found.name == "redis.exceptions.BusyLoadingError"


# SQL


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("40001", "psycopg.errors.SerializationFailure[40001]"),
        ("40002", "psycopg.errors.TransactionIntegrityConstraintViolation[40002]"),
        ("08P01", "psycopg.errors.ProtocolViolation[08P01]"),
        ("40999", None),
        ("08999", None),
        ("42601", None),
    ],
)
@pytest.mark.parametrize("attribute", ["sqlstate", "pgcode"])
def test_a_sqlstate_counts_whole_and_from_any_driver(
    code: str, name: str | None, attribute: str
) -> None:
    """The class of a SQLSTATE says nothing: 40002 and 08P01 are unlike their neighbours."""
    error = made("psycopg2.OperationalError", "connection failed: x")
    setattr(error, attribute, code)
    found = lookup(error)
    assert (None if found is None else found.name) == name


def test_a_connection_that_asyncpg_lost_in_mid_query_is_ambiguous() -> None:
    """It uses 08003, "does not exist", for both."""
    kind = stand_in("asyncpg.exceptions.ConnectionDoesNotExistError")
    kind.sqlstate = "08003"  # type: ignore[attr-defined]  # as asyncpg's own class has it
    lost = lookup(kind("connection was closed in the middle of operation"))
    gone = lookup(kind("connection is closed"))
    assert lost is not None
    assert gone is not None
    assert (lost.state, gone.state) == ("ambiguous", "unsent")


@pytest.mark.parametrize(
    "text",
    [
        'connection failed: FATAL:  password authentication failed for user "x"',
        'connection failed: FATAL:  database "x" does not exist',
        "connection failed: SSL error: certificate verify failed",
    ],
)
def test_a_login_that_postgres_refuses_is_final(text: str) -> None:
    """While connecting there is no SQLSTATE, only libpq's text."""
    found = lookup(made("psycopg.OperationalError", text, pgconn=object()))
    assert found is not None
    assert not found.transient


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('connection to server at "x", port 1 failed: Connection refused', "unsent"),
        ('could not translate host name "x" to address', "unsent"),
        ("failed to resolve host 'x': [Errno -2] Name or service not known", "unsent"),
        ("server closed the connection unexpectedly", "ambiguous"),
        ("the connection is lost", "ambiguous"),
    ],
)
def test_psycopg_s_text_tells_whether_there_was_a_connection(text: str, state: str) -> None:
    """psycopg2 keeps no connection on its errors."""
    found = lookup(made("psycopg2.OperationalError", text))
    assert found is not None
    assert (found.transient, found.state) == (True, state)


@pytest.mark.parametrize(
    ("code", "transient"),
    [(5, True), (517, True), (5 | 9 << 8, True), (10 | 3 << 8, False), (1, None), (787, None)],
)
def test_an_extended_code_of_sqlite_counts_as_its_primary_one(
    code: int, transient: bool | None
) -> None:
    """Unless it has a row; "no such table" (1) has none of either."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    found = lookup(error)
    assert (None if found is None else found.transient) is transient


def test_sqlite_s_text_counts_where_there_is_no_code() -> None:
    """An error made by hand, as tests of programs do."""
    found = lookup(sqlite3.OperationalError("database is locked"))
    assert found is not None
    assert (found.transient, found.state) == (True, "rejected")


def test_a_locked_database_really_has_the_row_of_sqlite_busy(tmp_path: Path) -> None:
    """Two connections, one writer too many."""
    first = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    second = sqlite3.connect(tmp_path / "x.db", isolation_level=None, timeout=0)
    try:
        first.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            second.execute("BEGIN IMMEDIATE")
    finally:
        first.close()
        second.close()
    found = lookup(caught.value)
    assert found is not None
    assert found.name == "sqlite3.OperationalError[SQLITE_BUSY=5]"


@pytest.mark.parametrize(
    ("kind", "orig", "invalidated", "name"),
    [
        ("OperationalError", {"sqlstate": "40001"}, False, "SerializationFailure[40001]"),
        ("InternalError", {"sqlstate": "25P03"}, False, "IdleInTransactionSessionTimeout[25P03]"),
        ("DBAPIError", {"sqlstate": "57P01"}, True, "DBAPIError"),
        ("OperationalError", {"sqlstate": "42P01"}, False, "UndefinedTable[42P01]"),
        ("OperationalError", {"sqlstate": "99999"}, False, None),
        ("OperationalError", {}, True, "OperationalError"),
    ],
)
def test_sqlalchemy_s_error_is_its_driver_s(
    kind: str, orig: dict[str, str], invalidated: bool, name: str | None
) -> None:
    """`.orig` has the code; a driver that has none leaves it to the class."""
    error = made(
        f"sqlalchemy.exc.{kind}",
        orig=made("psycopg.Error", **orig) if orig else Exception(),
        connection_invalidated=invalidated,
    )
    found = lookup(error)
    assert (None if found is None else found.name.rpartition(".")[2]) == name


# gRPC and Google


@pytest.mark.parametrize(
    "value", ["-1", "-2147483648", "soon", "", "+5", "007", "1.5", "99999999999"]
)
def test_a_pushback_that_is_negative_or_cannot_be_read_forbids_a_retry(value: str) -> None:
    """The reverse of a malformed Retry-After, by gRPC A6."""
    error = grpc_error("UNAVAILABLE", (("grpc-retry-pushback-ms", value),))
    assert verdict(method="GET", error=error) == DoNotRetry(StopReason.FORBIDDEN)
    assert asked_delay(error) is None


@pytest.mark.parametrize(
    ("value", "delay"), [("0", 0.0), ("250", 0.25), (b"250", 0.25), ("2147483647", 2147483.647)]
)
def test_a_pushback_is_the_delay_in_milliseconds(value: object, delay: float) -> None:
    """gRPC A6."""
    error = grpc_error("UNAVAILABLE", (("x", "y"), ("grpc-retry-pushback-ms", value)))
    assert verdict(error=error) == RetryAfter(delay, RetryReason.THROTTLED)


def test_retry_info_is_the_least_delay() -> None:
    """google.rpc.RetryInfo, from the bytes of the trailer."""
    error = grpc_error("RESOURCE_EXHAUSTED", (("grpc-status-details-bin", RETRY_INFO),))
    assert asked_delay(error) == 3.5


def test_retry_info_is_read_from_google_s_decoded_details() -> None:
    """google-api-core hands out messages, and over REST what the JSON had."""
    delay = SimpleNamespace(retry_delay=SimpleNamespace(seconds=2, nanos=500_000_000))
    message = made("google.api_core.exceptions.TooManyRequests", details=[delay])
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    rest = [{"@type": "other"}, {"@type": kind, "retryDelay": "1.25s"}]
    assert asked_delay(message) == 2.5
    assert asked_delay(made("google.api_core.exceptions.TooManyRequests", details=rest)) == 1.25


@pytest.mark.parametrize(
    "trailer",
    [b"", b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 400, RETRY_INFO[:-3]],
)
def test_details_that_are_no_protocol_buffer_ask_for_nothing(trailer: bytes) -> None:
    """Nor do they raise."""
    error = grpc_error("RESOURCE_EXHAUSTED", (("grpc-status-details-bin", trailer),))
    assert asked_delay(error) in (None, 0.0)


def test_an_error_of_google_s_without_a_row_is_the_grpc_error_behind_it() -> None:
    """google-api-core raises from grpcio's."""
    error = raised(made("google.api_core.exceptions.NotFound"), cause=grpc_error("NOT_FOUND"))
    found = lookup(error)
    assert found is not None
    assert found.name == "grpc.RpcError[code=NOT_FOUND]"


def test_a_status_code_that_grpc_does_not_list_is_unknown() -> None:
    """OK and codes of the future have no row."""
    assert lookup(grpc_error("SOMETHING_NEW")) is None


# AWS


def test_a_code_that_aws_does_not_list_leaves_it_to_the_status() -> None:
    """429 with a code that nobody listed is still throttling."""
    error = client_error("SomethingNew", 429)
    assert lookup(error) is None
    assert verdict(error=error) == RetryAfter(0.0, RetryReason.THROTTLED)


def test_a_modelled_error_of_aws_is_known_by_its_code() -> None:
    """botocore makes a subclass of ClientError per code."""
    kind = type(
        "ThrottlingException",
        (stand_in("botocore.exceptions.ClientError"),),
        {"__module__": "botocore.errorfactory"},
    )
    error = kind()
    error.response = {"Error": {"Code": "ThrottlingException"}}
    found = lookup(error)
    assert found is not None
    assert found.kind == "throttled"


def test_aws_s_own_header_is_the_delay() -> None:
    """x-amz-retry-after is milliseconds."""
    error = client_error("SlowDown", 503)
    error.response["ResponseMetadata"]["HTTPHeaders"] = {"x-amz-retry-after": "1500"}  # type: ignore[attr-defined]  # set above
    assert verdict(error=error) == RetryAfter(1.5, RetryReason.THROTTLED)


@pytest.mark.parametrize(
    ("reasons", "transient"),
    [
        (["TransactionConflict", "None"], True),
        (["TransactionConflict", "ThrottlingError"], True),
        (["TransactionConflict", "ConditionalCheckFailed"], False),
        (["None"], False),
        ([], False),
    ],
)
def test_a_cancelled_transaction_is_what_it_was_cancelled_for(
    reasons: list[str], transient: bool
) -> None:
    """A condition that failed will fail again; a conflict will not."""
    error = client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": code} for code in reasons]
    )
    found = lookup(error)
    assert found is not None
    assert found.transient is transient


# SDKs


def test_a_quota_that_is_used_up_does_not_come_back() -> None:
    """OpenAI answers 429 for it, as for the rate limit."""
    error = made("openai.RateLimitError", code="insufficient_quota", response=response(429))
    assert verdict(error=error) == DoNotRetry(StopReason.FORBIDDEN)
    assert judge(error) is None


def test_stripe_says_itself_where_no_retry_is_due() -> None:
    """`should_retry` is false for a TLS failure."""
    error = made("stripe._error.APIConnectionError", should_retry=False)
    assert verdict(method="GET", error=error) == DoNotRetry(StopReason.FORBIDDEN)


def test_an_sdk_s_connection_error_is_what_it_was_raised_from() -> None:
    """openai has one class for all, and raises it from httpx's."""
    error = raised(made("openai.APIConnectionError"), cause=httpx.ConnectError("refused"))
    found = lookup(error)
    assert found is not None
    assert found.state == "unsent"


# HTTP/2


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (SimpleNamespace(stream_id=1, error_code=7, remote_reset=True), "unsent"),
        (SimpleNamespace(stream_id=1, error_code=7, remote_reset=False), "ambiguous"),
        (SimpleNamespace(stream_id=1, error_code=2, remote_reset=True), "ambiguous"),
        (SimpleNamespace(error_code=0, last_stream_id=0), "unsent"),
        (SimpleNamespace(error_code=0, last_stream_id=5), "ambiguous"),
    ],
)
def test_http2_tells_whether_a_stream_was_begun(event: object, state: str) -> None:
    """REFUSED_STREAM and GOAWAY promise that nothing was done (RFC 9113 §8.7)."""
    found = lookup(http2_error(event))
    assert found is not None
    assert found.state == state


# What led to an error


def test_a_cause_counts_where_the_error_itself_is_unknown() -> None:
    """A program's own error, raised from a known one."""
    found = lookup(raised(RuntimeError("while fetching"), cause=ConnectionRefusedError()))
    assert found is not None
    assert found.state == "unsent"


def test_a_context_counts_unless_it_is_suppressed() -> None:
    """`raise X` while handling Y, and `raise X from None`."""

    def wrapped(**suppress: None) -> BaseException:
        try:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                if suppress:
                    raise RuntimeError from None
                raise RuntimeError  # noqa: B904 - the implicit context is what is tested
        except RuntimeError as error:
            return error

    assert lookup(wrapped()) is not None
    assert lookup(wrapped(cause=None)) is None


def test_a_bug_in_a_handler_is_no_network_failure() -> None:
    """A KeyError while a reset is handled says nothing about the reset."""
    with pytest.raises(KeyError) as caught:
        try:
            raise ConnectionResetError
        except ConnectionResetError:
            {}["missing"]
    assert lookup(caught.value) is None


def test_an_earlier_failure_that_was_being_handled_is_not_this_one_s_cause() -> None:
    """A refusal is handled by another command, and that one is dropped after it was sent."""
    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError:
        try:
            try:
                raise ConnectionResetError
            except ConnectionResetError:
                raise redis.ConnectionError("Error while reading")  # noqa: B904 - as redis-py does
        except redis.ConnectionError as error:
            found = lookup(error)
    assert found is not None
    assert found.state == "ambiguous"


def test_a_chain_that_bites_its_own_tail_ends() -> None:
    """Cycles of causes are legal."""
    first, second = RuntimeError(1), RuntimeError(2)
    first.__cause__, second.__cause__ = second, first
    assert lookup(first) is None


def test_a_chain_of_any_length_ends() -> None:
    """50 links are followed."""
    error: BaseException = ConnectionRefusedError()
    for number in range(1_000):
        error = raised_from(RuntimeError(number), error)
    assert lookup(error) is None


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("?"),
        requests.ConnectionError("?"),
        urllib3.exceptions.MaxRetryError(POOL, "/"),
        httpx.ProxyError("?"),
        made("sqlalchemy.exc.OperationalError"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_wrapper_of_itself_ends(error: Any) -> None:
    """An error that holds itself under every name, and was raised from itself."""
    error.reason = error.orig = error.original_error = error.__context__ = error
    error.args = (error,)
    assert lookup(error) is not None


class Hostile(Exception):
    """An error on which everything raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_on_which_everything_raises_is_unknown() -> None:
    """Classifying never replaces the user's error by another."""
    assert lookup(Hostile()) is None
    assert judge(Hostile()) is None
    assert asked_delay(Hostile()) is None
    assert verdict(error=Hostile()) == DoNotRetry(StopReason.NOT_RETRYABLE)


def test_a_known_class_on_which_everything_raises_is_unknown_too() -> None:
    """The table has its parent, but it can be asked nothing."""
    error = type("Mine", (Hostile, urllib.error.URLError), {})("x")
    assert lookup(error) is None
    assert judge(error) is None


def test_a_class_that_is_gone_is_not_kept() -> None:
    """What is remembered by type does not keep the type alive."""

    def lost() -> weakref.ref[type]:
        class Local(ConnectionError):
            pass

        assert lookup(Local()) is not None
        return weakref.ref(Local)

    reference = lost()
    gc.collect()
    assert reference() is None


def test_the_table_may_be_loaded_from_many_threads_at_once() -> None:
    """The first failures of a service come together."""
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(lookup(TimeoutError()))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1


# The default classifier's rule


OURS = ("CPython stdlib", "asyncio", "http.client (CPython 3.11)", "urllib.request")
CLIENTS = ("requests", "httpx", "aiohttp", "urllib3", "HTTP/2", "botocore", "openai", "stripe")


@pytest.mark.parametrize(
    "row",
    [row for row in TABLE["exceptions"] if row["library"] in OURS],
    ids=identified,
)
def test_every_transient_row_of_python_s_own_is_retried(row: dict[str, Any]) -> None:
    """And no other: a permanent one is no opinion."""
    decision = judge(make(row))
    if row["transient"] or row["kind"] == "by_status":  # that one carries a 503
        assert isinstance(decision, RetryAfter)
    else:
        assert decision is None


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in TABLE["exceptions"]
        if not row["library"].startswith(
            (
                *OURS,
                "requests",
                "httpx",
                "aiohttp",
                "urllib3",
                "HTTP/2",
                "botocore",
                "openai",
                "stripe",
            )
        )
    ],
    ids=identified,
)
def test_an_error_of_a_database_is_nobody_s_default(row: dict[str, Any]) -> None:
    """What must be repeated there is the transaction, and only the user knows where it begins."""
    assert judge(make(row)) is None


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("as programs raise it"),
        type("Mine", (ConnectionError,), {})(),
        type("Mine", (TimeoutError,), {})(),
        BlockingIOError(),
        InterruptedError(),
        OSError(errno.ECONNRESET, "reset"),
        OSError(errno.EHOSTDOWN, "down"),
        OSError(errno.ENETRESET, "reset"),
        OSError(errno.EWOULDBLOCK, "full"),
        http.client.RemoteDisconnected(),
        urllib.error.URLError(ConnectionRefusedError()),
        asyncio.IncompleteReadError(b"", 4),
        ssl.SSLEOFError(),
        aiohttp.ServerTimeoutError(),
        aiohttp.ClientConnectionResetError(),
    ],
    ids=repr,
)
def test_a_failure_of_python_s_own_is_retried(error: Exception) -> None:
    """Where no request is in sight nobody says that it must not be repeated."""
    assert isinstance(judge(error), RetryAfter)


@pytest.mark.parametrize(
    "error",
    [
        OSError(),
        OSError("text"),
        OSError(errno.ENOSPC, "full"),
        PermissionError(),
        FileNotFoundError(),
        FileNotFoundError(errno.ENOENT, "missing"),
        FileExistsError(errno.EEXIST, "there"),
        ssl.SSLCertVerificationError(),
        ssl.SSLError(1, "WRONG_VERSION_NUMBER"),
        socket.gaierror(socket.EAI_FAIL, "x"),
        EOFError(),
        ValueError(),
        RuntimeError(),
        http.client.CannotSendRequest(),
        urllib.error.URLError("unknown url type: htp"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        ExceptionGroup("several", [ConnectionResetError()]),
    ],
    ids=repr,
)
def test_no_opinion_on_what_does_not_pass(error: BaseException) -> None:
    """`None`, so that a classifier further right may still say yes."""
    assert judge(error) is None


def test_an_error_of_the_user_s_own_is_the_user_s_to_classify() -> None:
    """Raised from a reset, it may well be a final answer."""
    assert judge(raised(LookupError(), cause=ConnectionResetError())) is None
    assert judge(raised(RuntimeError(), cause=ConnectionResetError())) is None


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (503, "GET", RetryAfter(0.0, RetryReason.SERVER_ERROR)),
        (503, "POST", DoNotRetry(StopReason.NOT_IDEMPOTENT)),
        (429, "POST", RetryAfter(0.0, RetryReason.THROTTLED)),
        (404, "GET", None),
        (501, "GET", None),
        (302, "GET", None),
    ],
)
def test_an_error_that_carries_a_response_is_what_the_response_says(
    status: int, method: str, expected: object
) -> None:
    """By status, and by method where it is seen."""
    answer = response(status, method=method)
    assert judge(httpx.HTTPStatusError("", request=answer.request, response=answer)) == expected
    assert judge(requests.HTTPError(response=requests_response(status, method=method))) == expected


def test_a_response_s_retry_after_is_the_delay() -> None:
    """From the error's own response."""
    expected = RetryAfter(7.0, RetryReason.THROTTLED)
    assert judge(http_error(503, {"Retry-After": "7"})) == expected
    error = aiohttp.ClientResponseError(
        REQUEST_INFO, (), status=503, headers=CIMultiDict({"Retry-After": "7"})
    )
    assert judge(error) == expected


def test_a_server_s_verdict_outranks_the_table() -> None:
    """`x-should-retry`, as OpenAI and Anthropic send it."""
    no = response(503, {"x-should-retry": "false"})
    yes = response(409, {"x-should-retry": "true"}, method="POST")
    for kind, answer, expected in (
        ("openai.InternalServerError", no, DoNotRetry(StopReason.FORBIDDEN)),
        ("openai.ConflictError", yes, RetryAfter(0.0, RetryReason.CONFLICT)),
    ):
        assert judge(made(kind, response=answer)) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError, RetryAfter(0.0, RetryReason.CONNECTION_FAILED)),
        (httpx.PoolTimeout, RetryAfter(0.0, RetryReason.TIMED_OUT)),
        (httpx.WriteError, DoNotRetry(StopReason.NOT_IDEMPOTENT)),
        (httpx.ReadTimeout, DoNotRetry(StopReason.NOT_IDEMPOTENT)),
        (httpx.RemoteProtocolError, DoNotRetry(StopReason.NOT_IDEMPOTENT)),
        (httpx.UnsupportedProtocol, None),
    ],
)
def test_a_client_s_error_that_shows_a_post_is_decided_by_phase(
    error: Any, expected: object
) -> None:
    """encode/httpx#1196: what was not sent may be sent again, what may have been done may not."""
    request = httpx.Request("POST", "https://api.example.org/")
    assert judge(error("x", request=request)) == expected


def test_a_key_makes_a_post_repeatable() -> None:
    """The error shows the request, and the request its key."""
    request = httpx.Request("POST", "https://x/", headers={"Idempotency-Key": "8e03978e"})
    assert isinstance(judge(httpx.ReadTimeout("x", request=request)), RetryAfter)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError("x"), RetryAfter(0.0, RetryReason.CONNECTION_FAILED)),
        (httpx.ReadTimeout("x"), None),
        (aiohttp.ServerDisconnectedError(), None),
        (requests.ReadTimeout(), None),
        (requests.ConnectTimeout(), RetryAfter(0.0, RetryReason.TIMED_OUT)),
        (
            made("botocore.exceptions.EndpointConnectionError"),
            RetryAfter(0.0, RetryReason.CONNECTION_FAILED),
        ),
    ],
    ids=repr,
)
def test_a_client_s_error_that_shows_no_request_is_retried_if_nothing_was_sent(
    error: Exception, expected: object
) -> None:
    """It vouches for nothing: an unseen request may be a POST."""
    assert judge(error) == expected


@pytest.mark.parametrize("status", [HTTPStatus.SERVICE_UNAVAILABLE, 503])
def test_a_web_framework_s_own_error_is_no_answer_of_a_server(status: int) -> None:
    """Starlette's HTTPException has a status and headers: what this server is about to say."""
    kind = type("HTTPException", (Exception,), {"__module__": "starlette.exceptions"})
    error = kind()
    error.status_code, error.headers, error.detail = status, {"Retry-After": "1"}, "busy"
    assert judge(error) is None
