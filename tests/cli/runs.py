"""``relet run`` in the middle of it: commands that say what they see, and the processes around them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tests.command import COMMAND, Ended, environment
from tests.helpers import eventually

CHILD = """
import os, signal, sys, time
def say(number, _):
    os.write(1, signal.Signals(number).name[3:].encode() + b"\\n")
for name in sys.argv[1:]:
    signal.signal(getattr(signal, "SIG" + name), say)
print("pid", os.getpid(), flush=True)
while True:
    time.sleep(60)
"""
"""A command that runs until it is killed. It does not end for the signals that it is named, and says that they came."""
TIMEOUT_S = 60.0


def is_alive(pid: int) -> bool:
    """Whether a process runs, or is stopped; False for one that is dead and only not waited for."""
    return state(pid) not in ("", "Z", "X")


def state(pid: int) -> str:
    """A letter as ps shows it: R, S, D, T (stopped), Z (dead, not waited for); nothing where there is none."""
    shown = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()[:1]


class Runs:
    """Starts ``relet`` and reads along; whatever is left in the end is killed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = environment(env)
        self._started: list[subprocess.Popen[bytes]] = []
        self._seen: dict[int, bytes] = {}
        self._children: list[int] = []

    def start(self, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup a child would ignore it as well
        try:
            process = subprocess.Popen(
                [*before, *COMMAND, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
            )
        finally:
            signal.signal(signal.SIGHUP, inherited)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._started.append(process)
        self._seen[process.pid] = b""
        return process

    def running(self, *arguments: str, ignores: Sequence[str] = ()) -> tuple[subprocess.Popen[bytes], int]:
        """``relet run`` with a command that does not end; answers both, once it runs."""
        process = self.start(*arguments, "--", sys.executable, "-c", CHILD, *ignores)
        child = int(self.wait_for(r"pid (\d+)", process)[1])
        self._children.append(child)
        return process, child

    def wait_for(self, pattern: str, process: subprocess.Popen[bytes]) -> re.Match[str]:
        """Reads until the output has it."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found.extend(re.finditer(rf"^{pattern}$", self._read(process), re.MULTILINE))
            return bool(found) or process.poll() is not None

        eventually(look, f"{pattern!r} in the output")
        assert found, f"it ended: {self.ended(process)}"
        return found[-1]

    def ended(self, process: subprocess.Popen[bytes], stdin: str | None = None) -> Ended:
        """Waits for the end; ``stdin`` is what it is given before, else its input stays open."""
        assert process.stdin is not None
        assert process.stderr is not None
        if stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(stdin.encode())
                process.stdin.close()
        until = time.monotonic() + TIMEOUT_S
        while process.poll() is None:
            assert time.monotonic() < until, f"it did not end: {self._read(process)}"
            self._read(process)
            time.sleep(0.01)
        code = process.returncode
        return Ended(128 - code if code < 0 else code, self._read(process), process.stderr.read().decode())

    def keeper_of(self, process: subprocess.Popen[bytes]) -> int:
        """The process that holds the lease."""
        shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        pairs = [tuple(map(int, line.split())) for line in shown.stdout.splitlines()]
        (keeper,) = [pid for pid, parent in pairs if parent == process.pid]
        return keeper

    def close(self) -> None:
        for process in self._started:
            process.kill()
            with process:
                process.wait(TIMEOUT_S)
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in self._children:
            eventually(lambda pid=child: not is_alive(pid), "a command to be gone")  # type: ignore[misc]

    def _read(self, process: subprocess.Popen[bytes]) -> str:
        """All of the standard output so far."""
        assert process.stdout is not None
        if not process.stdout.closed:
            with suppress(BlockingIOError):
                while piece := os.read(process.stdout.fileno(), 65536):
                    self._seen[process.pid] += piece
        return self._seen[process.pid].decode()
