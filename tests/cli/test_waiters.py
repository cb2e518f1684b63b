"""Who waits, as people and programs get it: ls, status, watch."""

from __future__ import annotations

import io
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis
from rich.console import Console

from relet import Pool
from relet.cli.waiters import LISTED
from relet.cli.watching.looks import Watched
from relet.cli.watching.picture import picture
from relet.names import new_token
from tests.cli.conftest import Command
from tests.cli.runs import Runs
from tests.cli.terminal import Terminal
from tests.command import COMMAND, environment
from tests.helpers import Raw, eventually, names
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

CLEAR, TURN = "\x1b[2J", "\u202e"
LineUp = Callable[..., None]


@pytest.fixture
def line_up(server: Server, pool: Pool) -> Iterator[LineUp]:
    """Lets somebody wait for ``count`` resources; in the end there are enough for all."""
    threads: list[threading.Thread] = []
    counts: list[int] = []
    with ExitStack() as stack:

        def wait(owner: str, count: int = 1, ttl: float = 30) -> None:
            own = stack.enter_context(Pool.from_url(server.url, pool.name, namespace=pool.namespace))
            before = pool.stats().waiting
            thread = threading.Thread(target=own.acquire_many, args=(count, ttl, 60), kwargs={"owner": owner})
            thread.start()
            threads.append(thread)
            counts.append(count)
            eventually(lambda: pool.stats().waiting > before, "a waiter to be in line")

        yield wait
        pool.add(names(sum(counts), "spare"))
        for thread in threads:
            thread.join()


@pytest.fixture
def taken(pool: Pool) -> Pool:
    """A pool that has nothing free."""
    pool.add("a", "b")
    pool.acquire_many(2, 600, owner="me")
    return pool


def came(client: redis.Redis, pool: Pool, ms_ago: int) -> None:
    """Lets everybody in line have come so long ago."""
    root = Raw(client, pool).root
    seconds, micros = client.time()  # type: ignore[misc]
    since = int(seconds) * 1000 + int(micros) // 1000 - ms_ago
    stored: dict[bytes, bytes] = client.hgetall(root)  # type: ignore[assignment]
    for field, value in stored.items():
        if field.startswith(b"w:"):
            count, ttl, channel, _, owner = value.split(b" ", 4)
            client.hset(root, field, b" ".join([count, ttl, channel, str(since).encode(), owner]))  # type: ignore[arg-type]


def test_ls_lists_them_below_the_resources(run: Command, taken: Pool, line_up: LineUp, client: redis.Redis) -> None:
    alone = run("ls", "gpu")
    assert len(alone.out.splitlines()) == 3, "nobody waits: as before"
    assert run("ls", "gpu", "--waiting").out == ""
    assert run("ls", "gpu", "--waiting", "--json").json == []
    line_up("ann", 2, ttl=90)
    line_up("bob the 2nd")
    came(client, taken, 3_700_000)
    out = run("ls", "gpu").out.splitlines()
    assert [line.split()[:2] for line in out[1:3]] == [["a", "leased"], ["b", "leased"]]
    assert out[3] == ""
    assert [re.split(r" {2,}", line) for line in out[4:]] == [
        ["WAITING", "COUNT", "FOR", "TTL"],
        ["ann", "2", "1 h 01 min", "1 min 30 s"],
        ["bob the 2nd", "1", "1 h 01 min", "30.0 s"],
    ]
    assert run("ls", "gpu", "--waiting").out.splitlines() == out[4:]
    assert [one["name"] for one in run("ls", "gpu", "--json").json] == ["a", "b"], "of programs' lists nothing changed"
    ann, bob = run("ls", "gpu", "--waiting", "--json").json
    assert ann.pop("waited") >= 3700
    assert ann == {"owner": "ann", "count": 2, "ttl": 90.0}
    assert (bob["owner"], bob["count"]) == ("bob the 2nd", 1)


def test_ls_says_how_many_more_there_are(run: Command, taken: Pool, line_up: LineUp, client: redis.Redis) -> None:
    line_up("ann")
    root = Raw(client, taken).root
    stored: dict[bytes, bytes] = client.hgetall(root)  # type: ignore[assignment]
    (record,) = (value for field, value in stored.items() if field.startswith(b"w:"))
    others = [new_token() for _ in range(LISTED + 1)]
    for number, other in enumerate(others):
        client.hset(root, f"w:{other}", record)
        client.zadd(f"{root}:waiters", {other: 1000 + number})
    out = run("ls", "gpu", "--waiting").out.splitlines()
    assert (len(out), out[-1]) == (1 + LISTED + 1, "and 2 more")
    client.zrem(f"{root}:waiters", *others)
    client.hdel(root, *(f"w:{other}" for other in others))


def test_status_has_the_longest_wait(run: Command, taken: Pool, line_up: LineUp, client: redis.Redis) -> None:
    assert run("status", "gpu", "--json").json["longest_wait"] is None
    line_up("ann", 2)
    line_up("bob")
    came(client, taken, 3_700_000)
    labels = dict(line.split(maxsplit=1) for line in run("status", "gpu").out.splitlines())
    assert labels["waiting"] == "2 (the longest for 1 h 01 min)"
    head, cells = (re.split(r" {2,}", line) for line in run("status").out.splitlines())
    assert dict(zip(head, cells, strict=True))["LONGEST WAIT"] == "1 h 01 min"
    status = run("status", "gpu", "--json").json
    assert status["waiting"] == 2
    assert status["longest_wait"] >= 3700
    assert [(one["owner"], one["count"]) for one in status["waiters"]] == [("ann", 2), ("bob", 1)]
    (of_all,) = run("status", "--json").json
    assert of_all.keys() == status.keys()
    assert [one["owner"] for one in of_all["waiters"]] == ["ann", "bob"]


def test_watch_as_lines(runs: Runs, taken: Pool, line_up: LineUp, client: redis.Redis) -> None:
    line_up("ann", 2)
    came(client, taken, 3_700_000)
    process = runs.start("watch", "gpu", "--interval", "0.1")
    runs.wait_for(r".*  gpu  free 0  leased 2  .*  waiting 1 \(the longest for 1 h 01 min\)  lapsed 0", process)
    process.send_signal(signal.SIGINT)
    assert runs.ended(process).code == 0
    process = runs.start("watch", "gpu", "--interval", "0.1", "--json")
    seen = json.loads(runs.wait_for(r"\{.*\}", process)[0])
    process.send_signal(signal.SIGINT)
    assert runs.ended(process).code == 0
    assert [(one["owner"], one["count"]) for one in seen["waiters"]] == [("ann", 2)]
    assert seen["stats"]["waiting"] == 1


def test_watch_on_a_terminal(server: Server, taken: Pool, line_up: LineUp) -> None:
    env = environment({"RELET_URL": server.url, "RELET_NAMESPACE": taken.namespace, "COLUMNS": "100", "LINES": "30"})
    with Terminal([*COMMAND, "watch", "gpu", "--interval", "0.1"], env) as terminal:
        terminal.wait_for(r"gpu  2 resources")
        assert "WAITING" not in terminal.seen
        line_up("ann@here:1", 2, ttl=90)
        terminal.wait_for(r"WAITING .*COUNT.*FOR.*TTL")
        terminal.wait_for(r"ann@here:1 +2 +[\d.]+ s +1 min 30 s")
        terminal.type("q")
        assert terminal.end() == 0


def drawn(watched: list[Watched], width: int = 100, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(picture(watched, width, height))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("height", [24, 60])
def test_a_picture_with_waiters_fits(height: int, pool: Pool, line_up: LineUp) -> None:
    pool.add(names(100))
    pool.acquire_many(100, 600)
    for number in range(5):
        line_up(f"waiter-{number}")
    watched = Watched(pool)
    watched.take()
    lines = drawn([watched], height=height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    assert [f"waiter-{number}" in text for number in range(5)] == [True, True, True, False, False]
    assert "and 2 more" in text


def test_nothing_that_they_say_reaches_the_terminal(
    run: Command, taken: Pool, line_up: LineUp, client: redis.Redis
) -> None:
    """An owner that relet itself would refuse, in the place of one that it took."""
    line_up("OWNER")
    root = Raw(client, taken).root
    for field, value in client.hgetall(root).items():  # type: ignore[union-attr]
        if field.startswith(b"w:"):
            client.hset(root, field, value.replace(b"OWNER", f"[bold]me{CLEAR}{TURN}".encode()))
    for arguments in (["ls", "gpu"], ["ls", "gpu", "--waiting"]):
        out = run(*arguments).out
        assert out.replace("\n", "").isprintable()
        assert "[bold]me\\x1b[2J\\u202e" in out
    for arguments in (["ls", "gpu", "--waiting"], ["status", "gpu"], ["status"]):
        ended = run(*arguments, "--json")
        assert ended.out.isascii()
        assert ended.out.replace("\n", "").isprintable()
    watched = Watched(taken)
    watched.take()
    text = "\n".join(drawn([watched], width=200))
    assert text.replace("\n", "").isprintable()
    assert "[bold]me\\x1b[2J\\u202e" in text
