"""Runs the server of ``local:``, and ends it when it is idle. Stands alone: ``python -I -S keeper.py ARGUMENTS…``.

Arguments: the state directory, the socket, the seconds of idleness after which it ends, the server's program, and the
seconds for its start. The process that was called ends when the server answers (or with code 1 and a line that says why
it does not); its fork in a session of its own is the keeper.

One server per state directory: the lock on ``running.lock`` is held by the keeper and by the server, which inherits the
file descriptor. The kernel drops it with the last of them, so no file can be stale. On Linux the kernel also ends the
server (SIGTERM) when the keeper was killed; elsewhere it then serves on, and does not end by itself.

Idle is: no client but the keeper, and no key with a time to live, which every lease has. Before it ends the server for
that, the keeper takes the socket's file away, so that nobody can come any more, and looks once again.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

LOCK = "running.lock"
ADDRESS = "address"  # relet.local.home reads it
POLL_S = 0.02
TICK_S = 1.0  # between two looks at an idle server
END_TIMEOUT_S = 60.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Failed(Exception):
    """It does not work; the text says why."""


class Ended(Exception):
    """The server is gone, or it is time to end it."""


class Link:
    """A connection to the server: the little of its protocol that is needed here."""

    def __init__(self, place: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(30)
        self._socket.connect(place)
        self._rest = b""

    def ask(self, command: str) -> str:
        """The answer to an inline command: a line, or what a bulk string holds."""
        self._socket.sendall(command.encode() + b"\r\n")
        head = self._line()
        if not head.startswith("$"):
            return head
        size = int(head[1:]) + 2
        while len(self._rest) < size:
            self._read()
        text, self._rest = self._rest[: size - 2], self._rest[size:]
        return text.decode("utf-8", "replace")

    def close(self) -> None:
        self._socket.close()

    def _line(self) -> str:
        while b"\r\n" not in self._rest:
            self._read()
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line.decode("utf-8", "replace")

    def _read(self) -> None:
        more = self._socket.recv(65536)
        if not more:
            raise ConnectionError("the server closed the connection")
        self._rest += more


class Keeper:
    """From the lock to the end of the server."""

    def __init__(self, state: str, place: str, idle: float, program: str, patience: float) -> None:
        self._state = state
        self._place = place
        self._idle = idle
        self._program = program
        self._until = time.monotonic() + patience
        self._process: subprocess.Popen[bytes]
        self._link: Link
        self._inode = 0
        self._idle_since: float | None = None

    def start(self) -> bool:
        """Starts the server. False if another one runs by now."""
        lock = self._lock()
        if lock is None:
            return False
        self._forget()
        log = os.open(os.path.join(self._state, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        settings = [
            *("--port", "0", "--unixsocket", self._place, "--unixsocketperm", "700", "--dir", self._state),
            *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no"),
        ]
        self._process = subprocess.Popen(
            [self._program, *settings],
            cwd=self._state,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # there are no threads here
        )
        os.close(log)
        try:
            self._link = self._answering()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._inode = os.stat(self._place).st_ino
        self._write_address()
        return True

    def keep(self) -> None:
        """Returns when the server has ended."""
        try:
            while True:
                self._look()
                time.sleep(min(TICK_S, self._idle / 4))
        except (Ended, OSError, ValueError):
            pass
        self._end()

    def _lock(self) -> int | None:
        lock = os.open(os.path.join(self._state, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                pass
            if self._other_answers():
                return None
            if time.monotonic() > self._until:
                raise Failed(f"another server holds {self._state}/{LOCK}, and does not answer; end it first")
            time.sleep(POLL_S)

    def _other_answers(self) -> bool:
        try:
            with open(os.path.join(self._state, ADDRESS), "rb") as file:
                Link(os.fsdecode(file.read())).close()
        except OSError:
            return False
        return True

    def _answering(self) -> Link:
        link = None
        while True:
            code = self._process.poll()
            if code is not None:
                raise Failed(f"it ended with code {code}: {self._last_words()}")
            try:
                link = link or Link(self._place)
                if link.ask("PING") == "+PONG":  # else it is loading its data
                    return link
            except OSError:
                link = None
            if time.monotonic() > self._until:
                raise Failed(f"it does not answer: {self._last_words()}")
            time.sleep(POLL_S)

    def _last_words(self) -> str:
        with open(os.path.join(self._state, "log"), encoding="utf-8", errors="replace") as log:
            lines = log.read().split("\n")
        return " / ".join(line.strip() for line in lines[-4:] if line.strip()) or "it logged nothing"

    def _write_address(self) -> None:
        path = os.path.join(self._state, ADDRESS)
        with open(path + ".new", "wb") as file:
            file.write(os.fsencode(self._place))
        os.replace(path + ".new", path)

    def _look(self) -> None:
        if self._process.poll() is not None or not self._is_reachable():
            raise Ended
        now = time.monotonic()
        if self._is_busy():
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since >= self._idle:
            self._close_door()

    def _is_reachable(self) -> bool:
        """Whether the socket's file is still there: a session that ends may take it away."""
        try:
            return os.stat(self._place).st_ino == self._inode
        except OSError:
            return False

    def _is_busy(self) -> bool:
        clients = re.search(r"^connected_clients:(\d+)", self._link.ask("INFO clients"), re.M)
        if not clients or int(clients[1]) > 1:
            return True
        return any(int(number) for number in re.findall(r"expires=(\d+)", self._link.ask("INFO keyspace")))

    def _close_door(self) -> None:
        closed = self._place + ".closed"
        os.rename(self._place, closed)
        self._link.ask("PING")  # whoever had come before is let in before this is answered, and counted below
        if self._is_busy():
            os.rename(closed, self._place)
            self._idle_since = None
            return
        raise Ended

    def _end(self) -> None:
        process = self._process
        if process.poll() is None:
            process.terminate()  # it writes out what it has
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._forget()

    def _forget(self) -> None:
        """Removes what an old server left, which holds the lock no more."""
        for path in (self._place, self._place + ".closed"):
            with suppress(FileNotFoundError):
                os.unlink(path)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> int:
    state, place, idle, program, patience = sys.argv[1:]
    heard, report = os.pipe()
    if os.fork():
        os.close(report)
        with os.fdopen(heard, "rb") as answer:
            said = answer.read()  # ends when the keeper says so, or is gone
        if said != b"ok":
            print(said.decode("utf-8", "replace") or "its keeper was killed", file=sys.stderr)
        return 0 if said == b"ok" else 1
    os.close(heard)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # whoever reads from the first process must not wait for this one
        os.dup2(nothing, stream)
    os.chdir("/")
    os.umask(0o077)
    _serve(Keeper(state, place, float(idle), program, float(patience)), report)
    os._exit(0)


def _serve(keeper: Keeper, report: int) -> None:
    def end(*_: object) -> None:
        raise Ended

    try:
        is_mine = keeper.start()
    except (Failed, OSError) as error:
        os.write(report, str(error).encode())
        return
    signal.signal(signal.SIGTERM, end)
    os.write(report, b"ok")
    os.close(report)
    if is_mine:
        keeper.keep()


if __name__ == "__main__":
    sys.exit(main())
