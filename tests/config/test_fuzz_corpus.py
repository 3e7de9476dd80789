"""What the fuzzer of the configuration starts from, and what it once found, holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.targets import check_config

CORPUS = sorted(Path(__file__).parent.parent.joinpath("fuzz", "corpus", "config").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_files_of_any_kind_are_read_or_refused(path: Path) -> None:
    """Refused with all that is wrong; what is read is written and read back as it was."""
    check_config(path.read_bytes())


def test_the_corpus_reaches_policies_and_refusals() -> None:
    """An input that no longer says what it said would try nothing."""
    read = {path.stem: check_config(path.read_bytes()) for path in CORPUS}
    assert set(read["backoffs"] or ()) == {"a", "b", "c", "d"}
    assert read["environ"] is not None
    assert read["environ"]["github"].attempts == 1
    assert read["import-attempt"] is None
    assert sum(policies is None for policies in read.values()) > 8
    assert sum(policies is not None for policies in read.values()) > 6
