"""`retry` around every kind of callable: it binds, introspects and pickles as what it wraps."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import dataclasses
import functools
import inspect
import pickle
import types
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import click
import pytest
import trio
from click.testing import CliRunner
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from retrykit import (
    Attempt,
    Call,
    Constant,
    DoNotRetry,
    Exponential,
    FullJitter,
    Never,
    OnException,
    RatioBudget,
    RetryAfter,
    RetryPolicy,
    ServerDelay,
    current_attempt,
    disabled,
    policy_of,
    retry,
    with_policy,
)
from retrykit.errors import UnknownPolicy
from retrykit.events import Event

POLICY = RetryPolicy.on(ConnectionError, attempts=3, backoff=[0, 0], listeners=())
WATCHED = POLICY.replace(listeners=(lambda event: None,))
POLICIES = pytest.mark.parametrize(
    "policy", [pytest.param(POLICY, id="fast"), pytest.param(WATCHED, id="watched")]
)


def fail_twice() -> int:
    """Raise in the first two attempts, then return the number of the attempt."""
    number = current_attempt().number
    if number < 3:
        raise ConnectionResetError(number)
    return number


class Flaky:
    """Counts its calls and raises in the first two."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls % 3:
            raise ConnectionResetError(self.calls)
        return args, kwargs


class AsyncFlaky(Flaky):
    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


@retry(policy=POLICY)
def at_module_level(value: int) -> int:
    """Found by name in another process."""
    fail_twice()
    return value * 2


@retry(policy=POLICY)
def always_down() -> None:
    raise ConnectionResetError("down")


class AtModuleLevel:
    @retry(policy=POLICY)
    def method(self, value: int) -> int:
        return value + fail_twice()

    @retry(policy=POLICY)
    @classmethod
    def above(cls, value: int) -> int:
        return value + fail_twice()


# Binding


def bindings(policy: RetryPolicy) -> dict[str, Any]:
    """Each way in which a method may be declared, as a class and what it gives when called."""

    class Base(abc.ABC):
        def __init__(self, tag: str) -> None:
            self.tag = tag

        @retry(policy=policy)
        def plain(self, *args: Any, **kwargs: Any) -> Any:
            return self.tag, fail_twice(), args, kwargs

        @retry(policy=policy)
        @classmethod
        def class_above(cls, *args: Any, **kwargs: Any) -> Any:
            return cls.__name__, fail_twice(), args, kwargs

        @classmethod
        @retry(policy=policy)
        def class_below(cls, *args: Any, **kwargs: Any) -> Any:
            return cls.__name__, fail_twice(), args, kwargs

        @retry(policy=policy)
        @staticmethod
        def static_above(*args: Any, **kwargs: Any) -> Any:
            return "static", fail_twice(), args, kwargs

        @staticmethod
        @retry(policy=policy)
        def static_below(*args: Any, **kwargs: Any) -> Any:
            return "static", fail_twice(), args, kwargs

    class Derived(Base):
        pass

    return {"base": Base, "derived": Derived}


@POLICIES
@pytest.mark.parametrize("kind", ["base", "derived"])
@pytest.mark.parametrize(
    "name", ["plain", "class_above", "class_below", "static_above", "static_below"]
)
def test_every_way_of_binding_is_retried_with_the_right_receiver(
    policy: RetryPolicy, kind: str, name: str
) -> None:
    """From the instance, from the class, bound or not: wrapt's changelog and jd/tenacity#150."""
    cls = bindings(policy)[kind]
    one, other = cls("one"), cls("other")
    receiver = {"plain": "one", "static_above": "static", "static_below": "static"}.get(
        name, cls.__name__
    )
    wanted = (receiver, 3, (1,), {"self_": 2})
    assert getattr(one, name)(1, self_=2) == wanted
    bound = getattr(one, name)
    assert bound(1, self_=2) == wanted
    assert bound(1, self_=2) == wanted
    if name == "plain":
        assert getattr(cls, name)(one, 1, self_=2) == wanted
        assert other.plain()[0] == "other"
        assert cls.__dict__.get("plain", bound) is not None
    else:
        assert getattr(cls, name)(1, self_=2) == wanted


@POLICIES
def test_super_and_overriding(policy: RetryPolicy) -> None:
    """An overriding method reaches the decorated one through `super()`."""

    class Base:
        @retry(policy=policy)
        def method(self, value: int) -> int:
            return value + fail_twice()

    class Derived(Base):
        def method(self, value: int) -> int:
            return super().method(value) * 10

    assert Derived().method(1) == 40


@POLICIES
def test_below_property(policy: RetryPolicy) -> None:
    """The getter is retried; a setter as well."""

    class Holder:
        @property
        @retry(policy=policy)
        def value(self) -> int:
            return fail_twice()

        @value.setter
        @retry(policy=policy)
        def value(self, value: int) -> None:
            self.seen = value, fail_twice()

    holder = Holder()
    assert holder.value == 3
    holder.value = 7
    assert holder.seen == (7, 3)


def test_below_cached_property() -> None:
    """`functools.cached_property` learns its name and caches the last attempt's value."""

    class Holder:
        @functools.cached_property
        @retry(policy=POLICY)
        def value(self) -> int:
            return fail_twice()

    holder = Holder()
    assert (holder.value, holder.__dict__["value"]) == (3, 3)


@pytest.mark.parametrize("above", [True, False])
def test_abstract_methods_stay_abstract(above: bool) -> None:
    """In either order."""
    first, second = (retry, abc.abstractmethod) if above else (abc.abstractmethod, retry)

    class Holder(abc.ABC):
        @first
        @second
        def method(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Holder()


def test_methods_of_dataclasses_and_slots() -> None:
    """A decorated method is no field, and needs no `__dict__` on the instance."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Client:
        base: str

        @retry(policy=POLICY)
        def get(self, path: str) -> str:
            fail_twice()
            return self.base + path

    assert [each.name for each in dataclasses.fields(Client)] == ["base"]
    assert Client("http://a").get("/b") == "http://a/b"


def test_bound_methods_compare_and_hash_as_usual() -> None:
    """Two reads of one method are equal, those of two instances are not."""
    one, other = AtModuleLevel(), AtModuleLevel()
    assert one.method == one.method
    assert one.method != other.method
    assert len({one.method, one.method, other.method}) == 2
    assert one.method.__self__ is one


def test_what_other_decorators_set_is_seen_on_the_method() -> None:
    """A framework that marks the function above `retry` finds its mark through the instance."""

    def route(path: str) -> Any:
        def mark(function: Any) -> Any:
            function.route = path
            return function

        return mark

    class Handler:
        @route("/x")
        @retry(policy=POLICY)
        def get(self) -> int:
            return fail_twice()

        @retry(policy=POLICY)
        @route("/y")
        def put(self) -> int:
            return fail_twice()

    assert (Handler.get.route, Handler().get.route) == ("/x", "/x")
    assert (Handler.put.route, Handler().put.route) == ("/y", "/y")


# Callables


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("flaky", [Flaky, AsyncFlaky])
def test_callable_objects_and_partials_of_any_depth(flaky: type[Flaky], depth: int) -> None:
    """jd/tenacity#657: a partial of an async callable object is awaited and retried."""
    target: Any = flaky()
    inner = target
    for level in range(depth):
        target = functools.partial(target, level)
    decorated = retry(policy=POLICY)(target)
    result = decorated("x", key="y")
    if flaky is AsyncFlaky:
        assert inspect.isawaitable(result)
        result = asyncio.run(result)
    assert result == ((*range(depth), "x"), {"key": "y"})
    assert inner.calls == 3


def test_async_mock() -> None:
    """gptme/gptme-contrib#1288, lumoa-oss/booktest#86."""
    mock = AsyncMock(side_effect=[ConnectionError, ConnectionError, "value"])
    assert asyncio.run(retry(policy=POLICY)(mock)(1, a=2)) == "value"
    assert mock.await_count == 3


def test_bound_async_methods_and_partial_methods() -> None:
    """A bound async method, and an async partialmethod, are seen for what they are."""

    class Holder:
        def __init__(self) -> None:
            self.calls = 0

        async def method(self, value: int) -> int:
            self.calls += 1
            if self.calls < 3:
                raise ConnectionError
            return value

        partial = functools.partialmethod(method, 5)

    assert asyncio.run(retry(policy=POLICY)(Holder().method)(4)) == 4
    assert asyncio.run(retry(policy=POLICY)(Holder().partial)()) == 5


@POLICIES
def test_a_function_that_returns_a_coroutine_is_driven_as_async(policy: RetryPolicy) -> None:
    """invl/retry#70, groodt/retrying#8: the failure comes when it is awaited, and is retried."""

    async def fetch() -> int:
        await asyncio.sleep(0)
        return fail_twice()

    decorated = retry(policy=policy)(lambda: fetch())
    assert asyncio.run(decorated()) == 3

    async def in_trio() -> int:
        async def fetch() -> int:
            await trio.sleep(0)
            return fail_twice()

        result: int = await retry(policy=policy)(lambda: fetch())()
        return result

    assert trio.run(in_trio) == 3


@POLICIES
def test_a_function_that_fails_and_then_returns_a_coroutine(policy: RetryPolicy) -> None:
    """The first failure comes at once, the second when awaited; both count."""
    calls = 0

    async def fetch() -> int:
        return fail_twice()

    def start() -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError
        return fetch()

    assert asyncio.run(retry(policy=policy)(start)()) == 3
    assert calls == 3


def test_other_awaitables_are_values() -> None:
    """A task or future is handed through as it is: who made it awaits it."""

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        assert retry(policy=POLICY)(lambda: future)() is future
        task = asyncio.ensure_future(asyncio.sleep(0, "value"))
        assert retry(policy=POLICY)(lambda: task)() is task
        assert await task == "value"

    asyncio.run(main())


def test_builtins() -> None:
    """A builtin has no signature of its own to lose."""
    assert retry(policy=POLICY)(len)([1, 2]) == 2
    assert retry(policy=POLICY)("a-b".split)("-") == ["a", "b"]


def test_decorated_twice() -> None:
    """Each decorator makes its own attempts: three times three."""
    calls = 0

    @retry(policy=POLICY)
    @retry(policy=POLICY)
    def function() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    with pytest.raises(ConnectionError) as caught:
        function()
    assert calls == 9
    assert len(caught.value.__notes__) == 1


def test_recursive() -> None:
    """Each level is a call of its own; the outer attempt's number stays its own."""
    seen = []

    @retry(policy=POLICY)
    def function(depth: int) -> int:
        if depth:
            inner = function(depth - 1)
            seen.append((depth, current_attempt().number, inner))
        return fail_twice()

    assert function(2) == 3
    assert {each[1] for each in seen} == {1, 2, 3}
    assert {each[2] for each in seen} == {3}


@POLICIES
def test_any_keyword_name_is_the_users(policy: RetryPolicy) -> None:
    """h2non/riprova#11: no parameter of the library's own is in the way."""
    names = "self fn function func policy on timeout args kwargs instance call attempt wrapped cls"
    given = dict.fromkeys(names.split(), 1)

    @retry(policy=policy)
    def takes(**kwargs: Any) -> Any:
        return kwargs

    @retry(policy=policy)
    async def takes_async(**kwargs: Any) -> Any:
        return kwargs

    class Holder:
        @retry(policy=policy)
        def method(this, **kwargs: Any) -> Any:
            return kwargs

        @retry(policy=policy)
        @classmethod
        def above(this, **kwargs: Any) -> Any:
            return kwargs

        @retry(policy=policy)
        async def method_async(this, **kwargs: Any) -> Any:
            return kwargs

    assert takes(**given) == given
    assert asyncio.run(takes_async(**given)) == given
    assert Holder().method(**given) == given
    assert Holder.above(**given) == given
    assert asyncio.run(Holder().method_async(**given)) == given
    assert policy.call(lambda **kwargs: kwargs, **given) == given
    assert asyncio.run(policy.acall(takes_async, **given)) == given


# Introspection


def sample(a: int, /, b: str = "x", *rest: float, c: bool, **more: bytes) -> list[int]:
    """What it does."""
    return [a]


async def async_sample(a: int, *, b: str = "x") -> list[int]:
    """What it does."""
    return [a]


@pytest.mark.parametrize("function", [sample, async_sample])
@pytest.mark.parametrize("twice", [False, True])
def test_name_doc_signature_and_annotations_stay(function: Any, twice: bool) -> None:
    """rholder/retrying#33, jd/tenacity#288."""
    decorated = retry(policy=POLICY)(function)
    if twice:
        decorated = retry(policy=POLICY)(decorated)
    assert decorated.__name__ == function.__name__
    assert decorated.__qualname__ == function.__qualname__
    assert decorated.__module__ == __name__
    assert decorated.__doc__ == "What it does."
    assert inspect.signature(decorated) == inspect.signature(function)
    assert decorated.__annotations__ == function.__annotations__
    assert inspect.unwrap(decorated) is function


def test_a_bound_method_introspects_as_its_function() -> None:
    """Name, doc and signature without `self`, from the instance and from the class."""

    class Holder:
        @retry(policy=POLICY)
        def method(self, a: int, b: str = "x") -> str:
            """What it does."""
            return b

    for bound in (Holder().method, types.MethodType(Holder.method, Holder())):
        assert bound.__name__ == "method"
        assert bound.__doc__ == "What it does."
        assert str(inspect.signature(bound)) == "(a: 'int', b: 'str' = 'x') -> 'str'"
    assert inspect.ismethod(Holder().method)
    assert str(inspect.signature(Holder.method)).startswith("(self, a")


def test_iscoroutinefunction_and_the_like_stay_true() -> None:
    """jd/tenacity#181, #224, #257, fastapi/fastapi#3445: also when decorated twice."""

    async def coroutine() -> None: ...
    async def async_generator() -> Any:
        yield

    def generator() -> Any:
        yield

    class Holder:
        @retry
        async def method(self) -> None: ...
        @retry
        def generator(self) -> Any:
            yield

        @retry
        async def async_generator(self) -> Any:
            yield

        @retry
        @classmethod
        async def above(cls) -> None: ...

    assert inspect.iscoroutinefunction(retry(coroutine))
    assert inspect.iscoroutinefunction(retry(retry(coroutine)))
    assert inspect.iscoroutinefunction(retry(functools.partial(coroutine)))
    assert inspect.iscoroutinefunction(Holder().method)
    assert inspect.iscoroutinefunction(Holder.above)
    assert inspect.isgeneratorfunction(retry(generator))
    assert inspect.isgeneratorfunction(Holder().generator)
    assert inspect.isasyncgenfunction(retry(retry(async_generator)))
    assert inspect.isasyncgenfunction(Holder().async_generator)
    assert not inspect.iscoroutinefunction(retry(generator))


def test_annotations_that_name_nothing_yet_do_not_fail() -> None:
    """wrapt 2.x: decoration does not evaluate annotations."""

    def function(a: NotThere) -> AlsoNotThere:  # noqa: F821 - the point of the test
        return a

    assert retry(policy=POLICY)(function)(1) == 1


def test_a_coroutine_is_named_after_its_function() -> None:
    """So that a warning about one that was never awaited says which."""
    for coroutine in (retry(async_sample)(1), retry(policy=WATCHED)(async_sample)(1)):
        assert coroutine.__qualname__ == "async_sample"
        coroutine.close()


# Frameworks


def test_fastapi_endpoints_and_dependencies() -> None:
    """Blocking and async, with parameters read off the signature."""
    app = FastAPI()

    @retry(policy=POLICY)
    async def dependency(q: int = 1) -> int:
        return q + fail_twice()

    @app.get("/async")
    @retry(policy=POLICY)
    async def async_endpoint(n: int, got: int = Depends(dependency)) -> dict[str, int]:
        return {"n": n, "got": got, "number": fail_twice()}

    @app.get("/sync")
    @retry(policy=POLICY)
    def endpoint(n: int) -> dict[str, int]:
        return {"n": n, "number": fail_twice()}

    with TestClient(app) as client:
        assert client.get("/async?n=5&q=2").json() == {"n": 5, "got": 5, "number": 3}
        assert client.get("/sync?n=5").json() == {"n": 5, "number": 3}
        assert client.get("/sync?n=x").status_code == 422


@pytest.fixture
@retry(policy=POLICY)
def retried_fixture(tmp_path: Any) -> Any:
    return tmp_path, fail_twice()


@pytest.fixture
@retry(policy=POLICY)
def retried_generator_fixture() -> Any:
    number = fail_twice()
    yield number


def test_pytest_fixtures(
    retried_fixture: Any, retried_generator_fixture: Any, tmp_path: Any
) -> None:
    """A fixture that is set up with retries, with and without tear-down."""
    assert retried_fixture == (tmp_path, 3)
    assert retried_generator_fixture == 3


def test_click_commands() -> None:
    """Options still arrive by name."""

    @click.command()
    @click.option("--name")
    @retry(policy=POLICY)
    def command(name: str) -> None:
        click.echo(f"{name} {fail_twice()}")

    result = CliRunner().invoke(command, ["--name", "x"])
    assert (result.exit_code, result.output) == (0, "x 3\n")


def test_context_managers() -> None:
    """`contextmanager` over a retried generator: setting up is retried, the body is not."""
    exits = []

    @contextlib.contextmanager
    @retry(policy=POLICY)
    def resource() -> Any:
        number = fail_twice()
        try:
            yield number
        finally:
            exits.append(number)

    with resource() as number:
        assert number == 3
    assert exits == [3]
    with pytest.raises(ConnectionError, match="in the body"), resource():
        raise ConnectionError("in the body")
    assert exits == [3, 3]


def test_async_context_managers() -> None:
    """The same for `asynccontextmanager`."""

    @contextlib.asynccontextmanager
    @retry(policy=POLICY)
    async def resource() -> Any:
        yield fail_twice()

    async def main() -> int:
        async with resource() as number:
            return number

    assert asyncio.run(main()) == 3


def test_functools_cache_singledispatch_and_wraps() -> None:
    """Above and below the standard library's own decorators."""
    calls = 0

    @functools.cache
    @retry(policy=POLICY)
    def cached(value: int) -> int:
        nonlocal calls
        calls += 1
        fail_twice()
        return value

    assert (cached(1), cached(1), calls) == (1, 1, 3)

    @functools.singledispatch
    @retry(policy=POLICY)
    def dispatched(value: object) -> str:
        fail_twice()
        return "object"

    @dispatched.register
    @retry(policy=POLICY)
    def _(value: int) -> str:
        fail_twice()
        return "int"

    assert (dispatched(1), dispatched("x")) == ("int", "object")

    @functools.wraps(cached)
    def wrapped(value: int) -> int:
        return cached(value)

    assert wrapped.__name__ == "cached"


def test_create_autospec() -> None:
    """A mock with the decorated function's signature."""
    spec = create_autospec(retry(policy=POLICY)(sample))
    spec(1, c=True)
    with pytest.raises(TypeError):
        spec()


# Copies and processes


def test_pickle_by_name() -> None:
    """jd/tenacity#182: a decorated function and a bound method travel by their names."""
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level
    assert pickle.loads(pickle.dumps(AtModuleLevel().method))(1) == 4
    assert pickle.loads(pickle.dumps(AtModuleLevel.above))(1) == 4
    assert copy.copy(at_module_level) is at_module_level
    assert copy.deepcopy({"f": at_module_level})["f"] is at_module_level


def test_a_copy_under_another_policy_has_no_name_to_travel_by() -> None:
    """It is refused, instead of arriving as the original."""
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(with_policy(at_module_level, POLICY.replace(attempts=1)))


def test_process_pools() -> None:
    """jd/tenacity#429: called in a worker process, and its error comes back with its note."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(at_module_level, 4).result() == 8
        with pytest.raises(ConnectionResetError, match="down") as caught:
            pool.submit(always_down).result()
    assert "gave up after 3 attempts" in caught.value.__notes__[0]


# Policies


def test_policy_of_and_with_policy() -> None:
    """The policy that was named, bound or not; another policy leaves the first one as it was."""
    other = POLICY.replace(attempts=1)
    assert policy_of(at_module_level) == POLICY
    assert policy_of(AtModuleLevel().method) == POLICY
    assert policy_of(AtModuleLevel.method) == POLICY
    assert policy_of(AtModuleLevel.above) == POLICY
    assert policy_of(retry(sample)) == RetryPolicy()
    with pytest.raises(ConnectionError):
        with_policy(at_module_level, other)(1)
    with pytest.raises(ConnectionError):
        with_policy(AtModuleLevel().method, other)(1)
    with pytest.raises(ConnectionError):
        with_policy(AtModuleLevel.above, other)(1)
    with pytest.raises(ConnectionError):
        with_policy(AtModuleLevel.method, other)(AtModuleLevel(), 1)
    assert at_module_level(1) == 2
    assert policy_of(with_policy(AtModuleLevel().method, other)) == other


@pytest.mark.parametrize("wrong", [sample, print, lambda: None, functools.partial(sample), 3])
def test_what_was_never_decorated_has_no_policy(wrong: Any) -> None:
    """It says so, for both."""
    with pytest.raises(TypeError, match="not decorated with retry"):
        policy_of(wrong)
    with pytest.raises(TypeError, match="not decorated with retry"):
        with_policy(wrong, POLICY)


def test_a_policy_from_the_call() -> None:
    """Settings that live on `self`, or in the arguments."""

    class Client:
        def __init__(self, attempts: int) -> None:
            self.policy = POLICY.replace(attempts=attempts)
            self.calls = 0

        @retry(policy=lambda call: call.instance.policy)
        def get(self, path: str) -> None:
            self.calls += 1
            raise ConnectionError(path)

    for attempts in (1, 2, 3):
        client = Client(attempts)
        with pytest.raises(ConnectionError):
            client.get("/x")
        assert client.calls == attempts
        with pytest.raises(ConnectionError):
            Client.get(client, "/x")
        assert client.calls == 2 * attempts

    @retry(policy=lambda call: POLICY.replace(attempts=call.kwargs["tries"]))
    def function(*, tries: int) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError) as caught:
        function(tries=2)
    assert "after 2 attempts" in caught.value.__notes__[0]


def failing_policy(call: Call) -> Any:
    raise LookupError("no settings")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        pytest.param(failing_policy, "policy raised LookupError", id="raises"),
        pytest.param(lambda call: 3, "policy raised TypeError", id="nonsense"),
    ],
)
def test_a_policy_that_cannot_be_had_costs_the_retries_alone(
    policy: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is made once; its outcome stands, with a note or a log record beside it."""

    @retry(policy=policy)
    def function(fail: bool) -> str:
        if fail:
            raise ConnectionError("mine")
        return "value"

    with pytest.raises(ConnectionError, match="mine") as caught:
        function(True)
    assert said in caught.value.__notes__[0]
    assert function(False) == "value"
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR"]


def test_an_unknown_name_says_which_there_are() -> None:
    """When the function is first called; the decoration itself is fine."""

    @retry(policy="nowhere")
    def function() -> None: ...

    with pytest.raises(UnknownPolicy, match="'nowhere'"):
        function()
    with pytest.raises(LookupError):
        policy_of(function)


class Counting:
    """A policy that is its own executor, and is asked about successes too."""

    def __init__(self) -> None:
        self.seen: list[Attempt] = []
        self.ends: list[bool] = []

    def new_executor(self, call: Call, /) -> Counting:
        return self

    def decide(self, attempt: Attempt, /) -> RetryAfter | DoNotRetry:
        self.seen.append(attempt)
        return RetryAfter(0.0) if attempt.error else DoNotRetry()

    def ended(self, succeeded: bool) -> None:
        self.ends.append(succeeded)


def test_a_policy_may_be_its_own_executor() -> None:
    """It is asked after every attempt, and told the end once."""
    policy = Counting()
    assert retry(policy=policy)(fail_twice)() == 3
    assert [(each.number, type(each.error)) for each in policy.seen] == [
        (1, ConnectionResetError),
        (2, ConnectionResetError),
        (3, type(None)),
    ]
    assert len({each.call for each in policy.seen}) == 1
    assert policy.ends == [False]  # it called the value final without calling it a success


# Misuse


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (lambda: retry(POLICY), "policy=p"),
        (lambda: retry(Counting()), "policy=p"),
        (lambda: retry(Constant(1)), "backoff="),
        (lambda: retry(Exponential(1)), "backoff="),
        (lambda: retry([1, 2]), "backoff="),
        (lambda: retry(OnException(OSError)), "by keyword"),
        (lambda: retry(FullJitter()), "by keyword"),
        (lambda: retry(ServerDelay()), "by keyword"),
        (lambda: retry(RatioBudget()), "retry takes a function"),
        (lambda: retry(ConnectionError), "on=ConnectionError"),
        (lambda: retry(RetryPolicy), "class"),
        (lambda: retry(3), "retry takes a function"),
        (lambda: retry("github"), "retry takes a function"),
        (lambda: retry(property(sample)), "below @property"),
        (lambda: retry(policy=POLICY)(property(sample)), "below @property"),
        (lambda: retry(type("Thing", (), {})), "does not take a class"),
        (lambda: retry(attempts=2)(type("Thing", (), {})), "does not take a class"),
        (lambda: retry(sample, attempts=3), "by keyword|retry takes a function"),
        (lambda: retry(policy=POLICY, attempts=3), "not both"),
        (lambda: retry(policy=POLICY, on=OSError), "not both"),
        (lambda: retry(policy=RetryPolicy), "call it first"),
        (lambda: retry(policy=Counting), "call it first"),
        (lambda: retry(policy=3), "new_executor"),
        (lambda: retry(policy=None), "new_executor"),
        (lambda: retry(on=OSError("x")), "instance"),
        (lambda: retry(on=int), "exception types"),
        (lambda: retry(on=[OSError, 3]), "exception types"),
        (lambda: retry(on=()), "at least one"),
        (lambda: retry(on=lambda error: True), "exception types"),
        (lambda: retry(classify=OSError()), "instance"),
        (lambda: retry(classify=Never), "an instance"),
        (lambda: retry(atempts=3), "did you mean attempts"),
        (lambda: retry(on=OSError, atempts=3), "did you mean attempts"),
        (lambda: retry(max_tries=3), "no field 'max_tries'"),
    ],
)
def test_misuse_is_a_type_error_with_the_right_spelling(misuse: Any, said: str) -> None:
    """At decoration, before anything is called."""
    with pytest.raises(TypeError, match=said):
        misuse()


def test_the_bare_and_the_called_form() -> None:
    """`@retry`, `@retry()` and `@retry(...)` all decorate."""
    assert policy_of(retry(sample)) == policy_of(retry()(sample)) == RetryPolicy()
    assert policy_of(retry(on=OSError)(sample)).classify == OnException(OSError)
    assert policy_of(retry(on=(OSError, KeyError))(sample)).classify == OnException(
        OSError, KeyError
    )
    both = policy_of(retry(on=OSError, classify=Never(PermissionError))(sample)).classify
    assert both == Never(PermissionError) | OnException(OSError)


def test_a_decorator_may_be_used_again() -> None:
    """One decorator, many functions, nothing shared but the policy."""
    decorator = retry(on=ConnectionError, attempts=3, backoff=[0, 0], listeners=())
    assert decorator(fail_twice)() == decorator(fail_twice)() == 3


def test_disabled_reaches_the_fast_path() -> None:
    """A quiet function called under `disabled()` makes one attempt."""
    with disabled(), pytest.raises(ConnectionError):
        retry(policy=POLICY)(fail_twice)()


def test_a_listener_of_a_base_class_is_told_of_a_call_that_succeeds_at_once() -> None:
    """`Event` stands for every kind also where nothing else watches the call."""
    told: list[str] = []

    class Watching:
        kinds = frozenset({Event})

        def __call__(self, event: Event) -> None:
            told.append(type(event).__name__)

    @retry(on=OSError, listeners=(Watching(),))
    def fetch() -> str:
        return "fetched"

    assert fetch() == "fetched"
    assert told == ["AttemptStarted", "CallSucceeded"]


def test_a_bound_method_that_wrapt_bound_copies_as_others_do() -> None:
    """A deep copy of what holds one works: of the class it is the same, of an object it moves."""

    class Holder:
        @retry
        @classmethod
        def of_class(cls) -> Any:
            return cls

        @retry
        def numbers(self) -> Iterator[Any]:
            yield self

    holder = Holder()
    copied = copy.deepcopy({"holder": holder, "of": Holder.of_class, "numbers": holder.numbers})
    assert copied["of"]() is Holder
    assert next(copied["numbers"]()) is copied["holder"] is not holder
    assert next(copy.copy(holder.numbers)()) is holder


def test_an_async_factory_is_refused() -> None:
    """Executors are made and asked without waiting."""

    class Factory:
        async def new_executor(self, call: Call, /) -> Any: ...

    with pytest.raises(TypeError, match=r"^policy must have a plain new_executor, got the async"):
        retry(policy=Factory())  # type: ignore[arg-type]


def test_a_builtin_is_no_method_of_its_module() -> None:
    """Of a list's method the list is the instance; of a function of a module there is none."""
    seen: list[Any] = []

    def see(attempt: Attempt) -> None:
        seen.append(attempt.call.instance)

    policy = RetryPolicy(classify=see)
    numbers = [1]
    for function, argument in ((len, numbers), (numbers.count, 1)):
        retry(policy=policy)(function)(argument)
        policy.call(function, argument)
    assert seen == [None, None, numbers, numbers]
