"""Retries for urllib3: a pool manager in the place of urllib3's own.

    pool = RetryPoolManager()
    pool.request("GET", "https://api.example.org/items")

One attempt covers getting a connection from the pool, sending the request, and reading the
response: the whole of it, or with `preload_content=False` its headers, after which the call is
committed.

Each redirect is a call of its own, with all its attempts; a deadline is one for all of them. When
retrying ends, the last response is handed over open and readable, or the last error raised: the
error itself, in no `MaxRetryError`. A response that is let go is released before the wait: a small
rest of its body is read, so that the connection can be used again, and a large one is closed.

A request says for itself how it is retried:

    pool.request("GET", url, retrykit={"attempts": 2})   # these fields laid over the policy
    pool.request("GET", url, retrykit=another_policy)
    pool.request("GET", url, retrykit=None)              # one attempt

`retries`, urllib3's own, may say how redirects are followed and no more:
`Retry(redirect=5, connect=0, read=0, status=0, other=0)`; or `False` for a request that is made
once and whose redirect is returned.

>>> from retrykit.http import http_policy
>>> pool = RetryPoolManager(policy=http_policy(attempts=3), maxsize=20)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from retrykit._context import current_attempt
from retrykit._validate import INFINITY
from retrykit.facts.methods import IDEMPOTENCY_KEY
from retrykit.http._adapter import (
    MISDIRECTED,
    MOST_DRAINED,
    POLICY_S_OWN,
    Body,
    HttpExchange,
    Retries,
    tighter,
)

try:
    import urllib3
except ModuleNotFoundError as error:
    if error.name != "urllib3":
        raise
    raise ImportError(
        "retrykit.http.urllib3 needs urllib3: install retrykit with the extra [urllib3]",
        name=error.name,
    ) from error

from urllib3 import HTTPHeaderDict
from urllib3.exceptions import UnrewindableBodyError
from urllib3.util import Retry, Timeout

from retrykit.http._urllib3 import (
    MOST_READ,
    drain_time,
    hand_over,
    in_time,
    redirects_only,
    remaining,
    to_send,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrykit._decorator import PolicyLike
    from retrykit.http._adapter import KeyStyle

__all__ = ["Request", "RetryPoolManager", "RetryProxyManager"]

_KEY: Final = IDEMPOTENCY_KEY[0]


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, as a policy's functions find it in `call.args`: urllib3 has no such object.

    The `repr` shows the method only.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class RetryPoolManager(urllib3.PoolManager):
    """A `PoolManager` whose requests are retried.

    `policy` is what `retry` takes (omitted: `http_policy()`). What is left of its deadline and of
    its `attempt_timeout` shortens the timeout of each attempt, also the wait for a connection of a
    pool that blocks, and ends an attempt whose body drips.

    `idempotency_key=True` gives every request that is not idempotent, and has none, an
    `Idempotency-Key`, one and the same on all attempts, and retries it like an idempotent one. The
    server must honour the header; one that does not may do the work twice. The value is quoted, as
    the IETF's draft has it; `"bare"` leaves the quotes out. A key, also one of the caller's own,
    goes along with redirects on the same origin and to no other.

    The other arguments are those of `PoolManager`; `retries` may not retry.

    >>> RetryPoolManager(retries=3)
    Traceback (most recent call last):
        ...
    ValueError: retries must be 0, got 3: the policy retries, and both would multiply
    """

    def __init__(
        self,
        *args: Any,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
        **options: Any,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        redirects = options.pop("retries", None)
        if redirects is not None:
            redirects = redirects_only("retries", redirects)
        self._redirects: Retry | None = redirects
        super().__init__(*args, **options)
        self.pool_classes_by_scheme = {
            scheme: _retrying(pool_class)
            for scheme, pool_class in self.pool_classes_by_scheme.items()
        }

    def urlopen(  # type: ignore[override]  # as in urllib3
        self,
        method: str,
        url: str,
        redirect: bool = True,
        *,
        retrykit: object = POLICY_S_OWN,
        **options: Any,
    ) -> urllib3.BaseHTTPResponse:
        """Send the request, again where its policy says so; all other calls go through here."""
        if isinstance(retrykit, _Exchange):  # urllib3 follows a redirect
            exchange = retrykit.after_redirect(method, url, options)
        else:
            exchange = self._exchange(method, url, redirect, retrykit, options)
        return super().urlopen(method, url, redirect, retrykit=exchange, **options)

    def _exchange(
        self, method: str, url: str, redirect: bool, own: object, options: dict[str, Any]
    ) -> _Exchange:
        """A new call; what goes along with its redirects is put into the options."""
        given = options.get("retries")
        if given is not None:
            given = redirects_only("retries", given)
            if given.total is not None and not given.total and own is POLICY_S_OWN:
                own = None
        redirects = Retry.from_int(given, redirect=redirect, default=self._redirects)
        headers = options.get("headers")
        if headers is None:
            headers = self.headers
        exchange = _Exchange(self, Request(method, url, headers), Body(options.get("body")), own)
        key = self._retries.key_for(exchange, method, headers)
        if key is not None:
            headers = HTTPHeaderDict(headers)
            headers[_KEY] = key
            exchange.args = (Request(method, url, headers),)
        if self._retries.idempotency_key:
            strange = [*redirects.remove_headers_on_redirect, _KEY]
            redirects = redirects.new(remove_headers_on_redirect=strange)
        options.update(headers=headers, retries=redirects)
        return exchange


class RetryProxyManager(RetryPoolManager, urllib3.ProxyManager):
    """The same for a `ProxyManager`: `RetryProxyManager("http://localhost:3128/")`."""


class _Exchange(HttpExchange):
    """One request of a manager's with its answers, on its way through the manager to a pool."""

    __slots__ = ("begun", "limited", "own")

    begun: list[bytes] | None
    """What was read of the last response; `None` for all of it, or where nobody is to."""
    limited: bool
    """Whether the last attempt had less time than the caller gave it."""
    own: object
    """What the request says of its retries."""

    def __init__(
        self, manager: RetryPoolManager, request: Request, body: Body, own: object
    ) -> None:
        super().__init__(type(manager).urlopen, manager, request, body)
        self.begun = None
        self.limited = False
        self.own = own

    def after_redirect(self, method: str, url: str, options: dict[str, Any]) -> _Exchange:
        """The call that follows: its headers and its body are what urllib3 lets go along."""
        body = self.body
        if options.get("body") is None or body is None:
            body = Body()
        elif not body.replayable():
            raise UnrewindableBodyError(
                "The body can be sent only once, and it was, before the redirect."
            )
        request = Request(method, url, options["headers"])
        exchange = _Exchange(self.instance, request, body, self.own)
        exchange.began = self.began  # one deadline for all of the way
        return exchange

    def run(self, attempt: Callable[[Request], Any]) -> Any:
        """Make the call, as its manager is set up."""
        return self.instance._retries.run(self, attempt, self.own)

    def read_ahead(self, response: Any) -> None:
        """Read the body as part of the attempt: whole, or the beginning of an error's."""
        most = MOST_READ if response.status >= 400 else INFINITY
        self.begun = []
        if response.status == MISDIRECTED:
            return  # its connection is not to be used again
        try:
            if most == INFINITY and remaining() is None:
                response.read(cache_content=True)
                self.begun = None
            else:
                self.begun = _take(response, most, remaining)
        except BaseException:
            self.close(response)
            raise

    def read_rest(self, response: Any) -> None:
        """Read what there still is of the body."""
        _keep(response, [*(self.begun or ()), response.read()])

    def let_go(self, response: Any) -> None:
        try:
            if response.tell() == 0 and response.status != MISDIRECTED:
                _take(response, MOST_DRAINED, drain_time())
        finally:
            self.close(response)

    def close(self, response: Any) -> None:
        response.close()
        response.release_conn()  # closed as it is: a pool that blocks waits for it


class _Attempts:
    """What is mixed into a pool class, so that it makes the attempts of a manager that retries.

    A pool that is used by itself is what it was.
    """

    timeout: Timeout

    def urlopen(
        self, method: str, url: str, *args: Any, retrykit: object = None, **options: Any
    ) -> Any:
        send: Callable[..., Any] = cast("Any", super()).urlopen  # the pool class's own
        if not isinstance(retrykit, _Exchange):
            return send(method, url, *args, **options)
        exchange = retrykit
        body = options.pop("body", None)
        redirects = options.pop("retries", None)
        timeout = options.pop("timeout", Timeout.DEFAULT_TIMEOUT)
        if timeout is Timeout.DEFAULT_TIMEOUT:
            timeout = self.timeout
        pool_timeout = options.pop("pool_timeout", None)
        whole = options.pop("preload_content", True)
        if whole:
            options.pop("release_conn", None)  # it is released when it is read

        def attempt(_: Request) -> Any:
            left = current_attempt().remaining
            limited = within(timeout, left)
            exchange.limited = limited is not timeout
            response = send(
                method,
                url,
                body=body if exchange.body is None else to_send(body, exchange.body),
                retries=False,
                timeout=limited,
                pool_timeout=tighter(pool_timeout, left),
                preload_content=False,
                **options,
            )
            response.retries = redirects
            if whole:
                exchange.read_ahead(response)
            return response

        response = exchange.run(attempt)
        if exchange.limited:
            hand_over(response, timeout)
        if exchange.begun is not None:
            exchange.read_rest(response)
        return response


@cache
def _retrying(pool_class: type) -> Any:
    """The same class of pools, able to make a manager's attempts."""
    return type(pool_class.__name__, (_Attempts, pool_class), {})


def _take(response: Any, most: float, left: Callable[[], float | None]) -> list[bytes] | None:
    """Read the body and keep it; where it is longer than `most`, read its beginning and give it."""
    begun: list[bytes] = []
    size = 0
    for piece in in_time(response, left):
        begun.append(piece)
        size += len(piece)
        if size > most:
            return begun
    _keep(response, begun)
    return None


def _keep(response: Any, pieces: list[bytes]) -> None:
    """Have `response.data` show what was read: urllib3 has no public way to say so."""
    response._body = b"".join(pieces)
