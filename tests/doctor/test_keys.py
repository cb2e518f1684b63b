"""Each key of a pool is deleted in turn: no call tells a lie, the doctor names the key, a repair mends the pool."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from relet import Lease, LeaseLost, Pool, PoolDamaged
from tests.doctor.pools import KEYS, SIZE, Mixed, all_once, examined, mended, mixed, root_of, sound, texts
from tests.helpers import Raw, lapse, take

pytestmark = pytest.mark.parametrize("spec", ["redis-6.2", "valkey-9.1"], indirect=True)

UNSEEN = (":ended",)
"""It goes by itself when nothing is left to remember: that it was deleted does not show."""


@pytest.mark.parametrize("order", ["rank", "lru", "random"])
@pytest.mark.parametrize("key", KEYS)
def test_named_and_mended(pool: Pool, client: redis.Redis, key: str, order: str) -> None:
    state = mixed(pool, order)
    before = {info.name: (info.state, info.mark) for info in pool.resources()}
    attributes = {info.name: info.attributes for info in pool.resources()}
    assert examined(pool) == []
    assert client.delete(root_of(pool, client) + key) == 1
    if key not in UNSEEN:
        found = texts(examined(pool))
        assert "--repair" in found
        assert (key[1:] or root_of(pool, client)) in found or key in (":free", ":leased", ":quarantined"), found
        if key in (":free", ":leased", ":quarantined"):
            assert "neither free, leased nor quarantined" in found
    assert mended(pool) or key in UNSEEN
    sound(pool)
    assert pool.order() == order
    assert {info.name: (info.state, info.mark) for info in pool.resources()} == before
    if key != ":attributes":
        assert {info.name: info.attributes for info in pool.resources()} == attributes
    for lease in state.live:
        lease.renew(50)
    state.leaving.release()
    state.held.release()
    all_once(pool, [state.plain, *state.others], SIZE - 1)
    state.plain.release()
    assert take(pool).resource == state.plain.resource
    sound(pool)


def told_or_done(call: Callable[[], object]) -> object:
    """What a call did; None if it said that the pool is damaged."""
    try:
        return call()
    except PoolDamaged:
        return None


@pytest.mark.parametrize("key", KEYS)
def test_no_call_lies_meanwhile(pool: Pool, client: redis.Redis, key: str) -> None:
    """Neither full, nor lost, nor unknown, nor granted twice, whatever is called while the key is gone."""
    state = mixed(pool)
    client.delete(root_of(pool, client) + key)
    holding = {lease.resource for lease in state.live}
    told_or_done(lambda: pool.add([f"r{number}" for number in range(SIZE)]))  # all are known: none may be free anew
    told_or_done(lambda: state.plain.renew(60))
    told_or_done(lambda: pool.renew(state.held.token, 60))
    told_or_done(lambda: pool.quarantine("r0", reason="again"))
    told_or_done(lambda: pool.restore("r0"))
    told_or_done(lambda: list(pool.resources()))
    granted: list[Lease] = []
    for _ in range(SIZE):
        lease = told_or_done(lambda: pool.try_acquire(60))
        if isinstance(lease, Lease):
            assert lease.resource not in holding, "granted twice"
            holding.add(lease.resource)
            granted.append(lease)
    if len(granted) < 3:
        with pytest.raises(PoolDamaged, match="--repair"):
            pool.acquire(timeout=5)
    for lease in granted:
        told_or_done(lease.release)
    mended(pool)
    sound(pool)
    pool.stats()
    for lease in state.live:
        lease.renew(60)
        lease.release()


@pytest.mark.parametrize("key", ["", ":leased"])
def test_without_tracking_keys_it_is_unclear_and_not_free(pool: Pool, client: redis.Redis, key: str) -> None:
    state = mixed(pool)
    raw = Raw(client, pool)
    client.delete(raw.root + key, *(raw.tracking + lease.resource for lease in state.live))
    mended(pool)
    sound(pool)
    states = {info.name: info for info in pool.resources()}
    for lease in (state.plain, *state.others):
        assert states[lease.resource].state == ("leased" if key == "" else "quarantined")
        with pytest.raises(LeaseLost):
            lease.renew(60)
    if key == ":leased":
        assert "deadline" in str(states[state.plain.resource].reason)
        assert state.plain.resource not in {lease.resource for lease in iter(pool.try_acquire, None) if lease}


def test_a_lapsed_lease_without_its_set_is_not_free_either(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2")
    lapse(take(pool, 0.05, owner="somebody"))
    client.delete(f"{root_of(pool, client)}:leased")
    mended(pool)
    sound(pool)
    (first, second) = pool.resources()
    assert (first.state, second.state) == ("quarantined", "free")
    assert first.reason is not None
    assert "held by somebody" in first.reason
    assert pool.stats().lapsed == 1


def test_the_records_and_the_sets_gone_at_once(pool: Pool, client: redis.Redis) -> None:
    """With hash, `free` and `leased` gone, what has a tracking key is known to be leased, and nothing to be free."""
    state = mixed(pool)
    root = root_of(pool, client)
    client.delete(root, f"{root}:free", f"{root}:leased")
    assert "lru" in mended(pool, "lru")[0]
    sound(pool)
    assert pool.order() == "lru"
    states = {info.name: info.state for info in pool.resources()}
    assert all(states[lease.resource] == "leased" for lease in state.live)
    assert "free" not in states.values()
    for lease in state.live:
        lease.renew(60)
    assert pool.try_acquire() is None


def test_all_keys_but_the_log_gone(pool: Pool, client: redis.Redis) -> None:
    """A pool of which anything is left is not taken for one that nobody has made, or that is full."""
    mixed(pool)
    root = root_of(pool, client)
    client.delete(*(root + key for key in KEYS if key != ":log"))
    with pytest.raises(PoolDamaged, match="hash"):
        pool.try_acquire()
    assert "no resource is left in any key: add them again" in mended(pool)
    sound(pool)
    assert pool.add("r1") == 1
    for name in client.keys(f"{Raw(client, pool).tracking}*"):
        client.delete(name)


def test_resources_and_free_gone_leave_the_attributes(pool: Pool, client: redis.Redis) -> None:
    state: Mixed = mixed(pool)
    root = root_of(pool, client)
    client.delete(f"{root}:resources", f"{root}:free")
    mended(pool)
    sound(pool)
    assert pool.stats().total == SIZE
    all_once(pool, state.live, SIZE)
