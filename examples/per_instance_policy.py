"""A policy that lives on the instance: `policy=` takes a function of the call."""

from retrykit import RetryPolicy, current_attempt, retry


class Client:
    def __init__(self, attempts: int) -> None:
        self.policy = RetryPolicy(attempts=attempts, backoff=[0.01] * 9, listeners=())

    @retry(policy=lambda call: call.instance.policy)
    def get(self, path: str) -> str:
        if current_attempt().number < 3:
            raise ConnectionResetError
        return f"{path} at attempt {current_attempt().number}"


if __name__ == "__main__":
    print(Client(attempts=5).get("/patient"))
    try:
        Client(attempts=2).get("/hasty")
    except ConnectionResetError as error:
        print(error.__notes__[0].split(" in ")[0])
