"""Durations as texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.config._durations import PATTERN, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("0ms", 0.0),
        ("30s", 30.0),
        ("0.1s", 0.1),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1h30m5s250ms", 5405.25),
        ("1.5h", 5400.0),
        ("1d", 86_400.0),
        ("1d12h", 129_600.0),
        (" 5 s ", 5.0),
        ("90m", 5400.0),
    ],
)
def test_a_text_is_read_exactly(text, seconds):
    """Amounts with units, from long to short, rounded once."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "5", "s", "ms", "-5s", "+5s", "1e3s", "1_000s", ".5s", "5.s", "inf", "nan"),
        *("5S", "5sec", "5 seconds", "5m5h", "5s5s", "1h-30m", "٥s", "5s\n5s", "0x5s", "PT5S"),
        "9" * 50 + "s",
    ],
)
def test_anything_else_is_refused(text):
    """A number needs its unit, a unit its number; the error shows what is allowed."""
    with pytest.raises(ValueError, match='must be seconds as a number, or a text such as "250ms"'):
        parse_duration(text)


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_what_is_written_is_read_back_exactly(seconds):
    """A text is written only where it means the very same float."""
    written = format_duration(seconds)
    assert (parse_duration(written) if isinstance(written, str) else written) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.25, "250ms"),
        (0.0001, "0.1ms"),
        (1.5, "1.5s"),
        (59.9, "59.9s"),
        (60.0, "1m"),
        (90.0, "1m30s"),
        (3600.0, "1h"),
        (90_000.0, "25h"),
        (1 / 3, 1 / 3),
        (1e300, 1e300),
    ],
)
def test_it_is_written_as_people_write_it(seconds, text):
    """With the unit that fits."""
    assert format_duration(seconds) == text


@given(st.text("0123456789. dhms", max_size=12))
def test_the_schema_s_pattern_takes_what_is_read(text):
    """An editor refuses what `load` would, and nothing else."""
    import re

    try:
        parse_duration(text)
    except ValueError:
        assert re.search(PATTERN, text) is None
    else:
        assert re.search(PATTERN, text) is not None
