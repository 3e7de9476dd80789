"""What these classifiers share: the exceptions table's word on one family of errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from retrykit._validate import shown
from retrykit._value import Value
from retrykit.classify import Stackable
from retrykit.decision import DoNotRetry, StopReason
from retrykit.facts.exceptions import lookup
from retrykit.facts.http import verdict
from retrykit.facts.methods import RetryableMethod

if TYPE_CHECKING:
    from retrykit.decision import RetryDecision
    from retrykit.outcome import Attempt

logger: Final = logging.getLogger("retrykit")


class ByFacts(Value, Stackable):
    """The table's opinion on the errors of some libraries, and on what was raised from them."""

    __slots__ = ()

    sees_results = False

    _LIBRARIES: ClassVar[frozenset[str]]
    """Whose errors it knows, as the table names them."""

    if TYPE_CHECKING:
        idempotent: bool

    def __init__(self, *, idempotent: bool = False) -> None:
        if not isinstance(idempotent, bool):
            raise TypeError(f"idempotent must be a bool, got {shown(idempotent)}")
        self._put(idempotent=idempotent)

    def __call__(self, attempt: Attempt, /) -> RetryDecision | None:
        """What the table says; `None` for a value, and for errors of others."""
        error = attempt.error
        if error is None:
            return None
        decision = self._opinion(error)
        if decision == DoNotRetry(StopReason.NOT_IDEMPOTENT):
            logger.info(
                "%s: %s is not retried, since the work may have been done already; where it may"
                " be done twice, say so with %s(idempotent=True)",
                attempt.call.name,
                type(error).__name__,
                type(self).__name__,
            )
        return decision

    def _opinion(self, error: BaseException) -> RetryDecision | None:
        row = lookup(error)
        known = row is not None and row.library in self._LIBRARIES
        return self._verdict(error) if known else None

    def _verdict(self, error: BaseException) -> RetryDecision | None:
        idempotent, not_so = RetryableMethod.IDEMPOTENT, RetryableMethod.NON_IDEMPOTENT
        decision = verdict(method=idempotent if self.idempotent else not_so, error=error)
        return None if decision == DoNotRetry(StopReason.NOT_RETRYABLE) else decision
