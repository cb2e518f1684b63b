"""The engine over restarts, deployments and the lack of it."""

from __future__ import annotations

from typing import Any

import pytest

from relet import LeaseLost, Stats, deploy, deployed, undeploy
from tests.conformance.place import Place
from tests.conformance.test_lapses import come_back
from tests.engines.gears import registrations
from tests.engines.gears2 import libraries
from tests.helpers import lapse, take, unique
from tests.servers import SERVERS, Server


def test_a_restart_of_the_server(place: Place) -> None:
    """Its memory is an append-only file. One lease is held all the while, one lapses, and the engine goes on."""
    pool = place.pool()
    pool.add("r1", "r2", "r3")
    held, short = take(pool, 600), take(pool, 0.3)
    place.restart(place.server_of(pool))
    held.renew()
    assert place.raw(pool).token("r1") == held.token
    lapse(short)
    if place.pair.deploys and place.home.cluster:
        # A shard that has just come back takes itself for down, and refuses what its functions ask when a key expires.
        # The pool's next event does it, whichever lease it is of.
        place.admin.set(place.raw(pool).tracking + "r3", "a signal", px=1)
    come_back(place, pool, 2)
    with pytest.raises(LeaseLost):
        short.release()
    after = take(pool, 0.05)
    assert after.fence > short.fence
    lapse(after)
    come_back(place, pool, 2)
    held.release()
    assert pool.stats() == Stats(3, 3, 0, 0, 0, 3, 1, 2)


def registered(server: Server, namespace: str) -> int:
    """How many of our registrations, or libraries, one server has for the namespace."""
    with server.client() as client:
        if server.spec.engine == "redisgears-1":
            return sum(f" namespace={namespace} " in each.description for each in registrations(client))
        if server.spec.engine == "redisgears-2":
            found: list[Any] = [each.get("description", b"") for each in libraries(client).values()]
            return sum(f" namespace={namespace} ".encode() in each for each in found)
        return 0


def test_deploying_twice_leaves_one(place: Place) -> None:
    """In a namespace that nobody else uses, whichever engine is at work."""
    namespace = unique("ns")
    engine = SERVERS[place.pair.server].engine
    count = 0 if engine == "none" else 1
    first, second = deploy(place.admin, namespace), deploy(place.admin, namespace)
    assert (first.engine, first.replaced) == (engine, 0)
    assert (second.engine, second.replaced) == (engine, count)
    assert [registered(server, namespace) for server in place.home.servers] == [count] * len(place.home.servers)
    running = deployed(place.admin, namespace)
    assert (running is not None and running.current) is bool(count)
    assert undeploy(place.admin, namespace) == count
    assert undeploy(place.admin, namespace) == 0
    assert deployed(place.admin, namespace) is None


def test_without_its_engine_leases_come_back_with_the_next_call(place: Place) -> None:
    """Undeploying, or ending the listener, touches no pool."""
    pool = place.pool()
    pool.add("r1", "r2")
    held = take(pool)
    with place.without_engine():
        assert pool.stats() == Stats(2, 1, 1, 0, 0, 1, 0, 0)
        lease = take(pool, 0.05)
        lapse(lease)
        raw = place.raw(pool)
        assert (set(raw.free()), set(raw.leased())) == (set(), {"r1", "r2"})
        after = take(pool, 0.05)
        assert (after.resource, after.fence > lease.fence) == ("r2", True)
    held.renew()
    lapse(after)
    come_back(place, pool, 1)
    held.release()
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 3, 1, 2)
