"""gears/reclaim.py on every server, also without RedisGears: only its three globals are bound to a real server.

A test plays RedisGears: it feeds the handler the expired events that the server sent as notifications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from relet import Pool
from relet.engines.gears1 import source
from tests.helpers import Raw, eventually, lapse, lease_all, names, take, unique
from tests.servers import Server

EVENTS = "__keyevent@0__:expired"
ODD_NAMES = ["gpu 0", "{gpu}", "a:b:c", "rack{1}:slot 2", "}{", "Größe-№1", "🦊:🦊", "'\"\\", "x" * 512]


class Host:
    """Runs reclaim.py for one namespace, as the server would with RedisGears."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.client = server.client(decode_responses=True)
        self.subscriber = server.client().pubsub()
        self.subscriber.subscribe(EVENTS)
        self.subscriber.get_message(timeout=5)
        self.registered: dict[str, Any] = {}
        self.log: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self.handled = 0
        bound = {"GB": self._builder, "execute": self._execute, "log": self._log}
        self.module: dict[str, Any] = {**bound}
        exec(compile(source(namespace), "reclaim.py", "exec"), self.module)

    def handle(self, key: str | bytearray) -> None:
        self.registered["handler"]({"event": "expired", "key": key})

    def pump(self) -> int:
        """Hands over the events that have come; answers how many there were so far."""
        while message := self.subscriber.get_message(ignore_subscribe_messages=True, timeout=0.01):
            try:
                key: str | bytearray = message["data"].decode()
            except UnicodeDecodeError:
                key = bytearray(message["data"])
            prefix = self.registered["prefix"].rstrip("*")
            if message["data"].startswith(prefix.encode()):
                self.handle(key)
                self.handled += 1
        return self.handled

    def close(self) -> None:
        self.subscriber.close()
        self.client.close()

    def _log(self, text: str, level: str) -> None:
        self.log.append(f"{level}: {text}")

    def _execute(self, *command: Any) -> Any:
        self.calls.append(command)
        if command[0] == "RG.DUMPREGISTRATIONS":
            return []
        try:
            return self.client.execute_command(*command)
        except redis.exceptions.NoScriptError as error:  # redis-py leaves the code out, RedisGears does not
            raise RuntimeError(f"NOSCRIPT {error}") from None

    def _builder(self, reader: str, desc: str) -> Any:
        host = self

        class Builder:
            def foreach(self, handler: Callable[[dict[str, Any]], None]) -> Builder:
                host.registered["handler"] = handler
                return self

            def register(self, **options: Any) -> None:
                host.registered.update(options, reader=reader, desc=desc)

        return Builder()


@pytest.fixture
def host(server: Server, pool: Pool, client: redis.Redis) -> Iterator[Host]:
    before = client.config_get("notify-keyspace-events")["notify-keyspace-events"]
    client.config_set("notify-keyspace-events", "Ex")
    one = Host(server, pool.namespace)
    yield one
    one.close()
    client.config_set("notify-keyspace-events", before)


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
    lease_all(pool, 19, ttl=0.02)
    raw = Raw(client, pool)
    eventually(lambda: host.pump() >= 19, "19 events")
    assert set(raw.free()) == set(names(20)) - {held.resource}
    assert set(raw.leased()) == {held.resource}
    assert pool.stats().lapsed == 19
    assert raw.token(held.resource) == held.token


def test_odd_names(host: Host, make_pool: Callable[..., Pool], client: redis.Redis, pool: Pool) -> None:
    odd = make_pool(client, name=unique("Größe-🦊"), namespace=pool.namespace)
    odd.add(ODD_NAMES)
    lease_all(odd, len(ODD_NAMES), ttl=0.02)
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
