"""The policies that the commands are told about: by name, from the folder's configuration."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrykit import RetryPolicy
from retrykit._context import everywhere
from retrykit.cli._errors import BadInput
from retrykit.http import ByEndpoint

if TYPE_CHECKING:
    from retrykit.backoff import Backoff

FILES: Final = ("retrykit.toml", "pyproject.toml")
"""Where policies are looked for in the current folder; a name in the first hides the second's."""


def policy_named(name: str, config: str | None = None, endpoint: str | None = None) -> RetryPolicy:
    """The policy of that name, for one of its endpoints or for those that have none of their own.

    `config` is the file to read in place of the folder's own. Raises `BadInput`.
    """
    found = _lookup(name, config)
    if isinstance(found, ByEndpoint):
        method, _, path = (endpoint or "").partition(" ")
        found = found.default if endpoint is None else found.pick(method, path.strip())
    elif endpoint is not None:
        raise BadInput(f"policy {name!r} has no endpoints of its own")
    assert isinstance(found, RetryPolicy)  # the configuration makes no other
    return found


def endpoints_of(name: str, config: str | None = None) -> tuple[str, ...]:
    """The patterns of the endpoints for which the policy differs."""
    found = _lookup(name, config)
    return tuple(found.endpoints) if isinstance(found, ByEndpoint) else ()


def _lookup(name: str, config: str | None) -> Any:
    known: list[str] = []
    files = _files() if config is None else [config]
    for file in files:
        policies = _load(file)
        if name in policies:
            return policies[name]
        known += policies
    if not files:
        raise BadInput(
            f"no policy {name!r}: this folder has no {FILES[0]}, and no [tool.retrykit.policies]"
            f" in a {FILES[1]}; --config names another file"
        )
    where = " and ".join(files)
    if not known:
        raise BadInput(f"no policy {name!r}: {where} has none")
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
    raise BadInput(f"no policy {name!r} in {where}: {hint}")


def _files() -> list[str]:
    return [file for file in FILES if Path(file).is_file() and _has_policies(file)]


def _has_policies(file: str) -> bool:
    """Whether a file is ours to read: most a `pyproject.toml` has nothing for retrykit."""
    if file != "pyproject.toml":
        return True
    try:
        tables = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        return "policies" in tables["tool"]["retrykit"]
    except (KeyError, TypeError):
        return False
    except (OSError, ValueError):
        return True  # then reading it tells what is wrong


def _load(file: str) -> dict[str, Any]:
    from retrykit import config

    try:
        return config.load(file, register=False)
    except config.ConfigError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror or error}") from None


KINDS: Final = {
    "constant": "delay",
    "linear": "start",
    "polynomial": "base",
    "fibonacci": "base",
    "exponential": "base",
    "decorrelated": "base",
}
"""The kinds of backoff that fit on a command line, and what a setting without a name is."""


def backoff_from(text: str) -> Backoff:
    """A backoff as it is written on a command line.

    One duration is waited each time, a list of them one after another; a kind of the configuration
    has its settings behind it. Raises `BadInput`.

    >>> backoff_from("2s"), backoff_from("100ms,1s,5s")
    (Constant(2.0), Schedule(0.1, 1.0, 5.0))
    >>> backoff_from("exponential:250ms,cap=20s,jitter=equal")
    Exponential(0.25, factor=2.0, cap=20.0, jitter=EqualJitter())
    """
    from retrykit import config

    kind, colon, rest = text.partition(":")
    table: Any
    if colon:
        table = _table(text, kind.strip(), rest)
    else:
        parts = [_plain(part) for part in text.split(",")]
        table = parts if len(parts) > 1 else {"kind": "constant", "delay": parts[0]}
    try:
        read = config.from_mapping({"run": {"backoff": table}}, environ={}, register=False)
    except config.ConfigError as error:
        told = "; ".join(
            f"{each.key.removeprefix('backoff.')} {each.text}" for each in error.problems
        )
        raise BadInput(f"--backoff {text!r}: {told}") from None
    made: Backoff = read["run"].backoff
    return made


def _table(text: str, kind: str, rest: str) -> dict[str, Any]:
    if kind not in KINDS:
        kinds = ", ".join(KINDS)
        raise BadInput(f"--backoff {text!r}: before the colon goes one of {kinds}, got {kind!r}")
    settings: dict[str, Any] = {"kind": kind}
    for index, part in enumerate(rest.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            if index:
                raise BadInput(f"--backoff {text!r}: write NAME=VALUE, got {part!r}")
            name, value = KINDS[kind], part
        settings[name.strip()] = _plain(value)
    return settings


def _plain(text: str) -> float | str:
    """A number where the text is one; a duration with its unit stays a text."""
    text = text.strip()
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text


def switched_off() -> bool:
    """Whether retries are off for this process (`RETRYKIT_DISABLED=1`)."""
    return any(scope.disabled for scope in everywhere)
