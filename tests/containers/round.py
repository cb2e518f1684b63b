"""A short round of what a user sees of a pool, the same on every server and engine."""

from __future__ import annotations

from typing import Any

import pytest

from relet import LeaseLost, Pool, deploy, undeploy
from tests.helpers import eventually, unique

SHORT_S = 0.05
LONG_S = 60.0
MANY_POOLS = 1_000
NO_FUNCTIONS = "for which this version of relet has no functions"


def play(client: Any, engine: str) -> None:
    """Plays the round on the server, or on every shard of the cluster, and leaves no key behind.

    Where the server has an ``engine`` that relet has functions for, lapsed leases must come back though nobody calls;
    elsewhere with a call, and ``deploy`` says why.
    """
    namespace = unique("round")
    deployment = deploy(client, namespace)
    by_itself = deployment.engine != "none"
    try:
        assert deployment.engine == engine or (not by_itself and NO_FUNCTIONS in deployment.detail), deployment
        for name in _a_pool_for_each_shard(client, namespace):
            _play_on(Pool(client, name, ttl=LONG_S, namespace=namespace), client, by_itself=by_itself)
    finally:
        removed = undeploy(client, namespace)
    assert removed == (1 if by_itself else 0)
    assert list(client.scan_iter(match=f"{namespace}:*")) == []


def _play_on(pool: Pool, client: Any, *, by_itself: bool) -> None:
    try:
        assert pool.add("first", {"second": {"memory": 80}}) == 2
        first, second = pool.acquire(timeout=0), pool.acquire(timeout=0)
        assert [first.resource, second.resource] == ["first", "second"]
        assert second.attributes == {"memory": 80}
        assert second.fence > first.fence
        assert pool.try_acquire() is None

        first.renew(SHORT_S)
        free = f"{pool.namespace}:pool:{{{pool.name}}}:free"
        if by_itself:
            eventually(lambda: client.zcard(free) == 1, f"a lapsed lease of {pool.name} to come back by itself")
        else:
            eventually(lambda: pool.reclaim() == 1, f"a lapsed lease of {pool.name} to be taken back")
        with pytest.raises(LeaseLost):
            first.release()

        again = pool.acquire(timeout=0)
        assert again.resource == "first"
        assert again.fence > second.fence
        again.release()
        second.release()
        stats = pool.stats()
        assert (stats.total, stats.free, stats.leased, stats.granted, stats.released, stats.lapsed) == (
            2,
            2,
            0,
            3,
            2,
            1,
        )
    finally:
        pool.destroy()


def _a_pool_for_each_shard(client: Any, namespace: str) -> list[str]:
    """Names of pools, one on each master of a cluster; one name where there is no cluster."""
    if not hasattr(client, "get_primaries"):
        return ["pool"]
    found: dict[str, str] = {}
    for number in range(MANY_POOLS):
        slot = client.keyslot(f"{namespace}:pool:{{pool-{number}}}")
        found.setdefault(client.nodes_manager.get_node_from_slot(slot).name, f"pool-{number}")
    assert len(found) == len(client.get_primaries())
    return list(found.values())
