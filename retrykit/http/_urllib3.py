"""What the adapters of requests and of urllib3, on which it is built, have in common."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from urllib3.exceptions import ReadTimeoutError, UnrewindableBodyError
from urllib3.util import Retry, Timeout

from retrykit._context import LEAST_REMAINING, current_attempt
from retrykit._validate import shown
from retrykit.http._adapter import LONGEST_DRAIN, Body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_READ: Final = 1 << 20
"""Bytes of an error's body that are read before it is decided on; of another one, all."""
PIECE: Final = 16_384
"""Bytes that are read at once."""


def redirects_only(field: str, retries: Any) -> Retry:
    """The client's own setting, which may say how redirects are followed and no more.

    Raises `ValueError` where it would repeat requests.
    """
    own = retries if isinstance(retries, Retry) else Retry.from_int(retries)
    counts = [own.connect, own.read, own.other]
    if own.status_forcelist or own.respect_retry_after_header:
        counts.append(own.status)
    disabled = own.total is not None and not own.total
    if not disabled and any(count is None or count > 0 for count in counts):
        raise ValueError(
            f"{field} must be 0, got {shown(retries)}: the policy retries, and both would multiply"
        )
    return own


def within(timeout: Any, remaining: float | None) -> Any:
    """The caller's timeout, in whichever of the clients' forms, and no longer than what remains."""
    if remaining is None:
        return timeout
    limited = as_timeout(timeout)
    own = limited.total
    limited.total = min(own, remaining) if isinstance(own, (int, float)) else remaining
    return limited


def as_timeout(timeout: Any) -> Timeout:
    """A timeout of our own; `ValueError` for what is none, as the clients have it."""
    pair = timeout
    if isinstance(timeout, Timeout):
        return timeout.clone()
    if isinstance(timeout, tuple):
        connect, read = pair
        return Timeout(connect=connect, read=read)
    return Timeout(connect=timeout, read=timeout)


def hand_over(raw: Any, timeout: Any) -> None:
    """What is still to be read of a response has the caller's own time again."""
    own = as_timeout(timeout)
    own.total = None
    _set_read_timeout(raw, own.read_timeout)


def remaining() -> float | None:
    """What remains of the attempt, in seconds: zero where nothing does, `None` for no limit."""
    left = current_attempt().remaining
    return 0.0 if left is not None and left <= LEAST_REMAINING else left


def drain_time() -> Callable[[], float]:
    """The same for a response that is let go."""
    ends = time.monotonic() + LONGEST_DRAIN
    return lambda: ends - time.monotonic()


def in_time(
    raw: Any,
    left: Callable[[], float | None],
    amt: int | None = PIECE,
    decode_content: bool | None = None,
) -> Iterator[bytes]:
    """As the `stream` of urllib3's responses, no longer than there is time `left`.

    The clients' timeouts are for each piece: a body that drips would outlast any.
    """
    read = getattr(raw, "read1", raw.read)  # urllib3 1 has no `read1`
    while True:
        seconds = left()
        if seconds is not None:
            if seconds <= 0:
                raise ReadTimeoutError(raw._pool, None, "Read timed out.")
            _set_read_timeout(raw, seconds)
        piece = read(amt, decode_content=decode_content)
        if not piece:
            return
        yield piece


def _set_read_timeout(raw: Any, seconds: float | None) -> None:
    sock = getattr(getattr(raw, "connection", None), "sock", None)
    if sock is not None:  # else it is read to the end, or its connection closes after it
        sock.settimeout(seconds)


def to_send(part: Any, body: Body) -> Any:
    """A body for one attempt, from where it stood at first; that it is begun is noted down."""
    body.rewind()
    if hasattr(part, "read"):
        return _File(part, body)
    if part is None or isinstance(part, str) or _is_buffer(part):
        return part
    return _Pieces(part, body)


class _Pieces:
    """An iterable body: notes down how far it is read, and never ends sooner than before."""

    __slots__ = ("_body", "_source")

    def __init__(self, source: Any, body: Body) -> None:
        self._source = source
        self._body = body

    def __iter__(self) -> Iterator[Any]:
        body, sent = self._body, 0
        body.begun = True
        for piece in self._source:
            sent += len(piece)
            body.most = max(body.most, sent)
            yield piece
        if sent < body.most:
            raise UnrewindableBodyError("The body ended sooner than when it was sent before.")


class _File:
    """A body that is read from: notes down that it is begun."""

    __slots__ = ("_body", "_source")

    def __init__(self, source: Any, body: Body) -> None:
        self._source = source
        self._body = body

    def read(self, size: int = -1) -> Any:
        self._body.begun = True
        return self._source.read(size)


def _is_buffer(part: object) -> bool:
    try:
        memoryview(part)  # type: ignore[arg-type]  # what is none raises
    except TypeError:
        return False
    return True
