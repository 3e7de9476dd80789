"""A pool manager of urllib3 for a server that fails now and then: run it with its address.

urllib3 retries by itself, but not a QUERY, and all it asks of a POST is that nobody forbade it.
Here the method, the phase of the failure and the answer decide, and what the server asks to wait
is heeded or ends the call.
"""

import sys

from urllib3.exceptions import HTTPError, ProtocolError

from retrykit.http import by_endpoint, http_policy
from retrykit.http.urllib3 import RetryPoolManager

POLICY = by_endpoint(
    {"QUERY /search": http_policy(attempts=6)},
    default=http_policy(attempts=3, deadline=30),
)


def main(url: str) -> None:
    """Ask, search, order, look."""
    with RetryPoolManager(policy=POLICY, maxsize=4, timeout=10) as pool:
        user = pool.request("GET", f"{url}users/7").json()
        print("user:", user["name"])

        found = pool.request("QUERY", f"{url}search", json={"name": "A*"}).json()
        print("found:", ", ".join(found))

        # Nobody knows whether the server took the order: it is not sent again.
        try:
            pool.request("POST", f"{url}orders", json={"item": "book"})
        except ProtocolError as error:
            print("order: lost,", type(error.args[1]).__name__)

        # What a request says for itself goes before the manager's policy.
        health = pool.request("GET", f"{url}health", retrykit=None)
        print("health:", health.status)

        # A report that breaks off is read anew, a streamed one is the caller's to read.
        report = pool.request("GET", f"{url}reports/may")
        print("report:", len(report.data), "bytes")
        stream = pool.request("GET", f"{url}reports/june", preload_content=False)
        try:
            print("stream:", sum(map(len, stream.stream(4096))), "bytes")
        except HTTPError as error:
            print("stream:", type(error).__name__)


if __name__ == "__main__":
    main(sys.argv[1])
