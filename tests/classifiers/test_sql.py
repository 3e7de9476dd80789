"""Databases' failures: real ones of SQLite, in two processes; stand-ins of the same shape else."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from retrykit import DoNotRetry, RetryAfter, RetryReason, StopReason, retry, transient
from retrykit.classifiers.sql import SqlClassifier
from retrykit.outcome import Attempt, Call, Raised, Returned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORBIDDEN = DoNotRetry(StopReason.FORBIDDEN)
NOT_IDEMPOTENT = DoNotRetry(StopReason.NOT_IDEMPOTENT)
CONFLICT = RetryAfter(0.0, RetryReason.CONFLICT)
LOST = RetryAfter(0.0, RetryReason.CONNECTION_FAILED)


def attempt(outcome: object) -> Attempt:
    made = Raised(outcome) if isinstance(outcome, Exception) else Returned(outcome)
    return Attempt(Call(print), 1, made, 0.1)


def opinions(error: Exception) -> tuple[Any, Any]:
    """What is said of it where work may not be done twice, and where it may."""
    first = SqlClassifier()(attempt(error))
    return first, SqlClassifier(idempotent=True)(attempt(error))


def failure(function: Callable[[], object]) -> Exception:
    """The error that this raises."""
    try:
        result = function()
    except Exception as error:
        return error
    raise AssertionError(f"it returned {result!r}")


# SQLite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one account of 100."""
    made = tmp_path / "bank.sqlite"
    with closing(sqlite3.connect(made)) as db, db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        db.execute("INSERT INTO account VALUES ('ada', 100)")
    return made


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE account SET balance = balance - 30")
print("locked", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
db.close()
"""


class Holder:
    """A second process that holds the lock until it is told to let go."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(path)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "locked\n"

    def let_go(self) -> None:
        self.process.communicate("\n", timeout=30)
        assert self.process.returncode == 0


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    made = Holder(path)
    yield made
    if made.process.poll() is None:
        made.let_go()


def test_a_second_process_s_lock_is_waited_for(path: Path, holder: Holder) -> None:
    """SQLITE_BUSY: the transaction is made anew, and sees what the other process did."""
    errors: list[tuple[int | None, str]] = []

    @retry(classify=SqlClassifier(), attempts=4, backoff=[0.0] * 3, listeners=())
    def withdraw(amount: int) -> int:
        if len(errors) == 2:
            holder.let_go()
        connection = connect(path)
        try:
            with closing(connection), connection as db:
                db.execute("BEGIN IMMEDIATE")
                (balance,) = db.execute("SELECT balance FROM account").fetchone()
                db.execute("UPDATE account SET balance = ?", (balance - amount,))
                return int(balance) - amount
        except sqlite3.OperationalError as error:
            errors.append((error.sqlite_errorcode, str(error)))
            raise

    assert withdraw(50) == 20
    assert errors == [(sqlite3.SQLITE_BUSY, "database is locked")] * 2


def test_a_snapshot_that_is_old_needs_the_whole_transaction(path: Path) -> None:
    """SQLITE_BUSY_SNAPSHOT: the statement alone would fail for ever, the whole goes through."""
    codes: list[int] = []

    @retry(classify=SqlClassifier(), attempts=3, backoff=[0.0] * 2, listeners=())
    def double() -> int:
        connection = connect(path)
        with closing(connection), connection as db:
            db.execute("BEGIN")
            (balance,) = db.execute("SELECT balance FROM account").fetchone()
            if not codes:
                with closing(connect(path)) as other:  # somebody is faster
                    other.execute("UPDATE account SET balance = balance + 1")
            try:
                db.execute("UPDATE account SET balance = ?", (2 * balance,))
            except sqlite3.OperationalError as error:
                codes.append(error.sqlite_errorcode)
                for _ in range(3):  # the statement alone is no use
                    with pytest.raises(sqlite3.OperationalError, match="locked"):
                        db.execute("UPDATE account SET balance = 0")
                raise
            return int(2 * balance)

    assert double() == 202
    assert codes == [517]


def test_no_update_is_lost_under_many_threads(path: Path) -> None:
    """Ten threads that read and write, each transaction retried as a whole."""

    @retry(classify=SqlClassifier(), attempts=10_000, backoff=[0.0] * 10_000, listeners=())
    def deposit() -> None:
        connection = connect(path)
        with closing(connection), connection as db:
            db.execute("BEGIN")
            (balance,) = db.execute("SELECT balance FROM account").fetchone()
            db.execute("UPDATE account SET balance = ?", (balance + 1,))

    def work() -> None:
        for _ in range(5):
            deposit()

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(connect(path)) as db:
        assert db.execute("SELECT balance FROM account").fetchone() == (150,)


def shared_cache(path: Path) -> object:
    """Two connections of one process, one cache: `database table is locked`."""
    uri = f"file:{path}?cache=shared"
    with (
        closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as first,
        closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as second,
    ):
        first.execute("BEGIN IMMEDIATE")
        first.execute("UPDATE account SET balance = 0")
        return second.execute("SELECT * FROM account").fetchall()


def test_a_shared_cache_s_lock_passes(path: Path) -> None:
    """SQLITE_LOCKED_SHAREDCACHE, although SQLITE_LOCKED itself is final."""
    error: Any = failure(lambda: shared_cache(path))
    assert error.sqlite_errorcode == 262
    assert opinions(error) == (CONFLICT, CONFLICT)


def execute(path: Path, *statements: str) -> object:
    with closing(connect(path)) as db:
        return [db.execute(statement).fetchall() for statement in statements]


def drop_while_read(path: Path) -> object:
    """SQLITE_LOCKED: the conflict is within the connection, and waiting would be for ever."""
    with closing(connect(path)) as db:
        db.execute("INSERT INTO account VALUES ('alan', 1)")
        rows = db.execute("SELECT * FROM account")
        next(rows)
        return db.execute("DROP TABLE account")


def read_only(path: Path) -> object:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute("DELETE FROM account")


def full(path: Path) -> object:
    return execute(
        path,
        "PRAGMA max_page_count = 4",
        "CREATE TABLE big AS SELECT zeroblob(100000) AS data",
    )


FINAL = {
    "constraint": lambda path: execute(path, "INSERT INTO account VALUES ('ada', 1)"),
    "not null": lambda path: execute(path, "INSERT INTO account VALUES ('alan', NULL)"),
    "read-only": read_only,
    "within the connection": drop_while_read,
    "full": full,
    "no such folder": lambda path: execute(path / "none" / "db", "SELECT 1"),
}


@pytest.mark.parametrize("kind", FINAL)
def test_what_does_not_pass_is_final(path: Path, kind: str) -> None:
    """Nobody is asked again."""
    error = failure(lambda: FINAL[kind](path))
    assert isinstance(error, sqlite3.Error)
    assert opinions(error) == (FORBIDDEN, FORBIDDEN)


def test_an_error_of_the_query_s_own_is_not_retried(path: Path) -> None:
    """A syntax error, a missing table: not listed, and so no opinion."""
    calls: list[int] = []

    @retry(classify=SqlClassifier(idempotent=True), attempts=3, listeners=())
    def wrong() -> None:
        calls.append(1)
        execute(path, "SELECT * FROM no_such")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        wrong()
    assert calls == [1]


def test_an_error_made_by_hand_is_known_by_its_text() -> None:
    """Other drivers of SQLite's (aiosqlite's thread, apsw's wrappers) may carry no code."""
    assert opinions(sqlite3.OperationalError("database is locked")) == (CONFLICT, CONFLICT)
    assert opinions(sqlite3.OperationalError("near x: syntax error")) == (None, None)


# Other drivers, by their shape


def made(name: str, *bases: type[Exception], **attributes: Any) -> type[Exception]:
    """A class of this qualified name."""
    module, _, short = name.rpartition(".")
    return type(short, bases or (Exception,), {"__module__": module, **attributes})


PSYCOPG = made("psycopg.Error")
DATABASE = made("psycopg.DatabaseError", PSYCOPG)
OPERATIONAL = made("psycopg.OperationalError", DATABASE)
ASYNCPG = made("asyncpg.exceptions._base.PostgresError")
SQLALCHEMY = made("sqlalchemy.exc.SQLAlchemyError")
DBAPI = made("sqlalchemy.exc.DBAPIError", SQLALCHEMY)
ALCHEMY_OPERATIONAL = made("sqlalchemy.exc.OperationalError", DBAPI)


def with_state(code: str, driver: str) -> Exception:
    """An error with this SQLSTATE, as the driver has it."""
    match driver:
        case "psycopg":
            return made("psycopg.errors.Some", DATABASE, sqlstate=code)()
        case "psycopg2":
            return made("psycopg2.errors.Some", made("psycopg2.Error"), pgcode=code)()
        case "asyncpg":
            return made("asyncpg.exceptions.SomeError", ASYNCPG, sqlstate=code)()
        case _:
            orig = made("psycopg.errors.Some", DATABASE, sqlstate=code)()
            return made("sqlalchemy.exc.DBAPIError", SQLALCHEMY, orig=orig)()


STATES = sorted(
    {
        (found[1], row["retry"]["idempotent"], row["retry"]["non_idempotent"])
        for row in json.loads(
            (Path(__file__).parents[1] / "data" / "exceptions.json").read_text(encoding="utf-8")
        )["exceptions"]
        if row["library"].startswith("psycopg ")
        and (found := re.fullmatch(r"psycopg\.errors\.\w+\[(\w{5})\]", row["exception"]))
    }
)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "SQLAlchemy"])
@pytest.mark.parametrize(("code", "idempotent", "otherwise"), STATES)
def test_each_sqlstate_is_decided_as_published(
    code: str, idempotent: str, otherwise: str, driver: str
) -> None:
    """Whichever driver carries it."""
    strictly, loosely = opinions(with_state(code, driver))
    assert isinstance(loosely, RetryAfter) is (idempotent == "retry")
    assert isinstance(strictly, RetryAfter) is (otherwise == "retry")
    if isinstance(loosely, RetryAfter) and not isinstance(strictly, RetryAfter):
        assert strictly == NOT_IDEMPOTENT
    elif not isinstance(loosely, RetryAfter):
        assert strictly == loosely == FORBIDDEN


def test_there_are_sqlstates_of_each_kind() -> None:
    """The table was read."""
    assert len(STATES) >= 30
    assert {row[1:] for row in STATES} == {("retry", "retry"), ("retry", "stop"), ("stop", "stop")}


@pytest.mark.parametrize("code", ["40P02", "22012", "08999", "42601"])
def test_a_sqlstate_that_is_not_listed_is_no_opinion(code: str) -> None:
    """A class of codes is not its first two letters."""
    assert opinions(with_state(code, "psycopg")) == (None, None)


def test_a_commit_whose_answer_is_lost_may_have_been_done() -> None:
    """40003, and 08006: the outcome is not known."""
    assert opinions(with_state("40003", "psycopg")) == (NOT_IDEMPOTENT, LOST)
    assert opinions(with_state("08006", "asyncpg")) == (NOT_IDEMPOTENT, LOST)


def test_a_connection_that_was_never_made_is_retried() -> None:
    """libpq's error has no SQLSTATE then."""
    refused = OPERATIONAL("connection failed: Connection refused")
    refused.sqlstate = None  # type: ignore[attr-defined]  # as psycopg has it
    refused.pgconn = object()  # type: ignore[attr-defined]  # as above
    assert opinions(refused) == (LOST, LOST)


def test_a_wrong_password_is_final() -> None:
    """By its class it is an operational error like a refused connection."""
    wrong = made("psycopg.errors.InvalidPassword", OPERATIONAL, sqlstate="28P01")()
    assert opinions(wrong) == (FORBIDDEN, FORBIDDEN)


def test_what_a_driver_lets_through_of_python_s_own_counts_as_a_yes_only() -> None:
    """asyncpg raises what the loop raised where it cannot connect."""
    assert opinions(ConnectionRefusedError()) == (LOST, LOST)
    assert opinions(ConnectionResetError()) == (None, LOST)
    assert opinions(TimeoutError()) == (None, RetryAfter(0.0, RetryReason.TIMED_OUT))
    assert opinions(FileNotFoundError(2, "none")) == (None, None)
    assert (SqlClassifier() | transient)(attempt(ConnectionResetError())) == LOST


def test_sqlalchemy_s_own_word_counts() -> None:
    """What it wraps goes first; then whether it dropped the connection, its pool and versions."""
    busy = ALCHEMY_OPERATIONAL("(sqlite3.OperationalError) database is locked")
    busy.orig = sqlite3.OperationalError("database is locked")  # type: ignore[attr-defined]  # as SQLAlchemy has it
    assert opinions(busy) == (CONFLICT, CONFLICT)
    dropped = made("sqlalchemy.exc.DBAPIError", SQLALCHEMY, connection_invalidated=True)()
    assert opinions(dropped) == (NOT_IDEMPOTENT, LOST)
    pool = made("sqlalchemy.exc.TimeoutError", SQLALCHEMY)()
    assert opinions(pool)[0] == RetryAfter(0.0, RetryReason.TIMED_OUT)
    stale = made("sqlalchemy.orm.exc.StaleDataError", SQLALCHEMY)()
    assert opinions(stale) == (CONFLICT, CONFLICT)
    pending = made("sqlalchemy.exc.PendingRollbackError", SQLALCHEMY)()
    assert opinions(pending) == (FORBIDDEN, FORBIDDEN)


def test_a_pool_s_time_out_is_retried() -> None:
    """The work was not begun."""
    assert opinions(made("psycopg_pool.PoolTimeout", OPERATIONAL)())[0] == RetryAfter(
        0.0, RetryReason.TIMED_OUT
    )


@pytest.mark.parametrize("outcome", ["a value", None, KeyError("key"), ValueError("x")])
def test_what_is_none_of_a_database_s_is_no_opinion(outcome: object) -> None:
    """So that it stacks with others."""
    assert SqlClassifier()(attempt(outcome)) is None


def test_an_async_transaction_is_retried_too() -> None:
    """By the ordinary decorator."""
    failures = [with_state("40001", "asyncpg"), with_state("40P01", "asyncpg")]

    @retry(classify=SqlClassifier(), attempts=3, backoff=[0.0] * 2, listeners=())
    async def work() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert asyncio.run(work()) == "done"


def test_it_is_a_value() -> None:
    """It compares, hashes, pickles and prints itself."""
    one = SqlClassifier(idempotent=True)
    assert one == SqlClassifier(idempotent=True) != SqlClassifier()
    assert len({one, SqlClassifier(idempotent=True)}) == 1
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "SqlClassifier(idempotent=True)"
    with pytest.raises(TypeError, match="idempotent must be a bool, got 'yes'"):
        SqlClassifier(idempotent="yes")  # type: ignore[arg-type]  # that is the test


def test_the_example_of_a_transaction() -> None:
    """Two processes and one file: as printed."""
    example = Path(__file__).parents[2] / "examples" / "database_transaction.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(example.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the other process: locked",
        "have the lock at the first attempt: False",
        "left: 20",
        "have the lock at the first attempt: True",
        "ada has 20 only",
        "[('ada', 20), ('alan', 50)]",
    ]
