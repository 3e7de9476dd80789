"""Named policies from TOML, mappings and the environment, for `@retry(policy="github")`.

>>> from retrykit import retry
>>> _ = from_mapping({"github": {"attempts": 2, "backoff": [0]}}, environ={})
>>> @retry(policy="github")
... def fetch(failures=[ConnectionError]) -> str:
...     if failures:
...         raise failures.pop()
...     return "at the second try"
>>> fetch()
'at the second try'

Nothing is read before it is asked to: no file, and of the environment nothing, until `load` or
`from_mapping` is called. What a file says is data: it causes no import and runs no code.
"""

from __future__ import annotations

try:
    import pydantic  # noqa: F401 - asked for here, so that one error tells the remedy  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "pydantic":
        raise
    raise ImportError(
        "retrykit.config needs pydantic: pip install 'retrykit[config]'", name=error.name
    ) from error

from retrykit.config._dump import dump, dumps
from retrykit.config._errors import ConfigError, Problem
from retrykit.config._names import register, register_exception
from retrykit.config._sources import from_mapping, json_schema, load, register_policy, reload

__all__ = [
    "ConfigError",
    "Problem",
    "dump",
    "dumps",
    "from_mapping",
    "json_schema",
    "load",
    "register",
    "register_exception",
    "register_policy",
    "reload",
]
