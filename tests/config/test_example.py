"""The example of named policies prints what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "named_policies.py"

EXPECTED = """\
fetched - two failures were retried
an issue is posted 1 time
not retried: down
[policies.github] deadline must be seconds as a number, or a text such as "250ms", "30s" or "1h30m", got 'half a minute'
[policies.github] atempts is no key of a policy (got 3): did you mean 'attempts'?
still 1 attempt
[policies.github]
on = ["ConnectionError", "http"]
attempts = 5
deadline = "30s"
backoff = { kind = "exponential", base = "10ms", cap = "20s" }
budget = "ratio"
"""  # noqa: E501 - as it is printed


def test_the_example_says_what_it_is_to_say():
    """As a program of its own, with warnings as errors."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(EXAMPLE.parents[1])},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == EXPECTED
