"""The command line: `python -m retrykit`, or `retrykit`.

`demo` needs nothing but the core; the other commands need the extra `[cli]`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from retrykit._version import __version__
from retrykit.cli._errors import BadInput, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "demo": "watch calls to a flaky server being retried",
    "plan": "when each attempt of a policy is made, what it saves, what looks wrong",
    "simulate": "what policies do to a server in an outage",
    "run": "run a command, and again where it fails",
    "explain": "what is decided on an HTTP response, and by which rule",
    "retry-after": "what a Retry-After is taken for",
}

NEEDED: Final = frozenset({"click", "rich", "matplotlib", "pydantic"})
"""What the extra `[cli]` brings."""

BROKEN_PIPE: Final = 141
"""128 and the number of SIGPIPE, as a shell has it for whoever dies of one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 2 for bad input, 130 after Ctrl-C.

    `run` has its command's status. Whatever is wrong is told in one line on standard error.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _have_output()
    try:
        status = _dispatch(given)
        sys.stdout.flush()
    except BadInput as problem:
        return _failed(2, str(problem))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _give_up_output()
        return BROKEN_PIPE
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in NEEDED:
            raise
        what = f"retrykit {given[0]}" if given else "retrykit"
        return _failed(2, f"{what} needs {missing}: install retrykit with the extra [cli]")
    except OSError as error:
        _give_up_output()
        return _failed(1, str(error))
    return status


def _dispatch(given: list[str]) -> int:
    match given:
        case []:
            print(_usage(), file=sys.stderr)
            return 2
        case ["-h" | "--help", *_]:
            print(_usage())
            return 0
        case ["--version", *_]:
            print(f"retrykit {__version__}")
            return 0
        case ["demo", *rest]:
            from retrykit.cli._demo import main as demo

            return demo(rest)
        case [name, *rest] if name in COMMANDS:
            from retrykit.cli._app import invoke

            return invoke(name, rest)
        case [name, *_]:
            raise BadInput(f"no command {name!r}: there are {', '.join(COMMANDS)}")
        case _:  # pragma: no cover - a list is empty or has a first item
            raise AssertionError(given)


def _usage() -> str:
    lines = [f"  {name:12} {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: retrykit COMMAND [OPTIONS] ...",
            "",
            *lines,
            "",
            "retrykit COMMAND --help tells more. All but demo need the extra [cli].",
        ]
    )


def _have_output() -> None:
    """Have streams that take every letter, also where they were closed at the start."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _failed(status: int, text: str) -> int:
    with suppress(OSError):
        print(f"retrykit: {one_line(text)}", file=sys.stderr, flush=True)
    return status


def _give_up_output() -> None:
    """Send what is still to be written nowhere, so that the interpreter's end finds no fault."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
