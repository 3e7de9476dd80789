"""See retries: one line in the log for each, and counters for Prometheus.

The first call is saved by its second attempt, the second call gives up after three.
"""

import logging
import sys

from prometheus_client import CollectorRegistry, generate_latest

from retrykit import Constant, RetryPolicy, log_retries, retry
from retrykit.observe.prometheus import PrometheusListener

# A program that serves its metrics leaves the registry out, for the global one, and calls
# prometheus_client.start_http_server(8000).
registry = CollectorRegistry()

policy = RetryPolicy.on(
    ConnectionError,
    attempts=3,
    backoff=Constant(0.05),
    listeners=(log_retries, PrometheusListener(registry=registry)),
    name="weather",
)

answers = iter(["", "sunny", "", "", ""])


@retry(policy=policy)
def forecast(city: str) -> str:
    """Stands for a request over a network that loses many."""
    answer = next(answers)
    if not answer:
        raise ConnectionError(f"no answer for {city}")
    return answer


def main() -> None:
    """Make two calls, then show what was counted."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
    print(forecast("Lisbon"))
    try:
        forecast("Oslo")
    except ConnectionError:
        print("no forecast")
    for line in generate_latest(registry).decode().splitlines():
        if line.startswith(("retrykit_calls_total", "retrykit_retries_total")):
            print(line)


if __name__ == "__main__":
    main()
