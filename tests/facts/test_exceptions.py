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
import valkey
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
    """B54: what was not sent may be sent again; what may have been done, only if idempotent."""
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
