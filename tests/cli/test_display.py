"""What other people stored does a terminal no harm, and what a terminal shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from relet import Pool
from tests.cli.conftest import Command
from tests.command import failed, on_a_terminal
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

CLEAR = "\x1b[2J\x1b]0;owned\x07"
"""Clears the terminal and sets its title, if a terminal gets to see it."""
TURN = "\u202e"
"""From here on the terminal writes from right to left."""


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


def test_a_terminal_shows_the_progress_of_an_apply(server: Server, pool: Pool, tmp_path: Path) -> None:
    """Over all pools, and all that is added, changed and removed; and none where a program reads along."""
    pool.add({**dict.fromkeys(map(str, range(500))), "changed": {"a": 1}})
    wanted = {"changed": {"a": 2}, **{f"new-{number}": None for number in range(1000)}}
    source = tmp_path / "pools.json"
    source.write_text(json.dumps({"pools": {"gpu": {"resources": wanted}, "cpu": {"resources": ["x"]}}}))
    place = ("--url", server.url, "--namespace", pool.namespace)
    code, out = on_a_terminal("apply", str(source), "--prune", *place, columns=80)
    assert (code, pool.stats().total) == (0, 1001)
    assert "applying" in out
    assert "1502/1502" in out
    assert out.rstrip().endswith("done")
    pool.remove(wanted)
    code, out = on_a_terminal("apply", str(source), "--json", *place, columns=80)
    assert (code, pool.stats().total) == (0, 1001)
    assert json.loads(out)["applied"] is True
    Pool(pool._client, "cpu", namespace=pool.namespace).destroy()
