"""What is wrong in a configuration: all of it at once, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from retrykit.config import _toml
from retrykit.errors import RetryKitError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PROBLEMS: Final = 100
"""How many problems one error tells; what is no configuration at all may have thousands."""

Place: TypeAlias = "tuple[str | int, ...]"
"""The keys and list positions that lead to a value, from the top of the document."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    source: str
    """The file, or what else the value came from: an environment variable, a mapping."""
    section: str
    """The section as its header has it, `policies.github`; empty where it is none of them."""
    key: str
    """The key inside of the section, `backoff.cap`; empty for the section itself."""
    value: Any
    """What was found there; `None` where nothing was."""
    text: str
    """What is wrong, and what is allowed: `must be above 0, got 0`."""

    def __str__(self) -> str:
        where = f"{self.source} [{self.section}]" if self.section else self.source
        return f"{where}: {self.key} {self.text}" if self.key else f"{where}: {self.text}"


class ConfigError(RetryKitError, ValueError):
    """A configuration that cannot be used; nothing of it is.

    `problems` has everything that is wrong, a hundred at most: `more` counts the others.

    >>> from retrykit.config import from_mapping
    >>> from_mapping({"github": {"atempts": 3, "deadline": "soon"}}, environ={})
    Traceback (most recent call last):
        ...
    retrykit.config._errors.ConfigError: 2 problems in the configuration:
    mapping [policies.github]: deadline must be seconds as a number, or a text such as "250ms",
    "30s" or "1h30m", got 'soon'
    mapping [policies.github]: atempts is no key of a policy (got 3): did you mean 'attempts'?
    """

    def __init__(self, problems: Iterable[Problem], more: int = 0) -> None:
        every = tuple(problems)
        self.problems = every[:MOST_PROBLEMS]
        self.more = more + len(every) - len(self.problems)
        super().__init__(self.problems, self.more)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...], int]]:
        # What a program put into a mapping may not pickle; the error itself travels.
        problems = [
            each if _travels(each.value) else each._replace(value=None) for each in self.problems
        ]
        return type(self), (tuple(problems), self.more)

    def __str__(self) -> str:
        lines = [str(each) for each in self.problems]
        if self.more:
            lines.append(f"and {self.more} more")
        if len(lines) == 1:
            return lines[0]
        count = len(self.problems) + self.more
        return "\n".join([f"{count} problems in the configuration:", *lines])


def _travels(value: object) -> bool:
    import pickle

    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever a value's pickling raises
        return False
    return True


def header_of(place: Place, prefix: tuple[str, ...]) -> tuple[str, Place]:
    """The header of the section that a place is in, and the rest of the place.

    >>> header_of(("policies", "github", "backoff", "cap"), ("tool", "retrykit"))
    ('tool.retrykit.policies.github', ('backoff', 'cap'))
    """
    depth = 2 if len(place) > 1 and place[0] == "policies" else 0
    if place[2:3] == ("endpoints",) and len(place) > 3:
        depth = 4
    names = (*prefix, *place[:depth])
    return _toml.dotted(*[_short(str(name)) for name in names]), place[depth:]


def shown_key(place: Place) -> str:
    """A place inside of a section, on one line.

    >>> shown_key(("on", 0, "types"))
    'on[0].types'
    """
    text = ""
    for each in place:
        text += f"[{each}]" if isinstance(each, int) else f".{_toml.key(_short(each))}"
    return text.removeprefix(".")


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}..."
