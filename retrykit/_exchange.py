"""A call whose outcomes hold a connection: what a client's adapter hands to the drivers.

A driver asks it two things that only the client's adapter knows: whether the request can be sent
once more, and, between the decision to retry and the wait, to let go of what the failed attempt
left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrykit.outcome import Call

if TYPE_CHECKING:
    from retrykit.outcome import Outcome


class Exchange(Call):
    """One request and its answers, all attempts together. Each adapter has its own subclass."""

    __slots__ = ()

    advice = ""
    """What the note on an error adds where the request could not be sent again."""

    def replayable(self) -> bool:
        """Whether another attempt would send what the first one did."""
        return True

    def discard(self, outcome: Outcome, /) -> None:
        """Let go of the response in an outcome that is about to be retried. Must not raise."""

    async def discard_async(self, outcome: Outcome, /) -> None:
        """The same for async drivers."""
