"""The same over other libraries, each in an environment of its own. See adapters.py."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from adapters import Adapter, OneEach, batches


class PythonRedisLock(OneEach):
    """`redis_lock.Lock` of python-redis-lock; its expiry is in whole seconds."""

    def prepare(self) -> None:
        import logging

        logging.getLogger("redis_lock.acquire").setLevel(logging.ERROR)  # it warns of every lock that is taken

    def key(self, rank: int) -> str:
        return f"lock:{super().key(rank)}"

    def made(self, rank: int) -> Any:
        import redis_lock

        return redis_lock.Lock(self.client, super().key(rank), expire=max(1, int(self.ttl)))

    def lock(self, rank: int) -> Any:
        lock = self.made(rank)
        return (rank, lock) if lock.acquire(blocking=False) else None

    def give(self, held: Any) -> None:
        held[1].release()

    def name(self, held: Any) -> str:
        return str(held[0])

    def wait(self) -> Any:
        lock = self.made(0)
        lock.acquire()
        return 0, lock


class Redlock(OneEach):
    """`pottery.Redlock` over the one server."""

    def key(self, rank: int) -> str:
        return f"redlock:{super().key(rank)}"

    def made(self, rank: int) -> Any:
        from pottery import Redlock as Lock

        return Lock(key=super().key(rank), masters={self.client}, auto_release_time=self.ttl)

    def lock(self, rank: int) -> Any:
        lock = self.made(rank)
        return (rank, lock) if lock.acquire(blocking=False) else None

    def give(self, held: Any) -> None:
        held[1].release()

    def name(self, held: Any) -> str:
        return str(held[0])

    def wait(self) -> Any:
        lock = self.made(0)
        lock.acquire()
        return 0, lock


class PyRedisSemaphore(Adapter):
    """`redis_semaphore.Semaphore` of py-redis-semaphore: so many at a time, without saying which one you have."""

    def made(self) -> Any:
        from redis_semaphore import Semaphore, SemaphoreConfig

        return Semaphore(self.client, SemaphoreConfig(name=self.label, limit=self.size, lock_timeout=self.ttl))

    def lease(self, ranks: list[int]) -> None:
        owners, until = f"semaphore:{self.label}:owners", int((time.time() + self.ttl) * 1000)
        for batch in batches(ranks):
            self.client.zadd(owners, {f"somebody-{rank}": until for rank in batch})
        if ranks:
            assert self.made().status().used_slots >= len(ranks), "the library does not see what was taken for it"

    def take(self) -> Any:
        semaphore = self.made()
        return semaphore if semaphore.acquire(blocking=False).success else None

    def give(self, held: Any) -> None:
        held.release()

    def name(self, held: Any) -> str:  # noqa: ARG002
        return "any"

    def wait(self) -> Any:
        semaphore = self.made()
        semaphore.acquire()
        return semaphore


class RedisSemaphore(Adapter):
    """`redis_semaphore.Semaphore` of Redis-Semaphore: hands out numbers, which can stand for names.

    With a `stale_client_timeout` each acquire looks at all that are taken, and asks for the time for each of them.
    """

    stale = True

    def prepare(self) -> None:
        from redis_semaphore import NotAvailable, Semaphore

        self.not_available = NotAvailable
        stale = self.ttl if self.stale else None
        self.semaphore = Semaphore(self.client, self.size, self.label, stale_client_timeout=stale, blocking=False)
        self.waiting = Semaphore(self.client, self.size, self.label, stale_client_timeout=stale, blocking=True)

    def put(self) -> None:
        self.give(self.take())

    def lease(self, ranks: list[int]) -> None:
        available, grabbed = self.semaphore.available_key, self.semaphore.grabbed_key
        for batch in batches(ranks):
            numbers: Any = self.client.lpop(available, len(batch))
            self.client.hset(grabbed, mapping=dict.fromkeys(numbers, time.time()))

    def take(self) -> Any:
        try:
            self.semaphore.acquire()
        except self.not_available:
            return None
        return self.semaphore

    def give(self, held: Any) -> None:
        held.release()

    def name(self, held: Any) -> str:
        return str(held._local_tokens[-1].decode())

    def wait(self) -> Any:
        self.waiting.acquire()
        return self.waiting


class RedisSemaphoreNoTimeout(RedisSemaphore):
    """The same without `stale_client_timeout`: what a crashed client had never comes back."""

    stale = False


class CredentialPool(Adapter):
    """`RedisCredentialPool` of credential-pool-sdk: asyncio only; what lapsed comes back by a call for it."""

    def prepare(self) -> None:
        from credential_pool_sdk import RedisCredentialPool

        self.loop = asyncio.new_event_loop()
        self.pool = RedisCredentialPool.from_url(self.url, self.label)

    def put(self) -> None:
        from credential_pool_sdk import CredentialItem

        for batch in batches(list(range(self.size))):
            items = [CredentialItem(key=f"resource-{rank}", value="x", kind="any") for rank in batch]
            self.loop.run_until_complete(self.pool.add_many(items))

    def lease(self, ranks: list[int]) -> None:
        until = int(time.time() + self.ttl)
        for batch in batches(ranks):
            names = [f"resource-{rank}" for rank in batch]
            self.client.srem(self.pool.available_key, *names)
            self.client.hset(self.pool.lease_owner_key, mapping=dict.fromkeys(names, "somebody"))
            self.client.zadd(self.pool.lease_expiry_key, dict.fromkeys(names, until))

    async def taken(self, pool: Any) -> Any:
        return await pool.acquire_available("me", lease_ttl=int(self.ttl))

    def take(self) -> Any:
        return self.loop.run_until_complete(self.taken(self.pool))

    def give(self, held: Any) -> None:
        self.loop.run_until_complete(self.pool.release(held.key, "me"))

    def name(self, held: Any) -> str:
        return str(held.key)

    def pairs(self, until: float) -> int:
        """As a program of asyncio would: in one loop that runs."""

        async def run() -> int:
            done = 0
            while time.monotonic() < until or not done:
                held = await self.taken(self.pool)
                await self.pool.release(held.key, "me")
                done += 1
            return done

        return self.loop.run_until_complete(run())

    async def task_setup(self) -> None:
        from credential_pool_sdk import RedisCredentialPool

        self.task_pool = RedisCredentialPool.from_url(self.url, self.label)
        self.asyncio_client = self.task_pool.redis

    async def task_pair(self) -> None:
        held = await self.taken(self.task_pool)
        await self.task_pool.release(held.key, "me")
