"""Names mean what the library and the program say, and never cause an import."""

from __future__ import annotations

import asyncio
import copy
import pickle
import ssl
import subprocess
import sys

import httpx
import pytest
import requests
import requests.exceptions

from retrykit import (
    Attempt,
    Call,
    Exponential,
    Never,
    OnException,
    Raised,
    RetryAfter,
    RetryPolicy,
    transient,
)
from retrykit.config import (
    ConfigError,
    dump,
    from_mapping,
    register,
    register_exception,
)
from retrykit.config._names import exception_named, name_of_exception
from retrykit.config._specs import SPECS
from retrykit.facts._rows import class_names
from retrykit.jitter import Bounds


def on(*names):
    """The classifier that these names make."""
    return from_mapping({"a": {"on": list(names)}}, environ={}, register=False)["a"].classify


def failed(error):
    return Attempt(Call(print), 1, Raised(error), 0.1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("OSError", OSError),
        ("IOError", OSError),
        ("builtins.OSError", OSError),
        ("Exception", Exception),
        ("KeyboardInterrupt", KeyboardInterrupt),
        ("ExceptionGroup", ExceptionGroup),
        ("ssl.SSLError", ssl.SSLError),
        ("httpx.ReadTimeout", httpx.ReadTimeout),
        ("requests.exceptions.ConnectionError", requests.ConnectionError),
        ("requests.ConnectionError", requests.ConnectionError),
        ("asyncio.IncompleteReadError", asyncio.IncompleteReadError),
    ],
)
def test_builtins_and_the_facts_have_names(name, kind):
    """By the qualified name, or as users of the package write it."""
    assert on(name) == OnException(kind)


def test_names_in_a_row_are_one_rule():
    """And a rule between them makes two."""
    assert on("OSError", "KeyError") == OnException(OSError, KeyError)
    assert on("OSError", "transient", "KeyError") == (
        OnException(OSError) | transient | OnException(KeyError)
    )


@pytest.mark.parametrize(
    "name",
    [
        *("print", "object", "int", "os.system", "os.error", "subprocess.CalledProcessError"),
        *("builtins.print", "httpx.Client", "httpx", ".", "..OSError", "OSError ", "oserror", ""),
        *("__import__('os')", "requests.exceptions.ConnectionError.mro", "a" * 10_000),
    ],
)
def test_nothing_else_is_an_exception_s_name(name):
    """Neither other objects, nor exceptions that only the interpreter could find."""
    with pytest.raises(ConfigError, match=r"on\[0\] must name an exception type or a classifier"):
        on(name)


PROGRAM = """
import sys
from retrykit import Attempt, Call, Raised
from retrykit.config import dump, from_mapping
names = ["httpx.ReadTimeout", "redis.exceptions.BusyLoadingError", "sqlite3.OperationalError"]
before = set(sys.modules)
policy = from_mapping({"a": {"on": names, "never": "httpx.ConnectTimeout"}}, environ={})["a"]
text = repr(policy.classify)
dumped = dump(policy)
ours = ("retrykit", "pydantic")
print([name for name in set(sys.modules) - before if not name.startswith(ours)])
print(text)
print(dumped["on"] == names, dumped["never"])
def decide(error):
    return policy.classify(Attempt(Call(print), 1, Raised(error), 0.1))
print(decide(KeyError()), decide(TimeoutError()))
import httpx
print(decide(httpx.ReadTimeout("")), decide(httpx.ConnectTimeout("")), decide(httpx.ReadError("")))
class Mine(httpx.ReadTimeout):
    pass
print(decide(Mine("")))
"""


def test_a_library_that_is_not_imported_is_named_and_stays_so():
    """The name means the class once the program has imported it, subclasses included."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.stdout.splitlines() == [
        "[]",
        (
            "FirstOf(Never(httpx.ConnectTimeout), OnException(httpx.ReadTimeout,"
            " redis.exceptions.BusyLoadingError, sqlite3.OperationalError))"
        ),
        "True ['httpx.ConnectTimeout']",
        "None None",
        (
            "RetryAfter(delay=0.0, reason=RetryReason.TRANSIENT)"
            " DoNotRetry(reason=StopReason.FORBIDDEN) None"
        ),
        "RetryAfter(delay=0.0, reason=RetryReason.TRANSIENT)",
    ], run.stderr


@pytest.fixture
def absent(monkeypatch):
    """A name of the facts whose module the program has not imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "pymongo":
            monkeypatch.delitem(sys.modules, name)
    return "pymongo.errors.AutoReconnect"


def test_a_stand_in_is_a_value(absent):
    """Equal by name; it pickles and copies as a part of a policy."""
    policy = RetryPolicy(classify=on(absent))
    assert policy == RetryPolicy(classify=on(absent))
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy
    assert hash(policy) == hash(pickle.loads(pickle.dumps(policy)))
    assert repr(on(absent)) == f"OnException({absent})"
    assert repr(exception_named(absent)) == f"<exception {absent}, not imported>"


def test_a_stand_in_is_the_class_once_there_is_one(absent, monkeypatch):
    """`isinstance` and `issubclass` follow the import."""
    import types

    stand_in = exception_named(absent)
    classify = on(absent)
    module = types.ModuleType("pymongo.errors")
    module.AutoReconnect = type("AutoReconnect", (Exception,), {})
    assert not isinstance(module.AutoReconnect(), stand_in)
    monkeypatch.setitem(sys.modules, "pymongo.errors", module)
    assert isinstance(module.AutoReconnect(), stand_in)
    assert issubclass(module.AutoReconnect, stand_in)
    assert issubclass(stand_in, stand_in)
    assert not issubclass(KeyError, stand_in)
    assert classify(failed(module.AutoReconnect())) == RetryAfter()
    assert classify(failed(KeyError())) is None
    assert on(absent) == OnException(module.AutoReconnect)


@pytest.mark.parametrize("found", [5, "a text", int, None])
def test_what_has_an_exception_s_name_and_is_none_is_not_taken(absent, monkeypatch, found):
    """A module may hold anything under that name."""
    import types

    module = types.ModuleType("pymongo.errors")
    module.AutoReconnect = found
    monkeypatch.setitem(sys.modules, "pymongo.errors", module)
    assert on(absent)(failed(KeyError())) is None


def test_a_module_that_imports_on_demand_is_not_asked(absent, monkeypatch):
    """Its `__getattr__` is somebody's code."""
    import types

    module = types.ModuleType("pymongo.errors")
    module.__getattr__ = lambda name: pytest.fail("asked")
    monkeypatch.setitem(sys.modules, "pymongo.errors", module)
    assert on(absent)(failed(KeyError())) is None


def test_every_name_of_the_facts_is_known():
    """And written as it is read, where its module is here or not."""
    for name in class_names():
        kind = exception_named(name)
        assert issubclass(kind, BaseException)
        written = name_of_exception(kind)
        assert written is not None
        assert exception_named(written) is kind


def test_a_part_is_named_wherever_a_policy_takes_one():
    """A jitter here; the file with everything has the others."""

    class Third:
        def __call__(self, delay, rng):
            return delay / 3

        def bounds(self, delay):
            return Bounds(delay / 3, delay / 3)

    third = Third()
    register("third", third)
    backoff = {"kind": "exponential", "base": 3, "jitter": "third"}
    policy = from_mapping({"a": {"backoff": backoff}}, environ={})["a"]
    assert policy.backoff == Exponential(3, jitter=third)
    assert dump(policy)["backoff"]["jitter"] == "third"


def test_a_part_that_cannot_be_compared_is_no_harm():
    """Its comparison may raise anything."""

    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise RuntimeError

        def __call__(self, event):
            pass

    register("odd", Odd())
    with pytest.raises(ConfigError, match="listeners"):
        dump(RetryPolicy(listeners=(Odd(),)))


# What the program registers


class QuotaError(Exception):
    pass


def test_a_registered_exception_is_written_by_its_name():
    """As it is read."""
    register_exception("quota", QuotaError)
    assert on("quota") == OnException(QuotaError)
    assert dump(RetryPolicy.on(QuotaError, KeyError))["on"] == ["quota", "KeyError"]


def test_a_name_can_be_given_anew():
    """A module that is imported again makes its class again."""
    register_exception("quota", QuotaError)
    register_exception("quota", TimeoutError)
    assert on("quota") == OnException(TimeoutError)


def test_the_same_meaning_again_is_no_harm():
    """Also for a name that has it already."""
    register_exception("httpx.ReadTimeout", httpx.ReadTimeout)
    register_exception("TimeoutError", TimeoutError)


@pytest.mark.parametrize(
    ("name", "kind", "error", "text"),
    [
        ("TimeoutError", QuotaError, ValueError, "name must not be another exception's"),
        ("httpx.ReadTimeout", QuotaError, ValueError, "name must not be another exception's"),
        ("http", QuotaError, ValueError, "name must not be a word of the library's own"),
        ("exponential", QuotaError, ValueError, "name must not be a word of the library's own"),
        ("false", QuotaError, ValueError, "name must not be a word of the library's own"),
        ("", QuotaError, ValueError, "name must be printable, without commas"),
        ("a,b", QuotaError, ValueError, "name must be printable, without commas"),
        (" a", QuotaError, ValueError, "name must be printable, without commas"),
        ("a\nb", QuotaError, ValueError, "name must be printable, without commas"),
        (5, QuotaError, TypeError, "name must be a string"),
        ("a", int, TypeError, "type must be an exception type"),
        ("a", QuotaError(), TypeError, "type must be an exception type"),
        ("a", None, TypeError, "type must be an exception type"),
    ],
)
def test_an_exception_is_registered_by_a_name_of_its_own(name, kind, error, text):
    """Refused where it is registered."""
    with pytest.raises(error, match=text):
        register_exception(name, kind)


@pytest.mark.parametrize(
    ("name", "part", "error", "text"),
    [
        ("TimeoutError", print, ValueError, "name must not be an exception's"),
        ("full", print, ValueError, "name must not be a word of the library's own"),
        ("log_retries", print, ValueError, "name must not be a word of the library's own"),
        ("quota", print, ValueError, "name must not be an exception's"),
        ("a", QuotaError, TypeError, "part must not be an exception type: register_exception"),
        ("a", dict, TypeError, "part must be an instance, got the class dict"),
        (None, print, TypeError, "name must be a string"),
    ],
)
def test_a_part_is_registered_by_a_name_of_its_own(name, part, error, text):
    """A name means one thing."""
    register_exception("quota", QuotaError)
    with pytest.raises(error, match=text):
        register(name, part)


def test_an_exception_does_not_take_a_part_s_name():
    """Nor the other way round."""
    register("quota", print)
    with pytest.raises(ValueError, match="name must not be another part's"):
        register_exception("quota", QuotaError)


def test_every_kind_is_a_word_of_the_library_s_own():
    """So that no registered name ever hides one."""
    for mark in SPECS:
        with pytest.raises(ValueError, match="word of the library's own"):
            register(mark.removeprefix("="), print)


def test_never_takes_the_same_names():
    """With no classifiers among them."""
    policy = from_mapping({"a": {"never": "requests.ConnectionError"}}, environ={})["a"]
    assert policy.classify == Never(requests.ConnectionError) | transient
    with pytest.raises(ConfigError, match=r"never\[0\] must be the name of an exception type"):
        from_mapping({"a": {"never": "http"}}, environ={})
