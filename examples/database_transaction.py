"""A transaction on SQLite that meets the lock of a second process, and is then made as a whole.

The whole of it is decorated, from its begin to its commit: what it has read before a failure may no
longer be so.
"""

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from retrykit import Exponential, current_attempt, retry
from retrykit.classifiers.sql import SqlClassifier

# Another process at work on the same file: it takes the lock, and lets go of it after a while.
OTHER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE account SET balance = balance - 30 WHERE owner = 'ada'")
print("locked", flush=True)
time.sleep(0.3)
db.execute("COMMIT")
"""


@retry(classify=SqlClassifier(), attempts=50, backoff=Exponential(0.02, cap=0.1), listeners=())
def transfer(path: Path, source: str, target: str, amount: int, tell: Callable[[str], None]) -> int:
    """Move money, if there is enough; the balance that is left."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    with closing(connection), connection as db:  # commits, or rolls back on an error
        db.execute("BEGIN IMMEDIATE")
        tell(f"have the lock at the first attempt: {current_attempt().number == 1}")
        get = "SELECT balance FROM account WHERE owner = ?"
        (balance,) = db.execute(get, (source,)).fetchone()
        if balance < amount:
            raise ValueError(f"{source} has {balance} only")
        add = "UPDATE account SET balance = balance + ? WHERE owner = ?"
        db.executemany(add, [(-amount, source), (amount, target)])
        return int(balance) - amount


def main(path: Path) -> None:
    """Let the two meet."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        db.executemany("INSERT INTO account VALUES (?, ?)", [("ada", 100), ("alan", 0)])
    command = [sys.executable, "-c", OTHER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        print("the other process:", other.stdout.readline().strip())
        print("left:", transfer(path, "ada", "alan", 50, print))
        try:
            transfer(path, "ada", "alan", 50, print)
        except ValueError as error:
            print(error)  # no failure that passes: one attempt
    with closing(sqlite3.connect(path)) as db:
        print(db.execute("SELECT * FROM account ORDER BY owner").fetchall())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "bank.sqlite")
