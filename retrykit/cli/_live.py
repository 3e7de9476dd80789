"""The demo's table on a terminal: each decision as it is made, and the wait that it leads to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from retrykit.cli._demo import HEADER, WIDTHS, Table
from retrykit.events import AttemptStarted, Event, Kinds, RetryScheduled

if TYPE_CHECKING:
    from typing import Self

    from rich.console import RenderableType

_COLOURS: Final = {"retry": "yellow", "done": "green", "stop": "red"}


def live_table(out: TextIO) -> LiveTable | None:
    """A live table, or `None` for a terminal that cannot move its cursor."""
    console = Console(file=out, highlight=False, markup=False, emoji=False)
    return LiveTable(out, console) if console.is_terminal and not console.is_dumb_terminal else None


class LiveTable(Table):
    """The same rows as of the plain table; below them, how long the next attempt is still off."""

    kinds: Kinds = Table.kinds | {AttemptStarted}

    def __init__(self, out: TextIO, console: Console) -> None:
        super().__init__(out)
        self._rows = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name, width in zip(HEADER, WIDTHS, strict=True):
            self._rows.add_column(name, min_width=width if name != HEADER[-1] else None)
        self._notes: list[str] = []
        self._resumes: float | None = None
        self._live = Live(console=console, get_renderable=self._shown, refresh_per_second=20)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._resumes = None
        self._live.__exit__(None, None, None)

    def __call__(self, event: Event, /) -> None:
        """Show what the event tells, and the wait, which a plain line cannot show."""
        super().__call__(event)
        self._resumes = None
        if isinstance(event, RetryScheduled):
            self._resumes = time.monotonic() + event.delay

    def row(self, *cells: str) -> None:
        """One row, its decision in the colour of its kind."""
        *others, decision = cells
        colour = _COLOURS.get(decision.split()[0], "")
        self._rows.add_row(*others, Text(decision, style=colour))

    def note(self, text: str) -> None:
        """A line below the table."""
        self._notes.append(text)

    def _shown(self) -> RenderableType:
        left = 0.0 if self._resumes is None else self._resumes - time.monotonic()
        wait = f"next attempt in {left:.1f} s" if left > 0 else ""
        below = [Text(f"    {note}") for note in self._notes]
        return Group(self._rows, *below, Text(wait, style="dim"))
