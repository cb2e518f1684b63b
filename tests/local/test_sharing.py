"""One server for all who name local:, from the first to the last, and its data from then on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from relet import AsyncPool, Pool
from tests.command import COMMAND, environment
from tests.helpers import eventually, take
from tests.local.conftest import Place

MEET = """
import os, sys, time
from pathlib import Path
from relet.client import connect
with connect("local:") as client:
    run = client.info("server")["run_id"]
folder, resource = Path(sys.argv[1]), os.environ["RELET_RESOURCE"]
(folder / resource).touch()
until = time.monotonic() + 60
while len(list(folder.iterdir())) < int(sys.argv[2]):
    assert time.monotonic() < until, "the others did not come"
    time.sleep(0.02)
print(resource, run)
"""
"""A command that waits until so many others are running, too, and says with which server."""


def test_eight_shells_at_the_same_instant(place: Place, tmp_path: Path) -> None:
    resources = [f"gpu-{number}" for number in range(8)]
    assert place.relet("--url", "local:?idle=1", "add", "gpu", *resources).code == 0
    place.is_gone()
    command = [*COMMAND, "--url", "local:?idle=1", "run", "gpu", "--", sys.executable, "-c", MEET, str(tmp_path), "8"]
    shells = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(place.env), text=True)
        for _ in resources
    ]
    ended = [(*shell.communicate(timeout=120), shell.returncode) for shell in shells]
    assert [(err, code) for _, err, code in ended] == [("", 0)] * 8
    said = sorted(out.split() for out, _, _ in ended)
    assert [resource for resource, _ in said] == resources
    assert len({run for _, run in said}) == 1, "more than one server"
    place.is_gone()
    assert not os.path.lexists(place.socket)
    stats = place.relet("--url", "local:?idle=1", "status", "gpu", "--json").json
    assert (stats["total"], stats["free"], stats["granted"], stats["released"]) == (8, 8, 8, 8)


def test_threads_and_tasks_share_it(place: Place) -> None:
    async def from_asyncio() -> str:
        async with await AsyncPool.from_url("local:?idle=1", "gpu") as pool:
            await pool.add("a")
            async with pool.lease(timeout=0) as lease:
                return lease.resource

    assert asyncio.run(from_asyncio()) == "a"
    run = place.info()["run_id"]
    with Pool.from_url("local:?idle=1", "gpu", decode_responses=True) as pool:
        assert take(pool).resource == "a"
        assert place.info()["run_id"] == run
        pool.destroy()
    place.is_gone()


def test_who_has_another_session_joins_it(place: Place) -> None:
    """A cron job has no XDG_RUNTIME_DIR, or another one, and the same data."""
    with Pool.from_url("local:?idle=1", "gpu") as pool:
        pool.add("a")
        assert place.relet("--url", "local:", "pools", XDG_RUNTIME_DIR="").out == "gpu\n"
        assert place.relet("--url", "local:", "pools", XDG_RUNTIME_DIR=str(place.root / "tmp")).out == "gpu\n"


def test_a_lease_keeps_it_running_though_nobody_is_connected(place: Place) -> None:
    with Pool.from_url("local:?idle=1", "gpu") as pool:
        pool.add("a")
        ends_at = take(pool, ttl=3)._grant.deadline_ms / 1000
    place.is_gone()
    assert time.time() >= ends_at


def test_it_outlives_who_started_it_and_is_nobodys_child(place: Place) -> None:
    assert place.relet("--url", "local:", "add", "gpu", "a").code == 0
    assert place.runs
    keeper = place.keeper()
    assert os.getsid(keeper) == keeper
    place.end()
    eventually(lambda: not os.path.exists(f"/proc/{keeper}"), "the keeper to be gone")


def test_only_its_user_gets_in(place: Place) -> None:
    assert place.relet("--url", "local:", "add", "gpu", "a").code == 0
    for private in (place.state, Path(place.socket).parent, Path(place.socket)):
        assert private.stat().st_mode & 0o077 == 0
