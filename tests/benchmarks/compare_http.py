"""retrykit's HTTP adapters beside other libraries, on one misbehaving server: a Markdown table.

    python tests/benchmarks/compare_http.py [library ...]

Each library is set up for five attempts, short waits, retries on 503, and Retry-After honoured,
where it has a setting for that; for the rest it is as it comes. What is not installed is left out
and named. Real clients and real sockets; it takes about a minute, most of it waits that a server
asked for, or that somebody makes who should not.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers import Exchange, RawServer, Step, answer, hang_up, reset, truncated

PATIENCE: Final = 4.0
"""Seconds after which a client that has not come back is taken for asleep."""

Reply: TypeAlias = tuple[int, bytes]
Send: TypeAlias = Callable[[str, str, Any, bool], Reply]
"""Method, address, body, whether the pool has one connection: the reply, or an error."""

SENDERS: Final[dict[str, Send]] = {}
ON_TRIO: Final[dict[str, Callable[[str], Any]]] = {}
"""From an address to a coroutine that gives the status of a GET, for async clients of httpx."""
PARTS: Final[dict[str, tuple[str, ...]]] = {}
LEFT_OUT: Final[list[str]] = []


def library(name: str, *parts: str) -> Callable[[Callable[[], Send]], None]:
    """Take in a library by what it gives to send with, where all its parts are installed."""

    def take(make: Callable[[], Send]) -> None:
        for part in parts:
            try:
                importlib.import_module(part.replace("-", "_"))
            except ImportError as problem:
                LEFT_OUT.append(f"{name}: {problem}")
                return
        SENDERS[name] = make()
        PARTS[name] = parts

    return take


def content(data: Any) -> dict[str, Any]:
    """A body as the clients of httpx take it."""
    return {} if data is None else {"content": data}


def policy() -> Any:
    """retrykit's: five attempts and the preset's other settings, with short waits."""
    from retrykit import Exponential
    from retrykit.http import http_policy

    return http_policy(attempts=5, backoff=Exponential(0.1))


@library("retrykit, requests", "requests")
def _() -> Send:
    import requests

    from retrykit.http.requests import RetryAdapter

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        size = {"pool_maxsize": 1, "pool_block": True} if narrow else {}
        with requests.Session() as session:
            session.mount("http://", RetryAdapter(policy=policy(), **size))
            response = session.request(method, url, data=data)
            return response.status_code, response.content

    return send


@library("retrykit, httpx", "httpx")
def _() -> Send:
    import httpx

    from retrykit.http.httpx import AsyncRetryClient, RetryClient

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        limits = httpx.Limits(max_connections=1 if narrow else 10)
        with RetryClient(policy=policy(), limits=limits) as client:
            response = client.request(method, url, **content(data))
            return response.status_code, response.content

    async def on_trio(url: str) -> int:
        async with AsyncRetryClient(policy=policy()) as client:
            return (await client.get(url)).status_code

    ON_TRIO["retrykit, httpx"] = on_trio
    return send


@library("retrykit, aiohttp", "aiohttp")
def _() -> Send:
    import aiohttp

    from retrykit.http.aiohttp import retry_middleware

    async def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        connector = aiohttp.TCPConnector(limit=1 if narrow else 10)
        middlewares = (retry_middleware(policy=policy()),)
        async with (
            aiohttp.ClientSession(connector=connector, middlewares=middlewares) as session,
            session.request(method, url, data=async_body(data)) as response,
        ):
            return response.status, await response.read()

    return lambda *asked: asyncio.run(send(*asked))


@library("retrykit, urllib3", "urllib3")
def _() -> Send:
    from retrykit.http.urllib3 import RetryPoolManager

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        with RetryPoolManager(policy=policy(), maxsize=1 if narrow else 10, block=narrow) as pool:
            response = pool.request(method, url, body=data)
            return response.status, response.data

    return send


@library("urllib3 `Retry`", "urllib3")
def _() -> Send:
    import urllib3

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        retries = urllib3.Retry(
            total=4, backoff_factor=0.1, status_forcelist=[502, 503, 504], raise_on_status=False
        )
        pool = urllib3.PoolManager(retries=retries, maxsize=1 if narrow else 10, block=narrow)
        with pool:
            response = pool.request(method, url, body=data)
            return response.status, response.data

    return send


@library("httpx-retries", "httpx", "httpx-retries")
def _() -> Send:
    import httpx
    from httpx_retries import Retry, RetryTransport

    retry = Retry(total=4, backoff_factor=0.1)

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=1 if narrow else 10))
        with httpx.Client(transport=RetryTransport(transport=inner, retry=retry)) as client:
            response = client.request(method, url, **content(data))
            return response.status_code, response.content

    async def on_trio(url: str) -> int:
        async with httpx.AsyncClient(transport=RetryTransport(retry=retry)) as client:
            return (await client.get(url)).status_code

    ON_TRIO["httpx-retries"] = on_trio
    return send


@library("aiohttp-retry", "aiohttp", "aiohttp-retry")
def _() -> Send:
    import aiohttp
    from aiohttp_retry import ExponentialRetry, RetryClient

    async def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        connector = aiohttp.TCPConnector(limit=1 if narrow else 10)
        options = ExponentialRetry(attempts=5, start_timeout=0.1, statuses={503})
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            RetryClient(client_session=session, retry_options=options) as client,
            client.request(method, url, data=async_body(data)) as response,
        ):
            return response.status, await response.read()

    return lambda *asked: asyncio.run(send(*asked))


@library("retryhttp, httpx", "httpx", "retryhttp")
def _() -> Send:
    import httpx
    from retryhttp import retry, wait_retry_after
    from tenacity import wait_random_exponential

    short = wait_random_exponential(multiplier=0.1)
    retried = retry(
        max_attempt_number=5,
        wait_server_errors=wait_retry_after(fallback=short),
        wait_network_errors=short,
        reraise=True,
    )

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        limits = httpx.Limits(max_connections=1 if narrow else 10)
        with httpx.Client(limits=limits) as client:

            @retried
            def call() -> Reply:
                response = client.request(method, url, **content(data))
                response.raise_for_status()
                return response.status_code, response.content

            return call()

    async def on_trio(url: str) -> int:
        async with httpx.AsyncClient() as client:

            @retried
            async def call() -> int:
                response = await client.get(url)
                response.raise_for_status()
                return response.status_code

            return await call()

    ON_TRIO["retryhttp, httpx"] = on_trio
    return send


@library("botocore (S3)", "botocore")
def _() -> Send:
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config

    def send(method: str, url: str, data: Any, narrow: bool) -> Reply:
        config = Config(
            region_name="us-east-1",
            signature_version=UNSIGNED,
            retries={"mode": "standard", "total_max_attempts": 5},
            max_pool_connections=1 if narrow else 10,
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        session = botocore.session.get_session()
        client = session.create_client("s3", endpoint_url=url, config=config)
        where = {"Bucket": "bucket", "Key": "key"}
        if method == "POST":
            client.create_multipart_upload(**where)
            return 200, b""
        if method == "PUT":
            client.put_object(**where, Body=data)
            return 200, b""
        return 200, client.get_object(**where)["Body"].read()

    return send


def async_body(data: Any) -> Any:
    """A generator as an async one, which aiohttp takes."""
    if not isinstance(data, Iterator):
        return data

    async def pieces() -> Any:
        for piece in data:
            yield piece

    return pieces()


class Run:
    """One request of one library's, against a server with this script."""

    def __init__(
        self, send: Send, method: str, *script: Step, data: Any = None, narrow: bool = False
    ) -> None:
        self.reply: Reply | None = None
        self.error: BaseException | None = None
        with RawServer(*script, then=answer(body=b"whole")) as server:
            self._asked = (method, server.url("/"), data, narrow)
            thread = threading.Thread(target=self._run, args=(send,), daemon=True)
            began = time.monotonic()
            thread.start()
            thread.join(PATIENCE)
            self.asleep = thread.is_alive()
            self.took = time.monotonic() - began
            self.requests = server.requests
        self.gaps = [
            after.arrived - before.arrived
            for before, after in zip(self.requests, self.requests[1:], strict=False)
        ]

    def _run(self, send: Send) -> None:
        try:
            self.reply = send(*self._asked)
        except BaseException as error:
            self.error = error

    @property
    def status(self) -> int | None:
        """The reply's status, also where it comes inside an error."""
        if self.reply is not None:
            return self.reply[0]
        response: Any = getattr(self.error, "response", None)
        if isinstance(response, dict):  # botocore's
            return response["ResponseMetadata"].get("HTTPStatusCode")
        return getattr(response, "status_code", None)


def right(text: str) -> str:
    return f"✓ {text}"


def wrong(text: str) -> str:
    return f"✗ {text}"


def named(error: BaseException | None) -> str:
    return type(error).__name__


def post_dropped_before_headers(name: str, send: Send) -> str:
    """The server may have done what it was asked to: a second POST might do it twice."""
    count = len(Run(send, "POST", reset, data=b"pay").requests)
    return right("sent once") if count == 1 else wrong(f"sent {count} times")


def generator_body(name: str, send: Send) -> str:
    """It can be gone through once: a second request would carry less, or nothing."""
    run = Run(send, "PUT", answer(503), data=iter([b"one, ", b"two"]))
    if not run.requests:
        return "refused: not in its API"
    whole = run.requests[0].body
    if len(run.requests) > 1:
        again = run.requests[-1].body
        return right("whole again") if again == whole else wrong(f"again, with {len(again)} bytes")
    return right("once, 503 returned") if run.status == 503 else wrong(named(run.error))


def http_date(name: str, send: Send) -> str:
    """Retry-After as a date, some two seconds ahead."""
    asked: list[float] = []

    def step(exchange: Exchange) -> None:
        now = time.time()
        then = math.ceil(now) + 1
        asked.append(then - now)
        answer(
            503,
            {"Date": formatdate(now, usegmt=True), "Retry-After": formatdate(then, usegmt=True)},
        )(exchange)

    run = Run(send, "GET", step)
    if not run.gaps:
        return wrong("not retried")
    if run.gaps[0] >= asked[0] - 0.02:
        return right("waited for")
    return wrong(f"{run.gaps[0]:.1f} s of {asked[0]:.1f} s")


def an_hour(name: str, send: Send) -> str:
    """Retry-After: 3600. Nobody who waits for a reply waits for so long."""
    run = Run(send, "GET", answer(503, {"Retry-After": "3600"}))
    if run.asleep:
        return wrong("sleeps for it")
    if run.gaps:
        return wrong(f"again after {run.gaps[0]:.1f} s")
    return right("503 at once") if run.status == 503 else wrong(named(run.error))


def pool_of_one(name: str, send: Send) -> str:
    """An error with a body of 200 kB holds the only connection until it is released."""
    run = Run(send, "GET", answer(503, body=b"x" * 200_000), narrow=True)
    if run.asleep:
        return wrong("waits for itself")
    return right("released") if run.status == 200 else wrong(named(run.error))


def truncated_body(name: str, send: Send) -> str:
    """4 bytes of 100, then the connection is closed."""
    run = Run(send, "GET", truncated(b"four", 100, end=hang_up))
    if run.reply == (200, b"whole"):
        return right("retried")
    return wrong(named(run.error) if run.error is not None else "half a body returned")


def trio(name: str, send: Send) -> str:
    """503, then 200, in a Trio program."""
    get = ON_TRIO.get(name)
    if get is None:
        return "–"
    import trio

    run = Run(lambda method, url, data, narrow: (trio.run(get, url), b""), "GET", answer(503))
    return right("works") if run.status == 200 else wrong(named(run.error))


COLUMNS: Final[dict[str, Callable[[str, Send], str]]] = {
    "POST dropped before headers": post_dropped_before_headers,
    "generator as body, 503": generator_body,
    "HTTP-date": http_date,
    "Retry-After of an hour": an_hour,
    "pool of one, 200 kB error": pool_of_one,
    "truncated body": truncated_body,
    "Trio": trio,
}


def main(names: list[str]) -> None:
    print(f"| | {' | '.join(COLUMNS)} |")
    print(f"|---|{'---|' * len(COLUMNS)}")
    for name, send in SENDERS.items():
        if names and not any(each in name for each in names):
            continue
        cells = [judge(name, send) for judge in COLUMNS.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    parts = sorted({part for each in PARTS.values() for part in each} | {"retrykit"})
    print(f"\n{', '.join(f'{part} {version(part)}' for part in parts)}.")
    for line in LEFT_OUT:
        print(f"Left out, not installed: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
