"""The wait goes on, whatever becomes of connections, scripts, data and the server; or it ends with the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import valkey

from relet import LeaseLost, Pool, PoolExhausted
from tests.helpers import take
from tests.servers import Server, Spec
from tests.waiting.children import children
from tests.waiting.drivers import ONE_SERVER, TWO_SERVERS, Driven, World, deadline_of, granted_at, in_order


@pytest.fixture
def own(spec: Spec) -> Iterator[Server]:
    """A server of the test's own, which keeps its data."""
    with Server.start(spec, appendonly="yes", appendfsync="always") as server:
        yield server


@pytest.fixture
def world(driver: str, own: Server) -> World:
    world = World(driver, own.url)
    world.cleans_up = False  # the server goes with all it has
    return world


def listening(world: World, pool: Driven) -> bool:
    """Whether everybody in the line has a channel that somebody listens to."""
    raw = world.raw(pool)
    records = [value for field, value in world.redis.hgetall(raw.root).items() if field.startswith(b"w:")]
    channels = {record.split(b" ", 3)[2] for record in records}
    counts: dict[bytes, int] = dict(world.redis.pubsub_numsub(*channels)) if channels else {}
    return len(records) == world.waiting(pool) > 0 and all(counts.values())


async def served_in_turn(world: World, waiters: list[asyncio.Task[Driven]]) -> list[Driven]:
    """Lets each of them have the resource, which somebody just released; in the order in which they are given."""
    leases = []
    for waiter in waiters:
        (lease,) = await world.done(waiter)
        leases.append(lease)
        try:
            await lease.release()
        except redis.ConnectionError:  # its connection was killed too, and a single call says so: it may be sent again
            await lease.release()
    return leases


def kill_listeners(client: redis.Redis) -> None:
    assert client.execute_command("CLIENT", "KILL", "TYPE", "pubsub") >= 1


def kill_all(client: redis.Redis) -> None:
    kill_listeners(client)
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def forget_scripts(client: redis.Redis) -> None:
    client.script_flush()


BLOWS = [kill_listeners, kill_all, forget_scripts]


@TWO_SERVERS
@pytest.mark.parametrize("blow", BLOWS, ids=[blow.__name__ for blow in BLOWS])
async def test_the_wait_goes_on_and_keeps_its_place(blow: Callable[[redis.Redis], None], world: World) -> None:
    pools = [world.pool("p")]
    pools += [world.pool("p") for _ in range(2)]
    await pools[0].add("r1")
    held = await pools[0].acquire(ttl=600)
    waiters = [await world.line_up(pools[0], pools[number % 3].acquire()) for number in range(9)]
    for _ in range(3):
        await asyncio.to_thread(blow, world.redis)
        await world.until(lambda: listening(world, pools[0]), "everybody to listen again")
        assert world.waiting(pools[0]) == 9
    await held.release()
    assert in_order(await served_in_turn(world, waiters))
    stats = await pools[0].stats()
    assert (stats.granted, stats.lapsed, stats.waiting) == (10, 0, 0)


@TWO_SERVERS
@pytest.mark.parametrize("blow", BLOWS, ids=[blow.__name__ for blow in BLOWS])
async def test_a_release_right_after_the_blow(blow: Callable[[redis.Redis], None], world: World) -> None:
    """Nobody listens in that moment; the resource is free then, or whoever asks again has it."""
    pool, other = world.pool("p"), world.pool("p")
    freer = Pool(world.redis, "p")
    freer.add("r1")
    for _ in range(10):
        held = await other.acquire(ttl=600)
        waiter = await world.line_up(pool, pool.acquire(ttl=600))
        await asyncio.to_thread(blow, world.redis)
        freer.release(held.token)  # over the one connection that lives
        await served_in_turn(world, [waiter])
    assert (await pool.stats()).lapsed == 0


@TWO_SERVERS
async def test_the_server_is_restarted_while_twenty_wait(world: World, own: Server) -> None:
    pools = [world.pool("p")]
    pools += [world.pool("p") for _ in range(3)]
    await pools[0].add("r1")
    held = await pools[0].acquire(ttl=600)
    waiters = [await world.line_up(pools[0], pools[number % 4].acquire()) for number in range(20)]
    await asyncio.to_thread(own.kill)
    await asyncio.sleep(0.3)  # some of them ask a server that is not there
    await asyncio.to_thread(own.restart)
    await world.until(lambda: listening(world, pools[0]) and world.waiting(pools[0]) == 20, "all to be back in line")
    await held.release()
    assert in_order(await served_in_turn(world, waiters))
    stats = await pools[0].stats()
    assert (stats.granted, stats.lapsed, stats.waiting) == (21, 0, 0)


@ONE_SERVER
async def test_a_restart_that_forgets_everything(world: World, own: Server) -> None:
    """As after a failover to a replica that had nothing yet: somebody adds the resources anew."""
    pool = world.pool("p")
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    waiters = [await world.line_up(pool, pool.acquire()) for _ in range(5)]
    world.redis.flushall()
    await asyncio.to_thread(own.restart)
    Pool(world.redis, "p").add("r1")

    async def use(waiter: asyncio.Task[Driven]) -> Driven:
        lease = await waiter
        await lease.release()
        return lease

    leases = await world.done(*map(use, waiters))
    assert all(lease.fence > held.fence for lease in leases)
    with pytest.raises(LeaseLost):
        await held.release()


@ONE_SERVER
async def test_all_data_is_flushed_while_three_wait(world: World) -> None:
    pool = world.pool("p")
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    waiters = [await world.line_up(pool, pool.acquire()) for _ in range(3)]
    world.redis.flushall()
    Pool(world.redis, "p").add("r1", "r2", "r3")
    leases = await world.done(*waiters)
    assert sorted(lease.resource for lease in leases) == ["r1", "r2", "r3"]
    assert min(lease.fence for lease in leases) > held.fence


@TWO_SERVERS
async def test_a_server_that_takes_no_writes_for_a_while(world: World) -> None:
    """The deadline falls into that while: whoever waits is served afterwards, or told of it, but never forgotten."""
    pool = world.pool("p")
    holder = Pool(world.redis, "p")
    holder.add("r1")
    held = take(holder, 0.5)
    waiters = [await world.line_up(pool, pool.acquire()) for _ in range(3)]
    world.redis.config_set("min-replicas-to-write", 1)
    await world.until(lambda: held.lost, "the lease to lapse")
    await asyncio.sleep(0.2)  # they look, and are refused
    world.redis.config_set("min-replicas-to-write", 0)
    for waiter in waiters:
        await asyncio.wait([waiter], timeout=15)
        assert waiter.done(), "it is forgotten"
        if waiter.exception() is None:
            await waiter.result().release()
        else:
            assert isinstance(waiter.exception(), redis.ResponseError), waiter.exception()


# -- a server that does not answer -------------------------------------------------------------------------------------


@ONE_SERVER
async def test_a_server_that_stops_ends_a_bounded_wait(world: World, own: Server) -> None:
    """With the client library's own error: nobody knows whether a resource was free."""
    pool = world.pool("p")  # over a client as it comes
    await pool.add("r1")
    await pool.acquire(ttl=600)
    waiters = [await world.line_up(pool, pool.acquire(timeout=3)) for _ in range(5)]
    await asyncio.to_thread(own.pause)
    done, pending = await asyncio.wait(waiters, timeout=30)
    await asyncio.to_thread(own.resume)
    assert not pending
    assert all(isinstance(task.exception(), redis.RedisError) for task in done), [task.exception() for task in done]


@ONE_SERVER
async def test_a_server_that_was_stopped_before(world: World, own: Server) -> None:
    pool = world.pool("p")
    await pool.add("r1")
    await asyncio.to_thread(own.pause)
    waiter = world.start(pool.acquire(timeout=1))
    _, pending = await asyncio.wait([waiter], timeout=30)
    await asyncio.to_thread(own.resume)
    assert not pending
    assert isinstance(waiter.exception(), redis.RedisError), waiter.exception()


@ONE_SERVER
async def test_a_server_that_is_gone_is_an_error_at_once(world: World, own: Server) -> None:
    """Who has never reached it has a wrong address, more likely than not."""
    pool = world.pool("p")
    await asyncio.to_thread(own.kill)
    with pytest.raises(redis.ConnectionError):
        await asyncio.wait_for(pool.acquire(), 30)


@ONE_SERVER
async def test_who_waits_for_ever_waits_out_a_stopped_server(world: World, own: Server) -> None:
    pool = world.pool("p")
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    waiters = [await world.line_up(pool, pool.acquire()) for _ in range(5)]
    await asyncio.to_thread(own.pause)
    _, pending = await asyncio.wait(waiters, timeout=2)
    assert len(pending) == 5
    await asyncio.to_thread(own.resume)
    await world.until(lambda: listening(world, pool), "all to be back in line")
    await held.release()
    assert in_order(await served_in_turn(world, waiters))


def client_of(world: World, library: str, **options: Any) -> Any:
    if library == "redis":
        return world.client(**options)
    if world.driver == "threads":
        return valkey.Valkey.from_url(world.url, **options)
    return valkey.asyncio.Valkey.from_url(world.url, **options)


IMPATIENT = {"socket_timeout": 0.1}
STUBBORN = {"socket_timeout": 0.1, "retry_on_timeout": True}


@ONE_SERVER
@pytest.mark.parametrize(
    ("library", "options"),
    [("redis", {}), ("redis", IMPATIENT), ("redis", STUBBORN), ("valkey", IMPATIENT)],
    ids=["redis-default", "redis-impatient", "redis-stubborn", "valkey-impatient"],
)
async def test_the_clients_timeouts_do_not_end_the_wait(library: str, options: dict[str, Any], world: World) -> None:
    """A wait of half a second is one, and one without an end has none, where the client gives up after a tenth."""
    client = client_of(world, library, **options)
    pool = world.pool("p", client)
    await pool.add("r1")
    held = await pool.acquire(ttl=600)
    without_end = world.start(pool.acquire())
    with pytest.raises(PoolExhausted):
        await pool.acquire(timeout=0.5)
    assert not without_end.done()
    await held.release()
    (lease,) = await world.done(without_end)
    await lease.release()
    if library == "valkey":
        if world.driver == "threads":
            client.close()
        else:
            await client.aclose()


# -- a process that is halted ------------------------------------------------------------------------------------------


@ONE_SERVER
async def test_a_halted_waiter_learns_the_truth(world: World) -> None:
    """It is granted the resource while it stands still, and the lease lapses; the next is served, and it knows then."""
    pool = world.pool("p")
    holder = Pool(world.redis, "p")
    holder.add("r1")
    held = take(holder, 600)
    with children(1, world.driver, world.url, "p", ttl=0.6) as (halted,):
        halted.tell("hold")
        await world.until(lambda: world.waiting(pool) == 1, "the child to wait")
        halted.stop()
        behind = await world.line_up(pool, pool.acquire(ttl=600))
        held.release()
        deadline = world.raw(pool).leased()["r1"]
        (lease,) = await world.done(behind)
        assert granted_at(lease) >= deadline
        halted.go_on()
        seen = halted.hear()
        assert (seen.deadline_ms, seen.fence < lease.fence) == (deadline, True)
        lost, remaining, _ = halted.do("state")
        assert (lost, remaining) == (True, 0.0)
        with pytest.raises(LeaseLost):
            halted.do("renew")
        with pytest.raises(LeaseLost):
            halted.do("leave")
    assert world.raw(pool).token("r1") == lease.token


@TWO_SERVERS
@pytest.mark.parametrize("how", ["at once", "waited"])
async def test_remaining_is_never_more_than_the_server_gives(how: str, world: World) -> None:
    pool, other = world.pool("p"), world.pool("p")
    await pool.add("r1")
    for _ in range(20):
        waiter = None
        if how == "waited":
            held = await other.acquire()
            waiter = await world.line_up(pool, pool.acquire(ttl=5))
            await held.release()
        lease = await waiter if waiter else await pool.acquire(ttl=5)
        for renewed in (False, True):
            if renewed:
                await lease.renew(7)
            said = lease.remaining()
            seconds, micros = world.redis.time()
            assert said <= 7 if renewed else said <= 5
            assert lease.remaining() <= deadline_of(lease) / 1000 - (seconds + micros / 1e6) + 0.001  # ms are rounded
        await lease.release()
