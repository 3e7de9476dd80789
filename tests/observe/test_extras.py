"""Each module needs the extra of its name, and only when it is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = {
    "structlog": ("structlog", "structlog"),
    "prometheus": ("prometheus_client", "prometheus-client"),
    "opentelemetry": ("opentelemetry", "opentelemetry-api"),
}

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {client!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import retrykit
try:
    import retrykit.observe.{module}
except ImportError as error:
    print(error)
"""

BROKEN = """
import sys, types

class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == {client!r}:
            raise ModuleNotFoundError("No module named 'inner'", name="inner")

sys.meta_path.insert(0, Broken())
try:
    import retrykit.observe.{module}
except ImportError as error:
    print(type(error).__name__, error)
"""


def output(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", CLIENTS)
def test_a_missing_client_is_named_with_its_extra(module: str) -> None:
    """The message tells what to install."""
    client, package = CLIENTS[module]
    assert output(WITHOUT.format(module=module, client=client)) == (
        f"retrykit.observe.{module} needs {package}: install retrykit with the extra [{module}]"
    )


@pytest.mark.parametrize("module", CLIENTS)
def test_a_broken_client_is_not_called_missing(module: str) -> None:
    """An import that fails inside of the client says so itself."""
    client, _ = CLIENTS[module]
    assert output(BROKEN.format(module=module, client=client)) == (
        "ModuleNotFoundError No module named 'inner'"
    )


def test_importing_retrykit_imports_no_client() -> None:
    """The listeners of others cost nothing to whoever does not use them."""
    program = "import sys, retrykit, retrykit.observe; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in output(program).split()}
    assert not loaded & {client for client, _ in CLIENTS.values()}
