"""The progress of simulations: a bar each on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io
import re
import threading

from rich.console import Console

from retrykit.cli._progress import progress


def test_a_bar_for_each_policy() -> None:
    """It grows as it is told, and draws by itself: no thread, for the virtual clock would wait."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, legacy_windows=False)
    threads = threading.active_count()
    with progress(console, ["first", "second"], 40.0) as told:
        assert threading.active_count() == threads
        tell = told("first")
        assert tell is not None
        tell(10.0)
        tell(30.0)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert re.search(r"first .* 25%", shown)
    assert re.search(r"first .* 75%", shown)
    assert re.search(r"second .* 0%", shown)


def test_elsewhere_nothing_is_drawn() -> None:
    """Nor on a terminal that cannot move its cursor."""
    for console in (
        Console(file=io.StringIO()),
        Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"}),
    ):
        with progress(console, ["first"], 40.0) as told:
            assert told("first") is None
        assert console.file.getvalue() == ""  # type: ignore[attr-defined]  # it is a StringIO


def test_it_goes_when_it_is_done() -> None:
    """What stays on the terminal is the result."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, legacy_windows=False)
    with progress(console, ["first"], 40.0) as told:
        tell = told("first")
        assert tell is not None
        tell(40.0)
    assert out.getvalue().endswith("\x1b[2K")
