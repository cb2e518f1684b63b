"""The listener on a cluster: it hears every node, and follows a pool to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from relet import Listener, Pool
from tests.helpers import Raw, lease_all, missing, names
from tests.listener.looks import SETTING, all_free, lapsed
from tests.servers import Cluster, Unavailable


@pytest.fixture(scope="module", params=["valkey-9.1", "redis-7.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        one = Cluster.start(request.param)
    except Unavailable as reason:
        missing(str(reason))
    with one:
        yield one


@pytest.mark.parametrize("is_on", [True, False], ids=["notifications", "clock"])
def test_a_cluster(cluster: Cluster, is_on: bool, caplog: pytest.LogCaptureFixture) -> None:
    with closing(cluster.client()) as client:
        pools = [Pool(client, f"pool-{number}") for number in range(12)]
        owners = {cluster.owner(client.keyslot(Raw(client, pool).root)) for pool in pools}
        assert owners == {0, 1, 2}
        with Listener(client, set_notifications=is_on):
            for pool in pools:
                pool.add(names(20))
                lease_all(pool, 20, ttl=0.3)
            for pool in pools:
                all_free(pool, client, 20)
                assert lapsed(pool, client) == 20
        for node in cluster.nodes:
            with closing(node.client()) as one:
                assert ("x" in one.config_get(SETTING)[SETTING]) == is_on
                assert f":{node.port}" in caplog.text
                one.config_set(SETTING, "")
        for pool in pools:
            pool.destroy()


def test_a_pool_that_moves_to_another_node(cluster: Cluster) -> None:
    with closing(cluster.client()) as client, closing(cluster.client()) as lent:
        pool = Pool(client, "gpu")
        slot = client.keyslot(Raw(client, pool).root)
        home = cluster.owner(slot)
        pool.add(names(300))
        with Listener(lent):
            for index in ((home + 1) % 3, (home + 2) % 3, home):
                lease_all(pool, 300, ttl=1)
                cluster.move_slot(slot, index)
                all_free(pool, client, 300)
        assert lapsed(pool, client) == 900
        pool.destroy()
