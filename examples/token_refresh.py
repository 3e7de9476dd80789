"""Do something before the next attempt: the function itself sees what the last one came to."""

from retrykit import OnException, Raised, current_attempt, retry


class Unauthorized(Exception):
    pass


class Client:
    def __init__(self) -> None:
        self.token = "stale"

    def refresh(self) -> None:
        print("a new token is fetched")
        self.token = "fresh"

    @retry(classify=OnException(Unauthorized), attempts=2, backoff=[0])
    def whoami(self) -> str:
        match current_attempt().previous:
            case Raised(Unauthorized()):
                self.refresh()
        if self.token != "fresh":
            raise Unauthorized
        return "somebody"


if __name__ == "__main__":
    client = Client()
    print(client.whoami())
    print(client.whoami())
