"""The errors of the library's own; every other error that leaves a call is the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrykit.decision import RetryReason, StopReason


class PastAttempt(NamedTuple):
    """One line of a call's history: no arguments, no value, no error text."""

    number: int
    error_type: str | None
    """The error's class name, or `None` where a value came back."""
    reason: RetryReason | StopReason
    delay: float | None
    """The wait after it, in seconds; `None` after the last."""


class RetryKitError(Exception):
    """The base of the library's own errors: to catch what it raises by itself, and nothing else.

    >>> issubclass(RetriesExhausted, RetryKitError), issubclass(DeadlineExceeded, TimeoutError)
    (True, True)
    """


class RetriesExhausted(RetryKitError):
    """A result was worth another attempt and got none because of a limit (`unsatisfied="raise"`).

    `value` is the last result, `attempts` the number of calls made, `reason` the limit, `history`
    what happened, bounded in length. The text never holds the value. It pickles; a value that does
    not is left out, and `value` is then `None`. `elapsed` is in seconds.

    >>> from retrykit.decision import StopReason
    >>> error = RetriesExhausted("poll", 3, StopReason.ATTEMPTS_EXHAUSTED, value="x", elapsed=2.5)
    >>> str(error), error.value
    ('poll gave no satisfactory result in 3 attempts and 2.5 s: attempts_exhausted', 'x')
    """

    def __init__(
        self,
        function: str,
        attempts: int,
        reason: StopReason,
        *,
        value: Any = None,
        elapsed: float = 0.0,
        history: tuple[PastAttempt, ...] = (),
    ) -> None:
        super().__init__(function, attempts, reason)
        self.function = function
        self.attempts = attempts
        self.reason = reason
        self.value = value
        self.elapsed = elapsed
        self.history = history

    def __str__(self) -> str:
        calls = "attempt" if self.attempts == 1 else "attempts"
        return (
            f"{self.function} gave no satisfactory result in {self.attempts} {calls}"
            f" and {self.elapsed:.1f} s: {self.reason}"
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        import pickle

        value = self.value
        try:
            pickle.dumps(value)
        except Exception:  # noqa: BLE001 - whatever a value's pickling raises, the error itself travels
            value = None
        fields = (self.function, self.attempts, self.reason, value, self.elapsed, self.history)
        return _exhausted, (fields, _notes(self))


class AttemptTimedOut(RetryKitError, TimeoutError):
    """One attempt took longer than `attempt_timeout` and was cancelled (async code only).

    `timeout` is that limit, in seconds. The call whose limit it is retries it as `TIMED_OUT`,
    unless its classifier objects.

    >>> AttemptTimedOut(2).timeout, str(AttemptTimedOut(2))
    (2, 'the attempt took longer than 2 s')
    """

    def __init__(self, timeout: float) -> None:
        super().__init__(f"the attempt took longer than {timeout:g} s")
        self.timeout = timeout
        self._owner: object = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _timed_out, (type(self), self.timeout, _notes(self))


class DeadlineExceeded(RetryKitError, TimeoutError):
    """The deadline cut a running attempt (async code only); its cause is the last failure.

    `deadline` is that limit, in seconds. Neither the call whose deadline it is nor any call inside
    of it retries it; to a call around it, it is a `TimeoutError` as any other.

    >>> str(DeadlineExceeded(30))
    'the call took longer than its deadline of 30 s'
    """

    def __init__(self, deadline: float) -> None:
        super().__init__(f"the call took longer than its deadline of {deadline:g} s")
        self.deadline = deadline
        self._owner: object = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _timed_out, (type(self), self.deadline, _notes(self))


class UnknownPolicy(RetryKitError, LookupError):
    """No policy goes by the name that a decorator was given; the text says which there are."""


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def _exhausted(fields: tuple[Any, ...], notes: list[str]) -> RetriesExhausted:
    function, attempts, reason, value, elapsed, history = fields
    error = RetriesExhausted(
        function, attempts, reason, value=value, elapsed=elapsed, history=history
    )
    _add_notes(error, notes)
    return error


def _timed_out(
    kind: type[AttemptTimedOut | DeadlineExceeded], limit: float, notes: list[str]
) -> AttemptTimedOut | DeadlineExceeded:
    error = kind(limit)
    _add_notes(error, notes)
    return error


def _add_notes(error: Exception, notes: list[str]) -> None:
    for note in notes:
        error.add_note(note)
