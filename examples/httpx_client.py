"""An httpx client for a server that fails now and then: run it with the server's address.

Reads are retried as long as it takes, within limits; an order is placed once, whatever fails on the
way, since the server knows it again by its Idempotency-Key; a health check is asked once.
"""

import sys

import httpx

from retrykit.http import by_endpoint, http_policy, per_host
from retrykit.http.httpx import RetryClient

# A service has a budget, so that its retries never feed an outage.
BUDGET = per_host()

POLICY = by_endpoint(
    {"GET /reports/{month}": http_policy(attempts=8, deadline=120, budget=BUDGET)},
    default=http_policy(attempts=4, deadline=30, budget=BUDGET),
)


def main(url: str) -> None:
    """Ask, order, look, and stream."""
    with RetryClient(base_url=url, policy=POLICY, idempotency_key=True) as client:
        user = client.get("/users/7").raise_for_status().json()
        print("user:", user["name"])

        order = client.post("/orders", json={"item": "book", "user": 7}).raise_for_status().json()
        print("order:", order["number"])

        # What a request says for itself goes before the client's policy.
        health = client.get("/health", extensions={"retrykit": None})
        print("health:", health.status_code)

        # A streamed response is the caller's once its headers are there.
        with client.stream("GET", "/reports/may") as report:
            print("report:", sum(1 for _ in report.iter_lines()), "lines")

        # What the server asks to wait is honoured up to a minute; past it, the answer stands.
        try:
            client.get("/limited").raise_for_status()
        except httpx.HTTPStatusError as error:
            print("limited: come back in", error.response.headers["Retry-After"], "s")


if __name__ == "__main__":
    main(sys.argv[1])
