"""Resources that are kept aside: by hand, by policy, and a cleaner's command."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from relet import Pool
from tests.cli.conftest import Command
from tests.cli.runs import Runs, is_alive
from tests.command import failed
from tests.helpers import eventually

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

NASTY = "[bold]broken\u202e"
EXIT = "import os, sys; print(os.environ['RELET_RESOURCE']); sys.exit(int(sys.argv[1]))"


def exits(code: int) -> list[str]:
    return [sys.executable, "-c", EXIT, str(code)]


def states(pool: Pool) -> dict[str, tuple[str, str | None, str | None]]:
    return {info.name: (info.state, info.mark, info.reason) for info in pool.resources()}


def test_quarantine_and_restore(run: Command, pool: Pool) -> None:
    pool.add("a", "b", "c")
    lease = pool.acquire()
    assert run("quarantine", "gpu", "a", "b", "--reason", "fan").out == "quarantined 2 resources of pool gpu\n"
    assert states(pool) == {
        "a": ("leased", "quarantine", "fan"),
        "b": ("quarantined", "quarantine", "fan"),
        "c": ("free", None, None),
    }
    assert run("quarantine", "gpu", "b", "c", "--json").json == {"pool": "gpu", "quarantined": 1}
    lease.release()
    assert pool.stats().quarantined == 3
    assert run("restore", "gpu", "a", "b", "a").out == "restored 2 resources of pool gpu\n"
    assert run("restore", "gpu", "a").out == "restored 0 resources of pool gpu; 1 was so already\n"
    assert "'x'" in failed(run("restore", "gpu", "x", "c"), 1)
    assert pool.stats().free == 3


def test_drain_and_undrain(run: Command, pool: Pool) -> None:
    pool.add("a", "b")
    assert run("drain", "gpu", "a", "--reason", NASTY, "--json").json == {"pool": "gpu", "drained": 1}
    assert failed(run("clean", "gpu", "--timeout", "0", "--", "true"), 75)
    assert run("restore", "gpu", "a", "--json").json == {"pool": "gpu", "restored": 0}
    line = run("ls", "gpu").out.splitlines()[1]
    assert line.split()[:2] == ["a", "quarantined"]
    assert "drain: [bold]broken\\u202e" in line
    info = run("ls", "gpu", "--json").json[0]
    assert (info["state"], info["mark"], info["reason"]) == ("quarantined", "drain", NASTY)
    assert info["since"] >= 0
    assert run("undrain", "gpu", "a").out == "undrained 1 resource of pool gpu\n"
    assert pool.stats().free == 2


@pytest.mark.parametrize("command", ["quarantine", "restore", "drain", "undrain"])
def test_neither_a_pool_nor_a_name(run: Command, command: str) -> None:
    assert "there is no pool 'gpu'" in failed(run(command, "gpu", "a"), 1)
    assert failed(run(command, "gpu"), 2)


def test_policy(run: Command, pool: Pool) -> None:
    assert "there is no pool 'gpu'" in failed(run("policy", "gpu"), 1)
    pool.add("a")
    assert run("policy", "gpu", "--json").json == {"pool": "gpu", "on_lapse": "free", "on_release": "free"}
    assert run("policy", "gpu", "--on-lapse", "quarantine").out == "on lapse    quarantine\non release  free\n"
    assert run("policy", "gpu", "--on-release", "quarantine", "--json").json["on_lapse"] == "quarantine"
    pool.acquire().release()
    assert run("status", "gpu", "--json").json["quarantined"] == 1
    assert failed(run("policy", "gpu", "--on-lapse", "away"), 2)


def test_clean(run: Command, pool: Pool) -> None:
    pool.add("a", "b")
    pool.quarantine("b", "a", reason="dirty")
    ended = run("clean", "gpu", "--", *exits(3))
    first = ended.out.strip()
    assert (ended.code, first in {"a", "b"}) == (3, True)
    assert states(pool)[first] == ("quarantined", "quarantine", "cleaning failed: exit code 3")
    cleaned = [run("clean", "gpu", "--timeout", "0", "--", *exits(0)) for _ in range(2)]
    assert [one.code for one in cleaned] == [0, 0]
    assert {one.out.strip() for one in cleaned} == {"a", "b"}
    assert pool.stats().free == 2
    assert failed(run("clean", "gpu", "--timeout", "0", "--", *exits(0)), 75)
    assert pool.stats().free == 2


def test_a_cleaner_that_cannot_run_cleans_nothing(run: Command, pool: Pool) -> None:
    pool.add("a")
    pool.quarantine("a")
    assert "not found" in failed(run("clean", "gpu", "--", "no-such-command-anywhere"), 127)
    assert failed(run("clean", "gpu", "--replace", "--", "/no/such/{}"), 127)
    assert states(pool)["a"] == ("quarantined", "quarantine", "cleaning failed: it did not run")


def test_a_cleaner_that_is_killed_leaves_it_in_quarantine(runs: Runs, pool: Pool) -> None:
    pool.add("a")
    pool.quarantine("a", reason="dirty")
    process, _ = runs.running("clean", "gpu", "--owner", "cleaner")
    (info,) = pool.resources()
    assert (info.state, info.mark, info.owner) == ("leased", "cleaning", "cleaner")
    process.kill()
    eventually(lambda: pool.stats().quarantined == 1, "the resource to be in quarantine again")
    assert states(pool)["a"] == ("quarantined", "quarantine", "cleaning failed: it was told to end")


def test_a_cleaner_whose_resource_is_taken(runs: Runs, run: Command, pool: Pool) -> None:
    pool.add("a")
    pool.quarantine("a")
    process, _ = runs.running("clean", "gpu", "--ttl", "1", "--grace", "0.2")
    assert run("release", "gpu", "--force", "a").code == 0
    assert runs.ended(process).code == 76
    assert pool.stats().quarantined == 1


def test_a_cleaner_whose_keeper_is_killed_leaves_it_in_quarantine_by_the_deadline(runs: Runs, pool: Pool) -> None:
    pool.add("a")
    pool.quarantine("a", reason="dirty")
    process, child = runs.running("clean", "gpu", "--ttl", "1")
    os.kill(runs.keeper_of(process), signal.SIGKILL)
    assert runs.ended(process).code == 1
    assert not is_alive(child)
    eventually(lambda: pool.stats().quarantined == 1, "the resource to be in quarantine again")
    assert pool.try_acquire() is None


def test_a_cleaner_waits(runs: Runs, pool: Pool) -> None:
    pool.add("a")
    process = runs.start("clean", "gpu", "--", *exits(0))
    pool.quarantine("a")
    assert runs.ended(process)[:2] == (0, "a\n")
    assert pool.stats().free == 1
