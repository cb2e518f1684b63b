"""Starts a server's process so that it cannot outlive the test process."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from .fetch import Binary

_LAUNCHER = Path(__file__).with_name("launcher.py")

# The Python inside RedisGears 1.2 would take these for its own and abort; "modulesdatadir" makes it believe that it is
# in Redis Enterprise.
_NOT_FOR_SERVERS = {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "modulesdatadir"}


def spawn(found: Binary, arguments: list[str], directory: Path, output: Path) -> subprocess.Popen[bytes]:
    """Starts `found` in `directory`; what it prints is appended to the file `output`.

    May be called from any thread. The kernel ends the server with the thread that started it, so one thread, which
    lives as long as this process, starts them all.
    """
    return _spawner(os.getpid()).submit(_spawn, found, arguments, directory, output).result()


@cache
def _spawner(process_id: int) -> ThreadPoolExecutor:
    """The thread that starts servers: one per process, since a fork inherits the object but not the thread."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"servers-of-{process_id}")


def _spawn(found: Binary, arguments: list[str], directory: Path, output: Path) -> subprocess.Popen[bytes]:
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), found.library_path]
    with open(output, "ab") as log:
        return subprocess.Popen(
            [*launcher, str(found.program), *arguments],
            cwd=directory,
            env={name: value for name, value in os.environ.items() if name not in _NOT_FOR_SERVERS},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the tests; they stop their servers themselves
        )
