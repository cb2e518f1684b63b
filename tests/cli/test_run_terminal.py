"""relet run at a terminal: the command can be typed to, interrupted, stopped and continued like any other."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from relet import Pool
from tests.cli.runs import CHILD, is_alive, state
from tests.cli.terminal import CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal
from tests.command import COMMAND, environment
from tests.helpers import eventually, missing
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

Open = Callable[[Sequence[str]], Terminal]
RUN = [*COMMAND, "run", "gpu", "--ttl", "1", "--"]
PROMPT = r"ready\$ "


@pytest.fixture
def one(pool: Pool) -> Iterator[Pool]:
    pool.add("a")
    yield pool
    eventually(lambda: pool.stats().free == 1, "the resource to be free again")


@pytest.fixture
def open_terminal(server: Server, one: Pool) -> Open:
    """Opens a terminal with a program in it."""
    env = {
        "RELET_URL": server.url,
        "RELET_NAMESPACE": one.namespace,
        "PS1": "ready$ ",
        "BASH_SILENCE_DEPRECATION_WARNING": "1",
    }
    return lambda command: Terminal(command, environment(env))


@pytest.fixture
def shell() -> list[str]:
    if shutil.which("bash") is None:
        missing("there is no bash, which has job control")
    return ["bash", "--norc", "--noprofile", "-i"]


def typed(command: Sequence[str]) -> str:
    return f"{shlex.join(command)}\n"


def a_while(pool: Pool) -> None:
    """Waits until more than a ttl has passed, and one lease was held all the time."""
    lapsed_before = pool.stats().lapsed
    whole, millionths = pool._client.time()
    until = whole + millionths / 1e6 + 2
    eventually(lambda: pool._client.time()[0] > until, "time to pass")
    assert (pool.stats().leased, pool.stats().lapsed) == (1, lapsed_before)


def test_what_is_typed_reaches_the_command(open_terminal: Open) -> None:
    with open_terminal([*RUN, "sh", "-c", "read line; echo got: $line; exit 3"]) as terminal:
        terminal.type("hello\n")
        terminal.wait_for("got: hello")
        assert terminal.end() == 3


def test_ctrl_c_reaches_the_command_once(open_terminal: Open) -> None:
    with open_terminal([*RUN, sys.executable, "-c", CHILD, "INT"]) as terminal:
        terminal.wait_for(r"pid \d+")
        terminal.type(CTRL_C)
        terminal.wait_for("INT")
        terminal.type(CTRL_BACKSLASH)
        assert terminal.end() == 128 + signal.SIGQUIT
        assert terminal.seen.count("INT") == 1


def test_ctrl_c_ends_it_as_it_ends_others(open_terminal: Open, shell: list[str]) -> None:
    """A shell goes on with a script only where Ctrl-C was handled by the command."""

    def script(command: str) -> list[str]:
        return [shell[0], "-c", f"{shlex.join([*RUN, 'sh', '-c', command])}; echo after: $?"]

    with open_terminal(script("echo ready; exec cat")) as terminal:
        terminal.wait_for("ready")
        terminal.type(CTRL_C)
        assert terminal.end() in (-signal.SIGINT, 128 + signal.SIGINT)
        assert "after" not in terminal.seen
    with open_terminal(script("trap 'exit 4' INT; echo ready; while :; do sleep 0.05; done")) as terminal:
        terminal.wait_for("ready")
        terminal.type(CTRL_C)
        terminal.wait_for("after: 4")


def test_ctrl_c_while_it_waits(open_terminal: Open, one: Pool) -> None:
    lease = one.acquire()
    with open_terminal([*RUN, "cat"]) as terminal:
        eventually(lambda: one.stats().waiting == 1, "it to wait")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert one.stats().waiting == 0
    lease.release()


def test_ctrl_z_and_fg(open_terminal: Open, shell: list[str], one: Pool) -> None:
    with open_terminal(shell) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type(typed([*RUN, "sh", "-c", "echo here: $$; read line; echo got: $line; exit 3"]))
        child = int(terminal.wait_for(r"here: (\d+)")[1])
        for _ in range(2):
            terminal.type(CTRL_Z)
            terminal.wait_for("Stopped")
            terminal.wait_for(PROMPT)
            assert state(child) == "T"
            a_while(one)
            terminal.type("fg\n")
            eventually(lambda: state(child) != "T", "the command to go on")
        terminal.type("hello\n")
        terminal.wait_for("got: hello")
        terminal.wait_for(PROMPT)
        terminal.type("echo code: $?; exit\n")
        terminal.wait_for("code: 3")
        terminal.end()


def test_in_the_background_it_stops_where_it_wants_to_read(open_terminal: Open, shell: list[str]) -> None:
    with open_terminal(shell) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type(typed([*RUN, "sh", "-c", "echo ready: $$; read line; echo got: $line"])[:-1] + " &\n")
        terminal.wait_for(r"ready: \d+")
        eventually(lambda: _stopped(terminal.process.pid), "the job to stop")
        terminal.type("jobs; fg\n")
        terminal.wait_for("Stopped")
        terminal.wait_for("relet")
        terminal.type("hello\n")
        terminal.wait_for("got: hello")
        terminal.wait_for(PROMPT)
        terminal.type("exit\n")
        terminal.end()


def _stopped(shell: int) -> bool:
    shown = subprocess.run(["ps", "-A", "-o", "ppid=,state="], capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(shell) and line.split()[1][0] == "T" for line in shown.splitlines())


def test_in_a_pipeline_the_terminal_is_there_for_who_asks(open_terminal: Open, shell: list[str]) -> None:
    command = shlex.join([*RUN, "sh", "-c", "echo ready: $$ >&2; read line </dev/tty; echo got: $line"])
    with open_terminal(shell) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type(f"{command} | cat; echo done: $?\n")
        terminal.wait_for(r"ready: \d+")
        terminal.type("hello\n")
        terminal.wait_for("got: hello")
        terminal.wait_for("done: 0")
        terminal.type(f"{command} | cat\n")
        terminal.wait_for(r"ready: \d+")
        terminal.type(CTRL_C)
        terminal.wait_for(PROMPT)
        terminal.type("exit\n")
        terminal.end()


def test_without_a_shell_to_continue_it_ctrl_z_does_nothing(open_terminal: Open) -> None:
    """As with any program that a terminal runs by itself."""
    with open_terminal([*RUN, "sh", "-c", "echo ready; read line; echo got: $line"]) as terminal:
        terminal.wait_for("ready")
        terminal.type(CTRL_Z)
        terminal.type("hello\n")
        terminal.wait_for("got: hello")
        assert terminal.end() == 0


def test_a_terminal_that_is_closed_ends_the_command(open_terminal: Open) -> None:
    with open_terminal([*RUN, "sh", "-c", "echo pid $$; sleep 60"]) as terminal:
        child = int(terminal.wait_for(r"pid (\d+)")[1])
    eventually(lambda: not is_alive(child), "the command to be gone")
