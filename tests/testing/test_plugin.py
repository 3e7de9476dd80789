"""The pytest plugin, in runs of pytest of its own, beside the plugins that people use."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import retrykit

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[2]
PLUGIN = "retrykit.testing.plugin"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Write a test file and run pytest on it, in a process of its own, with these plugins only."""
    monkeypatch.setenv("PYTHONPATH", str(Path(retrykit.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_pytest(
        source: str, *arguments: str, ini: str = "", plugins: tuple[str, ...] = ()
    ) -> pytest.RunResult:
        pytester.makepyfile(source)
        pytester.makeini(f"[pytest]\n{ini}\n")
        options = [option for name in (PLUGIN, *plugins) for option in ("-p", name)]
        return pytester.runpytest_subprocess(
            *options, "-p", "no:cacheprovider", *arguments, timeout=60
        )

    return run_pytest


def test_the_entry_point_names_the_plugin() -> None:
    """Installed, pytest loads it without being told."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"retrykit": PLUGIN}


TOOLS = """
    import time
    import pytest
    from retrykit import RetryPolicy, retry
    from retrykit._context import everywhere

    calls = []

    @retry(on=OSError, attempts=4, backoff=[3600, 7200, 10800])
    def fetch(result="ok", failures=2):
        calls.append(1)
        if len(calls) <= failures:
            raise ConnectionError("s3cret")
        return result

    @pytest.fixture(autouse=True)
    def _fresh():
        calls.clear()
        began = time.monotonic()
        yield
        assert time.monotonic() - began < 30
"""


def test_fixtures_and_marker_hold_for_one_test(run: Run) -> None:
    """Virtual time, no waits, fewer attempts, decisions seen; and then all is as before."""
    result = run(
        TOOLS
        + """
    def test_virtual_clock(virtual_clock):
        assert fetch() == "ok"
        assert virtual_clock.sleeps == [3600, 7200]
        assert virtual_clock.now() == 10800

    def test_virtual_clock_leaves_other_clocks(virtual_clock):
        from retrykit.testing import VirtualClock
        own = VirtualClock()
        RetryPolicy.on(OSError, backoff=[5, 5], clock=own).call(fetch.__wrapped__)
        assert (own.sleeps, virtual_clock.sleeps) == ([5, 5], [])

    def test_no_waiting(no_waiting):
        assert fetch() == "ok"
        assert no_waiting == [3600, 7200]

    def test_no_waiting_reaches_threads(no_waiting):
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(fetch).result() == "ok"
        assert no_waiting == [3600, 7200]

    def test_both(virtual_clock, no_waiting):
        assert fetch() == "ok"
        assert no_waiting == virtual_clock.sleeps == [3600, 7200]

    def test_retry_trace(retry_trace, no_waiting):
        assert fetch() == "ok"
        assert fetch(failures=0) == "ok"
        assert retry_trace.of("fetch").decisions == [
            ("retry", 3600, "transient"),
            ("retry", 7200, "transient"),
            ("stop", None, "succeeded"),
            ("stop", None, "succeeded"),
        ]

    @pytest.mark.retry_attempts(2)
    def test_marker(no_waiting):
        with pytest.raises(ConnectionError):
            fetch()
        assert len(calls) == 2

    @pytest.mark.retry_attempts(99)
    def test_marker_raises_nothing(no_waiting):
        with pytest.raises(ConnectionError):
            fetch(failures=9)
        assert len(calls) == 4

    @pytest.mark.retry_attempts(1)
    class TestMarkedClass:
        def test_inherited(self):
            with pytest.raises(ConnectionError):
                fetch()
            assert len(calls) == 1

        @pytest.mark.retry_attempts(3)
        def test_nearer_marker(self, no_waiting):
            assert fetch() == "ok"

    def test_nothing_is_left():
        assert everywhere == []
        from retrykit.testing import VirtualClock
        clock = VirtualClock()
        RetryPolicy.on(OSError, backoff=[5, 5], clock=clock).call(fetch.__wrapped__)
        assert clock.sleeps == [5, 5]
    """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=11)


def test_a_failing_test_shows_its_retries(run: Run) -> None:
    """Those of its own calls, without arguments, values or error texts."""
    result = run(
        TOOLS
        + """
    def test_passes(no_waiting):
        assert fetch() == "ok"

    def test_fails(no_waiting):
        assert fetch("s3cret argument") == "other"

    def test_retries_nothing():
        assert False

    def test_gives_up(no_waiting):
        fetch(failures=9)

    @pytest.fixture
    def broken(no_waiting):
        yield
        fetch(failures=9)

    def test_fails_in_teardown(broken):
        pass

    def test_retries_a_lot(no_waiting):
        policy = RetryPolicy.on(OSError, attempts=3, backoff=[1, 1])
        for _ in range(100):
            with pytest.raises(OSError):
                policy.call(open, "/nowhere/at/all")
        assert False
    """,
        "-vv",
    )
    result.assert_outcomes(passed=2, failed=4, errors=1)
    text = result.stdout.str()
    fails = text.partition("_ test_fails _")[2].partition("_ test_retries_nothing _")[0]
    assert "- retries -" in fails
    assert "\nfetch: attempt 1 failed (ConnectionError, transient), next in 3600.000 s\n" in fails
    assert "\nfetch: attempt 3 succeeded\n" in fails
    nothing = text.partition("_ test_retries_nothing _")[2].partition("_ test_gives_up _")[0]
    assert "- retries -" not in nothing
    assert "\nfetch: attempt 4 failed (ConnectionError), no retry: attempts_exhausted\n" in text
    assert "(100 earlier lines are left out)" in text
    assert "\nopen: attempt 3 failed (FileNotFoundError), no retry: attempts_exhausted\n" in text
    assert text.count("- retries -") == 4
    shown = [line for line in text.splitlines() if line.startswith(("fetch: ", "open: "))]
    assert not any("s3cret" in line or "nowhere" in line for line in shown)


def test_the_plugin_is_inert_and_light_where_it_is_not_used(run: Run) -> None:
    """Nothing of the test kit is loaded, and no call is driven otherwise."""
    result = run(
        """
    import sys
    from retrykit import retry
    from retrykit._context import everywhere
    from retrykit._session import Session

    def test_nothing_is_loaded():
        heavy = ["hypothesis", "trio", "trio.testing", "anyio", "numpy", "matplotlib", "pydantic",
                 "retrykit.testing._clock", "retrykit.testing._trace", "retrykit.testing.laws",
                 "retrykit.testing.strategies", "retrykit.http", "httpx", "requests"]
        assert [name for name in heavy if name in sys.modules] == []

    def test_a_call_takes_its_usual_path(monkeypatch):
        seen = []
        init = Session.__init__

        def watched(self, *arguments):
            init(self, *arguments)
            seen.append((self.quiet, self._takers is self.settings.takers()))

        monkeypatch.setattr(Session, "__init__", watched)
        assert everywhere == []
        assert retry(lambda: 42)() == 42
        assert seen == []

        failures = iter([ConnectionError])

        @retry(on=OSError, backoff=[0])
        def flaky():
            for failure in failures:
                raise failure
            return "ok"

        assert flaky() == "ok"
        assert seen == [(True, True)]
    """,
        "-vv",
    )
    result.assert_outcomes(passed=2)
    assert "retries" not in result.stdout.str()


def test_a_whole_run_without_waits(run: Run) -> None:
    """The ini option covers every test, fixtures of wider scope and code at import."""
    result = run(
        TOOLS
        + """
    fetch(failures=1)
    calls.clear()

    @pytest.fixture(scope="module")
    def service():
        return fetch()

    def test_one(service):
        assert service == "ok"

    def test_two():
        with pytest.raises(ConnectionError):
            fetch(failures=9)
        assert len(calls) == 4
    """,
        ini="retrykit_no_waiting = true",
    )
    result.assert_outcomes(passed=2)


def test_real_time_on_request(run: Run) -> None:
    """`--retry-real-time` brings the waits back, whatever the ini option and the fixture say."""
    result = run(
        """
    import time
    from retrykit import RetryPolicy
    from retrykit.testing import script

    POLICY = RetryPolicy.on(OSError, backoff=[0.15])

    def took():
        began = time.monotonic()
        POLICY.call(script(OSError, "ok"))
        return time.monotonic() - began

    def test_ini():
        assert took() >= 0.15

    def test_fixture(no_waiting):
        assert took() >= 0.15
        assert no_waiting == [0.15]
    """,
        "--retry-real-time",
        ini="retrykit_no_waiting = true",
    )
    result.assert_outcomes(passed=2)


def test_a_senseless_marker_fails_its_test_only(run: Run) -> None:
    """With the reason; the other tests run."""
    result = run(
        """
    import pytest

    @pytest.mark.retry_attempts(0)
    def test_zero():
        pass

    @pytest.mark.retry_attempts
    def test_nothing():
        pass

    def test_other():
        pass
    """
    )
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*retry_attempts takes a number of calls: n must be at least 1*"])


def test_unittest_cases_use_the_fixtures(run: Run) -> None:
    """By marker, as pytest has it for them."""
    result = run(
        """
    import unittest
    import pytest
    from retrykit import RetryPolicy
    from retrykit.testing import script

    POLICY = RetryPolicy.on(OSError, backoff=[3600])

    @pytest.mark.usefixtures("no_waiting")
    class TestOld(unittest.TestCase):
        def test_fetch(self):
            self.assertEqual(POLICY.call(script(OSError, "ok")), "ok")

        @pytest.mark.retry_attempts(1)
        def test_limited(self):
            with self.assertRaises(OSError):
                POLICY.call(script(OSError))

    class TestAsync(unittest.IsolatedAsyncioTestCase):
        @pytest.fixture(autouse=True)
        def _time(self, virtual_clock):
            self.clock = virtual_clock

        async def test_fetch(self):
            self.assertEqual(await POLICY.acall(script(OSError, "ok", asynchronous=True)), "ok")
            self.assertEqual(self.clock.sleeps, [3600])
    """
    )
    result.assert_outcomes(passed=3)


ASYNC_TOOLS = """
    import asyncio
    import time
    import pytest
    from retrykit import RetryPolicy
    from retrykit.testing import script

    POLICY = RetryPolicy.on(OSError, attempts=3, backoff=[3600, 3600])

    def fetch():
        return POLICY.acall(script(OSError, OSError, "ok", asynchronous=True))
"""


def test_pytest_asyncio(run: Run, pytester: pytest.Pytester) -> None:
    """On its ordinary loops waits take no time; with the loop factory, nothing does."""
    pytester.makeconftest(
        """
    from retrykit.testing.plugin import loop_factory

    def pytest_asyncio_loop_factories(config, item):
        return {"retrykit": loop_factory}
    """
    )
    result = run(
        ASYNC_TOOLS
        + """
    @pytest.mark.asyncio
    async def test_no_waiting(no_waiting):
        assert await fetch() == "ok"
        assert no_waiting == [3600, 3600]
        assert not hasattr(asyncio.get_running_loop(), "turns")

    @pytest.mark.asyncio
    async def test_virtual_clock(virtual_clock):
        await asyncio.gather(fetch(), asyncio.sleep(10_000))
        assert virtual_clock.now() == 10_000
        assert virtual_clock.sleeps == [3600, 3600]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await fetch()

    @pytest.mark.asyncio
    async def test_each_test_has_a_clock_of_its_own(virtual_clock):
        assert virtual_clock.now() == 0

    @pytest.mark.asyncio
    @pytest.mark.retry_attempts(2)
    async def test_marker(no_waiting):
        with pytest.raises(OSError):
            await fetch()

    @pytest.mark.asyncio
    async def test_fails(no_waiting):
        assert await fetch() == "other"
    """,
        ini="asyncio_default_fixture_loop_scope = function",
        plugins=("pytest_asyncio.plugin",),
    )
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*script: attempt 3 succeeded*"])


def test_pytest_asyncio_without_a_loop_factory(run: Run) -> None:
    """The fixture needs nothing more for what goes through the clock."""
    result = run(
        ASYNC_TOOLS
        + """
    @pytest.mark.asyncio
    async def test_virtual_clock(virtual_clock):
        assert await asyncio.gather(fetch(), fetch()) == ["ok", "ok"]
        assert virtual_clock.now() == 7200
    """,
        ini="asyncio_default_fixture_loop_scope = function",
        plugins=("pytest_asyncio.plugin",),
    )
    result.assert_outcomes(passed=1)


def test_anyio(run: Run) -> None:
    """Its own plugin takes the loop factory as a backend option."""
    result = run(
        ASYNC_TOOLS
        + """
    import anyio
    from retrykit.testing.plugin import loop_factory

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend():
        return "asyncio", {"loop_factory": loop_factory}

    async def test_virtual_clock(virtual_clock):
        assert await fetch() == "ok"
        with anyio.move_on_after(100):
            await anyio.sleep(1000)
        assert virtual_clock.now() == 7300

    async def test_no_waiting(no_waiting):
        assert await fetch() == "ok"
        assert no_waiting == [3600, 3600]
    """,
        plugins=("anyio.pytest_plugin",),
    )
    result.assert_outcomes(passed=2)


def test_pytest_trio(run: Run) -> None:
    """With its own fixture for Trio's clock, both show the same time."""
    result = run(
        ASYNC_TOOLS
        + """
    import trio

    @pytest.mark.trio
    async def test_virtual_clock(virtual_clock, autojump_clock):
        virtual_clock.now()
        assert await fetch() == "ok"
        await trio.sleep(100)
        assert virtual_clock.now() == trio.current_time() == 7300

    @pytest.mark.trio
    async def test_no_waiting(no_waiting):
        assert await fetch() == "ok"
        assert no_waiting == [3600, 3600]
    """,
        plugins=("pytest_trio.plugin",),
    )
    result.assert_outcomes(passed=2)


def test_xdist(run: Run) -> None:
    """Each worker has the plugin, and the retries of a failing test reach the report."""
    result = run(
        TOOLS
        + """
    @pytest.mark.parametrize("n", range(4))
    def test_fetch(n, no_waiting):
        assert fetch() == "ok"
        assert no_waiting == [3600, 7200]

    def test_fails(virtual_clock):
        assert fetch() == "other"
    """,
        "-n2",
        plugins=("xdist.plugin",),
        ini="retrykit_no_waiting = true",
    )
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["fetch: attempt 3 succeeded"])
