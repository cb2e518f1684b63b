"""gears/reclaim.py on every server, also without RedisGears: see host.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from relet import Pool
from tests.engines.host import Host
from tests.helpers import Raw, eventually, lapse, lease_all, names, take, unique
from tests.servers import Server

ODD_NAMES = ["gpu 0", "{gpu}", "a:b:c", "rack{1}:slot 2", "}{", "Größe-№1", "🦊:🦊", "'\"\\", "x" * 512]


@pytest.fixture
def host(server: Server, pool: Pool) -> Iterator[Host]:
    with Host(server, pool.namespace) as one:
        yield one


def test_how_it_registers(host: Host, pool: Pool) -> None:
    assert host.registered["reader"] == "KeysReader"
    assert host.registered["prefix"] == f"{pool.namespace}:lease:*"
    assert host.registered["eventTypes"] == ["expired"]
    assert host.registered["mode"] == "async_local", "in mode sync, a script run by the handler aborts the server"
    assert host.registered["readValue"] is False
    assert host.registered["desc"].startswith(f"relet reclaim namespace={pool.namespace} version=")


def test_lapsed_leases_come_back_with_their_events(host: Host, pool: Pool, client: redis.Redis) -> None:
    pool.add(names(20))
    held = take(pool)
    lease_all(pool, 19, ttl=0.5)
    raw = Raw(client, pool)
    eventually(lambda: host.pump() >= 19, "19 events")
    assert set(raw.free()) == set(names(20)) - {held.resource}
    assert set(raw.leased()) == {held.resource}
    assert pool.stats().lapsed == 19
    assert raw.token(held.resource) == held.token


def test_odd_names(host: Host, make_pool: Callable[..., Pool], client: redis.Redis, pool: Pool) -> None:
    odd = make_pool(client, name=unique("Größe-🦊"), namespace=pool.namespace)
    odd.add(ODD_NAMES)
    lease_all(odd, len(ODD_NAMES), ttl=0.5)
    eventually(lambda: host.pump() >= len(ODD_NAMES), "the events")
    assert set(Raw(client, odd).free()) == set(ODD_NAMES)


def test_keys_that_are_not_ours(host: Host, pool: Pool, client: redis.Redis) -> None:
    prefix = f"{pool.namespace}:lease:".encode()
    junk = [b"junk", b"", b"{}:x", b"{a}", b"{a}:", b"{a:b}:x", b"{a}x:y", b"{\xff}:x", b"{a}:\xff", b"{a}\xff:x"]
    for end in junk:
        client.set(prefix + end, "x", px=1)
    sent = len(host.calls)
    eventually(lambda: host.pump() >= len(junk), "the events")
    assert host.calls[sent:] == []
    assert client.keys(f"{pool.namespace}:*") == []


def test_the_key_of_a_pool_that_is_not_there(host: Host, pool: Pool, client: redis.Redis) -> None:
    host.handle(f"{pool.namespace}:lease:{{no such pool}}:x")
    assert client.keys(f"{pool.namespace}:*") == []


def test_a_late_event_leaves_the_next_holder_alone(host: Host, pool: Pool, client: redis.Redis) -> None:
    pool.add("r")
    lapse(take(pool, ttl=0.01))
    lease = take(pool)
    raw = Raw(client, pool)
    before = raw.leased()
    host.handle(raw.tracking + "r")
    assert raw.leased() == before
    assert raw.token("r") == lease.token
    assert client.pttl(raw.tracking + "r") > 0


def test_one_event_brings_back_those_that_never_had_one(host: Host, pool: Pool, client: redis.Redis) -> None:
    """More than a call may take, so that the event has to go on."""
    batch = host.module["BATCH"]
    pool.add(names(2 * batch + 50))
    leases = lease_all(pool, 2 * batch + 50, ttl=1)
    raw = Raw(client, pool)
    client.delete(*(raw.tracking + lease.resource for lease in leases))
    lapse(leases[-1])
    sent = len(host.calls)
    host.handle(raw.tracking + leases[0].resource)
    assert raw.leased() == {}
    assert len(raw.free()) == 2 * batch + 50
    assert [call[0] for call in host.calls[sent:]] in (["EVALSHA"] * 3, ["EVALSHA", "EVAL"] + ["EVALSHA"] * 2)


def test_a_server_that_forgot_its_scripts(host: Host, pool: Pool, client: redis.Redis) -> None:
    pool.add("r")
    lapse(take(pool, ttl=0.01))
    client.script_flush()
    raw = Raw(client, pool)
    host.handle(raw.tracking + "r")
    assert set(raw.free()) == {"r"}


def test_a_failure_is_raised_and_logged_once(host: Host, pool: Pool, client: redis.Redis) -> None:
    raw = Raw(client, pool)
    client.set(f"{raw.root}:leased", "not a sorted set")
    for _ in range(3):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            host.handle(raw.tracking + "r")
    assert len(host.log) == 1
    assert repr(pool.name) in host.log[0]
    assert "WRONGTYPE" in host.log[0]
    client.delete(f"{raw.root}:leased")
