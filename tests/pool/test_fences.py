"""Fences only rise, and stay exact."""

from __future__ import annotations

import pytest
import redis

from relet import LeaseLost, Pool
from tests.helpers import Raw, lease_all, take


def test_fences_rise(pool: Pool) -> None:
    pool.add("r1", "r2")
    fences = []
    for _ in range(20):
        lease = take(pool)
        fences.append(lease.fence)
        lease.release()
    assert fences == sorted(set(fences))


def test_fences_rise_over_the_loss_of_everything(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1")
    first = take(pool)
    client.flushall()
    for call in (first.renew, first.release):
        with pytest.raises(LeaseLost):
            call()
    pool.add("r1")
    second = take(pool)
    with pytest.raises(LeaseLost):
        first.release()
    pool.destroy()
    pool.add("r1")
    third = take(pool)
    assert first.fence < second.fence < third.fence
    with pytest.raises(LeaseLost):
        second.release()
    third.release()


@pytest.mark.parametrize("stored", [2**53 - 1, 2**53, 9007199254740993, 2**62, 2**63 - 5])
def test_large_fences_are_exact(pool: Pool, client: redis.Redis, stored: int) -> None:
    pool.add("r1", "r2", "r3")
    Raw(client, pool).set_fence(stored)
    leases = lease_all(pool, 3)
    assert [lease.fence for lease in leases] == [stored + 1, stored + 2, stored + 3]
    assert [info.fence for info in pool.resources()] == [stored + 1, stored + 2, stored + 3]
    leases[0].release()
    pool._send(pool._requests.release(leases[1].token, leases[1]._grant))
    leases[1].release()  # a resend, told by comparing the fence
    assert pool.stats().free == 2


def test_a_stored_fence_below_the_clock_is_passed_over(pool: Pool, client: redis.Redis) -> None:
    """As after a failover that lost writes."""
    pool.add("r1")
    seconds, micros = client.time()
    Raw(client, pool).set_fence(17)
    assert take(pool).fence >= seconds * 1_000_000 + micros
