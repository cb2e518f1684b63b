"""What each command does, and prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from relet import Pool
from relet.names import owner_of
from tests.cli.conftest import Command
from tests.command import failed
from tests.helpers import lapse
from tests.servers import Server
from tests.servers.ports import free_port

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

STATS = ["total", "free", "leased", "waiting", "quarantined", "granted", "released", "lapsed"]


def names(pool: Pool) -> list[str]:
    return [info.name for info in pool.resources()]


def test_add_and_remove(run: Command, pool: Pool) -> None:
    assert run("add", "gpu", "a", "b").out == "added 2 resources to pool gpu\n"
    assert run("add", "gpu", "b", "c").out == "added 1 resource to pool gpu; 1 there already\n"
    assert run("add", "gpu", "d", "--json").json == {"pool": "gpu", "added": 1}
    assert names(pool) == ["a", "b", "c", "d"]
    assert "removed 1 resource from pool gpu" in run("remove", "gpu", "a").out
    assert run("remove", "gpu", "a", "b", "--json").json == {"pool": "gpu", "removed": 1}
    assert names(pool) == ["c", "d"]


def test_add_from_files_and_standard_input(run: Command, pool: Pool, tmp_path: Path) -> None:
    table = tmp_path / "names.csv"
    table.write_text("host,zone\na,x\nb,y\n")
    assert run("add", "gpu", "z", "--from-file", str(table)).code == 0
    assert run("add", "gpu", "--from-file", "-", stdin="c\nd\n").code == 0
    lines = '{"name": "e", "memory": 80}\n{"name": "c", "attributes": {"memory": 40}}\n'
    assert run("add", "gpu", "--from-file", "-", "--format", "jsonl", stdin=lines).code == 0
    assert {info.name: dict(info.attributes) for info in pool.resources()} == {
        "a": {"zone": "x"},
        "b": {"zone": "y"},
        "z": {},
        "c": {"memory": 40},
        "d": {},
        "e": {"memory": 80},
    }
    assert run("remove", "gpu", "--from-file", str(table), "--json").json["removed"] == 2
    assert names(pool) == ["z", "c", "d", "e"]


def test_a_wrong_line_adds_nothing(run: Command, pool: Pool) -> None:
    assert failed(run("add", "gpu", "--from-file", "-", stdin="a\nb\x1b\n"), 2).startswith("standard input:2: ")
    assert pool.order() is None


def test_the_order_of_a_pool(run: Command, pool: Pool) -> None:
    assert "there is no pool 'gpu'" in failed(run("add", "gpu", "a", "--set-order", "lru"), 1)
    assert run("add", "gpu", "a", "--order", "lru").code == 0
    assert pool.order() == "lru"
    assert "--set-order random" in failed(run("add", "gpu", "b", "--order", "random"), 1)
    assert names(pool) == ["a"]
    assert run("add", "gpu", "--set-order", "rank").code == 0
    assert run("add", "gpu", "b", "--set-order", "random", "--json").json == {
        "pool": "gpu",
        "added": 1,
        "order": "random",
    }
    assert (pool.order(), names(pool)) == ("random", ["a", "b"])


def test_acquire_renew_release(run: Command, pool: Pool) -> None:
    pool.add({"a": {"memory": 80}})
    lease = run("acquire", "gpu", "--ttl", "60", "--owner", "me", "--json").json
    assert list(lease) == ["resource", "token", "fence", "ttl", "attributes"]
    assert (lease["resource"], lease["ttl"], lease["attributes"]) == ("a", 60.0, {"memory": 80})
    (info,) = pool.resources()
    assert (info.state, info.owner, info.fence) == ("leased", "me", lease["fence"])
    assert "no resource of pool 'gpu' is free" in failed(run("acquire", "gpu"), 75)
    assert run("renew", "gpu", lease["token"], "--ttl", "600").out == "renewed: 600 s from now\n"
    (info,) = pool.resources()
    assert info.remaining is not None
    assert info.remaining > 60
    assert run("renew", "gpu", "-", "--json", stdin=lease["token"] + "\n").json == {"renewed": True, "ttl": 30.0}
    assert run("release", "gpu", "-", stdin=lease["token"]).out == "released\n"
    assert pool.stats().free == 1


def test_acquire_for_people_shows_all_there_is(run: Command, pool: Pool) -> None:
    pool.add({"a": {"memory": 80}})
    out = run("acquire", "gpu").out
    (info,) = pool.resources()
    labels = dict(line.split(maxsplit=1) for line in out.splitlines())
    token = labels.pop("token")
    assert labels == {"resource": "a", "fence": str(info.fence), "ttl": "30 s", "attributes": '{"memory": 80}'}
    assert pool.release(token)


def test_a_lost_lease_is_76(run: Command, pool: Pool) -> None:
    pool.add("a")
    lease = pool.acquire(0.001)
    lapse(lease)
    assert "is over" in failed(run("renew", "gpu", lease.token), 76)
    assert "is over" in failed(run("release", "gpu", lease.token), 76)


def test_release_by_force(run: Command, pool: Pool) -> None:
    pool.add("a")
    pool.acquire()
    assert run("release", "gpu", "--force", "a").out == "took a from its holder\n"
    assert run("release", "gpu", "--force", "a", "--json").json == {"released": False}
    assert "no resource 'b'" in failed(run("release", "gpu", "--force", "b"), 1)


def test_reclaim(run: Command, pool: Pool) -> None:
    pool.add("a")
    lapse(pool.acquire(0.001))
    assert run("reclaim", "gpu", "--json").json == {"pool": "gpu", "reclaimed": 1}
    assert run("reclaim", "gpu").out == "reclaimed 0 lapsed leases of pool gpu\n"


def test_status_and_pools(run: Command, pool: Pool, make_pool: Callable[..., Pool], namespace: str) -> None:
    assert (run("pools", "--json").json, run("pools").out) == ([], "")
    assert run("status", "--json").json == []
    pool.add("a", "b", "c")
    pool.acquire()
    make_pool(name="cpu", namespace=namespace).add("x")
    status = run("status", "gpu", "--json").json
    assert list(status) == ["pool", "order", *STATS, "longest_wait", "waiters"]
    assert list(status.values()) == ["gpu", "rank", 3, 2, 1, 0, 0, 1, 0, 0, None, []]
    assert [one["pool"] for one in run("status", "--json").json] == ["cpu", "gpu"]
    assert run("status", "--json").json[1] == status
    head, cpu, gpu = (line.split() for line in run("status").out.splitlines())
    assert head == ["POOL", "ORDER", *(name.upper() for name in STATS), "LONGEST", "WAIT"]
    assert (cpu[:4], gpu[:5]) == (["cpu", "rank", "1", "1"], ["gpu", "rank", "3", "2", "1"])
    assert run("status", "gpu").out.splitlines()[1].split() == ["order", "rank"]
    assert run("pools", "--json").json == ["cpu", "gpu"]
    assert run("pools").out == "cpu\ngpu\n"


def test_ls(run: Command, pool: Pool) -> None:
    pool.add({"a": {"memory": 80}}, "b")
    lease = pool.acquire(owner="me")
    leased, free = run("ls", "gpu", "--json").json
    assert 0 < leased.pop("remaining") <= 30
    assert leased.pop("since") >= 0
    assert leased == {
        "name": "a",
        "state": "leased",
        "attributes": {"memory": 80},
        "owner": "me",
        "fence": lease.fence,
        "mark": None,
        "reason": None,
    }
    assert free == {
        "name": "b",
        "state": "free",
        "attributes": {},
        "owner": None,
        "fence": None,
        "remaining": None,
        "since": None,
        "mark": None,
        "reason": None,
    }
    head, first, second = run("ls", "gpu").out.splitlines()
    assert head.split() == ["RESOURCE", "STATE", "FOR", "LEFT", "FENCE", "OWNER", "NOTE", "ATTRIBUTES"]
    assert first.split()[:2] == ["a", "leased"]
    assert second == "b         free"
    assert lease.token not in run("ls", "gpu").out + run("ls", "gpu", "--json").out


def test_long_lists_come_whole(run: Command, pool: Pool) -> None:
    many = [f"{number}-{'x' * 200}" for number in range(1203)]
    pool.add(many)
    assert [line.split()[0] for line in run("ls", "gpu").out.splitlines()[1:]] == many
    assert [one["name"] for one in run("ls", "gpu", "--json").json] == many


@pytest.mark.parametrize("command", ["ls", "status", "reclaim", "remove"])
def test_a_pool_that_is_not_there(run: Command, command: str, namespace: str) -> None:
    more = ["a"] if command == "remove" else []
    assert f"there is no pool 'typo' in namespace '{namespace}'" in failed(run(command, "typo", *more), 1)


@pytest.mark.parametrize("options", [[], ["--timeout", "inf"]])
def test_acquire_says_that_there_is_no_pool_and_does_not_wait_for_it(run: Command, options: list[str]) -> None:
    assert "there is no pool 'typo'" in failed(run("acquire", "typo", *options), 1)


def test_a_pool_without_resources_has_none_free(run: Command, pool: Pool) -> None:
    pool.add("a")
    pool.remove("a")
    assert "has no resources; relet add gpu" in failed(run("acquire", "gpu"), 75)


def test_the_owner_is_who_ran_the_command(run: Command, pool: Pool) -> None:
    pool.add("a")
    run("acquire", "gpu")
    (info,) = pool.resources()
    assert info.owner == owner_of(os.getpid())


def test_deploy_says_what_it_did(run: Command) -> None:
    deployment = run("deploy", "--json").json
    assert deployment["engine"] == "none"
    assert run("deploy").out == deployment["detail"] + "\n"
    plan = run("deploy", "--dry-run", "--json").json
    assert (plan["engine"], plan["commands"]) == ("none", [])
    assert "nothing would be sent" in run("deploy", "--dry-run").out
    assert run("undeploy", "--json").json == {"removed": 0}
    assert run("undeploy").out == "there was nothing to remove\n"


def test_demo_runs_on_the_server_it_is_told(run: Command, server: Server, client: redis.Redis) -> None:
    small = ["demo", "--resources", "3", "--workers", "2", "--seconds", "0.5", "--ttl", "0.2", "--json"]
    ended = run(*small, "--url", server.url)
    assert ended.code == 0, ended
    assert isinstance(ended.json, dict)
    assert client.dbsize() == 0


def test_demo_does_not_go_by_the_environment_and_says_so(run: Command) -> None:
    shown = run("demo", "--help").out
    assert "env: RELET_URL" not in shown
    assert "env: RELET_URL" in run("acquire", "--help").out


def test_demo_shows_no_password_either(run: Command) -> None:
    assert "hush" not in failed(run("demo", "--url", "redis://:hush/hush@localhost"), 2)
    assert "hush" not in failed(run("demo", "--url", f"redis://:hush-hush@127.0.0.1:{free_port()}"), 1)
    assert failed(run("demo", "--workers", "0"), 2)
