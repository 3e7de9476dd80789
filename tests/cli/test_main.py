"""The command line as a whole: what it says of itself, and how it ends whatever goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import retrykit
from retrykit.cli import COMMANDS, main

RETRYKIT = [sys.executable, "-m", "retrykit"]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from retrykit.cli import main
sys.exit(main(sys.argv[1:]))
"""

ARGUMENTS = {
    "plan": ["careful"],
    "simulate": ["careful"],
    "run": ["--", "true"],
    "explain": ["503", "GET"],
    "retry-after": ["7"],
}


def shell(script: str, **settings) -> subprocess.CompletedProcess[str]:
    """A shell script, in which `$R` is the command."""
    environ = {**os.environ, "R": " ".join(RETRYKIT), **settings.pop("env", {})}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60,
        env=environ, **settings,
    )  # fmt: skip


def without(*missing: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The command where these packages are not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# What it says of itself


def test_without_a_command_it_tells_which_there_are(capsys) -> None:
    """On standard error, and 2: nothing was asked for."""
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(name in err for name in COMMANDS)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option: str, capsys) -> None:
    """The same on standard output where it was asked for."""
    assert main([option]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys) -> None:
    """What it does and which options it has."""
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"retrykit {command}" in out


def test_the_version(capsys) -> None:
    """As the package has it."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"retrykit {retrykit.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plann",), "no command 'plann'"),
        (("--plan",), "no command '--plan'"),
        (("plan", "careful", "--jsn"), "plan: No such option"),
        (("plan",), "plan: Missing argument 'POLICY'"),
        (("plan", "careful", "exact"), "plan: Got unexpected extra argument (exact)"),
        (("simulate",), "simulate: Missing argument 'POLICY…'"),
        (("explain", "503"), "explain: Missing argument 'METHOD'"),
        (("retry-after",), "retry-after: Missing argument 'VALUE...'"),
        (("plan", "a\nb\x1b[31m"), "no policy 'a\\nb\\x1b[31m'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], told: str, refused) -> None:
    """It says what is wrong, and the exit status is 2."""
    assert told in refused(*arguments)


# Without the extra


@pytest.mark.parametrize("command", ARGUMENTS)
def test_without_the_extra_a_command_says_what_to_install(command: str) -> None:
    """One line, and exit status 2."""
    done = without("click", "rich", "matplotlib", "pydantic",
                   arguments=[command, *ARGUMENTS[command]])  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"retrykit: retrykit {command} needs click: install retrykit with the extra [cli]\n",
    )


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("rich", ["explain", "503", "GET"]),
        ("pydantic", ["run", "--backoff", "2s", "--", "true"]),
        ("matplotlib", ["plan", "careful", "--plot", "plan.png"]),
    ],
)
def test_any_part_of_the_extra_is_named_with_it(missing: str, arguments: list[str], folder) -> None:
    """Somebody may have installed some of it."""
    done = without(missing, arguments=arguments)
    remedy = "install retrykit with the extra [cli]"
    assert done.returncode == 2
    assert done.stderr == f"retrykit: retrykit {arguments[0]} needs {missing}: {remedy}\n"


def test_what_needs_no_extra_works_without() -> None:
    """Help, the version, and word of a command that there is not."""
    everything = ("click", "rich", "matplotlib", "pydantic")
    assert "simulate" in without(*everything, arguments=["--help"]).stdout
    assert without(*everything, arguments=["--version"]).stdout.startswith("retrykit ")
    assert "no command 'x'" in without(*everything, arguments=["x"]).stderr


def test_a_broken_package_is_not_called_missing() -> None:
    """An import that fails for another reason says so itself."""
    program = WITHOUT.format(missing=("markdown_it", "pygments", "contextlib2")).replace(
        "if name.partition", "if name == 'click' and (name := 'inner') or name.partition"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "explain", "503", "GET"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "with the extra" not in done.stderr
    assert "'inner'" in done.stderr


# How it ends


def test_ctrl_c_is_130_and_quiet(tmp_path) -> None:
    """In the middle of a simulation."""
    config = tmp_path / "config.toml"
    os.mkfifo(config)
    command = ["simulate", "endless", "--duration", "10000s", "--outage", "none"]
    with subprocess.Popen(
        [*RETRYKIT, *command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        config.write_text("[policies.endless]\nattempts = 2\n")  # once it is there to read it
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    "command",
    ["plan careful", "plan careful --json", "--help"],
)
def test_a_broken_pipe_is_quiet(command: str, folder) -> None:
    """Nobody reads the output: no traceback, and the status of a SIGPIPE."""
    done = shell(f"{{ sleep 0.1; $R {command}; echo $? >&2; }} | true")
    assert done.stderr == "141\n"


@pytest.mark.parametrize("command", ["explain 503 GET", "--help"])
def test_output_that_cannot_be_written_is_told(command: str, folder) -> None:
    """A full disk: one line and 1, for nobody's input was bad."""
    done = shell(f"$R {command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("command", ["explain 503 GET", "run -- true"])
def test_closed_output_does_no_harm(command: str, folder) -> None:
    """Neither standard output nor standard error is there."""
    assert shell(f"$R {command} >&- 2>&-").returncode == 0


def test_letters_that_the_output_does_not_have_are_replaced(folder) -> None:
    """An ASCII terminal, an old locale."""
    done = shell(
        "$R plan 'odd [bold]$x^$ 日本'", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.isascii()


def test_the_console_script_is_the_same() -> None:
    """The entry point that the package declares."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["retrykit"].partition(":")
    assert getattr(import_module(module), name) is main
