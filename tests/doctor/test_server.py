"""What the doctor sees of a server: its role, its rights, its clock, its functions; and what it may not see."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import redis

from relet import Pool, deploy, undeploy
from relet.doctor import Finding, diagnose, server
from relet.scripts import gears
from tests.helpers import unique
from tests.servers import Cluster, Server
from tests.topology.rights import PASSWORD, USER, documented, grant

VALKEY = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)
WITH_RIGHTS = pytest.mark.parametrize("spec", ["redis-6.2", "redis-7.0", "valkey-9.1"], indirect=True)


def documented_for_the_doctor() -> list[str]:
    text = Path(str(gears() / "README.md")).read_text("utf-8")
    found = re.search(r"to examine a pool\s+`([^`]+)`", text)
    assert found
    return found[1].split()


def at(level: str, findings: list[Finding]) -> str:
    return "\n".join(f"{one.where}: {one.what}; {one.todo}" for one in findings if one.level == level)


@VALKEY
def test_a_server_in_order(client: redis.Redis) -> None:
    found = list(diagnose(client, namespace=unique("ns")))
    assert at("error", found) == ""
    assert "nothing is kept on disk" in at("warn", found)
    good = at("ok", found)
    for words in ("Valkey 9.1", "a master", "no key is evicted", "its clock agrees", "this user may do all", "listen"):
        assert words in good


@VALKEY
def test_settings_show(client: redis.Redis) -> None:
    for name, value, level, words in (
        ("appendonly", "yes", "ok", "append-only"),
        ("save", "3600 1", "warn", "snapshots only"),
        ("notify-keyspace-events", "Ex", "ok", "says which keys expire"),
    ):
        before = str(client.config_get(name)[name])  # type: ignore[index]
        assert words not in at(level, list(diagnose(client, namespace=unique("ns"))))
        client.config_set(name, value)
        try:
            assert words in at(level, list(diagnose(client, namespace=unique("ns"))))
        finally:
            client.config_set(name, before)


def test_a_replica() -> None:
    with Server.start("valkey-9.1") as master, Server.start_replica_of(master) as replica, replica.client() as client:
        errors = at("error", list(diagnose(client)))
    assert f"a replica of 127.0.0.1:{master.port}" in errors


@VALKEY
def test_another_clock(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's clock is set, so to speak: the server's is not ours to set."""
    real = time.time
    for ahead, words in ((100.0, "behind"), (-100.0, "ahead of")):
        monkeypatch.setattr(server.time, "time", lambda ahead=ahead: real() + ahead)
        assert f"its clock is 100.0 s {words} this machine's" in at("warn", list(diagnose(client)))


@WITH_RIGHTS
def test_a_user_with_few_rights(server: Server, client: redis.Redis, pool: Pool) -> None:
    pool.add("r1")
    own = [right.replace("relet:", f"{pool.namespace}:") for right in documented()]
    grant(client, own)
    client.execute_command("ACL", "SETUSER", USER, "-info", "-time", "-scan")
    with redis.Redis.from_url(server.url, username=USER, password=PASSWORD) as user:
        found = list(diagnose(user, namespace=pool.namespace))
        warned = at("warn", found)
        for words in ("+info", "+config|get", "+time", "+scan"):
            assert words in warned
        assert "lacks +time" in at("error", found)
        named = list(diagnose(user, [pool.name], namespace=pool.namespace))
        assert "it cannot be examined" in at("warn", named)
        named = list(diagnose(user, [pool.name], namespace=pool.namespace, repair=True))
        assert "cannot be mended" in at("error", named)
    client.execute_command("ACL", "DELUSER", USER)


@WITH_RIGHTS
def test_the_rights_that_the_readme_gives_suffice(server: Server, client: redis.Redis, pool: Pool) -> None:
    pool.add("r1", "r2")
    pool.try_acquire()
    client.delete(f"{pool.namespace}:pool:{{{pool.name}}}:leased")
    config = "+config" if server.spec.major == 6 else "+config|get"
    extra = [config, *documented_for_the_doctor()]
    grant(client, [right.replace("relet:", f"{pool.namespace}:") for right in documented()] + extra)
    with redis.Redis.from_url(server.url, username=USER, password=PASSWORD) as user:
        found = list(diagnose(user, namespace=pool.namespace, repair=True))
    client.execute_command("ACL", "DELUSER", USER)
    assert at("error", found) == ""
    assert "cannot be seen" not in at("warn", found)
    assert "r1 is leased" in at("mended", found)


@pytest.mark.parametrize("spec", ["redis-stack-7.4"], indirect=True)
def test_functions(client: redis.Redis) -> None:
    namespace = unique("ns")
    assert "no function is deployed" in at("warn", list(diagnose(client, namespace=namespace)))
    deploy(client, namespace)
    try:
        assert "the deployed function is current" in at("ok", list(diagnose(client, namespace=namespace)))
        text = str(client.execute_command("TFUNCTION", "LIST"))
        assert namespace.replace("-", "_2d") in text
    finally:
        undeploy(client, namespace)


def test_a_cluster() -> None:
    with Cluster.start("valkey-9.1") as cluster, cluster.client() as client, Pool(client, "p") as pool:
        pool.add("r1", "r2")
        lease = pool.try_acquire()
        assert lease is not None
        client.delete("relet:pool:{p}")
        found = list(diagnose(client))
        masters = {one.where for one in found if "a master of a cluster" in one.what}
        assert len(masters) >= 3
        assert "is gone" in at("error", found)
        assert at("error", list(diagnose(client, repair=True))) == ""
        lease.renew(60)
        client.disconnect_connection_pools()  # closing it leaves the nodes' connections to the garbage collector
