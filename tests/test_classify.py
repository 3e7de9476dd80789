"""From an outcome to an opinion: the building blocks, how they stack, and what is remembered."""

from __future__ import annotations

import math
import pickle
from abc import ABCMeta
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from retrykit import (
    Attempt,
    Call,
    DoNotRetry,
    Never,
    OnException,
    OnResult,
    Raised,
    RetryAfter,
    RetryPolicy,
    RetryReason,
    Returned,
    StopReason,
    transient,
)
from retrykit._executor import MOST_VERDICTS
from retrykit.classify import (
    LONGEST_CHAIN,
    Classifier,
    FirstOf,
    Stackable,
    Transient,
    as_classifier,
    causes_of,
    exception_types,
    leaves_of,
)

CALL = Call(print)
YES = RetryAfter(0.0, RetryReason.TRANSIENT)
NO = DoNotRetry(StopReason.FORBIDDEN)


def raised(error: Exception) -> Attempt:
    return Attempt(CALL, 1, Raised(error), 0.1)


def returned(value: Any) -> Attempt:
    return Attempt(CALL, 1, Returned(value), 0.1)


# OnException


@pytest.mark.parametrize(
    ("types", "error", "opinion"),
    [
        ((OSError,), OSError(), YES),
        ((OSError,), ConnectionResetError(), YES),
        ((ConnectionError,), OSError(), None),
        ((KeyError, ValueError), ValueError(), YES),
        ((KeyError, ValueError), OSError(), None),
        ((BaseException,), KeyError(), YES),
    ],
)
def test_an_error_counts_by_its_type_and_its_bases(
    types: Any, error: Exception, opinion: Any
) -> None:
    """Subclasses count, as in `except`."""
    assert OnException(*types)(raised(error)) == opinion


@pytest.mark.parametrize("value", [None, OSError(), OSError, 0])
def test_a_returned_value_is_no_error(value: Any) -> None:
    """An error that is returned, not raised, is a value."""
    for classify in (OnException(OSError), Never(OSError), transient):
        assert classify(returned(value)) is None


def test_when_narrows_it_to_some_errors() -> None:
    """It sees the error, and anything true counts as yes."""
    busy = OnException(OSError, when=lambda error: error.errno == 16)
    assert busy(raised(OSError(16, "busy"))) == YES
    assert busy(raised(OSError(2, "missing"))) is None
    assert OnException(OSError, when=lambda error: error.args)(raised(OSError())) is None


def test_when_is_asked_about_matching_types_only() -> None:
    """So it may rely on the attributes of its types."""
    classify = OnException(OSError, when=lambda error: error.errno == 16)
    assert classify(raised(KeyError())) is None


@pytest.mark.parametrize(
    ("asked", "delay"),
    [(None, 0.0), (0, 0.0), (2, 2.0), (2.5, 2.5), (timedelta(minutes=1), 60.0)],
)
def test_after_reads_a_delay_off_the_error(asked: Any, delay: float) -> None:
    """Seconds or a `timedelta`; `None` asks for nothing."""
    classify = OnException(KeyError, after=lambda error: error.args[0])
    assert classify(raised(KeyError(asked))) == RetryAfter(delay)


@pytest.mark.parametrize("asked", [-1, math.nan, math.inf, "3", True])
def test_after_that_reads_nonsense_is_refused(asked: Any) -> None:
    """It comes out as an error, which the executor handles as a classifier's failure."""
    classify = OnException(KeyError, after=lambda error: error.args[0])
    with pytest.raises((TypeError, ValueError), match="delay"):
        classify(raised(KeyError(asked)))


def test_the_reason_goes_into_the_decision() -> None:
    """`TRANSIENT` where none is named."""
    throttled = OnException(OSError, reason=RetryReason.THROTTLED)
    assert throttled(raised(OSError())) == RetryAfter(0.0, RetryReason.THROTTLED)


# Along the causes


def chained(*errors: Exception, how: str = "cause", suppressed: bool = False) -> Exception:
    """The first, raised from (or while handling) the second, and so on."""
    for error, under in pairwise(errors):
        if how == "cause":
            error.__cause__ = under
        else:
            error.__context__ = under
            error.__suppress_context__ = suppressed
    return errors[0]


@pytest.mark.parametrize(
    ("error", "opinion"),
    [
        (OSError(), YES),
        (KeyError(), None),
        (chained(KeyError(), OSError()), YES),
        (chained(KeyError(), ValueError(), OSError()), YES),
        (chained(KeyError(), ValueError()), None),
        (chained(KeyError(), OSError(), how="context"), YES),
        (chained(KeyError(), OSError(), how="context", suppressed=True), None),
        (chained(KeyError(), ValueError(), OSError(), how="context"), YES),
    ],
)
def test_with_causes_an_error_counts_for_what_it_came_from(error: Any, opinion: Any) -> None:
    """`__cause__`, or `__context__` unless it is suppressed, however deep."""
    assert OnException(OSError, causes=True)(raised(error)) == opinion


def test_without_causes_only_the_error_itself_counts() -> None:
    """What it was raised from is the user's business."""
    assert OnException(OSError)(raised(chained(KeyError(), OSError()))) is None


def test_a_cause_hides_the_context() -> None:
    """`raise A from B` while C was handled: A comes from B."""
    error, cause, context = KeyError(), ValueError(), OSError()
    error.__cause__, error.__context__ = cause, context
    assert list(causes_of(error)) == [error, cause]


def test_when_and_after_see_the_error_that_matched() -> None:
    """Not the one that came out."""
    error = chained(KeyError("outer"), OSError(16, "busy"))
    classify = OnException(
        OSError, causes=True, when=lambda each: each.errno == 16, after=lambda each: each.errno
    )
    assert classify(raised(error)) == RetryAfter(16.0)


def test_the_first_along_the_chain_that_passes_when_decides() -> None:
    """One that does not is passed over."""
    error = chained(KeyError(), OSError(1, "no"), OSError(2, "yes"), OSError(3, "yes"))
    classify = OnException(
        OSError, causes=True, when=lambda each: each.errno > 1, after=lambda each: each.errno
    )
    assert classify(raised(error)) == RetryAfter(2.0)


@pytest.mark.parametrize("how", ["cause", "context"])
def test_a_chain_that_goes_round_ends(how: str) -> None:
    """Each error is looked at once."""
    one, two, three = KeyError(), ValueError(), IndexError()
    chained(one, two, three, two, how=how)
    assert list(causes_of(one)) == [one, two, three]
    assert OnException(OSError, causes=True)(raised(one)) is None
    itself = KeyError()
    itself.__cause__ = itself
    assert list(causes_of(itself)) == [itself]


def test_a_very_long_chain_is_cut() -> None:
    """A hundred errors are looked at, the hundred and first is not."""
    errors = [KeyError() for _ in range(LONGEST_CHAIN)]
    assert list(causes_of(chained(*errors))) == errors
    chained(*errors, OSError())
    assert list(causes_of(errors[0])) == errors
    assert OnException(OSError, causes=True)(raised(errors[1])) == YES
    assert OnException(OSError, causes=True)(raised(errors[0])) is None


def test_the_leaves_of_a_group_come_in_order() -> None:
    """At whatever depth, groups themselves left out."""
    a, b, c, d = KeyError(), OSError(), ValueError(), IndexError()
    inner = ExceptionGroup("inner", [b, ExceptionGroup("deep", [c])])
    assert list(leaves_of(ExceptionGroup("outer", [a, inner, d]))) == [a, b, c, d]


def test_a_deep_group_needs_no_deep_stack() -> None:
    """Five thousand groups in one another are gone through all the same."""
    leaf: Any = KeyError()
    group = leaf
    for _ in range(5000):
        group = ExceptionGroup("deep", [group])
    assert list(leaves_of(group)) == [leaf]
    while group is not leaf:  # taken apart from outside: freeing it all at once would recurse
        group = group.exceptions[0]


# OnResult and Never


@pytest.mark.parametrize(
    ("value", "opinion"),
    [("pending", RetryAfter(0.0, RetryReason.UNSATISFACTORY)), ("done", None), (None, None)],
)
def test_a_result_counts_where_the_predicate_is_true(value: Any, opinion: Any) -> None:
    """Polling: retry until the value is another."""
    assert OnResult(lambda each: each == "pending")(returned(value)) == opinion


def test_a_result_that_is_none_is_shown_to_the_predicate() -> None:
    """`None` is a value as any other."""
    missing = OnResult(lambda each: each is None, reason=RetryReason.CONFLICT)
    assert missing(returned(None)) == RetryAfter(0.0, RetryReason.CONFLICT)


def test_a_predicate_is_not_shown_errors() -> None:
    """An error is no result, though the attempt's value is `None` then."""
    assert OnResult(lambda each: True)(raised(KeyError())) is None


def test_never_refuses_its_types() -> None:
    """Subclasses too; of all else it has no opinion."""
    classify = Never(OSError, KeyError)
    assert classify(raised(ConnectionError())) == NO
    assert classify(raised(KeyError())) == NO
    assert classify(raised(ValueError())) is None


# Stacking


def yes(attempt: Attempt) -> RetryAfter:
    return RetryAfter(9.0)


def nothing(attempt: Attempt) -> None:
    return None


def about_keys(attempt: Attempt) -> Any:
    return NO if isinstance(attempt.error, KeyError) else None


class Mine(Stackable):
    """A classifier class of a user's own."""

    def __call__(self, attempt: Attempt, /) -> Any:
        return RetryAfter(5.0) if isinstance(attempt.error, ValueError) else None


@pytest.mark.parametrize(
    ("classify", "opinions"),
    [
        (Never(KeyError) | OnException(Exception), {KeyError: NO, ValueError: YES}),
        (OnException(Exception) | Never(KeyError), {KeyError: YES}),
        (about_keys | OnException(Exception), {KeyError: NO, ValueError: YES}),
        (OnException(ValueError) | about_keys, {KeyError: NO, ValueError: YES, OSError: None}),
        (KeyError | OnException(OSError), {KeyError: YES, OSError: YES, ValueError: None}),
        (OnException(OSError) | KeyError, {KeyError: YES, OSError: YES, ValueError: None}),
        (Mine() | nothing | yes, {ValueError: RetryAfter(5.0), KeyError: RetryAfter(9.0)}),
        (nothing | Mine() | OSError, {ValueError: RetryAfter(5.0), OSError: YES, KeyError: None}),
        (transient | KeyError, {KeyError: YES, ValueError: None}),
        (KeyError | transient, {KeyError: YES, ValueError: None}),
        (Never(OSError) | transient, {ConnectionResetError: NO}),
        (
            (Never(KeyError) | OnException(OSError)) | (about_keys | Mine()),
            {KeyError: NO, OSError: YES, ValueError: RetryAfter(5.0), IndexError: None},
        ),
        (partial(about_keys) | OnException(Exception), {KeyError: NO, ValueError: YES}),
        (OnException(OSError) | partial(about_keys), {KeyError: NO, OSError: YES}),
    ],
)
def test_the_first_opinion_wins_whatever_stands_on_either_side(
    classify: Classifier, opinions: dict[type[Exception], Any]
) -> None:
    """Building blocks, plain functions, exception types and objects of one's own, in any order."""
    for kind, opinion in opinions.items():
        assert classify(raised(kind())) == opinion


def test_what_comes_after_the_first_opinion_is_not_asked() -> None:
    """The order is the order of asking."""
    asked: list[str] = []

    def ask(name: str, opinion: Any) -> Callable[[Attempt], Any]:
        def classify(attempt: Attempt) -> Any:
            asked.append(name)
            return opinion

        return classify

    stack = FirstOf(ask("a", None), ask("b", YES), ask("c", NO))
    assert stack(raised(KeyError())) == YES
    assert asked == ["a", "b"]


def test_a_stack_is_flat_however_it_was_made() -> None:
    """So that equal stacks are equal."""
    a, b, c = OnException(OSError), OnException(KeyError), Never(ValueError)
    stacks = [(a | b) | c, a | (b | c), FirstOf(a, b, c), FirstOf(a, FirstOf(b, FirstOf(c)))]
    assert len(set(stacks)) == 1
    assert stacks[0].classifiers == (a, b, c)


@pytest.mark.parametrize("other", [5, None, "KeyError", [OSError]])
def test_what_is_no_classifier_does_not_stack(other: Any) -> None:
    """It is a `TypeError`, on either side."""
    with pytest.raises(TypeError):
        OnException(OSError) | other
    with pytest.raises(TypeError):
        other | OnException(OSError)


@pytest.mark.parametrize("other", [int, dict])
def test_a_class_that_is_no_exception_does_not_stack(other: Any) -> None:
    """A class where an instance belongs, say."""
    with pytest.raises(TypeError, match="must be an instance, got the class"):
        OnException(OSError) | other
    with pytest.raises(TypeError, match="must be an instance, got the class"):
        FirstOf(other)


def test_a_bare_stackable_says_that_it_lacks_a_rule() -> None:
    """It gives the `|` and no more."""
    with pytest.raises(NotImplementedError):
        Stackable()(raised(KeyError()))
    assert Stackable().by_type is False


# What a field takes


@pytest.mark.parametrize(
    ("value", "classifier"),
    [
        (OSError, OnException(OSError)),
        ([OSError], FirstOf(OnException(OSError))),
        ((OSError, KeyError), FirstOf(OnException(OSError), OnException(KeyError))),
        ([Never(KeyError), yes], FirstOf(Never(KeyError), yes)),
        (yes, yes),
        (transient, transient),
    ],
)
def test_what_stands_for_a_classifier(value: Any, classifier: Any) -> None:
    """An exception type, a list, or a classifier itself."""
    assert as_classifier("classify", value) == classifier


async def asynchronous(attempt: Attempt) -> None:
    return None


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ([], ValueError, "classify must not be empty"),
        ((), ValueError, "classify must not be empty"),
        (
            OSError("x"),
            TypeError,
            "classify must be an exception type, got an instance: OSError('x')",
        ),
        (5, TypeError, "classify must be callable, got 5"),
        (None, TypeError, "classify must be callable, got None"),
        (
            OnResult,
            TypeError,
            "classify must be an instance, got the class OnResult: call it first",
        ),
        ([OSError, 5], TypeError, "classify must be callable, got 5"),
    ],
)
def test_what_does_not(value: Any, kind: type[Exception], text: str) -> None:
    """The text names the field and the value."""
    with pytest.raises(kind) as told:
        as_classifier("classify", value)
    assert str(told.value) == text


@pytest.mark.parametrize("value", [asynchronous, partial(asynchronous), [asynchronous]])
def test_a_classifier_is_no_coroutine_function(value: Any) -> None:
    """Nobody would await what it gives."""
    with pytest.raises(TypeError, match="classify must be a plain function, got the async"):
        as_classifier("classify", value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: OnException(), "OnException must name at least one exception type"),
        (lambda: Never(), "Never must name at least one exception type"),
        (lambda: OnException(int), "OnException takes exception types, got <class 'int'>"),
        (
            lambda: OnException(OSError("x")),
            "OnException takes exception types, got an instance: OSError('x')",
        ),
        (lambda: Never(5), "Never takes exception types, got 5"),
        (lambda: Never((OSError,)), f"Never takes exception types, got {(OSError,)!r}"),
        (lambda: OnException(OSError, when=5), "when must be callable, got 5"),
        (lambda: OnException(OSError, after=5), "after must be callable, got 5"),
        (lambda: OnException(OSError, causes=1), "causes must be a bool, got 1"),
        (
            lambda: OnException(OSError, reason="throttled"),
            "reason must be a RetryReason, got 'throttled'",
        ),
        (lambda: OnResult(5), "predicate must be callable, got 5"),
        (lambda: OnResult(callable, reason=5), "reason must be a RetryReason, got 5"),
        (
            lambda: RetryPolicy.on((OSError, 5)),
            f"on takes exception types, got {(OSError, 5)!r}",
        ),
    ],
)
def test_bad_settings_are_refused_with_their_name(make: Any, text: str) -> None:
    """At construction: nothing is called first."""
    with pytest.raises(TypeError) as told:
        make()
    assert str(told.value) == text


@pytest.mark.parametrize("name", ["when", "after"])
def test_async_parts_are_refused(name: str) -> None:
    """A coroutine is always true, so an async `when` would match everything."""
    with pytest.raises(TypeError, match=f"{name} must be a plain function"):
        OnException(OSError, **{name: asynchronous})
    with pytest.raises(TypeError, match="predicate must be a plain function"):
        OnResult(partial(asynchronous))


# Values


def is_busy(error: Exception) -> bool:
    return bool(error.args)


def asked_by(error: Exception) -> float:
    return 2.0


VALUES = {
    "OnException(OSError)": OnException(OSError),
    "OnException(OSError, KeyError)": OnException(OSError, KeyError),
    "OnException(OSError, when=is_busy)": OnException(OSError, when=is_busy),
    "OnException(OSError, after=asked_by)": OnException(OSError, after=asked_by),
    "OnException(OSError, causes=True)": OnException(OSError, causes=True),
    "OnException(OSError, when=is_busy, after=asked_by, causes=True, "
    "reason=RetryReason.THROTTLED)": OnException(
        OSError, when=is_busy, after=asked_by, causes=True, reason=RetryReason.THROTTLED
    ),
    "OnResult(is_busy)": OnResult(is_busy),
    "OnResult(is_busy, reason=RetryReason.CONFLICT)": OnResult(
        is_busy, reason=RetryReason.CONFLICT
    ),
    "Never(OSError)": Never(OSError),
    "Never(OSError, KeyError)": Never(OSError, KeyError),
    "FirstOf(Never(OSError), is_busy)": Never(OSError) | is_busy,  # type: ignore[operator]
    "transient": transient,
}


@pytest.mark.parametrize("text", VALUES)
def test_a_classifier_is_a_value(text: str) -> None:
    """It prints as it is written, and compares, hashes and pickles by its settings."""
    value = VALUES[text]
    assert repr(value) == text
    again = eval(text)
    assert again == value
    assert hash(again) == hash(value)
    assert pickle.loads(pickle.dumps(value)) == value
    assert sum(value == other for other in VALUES.values()) == 1
    with pytest.raises((AttributeError, TypeError)):
        value.types = ()  # type: ignore[misc]


def test_functions_without_a_name_print_as_they_can() -> None:
    """A lambda has no spelling that could be evaluated."""
    assert "<lambda>" in repr(OnResult(lambda value: True))
    assert repr(FirstOf(partial(is_busy))).startswith("FirstOf(functools.partial(")


# What they look at


@pytest.mark.parametrize(
    ("classify", "sees"),
    [
        (OnException(OSError), False),
        (Never(OSError), False),
        (transient, False),
        (OnResult(callable), True),
        (Mine(), True),
        (Never(OSError) | OnException(KeyError), False),
        (Never(OSError) | OnResult(callable), True),
        (Never(OSError) | yes, True),
        (yes, True),
    ],
)
def test_whether_a_success_needs_its_opinion(classify: Any, sees: bool) -> None:
    """A policy that looks at errors only does not ask about values."""
    assert RetryPolicy(classify=classify).judges_results is sees
    if isinstance(classify, Stackable):
        assert classify.sees_results is sees


@pytest.mark.parametrize(
    ("classify", "by_type"),
    [
        (OnException(OSError), True),
        (OnException(OSError, reason=RetryReason.CONFLICT), True),
        (OnException(OSError, when=is_busy), False),
        (OnException(OSError, after=asked_by), False),
        (OnException(OSError, causes=True), False),
        (Never(OSError), True),
        (Never(OSError) | OnException(KeyError), True),
        (Never(OSError) | OnException(KeyError, when=is_busy), False),
        (Never(OSError) | yes, False),
        (OnResult(callable), False),
        (Mine(), False),
        (transient, False),
        (yes, False),
    ],
)
def test_whether_the_type_settles_the_answer(classify: Any, by_type: bool) -> None:
    """Only then may it be remembered."""
    assert (RetryPolicy(classify=classify).verdicts is not None) is by_type


# The memory of answers by type


class Parent(Exception):
    pass


class Child(Parent):
    pass


class Twin(Parent):
    pass


class GrandChild(Child):
    pass


KINDS = [Exception, Parent, Child, Twin, GrandChild, KeyError]


@pytest.mark.parametrize(
    ("classify", "retried"),
    [
        (OnException(Parent), {Parent, Child, Twin, GrandChild}),
        (OnException(Child), {Child, GrandChild}),
        (Never(Child) | OnException(Parent), {Parent, Twin}),
        (Never(Parent) | OnException(Exception), {Exception, KeyError}),
        (OnException(GrandChild) | Never(Child) | OnException(Parent), {Parent, Twin, GrandChild}),
        (OnException(KeyError, Twin), {KeyError, Twin}),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_remembered_answer_is_its_own_types_only(
    classify: Any, retried: set[type[Exception]], turned: bool
) -> None:
    """Neither bases nor subclasses nor siblings get it, whichever failed first."""
    policy = RetryPolicy(classify=classify, attempts=2, backoff=[0], listeners=())
    for kind in [*(reversed(KINDS) if turned else KINDS), *KINDS]:
        made = 0

        def fail(kind: type[Exception] = kind) -> None:
            nonlocal made
            made += 1
            raise kind

        with pytest.raises(kind):
            policy.call(fail)
        assert made == (2 if kind in retried else 1)
    assert policy.verdicts is not None
    assert set(policy.verdicts) == retried


class LooksInside(type):
    """Its classes say of each error whether it is one of theirs."""

    def __instancecheck__(cls, error: object) -> bool:
        return type.__instancecheck__(cls, error) and getattr(error, "args", ()) == (503,)


class Status(Exception, metaclass=LooksInside):
    pass


class Answered(Status):
    pass


class Registered(Exception, metaclass=ABCMeta):
    pass


def calls_until(policy: RetryPolicy, *errors: Exception) -> int:
    left = iter(errors)
    made = 0

    def fail() -> None:
        nonlocal made
        made += 1
        raise next(left)

    with pytest.raises(type(errors[0])):
        policy.call(fail)
    return made


@pytest.mark.parametrize(
    "classify", [OnException(Status), Never(LookupError) | OnException(Status)], ids=repr
)
def test_a_class_that_looks_at_the_error_is_asked_each_time(classify: Any) -> None:
    """Its type settles nothing, so nothing is remembered."""
    policy = RetryPolicy(classify=classify, attempts=9, backoff=[0] * 9, listeners=())
    assert calls_until(policy, Answered(503), Answered(503), Answered(404), Answered(503)) == 3


def test_a_refusal_that_looks_at_the_error_is_asked_each_time() -> None:
    """What went through once may be refused the next time."""
    policy = RetryPolicy(
        classify=Never(Status) | OnException(Exception), attempts=9, backoff=[0] * 9, listeners=()
    )
    assert calls_until(policy, Answered(404), Answered(404), Answered(503), Answered(404)) == 3


def test_a_class_that_others_join_later_is_asked_each_time() -> None:
    """`register` makes errors of its own types into instances, at any time."""

    class Late(Exception):
        pass

    policy = RetryPolicy(
        classify=Never(Registered) | OnException(Exception),
        attempts=3,
        backoff=[0, 0],
        listeners=(),
    )
    assert calls_until(policy, Late(), Late(), Late()) == 3
    Registered.register(Late)
    assert calls_until(policy, Late(), Late(), Late()) == 1


def test_an_error_that_lies_about_its_class_leaves_the_others_alone() -> None:
    """What is remembered is remembered of its real type."""

    class Liar(Exception):
        __class__ = property(lambda self: KeyError)  # type: ignore[assignment]

    policy = RetryPolicy(classify=OnException(Liar), attempts=2, backoff=[0], listeners=())
    made = 0

    def fail() -> None:
        nonlocal made
        made += 1
        raise Liar if made == 1 else KeyError

    with pytest.raises(KeyError):
        policy.call(fail)
    assert calls_until(policy, KeyError(), KeyError()) == 1


def test_the_memory_is_bounded() -> None:
    """A program that makes error types on the run does not fill it; the answers stay right."""
    policy = RetryPolicy(classify=OnException(Parent), attempts=2, backoff=[0], listeners=())
    for number in range(MOST_VERDICTS + 10):
        kind = type(f"Made{number}", (Parent,), {})
        assert calls_until(policy, kind(), kind()) == 2
    assert policy.verdicts is not None
    assert len(policy.verdicts) == MOST_VERDICTS


def test_another_policy_remembers_for_itself() -> None:
    """Policies that share a classifier share no answers; a changed policy starts anew."""
    policy = RetryPolicy(classify=OnException(Parent), attempts=2, backoff=[0], listeners=())
    calls_until(policy, Child(), Child())
    assert policy.verdicts == {Child: YES}
    refusing = policy.replace(classify=Never(Parent))
    assert refusing.verdicts == {}
    assert calls_until(refusing, Child(), Child()) == 1


# The default


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(), RetryReason.CONNECTION_FAILED),
        (ConnectionResetError(), RetryReason.CONNECTION_FAILED),
        (BrokenPipeError(), RetryReason.CONNECTION_FAILED),
        (TimeoutError(), RetryReason.TIMED_OUT),
    ],
)
def test_what_passes_is_transient(error: Exception, reason: RetryReason) -> None:
    """The rows of the standard library."""
    assert transient(raised(error)) == RetryAfter(0.0, reason)


@pytest.mark.parametrize(
    "error", [KeyError(), FileNotFoundError(), PermissionError(), ValueError(), Exception()]
)
def test_what_stays_is_not(error: Exception) -> None:
    """Another attempt would come to the same."""
    assert transient(raised(error)) is None


def test_there_is_one_default() -> None:
    """Whatever it is made of, it is equal to itself and is every policy's default."""
    assert RetryPolicy().classify is transient
    assert Transient() == transient


@pytest.mark.parametrize(
    ("types", "tuple_of_them"),
    [
        (OSError, (OSError,)),
        ((OSError, KeyError), (OSError, KeyError)),
        ([OSError, KeyError], (OSError, KeyError)),
        ({OSError}, (OSError,)),
        (frozenset({OSError}), (OSError,)),
    ],
)
def test_on_takes_one_type_or_several(types: Any, tuple_of_them: Any) -> None:
    """In whatever they are collected."""
    assert exception_types("on", types) == tuple_of_them


@pytest.mark.parametrize("types", [(), [], set()])
def test_on_takes_at_least_one(types: Any) -> None:
    """Nothing to retry on is a mistake."""
    with pytest.raises(TypeError, match="on must name at least one exception type"):
        exception_types("on", types)


def test_a_cause_that_counts_as_false_is_a_cause() -> None:
    """An error with a length of zero is followed as any other."""

    class Empty(OSError):
        def __len__(self) -> int:
            return 0

    error = KeyError("outer")
    error.__cause__ = Empty()
    assert OnException(Empty, causes=True)(Attempt(Call(print), 1, Raised(error), 0.1))
