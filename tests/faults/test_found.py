"""What a campaign has found, each as a test of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.connection import Connection

from relet import AsyncPool, LeaseLost, Pool, UnsupportedServer
from relet.flow import run
from relet.line import Ask
from tests.helpers import eventually, lapse, lease_all, take
from tests.servers import Cluster, Server, Spec

one = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)


@one
def test_a_connection_that_another_thread_gives_up_does_not_end_a_wait(spec: Spec) -> None:
    """One waiter leads and listens for all; another, which cannot give up its place, drops the connection under it."""
    with Server.start(spec) as server, server.client() as client, Pool(client, "p") as pool:
        pool.add("r1")
        lease = take(pool)
        with ThreadPoolExecutor(1) as threads:
            waiter = threads.submit(pool.acquire, 60, 30)
            for _ in range(20):
                eventually(lambda: pool._line._leader is not None and pool.stats().waiting == 1, "somebody to listen")
                pool._line.detach()
            lease.release()
            assert waiter.result(60).resource == "r1"


class Demoting(Connection):
    """Has its server become a replica in the moment in which WAIT is sent."""

    def send_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == "WAIT":
            with closing(redis.Redis(host=self.host, port=self.port)) as operator:
                operator.replicaof("127.0.0.1", 1)  # type: ignore[no-untyped-call]
        return super().send_command(*args, **options)


@one
def test_a_master_that_is_demoted_before_its_replicas_confirm(spec: Spec) -> None:
    """The server's "WAIT cannot be used with replica instances" is no answer to who asked for a lease."""
    with Server.start(spec) as server, server.client() as client:
        Pool(client, "p").add("r1", "r2")
        connections = redis.ConnectionPool(connection_class=Demoting, host="127.0.0.1", port=server.port)
        with closing(redis.Redis.from_pool(connections)) as demoted:
            for ttl in (0.003, 30):  # the time for WAIT is up at once, or there is some left to try again
                pool = Pool(demoted, "p", ttl, min_replicas=1)
                with pytest.raises(UnsupportedServer, match="replica"):
                    pool.try_acquire()
                client.replicaof("NO", "ONE")  # type: ignore[no-untyped-call]


class AsyncLosing(redis.asyncio.RedisCluster):
    """Loses the connection of its first two commands, as redis-py 8.1 does where another task closes it meanwhile."""

    sent = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sent += 1
        if self.sent <= 2:
            raise AttributeError("'NoneType' object has no attribute 'writelines'")
        return await super().execute_command(*args, **options)


class Losing(redis.RedisCluster):
    """The same for threads."""

    sent = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sent += args[0] == "EVALSHA"
        if args[0] == "EVALSHA" and self.sent <= 1:
            raise ValueError("I/O operation on closed file.")
        return super().execute_command(*args, **options)


@pytest.fixture
def cluster(spec: Spec) -> Iterator[Cluster]:
    with Cluster.start(spec, 1) as cluster, closing(cluster.client()) as client:
        Pool(client, "p").add("r1")
        yield cluster


@one
def test_a_connection_that_redis_py_closes_under_a_task_is_a_lost_connection(cluster: Cluster) -> None:
    async def run() -> None:
        async with AsyncLosing(host="127.0.0.1", port=cluster.nodes[0].port) as client:
            pool = AsyncPool(client, "p")
            with pytest.raises(redis.ConnectionError):
                await pool.stats()
            lease = await pool.acquire(60, 30)  # whoever waits goes on asking
            assert lease.resource == "r1"
            await pool.close()

    asyncio.run(run())


@one
def test_a_connection_that_redis_py_closes_under_a_thread_is_a_lost_connection(cluster: Cluster) -> None:
    with closing(Losing(host="127.0.0.1", port=cluster.nodes[0].port)) as client, Pool(client, "p") as pool:
        with pytest.raises(redis.ConnectionError):
            pool.stats()
        assert pool.stats().free == 1


@one
def test_a_request_that_comes_again_after_its_lease_has_lapsed(spec: Spec) -> None:
    """Its token has another lease then, which nobody knows of: a holder of the first must not renew that one."""
    with Server.start(spec) as server, server.client() as client, Pool(client, "p") as pool:
        pool.add("r1")
        lease = take(pool, 0.05)
        lapse(lease)
        again = pool._send(pool._requests.acquire(lease.token, 60_000, b"owner"))
        assert again is not None
        assert again.fence > lease.fence
        with pytest.raises(LeaseLost):
            lease.renew()
        (info,) = pool.resources()
        assert (info.fence, (info.remaining or 0) > 50) == (again.fence, True)
        pool.renew(lease.token, 90)  # who kept only the token means whatever it holds
        (info,) = pool.resources()
        assert (info.remaining or 0) > 60


@one
@pytest.mark.parametrize(("timeout", "robbed"), [(0, "r2"), (30, "r1"), (30, "r2")])
def test_all_or_none_though_an_operator_takes_one_before_the_answer(spec: Spec, timeout: float, robbed: str) -> None:
    """The answer is lost, the request sent again: then it is told of those that are left."""
    with Server.start(spec) as server, server.client() as client, Pool(client, "p") as pool:
        pool.add("r1", "r2")
        asked: list[object] = []

        def act(effect: Any) -> Any:
            answer = pool._act(effect)
            request = effect.request if isinstance(effect, Ask) else effect
            if not asked and isinstance(answer, list):
                asked.append(request)
                pool.release(resource=robbed, force=True)
                answer = pool._act(effect)
            return answer

        leases = run(pool._acquire_many(2, 60, timeout, None), act)
        assert len(asked) == 1
        assert sorted(lease.resource for lease in leases) == ["r1", "r2"]
        pool.release_many(leases)
        assert pool.stats().free == 2
        pool.release_many(lease_all(pool, 2))
