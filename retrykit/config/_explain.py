"""From pydantic's errors to problems in the words of who wrote the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from retrykit._validate import shown
from retrykit.config import _toml
from retrykit.config._errors import MOST_PROBLEMS, Place, Problem, header_of, shown_key
from retrykit.config._names import nearest
from retrykit.config._specs import (
    KINDLESS,
    MARKS,
    SPECS,
    Document,
    EndpointSection,
    PolicySection,
    Spec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_WANTED: Final = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "list_type": "must be a list",
    "model_type": "must be a table",
    "string_type": "must be a text",
}
_FIELD: Final = re.compile(r"([a-z_]+)(?:\[[^\]]*\])? ((?:must|takes) .*)", re.DOTALL)


def problems_of(
    error: ValidationError,
    document: Any,
    *,
    source: str,
    prefix: tuple[str, ...],
    origins: Mapping[Place, str],
) -> tuple[list[Problem], int]:
    """The first problems, and how many more there are."""
    every = error.errors(include_url=False)
    problems: list[Problem] = []
    for each in every[:MOST_PROBLEMS]:
        place, value, text = _explained(each, document)
        section, rest = header_of(place, prefix)
        problems.append(
            Problem(_origin(place, origins) or source, section, shown_key(rest), value, text)
        )
    return problems, len(every) - len(problems)


def _explained(error: ErrorDetails, document: Any) -> tuple[Place, Any, str]:
    """The place, the value and the text."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    place, spec = _place(error["loc"], document)
    if kind == "missing":
        return place, None, "is missing"
    if kind == "extra_forbidden":
        hint = nearest(str(place[-1]), spec.model_fields)
        return place, value, f"is no key of {_called(spec)} (got {shown(value)}){hint}"
    if kind == "unknown_name":
        name = context["name"]
        short = name if len(name) <= 40 else "..."
        hint = nearest(name, context["names"]())
        hint = hint or f': {context["remedy"]}("{short}", ...) makes it known'
        return place, value, f"{context['wanted']}, got {shown(name)}{hint}"
    if kind == "no_kind":
        return _kind(place, value, context)
    if kind == "value_error":
        return _refused(place, spec, document, value, str(context["error"]))
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", context["expected"])
        wanted = f"must be one of {', '.join(map(repr, allowed))}, got {shown(value)}"
        return place, value, wanted + _near(value, allowed)
    if kind == "too_short":
        least = context["min_length"]
        return place, value, f"must have at least {least}" if least > 1 else "must not be empty"
    if kind == "too_long":
        return place, value, f"must have at most {context['max_length']}"
    wanted = _WANTED.get(kind, error["msg"].lower())
    return place, value, f"{wanted}, got {shown(value)}"


def _place(loc: tuple[int | str, ...], document: Any) -> tuple[Place, type[Spec]]:
    """The keys that lead to a value or a key, without pydantic's marks; and the model there."""
    place: list[int | str] = []
    spec: type[Spec] = Document
    above = document
    for each in loc[:-1] if loc[-1:] == ("[key]",) else loc:
        if each in MARKS and not (_toml.is_table(above) and each in above):
            spec = SPECS.get(str(each), spec)
            continue
        place.append(each)
        if len(place) == 2:
            spec = PolicySection
        elif len(place) == 4 and place[2] == "endpoints":
            spec = EndpointSection
        above = _at(above, each)
    return tuple(place), spec


def _at(above: Any, key: int | str) -> Any:
    """What is there; a single item stands for the list that it is the only one of."""
    if isinstance(key, int):
        return above[key] if _toml.is_list(above) and key < len(above) else above
    return above.get(key) if _toml.is_table(above) else None


def _refused(
    place: Place, spec: type[Spec], document: Any, value: Any, text: str
) -> tuple[Place, Any, str]:
    """What a value's own check said; a strategy's check names the key that is to blame."""
    field, rest = blamed(text)
    if field in _made_by(_walk(document, place), spec).model_fields:
        inner = (*place, field)
        found = _walk(document, inner)
        # The check saw what was read: 0.1 for "100ms".
        wanted, got, seen = rest.rpartition(", got ")
        return inner, found, f"{wanted}{got}{seen if found is None else shown(found)}"
    return place, value, text if text.startswith(("must ", "is ")) else f"is refused: {text}"


def blamed(text: str) -> tuple[str, str]:
    """The field that a check's text begins with, and the rest of the text; or none, and the text.

    >>> blamed("cap must be finite, got inf")
    ('cap', 'must be finite, got inf')
    """
    named = _FIELD.fullmatch(text)
    return ("", text) if named is None else (named[1], named[2])


def _made_by(table: Any, spec: type[Spec]) -> type[Spec]:
    kind = table.get("kind", KINDLESS) if _toml.is_table(table) else table
    return SPECS.get(f"={kind}", spec)


def _walk(document: Any, place: Place) -> Any:
    for each in place:
        document = _at(document, each)
    return document


def _kind(place: Place, value: Any, context: dict[str, Any]) -> tuple[Place, Any, str]:
    """A table without its kind, or with one that there is not, or no table at all."""
    kinds = context["kinds"].split(",")
    allowed = ", ".join(map(repr, kinds))
    if not _toml.is_table(value):
        several = "a list of durations, " if context["listed"] else ""
        forms = f"{several}a name, or a table with a kind ({allowed})"
        return place, value, f"must be {forms}, got {shown(value)}"
    if "kind" not in value:
        return (*place, "kind"), None, f"is missing: it must be one of {allowed}"
    kind = value["kind"]
    wanted = f"must be one of {allowed}, got {shown(kind)}{_near(kind, kinds)}"
    return (*place, "kind"), kind, wanted


def _near(value: Any, allowed: list[str]) -> str:
    hint = nearest(value, allowed) if isinstance(value, str) else ""
    return hint if "did you mean" in hint else ""


def _called(spec: type[Spec]) -> str:
    if spec is Document:
        return "the configuration"
    if issubclass(spec, EndpointSection):
        return "a policy" if spec is PolicySection else "an endpoint"
    kind = next(mark for mark, each in SPECS.items() if each is spec)
    return f"the kind {kind.removeprefix('=')!r}"


def _origin(place: Place, origins: Mapping[Place, str]) -> str | None:
    """The variable that a value, or what it is a part of, came from."""
    for length in range(len(place), 2, -1):
        if place[:length] in origins:
            return origins[place[:length]]
    return None
