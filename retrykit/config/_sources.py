"""Where policies come from: files and mappings, the environment on top, all or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from pydantic import ValidationError

from retrykit import _registry
from retrykit._validate import shown
from retrykit.config import _toml
from retrykit.config._environ import overlay
from retrykit.config._errors import ConfigError, Problem, header_of
from retrykit.config._explain import blamed, problems_of
from retrykit.config._specs import Document, PolicySection
from retrykit.http import by_endpoint
from retrykit.policy import RetryPolicy

if TYPE_CHECKING:
    from retrykit.budget import Budget
    from retrykit.config._errors import Place
    from retrykit.config._specs import EndpointSection
    from retrykit.policy import PolicyFactory

_Budgets: TypeAlias = "Mapping[Place, Budget]"

MOST_VALUES: Final = 100_000
"""How many values a mapping may hold, tables and lists included."""

_lock: Final = RLock()
"""Held while files are read, so that two threads that reload do not undo each other."""


class _File(NamedTuple):
    """A file that was loaded."""

    shown: str
    """As it was named then, for errors."""
    environ: Mapping[str, str] | None
    policies: dict[str, Any]
    budgets: _Budgets


_files: dict[str, _File] = {}
"""By absolute path, so that a change of the working directory means no other file."""


def load(
    path: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] | None = None,
    register: bool = True,
) -> dict[str, Any]:
    """The policies of a TOML file, with the environment on top; known by their names from now on.

    The file has `[policies.NAME]`; a `pyproject.toml` has `[tool.retrykit.policies.NAME]`. Each
    becomes a `RetryPolicy`, or with `endpoints` a `retrykit.http.ByEndpoint`. Loading a file again
    takes the place of what it said before, as a whole. `environ` stands in for `os.environ` (`{}`
    for none); with `register=False` the policies are only read.

    Raises `ConfigError` with everything that is wrong, and then nothing has changed; `OSError`
    where the file cannot be read.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "retrykit.toml")
    >>> _ = file.write_text('[policies.github]\\nattempts = 3\\ndeadline = "30s"')
    >>> policy = load(file, environ={"RETRYKIT_GITHUB__ATTEMPTS": "1"})["github"]
    >>> policy.attempts, policy.deadline
    (1, 30.0)
    """
    key = os.path.abspath(path)
    with _lock:
        before = _files.get(key) if register else None
        file = _read(key, os.fspath(path), environ, before)
        if register:
            _registry.replace(before.policies if before else {}, file.policies)
            _files[key] = file
    return dict(file.policies)


def from_mapping(
    mapping: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    register: bool = True,
) -> dict[str, Any]:
    """The policies of a mapping by name, as `load`: settings that a program already has at hand.

    Each name has what a file has under `[policies.NAME]`. A whole file's content, with its
    `policies`, is taken too. The mapping is copied.

    >>> policies = from_mapping({"github": {"attempts": 3, "backoff": ["250ms", 1]}}, environ={})
    >>> policies["github"].backoff
    Schedule(0.25, 1.0)
    """
    try:
        document = _copied(mapping)
    except ValueError as error:
        raise ConfigError([Problem("mapping", "", "", None, str(error))]) from None
    prefix: tuple[str, ...] = ()
    if "tool" in document and "policies" not in document:
        document, prefix = _tool(document), _TOOL
    elif "policies" not in document:
        document = {"policies": document}
    with _lock:
        policies, _ = _policies(document, "mapping", prefix, environ, {})
        if register:
            _registry.register(policies)
    return policies


def reload(path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Read every file that was loaded again, or the one, with the environment as it is now.

    All of them are read before anything changes, and then all policies change at once: a call in
    flight keeps the policy that it began with, the next call takes the new one, and no call sees
    half of a change. Names that a file no longer has are forgotten. A budget whose settings are the
    same keeps its balance: a reload in an outage buys no retries. Raises what `load` raises, with
    the problems of all files; then nothing has changed.
    """
    with _lock:
        if path is not None:
            known = _files.get(os.path.abspath(path))
            return load(path, environ=known and known.environ)
        files: dict[str, _File] = {}
        problems: list[Problem] = []
        more = 0
        for key, file in _files.items():
            try:
                files[key] = _read(key, file.shown, file.environ, file)
            except ConfigError as error:
                problems += error.problems
                more += error.more
        if problems:
            raise ConfigError(problems, more)
        old = {name: each for file in _files.values() for name, each in file.policies.items()}
        new = {name: each for file in files.values() for name, each in file.policies.items()}
        _registry.replace(old, new)
        _files.update(files)
    return new


def register_policy(name: str, policy: PolicyFactory) -> None:
    """Make a policy that was built in code known under a name, as those of a file are.

    >>> register_policy("careful", RetryPolicy(attempts=2))
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"name must be a string, got {shown(name)}")
    if isinstance(policy, type) or not callable(getattr(policy, "new_executor", None)):
        raise TypeError(f"policy must have new_executor(call), got {shown(policy)}")
    with _lock:
        _registry.register({name: policy})


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `retrykit.toml`, for editors and other tools that check or complete it.

    >>> json_schema()["required"]
    ['policies']
    """
    schema = Document.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_TOOL: Final = ("tool", "retrykit")


def _read(key: str, shown: str, environ: Mapping[str, str] | None, before: _File | None) -> _File:
    """The file's policies as it is now. Registers nothing."""
    try:
        with open(key, "rb") as file:
            raw = file.read(_toml.LONGEST + 1)
        tables = _toml.parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError([Problem(shown, "", "", None, "is not UTF-8")]) from None
    except ValueError as error:
        raise ConfigError([Problem(shown, "", "", None, str(error))]) from None
    prefix: tuple[str, ...] = ()
    if os.path.basename(key) == "pyproject.toml":
        tables, prefix = _tool(tables), _TOOL
    kept: _Budgets = before.budgets if before else {}
    policies, budgets = _policies(tables, shown, prefix, environ, kept)
    return _File(shown, environ, policies, budgets)


def _tool(tables: dict[str, Any]) -> dict[str, Any]:
    for name in _TOOL:
        inner = tables.get(name)
        tables = inner if _toml.is_table(inner) else {}
    return tables


def _policies(
    document: dict[str, Any],
    source: str,
    prefix: tuple[str, ...],
    environ: Mapping[str, str] | None,
    budgets: _Budgets,
) -> tuple[dict[str, Any], _Budgets]:
    """The policies that the document describes, and their budgets, by place."""
    origins: Mapping[Place, str] = {}
    problems: list[Problem] = []
    more = 0
    tables = document.get("policies")
    if _toml.is_table(tables):
        origins, problems = overlay(
            tables,
            os.environ if environ is None else environ,
            fields=PolicySection.model_fields,
            elsewhere=_registry.registered(),
        )
    try:
        read = Document.model_validate(document)
    except ValidationError as error:
        found, more = problems_of(error, document, source=source, prefix=prefix, origins=origins)
        problems = [*found, *problems]
        raise ConfigError(problems, more) from None
    builder = _Builder(source, prefix, budgets)
    policies = {name: builder.policy(name, section) for name, section in read.policies.items()}
    problems += builder.problems
    if problems:
        raise ConfigError(problems)
    return policies, builder.budgets


class _Builder:
    """Makes policies from sections; a budget with the settings that it had keeps its balance."""

    def __init__(self, source: str, prefix: tuple[str, ...], before: _Budgets) -> None:
        self.problems: list[Problem] = []
        self.budgets: dict[Place, Budget] = {}
        self._source = source
        self._prefix = prefix
        self._before = before

    def policy(self, name: str, section: PolicySection) -> Any:
        """The policy, or the factory of policies by endpoint."""
        place: Place = ("policies", name)
        try:
            fields: Any = {"name": name, **self._fields(place, section, None)}
            policy = RetryPolicy(**fields)
            if not section.endpoints:
                return policy
            endpoints = {
                pattern: policy.replace(
                    **self._fields((*place, "endpoints", pattern), endpoint, section)
                )
                for pattern, endpoint in section.endpoints.items()
            }
            return by_endpoint(endpoints, default=policy)
        except (TypeError, ValueError) as error:
            header, _ = header_of(place, self._prefix)
            field, text = blamed(str(error))
            self.problems.append(Problem(self._source, header, field, None, text))
            return None

    def _fields(
        self, place: Place, section: EndpointSection, beneath: PolicySection | None
    ) -> dict[str, Any]:
        fields = section.fields(beneath)
        budget: Budget | None = fields.get("budget")
        if budget is not None:
            before = self._before.get(place)
            if before is not None and type(before) is type(budget) and before == budget:
                fields["budget"] = budget = before
            self.budgets[place] = budget
        return fields


def _copied(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Dictionaries and lists for whatever mappings and sequences the program has."""
    left = MOST_VALUES

    def copied(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"must not have more than {MOST_VALUES:,} values")
        if depth > _toml.DEEPEST:
            raise ValueError(f"must not be nested deeper than {_toml.DEEPEST} levels")
        if _toml.is_mapping(value):
            return {
                key if isinstance(key, str) else repr(key): copied(each, depth + 1)
                for key, each in value.items()
            }
        if _toml.is_sequence(value):
            return [copied(each, depth + 1) for each in value]
        return value

    if not isinstance(mapping, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
        raise TypeError(f"mapping must be a mapping of names to settings, got {shown(mapping)}")
    return cast("dict[str, Any]", copied(mapping, 0))  # a mapping is copied to a dictionary
