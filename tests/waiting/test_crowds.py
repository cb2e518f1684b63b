"""A thousand who wait in one process, over a handful of connections."""

from __future__ import annotations

import asyncio
import threading

import pytest

from relet import AsyncPool, Pool
from tests.helpers import eventually, names, unique
from tests.servers import Server
from tests.waiting.drivers import ONE_SERVER, TWO_SERVERS, World

CROWD = 1000
AT_MOST = 10
"""Connections of the process to the server."""
RESOURCES = 20


@TWO_SERVERS
@pytest.mark.parametrize("driver", ["tasks"])
async def test_a_thousand_tasks(world: World) -> None:
    pool = world.pool(unique("crowd"), ttl=60)
    await pool.add(names(RESOURCES))
    held = await pool.acquire_many(RESOURCES)
    before, most, served = world.connections(), 0, 0

    async def use(real: AsyncPool) -> None:
        nonlocal most, served
        lease = await real.acquire()
        if served % 50 == 0:
            most = max(most, world.connections() - before)
        served += 1
        await lease.release()

    tasks = [world.start(use(pool.real)) for _ in range(CROWD)]
    await world.until(lambda: world.waiting(pool) == CROWD, "all to wait")
    most = world.connections() - before
    await pool.release_many(held)
    await world.done(*tasks)
    assert served == CROWD
    assert most <= AT_MOST
    stats = await pool.stats()
    assert (stats.granted, stats.lapsed, stats.free, stats.waiting) == (RESOURCES + CROWD, 0, RESOURCES, 0)


@TWO_SERVERS
def test_a_thousand_threads(server: Server) -> None:
    with server.client() as checker, server.client() as client:
        pool = Pool(client, unique("crowd"), ttl=60)
        seen = Pool(checker, pool.name)
        pool.add(names(RESOURCES))
        held = pool.acquire_many(RESOURCES)
        served: list[str] = []

        def connections() -> int:
            return sum(one["cmd"] not in ("client", "client|list") for one in checker.client_list())

        before = connections()

        def use() -> None:
            lease = pool.acquire()
            served.append(lease.resource)
            lease.release()

        threads = [threading.Thread(target=use, daemon=True) for _ in range(CROWD)]
        stack_size = threading.stack_size(256 * 1024)
        try:
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(stack_size)
        eventually(lambda: seen.stats().waiting == CROWD, "all to wait", timeout=60)
        most = [connections() - before]
        pool.release_many(held)

        def all_served() -> bool:
            most.append(connections() - before)
            return len(served) == CROWD

        eventually(all_served, "all to be served", timeout=60)
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)
        assert max(most) <= AT_MOST
        stats = seen.stats()
        assert (stats.granted, stats.lapsed, stats.free, stats.waiting) == (RESOURCES + CROWD, 0, RESOURCES, 0)
        pool.close()
        pool.destroy()


@ONE_SERVER
async def test_nobody_listens_when_nobody_waits(world: World) -> None:
    """The listener goes with the last who waits: at once, or when something else is sent a second later."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    waiter = await world.line_up(pool, pool.acquire())
    assert world.connections("pubsub") == 1
    await held.release()
    (lease,) = await world.done(waiter)
    await lease.release()
    for _ in range(200):
        await pool.stats()
        if world.connections("pubsub") == 0:
            break
        await asyncio.sleep(0.05)
    assert world.connections("pubsub") == 0
