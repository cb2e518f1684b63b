"""Every engine does the same: the vectors through the script, reclaim.py, the real RedisGears 1.2, and RedisGears 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from relet import deploy, undeploy
from relet.scripts import script
from tests.conftest import NAMES
from tests.engines.gears import registrations
from tests.engines.host import Host
from tests.engines.states import Place
from tests.engines.vectors import VECTORS, Vector
from tests.helpers import eventually, unique
from tests.servers import SERVERS, Server

each_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
Put = Callable[[Vector], Place]


@pytest.fixture
def namespace() -> str:
    return unique("vector")


@pytest.fixture
def put(client: redis.Redis, namespace: str) -> Iterator[Put]:
    """Puts a vector's first state on the server; all is gone at the end."""
    places: list[Place] = []

    def make(vector: Vector) -> Place:
        places.append(Place(client, namespace, vector))
        return places[-1]

    yield make
    for place in places:
        place.clean()


def check(place: Place) -> None:
    unlike = [*place.differences(), *place.said_differently()]
    assert not unlike, "\n".join(unlike)


@each_vector
def test_the_script(vector: Vector, put: Put, server: Server) -> None:
    place = put(vector)
    reclaim = script("reclaim").text
    with closing(server.client(db=vector.database)) as there:
        for _ in range(10):
            reply = there.eval(reclaim, 2, place.root, f"{place.root}:", place.tracking, 100)
            if reply.split()[1] != b"0":
                break
    check(place)


@each_vector
def test_reclaim_py_in_the_host(vector: Vector, put: Put, server: Server, namespace: str) -> None:
    place = put(vector)
    with Host(server, namespace, vector.database) as host:
        place.let_the_key_expire()
        eventually(host.pump, "the event")
    check(place)


@pytest.mark.parametrize("spec", [name for name in NAMES if SERVERS[name].engine != "none"], indirect=True)
@each_vector
def test_the_engine_in_the_server(
    vector: Vector, put: Put, server: Server, client: redis.Redis, namespace: str
) -> None:
    place = put(vector)
    engine = deploy(client, namespace).engine
    assert engine == server.spec.engine
    try:
        place.let_the_key_expire()
        eventually(place.has_expired, "the expiry")
        if engine == "redisgears-1":
            (ours,) = (each for each in registrations(client) if f"namespace={namespace} " in each.description)
            identity = ours.identity
            eventually(lambda: handled(client, identity), "the event to be handled")
        eventually(lambda: not place.differences(), "the state", timeout=5)
    except TimeoutError:
        check(place)
        raise
    finally:
        undeploy(client, namespace)
    check(place)


def handled(client: redis.Redis, identity: str) -> bool:
    found: Any = {each.identity: each for each in registrations(client)}
    return bool(found[identity].succeeded + found[identity].failed)
