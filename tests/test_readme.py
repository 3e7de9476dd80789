"""What the README shows is true: its code runs, and so does each row of its migration table."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
ROWS = re.findall(
    r"^\| `((?:tenacity|stamina|backoff|redress)\..+?)` \| `(.+?)` \|$", README, re.MULTILINE
)


def test_it_names_the_two_commands() -> None:
    """Each on a line of its own, as it is to be typed."""
    commands = [line.strip() for line in README.splitlines() if line.startswith("    pip install")]
    assert commands == [
        "pip install . && python -m retrykit demo",
        "pip install -e '.[test]' && pytest",
    ]
    assert "pip install retrykit" not in README


def test_its_code_runs() -> None:
    """All blocks in their order, in one namespace, as somebody would type them."""
    namespace: dict[str, Any] = {"__name__": "readme"}
    assert len(BLOCKS) > 15
    try:
        for block in BLOCKS:
            exec(compile(block, "README.md", "exec"), namespace)
    finally:
        for name in ("session", "client", "payments"):
            with contextlib.suppress(KeyError):
                namespace[name].close()
    assert namespace["fetch"].__name__ == "fetch"


def test_its_links_and_pictures_are_there() -> None:
    """Inside of the README and of the repository."""
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").strip().lower()).replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif "://" not in target:
            assert (ROOT / target).exists(), target
    assert "<!-- " not in README, "a section is still to be written"


class Function:
    """Fails, or returns what no rule takes, and counts its calls."""

    def __init__(self, outcome: Any) -> None:
        self.calls = 0
        self.outcome = outcome

    def __call__(self) -> Any:
        self.calls += 1
        if isinstance(self.outcome, type):
            raise self.outcome("again")
        return self.outcome


OUTCOMES = [ConnectionError, FileNotFoundError, KeyError, None, 0, "value"]


def made(decorator: str, outcome: Any) -> tuple[int, Any]:
    """How often the decorated function is called, and what comes out at last."""
    import backoff
    import redress
    import stamina
    import tenacity

    import retrykit

    names = {**vars(retrykit), "tenacity": tenacity, "stamina": stamina}
    function = Function(outcome)

    def plain() -> Any:
        return function()

    decorated = eval(decorator, {**names, "backoff": backoff, "redress": redress})(plain)
    try:
        end: Any = decorated()
    except Exception as error:
        exhausted = (tenacity.RetryError, retrykit.RetriesExhausted)
        end = "no result" if isinstance(error, exhausted) else type(error)
    return function.calls, end


@pytest.mark.parametrize(("before", "now"), ROWS)
def test_both_sides_of_a_migration_row_do_the_same(
    before: str, now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many calls, and the same end, for each kind of outcome."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for outcome in OUTCOMES:
        assert made(now.replace("\\|", "|"), outcome) == made(before, outcome), outcome


def test_the_migration_table_has_rows_for_each_library() -> None:
    """Of the four that it promises."""
    assert {before.partition(".")[0] for before, _ in ROWS} == {
        "tenacity",
        "stamina",
        "backoff",
        "redress",
    }
