"""A reload swaps all policies at once, or none."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from retrykit import Call, RatioBudget, RetryPolicy, RetryReason, _registry, policy_of, retry
from retrykit.config import (
    ConfigError,
    from_mapping,
    load,
    register_policy,
    reload,
)
from retrykit.errors import UnknownPolicy

CALL = Call(print)


def named(name):
    return policy_of(retry(policy=name)(print))


def test_the_next_call_has_the_new_policy(write):
    """The decorated function is the same."""
    path = write("[policies.a]\nattempts = 2")
    load(path, environ={})
    write("[policies.a]\nattempts = 3")
    assert named("a").attempts == 2
    assert reload()["a"].attempts == 3
    assert named("a").attempts == 3


def test_a_call_in_flight_keeps_its_policy(write):
    """Here it is its own first attempt that reloads the file."""
    load(write('[policies.a]\non = "OSError"\nattempts = 4\nbackoff = [0, 0, 0]'), environ={})
    calls = []

    @retry(policy="a")
    def fetch():
        calls.append(1)
        if len(calls) == 1:
            write('[policies.a]\non = "OSError"\nattempts = 1')
            reload()
        raise OSError

    with pytest.raises(OSError):
        fetch()
    assert len(calls) == 4
    with pytest.raises(OSError):
        fetch()
    assert len(calls) == 5


def test_nothing_changes_where_anything_is_wrong(tmp_path):
    """In any of the files; the problems of all of them are told."""
    first, second, third = (tmp_path / f"{name}.toml" for name in "abc")
    for path in (first, second, third):
        path.write_text(f"[policies.{path.stem}]\nattempts = 2")
        load(path, environ={})
    first.write_text("[policies.a]\nattempts = 3")
    second.write_text("[policies.b]\nattempts = 0")
    third.write_text("")
    with pytest.raises(ConfigError) as caught:
        reload()
    assert [problem.source for problem in caught.value.problems] == [str(second), str(third)]
    assert [named(name).attempts for name in "abc"] == [2, 2, 2]
    second.write_text("[policies.b]\nattempts = 3")
    third.unlink()
    with pytest.raises(FileNotFoundError):
        reload()
    assert [named(name).attempts for name in "abc"] == [2, 2, 2]


def test_names_that_are_gone_are_forgotten(write):
    """And those of other sources are not."""
    load(write("[policies.a]\n[policies.b]"), environ={})
    from_mapping({"c": {}}, environ={})
    register_policy("d", RetryPolicy())
    write("[policies.b]")
    assert reload().keys() == {"b"}
    assert _registry.registered().keys() == {"b", "c", "d"}
    with pytest.raises(UnknownPolicy, match="there are b, c, d"):
        named("a")


def test_a_name_that_another_source_took_is_left_to_it(write):
    """It was the last to say what it means."""
    load(write("[policies.a]\n[policies.b]"), environ={})
    mine = RetryPolicy(attempts=9)
    register_policy("a", mine)
    write("[policies.b]")
    reload()
    assert named("a") is mine


def test_loading_a_file_again_is_reloading_it(write):
    """Its names that are gone are forgotten as well."""
    load(write("[policies.a]\n[policies.b]"), environ={})
    load(write("[policies.b]"), environ={})
    assert _registry.registered().keys() == {"b"}


def test_one_file_can_be_reloaded(tmp_path):
    """The others stay as they are."""
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    for path in (first, second):
        path.write_text(f"[policies.{path.stem}]\nattempts = 2")
        load(path, environ={"RETRYKIT_A__DEADLINE": "5"})
        path.write_text(f"[policies.{path.stem}]\nattempts = 3")
    assert reload(first).keys() == {"a"}
    assert [named(name).attempts for name in "ab"] == [3, 2]
    assert named("a").deadline == 5.0


def test_the_environment_is_read_anew(write, monkeypatch):
    """As it is now, or the mapping that stood in for it as that is now."""
    load(write("[policies.a]"))
    monkeypatch.setenv("RETRYKIT_A__ATTEMPTS", "2")
    assert reload()["a"].attempts == 2
    environ = {}
    load(write("[policies.a]"), environ=environ)
    environ["RETRYKIT_A__ATTEMPTS"] = "3"
    assert reload()["a"].attempts == 3


def test_a_file_is_found_again_from_another_folder(write, tmp_path, monkeypatch):
    """A path is meant from where the program was when it loaded it."""
    write("[policies.a]\nattempts = 2")
    monkeypatch.chdir(tmp_path)
    load("retrykit.toml", environ={})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "retrykit.toml").write_text("[policies.b]")
    assert reload().keys() == {"a"}


def test_what_was_never_loaded_is_not_reloaded(write):
    """Neither a file that was only read, nor a mapping."""
    load(write("[policies.a]"), environ={}, register=False)
    from_mapping({"b": {}}, environ={})
    assert reload() == {}
    assert _registry.registered().keys() == {"b"}


# Budgets


BUDGET = "[policies.a]\nbudget = { kind = 'ratio', reserve = 2 }\nattempts = %s\n"


def test_a_budget_with_the_same_settings_keeps_its_balance(write):
    """Or a reload in an outage would buy every client new retries."""
    load(write(BUDGET % 2), environ={})
    budget = named("a").budget
    assert budget.withdraw(CALL, RetryReason.TIMED_OUT)
    write(BUDGET % 3)
    reload()
    assert named("a").attempts == 3
    assert named("a").budget is budget
    assert named("a").budget.balance() == 1.0


def test_a_file_that_is_only_read_has_budgets_of_its_own(write):
    """Whoever looks at it must not spend what calls are to have."""
    path = write(BUDGET % 2)
    load(path, environ={})
    looked_at = load(path, environ={}, register=False)["a"]
    assert looked_at == named("a")
    assert looked_at.budget is not named("a").budget


def test_a_budget_with_other_settings_begins_anew(write):
    """It is another one."""
    load(write(BUDGET % 2), environ={})
    named("a").budget.withdraw(CALL, RetryReason.TIMED_OUT)
    write((BUDGET % 2).replace("reserve = 2", "reserve = 3"))
    reload()
    assert named("a").budget.balance() == 3.0
    write((BUDGET % 2).replace("kind = 'ratio', reserve = 2", "kind = 'token', tokens = 20"))
    reload()
    assert named("a").budget.balance() == 20.0


def test_an_endpoint_s_budget_keeps_its_balance_too(write):
    """Its own, and the policy's where it has none."""
    text = BUDGET % 2 + (
        '[policies.a.endpoints."GET /x"]\nbudget = { kind = "ratio", reserve = 5 }\n'
        '[policies.a.endpoints."GET /y"]\nattempts = 2\n'
    )
    load(write(text), environ={})
    for path in ("/x", "/y"):
        named("a").pick("GET", path).budget.withdraw(CALL, RetryReason.TIMED_OUT)
    reload()
    balances = [named("a").pick("GET", path).budget.balance() for path in ("/x", "/y", "/z")]
    assert balances == [4.0, 1.0, 1.0]


def test_two_policies_do_not_come_to_share_a_budget(write):
    """Though the settings are the same."""
    load(write("[policies.a]\nbudget = 'ratio'\n[policies.b]\nbudget = 'ratio'"), environ={})
    reload()
    assert named("a").budget == named("b").budget == RatioBudget()
    assert named("a").budget is not named("b").budget


# Threads


def test_no_call_sees_half_of_a_change(write):
    """Two policies that change together are never seen apart."""
    path = write("[policies.a]\nattempts = 1\n[policies.b]\nattempts = 1")
    load(path, environ={})
    torn = []
    done = threading.Event()

    def look():
        while not done.is_set():
            seen = _registry.registered()
            if seen.keys() != {"a", "b"} or seen["a"].attempts != seen["b"].attempts:
                torn.append(seen)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    readers = [threading.Thread(target=look) for _ in range(3)]
    try:
        for reader in readers:
            reader.start()
        for attempts in range(2, 40):
            text = f"[policies.a]\nattempts = {attempts}\n[policies.b]\nattempts = {attempts}"
            other = path.with_suffix(".new")
            other.write_text(text)
            os.replace(other, path)
            reload()
    finally:
        done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert torn == []


def test_files_loaded_in_several_threads_are_all_known(tmp_path):
    """None undoes another."""
    paths = [tmp_path / f"p{number}.toml" for number in range(16)]
    for path in paths:
        path.write_text(f"[policies.{path.stem}]")
    threads = [
        threading.Thread(target=load, args=(path,), kwargs={"environ": {}}) for path in paths
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _registry.registered().keys() == {path.stem for path in paths}
    assert reload().keys() == {path.stem for path in paths}
