"""A policy for each endpoint: by method and path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from retrykit._frozen import FrozenMap
from retrykit._session import Selection
from retrykit._validate import shown
from retrykit._value import Value
from retrykit.facts._shapes import request_of
from retrykit.facts.methods import is_token
from retrykit.policy import RetryPolicy

if TYPE_CHECKING:
    from retrykit._executor import RetryExecutor
    from retrykit.outcome import Call
    from retrykit.policy import PolicyFactory

_WILD: Final = re.compile(r"(\*\*|\*|\{[^{}/]*\})")


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ByEndpoint(Value, Selection):
    """A policy factory that picks a policy by the request's method and path.

    Made by `by_endpoint`, which says how patterns are written.
    """

    endpoints: Mapping[str, PolicyFactory]
    _: KW_ONLY
    default: PolicyFactory

    def __init__(
        self, endpoints: Mapping[str, PolicyFactory], *, default: PolicyFactory | None = None
    ) -> None:
        if not isinstance(endpoints, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
            raise TypeError(f"endpoints must map patterns to policies, got {shown(endpoints)}")
        otherwise = RetryPolicy() if default is None else default
        for name, policy in (*endpoints.items(), ("default", otherwise)):
            if isinstance(policy, type) or not hasattr(policy, "new_executor"):
                raise TypeError(f"endpoints[{name!r}] must be a policy, got {shown(policy)}")
        for pattern in endpoints:
            _compiled(pattern)
        self._put(endpoints=FrozenMap(endpoints), default=otherwise)

    def policy_for(self, call: Call, /) -> PolicyFactory:
        """The policy of the first pattern that matches the call's request, or the default."""
        request = request_of(call)
        if request.method is None:
            return self.default
        return self.pick(request.method, request.url or "")

    def pick(self, method: str, url: str) -> PolicyFactory:
        """The policy for a request with this method to this URL or path."""
        path = url.partition("?")[0].partition("#")[0]
        if "//" in path:
            path = "/" + path.partition("//")[2].partition("/")[2]
        for pattern, policy in self.endpoints.items():
            wanted, shape = _compiled(pattern)
            if wanted in ("*", method) and shape.fullmatch(path):
                return policy
        return self.default

    def new_executor(self, call: Call, /) -> RetryExecutor:
        """An executor of the policy that is picked."""
        return self.policy_for(call).new_executor(call)


def by_endpoint(
    endpoints: Mapping[str, PolicyFactory], *, default: PolicyFactory | None = None
) -> ByEndpoint:
    """A policy for each method and path, the first pattern that matches, else `default`.

    A pattern is a method (or `*` for any) and a path: `"GET /users/*"`. In the path `*` and
    `{name}` stand for one segment, `**` for any number of them. The method is case-sensitive, and
    the query does not count. The request is read off the call's arguments, as the clients' adapters
    have it; a call without one follows `default` (omitted: `RetryPolicy()`).

    >>> policy = by_endpoint(
    ...     {"GET /users/{id}": RetryPolicy(attempts=3), "* /admin/**": RetryPolicy(attempts=1)}
    ... )
    >>> policy.pick("GET", "/users/7").attempts, policy.pick("POST", "/admin/a/b").attempts
    (3, 1)
    """
    return ByEndpoint(endpoints, default=default)


_seen: dict[str, tuple[str, re.Pattern[str]]] = {}


def _compiled(pattern: str) -> tuple[str, re.Pattern[str]]:
    """A pattern's method and the shape of its path; remembered, since policies are few."""
    known = _seen.get(pattern)
    if known is not None:
        return known
    method, space, path = pattern.partition(" ") if isinstance(pattern, str) else ("", "", "")  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is type-checked
    if not space or not is_token(method) or not path.startswith("/"):
        raise ValueError(
            f'endpoints must have patterns such as "GET /users/*", got {shown(pattern)}'
        )
    parts = [
        {"**": ".*"}.get(part, "[^/]+") if _WILD.fullmatch(part) else re.escape(part)
        for part in _WILD.split(path)
    ]
    if len(_seen) < 1000:
        _seen[pattern] = (method, re.compile("".join(parts)))
        return _seen[pattern]
    return method, re.compile("".join(parts))
