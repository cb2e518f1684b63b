"""The campaign's own processes: started as modules, ended with the campaign, whichever way that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import socket as network
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.servers import wait_until

ROOT = Path(__file__).resolve().parents[2]

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PARENT = "RELET_FAULTS_PARENT"


def start(
    module: str, *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts `python -m tests.faults.MODULE`. What it prints goes to `log`.

    To be called from a thread that lives as long as the process may: the kernel ends it along with that thread.
    """
    with open(log, "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", f"tests.faults.{module}", *arguments],
            cwd=ROOT,
            env={**_environment(), **(environment or {}), _PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


@cache
def _environment() -> dict[str, str]:
    """That of this process as it was at first: while a server is started, it holds things that are for that alone."""
    return dict(os.environ)


def die_with_parent() -> None:
    """Asks the kernel to kill this process once the one that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(os.environ.get(_PARENT, os.getppid())):
        sys.exit("the campaign is gone")


def end(process: subprocess.Popen[bytes], patience: float = 0.0) -> None:
    """Waits so many seconds for it to end by itself, and kills it otherwise. A stopped process goes on first."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_socket(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    """Returns once the process listens. RuntimeError with what it said if it ended instead."""

    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with code {process.returncode}: {log.read_text()[-2000:]}")
        with network.socket(network.AF_UNIX) as probe:
            return socket.exists() and probe.connect_ex(str(socket)) == 0

    wait_until(listens, f"{socket.name} to listen")
