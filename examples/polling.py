"""Polling: a result that is not there yet is worth another attempt."""

from retrykit import OnResult, RetriesExhausted, RetryPolicy

states = iter(["queued", "running", "running", "done"])

policy = RetryPolicy(
    classify=OnResult(lambda state: state != "done"),
    attempts=5,
    backoff=[0.01] * 4,
    listeners=(),
)

if __name__ == "__main__":
    print(policy.call(lambda: next(states)))
    try:
        policy.call(lambda: "running")
    except RetriesExhausted as error:
        print(f"{error.reason} after {error.attempts} attempts, at last {error.value}")
    print(policy.replace(unsatisfied="return").call(lambda: "running"))
