"""`log_retries` for structlog: the same moments, as key-value events.

>>> from retrykit import RetryPolicy
>>> policy = RetryPolicy(listeners=(log_retries,))
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from retrykit._validate import shown
from retrykit.events import CallFailed, CallGaveUp, RetryScheduled, log_fields

try:
    import structlog
except ModuleNotFoundError as error:
    if error.name != "structlog":
        raise
    raise ImportError(
        "retrykit.observe.structlog needs structlog: install retrykit with the extra [structlog]",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from retrykit.events import Event, Kinds

_NOTHING: Final[Kinds] = frozenset()
_ENDS: Final[Kinds] = frozenset({CallFailed, CallGaveUp})
_ALL: Final[Kinds] = _ENDS | {RetryScheduled}


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class StructlogListener:
    """One info event per scheduled retry, one warning per give-up.

    A failure that nobody retried is not logged, as with `retrykit.log_retries`, and the keys are
    those of its `extra` fields: `retrykit_function`, `retrykit_number`, `retrykit_delay`,
    `retrykit_reason`, `retrykit_error_type` … Never an argument, a value or an error's text.

    `logger` is what `structlog.get_logger()` gives, bound to more or not; omitted, one named
    "retrykit". It is configured when it is first used. Raises `TypeError` for any other logger.

    >>> StructlogListener(structlog.get_logger().bind(component="billing")) == log_retries
    False
    """

    logger: Any

    def __init__(self, logger: Any = None) -> None:
        if logger is None:
            logger = _logger
        elif isinstance(logger, type) or not callable(getattr(logger, "bind", None)):
            raise TypeError(f"logger must be a structlog logger, got {shown(logger)}")
        object.__setattr__(self, "logger", logger)

    @property
    def kinds(self) -> Kinds:
        """What the logger's level lets through, asked once per call."""
        bound = self._bound()
        # The class is asked: some loggers hand on whatever method they do not have.
        kind: Any = bound.__class__
        enabled = getattr(kind, "is_enabled_for", None) or getattr(kind, "isEnabledFor", None)
        if enabled is None or enabled(bound, logging.INFO):
            return _ALL
        return _ENDS if enabled(bound, logging.WARNING) else _NOTHING

    def __call__(self, event: Event, /) -> None:
        """Log the event, if it is one to log."""
        match event:
            case RetryScheduled():
                self._bound().info("retry scheduled", **log_fields(event))
            case CallGaveUp():
                self._bound().warning("gave up", **log_fields(event))
            case CallFailed() if event.number > 1:
                self._bound().warning("failed for good", **log_fields(event))
            case _:
                pass

    def _bound(self) -> Any:
        """The logger as it is configured now; of an async one the blocking half."""
        bound = self.logger.bind()
        return bound.sync_bl if isinstance(bound, structlog.stdlib.AsyncBoundLogger) else bound

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructlogListener):
            return NotImplemented
        return self.logger is other.logger

    def __hash__(self) -> int:
        return hash((StructlogListener, id(self.logger)))  # bound loggers have no hash

    def __reduce__(self) -> tuple[Any, ...]:
        return StructlogListener, (() if self.logger is _logger else (self.logger,))

    def __repr__(self) -> str:
        return f"StructlogListener({'' if self.logger is _logger else repr(self.logger)})"


_logger: Final[Any] = structlog.get_logger("retrykit")

log_retries: Final = StructlogListener()
"""The listener on a logger named "retrykit"."""
