"""relet doctor as its users run it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from relet import Pool
from tests.command import failed, relet
from tests.helpers import take, unique
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)


def test_found_and_mended(server: Server, client: redis.Redis, make_pool: Callable[..., Pool]) -> None:
    namespace = unique("ns")
    env = {"RELET_URL": server.url, "RELET_NAMESPACE": namespace}
    pool, other = (make_pool(name=name, namespace=namespace) for name in ("gpu", "lab"))
    pool.add("r1", "r2", order="lru")
    other.add("r1")
    lease = take(pool)
    whole = relet("doctor", env=env)
    assert (whole.code, whole.err) == (0, "")
    assert whole.out.count("each in exactly one state") == 2
    client.delete(f"{namespace}:pool:{{gpu}}")
    for names in ((), ("gpu",)):
        broken = relet("doctor", *names, env=env)
        assert (broken.code, broken.err) == (1, "")
        assert "is gone" in broken.out
        assert "do: relet doctor --repair" in broken.out
    assert relet("doctor", "lab", env=env).code == 0
    found = relet("doctor", "--json", env=env)
    assert found.code == 1
    assert {"level", "where", "what", "why", "todo"} == set(found.json[0])
    repaired = relet("doctor", "gpu", "--repair", "--order", "random", env=env)
    assert repaired.code == 0
    assert "with the order random" in repaired.out
    assert pool.order() == "random"
    lease.renew(30)
    lease.release()


def test_what_is_not_there(server: Server) -> None:
    env = {"RELET_URL": server.url, "RELET_NAMESPACE": unique("ns")}
    nothing = relet("doctor", "gpu", env=env)
    assert nothing.code == 1
    assert "there is no pool 'gpu'" in nothing.out
    assert relet("doctor", "gpu", "--repair", env=env).code == 1
    assert relet("doctor", env=env).code == 0
    assert "--order goes with --repair" in failed(relet("doctor", "--order", "lru", env=env), 2)
    assert "no braces" in failed(relet("doctor", "a{b", env=env), 2)
