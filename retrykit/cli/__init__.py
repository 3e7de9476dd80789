"""The command line: `python -m retrykit`, or `retrykit`.

`demo` needs nothing but the core; the other commands need the extra `[cli]`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 2 for bad input, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["demo"]:
        from retrykit.cli._demo import main as demo

        return demo(given[1:])
    print("usage: python -m retrykit demo", file=sys.stderr)
    return 2
