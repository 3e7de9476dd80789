"""A module imports only from what lies below it, and a client only in its own adapter."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrykit

PACKAGE = Path(retrykit.__file__).parent

# From the ground up: a module imports from the rows above its own (and within `facts/`, `http/`
# and the other folders, from its own folder).
ROWS = [
    ["_version", "_validate", "_frozen", "_value"],
    ["decision"],
    ["outcome", "errors"],
    ["jitter", "clock", "budget", "_registry", "_exchange"],
    ["backoff", "facts"],
    ["classify", "server_delay", "events"],
    ["settings"],
    ["_fields"],
    ["_executor"],
    ["_context"],
    ["_session"],
    ["_blocking"],
    ["_async"],
    ["_generators", "_block"],
    ["_forms"],
    ["policy"],
    ["_decorator"],
    ["__init__"],
    ["http"],
    ["classifiers", "observe", "config", "testing"],
    ["cli"],
    ["__main__"],
]
LEVELS = {name: level for level, row in enumerate(ROWS) for name in row}

CLIENTS = {
    "requests": {"http/requests.py"},
    "httpx": {"http/httpx.py", "http/_httpx.py"},
    "aiohttp": {"http/aiohttp.py"},
    "urllib3": {"http/urllib3.py", "http/_urllib3.py", "http/requests.py"},
    "structlog": {"observe/structlog.py"},
    "prometheus_client": {"observe/prometheus.py"},
    "opentelemetry": {"observe/opentelemetry.py"},
    "pydantic": {"config"},
    "hypothesis": {"testing"},
    "pytest": {"testing"},
    "trio": {"testing"},
    "rich": {"cli"},
    "click": {"cli"},
    "matplotlib": {"cli"},
    "wrapt": {"_decorator.py"},
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def part_of(path: Path) -> str:
    """The module or folder of the package that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports when it runs, wherever it does."""

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for each in child.orelse:
                    yield from visit(ast.Module([each], []))
            elif isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
                yield child.module
                if child.module == "retrykit":
                    yield from (f"retrykit.{alias.name}" for alias in child.names)
            else:
                yield from visit(child)

    return visit(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_below(path: Path) -> None:
    """Each import names a lower row, or the module's own folder."""
    own = part_of(path)
    assert own in LEVELS, f"{own} has no layer yet: give it one"
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top != "retrykit" or not rest:
            continue
        target = rest.partition(".")[0]
        if target == own and path.parent != PACKAGE:
            continue
        if target not in LEVELS and own != "__init__":
            target = "__init__"  # a name of the public table
        assert LEVELS[target] < LEVELS[own], f"{own} imports {name}, which is not below it"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_client_is_imported_in_its_own_adapter_only(path: Path) -> None:
    """So that importing the core never loads one."""
    where = path.relative_to(PACKAGE).as_posix()
    for name in imported(path):
        allowed = CLIENTS.get(name.partition(".")[0])
        if allowed is None or name.startswith("retrykit"):
            continue
        assert any(where == each or where.startswith((f"{each}/", f"{each}.")) for each in allowed)


def test_there_is_no_cycle_in_the_rows() -> None:
    """Each module stands in one row."""
    names = [name for row in ROWS for name in row]
    assert len(names) == len(set(names))


PROGRAM = """
import sys, threading
import wrapt
there = set(sys.modules)
before = threading.active_count()
import logging
handlers = list(logging.getLogger().handlers)
import retrykit
def loaded(names):
    return [name for name in names.split() if name in sys.modules and name not in there]
print(loaded("httpx aiohttp requests urllib3 structlog trio pydantic rich click hypothesis pytest"))
print(loaded("json uuid typing_extensions http.client"))
print(threading.active_count() - before, logging.getLogger().handlers == handlers)
print([type(h).__name__ for h in logging.getLogger("retrykit").handlers])
import asyncio
print(asyncio._get_running_loop())
"""


def test_importing_has_no_side_effects() -> None:
    """hynek/stamina#34, jd/tenacity#463: no client, no thread, no handler, no loop."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    clients, heavy, threads, handlers, loop = run.stdout.splitlines()
    assert clients == "[]"
    assert heavy == "[]"
    assert threads == "0 True"
    assert handlers == "['NullHandler']"
    assert loop == "None"


def test_the_public_table_is_what_the_package_exports() -> None:
    """`from retrykit import …` gives these names and nothing else."""
    names = """
        retry RetryPolicy PolicyFactory RetryExecutor Call Attempt Outcome Returned Raised
        RetryDecision RetryAfter DoNotRetry RetryReason StopReason Classifier OnException OnResult
        Never transient Constant Exponential Decorrelated Schedule ByReason NoJitter FullJitter
        EqualJitter ServerDelay RatioBudget TokenBudget current_attempt override disabled policy_of
        with_policy log_retries RetryKitError RetriesExhausted AttemptTimedOut DeadlineExceeded
    """
    assert sorted(retrykit.__all__) == sorted(names.split())
    for name in retrykit.__all__:
        assert hasattr(retrykit, name)
