"""The JSON Schema agrees with what is read."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tomllib

import jsonschema
import pytest

from retrykit import RetryPolicy
from retrykit.config import ConfigError, dump, from_mapping, json_schema
from retrykit.config._specs import SPECS, EndpointSection, PolicySection

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def is_valid(section):
    return VALIDATOR.is_valid({"policies": {"a": section}})


def test_it_is_a_schema_and_it_is_json():
    """For any tool that takes one."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_file_with_everything_is_valid(data):
    """Whatever is read may be written."""
    document = tomllib.loads((data / "retrykit.toml").read_text())
    assert [error.json_path for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "section",
    [
        {"atempts": 3},
        {"attempts": 0},
        {"attempts": 1.5},
        {"attempts": "5"},
        {"deadline": "soon"},
        {"deadline": "5"},
        {"deadline": -1},
        {"deadline": True},
        {"backoff": 5},
        {"backoff": {}},
        {"backoff": {"kind": "exponental", "base": 1}},
        {"backoff": {"kind": "exponential"}},
        {"backoff": {"kind": "exponential", "base": 1, "jiter": "full"}},
        {"backoff": {"kind": "capped", "cap": 1, "backoff": {"kind": "constant"}}},
        {"backoff": {"kind": "then", "backoffs": [[1]]}},
        {"backoff": ["x"]},
        {"limits": {"timed_out": -1}},
        {"limits": {"timedout": 1}},
        {"unsatisfied": "rais"},
        {"nested": True},
        {"on": []},
        {"on": [5]},
        {"on": [{"kind": "exception"}]},
        {"on_status": 99},
        {"budget": {"reserve": 5}},
        {"budget": True},
        {"server_delay": {"limt": 5}},
        {"listeners": [5]},
        {"stop_when": True},
        {"name": 5},
        {"endpoints": {"GET /x": {"endpoints": {}}}},
    ],
)
def test_what_is_refused_by_its_shape_is_refused_by_the_schema(section):
    """What only the strategies can tell, a cap below its base, is theirs to tell."""
    assert not is_valid(section)
    with pytest.raises(ConfigError):
        from_mapping({"a": section}, environ={})


@pytest.mark.parametrize(
    "section",
    [
        {"attempts": float("inf")},
        {"attempts": "inf"},
        {"deadline": "1h30m"},
        {"deadline": False},
        {"deadline": None},
        {"budget": None},
        {"budget": "ratio"},
        {"on": "http"},
        {"on": {"kind": "http"}},
        {"never": "KeyError"},
        {"on_status": 404},
        {"listeners": "log_retries"},
        {"server_delay": {"kind": "standard"}},
        {"server_delay": "standard"},
        {"name": False},
    ],
)
def test_a_shorthand_is_valid(section):
    """What stands for a list of one, for nothing, for no limit."""
    assert is_valid(section)
    from_mapping({"a": section}, environ={})


def test_what_is_written_is_valid():
    """A plain one; the round trips have the others."""
    assert is_valid(dump(RetryPolicy(attempts=float("inf"), deadline=5)))


def test_each_key_of_a_policy_is_described():
    """Editors show it beside the key."""
    for name in ("PolicySection", "EndpointSection"):
        properties = SCHEMA["$defs"][name]["properties"]
        assert {key for key, each in properties.items() if not each.get("description")} == set()
    kinds = [each for name, each in SCHEMA["$defs"].items() if name.endswith("Spec")]
    assert len(kinds) == len(SPECS)
    assert all(each["description"] for each in kinds)


def test_a_kind_says_its_name():
    """One table, one kind."""
    for mark, spec in SPECS.items():
        kind = SCHEMA["$defs"][spec.__name__]["properties"]["kind"]
        assert kind["const"] == mark.removeprefix("=")


def defaults(spec):
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in spec.model_fields.items()
        if name != "kind" and not field.is_required()
    }


@pytest.mark.parametrize("mark", sorted(mark for mark, spec in SPECS.items() if spec.makes))
def test_a_default_that_is_told_is_the_strategy_s_own(mark):
    """The schema tells it, and only the strategy has it."""
    spec = SPECS[mark]
    parameters = inspect.signature(spec.makes).parameters
    for name, default in defaults(spec).items():
        own = parameters[name].default
        if mark == "=per_host" and name == "budget":
            continue  # made anew for each
        if mark == "=http" and name == "key_names":
            own = tuple(own)
        assert default == own, name


def test_a_policy_s_defaults_are_its_own():
    """As above."""
    policy = RetryPolicy()
    for name, default in defaults(EndpointSection).items():
        if name in ("on", "never", "on_status"):
            continue
        own = getattr(policy, name)
        assert default == (list(own) if isinstance(own, tuple) else own), name
    assert defaults(PolicySection)["endpoints"] == {}


def test_it_is_made_without_a_word():
    """pydantic warns of what it cannot show; warnings are errors to some."""
    program = "import json, retrykit.config; json.dumps(retrykit.config.json_schema())"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
