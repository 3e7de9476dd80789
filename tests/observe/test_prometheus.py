"""The metrics that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import prometheus_client
import pytest
import trio
import trio.testing
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from retrykit import Constant, OnResult, RatioBudget, RetryPolicy, RetryReason, ServerDelay
from retrykit.budget import PerKey
from retrykit.decision import StopReason
from retrykit.events import CallGaveUp, CallSucceeded, RetryScheduled
from retrykit.observe.prometheus import PrometheusListener
from retrykit.outcome import Raised
from retrykit.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hunter2"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def listener(registry: CollectorRegistry) -> PrometheusListener:
    return PrometheusListener(registry=registry)


def policy(listener: PrometheusListener, **fields: Any) -> RetryPolicy:
    """Three attempts, half a second apart, in virtual time."""
    settings: dict[str, Any] = {
        "attempts": 3,
        "backoff": Constant(0.5),
        "clock": VirtualClock(),
        "listeners": (listener,),
        **fields,
    }
    return RetryPolicy.on(OSError, **settings)


def failing(times: int, error: type[Exception] = ConnectionError) -> Callable[..., str]:
    """A function that fails so many times before it succeeds."""
    left = [times]

    def fetch(*args: object, **kwargs: object) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error(SECRET)
        return SECRET

    fetch.__qualname__ = "fetch"
    return fetch


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name: label values in the order of the label names, and the number."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def strict(registry: CollectorRegistry) -> str:
    """The registry in the OpenMetrics text format."""
    text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # the client's
    return text.decode()


def fails(policy: RetryPolicy, function: Callable[..., object]) -> None:
    """The call ends with the function's own error."""
    with pytest.raises((ConnectionError, KeyError)):
        policy.call(function)


class TestCalls:
    """`retrykit_calls_total`, by what the call came to."""

    @pytest.mark.parametrize(
        ("failures", "result"), [(0, "first_try"), (1, "after_retry"), (2, "after_retry")]
    )
    def test_a_success_is_told_apart_by_its_retries(
        self, registry: CollectorRegistry, listener: PrometheusListener, failures: int, result: str
    ) -> None:
        """A success at the first try is not the same as one that a retry saved."""
        policy(listener).call(failing(failures))
        assert samples(registry, "retrykit_calls_total") == {("fetch", "", result): 1.0}

    @pytest.mark.parametrize(
        ("function", "attempts", "result"),
        [
            (failing(9), 3, "failed_after_retries"),
            (failing(9), 1, "failed_without_retry"),
            (failing(9, KeyError), 3, "failed_without_retry"),
        ],
        ids=["exhausted", "one attempt", "not retryable"],
    )
    def test_a_failure_is_told_apart_by_its_retries(
        self,
        registry: CollectorRegistry,
        listener: PrometheusListener,
        function: Callable[..., str],
        attempts: int,
        result: str,
    ) -> None:
        """What failed at once and what failed in spite of retries are two things."""
        fails(policy(listener, attempts=attempts), function)
        assert samples(registry, "retrykit_calls_total") == {("fetch", "", result): 1.0}

    def test_a_final_error_after_a_retry_failed_after_retries(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """The classifier's no after a retry is a failure after retries."""
        errors = iter([ConnectionError(), KeyError()])

        def fetch() -> None:
            raise next(errors)

        fails(policy(listener), fetch)
        assert list(samples(registry, "retrykit_calls_total").values()) == [1.0]
        ((_, _, result),) = samples(registry, "retrykit_calls_total")
        assert result == "failed_after_retries"
        assert samples(registry, "retrykit_give_ups_total") == {}

    def test_a_cancelled_call_is_neither(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """A call that is cancelled in its wait has a result of its own."""
        slow = policy(listener, clock=RetryPolicy().clock, backoff=Constant(60))

        async def fetch() -> None:
            raise ConnectionError

        async def main() -> None:
            task = asyncio.ensure_future(slow.acall(fetch))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(main())
        ((_, _, result),) = samples(registry, "retrykit_calls_total")
        assert result == "cancelled"

    def test_the_policys_name_is_a_label(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Two policies are told apart by their names."""
        policy(listener, name="github").call(failing(0))
        assert samples(registry, "retrykit_calls_total") == {("fetch", "github", "first_try"): 1.0}


class TestRetries:
    """`retrykit_retries_total`, `retrykit_retry_delay_seconds`, `retrykit_give_ups_total`."""

    def test_retries_are_counted_by_reason(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Each scheduled retry counts once under its reason."""
        polling = RetryPolicy(
            classify=OnResult(lambda value: value < 3),
            backoff=Constant(0.5),
            clock=VirtualClock(),
            listeners=(listener,),
        )
        values = iter([1, 2, 3])
        assert polling.call(lambda: next(values)) == 3
        counted = samples(registry, "retrykit_retries_total")
        assert {labels[-1]: value for labels, value in counted.items()} == {"unsatisfactory": 2.0}

    def test_the_delay_is_a_histogram_in_seconds(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Two waits of half a second: a count, a sum, and the bucket they fall into."""
        policy(listener).call(failing(2))
        assert samples(registry, "retrykit_retry_delay_seconds_count") == {("fetch", ""): 2.0}
        assert samples(registry, "retrykit_retry_delay_seconds_sum") == {("fetch", ""): 1.0}
        buckets = samples(registry, "retrykit_retry_delay_seconds_bucket")
        counts = {labels[1]: value for labels, value in buckets.items()}
        assert counts["0.25"] == 0.0
        assert counts["0.5"] == counts["+Inf"] == 2.0

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"attempts": 2}, "attempts_exhausted"),
            ({"limits": {RetryReason.TRANSIENT: 1}}, "reason_exhausted"),
            ({"deadline": 0.75}, "deadline_exceeded"),
            ({"backoff": [0.5]}, "backoff_exhausted"),
            ({"stop_when": lambda: True}, "stopped"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_give_ups_are_counted_by_stop_reason(
        self,
        registry: CollectorRegistry,
        listener: PrometheusListener,
        fields: dict[str, Any],
        reason: str,
    ) -> None:
        """Which limit refused the retry."""
        fails(policy(listener, **fields), failing(9))
        assert samples(registry, "retrykit_give_ups_total") == {("fetch", "", reason): 1.0}

    def test_a_failure_that_nobody_retried_is_no_give_up(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Only a limit gives up."""
        fails(policy(listener), failing(9, KeyError))
        assert samples(registry, "retrykit_give_ups_total") == {}


class TestAsync:
    """The same from async code, and from many calls at once."""

    def test_asyncio(self, registry: CollectorRegistry, listener: PrometheusListener) -> None:
        """Twenty concurrent calls on asyncio are twenty calls and forty retries."""

        def flaky() -> Callable[..., Any]:
            plain = failing(2)

            async def fetch() -> str:
                await asyncio.sleep(0)
                return plain()

            return fetch

        async def main() -> None:
            await asyncio.gather(*(quick.acall(flaky()) for _ in range(20)))

        quick = policy(listener)
        asyncio.run(main())
        assert sum(samples(registry, "retrykit_calls_total").values()) == 20
        assert sum(samples(registry, "retrykit_retries_total").values()) == 40

    def test_trio(self, registry: CollectorRegistry, listener: PrometheusListener) -> None:
        """The same on Trio."""

        async def fetch() -> str:
            await trio.lowlevel.checkpoint()
            return plain()

        plain = failing(1)
        trio.run(policy(listener).acall, fetch, clock=trio.testing.MockClock(autojump_threshold=0))
        ((_, _, result),) = samples(registry, "retrykit_calls_total")
        assert result == "after_retry"

    def test_threads(self, registry: CollectorRegistry, listener: PrometheusListener) -> None:
        """No count is lost between threads, the first of a label value included."""
        event = CallSucceeded(None, "fetch", 1, 0, 0.1, 0.1)

        def count() -> None:
            for _ in range(500):
                listener(event)

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert samples(registry, "retrykit_calls_total") == {("fetch", "", "first_try"): 4000.0}


class TestLabels:
    """Label sets are bounded: nothing that a program makes up fills the store."""

    def test_names_past_the_limit_are_other(self, registry: CollectorRegistry) -> None:
        """The first names keep their own series, all later ones share one."""
        listener = PrometheusListener(registry=registry, max_values=2)
        for name in ("a", "b", "c", "d", "a"):
            listener(CallSucceeded(None, name, 1, 0, 0.1, 0.1))
        assert samples(registry, "retrykit_calls_total") == {
            ("a", "", "first_try"): 2.0,
            ("b", "", "first_try"): 1.0,
            ("other", "", "first_try"): 2.0,
        }

    def test_policy_names_are_bounded_too(self, registry: CollectorRegistry) -> None:
        """A policy made and named for each user does not make a series for each."""
        listener = PrometheusListener(registry=registry, max_values=3)
        for number in range(50):
            listener(CallSucceeded(f"user-{number}", "fetch", 1, 0, 0.1, 0.1))
        assert len(samples(registry, "retrykit_calls_total")) == 4

    def test_the_limit_holds_between_threads(self, registry: CollectorRegistry) -> None:
        """Threads that meet at the limit do not pass it."""
        listener = PrometheusListener(registry=registry, max_values=10)
        start = threading.Barrier(8)

        def names(thread: int) -> None:
            start.wait()
            for number in range(100):
                listener(CallSucceeded(None, f"{thread}-{number}", 1, 0, 0.1, 0.1))

        threads = [threading.Thread(target=names, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        calls = samples(registry, "retrykit_calls_total")
        assert len(calls) <= 11
        assert sum(calls.values()) == 800

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ((), {("first_try",): 1.0}),
            (("policy",), {("github", "first_try"): 1.0}),
            (("function",), {("fetch", "first_try"): 1.0}),
            (("policy", "function"), {("fetch", "github", "first_try"): 1.0}),
            (["function", "policy"], {("fetch", "github", "first_try"): 1.0}),
        ],
    )
    def test_labels_can_be_left_out(
        self, registry: CollectorRegistry, labels: Any, expected: dict[tuple[str, ...], float]
    ) -> None:
        """Whoever has many functions counts by policy only, or by neither."""
        listener = PrometheusListener(registry=registry, labels=labels)
        policy(listener, name="github").call(failing(0))
        assert samples(registry, "retrykit_calls_total") == expected

    def test_without_labels_the_delay_is_counted_too(self, registry: CollectorRegistry) -> None:
        """A histogram that has no labels at all is another kind of object to the client."""
        policy(PrometheusListener(registry=registry, labels=())).call(failing(2))
        assert samples(registry, "retrykit_retry_delay_seconds_count") == {(): 2.0}


class TestBudgets:
    """`retrykit_budget_balance`, by the name that each budget was given here."""

    def test_the_balance_is_that_of_the_scrape(self, registry: CollectorRegistry) -> None:
        """The gauge follows every retry and every success, without a listener's help."""
        budget = RatioBudget(ratio=0.5, reserve=10)
        listener = PrometheusListener(registry=registry, budgets={"github": budget})
        assert samples(registry, "retrykit_budget_balance") == {("github",): 10.0}
        RetryPolicy.on(OSError, budget=budget, clock=VirtualClock(), listeners=()).call(failing(2))
        assert samples(registry, "retrykit_budget_balance") == {("github",): 8.5}
        assert listener.budgets == {"github": budget}

    def test_a_budget_per_key_tells_its_lowest(self, registry: CollectorRegistry) -> None:
        """A gauge has no key to ask with."""
        budget = PerKey(lambda call: call.name, RatioBudget(reserve=10))
        PrometheusListener(registry=registry, budgets={"hosts": budget})
        assert samples(registry, "retrykit_budget_balance") == {("hosts",): 10.0}

    def test_a_budget_that_raises_does_not_cost_the_scrape(
        self, registry: CollectorRegistry
    ) -> None:
        """Its balance is NaN, and everything else is there."""

        class Broken:
            def withdraw(self, call: object, reason: object, /) -> None: ...

            def settle(self, call: object, /, **_: object) -> None: ...

            def balance(self, call: object = None, /) -> float:
                raise RuntimeError(SECRET)

        listener = PrometheusListener(registry=registry, budgets={"mine": Broken()})
        listener(CallSucceeded(None, "fetch", 1, 0, 0.1, 0.1))
        text = generate_latest(registry).decode()
        assert 'retrykit_budget_balance{budget="mine"} NaN' in text
        assert "retrykit_calls_total{" in text

    def test_a_name_stands_for_one_budget(self, registry: CollectorRegistry) -> None:
        """Two budgets under one name would hide one of them."""
        budget = RatioBudget()
        PrometheusListener(registry=registry, budgets={"github": budget})
        PrometheusListener(registry=registry, budgets={"github": budget})
        with pytest.raises(ValueError, match="another budget is reported as 'github'"):
            PrometheusListener(registry=registry, budgets={"github": RatioBudget()})


class TestRegistry:
    """Several listeners, several registries."""

    def test_listeners_on_one_registry_share_the_metrics(self, registry: CollectorRegistry) -> None:
        """A listener for each policy is as good as one for all."""
        for _ in range(2):
            PrometheusListener(registry=registry)(CallSucceeded(None, "fetch", 1, 0, 0.1, 0.1))
        assert samples(registry, "retrykit_calls_total") == {("fetch", "", "first_try"): 2.0}

    @pytest.mark.parametrize(
        "other", [{"labels": ("policy",)}, {"max_values": 7}, {"buckets": (1, 2)}], ids=str
    )
    def test_other_settings_on_one_registry_are_refused(
        self, registry: CollectorRegistry, other: dict[str, Any]
    ) -> None:
        """A metric has one set of labels and one set of buckets."""
        PrometheusListener(registry=registry)
        with pytest.raises(
            ValueError, match=r"namespace 'retrykit' has metrics with other settings"
        ):
            PrometheusListener(registry=registry, **other)

    def test_other_namespaces_on_one_registry_are_apart(self, registry: CollectorRegistry) -> None:
        """Another namespace is another set of metrics, with settings of its own."""
        PrometheusListener(registry=registry)
        other = PrometheusListener(registry=registry, namespace="billing", labels=())
        other(CallSucceeded(None, "fetch", 1, 0, 0.1, 0.1))
        assert samples(registry, "billing_calls_total") == {("first_try",): 1.0}
        assert samples(registry, "retrykit_calls_total") == {}

    def test_a_name_that_is_taken_is_a_clear_error_and_leaves_nothing(
        self, registry: CollectorRegistry
    ) -> None:
        """Somebody else's metric of the same name is named, and no half set stays registered."""
        Counter("retrykit_give_ups", "Somebody else's.", registry=registry)
        with pytest.raises(ValueError, match=r"namespace 'retrykit' is not free .*give_ups"):
            PrometheusListener(registry=registry)
        assert [family.name for family in registry.collect()] == ["retrykit_give_ups"]
        PrometheusListener(registry=registry, namespace="mine")

    def test_a_registry_is_let_go(self) -> None:
        """A registry made for one test does not live on in the library."""
        import gc
        import weakref

        registry = CollectorRegistry()
        listener = PrometheusListener(registry=registry)
        gone = weakref.ref(registry)
        del registry, listener
        gc.collect()
        assert gone() is None


class TestConventions:
    """What promtool would look at."""

    def test_names_types_units_and_help(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Counters end in `_total`, seconds are said, and everything has a help text."""
        fails(policy(listener), failing(9))
        text = generate_latest(registry).decode()
        types = {family.name: family.type for family in parse(text)}
        assert {name: kind for name, kind in types.items() if not name.endswith("_created")} == {
            "retrykit_calls": "counter",
            "retrykit_retries": "counter",
            "retrykit_retry_delay_seconds": "histogram",
            "retrykit_give_ups": "counter",
            "retrykit_budget_balance": "gauge",
        }
        for line in text.splitlines():
            if line.startswith("# HELP"):
                assert line.endswith(".")

    def test_openmetrics(self, registry: CollectorRegistry, listener: PrometheusListener) -> None:
        """The strict parser of the OpenMetrics text format takes it, unit included."""
        fails(policy(listener), failing(9))
        units = {
            family.name: family.unit
            for family in parse_openmetrics(strict(registry))  # type: ignore[no-untyped-call]  # the client's
        }
        assert units["retrykit_retry_delay_seconds"] == "seconds"
        assert units["retrykit_calls"] == ""

    def test_it_is_scraped_over_http(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """The whole way: a policy, a server, a scrape."""
        fails(policy(listener, name="github"), failing(9))
        server, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
        try:
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        labels = 'function="fetch",policy="github"'
        assert f'retrykit_calls_total{{{labels},result="failed_after_retries"}} 1.0' in lines
        assert f'retrykit_retries_total{{{labels},reason="transient"}} 2.0' in lines
        assert f'retrykit_give_ups_total{{{labels},reason="attempts_exhausted"}} 1.0' in lines
        assert f"retrykit_retry_delay_seconds_sum{{{labels}}} 1.0" in lines

    def test_no_secret_is_scraped(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """Neither arguments nor values nor error texts are in any label."""
        quick = policy(listener)
        quick.call(failing(1), SECRET, url=f"https://u:{SECRET}@h/?token={SECRET}")
        with pytest.raises(ConnectionError):
            quick.call(failing(9), SECRET)
        assert SECRET not in generate_latest(registry).decode()
        assert SECRET not in strict(registry)


WORKER = """
import sys
from retrykit import Constant, RatioBudget, RetryPolicy
from retrykit.observe.prometheus import PrometheusListener
from retrykit.testing import VirtualClock

budget = RatioBudget(ratio=0.5, reserve=10)
policy = RetryPolicy.on(
    OSError, attempts=3, backoff=Constant(0.5), clock=VirtualClock(), budget=budget,
    listeners=(PrometheusListener(budgets={"github": budget}),), name="github",
)
failures = int(sys.argv[1])

def fetch():
    global failures
    failures -= 1
    if failures >= 0:
        raise OSError

policy.call(fetch)
print("ready", flush=True)
sys.stdin.read()
"""

SCRAPE = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


class TestMultiprocess:
    """`PROMETHEUS_MULTIPROC_DIR`: one scrape for all the workers of a server."""

    def test_the_workers_are_added_up(self, tmp_path: Any) -> None:
        """Counts are sums over the workers, a balance is that of the lowest of them."""
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(failures)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for failures in (1, 2)
        ]
        try:
            for worker in workers:
                assert worker.stdout is not None
                assert worker.stdout.readline() == "ready\n"
            scrape = subprocess.run(
                [sys.executable, "-c", SCRAPE],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
        finally:
            for worker in workers:
                worker.communicate(timeout=60)
        lines = scrape.stdout.splitlines()
        labels = 'function="fetch",policy="github"'
        assert f'retrykit_calls_total{{{labels},result="after_retry"}} 2.0' in lines
        assert f'retrykit_retries_total{{{labels},reason="transient"}} 3.0' in lines
        assert f"retrykit_retry_delay_seconds_count{{{labels}}} 3.0" in lines
        assert 'retrykit_budget_balance{budget="github"} 8.5' in lines


class TestSettings:
    """What the listener refuses, and that it is a value."""

    @pytest.mark.parametrize(
        ("fields", "error", "text"),
        [
            ({"registry": None}, TypeError, "registry must be a CollectorRegistry, got None"),
            (
                {"registry": CollectorRegistry},
                TypeError,
                "registry must be a CollectorRegistry, got <class",
            ),
            ({"namespace": 7}, TypeError, "namespace must be a string, got 7"),
            ({"namespace": "my-app"}, ValueError, "namespace must be letters, digits"),
            ({"namespace": ""}, ValueError, "namespace must be letters, digits"),
            ({"labels": "policy"}, TypeError, "labels must be a tuple of names, got 'policy'"),
            (
                {"labels": ("url",)},
                ValueError,
                "labels may hold 'policy' and 'function', got 'url'",
            ),
            ({"max_values": 0}, ValueError, "max_values must be at least 1, got 0"),
            ({"max_values": True}, TypeError, "max_values must be a whole number, got True"),
            ({"buckets": 5}, TypeError, "buckets must be a tuple of seconds, got 5"),
            ({"buckets": ()}, ValueError, "buckets must be one or more rising bounds"),
            ({"buckets": (2, 1)}, ValueError, "buckets must be one or more rising bounds"),
            ({"buckets": (1, 1)}, ValueError, "buckets must be one or more rising bounds"),
            ({"buckets": (1, float("nan"))}, ValueError, "buckets must be finite, got nan"),
            ({"buckets": (0, 1)}, ValueError, "buckets must be above 0, got 0"),
            ({"budgets": [RatioBudget()]}, TypeError, "budgets must be a mapping of names"),
            ({"budgets": {7: RatioBudget()}}, TypeError, "budgets must have names for keys, got 7"),
            (
                {"budgets": {"a": RatioBudget}},
                TypeError,
                r"budgets\['a'\] must be an instance, got the class RatioBudget",
            ),
            ({"budgets": {"a": 5}}, TypeError, r"budgets\['a'\] must be a budget, got 5"),
        ],
        ids=str,
    )
    def test_bad_settings_are_refused(
        self, fields: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        """Each names the field and the value, and nothing is registered."""
        registry = CollectorRegistry()
        with pytest.raises(error, match=text):
            PrometheusListener(**{"registry": registry, **fields})
        assert list(registry.collect()) == []

    def test_a_last_infinite_bucket_is_the_one_there_is_anyway(
        self, registry: CollectorRegistry
    ) -> None:
        """`prometheus_client` lists it, so its lists can be handed over."""
        listener = PrometheusListener(registry=registry, buckets=(1, 2.5, float("inf")))
        assert listener.buckets == (1.0, 2.5)

    def test_it_compares_and_hashes_by_its_settings(self, registry: CollectorRegistry) -> None:
        """Two listeners that do the same are equal."""
        one, two = (PrometheusListener(registry=registry) for _ in range(2))
        assert one == two
        assert hash(one) == hash(two)
        assert one != PrometheusListener(registry=registry, namespace="other")

    def test_the_default_prints_without_settings(self) -> None:
        """The repr of the default, and of a named one, can be evaluated."""
        listener = PrometheusListener(namespace="test_repr", max_values=7)
        assert repr(listener) == "PrometheusListener(namespace='test_repr', max_values=7)"
        assert eval(repr(listener)) == listener

    def test_it_pickles_and_copies(self) -> None:
        """A policy that goes to another process finds that process's registry there."""
        budget = RatioBudget()
        listener = PrometheusListener(namespace="test_pickle", budgets={"github": budget})
        copied = pickle.loads(pickle.dumps(listener))
        assert copied == listener
        assert copied.registry is REGISTRY
        assert copy.deepcopy(listener) is copy.copy(listener) is listener
        whole = RetryPolicy(listeners=(listener,), budget=budget)
        assert pickle.loads(pickle.dumps(whole)) == whole

    def test_the_original_budget_stays_the_one_reported(self) -> None:
        """Unpickling a copy in the same process does not put a full budget in its place."""
        budget = RatioBudget(reserve=10)
        listener = PrometheusListener(namespace="test_original", budgets={"github": budget})
        pickle.loads(pickle.dumps(listener))
        RetryPolicy.on(OSError, budget=budget, clock=VirtualClock(), listeners=()).call(failing(2))
        labels = {"budget": "github"}
        assert REGISTRY.get_sample_value("test_original_budget_balance", labels) == 8.5

    def test_it_asks_for_what_it_counts(self, listener: PrometheusListener) -> None:
        """Attempts that nobody counts are not built as events."""
        assert listener.kinds >= {RetryScheduled, CallSucceeded, CallGaveUp}
        assert len(listener.kinds) == 5

    def test_events_built_by_hand(
        self, registry: CollectorRegistry, listener: PrometheusListener
    ) -> None:
        """A listener is a plain function of an event."""
        outcome = Raised(OSError())
        scheduled = ("backoff", RetryReason.THROTTLED, "OSError", outcome)
        listener(RetryScheduled("p", "f", 1, 0, 0.5, 2.0, *scheduled))
        gave_up = (StopReason.SERVER_DELAY_TOO_LONG, "OSError", outcome, ())
        listener(CallGaveUp("p", "f", 2, 0, 3.0, *gave_up))
        assert samples(registry, "retrykit_retries_total") == {("f", "p", "throttled"): 1.0}
        assert samples(registry, "retrykit_give_ups_total") == {
            ("f", "p", "server_delay_too_long"): 1.0
        }


def test_a_servers_delay_is_counted_as_it_is_slept(
    registry: CollectorRegistry, listener: PrometheusListener
) -> None:
    """The histogram holds the waits that are made, whoever asked for them."""

    class Throttled(OSError):
        retry_after = 7.0

    from retrykit import OnException

    clock = VirtualClock()
    patient = policy(listener, clock=clock, server_delay=ServerDelay(spread=0)).replace(
        classify=OnException(Throttled, after=lambda error: error.retry_after)
    )
    patient.call(failing(1, Throttled))
    assert clock.sleeps == [7.0]
    assert samples(registry, "retrykit_retry_delay_seconds_sum") == {("fetch", ""): 7.0}
