"""A replica says that it is one, whoever asks; and a wait outlasts a server that became one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relet import Pool, UnsupportedServer
from tests.helpers import unique
from tests.servers import Server, Spec
from tests.waiting.drivers import DRIVERS, Driven, World

PLAIN = ["redis-6.2", "redis-7.0", "redis-8.2", "valkey-9.1"]
pytestmark = pytest.mark.parametrize("spec", PLAIN, indirect=True)

Call = Callable[[Driven, str], Any]

WRITES: dict[str, Call] = {
    "try_acquire": lambda pool, _: pool.try_acquire(),
    "acquire": lambda pool, _: pool.acquire(timeout=0.2),
    "acquire for ever": lambda pool, _: pool.acquire(),
    "acquire_many": lambda pool, _: pool.acquire_many(2, timeout=0),
    "renew": lambda pool, token: pool.renew(token),
    "release": lambda pool, token: pool.release(token),
    "force": lambda pool, _: pool.release(resource="r1", force=True),
    "add": lambda pool, _: pool.add("r9"),
    "remove": lambda pool, _: pool.remove("r2"),
    "reclaim": lambda pool, _: pool.reclaim(),
    "set_order": lambda pool, _: pool.set_order("lru"),
    "destroy": lambda pool, _: pool.destroy(),
}


@pytest.fixture(scope="module")
def pair(spec: Spec) -> Iterator[tuple[Server, Server]]:
    """A master and its replica."""
    with Server.start(spec) as master, Server.start_replica_of(master) as replica:
        yield master, replica


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("proven", [False, True], ids=["at first", "later"])
def test_a_replica_says_so(proven: bool, driver: str, pair: tuple[Server, Server]) -> None:
    master, replica = pair
    name = unique("replica")
    with master.client() as client:
        pool = Pool(client, name)
        pool.add("r1", "r2")
        lease = pool.acquire(ttl=600)
        replica.wait_in_sync(master)
        before = pool.stats()

        async def ask() -> None:
            async with World(driver, replica.url) as world:
                world.cleans_up = False
                for call in WRITES.values():
                    mine = world.pool(name)
                    mine.real._backend.proven = proven
                    if proven and call in (WRITES["reclaim"], WRITES["acquire_many"]):
                        continue  # nothing has lapsed, not enough is free: that is true here as well
                    with pytest.raises(UnsupportedServer, match=rf"'{name}'.* read-only replica.*master"):
                        await call(mine, lease.token)
                assert await mine.stats() == before
                assert [info.name for info in await mine.listed()] == ["r1", "r2"]

        asyncio.run(ask())
        assert pool.stats() == before
        lease.release()
        pool.destroy()


def test_an_unknown_pool_is_not_taken_for_an_exhausted_one(driver: str, pair: tuple[Server, Server]) -> None:
    """What was never replicated, or not yet, is no answer."""
    _, replica = pair

    async def ask() -> None:
        async with World(driver, replica.url) as world:
            world.cleans_up = False
            with pytest.raises(UnsupportedServer):
                await world.pool(unique("replica")).try_acquire()

    asyncio.run(ask())


def test_a_wait_outlasts_a_server_that_became_a_replica(driver: str, spec: Spec) -> None:
    """As in the moments of a failover, before the clients are told of the new master."""

    async def wait() -> None:
        with Server.start(spec) as first, Server.start(spec) as second:
            async with World(driver, first.url) as world:
                world.cleans_up = False
                pool, other = world.pool("p"), world.pool("p")
                await pool.add("r1")
                held = await other.acquire(ttl=600)
                waiter = await world.line_up(pool, pool.acquire(ttl=600))
                limited = await world.line_up(other, other.acquire(timeout=1))
                world.redis.execute_command("REPLICAOF", "127.0.0.1", second.port)
                with pytest.raises(UnsupportedServer, match="read-only replica"):
                    await world.done(limited)
                assert not waiter.done()
                world.redis.execute_command("REPLICAOF", "NO", "ONE")
                Pool(world.redis, "p").add("r1")  # the master that it followed had nothing
                (lease,) = await world.done(waiter)
                assert lease.fence > held.fence

    asyncio.run(wait())
