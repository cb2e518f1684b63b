"""The client processes of a campaign: started, stopped, killed, and started again in their places."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType

from . import children
from .plan import Plan

PATIENCE_S = 30.0
"""For clients to come to their end by themselves: redis-py may be resending."""
WHERE = signal.SIGUSR1
"""Has a client write down where its threads are."""


class Crowd:
    """`plan.clients` processes. Also a context manager, which kills what is left.

    Nemeses strike from their own threads; `tend`, which starts new ones, is for the main thread, as the kernel ends a
    child along with the thread that started it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._incarnations: dict[int, int] = {}
        self._environments: dict[int, dict[str, str]] = {}
        self._lock = threading.Lock()
        self.died: list[str] = []
        """Clients that ended by themselves, and before their time: why."""
        self._killed: set[int] = set()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            children.end(process)

    def tend(self) -> None:
        """Starts whoever is missing."""
        with self._lock:
            for number in range(self._plan.clients):
                process = self._processes.get(number)
                if process is None or process.poll() is not None:
                    self._note(number, process)
                    self._start(number)

    def kill(self, number: int, environment: dict[str, str] | None = None) -> None:
        """SIGKILL; the next in its place is started with these variables."""
        with self._lock:
            process = self._processes.get(number)
            if process is not None and process.poll() is None:
                self._killed.add(process.pid)
                process.kill()
                process.wait()
            self._environments[number] = environment or {}

    def signal(self, number: int, what: signal.Signals) -> None:
        with self._lock:
            process = self._processes.get(number)
            if process is not None and process.poll() is None:
                process.send_signal(what)

    def finish(self) -> list[str]:
        """Waits for all to end by themselves; answers where those stood that did not, and were killed."""
        late = []
        until = time.monotonic() + PATIENCE_S
        for number, process in self._processes.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            if process.poll() is None:
                process.send_signal(WHERE)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)  # for it to say so
                children.end(process)
                late.append(f"client {number} did not come to its end: {self._told(number)}")
            else:
                self._note(number, process)
        return late

    def _start(self, number: int) -> None:
        incarnation = self._incarnations.get(number, 0) + 1
        self._incarnations[number] = incarnation
        self._processes[number] = children.start(
            "clients",
            str(self._plan.file),
            str(number),
            str(incarnation),
            log=self._log(number),
            environment=self._environments.get(number),
        )

    def _note(self, number: int, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None and process.returncode and process.pid not in self._killed:
            self.died.append(f"client {number} ended with code {process.returncode}: {self._told(number)}")

    def _told(self, number: int) -> str:
        return self._log(number).read_text(errors="replace")[-5000:]

    def _log(self, number: int) -> Path:
        return self._plan.path / f"client-{number}.log"
