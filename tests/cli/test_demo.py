"""The demo shows what happens on a real server, and only that."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time

from retrykit.cli import main
from retrykit.cli._demo import demo
from retrykit.cli._flaky_server import DROPPED, Answer

ROW = r"^(fetch\w*) +(\d+) +(\S+(?: \S+)*) {2,}(retry|done|stop)"


def rows(text: str) -> list[tuple[str, ...]]:
    """The table's rows as function, attempt, outcome and the kind of decision."""
    return re.findall(ROW, text, re.MULTILINE)


def test_the_command_shows_each_decision_and_ends_well() -> None:
    """As typed: eight rows, a summary, exit 0, in under ten seconds."""
    before = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-m", "retrykit", "demo"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    shown = rows(run.stdout)
    assert [row[:2] for row in shown] == [
        (name, str(number)) for name in ("fetch", "fetch_async") for number in (1, 2, 3, 4)
    ]
    assert [row[3] for row in shown] == ["retry", "retry", "retry", "done"] * 2
    assert [row[2] for row in shown[:3]] == ["HTTPError 503", "HTTPError 429", "RemoteDisconnected"]
    assert run.stdout.count("as the server asked (throttled)") == 2
    assert "2 of 2 calls succeeded, in 8 attempts" in run.stdout
    assert time.monotonic() - before < 10


def test_another_script_gives_other_rows() -> None:
    """Each row comes from an event: a server that answers otherwise shows otherwise."""
    out = io.StringIO()
    assert demo([DROPPED, Answer(200)], out) == 0
    assert [row[:2] for row in rows(out.getvalue())] == [
        ("fetch", "1"),
        ("fetch", "2"),
        ("fetch_async", "1"),
        ("fetch_async", "2"),
    ]
    assert "HTTPError" not in out.getvalue()


def test_an_answer_that_is_final_is_not_retried() -> None:
    """A 404 ends both calls at once, and the demo says so and exits with 1."""
    out = io.StringIO()
    assert demo([Answer(404)], out) == 1
    assert rows(out.getvalue()) == [
        ("fetch", "1", "HTTPError 404", "stop"),
        ("fetch_async", "1", "HTTPError 404", "stop"),
    ]
    assert "0 of 2 calls succeeded, in 2 attempts" in out.getvalue()


def test_a_wait_over_the_limit_ends_the_call() -> None:
    """A server that asks for an hour is not waited for, and the note tells why."""
    out = io.StringIO()
    assert demo([Answer(503, "3600")], out) == 1
    assert "gave up after 1 attempt" in out.getvalue()
    assert "server_delay_too_long" in out.getvalue()


def test_arguments_are_refused(capsys) -> None:
    """One line on standard error and exit 2."""
    assert main(["demo", "--fast"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
