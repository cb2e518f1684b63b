"""The functions in RedisGears 2 over restarts, flushes and failovers."""

from __future__ import annotations

from contextlib import closing

import pytest
import redis

from relet import Pool, ReletError, deploy, deployed, undeploy
from tests.command import relet
from tests.engines.gears2 import Start, client, pool, shared, start
from tests.helpers import Raw, eventually, keys_left, take

__all__ = ["client", "pool", "shared", "start"]  # fixtures


@pytest.mark.parametrize("how", ["append-only file", "snapshot"])
def test_it_goes_on_after_a_restart(start: Start, how: str) -> None:
    server = start(appendonly="yes" if how == "append-only file" else "no")
    with closing(server.client()) as client:
        before = deploy(client)
        pool = Pool(client, "gpu")
        raw = Raw(client, pool)
        pool.add("r1", "r2")
        take(pool, ttl=0.05)
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the first reclaim")
        server.restart(save=how == "snapshot")
        after = deployed(client)
        assert after is not None
        assert after.hash == before.hash
        assert set(raw.free()) == {"r1", "r2"}, "what the trigger wrote was kept"
        assert client.hget(raw.root, "lapsed") == b"1"
        take(pool, ttl=0.05)
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the second reclaim")
        pool.destroy()
        assert not keys_left(client)
    server.stop()


def test_a_server_that_forgot_the_functions(start: Start) -> None:
    """A restart without any persistence: `relet status` tells, and `deploy` brings them back."""
    server = start()
    last_line = "no function is deployed for this namespace: lapsed leases come back at the next call (relet deploy)"
    with closing(server.client()) as client:
        deploy(client)
        assert last_line not in relet("--url", server.url, "status").out
        server.restart()
        assert deployed(client) is None
        pool = Pool(client, "gpu")
        pool.add("r")
        for words in (["status"], ["status", "gpu"]):
            assert relet("--url", server.url, *words).out.splitlines()[-1] == last_line
            assert last_line not in relet("--url", server.url, "--json", *words).out
        assert last_line not in relet("--url", server.url.replace("/0", "/1"), "status").out
        assert relet("--url", server.url, "deploy").code == 0
        assert last_line not in relet("--url", server.url, "status").out
        take(pool, ttl=0.05)
        eventually(lambda: set(Raw(client, pool).free()) == {"r"}, "the reclaim")
        pool.destroy()
    server.stop()


@pytest.mark.parametrize("command", [["FLUSHALL", "SYNC"], ["FLUSHALL", "ASYNC"], ["FLUSHDB"]])
def test_flushing_keeps_the_functions(client: redis.Redis, pool: Pool, command: list[str]) -> None:
    """So it was seen of RedisGears 2.0.20. A version that drops them fails here; `deployed` then says so."""
    deploy(client)
    pool.add("r")
    client.execute_command(*command)
    assert deployed(client) is not None
    pool.add("r")
    take(pool, ttl=0.05)
    eventually(lambda: set(Raw(client, pool).free()) == {"r"}, "the reclaim")


def test_a_replica_gets_it_all_and_takes_over(start: Start) -> None:
    master = start()
    with closing(master.client()) as client:
        deploy(client)
        pool = Pool(client, "gpu")
        pool.add("r1", "r2")
        take(pool, ttl=0.05)
        eventually(lambda: len(Raw(client, pool).free()) == 2, "the reclaim")
        replica = start(master)
        with closing(replica.client()) as copy:
            there = Raw(copy, pool)
            take(pool, ttl=0.3)
            eventually(lambda: copy.hget(there.root, "lapsed") == b"2", "the reclaim on the replica")
            assert set(there.free()) == {"r1", "r2"}
            for refused in (deploy, undeploy):
                with pytest.raises(ReletError, match="this server is a replica"):
                    refused(copy)
            running = deployed(copy)
            assert running is not None
            assert running.current
            take(pool, ttl=0.3)
            replica.wait_in_sync(master)
            master.stop()
            copy.replicaof("NO", "ONE")
            eventually(lambda: set(there.free()) == {"r1", "r2"}, "the reclaim after the failover")
            assert copy.hget(there.root, "lapsed") == b"3"
            replica.stop()
