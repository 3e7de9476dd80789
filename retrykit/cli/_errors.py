"""What a command cannot do, told in one line."""

from __future__ import annotations


class BadInput(Exception):
    """What was asked for makes no sense: one line on standard error, and exit status 2."""


def one_line(text: str) -> str:
    """The text on one line; what would move a terminal's cursor is left out.

    >>> one_line("2 problems:\\n  a\\x1b[31m\\n  b")
    '2 problems: a[31m b'
    """
    return " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())
