"""Servers in trouble: memory full, memory full with eviction, data that cannot be saved. What each call does is the
table in gears/README.md; that the doctor warns of each is shown here, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from relet import Lease, Pool, PoolDamaged, PoolExhausted
from relet.doctor import diagnose
from tests.doctor.pools import examined, mended
from tests.helpers import eventually, lapse, lease_all, missing, names, take
from tests.servers import Server, Unavailable

WHICH = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-9.1")


@contextmanager
def started(name: str, **settings: str) -> Iterator[tuple[Server, redis.Redis, Pool]]:
    """A server of the test's own, and a pool of 10 on it."""
    try:
        server = Server.start(name, **settings)
    except Unavailable as reason:
        missing(str(reason))
    with server, server.client() as client, Pool(client, "p") as pool:
        pool.add(names(10))
        yield server, client, pool


def found(client: redis.Redis, level: str) -> str:
    """What the doctor says at a level."""
    return "\n".join(f"{one.where}: {one.what}; {one.why}" for one in diagnose(client, ["p"]) if one.level == level)


def refused(call: Callable[[], object], word: str) -> None:
    with pytest.raises(redis.ResponseError, match=word):
        call()


@pytest.mark.parametrize("name", WHICH)
def test_full_memory(name: str) -> None:
    with started(name) as (_, client, pool):
        leases = lease_all(pool, 4)
        lapse(take(pool, 0.05))
        assert "memory" not in found(client, "error")
        client.config_set("maxmemory", 1)
        assert "memory is full" in found(client, "error")
        assert pool.reclaim() == 1, "its first write frees memory, and what has begun may go on"
        lease = take(pool)
        lease.release()
        word = "OOM|maxmemory"
        leases[0].renew(60)
        refused(lambda: pool.add("new"), word)
        lease_all(pool, 6)
        assert pool.try_acquire() is None
        client.config_set("maxmemory", 0)
        assert examined(pool) == []
        for one in leases:
            one.release()


@pytest.mark.parametrize("name", WHICH)
def test_a_full_memory_takes_a_waiter_but_none_for_several(name: str) -> None:
    with started(name) as (_, client, pool):
        lease_all(pool, 10)
        client.config_set("maxmemory", 1)
        with pytest.raises(PoolExhausted):
            pool.acquire(timeout=0.1)
        pool.stats()
        refused(lambda: pool.acquire_many(2, timeout=5), "OOM|maxmemory")
        client.config_set("maxmemory", 0)
        assert pool.stats().waiting == 0
        assert examined(pool) == []


def test_memory_that_is_nearly_full() -> None:
    with started("valkey-9.1") as (_, client, _pool):
        used = int(client.info("memory")["used_memory"])  # type: ignore[index]
        client.config_set("maxmemory", used + used // 20)
        assert "nearly full" in found(client, "warn")
        client.config_set("maxmemory", used * 10)
        assert "memory" not in found(client, "warn")
        client.config_set("maxmemory-policy", "volatile-ttl")
        assert "volatile-ttl" in found(client, "warn")
        assert "memory" not in found(client, "error")


@pytest.mark.parametrize("name", WHICH)
def test_data_that_cannot_be_saved(name: str) -> None:
    """As in a read-only data directory, which does not hinder root: the snapshot's name is taken by a folder."""
    with started(name, save="3600 1") as (server, client, pool):
        leases = lease_all(pool, 2)
        lapse(take(pool, 0.05))
        assert "failed" not in found(client, "error")
        blocker = server.directory / "dump.rdb" / "in the way"
        blocker.parent.mkdir()
        blocker.touch()
        client.bgsave()

        def status() -> object:
            return client.info("persistence")["rdb_last_bgsave_status"]  # type: ignore[index]

        eventually(lambda: status() != "ok", "the snapshot to fail")
        assert "snapshot failed" in found(client, "error")
        for call in (pool.try_acquire, pool.reclaim, leases[0].renew, leases[0].release, lambda: pool.add("new")):
            refused(call, "MISCONF")
        assert pool.stats().free == 8, "reading goes on; the lapsed one counts as free"
        blocker.unlink()
        blocker.parent.rmdir()
        client.bgsave()
        eventually(lambda: status() == "ok", "the snapshot to be written")
        for lease in leases:
            lease.release()
        assert examined(pool) == []


@pytest.mark.parametrize("name", WHICH)
def test_eviction(name: str) -> None:
    """allkeys-lru on a full server: keys of the pool go. No call grants what is leased; what is left is mended."""
    with started(name) as (_, client, pool):
        held = {lease.resource for lease in lease_all(pool, 4)}
        assert "allkeys" not in found(client, "error")
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", 512 << 20)
        assert "allkeys-lru" in found(client, "error")
        damaged = False
        while not damaged and (size := client.dbsize()):
            used = int(client.info("memory")["used_memory"])  # type: ignore[index]
            for less in range(0, used, 256):
                client.config_set("maxmemory", used - less)
                if client.dbsize() != size:
                    break
            client.config_set("maxmemory", 0)
            damaged = told(pool, held)
        client.config_set("maxmemory-policy", "noeviction")
        assert damaged, "eviction took no key that shows"
        if client.dbsize():
            mended(pool)
            assert examined(pool) == []
            granted = {lease.resource for lease in iter(pool.try_acquire, None) if lease}
            assert not granted & held, "granted twice"


def told(pool: Pool, held: set[str]) -> bool:
    """Whether an acquire says that the pool is damaged. What it grants is remembered as held."""
    try:
        lease = pool.try_acquire(60)
    except PoolDamaged:
        return True
    if isinstance(lease, Lease):
        assert lease.resource not in held, "granted twice"
        held.add(lease.resource)
    return False
