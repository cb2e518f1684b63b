"""Whatever is cancelled or interrupted, and when: no resource stays taken, no reply unread, nobody in line.

RELET_TESTS_CANCELS=5000       random cancellations (300 by default)
RELET_TESTS_INTERRUPTS=500     random KeyboardInterrupts (40 by default)
"""
# ruff: noqa: PT012 (it is somewhere in the block that it comes out)

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import relet
from relet import LeaseLost, Pool, PoolExhausted
from tests.helpers import eventually, names, unique
from tests.libraries import environment
from tests.servers import Server
from tests.waiting.drivers import GUARD_S, ONE_SERVER, TWO_SERVERS, Driven, World

CANCELS = int(os.environ.get("RELET_TESTS_CANCELS", "300"))
INTERRUPTS = int(os.environ.get("RELET_TESTS_INTERRUPTS", "40"))
TTL_S = 1.0
TOTAL = 3

only_tasks = pytest.mark.parametrize("driver", ["tasks"])


async def acquire(pool: Driven) -> None:
    lease = await pool.acquire(timeout=GUARD_S)
    await asyncio.sleep(random.random() / 1000)
    await lease.release()


async def try_acquire(pool: Driven) -> None:
    lease = await pool.try_acquire()
    if lease:
        await lease.release()


async def hold(pool: Driven) -> None:
    async with pool.lease(timeout=GUARD_S):
        await asyncio.sleep(random.random() / 1000)


async def renew(pool: Driven) -> None:
    lease = await pool.acquire(timeout=GUARD_S)
    for _ in range(3):
        await lease.renew()
    await lease.release()


async def two(pool: Driven) -> None:
    leases = await pool.acquire_many(2, timeout=GUARD_S)
    await pool.release_many(leases)


async def briefly(pool: Driven) -> None:
    """The time is up in the moment of the cancellation."""
    try:
        lease = await pool.acquire(timeout=random.random() / 200)
    except PoolExhausted:
        return
    await lease.release()


VERBS: list[Callable[[Driven], Awaitable[None]]] = [acquire, try_acquire, hold, renew, two, briefly]


async def forever(verb: Callable[[Driven], Awaitable[None]], pool: Driven) -> None:
    while True:
        await verb(pool)


async def cancel(work: asyncio.Task[Any], dice: random.Random) -> None:
    """Cancels, now and then a second time while it cleans up. CancelledError must come out."""
    assert work.cancel(), f"it ended by itself: {work}"
    if dice.random() < 0.2:
        await asyncio.sleep(dice.random() / 2000)
        work.cancel()
    await asyncio.wait([work], timeout=GUARD_S)
    assert work.done(), "it does not end"
    assert work.cancelled(), f"no CancelledError came out: {work}"


async def cut_off(verb: Callable[[Driven], Awaitable[None]], pool: Driven, seconds: float) -> None:
    """As `asyncio.timeout` does it, or `wait_for` where Python has not the one yet."""
    with pytest.raises(asyncio.TimeoutError):
        if sys.version_info >= (3, 11):
            async with asyncio.timeout(seconds):
                await forever(verb, pool)
        else:
            await asyncio.wait_for(forever(verb, pool), seconds)


async def settled(world: World, pool: Driven, others: set[asyncio.Task[Any]]) -> None:
    """Every resource is free once the deadlines of this moment have passed; nobody and nothing is left."""
    seconds, micros = world.redis.time()
    latest = (seconds * 1000 + micros / 1000) + pool.ttl * 1000
    await world.until(lambda: world.connections("pubsub") == 0, "the last listener to go")
    assert world.waiting(pool) == 0
    assert all(deadline <= latest + 1 for deadline in world.raw(pool).leased().values())
    before = Pool(world.redis, pool.name).stats().granted
    await world.until(lambda: Pool(world.redis, pool.name).stats().free == TOTAL, "every resource to be free")
    assert Pool(world.redis, pool.name).stats().granted == before
    await world.until(lambda: asyncio.all_tasks() == others, f"no task to be left: {asyncio.all_tasks() - others}")


@TWO_SERVERS
@only_tasks
async def test_random_cancellations(world: World) -> None:
    client = world.client()
    pool = world.pool(client=client, ttl=TTL_S)
    await pool.add(names(TOTAL))
    others = asyncio.all_tasks()

    async def one_after_the_other(seed: int) -> None:
        dice = random.Random(seed)
        for number in range(CANCELS // 8 + 1):
            verb = dice.choice(VERBS)
            delay = dice.random() ** 2 * 0.01
            if dice.random() < 0.25:
                await cut_off(verb, pool, delay)
            else:
                work = asyncio.create_task(forever(verb, pool))
                await asyncio.sleep(delay)
                await cancel(work, dice)
            text = f"{seed} {number}".encode()
            assert await client.echo(text) == text, "somebody else's reply"

    tasks = [asyncio.create_task(one_after_the_other(seed)) for seed in range(8)]
    await asyncio.wait_for(asyncio.gather(*tasks), 600)
    await settled(world, pool, others)
    for number in range(50):  # over every connection of the client
        assert await asyncio.gather(*(client.echo(str(number + i)) for i in range(10))) == [
            str(number + i).encode() for i in range(10)
        ]
    lease = await pool.acquire(timeout=0)
    await lease.release()


@ONE_SERVER
@only_tasks
@pytest.mark.parametrize("verb", VERBS, ids=[verb.__name__ for verb in VERBS])
async def test_cancelled_at_every_step(verb: Callable[[Driven], Awaitable[None]], world: World) -> None:
    """After one step of the loop, after two, …; with a free resource, and with none."""
    client = world.client()
    pool = world.pool(client=client, ttl=TTL_S)
    await pool.add(names(TOTAL))
    others = asyncio.all_tasks()
    for held in (0, TOTAL):
        leases = await pool.acquire_many(held, ttl=60) if held else []
        for steps in range(60):
            work = asyncio.create_task(forever(verb, pool))
            for _ in range(steps):
                await asyncio.sleep(0)
            await cancel(work, random.Random(steps))
            text = str(steps).encode()
            assert await client.echo(text) == text
        await pool.release_many(leases)
        await settled(world, pool, others)


@TWO_SERVERS
@only_tasks
async def test_cancelled_with_the_grant_on_its_way(world: World) -> None:
    """What was granted in the moment of the cancellation goes to the next in line, not to nobody."""
    pool = world.pool()
    behind = world.pool(pool.name)
    await pool.add("r1")
    for _ in range(30):
        held = await pool.acquire(ttl=600)
        first = await world.line_up(pool, pool.acquire(ttl=600))
        second = await world.line_up(pool, behind.acquire(ttl=600))
        # The server grants it to the first, whose loop has not heard of it when it is cancelled.
        Pool(world.redis, pool.name).release(held.token)
        await cancel(first, random.Random(0))
        (lease,) = await world.done(second)
        await lease.release()
    stats = await pool.stats()
    assert (stats.free, stats.waiting, stats.lapsed) == (1, 0, 0)


@TWO_SERVERS
@only_tasks
async def test_a_block_that_is_cancelled_is_left(world: World) -> None:
    """The resource is free again at once, and the body's CancelledError is what comes out."""
    pool = world.pool()
    await pool.add("r1")
    inside = asyncio.Event()

    async def body() -> None:
        async with pool.lease(ttl=600):
            inside.set()
            await asyncio.sleep(GUARD_S)

    work = asyncio.create_task(body())
    await inside.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await pool.stats()).free == 1


@TWO_SERVERS
async def test_an_error_in_the_block_comes_out(world: World) -> None:
    """Also where the lease was lost in the meantime."""
    pool = world.pool()
    await pool.add("r1")
    for lose in (False, True):
        with pytest.raises(ZeroDivisionError) as caught:
            async with pool.lease(ttl=600) as lease:
                if lose:
                    await pool.release(resource=lease.resource, force=True)
                raise ZeroDivisionError
        assert not isinstance(caught.value.__context__, LeaseLost) or lose
        assert (await pool.stats()).free == 1


@TWO_SERVERS
def test_random_interrupts(server: Server) -> None:
    """A main thread is interrupted at random while a rival thread shares its pool; see interrupts.py."""
    pool = unique("interrupts")
    with server.client() as client:
        Pool(client, pool).add(names(TOTAL))
        result = subprocess.run(
            [sys.executable, "-m", "tests.waiting.interrupts", server.url, pool, str(INTERRUPTS)],
            cwd=Path(__file__).parents[2],
            env=environment(Path(relet.__file__).parents[1]),
            capture_output=True,
            text=True,
            timeout=60 + INTERRUPTS,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.splitlines()[-1] == "all is well", result.stdout
        assert result.stderr == ""
        checker = Pool(client, pool)
        eventually(lambda: checker.stats().free == TOTAL, "every resource to be free")
        assert checker.stats().waiting == 0
        checker.destroy()
