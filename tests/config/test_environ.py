"""The environment on top."""

from __future__ import annotations

import logging

import pytest

from retrykit import (
    Constant,
    Exponential,
    NoJitter,
    OnException,
    RatioBudget,
    RetryPolicy,
    RetryReason,
    Schedule,
    log_retries,
    policy_of,
    retry,
)
from retrykit.config import ConfigError, from_mapping, load, register
from retrykit.http import HttpClassifier


def github(section, **variables):
    """The policy from this section with variables named from the policy's name on."""
    environ = {f"RETRYKIT_GITHUB__{name}": value for name, value in variables.items()}
    return from_mapping({"github": section}, environ=environ)["github"]


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("attempts", "1", 1),
        ("attempts", "inf", float("inf")),
        ("deadline", "5s", 5.0),
        ("deadline", "5", 5.0),
        ("deadline", "0.5", 0.5),
        ("deadline", "none", None),
        ("deadline", "False", None),
        ("attempt_timeout", "250ms", 0.25),
        ("unsatisfied", "return", "return"),
        ("nested", "suppress", "suppress"),
        ("name", "123", "123"),
        ("name", "none", "none"),
        ("backoff", "0.1,0.5, 2s", Schedule(0.1, 0.5, 2)),
        ("backoff", "5", Schedule(5)),
        ("backoff", '[1, "2m"]', Schedule(1, 120)),
        ("backoff", '{kind = "constant", delay = "1s"}', Constant(1)),
        ("budget", "ratio", RatioBudget()),
        ("budget", "none", None),
        ("limits", "{timed_out = 1}", {RetryReason.TIMED_OUT: 1}),
        ("listeners", "", ()),
        ("listeners", "[]", ()),
        ("listeners", "log_retries", (log_retries,)),
    ],
)
def test_a_variable_is_read_as_its_field_takes_it(field, text, value):
    """Numbers, durations, words, lists with commas, and tables as TOML writes them."""
    section = {"deadline": 7, "attempts": 2, "budget": "token"}
    assert getattr(github(section, **{field.upper(): text}), field) == value


def test_a_list_of_rules_is_written_with_commas():
    """Names of exceptions and classifiers."""
    policy = github({"on": "KeyError"}, ON="ConnectionError, TimeoutError, http")
    assert policy.classify == OnException(ConnectionError, TimeoutError) | HttpClassifier()


def test_the_real_environment_is_read_when_it_is_asked_to(monkeypatch, write):
    """`os.environ`, at each `load`."""
    path = write("[policies.github]\nattempts = 5")
    monkeypatch.setenv("RETRYKIT_GITHUB__ATTEMPTS", "1")
    assert load(path)["github"].attempts == 1
    monkeypatch.delenv("RETRYKIT_GITHUB__ATTEMPTS")
    assert load(path)["github"].attempts == 5


def test_what_was_loaded_does_not_follow_the_environment(monkeypatch, write):
    """A change is taken over by loading again, and by nothing else."""
    load(write("[policies.github]\nattempts = 5"))
    monkeypatch.setenv("RETRYKIT_GITHUB__ATTEMPTS", "1")
    assert policy_of(retry(policy="github")(print)).attempts == 5


# Below the field


def test_a_nested_variable_changes_one_key():
    """The others stay as the file has them."""
    section = {"backoff": {"kind": "exponential", "base": "1s", "cap": "20s", "jitter": "none"}}
    assert github(section, BACKOFF__CAP="5s").backoff == Exponential(1, cap=5, jitter=NoJitter())


def test_a_nested_variable_changes_the_default_backoff_where_there_is_none():
    """The backoff that the policy would have."""
    assert github({}, BACKOFF__CAP="5s").backoff == Exponential(0.25, factor=2, cap=5)


def test_another_kind_begins_anew():
    """The keys of the kind that was there mean nothing to another."""
    section = {"backoff": {"kind": "exponential", "base": "1s", "cap": "20s"}}
    variables = {"BACKOFF__DELAY": "3s", "BACKOFF__KIND": "constant"}
    assert github(section, **variables).backoff == Constant(3)


def test_the_same_kind_keeps_the_keys():
    """It says nothing new."""
    section = {"backoff": {"kind": "exponential", "base": "1s", "cap": "20s"}}
    assert github(section, BACKOFF__KIND="exponential").backoff == Exponential(1, cap=20)


def test_a_text_that_is_a_kind_takes_keys():
    """`budget = "ratio"` is the table with that kind."""
    assert github({"budget": "ratio"}, BUDGET__RESERVE="5").budget == RatioBudget(reserve=5)


def test_deeper_and_by_reason():
    """As deep as tables go."""
    section = {
        "limits": {"timed_out": 3, "throttled": 2},
        "backoff": {"kind": "take", "n": 2, "backoff": {"kind": "constant", "delay": 1}},
    }
    policy = github(section, LIMITS__TIMED_OUT="1", BACKOFF__BACKOFF__DELAY="2s")
    assert policy.limits == {RetryReason.TIMED_OUT: 1, RetryReason.THROTTLED: 2}
    assert policy.backoff == Constant(2).take(2)


def test_a_shorter_variable_is_put_on_before_a_longer_one():
    """Whatever their order in the environment."""
    variables = {"BACKOFF__DELAY": "2s", "BACKOFF": '{kind = "constant", delay = 1}'}
    assert github({}, **variables).backoff == Constant(2)
    assert github({}, **dict(reversed(variables.items()))).backoff == Constant(2)


def test_an_endpoint_is_spelled_with_underscores():
    """Its own settings go before those of the policy, in the environment too."""
    section = {"endpoints": {"GET /search/*": {"deadline": 9}}}
    environ = {
        "RETRYKIT_API__ENDPOINTS__GET_SEARCH__ATTEMPTS": "1",
        "RETRYKIT_API__ATTEMPTS": "3",
    }
    api = from_mapping({"api": section}, environ=environ)["api"]
    assert api.pick("GET", "/search/x").attempts == 1
    assert api.pick("GET", "/search/x").deadline == 9
    assert api.default.attempts == 3


@pytest.mark.parametrize("name", ["git-hub", "git.hub", "git hub", "Git_Hub", "git_hub"])
def test_a_policy_s_name_is_spelled_in_capitals_and_underscores(name):
    """What a variable's name can hold."""
    read = from_mapping({name: {}}, environ={"RETRYKIT_GIT_HUB__ATTEMPTS": "1"})
    assert read[name].attempts == 1


def test_a_deadline_on_top_does_not_lift_the_limit_of_attempts():
    """`replace` does not either: a bad night's deadline must not mean more calls."""
    assert github({}, DEADLINE="60s").attempts == RetryPolicy().replace(deadline=60).attempts == 5
    assert github({"deadline": 60}, DEADLINE="none").attempts == float("inf")
    assert github({}, DEADLINE="60s", ATTEMPTS="7").attempts == 7


# What is none of ours, and what is wrong


@pytest.mark.parametrize(
    "variable",
    [
        *("RETRYKIT_DISABLED", "RETRYKIT_LOG_LEVEL", "RETRYKIT_", "RETRYKIT", "RETRYKIT___X"),
        *("PATH", "GITHUB__ATTEMPTS", "XRETRYKIT_GITHUB__ATTEMPTS"),
    ],
)
def test_other_variables_are_left_alone(variable):
    """The kill switch is no policy, and what is not ours is not read."""
    read = from_mapping({"github": {}, "disabled": {}}, environ={variable: "1"})
    assert read["github"].attempts == read["disabled"].attempts == 5


def test_another_file_s_policy_is_passed_over_with_a_warning(caplog):
    """A library that loads its own file must not fail for the program's variables."""
    with caplog.at_level(logging.WARNING, "retrykit.config"):
        from_mapping({"github": {}}, environ={"RETRYKIT_PAYMENTS__ATTEMPTS": "1"})
    assert "RETRYKIT_PAYMENTS__ATTEMPTS names no policy" in caplog.text


def test_a_policy_that_is_known_from_elsewhere_is_no_mistake(caplog):
    """However near its name is."""
    from_mapping({"github2": {}}, environ={})
    from_mapping({"github": {}}, environ={"RETRYKIT_GITHUB2__ATTEMPTS": "1"})
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        (
            "RETRYKIT_GITHBU__ATTEMPTS",
            "1",
            (
                "RETRYKIT_GITHBU__ATTEMPTS: names no policy that there is: did you mean"
                " RETRYKIT_GITHUB__ATTEMPTS?"
            ),
        ),
        (
            "RETRYKIT_GITHUB_ATTEMPTS",
            "1",
            (
                "RETRYKIT_GITHUB_ATTEMPTS: sets nothing: write RETRYKIT_GITHUB__ATTEMPTS,"
                " with two underscores"
            ),
        ),
        (
            "RETRYKIT_GITHUB__ATEMPTS",
            "1",
            (
                "RETRYKIT_GITHUB__ATEMPTS [policies.github]: atempts is no key of a policy"
                " (got '1'): did you mean 'attempts'?"
            ),
        ),
        (
            "RETRYKIT_GITHUB__ATTEMPTS",
            "zero",
            (
                "RETRYKIT_GITHUB__ATTEMPTS [policies.github]: attempts must be a whole number of at"
                " least 1, or inf, got 'zero'"
            ),
        ),
        (
            "RETRYKIT_GITHUB__BACKOFF__CAP",
            "1ms",
            (
                "RETRYKIT_GITHUB__BACKOFF__CAP [policies.github]: backoff.cap must be at least the"
                " base, 0.25, got '1ms'"
            ),
        ),
        (
            "RETRYKIT_GITHUB__BACKOFF",
            "[1, 2",
            "RETRYKIT_GITHUB__BACKOFF: is not valid TOML: ",
        ),
        (
            "RETRYKIT_GITHUB__BACKOFF",
            "[1]\nother = 2",
            "RETRYKIT_GITHUB__BACKOFF: must hold one value",
        ),
        (
            "RETRYKIT_GITHUB__BACKOFF",
            "[1, -2]",
            "RETRYKIT_GITHUB__BACKOFF [policies.github]: backoff[1] must be at least 0, got -2",
        ),
        (
            "RETRYKIT_GITHUB__ON",
            "OSError,Nonsense",
            (
                "RETRYKIT_GITHUB__ON [policies.github]: on[1] must name an exception type or a"
                " classifier, got 'Nonsense'"
            ),
        ),
    ],
)
def test_an_error_names_the_variable(variable, value, problem):
    """That is what has to be mended, and not the file."""
    with pytest.raises(ConfigError) as caught:
        from_mapping({"github": {}}, environ={variable: value})
    assert str(caught.value).startswith(problem)
    assert caught.value.problems[0].source == variable


def test_a_section_that_is_none_is_told_as_without_the_variable():
    """There is nothing to put it on."""
    with pytest.raises(ConfigError, match=r"mapping \[policies\.a\]: must be a table, got 5"):
        from_mapping({"a": 5}, environ={"RETRYKIT_A__ATTEMPTS": "1"})


def test_two_policies_that_are_spelled_alike_are_refused_where_one_is_meant():
    """Only then: without a variable there is no question."""
    sections = {"git-hub": {}, "git_hub": {}}
    from_mapping(sections, environ={})
    with pytest.raises(ConfigError, match="must name one policy, and it names 'git-hub' and"):
        from_mapping(sections, environ={"RETRYKIT_GIT_HUB__ATTEMPTS": "1"})


def test_numbers_of_the_environment_are_plain_ones():
    """No underscores and no other script's digits, which Python would read."""
    for text in ("1_000", "٣", "0x10", "1e2", " "):
        with pytest.raises(ConfigError, match="attempts must be a whole number"):
            github({}, ATTEMPTS=text)


def test_a_function_may_be_named():
    """What the program registered."""
    register("stopping", lambda: False)
    assert github({}, STOP_WHEN="stopping").stop_when() is False
    assert github({"stop_when": "stopping"}, STOP_WHEN="none").stop_when is None


@pytest.mark.parametrize(("text", "causes"), [("true", True), ("1", True), ("FALSE", False)])
def test_a_flag_is_true_or_false(text, causes):
    """In the one place that has one."""
    section = {"on": {"kind": "exception", "types": "OSError"}}
    assert github(section, ON__CAUSES=text).classify == OnException(OSError, causes=causes)
