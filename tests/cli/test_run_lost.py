"""relet run when its lease is lost, or when it is stopped or killed itself: the command does not outlive the lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from relet import Pool
from tests.cli.runs import Runs, is_alive, state
from tests.helpers import eventually, missing, unique
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

TTL = "1"


@pytest.fixture
def one(pool: Pool) -> Iterator[Pool]:
    """The pool `gpu` with one resource, which must be free again in the end."""
    pool.add("a")
    yield pool
    eventually(lambda: pool.stats().free == 1, "all to be free again")


@pytest.fixture
def frail() -> Iterator[Server]:
    """A server that a test may stop or kill. It is resumed for its end."""
    with Server.start("valkey-9.1") as server:
        yield server


def a_while_after(pool: Pool, seconds: float) -> None:
    """Waits until the server has seen so much time pass."""

    def now() -> float:
        whole, millionths = pool._client.time()
        return float(whole + millionths / 1e6)

    until = now() + seconds
    eventually(lambda: now() > until, "time to pass")


def test_taken_by_force(runs: Runs, one: Pool) -> None:
    command, child = runs.running("run", "gpu", "--ttl", TTL)
    one.release(resource="a", force=True)
    code, _, err = runs.ended(command)
    assert code == 76
    assert err == "relet: the lease of 'a' in pool 'gpu' was lost: ending the command (10 s from SIGTERM to SIGKILL)\n"
    assert not is_alive(child)
    assert one.stats().free == 1


def test_taken_by_force_from_a_command_that_ignores_sigterm(runs: Runs, one: Pool) -> None:
    command, child = runs.running("run", "gpu", "--ttl", TTL, "--grace", "0.5", ignores=["TERM"])
    one.release(resource="a", force=True)
    code, out, _ = runs.ended(command)
    assert (code, out.split()[-1]) == (76, "TERM")
    assert not is_alive(child)


def test_what_the_command_leaves_in_its_group_goes_too(runs: Runs, one: Pool) -> None:
    """The command itself ends for SIGTERM, and the rest does not."""
    script = "(trap '' TERM; echo pid $(exec sh -c 'echo $PPID'); while :; do sleep 0.1; done) & wait"
    command = runs.start("run", "gpu", "--ttl", TTL, "--grace", "0.5", "--", "sh", "-c", script)
    rest = int(runs.wait_for(r"pid (\d+)", command)[1])
    one.release(resource="a", force=True)
    assert runs.ended(command).code == 76
    eventually(lambda: not is_alive(rest), "the rest to be killed")


def test_taken_while_a_command_ends_by_itself(runs: Runs, one: Pool) -> None:
    """The renewal has not noticed yet: what the command did may not count."""
    command = runs.start("run", "gpu", "--ttl", "600", "--", "cat")
    eventually(lambda: one.stats().leased, "the lease")
    one.release(resource="a", force=True)
    code, _, err = runs.ended(command, "")
    assert code == 76
    assert err.startswith("relet: while the command ran, the lease of 'a' in pool 'gpu' is over")


def test_a_stopped_relet_keeps_the_lease(runs: Runs, one: Pool) -> None:
    """As at Ctrl-Z, for longer than the ttl: the command runs on, and its lease too."""
    command, child = runs.running("run", "gpu", "--ttl", TTL, ignores=["USR1"])
    command.send_signal(signal.SIGSTOP)
    a_while_after(one, 2.5)
    assert is_alive(child)
    assert (one.stats().leased, one.stats().lapsed) == (1, 0)
    command.send_signal(signal.SIGUSR1)
    command.send_signal(signal.SIGCONT)
    runs.wait_for("USR1", command)
    command.terminate()
    assert runs.ended(command).code == 143


def test_a_stopped_command_keeps_the_lease(runs: Runs, one: Pool) -> None:
    command, child = runs.running("run", "gpu", "--ttl", TTL, ignores=["USR1"])
    os.kill(child, signal.SIGSTOP)
    a_while_after(one, 2.5)
    assert state(child) == "T"
    assert (one.stats().leased, one.stats().lapsed) == (1, 0)
    command.send_signal(signal.SIGUSR1)
    os.kill(child, signal.SIGCONT)
    runs.wait_for("USR1", command)
    command.terminate()
    assert runs.ended(command).code == 143


def test_a_stopped_command_whose_lease_is_lost_ends(runs: Runs, one: Pool) -> None:
    command, child = runs.running("run", "gpu", "--ttl", TTL)
    command.send_signal(signal.SIGTSTP)  # reaches it, as other signals do
    eventually(lambda: state(child) == "T", "the command to be stopped")
    one.release(resource="a", force=True)
    assert runs.ended(command).code == 76
    assert not is_alive(child)


@pytest.mark.parametrize("ignores", [[], ["TERM"]])
def test_kill_9(runs: Runs, one: Pool, ignores: list[str]) -> None:
    """Of what the user started. The command is told, then killed, and only then is the resource somebody else's."""
    command, child = runs.running("run", "gpu", "--ttl", "600", "--grace", "0.5", ignores=ignores)
    command.kill()
    command.wait()
    next_one = one.acquire(timeout=30)
    assert not is_alive(child)
    next_one.release()
    assert one.stats().lapsed == 0
    assert runs.ended(command).out.split()[2:] == ignores


@pytest.mark.usefixtures("one")
def test_kill_9_of_the_keeper(runs: Runs) -> None:
    command, child = runs.running("run", "gpu", "--ttl", TTL, "--grace", "0.5", ignores=["TERM"])
    os.kill(runs.keeper_of(command), signal.SIGKILL)
    code, _, err = runs.ended(command)
    assert code == 1
    assert err.startswith("relet: the process that held the lease was killed by signal 9: the command was ended")
    assert not is_alive(child)


def test_kill_9_of_both(runs: Runs, one: Pool) -> None:
    if sys.platform != "linux":
        missing("only Linux kills a command when nobody of relet is left")
    command, child = runs.running("run", "gpu", "--ttl", TTL, ignores=["TERM"])
    keeper = runs.keeper_of(command)
    subprocess.run(["kill", "-9", str(command.pid), str(keeper)], check=True)
    next_one = one.acquire(timeout=30)
    assert not is_alive(child)
    next_one.release()


def test_a_keeper_that_does_not_run(runs: Runs, one: Pool) -> None:
    """It cannot renew, nor end the command: the other process does, a quarter of a second before the deadline."""
    command, child = runs.running("run", "gpu", "--ttl", "5", ignores=["TERM"])
    os.kill(runs.keeper_of(command), signal.SIGSTOP)
    next_one = one.acquire(timeout=30)
    eventually(lambda: not is_alive(child), "the command to be killed")
    next_one.release()
    code, out, err = runs.ended(command)
    assert (code, out.split()[2:]) == (76, ["TERM"])
    assert "did not run, and the lease was lost" in err


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.usefixtures("spec")
def test_a_server_that_is_away(frail: Server, how: str) -> None:
    """The lease cannot be renewed: the command is told before the deadline, and killed at it."""
    runs = Runs({"RELET_URL": frail.url})
    with frail.client() as client:
        Pool(client, "gpu").add("a")
    try:
        command, child = runs.running("run", "gpu", "--ttl", "2", "--owner", unique("me"), ignores=["TERM"])
        frail.pause() if how == "stopped" else frail.kill()
        runs.wait_for("TERM", command)
        code, _, err = runs.ended(command)
        assert code == 76
        assert "cannot be renewed, and nears its deadline: ending the command" in err
        assert "not given back, so it comes back within 2 s" in err
        assert not is_alive(child)
    finally:
        runs.close()
        if how == "stopped":
            frail.resume()
