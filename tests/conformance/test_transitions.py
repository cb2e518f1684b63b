"""What becomes of resources by calls alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from relet import LeaseLost, Pool, PoolExhausted, Stats, pools
from tests.conformance.place import Place
from tests.helpers import eventually, lease_all, names, take


def states(pool: Pool) -> dict[str, str]:
    return {info.name: info.state for info in pool.resources()}


def test_add_and_remove(pool: Pool) -> None:
    assert pool.add("r1", {"r2": {"size": 2}}, ["r3", "r4"]) == 4
    assert pool.add("r1", "r2") == 0
    held = take(pool)
    assert pool.remove("r1", "r3", "nobody") == 2
    assert states(pool) == {"r1": "leased", "r2": "free", "r4": "free"}
    held.release()
    assert states(pool) == {"r2": "free", "r4": "free"}
    second = take(pool)
    assert (second.resource, second.attributes) == ("r2", {"size": 2})
    assert pool.remove("r2") == 1
    assert pool.add("r2") == 1, "it stays after all"
    second.release()
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 2, 0)


def test_acquire_first_come_first_served(pool: Pool, place: Place) -> None:
    assert place.same(pool).add("r1", "r2", "r3") == 3
    first, second = lease_all(pool, 2)
    third = place.same(pool).acquire(timeout=0)
    assert [lease.resource for lease in (first, second, third)] == ["r1", "r2", "r3"]
    assert first.fence < second.fence < third.fence
    assert pool.try_acquire() is None
    with pytest.raises(PoolExhausted):
        pool.acquire(timeout=0)
    with pytest.raises(PoolExhausted):
        pool.acquire(timeout=0.05)
    assert pool.name in set(pools(place.client))
    second.release()
    fourth = take(pool)
    assert (fourth.resource, fourth.fence > third.fence) == ("r2", True)


def test_many_or_none(pool: Pool) -> None:
    pool.add(names(5))
    three = pool.acquire_many(3, timeout=0)
    assert [lease.resource for lease in three] == names(3)
    with pytest.raises(PoolExhausted):
        pool.acquire_many(3, timeout=0)
    assert pool.stats().free == 2
    pool.release_many(three)
    assert pool.stats() == Stats(5, 5, 0, 0, 0, 3, 3, 0)


def test_renew(pool: Pool, place: Place) -> None:
    pool.add("r1")
    lease = take(pool, 5)
    lease.renew(600)
    assert 590 < lease.remaining() <= 600
    place.same(pool).renew(lease.token, 60)
    (info,) = pool.resources()
    assert info.remaining is not None
    assert 50 < info.remaining <= 60
    with pytest.raises(LeaseLost):
        pool.renew("0" * 32)
    lease.release()


def test_release(pool: Pool, place: Place) -> None:
    pool.add("r1")
    lease = take(pool)
    lease.release()
    lease.release()  # does nothing more
    lease = take(pool)
    assert place.same(pool).release(lease.token)
    after = take(pool)
    for late in (lease.renew, lambda: pool.renew(lease.token), lambda: pool.release("0" * 32)):
        with pytest.raises(LeaseLost):
            late()
    after.renew()
    after.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 3, 3, 0)


def test_force(pool: Pool) -> None:
    pool.add("r1", "r2")
    lease = take(pool)
    assert pool.release(resource="r1", force=True) is True
    assert pool.release(resource="r2", force=True) is False
    after = take(pool)
    assert (after.resource, after.fence > lease.fence) == ("r1", True)
    with pytest.raises(LeaseLost):
        lease.release()
    after.release()
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 2, 0)


def test_stats_and_resources(pool: Pool) -> None:
    assert pool.stats() == Stats(0, 0, 0, 0, 0, 0, 0, 0)
    pool.add("r1", {"r2": {"size": 2}})
    lease = take(pool, owner="ann")
    assert pool.stats() == Stats(2, 1, 1, 0, 0, 1, 0, 0)
    held, free = pool.resources()
    assert (held.name, held.state, held.owner, held.fence) == ("r1", "leased", "ann", lease.fence)
    assert (free.name, free.state, free.attributes, free.fence) == ("r2", "free", {"size": 2}, None)
    lease.release()


def test_orders(pool: Pool) -> None:
    pool.add("r1", "r2", "r3", order="lru")
    first, second = lease_all(pool, 2)
    second.release()
    first.release()
    assert [take(pool).resource for _ in range(3)] == ["r3", "r2", "r1"]
    pool.set_order("rank")
    assert pool.order() == "rank"


def in_line(place: Place, pool: Pool, acquire: Callable[[Pool], object]) -> tuple[threading.Thread, list[object]]:
    """Somebody else's thread, which waits, and what it gets."""
    got: list[object] = []
    before = pool.stats().waiting

    def wait() -> None:
        with place.same(pool) as own:
            got.append(acquire(own))

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: pool.stats().waiting > before, "a waiter to be in line")
    return thread, got


def test_a_release_goes_to_the_first_in_line(pool: Pool, place: Place) -> None:
    pool.add("r1", "r2")
    held = lease_all(pool, 2)
    several, both = in_line(place, pool, lambda own: own.acquire_many(2, 60, timeout=30))
    single, one = in_line(place, pool, lambda own: own.acquire(60, timeout=30))
    assert [one.count for one in pool.waiters()] == [2, 1]
    held[0].release()
    held[1].release()
    several.join()
    assert pool.stats().waiting == 1, "who wants several was not passed over"
    assert [one.count for one in place.same(pool).waiters()] == [1]
    pool.release_many(both[0])  # type: ignore[arg-type]
    single.join()
    assert one[0].resource == "r1"  # type: ignore[attr-defined]
    assert pool.stats() == Stats(2, 1, 1, 0, 0, 5, 4, 0)
