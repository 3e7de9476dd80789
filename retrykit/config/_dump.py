"""Write policies out, so that they are read back equal."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from retrykit._validate import shown
from retrykit.backoff import (
    Schedule,
    _Jittered,  # pyright: ignore[reportPrivateUsage]  # what the combinators make has no public name
    _Limited,  # pyright: ignore[reportPrivateUsage]  # as above
    _Sum,  # pyright: ignore[reportPrivateUsage]  # as above
    _Taken,  # pyright: ignore[reportPrivateUsage]  # as above
    _Then,  # pyright: ignore[reportPrivateUsage]  # as above
)
from retrykit.budget import PerKey
from retrykit.classify import FirstOf, Never, OnException, Transient, transient
from retrykit.config import _toml
from retrykit.config._durations import format_duration
from retrykit.config._errors import ConfigError, Place, Problem, shown_key
from retrykit.config._explain import problems_of
from retrykit.config._names import equal, is_registered, name_of_exception, name_of_part
from retrykit.config._specs import MOST_BACKOFFS, SPECS, Document, PolicySection
from retrykit.config._values import SECONDS
from retrykit.events import LogRetries
from retrykit.http import ByEndpoint, OnStatus, per_host
from retrykit.jitter import Bounds
from retrykit.policy import RetryPolicy
from retrykit.server_delay import ServerDelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import TypeIs

    from retrykit.backoff import Backoff

    Policy: TypeAlias = "RetryPolicy | ByEndpoint"


SOURCE: Final = "policy"
"""What stands for the file in the problems of what cannot be written."""

_DEFAULTS: Final = {
    each.name: each.default for each in dataclasses.fields(RetryPolicy) if each.init
}
_IN_CODE_ONLY: Final = frozenset({"clock", "rng"})
_CLASSIFY: Final = frozenset({"on", "never", "on_status"})


def dump(policy: Policy) -> dict[str, Any]:
    """A policy as the section of a configuration that says it: texts, numbers, lists and tables.

    Read back, it is an equal policy. What is left out is the default, but for `attempts` and
    `name`. Durations are written as texts where that is exact. Raises `ConfigError` for what no
    configuration can say: a part of the program's own that is not registered, a `clock` or an
    `rng`, a subclass; all of it in one error.

    >>> from retrykit import Exponential
    >>> policy = RetryPolicy.on(ConnectionError, backoff=Exponential(0.25, cap=30), name="github")
    >>> dump(policy)
    {'on': ['ConnectionError'], 'attempts': 5,
     'backoff': {'kind': 'exponential', 'base': '250ms', 'cap': '30s'}, 'name': 'github'}
    """
    writer = _Writer("")
    section = writer.section(policy)
    if writer.problems:
        raise ConfigError(writer.problems)
    return section


def dumps(policies: Policy | Mapping[str, Policy]) -> str:
    """The text of a configuration file that says these policies, by name, or a single one.

    A single policy's section is named as the policy is, or `default`. Raises `ConfigError` as
    `dump`.

    >>> print(dumps({"polling": RetryPolicy(backoff=[1, 2.5], name="polling")}), end="")
    [policies.polling]
    attempts = 5
    backoff = ["1s", "2.5s"]
    """
    if isinstance(policies, (RetryPolicy, ByEndpoint)):
        policies = {getattr(policies, "name", None) or "default": policies}
    problems: list[Problem] = []
    sections: list[str] = []
    for name, policy in policies.items():
        writer = _Writer(name)
        section = writer.section(policy)
        problems += writer.problems
        if section.get("name") == name:
            del section["name"]
        endpoints = section.pop("endpoints", {})
        sections.append(_toml.table(("policies", name), section))
        for pattern, each in endpoints.items():
            sections.append(_toml.table(("policies", name, "endpoints", pattern), each))
    if problems:
        raise ConfigError(problems)
    text = "\n".join(sections)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"must be Unicode text, got {shown(error.object[error.start : error.end])}"
        raise ConfigError([Problem(SOURCE, "", "", None, problem)]) from None
    return text


class _Writer:
    """Writes what it can, and collects what it cannot."""

    def __init__(self, name: str) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._section = _toml.dotted("policies", name) if name else ""

    def section(self, policy: object) -> dict[str, Any]:
        """The policy's section; with problems, it is good for nothing."""
        default = policy.default if isinstance(policy, ByEndpoint) else policy
        section = self._policy(default, _DEFAULTS, (), always=("attempts", "name"))
        if isinstance(policy, ByEndpoint):
            section["endpoints"] = {
                pattern: self._endpoint(each, default, section, ("endpoints", pattern))
                for pattern, each in policy.endpoints.items()
            }
        if not self.problems:
            self._check(section)
        return section

    def _check(self, section: dict[str, Any]) -> None:
        """Whether it can be read: the lengths and depths that are read have their limits."""
        document = {"policies": {self._name: section}}
        if _toml.is_too_deep(document):
            self._cannot((), None, f"must not be nested deeper than {_toml.DEEPEST} levels")
            return
        try:
            Document.model_validate(document)
        except ValidationError as error:
            found, _ = problems_of(error, document, source=SOURCE, prefix=(), origins={})
            self.problems += [each._replace(section=self._section) for each in found]

    def _endpoint(
        self, policy: object, default: object, above: dict[str, Any], place: Place
    ) -> dict[str, Any]:
        """What the policy of an endpoint has otherwise than the one for all."""
        if type(default) is not RetryPolicy:
            return {}  # a problem already
        section = self._policy(policy, {name: getattr(default, name) for name in _DEFAULTS}, place)
        if _CLASSIFY & section.keys():
            # What is not said again would hold here too.
            for name in _CLASSIFY & (above.keys() - section.keys()):
                section[name] = ["transient"] if name == "on" else []
        return section

    def _policy(
        self,
        policy: object,
        beneath: Mapping[str, Any],
        place: Place,
        *,
        always: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """The fields in which a policy differs from what lies beneath."""
        if type(policy) is not RetryPolicy:
            self._cannot(place, policy, "must be a RetryPolicy itself")
            return {}
        section: dict[str, Any] = {}
        for name, below in beneath.items():
            value = getattr(policy, name)
            # Two budgets that are equal are still two.
            same = value is below or (name != "budget" and equal(value, below))
            if same and name not in always:
                continue
            inner = (*place, name)
            if name == "classify":
                section.update(self._classify(value, place))
            elif name in _IN_CODE_ONLY:
                self._cannot(inner, value, "must be the default, for it can be set in code only")
            else:
                seconds = SECONDS in PolicySection.model_fields[name].metadata
                section[name] = self._value(value, inner, seconds=seconds)
        return section

    def _classify(self, classify: object, place: Place) -> dict[str, Any]:
        section: dict[str, Any] = {}
        rules: list[Any] = [classify]
        if type(classify) is FirstOf and len(classify.classifiers) > 1:
            rules = list(classify.classifiers)
            if type(rules[0]) is Never:
                section["never"] = self._value(rules.pop(0).types, (*place, "never"))
            if len(rules) > 1 and type(rules[0]) is OnStatus and rules[0] == _on_status(rules[0]):
                section["on_status"] = list(rules.pop(0).statuses)
        if not section or rules != [transient]:
            section["on"] = self._rules(rules, (*place, "on"))
        return section

    def _rules(self, classifiers: Iterable[object], place: Place) -> list[Any]:
        """The rules as a list, in which a rule that only names types is their names in a row."""
        rules: list[Any] = []
        names_before = False
        for each in classifiers:
            at = len(rules)
            if not names_before and _is_only_names(each):
                rules += [self._value(kind, (*place, at + i)) for i, kind in enumerate(each.types)]
                names_before = True
            else:
                rules.append(self._value(each, (*place, at)))
                names_before = False
        return rules

    # Values

    def _value(self, value: Any, place: Place, *, seconds: bool = False) -> Any:
        if len(place) > 2 * _toml.DEEPEST:
            return None  # the whole is refused for it
        match value:
            case None:
                return False
            case Enum():
                return value.value
            case bool() | int() | str():
                return value
            case float():
                return format_duration(value) if seconds else _shortest(value)
            case type():
                return self._exception(value, place)
            case _ if _toml.is_mapping(value):
                named = {self._value(key, place): each for key, each in value.items()}
                return {key: self._value(each, (*place, key)) for key, each in named.items()}
            case _ if _toml.is_sequence(value):
                return [self._value(each, (*place, i)) for i, each in enumerate(value)]
            case _:
                return self._part(value, place)

    def _exception(self, kind: type[BaseException], place: Place) -> str | None:
        name = name_of_exception(kind)
        if name is None:
            wanted = f'must be known by name: register_exception("{kind.__name__}", ...)'
            self._cannot(place, kind, wanted)
        return name

    def _part(self, part: Any, place: Place) -> Any:
        """A strategy as a table with its kind, or as the name by which it is registered."""
        described = None if is_registered(part) else _described(part)
        if described is None:
            name = name_of_part(part)
            if name is None:
                self._cannot(place, part, 'must be known by name: register("...", ...)')
            return name
        if isinstance(described, list):
            return [
                self._value(each, (*place, i), seconds=True) for i, each in enumerate(described)
            ]
        spec = SPECS[f"={described['kind']}"]
        table: dict[str, Any] = {"kind": described.pop("kind")}
        for name, value in described.items():
            field = spec.model_fields[name]
            if field.is_required() or value != field.get_default(call_default_factory=True):
                inner = (*place, name)
                table[name] = (
                    self._rules(value, inner)
                    if name == "rules"
                    else self._value(value, inner, seconds=SECONDS in field.metadata)
                )
        if isinstance(part, ServerDelay):
            del table["kind"]  # there is no other
        return table["kind"] if list(table) == ["kind"] else table

    def _cannot(self, place: Place, value: object, text: str) -> None:
        key = shown_key(place)
        text = f"{text}, got {shown(value)}"
        self.problems.append(Problem(SOURCE, self._section, key, value, text))


def _described(part: object) -> dict[str, Any] | list[float] | None:
    """The kind and the keys that say a strategy; `None` for what is none of the library's own."""
    kind = type(part)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(part)
    if kind in _KINDS:
        word, spec = _KINDS[kind]
        keys = {name: getattr(part, name) for name in spec.model_fields if name != "kind"}
        return {"kind": word, **keys}
    return None


def _on_status(rule: OnStatus) -> OnStatus:
    return OnStatus(*rule.statuses)


def _is_only_names(rule: Any) -> TypeIs[OnException]:
    plain = type(rule) is OnException and not is_registered(rule)
    return plain and rule == OnException(*rule.types)


def _limited(backoff: _Limited) -> dict[str, Any]:
    """One limit, around the backoff with the other."""
    inner, (low, high) = backoff.backoff, backoff.within
    floor, cap = inner.limits
    if high < cap:
        rest = inner if low <= floor else _Limited(inner, Bounds(low, cap))
        return {"kind": "capped", "cap": high, "backoff": rest}
    return {"kind": "at_least", "floor": low, "backoff": inner}


def _in_a_row(kind: Any, backoff: Any) -> list[Backoff]:
    """What was joined from left to right, as many as one table may join."""
    row: list[Backoff] = []
    while type(backoff) is kind and len(row) < MOST_BACKOFFS - 1:
        row.append(backoff.second)
        backoff = backoff.first
    return [backoff, *reversed(row)]


def _log(listener: LogRetries) -> dict[str, Any] | None:
    logger = listener.logger
    if not isinstance(logger, logging.Logger) or logging.getLogger(logger.name) is not logger:
        return None
    return {"kind": "log_retries", "logger": logger.name}


def _per_key(budget: PerKey) -> dict[str, Any]:
    settings = {"budget": budget.budget, "size": budget.size}
    if budget.key is per_host().key:
        return {"kind": "per_host", **settings}
    return {"kind": "per_key", "key": budget.key, **settings}


_SPECIAL: Final[dict[type, Callable[[Any], dict[str, Any] | list[float] | None]]] = {
    Schedule: lambda each: list(each.waits),
    _Limited: _limited,
    _Taken: lambda each: {"kind": "take", "n": each.n, "backoff": each.backoff},
    _Jittered: lambda each: {"kind": "jittered", "jitter": each.jitter, "backoff": each.backoff},
    _Then: lambda each: {"kind": "then", "backoffs": _in_a_row(_Then, each)},
    _Sum: lambda each: {"kind": "sum", "backoffs": _in_a_row(_Sum, each)},
    Transient: lambda _: {"kind": "transient"},
    FirstOf: lambda each: {"kind": "first_of", "rules": each.classifiers},
    OnStatus: lambda each: {"kind": "status", "statuses": each.statuses, "reason": each.reason},
    LogRetries: _log,
    PerKey: _per_key,
}

_KINDS: Final = {
    spec.makes: (mark.removeprefix("="), spec)
    for mark, spec in SPECS.items()
    if spec.makes is not None
}


def _shortest(number: float) -> float | str:
    if number == math.inf:
        return "inf"
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
