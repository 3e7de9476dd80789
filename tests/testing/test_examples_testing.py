"""The test kit's examples run as they stand, and say what they are to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import retrykit

EXAMPLES = Path(__file__).parents[2] / "examples"

SAID = {
    "testing_own_backoff": """
        it keeps the laws of backoffs
        it keeps its own promise
        ['retry', 'retry', 'retry', 'stop'] attempts_exhausted
    """,
    "testing_virtual_time": """
        test_sync passed
        test_async passed
        retrykit: fetch gave up after 2 attempts in 60.0 s: attempts_exhausted (ConnectionError x2)
        test_without_waits passed
        gave up at once, with 1 step left
        test_another_policy passed
        in no time
    """,
    "testing_laws": """
        Doubling() is no proper backoff
          within its limits: the bounds of wait 7 are 60.0 to 61.0, outside of 0.0 to 60.0
          finite: wait 1025 raised OverflowError: (34, 'Numerical result out of range')
        to Returned(None) in attempt 1 it raised AttributeError: 'NoneType' object has no attribute
    """,
}


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_is_to_say(name: str) -> None:
    """Run as a program, with warnings as errors."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(retrykit.__file__).parents[1]),
            "PYTHONIOENCODING": "utf-8",
        },
        encoding="utf-8",
    )
    assert (run.stderr, run.returncode) == ("", 0)
    lines = run.stdout.replace("×", "x").splitlines()
    expected = [line.strip() for line in SAID[name].strip().splitlines()]
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.strip().startswith(start)


def test_every_example_of_the_kit_is_run() -> None:
    """No example without its output."""
    assert {path.stem for path in EXAMPLES.glob("testing_*.py")} == set(SAID)
