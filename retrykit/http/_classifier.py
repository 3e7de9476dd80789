"""The tables' answer to a response or a failure, as a classifier."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from retrykit._validate import function, shown, whole
from retrykit._value import Value, named
from retrykit.classify import Stackable
from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.facts.http import facts, verdict
from retrykit.facts.methods import IDEMPOTENCY_KEY, RetryableMethod, classify_method
from retrykit.facts.retry_after import parse_retry_after

if TYPE_CHECKING:
    from retrykit.facts.http import HttpFacts
    from retrykit.outcome import Attempt

logger: Final = logging.getLogger("retrykit")


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class HttpClassifier(Value, Stackable):
    """Status by method, failures by phase, and the wait that the server asks for.

    Reads the responses and errors of requests, httpx, aiohttp, urllib3, http.client, urllib,
    openai, anthropic, botocore and googleapiclient by their shape, and imports none of them; no
    body is read. What is no HTTP at all is no opinion, and so is a response that is no failure:
    other classifiers stack on either side with `|`, the first opinion winning.

    - `method`: the request's, for functions whose outcome does not show it; a token such as
      `"GET"`, or a `RetryableMethod`. What the outcome shows goes first. Unknown counts as not
      idempotent: such a request is repeated only if it certainly never was processed.
    - `unless`: asked with the response (or the error that carries none) before a retry; true makes
      it final. For a quota that is gone for good, where only the body tells it from a busy moment.
    - `key_names`: the request headers that count as an idempotency key.

    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> get = HttpClassifier(method="GET")
    >>> get(Attempt(Call(print), 1, Raised(ConnectionResetError()), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.CONNECTION_FAILED)
    >>> HttpClassifier()(Attempt(Call(print), 1, Raised(ConnectionResetError()), 0.1))
    DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
    """

    _: KW_ONLY
    method: str | RetryableMethod | None
    unless: Callable[[Any], object] | None
    key_names: tuple[str, ...]

    def __init__(
        self,
        *,
        method: str | RetryableMethod | None = None,
        unless: Callable[[Any], object] | None = None,
        key_names: Iterable[str] = IDEMPOTENCY_KEY,
    ) -> None:
        classify_method(method)  # refuses what is no text
        if unless is not None:
            function("unless", unless)
        names = (key_names,) if isinstance(key_names, str) else tuple(key_names)
        if not all(isinstance(name, str) and name for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
            raise TypeError(f"key_names must be header names, got {shown(key_names)}")
        self._put(method=method, unless=unless, key_names=names)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """The tables' verdict; `None` for a success and for what is no HTTP."""
        seen = facts(attempt, key_names=self.key_names)
        if seen is None:
            return None
        method = seen.safety if seen.safety is not None else classify_method(self.method)
        decision = verdict(
            seen.status, method, seen.headers.items(), attempt.error, now=attempt.wall
        )
        match decision:
            case RetryAfter():
                if self.unless is not None and self.unless(_response_of(attempt)):
                    return DoNotRetry(StopReason.FORBIDDEN)
            case DoNotRetry(StopReason.SUCCEEDED | StopReason.NOT_RETRYABLE):
                return None
            case DoNotRetry(StopReason.NOT_IDEMPOTENT):
                if seen.method is None and self.method is None:
                    _tell_how_to_vouch(attempt, seen)
            case _:
                pass
        return decision

    def __repr__(self) -> str:
        parts: list[str] = []
        if self.method is not None:
            parts.append(f"method={self.method!r}")
        if self.unless is not None:
            parts.append(f"unless={named(self.unless)}")
        if self.key_names != IDEMPOTENCY_KEY:
            parts.append(f"key_names={self.key_names!r}")
        return f"HttpClassifier({', '.join(parts)})"


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class OnStatus(Value, Stackable):
    """Retry these statuses too, whatever the tables say: stack it before an `HttpClassifier`.

    Naming them is vouching for them: the method is not looked at. A wait that the response asks
    for is heeded.

    >>> OnStatus(418, reason=RetryReason.THROTTLED) | HttpClassifier()
    FirstOf(OnStatus(418, reason=RetryReason.THROTTLED), HttpClassifier())
    """

    statuses: tuple[int, ...]
    _: KW_ONLY
    reason: RetryReason

    def __init__(self, *statuses: int, reason: RetryReason = RetryReason.SERVER_ERROR) -> None:
        if not statuses:
            raise TypeError("OnStatus must name at least one status")
        held = tuple(whole("status", status, low=100) for status in statuses)
        RetryAfter(0.0, reason)  # refuses a reason that is none
        self._put(statuses=held, reason=reason)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """`RetryAfter` for these statuses, else `None`."""
        seen = facts(attempt)
        if seen is None or seen.status not in self.statuses:
            return None
        asked = parse_retry_after(seen.headers.items(), status=seen.status, now=attempt.wall)
        return RetryAfter(asked or 0.0, self.reason)

    def __repr__(self) -> str:
        parts = [*map(str, self.statuses)]
        if self.reason is not RetryReason.SERVER_ERROR:
            parts.append(f"reason={self.reason!r}")
        return f"OnStatus({', '.join(parts)})"


def _response_of(attempt: Attempt) -> Any:
    """The response that an `unless` wants to look into; the error where it carries none."""
    error = attempt.error
    if error is None:
        return attempt.value
    response = getattr(error, "response", None)
    return error if response is None else response


def _tell_how_to_vouch(attempt: Attempt, seen: HttpFacts) -> None:
    what = "a failure" if seen.status is None else f"status {seen.status}"
    logger.info(
        "%s: %s is not retried, since its method is not known; where a second request is safe, say"
        ' so with http_policy(method="GET")',
        attempt.call.name,
        what,
    )
