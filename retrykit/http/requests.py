"""Retries for requests: an adapter to mount on a session.

    session = requests.Session()
    session.mount("https://", RetryAdapter())

One attempt covers sending the request and reading the response's headers; for a call that is not
streamed, reading the body as well: one that breaks off is retried. A streamed call (`stream=True`)
is committed once its headers are there. The session's response hooks run when retrying is over.

Each redirect is a call of its own, with all its attempts; a deadline is one for all of them, and
the session reads their bodies. When retrying ends, the last response is handed over open and
readable, or the last error raised. A response that is let go is released before the wait: a small
rest of its body is read, so that the connection can be used again, and a large one is closed.

A request says for itself how it is retried where it is sent:

    session.send(prepared, retrykit={"attempts": 2})   # these fields laid over the policy
    session.send(prepared, retrykit=another_policy)
    session.send(prepared, retrykit=None)              # one attempt

`session.get` and its like take no such option: `with retrykit.override(attempts=2)` around them
does the same. For a policy by path there is `by_endpoint`, or an adapter mounted on that path.

>>> from retrykit.http import http_policy
>>> session = requests.Session()
>>> session.mount("https://api.example.org/", RetryAdapter(policy=http_policy(attempts=3)))
"""

from __future__ import annotations

import copy
import threading
import weakref
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin

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
)

try:
    import requests
except ModuleNotFoundError as error:
    if error.name != "requests":
        raise
    raise ImportError(
        "retrykit.http.requests needs requests: install retrykit with the extra [requests]",
        name=error.name,
    ) from error

import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.exceptions import UnrewindableBodyError
from requests.sessions import SessionRedirectMixin
from requests.utils import requote_uri

from retrykit.http._urllib3 import (
    MOST_READ,
    PIECE,
    drain_time,
    hand_over,
    in_time,
    redirects_only,
    remaining,
    to_send,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from urllib3.util import Retry

    from retrykit._decorator import PolicyLike
    from retrykit.http._adapter import KeyStyle

__all__ = ["RetryAdapter"]

_KEY: Final = IDEMPOTENCY_KEY[0]


class RetryAdapter(HTTPAdapter):
    """An `HTTPAdapter` whose requests are retried: `session.mount("https://", RetryAdapter())`.

    `policy` is what `retry` takes (omitted: `http_policy()`). What is left of its deadline and of
    its `attempt_timeout` shortens the timeout of each attempt, and ends one whose body drips.

    `idempotency_key=True` gives every request that is not idempotent, and has none, an
    `Idempotency-Key`, one and the same on all attempts, and retries it like an idempotent one. The
    server must honour the header; one that does not may do the work twice: mount the adapter where
    it does. The value is quoted, as the IETF's draft has it; `"bare"` leaves the quotes out. A key,
    also one of the caller's own, goes along with redirects on the same origin and to no other.

    The other arguments are those of `HTTPAdapter`. `max_retries`, urllib3's own, must stay 0.

    >>> RetryAdapter(max_retries=3)
    Traceback (most recent call last):
        ...
    ValueError: max_retries must be 0, got 3: the policy retries, and both would multiply
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_retries"]  # noqa: RUF012 - what is pickled, as requests has it

    def __init__(
        self,
        *,
        policy: PolicyLike | None = None,
        idempotency_key: KeyStyle = False,
        **options: Any,
    ) -> None:
        self._retries = Retries(policy, idempotency_key)
        self._local = threading.local()
        redirects_only("max_retries", options.get("max_retries", 0))
        super().__init__(**options)

    @property
    def max_retries(self) -> Retry:
        """What urllib3 would retry by itself: nothing."""
        return self._max_retries

    @max_retries.setter
    def max_retries(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # whenever it is set
        self._max_retries = redirects_only("max_retries", value)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
        *,
        retrykit: object = POLICY_S_OWN,
    ) -> requests.Response:
        """Send the request, again where its policy says so."""
        body = Body(request.body)
        exchange = _Exchange(self, request, body, self._redirect_to(request))
        send = partial(super().send, stream=stream, verify=verify, cert=cert, proxies=proxies)

        def attempt(template: requests.PreparedRequest) -> requests.Response:
            sent = _copy_of(template)
            sent.body = to_send(template.body, body)
            limited = within(timeout, current_attempt().remaining)
            exchange.limited = limited is not timeout
            try:
                response = send(sent, timeout=limited)
            except urllib3.exceptions.UnrewindableBodyError as problem:
                raise UnrewindableBodyError(problem, request=sent) from problem
            finally:
                sent.body = template.body
            if not stream:
                _read_ahead(response)
            return response

        response: requests.Response = self._retries.run(exchange, attempt, retrykit)
        if exchange.limited:
            hand_over(response.raw, timeout)
        if not stream:
            _read_rest(response)
        if response.is_redirect:
            self._local.redirect = exchange.redirect(response)
        return response

    def _redirect_to(self, request: requests.PreparedRequest) -> _Redirect | None:
        """The redirect that this request follows, if it does."""
        last: _Redirect | None = vars(self._local).pop("redirect", None)
        return last if last is not None and last.leads_to(request) else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._local = threading.local()
        super().__setstate__(state)


class _Exchange(HttpExchange):
    """One request of a session's with its answers."""

    __slots__ = ("_keyless", "limited")

    limited: bool
    """Whether the last attempt had less time than the caller gave it."""

    def __init__(
        self,
        adapter: RetryAdapter,
        request: requests.PreparedRequest,
        body: Body,
        follows: _Redirect | None,
    ) -> None:
        template = _copy_of(request)  # the caller's own stays as it is: this one may get a key
        super().__init__(type(adapter).send, adapter, template, body)
        self.limited = False
        self._keyless = False
        if follows is not None and follows.is_followed(request):
            self.began = follows.began
        if follows is not None and follows.spent and request.body is not None:
            raise UnrewindableBodyError(
                "The body can be sent only once, and it was, before the redirect.", request=request
            )
        retries = adapter._retries
        if not retries.idempotency_key:
            return
        if follows is not None:
            self._keyless = follows.is_left_by(request)
            if self._keyless:
                template.headers.pop(_KEY, None)
        method = template.method or ""
        key = None if self._keyless else retries.key_for(self, method, template.headers)
        if key is not None and follows is not None:
            key = follows.key  # one for the whole journey
        if key is not None:
            template.headers[_KEY] = key

    def redirect(self, response: requests.Response) -> _Redirect:
        """What the request that follows a redirect has to know."""
        template = self.args[0]
        target = SessionRedirectMixin().get_redirect_target(response) or ""
        return _Redirect(
            weakref.ref(response),
            self.began,
            template.hooks,
            template.url,
            urldefrag(urljoin(response.url, requote_uri(target)))[0],
            template.headers.get(_KEY),
            self._keyless,
            not self.replayable(),
        )

    def let_go(self, response: Any) -> None:
        try:
            if response.raw.tell() == 0 and response.status_code != MISDIRECTED:
                _take(response, MOST_DRAINED, drain_time())
        finally:
            response.__dict__.pop("iter_content", None)
            response.close()


class _Redirect(NamedTuple):
    """A redirect that was answered, for the session to follow or not."""

    response: weakref.ref[requests.Response]
    began: float | None
    """When the call began that was answered so, or the first of a row."""
    hooks: object
    """Of the request: a session's copies of it have the very same."""
    url: str
    target: str
    key: str | None
    keyless: bool
    """Whether the origin where the key belongs was left before."""
    spent: bool
    """Whether the request's body cannot be sent again."""

    def leads_to(self, request: requests.PreparedRequest) -> bool:
        return request.hooks is self.hooks and urldefrag(request.url or "")[0] == self.target

    def is_followed(self, request: requests.PreparedRequest) -> bool:
        """Whether it is the session that goes on, and not the caller, with `response.next`."""
        response = self.response()
        return response is not None and response.next is not request

    def is_left_by(self, request: requests.PreparedRequest) -> bool:
        """Whether the request goes to another origin, as requests sees it for credentials."""
        url = request.url or ""
        return self.keyless or SessionRedirectMixin().should_strip_auth(self.url, url)


def _copy_of(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """A copy to change; unlike requests' own it keeps what others have put on the request."""
    copied = copy.copy(request)
    copied.headers = request.headers.copy()
    return copied


def _read_ahead(response: requests.Response) -> None:
    """Read the body as part of the attempt: whole, or the beginning of an error's."""
    if response.is_redirect or response.status_code == MISDIRECTED:
        return  # the session drops the one, the other's connection is not to be used again
    most = MOST_READ if response.status_code >= 400 else INFINITY
    try:
        _take(response, most, None if remaining() is None else remaining)
    except BaseException:
        response.close()
        raise


def _read_rest(response: requests.Response) -> None:
    """Read what there still is of the body."""
    if "iter_content" not in vars(response):
        return
    try:
        _ = response.content
    except BaseException:
        response.close()
        raise
    del response.iter_content


def _take(
    response: requests.Response, most: float, left: Callable[[], float | None] | None
) -> bool:
    """Read the body, or its beginning where it is longer than `most`; whether that was all."""
    raw: Any = response.raw
    if left is not None and hasattr(raw, "stream"):
        raw.stream = partial(in_time, raw, left)
    begun: list[bytes] = []
    size = 0
    try:
        rest = response.iter_content(PIECE)
        for piece in rest:
            begun.append(piece)
            size += len(piece)
            if size > most:
                # All ways to the body go through this method: what is read here comes first.
                response.iter_content = lambda *_, **__: chain(begun, rest)  # type: ignore[method-assign]  # for this one response
                return False
        response._content = b"".join(begun)  # there is no public way to keep what was read
        return True
    finally:
        if left is not None:
            raw.__dict__.pop("stream", None)
