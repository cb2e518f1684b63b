"""How far one pool goes: time and memory to fill it, pairs as it grows, and how many can stand in line."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis
import redis.asyncio

from relet import AsyncPool, Pool

from .. import pairs
from ..peers.crew import Peer
from .common import TTL_S, Extent, Section, Table, spread

Say = Callable[[str], None]
MANY = 250
JOIN = 100  # waiters that come at once


def used(client: redis.Redis) -> int:
    info: Any = client.info("memory")
    return int(info["used_memory"])


def growth(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Say) -> Any:  # noqa: ARG001
    """Pools of all sizes on one server at once, so that the rounds of all sizes are interleaved."""
    client.flushall()
    for _ in range(2):  # loads the scripts, which have their own memory
        pool = Pool(client, "first", ttl=TTL_S)
        pool.add("only")
        pool.acquire(timeout=0).release()
        pool.destroy()
    pools = {size: Pool(client, f"growth-{size}", ttl=TTL_S) for size in extent.growth}
    added, free, leased_at, leased = {}, {}, {}, {}
    for size, pool in pools.items():
        before, start = used(client), time.monotonic()
        pool.add([f"resource-{number}" for number in range(size)])
        added[size] = size / (time.monotonic() - start)
        free[size] = (used(client) - before) / size
        pool.try_acquire()
        say(f"{size:,} resources: {added[size]:,.0f} a second added, {free[size]:.0f} bytes each")
    at_free = interleaved(pools, extent)
    for size, pool in pools.items():
        before, start, count = used(client), time.monotonic(), max(1, size * 99 // 100 - 1)
        for taken in range(0, count, MANY):
            pool.acquire_many(min(MANY, count - taken), timeout=0)
        leased_at[size] = count / (time.monotonic() - start)
        leased[size] = free[size] + (used(client) - before) / count
        say(f"{size:,} resources: {leased_at[size]:,.0f} a second leased, {leased[size]:.0f} bytes each")
    at_leased = interleaved(pools, extent)
    server: dict[int, list[float]] = {size: [] for size in pools}
    for _ in range(5):
        for size, pool in pools.items():
            server[size].append(pairs.server_us(client, pair(pool), 200))
    client.flushall()

    smallest = extent.growth[0]
    rows = []
    for size in extent.growth:
        shares = [
            spread([mine / first for mine, first in zip(rates[size], rates[smallest], strict=True)])
            for rates in (at_free, at_leased)
        ]
        rows.append([f"{size:,}", *shares, f"{statistics.median(server[size]):.1f}"])
    head = [
        "resources",
        f"pairs, of the pool of {smallest}: none leased",
        "99 % leased",
        "server µs a pair, 99 % leased",
    ]
    first = Table("one client; all pools on one server, in turns", head, rows)
    head = ["resources", "bytes each: free", "leased", "added a second", "leased a second, 250 a call"]
    rows = [
        [f"{size:,}", f"{free[size]:.0f}", f"{leased[size]:.0f}", f"{added[size]:,.0f}", f"{leased_at[size]:,.0f}"]
        for size in extent.growth
    ]
    second = Table("memory and filling", head, rows)
    notes = [
        "Bytes are of used_memory (INFO), for names of 10 to 15 bytes without attributes; all keys of the pool and the "
        "tracking keys are in it, and what the first pools pay for the log and the hash tables.",
    ]
    plotted = {"none leased": at_free, "99 % leased": at_leased}
    return Section("Growth", [first, second], notes, lambda figure: plot(figure, plotted, free, leased)), {}


def pair(pool: Pool) -> Callable[[], Any]:
    return lambda: pool.acquire(timeout=0).release()


def interleaved(pools: dict[int, Pool], extent: Extent) -> dict[int, list[float]]:
    works: dict[int, Callable[[], Any]] = {size: pair(pool) for size, pool in pools.items()}
    per_round = max(5, int(extent.slot_s * 2000))
    for work in works.values():
        pairs.rate(work, 5)
    rates: dict[int, list[float]] = {size: [] for size in works}
    for _ in range(max(3, extent.rounds * 2)):
        for size, work in works.items():
            rates[size].append(pairs.rate(work, per_round))
    return rates


def plot(figure: Any, plotted: dict[str, Any], free: dict[int, float], leased: dict[int, float]) -> None:
    figure.set_size_inches(10, 3)
    left, right = figure.subplots(1, 2)
    for label, rates in plotted.items():
        left.plot(list(rates), [statistics.median(of) for of in rates.values()], "o-", label=label)
    left.set_ylabel("pairs a second, one client")
    for label, values in (("free", free), ("leased", leased)):
        right.plot(list(values), list(values.values()), "o-", label=label)
    right.set_ylabel("bytes a resource")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel("resources")
        axis.grid(alpha=0.3)
        axis.legend()


def waiters(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Say) -> Any:  # noqa: ARG001
    """One resource that goes through a line of tasks of one process, from hand to hand."""
    rows = []
    for count in extent.waiters:
        client.flushall()
        figures = asyncio.run(line(client, url, count))
        rows.append([f"{count:,}", *figures])
        say(f"{count:,} waiters: {figures}")
    client.flushall()
    head = [
        "waiters",
        "come to stand in line, a second",
        "bytes each (server)",
        "handed on, a second",
        "server µs a hand-off",
    ]
    table = Table("one resource, all waiters tasks of one process", head, rows)
    return Section("Waiters", [table], []), {}


async def line(client: redis.Redis, url: str, count: int) -> list[str]:
    Pool(client, "line").add("only")
    async with redis.asyncio.Redis.from_url(url) as asking:
        pool = AsyncPool(asking, "line", ttl=3600)
        held = await pool.acquire(timeout=0)
        before, start = used(client), time.monotonic()

        async def wait() -> None:
            lease = await pool.acquire()
            await lease.release()

        tasks: list[asyncio.Task[None]] = []
        while len(tasks) < count:  # not all at once: each asks over a connection of its own
            tasks += [asyncio.create_task(wait()) for _ in range(min(JOIN, count - len(tasks)))]
            await in_line(pool, tasks)
        queued = time.monotonic() - start
        memory = (used(client) - before) / count
        client.config_resetstat()
        start = time.monotonic()
        await held.release()
        await asyncio.gather(*tasks)
        served = time.monotonic() - start
        stats: Any = client.info("commandstats")
        us = sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "eval")) / count
    return [f"{count / queued:,.0f}", f"{memory:,.0f}", f"{count / served:,.0f}", f"{us:.0f}"]


async def in_line(pool: AsyncPool, tasks: list[asyncio.Task[None]]) -> None:
    while (await pool.stats()).waiting < len(tasks):
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.001)
