"""Slots of a cluster move from shard to shard under eight clients: no error reaches a caller, and nothing is lost.

RELET_TESTS_LOAD_S=30    seconds for which they do (default: 2)
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections.abc import Iterator

import pytest

from relet import Pool
from relet.client import close, close_async, connect, connect_async
from relet.clock import monotonic
from tests.helpers import missing, names, unique
from tests.servers import Cluster, Unavailable
from tests.topology.load import LOAD_S, Referee
from tests.waiting.drivers import DRIVERS, Driven, World

CLIENTS = 8
RESOURCES = 4
"""Of each pool: fewer than clients, so that some are always in line."""
POOLS = 2
MOVES = 6
"""At least so many, however short the load."""


@pytest.fixture(scope="module", params=["redis-7.0", "valkey-9.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        one = Cluster.start(request.param)
    except Unavailable as reason:
        missing(str(reason))
    with one:
        yield one
    collect_what_redis_py_lost()


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Round:
    """The load, and what has become of it so far."""

    def __init__(self, cluster: Cluster, slots: list[int]) -> None:
        self.over = False
        self.moves = 0
        self.referees = [Referee() for _ in slots]
        self.turns = [0] * CLIENTS
        self._cluster = cluster
        self._slots = slots

    async def move(self) -> None:
        """Now this slot, now that, to the next shard."""
        ends_at = monotonic() + LOAD_S
        for slot in itertools.cycle(self._slots):
            await asyncio.to_thread(self._move_one, slot)
            self.moves += 1
            if self.moves >= MOVES and monotonic() >= ends_at:
                self.over = True
                return

    def _move_one(self, slot: int) -> None:
        self._cluster.move_slot(slot, (self._cluster.agreed_owner(slot) + 1) % self._cluster.masters)

    async def work(self, number: int, pools: list[Driven]) -> None:
        """Now this pool, now that: waits for a resource, or tries to get one, renews it, and gives it back."""
        for turn in itertools.count(number):
            if self.over:
                return
            pool, referee = pools[turn % POOLS], self.referees[turn % POOLS]
            lease = await (pool.try_acquire(ttl=20) if turn % 5 == 0 else pool.acquire(ttl=20))
            if lease is None:
                continue
            referee.enter(lease)
            if turn % 3 == 0:
                await lease.renew()
                referee.extend(lease)
            self.turns[number] += 1
            referee.leave(lease)
            await lease.release()


def collect_what_redis_py_lost() -> None:
    """Its cluster client for asyncio begins anew after some MOVEDs, and forgets connections that are in use then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_slots_move_under_load(driver: str, cluster: Cluster) -> None:
    async def run() -> None:
        async with World(driver, cluster.url) as world:
            world.cleans_up = False
            clients = [
                connect(cluster.url) if driver == "threads" else await connect_async(cluster.url)
                for _ in range(CLIENTS)
            ]
            called = [unique("moving") for _ in range(POOLS)]
            pools = [[world.pool(name, client) for name in called] for client in clients]
            try:
                for pool in pools[0]:
                    await pool.add(names(RESOURCES))
                slots = [clients[0].keyslot(f"relet:pool:{{{name}}}") for name in called]
                load = Round(cluster, slots)
                workers = [world.start(load.work(number, pools[number])) for number in range(CLIENTS)]
                await asyncio.wait_for(load.move(), LOAD_S + 60)
                await world.done(*workers)  # raises what any of them has met
                for referee in load.referees:
                    referee.check()
                assert min(load.turns) > 0
                for pool in pools[0]:
                    stats = await pool.stats()
                    granted = len(load.referees[called.index(pool.name)].fences)
                    assert (stats.total, stats.free, stats.waiting, stats.lapsed) == (RESOURCES, RESOURCES, 0, 0)
                    assert (stats.granted, stats.released) == (granted, granted)
                print(f"{load.moves} moves, {sum(load.turns)} leases")
            finally:
                for pool in itertools.chain(*pools):
                    await pool.close()
                for client in clients:
                    await close_async(client) if driver == "tasks" else close(client)

    asyncio.run(run())
    collect_what_redis_py_lost()
    with cluster.client() as client:
        for key in client.scan_iter("relet:pool:{moving*}"):
            Pool(client, key.decode().split("{")[1].split("}")[0]).destroy()
        assert list(client.scan_iter("*", target_nodes="primaries")) == []
    collect_what_redis_py_lost()
