"""The progress of simulations, on a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from rich.console import Console


@contextmanager
def progress(
    console: Console, names: Iterable[str], total: float
) -> Generator[Callable[[str], Callable[[float], object] | None]]:
    """A bar for each name, gone at the end; answers what to tell how far a name has come.

    Nothing is shown, and nobody needs to be told, where the console is no terminal. It draws when
    it is told something, and has no thread: the virtual clock would wait for one.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, auto_refresh=False
    ) as bars:
        tasks = {name: bars.add_task(name, total=total) for name in names}

        def teller(name: str) -> Callable[[float], object]:
            def tell(done: float) -> None:
                bars.update(tasks[name], completed=done, refresh=True)

            return tell

        yield teller
        for task in tasks.values():
            bars.update(task, completed=total)
