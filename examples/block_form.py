"""A loop over a policy retries a block of code, with its local variables at hand."""

from retrykit import OnException, OnResult, RetryPolicy

policy = RetryPolicy(
    classify=OnException(ConnectionError) | OnResult(lambda rows: not rows),
    attempts=4,
    backoff=[0.01] * 3,
    listeners=(),
)


def load() -> list[str]:
    answers = iter([ConnectionError("down"), [], ["a", "b"]])
    rows: list[str] = []
    for attempt in policy:
        with attempt:
            print(f"attempt {attempt.number}")
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            rows = list(answer)
            attempt.set_result(rows)  # so that an empty answer is tried again
    return rows


if __name__ == "__main__":
    print(load())
