"""One server of the catalogue as a process: started, spoken to, halted, killed, restarted, ended."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from socket import AF_INET, AF_UNIX, socket
from types import TracebackType
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .catalogue import SERVERS, Spec
from .config import ConfigValue, as_text, defaults
from .errors import ServerFailed
from .fetch import binary
from .ports import free_port
from .spawn import spawn
from .waiting import POLL_S, wait_until

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
CLIENT_TIMEOUT_S = 5.0

_PORT_TAKEN = b"Address already in use"
_LONGEST_SOCKET_PATH = 107  # sizeof(sockaddr_un.sun_path) - 1


class Server:
    """A running server, on a port of 127.0.0.1 or on a Unix socket alone. Also a context manager, which stops it.

    `spec`, `port` (0 on a Unix socket), `directory` and `url` stay the same over `restart()`; `pid` does not. The
    kernel kills the server when this process ends, in whatever way. Without a `directory` it works in a new temporary
    one, which `stop()` removes; a given one stays.
    """

    def __init__(
        self, spec: Spec, *, unix: bool, args: Sequence[str], directory: Path | None, config: Mapping[str, ConfigValue]
    ) -> None:
        """Prepares a server that is not running yet. Use `Server.start()`."""
        self.spec = spec
        self.port = 0
        self._binary = binary(spec)
        self._args = list(args)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="relet-test-")
            directory = Path(self._temporary.name)
        self.directory = directory.absolute()
        self._log = self.directory / "server.log"
        self._socket = self.directory / "redis.sock" if unix else None
        if unix and len(str(self._socket)) > _LONGEST_SOCKET_PATH:
            raise ValueError(f"too long for a Unix socket: {self._socket}")
        self._config = defaults(self.directory, self._socket, self._binary.module, spec.major)
        self._config.update({name.replace("_", "-"): value for name, value in config.items()})
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    @classmethod
    def start(
        cls,
        spec: Spec | str,
        *,
        unix: bool = False,
        args: Sequence[str] = (),
        directory: Path | None = None,
        **config: ConfigValue,
    ) -> Server:
        """Starts a server of the catalogue and returns once it answers PING.

        `config` are lines of redis.conf, with underscores for hyphens (`appendonly="yes"`); they win over the defaults:
        no snapshots, no append-only file, no delay before a replica's sync. `args` go on the command line as they are.
        Raises Unavailable if this machine cannot have it, ServerFailed with the tail of its log if it does not start.
        """
        server = cls(
            SERVERS[spec] if isinstance(spec, str) else spec, unix=unix, args=args, directory=directory, config=config
        )
        try:
            server._start_on_a_free_port()
        except BaseException:
            server.stop()
            raise
        return server

    @classmethod
    def start_replica_of(cls, master: Server, **options: Any) -> Server:
        """Starts a replica of `master`, of the same spec, and returns once it is in sync. `options` as for `start`."""
        if not master.port:
            raise ValueError("a replica needs a master with a port")
        options.setdefault("replicaof", ("127.0.0.1", master.port))
        if master.password:
            options.setdefault("masterauth", master.password)
        replica = cls.start(options.pop("spec", master.spec), **options)
        try:
            replica.wait_in_sync(master)
        except BaseException:
            replica.stop()
            raise
        return replica

    @property
    def pid(self) -> int:
        """The process id of the server, also of one that has ended."""
        if self._process is None:
            raise ServerFailed(f"{self.spec.name} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there, be it halted or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def password(self) -> str:
        """The password that it was configured with; empty if none."""
        return str(self._config.get("requirepass", ""))

    @property
    def url(self) -> str:
        """The address as redis-py takes it, with the password if there is one."""
        user = f":{self.password}@" if self.password else ""
        return f"unix://{user}{self._socket}?db=0" if self._socket else f"redis://{user}127.0.0.1:{self.port}/0"

    def client(self, **options: Any) -> redis.Redis:
        """A new client of this server, the caller's to close; `options` are redis-py's."""
        return redis.Redis.from_url(self.url, **options)

    def log(self, last: int | None = None) -> str:
        """What the server has logged since its first start, or the `last` lines of it."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-last:] if last else lines)

    def stop(self) -> None:
        """Ends the server: asks, waits at most STOP_TIMEOUT_S, then kills. Removes its temporary folder.

        Nothing is saved beyond what the configuration asks for (by default: nothing). Does no harm when repeated.
        """
        self._terminate()
        if self._temporary:
            self._temporary.cleanup()

    def kill(self) -> None:
        """SIGKILL, as when the machine loses its power. `restart()` brings the server back."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._paused = False

    def pause(self) -> None:
        """SIGSTOP, and returns once the kernel has halted it. The server keeps its connections and answers nothing."""
        if not self.running:
            raise ServerFailed(f"{self.spec.name} is not running")
        self._signal(signal.SIGSTOP)
        self._paused = True
        wait_until(lambda: self._state() in "TtZX", f"{self.spec.name} to halt")

    def resume(self) -> None:
        """SIGCONT: the server goes on as if no time had passed, though its clock has moved."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def restart(self, *, save: bool | None = None) -> None:
        """Ends the server, if it runs, and starts it on the same port, directory and configuration.

        `save` writes a snapshot first (True) or does not (False); None leaves it to the configuration. Returns once the
        data is loaded.
        """
        if self._paused:
            self.resume()
        if save is not None and self.running:
            with closing(self._client_of_our_own(START_TIMEOUT_S)) as client:
                client.shutdown(save=save, nosave=not save)
        self._terminate()
        self._start_on_the_same_port()

    def wait_in_sync(self, master: Server, *, timeout: float = 30.0) -> None:
        """Returns once this replica has everything that `master` wrote before the call. Raises TimeoutError."""
        with closing(master.client()) as source, closing(self.client()) as copy:
            target = _replication(source)["master_repl_offset"]

            def is_in_sync() -> bool:
                state = _replication(copy)
                online = f"port={self.port},state=online" in _replicas(_replication(source))
                return state.get("master_link_status") == "up" and online and state["slave_repl_offset"] >= target

            wait_until(is_in_sync, f"the replica on port {self.port} to be in sync", timeout=timeout)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Server {self.spec.name} {self.url}>"

    def _start_on_a_free_port(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for _ in range(20):
            self.port = 0 if self._socket else int(str(self._config.get("port", free_port())))
            (self.directory / "redis.conf").write_text(as_text({"port": self.port, **self._config}))
            if self._launch():
                return
        raise self._failure("found its port taken again and again")

    def _start_on_the_same_port(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._launch():
            if time.monotonic() > deadline:
                raise self._failure(f"found port {self.port} still taken")
            time.sleep(POLL_S)

    def _launch(self) -> bool:
        """Starts the process and waits until it serves. False if its port was taken meanwhile."""
        already_logged = self._log.stat().st_size if self._log.exists() else 0
        arguments = [str(self.directory / "redis.conf"), *self._args]
        self._process = spawn(self._binary, arguments, self.directory, self._log)
        self._paused = False
        deadline = time.monotonic() + START_TIMEOUT_S
        with closing(self._client_of_our_own(CLIENT_TIMEOUT_S)) as client:
            while not self._serves(client):
                if self._process.poll() is not None:
                    if _PORT_TAKEN in self._log.read_bytes()[already_logged:]:
                        return False
                    raise self._failure(f"ended with code {self._process.returncode} at its start")
                if time.monotonic() > deadline:
                    raise self._failure(f"did not answer within {START_TIMEOUT_S:g} s")
                time.sleep(POLL_S)
        return True

    def _serves(self, client: redis.Redis) -> bool:
        """Whether the server answers PING, has loaded its data, and is the process that was started here."""
        if not self._listens():
            return False
        try:
            client.ping()
            information: Any = client.info("server")
        except (redis.ConnectionError, redis.TimeoutError):  # a server that is still loading is a ConnectionError too
            return False
        return int(information["process_id"]) == self.pid

    def _listens(self) -> bool:
        """Whether anything accepts connections here yet. Asked first, since redis-py 4 leaks a socket that does not."""
        family, address = (AF_UNIX, str(self._socket)) if self._socket else (AF_INET, ("127.0.0.1", self.port))
        with socket(family) as probe:
            probe.settimeout(CLIENT_TIMEOUT_S)
            return probe.connect_ex(address) == 0

    def _client_of_our_own(self, timeout: float) -> redis.Redis:
        """A client that never resends, whichever version redis-py is."""
        return self.client(socket_timeout=timeout, retry=Retry(NoBackoff(), 0))

    def _terminate(self) -> None:
        if self._process is None:
            return
        if self._paused:
            self.resume()  # a halted process does not see SIGTERM
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(number)

    def _state(self) -> str:
        """The process's state letter in /proc; "X" once it is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "X"

    def _failure(self, what: str) -> ServerFailed:
        return ServerFailed(f"{self.spec.name} {what}. The end of its log:\n{self.log(last=30)}")


def _replication(client: redis.Redis) -> dict[str, Any]:
    information: Any = client.info("replication")
    return dict(information)


def _replicas(information: Mapping[str, Any]) -> str:
    """The replicas of a master as one text, of the shape `port=7001,state=online`."""
    replicas = (value for name, value in information.items() if name.startswith("slave") and isinstance(value, dict))
    return " ".join(f"port={replica['port']},state={replica['state']}" for replica in replicas)
