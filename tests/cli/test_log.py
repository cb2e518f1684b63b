"""The log of a pool, as people and programs get it."""

from __future__ import annotations

import json
import re
import signal
from datetime import datetime, timezone
from typing import Any

import pytest
import redis

from relet import Pool
from relet.cli.times import server_time
from tests.cli.conftest import Command
from tests.cli.runs import Runs
from tests.command import failed
from tests.helpers import lapse

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

NASTY = "[bold]fan\u202e"


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["kind"] for event in events]


def test_what_happened(run: Command, pool: Pool) -> None:
    pool.add(f"r-{number:02}" for number in range(60))
    lapse(pool.acquire(0.05, owner="me"))
    pool.reclaim()
    lease = pool.acquire(owner="you")
    run("release", "gpu", "--force", lease.resource)
    pool.quarantine("r-07", reason=NASTY)
    pool.remove("r-08")
    pool.acquire().release()  # which is nothing to write about
    out = run("log", "gpu").out
    assert out.replace("\n", "").isprintable()
    added, lapsed, forced, aside, removed = out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  add         r-00, r-01, r-02, r-03, r-04 and 55 more", added)
    assert re.search(r"  lapse       r-00  held [\d.]+ .*by me \(fence \d{16}\)$", lapsed)
    assert re.search(rf"  force       {lease.resource}  held 0\.\d s by you \(fence {lease.fence}\)$", forced)
    assert aside.endswith("  quarantine  r-07: [bold]fan\\u202e")
    assert removed.endswith("  remove      r-08")

    events = run("log", "gpu", "--json").json
    assert kinds(events) == ["add", "lapse", "force", "quarantine", "remove"]
    assert (events[0]["count"], len(events[0]["resources"])) == (60, 50)
    assert (events[1]["owner"], events[2]["fence"], events[3]["reason"]) == ("me", lease.fence, NASTY)


def test_since(run: Command, pool: Pool) -> None:
    pool.add("a")
    (first,) = pool.events()
    assert kinds(run("log", "gpu", "--json", "--since", "1h").json) == ["add"]
    assert run("log", "gpu", "--json", "--since", "0s").json == []
    exactly = datetime.fromtimestamp(first.at, timezone.utc).isoformat().replace("+00:00", "Z")
    assert kinds(run("log", "gpu", "--json", "--since", exactly).json) == ["add"]
    assert run("log", "gpu", "--since", "2999-01-01").out == ""
    assert "not 'yesterday'" in failed(run("log", "gpu", "--since", "yesterday"), 2)
    assert "there is no pool 'none'" in failed(run("log", "none"), 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow(runs: Runs, pool: Pool, number: int) -> None:
    pool.add("a")
    process = runs.start("log", "gpu", "--follow", "--json")
    runs.wait_for(r'.*"kind": "add".*', process)
    pool.add("b")
    runs.wait_for(r'.*"resources": \["b"\].*', process)
    pool.drain("a", "b", reason="both")
    runs.wait_for(r'.*"kind": "drain".*', process)
    process.send_signal(number)
    ended = runs.ended(process)
    assert (ended.code, ended.err) == (0, "")
    assert kinds([json.loads(line) for line in ended.out.splitlines()]) == ["add", "add", "drain"], "an object a line"


def test_the_servers_clock(client: redis.Redis) -> None:
    before = client.time()[0]  # type: ignore[index]
    assert before <= server_time(client) <= client.time()[0] + 1  # type: ignore[index]
