"""Redis Sentinel for the tests: real sentinels, which watch one master and its replicas."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import redis

from tests.servers import Server, ServerFailed, binary, wait_until
from tests.servers.ports import free_port
from tests.servers.spawn import spawn

DOWN_AFTER_MS = 300
"""Without an answer for so long a master counts as down."""
FAILOVER_TIMEOUT_MS = 3000
START_TRIES = 5


class Sentinels:
    """Sentinels of the master's own kind of server, of which most have to agree. Also a context manager."""

    def __init__(self, master: Server, name: str, password: str, master_password: str) -> None:
        """Prepares. Use `Sentinels.start()`."""
        self.name = name
        self.ports: list[int] = []
        self._master = master
        self._password = password
        self._master_password = master_password
        self._folder = TemporaryDirectory(prefix="relet-sentinels-")
        self._processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    def start(
        cls, master: Server, *, count: int = 3, name: str = "mymaster", password: str = "", master_password: str = ""
    ) -> Sentinels:
        """Starts `count` sentinels; returns once all know each other and the master's replicas.

        `password` is the sentinels' own.
        """
        with closing(master.client()) as client:
            information: Any = client.info("replication")
        sentinels = cls(master, name, password, master_password)
        try:
            for _ in range(count):
                sentinels._start_one(count // 2 + 1)
            wait_until(lambda: sentinels._agree(information["connected_slaves"]), "the sentinels to find each other")
        except BaseException:
            sentinels.stop()
            raise
        return sentinels

    @property
    def hosts(self) -> str:
        """`host:port,host:port`, as in a URL."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def url(self) -> str:
        """As `Pool.from_url` takes it, without passwords."""
        return f"sentinel://{self.hosts}/{self.name}"

    def master_port(self) -> int:
        """The port of the master, as most of them see it."""
        seen = [int(self._ask(port, "GET-MASTER-ADDR-BY-NAME", self.name)[1]) for port in self.ports]
        return max(set(seen), key=seen.count)

    def wait_for_failover(self, from_port: int, *, timeout: float = 30.0) -> int:
        """Returns the new master's port, once every sentinel knows of it."""
        wait_until(
            lambda: all(
                int(self._ask(port, "GET-MASTER-ADDR-BY-NAME", self.name)[1]) != from_port for port in self.ports
            ),
            "the failover",
            timeout=timeout,
        )
        return self.master_port()

    def stop(self) -> None:
        """Ends them all. Does no harm when repeated."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Sentinels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_one(self, quorum: int) -> None:
        for _ in range(START_TRIES):
            port = free_port()
            folder = Path(self._folder.name) / str(port)
            folder.mkdir()
            file = folder / "sentinel.conf"
            file.write_text(self._configuration(port, folder, quorum))
            process = spawn(binary(self._master.spec), [str(file), "--sentinel"], folder, folder / "log")
            self._processes.append(process)
            wait_until(lambda p=process, n=port: p.poll() is not None or self._answers(n), "a sentinel to start")  # type: ignore[misc]
            if process.poll() is None:
                self.ports.append(port)
                return
        raise ServerFailed(f"no sentinel started: {(folder / 'log').read_text(errors='replace')[-2000:]}")

    def _configuration(self, port: int, folder: Path, quorum: int) -> str:
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f'dir "{folder}"',
            f"sentinel monitor {self.name} 127.0.0.1 {self._master.port} {quorum}",
            f"sentinel down-after-milliseconds {self.name} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {self.name} {FAILOVER_TIMEOUT_MS}",
        ]
        if self._password:
            lines += [f"requirepass {self._password}", f"sentinel sentinel-pass {self._password}"]
        if self._master_password:
            lines.append(f'sentinel auth-pass {self.name} "{self._master_password}"')
        return "".join(f"{line}\n" for line in lines)

    def _answers(self, port: int) -> bool:
        try:
            return bool(self._ask(port, "MASTERS"))
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def _agree(self, replicas: int) -> bool:
        for port in self.ports:
            fields = self._ask(port, "MASTER", self.name)
            known = dict(zip(fields[::2], fields[1::2], strict=True)) if isinstance(fields, list) else fields
            if int(known["num-other-sentinels"]) != len(self.ports) - 1 or int(known["num-slaves"]) != replicas:
                return False
        return True

    def _ask(self, port: int, *words: str) -> Any:
        with closing(redis.Redis(port=port, password=self._password or None, decode_responses=True)) as client:
            client.set_response_callback("SENTINEL MASTER", lambda reply, **_: reply)
            return client.execute_command("SENTINEL", *words)
