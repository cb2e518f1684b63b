"""The least rights, as gears/README.md has them, and a round through everything that needs them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from relet import AsyncPool, Pool, PoolExhausted, pools
from relet.client import close_async
from relet.scripts import gears
from tests.helpers import eventually, lapse

USER, PASSWORD = "relet-user", "a secret"


def documented() -> list[str]:
    """The rights that the README gives, in its order: keys, channels, commands."""
    text = Path(str(gears() / "README.md")).read_text("utf-8")
    section = text.partition("## The least rights")[2].partition("\n## ")[0]
    block = re.search(r"ACL SETUSER .*?(?=\n\n)", section, re.DOTALL)
    assert block, "gears/README.md has no ACL SETUSER in its section on the least rights"
    return re.findall(r"(?<=\s)[~&+]\S+", block[0])


def documented_for_listeners() -> list[str]:
    """The rights that the README gives to listeners on top of those."""
    text = Path(str(gears() / "README.md")).read_text("utf-8")
    sentence = re.search(r"^A user for `relet listen` needs.*?goes by the clock\.", text, re.DOTALL | re.MULTILINE)
    assert sentence, "gears/README.md does not say what a user for `relet listen` needs"
    return re.findall(r"`([~&+]\S+)`", sentence[0])


def grant(admin: redis.Redis, rights: list[str]) -> None:
    """Makes the user anew, with these rights and no other."""
    admin.execute_command("ACL", "DELUSER", USER)
    admin.execute_command("ACL", "SETUSER", USER, "on", f">{PASSWORD}", "resetchannels", *rights)


def whole_round(url: str, name: str) -> None:
    """Everything that a pool for threads does."""
    with Pool.from_url(url, name, username=USER, password=PASSWORD) as pool:
        assert pool.add({"r1": {"size": 1}, "r2": None, "r3": None}) == 3
        assert pool.stats().total == 3
        assert pool.waiters() == []
        first = pool.try_acquire()
        assert first is not None
        first.renew(20)
        first.renew(10)  # shortened, which is remembered
        assert [info.state for info in pool.resources()] == ["leased", "free", "free"]
        assert pool.release(resource="r1", force=True)
        short = pool.acquire(ttl=0.001)
        lapse(short)
        assert pool.reclaim() == 1
        several = pool.acquire_many(3, timeout=0)
        assert pool.remove("r3") == 1
        pool.release_many(several)
        assert pool.add("r3") == 1
        pool.set_order("lru")
        pool.set_order("rank")
        with pool.lease(ttl=5) as lease:
            pool.renew(lease.token)
        held = pool.acquire_many(3, ttl=60)
        try:
            pool.acquire(timeout=0.05)
        except PoolExhausted:
            pass
        else:
            raise AssertionError("there were only three")
        assert pool.release(held[2].token)
        client: Any = pool._client
        assert name in set(pools(client))
        pool.destroy()


def waiting_round(url: str, name: str, admin: redis.Redis) -> None:
    """A grant by hand-off, to a task that waits."""

    async def run() -> None:
        client: Any = redis.asyncio.Redis.from_url(url, username=USER, password=PASSWORD)
        pool = AsyncPool(client, name)
        watch = Pool(admin, name)
        try:
            await pool.add("r1")
            held = await pool.acquire(ttl=60)
            waiter = asyncio.create_task(pool.acquire(ttl=60, timeout=30))
            await asyncio.to_thread(eventually, lambda: watch.stats().waiting == 1 or waiter.done(), "a waiter")
            if not waiter.done():
                assert [one.count for one in await pool.waiters()] == [1]
                await held.release()
            lease = await waiter
            await lease.renew()
            await lease.release()
            await pool.destroy()
        finally:
            await close_async(client)

    asyncio.run(run())
