"""The examples run as they stand, and say what they are to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

SAID = {
    "quickstart": """
        hello, world, at attempt 3
        ConnectionError: the line is down
        retrykit: never gave up after 3 attempts
    """,
    "async_calls": """
        ['page 1 at attempt 2', 'page 2 at attempt 2']
        the attempt took longer than 0.05 s
        the block succeeded at attempt 2
    """,
    "custom_classifier": """
        forty-two
        logging in, attempt 1
        not retried
        FirstOf(Never(WrongPassword), OnException(ConnectionError), half_an_answer)
    """,
    "discord_policy": """
        200 after 5 tries
        HTTP 502 after 3 tries
        HTTP 404 after 1 tries
        [{'throttled': 2, 'server error': 2}, {'server error': 3}, {'other': 1}]
        HTTP 503 after 5 tries
        200 after 3 tries
    """,
    "typed_policy": """
        wait 1: 0.25 to 0.5 s
        wait 2: 0.5 to 1 s
        wait 3: 0.75 to 1.5 s
        3 waits for 4 attempts
        503: again, for server_error, in time: True
        429: again, for throttled, in time: True
        404: not_retryable
        DoNotRetry(reason=StopReason.NOT_IDEMPOTENT)
        max_attempts must be at least 1, got 0
        base_delay must be at most max_delay, got 9.0 > 1.5
    """,
    "polling": """
        done
        attempts_exhausted after 5 attempts, at last running
        running
    """,
    "block_form": """
        attempt 1
        attempt 2
        attempt 3
        ['a', 'b']
    """,
    "own_backoff": """
        every wait lies within its bounds
        [(0.5, 1.0), (1.0, 2.0), (1.5, 3.0), (0.5, 1.0), (1.0, 2.0)]
    """,
    "per_instance_policy": """
        /patient at attempt 3
        retrykit: Client.get gave up after 2 attempts
    """,
    "token_refresh": """
        a new token is fetched
        somebody
        somebody
    """,
    "reconnect_until_shutdown": """
        attempt 1 failed
        attempt 2 failed
        attempt 3 failed
        consume gave up after 3 attempts - stopped
        bye
    """,
}


@pytest.mark.parametrize("name", SAID)
def test_the_example_says_what_it_is_to_say(name: str) -> None:
    """As a program of its own, with warnings as errors."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [line.strip() for line in SAID[name].strip().splitlines()]


def test_every_example_is_run_by_a_test() -> None:
    """Each file in `examples/` is named in a test."""
    tests = Path(__file__).parent
    told = "\n".join(path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert path.stem in told, f"{path.name} is run by no test"
