"""What is kept aside: quarantine, cleaning, drain, and the policies that send resources there."""

from __future__ import annotations

import asyncio

import pytest
import redis
import redis.asyncio

from relet import AsyncPool, LeaseLost, Policy, Pool, PoolExhausted, ReletError, ResourceUnknown
from relet.client import close_async
from tests.helpers import Raw, eventually, lapse, take
from tests.servers import Server


def states(pool: Pool) -> dict[str, tuple[str, str | None, str | None]]:
    stats, found = pool.stats(), list(pool.resources())
    for state in ("free", "leased", "quarantined"):
        assert getattr(stats, state) == sum(info.state == state for info in found), (state, stats, found)
    assert stats.total == stats.free + stats.leased + stats.quarantined
    assert stats.granted == stats.released + stats.lapsed + stats.leased
    return {info.name: (info.state, info.mark, info.reason) for info in found}


def test_a_free_one_goes_aside_and_comes_back(pool: Pool) -> None:
    pool.add("r1", "r2")
    assert pool.quarantine("r1", reason="screen is black") == 1
    assert pool.quarantine("r1", reason="mud, too") == 0
    assert states(pool) == {"r1": ("quarantined", "quarantine", "mud, too"), "r2": ("free", None, None)}
    assert take(pool).resource == "r2"
    assert pool.try_acquire() is None
    assert pool.undrain("r1") == 0
    assert pool.restore("r1", "r2") == 1
    assert states(pool)["r1"] == ("free", None, None)
    assert take(pool).resource == "r1"


@pytest.mark.parametrize("end", ["release", "lapse", "force", "by token"])
@pytest.mark.parametrize("kind", ["quarantine", "drain"])
def test_a_leased_one_goes_aside_when_it_comes_back(pool: Pool, kind: str, end: str) -> None:
    pool.add("r1")
    lease = take(pool, 0.2 if end == "lapse" else 60)
    assert getattr(pool, kind)("r1", reason="why") == 1
    if end != "lapse":
        assert states(pool) == {"r1": ("leased", kind, "why")}
        lease.renew(90)
    if end == "release":
        lease.release()
    elif end == "by token":
        pool.release(lease.token)
    elif end == "force":
        pool.release(resource="r1", force=True)
    else:
        lapse(lease)
    assert states(pool) == {"r1": ("quarantined", kind, "why")}, "before any reclaim"
    pool.reclaim()
    assert states(pool) == {"r1": ("quarantined", kind, "why")}
    assert pool.try_acquire() is None
    assert (pool.restore if kind == "quarantine" else pool.undrain)("r1") == 1
    assert take(pool).resource == "r1"


def test_a_leased_one_is_pardoned(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool)
    pool.quarantine("r1")
    assert pool.restore("r1") == 1
    assert states(pool) == {"r1": ("leased", None, None)}
    lease.release()
    assert states(pool) == {"r1": ("free", None, None)}


def test_the_holder_gives_it_into_quarantine(pool: Pool) -> None:
    pool.add("r1", "r2")
    lease = take(pool)
    lease.release(quarantine="battery")
    lease.release(quarantine="battery")
    assert states(pool)["r1"] == ("quarantined", "quarantine", "battery")
    assert pool._send(pool._requests.set_aside(lease.token, b"battery")) is True, "a resend"
    other = take(pool, 0.01)
    lapse(other)
    with pytest.raises(LeaseLost):
        other.release(quarantine="too late")
    assert states(pool)["r2"] == ("free", None, None)


@pytest.mark.parametrize("order", ["rank", "lru", "random"])
def test_policies(pool: Pool, order: str) -> None:
    pool.add("r1", "r2", "r3", order=order)
    assert pool.policy() == Policy("free", "free")
    assert pool.set_policy(on_lapse="quarantine") == Policy("quarantine", "free")
    lapsing, released = take(pool, 0.05), take(pool)
    released.release()
    lapse(lapsing)
    assert states(pool)[lapsing.resource][0] == "quarantined", "before any reclaim"
    pool.reclaim()
    (state, mark, reason) = states(pool)[lapsing.resource]
    assert (state, mark) == ("quarantined", "quarantine")
    assert reason is not None
    assert reason.startswith("lapsed: ")
    pool.restore(lapsing.resource)

    assert pool.set_policy(on_lapse="free", on_release="quarantine") == Policy("free", "quarantine")
    leases = [take(pool), take(pool)]
    leases[0].release()
    pool.release_many(leases[1:])
    assert pool.stats().quarantined == 2
    lapse(take(pool, 0.01))
    assert pool.stats().free == 1
    pool.release(resource=take(pool).resource, force=True)
    assert pool.stats().quarantined == 3
    assert pool.set_policy(on_release="free") == Policy()


def server_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()  # type: ignore[misc]
    return seconds * 1000 + micros // 1000


def test_cleaning(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2", "r3")
    pool.set_policy(on_release="quarantine")
    pool.drain("r3", reason="power")
    for lease in (second := (take(pool), take(pool))[::-1]):
        lease.release()
        released_at = server_ms(client)
        eventually(lambda before=released_at: server_ms(client) > before)
    with pool.cleaning(ttl=60, timeout=0) as cleaner:
        assert cleaner.resource == second[0].resource, "the one that was there longest"
        assert states(pool)[cleaner.resource][:2] == ("leased", "cleaning")
    assert states(pool)[cleaner.resource] == ("free", None, None), "the policy is about those who use it"
    with pytest.raises(ZeroDivisionError), pool.cleaning(timeout=0) as cleaner:
        _ = 1 / 0
    assert states(pool)[cleaner.resource] == ("quarantined", "quarantine", "cleaning failed: ZeroDivisionError")
    with pool.cleaning(timeout=0):
        pass
    with pytest.raises(PoolExhausted), pool.cleaning(timeout=0):
        pass
    assert states(pool)["r3"] == ("quarantined", "drain", "power")


@pytest.mark.parametrize("end", ["lapse", "force"])
def test_a_cleaner_that_crashes_returns_it_to_quarantine(pool: Pool, end: str) -> None:
    pool.add("r1")
    pool.quarantine("r1", reason="mud")
    block = pool.cleaning(ttl=0.2 if end == "lapse" else 60, timeout=0, renew=False)
    cleaner = block.__enter__()
    if end == "lapse":
        lapse(cleaner)
    else:
        pool.release(resource="r1", force=True)
    with pytest.raises(LeaseLost):
        block.__exit__(None, None, None)
    assert states(pool) == {"r1": ("quarantined", "quarantine", "mud")}
    assert pool.try_acquire() is None
    with pool.cleaning(timeout=0):
        pass
    assert take(pool).resource == "r1"


def test_a_cleaner_waits(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool, 0.3)
    pool.quarantine("r1")
    with pool.cleaning(timeout=30) as cleaner:
        assert cleaner.fence > lease.fence


def test_whoever_waits_gets_what_is_restored(pool: Pool, server: Server) -> None:
    async def wait() -> str:
        client = redis.asyncio.Redis.from_url(server.url)
        other = AsyncPool(client, pool.name, namespace=pool.namespace)
        waiter = asyncio.create_task(other.acquire(timeout=30))
        while not (await other.stats()).waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await other.restore("r1")
        lease = await waiter
        await lease.release(quarantine="again")
        async with other.cleaning(timeout=0) as cleaner:
            assert cleaner.resource == "r1"
        assert await other.set_policy(on_lapse="quarantine") == await other.policy()
        await other.drain("r1")
        await other.undrain("r1")
        kinds = [event.kind async for event in other.events()]
        await close_async(client)
        assert kinds == ["add", "quarantine", "restore", "quarantine", "policy", "drain", "undrain"]
        return lease.resource

    pool.add("r1")
    pool.quarantine("r1")
    assert asyncio.run(wait()) == "r1"


def test_removing(pool: Pool) -> None:
    pool.add("r1", "r2", "r3")
    pool.quarantine("r1", reason="mud")
    assert pool.remove("r1") == 1
    pool.add("r1")
    assert states(pool)["r1"] == ("free", None, None)
    lease = take(pool)
    pool.quarantine("r2", reason="mud")
    assert pool.remove("r2") == 1
    assert states(pool)["r2"] == ("leased", "leaving", None)
    with pytest.raises(ResourceUnknown, match=r"'r2', 'r9'.*the others"):
        pool.quarantine("r3", "r2", "r9")
    assert states(pool)["r3"][0] == "quarantined"
    assert pool.add("r2") == 1, "it stays, and is not forgotten to be dirty"
    lease.release()
    assert states(pool)["r2"] == ("quarantined", "quarantine", "mud")
    pool.restore("r2")
    other = take(pool)
    pool.quarantine(other.resource)
    pool.remove(other.resource)
    other.release()
    assert set(states(pool)) == {"r1", "r2", "r3"} - {other.resource}


def test_the_order_changes_meanwhile(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2", "r3")
    leases = take(pool), take(pool)
    pool.quarantine("r1", "r3")
    pool.set_order("random")
    for lease in leases:
        lease.release()
    assert states(pool)["r1"][0] == "quarantined"
    pool.set_order("rank")
    pool.restore("r1", "r3")
    assert Raw(client, pool).free() == {"r1": 1, "r2": 2, "r3": 3}


def test_refused(pool: Pool) -> None:
    for call in (
        lambda: pool.set_policy(on_lapse="gone"),
        lambda: pool.quarantine("r1", reason="a\nb"),
        lambda: pool.quarantine(""),
        lambda: pool.drain("r1", reason="x" * 600),
    ):
        with pytest.raises(ValueError, match=r"is|has"):
            call()
    with pytest.raises(ReletError, match="no pool"):
        pool.set_policy(on_lapse="free")
    with pytest.raises(ResourceUnknown):
        pool.quarantine("r1")
    assert pool.policy() == Policy()


def test_the_log(pool: Pool, client: redis.Redis) -> None:
    pool.add([f"r{number}" for number in range(60)])
    lapsed = take(pool, 0.01, owner="ann b")
    robbed = take(pool, owner="bob")
    take(pool).release()
    lapse(lapsed)
    pool.reclaim()
    pool.release(resource="r1", force=True)
    pool.remove("r59")
    pool.remove("r59")
    events = list(pool.events())
    assert [event.kind for event in events] == ["add", "lapse", "force", "remove"]
    added, lapse_, force, removed = events
    assert (added.count, len(added.resources)) == (60, 50)
    assert (lapse_.resources, lapse_.owner, lapse_.fence) == (("r0",), "ann b", lapsed.fence)
    assert lapse_.held == pytest.approx(0.01)
    assert (force.resources, force.owner, force.fence) == (("r1",), "bob", robbed.fence)
    assert force.held is not None
    assert 0 <= force.held < 60
    assert (removed.resources, removed.count) == (("r59",), 1)
    assert [event.kind for event in pool.events(added.id)] == ["lapse", "force", "remove"]
    assert list(pool.events(events[-1].id)) == []
    assert next(pool.events(force.at)).kind in ("lapse", "force")
    assert list(pool.events(force.at + 3600)) == []
    with pytest.raises(ValueError, match="looks like"):
        list(pool.events("yesterday"))
    pool.set_policy(on_lapse="quarantine")
    assert list(pool.events())[-1].reason == "on_lapse=quarantine on_release=free"
    name = f"{Raw(client, pool).root}:log"
    before = client.xlen(name)
    for _ in range(5):
        take(pool).release()
    assert client.xlen(name) == before, "nothing is written on the plain way"
