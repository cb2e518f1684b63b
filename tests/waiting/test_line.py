"""Who is served, and in which order.

RELET_TESTS_RELEASES=5000      releases around the start or the end of a wait (100 by default)
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
import redis

from relet import Lease, LeaseLost, Pool, PoolExhausted
from relet.names import new_token, new_token_for
from relet.requests import decode_grants
from tests.helpers import Raw, eventually, keys_left, lapse, names, take, unique
from tests.waiting.children import children
from tests.waiting.drivers import ALL_SERVERS, ONE_SERVER, TWO_SERVERS, Driven, World, deadline_of, granted_at, in_order

RELEASES = int(os.environ.get("RELET_TESTS_RELEASES", "100"))

# -- order of arrival --------------------------------------------------------------------------------------------------


@TWO_SERVERS
async def test_fifty_in_the_order_in_which_they_came(world: World) -> None:
    """Four pools in this process, each with a client of its own, and two other processes; newcomers get nothing."""
    pools = [world.pool(unique("fifty"))]
    pools += [world.pool(pools[0].name) for _ in range(3)]
    await pools[0].add("only")
    held = await pools[0].acquire()
    stolen: list[str] = []
    served: list[int] = []
    last = 49

    async def wait(number: int) -> Driven:
        lease = await pools[number % 4].acquire()
        served.append(number)
        if number != last:
            await lease.release()
        return lease  # type: ignore[no-any-return]

    async def newcomer(pool: Driven) -> None:
        while len(served) < last - 1:
            lease = await pool.try_acquire(ttl=1)
            if lease:
                stolen.append(lease.resource)

    fences = []
    with children(2, world.driver, world.url, pools[0].name) as others:
        waiters: list[asyncio.Task[Driven]] = []
        for number in range(50):
            if number in (20, 30):
                before = world.waiting(pools[0])
                other = others[number // 10 - 2]
                other.tell("acquire")
                await world.until(lambda b=before: world.waiting(pools[0]) > b, "the other process to wait")
            else:
                waiters.append(await world.line_up(pools[0], wait(number)))
        hammering = [world.start(newcomer(world.pool(pools[0].name))) for _ in range(2)]
        await held.release()
        for other in others:
            fences.append((await asyncio.to_thread(other.hear)).fence)
            other.do("release")
        leases = await world.done(*waiters)
        await world.done(*hammering)
    assert stolen == []
    assert served == [number for number in range(50) if number not in (20, 30)]
    everybody = [lease.fence for lease in leases]
    everybody[20:20] = fences[:1]
    everybody[30:30] = fences[1:]
    assert everybody == sorted(set(everybody))
    await leases[-1].release()


@TWO_SERVERS
async def test_a_newcomer_takes_what_no_waiter_is_entitled_to(world: World) -> None:
    """Two are free, but the first in line wants three: a newcomer, patient or not, does not get one of them."""
    pool = world.pool()
    other = world.pool(pool.name)
    await pool.add("r1", "r2", "r3")
    held = await pool.acquire()
    first = await world.line_up(pool, pool.acquire_many(3))
    assert await other.try_acquire() is None
    with pytest.raises(PoolExhausted):
        await other.acquire(timeout=0)
    second = await world.line_up(pool, other.acquire())
    stats = await pool.stats()
    assert (stats.free, stats.leased, stats.waiting) == (2, 1, 2)
    await held.release()
    (three,) = await world.done(first)
    assert [lease.resource for lease in three] == ["r1", "r2", "r3"]
    await pool.release_many(three)
    (lease,) = await world.done(second)
    await lease.release()


@TWO_SERVERS
@pytest.mark.usefixtures("no_looking")
async def test_the_first_in_line_for_five_is_not_starved(world: World) -> None:
    pool = world.pool()
    await pool.add(names(6))
    held = [await pool.acquire() for _ in range(6)]
    five = await world.line_up(pool, pool.acquire_many(5))
    ones = [await world.line_up(pool, pool.acquire()) for _ in range(2)]
    for number, lease in enumerate(held[:4], 1):
        await lease.release()
        stats = await pool.stats()
        assert (stats.free, stats.leased, stats.waiting) == (number, 6 - number, 3)
    assert not any(task.done() for task in (five, *ones))
    await held[4].release()
    (got,) = await world.done(five)
    assert sorted(lease.resource for lease in got) == names(5)
    assert not any(task.done() for task in ones)
    await held[5].release()
    (sixth,) = await world.done(ones[0])
    assert sixth.fence > max(lease.fence for lease in got)
    assert not ones[1].done()
    await got[0].release()
    (last,) = await world.done(ones[1])
    await pool.release_many([sixth, last, *got[1:]])
    assert (await pool.stats()).free == 6


# -- what brings a resource to a waiter --------------------------------------------------------------------------------


class Waiter:
    """A waiter that only listens: it has no clock, and never looks at the line. What it gets, somebody handed on."""

    def __init__(self, client: redis.Redis, pool: Pool, count: int = 1) -> None:
        self._client, self._pool, self.count = client, pool, count
        self._requests = pool._requests
        self.token = new_token_for(count)
        channel = self._requests.keys.wake + b":" + new_token().encode()
        self._ears = client.pubsub(ignore_subscribe_messages=True)
        self._ears.subscribe(channel)
        eventually(lambda: dict(client.pubsub_numsub(channel))[channel], "the waiter to listen")
        standing = self._send(self._requests.acquire_many(self.token, 60_000, b"waiter", count, channel))
        assert not isinstance(standing, list), "it got something at once"
        assert standing.queued

    def _send(self, request: Any) -> Any:
        return request.decode(self._client.execute_command(*self._pool._backend.command(request, whole=True)))

    def grants(self) -> list[Any]:
        """What it is told next."""
        message: Any = None
        ends_at = time.monotonic() + 30
        while message is None or message["data"].startswith(b"next "):
            assert time.monotonic() < ends_at, "it was told nothing"
            message = self._ears.get_message(timeout=1)
        token, _, texts = message["data"].partition(b" ")
        assert token.decode() == self.token
        return decode_grants(texts)

    def leave(self) -> None:
        self._send(self._requests.leave(self.token, self.count, keep=False))

    def close(self) -> None:
        self._ears.close()


def by_release(_pool: Pool, held: Lease) -> None:
    held.release()


def by_token(pool: Pool, held: Lease) -> None:
    pool.release(held.token)


def by_release_many(pool: Pool, held: Lease) -> None:
    pool.release_many([held])


def by_force(pool: Pool, held: Lease) -> None:
    assert pool.release(resource=held.resource, force=True)


def by_reclaim(pool: Pool, held: Lease) -> None:
    held.renew(0.05)
    lapse(held)
    assert pool.reclaim() == 1


def by_a_late_force(pool: Pool, held: Lease) -> None:
    held.renew(0.05)
    lapse(held)
    assert not pool.release(resource=held.resource, force=True), "it had lapsed"


def by_a_newcomer(pool: Pool, held: Lease) -> None:
    held.renew(0.05)
    lapse(held)
    assert pool.try_acquire() is None, "it overtook"


def by_add(pool: Pool, _held: Lease) -> None:
    assert pool.add("r2") == 1


def by_adding_again(pool: Pool, held: Lease) -> None:
    """It was to be removed when it comes back, lapsed, and is added again before anybody saw that."""
    pool.remove(held.resource)
    held.renew(0.05)
    lapse(held)
    assert pool.add(held.resource) == 1


WAYS = [
    by_release,
    by_token,
    by_release_many,
    by_force,
    by_reclaim,
    by_a_late_force,
    by_a_newcomer,
    by_add,
    by_adding_again,
]
SERVING = [way for way in WAYS if way not in (by_reclaim, by_a_late_force)]
"""Without those in which a waiter that keeps its own clock is quicker; test_clock.py has more of them."""


@ALL_SERVERS
@pytest.mark.parametrize("free", WAYS, ids=[way.__name__ for way in WAYS])
def test_what_frees_hands_on(free: Callable[[Pool, Lease], None], pool: Pool, client: redis.Redis) -> None:
    """In the very script that frees it: when the call is back, the resource is the waiter's."""
    pool.add({"r1": {"a": 1}, "r2": {"a": 2}} if free is not by_add else {"r1": {"a": 1}})
    if free is not by_add:
        pool.remove("r2")
    held = take(pool)
    with closing(Waiter(client, pool)) as first, closing(Waiter(client, pool)) as second:
        free(pool, held)
        stats = pool.stats()
        assert (stats.free, stats.waiting) == (0, 1)
        (grant,) = first.grants()
        assert grant.fence > held.fence
        assert grant.attributes == ({} if grant.resource == "r2" or free is by_adding_again else {"a": 1})
        assert Raw(client, pool).token(grant.resource) == first.token
        pool.release(first.token)
        assert second.grants()[0].fence > grant.fence
    assert Raw(client, pool).token(grant.resource) == second.token


@ALL_SERVERS
def test_who_leaves_makes_room_for_those_behind(pool: Pool, client: redis.Redis) -> None:
    """The first waited for three; two were free all the while."""
    pool.add("r1", "r2", "r3")
    held = take(pool)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(closing(Waiter(client, pool, count))) for count in (3, 1, 2))
        first.leave()
        (grant,) = second.grants()
        assert grant.resource == "r2"
        assert pool.stats().waiting == 1
        held.release()
        assert [grant.resource for grant in third.grants()] == ["r1", "r3"]
    assert pool.stats().waiting == 0


@ALL_SERVERS
def test_who_does_not_listen_is_passed_over(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1")
    held = take(pool)
    with closing(Waiter(client, pool)) as alive:
        pass
    with closing(Waiter(client, pool)) as alive:
        held.release()
        assert alive.grants()[0].resource == "r1"
    stats = pool.stats()
    assert (stats.granted, stats.lapsed, stats.waiting) == (2, 0, 0)


@ALL_SERVERS
@pytest.mark.usefixtures("no_looking")
@pytest.mark.parametrize("free", SERVING, ids=[way.__name__ for way in SERVING])
async def test_a_waiter_is_served(free: Callable[[Pool, Lease], None], world: World) -> None:
    pool = world.pool()
    freer = Pool(world.redis, pool.name)
    freer.add("r1")
    held = take(freer)
    waiter = await world.line_up(pool, pool.acquire())
    await asyncio.to_thread(free, freer, held)
    (lease,) = await world.done(waiter)
    assert lease.fence > held.fence
    assert world.raw(pool).token(lease.resource) == lease.token
    assert 0 < lease.remaining() <= pool.ttl
    await lease.release()
    assert not [name for name in freer.resources() if name.state == "leased" and name.name == lease.resource]


@TWO_SERVERS
@pytest.mark.usefixtures("no_looking")
async def test_the_first_add_serves_who_waits_for_a_pool_that_is_not_there(world: World) -> None:
    pool = world.pool()
    waiters = [await world.line_up(pool, pool.acquire()) for _ in range(3)]
    many = await world.line_up(pool, pool.acquire_many(2))
    Pool(world.redis, pool.name).add("r1", {"r2": {"a": 1}})
    first, second = await world.done(*waiters[:2])
    assert (first.resource, second.resource, second.attributes) == ("r1", "r2", {"a": 1})
    await first.release()
    (third,) = await world.done(waiters[2])
    await third.release()
    assert not many.done()
    await second.release()
    (both,) = await world.done(many)
    await pool.release_many(both)


# -- several at once ---------------------------------------------------------------------------------------------------


@TWO_SERVERS
async def test_all_or_none(world: World) -> None:
    pool = world.pool()
    await pool.add(names(4))
    held = await pool.acquire()
    for timeout in (0, 0.05):
        with pytest.raises(PoolExhausted, match="no 4 resources"):
            await pool.acquire_many(4, timeout=timeout)
    stats = await pool.stats()
    assert (stats.free, stats.leased, stats.waiting, stats.granted) == (3, 1, 0, 1)
    three = await pool.acquire_many(3, ttl=50, timeout=0)
    assert [lease.resource for lease in three] == names(4)[1:]
    assert in_order(three)
    assert len({lease.token for lease in three}) == 3
    for lease in three:
        await lease.renew(40)
        assert 39 < lease.remaining() <= 40
    await three[1].release()
    await pool.release_many([held, *three])
    assert (await pool.stats()).free == 4


@TWO_SERVERS
async def test_many_take_one_round_trip(world: World) -> None:
    pool = world.pool()
    await pool.add(names(250))
    await pool.release_many(await pool.acquire_many(2))  # the scripts are there now
    before = world.calls()
    leases = await pool.acquire_many(250, timeout=5)
    assert world.calls() == before + 1
    await pool.release_many(leases)
    assert world.calls() == before + 2
    assert (await pool.stats()).free == 250
    assert all(lease.released and not lease.lost for lease in leases)


@TWO_SERVERS
async def test_releasing_many_tells_which_were_lost(world: World) -> None:
    pool = world.pool()
    await pool.add(names(4))
    leases = await pool.acquire_many(4)
    for lost in leases[1], leases[2]:
        Pool(world.redis, pool.name).release(resource=lost.resource, force=True)
    other = await pool.acquire()
    with pytest.raises(LeaseLost, match="'r0001', 'r0002'"):
        await pool.release_many(leases)
    assert [lease.lost for lease in leases] == [False, True, True, False]
    assert world.raw(pool).token(other.resource) == other.token, "the next holder's lease was touched"
    await other.release()


# -- leaving -----------------------------------------------------------------------------------------------------------


@ALL_SERVERS
@pytest.mark.parametrize("timeout", [0, 0.001, 0.05])
@pytest.mark.parametrize("count", [1, 3])
async def test_who_got_nothing_leaves_nothing(timeout: float, count: int, world: World) -> None:
    """Neither in a pool that is not there, nor in one where all are taken."""
    pool = world.pool()
    with pytest.raises(PoolExhausted, match=pool.name):
        await pool.acquire_many(count, timeout=timeout)
    assert keys_left(world.redis) == []
    await pool.add("r1")
    held = await pool.acquire()
    before = world.raw(pool).client.hgetall(world.raw(pool).root)
    with pytest.raises(TimeoutError):
        await pool.acquire_many(count, timeout=timeout)
    after = world.raw(pool).client.hgetall(world.raw(pool).root)
    after.pop(b"arrivals", None)
    assert after.pop(b"waiting", b"0") == b"0"
    assert after == before
    assert (await pool.stats()).waiting == 0
    await held.release()
    assert (await pool.stats()).free == 1


@TWO_SERVERS
async def test_stats_count_who_waits(world: World) -> None:
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire()
    tasks = []
    for number in range(3):
        assert (await pool.stats()).waiting == number
        tasks.append(await world.line_up(pool, pool.acquire(timeout=60)))
    with pytest.raises(PoolExhausted):
        await pool.acquire(timeout=0.01)
    for number in (2, 1, 0):
        await held.release()
        assert (await pool.stats()).waiting == number
        (held,) = await world.done(tasks.pop(0))
    await held.release()


@ONE_SERVER
async def test_a_release_around_the_start_or_the_end_of_a_wait(world: World) -> None:
    """Whoever waits long enough is served; whoever gives up at that moment has it, or nobody has."""
    pool = world.pool()
    other = world.pool(pool.name)
    await pool.add("r1")
    for number in range(RELEASES):
        held = await other.acquire(timeout=10)
        short = number % 2 == 1
        waiter = world.start(pool.acquire(timeout=0.003 + 0.0001 * (number % 30) if short else None))
        await asyncio.sleep(0.0002 * (number % 25))
        await held.release()
        try:
            (lease,) = await world.done(waiter)
        except PoolExhausted:
            assert short
        else:
            assert world.raw(pool).token("r1") == lease.token
            await lease.release()
        stats = await pool.stats()
        assert (stats.free, stats.leased, stats.waiting, stats.lapsed) == (1, 0, 0, 0)


# -- the dead ----------------------------------------------------------------------------------------------------------


@TWO_SERVERS
async def test_ten_of_twenty_are_killed_at_the_head_of_the_line(world: World) -> None:
    """The next release reaches the eleventh: none of the dead is granted anything, and nothing lapses."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    with children(20, world.driver, world.url, pool.name, ttl=600) as waiters:
        for number, child in enumerate(waiters, 1):
            child.tell("acquire")
            await world.until(lambda n=number: world.waiting(pool) == n, "the child to wait")
        for child in waiters[:10]:
            child.kill()
        await held.release()
        fence = held.fence
        for child in waiters[10:]:
            seen = await asyncio.to_thread(child.hear)
            assert seen.fence > fence
            fence = seen.fence
            child.do("release")
    stats = await pool.stats()
    assert (stats.granted, stats.released, stats.lapsed) == (11, 11, 0)
    assert (stats.free, stats.waiting) == (1, 0)


@ONE_SERVER
async def test_the_dead_behind_the_head_are_not_counted(world: World) -> None:
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    with children(3, world.driver, world.url, pool.name, ttl=600) as waiters:
        for number, child in enumerate(waiters, 1):
            child.tell("acquire")
            await world.until(lambda n=number: world.waiting(pool) == n, "the child to wait")
        waiters[1].kill()
        waiters[2].kill()
        seen = Pool(world.redis, pool.name)
        await world.until(lambda: seen.stats().waiting == 1, "the dead to be forgotten", timeout=10)
        await held.release()
        waiters[0].hear()
        waiters[0].do("release")


@TWO_SERVERS
async def test_a_grant_that_nobody_read_comes_back_at_its_deadline(world: World) -> None:
    """Its connection lives, but the process is halted: it is granted the resource, and the next one gets it then."""
    pool = world.pool()
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    with children(1, world.driver, world.url, pool.name, ttl=0.5) as (halted,):
        halted.tell("acquire")
        await world.until(lambda: world.waiting(pool) == 1, "the child to wait")
        halted.stop()
        behind = await world.line_up(pool, pool.acquire(ttl=600))
        await held.release()
        stats = await pool.stats()
        assert (stats.leased, stats.waiting) == (1, 1)
        deadline = max(world.raw(pool).leased().values())
        (lease,) = await world.done(behind)
        assert granted_at(lease) >= deadline
        halted.go_on()
        seen = halted.hear()
        assert seen.fence < lease.fence
        lost, remaining, _ = halted.do("state")
        assert (lost, remaining) == (True, 0.0)
        with pytest.raises(LeaseLost):
            halted.do("renew")
        with pytest.raises(LeaseLost):
            halted.do("release")
    assert world.raw(pool).token("r1") == lease.token
    assert deadline_of(lease) == world.raw(pool).leased()["r1"]
    await lease.release()
