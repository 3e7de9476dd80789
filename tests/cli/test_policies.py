"""Where the commands find the policies that they are told about."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrykit import Constant, Exponential, RetryPolicy, Schedule
from retrykit.backoff import Decorrelated, Linear
from retrykit.cli._errors import BadInput
from retrykit.cli._policies import backoff_from, endpoints_of, policy_named
from retrykit.jitter import NoJitter


def message(call) -> str:
    """What is told of bad input."""
    with pytest.raises(BadInput) as caught:
        call()
    return str(caught.value)


def test_a_policy_is_found_by_its_name(folder) -> None:
    """In the current folder's `retrykit.toml`."""
    assert policy_named("exact") == RetryPolicy(
        name="exact", attempts=4, backoff=Exponential(1, jitter=NoJitter())
    )


def test_pyproject_is_read_too(tmp_path, monkeypatch) -> None:
    """Its `[tool.retrykit.policies]`."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.retrykit.policies.mine]\nattempts = 2\n")
    assert policy_named("mine").attempts == 2


def test_a_name_of_the_first_file_hides_the_seconds(tmp_path, monkeypatch) -> None:
    """Where both have it; names that only one has are found in either."""
    monkeypatch.chdir(tmp_path)
    Path("retrykit.toml").write_text("[policies.both]\nattempts = 2\n")
    Path("pyproject.toml").write_text(
        "[tool.retrykit.policies.both]\nattempts = 3\n"
        "[tool.retrykit.policies.second]\nattempts = 4\n"
    )
    assert policy_named("both").attempts == 2
    assert policy_named("second").attempts == 4


def test_a_fault_in_the_second_file_does_not_matter_to_the_first(tmp_path, monkeypatch) -> None:
    """It is read only where it is needed."""
    monkeypatch.chdir(tmp_path)
    Path("retrykit.toml").write_text("[policies.mine]\nattempts = 2\n")
    Path("pyproject.toml").write_text("[tool.retrykit.policies.second]\nattempts = 0\n")
    assert policy_named("mine").attempts == 2
    assert "attempts must be" in message(lambda: policy_named("second"))


def test_another_file_can_be_named(folder, tmp_path) -> None:
    """It is read in place of the folder's own, whatever its name."""
    other = tmp_path / "other.conf"
    other.write_text("[policies.theirs]\nattempts = 7\n")
    assert policy_named("theirs", str(other)).attempts == 7
    assert "no policy 'careful'" in message(lambda: policy_named("careful", str(other)))


def test_the_environment_lies_on_top(folder, monkeypatch) -> None:
    """As for the program that the policy is for."""
    monkeypatch.setenv("RETRYKIT_CAREFUL__ATTEMPTS", "2")
    assert policy_named("careful").attempts == 2


def test_nothing_becomes_known_to_the_program(folder) -> None:
    """Looking at a policy registers none."""
    from retrykit._registry import registered

    before = registered()
    policy_named("careful")
    assert registered() == before


def test_an_endpoint_has_its_own_settings(folder) -> None:
    """Chosen by a request; without one, those of all the others."""
    assert policy_named("web").attempts == 3
    assert policy_named("web", endpoint="GET /slow/7").backoff == Schedule(7)
    assert policy_named("web", endpoint="GET /fast").attempts == 3
    assert endpoints_of("web") == ("GET /slow/*",)
    assert endpoints_of("exact") == ()
    assert "has no endpoints" in message(lambda: policy_named("exact", endpoint="GET /"))


def test_an_unknown_name_names_the_nearest(folder) -> None:
    """Or all that there are."""
    assert message(lambda: policy_named("exat")) == (
        "no policy 'exat' in retrykit.toml: did you mean 'exact'?"
    )
    assert "there are careful, exact" in message(lambda: policy_named("zzz"))


@pytest.mark.parametrize("content", [None, "", "[tool.black]\n", "[tool]\nretrykit = 3\n"])
def test_a_folder_without_policies(content: str | None, tmp_path, monkeypatch) -> None:
    """Most a `pyproject.toml` has nothing for retrykit."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("pyproject.toml").write_text(content)
    assert message(lambda: policy_named("mine")).startswith(
        "no policy 'mine': this folder has no retrykit.toml, and no [tool.retrykit.policies]"
    )


def test_a_file_without_policies(tmp_path) -> None:
    """It is named."""
    (tmp_path / "other.toml").write_text("[policies]\n")
    told = message(lambda: policy_named("mine", str(tmp_path / "other.toml")))
    assert "other.toml" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[policies.mine", "retrykit.toml: "),
        ("[policies.mine]\nattempts = 0\n", "[policies.mine]: attempts must be a whole number"),
        ("[policies.mine]\nx = 1\ny = 2\n", "2 problems"),
        ("\xff", "retrykit.toml: is not UTF-8"),
    ],
)
def test_a_faulty_file_is_told(content: str, told: str, tmp_path, monkeypatch) -> None:
    """With its place."""
    monkeypatch.chdir(tmp_path)
    Path("retrykit.toml").write_bytes(content.encode("latin-1"))
    assert told in message(lambda: policy_named("mine"))


def test_a_file_that_cannot_be_read_is_told(tmp_path) -> None:
    """It is not there, or it is a folder."""
    assert message(lambda: policy_named("x", str(tmp_path / "none.toml"))) == (
        f"cannot read {tmp_path / 'none.toml'}: No such file or directory"
    )
    assert "Is a directory" in message(lambda: policy_named("x", str(tmp_path)))


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("0", Constant(0)),
        ("2", Constant(2)),
        ("250ms", Constant(0.25)),
        ("1s, 1m,5", Schedule(1, 60, 5)),
        ("constant:3s", Constant(3)),
        ("exponential:250ms", Exponential(0.25)),
        (
            "exponential:base=1,factor=3,cap=1m,jitter=none",
            Exponential(1, factor=3, cap=60, jitter=NoJitter()),
        ),
        ("linear:1s,step=2s", Linear(1, 2)),
        ("decorrelated:1s,cap=9", Decorrelated(1, cap=9)),
    ],
)
def test_a_backoff_on_the_command_line(text: str, backoff) -> None:
    """A wait, several waits, or a kind with its settings."""
    assert backoff_from(text) == backoff


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-1", "nan", "inf", "1,,2", "1s,x", "fast:1", "exponential:", "linear:1s",
     "exponential:1s,2s", "exponential:1s,jiter=full", "exponential:1s,cap=0.5", ":1"],
)  # fmt: skip
def test_no_backoff(text: str) -> None:
    """Whatever is wrong, the text is told."""
    assert message(lambda: backoff_from(text)).startswith(f"--backoff {text!r}: ")
