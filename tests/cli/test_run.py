"""relet run: what the command gets, how it ends, and what becomes of the lease."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relet import Pool
from relet.names import owner_of
from tests.cli.conftest import Command
from tests.cli.runs import Runs, is_alive
from tests.command import failed
from tests.helpers import eventually, take

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

SAY = [sys.executable, "-c", "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"]
"""A command that says what it was given."""


@pytest.fixture
def one(pool: Pool) -> Iterator[Pool]:
    """The pool `gpu` with one resource, which must be free again in the end."""
    pool.add({"a": {"memory": 80, "cuda cores": "many", "tags": ["x"], "nul": "a\0b"}})
    yield pool
    eventually(lambda: pool.stats().free == pool.stats().total, "all to be free again")


# What the command gets


def test_the_environment(run: Command, one: Pool) -> None:
    env, _ = run("run", "gpu", "--", *SAY).json
    assert {name: text for name, text in env.items() if name.startswith("RELET_ATTR_")} == {
        "RELET_ATTR_MEMORY": "80",
        "RELET_ATTR_CUDA_CORES": "many",
        "RELET_ATTR_TAGS": '["x"]',
        "RELET_ATTR_NUL": '"a\\u0000b"',
    }
    assert (env["RELET_POOL"], env["RELET_RESOURCE"], env["RELET_RESOURCES"]) == ("gpu", "a", "a")
    (lease,) = json.loads(env["RELET_LEASES"])
    assert lease["attributes"]["memory"] == 80
    assert (env["RELET_FENCE"], env["RELET_TOKEN"]) == (str(lease["fence"]), lease["token"])
    assert one.stats().released == 1


def test_several(run: Command, one: Pool) -> None:
    one.add({"b c": {"memory": 40}})
    replace = ["--replace", "--count", "2"]
    env, arguments = run("run", "gpu", *replace, "--", *SAY, "{}", "--on={}", "{", "").json
    assert env["RELET_RESOURCES"] == "a\nb c"
    assert [lease["resource"] for lease in json.loads(env["RELET_LEASES"])] == ["a", "b c"]
    assert arguments == ["a", "b c", "--on=a,b c", "{", ""]
    assert run("run", "gpu", "--", *SAY, "{}").json[1] == ["{}"]
    assert "does not have 3 resources" in failed(run("run", "gpu", "--count", "3", "--", "true"), 75)


@pytest.mark.usefixtures("one")
def test_input_and_output_are_the_commands(run: Command) -> None:
    ended = run("run", "gpu", "--", "sh", "-c", "cat; echo oh >&2", stdin="what\n")
    assert ended == (0, "what\n", "oh\n")


def test_the_owner_is_the_process_that_was_started(runs: Runs, one: Pool) -> None:
    shell = runs.start("run", "gpu", "--", "cat")
    eventually(lambda: one.stats().leased, "the lease")
    (info,) = one.resources()
    assert info.owner == owner_of(shell.pid)
    assert runs.ended(shell, "") == (0, "", "")
    owner, *_ = run_and_look(runs, one, "--owner", "me")
    assert owner == "me"


def run_and_look(runs: Runs, pool: Pool, *options: str) -> list[str | None]:
    shell = runs.start("run", "gpu", *options, "--", "cat")
    eventually(lambda: pool.stats().leased, "the lease")
    found = [info.owner for info in pool.resources()]
    runs.ended(shell, "")
    return found


# How it ends


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -INT $$", 130)]
)
def test_the_exit_code_is_the_commands(run: Command, one: Pool, script: str, code: int) -> None:
    assert run("run", "gpu", "--", "sh", "-c", script) == (code, "", "")
    assert one.stats().released == 1


def test_none_came_free(run: Command, one: Pool) -> None:
    lease = take(one)
    for timeout in ("0", "0.2"):
        assert "of pool 'gpu'" in failed(run("run", "gpu", "--timeout", timeout, "--", "true"), 75)
    assert "there is no pool 'typo'" in failed(run("run", "typo", "--", "true"), 1)
    lease.release()


def test_it_waits_for_ever_unless_told_otherwise(runs: Runs, one: Pool) -> None:
    lease = take(one)
    shell = runs.start("run", "gpu", "--", "echo", "ran")
    eventually(lambda: one.stats().waiting == 1, "it to wait")
    lease.release()
    assert runs.ended(shell) == (0, "ran\n", "")


def test_commands_that_are_none(run: Command, one: Pool, tmp_path: Path) -> None:
    for name in ("plain", "no-interpreter", "no-header"):
        (tmp_path / name).write_text("#!/nonexistent/interpreter\n" if name == "no-interpreter" else "")
        (tmp_path / name).chmod(0o644 if name == "plain" else 0o755)
    for command, code, reason in (
        ("no-such-command", 127, "not found in PATH"),
        ("/nonexistent/command", 127, "no such file"),
        ("", 127, "has no name"),
        (str(tmp_path), 126, "is a folder"),
        (str(tmp_path / "plain"), 126, "no permission"),
    ):
        assert reason in failed(run("run", "gpu", "--", command), code)
    assert one.stats().granted == 0, "leased for nothing"
    for command, code, reason in (
        (str(tmp_path / "no-interpreter"), 127, "No such file"),
        (str(tmp_path / "no-header"), 126, "neither a program nor"),
    ):
        assert reason in failed(run("run", "gpu", "--", command), code)
    assert "cannot run 'a'" in failed(run("run", "gpu", "--replace", "--", "{}"), 127)


def test_without_a_server(run: Command) -> None:
    assert "cannot reach" in failed(run("--url", "unix:///nonexistent", "run", "gpu", "--", "true"), 1)


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
@pytest.mark.usefixtures("one")
def test_signals_reach_the_command(runs: Runs, number: signal.Signals) -> None:
    command, child = runs.running("run", "gpu")
    command.send_signal(number)
    assert runs.ended(command).code == 128 + number
    assert not is_alive(child)


@pytest.mark.usefixtures("one")
def test_signals_reach_all_of_its_group(runs: Runs) -> None:
    script = "sh -c 'trap \"echo inner; exit 5\" TERM; echo ready; while :; do sleep 0.05; done'"
    command = runs.start("run", "gpu", "--", "sh", "-c", f"trap 'echo outer' TERM; {script}; exit $?")
    runs.wait_for("ready", command)
    command.terminate()
    code, out, _ = runs.ended(command)
    assert (code, sorted(out.split())) == (5, ["inner", "outer", "ready"])


@pytest.mark.usefixtures("one")
def test_a_signal_that_is_ignored_stays_so(runs: Runs) -> None:
    """As with nohup: neither relet nor the command takes notice."""
    command = runs.start("run", "gpu", "--", "sh", "-c", "echo ready; cat; exit 4", before=["nohup"])
    runs.wait_for("ready", command)
    command.send_signal(signal.SIGHUP)
    assert runs.ended(command, "").code == 4


@pytest.mark.usefixtures("one")
def test_where_dead_children_are_not_kept_the_exit_code_is(runs: Runs) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    command = runs.start("run", "gpu", "--", "sh", "-c", "exit 3", before=[sys.executable, "-c", ignoring])
    assert runs.ended(command).code == 3


def test_a_signal_while_it_waits_ends_the_wait(runs: Runs, one: Pool) -> None:
    lease = take(one)
    for number in (signal.SIGINT, signal.SIGTERM):
        command = runs.start("run", "gpu", "--", "true")
        eventually(lambda: one.stats().waiting == 1, "it to wait")
        command.send_signal(number)
        assert runs.ended(command) == (128 + number, "", "")
        assert one.stats().waiting == 0
    lease.release()


def test_killed_while_it_waits_nobody_waits_on(runs: Runs, one: Pool) -> None:
    lease = take(one)
    command = runs.start("run", "gpu", "--", "touch", "/nonexistent/file")
    eventually(lambda: one.stats().waiting == 1, "it to wait")
    command.kill()
    command.wait()
    eventually(lambda: one.stats().waiting == 0, "the place in line to be given up")
    lease.release()
    assert one.stats().granted == 1


def test_a_command_that_ignores_sigterm_goes_on(runs: Runs, one: Pool) -> None:
    command, child = runs.running("run", "gpu", ignores=["TERM"])
    command.terminate()
    runs.wait_for("TERM", command)
    assert is_alive(child)
    assert one.stats().leased == 1
    os.kill(child, signal.SIGKILL)
    assert runs.ended(command).code == 137


@pytest.mark.usefixtures("one")
def test_background_work_of_the_command_is_not_waited_for(runs: Runs) -> None:
    command = runs.start("run", "gpu", "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!")
    code, out, _ = runs.ended(command)
    assert code == 0
    os.kill(int(out), signal.SIGKILL)
