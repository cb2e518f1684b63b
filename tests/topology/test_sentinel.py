"""sentinel:// URLs and clients of a sentinel's master: found, used, and kept through a failover under load."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio.sentinel
import redis.sentinel

from relet import AsyncPool, Pool, ReletError
from relet.client import close, close_async, connect, connect_async
from relet.sentinel import parse
from tests.servers import Server, Spec
from tests.servers.ports import free_port
from tests.topology.sentinels import Sentinels
from tests.waiting.drivers import DRIVERS, Driven, World

servers = pytest.mark.parametrize("spec", ["redis-6.2", "valkey-9.1"], indirect=True)
SECRET, ITS_SECRET = "p@ss/w:rd?&#%", "s3ntinel"
QUOTED = "p%40ss%2Fw%3Ard%3F%26%23%25"


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def watched(spec: Spec) -> Iterator[tuple[Server, Server, Sentinels]]:
    """A master, its replica, and three sentinels."""
    with Server.start(spec) as master, Server.start_replica_of(master) as replica, Sentinels.start(master) as sentinels:
        yield master, replica, sentinels


@contextlib.asynccontextmanager
async def clients(driver: str, make: Callable[[], Any], count: int) -> AsyncIterator[list[Any]]:
    """Clients made by ``make``, closed in the end."""
    made = []
    try:
        for _ in range(count):
            one = await asyncio.to_thread(make) if driver == "threads" else make()
            made.append(await one if asyncio.iscoroutine(one) else one)
        yield made
    finally:
        for one in made:
            manager = one.connection_pool.sentinel_manager
            for each in (one, *getattr(manager, "all_of_them", manager.sentinels)):
                await close_async(each) if driver == "tasks" else close(each)


def by_url(driver: str, sentinels: Sentinels) -> Callable[[], Any]:
    return lambda: connect(sentinels.url) if driver == "threads" else connect_async(sentinels.url)


def handed_in(driver: str, sentinels: Sentinels) -> Callable[[], Any]:
    """As somebody who uses redis-py's own class has it."""
    module: Any = redis.sentinel if driver == "threads" else redis.asyncio.sentinel
    hosts = [("127.0.0.1", port) for port in sentinels.ports]

    def make() -> Any:
        manager = module.Sentinel(hosts, sentinel_kwargs={"socket_timeout": 1})
        manager.all_of_them = list(manager.sentinels)  # asked by several at once, redis-py loses some from its list
        return manager.master_for(sentinels.name)

    return make


class Worker:
    """Acquires, renews and releases over and over; only a release may meet the failover."""

    def __init__(self, pool: Driven) -> None:
        self.pool = pool
        self.fences: list[int] = []
        self.rounds = 0
        self.over = False

    async def run(self) -> None:
        while not self.over:
            lease = await self.pool.acquire(ttl=3)
            self.fences.append(lease.fence)
            with contextlib.suppress(redis.RedisError, ReletError):
                await lease.renew()
                await lease.release()
            self.rounds += 1


@servers
@pytest.mark.parametrize(
    ("way", "blow"),
    [(by_url, "kill"), (by_url, "pause"), (handed_in, "kill")],
    ids=["url-kill", "url-pause", "client-kill"],
)
def test_a_failover_under_load(
    way: Callable[[str, Sentinels], Callable[[], Any]],
    blow: str,
    driver: str,
    watched: tuple[Server, Server, Sentinels],
) -> None:
    master, replica, sentinels = watched

    async def load() -> None:
        async with World(driver, replica.url) as world, clients(driver, way(driver, sentinels), 3) as made:
            world.cleans_up = False
            pools = [world.pool("p", one) for one in made]
            await pools[0].add("r1", "r2")
            renewed = pools[0].lease(ttl=20)
            kept = await renewed.__aenter__()  # one is held and renewed all the while
            await asyncio.to_thread(replica.wait_in_sync, master)
            workers = [Worker(pools[number % 3]) for number in range(6)]
            tasks = [world.start(worker.run()) for worker in workers]
            await world.until(lambda: all(worker.rounds >= 3 for worker in workers), "the load to run")
            await asyncio.to_thread(getattr(master, blow))
            assert await asyncio.to_thread(sentinels.wait_for_failover, master.port) == replica.port
            if blow == "pause":
                await asyncio.to_thread(master.resume)  # which still takes itself for the master
            before = [worker.rounds for worker in workers]
            await world.until(
                lambda: all(worker.rounds >= old + 3 for worker, old in zip(workers, before, strict=True)),
                "everybody to be served by the new master",
            )
            for worker in workers:
                worker.over = True
            await world.done(*tasks)
            fences = [fence for worker in workers for fence in worker.fences] + [kept.fence]
            assert len(fences) == len(set(fences))
            assert not kept.lost
            await kept.renew()
            await renewed.__aexit__(None, None, None)
            stats = Pool(world.redis, "p").stats()
            assert (stats.total, stats.waiting) == (2, 0)

    asyncio.run(load())


@servers
def test_passwords_of_both(driver: str, spec: Spec) -> None:
    with (
        Server.start(spec) as master,
        Sentinels.start(master, count=1, password=ITS_SECRET, master_password=SECRET) as sentinels,
    ):
        with master.client() as client:
            client.config_set("requirepass", SECRET)
        url = f"sentinel://:{QUOTED}@{sentinels.hosts}/mymaster/3?sentinel_password={ITS_SECRET}"
        by_query = f"sentinel://{sentinels.hosts}/mymaster/3?password={QUOTED}&sentinel_password={ITS_SECRET}"

        async def use(url: str, **options: Any) -> None:
            if driver == "tasks":
                async with await AsyncPool.from_url(url, "p", **options) as pool:
                    await pool.add("r1")
                    async with pool.lease(timeout=5) as lease:
                        assert lease.resource == "r1"
            else:
                with Pool.from_url(url, "p", **options) as threads:
                    threads.add("r1")
                    with threads.lease(timeout=5) as held:
                        assert held.resource == "r1"

        asyncio.run(use(url))
        asyncio.run(use(by_query))
        asyncio.run(use(f"sentinel://{sentinels.hosts}/mymaster", password=SECRET, db=3, sentinel_password=ITS_SECRET))
        with redis.Redis(port=master.port, password=SECRET, db=3) as client:
            assert Pool(client, "p").stats().granted == 3
        wrong = url.replace(f"sentinel_password={ITS_SECRET}", "sentinel_password=wr0ng")
        with pytest.raises((redis.ConnectionError, redis.ResponseError)) as caught:
            asyncio.run(use(wrong))
        assert "wr0ng" not in str(caught.value)
        assert SECRET not in str(caught.value)


def test_no_sentinel_is_there(driver: str) -> None:
    port = free_port()
    url = f"sentinel://:{QUOTED}@127.0.0.1:{port}/mymaster?sentinel_password={ITS_SECRET}"

    async def use() -> None:
        if driver == "tasks":
            await AsyncPool.from_url(url, "p")
        else:
            Pool.from_url(url, "p")

    with pytest.raises(redis.ConnectionError, match=rf"no sentinel of 127.0.0.1:{port} knows a master 'mymaster'") as e:
        asyncio.run(use())
    assert ITS_SECRET not in str(e.value)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("sentinel://", "hosts"),
        ("sentinel:///mymaster", "hosts"),
        ("sentinel://:s3cret@/mymaster", "hosts"),
        ("sentinel://:s3cret@host", "name the master"),
        ("sentinel://:s3cret@host/", "name the master"),
        ("sentinel://:s3cret@host,/mymaster", "hosts"),
        ("sentinel://:s3cret@host:x/mymaster", "hosts"),
        ("sentinel://:s3cret@host:99999/mymaster", "hosts"),
        ("sentinel://:s3cret@[::1/mymaster", "hosts"),
        ("sentinel://:s3/cret@host/mymaster", "hosts"),
        ("sentinel://:s3cret@host/mymaster/x", "database"),
        ("sentinel://:s3cret@host/mymaster/1/2", "database"),
        ("sentinel://:s3cret@host/mymaster?socket_timeout=s3cret", "option"),
        ("sentinel://:s3cret@host/mymaster?ssl=s3cret", "ssl"),
    ],
)
def test_a_wrong_url(url: str, what: str) -> None:
    with pytest.raises(ValueError, match=rf"no sentinel URL: .*{what}.*sentinel://\[USER") as caught:
        Pool.from_url(url, "p")
    assert "s3" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_a_url_says() -> None:
    url = (
        "sentinel://me:pw@a,b:1,[::1]:2/my%20master/7?socket_timeout=2.5&sentinel_username=it&sentinel_ssl=true&ssl=no"
    )
    address = parse(url, {"client_name": "x", "sentinel_password": "y"})
    assert address.sentinels == [("a", 26379), ("b", 1), ("::1", 2)]
    assert address.master == "my master"
    assert address.options == {
        "db": 7, "username": "me", "password": "pw", "socket_timeout": 2.5, "ssl": False, "client_name": "x",
    }  # fmt: skip
    its = {key: address.sentinel_options[key] for key in ("username", "password", "ssl")}
    assert its == {"username": "it", "password": "y", "ssl": True}
