"""The network between clients and servers: TCP proxies that can be slow, cut, held, or lose the answers.

    python -m tests.faults.proxy PLAN

One process has all proxies of a campaign. It takes orders on a unix socket, one JSON object a line, each answered by a
line once it holds: {"proxy": NAME, "upstream": PORT, "mode": MODE, "delay": SECONDS}, each of the last three as wanted.
A new name makes a new proxy; the answer is its port. The modes:

    pass     hands on what comes, each piece `delay` seconds later (up to twice that, never out of order)
    cut      drops every connection, and each new one
    hold     keeps the connections and hands nothing on; what came meanwhile goes on afterwards
    mute     hands requests on, drops each connection in the moment in which an answer comes back
    drop     once: drops every connection along with what it holds, then passes again

Another upstream also drops every connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import sys
from pathlib import Path
from typing import Any

from .children import die_with_parent
from .plan import Plan

CHUNK = 65_536


class Proxy:
    """One port, and the connections through it."""

    def __init__(self) -> None:
        self.port = 0
        self.upstream = 0
        self.mode = "pass"
        self.delay = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.order(mode="cut")
        self._server.close()
        await self._server.wait_closed()

    def order(self, upstream: int | None = None, mode: str | None = None, delay: float | None = None) -> None:
        if delay is not None:
            self.delay = delay
        moved = upstream is not None and upstream != self.upstream
        if moved:
            self.upstream = int(upstream or 0)
        if moved or mode in ("cut", "drop"):
            for writer in list(self._writers):
                writer.transport.abort()
        if mode is not None:
            self.mode = "pass" if mode == "drop" else mode
            (self._open.clear if mode == "hold" else self._open.set)()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs: asyncio.StreamWriter | None = None
        self._writers.add(writer)
        try:
            if self.mode == "cut":
                return
            answers, theirs = await asyncio.open_connection("127.0.0.1", self.upstream)
            self._writers.add(theirs)
            for one in (writer, theirs):
                one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pumps = {
                asyncio.ensure_future(self._pump(reader, theirs, is_answer=False)),
                asyncio.ensure_future(self._pump(answers, writer, is_answer=True)),
            }
            _, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in left:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # the server is away
        finally:
            for end in (writer, theirs):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay * (1 + random.random()))
                await self._open.wait()
                if is_answer and self.mode == "mute":
                    return
                if writer.transport.is_closing():
                    return
                writer.write(data)
                await writer.drain()


class Control:
    """Gives orders to the proxies."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._answers = self._socket.makefile("r")

    def order(self, proxy: str, **wanted: Any) -> int:
        """Returns the proxy's port once the order holds. Not for several threads."""
        self._socket.sendall(json.dumps({"proxy": proxy, **wanted}).encode() + b"\n")
        return int(self._answers.readline())

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


async def main(plan: Plan) -> None:
    proxies: dict[str, Proxy] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            order = json.loads(line)
            name = order.pop("proxy")
            if name not in proxies:
                proxy = Proxy()
                await proxy.listen()
                proxies[name] = proxy
            proxies[name].order(**order)
            writer.write(b"%d\n" % proxies[name].port)
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(plan.control))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main(Plan.load(Path(sys.argv[1]))))
