"""What is written is read back equal."""

from __future__ import annotations

import json
import logging
import math
import random
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrykit import (
    Constant,
    Exponential,
    Never,
    OnException,
    OnResult,
    RatioBudget,
    RetryPolicy,
    RetryReason,
    Schedule,
    log_retries,
    transient,
)
from retrykit.backoff import LONGEST
from retrykit.budget import PerKey
from retrykit.classify import FirstOf
from retrykit.config import ConfigError, dump, dumps, from_mapping, register
from retrykit.config._specs import SPECS
from retrykit.events import LogRetries
from retrykit.http import HttpClassifier, OnStatus, RetryableMethod, by_endpoint, per_host
from retrykit.testing import VirtualClock, strategies


def is_pending(value):
    return value is None


def mine(attempt):
    return None


def seeded():
    return random.Random(1)


def host(call):
    return call.args[0]


FUNCTIONS = [
    *(is_pending, mine, host, strategies.says_yes, strategies.says_no, strategies.is_pending),
    *(strategies.asks_for_a_second, strategies.no_opinion, strategies.always_retry),
    *(strategies.never_retry, strategies.stops_never),
]


def know(*more):
    for number, each in enumerate((*FUNCTIONS, *more)):
        register(f"{getattr(each, '__name__', 'part')}_{number}", each)


def read(text):
    return from_mapping(tomllib.loads(text), environ={}, register=False)


def parts_of(thing):
    """What of the program's own is in a backoff or a budget."""
    if type(thing).__module__ == strategies.__name__:
        yield thing
    elif isinstance(thing, (tuple, list)):
        for each in thing:
            yield from parts_of(each)
    elif hasattr(thing, "items"):
        yield from parts_of(list(thing.values()))
    else:
        for name in getattr(thing, "__dataclass_fields__", {}):
            yield from parts_of(getattr(thing, name))


rules = st.one_of(
    strategies.classifiers(),
    st.builds(
        HttpClassifier,
        method=st.sampled_from([None, "GET", "POST", *RetryableMethod]),
        unless=st.sampled_from([None, strategies.says_no]),
        key_names=st.sampled_from([("Idempotency-Key",), ("X-Key", "X-Other"), ()]),
    ),
    st.builds(
        lambda statuses, reason: OnStatus(*statuses, reason=reason),
        st.lists(st.integers(100, 599), min_size=1, max_size=3),
        st.sampled_from(RetryReason),
    ),
)
several = st.one_of(rules, st.lists(rules, max_size=4).map(lambda each: FirstOf(*each)))
policies = st.builds(
    lambda policy, classify, name, budget: policy.replace(
        classify=classify, name=name, **({"budget": budget} if budget else {})
    ),
    # By way of its repr: some of the generated ones are combined as no program can combine them.
    strategies.policies().map(lambda policy: eval(repr(policy), strategies.NAMES)),
    several,
    st.one_of(st.none(), st.text(max_size=8)),
    st.one_of(st.none(), st.builds(per_host, strategies.budgets(), size=st.integers(1, 9))),
)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(policies)
def test_any_policy_is_read_back_equal(policy):
    """Any that is made of the library's own strategies, and of parts that are registered."""
    know(*parts_of(policy.backoff), *parts_of(policy.budget))
    section = dump(policy)
    assert from_mapping({"a": section}, environ={}, register=False)["a"] == policy
    assert list(read(dumps(policy)).values()) == [policy]
    assert json.loads(json.dumps(section)) == section


@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    st.lists(policies.map(lambda policy: policy.replace(budget=None)), min_size=1, max_size=3),
    st.lists(st.sampled_from(["GET /a", "* /b/**", "POST /c/{id}"]), max_size=2, unique=True),
)
def test_policies_by_endpoint_are_read_back_equal(some, patterns):
    """Each endpoint has only what it has otherwise than the default."""
    default, *others = some
    know(*(part for each in some for part in parts_of(each.backoff)))
    api = by_endpoint(dict(zip(patterns, others, strict=False)), default=default)
    written = dumps({"api": api})
    again = read(written)["api"]
    assert again == (api if api.endpoints else default)


@pytest.mark.parametrize("mark", sorted(SPECS))
def test_every_kind_is_written(mark):
    """The strategies above reach all of them: this counts."""
    examples = {
        "additive": "backoff = {kind='linear', start=1, step=1, jitter='additive'}",
        "at_least": "backoff = {kind='at_least', floor=1, backoff={kind='fibonacci', base=1}}",
        "capped": "backoff = {kind='capped', cap=1, backoff={kind='fibonacci', base=1}}",
        "constant": "backoff = {kind='constant', delay=1}",
        "custom": "backoff = {kind='custom', backoff='waits'}",
        "decorrelated": "backoff = {kind='decorrelated', base=1, cap=2}",
        "equal": "backoff = {kind='linear', start=1, step=1, jitter='equal'}",
        "exponential": "backoff = {kind='exponential', base=1}",
        "fibonacci": "backoff = {kind='fibonacci', base=1}",
        "full": "backoff = {kind='jittered', jitter='full', backoff=[1]}",
        "none": "backoff = {kind='linear', start=1, step=1, jitter='none'}",
        "jittered": "backoff = {kind='jittered', jitter='full', backoff=[1]}",
        "linear": "backoff = {kind='linear', start=1, step=1}",
        "polynomial": "backoff = {kind='polynomial', base=1, power=2}",
        "proportional": "backoff = {kind='linear', start=1, step=1, jitter='proportional'}",
        "schedule": "backoff = [1]",
        "sum": "backoff = {kind='sum', backoffs=[[1], [2]]}",
        "take": "backoff = {kind='take', n=1, backoff=[1]}",
        "then": "backoff = {kind='then', backoffs=[[1], [2]]}",
        "by_reason": "backoff = {kind='by_reason', default=[1], branches={throttled=[2]}}",
        "per_host": "budget = {kind='per_host', size=5}",
        "per_key": "budget = {kind='per_key', key='host', budget='ratio'}",
        "ratio": "budget = {kind='ratio', reserve=5}",
        "token": "budget = {kind='token', tokens=50}",
        "exception": "on = {kind='exception', types='OSError', causes=true}",
        "first_of": "on = {kind='first_of', rules='OSError'}",
        "http": "on = {kind='http', method='GET'}",
        "never": "on = {kind='never', types='OSError'}",
        "result": "on = {kind='result', predicate='is_pending'}",
        "status": "on = {kind='status', statuses=404}",
        "transient": "on = ['transient', 'KeyError']",
        "log_retries": "listeners = {kind='log_retries', logger='myapp'}",
        "standard": "server_delay = {limit=5}",
    }
    register("waits", strategies.Waits((1.0,)))
    register("host", host)
    register("is_pending", is_pending)
    policy = read(f"[policies.a]\n{examples[mark.removeprefix('=')]}")["a"]
    assert read(dumps(policy)) == {"a": policy}
    kind = mark.removeprefix("=")
    if kind not in ("schedule", "standard"):  # these have a shorter form
        assert kind in str(dump(policy))


def test_what_is_written_is_for_people():
    """Durations as they say them, shorthands where there are, no defaults."""
    policy = RetryPolicy(
        classify=Never(KeyError) | OnStatus(409) | OnException(OSError) | HttpClassifier(),
        attempts=math.inf,
        deadline=90,
        limits={RetryReason.TIMED_OUT: 1},
        backoff=Exponential(0.1, cap=30).then(Constant(60)),
        budget=RatioBudget(reserve=5),
        listeners=(log_retries, LogRetries("myapp")),
        name="github",
    )
    assert dumps({"github": policy}) == (
        "[policies.github]\n"
        'never = ["KeyError"]\n'
        "on_status = [409]\n"
        'on = ["OSError", "http"]\n'
        'attempts = "inf"\n'
        "limits = { timed_out = 1 }\n"
        'deadline = "1m30s"\n'
        'backoff = { kind = "then", backoffs = [{ kind = "exponential", base = "100ms", cap ='
        ' "30s" }, { kind = "constant", delay = "1m" }] }\n'
        'budget = { kind = "ratio", reserve = 5 }\n'
        'listeners = ["log_retries", { kind = "log_retries", logger = "myapp" }]\n'
    )


def test_a_default_policy_says_little():
    """The number of attempts, which its omission would leave to the deadline, and its name."""
    assert dump(RetryPolicy()) == {"attempts": 5, "name": False}
    assert dumps(RetryPolicy()) == "[policies.default]\nattempts = 5\nname = false\n"
    assert dumps(RetryPolicy(name="a")) == "[policies.a]\nattempts = 5\n"


def test_endpoints_are_sections(write):
    """With what differs."""
    default = RetryPolicy(
        classify=Never(KeyError) | OnException(OSError), deadline=5, budget=RatioBudget()
    )
    api = by_endpoint(
        {
            "GET /search/*": default.replace(attempts=2, classify=OnException(OSError)),
            "POST /orders": default.replace(
                deadline=None, budget=RatioBudget(), classify=transient
            ),
        },
        default=default,
    )
    written = dumps({"api": api})
    assert written == (
        "[policies.api]\n"
        'never = ["KeyError"]\n'
        'on = ["OSError"]\n'
        'attempts = "inf"\n'
        'deadline = "5s"\n'
        'budget = "ratio"\n'
        "name = false\n"
        "\n"
        '[policies.api.endpoints."GET /search/*"]\n'
        'on = ["OSError"]\n'
        "attempts = 2\n"
        "never = []\n"
        "\n"
        '[policies.api.endpoints."POST /orders"]\n'
        'on = ["transient"]\n'
        "deadline = false\n"
        'budget = "ratio"\n'
        "never = []\n"
    )
    again = read(written)["api"]
    assert again == api
    assert again.endpoints["GET /search/*"].budget is again.default.budget
    assert again.endpoints["POST /orders"].budget is not again.default.budget


def test_several_policies_are_one_file():
    """Each in its section, quoted where it must be."""
    some = {"a": RetryPolicy(attempts=1), "b c": RetryPolicy(attempts=2), 'd"\n': RetryPolicy()}
    written = dumps(some)
    assert [line for line in written.splitlines() if line.startswith("[")] == [
        "[policies.a]",
        '[policies."b c"]',
        r'[policies."d\"\n"]',
    ]
    assert read(written) == some


@pytest.mark.parametrize("name", ["", "none", "false", "\x00\x7f\x1f", "€", '"', "\\", "a.b"])
def test_any_name_is_written(name):
    """And none at all is told from every one."""
    policy = RetryPolicy(name=name)
    assert read(dumps({"x": policy})) == {"x": policy}
    assert read(dumps({name: policy})) == {name: policy}


@pytest.mark.parametrize("wait", [0.0, 5e-324, 0.1, 1 / 3, 1e-7, 123456.789, 1e9 + 0.5, LONGEST])
def test_any_wait_is_written_exactly(wait):
    """As a text where that is exact, else as the number."""
    policy = RetryPolicy(backoff=Schedule(wait), name="a")
    assert read(dumps(policy)) == {"a": policy}


def test_rules_that_only_look_alike_stay_apart():
    """Two rules in a row are not one rule with two types, nor is one rule a list of one."""
    for classify in (
        OnException(OSError) | OnException(KeyError),
        OnException(OSError, KeyError),
        FirstOf(OnException(OSError)),
        OnException(OSError),
        OnException(OSError) | transient | OnException(KeyError) | OnException(ValueError),
        Never(OSError),
        Never(OSError) | Never(KeyError),
        Never(OSError) | transient,
        transient | Never(OSError),
        OnStatus(404) | transient,
        OnStatus(404),
        Never(OSError) | OnStatus(404),
        OnStatus(404) | OnStatus(405),
        OnStatus(404, reason=RetryReason.CONFLICT) | transient,
        FirstOf(),
    ):
        policy = RetryPolicy(classify=classify, name="a")
        assert read(dumps(policy))["a"].classify == classify, classify


def test_long_rows_are_written():
    """Joined backoffs nest to the left, as many in one table as may stand there."""
    backoff = Constant(0).take(1)
    for wait in range(1, 40):
        backoff = backoff.then(Constant(wait).take(1))
    policy = RetryPolicy(backoff=backoff, name="a")
    again = read(dumps(policy))["a"]
    assert again == policy
    assert list(again.backoff.delays(random.Random())) == [float(wait) for wait in range(40)]


# What cannot be written


class Subclass(RetryPolicy):
    pass


class OwnError(Exception):
    pass


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (RetryPolicy(clock=VirtualClock()), "policy: clock must be the default, for it can be set"),
        (RetryPolicy(rng=seeded), "policy: rng must be the default, for it can be set in"),
        (Subclass(), "policy: must be a RetryPolicy itself, got Subclass(attempts=5)"),
        (None, "policy: must be a RetryPolicy itself, got None"),
        (
            by_endpoint({"GET /x": RetryPolicy()}, default=Subclass()),
            "policy: must be a RetryPolicy itself, got Subclass(attempts=5)",
        ),
        (
            by_endpoint({"GET /x": Subclass()}, default=RetryPolicy()),
            'policy: endpoints."GET /x" must be a RetryPolicy itself, got Subclass(attempts=5)',
        ),
        (
            by_endpoint({"GET /x": RetryPolicy.on(OwnError)}, default=RetryPolicy()),
            'policy: endpoints."GET /x".on[0] must be known by name: register_exception(',
        ),
        (
            RetryPolicy(listeners=(log_retries, print)),
            'policy: listeners[1] must be known by name: register("...", ...), got <built-in fun',
        ),
        (
            RetryPolicy.on(OwnError),
            'policy: on[0] must be known by name: register_exception("OwnError", ...), got <class',
        ),
        (
            RetryPolicy(classify=OnException(OSError) | mine),
            'policy: on[1] must be known by name: register("...", ...), got <function mine',
        ),
        (
            RetryPolicy(classify=OnResult(is_pending)),
            'policy: on[0].predicate must be known by name: register("...", ...), got <function',
        ),
        (
            RetryPolicy(budget=PerKey(host, RatioBudget())),
            'policy: budget.key must be known by name: register("...", ...), got <function host',
        ),
        (
            RetryPolicy(backoff=strategies.Waits((1.0,))),
            'policy: backoff must be known by name: register("...", ...), got Waits(waits=(1.0,))',
        ),
        (
            RetryPolicy(listeners=(LogRetries(logging.LoggerAdapter(logging.getLogger("a"))),)),
            'policy: listeners[0] must be known by name: register("...", ...), got LogRetries(',
        ),
        (
            RetryPolicy(listeners=(LogRetries(logging.Logger("a")),)),
            'policy: listeners[0] must be known by name: register("...", ...), got LogRetries(',
        ),
        (
            RetryPolicy(stop_when=is_pending),
            'policy: stop_when must be known by name: register("...", ...), got <function is_pend',
        ),
        (
            RetryPolicy(backoff=[1] * 1001),
            "policy: backoff must have at most 1000",
        ),
    ],
)
def test_what_cannot_be_written_is_told(policy, problem):
    """Rather than left out: what is read back would be another policy."""
    with pytest.raises(ConfigError) as caught:
        dump(policy)
    assert str(caught.value).startswith(problem)


def test_everything_that_cannot_be_written_is_told_at_once():
    """By section."""
    some = {"a": RetryPolicy.on(OwnError, listeners=(print,)), "b": RetryPolicy(rng=seeded)}
    with pytest.raises(ConfigError) as caught:
        dumps(some)
    assert [(each.section, each.key) for each in caught.value.problems] == [
        ("policies.a", "on[0]"),
        ("policies.a", "listeners[0]"),
        ("policies.b", "rng"),
    ]


def test_what_is_nested_too_deep_is_told():
    """Nobody could read it back."""
    backoff = Constant(1)
    for number in range(40):
        backoff = (backoff + Constant(number)).take(5)
    with pytest.raises(ConfigError, match="must not be nested deeper than 32 levels"):
        dump(RetryPolicy(backoff=backoff))


def test_what_is_no_unicode_cannot_be_written():
    """TOML has no way to say a lone surrogate."""
    with pytest.raises(ConfigError, match=r"policy: must be Unicode text, got '\\udcff'"):
        dumps(RetryPolicy(name="\udcff"))


def test_a_registered_strategy_is_written_by_its_name():
    """A budget that several policies share stays shared."""
    shared = RatioBudget()
    register("shared", shared)
    written = dumps({"a": RetryPolicy(budget=shared), "b": RetryPolicy(budget=shared)})
    again = read(written)
    assert again["a"].budget is again["b"].budget is shared
    assert dump(RetryPolicy(budget=RatioBudget()))["budget"] == "ratio"


def test_a_bound_method_is_known_again():
    """Each access makes another object of the same method."""

    class Listener:
        def told(self, event):
            pass

    listener = Listener()
    register("told", listener.told)
    assert dump(RetryPolicy(listeners=(listener.told,)))["listeners"] == ["told"]
