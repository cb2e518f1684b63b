"""Every verb, on every server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import redis

from relet import LeaseLost, Pool, PoolDamaged, PoolExhausted, ReletError, ResourceInfo, ResourceUnknown, Stats
from relet.core import CHUNK
from tests.helpers import Raw, eventually, lapse, lease_all, names, take, unique
from tests.servers import Server

MakePool = Callable[..., Pool]


def state(pool: Pool) -> dict[str, str]:
    return {info.name: info.state for info in pool.resources()}


def test_a_pool_that_nobody_made_is_empty(pool: Pool) -> None:
    assert pool.stats() == Stats(0, 0, 0, 0, 0, 0, 0, 0)
    assert list(pool.resources()) == []
    assert pool.try_acquire() is None
    assert pool.order() is None
    assert pool.reclaim() == 0
    assert pool.remove("r") == 0
    pool.destroy()


def test_add_counts_what_is_new(pool: Pool) -> None:
    assert pool.add("r1", "r2") == 2
    assert pool.add("r2", ["r3", "r4"], {"r5": None, "r1": None}) == 3
    assert pool.add("r1", "r1", "r6", "r6") == 1
    assert [info.name for info in pool.resources()] == ["r1", "r2", "r3", "r4", "r5", "r6"]
    assert pool.stats() == Stats(6, 6, 0, 0, 0, 0, 0, 0)


def test_add_without_a_name_makes_an_empty_pool(pool: Pool) -> None:
    assert pool.add(order="lru") == 0
    assert pool.order() == "lru"
    assert pool.stats().total == 0
    assert pool.try_acquire() is None


def test_attributes(pool: Pool) -> None:
    rich = {"memory": 80, "tags": ["ü", 'say "hi"', "two\nlines"], "nested": {"a": None, "b": 1.5}, " ": True}
    pool.add({"r1": rich, "r2": {}}, "r3")
    first = take(pool)
    assert (first.resource, first.attributes) == ("r1", rich)
    assert [take(pool).attributes, take(pool).attributes] == [{}, {}]
    first.release()
    assert pool.add("r1") == 0
    assert take(pool).attributes == rich, "adding a name again leaves its attributes"
    assert pool.add({"r1": {"memory": 96}}) == 0
    assert [info.attributes for info in pool.resources()] == [{"memory": 96}, {}, {}]
    pool.remove("r2", "r3")
    pool.release(resource="r1", force=True)
    pool.remove("r1")
    pool.add("r1")
    assert take(pool).attributes == {}, "a resource that was removed takes its attributes along"


def test_add_leaves_a_lease_alone(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    assert pool.add({"r1": {"a": 1}}) == 0
    assert pool.try_acquire() is None
    lease.renew()
    lease.release()


def test_add_and_remove_of_many(pool: Pool) -> None:
    """More than one call's worth."""
    many = names(2 * CHUNK + 3)
    seen: list[int] = []
    assert pool.add(many, progress=seen.append) == len(many)
    assert seen == [CHUNK, 2 * CHUNK, len(many)]
    assert [info.name for info in pool.resources()] == many, "in the order in which they were added, page by page"
    assert take(pool).resource == many[0]
    seen.clear()
    assert pool.remove(many, progress=seen.append) == len(many)
    assert seen == [CHUNK, 2 * CHUNK, len(many)]
    assert pool.stats().total == 1, "the leased one stays until it comes back"


def test_a_lease_says_what_it_is(pool: Pool) -> None:
    pool.add({"r1": {"a": 1}})
    lease = pool.acquire(20, timeout=0, owner="ann")
    assert (lease.resource, lease.attributes, lease.ttl) == ("r1", {"a": 1}, 20)
    assert (lease.lost, lease.released) == (False, False)
    assert 0 < lease.remaining() <= 20
    (info,) = pool.resources()
    assert info.remaining is not None
    assert 0 < info.remaining <= 20
    assert info == ResourceInfo("r1", "leased", {"a": 1}, "ann", lease.fence, None, info.remaining)
    assert lease.token not in repr(info) + repr(lease)
    lease.release()
    assert (lease.lost, lease.released, lease.remaining()) == (False, True, 0)
    assert list(pool.resources()) == [ResourceInfo("r1", "free", {"a": 1})]


def test_none_is_free(pool: Pool) -> None:
    pool.add("r1")
    with pool.acquire(timeout=0):
        assert pool.try_acquire() is None
        with pytest.raises(PoolExhausted, match=pool.name):
            pool.acquire(timeout=0)
    assert take(pool).resource == "r1"


def test_the_end_of_a_block_releases_and_leaves_the_errors_alone(pool: Pool) -> None:
    pool.add("r1")
    with pytest.raises(ZeroDivisionError), pool.acquire(timeout=0):
        raise ZeroDivisionError
    assert pool.stats().free == 1
    with pytest.raises(ZeroDivisionError), pool.acquire(timeout=0) as lease:
        raise ZeroDivisionError(pool.release(resource=lease.resource, force=True))
    with pytest.raises(LeaseLost), pool.acquire(timeout=0) as lease:
        pool.release(resource=lease.resource, force=True)


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


def test_renew_moves_the_deadline(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1")
    lease = take(pool, 10)
    before = Raw(client, pool).leased()["r1"]
    lease.renew(100)
    after = Raw(client, pool).leased()["r1"]
    assert after >= before + 90_000
    assert lease.ttl == 100
    assert 10 < lease.remaining() <= 100
    lease.renew()
    assert Raw(client, pool).leased()["r1"] >= after, "by the ttl that was asked for last"
    pool.renew(lease.token)
    assert Raw(client, pool).leased()["r1"] < before + 60_000, "by the pool's ttl, for who has the token alone"
    assert Raw(client, pool).token("r1") == lease.token
    lease.release()


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


def test_release_gives_back_once(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1")
    lease = take(pool)
    lease.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 1, 0)
    assert Raw(client, pool).token("r1") is None
    lease.release()
    assert pool.stats().released == 1
    with pytest.raises(LeaseLost):
        lease.renew()


def test_the_token_alone_renews_and_releases(pool: Pool, make_pool: MakePool) -> None:
    pool.add("r1")
    token = take(pool).token
    other = make_pool(name=pool.name, namespace=pool.namespace)
    other.renew(token)
    assert other.release(token) is True
    assert pool.stats().free == 1
    with pytest.raises(LeaseLost, match=pool.name):
        other.renew(token)
    unknown = "0" * 32
    for call in (other.renew, other.release):
        with pytest.raises(LeaseLost):
            call(unknown)


def test_force_takes_a_resource_from_its_holder(pool: Pool) -> None:
    pool.add("r1")
    assert pool.release(resource="r1", force=True) is False
    with pytest.raises(ResourceUnknown, match="'nobody'"):
        pool.release(resource="nobody", force=True)
    lease = take(pool)
    assert pool.release(resource="r1", force=True) is True
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 1, 0)
    with pytest.raises(LeaseLost, match="'r1'"):
        lease.renew()
    with pytest.raises(LeaseLost, match="'r1'"):
        lease.release()
    assert lease.lost
    with pytest.raises(LeaseLost):
        pool.release(lease.token)
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 1, 0)


def test_force_leaves_the_next_holder_to_itself(pool: Pool) -> None:
    pool.add("r1")
    robbed = take(pool)
    pool.release(resource="r1", force=True)
    holder = take(pool)
    for call in (robbed.renew, robbed.release):
        with pytest.raises(LeaseLost):
            call()
    holder.renew()
    holder.release()
    assert holder.fence > robbed.fence


def test_force_on_a_lapsed_lease_takes_nothing_from_anybody(pool: Pool) -> None:
    pool.add("r1")
    lapse(take(pool, 0.02))
    assert pool.release(resource="r1", force=True) is False
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 0, 1)


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


def test_script_flush_between_any_two_calls_goes_unnoticed(pool: Pool, client: redis.Redis) -> None:
    def flush() -> None:
        client.script_flush()

    flush()
    pool.add("r1", "r2")
    flush()
    lease = pool.acquire(timeout=0)
    flush()
    lease.renew()
    flush()
    pool.renew(lease.token)
    flush()
    assert pool.stats().leased == 1
    flush()
    assert len(list(pool.resources())) == 2
    flush()
    lease.release()
    flush()
    pool.release(take(pool).token)
    flush()
    taken = take(pool)
    flush()
    assert pool.release(resource=taken.resource, force=True)
    flush()
    pool.set_order("lru")
    flush()
    assert pool.order() == "lru"
    flush()
    assert pool.reclaim() == 0
    flush()
    assert pool.remove("r1") == 1
    flush()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 3, 3, 0)
    flush()
    pool.destroy()
    assert pool.stats().total == 0


def test_pools_and_namespaces_are_apart(pool: Pool, make_pool: MakePool) -> None:
    others = [make_pool(name=pool.name, namespace=f"{pool.namespace}:x"), make_pool(namespace=pool.namespace)]
    pool.add("r1")
    for other in others:
        other.add("r1", "r2")
    lease = take(pool)
    for other in others:
        assert other.stats() == Stats(2, 2, 0, 0, 0, 0, 0, 0)
        with pytest.raises(LeaseLost):
            other.release(lease.token)
        other.destroy()
    lease.renew()


def test_destroy_leaves_nothing(pool: Pool, client: redis.Redis) -> None:
    """Of anything: free, leased, lapsed, marked, with attributes, remembered ends, more leases than one call clears."""
    pool.add({name: {"a": 1} for name in names(700)})
    leases = lease_all(pool, 600)
    pool.remove(leases[0].resource)
    pool.release(leases[1].token)
    pool.release(resource=leases[2].resource, force=True)
    take(pool, 0.001)
    pool.destroy()
    assert client.keys(f"{pool.namespace}:*") == []
    with pytest.raises(LeaseLost):
        leases[3].renew()
    with pytest.raises(LeaseLost):
        leases[3].release()


def test_a_pool_made_anew_while_the_old_one_is_cleared_keeps_its_leases(pool: Pool, client: redis.Redis) -> None:
    pool.add(names(3))
    lease_all(pool, 3)
    left = pool._send(pool._requests.destroy(True, 1))
    assert left == 2
    pool.add(names(3))
    fresh = lease_all(pool, 3)
    while left:
        left = pool._send(pool._requests.destroy(False, 1))
    assert [Raw(client, pool).token(lease.resource) for lease in fresh] == [lease.token for lease in fresh]
    for lease in fresh:
        lease.release()


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


def test_a_missing_key_is_damage_and_no_lie(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2")
    lease = take(pool)
    root = Raw(client, pool).root
    saved = client.dump(f"{root}:free")
    client.delete(f"{root}:free")
    with pytest.raises(PoolDamaged, match="free"):
        pool.try_acquire()
    assert saved
    client.restore(f"{root}:free", 0, saved)
    other = take(pool)
    client.delete(f"{root}:leased")
    for call in (pool.try_acquire, pool.stats, lease.renew, lease.release, lambda: pool.release(other.token)):
        with pytest.raises(PoolDamaged, match="leased"):
            call()
    client.delete(Raw(client, pool).tracking + "r1", Raw(client, pool).tracking + "r2")  # what names them is gone


def test_the_client_is_borrowed(client: redis.Redis, make_pool: MakePool) -> None:
    connection = client.client_id()
    with make_pool(client) as pool:
        pool.add("r1")
    pool.close()
    assert client.client_id() == connection


def test_from_url_owns_its_client(server: Server, client: redis.Redis) -> None:
    name = unique("pool")
    before = len(client.client_list())
    with Pool.from_url(server.url, name, client_name=name) as pool:
        pool.add("r1")
        assert len(client.client_list()) == before + 1
        pool.destroy()
    eventually(lambda: name not in [one["name"] for one in client.client_list()], "the connection to close")
