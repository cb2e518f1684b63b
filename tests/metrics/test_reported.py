"""What a client counts of its own waits, once it is told to."""

from __future__ import annotations

import asyncio

import pytest
import redis
from prometheus_client import CollectorRegistry

from relet import PoolExhausted
from relet.metrics import instrument
from relet.observing import Asked
from tests.metrics.page import Samples, named, samples_of
from tests.servers import Server
from tests.waiting.drivers import ONE_SERVER, Driven, World, world_of

pytestmark = ONE_SERVER


def counts(registry: CollectorRegistry) -> Samples:
    """Without the histogram's seconds, which depend on the machine."""
    return {key: value for key, value in samples_of(registry).items() if key[0] not in SECONDS}


SECONDS = ("relet_wait_seconds_bucket", "relet_wait_seconds_sum")


async def test_waits_are_counted_by_how_they_ended(world: World, registry: CollectorRegistry) -> None:
    pool = world.pool("gpu")
    await pool.add("a", "b")
    instrument(pool.real, registry=registry)
    first, second = await pool.acquire(), await pool.acquire(timeout=60)
    assert counts(registry) == {("relet_wait_seconds_count", "gpu"): 2}, "nobody had to stand in line"
    waiter = await world.line_up(pool, pool.acquire(timeout=60))
    began = asyncio.get_running_loop().time()
    with pytest.raises(PoolExhausted):
        await pool.acquire(timeout=0.05)
    await first.release()
    (third,) = await world.done(waiter)
    assert counts(registry) == {
        ("relet_wait_seconds_count", "gpu"): 3,
        ("relet_waits_total", "exhausted", "gpu"): 1,
        ("relet_waits_total", "granted", "gpu"): 1,
        ("relet_handoffs_total", "gpu"): 1,
    }
    assert samples_of(registry)["relet_wait_seconds_sum", "gpu"] >= asyncio.get_running_loop().time() - began > 0
    both = await world.line_up(pool, pool.acquire_many(2, timeout=60))
    await second.release()
    await third.release()
    (leases,) = await world.done(both)
    found = samples_of(registry)
    assert found["relet_waits_total", "granted", "gpu"] == 2
    assert found["relet_handoffs_total", "gpu"] == 3, "resources, not calls"
    await pool.release_many(leases)


async def test_a_wait_that_an_error_ends_has_failed(world: World, registry: CollectorRegistry) -> None:
    pool = world.pool("gpu")
    instrument(pool.real, registry=registry)
    await pool.add("a")
    lease = await pool.acquire()
    waiter = await world.line_up(pool, pool.acquire())
    key = f"{world.raw(pool).root}:free"
    world.redis.set(key, "no sorted set")
    try:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            await world.done(waiter)
    finally:
        world.redis.delete(key)
    found = counts(registry)
    assert found["relet_waits_total", "failed", "gpu"] == 1
    assert named(found, "relet_handoffs_total") == set()
    await lease.release()


async def test_a_task_that_is_cancelled_has_failed(server: Server, registry: CollectorRegistry) -> None:
    async with world_of("tasks", server) as world:
        pool = world.pool("gpu")
        instrument(pool.real, registry=registry)
        await pool.add("a")
        await pool.acquire()
        waiter = await world.line_up(pool, pool.acquire())
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert counts(registry)["relet_waits_total", "failed", "gpu"] == 1


async def test_who_asks_without_waiting_is_in_no_histogram(world: World, registry: CollectorRegistry) -> None:
    pool = world.pool("gpu")
    await pool.add("a")
    instrument(pool.real, registry=registry)
    lease = await pool.try_acquire()
    assert await pool.try_acquire() is None
    with pytest.raises(PoolExhausted):
        await pool.acquire(timeout=0)
    await lease.release()
    await (await pool.acquire(timeout=0)).release()
    assert counts(registry) == {}


async def test_one_pool_or_all(world: World, registry: CollectorRegistry) -> None:
    async def use(pool: Driven) -> None:
        async with pool.lease():
            pass

    mine, other = world.pool("mine"), world.pool("other")
    await mine.add("a")
    await other.add("a")
    some = instrument(mine.real, registry=registry)
    await use(mine)
    await use(other)
    assert counts(registry) == {("relet_wait_seconds_count", "mine"): 1}
    some.add(other.real)
    await use(other)
    assert counts(registry)["relet_wait_seconds_count", "other"] == 1
    some.close()
    assert counts(registry) == {}
    every = instrument(registry=registry)
    try:
        await use(mine)
        await use(other)
        late = world.pool("late")
        await late.add("a")
        await use(late)
    finally:
        every.close()
    every_again = instrument(registry=registry)  # the registry is free for it
    every_again.close()
    await use(mine)
    assert every._seconds.labels("mine")._sum.get() > 0
    assert {labels for (labels,) in (tuple(key) for key in every._seconds._metrics)} == {"mine", "other", "late"}
    assert type(mine.real)._observer is None


class Struck(BaseException):
    """As KeyboardInterrupt strikes, wherever it is."""


class Striking:
    def ended(self, asked: Asked, granted: int, error: BaseException | None) -> None:  # noqa: ARG002
        raise Struck


async def test_struck_while_it_counts_it_gives_back(world: World) -> None:
    pool = world.pool("gpu")
    await pool.add("a", "b", "c")
    pool.real._observer = Striking()
    for call in (pool.acquire, pool.try_acquire, lambda: pool.acquire_many(3)):
        with pytest.raises(Struck):
            await call()
    stats = await pool.stats()
    assert (stats.leased, stats.granted) == (0, 5)
