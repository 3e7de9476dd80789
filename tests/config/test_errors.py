"""What is wrong is told all at once, with its place, and in words for who has to mend it."""

from __future__ import annotations

import copy
import pickle

import pytest

from retrykit import RetryKitError
from retrykit.config import ConfigError, Problem, from_mapping, load, register


def problems(section, name="a"):
    """The lines about one section, without where it is."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({name: section}, environ={})
    return [str(each).removeprefix("mapping [policies.a]: ") for each in caught.value.problems]


def test_every_error_of_a_file_is_told(data):
    """File, section, key, value, what is allowed; and the nearest for what is not known."""
    path = data / "broken.toml"
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    start = f"{path} [policies."
    assert str(caught.value).splitlines() == [
        "9 problems in the configuration:",
        (
            f"{start}github]: on[0] must name an exception type or a classifier, got"
            " 'ConectionError': did you mean 'ConnectionError'?"
        ),
        (
            f"{start}github]: on[1].kind must be one of 'transient', 'http', 'status', 'exception',"
            " 'result', 'never', 'first_of', got 'exeption': did you mean 'exception'?"
        ),
        f"{start}github]: attempts must be a whole number of at least 1, or inf, got 0",
        (
            f"{start}github]: deadline must be seconds as a number, or a text such as"
            ' "250ms", "30s" or "1h30m", got \'soon\''
        ),
        f"{start}github]: backoff.cap must be at least the base, 1, got '100ms'",
        f"{start}github]: atempts is no key of a policy (got 3): did you mean 'attempts'?",
        f"{start}polling]: backoff.delay is missing",
        (
            f"{start}polling]: backoff.dely is no key of the kind 'constant' (got 1): did you mean"
            " 'delay'?"
        ),
        f"{start}polling]: nested must be one of 'allow', 'suppress', got 'never'",
    ]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (5, "must be a table, got 5"),
        ({"attempts": True}, "attempts must be a whole number of at least 1, or inf, got True"),
        ({"attempts": "5"}, "attempts must be a whole number of at least 1, or inf, got '5'"),
        ({"attempts": 2.5}, "attempts must be a whole number of at least 1, or inf, got 2.5"),
        ({"attempts": -1}, "attempts must be a whole number of at least 1, or inf, got -1"),
        ({"deadline": 0}, "deadline must be above 0 (false: no limit), got 0"),
        ({"deadline": "0s"}, "deadline must be above 0 (false: no limit), got '0s'"),
        ({"deadline": -1}, "deadline must be at least 0, got -1"),
        ({"deadline": float("inf")}, "deadline must be finite, got inf"),
        ({"deadline": float("nan")}, "deadline must be finite, got nan"),
        (
            {"deadline": True},
            (
                'deadline must be seconds as a number, or a text such as "250ms", "30s" or "1h30m",'
                " got True"
            ),
        ),
        ({"limits": {"timed_out": -1}}, "limits.timed_out must be a whole number of at least 0"),
        (
            {"limits": {"timeout": 1}},
            "limits.timeout must be one of 'connection_failed', 'timed_out', 'throttled',",
        ),
        ({"limits": [1]}, "limits must be a table, got [1]"),
        ({"unsatisfied": "rais"}, "unsatisfied must be one of 'raise', 'return', got 'rais':"),
        ({"name": 5}, "name must be a text (false: no name), got 5"),
        ({"on": []}, "on must not be empty"),
        ({"on": [5]}, "on[0] must be a name, or a table with a kind ('transient', 'http',"),
        ({"on": ["KeyboardInterupt"]}, "on[0] must name an exception type or a classifier"),
        ({"never": [5]}, "never[0] must be the name of an exception type, got 5"),
        (
            {"never": "httpx.ReadTimeot"},
            (
                "never[0] must be the name of an exception type, got 'httpx.ReadTimeot':"
                " did you mean 'httpx.ReadTimeout'?"
            ),
        ),
        (
            {"never": "os.system"},
            (
                "never[0] must be the name of an exception type, got 'os.system':"
                ' register_exception("os.system", ...) makes it known'
            ),
        ),
        ({"on_status": 99}, "on_status[0] must be a whole number of at least 100, got 99"),
        ({"on_status": ["404"]}, "on_status[0] must be a whole number of at least 100, got '404'"),
        ({"listeners": ["log"]}, "listeners[0] must name a listener, got 'log': there are"),
        ({"stop_when": "x"}, "stop_when must be a registered name (false: none), got 'x': regis"),
        ({"stop_when": 5}, "stop_when must be a registered name (false: none), got 5"),
        ({"backoff": {}}, "backoff.kind is missing: it must be one of 'constant', 'exponential',"),
        ({"backoff": {"kind": 5}}, "backoff.kind must be one of 'constant', 'exponential',"),
        ({"backoff": 5}, "backoff must be a list of durations, a name, or a table with a kind"),
        ({"backoff": "5s"}, "backoff must name a backoff, got '5s': register("),
        ({"backoff": ["1s", "x"]}, "backoff[1] must be seconds as a number, or a text"),
        (
            {"backoff": {"kind": "exponential", "base": 1, "factor": 10**400}},
            "backoff.factor must be finite, got 1000",
        ),
        (
            {"backoff": {"kind": "exponential", "base": 1, "factor": "2"}},
            "backoff.factor must be a number, got '2'",
        ),
        ({"backoff": {"kind": "constant", "delay": -1}}, "backoff.delay must be at least 0, got"),
        (
            {"backoff": {"kind": "exponential", "base": 1, "factor": 0.5}},
            "backoff.factor must be at least 1, got 0.5",
        ),
        (
            {"backoff": {"kind": "exponential", "base": 1, "factor": float("nan")}},
            "backoff.factor must be finite, got nan",
        ),
        (
            {"backoff": {"kind": "exponential", "base": 1, "jitter": "ful"}},
            "backoff.jitter must name a jitter, got 'ful': did you mean 'full'?",
        ),
        (
            {"backoff": {"kind": "exponential", "base": 1, "jitter": {"kind": "proportional"}}},
            None,
        ),
        (
            {
                "backoff": {
                    "kind": "exponential",
                    "base": 1,
                    "jitter": {"kind": "proportional", "ratio": 2},
                }
            },
            "backoff.jitter.ratio must be at most 1, got 2",
        ),
        (
            {"backoff": {"kind": "capped", "cap": 1, "backoff": {"kind": "fibonaci", "base": 1}}},
            "backoff.backoff.kind must be one of",
        ),
        (
            {
                "backoff": {
                    "kind": "at_least",
                    "floor": 5,
                    "backoff": {"kind": "exponential", "base": 1, "cap": 2},
                }
            },
            "backoff.floor must be at most the cap, 2, got 5",
        ),
        (
            {"backoff": {"kind": "jittered", "jitter": "full", "backoff": "theirs"}},
            "backoff.backoff must name a backoff, got 'theirs': register(",
        ),
        (
            {
                "backoff": {
                    "kind": "jittered",
                    "jitter": "full",
                    "backoff": {"kind": "fibonacci", "base": 1},
                }
            },
            "backoff is refused: a backoff can be jittered once, and Fibonacci(1.0,",
        ),
        ({"backoff": {"kind": "then", "backoffs": [[1]]}}, "backoff.backoffs must have at least 2"),
        (
            {"backoff": {"kind": "sum", "backoffs": [[1]] * 9}},
            "backoff.backoffs must have at most 8",
        ),
        (
            {"backoff": {"kind": "by_reason", "default": [1], "branches": {"throtled": [1]}}},
            "backoff.branches.throtled must be one of",
        ),
        ({"server_delay": {"limt": 5}}, "server_delay.limt is no key of the kind 'standard'"),
        ({"server_delay": {"spread": -1}}, "server_delay.spread must be at least 0, got -1"),
        ({"server_delay": 5}, "server_delay must be a name, or a table with a kind ('standard')"),
        ({"budget": {"reserve": 5}}, "budget.kind is missing: it must be one of 'ratio',"),
        ({"budget": "rato"}, "budget must name a budget, got 'rato': did you mean 'ratio'?"),
        ({"budget": {"kind": "ratio", "reserve": 0}}, "budget.reserve must be at least 1, got 0"),
        (
            {"budget": {"kind": "token", "prices": {"throttled": 600}}},
            "budget.prices must be at most tokens (500), got",
        ),
        (
            {"budget": {"kind": "per_key", "key": "host", "budget": "ratio"}},
            "budget.key must be the name of a registered function, got 'host': register(",
        ),
        (
            {"endpoints": {"GET /x": {"atempts": 3}}},
            (
                'mapping [policies.a.endpoints."GET /x"]: atempts is no key of an endpoint (got 3):'
                " did you mean 'attempts'?"
            ),
        ),
        (
            {"endpoints": {"GET /x": {"endpoints": {}}}},
            'mapping [policies.a.endpoints."GET /x"]: endpoints is no key of an endpoint',
        ),
        (
            {"endpoints": {"/x": {}}},
            "endpoints must have patterns such as \"GET /users/*\", got '/x'",
        ),
        ({"on": {"kind": "exception", "types": []}}, "on[0] is refused: OnException must name"),
        (
            {"on": {"kind": "exception", "types": "OSError", "causes": "yes"}},
            "on[0].causes must be true or false, got 'yes'",
        ),
        (
            {"on": {"kind": "result", "predicate": "pending"}},
            "on[0].predicate must be the name of a registered function, got 'pending': register(",
        ),
        ({"on": {"kind": "http", "method": ""}}, None),
    ],
)
def test_a_problem_reads_well(section, line):
    """The key, what is allowed, and the value as it stands there."""
    if line is None:
        from_mapping({"a": section}, environ={})
        return
    lines = problems(section)
    assert len(lines) == 1
    assert lines[0].startswith(line)


def test_a_key_that_is_far_from_any_tells_what_there_is():
    """Where the words are few."""
    line = (
        "xyz is no key of a policy (got 1): there are attempt_timeout, attempts, backoff, budget,"
    )
    assert problems({"xyz": 1})[0].startswith(line)


def test_the_top_of_a_file_has_policies(write):
    """And the nearest is told there too."""
    path = write("[polices.github]\nattempts = 3")
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert [str(each) for each in caught.value.problems] == [
        f"{path}: policies is missing",
        (
            f"{path}: polices is no key of the configuration (got {{'github': {{'attempts': 3}}}}):"
            " did you mean 'policies'?"
        ),
    ]


def test_the_section_is_named_as_the_file_has_it(write):
    """With `tool.retrykit` in a pyproject, and quotes where there must be some."""
    text = '[tool.retrykit.policies."my policy"]\nattempts = 0'
    with pytest.raises(ConfigError, match=r'\[tool\.retrykit\.policies\."my policy"\]: attempts'):
        load(write(text, "pyproject.toml"), environ={})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"[policies.a", "is not valid TOML: Expected ']' at the end of a table declaration"),
        (b"a = 1\na = 2\n", "is not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"[policies.a]\nname = '\xff'", "is not UTF-8"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path, content, text):
    """As `tomllib` tells it."""
    path = tmp_path / "retrykit.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {text}")


def test_a_part_that_does_not_fit_is_refused_where_it_is_named():
    """A registered name says nothing of what stands behind it."""
    register("number", 5)
    register("function", lambda: None)
    for section, line in [
        ({"listeners": ["number"]}, "listeners[0] must be callable, got 5"),
        ({"on": ["number"]}, "on[0] must be callable, got 5"),
        ({"budget": "function"}, "budget must have withdraw, settle and balance, got <function"),
        ({"stop_when": "number"}, "stop_when must be callable, got 5"),
        ({"backoff": "function"}, "backoff must be a backoff or a list of seconds, got <function"),
        (
            {"backoff": {"kind": "linear", "start": 1, "step": 1, "jitter": "function"}},
            "backoff.jitter",
        ),
    ]:
        assert problems(section)[0].startswith(line)


def test_a_config_error_is_of_the_library_and_a_value_error():
    """So that either `except` catches it."""
    assert issubclass(ConfigError, RetryKitError)
    assert issubclass(ConfigError, ValueError)


def test_a_config_error_has_its_problems_as_data():
    """For a command line that shows them its own way."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({"a": {"backoff": {"kind": "constant", "delay": "x"}}}, environ={})
    (problem,) = caught.value.problems
    text = 'must be seconds as a number, or a text such as "250ms", "30s" or "1h30m", got \'x\''
    assert problem == Problem("mapping", "policies.a", "backoff.delay", "x", text)
    assert str(caught.value) == str(problem) == f"mapping [policies.a]: backoff.delay {text}"


def test_a_config_error_travels():
    """Between processes, as every error of the library."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({"a": {"attempts": 0, "deadline": 0}}, environ={})
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert str(again) == str(caught.value)
        assert again.problems == caught.value.problems


def test_a_value_that_does_not_pickle_is_left_behind():
    """A mapping may hold anything."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({"a": {"stop_when": lambda: True}}, environ={})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert caught.value.problems[0].value is not None
    assert again.problems[0].value is None


def test_a_hundred_problems_are_enough():
    """The others are counted."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({f"p{number}": {"attempts": 0} for number in range(250)}, environ={})
    assert len(caught.value.problems) == 100
    assert caught.value.more == 150
    first, *_, last = str(caught.value).splitlines()
    assert first == "250 problems in the configuration:"
    assert last == "and 150 more"


def test_a_line_break_in_a_name_stays_on_the_line():
    """A log line must not be forged by a file."""
    lines = problems({"a\nb": 1, "attempts": 0})
    assert len(lines) == 2
    assert not any("\n" in line for line in lines)
    with pytest.raises(ConfigError) as caught:
        from_mapping({"x\ny": {"attempts": 0}}, environ={})
    assert "\n" not in str(caught.value)
