"""Where the commands write: tables to the terminal, plain lines to everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from typing import NoReturn

WIDE: Final = 400
"""The width of what is no terminal: nothing is wrapped or cut there."""


class Plain(Console):
    """A console that shows what it is given and reads nothing into it."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
        if not self.is_terminal:
            self.width = WIDE

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line's one place for it."""
        raise BrokenPipeError


def table(*columns: str) -> Table:
    """A table without rules between its columns, the first to the left, numbers to the right."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        made.add_column(
            column, justify="right" if index else "left", overflow="fold", vertical="bottom"
        )
    return made
