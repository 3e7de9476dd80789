"""Policies from files and mappings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import tomllib
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import pytest

import retrykit
from retrykit import (
    ByReason,
    Call,
    Constant,
    Decorrelated,
    EqualJitter,
    Exponential,
    FullJitter,
    Never,
    NoJitter,
    OnException,
    OnResult,
    RatioBudget,
    RetryPolicy,
    RetryReason,
    Schedule,
    ServerDelay,
    TokenBudget,
    log_retries,
    policy_of,
    retry,
    transient,
    with_policy,
)
from retrykit.backoff import Custom, Fibonacci, Linear, Polynomial
from retrykit.budget import PerKey
from retrykit.classify import FirstOf
from retrykit.config import (
    ConfigError,
    from_mapping,
    load,
    register,
    register_exception,
    register_policy,
)
from retrykit.config._specs import SPECS, PolicySection
from retrykit.errors import UnknownPolicy
from retrykit.events import LogRetries
from retrykit.http import HttpClassifier, OnStatus, by_endpoint, per_host
from retrykit.jitter import AdditiveJitter, Bounds, ProportionalJitter


def quota_is_gone(response):
    return False


def is_busy(error):
    return True


def asked(error):
    return 1.0


def is_pending(value):
    return value is None


def mine(attempt):
    return None


def counted(event):
    pass


def tenant(call):
    return call.args


class Theirs:
    limits = Bounds(0.0, 60.0)

    def delays(self, rng):
        return iter([7.0])

    def bounds(self):
        return iter([Bounds(7.0, 7.0)])


THEIRS = Theirs()
SHUTTING_DOWN = threading.Event()
THEIR_BUDGET = RatioBudget()

EXPECTED = {
    "defaults": RetryPolicy(),
    "github": RetryPolicy(
        classify=OnException(ConnectionError) | HttpClassifier(),
        attempts=5,
        deadline=30,
        backoff=Exponential(0.25, factor=2, cap=20, jitter=FullJitter()),
    ),
    "everything": RetryPolicy(
        classify=FirstOf(
            Never(PermissionError, FileNotFoundError),
            OnStatus(409),
            OnException(TimeoutError, ConnectionError),
            transient,
            HttpClassifier(method="GET", unless=quota_is_gone, key_names=("X-Request-Id",)),
            OnStatus(404, 418, reason=RetryReason.TRANSIENT),
            OnException(
                OSError, when=is_busy, after=asked, causes=True, reason=RetryReason.CONFLICT
            ),
            OnResult(is_pending, reason=RetryReason.THROTTLED),
            Never(KeyError),
            OnException(ValueError),
            mine,
        ),
        attempts=float("inf"),
        limits={RetryReason.TIMED_OUT: 1, RetryReason.THROTTLED: 0},
        attempt_timeout=2.5,
        server_delay=ServerDelay(limit=120, over_limit="cap", combine="floor", spread=0),
        budget=RatioBudget(ratio=0.1, reserve=5),
        unsatisfied="return",
        listeners=(log_retries, LogRetries("myapp"), counted),
        stop_when=SHUTTING_DOWN,
        nested="suppress",
        name="another name",
    ),
    "constant": RetryPolicy(backoff=Constant(1)),
    "exponential": RetryPolicy(backoff=Exponential(0.5)),
    "linear": RetryPolicy(backoff=Linear(1, 0.5, jitter=NoJitter())),
    "polynomial": RetryPolicy(backoff=Polynomial(1, 1.5, jitter=EqualJitter())),
    "fibonacci": RetryPolicy(backoff=Fibonacci(1, jitter=ProportionalJitter(0.5))),
    "decorrelated": RetryPolicy(backoff=Decorrelated(1, cap=60)),
    "schedule": RetryPolicy(backoff=Schedule(1, 2, 90)),
    "list": RetryPolicy(backoff=[0, 1, 5400]),
    "capped": RetryPolicy(backoff=Linear(1, 1).capped(5)),
    "at_least": RetryPolicy(backoff=Fibonacci(1, jitter=ProportionalJitter()).at_least(5)),
    "take": RetryPolicy(backoff=Constant(1).take(3)),
    "jittered": RetryPolicy(backoff=Schedule(1, 2).jittered(AdditiveJitter(0.1))),
    "then": RetryPolicy(backoff=Schedule(1, 1).then(Constant(5)).then(THEIRS)),
    "sum": RetryPolicy(backoff=Schedule(1, 1) + Constant(5)),
    "custom": RetryPolicy(backoff=Custom(THEIRS)),
    "registered": RetryPolicy(backoff=THEIRS, budget=THEIR_BUDGET),
    "by_reason": RetryPolicy(
        backoff=ByReason(
            {
                RetryReason.THROTTLED: Exponential(1, cap=60, jitter=AdditiveJitter()),
                RetryReason.CONNECTION_FAILED: [0.1],
            },
            default=Exponential(0.25, cap=20),
        )
    ),
    "token": RetryPolicy(
        budget=TokenBudget(
            100, {RetryReason.THROTTLED: 2, RetryReason.TIMED_OUT: 0}, default=10, reward=2
        )
    ),
    "token_by_default": RetryPolicy(budget=TokenBudget()),
    "ratio_by_default": RetryPolicy(budget=RatioBudget()),
    "per_key": RetryPolicy(budget=PerKey(tenant, RatioBudget(), size=10)),
    "per_host": RetryPolicy(budget=per_host(RatioBudget(reserve=5))),
    "nothing": RetryPolicy(listeners=()),
}


@pytest.fixture
def known():
    """What the file names of the program's own."""
    for each in (quota_is_gone, is_busy, asked, is_pending, mine, counted, tenant):
        register(each.__name__, each)
    register("theirs", THEIRS)
    register("theirs_too", THEIR_BUDGET)
    register("shutting_down", SHUTTING_DOWN)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_section_is_the_policy_that_it_says(known, data, name):
    """Every kind of every strategy, each against the same policy in code."""
    read = load(data / "retrykit.toml", environ={})[name]
    expected = EXPECTED[name]
    if expected.name is None and name != "nothing":
        expected = expected.replace(name=name)
    assert read == expected


def test_the_file_has_no_section_that_is_not_tested(known, data):
    """Beside those above there is the one with endpoints."""
    assert load(data / "retrykit.toml", environ={}).keys() == EXPECTED.keys() | {"api"}


def test_an_endpoint_changes_what_it_names_and_keeps_the_rest(known, data):
    """Shown by the policies of a request that each pattern picks."""
    api = load(data / "retrykit.toml", environ={})["api"]
    default = RetryPolicy(classify=HttpClassifier(), attempts=4, budget=RatioBudget(), name="api")
    assert api == by_endpoint(
        {
            "GET /search/*": default.replace(attempts=2, deadline=5),
            "POST /orders": default.replace(
                classify=OnException(ConnectionRefusedError), budget=RatioBudget(reserve=2)
            ),
        },
        default=default,
    )


def test_endpoints_share_the_budget_unless_they_have_their_own(known, data):
    """Ten endpoints would else make ten times the retries in an outage."""
    api = load(data / "retrykit.toml", environ={})["api"]
    assert api.pick("GET", "/search/cats").budget is api.default.budget
    assert api.pick("POST", "/orders").budget is not api.default.budget


@pytest.mark.parametrize(
    ("endpoint", "classify"),
    [
        ({"attempts": 2}, FirstOf(Never(KeyError), OnStatus(409), OnException(OSError))),
        ({"on": "ValueError"}, FirstOf(Never(KeyError), OnStatus(409), OnException(ValueError))),
        ({"never": []}, FirstOf(OnStatus(409), OnException(OSError))),
        ({"never": [], "on_status": []}, OnException(OSError)),
        ({"on_status": 404}, FirstOf(Never(KeyError), OnStatus(404), OnException(OSError))),
    ],
)
def test_each_of_the_rules_is_kept_by_itself(endpoint, classify):
    """`on`, `never` and `on_status` are three keys; an empty list is none."""
    section = {"on": "OSError", "never": "KeyError", "on_status": 409}
    section["endpoints"] = {"GET /x": endpoint}
    api = from_mapping({"api": section}, environ={})["api"]
    assert api.pick("GET", "/x").classify == classify


def test_never_alone_comes_before_the_default():
    """What is transient is still retried."""
    policy = from_mapping({"a": {"never": ["TimeoutError"]}}, environ={})["a"]
    assert policy.classify == Never(TimeoutError) | transient


def test_attempts_follow_the_deadline_unless_they_are_named():
    """As in code: five, or no limit where there is a deadline."""
    read = from_mapping({"a": {}, "b": {"deadline": 3}, "c": {"deadline": False}}, environ={})
    assert [policy.attempts for policy in read.values()] == [5, float("inf"), 5]


@pytest.mark.parametrize("attempts", [float("inf"), "inf"])
def test_no_limit_is_asked_for_by_name(attempts):
    """TOML has `inf`, JSON has none."""
    policy = from_mapping({"a": {"attempts": attempts}}, environ={})["a"]
    assert policy.attempts == float("inf")


def test_a_policy_is_named_as_its_section():
    """For events and metrics, unless `name` says otherwise."""
    read = from_mapping({"a": {}, "b": {"name": "x"}, "c": {"name": False}}, environ={})
    assert [policy.name for policy in read.values()] == ["a", "x", None]


# Files


def test_a_pyproject_has_its_policies_under_tool_retrykit(data, tmp_path):
    """The other tools' tables are nobody's business."""
    path = tmp_path / "pyproject.toml"
    path.write_bytes((data / "pyproject-with-policies.toml").read_bytes())
    policy = load(path, environ={})["github"]
    assert (policy.attempts, policy.deadline, policy.name) == (3, 10.0, "github")


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("", "tool.retrykit"),
        ("[tool]\nretrykit = 5", "tool.retrykit"),
        ("tool = 5", "tool.retrykit"),
    ],
)
def test_a_pyproject_without_policies_is_an_error(write, text, section):
    """It was asked for them."""
    with pytest.raises(ConfigError, match=rf"pyproject.toml \[{section}\]: policies is missing"):
        load(write(text, "pyproject.toml"), environ={})


def test_an_empty_file_is_an_error(write):
    """An editor that saves a file empties it first: a reload must not lose everything then."""
    with pytest.raises(ConfigError, match="policies is missing"):
        load(write(""), environ={})


@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_is_a_text_or_a_path(write, as_text):
    """Either spelling."""
    path = write("[policies.a]")
    assert "a" in load(str(path) if as_text else path, environ={})


def test_a_file_that_is_not_there_is_an_oserror(tmp_path):
    """With the name, as `open` tells it."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml")


def test_a_byte_order_mark_is_no_matter(tmp_path):
    """Some editors write one."""
    path = tmp_path / "retrykit.toml"
    path.write_bytes(b"\xef\xbb\xbf[policies.a]\n")
    assert load(path, environ={}).keys() == {"a"}


# Mappings


def test_a_mapping_has_policies_by_name_or_is_a_whole_file():
    """Settings of a program, or what `json` or `tomllib` read."""
    section = {"attempts": 3}
    for mapping in (
        {"a": section},
        {"policies": {"a": section}},
        {"tool": {"retrykit": {"policies": {"a": section}}}},
        MappingProxyType({"a": MappingProxyType(section)}),
    ):
        assert from_mapping(mapping, environ={})["a"].attempts == 3


def test_a_mapping_is_copied_and_left_alone():
    """The environment is put on a copy."""
    mapping = {"a": {"backoff": {"kind": "constant", "delay": 1}}}
    policy = from_mapping(mapping, environ={"RETRYKIT_A__BACKOFF__DELAY": "2"})["a"]
    assert policy.backoff == Constant(2)
    assert mapping == {"a": {"backoff": {"kind": "constant", "delay": 1}}}


def test_a_mapping_takes_what_python_has():
    """Durations as `timedelta`, `None` for nothing, tuples for lists, reasons as keys."""
    section = {
        "deadline": timedelta(minutes=1),
        "attempt_timeout": None,
        "budget": None,
        "on": ("OSError", "ValueError"),
        "limits": {RetryReason.TIMED_OUT: 1},
        "attempts": 2,
    }
    policy = from_mapping({"a": section}, environ={})["a"]
    assert policy == RetryPolicy.on(
        OSError, ValueError, attempts=2, deadline=60, limits={RetryReason.TIMED_OUT: 1}, name="a"
    )


@pytest.mark.parametrize("mapping", [None, "policies", ["a"], 5])
def test_what_is_no_mapping_is_a_typeerror(mapping):
    """The mistake is in the code, not in a configuration."""
    with pytest.raises(TypeError, match="mapping must be a mapping"):
        from_mapping(mapping)


# By name


def test_a_decorated_function_finds_its_policy_at_each_call(write):
    """It may be decorated long before anything is loaded."""

    @retry(policy="github")
    def fetch(failures):
        if failures:
            raise failures.pop()
        return "done"

    with pytest.raises(UnknownPolicy, match="no policy is named 'github'; there are none"):
        fetch([])
    load(write('[policies.github]\non = "OSError"\nbackoff = [0]'), environ={})
    assert fetch([OSError()]) == "done"
    assert policy_of(fetch).name == "github"


def test_an_unknown_name_tells_which_there_are(write):
    """A misspelt name in code is found at its first call."""
    load(write("[policies.github]\n[policies.gitlab]"), environ={})
    with pytest.raises(UnknownPolicy, match="no policy is named 'gihub'; there are github, gitlab"):
        retry(policy="gihub")(print)()


async def _fetch():
    return "done"


def test_a_name_serves_async_functions_and_with_policy(write):
    """Any way in which a policy is given."""
    import asyncio

    load(write("[policies.a]\nattempts = 1\n[policies.b]\nattempts = 2"), environ={})
    fetch = retry(policy="a")(_fetch)
    assert asyncio.run(fetch()) == "done"
    assert policy_of(with_policy(fetch, "b")).attempts == 2


def test_policies_by_endpoint_serve_a_decorated_function(write):
    """The factory asks the call."""
    load(write('[policies.api.endpoints."GET /x"]\nattempts = 1'), environ={})
    fetch = retry(policy="api")(str.upper)
    assert fetch("done") == "DONE"
    assert policy_of(fetch).policy_for(Call(str.upper)).attempts == 5


def test_a_policy_of_code_can_have_a_name_too():
    """Beside those of files."""
    policy = RetryPolicy(attempts=2)
    register_policy("careful", policy)
    assert policy_of(retry(policy="careful")(print)) is policy


@pytest.mark.parametrize("policy", [RetryPolicy, None, 5, print])
def test_only_a_policy_can_be_registered_as_one(policy):
    """Refused where it is registered, not at the first call."""
    with pytest.raises(TypeError, match=r"policy must have new_executor\(call\)"):
        register_policy("a", policy)
    with pytest.raises(TypeError, match="name must be a string, got 5"):
        register_policy(5, RetryPolicy())


def test_reading_alone_makes_nothing_known(write):
    """`register=False`: to look at a file, not to live by it."""
    load(write("[policies.a]"), environ={}, register=False)
    from_mapping({"b": {}}, environ={}, register=False)
    with pytest.raises(UnknownPolicy, match="there are none"):
        retry(policy="a")(print)()


def test_a_file_with_an_error_makes_nothing_known(write):
    """Not even its sections that are right."""
    with pytest.raises(ConfigError):
        load(write("[policies.a]\n[policies.b]\nattempts = 0"), environ={})
    with pytest.raises(UnknownPolicy, match="there are none"):
        retry(policy="a")(print)()


def test_a_later_source_replaces_a_policy_of_the_same_name(write):
    """The last word counts."""
    load(write("[policies.a]\nattempts = 1"), environ={})
    from_mapping({"a": {"attempts": 2}}, environ={})
    assert policy_of(retry(policy="a")(print)).attempts == 2


def test_what_load_gives_is_the_caller_s_own(write):
    """Changing it changes no policy."""
    policies = load(write("[policies.a]"), environ={})
    policies.clear()
    assert policy_of(retry(policy="a")(print)).name == "a"


# Nothing unasked

PROGRAM = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import os
class Environ(dict):
    def __getitem__(self, key):
        read.append(key)
        return super().__getitem__(key)
    def get(self, key, default=None):
        read.append(key)
        return super().get(key, default)
    def __iter__(self):
        read.append("*")
        return super().__iter__()
read = []
os.environ = Environ(os.environ)
import retrykit
read.clear()
import retrykit.config
from retrykit import retry, policy_of
seen = []
@retry
def call():
    seen.append(1)
    raise ConnectionError
@retry(policy="github")
def named():
    pass
try:
    named()
except LookupError as error:
    print(error)
print(policy_of(call).attempts)
print(sorted(name for name in read if "RETRYKIT" in name or name == "*"))
print([each for each in opened if each.endswith(".toml")])
"""


def test_nothing_is_read_before_it_is_asked_to(write, tmp_path):
    """A file in a server's working directory, or a variable, must not change its retries."""
    write("[policies.github]\nattempts = 1")
    write("[tool.retrykit.policies.github]\nattempts = 1", "pyproject.toml")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={
            **os.environ,
            "RETRYKIT_GITHUB__ATTEMPTS": "1",
            "PYTHONPATH": str(Path(retrykit.__file__).parent.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    unknown, attempts, read, opened = run.stdout.splitlines()
    assert unknown.startswith("no policy is named 'github'; there are none")
    assert attempts == "5"
    assert read == "[]"
    assert opened == "[]"


def test_the_docstring_tells_every_key_and_kind():
    """It is the reference."""
    for word in (*PolicySection.model_fields, *(mark.removeprefix("=") for mark in SPECS)):
        if word != "standard":
            assert re.search(rf'[`"]{word}[`"]', retrykit.config.__doc__), word


def test_without_pydantic_the_error_tells_the_remedy():
    """The core does not need it."""
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import retrykit\n"
        "try:\n    import retrykit.config\n"
        "except ImportError as error:\n    print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (
        run.stdout == "retrykit.config needs pydantic: install retrykit with the extra [config]\n"
    )


def test_exceptions_of_the_program_s_own_are_named(write):
    """`register_exception`, and then as any other name."""

    class QuotaError(Exception):
        pass

    register_exception("QuotaError", QuotaError)
    text = '[policies.a]\non = ["QuotaError", "OSError"]\nnever = "QuotaError"'
    policy = load(write(text), environ={})["a"]
    assert policy.classify == Never(QuotaError) | OnException(QuotaError, OSError)


def test_a_whole_file_is_toml_that_tomllib_reads(data):
    """The test's file is what it seems."""
    assert tomllib.loads((data / "retrykit.toml").read_text())["policies"].keys() >= EXPECTED.keys()
