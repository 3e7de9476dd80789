"""The values of a configuration: each read from what TOML, a mapping or the environment has for it.

A validator here raises nothing but `ValueError`, whose text goes on where the value's place ends:
`must be a number, got 'x'`.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from retrykit._validate import is_number, seconds, shown, whole
from retrykit.config._durations import PATTERN, WANTED, parse_duration
from retrykit.config._names import exception_named, exceptions
from retrykit.config._toml import is_list
from retrykit.decision import RetryReason
from retrykit.facts.methods import RetryableMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MOST_ITEMS: Final = 1_000
"""How long a list may be."""


class EnvText(str):
    """A value from the environment, where everything is text: read by what its place takes."""

    __slots__ = ()


def checked_by(check: Callable[[str, Any], Any], value: object) -> Any:
    """What the check of a policy's field answers, its error's text without the field's name."""
    try:
        return check("it", value)
    except (TypeError, ValueError) as error:
        raise ValueError(str(error).removeprefix("it ")) from None


def _word(value: object) -> object:
    # A literal is compared by its type as well.
    return str(value) if isinstance(value, EnvText) else value


WORD: Final = BeforeValidator(_word)
"""Beside a `Literal`, for what comes from the environment."""


def text(value: object, wanted: str) -> str:
    """A plain string; else the error says what was wanted."""
    if not isinstance(value, str):
        raise ValueError(f"must be {wanted}, got {shown(value)}")  # noqa: TRY004 - see the module
    return str(value)


def as_list(value: object) -> object:
    """A single item stands for a list of one; in the environment, commas separate."""
    if isinstance(value, EnvText):
        return [EnvText(each) for each in map(str.strip, value.split(",")) if each]
    return value if is_list(value) else [value]


def _plain(value: object) -> object:
    """What a text from the environment is where a number belongs."""
    if not isinstance(value, EnvText) or len(value) > 40 or not value.isascii() or "_" in value:
        return value
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            pass
    return value


def _duration(value: object) -> float:
    plain = _plain(value)
    if isinstance(plain, str):
        return parse_duration(plain)
    if not (is_number(plain) or isinstance(plain, timedelta)):
        raise ValueError(f"must be {WANTED}, got {shown(value)}")
    return float(checked_by(seconds, plain))


def _duration_or_none(value: object) -> float | None:
    return None if is_nothing(value) else _duration(value)


def _limit(value: object) -> float | None:
    if is_nothing(value):
        return None
    limit = _duration(value)
    if not limit:
        raise ValueError(f"must be above 0 (false: no limit), got {shown(value)}")
    return limit


def is_nothing(value: object) -> bool:
    """Whether a value says that there is none: `false`, for TOML has no null."""
    if isinstance(value, EnvText):
        return value.lower() in ("false", "none")
    return value is False or value is None


def _number(value: object) -> float:
    plain = _plain(value)
    if not is_number(plain):
        raise ValueError(f"must be a number, got {shown(value)}")
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"must be finite, got {shown(value)}")
    return number


def _whole(low: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        try:
            return whole("it", _plain(value), low=low)
        except (TypeError, ValueError):
            raise ValueError(
                f"must be a whole number of at least {low}, got {shown(value)}"
            ) from None

    return check


def _attempts(value: object) -> float:
    plain = _plain(value)
    if plain in ("inf", math.inf):
        return math.inf
    try:
        return whole("it", plain, low=1)
    except (TypeError, ValueError):
        raise ValueError(
            f"must be a whole number of at least 1, or inf, got {shown(value)}"
        ) from None


def _flag(value: object) -> object:
    if isinstance(value, EnvText):
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    return value


def _name(value: object) -> str | None:
    if value is False or value is None:
        return None
    return text(value, "a text (false: no name)")


def _exception(value: object) -> type[BaseException]:
    wanted = "must be the name of an exception type"
    name = text(value, wanted.removeprefix("must be "))
    try:
        return exception_named(name)
    except LookupError:
        raise unknown(wanted, name, exceptions, "register_exception") from None


def unknown(
    wanted: str, name: str, names: Callable[[], list[str]], remedy: str
) -> PydanticCustomError:
    """The error for a name that means nothing.

    `names` are those that do, and `remedy` makes one known: for the text, which is made only if the
    error is told.
    """
    context = {"wanted": wanted, "name": str(name), "names": names, "remedy": remedy}
    return PydanticCustomError("unknown_name", "unknown name", context)


def _method(value: object) -> str | RetryableMethod:
    method = text(value, "an HTTP method")
    return RetryableMethod(method) if method in set(RetryableMethod) else method


class ListOf:
    """A list's JSON Schema that allows a single item as well."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        listed = handler(core_schema)
        return {"anyOf": [listed, listed["items"]]}


class KeyedByReason:
    """A table's JSON Schema that tells which keys there are."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core_schema), "propertyNames": {"enum": [*RetryReason]}}


SECONDS: Final = object()
"""Marks the annotations of durations, for what writes them."""


def _list_of(item: Any) -> Any:
    length = Field(max_length=MOST_ITEMS)
    return Annotated[list[item], BeforeValidator(as_list), length, ListOf()]


NOTHING: Final[dict[str, Any]] = {"enum": [False, None], "description": "None."}

_DURATIONS: Final[list[dict[str, Any]]] = [
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": PATTERN, "examples": ["250ms", "30s", "1h30m"]},
]
_ATTEMPTS: Final[list[dict[str, Any]]] = [
    {"type": "integer", "minimum": 1},
    {"const": "inf"},
    {"type": "number", "exclusiveMinimum": 1.7976931348623157e308},  # TOML's own inf
]
_TEXT: Final = {"type": "string", "minLength": 1}

if TYPE_CHECKING:
    # What each is once it is read: pydantic's annotations are no types to a type checker.
    Duration: TypeAlias = float
    MaybeDuration: TypeAlias = float | None
    Limit: TypeAlias = float | None
    Number: TypeAlias = float
    Attempts: TypeAlias = float
    Positive: TypeAlias = int
    NotNegative: TypeAlias = int
    Status: TypeAlias = int
    Flag: TypeAlias = bool
    Name: TypeAlias = str | None
    Reason: TypeAlias = RetryReason
    Exceptions: TypeAlias = list[type[BaseException]]
    Statuses: TypeAlias = list[int]
    Names: TypeAlias = Sequence[str]
    Method: TypeAlias = str | RetryableMethod | None
else:
    Duration = Annotated[
        float, PlainValidator(_duration), WithJsonSchema({"anyOf": _DURATIONS}), SECONDS
    ]
    MaybeDuration = Annotated[
        float | None,
        PlainValidator(_duration_or_none),
        WithJsonSchema({"anyOf": [*_DURATIONS, NOTHING]}),
        SECONDS,
    ]
    Limit = Annotated[
        float | None,
        PlainValidator(_limit),
        WithJsonSchema({"anyOf": [*_DURATIONS, NOTHING]}),
        SECONDS,
    ]
    Number = Annotated[float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
    Attempts = Annotated[float, PlainValidator(_attempts), WithJsonSchema({"anyOf": _ATTEMPTS})]
    Positive = Annotated[
        int, PlainValidator(_whole(1)), WithJsonSchema({"type": "integer", "minimum": 1})
    ]
    NotNegative = Annotated[
        int, PlainValidator(_whole(0)), WithJsonSchema({"type": "integer", "minimum": 0})
    ]
    Flag = Annotated[bool, BeforeValidator(_flag)]
    Name = Annotated[
        str | None, PlainValidator(_name), WithJsonSchema({"anyOf": [{"type": "string"}, NOTHING]})
    ]
    Reason = Annotated[RetryReason, Strict(False)]
    Exceptions = _list_of(Annotated[Any, PlainValidator(_exception), WithJsonSchema(_TEXT)])
    Statuses = _list_of(
        Annotated[
            int, PlainValidator(_whole(100)), WithJsonSchema({"type": "integer", "minimum": 100})
        ]
    )
    Names = _list_of(str)
    Method = Annotated[
        Any,
        PlainValidator(_method),
        WithJsonSchema({"anyOf": [{"enum": [*RetryableMethod]}, _TEXT]}),
    ]
