"""The contenders: their catalogue, their environments, and their worker processes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.libraries import pip
from tests.servers import Unavailable

TIMEOUT_S = 120.0
HERE = Path(__file__).parent


class Peer(NamedTuple):
    """``packages``: what pip installs in an environment of its own; none: the running Python has it."""

    name: str
    adapter: str
    packages: tuple[str, ...] = ()
    named: bool = True
    waits: bool = True
    counts: tuple[str, ...] = ("redis",)
    note: str = ""
    tasks: bool = False


RELET = Peer("relet", "adapters:Relet", counts=("relet", "redis"), tasks=True)
BARE = Peer("SPOP + SADD", "adapters:Bare", named=False, waits=False, tasks=True, note="the limit: no ttl, no owner")
PUBLISHED = Peer("PUBLISH", "adapters:Published", named=False, note="the limit: a bare message")

PEERS = (
    RELET,
    BARE,
    Peer("naive GET, SET", "adapters:Naive", waits=False, note="not safe: see double grants"),
    Peer("WATCH, MULTI", "adapters:WatchMulti", waits=False, note="what crashed clients had never comes back"),
    Peer("redis-py Lock", "adapters:RedisLock", tasks=True, note="a lock a resource"),
    Peer("python-redis-lock", "libraries:PythonRedisLock", ("python-redis-lock", "redis"), note="a lock a resource"),
    Peer("pottery Redlock", "libraries:Redlock", ("pottery", "redis"), note="a lock a resource, one server"),
    Peer(
        "py-redis-semaphore",
        "libraries:PyRedisSemaphore",
        ("py-redis-semaphore", "redis"),
        named=False,
        note="counts: does not say which resource",
    ),
    Peer(
        "Redis-Semaphore",
        "libraries:RedisSemaphore",
        ("Redis-Semaphore", "redis"),
        note="numbers; with stale_client_timeout, its ttl",
    ),
    Peer(
        "Redis-Semaphore, no ttl",
        "libraries:RedisSemaphoreNoTimeout",
        ("Redis-Semaphore", "redis"),
        note="numbers; what crashed clients had never comes back",
    ),
    Peer(
        "credential-pool-sdk",
        "libraries:CredentialPool",
        ("credential-pool-sdk", "redis"),
        waits=False,
        tasks=True,
        note="asyncio; lapsed ones come back only by a call for it",
    ),
)


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "relet-benchmarks"


def python_of(peer: Peer) -> str:
    """The Python that has the peer's packages; makes its environment where there is none. Raises Unavailable."""
    if not peer.packages:
        return sys.executable
    folder = cache_folder() / f"python{sys.version_info.major}.{sys.version_info.minor}-{'-'.join(peer.packages)}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        venv.create(folder, clear=True, with_pip=True)
        pip("install", *peer.packages, python=str(python))
        complete.touch()
    return str(python)


class Failed(Exception):
    """A worker answered with an error, or not at all."""


class Worker:
    """A process that has the peer's library, and does as it is told. A context manager, which ends it."""

    def __init__(self, peer: Peer, url: str) -> None:
        """Raises Unavailable if the peer cannot be had, or does not start."""
        self.peer = peer
        packages = peer.packages or peer.counts
        command = [python_of(peer), str(HERE / "worker.py"), *peer.adapter.split(":"), url, *packages]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._unread = b""
        try:
            self.versions: dict[str, str] = self.answer()["versions"]
        except Failed as error:
            self.end()
            raise Unavailable(str(error)) from None

    def tell(self, do: str, **details: Any) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.peer.name}: its process has ended: {error}") from None

    def answer(self, timeout: float = TIMEOUT_S) -> Any:
        """Raises Failed with what the worker says, or if it says nothing for so many seconds."""
        assert self._process.stdout
        output, until = self._process.stdout.fileno(), time.monotonic() + timeout
        while b"\n" not in self._unread:
            if not select.select([output], [], [], max(0.0, until - time.monotonic()))[0]:
                raise Failed(f"{self.peer.name}: no answer within {timeout:g} s")
            more = os.read(output, 1 << 16)
            if not more:
                raise Failed(f"{self.peer.name}: its process ended with {self._process.wait()}")
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.peer.name}: {answer['error']}")
        return answer

    def ask(self, do: str, **details: Any) -> Any:
        self.tell(do, **details)
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def together(workers: Sequence[Worker], do: str, **details: Any) -> list[Any]:
    """The same order to all, to be begun by all at the same moment."""
    at = time.monotonic() + (0.02 if len(workers) > 1 else 0.0)
    for worker in workers:
        worker.tell(do, at=at, **details)
    return [worker.answer() for worker in workers]


class Crew:
    """So many workers of each contender. ``absent`` tells why one is not, or no longer, with us."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.workers: dict[Peer, list[Worker]] = {}
        self.absent: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self._say = say

    def hire(self, peer: Peer, url: str, count: int) -> None:
        self.workers[peer] = []
        with self.excused(peer):
            for _ in range(count):
                worker = Worker(peer, url)
                self.workers[peer].append(worker)
                self.versions.update({k: v for k, v in worker.versions.items() if k != "redis" or peer is RELET})

    @contextmanager
    def excused(self, peer: Peer) -> Iterator[None]:
        """A contender that fails here is left out from now on, and said to be; relet and the bare pair must not."""
        try:
            yield
        except (Failed, Unavailable) as error:
            if peer in (RELET, BARE):
                raise
            self.absent[peer.name] = str(error).removeprefix(f"{peer.name}: ")
            self._say(f"{peer.name}: left out: {self.absent[peer.name]}")
            for worker in self.workers.pop(peer, []):
                worker.end()

    def end(self) -> None:
        for workers in self.workers.values():
            for worker in workers:
                worker.end()


@contextmanager
def crew(peers: Sequence[Peer], url: str, count: int, say: Callable[[str], None]) -> Iterator[Crew]:
    """The contenders, interleaved by whoever asks them; ended at the end."""
    hired = Crew(say)
    try:
        for peer in peers:
            hired.hire(peer, url, count)
        yield hired
    finally:
        hired.end()
