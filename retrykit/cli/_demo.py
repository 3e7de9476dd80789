"""`demo`: a flaky server, called through decorated functions, each decision shown as it is made."""

from __future__ import annotations

import asyncio
import http.client
import io
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from retrykit import Exponential, RetryPolicy, retry
from retrykit.cli._errors import BadInput
from retrykit.cli._flaky_server import SCRIPT, Answer, flaky_server
from retrykit.events import (
    AttemptFailed,
    CallEnded,
    CallSucceeded,
    Event,
    Kinds,
    RetryScheduled,
)
from retrykit.outcome import Raised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

WIDTHS = (11, 7, 20, 57)
HEADER = ("function", "attempt", "outcome", "decision")


class Table:
    """A listener that prints one row for each decision, made of its events alone."""

    kinds: Kinds = frozenset(
        {AttemptFailed, RetryScheduled, CallSucceeded, *CallEnded.__subclasses__()}
    )

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._failure = ""
        self.attempts = 0
        self.waited = 0.0
        self.succeeded = 0
        self.calls = 0

    def __call__(self, event: Event, /) -> None:
        """Print what the event tells."""
        match event:
            case AttemptFailed():
                self.attempts += 1
                self._failure = _described(event)
            case RetryScheduled():
                self.waited += event.delay
                asked = "as the server asked" if event.source == "server" else "by the backoff"
                decision = f"retry after {event.delay:.2f} s, {asked} ({event.reason})"
                self.row(event.function, str(event.number), self._failure, decision)
            case CallSucceeded():
                self.attempts += 1
                self.calls += 1
                self.succeeded += 1
                self.row(event.function, str(event.number), "returned a value", "done")
            case CallEnded():
                self.calls += 1
                decision = f"stop ({event.reason})"
                self.row(event.function, str(event.number), self._failure, decision)
            case _:
                pass

    def __enter__(self) -> Self:
        """Begin with the column's names."""
        self.row(*HEADER)
        self.row(*("-" * width for width in WIDTHS))
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end: each line has been printed."""

    def note(self, text: str) -> None:
        """A line that is no row."""
        print(f"    {text}", file=self._out, flush=True)

    def row(self, *cells: str) -> None:
        """One line, its cells in columns."""
        padded = [cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)]
        print("  ".join(padded).rstrip(), file=self._out, flush=True)


def _described(event: AttemptFailed) -> str:
    """What went wrong, in a few words: the error's type, and the status where there is one."""
    error = event.outcome.error if isinstance(event.outcome, Raised) else None
    status = getattr(error, "code", None)
    return f"{event.error_type} {status}" if isinstance(status, int) else str(event.error_type)


def demo(script: Sequence[Answer] = SCRIPT, out: TextIO | None = None) -> int:
    """Serve the script, call it from a blocking and an async function, show every decision.

    Returns 0 where both calls came to a value, else 1.
    """
    to: TextIO = sys.stdout if out is None else out
    table = _table(to)
    policy = RetryPolicy(backoff=Exponential(0.2, factor=2, cap=1), listeners=(table,))

    @retry(policy=policy)
    def fetch(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=5) as response:
            body: bytes = response.read()
            return body

    @retry(policy=policy)
    async def fetch_async(url: str) -> bytes:
        return await _get(url)

    with flaky_server(script) as url:
        print(f"A server on {url} that {', then '.join(map(str, script))}.\n", file=to)
        calls: list[Callable[[], bytes]] = [
            lambda: fetch(f"{url}/sync"),
            lambda: asyncio.run(fetch_async(f"{url}/async")),
        ]
        with table:
            for call in calls:
                try:
                    call()
                except Exception as error:  # noqa: BLE001 - the demo shows how a call ends, whichever way
                    table.note(f"{type(error).__name__}: {error}")
                    for note in getattr(error, "__notes__", ()):
                        table.note(note)
    print(
        f"\n{table.succeeded} of {table.calls} calls succeeded, in {table.attempts} attempts;"
        f" {table.waited:.1f} s were spent waiting.",
        file=to,
    )
    return 0 if table.succeeded == table.calls else 1


def _table(out: TextIO) -> Table:
    """A live table on a terminal, where rich is installed; else plain lines."""
    if out.isatty():
        with suppress(ImportError):
            from retrykit.cli._live import live_table

            return live_table(out) or Table(out)
    return Table(out)


async def _get(url: str) -> bytes:
    """A GET over asyncio's own streams; an error status is raised as urllib would."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        request = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        head = await reader.readuntil(b"\r\n\r\n")
        status_line, _, fields = head.partition(b"\r\n")
        status = int(status_line.split()[1])
        headers = http.client.parse_headers(io.BytesIO(fields))
        body = await reader.read()
    finally:
        writer.close()
    if status >= 400:
        raise urllib.error.HTTPError(url, status, "", headers, io.BytesIO(body))
    return body


def main(arguments: Sequence[str]) -> int:
    """The command: no options."""
    if list(arguments) in (["-h"], ["--help"]):
        print(
            "usage: retrykit demo\n\nCall a flaky server on this machine, and show each decision."
        )
        return 0
    if arguments:
        raise BadInput(f"demo takes no arguments, got {' '.join(arguments)}")
    return demo()
