"""Wrong calls: every ignore here must be needed, or the type checkers complain. Not run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from retrykit import Constant, RetryPolicy, RetryReason, override, policy_of, retry, with_policy


@retry
def function(a: int, *, b: str = "x") -> list[int]:
    return [a]


@retry(attempts=2)
async def asynchronous(a: int) -> str:
    return str(a)


function("x")  # type: ignore[arg-type]
function(1, c=2)  # type: ignore[call-arg]
function()  # type: ignore[call-arg]
wrong: str = function(1)  # type: ignore[assignment]

RetryPolicy().call(function, "x")  # type: ignore[arg-type]
with_policy(function, RetryPolicy())("x")  # type: ignore[arg-type]


class Base:
    @retry
    def method(self, a: int) -> str:
        return str(a)

    @retry
    @staticmethod
    def static(a: int) -> str:
        return str(a)


class Derived(Base):
    @retry
    def method(self, a: str) -> str:  # type: ignore[override]
        return a


Base().method("x")  # type: ignore[arg-type]
Base.static("x")  # type: ignore[arg-type]

retry(Constant(1))  # type: ignore[call-overload]
retry(RetryPolicy())  # type: ignore[call-overload]
retry(atempts=3)  # type: ignore[call-overload]
retry(attempts="3")  # type: ignore[call-overload]
retry(on=3)  # type: ignore[call-overload]
retry(policy=3)  # type: ignore[call-overload]
retry(policy=RetryPolicy(), attempts=3)  # type: ignore[call-overload]

RetryPolicy(attempts="3")  # type: ignore[arg-type]
RetryPolicy(limits={"timed_out": 1})  # type: ignore[dict-item]
RetryPolicy(limits={RetryReason.TIMED_OUT: 1}, unsatisfied="ignore")  # type: ignore[arg-type]
RetryPolicy().replace(attemps=3)  # type: ignore[call-arg]
RetryPolicy().replace(deadline="3 s")  # type: ignore[arg-type]
RetryPolicy.on(3)  # type: ignore[arg-type]
policy_of(3)  # type: ignore[arg-type]
override(nested="never")  # type: ignore[arg-type]
