"""Durations as people write them: `"250ms"`, `"30s"`, `"1h30m"`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from retrykit._validate import shown

_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Milliseconds; in the order in which they may follow each other."""

_AMOUNT: Final = r"(?:([0-9]+(?:\.[0-9]+)?)[ ]?{}[ ]?)?"
_DURATION: Final = re.compile("".join(_AMOUNT.format(unit) for unit in _UNITS), re.ASCII)
_LONGEST_TEXT: Final = 40

PATTERN: Final = f"^(?=.*[0-9]) *{_DURATION.pattern} *$"
"""What a text must look like, for the JSON Schema."""

WANTED: Final = 'seconds as a number, or a text such as "250ms", "30s" or "1h30m"'


def parse_duration(text: str) -> float:
    """The seconds that a text means: amounts with the units d, h, m, s, ms, from long to short.

    An amount may have decimals; each unit comes at most once. What is read is exact up to the one
    rounding to a float. Anything else, a number without a unit included, is a `ValueError`.

    >>> parse_duration("1h30m"), parse_duration("250ms"), parse_duration("1.5s")
    (5400.0, 0.25, 1.5)
    """
    match = _DURATION.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    if match is None or match.lastindex is None:
        raise ValueError(f"must be {WANTED}, got {shown(text)}")
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    milliseconds = sum(Fraction(amount) * unit for amount, unit in parts if amount is not None)
    return float(milliseconds / 1000)


def format_duration(seconds: float) -> str | float:
    """A text for these seconds, or the number itself where no short text means exactly it.

    >>> format_duration(0.25), format_duration(30.0), format_duration(5400.0)
    ('250ms', '30s', '1h30m')
    >>> format_duration(1 / 3)
    0.3333333333333333
    """
    if seconds >= 60 and seconds.is_integer() and seconds < 1e9:
        left = int(seconds) * 1000
        text = ""
        for unit, size in list(_UNITS.items())[1:]:  # hours and not days: "36h" is what people say
            amount, left = divmod(left, size)
            text += f"{amount}{unit}" if amount else ""
    elif seconds and seconds < 1:
        text = f"{seconds * 1000:g}ms"
    else:
        text = f"{seconds:g}s"
    try:
        return text if parse_duration(text) == seconds else seconds
    except ValueError:  # an exponent: too long or too short for any unit
        return seconds
