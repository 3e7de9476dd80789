"""The example of logging and metrics prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "logging_and_metrics.py"

# Run from here, so that it finds the package, installed or not.
RUN = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"

EXPECTED = """\
INFO forecast: attempt 1 failed (ConnectionError, transient), next in 0.050 s (backoff)
sunny
INFO forecast: attempt 1 failed (ConnectionError, transient), next in 0.050 s (backoff)
INFO forecast: attempt 2 failed (ConnectionError, transient), next in 0.050 s (backoff)
WARNING forecast: gave up after attempt 3 (ConnectionError, attempts_exhausted), … s in all
no forecast
retrykit_calls_total{function="forecast",policy="weather",result="after_retry"} 1.0
retrykit_calls_total{function="forecast",policy="weather",result="failed_after_retries"} 1.0
retrykit_retries_total{function="forecast",policy="weather",reason="transient"} 3.0
"""


def test_the_example_prints_its_lines_and_counters() -> None:
    """Only the time that the whole call took is not the same in each run."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(EXAMPLE)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=60,
        cwd=EXAMPLE.parents[1],
    )
    assert done.stderr == ""
    assert re.sub(r"\d+\.\d+ s in all", "… s in all", done.stdout) == EXPECTED
