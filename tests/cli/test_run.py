"""`run`: a command is retried by its exit status or output, and nothing of it is left running."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from retrykit.cli import main
from retrykit.cli._command import Ending
from retrykit.cli._run import Rule
from retrykit.decision import DoNotRetry, RetryAfter, RetryReason
from retrykit.outcome import Attempt, Call, Returned

RETRYKIT = [sys.executable, "-m", "retrykit", "run"]

SUCCEEDS_AT_THE_THIRD = 'echo x >> {file}; test "$(grep -c x {file})" -ge 3'
"""A command that fails twice."""


def run(*arguments: str) -> int:
    """`retrykit run` in this process, without waits unless they are asked for."""
    return main(["run", *arguments])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def is_running(pid: int) -> bool:
    """Whether the process lives; one that has ended and that nobody waited for does not."""
    try:
        os.kill(pid, 0)
        return state_of(pid) not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def state_of(pid: int) -> str:
    """One letter: T where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(true, seconds: float = 10.0) -> None:
    """Wait for a condition that becomes true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Running:
    """`retrykit run` in a process of its own."""

    def __init__(self, *arguments: str, **settings) -> None:
        self.process = subprocess.Popen(
            [*RETRYKIT, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **settings,
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_) -> None:
        with self.process:
            self.process.kill()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """The exit status, and what was written."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


# What is retried


def test_a_success_is_final(tmp_path, capfd) -> None:
    """Status 0 ends it at once, without a word."""
    file = tmp_path / "runs"
    assert run("--", "sh", "-c", f"echo x >> {file}") == 0
    assert lines(file) == ["x"]
    assert capfd.readouterr() == ("", "")


def test_a_failure_is_run_again(tmp_path) -> None:
    """Every status but zero is worth another run, and the last one's counts."""
    file = tmp_path / "runs"
    command = SUCCEEDS_AT_THE_THIRD.format(file=file)
    assert run("--backoff", "0", "--", "sh", "-c", command) == 0
    assert lines(file) == ["x"] * 3


@pytest.mark.parametrize(("attempts", "made"), [("1", 1), ("2", 2), ("4", 4)])
def test_the_attempts_are_limited(attempts: str, made: int, tmp_path) -> None:
    """`--attempts` counts all runs, the first included."""
    file = tmp_path / "runs"
    status = run(
        "--attempts", attempts, "--backoff", "0", "--", "sh", "-c", f"echo x >> {file}; exit 7"
    )
    assert status == 7
    assert len(lines(file)) == made


def test_without_attempts_there_are_five(tmp_path) -> None:
    """As in the library."""
    file = tmp_path / "runs"
    assert run("--backoff", "0", "--", "sh", "-c", f"echo x >> {file}; exit 1") == 1
    assert len(lines(file)) == 5


@pytest.mark.parametrize(
    ("statuses", "status", "made"),
    [("75", 75, 3), ("75", 1, 1), ("1,64-78", 70, 3), ("1,64-78", 79, 1), ("0", 0, 3)],
)
def test_only_the_named_statuses_are_retried(
    statuses: str, status: int, made: int, tmp_path
) -> None:
    """`--retry-on-status` takes numbers and ranges; zero too, for whoever waits for a failure."""
    file = tmp_path / "runs"
    script = f"echo x >> {file}; exit {status}"
    options = ("--retry-on-status", statuses, "--attempts", "3", "--backoff", "0")
    assert run(*options, "--", "sh", "-c", script) == status
    assert len(lines(file)) == made


@pytest.mark.parametrize("stream", [1, 2])
def test_output_is_a_reason_to_retry(stream: int, tmp_path, capfd) -> None:
    """A line on either stream that matches; the exit status stays the last run's."""
    file = tmp_path / "runs"
    script = f"echo x >> {file}; echo server busy, sorry >&{stream}; exit 0"
    options = ("--retry-on-output", r"\bbusy\b", "--attempts", "3", "--backoff", "0", "--quiet")
    assert run(*options, "--", "sh", "-c", script) == 0
    assert len(lines(file)) == 3
    assert capfd.readouterr()[stream - 1] == "server busy, sorry\n" * 3


def test_with_an_output_pattern_other_failures_are_final(tmp_path) -> None:
    """Whoever names the output means that."""
    file = tmp_path / "runs"
    script = f"echo x >> {file}; echo no; exit 3"
    assert run("--retry-on-output", "busy", "--backoff", "0", "--", "sh", "-c", script) == 3
    assert len(lines(file)) == 1


@pytest.mark.parametrize("script", ["echo busy; exit 0", "echo no; exit 3"])
def test_status_and_output_are_alternatives(script: str, tmp_path) -> None:
    """Both named: either is a reason."""
    file = tmp_path / "runs"
    options = ("--retry-on-output", "busy", "--retry-on-status", "3", "--attempts", "2")
    run(*options, "--backoff", "0", "--", "sh", "-c", f"echo x >> {file}; {script}")
    assert len(lines(file)) == 2


def test_statuses_and_patterns_can_be_named_one_by_one(tmp_path) -> None:
    """As well as in one option."""
    file = tmp_path / "runs"
    named = ("--retry-on-status", "3", "--retry-on-status", "4")
    looked_for = ("--retry-on-output", "busy", "--retry-on-output", "(?i)LATER")
    for script in ("exit 3", "exit 4", "echo busy", "echo try later"):
        file.write_text("")
        run(*named, *looked_for, "--attempts", "2", "--backoff", "0", "--",
            "sh", "-c", f"echo x >> {file}; {script}")  # fmt: skip
        assert len(lines(file)) == 2


@pytest.mark.parametrize(
    "script",
    [
        "printf 'no newline: busy'",
        "printf 'bu'; sleep 0.05; printf 'sy\\n'",
        "printf '%70000s busy\\n' x",
        "printf 'a\\rbusy\\r'",
        "printf 'caf\\351 busy\\n'",
    ],
)
def test_a_pattern_is_found_however_the_output_comes(script: str, tmp_path) -> None:
    """Without an end of line, in pieces, far out in a long line, redrawn, not in UTF-8."""
    file = tmp_path / "runs"
    options = ("--retry-on-output", "busy", "--attempts", "2", "--backoff", "0")
    run(*options, "--", "sh", "-c", f"echo x >> {file}; {script}")
    assert len(lines(file)) == 2


def test_much_output_passes_whole(capfd) -> None:
    """More than any pipe holds, on both streams at once."""
    script = "i=0; while [ $i -lt 20000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
    assert run("--retry-on-output", "never", "--", "sh", "-c", script) == 0
    out, err = capfd.readouterr()
    assert out == "".join(f"out{i}\n" for i in range(20000))
    assert err == "".join(f"err{i}\n" for i in range(20000))


def ended(**fields) -> Attempt:
    """An attempt that ended so."""
    return Attempt(Call(print), 1, Returned(Ending(**{"status": 0, **fields})), 0.1)


@pytest.mark.parametrize(
    ("rule", "fields", "decision"),
    [
        (Rule(), {"status": 0}, None),
        (Rule(), {"status": 1}, RetryAfter()),
        (Rule(), {"status": 137}, RetryAfter()),
        (Rule(frozenset({3})), {"status": 1}, None),
        (Rule(frozenset({3})), {"status": 3}, RetryAfter()),
        (Rule(frozenset({0})), {"status": 0}, RetryAfter()),
        (Rule(None, True), {"status": 1}, None),
        (Rule(None, True), {"status": 0, "matched": True}, RetryAfter()),
        (Rule(frozenset({3}), True), {"status": 3}, RetryAfter()),
        (
            Rule(frozenset({3})),
            {"status": 124, "timed_out": True},
            RetryAfter(0, RetryReason.TIMED_OUT),
        ),
    ],
)
def test_the_rule(rule: Rule, fields: dict, decision) -> None:
    """What is worth another run, by status, output and time."""
    assert rule(ended(**fields)) == decision


def test_what_nobody_reads_is_final() -> None:
    """The other end of the output is closed: no run of the command can succeed."""
    assert isinstance(Rule()(ended(status=141, unheard=True)), DoNotRetry)


# How it ends


@pytest.mark.parametrize(
    ("name", "status"), [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("INT", 130)]
)
def test_a_death_by_signal_is_told_as_a_shell_does(name: str, status: int) -> None:
    """128 and the signal's number; it is a failure like others."""
    script = f"ulimit -c 0; kill -{name} $$"
    assert run("--attempts", "1", "--", "sh", "-c", script) == status


def test_a_command_that_is_not_there(capfd) -> None:
    """127, one line, and no second try."""
    assert run("--backoff", "10", "--", "no-such-command-here") == 127
    out, err = capfd.readouterr()
    assert (out, err) == (
        "",
        "retrykit: cannot run no-such-command-here: No such file or directory\n",
    )


def test_a_command_that_may_not_be_run(tmp_path, capfd) -> None:
    """126, one line, and no second try."""
    assert run("--backoff", "10", "--", str(tmp_path)) == 126
    assert capfd.readouterr().err == f"retrykit: cannot run {tmp_path}: Permission denied\n"


def test_it_tells_what_it_does(capfd) -> None:
    """A line for each retry, one for the end; on standard error."""
    assert run("--attempts", "2", "--backoff", "0", "--", "sh", "-c", "exit 5") == 5
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"retrykit: attempt 1 failed \(status 5\), next in 0 s\n"
        r"retrykit: attempt 2 failed \(status 5\), giving up after .+ ms: attempts_exhausted\n",
        err,
    )


def test_it_can_be_quiet(capfd) -> None:
    """`--quiet` says nothing."""
    assert run("-q", "--attempts", "2", "--backoff", "0", "--", "sh", "-c", "exit 5") == 5
    assert capfd.readouterr().err == ""


def test_options_behind_the_command_are_the_commands(capfd) -> None:
    """Also without the two dashes."""
    assert run("echo", "--attempts", "-n", "--", "x") == 0
    assert capfd.readouterr().out == "--attempts -n -- x\n"


# Time


def test_waits_are_the_backoffs(tmp_path) -> None:
    """A list of waits, and the end of the list is the end."""
    file = tmp_path / "runs"
    script = f"date +%s.%N >> {file}; exit 1"
    assert run("--backoff", "0.2,0.05", "--", "sh", "-c", script) == 1
    first, second, third = map(float, lines(file))
    assert second - first == pytest.approx(0.2, abs=0.19)
    assert second - first >= 0.2
    assert third - second >= 0.05


def test_an_attempt_that_takes_too_long_is_ended(tmp_path, capfd) -> None:
    """The whole process group is, and it is retried."""
    file = tmp_path / "pids"
    script = f"sleep 60 & echo $! >> {file}; echo $$ >> {file}; wait"
    options = ("--attempt-timeout", "200ms", "--attempts", "2", "--backoff", "0")
    started = time.monotonic()
    assert run(*options, "--", "sh", "-c", script) == 143
    assert time.monotonic() - started < 4
    assert len(lines(file)) == 4
    assert not any(is_running(int(pid)) for pid in lines(file))
    assert capfd.readouterr().err.startswith("retrykit: attempt 1 failed (timed out), next in 0 s")


def test_what_does_not_end_when_asked_is_killed(tmp_path) -> None:
    """After the grace time, with everything that it has started."""
    file = tmp_path / "pids"
    script = f"trap '' TERM; sleep 60 & echo $! > {file}; echo $$ >> {file}; wait; wait; sleep 60"
    options = ("--attempt-timeout", "200ms", "--grace", "200ms", "--attempts", "1")
    started = time.monotonic()
    assert run(*options, "--", "sh", "-c", script) == 137
    assert time.monotonic() - started < 4
    assert not any(is_running(int(pid)) for pid in lines(file))


def test_what_the_command_leaves_behind_is_ended_with_it(tmp_path) -> None:
    """One of the group does not listen, though the command itself has ended."""
    file = tmp_path / "pids"
    inner = f"trap '' TERM; echo $$ > {file}; while :; do sleep 0.05; done"
    script = f'sh -c "{inner}" & sleep 60'.replace("$$", r"\$\$")
    options = ("--attempt-timeout", "300ms", "--grace", "200ms", "--attempts", "1")
    assert run(*options, "--", "sh", "-c", script) == 143
    assert not is_running(int(file.read_text()))


def test_a_time_limit_is_no_success(tmp_path) -> None:
    """A command that ends well because it was asked to end has not done its work: 124."""
    script = "trap 'exit 0' TERM; sleep 60 & wait"
    assert run("--attempt-timeout", "200ms", "--attempts", "1", "--", "sh", "-c", script) == 124


def test_the_deadline_ends_what_runs(tmp_path) -> None:
    """All runs and waits together; there is no other limit where it is given."""
    file = tmp_path / "runs"
    started = time.monotonic()
    status = run(
        "--deadline",
        "700ms",
        "--backoff",
        "0",
        "--",
        "sh",
        "-c",
        f"echo x >> {file}; sleep 0.05; test $(grep -c x {file}) -lt 7 || sleep 60; exit 9",
    )
    assert status == 143
    assert time.monotonic() - started < 4
    assert len(lines(file)) == 7


def test_a_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    """It ends at once."""
    started = time.monotonic()
    assert run("--deadline", "5s", "--backoff", "10s", "--", "sh", "-c", "exit 9") == 9
    assert time.monotonic() - started < 2


def test_background_work_of_a_command_that_ended_is_left_alone(tmp_path) -> None:
    """A command may start a service; only what is cut short is cleared up behind."""
    file = tmp_path / "pid"
    script = f"sleep 60 > /dev/null 2>&1 & echo $! > {file}"
    assert run("--", "sh", "-c", script) == 0
    pid = int(file.read_text())
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("writes", ["", "while :; do echo y; done"])
def test_output_held_open_in_the_background_holds_up_nothing(writes: str, tmp_path, capfd) -> None:
    """With a pattern, what outlives the command does not keep it from ending, silent or not."""
    file = tmp_path / "pid"
    script = f"({writes or 'sleep 60'}) & echo $! > {file}; echo done"
    started = time.monotonic()
    assert run("--retry-on-output", "x", "--", "sh", "-c", script) == 0
    assert time.monotonic() - started < 10
    assert "done\n" in capfd.readouterr().out
    with suppress(ProcessLookupError):  # it may have died of the closed pipe
        os.kill(int(file.read_text()), signal.SIGKILL)


# Input


def test_each_run_reads_a_file_from_its_beginning(tmp_path) -> None:
    """A file on standard input is there again for the next run."""
    source, file = tmp_path / "in", tmp_path / "runs"
    source.write_text("hello\n")
    with source.open() as stdin:
        done = subprocess.run(
            [*RETRYKIT, "--attempts", "3", "--backoff", "0", "--",
             "sh", "-c", f"cat >> {file}; exit 1"],
            stdin=stdin, capture_output=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert lines(file) == ["hello"] * 3


def test_a_file_is_read_on_from_where_it_stood(tmp_path) -> None:
    """What was read before is not given again: a loop over lines stays one."""
    source, file = tmp_path / "in", tmp_path / "runs"
    source.write_text("first\nsecond\n")
    inner = " ".join([*RETRYKIT, "--attempts", "2", "--backoff", "0"])
    script = f"read line; {inner} -- sh -c 'cat >> {file}; exit 1'"
    with source.open() as stdin:
        subprocess.run(["sh", "-c", script], stdin=stdin, capture_output=True, check=False)
    assert lines(file) == ["second"] * 2


@pytest.mark.parametrize(("option", "read"), [([], 1), (["--replay-stdin"], 3)])
def test_a_pipe_is_kept_where_asked_for(option: list[str], read: int, tmp_path) -> None:
    """What a run has read from a pipe is gone, unless `--replay-stdin` keeps it."""
    file = tmp_path / "runs"
    done = subprocess.run(
        [*RETRYKIT, *option, "--attempts", "3", "--backoff", "0", "--",
         "sh", "-c", f"cat >> {file}; exit 1"],
        input=b"hello\n", capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert lines(file) == ["hello"] * read


# Signals


@pytest.mark.parametrize("trap", ["", "trap '' INT;"])
def test_ctrl_c_ends_everything(trap: str, tmp_path) -> None:
    """130, and nothing is left running, also where the command does not want to hear of it."""
    file = tmp_path / "pids"
    script = f"{trap} sleep 60 & echo $! > {file}; echo $$ >> {file}; wait; wait; sleep 60"
    with Running("--grace", "300ms", "--", "sh", "-c", script) as running:
        until(lambda: file.exists() and len(lines(file)) == 2)
        running.send(signal.SIGINT)
        status, out, err = running.end()
    assert (status, out, err) == (130, "", "")
    assert not any(is_running(int(pid)) for pid in lines(file))


def test_a_second_ctrl_c_does_not_wait(tmp_path) -> None:
    """It kills at once what has not ended."""
    file = tmp_path / "pids"
    script = f"trap '' INT TERM; echo $$ > {file}; while :; do sleep 0.05; done"
    with Running("--grace", "30s", "--", "sh", "-c", script) as running:
        until(lambda: file.exists() and lines(file))
        running.send(signal.SIGINT)
        time.sleep(0.2)
        running.send(signal.SIGINT)
        status, _, _ = running.end()
    assert status == 130
    assert not is_running(int(file.read_text()))


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_in_a_wait_ends_it(number: int, status: int) -> None:
    """Between two runs there is nobody to pass it on to."""
    with Running("--backoff", "60s", "--", "sh", "-c", "exit 1") as running:
        assert running.process.stderr is not None
        assert "next in 1 min" in running.process.stderr.readline()
        running.send(number)
        assert running.end()[0] == status


@pytest.mark.parametrize("option", [[], ["--retry-on-output", "x"]])
def test_a_request_to_end_is_passed_on(option: list[str], tmp_path) -> None:
    """The command may end in its own way: its status and its last words count, and that was it."""
    file = tmp_path / "runs"
    script = f"trap 'echo ended; exit 3' TERM; echo x >> {file}; sleep 60 & wait"
    with Running(*option, "--", "sh", "-c", script) as running:
        until(lambda: file.exists() and lines(file))
        running.send(signal.SIGTERM)
        assert running.end() == (3, "ended\n", "")
    assert lines(file) == ["x"]


def test_a_signal_of_ones_own_is_passed_on(tmp_path) -> None:
    """SIGUSR1 reaches the command, and ends nothing."""
    file = tmp_path / "runs"
    script = f"trap 'echo heard; exit 0' USR1; echo x >> {file}; while :; do sleep 0.05; done"
    with Running("--", "sh", "-c", script) as running:
        until(lambda: file.exists() and lines(file))
        running.send(signal.SIGUSR1)
        assert running.end() == (0, "heard\n", "")


def test_stopping_stops_the_command_too(tmp_path) -> None:
    """SIGTSTP stops both, SIGCONT continues both."""
    file = tmp_path / "ticks"
    script = f"echo $$; while :; do echo x >> {file}; sleep 0.02; done"
    with Running("--", "sh", "-c", script) as running:
        until(lambda: file.exists() and len(lines(file)) > 2)

        running.send(signal.SIGTSTP)
        until(lambda: state_of(running.process.pid) == "T")
        time.sleep(0.1)
        stopped_at = len(lines(file))
        time.sleep(0.2)
        assert len(lines(file)) == stopped_at
        running.send(signal.SIGCONT)
        until(lambda: len(lines(file)) > stopped_at)
        running.send(signal.SIGTERM)
        assert running.end()[0] == 143


def test_an_ignored_signal_stays_ignored(tmp_path) -> None:
    """Under nohup, a hangup ends neither."""
    file = tmp_path / "pid"
    inner = " ".join([*RETRYKIT, "--", "sh", "-c", f"'echo $$ > {file}; sleep 0.5; echo survived'"])
    with subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {inner}"], stdout=subprocess.PIPE, text=True
    ) as process:
        until(lambda: file.exists() and lines(file))
        process.send_signal(signal.SIGHUP)
        os.kill(int(file.read_text()), signal.SIGHUP)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "survived\n")


def test_the_handlers_are_put_back() -> None:
    """Whoever calls it from a program finds the signals as they were."""
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    assert run("--", "true") == 0
    assert [signal.getsignal(number) for number in signal.valid_signals()] == before


def test_it_runs_outside_of_the_main_thread() -> None:
    """Without signals, for Python has none there."""
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(run("--", "sh", "-c", "exit 0")))
    thread.start()
    thread.join(20)
    assert statuses == [0]


# The other end of the output


def test_nobody_reading_ends_it_quietly() -> None:
    """As `yes | head -1`: the command dies of the closed pipe, and is not run again."""
    for option in ([], ["--retry-on-output", "x", "--retry-on-status", "141"]):
        command = " ".join([*RETRYKIT, *option, "--backoff", "60s", "--", "yes"])
        script = f"{{ {command}; echo $? >&2; }} | head -1"
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.stdout, done.stderr) == ("y\n", "141\n")


# The terminal


class Pseudo:
    """`retrykit run` on a terminal of its own, as its foreground job."""

    START = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        " os.execv(sys.argv[1], sys.argv[1:])"
    )

    def __init__(self, *arguments: str) -> None:
        self.fd, inner = pty.openpty()
        modes = termios.tcgetattr(inner)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, modes)
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.START, *RETRYKIT, *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
        )
        os.close(inner)
        self.shown = ""

    def __enter__(self) -> Pseudo:
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, text: str) -> None:
        """Read what is shown until the text is."""
        end = time.monotonic() + 15
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self.fd], [], [], 0.1)[0]:
                with suppress(OSError):  # the other end was closed
                    self.shown += os.read(self.fd, 4096).decode()

    def foreground(self) -> int:
        return int.from_bytes(fcntl.ioctl(self.fd, termios.TIOCGPGRP, b"\0" * 4), sys.byteorder)


def test_a_command_can_read_the_terminal() -> None:
    """It is lent it, in every run, and the terminal is given back."""
    script = 'echo ready; read line; echo "got $line"; test "$line" = please'
    with Pseudo("--attempts", "2", "--backoff", "0", "--", "sh", "-c", script) as terminal:
        terminal.until("ready")
        terminal.type("no\n")
        terminal.until("got no")
        terminal.until("next in 0 s")
        terminal.type("please\n")
        terminal.until("got please")
        assert terminal.process.wait(timeout=10) == 0


def test_the_terminals_ctrl_c_reaches_the_command_that_has_it() -> None:
    """It ends the command, and there is no further run."""
    script = "echo ready; read line; exit 1"
    with Pseudo("--backoff", "0", "--", "sh", "-c", script) as terminal:
        terminal.until("ready")
        until(lambda: terminal.foreground() != terminal.process.pid)
        terminal.type("\x03")
        assert terminal.process.wait(timeout=10) == 130
        assert "attempt" not in terminal.shown


def test_the_terminals_ctrl_c_reaches_the_command_that_has_it_not() -> None:
    """It is in the background then, and the signal is passed on."""
    with Pseudo("--backoff", "0", "--", "sh", "-c", "echo ready; sleep 60") as terminal:
        terminal.until("ready")
        time.sleep(0.2)  # dash loses an interrupt that comes while it starts something
        terminal.type("\x03")
        assert terminal.process.wait(timeout=10) == 130


def test_the_terminals_ctrl_z_stops_both() -> None:
    """The job stops, and both go on when it is continued."""
    script = "echo ready; while read line; do echo got $line; test $line = end && exit 0; done"
    with Pseudo("--", "sh", "-c", script) as terminal:
        terminal.until("ready")
        terminal.type("a\n")
        terminal.until("got a")
        terminal.type("\x1a")
        until(lambda: state_of(terminal.process.pid) == "T")
        assert terminal.foreground() == terminal.process.pid
        terminal.type("end\n")
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until("got end")
        assert terminal.process.wait(timeout=10) == 0


# Bad input


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Missing argument 'COMMAND...'"),
        (("--attempts", "0", "--", "true"), "at least 1, or inf, got '0'"),
        (("--attempts", "1.5", "--", "true"), "at least 1, or inf, got '1.5'"),
        (("--deadline", "0", "--", "true"), "must be above 0, got '0'"),
        (("--deadline", "soon", "--", "true"), "got 'soon'"),
        (("--deadline", "nan", "--", "true"), "must be a finite number"),
        (("--attempt-timeout", "-1", "--", "true"), "at least 0, got '-1'"),
        (("--backoff", "often", "--", "true"), "got 'often'"),
        (("--backoff", "slow:1s", "--", "true"), "got 'slow'"),
        (("--backoff", "exponential:1s,cap=0.5s", "--", "true"), "cap must be at least the base"),
        (("--retry-on-status", "256", "--", "true"), "got '256'"),
        (("--retry-on-status", "9-5", "--", "true"), "got '9-5'"),
        (("--retry-on-status", "TEMPFAIL", "--", "true"), "got 'TEMPFAIL'"),
        (("--retry-on-output", "(", "--", "true"), "must be a regular expression, got '('"),
        (("--grace", "x", "--", "true"), "got 'x'"),
        (("--policy", "nobody", "--", "true"), "no policy 'nobody'"),
        (("--config", "x.toml", "--", "true"), "--config needs --policy"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], told: str, capfd, tmp_path, monkeypatch
) -> None:
    """It names the option and what it got; exit status 2, and nothing is run."""
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert told in err
    assert err.count("\n") == 1


def test_a_policy_of_the_configuration_is_used(tmp_path, monkeypatch) -> None:
    """Its fields count where no option says otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("retrykit.toml").write_text("[policies.fast]\nattempts = 3\nbackoff = [0, 0, 0]\n")
    file = tmp_path / "runs"
    script = f"echo x >> {file}; exit 1"
    assert run("--policy", "fast", "--", "sh", "-c", script) == 1
    assert len(lines(file)) == 3
    assert run("--policy", "fast", "--attempts", "2", "--", "sh", "-c", script) == 1
    assert len(lines(file)) == 5


def test_the_kill_switch_counts(tmp_path) -> None:
    """With RETRYKIT_DISABLED=1 the command is run once."""
    file = tmp_path / "runs"
    with Running(
        "--", "sh", "-c", f"echo x >> {file}; exit 4", env={**os.environ, "RETRYKIT_DISABLED": "1"}
    ) as running:
        assert running.end()[0] == 4
    assert lines(file) == ["x"]
