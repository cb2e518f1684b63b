"""relet watch: on a terminal, and elsewhere."""

from __future__ import annotations

import io
import json
import os
import signal
import termios
from collections.abc import Iterator

import pytest
import redis
from rich.console import Console

from relet import Pool
from relet.cli.commands.watch import _take
from relet.cli.connection import Session
from relet.cli.watching.looks import Watched
from relet.cli.watching.picture import picture
from tests.cli.conftest import Command
from tests.cli.runs import Runs
from tests.cli.terminal import CTRL_C, Terminal
from tests.command import COMMAND, environment, failed
from tests.servers import Server, Spec

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

TURN = "\u202e"
RESTORED = r"\x1b\[\?1049l"
"""The terminal shows what it showed before."""


def drawn(watched: list[Watched], width: int = 100, height: int = 40, error: str | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(picture(watched, width, height, error))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def terminal(server: Server, namespace: str, pool: Pool) -> Iterator[Terminal]:
    pool.add("gpu-0", "gpu-1")
    pool.acquire(owner="me@here:1")
    env = environment({"RELET_URL": server.url, "RELET_NAMESPACE": namespace, "COLUMNS": "100", "LINES": "30"})
    with Terminal([*COMMAND, "watch", "gpu", "--interval", "0.1"], env) as one:
        yield one


def test_what_a_terminal_shows_and_q(terminal: Terminal, pool: Pool) -> None:
    terminal.wait_for(r"gpu  2 resources")
    terminal.wait_for(r"gpu-0.*leased.*me@here:1")
    pool.quarantine("gpu-1", reason="fan")
    terminal.wait_for(r"gpu-1.*quarantined.*quarantine: fan")
    terminal.type("q")
    terminal.wait_for(RESTORED)
    assert terminal.end() == 0


@pytest.mark.parametrize("way", ["typed", "SIGTERM"])
def test_ctrl_c_and_sigterm_leave_the_terminal_as_it_was(terminal: Terminal, way: str) -> None:
    terminal.wait_for(r"2 resources")
    flags = termios.tcgetattr(terminal._ours)[3]
    assert not flags & termios.ICANON
    if way == "typed":
        terminal.type(CTRL_C)
    else:
        os.kill(terminal.process.pid, signal.SIGTERM)
    terminal.wait_for(RESTORED)
    assert terminal.end() == 0
    assert "Traceback" not in terminal.seen


def test_lines_where_there_is_no_terminal(runs: Runs, pool: Pool) -> None:
    pool.add("a", "b")
    pool.acquire()
    process = runs.start("watch", "gpu", "--interval", "0.1")
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  gpu  free %d  leased 1  quarantined %d  waiting 0  lapsed 0"
    runs.wait_for(line % (1, 0), process)
    pool.quarantine("b")
    runs.wait_for(line % (0, 1), process)
    process.send_signal(signal.SIGINT)
    assert runs.ended(process).code == 0


def test_json_lines_and_two_pools(runs: Runs, run: Command, pool: Pool) -> None:
    pool.add("a")
    assert "there is no pool 'cpu'" in failed(run("watch", "gpu", "cpu"), 1)
    run("add", "cpu", "c", "d")
    process = runs.start("watch", "gpu", "cpu", "gpu", "--json")
    runs.wait_for(r".*\"cpu\".*", process)
    process.send_signal(signal.SIGTERM)
    first, second = map(json.loads, runs.ended(process).out.splitlines()[:2])
    assert (first["pool"], first["stats"]["free"], second["pool"], second["stats"]["free"]) == ("gpu", 1, "cpu", 2)
    Pool(pool._client, "cpu", namespace=pool.namespace).destroy()


def test_a_picture_fits_and_shows_what_matters_first(pool: Pool) -> None:
    pool.add(f"r-{number:03}" for number in range(200))
    pool.acquire(600, owner="late")
    pool.acquire(30, owner="soon")
    pool.drain("r-005", reason="broken")
    watched = Watched(pool)
    for height in (24, 60):
        watched.take()
        text = drawn([watched], height=height)
        assert len(text.splitlines()) <= height
        assert max(map(len, text.splitlines())) <= 100
        order = [text.index(f" {word} ") for word in ("soon", "late", "drain: broken")]
        assert order == sorted(order)
        assert "more" in text
    assert len(watched.history) == 2
    pool.destroy()
    watched.take()
    assert "there is no such pool yet" in drawn([watched])


def test_nothing_stored_reaches_the_terminal(pool: Pool, client: redis.Redis) -> None:
    pool.add({"[bold]a": {f"[red]{TURN}": TURN}})
    pool.acquire(owner=f"[link=x]{TURN}")
    client.hset(f"{pool.namespace}:pool:{{gpu}}:attributes", "[bold]a", json.dumps({f"[red]{TURN}": "\x1b[2J"}))
    watched = Watched(pool)
    watched.take()
    text = drawn([watched], width=200, error=f"[blink]{TURN}")
    assert text.replace("\n", "").isprintable()
    for word in ("[bold]a", "[link=x]\\u202e", "[red]", "[blink]\\u202e"):
        assert word in text


def test_a_server_that_goes_away_is_said(spec: Spec) -> None:
    """And what was seen last stays in the picture."""
    server = Server.start(spec.name)
    with server:
        session = Session(url=server.url)
        other = session.pool("gpu")
        other.add("a")
        watched = [Watched(other)]
        assert _take(session, watched) is None
    error = _take(session, watched)
    assert error is not None
    assert "cannot reach" in error
    assert "gpu  1 resource, 0 lapses" in drawn(watched, error=error)
    assert "cannot reach" in drawn(watched, error=error)
    other.close()
    session.client().close()
