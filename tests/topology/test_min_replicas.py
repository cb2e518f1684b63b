"""With min_replicas a lease is granted once replicas have it; else it is given back and the caller told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from relet import NotReplicated, Pool, ReletError
from relet.client import close, close_async, connect, connect_async
from relet.clock import monotonic
from tests.helpers import Raw, unique
from tests.servers import Cluster, Server, Spec
from tests.topology.sentinels import Sentinels
from tests.waiting.drivers import DRIVERS, Driven, World

COPIER = "copier"
"""The user as whom a replica asks its master."""

servers = pytest.mark.parametrize("spec", ["redis-6.2", "valkey-9.1"], indirect=True)


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pair(spec: Spec) -> Iterator[tuple[Server, Server]]:
    """A master and its replica."""
    with Server.start(spec) as master, Server.start_replica_of(master) as replica:
        yield master, replica


Acquire = Callable[[Driven], Any]
ACQUIRES: dict[str, Acquire] = {
    "try": lambda pool: pool.try_acquire(ttl=60),
    "acquire": lambda pool: pool.acquire(ttl=60),
    "many at once": lambda pool: pool.acquire_many(2, ttl=60, timeout=0),
    "many": lambda pool: pool.acquire_many(2, ttl=60),
}


@servers
@pytest.mark.parametrize("way", ACQUIRES)
def test_what_is_granted_is_on_the_replica(way: str, driver: str, pair: tuple[Server, Server]) -> None:
    master, replica = pair

    async def run() -> None:
        async with World(driver, master.url) as world:
            pool = world.pool(min_replicas=1)
            await pool.add("r1", "r2")
            answer = await ACQUIRES[way](pool)
            leases = answer if isinstance(answer, list) else [answer]
            with replica.client() as there:
                raw = Raw(there, pool.real)
                assert set(raw.leased()) == {lease.resource for lease in leases}
                assert {raw.token(lease.resource) for lease in leases} == {lease.token for lease in leases}
            for lease in leases:
                assert 59 < lease.remaining() <= 60
                await lease.renew()
                await lease.release()

    asyncio.run(run())


@servers
@pytest.mark.parametrize("way", ACQUIRES)
def test_a_replica_that_is_silent(way: str, driver: str, pair: tuple[Server, Server]) -> None:
    master, replica = pair

    async def run() -> None:
        async with World(driver, master.url) as world:
            pool = world.pool(min_replicas=1)
            plain = world.pool(pool.name)
            await pool.add("r1", "r2")
            replica.pause()
            try:
                with pytest.raises(NotReplicated, match=rf"0 of 1 replicas .*'r1'.* pool '{pool.name}' within 1000 ms"):
                    await ACQUIRES[way](pool)
                stats = await plain.stats()
                assert (stats.free, stats.leased, stats.lapsed) == (2, 0, 0)
                lease = await plain.acquire(timeout=0)
                await lease.release()
            finally:
                replica.resume()
            await asyncio.to_thread(replica.wait_in_sync, master)
            lease = await pool.acquire(timeout=0)
            await lease.release()

    asyncio.run(run())


@servers
def test_a_grant_by_hand_off_is_confirmed_too(driver: str, pair: tuple[Server, Server]) -> None:
    master, replica = pair

    async def run() -> None:
        async with World(driver, master.url) as world:
            plain = world.pool("hand-off")
            pool = world.pool("hand-off", min_replicas=1)
            await plain.add("r1")
            held = await plain.acquire(ttl=600)
            waiter = await world.line_up(pool, pool.acquire(ttl=60))
            await held.release()
            (lease,) = await world.done(waiter)
            with replica.client() as there:
                assert Raw(there, pool.real).token("r1") == lease.token
            behind = await world.line_up(pool, pool.acquire(ttl=60))
            next_one = await world.line_up(plain, plain.acquire(ttl=60))
            replica.pause()
            try:
                await lease.release()
                with pytest.raises(NotReplicated):
                    await world.done(behind)
                (other,) = await world.done(next_one)  # it was given back, and handed on
            finally:
                replica.resume()
            await other.release()
            await asyncio.to_thread(replica.wait_in_sync, master)

    asyncio.run(run())


@servers
def test_more_replicas_than_there_are(driver: str, pair: tuple[Server, Server]) -> None:
    async def run() -> None:
        async with World(driver, pair[0].url) as world:
            pool = world.pool(min_replicas=2)
            await pool.add("r1")
            with pytest.raises(NotReplicated, match=r"1 of 2 replicas .* within 100 ms"):
                await pool.acquire(ttl=0.3)
            assert (await pool.stats()).free == 1

    asyncio.run(run())


@servers
def test_cancelled_while_it_waits_for_the_replica(pair: tuple[Server, Server]) -> None:
    master, replica = pair

    async def run() -> None:
        async with World("tasks", master.url) as world:
            pool = world.pool(min_replicas=1)
            await pool.add("r1")
            replica.pause()
            try:
                task = world.start(pool.acquire(ttl=60))
                await world.until(lambda: Raw(world.redis, pool.real).leased(), "the grant")
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            finally:
                replica.resume()
            assert (await pool.stats()).free == 1
            await asyncio.to_thread(replica.wait_in_sync, master)

    asyncio.run(run())


@pytest.mark.parametrize("spec", ["redis-7.0"], indirect=True)
def test_in_a_cluster(driver: str, spec: Spec) -> None:
    """The replicas of the node that has the pool are meant, whichever node was asked first."""

    async def run(cluster: Cluster) -> None:
        async with World(driver, cluster.nodes[0].url) as world:
            world.cleans_up = False
            client = connect(cluster.url) if driver == "threads" else await connect_async(cluster.url)
            try:
                for number in range(6):
                    pool = world.pool(f"p{number}", client, min_replicas=1)
                    await pool.add("r1")
                    lease = await pool.acquire()
                    await lease.release()
                    few = world.pool(f"p{number}", client, min_replicas=2)
                    with pytest.raises(NotReplicated, match="1 of 2"):
                        await few.acquire(ttl=0.3)
            finally:
                await close_async(client) if driver == "tasks" else close(client)

    with Cluster.start(spec, 3, replicas=1) as cluster:
        asyncio.run(run(cluster))


class Referee:
    """Who holds what, by the leases' own promises; shares nothing with relet but this machine's steady clock."""

    def __init__(self) -> None:
        self.fences: list[int] = []
        self.doubled: list[str] = []
        self._ends: dict[str, float] = {}

    def enter(self, lease: Driven) -> None:
        if self._ends.get(lease.resource, 0.0) > monotonic():
            self.doubled.append(repr(lease.real))
        self._ends[lease.resource] = monotonic() + lease.remaining()
        self.fences.append(lease.fence)

    def leave(self, lease: Driven) -> None:
        """Before it is released: whether that arrives or not, nobody relies on it any more."""
        self._ends.pop(lease.resource, None)


async def work(pool: Driven, referee: Referee, counts: list[int], number: int, over: asyncio.Event) -> None:
    while not over.is_set():
        try:
            lease = await pool.acquire(ttl=5, timeout=2)
        except (ReletError, redis.RedisError):
            await asyncio.sleep(0.02)
            continue
        referee.enter(lease)
        await asyncio.sleep(0.002)
        counts[number] += 1
        referee.leave(lease)
        with contextlib.suppress(ReletError, redis.RedisError):
            await lease.release()


@servers
def test_a_master_is_killed_under_load(driver: str, spec: Spec) -> None:
    """Six hold and release, and their master dies when it has lost its replica. The replica serves on."""

    async def run(master: Server, replica: Server, sentinels: Sentinels) -> None:
        client = connect(sentinels.url) if driver == "threads" else await connect_async(sentinels.url)
        try:
            async with World(driver, replica.url) as world:
                world.cleans_up = False
                referee, counts, over = Referee(), [0] * 6, asyncio.Event()
                pool = world.pool("p", client, min_replicas=1)
                await pool.add(f"r{number}" for number in range(8))
                kept = [await pool.acquire(ttl=600) for _ in range(3)]
                for lease in kept:
                    referee.enter(lease)
                tasks = [world.start(work(pool, referee, counts, number, over)) for number in range(6)]
                await world.until(lambda: min(counts) >= 10, "the load to run")
                with master.client() as admin:
                    admin.execute_command("ACL", "DELUSER", COPIER)  # the replica is cut off, and cannot come back
                with contextlib.suppress(NotReplicated):
                    referee.enter(await pool.acquire(ttl=600, timeout=10))
                await asyncio.to_thread(master.kill)
                await asyncio.to_thread(sentinels.wait_for_failover, master.port)
                with await asyncio.to_thread(Server.start_replica_of, replica):
                    before = list(counts)
                    await world.until(
                        lambda: all(now >= old + 10 for now, old in zip(counts, before, strict=True)),
                        "everybody to be served by the new master",
                    )
                    over.set()
                    await world.done(*tasks)
                    assert referee.doubled == []
                    assert len(referee.fences) == len(set(referee.fences))
                    for lease in kept:
                        await lease.renew()  # they outlived their master
                    assert Pool(world.redis, "p").stats().total == 8
        finally:
            await close_async(client) if driver == "tasks" else close(client)

    with Server.start(spec) as master:
        with master.client() as admin:
            admin.execute_command("ACL", "SETUSER", COPIER, "on", f">{COPIER}", "allkeys", "allchannels", "+@all")
        with (
            Server.start_replica_of(master, masteruser=COPIER, masterauth=COPIER) as replica,
            Sentinels.start(master) as sentinels,
        ):
            asyncio.run(run(master, replica, sentinels))


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (True, TypeError), ("1", TypeError), (1.0, TypeError)])
def test_what_is_no_number_of_replicas(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"min_replicas.*{value!r}"):
        Pool(redis.Redis(), unique("p"), min_replicas=value)
