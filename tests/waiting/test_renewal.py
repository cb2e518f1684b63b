"""Renewing in the background: for as long as the lease is used, and no longer; and what the holder learns."""
# ruff: noqa: PT012 (it is the end of the block that raises)

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

import relet
from relet import LeaseLost, Pool
from tests.helpers import names
from tests.libraries import environment
from tests.servers import Server, Spec
from tests.waiting.children import children
from tests.waiting.drivers import GUARD_S, ONE_SERVER, TWO_SERVERS, World, deadline_of, granted_at

TTL_S = 0.6


def renewers() -> int:
    """Threads or tasks that renew, in this process."""
    threads = sum(thread.name.startswith("relet-renewer") for thread in threading.enumerate())
    return threads + sum("TaskRenewer" in str(task.get_coro()) for task in asyncio.all_tasks())


# -- as long as it is used ---------------------------------------------------------------------------------------------


@ONE_SERVER
async def test_a_lease_lives_much_longer_than_its_ttl(world: World) -> None:
    pool = world.pool(ttl=TTL_S)
    other = Pool(world.redis, pool.name)
    await pool.add("r1")
    async with pool.lease() as lease:
        first, latest = deadline_of(lease), [deadline_of(lease)]

        def on_time() -> bool:
            assert other.try_acquire() is None, "it was free"
            latest.append(deadline_of(lease))
            return latest[-1] > first + 3000 * TTL_S

        await world.until(on_time, "the lease to be renewed")
        assert latest == sorted(latest)
        assert not lease.lost
        assert 0 < lease.remaining() <= TTL_S
        assert other.stats().lapsed == 0
    assert lease.released
    assert other.stats().free == 1


@ONE_SERVER
async def test_without_renewal_it_lapses(world: World) -> None:
    pool = world.pool(ttl=TTL_S / 2)
    await pool.add("r1")
    with pytest.raises(LeaseLost, match="'r1'"):
        async with pool.lease(renew=False) as lease:
            assert renewers() == 0
            await world.until(lambda: lease.lost, "the lease to lapse, as its holder sees it")
            await world.until(lambda: Pool(world.redis, pool.name).stats().lapsed == 1, "the lease to lapse")
    assert lease.remaining() == 0


@ONE_SERVER
async def test_one_call_for_all_and_one_thread_or_task(world: World) -> None:
    pool = world.pool(ttl=TTL_S)
    await pool.add(names(50))
    async with AsyncExitStack() as stack:
        leases = [await stack.enter_async_context(pool.lease()) for _ in range(50)]
        assert renewers() == 1
        before, first = world.calls(), [deadline_of(lease) for lease in leases]
        await world.until(
            lambda: all(deadline_of(lease) > was + 3000 * TTL_S for lease, was in zip(leases, first, strict=True)),
            "all to be renewed",
        )
        # In 3 ttl each is due 9 times; in the beginning some of them at times of their own.
        assert world.calls() - before < 3 * 50
        assert renewers() == 1
    await world.until(lambda: renewers() == 0, "the renewer to end")
    assert (await pool.stats()).free == 50


@ONE_SERVER
async def test_leases_of_different_ttl(world: World) -> None:
    pool = world.pool()
    await pool.add(names(3))
    async with pool.lease(ttl=600) as long, pool.lease(ttl=TTL_S) as short, pool.lease(ttl=2 * TTL_S) as middle:
        until = {id(lease): deadline_of(lease) for lease in (long, short, middle)}
        await world.until(lambda: deadline_of(middle) > until[id(middle)] + 2000 * TTL_S, "the middle one to live on")
        assert deadline_of(short) > until[id(short)] + 2000 * TTL_S
        assert not any(lease.lost for lease in (long, short, middle))
        assert deadline_of(long) == until[id(long)], "it was renewed long before it was due"


@ONE_SERVER
async def test_a_renewal_by_hand_sets_the_pace(world: World) -> None:
    pool = world.pool(ttl=600)
    await pool.add("r1")
    async with pool.lease() as lease:
        await lease.renew(ttl=TTL_S)
        first = deadline_of(lease)
        assert lease.ttl == TTL_S
        await world.until(lambda: deadline_of(lease) > first + 2000 * TTL_S or lease.lost, "it to be renewed")
        assert not lease.lost


# -- and no longer -----------------------------------------------------------------------------------------------------


@ONE_SERVER
async def test_it_ends_with_the_last_release(world: World) -> None:
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1", "r2")
    async with pool.lease() as first:
        async with pool.lease() as second:
            pass
        assert second.released
        assert renewers() == 1
        await first.release()
        await world.until(lambda: renewers() == 0, "the renewer to end")
    async with pool.lease():  # and begins anew
        assert renewers() == 1
    await world.until(lambda: renewers() == 0, "the renewer to end again")


@TWO_SERVERS
async def test_what_nobody_holds_is_not_renewed(world: World) -> None:
    """A lease whose holder forgot it comes back at its deadline."""
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1")
    blocks = [pool.lease()]
    deadline = deadline_of(await blocks[0].__aenter__())
    await world.until(lambda: world.raw(pool).leased()["r1"] > deadline, "it to be renewed once")
    blocks.clear()
    gc.collect()
    await world.until(lambda: renewers() == 0, "the renewer to end")
    taken = await pool.acquire(ttl=600)
    await taken.release()
    assert (await pool.stats()).lapsed == 1


@ONE_SERVER
async def test_a_dropped_pool_leaves_nothing_behind(world: World) -> None:
    name, client = "dropped", world.client()
    pool = world.pool(name, client, ttl=TTL_S)
    await pool.add("r1")
    blocks = [world.pool(name, client, ttl=TTL_S).lease() for _ in range(1)]
    await blocks[0].__aenter__()
    assert renewers() == 1
    world._pools[:] = [pool]
    del blocks
    gc.collect()
    await world.until(lambda: renewers() == 0, "the renewer to end")
    taken = await pool.acquire(ttl=600)
    await taken.release()


def run_python(source: str, url: str, warnings: tuple[str, ...] = ("-W", "error")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *warnings, "-c", textwrap.dedent(source), url],
        env=environment(Path(relet.__file__).parents[1]),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )


EXITING = {
    "threads": """
        import sys, redis, relet
        pool = relet.Pool(redis.Redis.from_url(sys.argv[1]), "exits", ttl=600)
        pool.add("r1", "r2")
        block = pool.lease()
        lease = block.__enter__()
        print("holds", flush=True)
    """,
    "tasks": """
        import asyncio, sys, redis.asyncio, relet
        async def main():
            client = redis.asyncio.Redis.from_url(sys.argv[1])
            pool = relet.AsyncPool(client, "exits", ttl=600)
            await pool.add("r1", "r2")
            block = pool.lease()
            lease = await block.__aenter__()
            print("holds", flush=True)
            await client.aclose()
        asyncio.run(main())
    """,
}


@ONE_SERVER
def test_an_interpreter_that_ends_while_it_holds(driver: str, server: Server) -> None:
    result = run_python(EXITING[driver], server.url)
    with server.client() as client:
        pool = Pool(client, "exits")
        stats = pool.stats()
        pool.destroy()
    assert (result.returncode, result.stdout) == (0, "holds\n"), result.stderr
    assert result.stderr == ""
    assert stats.waiting == 0
    assert stats.leased == 1


# -- trouble -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(spec: Spec) -> Iterator[Server]:
    with Server.start(spec) as server:
        yield server


@pytest.fixture
def own_world(driver: str, own: Server) -> World:
    world = World(driver, own.url)
    world.cleans_up = False
    return world


@ONE_SERVER
async def test_a_server_that_stops_for_less_than_the_ttl(own_world: World, own: Server) -> None:
    async with own_world as world:
        pool = world.pool(ttl=3.5)
        await pool.add("r1")
        told: list[Any] = []
        async with pool.lease(on_lost=told.append) as lease:
            deadline = deadline_of(lease)
            await asyncio.to_thread(own.pause)
            await world.until(lambda: lease.remaining() < 1.8, "renewals to fail")
            await asyncio.to_thread(own.resume)
            await world.until(lambda: deadline_of(lease) > deadline or lease.lost, "the lease to be renewed")
            assert not lease.lost
        assert told == []
        assert (await pool.stats()).lapsed == 0


@ONE_SERVER
async def test_a_server_that_stops_for_more_than_the_ttl(own_world: World, own: Server) -> None:
    async with own_world as world:
        pool = world.pool(ttl=1)
        await pool.add("r1", "r2")
        told: list[Any] = []
        with pytest.raises(LeaseLost):
            async with pool.lease(on_lost=told.append) as lease, pool.lease(on_lost=told.append, ttl=60) as other:
                await asyncio.to_thread(own.pause)
                await world.until(lambda: told, "the holder to be told")
                assert lease.lost
                assert lease.remaining() == 0
                await asyncio.to_thread(own.resume)
                await world.until(world.redis.ping, "the server to answer")
                assert not other.lost
        assert [lost.resource for lost in told] == ["r1"]
        stats = await pool.stats()
        assert (stats.lapsed, stats.free) == (1, 2)


@ONE_SERVER
async def test_a_killed_connection_is_no_loss(world: World) -> None:
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1")
    async with pool.lease() as lease:
        for _ in range(3):
            deadline = deadline_of(lease)
            world.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await world.until(lambda d=deadline: deadline_of(lease) > d or lease.lost, "it to be renewed")
            assert not lease.lost
        if world.driver == "tasks":  # its next call over the client that was cut would be an error of the client's
            await pool.real._client.connection_pool.disconnect()


@ONE_SERVER
async def test_an_error_of_the_server_does_not_end_the_renewing(own_world: World) -> None:
    """It takes no writes for a while: what it refuses is tried again until the deadline."""
    async with own_world as world:
        pool = world.pool(ttl=3)
        await pool.add("r1")
        async with pool.lease() as lease:
            world.redis.config_set("min-replicas-to-write", 1)
            await world.until(lambda: lease.remaining() < 1.5, "a renewal to be refused")
            world.redis.config_set("min-replicas-to-write", 0)
            deadline = deadline_of(lease)
            await world.until(lambda: deadline_of(lease) > deadline or lease.lost, "the lease to be renewed")
            assert not lease.lost
            assert renewers() == 1


@ONE_SERVER
async def test_taken_by_force(world: World) -> None:
    """The holder is told at the next renewal, long before its deadline; only once."""
    pool = world.pool(ttl=3)
    await pool.add("r1", "r2")
    told: list[Any] = []
    async with pool.lease(on_lost=told.append) as other:
        with pytest.raises(LeaseLost, match="'r2'"):
            async with pool.lease(on_lost=told.append) as lease:
                assert (other.resource, lease.resource) == ("r1", "r2")
                await pool.release(resource="r2", force=True)
                await world.until(lambda: told, "the holder to be told")
                assert lease.lost
                assert lease.remaining() == 0
                with pytest.raises(LeaseLost):
                    await lease.renew()
                with pytest.raises(LeaseLost):
                    await lease.release()
        deadline = deadline_of(other)
        await world.until(lambda: deadline_of(other) > deadline, "the other to be renewed")
        assert not other.lost
    assert told == [lease.real]


@ONE_SERVER
async def test_a_callback_that_raises(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the others go on being renewed."""
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1", "r2")
    told = []

    def on_lost(lease: Any) -> None:
        told.append(lease.resource)
        raise ZeroDivisionError("in on_lost")

    async with pool.lease() as other:
        block = pool.lease(on_lost=on_lost)
        lease = await block.__aenter__()
        await pool.release(resource=lease.resource, force=True)
        await world.until(lambda: "in on_lost" in caplog.text, "the error to be logged")
        deadline = deadline_of(other)
        await world.until(lambda: deadline_of(other) > deadline + 2000 * TTL_S, "the other to be renewed")
        with pytest.raises(LeaseLost):
            await block.__aexit__(None, None, None)
    assert told == ["r2"]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in errors] == ["relet"]
    assert any("'r2'" in record.getMessage() and record.levelno == logging.WARNING for record in caplog.records)


@TWO_SERVERS
@pytest.mark.parametrize("driver", ["tasks"])
async def test_a_callback_that_is_a_coroutine(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It may itself use the pool; what it raises is logged."""
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1", "r2")
    told = []

    async def on_lost(lease: Any) -> None:
        told.append((lease.resource, (await pool.stats()).total))
        raise ZeroDivisionError("in on_lost")

    block = pool.lease(on_lost=on_lost)
    await block.__aenter__()
    await pool.release(resource="r1", force=True)
    await world.until(lambda: "in on_lost" in caplog.text, "the error to be logged")
    assert told == [("r1", 2)]
    with pytest.raises(LeaseLost):
        await block.__aexit__(None, None, None)


@TWO_SERVERS
async def test_the_bodys_own_error_is_never_hidden(own_world: World, own: Server) -> None:
    """Not by a lost lease, and not by a server that is gone."""
    async with own_world as world:
        pool = world.pool(ttl=600)
        await pool.add("r1")
        block = pool.lease()
        await block.__aenter__()
        await pool.release(resource="r1", force=True)
        await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)

        block = pool.lease()
        await block.__aenter__()
        await asyncio.to_thread(own.kill)
        await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)

        await asyncio.to_thread(own.restart)
        await pool.add("r1")
        block = pool.lease()
        await block.__aenter__()
        await asyncio.to_thread(own.kill)
        with pytest.raises(redis.ConnectionError):
            await block.__aexit__(None, None, None)


# -- the holder stands still -------------------------------------------------------------------------------------------


@ONE_SERVER
async def test_a_holder_that_was_halted_past_its_deadline(world: World) -> None:
    """Another gets the resource; the first learns of it at its next call; the fences are in order."""
    pool = world.pool(ttl=600)
    await pool.add("r1")
    with children(1, world.driver, world.url, pool.name, ttl=1) as (holder,):
        seen = holder.do("hold")
        waiter = await world.line_up(pool, pool.acquire())
        await world.until(lambda: world.raw(pool).leased()["r1"] > seen.deadline_ms, "it to be renewed")
        assert not waiter.done()
        holder.stop()
        deadline = world.raw(pool).leased()["r1"]
        (lease,) = await world.done(waiter)
        assert granted_at(lease) >= deadline
        assert lease.fence > seen.fence
        holder.go_on()
        lost, remaining, _ = holder.do("state")
        assert (lost, remaining) == (True, 0.0)
        with pytest.raises(LeaseLost):
            holder.do("renew")
        with pytest.raises(LeaseLost):
            holder.do("leave")
        await world.until(lambda: holder.do("state")[2] == ["r1"], "on_lost to be called")
    assert world.raw(pool).token("r1") == lease.token
    await lease.release()


@ONE_SERVER
@pytest.mark.parametrize("driver", ["tasks"])
async def test_a_loop_that_was_blocked_past_the_deadline(world: World) -> None:
    pool = world.pool(ttl=TTL_S)
    await pool.add("r1")
    told: list[Any] = []
    with pytest.raises(LeaseLost):
        async with pool.lease(on_lost=told.append) as lease:
            taken = None
            while taken is None:  # nothing else runs in this loop
                taken = Pool(world.redis, pool.name).try_acquire(ttl=600)
            assert lease.lost
            assert taken.fence > lease.fence
            await world.until(lambda: told, "on_lost to be called")
    taken.release()


FORKING = """
    import os, sys, time, redis, relet
    pool = relet.Pool(redis.Redis.from_url(sys.argv[1]), "forks", ttl=1)
    pool.add("r1", "r2")
    children = []
    with pool.lease() as lease:
        renewer = next(thread for thread in __import__("threading").enumerate() if thread.name == "relet-renewer")
        for how in ("leaves", "sys.exit", "os._exit", "works"):
            child = os.fork()
            if not child:
                break
            children.append(child)
        if not child:
            held = lease._grant.deadline_ms
            if how == "os._exit":
                os._exit(0)
            if how == "sys.exit":
                sys.exit(0)
            time.sleep(1.5)
            assert lease._grant.deadline_ms == held, "the child renewed"
            if how == "works":  # a lease of its own, renewed
                with pool.lease() as own:
                    assert own.resource == "r2"
                    first = own._grant.deadline_ms
                    until = time.monotonic() + 30
                    while own._grant.deadline_ms < first + 2000:
                        assert time.monotonic() < until
                        time.sleep(0.01)
        else:
            for child in children:
                _, status = os.waitpid(child, 0)
                assert status == 0, (child, status)
                assert not lease.lost
                info = {info.name: info for info in pool.resources()}
                assert info["r1"].fence == lease.fence, info
                assert info["r1"].state == "leased", info
            first = lease._grant.deadline_ms
            until = time.monotonic() + 30
            while lease._grant.deadline_ms < first + 2000:
                assert time.monotonic() < until and not lease.lost
                time.sleep(0.01)
    if child:
        stats = pool.stats()
        assert (stats.free, stats.lapsed, stats.released) == (2, 0, 2), stats
        print("parent is well", flush=True)
"""


@ONE_SERVER
def test_forks_of_a_process_that_holds(server: Server) -> None:
    """The parent's lease lives on; a child that leaves the block, or exits in it, frees nothing and renews nothing."""
    result = run_python(FORKING, server.url, ())  # the child's copies of its parent's sockets are not closed
    with server.client() as client:
        Pool(client, "forks").destroy()
    assert (result.returncode, result.stdout) == (0, "parent is well\n"), result.stdout + result.stderr
    assert result.stderr == ""


FORKING_WHILE_BUSY = """
    import os, sys, threading, time, redis, relet
    pool = relet.Pool(redis.Redis.from_url(sys.argv[1]), "busy", ttl=5)
    pool.add("r1")
    held = pool.acquire(ttl=60)
    threads = [threading.Thread(target=pool.acquire, daemon=True) for _ in range(10)]
    threads += [threading.Thread(target=lambda: [pool.stats() for _ in range(3000)], daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    while pool.stats().waiting < 10:
        time.sleep(0.01)
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            try:
                pool.acquire(timeout=0.2)
            except relet.PoolExhausted:
                os._exit(0)
            os._exit(1)
        children.append(child)
    for child in children:
        _, status = os.waitpid(child, 0)
        assert status == 0, status
    assert pool.stats().waiting == 10
    print("all is well", flush=True)
    os._exit(0)
"""


@ONE_SERVER
def test_forks_of_a_process_whose_threads_are_sending(server: Server) -> None:
    """The child can use the pool: no lock or permit of a thread that it has not is missing there."""
    result = run_python(FORKING_WHILE_BUSY, server.url, ())
    with server.client() as client:
        Pool(client, "busy").destroy()
    assert (result.returncode, result.stdout) == (0, "all is well\n"), result.stdout + result.stderr
