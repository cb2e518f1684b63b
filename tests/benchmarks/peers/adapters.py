"""One way to say "take a resource", "give it back" and "wait for one", over relet and over what needs redis-py alone.

Runs in the worker's Python, which for a peer is not that of the benchmark: no imports from the rest of the tests.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any

import redis

BATCH = 5_000
MANY = 250  # leases a call of relet


def batches(ranks: list[int]) -> Iterable[list[int]]:
    for start in range(0, len(ranks), BATCH):
        yield ranks[start : start + BATCH]


class Adapter:
    """A pool of ``size`` resources under a name of its own; ``ttl`` in seconds."""

    def __init__(self, url: str, label: str, size: int, ttl: float) -> None:
        self.url, self.label, self.size, self.ttl = url, label, size, ttl
        self.client = redis.Redis.from_url(url)
        self.prepare()

    def prepare(self) -> None:
        """What every process does before its first pair."""

    def put(self) -> None:
        """Makes the resources, all free."""

    def lease(self, ranks: list[int]) -> None:
        """Leases these, or just as many, in whatever way is quick."""
        raise NotImplementedError

    def take(self) -> Any:
        """What was taken, or None if nothing was free."""
        raise NotImplementedError

    def give(self, held: Any) -> None:
        raise NotImplementedError

    def name(self, held: Any) -> str:
        """The resource; the same for all where the peer only counts."""
        return str(held)

    def wait(self) -> Any:
        """Blocks until the only resource is taken."""
        raise NotImplementedError

    async def task_setup(self) -> None:
        """Prepares ``task_pair``."""
        raise NotImplementedError

    async def task_pair(self) -> None:
        """Takes and gives back in a task of asyncio."""
        raise NotImplementedError

    async def task_end(self) -> None:
        """Closes what ``task_setup`` opened."""
        await self.asyncio_client.aclose()

    def open_asyncio(self) -> Any:
        import redis.asyncio

        self.asyncio_client: Any = redis.asyncio.Redis.from_url(self.url)
        return self.asyncio_client


class Relet(Adapter):
    def prepare(self) -> None:
        from relet import Pool

        self.pool = Pool(self.client, self.label, ttl=self.ttl)

    def put(self) -> None:
        self.pool.add([f"resource-{rank}" for rank in range(self.size)])

    def lease(self, ranks: list[int]) -> None:
        for start in range(0, len(ranks), MANY):
            self.pool.acquire_many(min(MANY, len(ranks) - start), timeout=0)

    def take(self) -> Any:
        return self.pool.try_acquire()

    def give(self, held: Any) -> None:
        held.release()

    def name(self, held: Any) -> str:
        return str(held.resource)

    def wait(self) -> Any:
        return self.pool.acquire()

    async def task_setup(self) -> None:
        from relet import AsyncPool

        self.async_pool = AsyncPool(self.open_asyncio(), self.label, ttl=self.ttl)

    async def task_pair(self) -> None:
        lease = await self.async_pool.acquire(timeout=0)
        await lease.release()


class Bare(Adapter):
    """SPOP and SADD: no deadline, no owner, no order. The limit, not a way to share anything."""

    def put(self) -> None:
        for batch in batches(list(range(self.size))):
            self.client.sadd(self.label, *[f"resource-{rank}" for rank in batch])

    def lease(self, ranks: list[int]) -> None:
        for batch in batches(ranks):
            self.client.srem(self.label, *[f"resource-{rank}" for rank in batch])

    def take(self) -> Any:
        return self.client.spop(self.label)

    def give(self, held: Any) -> None:
        self.client.sadd(self.label, held)

    def name(self, held: Any) -> str:
        return str(held.decode())

    async def task_setup(self) -> None:
        self.open_asyncio()

    async def task_pair(self) -> None:
        held = await self.asyncio_client.spop(self.label)
        await self.asyncio_client.sadd(self.label, held)


class Published(Adapter):
    """A subscriber and a PUBLISH: the least that telling a waiter takes. Knows no pairs."""

    def prepare(self) -> None:
        self.pubsub = self.client.pubsub(ignore_subscribe_messages=True)

    def take(self) -> Any:
        return "nothing"

    def give(self, held: Any) -> None:
        self.client.publish(self.label, held)

    def wait(self) -> Any:
        if not self.pubsub.subscribed:
            self.pubsub.subscribe(self.label)
        while self.pubsub.get_message(timeout=60) is None:
            pass
        return None


class OneEach(Adapter):
    """A lock for each resource, tried in turn from one at random: from the first, all clients would meet there."""

    def key(self, rank: int) -> str:
        return f"{self.label}:resource-{rank}"

    def lock(self, rank: int) -> Any:
        """What was locked, or None."""
        raise NotImplementedError

    def lease(self, ranks: list[int]) -> None:
        for batch in batches(ranks):
            with self.client.pipeline(transaction=False) as pipeline:
                for rank in batch:
                    pipeline.set(self.key(rank), "somebody", ex=int(self.ttl))
                pipeline.execute()
        assert not ranks or self.lock(ranks[0]) is None, "the library does not see what was locked for it"

    def take(self) -> Any:
        start = random.randrange(self.size)
        for rank in range(start, start + self.size):
            held = self.lock(rank % self.size)
            if held is not None:
                return held
        return None


class Naive(OneEach):
    """GET, and if there is nothing, SET. Between the two, anybody may do the same."""

    def prepare(self) -> None:
        self.token = f"{os.getpid()}"

    def lock(self, rank: int) -> Any:
        key = self.key(rank)
        if self.client.get(key) is not None:
            return None
        self.client.set(key, self.token, px=int(self.ttl * 1000))
        return key

    def give(self, held: Any) -> None:
        self.client.delete(held)


class WatchMulti(Adapter):
    """A set of the free, a set of the used, a key with a TTL each; WATCH, MULTI, EXEC, and again if somebody was first.

    Nothing takes back what a crashed client had: that would need another program.
    """

    def prepare(self) -> None:
        self.free, self.used = f"{self.label}:free", f"{self.label}:used"

    def put(self) -> None:
        for batch in batches(list(range(self.size))):
            self.client.sadd(self.free, *[f"resource-{rank}" for rank in batch])

    def lease(self, ranks: list[int]) -> None:
        for batch in batches(ranks):
            names = [f"resource-{rank}" for rank in batch]
            with self.client.pipeline(transaction=False) as pipeline:
                pipeline.srem(self.free, *names)
                pipeline.sadd(self.used, *names)
                for name in names:
                    pipeline.set(f"{self.label}:{name}", "somebody", ex=int(self.ttl))
                pipeline.execute()

    def take(self) -> Any:
        token = os.urandom(16).hex()
        with self.client.pipeline() as pipeline:
            while True:
                pipeline.watch(self.free)
                name: Any = pipeline.srandmember(self.free)
                if name is None:
                    return None
                pipeline.multi()
                pipeline.smove(self.free, self.used, name)
                pipeline.set(f"{self.label}:{name.decode()}", token, px=int(self.ttl * 1000))
                try:
                    pipeline.execute()
                except redis.WatchError:
                    continue
                return name.decode(), token

    def give(self, held: Any) -> None:
        name, token = held
        key = f"{self.label}:{name}"
        with self.client.pipeline() as pipeline:
            while True:
                pipeline.watch(key)
                if pipeline.get(key) != token.encode():
                    raise AssertionError(f"{name} is no longer ours")
                pipeline.multi()
                pipeline.smove(self.used, self.free, name)
                pipeline.delete(key)
                try:
                    pipeline.execute()
                except redis.WatchError:
                    continue
                return

    def name(self, held: Any) -> str:
        return str(held[0])


class RedisLock(OneEach):
    """`redis.lock.Lock` of redis-py."""

    def lock(self, rank: int) -> Any:
        lock = self.client.lock(self.key(rank), timeout=self.ttl, thread_local=False)
        return lock if lock.acquire(blocking=False) else None

    def give(self, held: Any) -> None:
        held.release()

    def name(self, held: Any) -> str:
        return str(held.name)

    def wait(self) -> Any:
        lock = self.client.lock(self.key(0), timeout=self.ttl, thread_local=False)
        lock.acquire(blocking=True)
        return lock

    async def task_setup(self) -> None:
        self.open_asyncio()

    async def task_pair(self) -> None:
        while True:
            lock = self.asyncio_client.lock(self.key(random.randrange(self.size)), timeout=self.ttl, thread_local=False)
            if await lock.acquire(blocking=False):
                await lock.release()
                return
