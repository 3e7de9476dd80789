"""A label's values stay few."""

from __future__ import annotations

from retrykit.observe._bounded import Bounded


def test_the_first_names_keep_their_own() -> None:
    """Names that came in time stay themselves after the limit is reached."""
    bounded = Bounded(2, rest="other")
    assert [bounded(name) for name in ("a", "b", "c", "b", "d", "a")] == [
        *("a", "b", "other", "b", "other", "a"),
    ]


def test_names_past_the_limit_are_not_remembered() -> None:
    """A program that makes up a name for each call does not fill its memory either."""
    bounded = Bounded(2, rest="other")
    for number in range(100):
        bounded(str(number))
    assert len(bounded._places) == 2


def test_threads_that_meet_at_the_limit_do_not_pass_it() -> None:
    """One that saw room which another has taken since gets the rest."""

    class Stale(dict[str, int]):
        def __len__(self) -> int:
            return 0

    bounded = Bounded(2, rest="other")
    bounded._places = Stale()
    assert [bounded(name) for name in "abcd"] == ["a", "b", "other", "other"]
