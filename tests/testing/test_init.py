"""The test kit as a package: all is at hand, and nothing is loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import retrykit
import retrykit.testing


def run_alone(source: str) -> str:
    """What a program prints that has neither Hypothesis nor pytest nor Trio."""
    missing = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"hypothesis", "pytest", "_pytest", "trio", "anyio"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", missing + source],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(Path(retrykit.__file__).parents[1])},
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_all_names_are_at_hand() -> None:
    """And listed."""
    for name in retrykit.testing.__all__:
        assert getattr(retrykit.testing, name) is not None
    assert set(retrykit.testing.__all__) <= set(dir(retrykit.testing))
    assert sorted(retrykit.testing.__all__) == retrykit.testing.__all__


def test_another_name_is_an_attribute_error() -> None:
    """Named as any module's."""
    with pytest.raises(AttributeError, match=r"module 'retrykit.testing' has no attribute 'nap'"):
        _ = retrykit.testing.nap  # type: ignore[attr-defined]  # on purpose


def test_importing_the_package_loads_nothing_of_it() -> None:
    """Production code that names it in a type costs nothing."""
    said = run_alone("""
import retrykit.testing
print(sorted(name for name in sys.modules if name.startswith("retrykit.testing")))
""")
    assert said == "['retrykit.testing']\n"


def test_what_needs_no_extra_works_without_one() -> None:
    """Clock, switches, scripts and traces."""
    said = run_alone("""
import asyncio
from retrykit import RetryPolicy
from retrykit.testing import (
    Between, VirtualClock, assert_waits, decisions, instant, limit_attempts, script)

policy = RetryPolicy.on(OSError, backoff=[1, 2])
trace = decisions(policy, script(OSError, OSError, "ok"))
assert_waits(trace, [Between(0, 1), 2.0])
clock = VirtualClock()
with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
    runner.run(policy.replace(clock=clock).acall(script(OSError, "ok", asynchronous=True)))
with instant() as waits, limit_attempts(2):
    policy.call(script(OSError, "ok"))
print(clock.sleeps, waits)
""")
    assert said == "[1.0] [1.0]\n"


def test_what_needs_hypothesis_says_so_when_it_is_asked_for() -> None:
    """As an import of Hypothesis itself would."""
    said = run_alone("""
import retrykit.testing
try:
    retrykit.testing.check_backoff
except ModuleNotFoundError as error:
    print(error.name)
""")
    assert said == "hypothesis\n"
