"""The search for the smallest example that a law does not hold for, with chance held still."""

from __future__ import annotations

import random
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hypothesis import HealthCheck, Phase, currently_in_test_context, given, settings
from hypothesis.errors import Flaky

from retrykit._validate import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from hypothesis.strategies import SearchStrategy

Law: TypeAlias = "Callable[[Any, Any], str | None]"
"""`(subject, example)` to what is wrong, in words, or `None`."""

EXAMPLES: Final = 50
"""How many examples each law is tried on."""

MOST_DRAWS: Final = 10_000
"""How often a single sequence may ask for a random number while its extremes are looked for."""


class LawBroken(AssertionError):
    """A strategy breaks laws of its kind; `laws` holds a counterexample for each, by its name."""

    def __init__(self, kind: str, subject: object, laws: dict[str, str]) -> None:
        super().__init__(kind, subject, laws)
        self.laws = laws

    def __str__(self) -> str:
        kind, subject, laws = self.args
        lines = [f"  {name}: {complaint}" for name, complaint in laws.items()]
        return "\n".join([f"{shown(subject)} is no proper {kind}", *lines])


def check(
    kind: str,
    subject: Any,
    laws: Mapping[str, Law],
    examples: SearchStrategy[Any],
    told: Callable[[Any], str],
    *,
    once: Mapping[str, Callable[[Any], str | None]] | None = None,
) -> None:
    """Try all laws on all examples, and look for the smallest one for each that does not hold.

    Those in `once` take no example; where one has a name that is in `laws` too, it is the same law.
    `told` puts an example into words, for where a law itself cannot: the subject raised something.
    """

    def search() -> None:
        broken: dict[str, str] = {}

        def look(example: Any) -> None:
            for name, law in laws.items():
                if name not in broken:
                    complaint = _complaint(law, subject, example, told)
                    if complaint is not None:
                        broken[name] = complaint

        _run(look, examples, Phase.generate)
        for name in broken:
            broken[name] = _smallest(laws[name], subject, examples, told) or broken[name]
        for name, law_once in (once or {}).items():
            complaint = _complaint(_without_example(law_once), subject, None, _nothing_more)
            if complaint is not None:
                broken.setdefault(name, complaint)
        if broken:
            raise LawBroken(kind, subject, broken)

    _outside_of_tests(search)


def _without_example(law: Callable[[Any], str | None]) -> Law:
    return lambda subject, _: law(subject)


def _nothing_more(_: Any) -> str:
    return "in the end"


def _complaint(law: Law, subject: Any, example: Any, told: Callable[[Any], str]) -> str | None:
    try:
        return law(subject, example)
    except Exception as error:  # noqa: BLE001 - what is checked may raise anything, and must not
        return f"{told(example)} it raised {type(error).__name__}: {error}"


class _Wrong(Exception):
    """An example that a law does not hold for."""


def _smallest(
    law: Law, subject: Any, examples: SearchStrategy[Any], told: Callable[[Any], str]
) -> str | None:
    """What is wrong with the smallest example that a law does not hold for, if there is one."""
    complaints: list[str] = []

    def look(example: Any) -> None:
        complaint = _complaint(law, subject, example, told)
        if complaint is not None:
            complaints[:] = [complaint]
            raise _Wrong

    # The smallest comes last. What else the search raises, it raises over a subject that is not
    # repeatable, which is all the more wrong.
    with suppress(_Wrong, Flaky):
        _run(look, examples, Phase.generate, Phase.shrink)
    return complaints[0] if complaints else None


def _run(look: Callable[[Any], None], examples: SearchStrategy[Any], *phases: Phase) -> None:
    """Have Hypothesis look at examples, the same ones each time."""

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list[Any](HealthCheck),
    )
    @given(examples)
    def run(example: Any) -> None:
        look(example)

    run()


def _outside_of_tests(search: Callable[[], None]) -> None:
    """Run a search; inside of another one of Hypothesis's, in a thread that knows nothing of it."""
    if not currently_in_test_context():
        search()
        return
    caught: list[BaseException] = []

    def run() -> None:
        try:
            search()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            caught.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


class Always(random.Random):
    """A generator that always draws the same, from the lowest (0) to the highest (1)."""

    def __init__(self, share: float) -> None:
        super().__init__(0)
        self._drawn = min(float(share), 1 - 2**-53)
        self._left = MOST_DRAWS

    def random(self) -> float:
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("it draws without end from a generator that always gives the same")
        return self._drawn


@contextmanager
def other_chance(seed: int) -> Generator[None, None, None]:
    """Whatever draws from the `random` module draws otherwise inside."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
