"""The crowd: worker processes that can be started, and killed like the ones that crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import IO, NamedTuple

from relet.errors import ReletError

END_TIMEOUT_S = 5.0
COMPLAINT_BYTES = 4000


class Job(NamedTuple):
    """What a worker has to know."""

    url: str
    pool: str
    namespace: str
    ttl: float


class Crowd:
    """Workers by number, children of one nursery process (:mod:`relet.demo.nursery`). A context manager.

    The nursery has loaded everything that a worker needs and forks one in a millisecond or two; a fresh interpreter
    for each would cost more than all the leases. It ends with its standard input, so it cannot outlive this process,
    and the workers end with it.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._last_number = 0
        self.running: set[int] = set()
        """The numbers of the workers that are there."""

    def __enter__(self) -> Crowd:
        self._errors: IO[bytes] = tempfile.TemporaryFile("a+b")
        # The URL goes through the pipe, for it may hold a password and a command line is everybody's to read.
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "relet.demo.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(),
            text=True,
            start_new_session=True,  # Ctrl-C is for the demo, which ends its workers itself
        )
        try:
            self._ask(json.dumps(self._job))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def start(self) -> int:
        """Start one more worker; answers its number."""
        self._last_number += 1
        self._ask(f"start {self._last_number}")
        self.running.add(self._last_number)
        return self._last_number

    def kill(self, number: int) -> bool:
        """SIGKILL; returns once the worker is gone. False: it had ended by itself."""
        self.running.discard(number)
        return self._ask(f"kill {number}") == "killed"

    def ended(self) -> list[int]:
        """The workers that ended by themselves since this was asked last, which none should do."""
        numbers = [int(number) for number in self._ask("ended").split()]
        self.running.difference_update(numbers)
        return numbers

    def complaint(self) -> str:
        """The last line that any worker wrote on its standard error."""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - COMPLAINT_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"

    def _ask(self, line: str) -> str:
        """Send the nursery a line and read its answer."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        try:
            self._nursery.stdin.write(f"{line}\n")
            self._nursery.stdin.flush()
            answer = self._nursery.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise ReletError(f"the demo's workers are gone: {self.complaint()}")
        return answer.strip()

    def _end(self) -> None:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self.running.clear()
        with suppress(BrokenPipeError):
            self._nursery.stdin.close()
        try:
            self._nursery.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._nursery.kill()  # its workers see that it is gone
            self._nursery.wait()
        self._nursery.stdout.close()
        self._errors.close()


def _environment() -> dict[str, str]:
    """This process's, so that the nursery finds the very same relet, and nothing that lies in the current folder."""
    places = os.pathsep.join(place or os.getcwd() for place in sys.path)
    return {**os.environ, "PYTHONPATH": places, "PYTHONSAFEPATH": "1"}
