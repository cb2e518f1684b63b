"""Leases that lapse. Where an engine is at work they come back though nobody calls; else with the next call.

While nobody is to call, the tests look at the keys alone: relet's own calls would take lapsed leases back themselves.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from relet import LeaseLost, Pool, Stats
from relet.names import new_token
from tests.conformance.place import Place
from tests.conformance.test_transitions import in_line
from tests.helpers import eventually, lapse, lease_all, names, take

ODD_NAMES = ["gpu 0", "{gpu}", "a:b:c", "rack{1}:slot 2", "}{", "Größe-№1", "🦊:🦊", "'\"\\", "x" * 512]
MANY = 300
"""More than an engine takes back in one step."""


def come_back(place: Place, pool: Pool, free: int) -> None:
    """Returns once lapsed leases are back: by themselves, or with a call."""
    if not place.pair.by_itself:
        assert pool.reclaim() > 0
    eventually(lambda: len(place.raw(pool).free()) == free, f"{free} to be free in {pool.name}")


def test_a_lapsed_lease_comes_back(place: Place) -> None:
    """On each shard."""
    pools = place.pools()
    leases = []
    for pool in pools:
        pool.add("r1", "r2")
        leases.append(take(pool, 0.05))
    for pool, lease in zip(pools, leases, strict=True):
        lapse(lease)
        come_back(place, pool, 2)
        assert pool.stats() == Stats(2, 2, 0, 0, 0, 1, 0, 1)
        for late in (lease.renew, lease.release):
            with pytest.raises(LeaseLost):
                late()
        assert take(pool).fence > lease.fence


def test_it_counts_as_free_and_the_next_call_gets_it_whoever_has_seen_it(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool, 0.02)
    lapse(lease)
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 0, 1)
    after = take(pool)
    assert (after.resource, after.fence > lease.fence) == ("r1", True)
    with pytest.raises(LeaseLost):
        lease.release()
    after.renew()
    after.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 2, 1, 1)


def test_many_lapse_and_each_is_counted_once(place: Place, pool: Pool) -> None:
    pool.add(names(MANY + 1))
    kept = take(pool)
    lapse(lease_all(pool, MANY, 0.5)[-1])
    come_back(place, pool, MANY)
    assert set(place.raw(pool).free()) == set(names(MANY + 1)) - {kept.resource}
    eventually(lambda: place.raw(pool).token("r0001") is None, "the keys to expire")
    assert place.lapsed(pool) == MANY
    kept.renew()
    kept.release()
    assert pool.stats() == Stats(MANY + 1, MANY + 1, 0, 0, 0, MANY + 1, 1, MANY)


def test_odd_names(place: Place, pool: Pool) -> None:
    pool.add(ODD_NAMES)
    lapse(lease_all(pool, len(ODD_NAMES), 0.05)[-1])
    come_back(place, pool, len(ODD_NAMES))
    assert list(place.raw(pool).free()) == ODD_NAMES


def test_one_that_is_to_be_removed_goes(place: Place, pool: Pool) -> None:
    pool.add("r1", "r2")
    lease = take(pool, 0.1)
    pool.remove("r1")
    lapse(lease)
    come_back(place, pool, 1)
    eventually(lambda: place.raw(pool).leased() == {}, "the lease to go")
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 0, 1)


def test_who_waits_gets_it(place: Place, pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool, 1)
    thread, got = in_line(place, pool, lambda own: own.acquire(60, timeout=30))
    thread.join()
    (after,) = got
    assert after.resource == "r1"  # type: ignore[attr-defined]
    assert after.fence > lease.fence  # type: ignore[attr-defined]
    assert place.raw(pool).token("r1") == after.token  # type: ignore[attr-defined]
    assert pool.stats() == Stats(1, 0, 1, 0, 0, 2, 0, 1)


def test_who_waits_and_keeps_no_clock_is_told(place: Place, pool: Pool) -> None:
    """Other clients' waiters keep a clock, and would take the lease back themselves; this one only listens."""
    pool.add("r1")
    held = take(pool, 0.5)
    token, keys = new_token(), pool._requests.keys
    mine = keys.wake + b":waiter"
    with closing(place.server_of(pool).client()) as client, client.pubsub() as ears:
        ears.subscribe(mine)
        eventually(lambda: ears.get_message(timeout=1), "the subscription")
        wait = pool._requests.acquire_many(token, 60_000, b"waiter", 1, mine)
        client.eval(wait.script.text, 1, keys.root, keys.tracking, *wait.arguments)
        heard: list[bytes] = []

        def is_told() -> bool:
            message = ears.get_message(timeout=0.1)
            heard.extend([message["data"]] if message else [])
            return bool(heard)

        lapse(held)
        if not place.pair.by_itself:
            assert pool.reclaim() == 1
        eventually(is_told, "the grant")
    assert heard[0].startswith(token.encode())
    assert place.raw(pool).token("r1") == token
    assert pool.stats() == Stats(1, 0, 1, 0, 0, 2, 0, 1)
