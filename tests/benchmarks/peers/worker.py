"""A process that works for the benchmark: a line of JSON in, a line of JSON out. Stands alone beside its adapters.

    python worker.py MODULE CLASS URL PACKAGE…

It is told: {"do": "open", "label": …, "size": …, "ttl": …}, then any of the methods of `Worker`. Times are ns of the
machine's steady clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import sys
import time
from importlib.metadata import version
from typing import Any

import redis

GIVE_UP_S = 10.0


class Worker:
    def __init__(self, kind: Any, url: str, packages: list[str]) -> None:
        self.kind, self.url, self.packages = kind, url, packages
        self.referee = redis.Redis.from_url(url, decode_responses=True)
        self.adapter: Any = None
        self.held: Any = None

    def hello(self) -> Any:
        return {"versions": {package: version(package) for package in self.packages}}

    def open(self, label: str, size: int, ttl: float) -> Any:
        self.adapter = self.kind(self.url, label, size, ttl)
        return {}

    def put(self) -> Any:
        self.adapter.put()
        return {}

    def lease(self, start: int, end: int) -> Any:
        """Leases some of the resources, in an order that is the same in each process and scatters them."""
        ranks = list(range(self.adapter.size))
        random.Random(1).shuffle(ranks)
        self.adapter.lease(ranks[start:end])
        return {}

    def pairs(self, seconds: float, at: float = 0.0) -> Any:
        """Takes and gives for so long, from a moment on that all clients were told; at least once."""
        time.sleep(max(0.0, at - time.monotonic()))
        start = time.monotonic()
        until, done = start + seconds, 0
        if hasattr(self.adapter, "pairs"):
            done = self.adapter.pairs(until)
        else:
            take, give = self.adapter.take, self.adapter.give
            while time.monotonic() < until or not done:
                held = take()
                if held is None:  # others were quicker, or a lock was let go behind the one that looks
                    if time.monotonic() > until + GIVE_UP_S:
                        raise AssertionError("nothing was free")
                    continue
                give(held)
                done += 1
        return {"rate": done / (time.monotonic() - start), "pairs": done, "seconds": time.monotonic() - start}

    def contend(self, seconds: float, label: str, limit: int, at: float = 0.0) -> Any:
        """The same with a referee: a counter a resource, which must never be above ``limit``."""
        time.sleep(max(0.0, at - time.monotonic()))
        until, grants, doubles, nothing = time.monotonic() + seconds, 0, 0, 0
        while time.monotonic() < until:
            held = self.adapter.take()
            if held is None:
                nothing += 1
                continue
            counter = f"referee:{label}:{self.adapter.name(held)}"
            grants += 1
            count: Any = self.referee.incr(counter)
            doubles += count > limit
            self.referee.decr(counter)
            self.adapter.give(held)
        return {"grants": grants, "doubles": doubles, "nothing": nothing}

    def take(self) -> Any:
        self.held = self.adapter.take()
        return {"taken": self.held is not None, "at": time.monotonic_ns()}

    def give(self) -> Any:
        start = time.monotonic_ns()
        self.adapter.give(self.held)
        return {"at": start}

    def wait(self) -> Any:
        say({"waiting": True})
        self.held = self.adapter.wait()
        return {"at": time.monotonic_ns()}

    def tasks(self, count: int, seconds: float) -> Any:
        """Pairs in so many tasks of asyncio at a time."""
        return {"rate": asyncio.run(self._tasks(count, seconds))}

    async def _tasks(self, count: int, seconds: float) -> float:
        await self.adapter.task_setup()
        done = 0
        try:
            await asyncio.gather(*(self.adapter.task_pair() for _ in range(count)))  # connects
            start = time.monotonic()

            async def run() -> None:
                nonlocal done
                while time.monotonic() < start + seconds:
                    await self.adapter.task_pair()
                    done += 1

            await asyncio.gather(*(run() for _ in range(count)))
            return done / (time.monotonic() - start)
        finally:
            await self.adapter.task_end()


def say(answer: Any) -> None:
    sys.__stdout__.write(json.dumps(answer) + "\n")
    sys.__stdout__.flush()


def main() -> None:
    module, name, url, *packages = sys.argv[1:]
    sys.stdout = sys.stderr  # what a library prints is no answer
    try:
        worker = Worker(getattr(importlib.import_module(module), name), url, packages)
        say(worker.hello())
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        order = json.loads(line)
        try:
            say(getattr(worker, order.pop("do"))(**order))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
