"""One way to write a test of both drivers: every call of a pool or a lease is awaited, whichever driver it has.

A Pool's calls run in threads, an AsyncPool's in the test's own loop. The rest looks the same to the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar

import pytest
import redis
import redis.asyncio

from relet import AsyncPool, Pool
from relet.client import close_async
from tests.conftest import NAMES
from tests.helpers import Raw, unique
from tests.servers import Server

T = TypeVar("T")

DRIVERS = ("threads", "tasks")
ALL_SERVERS = pytest.mark.parametrize("spec", NAMES, indirect=True)
TWO_SERVERS = pytest.mark.parametrize("spec", ["valkey-9.1", "redis-6.2"], indirect=True)
"""The newest and the oldest: where the server matters little and the test takes its time."""
ONE_SERVER = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)
GUARD_S = 60.0
"""Ends a test that hangs; no test is about it."""

Call = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Driven:
    """A pool or a lease whose calls are awaited. What sends nothing (``fence``, ``lost``, …) is as it is."""

    _AT_ONCE = ("remaining",)

    def __init__(self, real: Any, call: Call) -> None:
        self.real = real
        self._call = call

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real, name)
        if not callable(value) or name in self._AT_ONCE:
            return value

        async def call(*args: Any, **options: Any) -> Any:
            return self._driven(await self._call(value, tuple(map(_real, args)), options))

        return call

    def lease(self, *args: Any, **options: Any) -> DrivenBlock:
        return DrivenBlock(self.real.lease(*args, **options), self._call)

    async def listed(self) -> list[Any]:
        """All that ``resources()`` yields."""
        if isinstance(self.real, Pool):
            return list(await self._call(lambda: list(self.real.resources()), (), {}))
        return [info async for info in self.real.resources()]

    def _driven(self, answer: Any) -> Any:
        if isinstance(answer, list):
            return [self._driven(one) for one in answer]
        return Driven(answer, self._call) if hasattr(answer, "fence") else answer


class DrivenBlock:
    """What ``pool.lease()`` returns, for ``async with``."""

    def __init__(self, real: Any, call: Call) -> None:
        self._real = real
        self._call = call
        self._is_async = hasattr(real, "__aenter__")

    async def __aenter__(self) -> Driven:
        enter = self._real.__aenter__ if self._is_async else self._real.__enter__
        return Driven(await self._call(enter, (), {}), self._call)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        leave = self._real.__aexit__ if self._is_async else self._real.__exit__
        await self._call(leave, (kind, error, at), {})


def _real(value: Any) -> Any:
    if isinstance(value, Driven):
        return value.real
    return [_real(one) for one in value] if isinstance(value, list) else value


class World:
    """What a test has to do with: a server, a driver, pools with clients of their own, tasks that run beside it."""

    def __init__(self, driver: str, url: str, threads: int = 128) -> None:
        self.driver = driver
        self.url = url
        self.cleans_up = True
        self._threads = ThreadPoolExecutor(threads, "driven") if driver == "threads" else None
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[Any]] = []
        self._pools: list[Driven] = []

    async def __aenter__(self) -> World:
        self.redis = self._stack.enter_context(redis.Redis.from_url(self.url))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for task in self._tasks:
            if not task.done():
                task.cancel()
        if self.driver == "tasks" and self._tasks:
            await asyncio.wait(self._tasks)
        if self.cleans_up:
            for name, namespace in {(pool.name, pool.namespace) for pool in self._pools}:
                Pool(self.redis, name, namespace=namespace).destroy()
        for pool in self._pools:
            await pool.close()
        await self._stack.aclose()
        if self._threads:
            self._threads.shutdown(wait=kind is None, cancel_futures=True)

    def client(self, **options: Any) -> Any:
        """A client as the driver wants it, closed at the end."""
        if self.driver == "threads":
            return self._stack.enter_context(redis.Redis.from_url(self.url, **options))
        client = redis.asyncio.Redis.from_url(self.url, **options)
        self._stack.push_async_callback(close_async, client)
        return client

    def pool(self, name: str | None = None, client: Any = None, **options: Any) -> Driven:
        """A pool over a client of its own, as another process would have it."""
        kind: Any = Pool if self.driver == "threads" else AsyncPool
        real = kind(self.client() if client is None else client, name or unique("pool"), **options)
        pool = Driven(real, self.call)
        self._pools.append(pool)
        return pool

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._threads is None:
            answer = function(*args, **options)
            return await answer if isinstance(answer, Awaitable) else answer
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **options))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs ``work`` beside the test."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    async def until(self, condition: Callable[[], object], what: str, timeout: float = GUARD_S) -> None:
        """Returns once ``condition()`` is true; fails after ``timeout`` seconds."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout
        while not condition():
            assert loop.time() < ends_at, f"waited in vain for {what}"
            await asyncio.sleep(0.005)

    async def done(self, *tasks: Awaitable[T]) -> list[T]:
        """The results of tasks that must come to an end."""
        return await asyncio.wait_for(asyncio.gather(*tasks), GUARD_S)

    def waiting(self, pool: Driven) -> int:
        """How many are in the line, dead or alive."""
        return int(self.redis.zcard(f"{self.raw(pool).root}:waiters"))

    async def line_up(self, pool: Driven, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts ``work``, which waits for ``pool``, and returns once it is in the line."""
        before = self.waiting(pool)
        task = self.start(work)
        await self.until(lambda: self.waiting(pool) > before or task.done(), "a waiter to be in line")
        assert not task.done(), f"it did not wait: {task}"
        return task

    def raw(self, pool: Driven) -> Raw:
        return Raw(self.redis, pool.real)

    def calls(self) -> int:
        """Scripts that the server has been asked to run so far."""
        stats: Any = self.redis.info("commandstats")
        return sum(stats.get(f"cmdstat_{verb}", {}).get("calls", 0) for verb in ("evalsha", "eval"))

    def connections(self, kind: str | None = None) -> int:
        """Connections to the server, that of this count left out."""
        listed = self.redis.client_list(_type=kind) if kind else self.redis.client_list()
        return sum(one["cmd"] not in ("client", "client|list") for one in listed)


def deadline_of(lease: Driven) -> int:
    """ms on the server's clock."""
    return int(lease.real._grant.deadline_ms)


def granted_at(lease: Driven) -> float:
    """ms on the server's clock: a fence is the server's time in µs, unless two grants fell into one."""
    return float(lease.fence / 1000)


def in_order(leases: Iterable[Driven]) -> bool:
    fences = [lease.fence for lease in leases]
    return fences == sorted(set(fences))


def world_of(driver: str, server: Server, threads: int = 128) -> World:
    return World(driver, server.url, threads)
