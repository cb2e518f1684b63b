"""In which order free resources are handed out, and how that changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relet import Pool, ReletError
from relet.core import CHUNK
from tests.helpers import lapse, lease_all, names, take

MakePool = Callable[..., Pool]


def test_rank_hands_out_the_first_that_was_added(pool: Pool) -> None:
    pool.add("z", "m", "a")
    assert pool.order() == "rank"
    z, m, a = lease_all(pool, 3)
    assert [z.resource, m.resource, a.resource] == ["z", "m", "a"]
    a.release()
    z.release()
    m.release()
    assert [lease.resource for lease in lease_all(pool, 3)] == ["z", "m", "a"]


def test_rank_survives_a_lapse(pool: Pool) -> None:
    pool.add("z", "m", "a")
    lapse(take(pool, 0.02))
    pool.reclaim()
    assert [lease.resource for lease in lease_all(pool, 3)] == ["z", "m", "a"]


def test_lru_hands_out_the_longest_idle(pool: Pool) -> None:
    pool.add("z", order="lru")
    pool.add("m")
    pool.add("a")
    z, m, a = lease_all(pool, 3)
    assert [z.resource, m.resource, a.resource] == ["z", "m", "a"]
    a.release()
    z.release()
    pool.release(resource="m", force=True)
    assert [lease.resource for lease in lease_all(pool, 3)] == ["a", "z", "m"]


def test_lru_counts_a_lapsed_one_as_idle_since_its_deadline(pool: Pool) -> None:
    """Whoever looks first after a lapse must not change who has been idle for longest."""
    pool.add("z", order="lru")
    pool.add("m")
    pool.add("a")
    lapses_first, lapses_next = take(pool, 0.02), take(pool, 0.04)
    last = take(pool)
    lapse(lapses_next)
    assert lapses_first.lost
    last.release()
    assert [lease.resource for lease in lease_all(pool, 3)] == ["z", "m", "a"]


def test_random_hands_out_any(pool: Pool) -> None:
    pool.add(names(40), order="random")
    first = [lease.resource for lease in lease_all(pool, 40)]
    assert sorted(first) == names(40)
    assert first != names(40)
    for resource in first:
        pool.release(resource=resource, force=True)
    again = [lease.resource for lease in lease_all(pool, 40)]
    assert sorted(again) == names(40)
    assert again not in (first, names(40))


def test_random_lapses_come_back_mixed(pool: Pool) -> None:
    pool.add(names(40), order="random")
    leases = lease_all(pool, 40, 0.1)
    for lease in leases:
        lapse(lease)
    assert pool.reclaim() == 40
    again = [lease.resource for lease in lease_all(pool, 40)]
    assert sorted(again) == names(40)
    assert again not in (names(40), [lease.resource for lease in leases])


def test_the_order_is_kept_with_the_pool(pool: Pool, make_pool: MakePool) -> None:
    pool.add("r1", order="lru")
    assert make_pool(name=pool.name, namespace=pool.namespace).order() == "lru"
    assert pool.add("r2", order="lru") == 1
    with pytest.raises(ReletError, match=r"'lru'.*'rank'"):
        pool.add("r3", order="rank")
    assert pool.stats().total == 2


def test_the_order_changes_on_purpose(pool: Pool) -> None:
    with pytest.raises(ReletError, match=pool.name):
        pool.set_order("lru")
    assert pool.stats().total == 0
    many = names(CHUNK + 5)
    pool.add(many)
    held = take(pool)
    pool.set_order("random")
    assert pool.order() == "random"
    mixed = [lease.resource for lease in lease_all(pool, CHUNK + 4)]
    assert sorted(mixed) == many[1:]
    assert mixed != many[1:]
    held.release()
    for name in mixed:
        pool.release(resource=name, force=True)
    pool.set_order("rank")
    assert [lease.resource for lease in lease_all(pool, len(many))] == many


def test_a_lease_taken_under_one_order_returns_under_another(pool: Pool) -> None:
    pool.add("z", "m", "a")
    held = take(pool)
    pool.set_order("lru")
    other = take(pool)
    held.release()
    pool.set_order("rank")
    other.release()
    assert [lease.resource for lease in lease_all(pool, 3)] == ["z", "m", "a"]
