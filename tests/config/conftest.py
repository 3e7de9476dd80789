"""What the tests of configuration share."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrykit import _registry
from retrykit.config import _names, _sources

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Names, files and policies that a test makes known are forgotten with it."""
    monkeypatch.setattr(_registry, "_policies", {})
    monkeypatch.setattr(_names, "_exceptions", {})
    monkeypatch.setattr(_names, "_parts", {})
    monkeypatch.setattr(_sources, "_files", {})


@pytest.fixture
def data():
    """The folder with the files that are read."""
    return DATA


@pytest.fixture
def write(tmp_path):
    """`write(text)`: a `retrykit.toml` with this text, or a file of another name."""

    def write(text, name="retrykit.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
