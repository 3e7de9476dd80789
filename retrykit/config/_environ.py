"""The environment on top of a configuration: `RETRYKIT_GITHUB__BACKOFF__CAP=5s`.

A variable is the prefix, the policy's name, and the keys down to the value, joined by two
underscores each, in capitals, and with an underscore for every character that is no letter or
digit. What has no double underscore, such as RETRYKIT_DISABLED, concerns no policy.
"""

from __future__ import annotations

import logging
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retrykit.config import _toml
from retrykit.config._errors import Place, Problem
from retrykit.config._values import EnvText, is_nothing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PREFIX: Final = "RETRYKIT_"
_SEPARATOR: Final = "__"
_NEAR: Final = 0.8

_logger: Final = logging.getLogger("retrykit.config")

_DEFAULT_BACKOFF: Final[dict[str, Any]] = {
    "kind": "exponential",
    "base": 0.25,
    "factor": 2,
    "cap": 20,
}


class _Setting(NamedTuple):
    variable: str
    policy: str
    keys: tuple[str, ...]


def overlay(
    policies: dict[str, Any],
    environ: Mapping[str, str],
    *,
    fields: Collection[str],
    elsewhere: Collection[str] = (),
) -> tuple[dict[Place, str], list[Problem]]:
    """Put the environment's values into the policies' tables.

    Answers which variable each value came from, and what was wrong. `fields` are the keys that a
    policy has, `elsewhere` the policies that are known and not here.
    """
    by_spelling: dict[str, list[str]] = {}
    for name in policies:
        by_spelling.setdefault(_spelled(name), []).append(name)
    settings: list[_Setting] = []
    problems: list[Problem] = []
    for variable in environ:
        if not variable.upper().startswith(PREFIX):
            continue
        found = _setting(variable, by_spelling, fields, elsewhere)
        if isinstance(found, _Setting):
            settings.append(found)
        elif found is not None:
            problems.append(Problem(variable, "", "", environ[variable], found))
    # The whole table first, then its kind, which makes another table of it, then the rest.
    settings.sort(key=lambda each: (len(each.keys), each.keys[-1] != "KIND", each))
    origins: dict[Place, str] = {}
    for variable, name, keys in settings:
        section = policies[name]
        if not _toml.is_table(section):
            continue  # reported with the file
        try:
            value = _read(environ[variable])
        except ValueError as error:
            problems.append(Problem(variable, "", "", environ[variable], str(error)))
            continue
        place = _put(section, keys, value)
        origins["policies", name, *place] = variable
    return origins, problems


def _setting(
    variable: str,
    policies: Mapping[str, list[str]],
    fields: Collection[str],
    elsewhere: Collection[str],
) -> _Setting | str | None:
    """What a variable sets, or what is wrong with it; `None` where it is none of ours."""
    rest = variable.upper().removeprefix(PREFIX)
    name, *keys = rest.split(_SEPARATOR)
    owners = policies.get(name, [])
    if not keys:
        return _one_underscore(rest, policies, fields)
    if len(owners) > 1:
        return f"must name one policy, and it names {' and '.join(map(repr, owners))}"
    if owners:
        return _Setting(variable, owners[0], tuple(keys))
    if not name or any(_spelled(each) == name for each in elsewhere):
        return None
    near = get_close_matches(name, policies, n=1, cutoff=_NEAR)
    if near:
        meant = PREFIX + near[0] + rest.removeprefix(name)
        return f"names no policy that there is: did you mean {meant}?"
    _logger.warning("%s names no policy of those loaded here, and is passed over", variable)
    return None


def _one_underscore(rest: str, policies: Collection[str], fields: Collection[str]) -> str | None:
    spelled = [_spelled(field) for field in fields]
    for name in policies:
        key = rest.removeprefix(f"{name}_")
        if key == rest:
            continue
        for field in spelled:
            if key == field or key.startswith(f"{field}_"):
                return f"sets nothing: write {PREFIX}{name}__{field}, with two underscores"
    return None


def _spelled(name: str) -> str:
    """A name as a variable has it.

    >>> _spelled("git-hub"), _spelled("GET /search/*")
    ('GIT_HUB', 'GET_SEARCH')
    """
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or name.upper()


def _read(text: str) -> object:
    """A value: an array or an inline table as TOML writes it, or text."""
    text = text.strip()
    if not text.startswith(("[", "{")):
        return EnvText(text)
    tables = _toml.parse(f"value = {text}")
    if len(tables) > 1:
        raise ValueError("must hold one value")
    return tables["value"]


def _put(section: dict[str, Any], keys: tuple[str, ...], value: object) -> tuple[str, ...]:
    """Set the value at the end of the keys; answers the keys as the section spells them."""
    place: list[str] = []
    table = section
    for part in keys[:-1]:
        key = _key(table, part)
        inner: Any = table.get(key)
        if inner is None and table is section and key == "backoff":
            inner = dict(_DEFAULT_BACKOFF)
        elif isinstance(inner, str):
            inner = {"kind": inner}  # a text that may be a kind
        if not _toml.is_table(inner):
            inner = {}
        table[key] = inner
        table = inner
        place.append(key)
    key = _key(table, keys[-1])
    if key == "kind":
        value = str(value)
        if table.get("kind") != value:
            table.clear()
    if table is section and key == "deadline" and "attempts" not in section:
        # As `replace`: a deadline on top does not lift the limit that was there without it.
        section["attempts"] = 5 if is_nothing(section.get("deadline")) else "inf"
    table[key] = value
    return (*place, key)


def _key(table: dict[str, Any], part: str) -> str:
    return next((each for each in table if _spelled(each) == part), part.lower())
