"""A lapse reaches who waits: at its deadline and never before, without events, without anybody else's call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from relet import Pool
from relet.clock import monotonic
from relet.line import Line
from relet.requests import Requests, Standing
from tests.helpers import names, take
from tests.servers import Server
from tests.waiting.children import children
from tests.waiting.drivers import ONE_SERVER, TWO_SERVERS, Driven, World, deadline_of, granted_at, in_order

TTL_S = 0.4


@pytest.fixture(autouse=True)
def no_events(server: Server) -> Iterator[None]:
    """The server announces nothing."""
    with server.client() as client:
        before = client.config_get("notify-keyspace-events")["notify-keyspace-events"]
        client.config_set("notify-keyspace-events", "")
        yield
        client.config_set("notify-keyspace-events", before)


@TWO_SERVERS
@pytest.mark.usefixtures("no_looking")
async def test_a_lapse_reaches_the_waiter(world: World) -> None:
    pool = world.pool()
    other = Pool(world.redis, pool.name)
    other.add("r1")
    held = take(other, TTL_S)
    waiter = await world.line_up(pool, pool.acquire(ttl=60))
    (lease,) = await world.done(waiter)
    assert granted_at(lease) >= held._grant.deadline_ms
    assert held.lost
    await lease.release()
    stats = other.stats()
    assert (stats.granted, stats.lapsed, stats.released) == (2, 1, 1)


@ONE_SERVER
@pytest.mark.usefixtures("no_looking")
async def test_one_lapse_after_the_other(world: World) -> None:
    """Each waiter is granted a short lease that it lets lapse, to the last."""
    pools = [world.pool()]
    pools += [world.pool(pools[0].name) for _ in range(2)]
    await pools[0].add("r1")
    held = await pools[0].acquire(ttl=TTL_S)
    waiters = [await world.line_up(pools[0], pools[number % 3].acquire(ttl=0.1)) for number in range(6)]
    leases = [held, *await world.done(*waiters)]
    for former, latter in pairwise(leases):
        assert granted_at(latter) >= deadline_of(former)
    assert in_order(leases)


@TWO_SERVERS
@pytest.mark.usefixtures("no_looking")
async def test_a_grant_to_another_process_moves_the_clock(world: World) -> None:
    """Those behind know of a deadline in 600 s; the first is granted a lease that ends sooner, and says nothing."""
    pool = world.pool()
    behind = world.pool(pool.name)
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    first = await world.line_up(pool, pool.acquire(ttl=TTL_S))
    second = await world.line_up(pool, behind.acquire(ttl=60))
    await held.release()
    short, lease = await world.done(first, second)
    assert granted_at(lease) >= deadline_of(short)
    assert short.lost
    await lease.release()


@ONE_SERVER
@pytest.mark.usefixtures("no_looking")
def test_an_older_answer_does_not_hide_a_nearer_deadline() -> None:
    """The news of it comes over another connection, and may be read before the answer."""
    line = Line(Requests("relet", "gpu"))
    _, everybody = line.open()
    asked_at = monotonic()
    line.heard(everybody, b"next 1000")
    line.told(Standing(600_000, 0, queued=True), asked_at)
    assert line.due_at() < monotonic() + 2
    line.told(Standing(600_000, 0, queued=True), monotonic())
    assert line.due_at() > monotonic() + 500


@TWO_SERVERS
@pytest.mark.usefixtures("no_looking")
async def test_renewing_for_less_moves_the_clock(world: World) -> None:
    pool = world.pool()
    holder = Pool(world.redis, pool.name)
    holder.add("r1")
    held = take(holder, 600)
    waiter = await world.line_up(pool, pool.acquire())
    held.renew(TTL_S)
    (lease,) = await world.done(waiter)
    assert granted_at(lease) >= held._grant.deadline_ms
    await lease.release()


@ONE_SERVER
@pytest.mark.usefixtures("no_looking")
async def test_renewing_for_more_moves_it_too(world: World) -> None:
    """The waiter is not served at the deadline that it knew first."""
    pool = world.pool()
    holder = Pool(world.redis, pool.name)
    holder.add("r1")
    held = take(holder, TTL_S)
    waiter = await world.line_up(pool, pool.acquire())
    held.renew(3 * TTL_S)
    (lease,) = await world.done(waiter)
    assert granted_at(lease) >= held._grant.deadline_ms
    assert Pool(world.redis, pool.name).stats().lapsed == 1
    await lease.release()


@ONE_SERVER
@pytest.mark.usefixtures("no_looking")
async def test_the_second_of_two_deadlines(world: World) -> None:
    """Who waits for two is not served at the first one, and its clock goes on to the next."""
    pool = world.pool()
    holder = Pool(world.redis, pool.name)
    holder.add("r1", "r2")
    first, second = take(holder, TTL_S), take(holder, 2 * TTL_S)
    two = await world.line_up(pool, pool.acquire_many(2))
    (both,) = await world.done(two)
    assert min(map(granted_at, both)) >= max(first._grant.deadline_ms, second._grant.deadline_ms)
    await pool.release_many(both)


@ONE_SERVER
async def test_a_thousand_lapses_at_once(world: World) -> None:
    """More than one call takes back."""
    pool = world.pool()
    await pool.add(names(1000))
    held = [lease for _ in range(4) for lease in await pool.acquire_many(250, ttl=2 * TTL_S)]
    got: list[Driven] = []

    async def wait() -> None:
        got.extend(await pool.acquire_many(250, ttl=60))

    waiters = [await world.line_up(pool, wait()) for _ in range(4)]
    await world.done(*waiters)
    assert len({lease.resource for lease in got}) == 1000
    until = {lease.resource: deadline_of(lease) for lease in held}
    assert all(granted_at(lease) >= until[lease.resource] for lease in got)
    for start in range(0, 1000, 250):
        await pool.release_many(got[start : start + 250])


@ONE_SERVER
async def test_the_holders_of_twenty_are_killed(world: World) -> None:
    """Twenty who wait are served, each at a deadline."""
    pool = world.pool()
    await pool.add(names(20))
    with children(20, world.driver, world.url, pool.name, ttl=1) as holders:
        for child in holders:
            child.tell("hold")
        for child in holders:
            await asyncio.to_thread(child.hear)
        waiters = [await world.line_up(pool, pool.acquire(ttl=60)) for _ in range(20)]
        for child in holders:
            child.kill()
        until = world.raw(pool).leased()
        leases = await world.done(*waiters)
    assert sorted(lease.resource for lease in leases) == names(20)
    assert all(granted_at(lease) >= until[lease.resource] for lease in leases)
    assert in_order(leases)
    await pool.release_many(leases)
    stats = await pool.stats()
    assert (stats.granted, stats.lapsed, stats.free) == (40, 20, 20)


@ONE_SERVER
@pytest.mark.usefixtures("no_looking")
async def test_waiting_costs_no_calls(world: World) -> None:
    """Fifty who wait for a second, in which nothing comes: nobody polls."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    waiters = [await world.line_up(pool, pool.acquire(timeout=1)) for _ in range(50)]
    before = world.calls()
    await asyncio.wait(waiters)
    assert {type(task.exception()).__name__ for task in waiters} == {"PoolExhausted"}
    assert world.calls() - before < 75, "more than one call each, to leave the line, and the script itself"
    await held.release()
