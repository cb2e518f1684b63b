"""What crosses the wire comes back unharmed: names, owners, attributes, by any client, in any database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from relet import Pool
from tests.helpers import Raw, lapse, take, unique
from tests.servers import Server

NAMES = [
    "ü",
    "🙂👩‍👩‍👧",
    "quote \" and ' and `",
    "x" * 512,
    "ü" * 256,
    "a b",
    " leading and trailing ",
    " ",
    "{x}",
    "a:b:c",
    "- dash",
    "%s %d \\n \\x00",
    "\u2028\u00a0\u200b\ufeff",
    "0",
    "-1",
    "1e400",
]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decoded": {"decode_responses": True},
    "resp2": {"protocol": 2},
    "resp2-decoded": {"protocol": 2, "decode_responses": True},
    "resp3": {"protocol": 3},
    "resp3-decoded": {"protocol": 3, "decode_responses": True},
    "latin-1": {"encoding": "latin-1"},
    "latin-1-decoded": {"encoding": "latin-1", "decode_responses": True, "encoding_errors": "strict"},
    "utf-16": {"encoding": "utf-16", "protocol": 3},
    "database-7": {"db": 7},
}


@pytest.fixture(params=OPTIONS)
def odd_pool(request: pytest.FixtureRequest, server: Server, make_pool: Callable[..., Pool]) -> Iterator[Pool]:
    with redis.Redis(port=server.port, **OPTIONS[request.param]) as client:
        pool = make_pool(client)
        yield pool
        pool.destroy()


def test_names_and_owners_round_trip(odd_pool: Pool) -> None:
    pool = odd_pool
    assert pool.add({name: {name: [name]} for name in NAMES}) == len(NAMES)
    assert pool.add(NAMES) == 0
    for name in NAMES:
        owner = name[:100]
        lease = take(pool, owner=owner)
        assert (lease.resource, lease.attributes) == (name, {name: [name]})
        lease.renew()
        pool.renew(lease.token)
        (info,) = [info for info in pool.resources() if info.state == "leased"]
        assert (info.name, info.owner, info.fence) == (name, owner, lease.fence)
        assert info.attributes == {name: [name]}
        assert pool.release(resource=name, force=True)
        lease = take(pool, 0.001)
        lapse(lease)
        again = take(pool)
        assert again.resource == name
        again.release()
        assert pool.remove(name) == 1
    assert pool.stats().total == 0


def test_a_pool_and_namespace_with_odd_names(make_pool: Callable[..., Pool]) -> None:
    for name, namespace in [("ü🙂", "relet"), ("a-b.c/d*?[x]", "a:b.c_d-e"), ("x" * 128, "n" * 64)]:
        pool = make_pool(name=name, namespace=namespace)
        assert pool.add("r1") == 1
        with pool.acquire(timeout=0) as lease:
            assert lease.resource == "r1"


def test_the_keys_are_those_of_the_contract(server: Server, make_pool: Callable[..., Pool]) -> None:
    """Other programs read them: RedisGears watches the prefix, people look at the two sorted sets."""
    with redis.Redis(port=server.port, db=3) as client:
        name = unique("gpu")
        pool = make_pool(client, name)
        pool.add("r 1", "r2")
        lease = take(pool, 20)
        assert client.get(f"relet:lease:{{{name}}}:r 1") == lease.token.encode()
        assert 0 < client.pttl(f"relet:lease:{{{name}}}:r 1") <= 20_000
        assert client.zrange(f"relet:pool:{{{name}}}:free", 0, -1) == [b"r2"]
        assert client.zrange(f"relet:pool:{{{name}}}:leased", 0, -1) == [b"r 1"]
        assert Raw(client, pool).leased() == {"r 1": lease._grant.deadline_ms}
        keys = client.keys("*")
        assert keys
        assert all(f"{{{name}}}".encode() in key for key in keys), "one hash tag, one slot"
        pool.destroy()
