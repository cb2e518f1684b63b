"""Everything that takes lapsed leases back, at once: each lapse is counted once, and nothing is lost."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import redis

from relet import Listener, Pool, deploy, undeploy
from tests.conftest import NAMES
from tests.helpers import eventually
from tests.lapses import lapse_together
from tests.servers import SERVERS, Server

LEASES = 2000
WITH_ENGINE = [name for name in NAMES if SERVERS[name].engine != "none"]


@pytest.mark.parametrize("spec", WITH_ENGINE, indirect=True)
def test_two_listeners_beside_functions_in_the_server(server: Server, client: redis.Redis) -> None:
    with ExitStack() as stack:
        assert deploy(client).engine == SERVERS[server.spec.name].engine
        stack.callback(undeploy, client)
        pool = Pool(client, "counted")
        stack.callback(pool.destroy)
        for _ in range(2):
            stack.enter_context(Listener(stack.enter_context(server.client())))
        lapse_together(client, pool, LEASES)
        eventually(lambda: client.zcard("relet:pool:{counted}:free") == LEASES, "all of them to be free")
        stats = pool.stats()
        assert (stats.free, stats.lapsed, stats.granted) == (LEASES, LEASES, LEASES)
        assert sum(event.kind == "lapse" for event in pool.events()) == LEASES
