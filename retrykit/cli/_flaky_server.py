"""A small HTTP server on loopback that misbehaves as it is told, for the demo."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence


class Answer(NamedTuple):
    """One answer of the script; a `status` of 0 drops the connection without any."""

    status: int
    retry_after: str | None = None

    def __str__(self) -> str:
        if not self.status:
            return "drops the connection"
        asks = "" if self.retry_after is None else f" with Retry-After: {self.retry_after}"
        return f"answers {self.status}{asks}"


DROPPED = Answer(0)
SCRIPT = (Answer(503), Answer(429, "1"), DROPPED, Answer(200))
"""Unavailable, then throttled, then a dropped connection, then well."""


@contextmanager
def flaky_server(script: Sequence[Answer] = SCRIPT) -> Generator[str]:
    """Serve the script, for each path from its beginning; gives the server's URL.

    Past the script's end the last answer is repeated.
    """
    answers: dict[str, Iterator[Answer]] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            steps = answers.setdefault(self.path, iter(script))
            answer = next(steps, script[-1])
            if not answer.status:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            body = b"all is well\n" if answer.status < 400 else b"not now\n"
            self.send_response(answer.status)
            if answer.retry_after is not None:
                self.send_header("Retry-After", answer.retry_after)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the server quiet: the demo shows the client's side."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
