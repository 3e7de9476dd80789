"""Policies by name, for `@retry(policy="github")`; `retrykit.config` fills it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrykit.errors import UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

_policies: dict[str, Any] = {}


def register(policies: Mapping[str, Any]) -> None:
    """Make the policies known under their names, all at once; calls in flight keep theirs."""
    global _policies
    _policies = {**_policies, **policies}


def forget(*names: str) -> None:
    """Take names out again; those that are not there are passed over."""
    global _policies
    _policies = {name: each for name, each in _policies.items() if name not in names}


def replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Put the new policies in the old ones' place, all at once.

    A name of the old ones that means another policy by now is left alone, unless it is a new one's.
    """
    global _policies
    kept = {name: each for name, each in _policies.items() if old.get(name) is not each}
    _policies = {**kept, **new}


def registered() -> dict[str, Any]:
    """The policies by their names, as they stand now."""
    return dict(_policies)


def lookup(name: str) -> Any:
    """The policy of that name; `UnknownPolicy` says which there are."""
    try:
        return _policies[name]
    except KeyError:
        there = ", ".join(sorted(_policies)) or "none: retrykit.config.load(path) makes them known"
        raise UnknownPolicy(f"no policy is named {name!r}; there are {there}") from None
