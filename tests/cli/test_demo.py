"""The demo shows what happens on a real server, and only that."""

from __future__ import annotations

import io
import re
import signal
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


class Terminal(io.StringIO):
    """Text that a terminal was given."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_table(monkeypatch) -> None:
    """The same rows, and how long the next attempt is still off."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    assert demo([DROPPED, Answer(200)], out) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert re.search(r"next attempt in 0\.\d s", text)
    last = text[text.rindex("function") :]
    assert re.search(r"fetch +1 +RemoteDisconnected +retry after .* by the backoff", last)
    assert re.search(r"fetch_async +2 +returned a value +done", last)
    assert "next attempt in" not in last
    assert "2 of 2 calls succeeded, in 4 attempts" in last


def test_what_a_call_raised_is_below_the_live_table(monkeypatch) -> None:
    """As in the plain one."""
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    assert demo([Answer(404)], out) == 1
    assert "HTTPError: HTTP Error 404" in out.getvalue()


def test_a_dumb_terminal_gets_plain_lines(monkeypatch) -> None:
    """It cannot move its cursor."""
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    assert demo([Answer(200)], out) == 0
    assert len(rows(out.getvalue())) == 2
    assert "\x1b" not in out.getvalue()


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch) -> None:
    """The demo needs nothing but the core."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setitem(sys.modules, "retrykit.cli._live", None)
    out = Terminal()
    assert demo([Answer(200)], out) == 0
    assert len(rows(out.getvalue())) == 2
    assert "\x1b" not in out.getvalue()


def test_ctrl_c_ends_it() -> None:
    """130, and no traceback."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "retrykit", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("fetch"):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")
