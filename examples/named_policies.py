"""Policies by name, from a file that operations can change, and from the environment on top."""

import tempfile
from pathlib import Path

from retrykit import policy_of, retry
from retrykit.config import ConfigError, dumps, load, reload

FILE = Path(tempfile.mkdtemp(), "retrykit.toml")

FILE.write_text(
    """
    [policies.github]
    on = ["ConnectionError", "http"]
    attempts = 5
    deadline = "30s"
    backoff = { kind = "exponential", base = "10ms", factor = 2, cap = "20s", jitter = "full" }
    budget = { kind = "ratio", reserve = 20 }

    [policies.github.endpoints."POST /repos/*/issues"]
    attempts = 1
    """
)

failures: list[Exception] = []


@retry(policy="github")  # looked up at each call, so it may be loaded later
def fetch() -> str:
    if failures:
        raise failures.pop()
    return "fetched"


def main() -> None:
    github = load(FILE, environ={})["github"]
    failures[:] = [ConnectionError(), ConnectionError()]
    print(fetch(), "- two failures were retried")
    print("an issue is posted", github.pick("POST", "/repos/me/issues").attempts, "time")

    # A bad night: no retries, from the environment (here as an argument).
    load(FILE, environ={"RETRYKIT_GITHUB__ATTEMPTS": "1"})
    failures[:] = [ConnectionError("down")]
    try:
        fetch()
    except ConnectionError as error:
        print("not retried:", error)

    # A file with a mistake changes nothing, and says all that is wrong.
    FILE.write_text('[policies.github]\natempts = 3\ndeadline = "half a minute"')
    try:
        reload()
    except ConfigError as error:
        for problem in error.problems:
            print(f"[{problem.section}] {problem.key} {problem.text}")
    print("still", policy_of(fetch).default.attempts, "attempt")

    # Any policy that a file can say is written as one.
    print(dumps({"github": github.default}), end="")


if __name__ == "__main__":
    main()
