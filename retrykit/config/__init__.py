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

A section `[policies.NAME]` (in a `pyproject.toml`: `[tool.retrykit.policies.NAME]`) has the fields
of a `RetryPolicy` for keys, all optional:

- `on`: what to retry, one or a list, asked in turn: an exception's name, `"http"`, `"transient"`, a
  registered classifier's name, or a table of the kind `exception` (`types`, `when`, `after`,
  `causes`, `reason`), `result` (`predicate`, `reason`), `status` (`statuses`, `reason`), `http`
  (`method`, `unless`, `key_names`), `never` (`types`) or `first_of` (`rules`). Before it are asked
  `never` (names of exceptions) and `on_status` (a list of statuses).
- `attempts` (`inf`: no limit), `limits` (a table by reason), `deadline`, `attempt_timeout`.
- `backoff`: a list of waits, or a table of the kind `constant`, `exponential`, `linear`,
  `polynomial`, `fibonacci`, `decorrelated`, `schedule`, `by_reason` (`branches`, `default`), or
  around another `backoff`: `capped` (`cap`), `at_least` (`floor`), `take` (`n`), `jittered`
  (`jitter`), `custom`; or of several `backoffs`: `then`, `sum`. A `jitter` is `"full"`, `"equal"`,
  `"none"`, `"proportional"` or `"additive"`, or a table of one of these kinds.
- `server_delay`: a table with what `ServerDelay` takes.
- `budget`: a table of the kind `ratio`, `token`, `per_key` (`key`, `budget`, `size`) or `per_host`.
- `unsatisfied`, `nested`, `name` (omitted: the section's), `listeners` (`"log_retries"`, registered
  names), `stop_when` (a registered name).
- `endpoints`, for HTTP: a section for each pattern (`"GET /search/*"`) with what differs there.

The other keys of a table are the parameters of the strategy that it makes, as in code. A duration
is a number of seconds or a text (`"250ms"`, `"30s"`, `"1h30m"`); `false` is none; a kind that needs
nothing else may stand alone (`budget = "ratio"`). Exceptions are named as builtins (`"OSError"`),
by their qualified name where retrykit knows them (`"httpx.ReadTimeout"`), or as registered.

The environment goes on top: `RETRYKIT_GITHUB__ATTEMPTS=1`, and deeper
`RETRYKIT_GITHUB__BACKOFF__CAP=5s`; lists with commas, tables as TOML writes them.
(`RETRYKIT_DISABLED` is the kill switch, and no policy.)
"""

from __future__ import annotations

try:
    import pydantic  # noqa: F401 - asked for here, so that one error tells the remedy  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "pydantic":
        raise
    raise ImportError(
        "retrykit.config needs pydantic: install retrykit with the extra [config]", name=error.name
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
