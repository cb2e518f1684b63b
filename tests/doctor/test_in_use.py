"""A pool that is damaged and mended while it is used, and one whose keys lost or gained single members."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
import redis

from relet import Lease, Pool, PoolDamaged
from tests.doctor.pools import SIZE, all_once, examined, mended, mixed, root_of, sound
from tests.helpers import Raw, names

pytestmark = pytest.mark.parametrize("spec", ["redis-6.2", "valkey-9.1"], indirect=True)


class Users:
    """Threads that lease and release, and notice what is granted twice."""

    def __init__(self, pools: list[Pool]) -> None:
        self.twice: list[str] = []
        self.errors: list[BaseException] = []
        self._held: set[str] = set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(pool,)) for pool in pools]

    def __enter__(self) -> Users:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, pool: Pool) -> None:
        try:
            while not self._stop.is_set():
                lease = self._patiently(lambda: pool.try_acquire(60))
                if lease is None:
                    continue
                if lease.resource in self._held:
                    self.twice.append(lease.resource)
                self._held.add(lease.resource)
                self._patiently(lambda lease=lease: lease.renew(60))  # type: ignore[misc]
                self._held.discard(lease.resource)
                self._patiently(lambda lease=lease: lease.release())  # type: ignore[misc]
        except BaseException as error:
            self.errors.append(error)

    def _patiently(self, call: Callable[[], Lease | None]) -> Lease | None:
        """Until the pool is mended."""
        while True:
            try:
                return call()
            except PoolDamaged:
                if self._stop.wait(0.001):
                    return None


def test_mended_while_it_is_used(client: redis.Redis, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(client)
    pool.add(names(6))
    root = root_of(pool, client)
    with Users([make_pool(name=pool.name) for _ in range(4)]) as users:
        for key in ("", ":free", ":leased", ":resources") * 4:
            granted = client.hget(root, "granted")
            client.delete(root + key)
            mended(pool)
            while client.hget(root, "granted") == granted and not users.errors:
                pass  # they go on
    assert users.errors == []
    assert users.twice == []
    mended(pool)
    sound(pool)
    assert pool.stats().total == 6


@pytest.mark.parametrize("seed", range(25))
def test_single_members_lost_or_misplaced(pool: Pool, client: redis.Redis, seed: int) -> None:
    """Random damage within the keys: whatever it is, a repair makes the pool whole, and no live lease is granted."""
    rng = random.Random(seed)
    state = mixed(pool, rng.choice(["rank", "lru", "random"]))
    root, every = root_of(pool, client), [f"r{number}" for number in range(SIZE)]
    for _ in range(rng.randrange(1, 5)):
        damage(rng, client, root, rng.choice(every))
    pool_was_whole = not examined(pool)
    changes = mended(pool)
    assert not (pool_was_whole and changes), changes
    sound(pool)
    assert pool.stats().total == SIZE
    for lease in state.live:
        lease.renew(60)
    all_once(pool, state.live, SIZE)


def damage(rng: random.Random, client: redis.Redis, root: str, name: str) -> None:
    """One of the things that somebody with a console may do; the tracking keys stay."""
    part = rng.choice(["free", "leased", "quarantined", "resources", "leaving", "held"])
    kind = rng.randrange(5)
    if kind == 0:
        client.zrem(f"{root}:{part}", name)
    elif kind == 1:
        client.zadd(f"{root}:free", {name: rng.randrange(100)})
    elif kind == 2:
        client.hdel(root, f"r:{name}")
    elif kind == 3:
        client.hdel(root, rng.choice(["total", "seq", "granted", "fence", "waiting", f"q:{name}"]))
    else:
        client.hset(root, f"t:{rng.randbytes(16).hex()}", f"7 {name}")


@pytest.mark.parametrize("record", [None, b"", b"1 5000 channel", b"all 5000 channel 1700000000000 me"])
def test_a_waiter_without_a_record_that_makes_sense(pool: Pool, client: redis.Redis, record: bytes | None) -> None:
    """One that was written before records told a time is in order."""
    pool.add("r1")
    root = root_of(pool, client)
    client.zadd(f"{root}:waiters", {"1" * 32: 1, "2" * 32: 2})
    client.hset(root, mapping={"waiting": 2, "arrivals": 2, "w:" + "1" * 32: "1 5000 channel me"})
    if record is not None:
        client.hset(root, "w:" + "2" * 32, record)  # type: ignore[arg-type]
    (finding,) = examined(pool)
    assert "2" * 32 in finding.what
    assert "missing or wrong" in finding.what
    assert any("asks again" in what for what in mended(pool))
    sound(pool)
    assert client.hget(root, "w:" + "2" * 32) is None


def test_tracking_keys(pool: Pool, client: redis.Redis) -> None:
    """They are signals: what is wrong with one is a warning, and mended."""
    state = mixed(pool)
    raw = Raw(client, pool)
    first, second, third = (raw.tracking + lease.resource for lease in state.live[:3])
    client.delete(first)
    client.set(second, "another", px=40_000)
    client.persist(third)
    assert {finding.level for finding in examined(pool)} == {"warn"}
    assert len(examined(pool)) == 3
    mended(pool)
    sound(pool)
    for lease in state.live:
        assert raw.token(lease.resource) == lease.token
        lease.renew(60)


def test_a_key_of_another_type_is_told_and_left(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1")
    root = root_of(pool, client)
    client.set(f"{root}:held", "somebody's")
    assert "is a string, not a zset" in examined(pool)[0].what
    assert mended(pool) == []
    assert client.get(f"{root}:held") == b"somebody's"
    client.delete(f"{root}:held")
    sound(pool)
