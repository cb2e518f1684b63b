"""Processes that acquire, hold and release what they are told to, and can be stopped or killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers import eventually
from tests.waiting.drivers import GUARD_S, Driven, World, deadline_of

_CONTEXT: Any = multiprocessing.get_context("forkserver")  # quick, and no fork of a process that has threads
_CONTEXT.set_forkserver_preload(["tests.waiting.children"])


class Seen(NamedTuple):
    """What a child says of a lease."""

    resource: str
    fence: int
    deadline_ms: int


class Child:
    """A process with one pool. It runs one order at a time, in the background: ``tell``, then ``hear``."""

    def __init__(self, driver: str, url: str, pool: str, **options: Any) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_main, args=(driver, url, pool, options, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.pid = self.process.pid

    def tell(self, verb: str, **options: Any) -> None:
        self.pipe.send((verb, options))

    def heard(self) -> bool:
        """Whether an answer is there."""
        return bool(self.pipe.poll())

    def hear(self) -> Any:
        """The answer to what it was told; raises what it raised."""
        assert self.pipe.poll(GUARD_S), "the child does not answer"
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def do(self, verb: str, **options: Any) -> Any:
        self.tell(verb, **options)
        return self.hear()

    def stop(self) -> None:
        """SIGSTOP; returns once it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: _state(self.pid) == "T", "the child to stand still")

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; returns once it is gone."""
        self.process.kill()
        self.process.join()


@contextmanager
def children(count: int, driver: str, url: str, pool: str, **options: Any) -> Iterator[list[Child]]:
    made = [Child(driver, url, pool, **options) for _ in range(count)]
    try:
        for child in made:
            assert child.hear() == "ready"
        yield made
    finally:
        for child in made:
            child.kill()
            child.process.close()


def _state(pid: int) -> str:
    """The letter in /proc of a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class _Servant:
    def __init__(self, pool: Driven) -> None:
        self.pool = pool
        self.lease: Any = None
        self.block: Any = None
        self.told: list[str] = []

    async def acquire(self, **options: Any) -> Seen:
        self.lease = await self.pool.acquire(**options)
        return self._seen()

    async def hold(self, **options: Any) -> Seen:
        """A ``lease`` block, entered."""
        self.block = self.pool.lease(on_lost=lambda lease: self.told.append(lease.resource), **options)
        self.lease = await self.block.__aenter__()
        return self._seen()

    async def leave(self) -> None:
        await self.block.__aexit__(None, None, None)

    async def release(self) -> None:
        await self.lease.release()

    async def renew(self) -> None:
        await self.lease.renew()

    async def state(self) -> tuple[bool, float, list[str]]:
        """lost, remaining, and whom on_lost was called for."""
        return self.lease.lost, self.lease.remaining(), self.told

    def _seen(self) -> Seen:
        return Seen(self.lease.resource, self.lease.fence, deadline_of(self.lease))


def _main(driver: str, url: str, pool: str, options: dict[str, Any], pipe: Connection) -> None:
    asyncio.run(_serve(driver, url, pool, options, pipe))


async def _serve(driver: str, url: str, pool: str, options: dict[str, Any], pipe: Connection) -> None:
    world = World(driver, url, threads=4)
    world.cleans_up = False
    async with world:
        servant = _Servant(world.pool(pool, **options))
        pipe.send("ready")
        while True:
            try:
                verb, arguments = await asyncio.to_thread(pipe.recv)
            except EOFError:
                return
            try:
                answer = await getattr(servant, verb)(**arguments)
            except Exception as error:
                answer = type(error)(str(error))
            pipe.send(answer)
