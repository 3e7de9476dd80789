"""Reconnect for ever, until the program is told to stop: an event ends the call, in a wait too."""

import math
import threading

from retrykit import Exponential, NoJitter, RetryPolicy
from retrykit.events import RetryScheduled

shutdown = threading.Event()


class Watch:
    """Tells the program to stop once the third retry is scheduled: a signal handler would."""

    kinds = frozenset({RetryScheduled})

    def __call__(self, event: RetryScheduled) -> None:
        print(f"attempt {event.number} failed")
        if event.number == 3:
            threading.Timer(0.05, shutdown.set).start()


policy = RetryPolicy(
    attempts=math.inf,  # for ever, asked for by name
    backoff=Exponential(0.001, factor=100, cap=600, jitter=NoJitter()),  # exact, to show it here
    stop_when=shutdown,
    listeners=(Watch(),),
)


def consume() -> None:
    raise ConnectionRefusedError("nobody listens")


if __name__ == "__main__":
    try:
        policy.call(consume)
    except ConnectionRefusedError as error:
        print(error.__notes__[0].partition(": ")[2].split(" in ")[0], "- stopped")
    print("bye")
