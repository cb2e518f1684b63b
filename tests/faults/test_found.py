"""What a campaign has found, each as a test of its own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.connection import Connection

from relet import AsyncPool, Pool, UnsupportedServer
from tests.helpers import eventually, take
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
        Pool(client, "p").add("r1")
        connections = redis.ConnectionPool(connection_class=Demoting, host="127.0.0.1", port=server.port)
        with closing(redis.Redis.from_pool(connections)) as demoted, pytest.raises(UnsupportedServer, match="replica"):
            Pool(demoted, "p", min_replicas=1).try_acquire()


class Losing(redis.asyncio.RedisCluster):
    """Loses the connection of its first two commands, as redis-py 8.1 does where another task closes it meanwhile."""

    sent = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sent += 1
        if self.sent <= 2:
            raise AttributeError("'NoneType' object has no attribute 'writelines'")
        return await super().execute_command(*args, **options)


@one
def test_a_connection_that_redis_py_loses_while_it_opens_it_is_a_lost_connection(spec: Spec) -> None:
    async def run(cluster: Cluster) -> None:
        async with Losing(host="127.0.0.1", port=cluster.nodes[0].port) as client:
            pool = AsyncPool(client, "p")
            with pytest.raises(redis.ConnectionError):
                await pool.stats()
            lease = await pool.acquire(60, 30)  # whoever waits goes on asking
            assert lease.resource == "r1"
            await pool.close()

    with Cluster.start(spec, 1) as cluster:
        with closing(cluster.client()) as client:
            Pool(client, "p").add("r1")
        asyncio.run(run(cluster))
