"""What the holders of leases write to: a register for each resource that refuses a lower fence than it has seen.

    python -m tests.faults.register PLAN

A process of its own on a unix socket, which no nemesis touches. It knows nothing of leases: it compares, answers, and
writes down in one order all that it was asked. The tests of the checker are about that record.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from .children import die_with_parent
from .history import History
from .plan import Plan

HISTORY = "register.jsonl"


class Register:
    """The highest fence that each resource was written with."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._highest: dict[tuple[str, str], int] = {}

    def write(self, pool: str, resource: str, fence: int, token: str) -> bool:
        """Whether the write was accepted."""
        accepted = fence >= self._highest.get((pool, resource), 0)
        if accepted:
            self._highest[pool, resource] = fence
        self._history.write("write", pool=pool, resource=resource, fence=fence, token=token, accepted=accepted)
        return accepted

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self.write(**json.loads(line))).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass  # a client was killed
        finally:
            writer.close()


class Writer:
    """A session's connection to the register."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def write(self, **fields: Any) -> bool:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(str(self._socket))
        reader, writer = self._streams
        writer.write(json.dumps(fields).encode() + b"\n")
        await writer.drain()
        return bool(json.loads(await reader.readline()))

    async def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            await self._streams[1].wait_closed()


async def main(plan: Plan) -> None:
    register = Register(History(plan.path / HISTORY))
    server = await asyncio.start_unix_server(register.serve, str(plan.register))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main(Plan.load(Path(sys.argv[1]))))
