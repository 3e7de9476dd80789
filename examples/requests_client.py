"""A session of requests for a server that fails now and then: run it with the server's address.

Reads and uploads are retried, a file from where it stood; a large download is the caller's once its
headers are there; a health check is asked once; and what the server asks to wait is heeded.
"""

import io
import sys

import requests

from retrykit import disabled, override
from retrykit.http import http_policy, per_host
from retrykit.http.requests import RetryAdapter

# A service has a budget, so that its retries never feed an outage.
POLICY = http_policy(attempts=4, deadline=30, budget=per_host())


def main(url: str) -> None:
    """Ask, upload, download, look."""
    with requests.Session() as session:
        # An adapter is mounted on what it is for: the longest address that fits is used.
        session.mount(url, RetryAdapter(policy=POLICY))
        session.mount(f"{url}reports/", RetryAdapter(policy=POLICY.replace(attempts=8)))

        user = session.get(f"{url}users/7", timeout=(3, 10)).json()
        print("user:", user["name"])

        picture = io.BytesIO(b"header;picture")
        picture.seek(7)
        stored = session.put(f"{url}users/7/picture", data=picture, timeout=(3, 60))
        print("picture:", stored.status_code)

        with session.get(f"{url}reports/may", stream=True, timeout=(3, 60)) as report:
            print("report:", sum(map(len, report.iter_content(4096))), "bytes")

        with disabled():
            print("health:", session.get(f"{url}health", timeout=1).status_code)
        with override(attempts=2):
            print("news:", session.get(f"{url}news", timeout=1).status_code)

        # Past a minute, what the server asks for is not waited for: its answer stands.
        limited = session.get(f"{url}limited", timeout=(3, 10))
        print("limited: come back in", limited.headers["Retry-After"], "s")


if __name__ == "__main__":
    main(sys.argv[1])
