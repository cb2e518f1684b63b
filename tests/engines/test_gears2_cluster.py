"""RedisGears 2 in a cluster of three shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from relet import Pool, deploy, deployed, undeploy
from tests.command import relet
from tests.engines.gears2 import SERVER, libraries
from tests.helpers import eventually, missing, take
from tests.servers import Cluster, Unavailable


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        one = Cluster.start(SERVER)
    except Unavailable as reason:
        missing(str(reason))
    with one:
        yield one


@pytest.fixture
def cluster_client(cluster: Cluster) -> Iterator[redis.RedisCluster]:
    with closing(cluster.client()) as client:
        deploy(client)
        yield client
        left = client.keys("*", target_nodes="primaries")
        client.flushall(target_nodes="primaries")
        undeploy(client)
        assert not left


def on_each_shard(cluster: Cluster, client: redis.RedisCluster) -> list[Pool]:
    """Pools enough for every shard to have some."""
    pools = [Pool(client, f"pool-{number}") for number in range(12)]
    assert {cluster.owner(client.keyslot(root(pool))) for pool in pools} == {0, 1, 2}
    return pools


def root(pool: Pool) -> str:
    return f"relet:pool:{{{pool.name}}}"


def test_one_deployment_reaches_every_shard(cluster: Cluster, cluster_client: redis.RedisCluster) -> None:
    pools = on_each_shard(cluster, cluster_client)
    for pool in pools:
        pool.add("r")
        take(pool, ttl=0.05)
    for pool in pools:
        free = f"{root(pool)}:free"
        eventually(lambda free=free: cluster_client.zcard(free) == 1, f"the reclaim in {pool.name}")
        pool.destroy()
    assert undeploy(cluster_client) == 1
    assert deployed(cluster_client) is None


def test_a_shard_that_forgot_the_functions_is_named(cluster: Cluster, cluster_client: redis.RedisCluster) -> None:
    node = cluster.nodes[1]
    node.restart()
    eventually(lambda: _is_well(cluster), "the cluster to be well")
    running = deployed(cluster_client)
    assert running is not None
    assert running.missing == (f"127.0.0.1:{node.port}",)
    assert not running.current
    last = relet("--url", cluster.url, "status").out.splitlines()[-1]
    assert last.startswith(f"no function is deployed for this namespace on 127.0.0.1:{node.port}: ")
    assert deploy(cluster_client).replaced == 1
    again = deployed(cluster_client)
    assert again is not None
    assert again.current


def _is_well(cluster: Cluster) -> bool:
    for node in cluster.nodes:
        with closing(node.client(decode_responses=True)) as client:
            information: Any = client.execute_command("CLUSTER INFO")
            if information["cluster_state"] != "ok":
                return False
    return True


def test_a_lapse_while_the_slot_moves(cluster: Cluster, cluster_client: redis.RedisCluster) -> None:
    """With half of the keys elsewhere nothing is touched; the lease comes back with the next call."""
    pool = Pool(cluster_client, "moving")
    pool.add("r")
    slot = cluster_client.keyslot(root(pool))
    source = cluster.owner(slot)
    target = (source + 1) % 3
    leased = f"{root(pool)}:leased"
    take(pool, ttl=0.5)
    cluster.begin_move(slot, target)
    with closing(cluster.nodes[source].client()) as there:
        eventually(lambda: libraries(there)["relet_relet"]["num_failed"] == 1, "the refused event")
        kept = (root(pool), leased, f"{root(pool)}:resources", f"{root(pool)}:log")
        assert set(there.keys()) == {name.encode() for name in kept}
    cluster.move_keys(slot, source, target)
    cluster.finish_move(slot, source, target)
    assert pool.reclaim() == 1
    take(pool, ttl=0.5)
    eventually(lambda: cluster_client.zcard(f"{root(pool)}:free") == 1, "the reclaim on the new shard")
    pool.destroy()
