"""Calls of a language model's API, which throttles, is overloaded, and says what it wants.

Run it with the API's address. Throttling (429) comes with a Retry-After, overload (529) with
x-should-retry, and a quota that is used up looks like throttling but for its body: that one is
not waited for. First by an httpx client, then around an SDK whose errors carry the response.
"""

import asyncio
import sys
from typing import Any

import httpx

from retrykit import RetryReason, retry
from retrykit.events import Event, RetryScheduled
from retrykit.http import OnStatus, http_policy
from retrykit.http.httpx import AsyncRetryClient

MESSAGE = {"model": "small", "messages": [{"role": "user", "content": "Hello!"}]}


def out_of_quota(response: Any) -> bool:
    """A 429 that does not pass, which only its body tells."""
    return response.json()["error"]["type"] == "insufficient_quota"


def tell(event: Event) -> None:
    """Print each retry; `log_retries` would log it."""
    if isinstance(event, RetryScheduled):
        print(f"  {event.reason}, again in {event.delay:.0f} s ({event.source})")


POLICY = http_policy(
    attempts=6,
    deadline=120,
    # A completion that is asked for twice costs tokens and changes nothing: overload and a
    # gateway's errors are retried, POST or not, also where the API does not say so.
    classify=[
        OnStatus(529, reason=RetryReason.THROTTLED),
        OnStatus(502, 503, 504),
    ],
    unless=out_of_quota,
    listeners=(tell,),
)


async def by_client(url: str) -> None:
    """The client's own calls."""
    async with AsyncRetryClient(base_url=url, policy=POLICY, timeout=60) as client:
        for prompt in ("first", "second"):
            print(f"{prompt}:")
            response = await client.post("/v1/messages", json=MESSAGE)
            answer = response.json()
            print(" ", answer["text"] if response.is_success else answer["error"]["type"])


class APIStatusError(Exception):
    """What the SDKs of OpenAI and Anthropic raise, by its shape: `response` tells the rest."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"Error code: {response.status_code}")
        self.response = response
        self.request = response.request
        self.status_code = response.status_code
        self.body = response.json()


# The SDK's own retries are off (`max_retries=0`): they would multiply with these.
@retry(policy=POLICY)
async def complete(sdk: httpx.AsyncClient) -> str:
    """Stands for `await sdk.messages.create(...)`."""
    response = await sdk.post("/v1/messages", json=MESSAGE)
    if response.is_error:
        raise APIStatusError(response)
    text: str = response.json()["text"]
    return text


async def by_sdk(url: str) -> None:
    """The same policy around a function."""
    async with httpx.AsyncClient(base_url=url) as sdk:
        print("third:")
        print(" ", await complete(sdk))
        print("fourth:")
        try:
            await complete(sdk)
        except APIStatusError as error:
            print(" ", error.body["error"]["type"])


async def main(url: str) -> None:
    """Four calls of the API."""
    await by_client(url)
    await by_sdk(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
