"""Every verb, on every server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from relet import LeaseLost, Pool, PoolDamaged, PoolExhausted, ResourceInfo, ResourceUnknown, Stats
from relet.core import CHUNK
from tests.helpers import Raw, eventually, lease_all, names, take, unique
from tests.servers import Server

MakePool = Callable[..., Pool]


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
    assert info == ResourceInfo("r1", "leased", {"a": 1}, "ann", lease.fence, None, info.remaining, info.since)
    assert info.since is not None
    assert 0 <= info.since < 20
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
    pool.add({name: {"a": 1} for name in names(3)})
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


def test_a_destroyer_that_is_cut_short_hinders_nobody(pool: Pool, client: redis.Redis) -> None:
    pool.add({name: {"a": 1} for name in names(5)})
    lease_all(pool, 3)
    pool._send(pool._requests.destroy(True, 1))
    assert pool.stats().total == 0
    pool.add(names(3))
    lease_all(pool, 2)
    pool.destroy()
    assert [key for key in client.keys(f"{pool.namespace}:*") if b":lease:" not in key] == []
    pool.destroy()
    for name in names(5):
        client.delete(Raw(client, pool).tracking + name)  # they would expire at their deadlines


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

    def connections() -> int:
        listed: Any = client.client_list()
        return sum(one["name"] == name for one in listed)

    with Pool.from_url(server.url, name, client_name=name) as pool:
        pool.add("r1")
        assert connections() == 1
        pool.destroy()
        assert connections() == 2  # the client's, and the one that is kept beside it
    eventually(lambda: connections() == 0, "the connections to close")
