"""What the adapters share: a request's policy, key and body, and what is let go before a wait."""

from __future__ import annotations

import asyncio
import io
import math
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    OnResult,
    RetriesExhausted,
    RetryAfter,
    RetryDecision,
    RetryPolicy,
    StopReason,
)
from retrykit.events import CallFailed, CallGaveUp, RetryScheduled
from retrykit.http import by_endpoint, http_policy
from retrykit.http._adapter import POLICY_S_OWN, Body, HttpExchange, Retries, tighter
from retrykit.settings import CallSettings
from retrykit.testing import VirtualClock


class Response:
    """A client's response, as far as the adapters' shared part knows of it."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted


class Carrying(Exception):
    """An error that carries a response."""

    def __init__(self, response: Response) -> None:
        super().__init__("carrying")
        self.response = response


class Exchange(HttpExchange):
    """Writes down what is let go and closed, in one list with everything else."""

    __slots__ = ("log",)

    def __init__(self, log: list[Any], body: Body | None = None) -> None:
        super().__init__(print, None, "the request", body)
        self.log = log

    def let_go(self, response: Any) -> None:
        self.log.append(("let go", response))
        if response == "broken":
            raise LookupError("a bug of the client's")

    async def let_go_async(self, response: Any) -> None:
        self.let_go(response)

    def close(self, response: Any) -> None:
        self.log.append(("closed", response))


class LoggingClock(VirtualClock):
    """Writes its waits into the same list."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    def sleep(self, seconds: float, /) -> None:
        self.log.append("wait")

    async def sleep_async(self, seconds: float, /) -> None:
        self.log.append("wait")


def result_policy(log: list[Any], **fields: Any) -> RetryPolicy:
    """Everything but a number is retried, errors that carry a response too."""

    def listener(event: Any) -> None:
        if isinstance(event, (RetryScheduled, CallGaveUp, CallFailed)):
            log.append(type(event).__name__)

    def wanted(attempt: Attempt) -> RetryDecision | None:
        if isinstance(attempt.error, Carrying) or isinstance(attempt.value, str):
            return RetryAfter()
        return None

    fields.setdefault("backoff", [1.0] * 10)
    return RetryPolicy(
        classify=wanted,
        clock=LoggingClock(log),
        listeners=(listener,),
        unsatisfied="return",
        **fields,
    )


def run(kind: str, retries: Retries, exchange: Exchange, outcomes: list[Any], **own: Any) -> Any:
    """Make the call of an exchange with one outcome after the other."""
    left = iter(outcomes)

    def attempt(request: Any) -> Any:
        assert request == "the request"
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def attempt_async(request: Any) -> Any:
        return attempt(request)

    if kind == "blocking":
        return retries.run(exchange, attempt, **own)

    async def main() -> Any:
        return await retries.run_async(exchange, attempt_async, **own)

    return asyncio.run(main()) if kind == "asyncio" else trio.run(main)


kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])


# Letting go


@kinds
def test_a_response_is_let_go_between_the_decision_and_the_wait(kind: str) -> None:
    """The listeners see it open, the wait does not hold its connection; the last one stays."""
    log: list[Any] = []
    got = run(kind, Retries(result_policy(log)), Exchange(log), ["first", "second", 3])
    assert got == 3
    assert log == [
        *["RetryScheduled", ("let go", "first"), "wait"],
        *["RetryScheduled", ("let go", "second"), "wait"],
    ]


@kinds
def test_the_response_that_an_error_carries_is_let_go_too(kind: str) -> None:
    """As `raise_for_status` in a hook leaves it; an error without one leaves nothing."""
    log: list[Any] = []
    response = Response()
    outcomes = [Carrying(response), Carrying(None), 3]  # type: ignore[arg-type]  # it carries none
    assert run(kind, Retries(result_policy(log)), Exchange(log), outcomes) == 3
    assert [each for each in log if type(each) is tuple] == [("let go", response)]


@kinds
def test_what_is_handed_over_is_not_let_go(kind: str) -> None:
    """The last response, whatever ended the call, and the one that an error carries out."""
    log: list[Any] = []
    retries = Retries(result_policy(log, attempts=2))
    assert run(kind, retries, Exchange(log), ["first", "last"]) == "last"
    with pytest.raises(Carrying):
        run(kind, retries, Exchange(log), ["one", Carrying(Response())])
    raising = Retries(result_policy(log, attempts=1).replace(unsatisfied="raise"))
    with pytest.raises(RetriesExhausted) as caught:
        run(kind, raising, Exchange(log), ["only"])
    assert caught.value.value == "only"
    assert [each for each in log if type(each) is tuple] == [("let go", "first"), ("let go", "one")]


@kinds
def test_a_fault_in_letting_go_harms_nobody(kind: str) -> None:
    """The response is thrown away: the call goes on."""
    log: list[Any] = []
    assert run(kind, Retries(result_policy(log)), Exchange(log), ["broken", 3]) == 3


@kinds
def test_a_response_that_nobody_gets_is_closed(kind: str) -> None:
    """An interrupt in a classifier leaves with the call, and the response has no owner."""
    log: list[Any] = []

    class Interrupt(BaseException):
        pass

    def interrupted(value: Any) -> bool:
        raise Interrupt

    retries = Retries(result_policy(log).replace(classify=OnResult(interrupted)))
    with pytest.raises(Interrupt):
        run(kind, retries, Exchange(log), ["held"])
    assert log == [("closed", "held")]


@kinds
def test_a_response_is_closed_once(kind: str) -> None:
    """What was let go before a wait is no more closed when the wait is interrupted."""
    log: list[Any] = []

    class Interrupt(BaseException):
        pass

    class Interrupted(LoggingClock):
        def sleep(self, seconds: float, /) -> None:
            raise Interrupt

        async def sleep_async(self, seconds: float, /) -> None:
            raise Interrupt

    exchange = Exchange(log)
    retries = Retries(result_policy(log).replace(clock=Interrupted(log)))
    with pytest.raises(Interrupt):
        run(kind, retries, exchange, ["first"])
    assert [each for each in log if type(each) is tuple] == [("let go", "first")]
    assert exchange.held is None


# What can be sent again


@kinds
@pytest.mark.parametrize("foreign", [False, True])
def test_a_body_that_was_begun_ends_the_call(kind: str, foreign: bool) -> None:
    """`NOT_REPLAYABLE`: asked of the exchange, also where the executor is somebody else's."""
    log: list[Any] = []

    class Always:
        settings = CallSettings(unsatisfied="return", listeners=())

        def new_executor(self, call: Call, /) -> Always:
            return self

        def decide(self, attempt: Attempt, /) -> RetryDecision:
            if isinstance(attempt.value, int):
                return DoNotRetry(StopReason.SUCCEEDED)
            return RetryAfter()

    policy: Any = Always() if foreign else result_policy(log)
    body = Body(iter([b"once"]))
    assert run(kind, Retries(policy), Exchange(log, body), ["not begun", 3]) == 3
    body.begun = True
    assert run(kind, Retries(policy), Exchange(log, body), ["begun", 3]) == "begun"
    assert run(kind, Retries(policy), Exchange(log, None), ["no body", 3]) == 3


@kinds
def test_the_note_tells_what_to_send_instead(kind: str) -> None:
    """On the error of the attempt that began the body."""
    body = Body(iter([b"once"]))
    body.begun = True
    retries = Retries(result_policy([]))
    with pytest.raises(Carrying) as caught:
        run(kind, retries, Exchange([], body), [Carrying(Response())])
    (note,) = caught.value.__notes__
    assert "not_replayable (Carrying ×1)" in note
    assert note.endswith("hand over bytes, or a file that can be rewound")


class Once:
    """What can be gone through only once, in several shapes."""

    class Reader:
        def read(self, size: int = -1) -> bytes:
            return b""

    class Pipe(io.RawIOBase):
        def readable(self) -> bool:
            return True

    class Broken(io.BytesIO):
        def tell(self) -> int:
            raise OSError("no position")

    class Liar(io.BytesIO):
        def tell(self) -> Any:
            return "here"

    class Anext:
        async def __anext__(self) -> bytes:
            return b""


def async_generator() -> AsyncIterator[bytes]:
    async def generator() -> AsyncIterator[bytes]:
        yield b""

    return generator()


@pytest.mark.parametrize(
    "part",
    [
        (each for each in [b"a"]),
        iter([b"a"]),
        map(bytes, []),
        Once.Reader(),
        Once.Pipe(),
        Once.Broken(),
        Once.Liar(),
        Once.Anext(),
        async_generator(),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_gone_once_it_is_read_is_sent_once(part: Any) -> None:
    """Iterators of both kinds, and files that cannot be rewound; among other parts too."""
    for body in (Body(part), Body(b"a", part, io.BytesIO())):
        assert body.replayable()
        body.begun = True
        assert not body.replayable()


class Anew:
    def __iter__(self) -> Iterator[bytes]:
        yield b""


class AnewAsync:
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b""


@pytest.mark.parametrize(
    "part",
    [
        None,
        b"bytes",
        bytearray(b"bytes"),
        memoryview(b"bytes"),
        "text",
        [b"a", b"b"],
        (b"a",),
        {"name": "value"},
        Anew(),
        AnewAsync(),
        io.BytesIO(b"a"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_there_each_time_is_sent_again(part: Any) -> None:
    """Bytes, lists, files, and objects that begin anew."""
    body = Body(part)
    body.begun = True
    assert body.replayable()


@pytest.mark.parametrize("closed_before", [False, True])
def test_a_closed_file_is_not_sent_again(closed_before: bool) -> None:
    """Closed by whoever owns it, before the first attempt or after."""
    file = io.BytesIO(b"0123456789")
    if closed_before:
        file.close()
    body = Body(file)
    file.close()
    body.begun = True
    assert not body.replayable()


def test_every_file_goes_back_to_where_it_stood() -> None:
    """Not to its start; one that nobody has read yet stays where it is."""
    with tempfile.TemporaryFile() as real, tempfile.SpooledTemporaryFile() as spooled:
        files: list[Any] = [io.BytesIO(b"0123456789"), real, spooled]
        for file in files[1:]:
            file.write(b"0123456789")
        for file, position in zip(files, (6, 0, 3), strict=True):
            file.seek(position)
        body = Body(*files)
        files[0].seek(8)
        body.rewind()
        assert files[0].tell() == 8
        for file in files:
            file.read()
        body.begun = True
        body.rewind()
        assert [file.tell() for file in files] == [6, 0, 3]


def test_an_old_file_without_seekable_is_rewound() -> None:
    """`seek` and `tell` are enough."""

    class Old:
        position = 4

        def read(self, size: int = -1) -> bytes:
            return b""

        def tell(self) -> int:
            return self.position

        def seek(self, position: int) -> None:
            self.position = position

    file = Old()
    body = Body(file)
    body.begun = True
    file.position = 9
    assert body.replayable()
    body.rewind()
    assert file.position == 4


@pytest.mark.parametrize("run_main", [lambda main: asyncio.run(main()), trio.run])
def test_a_file_with_async_methods_goes_back_too(run_main: Any) -> None:
    """To where the first attempt found it; one that cannot tell is sent once."""

    class File:
        def __init__(self, position: int | None) -> None:
            self.position = position
            self.closed = False

        async def tell(self) -> int:
            if self.position is None:
                raise OSError("a pipe")
            return self.position

        async def seek(self, position: int) -> None:
            self.position = position

    async def main() -> None:
        file = File(6)
        body = Body(file)
        await body.rewind_async()
        body.begun = True
        file.position = 20
        assert body.replayable()
        await body.rewind_async()
        assert file.position == 6
        file.closed = True
        assert not body.replayable()
        pipe = Body(File(6), File(None))
        await pipe.rewind_async()
        assert pipe.replayable()
        pipe.begun = True
        assert not pipe.replayable()

    run_main(main)


# The policy of a request


def test_without_a_policy_it_is_the_preset() -> None:
    """`http_policy()`."""
    assert Retries().policy == http_policy()


@pytest.mark.parametrize("policy", [3, RetryPolicy, object(), [], {}])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    """When the adapter is made."""
    with pytest.raises(TypeError, match="policy must"):
        Retries(policy)


@pytest.mark.parametrize("style", ["quoted", 1, 0, None, "", "BARE"])
def test_what_is_no_style_of_key_is_refused(style: Any) -> None:
    """When the adapter is made, with the value."""
    with pytest.raises(ValueError, match="idempotency_key must be True, False or 'bare', got "):
        Retries(idempotency_key=style)


@kinds
def test_a_request_s_own_fields_are_laid_over_any_policy(kind: str) -> None:
    """One of ours, one picked by the endpoint, one chosen by a function, and somebody else's."""
    log: list[Any] = []
    ours = result_policy(log, attempts=5)

    class Foreign:
        settings = CallSettings(unsatisfied="raise", listeners=())

        def new_executor(self, call: Call, /) -> Any:
            return ours.new_executor(call)

    for policy in (ours, by_endpoint({}, default=ours), lambda call: ours):
        outcomes = ["first", "second", 3]
        assert run(kind, Retries(policy), Exchange([]), outcomes, own={"attempts": 2}) == "second"
        assert run(kind, Retries(policy), Exchange([]), outcomes) == 3
    foreign = Retries(Foreign())
    clock = LoggingClock(log)
    own = {"unsatisfied": "return", "clock": clock, "deadline": 60.0}
    assert run(kind, foreign, Exchange([]), ["first"] * 5, own=own) == "first"


@kinds
def test_a_request_may_bring_any_policy(kind: str) -> None:
    """Also a function of the call."""
    log: list[Any] = []
    two = result_policy(log, attempts=2)
    retries = Retries(result_policy(log, attempts=5))
    for own in (two, lambda call: two):
        assert run(kind, retries, Exchange([]), ["first", "second", 3], own=own) == "second"
    assert run(kind, retries, Exchange([]), ["first", "second", 3], own=POLICY_S_OWN) == 3


@kinds
def test_a_request_may_want_no_retries(kind: str) -> None:
    """`None`: one attempt, whose outcome stands, and no limit is blamed for it."""
    log: list[Any] = []
    assert run(kind, Retries(result_policy(log)), Exchange(log), ["first", 3], own=None) == "first"
    assert log == ["CallFailed"]


@pytest.mark.parametrize(
    ("own", "kind", "text"),
    [
        ({"attempts": 0}, ValueError, "attempts must be at least 1, got 0"),
        ({"atempts": 3}, TypeError, "no field 'atempts'"),
        (7, TypeError, "policy must"),
    ],
)
def test_a_request_s_own_say_is_checked_first(own: Any, kind: type[Exception], text: str) -> None:
    """Before any attempt."""
    with pytest.raises(kind, match=text):
        run("blocking", Retries(), Exchange([]), [], own=own)


@kinds
@pytest.mark.parametrize("foreign", [False, True])
def test_a_step_of_a_longer_call_has_the_rest_of_its_time(kind: str, foreign: bool) -> None:
    """The deadline holds for all steps together; where it is over, one attempt is made."""
    log: list[Any] = []
    ours = result_policy(log, deadline=10.0)
    clock = ours.clock
    assert isinstance(clock, VirtualClock)

    class Foreign:
        settings = ours.settings

        def new_executor(self, call: Call, /) -> Any:
            return ours.replace(deadline=None).new_executor(call)

    retries = Retries(Foreign() if foreign else ours)
    first = Exchange(log)
    assert run(kind, retries, first, [3]) == 3
    assert first.began == 0.0
    for passed, outcome in ((8.5, 3), (9.5, "first"), (20.0, "first")):
        clock.advance(passed - clock.now())
        following = Exchange(log)
        following.began = first.began
        assert run(kind, retries, following, ["first", 3]) == outcome


# The key


def key(style: Any, method: str, headers: Any = ()) -> str | None:
    return Retries(idempotency_key=style).key_for(Call(print), method, headers)


@pytest.mark.parametrize("method", ["POST", "PATCH", "LOCK", "made-up", "get"])
def test_what_is_not_idempotent_gets_a_key(method: str) -> None:
    """The call's own id: quoted, or bare."""
    assert re.fullmatch(r'"[0-9a-f-]{36}"', key(True, method) or "")
    assert re.fullmatch(r"[0-9a-f-]{36}", key("bare", method) or "")
    assert key(False, method) is None


def test_a_key_is_of_the_call() -> None:
    """The same however often it is asked for, and another for the next call."""
    retries, call = Retries(idempotency_key=True), Call(print)
    assert retries.key_for(call, "POST", ()) == retries.key_for(call, "POST", {}) == f'"{call.id}"'
    assert retries.key_for(Call(print), "POST", ()) != f'"{call.id}"'


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "QUERY", "TRACE"])
def test_what_is_idempotent_gets_none(method: str) -> None:
    """Whatever key of its own it has."""
    assert key(True, method) is None
    assert key(True, method, {"Idempotency-Key": ""}) is None


@pytest.mark.parametrize("value", ["mine", '"mine"', "x" * 255, b"bytes"])
def test_a_key_of_the_caller_s_stays_as_it_is(value: Any) -> None:
    """No other is set beside it."""
    assert key(True, "POST", {"idempotency-KEY": value}) is None


def test_a_key_that_the_caller_sets_twice_is_set_once() -> None:
    """One value, one header."""
    assert key(True, "POST", [("Idempotency-Key", "a"), ("idempotency-key", "a")]) == "a"


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": ""},
        {"Idempotency-Key": '""'},
        {"Idempotency-Key": "x" * 256},
        {"Idempotency-Key": "schlüssel"},
        {"Idempotency-Key": "a\nb"},
        [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
    ],
)
def test_a_key_by_which_no_server_knows_a_request_is_refused(headers: Any) -> None:
    """Without its value in the text; where keys are not the adapter's affair, it is let be."""
    with pytest.raises(ValueError, match=r"^Idempotency-Key must be one value of 1 to 255"):
        key(True, "POST", headers)
    assert key(False, "POST", headers) is None


# Time


@pytest.mark.parametrize(
    ("timeout", "remaining", "least"),
    [
        (None, None, None),
        (None, 3.0, 3.0),
        (2.0, None, 2.0),
        (2.0, 3.0, 2.0),
        (5.0, 3.0, 3.0),
        (0.0, 3.0, 0.0),
        (math.inf, 3.0, 3.0),
    ],
)
def test_the_nearer_limit_counts(
    timeout: float | None, remaining: float | None, least: float | None
) -> None:
    """`None` is no limit, and zero is one."""
    assert tighter(timeout, remaining) == least
