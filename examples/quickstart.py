"""The shortest start: retry what is transient, and see how a call ends that cannot be saved."""

from retrykit import current_attempt, retry


@retry(on=ConnectionError, attempts=3, backoff=[0.01, 0.02])
def greet(name: str) -> str:
    if current_attempt().number < 3:
        raise ConnectionError("the line is down")
    return f"hello, {name}, at attempt {current_attempt().number}"


@retry(on=ConnectionError, attempts=3, backoff=[0.01, 0.02])
def never() -> None:
    raise ConnectionError("the line is down")


if __name__ == "__main__":
    print(greet("world"))
    try:
        never()
    except ConnectionError as error:
        print(f"{type(error).__name__}: {error}")
        print(error.__notes__[0].split(" in ")[0])
