"""What an attempt shows of a request, by shape, from the real objects of real clients."""

from __future__ import annotations

import http.client
import http.server
import json
import pickle
import threading
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, Mock

import aiohttp
import httpx
import pytest
import requests
import urllib3
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import DoNotRetry, RetryAfter, RetryReason, StopReason
from retrykit.facts._headers import Headers
from retrykit.facts.exceptions import judge
from retrykit.facts.http import HttpFacts, facts, verdict
from retrykit.facts.methods import RetryableMethod
from retrykit.outcome import Attempt, Call, Raised, Returned

if TYPE_CHECKING:
    from collections.abc import Iterator


def of(outcome: object, *args: object, **kwargs: object) -> HttpFacts | None:
    """The facts of an attempt that returned or raised this."""
    made = Raised(outcome) if isinstance(outcome, Exception) else Returned(outcome)
    return facts(Attempt(Call(print, args=args, kwargs=kwargs), 1, made, 0.1))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that answers 503, with a Retry-After and a secret, to whatever it is asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(503)
            for name, value in (
                ("Retry-After", "7"),
                ("X-Two", "a"),
                ("X-Two", "b"),
                ("Set-Cookie", "session=secret"),
                ("Content-Length", "4"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"busy")

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/path?token=secret#top"
    server.shutdown()
    thread.join()
    server.server_close()


def check(found: HttpFacts | None, url: str | None, method: str | None = "POST") -> None:
    """A 503 to a POST, and nothing secret to be seen."""
    assert found is not None
    assert (found.status, found.method, found.request_state) == (503, method, "answered")
    assert found.headers["retry-after"] == "7"
    assert found.headers.get("x-two") in ("a, b", "a,b")
    assert found.url_without_query == url
    assert found.safety is (None if method is None else RetryableMethod.NON_IDEMPOTENT)
    assert "secret" not in repr(found)


# Responses and the errors that carry them


def test_requests(url: str) -> None:
    """`Response`, which is false here, and `HTTPError`."""
    with requests.Session() as session:
        response = session.post(url.replace("//", "//user:secret@"))
        plain = url.partition("?")[0]
        check(of(response), plain)
        with pytest.raises(requests.HTTPError) as caught:
            response.raise_for_status()
    check(of(caught.value), plain)
    assert judge(caught.value) == DoNotRetry(StopReason.NOT_IDEMPOTENT)


def test_httpx(url: str) -> None:
    """`Response` and `HTTPStatusError`."""
    with httpx.Client() as client:
        response = client.post(url.replace("//", "//user:secret@"))
    plain = url.partition("?")[0]
    check(of(response), plain)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    check(of(caught.value), plain)
    assert judge(caught.value) == DoNotRetry(StopReason.NOT_IDEMPOTENT)


@pytest.mark.asyncio
async def test_aiohttp(url: str) -> None:
    """`ClientResponse` and `ClientResponseError`, which has no `.response`."""
    plain = url.partition("?")[0]
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        check(of(response), plain)
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            response.raise_for_status()
    check(of(caught.value), plain)
    assert judge(caught.value) == DoNotRetry(StopReason.NOT_IDEMPOTENT)


def test_urllib3(url: str) -> None:
    """Its response knows the path only, and the method through http.client's."""
    with urllib3.PoolManager() as pool:
        response = pool.request("POST", url, retries=False)
    check(of(response), "/path")


def test_http_client(url: str) -> None:
    """Its response keeps the method under a private name, and no URL."""
    host = url.partition("//")[2].partition("/")[0]
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/path?token=secret")
    response = connection.getresponse()
    check(of(response), None)
    response.read()
    connection.close()


def test_urllib(url: str) -> None:
    """`HTTPError` is the response."""
    request = urllib.request.Request(url, data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    check(of(caught.value), url.partition("?")[0])
    assert judge(caught.value) == DoNotRetry(StopReason.NOT_IDEMPOTENT)
    caught.value.close()


def test_urllib_s_get_is_retried_after_the_time_that_the_server_asks_for(url: str) -> None:
    """The default classifier sees method, status and header."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url)
    assert judge(caught.value) == RetryAfter(7.0, RetryReason.THROTTLED)
    caught.value.close()


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_an_sdk_s_status_error(library: str) -> None:
    """openai's and anthropic's `APIStatusError` carry httpx's response."""
    request = httpx.Request("POST", "https://api.example.org/v1/x?token=secret")
    response = httpx.Response(529, headers={"Retry-After": "7"}, request=request)
    error = type("APIStatusError", (Exception,), {"__module__": library})()
    error.response, error.request, error.status_code = response, request, 529
    found = of(error)
    assert found is not None
    assert (found.status, found.method, found.headers["Retry-After"]) == (529, "POST", "7")


def test_botocore() -> None:
    """A dictionary, on `ClientError` and as what a call returns."""
    content = {
        "Error": {"Code": "SlowDown"},
        "ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": {"x-amz-retry-after": "1500"}},
    }
    error = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})()
    error.response = content
    for outcome in (error, content):
        found = of(outcome)
        assert found is not None
        assert (found.status, found.headers.get("X-Amz-Retry-After")) == (503, "1500")
        assert found.request_state == "answered"


def test_googleapiclient() -> None:
    """httplib2's response is a dictionary of headers with a status beside it."""
    resp = type("Response", (dict,), {"status": 503, "reason": ""})({"retry-after": "7"})
    error = type("HttpError", (Exception,), {"__module__": "googleapiclient.errors"})()
    error.resp, error.uri = resp, "https://www.googleapis.com/x?key=secret"
    found = of(error)
    assert found is not None
    assert (found.status, found.headers["Retry-After"]) == (503, "7")
    assert found.url_without_query == "https://www.googleapis.com/x"
    assert judge(error) == RetryAfter(7.0, RetryReason.THROTTLED)


def test_stripe() -> None:
    """Its errors name status and headers in their own way."""
    error = type("APIError", (Exception,), {"__module__": "stripe._error"})()
    error.http_status, error.headers = 500, {"stripe-should-retry": "true"}
    found = of(error)
    assert found is not None
    assert found.status == 500
    assert judge(error) == RetryAfter(0.0, RetryReason.SERVER_ERROR)


def test_a_response_along_the_cause_chain() -> None:
    """A program's own error, raised from a client's."""
    request = httpx.Request("GET", "https://x/")
    response = httpx.Response(503, request=request)
    try:
        try:
            raise httpx.HTTPStatusError("", request=request, response=response)
        except httpx.HTTPStatusError as error:
            raise RuntimeError("while fetching") from error
    except RuntimeError as error:
        found = of(error)
    assert found is not None
    assert (found.status, found.method) == (503, "GET")


# Errors that show a request only, or nothing but what became of it


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (httpx.ConnectError, "unsent"),
        (httpx.PoolTimeout, "unsent"),
        (httpx.WriteError, "ambiguous"),
        (httpx.ReadTimeout, "ambiguous"),
        (httpx.RemoteProtocolError, "ambiguous"),
    ],
)
def test_httpx_s_request_error(error: Any, state: str) -> None:
    """Its `.request` raises where none is set."""
    request = httpx.Request("DELETE", "https://user:secret@x/path?token=secret")
    found = of(error("x", request=request))
    assert found == HttpFacts(
        None, Headers(), "DELETE", "https://x/path", state, RetryableMethod.IDEMPOTENT
    )
    assert of(error("x")) == HttpFacts(request_state=state)


def test_requests_exception() -> None:
    """Its request is prepared."""
    request = requests.Request("POST", "https://x/path?token=secret").prepare()
    found = of(requests.ReadTimeout(request=request))
    assert found is not None
    assert (found.method, found.url_without_query) == ("POST", "https://x/path")
    assert found.request_state == "ambiguous"


def test_aiohttp_s_connector_error() -> None:
    """It shows no request, only that none was sent."""
    key = ConnectionKey("localhost", 80, False, True, None, None, None)
    found = of(aiohttp.ClientConnectorError(key, OSError(111, "refused")))
    assert found == HttpFacts(request_state="unsent")


@pytest.mark.parametrize(
    ("error", "state"),
    [(ConnectionRefusedError(), "unsent"), (TimeoutError(), "ambiguous")],
    ids=repr,
)
def test_python_s_own_network_errors(error: Exception, state: str) -> None:
    """What became of the request is all that they tell."""
    assert of(error) == HttpFacts(request_state=state)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "missing"), KeyError(), OSError(), RuntimeError()], ids=repr
)
def test_an_error_about_no_request_has_no_facts(error: Exception) -> None:
    """`None`, so that a classifier for HTTP has no opinion."""
    assert of(error) is None


def test_a_database_s_error_has_no_facts() -> None:
    """Its row is known, but it is about no request."""
    error = type("OperationalError", (Exception,), {"__module__": "psycopg", "sqlstate": "40001"})()
    assert of(error) is None


# Requests among the arguments


@pytest.mark.parametrize(
    "request_",
    [
        httpx.Request("POST", "https://x/path?token=secret", headers={"Idempotency-Key": "k"}),
        requests.Request(
            "POST", "https://x/path?token=secret", headers={"Idempotency-Key": "k"}
        ).prepare(),
        urllib.request.Request(
            "https://x/path?token=secret", method="POST", headers={"Idempotency-Key": "k"}
        ),
    ],
    ids=lambda request: type(request).__module__,
)
@pytest.mark.parametrize("named", [True, False])
def test_a_client_s_request_among_the_arguments_is_seen(request_: object, named: bool) -> None:
    """Where the error shows none: what was called is known."""
    args, kwargs = ((), {"request": request_}) if named else (("x", request_), {})
    found = of(ConnectionResetError(), *args, **kwargs)
    assert found == HttpFacts(
        None,
        Headers(),
        "POST",
        "https://x/path",
        "ambiguous",
        RetryableMethod.IDEMPOTENT_WITH_TOKEN,
    )


def test_a_framework_s_incoming_request_is_not_the_outgoing_one() -> None:
    """An endpoint that was called by POST may well send a GET."""
    incoming = SimpleNamespace(method="POST", url="http://me/", headers={})
    assert of(ConnectionResetError(), incoming) == HttpFacts(request_state="ambiguous")


# Odd objects


@pytest.mark.parametrize(
    "value",
    [
        None,
        503,
        "503",
        {},
        {"status": 503, "headers": {}},
        {"ResponseMetadata": None},
        {"ResponseMetadata": {"HTTPStatusCode": "503"}},
        Mock(),
        MagicMock(),
        SimpleNamespace(status=503),
        SimpleNamespace(status="503", headers={}),
        SimpleNamespace(status_code=True, headers={}),
        SimpleNamespace(status_code=503.0, headers={}),
        SimpleNamespace(status_code=99, headers={}),
        SimpleNamespace(status_code=1000, headers={}),
        SimpleNamespace(status_code=None, headers={}),
    ],
)
def test_what_is_no_response_has_no_facts(value: object) -> None:
    """A status is a whole number from 100 to 999, beside headers."""
    assert of(value) is None


def test_a_mock_with_a_status_is_a_response_of_unknown_method() -> None:
    """Its other attributes are mocks, and count for nothing."""
    assert of(Mock(status_code=503)) == HttpFacts(503, request_state="answered")
    assert of(MagicMock(status=503, method=b"PUT")) == HttpFacts(
        503, Headers(), "PUT", None, "answered", RetryableMethod.IDEMPOTENT
    )


class Lazy:
    """A response whose every other attribute raises."""

    status_code = 503

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Body:
    """A response that must not be read."""

    status_code = 503
    headers = {"Retry-After": "7"}  # noqa: RUF012 - a stand-in

    @property
    def content(self) -> bytes:
        raise AssertionError("the body was read")

    text = body = data = content

    def read(self) -> bytes:
        raise AssertionError("the body was read")

    json = iter_content = aread = read


def test_an_attribute_that_raises_counts_for_nothing() -> None:
    """A property may fail in any way."""
    assert of(Lazy()) == HttpFacts(503, request_state="answered")


def test_no_body_is_read() -> None:
    """A streamed response is the caller's."""
    found = of(Body())
    assert found is not None
    assert found.headers["retry-after"] == "7"


def test_an_error_of_urllib_s_without_headers_shows_nothing() -> None:
    """Made by hand, as tests of programs do."""
    error = urllib.error.HTTPError("http://x/", 0, "", {}, None)  # type: ignore[arg-type]  # that is the point
    assert of(error) == HttpFacts(request_state="answered")
    assert judge(error) is None
    error.close()


def test_a_hostile_attempt_has_no_facts() -> None:
    """Never raises."""

    class Hostile(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    assert of(Hostile()) is None
    assert facts(object()) is None  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://x/path?q#f", "https://x/path"),
        ("https://x/path#f?q", "https://x/path"),
        ("https://user:pw@x:8443/p@th", "https://x:8443/p@th"),
        ("https://user:p@w@x/", "https://x/"),
        ("//user:pw@x/path", "//x/path"),
        ("/path//a@b?q", "/path//a@b"),
        ("", None),
        (b"https://x/", None),
        (5, None),
        ("https://x/" + "a" * 70_000, None),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: object, bare: str | None) -> None:
    """No query, no fragment, no user information."""
    found = of(SimpleNamespace(status_code=503, headers={}, url=url))
    assert found is not None
    assert found.url_without_query == bare


def test_facts_are_values() -> None:
    """They compare, hash and pickle; the `repr` shows no header."""
    made = HttpFacts(503, Headers({"Authorization": "secret"}), "GET", "https://x/", "answered")
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert made != HttpFacts(503)
    assert repr(made) == (
        "HttpFacts(status=503, method='GET', url_without_query='https://x/', "
        "request_state='answered')"
    )


# Headers


@pytest.mark.parametrize(
    "source",
    [
        {"A": "1", b"b": b"2"},
        [("A", "1"), (b"b", b"2")],
        (pair for pair in (("A", " 1\t"), ("b", 2))),
        httpx.Headers([("A", "1"), ("b", "2")]),
    ],
    ids=lambda source: type(source).__name__,
)
def test_headers_are_read_from_any_form(source: object) -> None:
    """In any case, with blanks trimmed."""
    headers = Headers(source)
    assert (headers["a"], headers["B"], len(headers)) == ("1", "2", 2)
    assert {name.lower() for name in headers} == {"a", "b"}
    assert dict(headers).keys() == set(headers.keys())
    with pytest.raises(KeyError):
        headers["c"]


@given(
    st.lists(
        st.tuples(
            st.text(max_size=5) | st.binary(max_size=5) | st.none() | st.integers(),
            st.text(max_size=5) | st.binary(max_size=5) | st.none() | st.floats(),
        )
        | st.none()
        | st.text(max_size=3),
        max_size=5,
    )
)
def test_headers_take_anything(source: list[object]) -> None:
    """What cannot be read is left out."""
    assert all(isinstance(text, str) for pair in Headers(source).items() for text in pair)


def test_one_unreadable_pair_does_not_hide_the_others() -> None:
    """A client's odd line costs that line only."""
    assert Headers([("A", "1"), None, ("only",), ("B", "2")]).items() == (("A", "1"), ("B", "2"))


def test_headers_are_values() -> None:
    """They compare by what they hold, and their `repr` shows names only."""
    headers = Headers({"Authorization": "secret"})
    assert headers == Headers([("Authorization", "secret")])
    assert headers != {"Authorization": "secret"}
    assert repr(headers) == "<Headers: Authorization>"


# The verdict


@pytest.mark.parametrize(
    ("error", "idempotent", "other"),
    [
        (ConnectionRefusedError(), RetryAfter, RetryAfter),
        (httpx.PoolTimeout("x"), RetryAfter, RetryAfter),
        (httpx.WriteError("x"), RetryAfter, DoNotRetry),
        (httpx.ReadTimeout("x"), RetryAfter, DoNotRetry),
        (http.client.RemoteDisconnected(), RetryAfter, DoNotRetry),
    ],
    ids=repr,
)
def test_the_phase_decides_for_a_post(error: Exception, idempotent: Any, other: Any) -> None:
    """urllib3#1059: not sent, any method; sent, idempotent ones or with a key."""
    assert isinstance(verdict(method="GET", error=error), idempotent)
    assert isinstance(
        verdict(method=RetryableMethod.IDEMPOTENT_WITH_TOKEN, error=error), idempotent
    )
    assert isinstance(verdict(method="POST", error=error), other)
    assert isinstance(verdict(error=error), other)


def test_what_the_error_carries_fills_in_what_is_not_given() -> None:
    """Status, method and headers come from its response."""
    request = httpx.Request("POST", "https://x/", headers={"Idempotency-Key": "k"})
    response = httpx.Response(503, headers={"Retry-After": "7"}, request=request)
    error = httpx.HTTPStatusError("", request=request, response=response)
    assert verdict(error=error) == RetryAfter(7.0, RetryReason.THROTTLED)
    assert verdict(method="POST", error=error) == DoNotRetry(StopReason.NOT_IDEMPOTENT)
    assert verdict(429, error=error) == RetryAfter(7.0, RetryReason.THROTTLED)
    assert verdict(headers={"Retry-After": "9"}, error=error).delay == 9.0  # type: ignore[union-attr]  # it is a RetryAfter


def test_an_error_is_no_success_whatever_it_carries() -> None:
    """A body that broke off after a 200 is a failure, an unknown error unknown."""
    broken = requests.exceptions.ChunkedEncodingError()
    assert isinstance(verdict(200, "GET", error=broken), RetryAfter)
    assert verdict(200, "GET", error=ValueError()) == DoNotRetry(StopReason.NOT_RETRYABLE)


def test_nothing_known_is_not_retried() -> None:
    """Neither a status nor a known error."""
    assert verdict() == DoNotRetry(StopReason.NOT_RETRYABLE)
    assert verdict(error=KeyError()) == DoNotRetry(StopReason.NOT_RETRYABLE)


def test_a_date_is_compared_with_the_time_that_is_handed_in() -> None:
    """Pure: the clock is an argument."""
    headers = {"Retry-After": "Mon, 30 Nov 2026 12:01:00 GMT"}
    assert verdict(503, "GET", headers, now=1796040000).delay == 60.0  # type: ignore[union-attr]  # it is a RetryAfter


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"status": "503"}, TypeError, "status must be a whole number, got '503'"),
        ({"status": True}, TypeError, "status must be a whole number, got True"),
        ({"status": 503, "method": 5}, TypeError, "method must be a str or bytes, got 5"),
        ({"status": 503, "known": ("quota",)}, ValueError, "known must be among .*, got quota"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, Any], error: Any, text: str) -> None:
    """The text names the field and the value."""
    with pytest.raises(error, match=text):
        verdict(**arguments)


def test_the_tables_are_valid_json_and_ascii_or_utf8() -> None:
    """They are read as UTF-8, whatever the locale."""
    from retrykit.facts import _data

    for name in ("statuses", "methods", "exceptions"):
        assert json.dumps(_data.load(f"{name}.json"))
