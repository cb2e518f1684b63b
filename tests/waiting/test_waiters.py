"""Who is shown as waiting: for how many, and for how long already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from relet import Pool, PoolExhausted, Waiter
from relet.client import close, close_async, connect, connect_async
from relet.names import MAX_WAITERS, new_token
from tests.helpers import Raw, missing, names, unique
from tests.servers import Cluster, Unavailable
from tests.waiting.children import children
from tests.waiting.drivers import ONE_SERVER, TWO_SERVERS, Driven, World

LONG_AGO_MS = 90_000


def records(world: World, pool: Driven) -> dict[bytes, list[bytes]]:
    """The waiters' records by field: count, ttl, channel, since when, owner."""
    stored: dict[bytes, bytes] = world.redis.hgetall(world.raw(pool).root)  # type: ignore[assignment]
    return {field: value.split(b" ", 4) for field, value in stored.items() if field.startswith(b"w:")}


def put(world: World, pool: Driven, field: bytes, *words: bytes) -> None:
    world.redis.hset(world.raw(pool).root, field, b" ".join(words))  # type: ignore[arg-type]


def server_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()  # type: ignore[misc]
    return int(seconds) * 1000 + int(micros) // 1000


@TWO_SERVERS
async def test_first_come_first_shown(world: World) -> None:
    pool = world.pool(owner="ann")
    other = world.pool(pool.name, owner="bob the 2nd")
    assert await pool.waiters() == []
    await pool.add(names(3))
    held = await pool.acquire_many(3)
    assert await pool.waiters() == []
    before = server_ms(world.redis)
    tasks = [
        await world.line_up(pool, pool.acquire(ttl=0.5)),
        await world.line_up(pool, other.acquire_many(2, ttl=60)),
        await world.line_up(pool, other.acquire(owner="ü")),
    ]
    line = await pool.waiters()
    passed = (server_ms(world.redis) - before) / 1000
    assert [(one.owner, one.count, one.ttl) for one in line] == [("ann", 1, 0.5), ("bob the 2nd", 2, 60), ("ü", 1, 30)]
    waits = [one.waited for one in line]
    assert all(isinstance(one, Waiter) for one in line)
    assert waits == sorted(waits, reverse=True)
    assert 0 <= waits[-1] <= waits[0] <= passed
    assert [one.owner for one in await pool.waiters(limit=2)] == ["ann", "bob the 2nd"]
    assert not any(field.removeprefix(b"w:").decode() in repr(line) for field in records(world, pool))
    await held[0].release()
    (lease,) = await world.done(tasks[0])
    assert [one.owner for one in await other.waiters()] == ["bob the 2nd", "ü"]
    await lease.release()
    await pool.release_many(held[1:])
    (two,) = await world.done(tasks[1])
    await pool.release_many(two)
    (lease,) = await world.done(tasks[2])
    await lease.release()
    assert await pool.waiters() == []


@TWO_SERVERS
async def test_who_asks_again_over_a_new_connection_has_waited_since_it_came(world: World) -> None:
    pool = world.pool(owner="ann")
    await pool.add("r1")
    held = await pool.acquire()
    task = await world.line_up(pool, pool.acquire())
    ((field, (count, ttl, channel, since, owner)),) = records(world, pool).items()
    assert (count, ttl, owner) == (b"1", b"30000", b"ann")
    came = str(int(since) - LONG_AGO_MS).encode()
    put(world, pool, field, count, ttl, channel, came, owner)
    assert world.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub") >= 1
    await world.until(lambda: records(world, pool)[field][2] != channel, "the waiter to ask again")
    assert records(world, pool)[field][3:] == [came, b"ann"]
    await world.until(lambda: len(Pool(world.redis, pool.name).waiters()) == 1, "the waiter to listen")
    (waiter,) = await pool.waiters()
    assert waiter.waited >= LONG_AGO_MS / 1000
    await held.release()
    (lease,) = await world.done(task)
    assert (await pool.listed())[0].owner == "ann"
    await lease.release()


@TWO_SERVERS
@pytest.mark.parametrize("owner", [b"ann", b"", b"7 dwarfs", b"123456789012 and more"])
async def test_a_record_that_tells_no_time(world: World, owner: bytes) -> None:
    """Of a client that is older than this: how long it has waited is not known, and it is served as its record says."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    task = await world.line_up(pool, pool.acquire())
    ((field, (count, ttl, channel, _, _)),) = records(world, pool).items()
    put(world, pool, field, count, ttl, channel, owner)
    assert await pool.waiters() == [Waiter(owner.decode(), 1, 30, None)]
    assert (await pool.stats()).waiting == 1
    await held.release()
    (lease,) = await world.done(task)
    assert (await pool.listed())[0].owner == owner.decode()
    await lease.release()


@TWO_SERVERS
async def test_what_makes_no_sense_is_not_shown_and_holds_nobody_up(world: World) -> None:
    """A record that is missing, or none: as stats() does not count it either."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    root = world.raw(pool).root
    for number, record in enumerate([b"", b"1 5000", b"x 5000 channel 1700000000000 me", None], 1):
        token = new_token()
        world.redis.zadd(f"{root}:waiters", {token: -number})
        if record is not None:
            world.redis.hset(root, f"w:{token}", record)  # type: ignore[arg-type]
    task = await world.line_up(pool, pool.acquire(owner="ann"))
    assert [one.owner for one in await pool.waiters()] == ["ann"]
    assert (await pool.stats()).waiting == 1
    await held.release()
    (lease,) = await world.done(task)
    await lease.release()
    assert world.waiting(pool) == 0


@ONE_SERVER
async def test_the_dead_are_not_shown(world: World) -> None:
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    with children(3, world.driver, world.url, pool.name, ttl=600) as waiters:
        for number, child in enumerate(waiters, 1):
            child.tell("acquire", owner=f"child {number}")
            await world.until(lambda n=number: world.waiting(pool) == n, "the child to wait")
        waiters[1].kill()
        seen = Pool(world.redis, pool.name)
        await world.until(lambda: len(seen.waiters()) == 2, "the dead to be forgotten")
        assert [one.owner for one in await pool.waiters()] == ["child 1", "child 3"]
        assert (await pool.stats()).waiting == 2
        await held.release()
        for child in (waiters[0], waiters[2]):
            await asyncio.to_thread(child.hear)
            child.do("release")


@TWO_SERVERS
async def test_only_the_head_of_a_long_line_is_looked_at(world: World) -> None:
    """The work of a call is bounded, and the script counts and lists by one look."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    task = await world.line_up(pool, pool.acquire())
    root = world.raw(pool).root
    dead = {f"dead {number}": -number for number in range(1, MAX_WAITERS)}
    world.redis.zadd(f"{root}:waiters", dead)
    assert len(await pool.waiters(MAX_WAITERS)) == 1
    world.redis.zadd(f"{root}:waiters", {"one more": -1000})
    assert await pool.waiters(MAX_WAITERS) == []
    assert (await pool.stats()).waiting == 1
    world.redis.zrem(f"{root}:waiters", "one more", *dead)
    ((field, (_, ttl, channel, since, owner)),) = records(world, pool).items()
    many: dict[Any, float] = {}
    for number in range(2 * MAX_WAITERS):
        token = new_token()
        many[token] = 1000 + number
        put(world, pool, f"w:{token}".encode(), b"1", ttl, channel, since, owner)
    world.redis.zadd(f"{root}:waiters", many)
    assert field in records(world, pool)
    assert [len(await pool.waiters(limit)) for limit in (1, 99, MAX_WAITERS)] == [1, 99, MAX_WAITERS]
    assert len(await pool.waiters()) == 100
    assert (await pool.stats()).waiting == 1 + 2 * MAX_WAITERS
    world.redis.zrem(f"{root}:waiters", *many)
    world.redis.hdel(root, *(f"w:{token}" for token in many))
    await held.release()
    (lease,) = await world.done(task)
    await lease.release()


@TWO_SERVERS
async def test_whose_time_was_up_is_not_shown(world: World) -> None:
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    with pytest.raises(PoolExhausted):
        await pool.acquire(timeout=0.05)
    assert await pool.waiters() == []
    assert records(world, pool) == {}
    await held.release()


@TWO_SERVERS
async def test_a_clock_that_was_set_back(world: World) -> None:
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    task = await world.line_up(pool, pool.acquire())
    ((field, (count, ttl, channel, since, owner)),) = records(world, pool).items()
    put(world, pool, field, count, ttl, channel, str(int(since) + 3_600_000).encode(), owner)
    assert [one.waited for one in await pool.waiters()] == [0]
    await held.release()
    (lease,) = await world.done(task)
    await lease.release()


def test_a_pool_that_nobody_made(pool: Pool, client: redis.Redis) -> None:
    assert pool.waiters() == []
    assert client.exists(Raw(client, pool).root) == 0


@pytest.mark.parametrize("server_name", ["redis-7.0", "valkey-9.1"])
def test_on_every_shard_of_a_cluster(driver: str, server_name: str) -> None:
    try:
        cluster = Cluster.start(server_name)
    except Unavailable as reason:
        missing(str(reason))

    async def run() -> None:
        async with World(driver, cluster.url) as world:
            world.cleans_up = False  # it would look at one shard
            client: Any = connect(cluster.url) if driver == "threads" else await connect_async(cluster.url)
            try:
                shards = set()
                while len(shards) < cluster.masters:
                    pool = world.pool(unique("waiters"), client, owner="ann")
                    shards.add(cluster.owner(client.keyslot(world.raw(pool).root)))
                    await pool.add("r1")
                    held = await pool.acquire()
                    task = world.start(pool.acquire())
                    while not (line := await pool.waiters()):
                        assert not task.done()
                    assert [(one.owner, one.count) for one in line] == [("ann", 1)]
                    await held.release()
                    (lease,) = await world.done(task)
                    assert await pool.waiters() == []
                    await lease.release()
            finally:
                await close_async(client) if driver == "tasks" else close(client)

    with cluster:
        asyncio.run(run())
