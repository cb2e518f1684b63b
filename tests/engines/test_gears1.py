"""gears/reclaim.py inside the real RedisGears 1.2, on both servers it runs in.

These tests look at the keys with a plain client: relet's own calls would take lapsed leases back themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis

from relet import Pool, ReletError, deploy, deployed, undeploy
from relet.engines import gears1
from tests.engines.gears import RECLAIM, gears_cli, only, registrations, unregister_all
from tests.helpers import Raw, eventually, keys_left, lapse, lease_all, names, take
from tests.servers import SERVERS, Cluster, Server, Spec, Unavailable

ODD_NAMES = ["gpu 0", "{gpu}", "a:b:c", "rack{1}:slot 2", "}{", "Größe-№1", "🦊:🦊", "'\"\\", "x" * 512]
Start = Callable[..., Server]


@pytest.fixture(scope="module", params=["gears-6.2", "gears-7.0"])
def spec(request: pytest.FixtureRequest) -> Spec:
    return SERVERS[request.param]


@pytest.fixture(scope="module")
def start(spec: Spec) -> Iterator[Start]:
    """Starts servers that a test may break or restart; all end with the module."""
    with ExitStack() as stack:

        def start_one(master: Server | None = None, **config: Any) -> Server:
            if spec.major >= 7:
                config.setdefault("enable_debug_command", "yes")
            try:
                one = Server.start_replica_of(master, **config) if master else Server.start(spec, **config)
            except Unavailable as reason:
                pytest.skip(str(reason))
            return stack.enter_context(one)

        yield start_one


@pytest.fixture(scope="module")
def shared(start: Start) -> Server:
    return start()


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client. At the end there must be no key, and the registrations go."""
    with closing(shared.client()) as one:
        yield one
        left = keys_left(one)
        one.flushall()
        unregister_all(one)
        assert not left


@pytest.fixture
def pool(client: redis.Redis) -> Iterator[Pool]:
    one = Pool(client, "gpu")
    yield one
    one.destroy()


def wait_for_events(client: redis.Redis, count: int) -> None:
    """Until the only registration has handled ``count`` events."""

    def handled() -> bool:
        registration = only(client)
        return registration.succeeded + registration.failed >= count

    eventually(handled, f"{count} events")


def run_gears_cli(server: Server, file: Path = RECLAIM) -> str:
    try:
        result = gears_cli(server, file)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_three_runs_make_one_registration(shared: Server, client: redis.Redis) -> None:
    identities = set()
    for _ in range(3):
        assert run_gears_cli(shared).strip().endswith("OK")
        registration = only(client)
        assert registration.description.startswith("relet reclaim namespace=relet version=")
        assert registration.mode == "async_local"
        identities.add(registration.identity)
    assert len(identities) == 3, "each run replaced the one before"


def test_an_older_version_is_replaced(shared: Server, client: redis.Redis, tmp_path: Path) -> None:
    text = RECLAIM.read_text("utf-8")
    current = f'VERSION = "{gears1.constant(text, "VERSION")}"'
    old = tmp_path / "reclaim.py"
    old.write_text(text.replace(current, 'VERSION = "0.0.1"'), "utf-8")
    run_gears_cli(shared, old)
    assert "version=0.0.1 " in only(client).description
    run_gears_cli(shared)
    assert "version=0.0.1 " not in only(client).description
    run_gears_cli(shared, old)
    older = deployed(client)
    assert older is not None
    assert (older.engine, older.version, older.current) == ("redisgears-1", "0.0.1", False)
    assert deploy(client).replaced == 1
    assert "version=0.0.1 " not in only(client).description


def test_deploy_says_what_it_did(client: redis.Redis) -> None:
    first = deploy(client)
    assert (first.engine, first.namespace, first.replaced) == ("redisgears-1", "relet", 0)
    assert f"version={first.version} hash={first.hash}" in only(client).description
    assert "'relet'" in first.detail
    assert deploy(client).replaced == 1
    only(client)


def test_many_deploy_at_once(shared: Server, client: redis.Redis) -> None:
    def one(_: int) -> str:
        with closing(shared.client()) as own:
            return deploy(own).engine

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(one, range(16))) == {"redisgears-1"}
    only(client)


def test_a_thousand_lapse_and_nobody_asks(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add(names(1000))
    lease_all(pool, 1000, ttl=0.5)
    client.script_flush()
    eventually(lambda: client.zcard("relet:pool:{gpu}:free") == 1000, "all to be free")
    assert client.hget("relet:pool:{gpu}", "lapsed") == b"1000"
    assert client.zcard("relet:pool:{gpu}:leased") == 0
    wait_for_events(client, 1000)
    assert client.hget("relet:pool:{gpu}", "lapsed") == b"1000"
    assert only(client).failed == 0
    assert set(Raw(client, pool).free()) == set(names(1000))


def test_a_script_that_touches_a_lapsed_key(client: redis.Redis, pool: Pool) -> None:
    """The event then fires inside that script."""
    deploy(client)
    pool.add("r")
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    try:
        raw = Raw(client, pool)
        lapse(take(pool, ttl=0.05))
        eventually(
            lambda: client.eval("return redis.call('GET', KEYS[1])", 1, raw.tracking + "r") is None, "the expiry"
        )
        eventually(lambda: set(raw.free()) == {"r"}, "the reclaim")
        assert client.ping()
    finally:
        client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    assert only(client).failed == 0


def test_the_next_holder_is_left_alone(client: redis.Redis, pool: Pool) -> None:
    """The event of the lapsed lease comes from the very call that grants the next one."""
    deploy(client)
    pool.add("r")
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    try:
        lapse(take(pool, ttl=0.05))
        lease = take(pool)
        wait_for_events(client, 1)
    finally:
        client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    raw = Raw(client, pool)
    assert raw.token("r") == lease.token
    assert set(raw.leased()) == {"r"}
    assert raw.free() == {}
    lease.renew()
    lease.release()


def test_leases_without_an_event_come_back_with_one_that_has(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add(names(250))
    raw = Raw(client, pool)
    leases = lease_all(pool, 249, ttl=1)
    client.delete(*(raw.tracking + lease.resource for lease in leases))
    lapse(leases[-1])
    take(pool, ttl=0.01)
    eventually(lambda: len(raw.free()) == 250, "all to be free")


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_it_goes_on_after_a_restart(start: Start, appendonly: str) -> None:
    server = start(appendonly=appendonly)
    with closing(server.client()) as client:
        deploy(client)
        pool = Pool(client, "gpu")
        raw = Raw(client, pool)
        pool.add("r1", "r2")
        take(pool, ttl=0.05)
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the first reclaim")
        description = only(client).description
        server.restart(save=appendonly == "no")
        assert only(client).description == description
        assert set(raw.free()) == {"r1", "r2"}, "what the handler wrote was kept"
        assert client.hget(raw.root, "lapsed") == b"1"
        take(pool, ttl=0.05)
        eventually(lambda: set(raw.free()) == {"r1", "r2"}, "the second reclaim")
        pool.destroy()
        assert not keys_left(client)
    server.stop()


def test_a_replica_gets_it_all_and_takes_over(start: Start) -> None:
    master = start()
    with closing(master.client()) as client:
        deploy(client)
        pool = Pool(client, "gpu")
        pool.add("r1", "r2")
        take(pool, ttl=0.05)
        eventually(lambda: len(Raw(client, pool).free()) == 2, "the reclaim")
        replica = start(master)
        with closing(replica.client()) as copy:
            there = Raw(copy, pool)
            take(pool, ttl=0.3)
            eventually(lambda: copy.hget(there.root, "lapsed") == b"2", "the reclaim on the replica")
            assert set(there.free()) == {"r1", "r2"}
            assert only(copy).triggered == 0, "a replica leaves the work to its master"
            for refused in (deploy, undeploy):
                with pytest.raises(ReletError, match="this server is a replica"):
                    refused(copy)
            only(copy)
            take(pool, ttl=0.3)
            replica.wait_in_sync(master)
            master.stop()
            copy.replicaof("NO", "ONE")
            eventually(lambda: set(there.free()) == {"r1", "r2"}, "the reclaim after the failover")
            assert copy.hget(there.root, "lapsed") == b"3"
            replica.stop()


def test_an_event_in_another_database(shared: Server, client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r")
    lease = take(pool)
    raw = Raw(client, pool)
    with closing(redis.Redis(port=shared.port, db=1)) as other:
        other.set(raw.tracking + "r", "x", px=1)
        wait_for_events(client, 1)
        assert other.dbsize() == 0
    assert raw.token("r") == lease.token
    assert set(raw.leased()) == {"r"}
    assert only(client).failed == 0


def test_namespaces_side_by_side(client: redis.Redis) -> None:
    """Also where the keys of one lie under the prefix of the other."""
    spaces = ["relet", "relet:lease", "relet-2"]
    assert [deploy(client, space).replaced for space in spaces] == [0, 0, 0]
    assert [deploy(client, space).replaced for space in spaces] == [1, 1, 1]
    assert len(registrations(client)) == 3
    pools = [Pool(client, "gpu", namespace=space) for space in spaces]
    for pool in pools:
        pool.add("r1", "r2")
        take(pool, ttl=0.05)
    for pool in pools:
        free = Raw(client, pool).free
        eventually(lambda free=free: len(free()) == 2, f"the reclaim in {pool.namespace}")
    assert undeploy(client, "relet:lease") == 1
    assert len(registrations(client)) == 2
    assert [undeploy(client, space) for space in spaces] == [1, 0, 1]
    for pool in pools:
        assert pool.stats().lapsed == 1
        pool.destroy()


def test_odd_names(client: redis.Redis) -> None:
    deploy(client)
    pool = Pool(client, "Größe-🦊-№1")
    pool.add(ODD_NAMES)
    lease_all(pool, len(ODD_NAMES), ttl=0.05)
    raw = Raw(client, pool)
    eventually(lambda: set(raw.free()) == set(ODD_NAMES), "all to be free")
    assert only(client).failed == 0
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
    for end in ends:
        client.set(b"relet:lease:" + end, "x", px=1)
    client.hset("relet:lease:{gpu}:a hash", "field", "x")
    client.pexpire("relet:lease:{gpu}:a hash", 1)
    wait_for_events(client, len(ends) + 1)
    assert only(client).failed == 0
    assert pool.stats().free == 1


def test_a_failure_is_counted_and_the_next_event_handled(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    client.set("relet:pool:{bad}:leased", "not a sorted set")
    client.set("relet:lease:{bad}:r", "x", px=1)
    wait_for_events(client, 1)
    assert only(client).failed == 1
    assert "WRONGTYPE" in only(client).last_error
    pool.add("r")
    take(pool, ttl=0.05)
    eventually(lambda: set(Raw(client, pool).free()) == {"r"}, "the reclaim")
    client.delete("relet:pool:{bad}:leased")


def test_undeploy_ends_it_and_leaves_the_pool(client: redis.Redis, pool: Pool) -> None:
    deploy(client)
    pool.add("r")
    lease = take(pool, ttl=0.05)
    assert undeploy(client) == 1
    assert registrations(client) == []
    assert undeploy(client) == 0
    lapse(lease)
    raw = Raw(client, pool)
    eventually(lambda: client.exists(raw.tracking + "r") == 0, "the expiry")
    assert set(raw.leased()) == {"r"}, "nobody took it back"
    assert pool.reclaim() == 1


def test_others_keep_their_registrations(client: redis.Redis) -> None:
    client.execute_command("RG.PYEXECUTE", "GB('KeysReader').foreach(lambda x: x).register(prefix='relet:*')")
    deploy(client)
    deploy(client)
    assert len(registrations(client)) == 2
    undeploy(client)
    assert only(client).description == "None"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise Exception('it\\'s \"broken\"')", 'Exception: it\'s "broken"'),
        ("GB('ShardsIDReader').map(lambda x: 1 / 0).run()", "division by zero"),
        ("this is no Python", "SyntaxError"),
    ],
)
def test_what_the_engine_cannot_run(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(gears1, "source", lambda _: text)
    with pytest.raises(ReletError, match=r"could not run gears/reclaim\.py") as raised:
        deploy(client)
    assert message in str(raised.value)


def test_a_user_who_may_not(shared: Server, client: redis.Redis) -> None:
    client.acl_setuser("weak", enabled=True, nopass=True, commands=["+@read", "-@all", "+ping"])
    try:
        with closing(redis.Redis(port=shared.port, username="weak", password="any")) as weak:
            with pytest.raises(redis.exceptions.NoPermissionError):
                deploy(weak)
            with pytest.raises(redis.exceptions.NoPermissionError):
                undeploy(weak)
    finally:
        client.acl_deluser("weak")
    assert registrations(client) == []


def test_a_cluster() -> None:
    """One deployment reaches every shard; each handles its own keys."""
    try:
        cluster = Cluster.start("gears-7.0")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with cluster, closing(cluster.client()) as client:
        assert deploy(client).engine == "redisgears-1"
        assert deploy(client).replaced == 1
        running = deployed(client)
        assert running is not None
        assert (running.current, running.missing) == (True, ())
        pools = [Pool(client, f"pool-{number}") for number in range(12)]
        roots = [f"relet:pool:{{{pool.name}}}" for pool in pools]
        assert {cluster.owner(client.keyslot(root)) for root in roots} == {0, 1, 2}
        for pool in pools:
            pool.add("r")
            take(pool, ttl=0.05)
        for root in roots:
            eventually(lambda root=root: client.zcard(f"{root}:free") == 1, f"the reclaim in {root}")
        # The first of all is where deploy would register, were it not empty now: the ids would come a second time.
        node = min(cluster.nodes, key=lambda node: f"127.0.0.1:{node.port}")
        node.restart()
        eventually(lambda: _is_well(cluster), "the cluster to be well")
        lost = deployed(client)
        assert lost is not None
        assert lost.missing == (f"127.0.0.1:{node.port}",)
        deploy(client)
        again = deployed(client)
        assert again is not None
        assert again.current
        assert undeploy(client) == 1
        assert deployed(client) is None


def _is_well(cluster: Cluster) -> bool:
    for node in cluster.nodes:
        with closing(node.client(decode_responses=True)) as client:
            information: Any = client.execute_command("CLUSTER INFO")
            if information["cluster_state"] != "ok":
                return False
    return True
