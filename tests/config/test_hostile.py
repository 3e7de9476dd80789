"""Whatever a file holds: bounded work, no code run, one clear error."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit import Call
from retrykit.config import ConfigError, from_mapping, load
from retrykit.config._toml import LONGEST, parse

K = 100_000


def error_of(function, *args, **kwargs):
    """The `ValueError` that comes out; any other error fails the test."""
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return error
    return None


def deep(levels, inside="1"):
    return "x = " + "[" * levels + inside + "]" * levels


HOSTILE = {
    "too long": "#" * (LONGEST + 1),
    "brackets": "a = " + "[" * K,
    "balanced brackets": deep(K),
    "inline tables": "a = " + "{a = " * K,
    "a dotted key": ".".join("a" * K) + " = 1",
    "a dotted key of quotes": ".".join(['""'] * K) + " = 1",
    "a dotted header": "[" + ".".join("a" * K) + "]\n" + "b = 1\n" * (K // 10),
    "a dotted array of tables": "[[" + " . ".join("a" * 1000) + "]]",
    "a dotted key in a table": "a = {" + ".".join("a" * 1000) + " = 1}",
    "a long number": "[policies.a]\nattempts = " + "9" * K,
    "nested deeper than read": deep(40),
    "an unended text": 'a = "' + "x" * K,
    "an unended long text": "a = '''" + "''" * K,
    "spaces": "a" + " " * K + ".",
    "dots": "." * K,
    "quotes": '"' * K,
    "a zero byte": "a = 1\x00",
    "a number that does not fit": "[policies.a]\ndeadline = 1e999",
    "a long duration": f"[policies.a]\ndeadline = '{'9' * K}s'",
    "a long name": f"[policies.a]\non = '{'x' * K}'",
    "a long key": f"[policies.a]\n{'x' * K} = 1",
    "many unknown keys": "[policies.a]\n" + "\n".join(f"attempt{i} = 1" for i in range(K // 10)),
    "many policies": "\n".join(f"[policies.p{i}]\nattempts = 0" for i in range(K // 20)),
    "a long row": "[policies.a]\nbackoff = { kind = 'then', backoffs = [" + "[1]," * K + "] }",
    "a long list": "[policies.a]\nbackoff = [" + "1," * K + "]",
    "many names": "[policies.a]\non = [" + "'OSError'," * (K // 2) + "]",
    "many wrong names": "\n".join(
        f"[policies.p{i}]\non = [{', '.join(f'{chr(39)}OSError{j}{chr(39)}' for j in range(900))}]"
        for i in range(60)
    ),
    "a date": "[policies.a]\ndeadline = 2020-01-01\nattempts = 07:32:00",
    "nested backoffs": "[policies.a]\nbackoff = "
    + "{kind='take', n=1, backoff=" * 40
    + "[1]"
    + "}" * 40,
    "other types": "policies = [[1], {}, 'x']",
    "policies that are none": "policies = 5",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_bounded_time(tmp_path, name):
    """Shapes that take a TOML reader, or a nearest-word search, by the square of their length."""
    path = tmp_path / "retrykit.toml"
    path.write_bytes(HOSTILE[name].encode())
    started = time.process_time()
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert time.process_time() - started < 5
    assert len(str(caught.value)) < 100_000


def test_a_device_without_end_is_read_to_the_limit():
    """And no further."""
    with pytest.raises(ConfigError, match="must not be longer than 1,000,000 bytes"):
        load("/dev/zero", environ={})


@pytest.mark.parametrize("depth", [100_000, 33])
def test_a_deep_mapping_is_refused(depth):
    """Without a RecursionError."""
    value = 1
    for _ in range(depth):
        value = {"a": value}
    with pytest.raises(ConfigError, match="must not be nested deeper than 32 levels"):
        from_mapping({"a": value}, environ={})


def test_a_mapping_that_holds_itself_is_refused():
    """However often."""
    mapping = {}
    for number in range(10):
        mapping[f"p{number}"] = mapping
    with pytest.raises(ConfigError, match=r"must not (have more than 100,000 values|be nested)"):
        from_mapping(mapping, environ={})


def test_a_mapping_without_end_is_refused():
    """A hundred thousand values are more than any configuration has."""
    with pytest.raises(ConfigError, match="must not have more than 100,000 values"):
        from_mapping({f"p{number}": {} for number in range(100_001)}, environ={})


def test_a_mapping_s_keys_are_text_in_the_end():
    """What is none is no key of anything."""
    with pytest.raises(ConfigError, match="is no key of a policy"):
        from_mapping({"a": {5: 1}}, environ={})


@pytest.mark.parametrize("value", ["[" * 50_000, "{a=" * 50_000, "{" + "a." * 5000 + "a=1}"])
def test_a_hostile_variable_is_refused(value):
    """The same limits as for a file."""
    with pytest.raises(ConfigError, match="RETRYKIT_A__BACKOFF: "):
        from_mapping({"a": {}}, environ={"RETRYKIT_A__BACKOFF": value})


def test_no_name_runs_code(write, tmp_path):
    """Neither by an import nor by evaluation."""
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    sys.path.insert(0, str(tmp_path))
    try:
        for name in ("evil.Error", "evil", "__import__('evil')", "evil:Error", "os.system"):
            for key in ("on", "never", "listeners", "stop_when", "backoff", "budget"):
                with pytest.raises(ConfigError):
                    load(write(f'[policies.a]\n{key} = "{name}"'), environ={})
        assert "evil" not in sys.modules
    finally:
        sys.path.remove(str(tmp_path))


def test_the_deepest_backoff_that_is_read_can_be_used():
    """What is read must not fail at the first wait."""
    inner = [1]
    for _ in range(13):
        inner = {"kind": "sum", "backoffs": [inner, *([[1]] * 7)]}
    section = {"on": "OSError", "backoff": inner}
    policy = from_mapping({"a": section}, environ={}, register=False)["a"]
    assert list(policy.schedule()) == [1.0 + 13 * 7]
    assert policy.new_executor(Call(print)) is not None
    hash(policy), repr(policy)
    assert policy == from_mapping({"a": section}, environ={}, register=False)["a"]


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["exponential", "constant", "ratio", "http", "OSError", "1s", "take"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "backoff", "on", "base", "cap", "delay", "types", "budget", "endpoints"]
            )
            | st.text(max_size=8),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
keys = st.sampled_from(
    [
        *("on", "never", "on_status", "attempts", "limits", "deadline", "attempt_timeout"),
        *("backoff", "server_delay", "budget", "unsatisfied", "listeners", "stop_when"),
        *("nested", "name", "endpoints", "x"),
    ]
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(keys, json, max_size=6))
def test_any_values_are_read_or_refused(section):
    """Nothing but a `ConfigError` comes out, in words of the library's own."""
    error = error_of(from_mapping, {"a": section}, environ={}, register=False)
    if error is not None:
        assert len(error.problems) >= 1
        for problem in error.problems:
            assert problem.text
            assert "Input should" not in str(problem)
            assert "input should" not in str(problem)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_toml_or_is_not(text):
    """Nothing but a `ValueError` comes out of the reader."""
    error = error_of(parse, text)
    assert error is None or str(error).startswith(("is ", "must "))


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("ATTEMPTS", "DEADLINE", "ON", "BACKOFF", "BACKOFF__CAP", "BACKOFF__KIND", "X"),
                *("LIMITS__TIMED_OUT", "BUDGET", "BUDGET__KIND", "NAME", "", "__", "ENDPOINTS"),
            ]
        ),
        st.text(max_size=20) | st.sampled_from(["1", "5s", "constant", "none", "{}", "[]"]),
        max_size=5,
    )
)
def test_any_variables_are_read_or_refused(variables):
    """The same of the environment."""
    environ = {f"RETRYKIT_A__{name}": value for name, value in variables.items()}
    error = error_of(from_mapping, {"a": {}}, environ=environ, register=False)
    assert error is None or "RETRYKIT_A__" in str(error) or "policies.a" in str(error)
