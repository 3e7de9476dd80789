"""An aiohttp session for a server that fails now and then: run it with the server's address.

Reads are retried as long as it takes, within limits; an order is placed once, whatever fails on the
way, since the server knows it again by its Idempotency-Key; an upload goes on from its file; a
health check is asked once; and a stream is the reader's as soon as its headers are there.
"""

import asyncio
import io
import sys

import aiohttp

from retrykit import disabled
from retrykit.http import by_endpoint, http_policy, per_host
from retrykit.http.aiohttp import retry_middleware

# A service has a budget, so that its retries never feed an outage.
BUDGET = per_host()

POLICY = by_endpoint(
    {"GET /reports/{month}": http_policy(attempts=8, deadline=120, budget=BUDGET)},
    default=http_policy(attempts=4, deadline=30, budget=BUDGET),
)


async def main(url: str) -> None:
    """Ask, order, upload, look, and stream."""
    retries = retry_middleware(policy=POLICY, idempotency_key=True)
    # aiohttp's own total is for a call with all of its attempts: the policy's deadline is enough.
    forever = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=20)
    async with aiohttp.ClientSession(url, middlewares=(retries,), timeout=forever) as session:
        async with session.get("/users/7", raise_for_status=True) as response:
            print("user:", (await response.json())["name"])

        async with session.post("/orders", json={"item": "book"}) as response:
            print("order:", (await response.json())["number"])

        file = io.BytesIO(b"header" + b"x" * 300_000)
        file.seek(6)
        async with session.put("/files/1", data=file) as response:
            print("upload:", response.status)

        with disabled():
            async with session.get("/health") as response:
                print("health:", response.status)

        async with session.get("/reports/may") as response:
            lines = [line async for line in response.content]
            print("report:", len(lines), "lines")

        # What the server asks to wait is honoured up to a minute; past it, the answer stands.
        async with session.get("/limited") as response:
            print("limited: come back in", response.headers["Retry-After"], "s")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
