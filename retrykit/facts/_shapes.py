"""What an object shows of a request and its response, read by its shape.

No client is imported and no body is read. Every attribute is asked for with care: a property may
raise (httpx's `.request` does where none is set), a mock answers to every name, and a response may
be false (requests' is, where it failed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from retrykit.facts._headers import Headers
from retrykit.facts.methods import IDEMPOTENCY_KEY, classify_method, is_token

if TYPE_CHECKING:
    from collections.abc import Collection

    from retrykit.facts.methods import RetryableMethod
    from retrykit.outcome import Call

_LONGEST_METHOD: Final = 64
_LONGEST_URL: Final = 65_536

# A request among the call's arguments counts only if it is certainly an outgoing one: a web
# framework's incoming request has the same shape.
_OUTGOING: Final = frozenset(
    {
        "requests.models.PreparedRequest",
        "requests.models.Request",
        "httpx.Request",
        "httpx2.Request",
        "aiohttp.client_reqrep.ClientRequest",
        "urllib.request.Request",
        "retrykit.http.urllib3.Request",
    }
)

_NO_ANSWER: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientHttpProxyError",
        "aiohttp.http_exceptions.HttpProcessingError",
    }
)


class Seen(NamedTuple):
    """What could be seen; `None` for what could not."""

    status: int | None = None
    headers: Headers = Headers()
    """The response's."""
    method: str | None = None
    url: str | None = None
    sent: Headers = Headers()
    """The request's headers."""

    def safety(self, key_names: Collection[str] = IDEMPOTENCY_KEY) -> RetryableMethod | None:
        """How safe it is to repeat the request; `None` where no method is seen."""
        if self.method is None:
            return None
        return classify_method(self.method, self.sent, key_names=key_names)


NOTHING: Final = Seen()


def qualified_names(thing: object) -> list[str]:
    """The qualified names of a thing's class and its bases, most specific first."""
    return [f"{base.__module__}.{base.__qualname__}" for base in type(thing).__mro__]


def get(thing: object, name: str) -> Any:
    """An attribute, or `None`, also where reading it fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - somebody else's property may raise anything
        return None


def item(thing: object, key: str) -> Any:
    """What a dictionary holds under this key; `None` where it is none."""
    return cast("dict[str, object]", thing).get(key) if isinstance(thing, dict) else None


def arguments_of(error: object) -> tuple[object, ...]:
    """An exception's `args`, also where somebody put something else there."""
    arguments = get(error, "args")
    return cast("tuple[object, ...]", arguments) if isinstance(arguments, tuple) else ()


def response_in(value: object) -> Seen | None:
    """What a response shows, or `None` for what is none.

    Knows the responses of requests, httpx, aiohttp, urllib3, http.client and urllib, and botocore's
    dictionaries.
    """
    botocore = _botocore(value)
    if botocore is not None or isinstance(value, dict):
        return botocore
    status = whole_status(get(value, "status_code"))
    if status is None:
        # `status` is a common name for other things: only beside headers is it a response's.
        status = whole_status(get(value, "status"))
        if status is None or get(value, "headers") is None:
            return None
    request = get(value, "request")
    if _token(get(request, "method")) is None:
        request = get(value, "request_info")
    asked = request_in(request)
    if asked is None:
        method = next((m for m in map(_token, _methods_of(value)) if m is not None), None)
        asked = Seen(method=method, url=bare_url(get(value, "url")))
    return asked._replace(status=status, headers=Headers(get(value, "headers")))


def request_in(value: object) -> Seen | None:
    """What a request shows, or `None` for what is none."""
    method = _token(get(value, "method"))
    if method is None:
        return None
    return Seen(
        method=method,
        url=bare_url(get(value, "url")),
        sent=Headers(get(value, "headers")),
    )


def shown_by(error: BaseException) -> Seen:
    """What an error shows of the response that it carries, or of the request that failed."""
    for carried in (get(error, "response"), get(error, "resp")):
        seen = _httplib2(carried) if _is_httplib2(carried) else response_in(carried)
        if seen is not None:
            return seen._replace(url=seen.url or bare_url(get(error, "uri")))
    if get(error, "hdrs") is not None:  # urllib's error is the response itself
        seen = response_in(error)
        if seen is not None:
            return seen
    # aiohttp's error is half a response, stripe's names the status its own way.
    request, status = get(error, "request_info"), whole_status(get(error, "http_status"))
    if request is None:
        request = get(error, "request")
    elif not _not_the_server_s(error):
        status = whole_status(get(error, "status"))
    asked = request_in(request) or NOTHING
    if asked.method == "CONNECT":  # the proxy's request, not the caller's
        asked = NOTHING
    if status is None:
        return asked
    return asked._replace(status=status, headers=Headers(get(error, "headers")))


def request_of(call: Call) -> Seen:
    """What the call's arguments show, where one of them is a client's request."""
    for argument in (*call.args, *call.kwargs.values()):
        names = _OUTGOING.intersection(qualified_names(argument))
        if "urllib.request.Request" in names:
            method = _token(argument.get_method())
            return Seen(
                method=method,
                url=bare_url(argument.full_url),
                sent=Headers(argument.header_items()),
            )
        if names:
            return request_in(argument) or NOTHING
    return NOTHING


def whole_status(value: object) -> int | None:
    """A status: a whole number from 100 to 999, and no `bool`."""
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999:
        return int(value)
    return None


def bare_url(url: object) -> str | None:
    """A URL without its query, its fragment and its user information.

    >>> bare_url("https://user:secret@example.org/path?token=x#top")
    'https://example.org/path'
    """
    if type(url).__name__ == "URL":  # httpx's and yarl's
        url = str(url)
    if not isinstance(url, str) or not url or len(url) > _LONGEST_URL:
        return None
    text = url.partition("#")[0].partition("?")[0]
    scheme, slashes, rest = text.partition("//")
    if not slashes or scheme[-1:] not in ("", ":"):
        return text
    authority, slash, path = rest.partition("/")
    return f"{scheme}//{authority.rpartition('@')[2]}{slash}{path}"


def _methods_of(response: object) -> tuple[object, ...]:
    """Where a response without its request keeps the method.

    http.client keeps it under a private name since Python 2, and is the only one to know it: it
    is what urllib and urllib3 wrap.
    """
    inner = (response, get(response, "fp"), get(response, "_original_response"))
    return (get(response, "method"), *(get(each, "_method") for each in inner))


def _botocore(value: object) -> Seen | None:
    metadata = item(value, "ResponseMetadata")
    status = whole_status(item(metadata, "HTTPStatusCode"))
    return None if status is None else Seen(status, Headers(item(metadata, "HTTPHeaders")))


def _not_the_server_s(error: BaseException) -> bool:
    """Whether the status of aiohttp's error is a proxy's, or made up for want of an answer."""
    names = (*qualified_names(error), *qualified_names(error.__cause__))
    return not _NO_ANSWER.isdisjoint(names)


def _is_httplib2(value: object) -> bool:
    return whole_status(get(value, "status")) is not None and isinstance(value, dict)


def _httplib2(value: object) -> Seen:
    """googleapiclient's: a dictionary of headers with a status beside them."""
    return Seen(whole_status(get(value, "status")), Headers(value))


def _token(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str) or len(value) > _LONGEST_METHOD or not is_token(value):
        return None
    return str.__str__(value)  # a plain string, of an enum's member too
