"""A server that goes down and comes back."""

from __future__ import annotations

import time

import pytest
import redis

from relet import LeaseLost, Pool, Stats
from tests.helpers import Raw, eventually, lapse, lease_all, names, take
from tests.servers import Server, Spec


def test_append_only_file_keeps_leases_and_deadlines(spec: Spec) -> None:
    with Server.start(spec, appendonly="yes", appendfsync="always") as server, server.client() as client:
        pool = Pool(client, "p")
        pool.add({name: {"a": name} for name in names(5)})
        keeps, releases, marked = lease_all(pool, 3, 600)
        pool.remove(marked.resource)
        renewed = take(pool, 60)
        renewed.renew(900)
        before, fields = Raw(client, pool).leased(), client.hgetall(Raw(client, pool).root)
        listed = [(info.name, info.state, info.fence, info.attributes) for info in pool.resources()]
        signals = {name: Raw(client, pool).token(name) for name in before}

        server.kill()
        server.restart()

        assert Raw(client, pool).leased() == before
        assert client.hgetall(Raw(client, pool).root) == fields
        assert {name: Raw(client, pool).token(name) for name in before} == signals
        assert [(info.name, info.state, info.fence, info.attributes) for info in pool.resources()] == listed
        assert 0 < client.pttl(Raw(client, pool).tracking + keeps.resource) <= 600_000
        keeps.renew()
        releases.release()
        marked.release()
        fence = take(pool).fence
        assert fence > renewed.fence
        assert pool.stats() == Stats(4, 1, 3, 0, 0, 5, 2, 0)


def test_append_only_file_of_lapsed_leases(spec: Spec) -> None:
    with Server.start(spec, appendonly="yes", appendfsync="always") as server, server.client() as client:
        pool = Pool(client, "p")
        pool.add("r1", "r2")
        first, second = lease_all(pool, 2, 0.2)
        server.kill()
        lapse(first)
        lapse(second)
        server.restart()
        assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 0, 2)
        assert [lease.resource for lease in lease_all(pool, 2)] == ["r1", "r2"]
        with pytest.raises(LeaseLost):
            first.release()


def save_while_leased(client: redis.Redis, pool: Pool) -> None:
    """A snapshot in which the leases of ``r1`` and ``r2`` are alive. They are short, so it may take a few tries."""
    for ttl in (0.2, 0.4, 0.8, 1.6, 3.2):
        leases = lease_all(pool, 2, ttl)
        client.save()
        if leases[0].remaining() and leases[1].remaining():
            return
        for lease in leases:
            lapse(lease)
    raise AssertionError("no snapshot was quick enough")


def test_snapshot_of_leases_that_lapsed_while_the_server_was_down(spec: Spec) -> None:
    """No event ever tells of them; the first call finds them free."""
    with Server.start(spec, notify_keyspace_events="") as server, server.client() as client:
        pool = Pool(client, "p")
        pool.add("r1", "r2")
        save_while_leased(client, pool)
        leased = Raw(client, pool).leased()
        held = [info.fence for info in pool.resources() if info.fence]
        server.kill()
        eventually(lambda: time.time() * 1000 > max(leased.values()), "the leases to lapse")
        server.restart()
        assert Raw(client, pool).leased() == leased, "nobody swept them yet"
        first = pool.try_acquire()
        assert first is not None
        assert first.resource == "r1"
        assert all(first.fence > fence for fence in held)
        assert pool.stats().free == 1
        assert take(pool).resource == "r2"


def test_snapshot_without_the_last_grants(spec: Spec) -> None:
    """The server lost writes; the holder's lease is gone, the fence goes on rising."""
    with Server.start(spec) as server, server.client() as client:
        pool = Pool(client, "p")
        pool.add("r1")
        client.save()
        lost = take(pool)
        server.kill()
        server.restart()
        assert pool.stats() == Stats(1, 1, 0, 0, 0, 0, 0, 0)
        with pytest.raises(LeaseLost):
            lost.renew()
        fresh = take(pool)
        assert fresh.fence > lost.fence
        fresh.renew()
