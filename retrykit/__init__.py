"""Retries for any callable: an outcome goes in, a decision comes out.

>>> from retrykit import retry
>>> @retry(on=ConnectionError, attempts=3)
... def greet(name: str) -> str:
...     return f"hello, {name}"
>>> greet("world")
'hello, world'
"""

from retrykit._context import current_attempt, disabled, override
from retrykit._decorator import policy_of, retry, with_policy
from retrykit._executor import RetryExecutor
from retrykit._version import __version__ as __version__
from retrykit.backoff import ByReason, Constant, Decorrelated, Exponential, Schedule
from retrykit.budget import RatioBudget, TokenBudget
from retrykit.classify import Classifier, Never, OnException, OnResult, transient
from retrykit.decision import DoNotRetry, RetryAfter, RetryDecision, RetryReason, StopReason
from retrykit.errors import AttemptTimedOut, DeadlineExceeded, RetriesExhausted, RetryKitError
from retrykit.events import log_retries
from retrykit.jitter import EqualJitter, FullJitter, NoJitter
from retrykit.outcome import Attempt, Call, Outcome, Raised, Returned
from retrykit.policy import PolicyFactory, RetryPolicy
from retrykit.server_delay import ServerDelay

__all__ = [
    "Attempt",
    "AttemptTimedOut",
    "ByReason",
    "Call",
    "Classifier",
    "Constant",
    "DeadlineExceeded",
    "Decorrelated",
    "DoNotRetry",
    "EqualJitter",
    "Exponential",
    "FullJitter",
    "Never",
    "NoJitter",
    "OnException",
    "OnResult",
    "Outcome",
    "PolicyFactory",
    "Raised",
    "RatioBudget",
    "RetriesExhausted",
    "RetryAfter",
    "RetryDecision",
    "RetryExecutor",
    "RetryKitError",
    "RetryPolicy",
    "RetryReason",
    "Returned",
    "Schedule",
    "ServerDelay",
    "StopReason",
    "TokenBudget",
    "current_attempt",
    "disabled",
    "log_retries",
    "override",
    "policy_of",
    "retry",
    "transient",
    "with_policy",
]
