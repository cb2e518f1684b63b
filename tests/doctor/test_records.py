"""A record of one lease is deleted: no call fails for want of it, none tells a lie, and the pool can be destroyed."""

from __future__ import annotations

import pytest
import redis

from relet import Lease, LeaseLost, Pool, PoolDamaged
from relet.names import new_token
from tests.doctor.pools import examined, mended, mixed, sound
from tests.helpers import Raw, lapse, take

pytestmark = pytest.mark.parametrize("spec", ["redis-6.2", "valkey-9.1"], indirect=True)

RECORDS = ["r:", "t:"]


def lose(client: redis.Redis, pool: Pool, lease: Lease, kind: str) -> None:
    name = lease.resource if kind == "r:" else lease.token
    assert client.hdel(Raw(client, pool).root, kind + name) == 1


@pytest.mark.parametrize("kind", RECORDS)
def test_it_can_be_destroyed(pool: Pool, client: redis.Redis, kind: str) -> None:
    """Every lease of the pool has lost it."""
    state = mixed(pool)
    for lease in state.live:
        lose(client, pool, lease, kind)
    pool.destroy()
    assert client.keys(f"{pool.namespace}:*") == []


def test_a_resend_is_told_that_the_pool_is_damaged(pool: Pool, client: redis.Redis) -> None:
    """Its fence is known to nobody: neither a second lease nor one without a fence is granted."""
    pool.add("r1", "r2")
    token = new_token()
    asked = [
        pool._requests.acquire(token, 60_000, b"me"),
        pool._requests.acquire_many(token, 60_000, b"me", 1),
        pool._requests.leave(token, 1, keep=True),
        pool._requests.clean(token, 60_000, b"me"),
    ]
    assert pool._send(asked[0]) is not None
    client.hdel(Raw(client, pool).root, "r:r1")
    for request in asked:
        with pytest.raises(PoolDamaged, match="lacks r:r1"):
            pool._send(request)
    _, (state,) = pool._send(pool._requests.attend([(token, 1)]))
    assert state is False, "a waiter asks again, and is told then"
    assert (pool.stats().free, pool.stats().leased) == (1, 1)
    assert mended(pool)
    sound(pool)
    grant = pool._send(asked[0])
    assert grant is not None
    assert grant.resource == "r1"


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("end", ["release", "by token", "lapse", "force", "quarantine", "give up"])
def test_the_lease_ends_and_the_resource_is_there(pool: Pool, client: redis.Redis, kind: str, end: str) -> None:
    """Whatever is lost, it lapses at the latest; nothing is free twice, and a repair leaves the pool sound."""
    pool.add("r1", "r2")
    lease = take(pool, 0.5)
    lose(client, pool, lease, kind)
    assert examined(pool)
    try:
        if end == "release":
            lease.release()
        elif end == "by token":
            pool.release(lease.token)
        elif end == "force":
            assert pool.release(resource="r1", force=True)
        elif end == "quarantine":
            lease.release(quarantine="mud")
        elif end == "give up":
            pool._send(pool._requests.leave(lease.token, 1, keep=False))
    except LeaseLost:
        assert kind == "t:"
    lapse(lease)
    pool.reclaim()
    mended(pool)
    sound(pool)
    pool.restore("r1", "r2")
    assert {take(pool).resource for _ in range(2)} == {"r1", "r2"}
    assert pool.try_acquire() is None
