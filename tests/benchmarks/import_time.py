"""What `import retrykit` costs beside `import wrapt`, which it needs.

    python tests/benchmarks/import_time.py [--rounds N]

Fresh interpreters, in turn, with everything compiled; processor time, the least of all rounds, and
only the ratio means anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Final

MODULES: Final = ("wrapt", "retrykit")
PROGRAM: Final = """
from time import process_time
began = process_time()
import {module}
print(process_time() - began)
"""


def once(module: str, compiled: str) -> float:
    """Seconds for one import; what had to be compiled for it is kept in a folder."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="What importing retrykit costs.")
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    least = dict.fromkeys(MODULES, float("inf"))
    with TemporaryDirectory() as compiled:
        for module in MODULES:
            once(module, compiled)
        for _ in range(rounds):
            for module in MODULES:
                least[module] = min(least[module], once(module, compiled))
    print(f"import retrykit: {least['retrykit'] / least['wrapt']:.2f} times import wrapt")


if __name__ == "__main__":
    main()
