"""Chance at its extreme."""

from __future__ import annotations

from random import Random


class Highest(Random):
    """Draws the highest that there is, each time."""

    def random(self) -> float:
        return 1.0
