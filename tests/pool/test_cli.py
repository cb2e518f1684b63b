"""The command line on a real server: what it does, what it prints, how it ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from relet import Pool
from tests.command import COMMAND, Ended, environment, failed, interrupted, on_a_terminal, relet
from tests.helpers import lapse, unique
from tests.servers import Server
from tests.servers.ports import free_port

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

Command = Callable[..., Ended]

CLEAR = "\x1b[2J\x1b]0;owned\x07"
"""Clears the terminal and sets its title, if a terminal gets to see it."""
TURN = "\u202e"
"""From here on the terminal writes from right to left."""
STATS = ["total", "free", "leased", "waiting", "quarantined", "granted", "released", "lapsed"]


@pytest.fixture
def namespace() -> str:
    return unique("cli")


@pytest.fixture
def pool(make_pool: Callable[..., Pool], namespace: str) -> Pool:
    """The pool `gpu`, which nobody made yet."""
    return make_pool(name="gpu", namespace=namespace)


@pytest.fixture
def run(server: Server, namespace: str) -> Command:
    def command(*arguments: str, **options: Any) -> Ended:
        return relet(*arguments, env={"RELET_URL": server.url, "RELET_NAMESPACE": namespace}, **options)

    return command


@pytest.fixture
def elsewhere(client: redis.Redis) -> Iterator[Callable[[str], str]]:
    """A key of somebody else's, deleted at the end."""
    keys: list[str] = []
    yield lambda key: keys.append(key) or key  # type: ignore[func-returns-value]
    client.delete(*keys)


def replace(client: redis.Redis, pool: Pool, old: str, new: str) -> None:
    """Puts another text, which relet itself would refuse, into the place of a resource's name or an owner."""
    root = f"{pool.namespace}:pool:{{{pool.name}}}"
    hash_: dict[bytes, bytes] = client.hgetall(root)  # type: ignore[assignment]
    for field, value in hash_.items():
        if old.encode() in field + value:
            client.hdel(root, field)
            client.hset(root, field.replace(old.encode(), new.encode()), value.replace(old.encode(), new.encode()))
    for key in (f"{root}:free", f"{root}:resources", f"{root}:leased"):
        score = client.zscore(key, old)
        if score is not None:
            client.zrem(key, old)
            client.zadd(key, {new: score})  # type: ignore[dict-item]
    tracking = f"{pool.namespace}:lease:{{{pool.name}}}:"
    if client.exists(tracking + old):
        client.rename(tracking + old, tracking + new)


def names(pool: Pool) -> list[str]:
    return [info.name for info in pool.resources()]


# What each command does


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
    assert list(status) == ["pool", *STATS]
    assert list(status.values()) == ["gpu", 3, 2, 1, 0, 0, 1, 0, 0]
    assert [one["pool"] for one in run("status", "--json").json] == ["cpu", "gpu"]
    assert run("status", "--json").json[1] == status
    head, cpu, gpu = (line.split() for line in run("status").out.splitlines())
    assert head == ["POOL", *(name.upper() for name in STATS)]
    assert (cpu[:3], gpu[:4]) == (["cpu", "1", "1"], ["gpu", "3", "2", "1"])
    assert run("status", "gpu").out.splitlines()[1].split() == ["order", "rank"]
    assert run("pools", "--json").json == ["cpu", "gpu"]
    assert run("pools").out == "cpu\ngpu\n"


def test_ls(run: Command, pool: Pool) -> None:
    pool.add({"a": {"memory": 80}}, "b")
    lease = pool.acquire(owner="me")
    leased, free = run("ls", "gpu", "--json").json
    assert 0 < leased.pop("remaining") <= 30
    assert leased == {
        "name": "a",
        "state": "leased",
        "attributes": {"memory": 80},
        "owner": "me",
        "fence": lease.fence,
    }
    assert free == {
        "name": "b",
        "state": "free",
        "attributes": {},
        "owner": None,
        "fence": None,
        "remaining": None,
    }
    head, first, second = run("ls", "gpu").out.splitlines()
    assert head.split() == ["RESOURCE", "STATE", "LEFT", "FENCE", "OWNER", "ATTRIBUTES"]
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


def test_acquire_says_that_there_is_no_pool(run: Command) -> None:
    assert "there is no pool 'typo'" in failed(run("acquire", "typo"), 75)


# Options, and wrong ones


def test_global_options_stand_before_or_after(server: Server, pool: Pool, namespace: str) -> None:
    pool.add("a")
    given = ["--url", server.url, "--namespace", namespace, "--json"]
    wrong = {"RELET_URL": f"redis://127.0.0.1:{free_port()}", "RELET_NAMESPACE": "other"}
    assert relet(*given, "pools", env=wrong).json == ["gpu"]
    assert relet("pools", *given, env=wrong).json == ["gpu"]
    assert relet("--url", "redis://127.0.0.1:1", "pools", *given).json == ["gpu"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["--frobnicate"],
        ["acquire"],
        ["acquire", "gpu", "--ttl", "long"],
        ["acquire", "gpu", "--ttl", "nan"],
        ["acquire", "gpu", "--ttl", "0"],
        ["acquire", "gpu", "--timeout", "-1"],
        ["acquire", "gpu", "--owner", "a\nb"],
        ["acquire", "g{u", "--ttl", "1"],
        ["add", "gpu"],
        ["add", "gpu", "a", "--order", "first"],
        ["add", "gpu", "a", "--order", "rank", "--set-order", "rank"],
        ["add", "gpu", "a", "--format", "csv"],
        ["add", "gpu", "--from-file", "/nonexistent/file"],
        ["add", "gpu", CLEAR],
        ["remove", "gpu"],
        ["renew", "gpu", "no-token"],
        ["release", "gpu"],
        ["release", "gpu", "0" * 32, "--force", "a"],
        ["--namespace", "a b", "pools"],
        ["--url", "localhost:6379", "pools"],
        ["--url", "http://localhost", "pools"],
        [CLEAR],
    ],
)
def test_wrong_usage_is_2(run: Command, arguments: list[str]) -> None:
    said = failed(run(*arguments), 2)
    assert said
    assert said.isprintable()


def test_help_and_version(run: Command) -> None:
    assert run("--version").out.startswith("relet ")
    for command in ("add", "acquire", "demo"):
        assert command in run("--help").out
        assert "--json" in run(command, "-h").out
    bare = run()
    assert (bare.code, bare.out) == (2, "")
    assert "Usage: relet" in bare.err


# What goes wrong at the server


def test_connection_refused(run: Command) -> None:
    url = f"redis://someone:hush-hush@127.0.0.1:{free_port()}/0"
    said = failed(run("--url", url, "status", "gpu"), 1)
    assert said.startswith("cannot reach redis://***@127.0.0.1:")
    assert "hush" not in said


@pytest.mark.parametrize("url", ["unix:///nonexistent/redis.sock", "redis://host.invalid", "rediss://127.0.0.1:{port}"])
def test_a_server_that_is_not_there(run: Command, server: Server, url: str) -> None:
    assert "cannot reach " in failed(run("--url", url.format(port=server.port), "pools"), 1)


@pytest.mark.parametrize("encoded", ["hush-hush", "hush%2Dhush", "hush-%68ush"])
@pytest.mark.parametrize(
    "form", ["redis://:{password}@127.0.0.1:{port}", "redis://127.0.0.1:{port}?password={password}"]
)
def test_a_password_works_and_a_wrong_one_is_not_shown(server: Server, encoded: str, form: str) -> None:
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "default", "resetpass", ">hush-hush")
        try:
            assert relet("pools", "--json", "--url", form.format(password=encoded, port=server.port)).json == []
            wrong = failed(relet("pools", "--url", form.format(password=encoded + "t", port=server.port)), 1)
            none = failed(relet("pools", "--url", f"redis://127.0.0.1:{server.port}"), 1)
        finally:
            admin.execute_command("ACL", "SETUSER", "default", "nopass")
    assert "refused the login" in wrong
    assert "hush" not in wrong
    assert encoded not in wrong
    assert "wants a password" in none


def test_a_password_that_breaks_the_url_is_not_shown(run: Command) -> None:
    for url in ("redis://:hush/hush@localhost", "redis://:hush", "redis://localhost:hush", "redis://:hu#hush@h"):
        assert "hush" not in failed(run("--url", url, "pools"), 2)


def test_keys_of_another_kind(
    run: Command, client: redis.Redis, elsewhere: Callable[[str], str], namespace: str
) -> None:
    client.set(elsewhere(f"{namespace}:pool:{{text}}"), "a text")
    for command in (["status", "text"], ["acquire", "text"], ["add", "text", "a"]):
        assert "WRONGTYPE" in failed(run(*command), 1)
    assert run("pools", "--json").json == []


def test_one_damaged_pool_does_not_hide_the_others(
    run: Command, client: redis.Redis, pool: Pool, namespace: str
) -> None:
    pool.add("a")
    client.hset(f"{namespace}:pool:{{bad}}", "order", "rank")
    try:
        ended = run("status", "--json")
        bad = failed(run("ls", "bad"), 1)
    finally:
        client.delete(f"{namespace}:pool:{{bad}}")
    assert "'bad' is damaged" in bad
    assert (ended.code, [one["pool"] for one in ended.json]) == (1, ["gpu"])
    assert ended.err.count("\n") == 1
    assert "'bad' is damaged" in ended.err


def test_attributes_that_are_no_json(run: Command, client: redis.Redis, pool: Pool) -> None:
    pool.add({"a": {"x": 1}})
    client.hset(f"{pool.namespace}:pool:{{gpu}}:attributes", "a", "{nonsense")
    for command in ("ls", "acquire"):
        assert '"attributes": {}' in run(command, "gpu", "--json").out


# What other people stored


@pytest.fixture
def nasty(client: redis.Redis, pool: Pool) -> str:
    """A leased resource whose name, owner and attributes hold what a terminal would obey, and rich's markup."""
    nasty = f"[bold]gpu{CLEAR}{TURN}"
    pool.add({"NAME": {f"[red]{CLEAR}": f"{TURN}\x9b31m"}})
    pool.acquire(owner="OWNER")
    replace(client, pool, "OWNER", f"[link=x]me{CLEAR}{TURN}")
    replace(client, pool, "NAME", nasty)
    attributes = json.dumps({f"[red]{CLEAR}": f"{TURN}\x9b31m", "n": float("nan")}, ensure_ascii=False)
    client.hset(f"{pool.namespace}:pool:{{gpu}}:attributes", nasty, attributes)
    return nasty


def test_nothing_stored_reaches_the_terminal(run: Command, nasty: str) -> None:
    out = run("ls", "gpu").out
    assert out.replace("\n", "").isprintable()
    assert "[bold]gpu\\x1b[2J\\x1b]0;owned\\x07\\u202e" in out
    assert "[link=x]me\\x1b[2J" in out
    assert "[red]" in out
    text = run("ls", "gpu", "--json").out
    assert text.replace("\n", "").isprintable()
    assert text.isascii()
    (info,) = json.loads(text, parse_constant=pytest.fail)
    assert info["name"] == nasty
    assert info["owner"] == f"[link=x]me{CLEAR}{TURN}"
    assert info["attributes"] == {f"[red]{CLEAR}": f"{TURN}\x9b31m", "n": None}


@pytest.mark.usefixtures("nasty")
def test_nothing_stored_reaches_a_narrow_terminal_and_nothing_is_cut_off(server: Server, namespace: str) -> None:
    code, out = on_a_terminal("ls", "gpu", "--url", server.url, "--namespace", namespace, columns=70)
    assert code == 0
    assert "\x1b[1m" in out, "no colours: was this a terminal?"
    for harmful in ("\x1b[2J", "\x1b]", "\x07", TURN, "\x9b", "…"):
        assert harmful not in out
    code, out = on_a_terminal("ls", "gpu", "--url", server.url, "--namespace", namespace, columns=400)
    assert "[bold]gpu\\x1b[2J\\x1b]0;owned\\x07\\u202e" in out
    assert "[link=x]me\\x1b[2J\\x1b]0;owned\\x07\\u202e" in out


def test_a_pool_name_that_turns_the_terminal(run: Command, make_pool: Callable[..., Pool], namespace: str) -> None:
    make_pool(name=f"a{TURN}b", namespace=namespace).add("x")
    assert run("pools").out == "a\\u202eb\n"
    assert run("status").out.splitlines()[1].split()[0] == "a\\u202eb"
    assert run("pools", "--json").json == [f"a{TURN}b"]
    assert TURN not in failed(run("status", f"c{TURN}"), 1)


def test_a_terminal_shows_the_progress_of_a_long_job(server: Server, pool: Pool, tmp_path: Path) -> None:
    source = tmp_path / "names"
    source.write_text("\n".join(map(str, range(3000))))
    code, out = on_a_terminal(
        "add", "gpu", "--from-file", str(source), "--url", server.url, "--namespace", pool.namespace, columns=80
    )
    assert (code, pool.stats().total) == (0, 3000)
    assert "adding" in out
    assert "3000/3000" in out
    assert "added 3000 resources" in out


# How it ends


def test_ctrl_c_is_130_and_quiet(server: Server, pool: Pool) -> None:
    ended = interrupted("add", "gpu", "--from-file", "-", "--url", server.url, "--namespace", pool.namespace)
    assert ended == Ended(130, "", "")
    assert pool.order() is None


def test_a_reader_that_has_seen_enough_is_no_error(server: Server, pool: Pool) -> None:
    pool.add([f"{number}-{'x' * 100}" for number in range(3000)])  # more than a pipe holds
    arguments = [*COMMAND, "ls", "gpu", "--url", server.url, "--namespace", pool.namespace]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_a_lease_whose_token_nobody_saw_is_given_back(server: Server, pool: Pool) -> None:
    pool.add("a")
    arguments = [*COMMAND, "acquire", "gpu", "--url", server.url, "--namespace", pool.namespace]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"relet: cannot write the output: No space left on device\n")
    assert (pool.stats().free, pool.stats().released) == (1, 1)


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


def test_demo_shows_no_password_either(run: Command) -> None:
    assert "hush" not in failed(run("demo", "--url", "redis://:hush/hush@localhost"), 2)
    assert "hush" not in failed(run("demo", "--url", f"redis://:hush-hush@127.0.0.1:{free_port()}"), 1)
    assert failed(run("demo", "--workers", "0"), 2)
