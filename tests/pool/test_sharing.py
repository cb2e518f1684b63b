"""How an AsyncPool's tasks ask together, over few of their client's connections and in one write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from relet import AsyncPool, Pool, PoolDamaged
from relet.lane import CONNECTIONS
from relet.sharing import BATCH, sharing_of
from tests.helpers import eventually, unique
from tests.servers import Server


@pytest.fixture
def server(every_server: list[Server]) -> Server:
    return every_server[0]


class Warm:
    """A pool that has been asked once, and the name by which the server knows its connections."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self.pool = AsyncPool(client, name)

    def connections(self, watcher: redis.Redis) -> list[str]:
        listed: Any = watcher.client_list()
        return [one["id"] for one in listed if one["name"] == self.name]

    @property
    def is_at_rest(self) -> bool:
        sharing = self.pool._asker._sharing
        assert sharing is not None
        return not (sharing._carriers or sharing._attentive or sharing._queue)


@asynccontextmanager
async def warm(server: Server, resources: int = 2, **options: Any) -> AsyncIterator[Warm]:
    name = unique("sharing")
    client = redis.asyncio.Redis(port=server.port, client_name=name, **options)
    one = Warm(client, name)
    try:
        await one.pool.add([f"r{number}" for number in range(resources)])
        await one.pool.stats()
        yield one
        await settled(lambda: one.is_at_rest, "the way to be clear")
    finally:
        await client.aclose()
        with server.client() as watcher:
            Pool(watcher, name).destroy()


async def settled(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, condition, what)


def test_a_crowd_of_tasks_has_a_few_of_the_clients_connections(server: Server) -> None:
    async def crowd() -> None:
        async with warm(server, resources=3 * BATCH) as one:
            leases = await asyncio.gather(*(one.pool.acquire(timeout=0) for _ in range(3 * BATCH)))
            assert len({lease.resource for lease in leases}) == 3 * BATCH
            await asyncio.gather(*(lease.release() for lease in leases))
            with server.client() as watcher:
                assert len(one.connections(watcher)) <= CONNECTIONS
            assert (await one.pool.stats()).free == 3 * BATCH

    asyncio.run(crowd())


def test_requests_of_one_moment_go_out_in_one_write(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    original = redis.asyncio.Connection.send_packed_command

    async def counted(self: Any, command: Any, *args: Any, **options: Any) -> None:
        writes.append(b"".join(command).count(b"EVALSHA"))
        await original(self, command, *args, **options)

    async def moment() -> None:
        async with warm(server) as one:
            monkeypatch.setattr(redis.asyncio.Connection, "send_packed_command", counted)
            await asyncio.gather(*(one.pool.try_acquire() for _ in range(20)))
            monkeypatch.undo()

    asyncio.run(moment())
    assert writes == [20]


def test_an_error_is_its_own_requests_alone(server: Server) -> None:
    async def some_fail() -> None:
        async with warm(server) as one, warm(server) as other:
            key = other.pool._requests.keys.root
            with server.client() as watcher:
                watcher.hdel(key, "order")  # damaged
                tasks = [one.pool.try_acquire(), other.pool.try_acquire(), one.pool.try_acquire()]
                # Both pools' requests over the one's connection, as if it were a single pool's.
                other.pool._asker._sharing = one.pool._asker._sharing
                first, failed, second = await asyncio.gather(*tasks, return_exceptions=True)
                assert {first.resource, second.resource} == {"r0", "r1"}  # type: ignore[union-attr]
                assert isinstance(failed, PoolDamaged)
                other.pool._asker._sharing = sharing_of(other.client, other.pool._backend.library)
                watcher.delete(key)

    asyncio.run(some_fail())


@pytest.mark.parametrize("verb", ["acquire", "release", "renew", "stats"])
def test_killed_connections_go_unnoticed(verb: str, server: Server) -> None:
    async def killed() -> None:
        async with warm(server) as one:
            lease = await one.pool.acquire()
            with server.client() as watcher:
                for connection in one.connections(watcher):
                    watcher.client_kill_filter(_id=connection)
            if verb == "acquire":
                await (await one.pool.acquire()).release()
            elif verb == "release":
                await lease.release()
            elif verb == "renew":
                await lease.renew()
            assert (await one.pool.stats()).leased == (0 if verb == "release" else 1)

    asyncio.run(killed())


@pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])
def test_who_is_cancelled_waits_for_the_reply_unless_cancelled_again(second: bool, server: Server) -> None:
    async def cancelled() -> None:
        async with warm(server, socket_timeout=None) as one:
            server.pause()
            try:
                tasks = [asyncio.create_task(one.pool.try_acquire()) for _ in range(2)]
                await settled(lambda: bool(one.pool._asker._sharing._carriers), "somebody to carry them")  # type: ignore[union-attr]
                await asyncio.sleep(0.05)
                tasks[0].cancel()
                await asyncio.sleep(0.05)
                assert not tasks[0].done()
                if second:
                    tasks[0].cancel()
            finally:
                server.resume()
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
            lease = await tasks[1]
            assert lease is not None
            stats = await one.pool.stats()
            if not second:
                assert stats.leased == 1
            await lease.renew()  # which is its own, and no other's reply
            await lease.release()

    asyncio.run(cancelled())


def test_a_silent_server_ends_a_wait_and_leaves_nothing_on_the_way(server: Server) -> None:
    async def silent() -> None:
        async with warm(server, socket_timeout=None) as one:
            held = [await one.pool.acquire(), await one.pool.acquire()]
            server.pause()
            try:
                with pytest.raises(redis.exceptions.TimeoutError):
                    await one.pool.acquire(timeout=0.2)
                await settled(lambda: one.is_at_rest, "the way to be clear again")
            finally:
                server.resume()
            await asyncio.gather(*(lease.release() for lease in held))
            lease = await one.pool.acquire(timeout=30)
            await lease.release()

    asyncio.run(silent())


@pytest.mark.parametrize("retries", [0, 1])
def test_the_clients_own_policy_says_whether_it_is_asked_after_a_timeout(retries: int, server: Server) -> None:
    async def slow() -> None:
        retry = Retry(NoBackoff(), retries, supported_errors=(redis.TimeoutError,))
        async with warm(server, socket_timeout=0.2, retry=retry) as one:
            original, asked = one.client.execute_command, []

            async def noted(*command: Any, **options: Any) -> Any:
                asked.append(command[0])
                return await original(*command, **options)

            one.client.execute_command = noted
            server.pause()
            try:
                with pytest.raises(redis.TimeoutError):
                    await one.pool.try_acquire()
            finally:
                server.resume()
            assert asked == ["EVALSHA"] * retries
            assert (await one.pool.stats()).leased == 1  # what was sent, once or twice, was carried out once

    asyncio.run(slow())


def test_a_client_with_ways_of_its_own_is_asked_itself(server: Server) -> None:
    class Own(redis.asyncio.Redis):
        async def execute_command(self, *args: Any, **options: Any) -> Any:
            seen.append(args)
            return await super().execute_command(*args, **options)

    seen: list[Any] = []

    async def ask() -> None:
        def shares(client: Any) -> bool:
            clients.append(client)
            return sharing_of(client, AsyncPool(client, "p")._backend.library) is not None

        clients: list[Any] = []
        assert shares(redis.asyncio.Redis(port=server.port))
        assert shares(redis.asyncio.Redis(port=server.port, max_connections=16))
        assert shares(redis.asyncio.Redis.from_pool(redis.asyncio.BlockingConnectionPool(port=server.port)))
        assert not shares(redis.asyncio.Redis(port=server.port, max_connections=15))
        assert not shares(redis.asyncio.Redis(port=server.port, single_connection_client=True))
        own = Own(port=server.port)
        assert not shares(own)
        pool = AsyncPool(own, unique("sharing"))
        await pool.add("r")
        await (await pool.acquire()).release()
        await pool.destroy()
        for client in clients:
            await client.aclose()

    asyncio.run(ask())
    assert len(seen) >= 4


def test_a_pool_serves_one_loop_after_the_other(server: Server) -> None:
    name = unique("sharing")
    client: list[Any] = []

    async def use(work: Callable[[AsyncPool], Awaitable[object]]) -> None:
        fresh = redis.asyncio.Redis(port=server.port)
        if not client:
            client.append(fresh)
            client.append(AsyncPool(fresh, name))
        pool = client[1]
        pool._client.connection_pool.reset()  # redis-py's connections are of one loop
        try:
            await pool.stats()
            await work(pool)
        finally:
            await pool._client.aclose()
            await fresh.aclose()

    asyncio.run(use(lambda pool: pool.add("r")))
    asyncio.run(use(lambda pool: pool.try_acquire()))
    asyncio.run(use(lambda pool: pool.destroy()))
