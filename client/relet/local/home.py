"""Where the user's own server is at home, and how it is started by one process however many want it at once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

from relet.embedded import MAX_SOCKET_PATH, program
from relet.errors import ReletError

ADDRESS = "address"
"""The file, in the state directory, that names the socket of the server that runs, or ran last."""
STARTING = "starting.lock"
"""Held by who starts it."""
START_TIMEOUT_S = 120.0
"""The server may have a long file to load, or another one to end first."""
_KEEPER = Path(__file__).with_name("keeper.py")
_POLL_S = 0.02


class Home:
    """The server of this user's ``local:``, be it running or not. Nothing is touched before ``start``."""

    def __init__(self, idle: float) -> None:
        self.idle = idle
        """Seconds until it ends, if this starts it."""
        self.state = _state_folder()
        """What a server keeps. Who agrees on this folder shares a server."""

    def address(self) -> str:
        """The socket of the server that runs, or ran last; one that is not there if there never was any."""
        try:
            return (self.state / ADDRESS).read_text("utf-8", "surrogateescape")
        except OSError:
            return str(self.state / "none")

    def answers(self) -> bool:
        """Whether somebody listens there."""
        with socket(AF_UNIX, SOCK_STREAM) as one:
            try:
                one.connect(self.address())
            except OSError:
                return False
            return True

    def start(self) -> None:
        """Returns once it runs, whoever has started it.

        Raises:
            ReletError: it is not installed, or did not start; or there is no place for its data or its socket.
        """
        if self.answers():
            return
        _make_private(self.state, "its data", "XDG_STATE_HOME")
        with _alone(self.state / STARTING):
            if not self.answers():
                self._start()

    def _start(self) -> None:
        place = self._socket()
        command = [sys.executable, "-I", "-S", str(_KEEPER)]
        command += [str(self.state), str(place), repr(self.idle), str(program()), str(START_TIMEOUT_S)]
        # It goes on in a process of its own, and this one ends once the server answers.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise ReletError(f"the server of local: did not start: {said or f'code {done.returncode}'}")

    def _socket(self) -> Path:
        """Its place: a folder of the session's, or of the machine's where the first is too deep for a socket."""
        name = f"local-{hashlib.sha256(os.fsencode(self.state)).hexdigest()[:12]}.sock"
        folders = [Path(tempfile.gettempdir()) / f"relet-{os.getuid()}", Path("/tmp") / f"relet-{os.getuid()}"]
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        if os.path.isabs(runtime) and os.path.isdir(runtime):
            folders.insert(0, Path(runtime) / "relet")
        fitting = [folder for folder in folders if len(os.fsencode(folder / name)) <= MAX_SOCKET_PATH]
        _make_private(fitting[0], "its socket", "XDG_RUNTIME_DIR")
        return fitting[0] / name


def _state_folder() -> Path:
    set_by_user = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(set_by_user):  # the specification has relative ones ignored
        return Path(set_by_user) / "relet" / "local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "relet" / "local"
    return Path.home() / ".local" / "state" / "relet" / "local"


def _make_private(folder: Path, what: str, variable: str) -> None:
    """Makes a folder that only this user can enter. A link, or somebody else's, is not taken for one."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077:
            folder.chmod(0o700)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError("it cannot be written to")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReletError(
            f"local: has no place for {what}: {error.filename or folder}: {reason}. Set {variable} to a folder that "
            f"you can write to, or name a server by its URL"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ReletError(
            f"local: has no place for {what}: {folder} is not a folder of yours. Remove it, or set {variable} to "
            f"another place"
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock that ends with this process, however that ends. The file stays: its removal would split the lock."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ReletError(
            f"local: cannot write {path}: {error.strerror}. Set XDG_STATE_HOME to a folder that you can write to"
        ) from error
    try:
        until = time.monotonic() + START_TIMEOUT_S + 10
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ReletError(
                        f"somebody else starts the server of local: for too long, and holds {path}"
                    ) from None
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)
