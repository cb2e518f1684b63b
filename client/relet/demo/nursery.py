"""Forks workers: ``python -m relet.demo.nursery``, driven by :class:`relet.demo.crowd.Crowd` through its pipes.

The first line is the job as JSON. Then one line a command, one line an answer::

    start NUMBER  ->  started
    kill NUMBER   ->  killed, or "ended" if the worker had ended by itself
    ended         ->  the numbers of those that ended by themselves since this was asked last

Only the parent of a process can be sure that its process id is still its own; so the killing is done here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

from relet.demo.crowd import Job
from relet.demo.worker import Worker


class Nursery:
    """The workers that were started, by number."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pids: dict[int, int] = {}
        self._ended: list[int] = []

    def obey(self, command: str, *arguments: str) -> str:
        """Answers one command."""
        if command == "start":
            return self._start(int(arguments[0]))
        if command == "kill":
            return self._kill(int(arguments[0]))
        self._reap()
        numbers, self._ended = self._ended, []
        return " ".join(map(str, numbers))

    def close(self) -> None:
        """Kills all that are left."""
        for number in list(self._pids):
            self._kill(number)

    def _start(self, number: int) -> str:
        pid = os.fork()
        if pid == 0:
            _be_worker(self._job, number)
        self._pids[number] = pid
        return "started"

    def _kill(self, number: int) -> str:
        self._reap()
        pid = self._pids.pop(number, None)
        if pid is None:
            return "ended"
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            return "killed"
        self._ended.append(number)
        return "ended"

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                del self._pids[number]
                self._ended.append(number)


def _be_worker(job: Job, number: int) -> None:
    """What the forked child does. Never returns."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)  # the pipes are the nursery's alone
        os.dup2(nothing, 1)
        Worker(job, number).work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    nursery = Nursery(Job(*json.loads(sys.stdin.readline())))
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            print(nursery.obey(*line.split()), flush=True)
    except BrokenPipeError:
        sys.stdout = None  # nobody listens any more: nothing to flush at the end
    finally:
        nursery.close()


if __name__ == "__main__":
    main()
