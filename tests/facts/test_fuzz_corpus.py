"""What the fuzzer of the header parser starts from, and what it once found, holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.targets import check_headers

CORPUS = sorted(Path(__file__).parent.parent.joinpath("fuzz", "corpus", "headers").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_headers_of_any_kind_are_read_within_bounds(path: Path) -> None:
    """Never an error, never a wait out of bounds, and the same in whatever they are held."""
    check_headers(path.read_bytes())


def test_the_corpus_reaches_answers_and_refusals() -> None:
    """An input that no longer says what it said would try nothing."""
    answers = {path.name: check_headers(path.read_bytes()) for path in CORPUS}
    assert answers["seconds"] == 120.0
    assert answers["date"] == 60.0
    assert answers["many-digits"] == 2.0**31
    assert answers["words"] is None
    assert sum(answer is None for answer in answers.values()) > 10
    assert sum(answer is not None for answer in answers.values()) > 10
