"""Resources that are removed, leased or not, and those that come back."""

from __future__ import annotations

import pytest

from relet import LeaseLost, Pool, ResourceUnknown, Stats
from tests.helpers import lapse, lease_all, take


def state(pool: Pool) -> dict[str, str]:
    return {info.name: info.state for info in pool.resources()}


def test_a_leased_resource_that_is_removed_goes_when_it_comes_back(pool: Pool) -> None:
    pool.add({"r1": {"a": 1}}, "r2")
    lease = take(pool)
    assert pool.remove("r1", "nobody") == 1
    assert pool.remove("r1") == 0, "it is marked already"
    assert pool.stats() == Stats(2, 1, 1, 0, 0, 1, 0, 0)
    assert state(pool) == {"r1": "leased", "r2": "free"}
    lease.renew()
    lease.release()
    assert state(pool) == {"r2": "free"}
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 1, 0)
    with pytest.raises(ResourceUnknown):
        pool.release(resource="r1", force=True)


@pytest.mark.parametrize("is_reclaimed", [False, True])
def test_a_removed_resource_that_lapses_is_gone_at_once(pool: Pool, is_reclaimed: bool) -> None:
    pool.add("r1", "r2")
    lease = take(pool, 0.05)
    assert pool.remove("r1") == 1
    lapse(lease)
    if is_reclaimed:
        assert pool.reclaim() == 1
    assert state(pool) == {"r2": "free"}
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 0, 1)
    assert take(pool).resource == "r2"
    assert pool.try_acquire() is None


@pytest.mark.parametrize("is_reclaimed", [False, True])
def test_a_removed_resource_that_lapsed_is_new_when_it_is_added_again(pool: Pool, is_reclaimed: bool) -> None:
    """It was gone, and what it finds must not hang on whether somebody looked meanwhile."""
    pool.add({"r1": {"a": 1}}, "r2")
    lease = take(pool, 0.05)
    pool.remove("r1")
    lapse(lease)
    if is_reclaimed:
        pool.reclaim()
    assert pool.add("r1") == 1
    assert [(info.name, info.attributes) for info in pool.resources()] == [("r2", {}), ("r1", {})]
    assert [lease.resource for lease in lease_all(pool, 2)] == ["r2", "r1"]


def test_a_removed_resource_that_is_renewed_stays_until_the_new_deadline(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool, 0.05)
    pool.remove("r1")
    first_end = lease.remaining()
    lease.renew(60)
    assert lease.remaining() > first_end
    probe = pool.add("r2") and take(pool, 0.06)
    lapse(probe)
    assert state(pool) == {"r1": "leased", "r2": "free"}
    assert pool.stats().total == 2
    lease.release()
    assert state(pool) == {"r2": "free"}


def test_a_removed_resource_can_stay_after_all(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    pool.remove("r1")
    assert pool.add("r1") == 1
    assert pool.add("r1") == 0
    lease.release()
    assert state(pool) == {"r1": "free"}


def test_force_lets_a_removed_resource_go(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    pool.remove("r1")
    assert pool.release(resource="r1", force=True) is True
    assert pool.stats().total == 0
    with pytest.raises(LeaseLost):
        lease.release()


def test_removing_a_lapsed_one_removes_it_now(pool: Pool) -> None:
    pool.add("r1")
    lapse(take(pool, 0.02))
    assert pool.remove("r1") == 1
    assert pool.stats() == Stats(0, 0, 0, 0, 0, 1, 0, 1)
