"""Under the rights that gears/README.md gives all works; with one fewer the error names it, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from relet import AsyncPool, Pool, ReletError, pools
from relet.client import close_async
from tests.helpers import Raw, unique
from tests.servers import Server
from tests.topology.rights import PASSWORD, USER, documented, grant, waiting_round, whole_round

PLAIN = ["redis-6.2", "redis-7.0", "redis-8.2", "valkey-9.1"]
RIGHTS = documented()
OUTSIDE = {"+eval", "+evalsha", "+subscribe", "+info", "+scan"}
"""Commands that are sent by themselves; the server names the one that it refuses. The others are called by scripts."""

pytestmark = pytest.mark.parametrize("spec", PLAIN, indirect=True)


@pytest.fixture
def admin(server: Server) -> Iterator[redis.Redis]:
    with server.client() as client:
        yield client
        for name in list(pools(client)):
            Pool(client, name).destroy()
        client.execute_command("ACL", "DELUSER", USER)


def test_everything_works_under_them(server: Server, admin: redis.Redis) -> None:
    grant(admin, RIGHTS)
    whole_round(server.url, unique("acl"))
    waiting_round(server.url, unique("acl"), admin)


@pytest.mark.parametrize("right", RIGHTS)
def test_one_right_fewer(right: str, server: Server, admin: redis.Redis) -> None:
    """The scripts are known to the server, so that nothing fails for being sent whole."""
    name = unique("acl")
    pool = Pool(admin, name)
    pool.add("r1", "r2", "r3")
    held = pool.acquire(ttl=60)
    grant(admin, [one for one in RIGHTS if one != right])
    if right == "+eval":
        admin.script_flush()
    error = refusal(server.url, name, admin)
    assert named(right, str(error), name)
    raw = Raw(admin, pool)
    if right not in OUTSIDE:
        assert set(raw.free()) == {"r2", "r3"}
        assert set(raw.leased()) == {"r1"}
    assert set(raw.free()) | set(raw.leased()) == {"r1", "r2", "r3"}
    assert not set(raw.free()) & set(raw.leased())
    assert pool.stats().total == 3, "and the pool is not damaged"
    if right not in OUTSIDE:
        held.release()


def refusal(url: str, name: str, admin: redis.Redis) -> Exception:
    """What whoever goes through everything meets."""
    try:
        with Pool.from_url(url, name, username=USER, password=PASSWORD) as pool:
            lease = pool.try_acquire()
            assert lease is not None
            lease.release()
        whole_round(url, unique("acl"))
        waiting_round(url, unique("acl"), admin)
    except (redis.RedisError, ReletError) as error:
        return error
    raise AssertionError("nothing was refused")


def named(right: str, text: str, name: str) -> bool:
    """Whether an error's text says which right is missing: relet's own words, or the server's."""
    if right[0] == "~":
        return f"~relet:pool:{{{name}}}:" in text or "one of the keys" in text or "access a key" in text
    if right[0] == "&":
        return f"&relet:wake:{{{name}}}:" in text
    return right in text if right not in OUTSIDE else f"'{right[1:]}'" in text


@pytest.mark.parametrize("pattern", ["~relet:pool:*", "~relet:lease:*"])
def test_keys_of_one_kind_alone(pattern: str, server: Server, admin: redis.Redis) -> None:
    pool = Pool(admin, unique("acl"))
    pool.add("r1")
    grant(admin, [pattern if one == "~relet:*" else one for one in RIGHTS])
    with redis.Redis.from_url(server.url, username=USER, password=PASSWORD) as client:
        if pattern == "~relet:pool:*":
            with pytest.raises(redis.ResponseError, match=r"lacks ~relet:lease:\{acl-\d+\}:"):
                Pool(client, pool.name).try_acquire()
        else:
            with pytest.raises(redis.ResponseError, match=r"one of the keys|access a key"):
                Pool(client, pool.name).try_acquire()
    assert set(Raw(admin, pool).free()) == {"r1"}


def test_a_right_that_is_taken_away_later(server: Server, admin: redis.Redis) -> None:
    """After an error the next call looks at the rights again."""
    pool = Pool(admin, unique("acl"))
    pool.add("r1", "r2")
    grant(admin, RIGHTS)
    with redis.Redis.from_url(server.url, username=USER, password=PASSWORD) as client:
        mine = Pool(client, pool.name)
        lease = mine.acquire(ttl=60)
        grant(admin, [one for one in RIGHTS if one != "+hget"])
        for _ in range(3):
            with pytest.raises(redis.RedisError):
                mine.add("r3")
        client.connection_pool.disconnect()
        with pytest.raises(redis.ResponseError, match=r"lacks \+hget"):
            mine.try_acquire()
        grant(admin, RIGHTS)
        client.connection_pool.disconnect()
        lease.release()


def test_tasks_are_told_as_well(server: Server, admin: redis.Redis) -> None:
    pool = Pool(admin, unique("acl"))
    pool.add("r1")
    grant(admin, [one for one in RIGHTS if one not in ("+zadd", "&relet:wake:*")])

    async def run() -> None:
        client = redis.asyncio.Redis.from_url(server.url, username=USER, password=PASSWORD)
        try:
            mine = AsyncPool(client, pool.name)
            for call in (mine.try_acquire, mine.acquire):
                with pytest.raises(redis.ResponseError, match=r"lacks \+zadd &relet:wake:\{"):
                    await call()
        finally:
            await close_async(client)

    asyncio.run(run())
    assert set(Raw(admin, pool).free()) == {"r1"}
