"""Fuzz the configuration with atheris.

    python tests/fuzz/fuzz_config.py -max_total_time=60

Starts from the corpus beside it. Takes libFuzzer's options; new inputs go into the first folder
that is named, a throwaway one unless told. What it finds becomes a file in the corpus, which the
unit tests replay. Needs `pip install atheris` (Linux, macOS).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

with atheris.instrument_imports(include=["retrykit"]):
    import targets

    import retrykit.config  # noqa: F401 - here, so that it is instrumented


def one_input(data: bytes) -> None:
    """One run; what fails in it is the finding."""
    targets.check_config(data)


def main() -> None:
    """Fuzz until told to stop."""
    options = [each for each in sys.argv[1:] if each.startswith("-")]
    folders = [each for each in sys.argv[1:] if not each.startswith("-")]
    new = folders or [tempfile.mkdtemp()]
    atheris.Setup([sys.argv[0], *options, *new, str(HERE / "corpus" / "config")], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
