"""What must hold for any input at all: shared by the fuzzers and by the tests of their corpus."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from retrykit.facts.retry_after import LONGEST, parse_retry_after

NOW = 1_796_040_000.0
"""30 November 2026, 12:00 UTC."""

ENVIRON = b"### environ\n"
"""In an input for the configuration, what comes after this line is the environment."""


def check_headers(data: bytes) -> float | None:
    """A response's status in the first line, where there is one, and a header in each other line.

    The parser never raises, answers `None` or seconds from 0 to 2**31, and answers the same
    whatever the headers are held in.
    """
    first, *lines = data.split(b"\n")
    status = int(first) if first.isdigit() and len(first) <= 3 else None
    pairs = [(name, value.strip(b" \t")) for name, _, value in (x.partition(b":") for x in lines)]
    answer = parse_retry_after(pairs, status=status, now=NOW)
    if answer is not None:
        assert type(answer) is float
        assert math.isfinite(answer)
        assert 0.0 <= answer <= LONGEST
    texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
    assert parse_retry_after(texts, status=status, now=NOW) == answer
    assert parse_retry_after(iter(pairs), status=status, now=NOW) == answer
    raised = [(name.upper(), value) for name, value in pairs]
    assert parse_retry_after(raised, status=status, now=NOW) == answer
    if len({name.lower() for name, _ in texts}) == len(texts):
        assert parse_retry_after(dict(texts), status=status, now=NOW) == answer
    return answer


def check_config(data: bytes) -> dict[str, Any] | None:
    """A file, and after the line `### environ` the environment, `NAME=value` in each line.

    The file is read or refused with a `ConfigError`, never anything else; and what was read is
    written and read back as equal policies.
    """
    from retrykit.config import ConfigError, dumps, load

    file, _, environ = data.partition(ENVIRON)
    pairs = [line.partition("=") for line in environ.decode("utf-8", "replace").split("\n")]
    overlay = {name: value for name, _, value in pairs}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "retrykit.toml")
        path.write_bytes(file)
        policies, refused = None, None
        try:
            policies = load(path, environ=overlay, register=False)
        except ConfigError as error:
            refused = error
        if policies is None:
            assert refused is not None
            assert str(refused)
            assert refused.problems
            assert all(problem.text for problem in refused.problems)
            return None
        for policy in policies.values():
            assert repr(policy)
        path.write_text(dumps(policies), encoding="utf-8")
        assert load(path, environ={}, register=False) == policies
    return policies
