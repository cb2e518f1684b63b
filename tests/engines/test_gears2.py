"""gears/reclaim.js inside the real RedisGears 2 of redis-stack.

These tests look at the keys with a plain client: relet's own calls would take lapsed leases back themselves.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import redis

from relet import Pool, ReletError, deploy, deployed, undeploy
from relet.engines import gears2
from tests.command import relet
from tests.engines.gears import ROOT
from tests.engines.gears2 import client, libraries, pool, shared, start
from tests.helpers import Raw, eventually, lapse, lease_all, names, take
from tests.servers import Server

__all__ = ["client", "pool", "shared", "start"]  # fixtures

RECLAIM_JS = ROOT / "gears" / "reclaim.js"
ODD_NAMES = ["gpu 0", "{gpu}", "a:b:c", "rack{1}:slot 2", "}{", "Größe-№1", "🦊:🦊", "'\"\\", "x" * 512]


def test_three_deployments_make_one_library(client: redis.Redis) -> None:
    first = deploy(client)
    assert (first.engine, first.namespace, first.replaced) == ("redisgears-2", "relet", 0)
    assert first.version
    assert "'relet'" in first.detail
    assert [deploy(client).replaced for _ in range(2)] == [1, 1]
    (trigger,) = libraries(client).values()
    description = f"relet reclaim namespace=relet version={first.version} hash={first.hash}"
    assert trigger["description"].decode() == description


def test_many_deploy_at_once(shared: Server, client: redis.Redis) -> None:
    def one(_: int) -> str:
        with closing(shared.client()) as own:
            return deploy(own).engine

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(one, range(16))) == {"redisgears-2"}
    assert len(libraries(client)) == 1


def test_the_file_itself_can_be_loaded(client: redis.Redis, pool: Pool) -> None:
    """As redis-cli -x does it; deploy then finds it up to date."""
    client.execute_command("TFUNCTION", "LOAD", "REPLACE", RECLAIM_JS.read_text("utf-8"))
    running = deployed(client)
    assert running is not None
    assert running.current
    pool.add("r")
    take(pool, ttl=0.05)
    eventually(lambda: set(Raw(client, pool).free()) == {"r"}, "the reclaim")


def test_an_older_version_is_seen_and_replaced(client: redis.Redis) -> None:
    text = gears2.source("relet")
    assert deployed(client) is None
    current = f'VERSION = "{gears2.constant(text, "VERSION")}"'
    client.execute_command("TFUNCTION", "LOAD", text.replace(current, 'VERSION = "0.0.1"'))
    older = deployed(client)
    assert older is not None
    assert (older.engine, older.version, older.current) == ("redisgears-2", "0.0.1", False)
    deployment = deploy(client)
    assert deployment.replaced == 1
    now = deployed(client)
    assert now is not None
    assert (now.version, now.hash, now.current, now.missing) == (deployment.version, deployment.hash, True, ())


def test_a_thousand_lapse_and_nobody_asks(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add(names(1000))
    lease_all(pool, 1000, ttl=0.5)
    eventually(lambda: client.zcard("relet:pool:{gpu}:free") == 1000, "all to be free")
    assert client.hget("relet:pool:{gpu}", "lapsed") == b"1000"
    assert client.zcard("relet:pool:{gpu}:leased") == 0
    eventually(lambda: not client.keys("relet:lease:*"), "all keys to expire")
    assert client.hget("relet:pool:{gpu}", "lapsed") == b"1000"
    assert libraries(client)["relet_relet"]["num_failed"] == 0
    assert set(Raw(client, pool).free()) == set(names(1000))


def test_a_script_that_touches_a_lapsed_key(client: redis.Redis, pool: Pool) -> None:
    """The event then fires inside that script, and is handled right after it."""
    deploy(client)
    client.config_set("hz", 1)
    pool.add("r1", "r2")
    raw = Raw(client, pool)
    try:
        lapse(take(pool, ttl=0.05))
        client.eval("return redis.call('EXISTS', KEYS[1])", 1, raw.tracking + "r1")
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the reclaim")
        lapse(take(pool, ttl=0.05))
        with client.pipeline() as transaction:
            transaction.get(raw.tracking + "r1")
            transaction.hget(raw.root, "order")
            transaction.execute()
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the reclaim")
    finally:
        client.config_set("hz", 10)
    assert libraries(client)["relet_relet"]["num_failed"] == 0


def test_the_key_of_the_next_holder_stays(client: redis.Redis, pool: Pool) -> None:
    """An acquire takes a lapsed lease back itself, touches its key, and so fires the event of the lease before."""
    deploy(client)
    pool.add("r")
    raw = Raw(client, pool)
    for _ in range(20):
        lapse(take(pool, ttl=0.002))
        lease = take(pool)
        assert raw.token("r") == lease.token
        assert set(raw.leased()) == {"r"}
        assert raw.free() == {}
        lease.renew()
        lease.release()


@pytest.mark.parametrize("count", [250, 2000])
def test_leases_without_an_event_come_back_with_one_that_has(client: redis.Redis, pool: Pool, count: int) -> None:
    """More than an event takes back at once, so that a task goes on behind the commands."""
    deploy(client)
    pool.add(names(count))
    raw = Raw(client, pool)
    leases = lease_all(pool, count - 1, ttl=2)
    client.delete(*(raw.tracking + lease.resource for lease in leases))
    lapse(leases[-1])
    take(pool, ttl=0.01)
    eventually(lambda: len(raw.free()) == count, "all to be free")
    assert client.hget(raw.root, "lapsed") == str(count).encode()


def test_one_who_waits_is_served(shared: Server, client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r1", "r2")
    first = take(pool, ttl=0.3)
    take(pool, ttl=60)
    with closing(shared.client()) as other, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(Pool(other, "gpu").acquire, 60, timeout=30)
        lease = waiting.result(timeout=30)
        assert lease.resource == first.resource
        assert lease.fence > first.fence
        assert Raw(client, pool).token(lease.resource) == lease.token
        lease.release()


def test_functions_that_somebody_deleted(client: redis.Redis) -> None:
    deploy(client)
    client.execute_command("TFUNCTION", "DELETE", "relet_relet")
    assert deployed(client) is None
    assert undeploy(client) == 0
    assert deploy(client).replaced == 0
    assert deployed(client) is not None


def test_an_event_in_another_database(shared: Server, client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r")
    lease = take(pool)
    raw = Raw(client, pool)
    with closing(redis.Redis(port=shared.port, db=1)) as other:
        other.set(raw.tracking + "r", "x", px=1)
        eventually(lambda: other.dbsize() == 0, "the expiry")
        with pytest.raises(ValueError, match="database 1"):
            deployed(other)
    assert raw.token("r") == lease.token
    assert set(raw.leased()) == {"r"}
    assert libraries(client)["relet_relet"]["num_failed"] == 0


def test_namespaces_side_by_side(client: redis.Redis) -> None:
    """Also where the keys of one lie under the prefix of the other, or the names differ in one sign alone."""
    spaces = ["relet", "relet:lease", "relet-2", "relet_2", "relet.2"]
    assert [deploy(client, space).replaced for space in spaces] == [0] * 5
    assert [deploy(client, space).replaced for space in spaces] == [1] * 5
    assert len(libraries(client)) == 5
    pools = [Pool(client, "gpu", namespace=space) for space in spaces]
    for one in pools:
        one.add("r1", "r2")
        take(one, ttl=0.05)
    for one in pools:
        free = Raw(client, one).free
        eventually(lambda free=free: len(free()) == 2, f"the reclaim in {one.namespace}")
    assert undeploy(client, "relet:lease") == 1
    assert len(libraries(client)) == 4
    assert [undeploy(client, space) for space in spaces] == [1, 0, 1, 1, 1]
    for one in pools:
        assert one.stats().lapsed == 1
        one.destroy()


def test_odd_names(client: redis.Redis) -> None:
    deploy(client)
    pool = Pool(client, "Größe-🦊-№1")
    pool.add(ODD_NAMES)
    lease_all(pool, len(ODD_NAMES), ttl=0.05)
    raw = Raw(client, pool)
    eventually(lambda: set(raw.free()) == set(ODD_NAMES), "all to be free")
    assert libraries(client)["relet_relet"]["num_failed"] == 0
    pool.destroy()


def test_keys_that_are_not_ours(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r")
    ends = [
        b"junk",
        b"",
        b"{}:x",
        b"{a}",
        b"{a:b}:x",
        b"{a}x:y",
        b"{\xff}:x",
        b"{gpu}:\xff",
        b"{gpu}\xff:x",
        b"{gone}:x",
    ]
    before = set(client.keys())
    for end in ends:
        client.set(b"relet:lease:" + end, "x", px=1)
    client.hset("relet:lease:{gpu}:a hash", "field", "x")
    client.pexpire("relet:lease:{gpu}:a hash", 1)
    eventually(lambda: not client.keys("relet:lease:*"), "the expiry")
    assert libraries(client)["relet_relet"]["num_failed"] == 0
    assert set(client.keys()) == before
    assert pool.stats().free == 1


def test_a_failure_is_counted_and_the_next_event_handled(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    client.set("relet:pool:{bad}:leased", "not a sorted set")
    client.set("relet:lease:{bad}:r", "x", px=1)
    eventually(lambda: libraries(client)["relet_relet"]["num_failed"] == 1, "the failure")
    assert b"WRONGTYPE" in libraries(client)["relet_relet"]["last_error"]
    pool.add("r")
    take(pool, ttl=0.05)
    eventually(lambda: set(Raw(client, pool).free()) == {"r"}, "the reclaim")
    client.delete("relet:pool:{bad}:leased")


def test_undeploy_ends_it_and_leaves_the_pool(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r")
    lease = take(pool, ttl=0.05)
    assert undeploy(client) == 1
    assert libraries(client) == {}
    assert undeploy(client) == 0
    lapse(lease)
    raw = Raw(client, pool)
    eventually(lambda: client.exists(raw.tracking + "r") == 0, "the expiry")
    assert set(raw.leased()) == {"r"}, "nobody took it back"
    assert pool.reclaim() == 1


def test_others_keep_their_libraries(client: redis.Redis) -> None:
    client.execute_command("TFUNCTION", "LOAD", "#!js api_version=1.0 name=relet\nredis.registerFunction('f', () => 1)")
    deploy(client)
    assert set(libraries(client)) == {"relet", "relet_relet"}
    undeploy(client)
    assert set(libraries(client)) == {"relet"}


@pytest.mark.parametrize(
    ("text", "message"), [("throw 'no such luck'", "no such luck"), ("this is none", "SyntaxError")]
)
def test_what_the_engine_cannot_run(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(gears2, "source", lambda _: f"#!js api_version=1.0 name=broken\n{text}")
    with pytest.raises(ReletError, match=rf"could not load gears/reclaim\.js: .*{message}"):
        deploy(client)


def test_a_user_who_may_not(shared: Server, client: redis.Redis) -> None:
    client.acl_setuser("weak", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=["+@all", "-tfunction"])
    try:
        with closing(redis.Redis(port=shared.port, username="weak", password="any")) as weak:
            for refused in (deploy, undeploy, deployed):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    refused(weak)
        told = relet("--url", f"redis://weak:any@127.0.0.1:{shared.port}", "status")
        assert (told.code, told.err) == (0, ""), "the hint is left out, and nothing more"
        assert "no function" not in told.out
    finally:
        client.acl_deluser("weak")
    assert libraries(client) == {}


def test_a_dry_run_changes_nothing(shared: Server, client: redis.Redis) -> None:
    told = relet("--url", shared.url, "--json", "deploy", "--dry-run").json
    commands = [each["command"] for each in told["commands"]]
    assert told["engine"] == "redisgears-2"
    assert commands == [["REDISGEARS_2.REFRESHCLUSTER"], ["TFUNCTION", "LOAD", "REPLACE", gears2.source("relet")]]
    text = relet("--url", shared.url, "--namespace", "lab", "deploy", "--dry-run").out
    assert "TFUNCTION LOAD REPLACE #!js api_version=1.0 name=relet_lab\n" in text
    assert 'const NAMESPACE = "lab";' in text
    assert libraries(client) == {}
