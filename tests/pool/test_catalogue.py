"""Which pools a server holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import relet
from relet import Pool
from tests.command import relet as command
from tests.helpers import unique
from tests.servers import Cluster, Server

PROTOCOLS: list[dict[str, Any]] = [] if redis.__version__.startswith("4.") else [{"protocol": 2}, {"protocol": 3}]
"""redis-py can choose from version 5 on."""


@pytest.fixture
def foreign(client: redis.Redis, pool: Pool) -> Iterator[None]:
    """Keys that look like pools, and are none."""
    prefix = f"{pool.namespace}:pool:"
    hashes = ["{}", "{a b}", "{a:b}", "{a}b}", "{x" + "y" * 128 + "}", "{a}:resources", "a", "{a"]
    keys: list[Any] = [prefix + rest for rest in hashes]
    keys.append(prefix.encode() + b"{\xff}")
    keys += [f"x{prefix}{{a}}", f"{pool.namespace}:lease:{{a}}"]
    for key in keys:
        client.hset(key, "order", "rank")
    client.set(prefix + "{text}", "a text")
    yield
    client.delete(*keys, prefix + "{text}")


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, *PROTOCOLS])
def test_it_names_the_pools_of_the_namespace_alone(
    server: Server, pool: Pool, make_pool: Callable[..., Pool], options: dict[str, Any]
) -> None:
    names = {"gpu", "*", "[a]", "gpu\\é", "x" * 128}
    for name in names:
        make_pool(name=name, namespace=pool.namespace).add("a")
    make_pool(name="other", namespace=pool.namespace + "2").add("a")
    with server.client(**options) as client:
        found = list(relet.pools(client, pool.namespace))
    assert len(found) == len(names)
    assert set(found) == names


def test_it_goes_through_all_pages(client: redis.Redis, pool: Pool) -> None:
    """More keys than one SCAN looks at, and each pool once."""
    expected = {f"p{number}" for number in range(3000)}
    keys = [f"{pool.namespace}:pool:{{{name}}}" for name in expected]
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.hset(key, "order", "rank")
        pipeline.execute()
    try:
        found = list(relet.pools(client, pool.namespace))
    finally:
        client.delete(*keys)
    assert len(found) == len(expected)
    assert set(found) == expected


def test_a_client_of_valkey(server: Server, pool: Pool) -> None:
    valkey = pytest.importorskip("valkey", reason="valkey-py is not installed (the extra `embedded` brings it)")
    pool.add("a")
    with valkey.Valkey(port=server.port, decode_responses=True) as client:
        assert list(relet.pools(client, pool.namespace)) == [pool.name]


def test_wrong_arguments_show_at_once(client: redis.Redis) -> None:
    with pytest.raises(ValueError, match="a namespace has"):
        relet.pools(client, "a*")
    with pytest.raises(TypeError, match="a client of redis-py or valkey-py"):
        relet.pools("redis://localhost")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start("valkey-9.1") as three:
        yield three


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize(("library", "kind"), [("redis", "RedisCluster"), ("valkey", "ValkeyCluster")])
def test_every_master_of_a_cluster(cluster: Cluster, library: str, kind: str, decode: bool) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed (the extra `embedded` brings valkey)")
    namespace, names = unique("ns"), [f"pool-{number}" for number in range(30)]
    with getattr(module, kind).from_url(cluster.url, decode_responses=decode) as client:
        pools = [Pool(client, name, namespace=namespace) for name in names]
        for pool in pools:
            pool.add("a")
        try:
            assert sorted(relet.pools(client, namespace)) == sorted(names)
            shown = command("pools", "--json", "--url", cluster.url, "--namespace", namespace)
            status = command("status", "pool-7", "--json", "--url", cluster.url, "--namespace", namespace)
        finally:
            for pool in pools:
                pool.destroy()
        assert shown.json == sorted(names)
        assert status.json["total"] == 1
        assert list(relet.pools(client, namespace)) == []
