"""Orders that are placed once, whatever is lost on the way: run it with the server's address.

A POST whose answer was lost may have been done or not, so it is not sent again by itself. With an
Idempotency-Key it is: the server knows it again, and answers as it did the first time. That is for
servers that honour the header; another one would do the work twice.
"""

import sys

import requests

from retrykit import StopReason
from retrykit.events import CallFailed, Event, RetryScheduled
from retrykit.http import http_policy
from retrykit.http.requests import RetryAdapter


def tell(event: Event) -> None:
    """Print what is decided; `log_retries` would log it."""
    match event:
        case RetryScheduled():
            print(f"  attempt {event.number}: {event.reason}, once more")
        case CallFailed(reason=StopReason.NOT_IDEMPOTENT):
            print(f"  attempt {event.number}: not sent again, it may have been done")
        case _:
            pass


POLICY = http_policy(attempts=4, deadline=30, listeners=(tell,))


def order(session: requests.Session, url: str, item: str, **headers: str) -> str:
    """Place an order, and say how that went."""
    try:
        response = session.post(url, json={"item": item}, headers=headers, timeout=10)
        response.raise_for_status()
    except requests.RequestException as error:
        return type(error).__name__
    return f"order {response.json()['number']}"


def main(url: str) -> None:
    """Without a key, with one for each call, and with one that outlives the program."""
    with requests.Session() as session:
        session.mount(url, RetryAdapter(policy=POLICY))
        print("without a key:")
        print(" ", order(session, f"{url}orders", "a book"))

        session.mount(f"{url}orders", RetryAdapter(policy=POLICY, idempotency_key=True))
        print("with a key:")
        print(" ", order(session, f"{url}orders", "a book"))
        print("the next one, with another key:")
        print(" ", order(session, f"{url}orders", "a lamp"))

        # Kept beside the order, it is the same after a crash: the call may be made again.
        print("with a key of one's own:")
        key = {"Idempotency-Key": "order-2026-0042"}
        print(" ", order(session, f"{url}orders", "a desk", **key))
        print(" ", order(session, f"{url}orders", "a desk", **key))


if __name__ == "__main__":
    main(sys.argv[1])
