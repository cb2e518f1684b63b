"""Leases that lapse: by the deadline alone, whoever looks and whenever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import redis

from relet import LeaseLost, Pool, Stats
from tests.helpers import Raw, eventually, lapse, names, take
from tests.servers import Server, Spec

MakePool = Callable[..., Pool]


def state(pool: Pool) -> dict[str, str]:
    return {info.name: info.state for info in pool.resources()}


def test_a_renewed_lease_outlives_its_first_deadline(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2")
    short, renewed = take(pool, 0.05), take(pool, 0.05)
    renewed.renew(60)
    lapse(short)
    assert pool.stats().leased == 1
    assert pool.reclaim() == 1
    assert Raw(client, pool).token("r2") == renewed.token
    renewed.renew()
    renewed.release()


def test_a_lease_that_was_shortened_lapses_early(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    lease.renew(0.02)
    lapse(lease)
    assert pool.stats().free == 1
    with pytest.raises(LeaseLost):
        lease.release()


def test_a_lease_that_was_shortened_by_its_token_is_lost_for_its_holder_too(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    pool.renew(lease.token, 0.001)
    eventually(lambda: pool.stats().leased == 0)
    other = take(pool)
    with pytest.raises(LeaseLost):
        lease.release()
    other.release()


def test_force_on_a_lapsed_lease_takes_nothing_from_anybody(pool: Pool) -> None:
    pool.add("r1")
    lapse(take(pool, 0.02))
    assert pool.release(resource="r1", force=True) is False
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 0, 1)


def test_a_lapsed_lease_counts_as_free_without_any_reclaim(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2")
    lease, lapsed = take(pool), take(pool, 0.02)
    lapse(lapsed)
    assert pool.stats() == Stats(2, 1, 1, 0, 0, 2, 0, 1)
    assert state(pool) == {"r1": "leased", "r2": "free"}
    assert set(Raw(client, pool).leased()) == {"r1", "r2"}, "the reads changed nothing"
    assert pool.reclaim() == 1
    assert pool.reclaim() == 0
    assert pool.stats() == Stats(2, 1, 1, 0, 0, 2, 0, 1)
    assert set(Raw(client, pool).leased()) == {"r1"}
    lease.release()
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 1, 1)


@pytest.fixture
def deaf(client: redis.Redis) -> None:
    """The server sends no event about expired keys."""
    client.config_set("notify-keyspace-events", "")
    assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": ""}


@pytest.mark.usefixtures("deaf")
def test_who_lapsed_is_lost_and_the_next_holder_is_left_alone(pool: Pool, make_pool: MakePool) -> None:
    """Nobody calls between the lapse and the next holder's acquire: no event, no sweep, no help."""
    pool.add("r1")
    a = take(pool, 0.02)
    pool_of_b = make_pool(name=pool.name, namespace=pool.namespace)
    lapse(a)
    b = take(pool_of_b)
    assert (b.resource, b.token != a.token) == ("r1", True)
    assert b.fence > a.fence
    for call in (a.renew, a.release, lambda: pool.renew(a.token), lambda: pool.release(a.token)):
        with pytest.raises(LeaseLost):
            call()
        assert b.lost is False
        (info,) = pool.resources()
        assert (info.state, info.fence) == ("leased", b.fence)
    b.renew()
    b.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 2, 1, 1)


def test_a_lapsed_lease_is_lost_even_if_nobody_took_the_resource(pool: Pool) -> None:
    pool.add("r1", "r2")
    renews, releases = take(pool, 0.02), take(pool, 0.02)
    lapse(renews)
    lapse(releases)
    with pytest.raises(LeaseLost):
        renews.renew()
    with pytest.raises(LeaseLost):
        releases.release()
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 0, 2)


def test_nothing_is_lost_over_many_rounds(pool: Pool) -> None:
    pool.add(names(7))
    served: Counter[str] = Counter()
    for number in range(100):
        lease = take(pool, 0.001 if number % 3 else 60)
        served[lease.resource] += 1
        if number % 3 == 0:
            lease.release()
        else:
            lapse(lease)
    stats = pool.stats()
    assert (stats.total, stats.free, stats.granted, stats.lapsed) == (7, 7, 100, 66)
    assert sum(served.values()) == 100


def test_a_server_without_memory_renews_and_takes_back(spec: Spec) -> None:
    with Server.start(spec) as server, server.client() as client:
        pool = Pool(client, "p")
        pool.add("r1", "r2", "r3")
        kept, released, lapsing = take(pool), take(pool), take(pool, 0.3)
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(redis.ResponseError, match=r"OOM|maxmemory"):
                pool.add("r4")
            before = kept._grant.deadline_ms
            kept.renew(120)
            assert kept._grant.deadline_ms > before
            released.release()
            lapse(lapsing)
            assert pool.reclaim() == 1
            assert pool.stats().free == 2
            assert take(pool).resource == "r2"
        finally:
            client.config_set("maxmemory", 0)
        kept.release()
        assert take(pool).resource == "r1"
