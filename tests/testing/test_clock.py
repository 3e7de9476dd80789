"""Virtual time: waits take none, and end in the order of time, wherever they are made."""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio
import trio.testing

from retrykit.clock import Clock
from retrykit.testing import VirtualClock
from retrykit.testing._turns import Job, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(autouse=True)
def _no_real_waiting() -> Iterator[None]:
    """Nothing here may take long: a wait that is not virtual would."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 20


def run(clock: VirtualClock, main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        return runner.run(main)


def in_threads(*functions: Callable[[], object]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestTime:
    def test_a_virtual_clock_is_a_clock(self, clock: VirtualClock) -> None:
        """A policy takes it where it takes the system's clock."""
        assert isinstance(clock, Clock)

    def test_a_wait_moves_the_clock_on_and_is_recorded(self, clock: VirtualClock) -> None:
        """Two waits of an hour in all take no time."""
        clock.sleep(1800.5)
        clock.sleep(1799.5)
        assert clock.now() == 3600.0
        assert clock.sleeps == [1800.5, 1799.5]

    def test_a_wait_of_zero_is_recorded_and_moves_nothing(self, clock: VirtualClock) -> None:
        """Zero is a wait like any other."""
        clock.sleep(0)
        assert (clock.now(), clock.sleeps) == (0.0, [0.0])

    @pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), -0.001])
    def test_a_wait_that_makes_no_sense_is_refused(self, clock: VirtualClock, bad: float) -> None:
        """A nonsense wait is an error here before it is one in production."""
        with pytest.raises(ValueError, match="seconds must be"):
            clock.sleep(bad)
        assert (clock.now(), clock.sleeps) == (0.0, [])

    @pytest.mark.parametrize("bad", ["1", None, True])
    def test_a_wait_that_is_no_number_is_refused(self, clock: VirtualClock, bad: Any) -> None:
        """So is what is no number."""
        with pytest.raises(TypeError, match="seconds must be"):
            clock.sleep(bad)

    def test_advance_moves_the_clock_without_a_wait(self, clock: VirtualClock) -> None:
        """Time that passes by itself is no wait."""
        clock.advance(5)
        clock.advance(timedelta(minutes=1))
        assert (clock.now(), clock.sleeps) == (65.0, [])

    def test_advance_never_goes_back(self, clock: VirtualClock) -> None:
        """A monotonic clock has no other direction."""
        with pytest.raises(ValueError, match="seconds must be at least 0, got -1"):
            clock.advance(-1)

    def test_the_unix_time_moves_with_the_clock(self) -> None:
        """A Retry-After date that is an hour away is reached by an hour of waits."""
        clock = VirtualClock(wall=1_000_000_000)
        clock.sleep(3600)
        assert clock.wall() == 1_000_003_600.0

    def test_the_unix_time_starts_as_the_real_one(self) -> None:
        """A real server's dates make sense to it."""
        assert VirtualClock(start=500).wall() == pytest.approx(time.time(), abs=5)

    def test_the_clock_starts_where_it_is_told(self) -> None:
        """A late start shows whether somebody takes time to begin at zero."""
        clock = VirtualClock(start=1e9)
        clock.sleep(0.25)
        assert clock.now() == 1e9 + 0.25

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"start": float("nan")}, "start must be finite, got nan"),
            ({"start": -1}, "start must be at least 0, got -1"),
            ({"wall": -1}, "wall must be at least 0, got -1"),
            ({"grace": -0.1}, r"grace must be at least 0, got -0\.1"),
        ],
    )
    def test_bad_settings_are_refused_at_once(self, settings: dict[str, float], text: str) -> None:
        """The field and the value are named."""
        with pytest.raises(ValueError, match=text):
            VirtualClock(**settings)  # type: ignore[arg-type]  # start is positional too

    def test_the_repr_tells_the_time(self, clock: VirtualClock) -> None:
        """In a failed assertion it says how late it is."""
        clock.sleep(12.5)
        assert repr(clock) == "<VirtualClock at 12.5 s>"


class TestThreads:
    @pytest.fixture
    def clock(self) -> VirtualClock:
        """One that is patient with threads on a busy machine."""
        return VirtualClock(grace=0.3)

    def test_waits_end_in_the_order_of_time(self, clock: VirtualClock) -> None:
        """Whoever waits least comes first, whoever began."""
        ended: list[tuple[float, float]] = []

        def wait(seconds: float) -> None:
            clock.sleep(seconds)
            ended.append((seconds, clock.now()))

        in_threads(*(lambda s=s: wait(s) for s in (5, 3, 1, 4, 2)))
        assert ended == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)]

    def test_waits_in_a_row_are_interleaved_by_time(self, clock: VirtualClock) -> None:
        """Ten waits of 1 s, five of 2 s and two of 5 s in three threads all take ten seconds."""
        ended: list[float] = []

        def wait(seconds: float, times: int) -> None:
            for _ in range(times):
                clock.sleep(seconds)
                ended.append(clock.now())

        in_threads(lambda: wait(1, 10), lambda: wait(2, 5), lambda: wait(5, 2))
        assert ended == sorted(ended)
        assert clock.now() == 10.0
        assert len(clock.sleeps) == 17

    def test_equal_waits_end_in_the_order_in_which_they_began(self, clock: VirtualClock) -> None:
        """One thread at a time goes on, so that a test reads the same each time."""
        ended: list[int] = []

        def wait(name: int) -> None:
            clock.sleep(1)
            ended.append(name)

        threads = [threading.Thread(target=wait, args=(name,)) for name in range(8)]
        with clock.paused():
            for begun, thread in enumerate(threads, start=1):
                thread.start()
                while len(clock.sleeps) < begun:
                    time.sleep(0.001)
                time.sleep(0.005)
        for thread in threads:
            thread.join()
        assert ended == list(range(8))
        assert clock.now() == 1.0

    def test_a_thread_at_work_is_given_the_grace_to_come_to_its_wait(self) -> None:
        """Work of a few milliseconds does not cost a thread its place."""
        clock = VirtualClock(grace=0.5)
        ended: list[str] = []

        def slow() -> None:
            time.sleep(0.05)
            clock.sleep(1)
            ended.append("slow")

        def fast() -> None:
            clock.sleep(3)
            ended.append("fast")

        in_threads(fast, slow)
        assert ended == ["slow", "fast"]

    def test_a_thread_that_never_waits_costs_one_grace_only(self) -> None:
        """A server's or a test runner's own thread does not slow down each wait."""
        done = threading.Event()
        other = threading.Thread(target=done.wait)
        other.start()
        began = time.monotonic()
        for _ in range(3):
            clock = VirtualClock(grace=0.2)
            for _ in range(100):
                clock.sleep(1)
        took = time.monotonic() - began
        done.set()
        other.join()
        assert 0.19 < took < 1.0

    def test_a_stopped_system_clock_stops_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Suites that freeze `time` and forbid `time.sleep` can use a virtual clock beside it."""

        def forbidden(seconds: float) -> None:
            raise AssertionError("it slept")

        monkeypatch.setattr(time, "monotonic", lambda: 0.0)
        monkeypatch.setattr(time, "sleep", forbidden)
        clock = VirtualClock(grace=0.02)
        done = threading.Event()
        other = threading.Thread(target=done.wait)
        other.start()
        clock.sleep(0)
        clock.sleep(5)
        done.set()
        other.join()
        monkeypatch.undo()
        assert clock.now() == 5.0

    def test_pool_threads_share_one_time(self) -> None:
        """Thirty-two calls on four threads: as long as eight in a row."""
        clock = VirtualClock()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(clock.sleep, [10.0] * 32))
        assert clock.now() == 80.0
        assert len(clock.sleeps) == 32

    def test_an_interrupted_wait_leaves_the_line(self, clock: VirtualClock) -> None:
        """Ctrl-C in a wait leaves nobody behind whom the others would wait for."""

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with clock.paused():
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(KeyboardInterrupt):
                    clock.sleep(1)
        finally:
            signal.signal(signal.SIGALRM, before)
        clock.sleep(5)
        assert clock.now() == 5.0

    def test_a_paused_clock_moves_by_advance_only(self, clock: VirtualClock) -> None:
        """What the clock cannot see is under way; the test says when time passes."""
        ended: list[float] = []

        def wait(seconds: float) -> None:
            clock.sleep(seconds)
            ended.append(clock.now())

        threads = [threading.Thread(target=wait, args=(s,)) for s in (1, 10)]
        with clock.paused():
            for thread in threads:
                thread.start()
            time.sleep(0.15)
            assert (clock.now(), ended) == (0.0, [])
            clock.advance(2)
            threads[0].join()
            time.sleep(0.15)
            assert ended == [2.0]
        threads[1].join()
        assert ended == [2.0, 10.0]

    def test_advance_lets_due_waits_end_in_order(self, clock: VirtualClock) -> None:
        """Three waits that became due at once end by their time, not by chance."""
        ended: list[float] = []

        def wait(seconds: float) -> None:
            clock.sleep(seconds)
            ended.append(seconds)

        threads = [threading.Thread(target=wait, args=(s,)) for s in (3, 1, 2)]
        with clock.paused():
            for thread in threads:
                thread.start()
            while len(clock.sleeps) < 3:
                time.sleep(0.001)
            clock.advance(60)
            for thread in threads:
                thread.join()
        assert ended == [1, 2, 3]
        assert clock.now() == 60.0


class TestAsyncio:
    def test_tasks_wait_side_by_side_in_the_order_of_time(self, clock: VirtualClock) -> None:
        """Concurrent waits overlap: three tasks take as long as the longest."""
        ended: list[tuple[float, float]] = []

        async def wait(seconds: float) -> None:
            for _ in range(2):
                await clock.sleep_async(seconds)
                ended.append((seconds, clock.now()))

        async def main() -> None:
            await asyncio.gather(wait(3), wait(1), wait(2))

        run(clock, main())
        assert ended == [(1, 1.0), (2, 2.0), (1, 2.0), (3, 3.0), (2, 4.0), (3, 6.0)]
        assert clock.sleeps == [3, 1, 2, 1, 2, 3]

    def test_ten_thousand_tasks_wait_an_hour_in_seconds(self, clock: VirtualClock) -> None:
        """Four waits each, at times all different, an hour in all."""

        async def wait(task: int) -> None:
            for part in (0.1, 0.2, 0.3, 0.4):
                await clock.sleep_async(3600 * part + task / 1e4 * part)

        async def main() -> None:
            await asyncio.gather(*map(wait, range(10_000)))

        began = time.monotonic()
        run(clock, main())
        assert clock.now() == pytest.approx(3601, abs=0.01)
        assert time.monotonic() - began < 15

    def test_the_loops_own_timers_are_virtual(self, clock: VirtualClock) -> None:
        """`asyncio.sleep`, `timeout` and `wait_for` follow the same clock."""

        async def main() -> float:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.sleep(100)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(50):
                    await clock.sleep_async(1000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 25)
            assert loop.time() == clock.now()
            return loop.time() - began

        assert run(clock, main()) == 175.0

    def test_times_are_exact(self, clock: VirtualClock) -> None:
        """A wait ends at the very float that the loop asked for."""

        async def main() -> list[float]:
            ended = []
            for seconds in (0.1, 0.2, 0.7, 1e-6, 12345.678, 1e6, 0.3):
                expected = clock.now() + seconds
                await clock.sleep_async(seconds)
                ended.append(clock.now() - expected)
            return ended

        assert run(clock, main()) == [0.0] * 7

    def test_a_wait_can_be_cancelled(self, clock: VirtualClock) -> None:
        """A cancelled wait ends at once and moves nothing."""

        async def main() -> None:
            task = asyncio.create_task(clock.sleep_async(1000))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(clock, main())
        assert clock.now() == 1.0

    def test_advance_in_a_task_makes_others_due(self, clock: VirtualClock) -> None:
        """Time that a task lets pass has passed for all."""

        async def main() -> float:
            task = asyncio.create_task(clock.sleep_async(10))
            await asyncio.sleep(0)
            clock.advance(30)
            await task
            return clock.now()

        assert run(clock, main()) == 30.0

    def test_a_blocking_wait_in_a_task_holds_up_the_others(self, clock: VirtualClock) -> None:
        """As in real life."""

        async def main() -> list[float]:
            async def late() -> float:
                await clock.sleep_async(1)
                return clock.now()

            task = asyncio.create_task(late())
            await asyncio.sleep(0)
            clock.sleep(5)
            return [clock.now(), await task]

        assert run(clock, main()) == [5.0, 5.0]

    def test_a_slow_socket_is_waited_for(self) -> None:
        """An answer that comes after 100 real milliseconds does not meet a virtual timeout."""
        clock = VirtualClock(grace=5)
        server = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                time.sleep(0.1)
                connection.sendall(b"hello")

        async def main() -> bytes:
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection(*server.getsockname())
                writer.write(b"?")
                answered = await reader.read(100)
                writer.close()
                await writer.wait_closed()
                return answered

        thread = threading.Thread(target=answer)
        thread.start()
        with server:
            assert run(clock, main()) == b"hello"
        thread.join()
        assert clock.now() == 0.0

    def test_a_server_and_its_client_share_the_loop(self, clock: VirtualClock) -> None:
        """Sockets work inside one virtual loop, and waits between the bytes take no time."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            await asyncio.sleep(60)
            writer.write(b"late\n")
            writer.close()

        async def main() -> bytes:
            async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"?\n")
                answer = await reader.readline()
                writer.close()
                await writer.wait_closed()
                return answer

        assert run(clock, main()) == b"late\n"
        assert clock.now() == 60.0

    def test_a_silent_socket_does_not_stop_time(self, clock: VirtualClock) -> None:
        """A peer that never answers meets the timeout after the grace."""
        server = socket.create_server(("127.0.0.1", 0))

        async def main() -> None:
            reader, writer = await asyncio.open_connection(*server.getsockname())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 30)
            writer.close()

        began = time.monotonic()
        with server:
            run(clock, main())
        assert clock.now() == 30.0
        assert time.monotonic() - began < 3

    def test_a_function_in_an_executor_is_not_skipped(self, clock: VirtualClock) -> None:
        """Real work of 200 ms is no reason to fire a timer that is ten seconds away."""

        async def main() -> str:
            async with asyncio.timeout(10):
                return await asyncio.to_thread(lambda: time.sleep(0.2) or "done")  # type: ignore[func-returns-value]  # None is wanted

        assert run(clock, main()) == "done"
        assert clock.now() == 0.0

    def test_waiting_for_an_executor_does_not_spin(self, clock: VirtualClock) -> None:
        """The loop sleeps in its selector meanwhile."""

        async def main() -> None:
            async with asyncio.timeout(10):
                await asyncio.to_thread(time.sleep, 0.3)

        began = time.process_time()
        run(clock, main())
        assert time.process_time() - began < 0.15

    def test_blocking_waits_in_an_executor_are_in_turn_with_the_loop(
        self, clock: VirtualClock
    ) -> None:
        """Two worker threads and a task share one order of time."""
        ended: list[tuple[str, float]] = []

        def block(name: str, seconds: float) -> None:
            clock.sleep(seconds)
            ended.append((name, clock.now()))

        async def main() -> None:
            async def wait() -> None:
                for _ in range(3):
                    await clock.sleep_async(2)
                    ended.append(("task", clock.now()))

            await asyncio.gather(
                asyncio.to_thread(block, "b", 5), asyncio.to_thread(block, "a", 3), wait()
            )

        run(clock, main())
        assert ended == [("task", 2.0), ("a", 3.0), ("task", 4.0), ("b", 5.0), ("task", 6.0)]

    def test_a_queue_of_blocking_waits_keeps_moving(self, clock: VirtualClock) -> None:
        """Twelve waits of a minute in a pool of four: three minutes."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(4) as pool:
                await asyncio.gather(
                    *(loop.run_in_executor(pool, clock.sleep, 60.0) for _ in range(12))
                )

        began = time.monotonic()
        run(clock, main())
        assert clock.now() == 180.0
        assert time.monotonic() - began < 4

    def test_an_executor_function_may_wait_for_its_loop(self, clock: VirtualClock) -> None:
        """A worker that runs a coroutine on the loop and waits for it does not stop time."""

        async def later() -> str:
            await clock.sleep_async(60)
            return "late"

        async def main() -> str:
            loop = asyncio.get_running_loop()

            def work() -> str:
                return asyncio.run_coroutine_threadsafe(later(), loop).result()

            return await asyncio.to_thread(work)

        began = time.monotonic()
        assert run(clock, main()) == "late"
        assert clock.now() == 60.0
        assert time.monotonic() - began < 2

    def test_an_error_in_an_executor_arrives(self, clock: VirtualClock) -> None:
        """What the function raises comes out of the await."""

        def fail() -> None:
            raise ConnectionError("down")

        async def main() -> None:
            with pytest.raises(ConnectionError, match="down"):
                await asyncio.to_thread(fail)
            await clock.sleep_async(10)

        run(clock, main())
        assert clock.now() == 10.0

    def test_a_cancelled_executor_function_is_waited_for_no_longer(self) -> None:
        """The thread works on by itself, and the loop's time moves again after the grace."""
        clock = VirtualClock(grace=0.01)
        release = threading.Event()

        async def main() -> None:
            work = asyncio.get_running_loop().run_in_executor(None, release.wait, 10)
            await asyncio.sleep(0)
            work.cancel()
            await asyncio.sleep(0)
            began = time.monotonic()
            await clock.sleep_async(100)
            assert time.monotonic() - began < 2
            release.set()

        run(clock, main())
        assert clock.now() == 100.0

    def test_a_full_executor_raises_and_leaves_nothing_behind(self, clock: VirtualClock) -> None:
        """An executor that refuses the function is not waited for."""

        async def main() -> None:
            pool = ThreadPoolExecutor(1)
            pool.shutdown()
            with pytest.raises(RuntimeError, match="shutdown"):
                asyncio.get_running_loop().run_in_executor(pool, time.sleep, 0)
            began = time.monotonic()
            await clock.sleep_async(100)
            assert time.monotonic() - began < 1

        run(clock, main())

    def test_a_process_pool_gets_the_plain_function(self, clock: VirtualClock) -> None:
        """The clock stays behind; its time waits for the other process."""

        async def main() -> int:
            loop = asyncio.get_running_loop()
            with ProcessPoolExecutor(1) as pool:
                async with asyncio.timeout(30):
                    return await loop.run_in_executor(pool, pow, 2, 10)

        assert run(clock, main()) == 1024
        assert clock.now() == 0.0

    def test_a_pickled_job_is_the_function(self) -> None:
        """And from then on it counts as under way."""
        job = Job(Turns(0.0, 0.0), abs)
        assert pickle.loads(pickle.dumps(job)) is abs
        assert job.running

    def test_another_threads_callback_wakes_an_idle_loop(self, clock: VirtualClock) -> None:
        """With no timer set there is nothing to jump to: the loop really waits."""

        async def main() -> str:
            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def ring() -> None:
                time.sleep(0.1)
                loop.call_soon_threadsafe(future.set_result, "woken")

            thread = threading.Thread(target=ring)
            thread.start()
            result: str = await future
            thread.join()
            return result

        assert run(clock, main()) == "woken"

    def test_a_thread_that_sleeps_wakes_a_loop_with_no_timers(self, clock: VirtualClock) -> None:
        """A loop that only waits for a thread lets it move the clock on."""

        async def main() -> float:
            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def ring() -> None:
                clock.sleep(50)
                loop.call_soon_threadsafe(future.set_result, None)

            thread = threading.Thread(target=ring)
            thread.start()
            await future
            thread.join()
            return clock.now()

        assert run(clock, main()) == 50.0

    def test_two_loops_in_two_threads_share_one_time(self) -> None:
        """Their timers interleave."""
        ended: list[float] = []

        async def wait(seconds: float) -> None:
            for _ in range(4):
                await clock.sleep_async(seconds)
                ended.append(clock.now())

        clock = VirtualClock(grace=0.3)
        in_threads(lambda: run(clock, wait(3)), lambda: run(clock, wait(4)))
        assert ended == [3.0, 4.0, 6.0, 8.0, 9.0, 12.0, 12.0, 16.0]

    def test_a_paused_clock_holds_the_loop(self, clock: VirtualClock) -> None:
        """Work that the clock cannot see may take its real time."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            done = asyncio.Event()
            thread = threading.Timer(0.2, loop.call_soon_threadsafe, (done.set,))
            thread.start()
            with clock.paused():
                async with asyncio.timeout(5):
                    await done.wait()
            thread.join()

        run(clock, main())
        assert clock.now() == 0.0

    def test_a_subprocess_runs_in_the_loop(self, clock: VirtualClock) -> None:
        """Its pipes and its end are real input."""

        async def main() -> bytes:
            with clock.paused():
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", "print('hello')", stdout=asyncio.subprocess.PIPE
                )
                output, _ = await process.communicate()
            return output.strip()

        assert run(clock, main()) == b"hello"

    def test_ctrl_c_ends_a_runner(self, clock: VirtualClock) -> None:
        """An interrupt reaches a loop that waits."""

        async def main() -> None:
            asyncio.get_running_loop().call_later(5, signal.raise_signal, signal.SIGINT)
            await asyncio.Event().wait()

        with pytest.raises(KeyboardInterrupt):
            run(clock, main())
        assert clock.now() == 5.0

    def test_a_closed_loop_leaves_no_open_socket(self, clock: VirtualClock) -> None:
        """Warnings are errors here, a `ResourceWarning` included."""
        loop = clock.loop_factory()
        loop.close()
        assert loop.is_closed()

    def test_debug_mode_works(self, clock: VirtualClock) -> None:
        """The checks of asyncio's debug mode meet nothing unusual."""

        async def main() -> float:
            await asyncio.gather(clock.sleep_async(5), asyncio.to_thread(clock.sleep, 3))
            return clock.now()

        with asyncio.Runner(loop_factory=clock.loop_factory, debug=True) as runner:
            assert runner.run(main()) == 5.0

    def test_anyio_takes_the_loop_factory(self, clock: VirtualClock) -> None:
        """`backend_options` is all that it needs; its threads are waited for too."""

        async def main() -> float:
            with anyio.fail_after(10):
                await anyio.to_thread.run_sync(time.sleep, 0.15)
            with anyio.move_on_after(100):
                await anyio.sleep(1000)
            await clock.sleep_async(20)
            return clock.now()

        ended = anyio.run(
            main, backend="asyncio", backend_options={"loop_factory": clock.loop_factory}
        )
        assert ended == 120.0

    def test_another_clocks_loop_is_an_ordinary_loop(self, clock: VirtualClock) -> None:
        """Two clocks keep two times."""
        other = VirtualClock()

        async def main() -> None:
            await clock.sleep_async(7)

        run(other, main())
        assert (clock.now(), other.now()) == (7.0, 0.0)


async def interleaved(clock: VirtualClock, gather: Callable[..., Any]) -> list[float]:
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        for _ in range(3):
            await clock.sleep_async(seconds)
            ended.append(clock.now())

    await gather(*((wait, s) for s in (3.0, 1.0, 2.5)))
    return ended


async def gather_asyncio(*calls: tuple[Callable[..., Any], float]) -> None:
    async with asyncio.TaskGroup() as group:
        for function, argument in calls:
            group.create_task(function(argument))


async def gather_trio(*calls: tuple[Callable[..., Any], float]) -> None:
    async with trio.open_nursery() as nursery:
        for function, argument in calls:
            nursery.start_soon(function, argument)


INTERLEAVED = [1.0, 2.0, 2.5, 3.0, 3.0, 5.0, 6.0, 7.5, 9.0]


class TestOrdinaryLoops:
    def test_waits_on_an_ordinary_asyncio_loop_end_in_order(self, clock: VirtualClock) -> None:
        """A loop that keeps real time still needs none for them."""
        assert asyncio.run(interleaved(clock, gather_asyncio)) == INTERLEAVED

    def test_a_cancelled_wait_on_an_ordinary_loop_moves_nothing(self, clock: VirtualClock) -> None:
        """The wait that is over is not served."""

        async def main() -> None:
            task = asyncio.create_task(clock.sleep_async(1000))
            await asyncio.sleep(0)
            task.cancel()
            await clock.sleep_async(1)
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert clock.now() == 1.0

    def test_the_nearest_wait_may_be_the_one_that_is_cancelled(self, clock: VirtualClock) -> None:
        """Alone, or beside another that ends at the same time; the clock does not stop there."""

        async def main() -> None:
            tasks = [asyncio.create_task(clock.sleep_async(s)) for s in (1, 5, 5, 9)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            tasks[1].add_done_callback(lambda _: tasks[2].cancel())
            asyncio.get_running_loop().call_soon(tasks[2].cancel)
            await asyncio.gather(tasks[1], tasks[3])
            assert [task.cancelled() for task in tasks] == [True, False, True, False]

        asyncio.run(main())
        assert clock.now() == 9.0

    def test_later_waits_join_a_loop_that_had_come_to_rest(self, clock: VirtualClock) -> None:
        """The line forms anew after it was empty, on either library."""

        async def main(pause: Callable[[float], Any]) -> None:
            await clock.sleep_async(3)
            await pause(0.01)
            await clock.sleep_async(4)

        asyncio.run(main(asyncio.sleep))
        assert clock.now() == 7.0
        trio.run(main, trio.sleep)
        assert clock.now() == 14.0

    def test_a_wait_gives_way_to_ready_tasks(self, clock: VirtualClock) -> None:
        """Other tasks run meanwhile, as in a real wait."""

        async def main() -> list[str]:
            seen = ["start"]
            asyncio.get_running_loop().call_soon(seen.append, "other")
            await clock.sleep_async(5)
            seen.append("end")
            return seen

        assert asyncio.run(main()) == ["start", "other", "end"]

    def test_each_run_begins_afresh(self, clock: VirtualClock) -> None:
        """One clock serves several loops, one after the other."""
        for expected in (9.0, 18.0):
            asyncio.run(interleaved(clock, gather_asyncio))
            assert clock.now() == expected

    def test_waits_under_trios_real_clock_end_in_order(self, clock: VirtualClock) -> None:
        """Trio tells when all its tasks are blocked."""
        assert trio.run(interleaved, clock, gather_trio) == INTERLEAVED

    def test_a_cancelled_wait_under_trios_real_clock_ends(self, clock: VirtualClock) -> None:
        """A cancel scope reaches the wait."""

        async def main() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await clock.sleep_async(1000)
            await clock.sleep_async(0)

        trio.run(main)
        assert scope_is_clean(clock)

    def test_no_library_is_an_error(self, clock: VirtualClock) -> None:
        """Outside both there is nothing to wait on."""
        with pytest.raises(RuntimeError, match="asyncio or Trio"):
            clock.sleep_async(1).send(None)
        assert clock.sleeps == []


def scope_is_clean(clock: VirtualClock) -> bool:
    return clock.now() < 1000


class TestTrio:
    def test_trios_mock_clock_and_this_one_show_the_same_time(self, clock: VirtualClock) -> None:
        """Waits are Trio's own, and move both."""

        async def main() -> None:
            clock.now()
            await clock.sleep_async(10)
            await trio.sleep(5)
            assert clock.now() == 15.0
            assert trio.current_time() == 15.0
            with trio.move_on_after(50):
                await clock.sleep_async(1000)
            assert clock.now() == 65.0

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        assert clock.now() == 65.0

    def test_tasks_wait_in_the_order_of_time(self, clock: VirtualClock) -> None:
        """Trio's autojump serves them."""
        mock = trio.testing.MockClock(autojump_threshold=0)
        assert trio.run(interleaved, clock, gather_trio, clock=mock) == INTERLEAVED

    def test_a_blocking_wait_moves_trios_clock(self, clock: VirtualClock) -> None:
        """There is one time, whoever moves it."""

        async def main() -> tuple[float, float]:
            clock.sleep(30)
            clock.advance(12)
            return trio.current_time(), clock.now()

        mock = trio.testing.MockClock()
        assert trio.run(main, clock=mock) == (42.0, 42.0)
        assert clock.sleeps == [30]

    def test_time_that_passed_elsewhere_is_made_up_for(self, clock: VirtualClock) -> None:
        """A worker thread's wait moves the clock, and Trio's follows."""

        async def main() -> tuple[float, float]:
            clock.now()
            await trio.to_thread.run_sync(clock.sleep, 8)
            now = clock.now()
            return now, trio.current_time()

        assert trio.run(main, clock=trio.testing.MockClock()) == (8.0, 8.0)

    def test_a_second_run_goes_on_from_the_first(self, clock: VirtualClock) -> None:
        """Trio's clocks begin at zero each time; this one never goes back."""

        async def main() -> float:
            await clock.sleep_async(10)
            return clock.now()

        for expected in (10.0, 20.0):
            mock = trio.testing.MockClock(autojump_threshold=0)
            assert trio.run(main, clock=mock) == expected

    def test_anyio_on_trio_works(self, clock: VirtualClock) -> None:
        """anyio's own timeouts follow Trio's clock."""

        async def main() -> float:
            clock.now()
            with anyio.move_on_after(20):
                await clock.sleep_async(1000)
            return clock.now()

        mock = trio.testing.MockClock(autojump_threshold=0)
        assert anyio.run(main, backend="trio", backend_options={"clock": mock}) == 20.0
