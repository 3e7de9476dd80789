"""A folder with a configuration, and the commands run in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import retrykit
from retrykit.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIGURATION = """
[policies.careful]
attempts = 5
deadline = "30s"
backoff = { kind = "exponential", base = "250ms", cap = "20s" }
budget = { kind = "ratio", ratio = 0.5, reserve = 20 }

[policies.exact]
attempts = 4
backoff = { kind = "exponential", base = "1s", jitter = "none" }

[policies.web]
attempts = 3
[policies.web.endpoints."GET /slow/*"]
attempts = 2
backoff = [7]

[policies."odd [bold]$x^$ 日本"]
attempts = 2
"""


@pytest.fixture(autouse=True)
def _importable_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package under test is what a process in another folder runs, installed or not."""
    root = str(Path(retrykit.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", root, prepend=os.pathsep)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a `retrykit.toml`."""
    (tmp_path / "retrykit.toml").write_text(CONFIGURATION, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints where all is well."""

    def call(*arguments: str) -> str:
        assert main(arguments) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return call


@pytest.fixture
def as_json(printed: Callable[..., str]) -> Callable[..., Any]:
    """What a command finds out."""
    return lambda *arguments: json.loads(printed(*arguments, "--json"))


@pytest.fixture
def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line with which a command refuses bad input."""

    def call(*arguments: str) -> str:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("retrykit: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return err[len("retrykit: ") : -1]

    return call
