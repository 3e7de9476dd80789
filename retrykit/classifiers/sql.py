"""Databases: which failures of a transaction pass."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from retrykit.classifiers._facts import ByFacts
from retrykit.decision import RetryAfter
from retrykit.facts._rows import CPYTHON
from retrykit.facts.exceptions import lookup

if TYPE_CHECKING:
    from retrykit.decision import RetryDecision

__all__ = ["SqlClassifier"]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SqlClassifier(ByFacts):
    """Retry a transaction: serialization failures, deadlocks, locks, lost connections.

    Decorate the function that makes the whole transaction, from its begin to its commit, and never
    one statement of it: after such a failure the transaction is rolled back or has to be, and what
    it read before may no longer be so. The function must roll back on an error (`with connection:`
    does) and take its connection anew where that may be the one that broke.

    Knows the SQLSTATE of any driver's error (psycopg, psycopg2, asyncpg, what SQLAlchemy wraps),
    SQLite's result codes, SQLAlchemy's own errors and those of pools; by their shape, importing
    none of them. What a driver lets through of Python's own network errors, as asyncpg does where
    it cannot connect, counts too, but as a yes only: a no is left to other classifiers. A
    constraint, a wrong password, a missing table is final; what is not listed is no opinion.

    A connection that is lost may have been lost after the commit. Such a failure is retried with
    `idempotent=True` only: say so of a transaction that only reads, or that finds out by itself
    that its work is done (by a key of its own, as in `INSERT ... ON CONFLICT DO NOTHING`).

    >>> import sqlite3
    >>> from retrykit.outcome import Attempt, Call, Raised
    >>> busy = sqlite3.OperationalError("database is locked")
    >>> SqlClassifier()(Attempt(Call(print), 1, Raised(busy), 0.1))
    RetryAfter(delay=0.0, reason=RetryReason.CONFLICT)
    """

    _LIBRARIES = frozenset({"psycopg", "psycopg_pool", "sqlite3", "SQLAlchemy"})

    _: KW_ONLY
    idempotent: bool

    def _opinion(self, error: BaseException) -> RetryDecision | None:
        row = lookup(error)
        if row is None or row.library not in CPYTHON:
            return ByFacts._opinion(self, error)  # `super()` does not survive `slots=True`
        decision = self._verdict(error)
        return decision if isinstance(decision, RetryAfter) else None
