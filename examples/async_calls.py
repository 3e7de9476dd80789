"""Async functions: the same decorator, waits that do not block, time limits that cut."""

import asyncio

from retrykit import AttemptTimedOut, RetryPolicy, current_attempt, retry

policy = RetryPolicy(attempts=3, backoff=[0.01, 0.01], attempt_timeout=0.05)


@retry(policy=policy)
async def fetch(page: int) -> str:
    if current_attempt().number == 1:
        await asyncio.sleep(60)  # the first attempt hangs, and is cut after 50 ms
    return f"page {page} at attempt {current_attempt().number}"


@retry(policy=policy)
async def hang() -> None:
    await asyncio.sleep(60)


async def main() -> None:
    print(await asyncio.gather(fetch(1), fetch(2)))
    try:
        await hang()
    except AttemptTimedOut as error:
        print(error)

    async for attempt in policy:  # the same for a block of code
        with attempt:
            if attempt.number < 2:
                raise ConnectionResetError
            print(f"the block succeeded at attempt {attempt.number}")


if __name__ == "__main__":
    asyncio.run(main())
