"""The command's process, and its process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from relet.clock import monotonic
from relet.running.preparing import not_started

_LAUNCHER = Path(__file__).with_name("launch.py")
_LOOK_S = 0.05
"""Seconds between two looks at what is left of a group."""


class Child:
    """A command that was started. For the thread that started it: the kernel kills the command with that thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        """Of the process, and of its group."""
        self.status: int | None = None
        """Once it has ended: its exit code, or the negative number of the signal that it died of."""

    @classmethod
    def start(cls, command: Sequence[bytes], environment: Mapping[bytes, bytes], terminal_of: int) -> Child:
        """Starts a command; ``terminal_of`` is the process group whose terminal it gets, 0: none.

        Raises:
            CannotRun: it did not start.
        """
        heard, report = os.pipe()
        try:
            start = [sys.executable, "-I", "-S", str(_LAUNCHER), str(report), str(os.getpid()), str(terminal_of)]
            process = subprocess.Popen([*start, *command], env=environment, pass_fds=[report])
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(report)
        child = cls(process)
        with open(heard, "rb") as answer:
            said = answer.read()  # ends when the command is running, since nobody else has the other end
        if said:
            child._reap(0)
            raise not_started(os.fsdecode(command[0]), int(said))
        return child

    def poll(self) -> int | None:
        """Looks what has become of it; answers the signal that has just stopped it, if one has."""
        return self._reap(os.WNOHANG | os.WUNTRACED) if self.status is None else None

    def send(self, number: int) -> None:
        """Sends the whole group a signal."""
        with suppress(ProcessLookupError, PermissionError):  # the second from macOS, where all in it are dead
            os.killpg(self.pid, number)

    def tell_to_end(self) -> None:
        """SIGTERM, and what it takes for one that is stopped to see it."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)

    def clear(self, until: float) -> None:
        """Once the command has ended: waits for the rest of its group, and kills it when the time has come."""
        while monotonic() < until and self._is_there():
            time.sleep(_LOOK_S)
        if self._is_there():
            self.send(signal.SIGKILL)

    def _is_there(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _reap(self, options: int) -> int | None:
        pid, status = os.waitpid(self.pid, options)
        if not pid:
            return None
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
        return None
