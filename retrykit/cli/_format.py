"""Numbers as people read them."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """Seconds with three digits and the unit that fits them.

    >>> [duration(each) for each in (0, 0.0042, 0.25, 12.345, 75, 5400, 200_000, math.inf)]
    ['0 s', '4.2 ms', '250 ms', '12.3 s', '1 min 15 s', '1 h 30 min', '2.31 days', 'no end']
    """
    if not math.isfinite(seconds):
        return "no end"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        minutes = round(seconds / 60)
        return _two(minutes // 60, "h", minutes % 60, "min")
    return (
        f"{seconds / 86_400:,.3g} days" if seconds < 86_400_000 else f"{seconds / 86_400:,.0f} days"
    )


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")


def percent(share: float) -> str:
    """A share of one in percent; near to all, with the nines that tell it from all.

    >>> [percent(each) for each in (0, 0.00012, 0.5, 0.9981, 0.99999, 1 - 1e-9, 1)]
    ['0 %', '0.012 %', '50 %', '99.8 %', '99.999 %', '> 99.999 %', '100 %']
    """
    value = share * 100
    if value in (0.0, 100.0):
        return f"{value:.0f} %"
    if value <= 99:
        return f"{value:.2g} %" if value < 1 else f"{value:.3g} %"
    missing = 100 - value
    if missing < 0.0009:
        return "> 99.999 %"
    digits = math.ceil(-math.log10(missing) - 1e-6)  # 0.001 is a little less than that
    return f"{value:.{max(digits, 1)}f} %"


def times(factor: float) -> str:
    """A factor. `×1.07`; without decimals from a hundred on.

    >>> times(1.071), times(12.34), times(250.4)
    ('×1.07', '×12.3', '×250')
    """
    return f"×{factor:.3g}" if factor < 100 else f"×{factor:,.0f}"


def plural(count: float, noun: str, several: str | None = None) -> str:
    """A count and its noun.

    >>> plural(1, "attempt"), plural(12_000, "retry", "retries"), plural(math.inf, "attempt")
    ('1 attempt', '12,000 retries', 'any number of attempts')
    """
    several = several or f"{noun}s"
    if count == math.inf:
        return f"any number of {several}"
    return f"{count:,.0f} {noun if count == 1 else several}"
