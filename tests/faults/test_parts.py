"""The parts that a campaign trusts: the register, and the proxy in each of its modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.faults import history
from tests.faults.history import History
from tests.faults.proxy import Proxy
from tests.faults.register import Register

PATIENCE_S = 30

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def test_the_register_refuses_a_lower_fence_and_writes_down_both(tmp_path: Path) -> None:
    record = History(tmp_path / "register.jsonl")
    register = Register(record)
    fences = [("r1", 5), ("r1", 5), ("r1", 4), ("r2", 1), ("r1", 6)]
    answers = [register.write("p", resource, fence, "t") for resource, fence in fences]
    record.close()
    assert answers == [True, True, False, True, True]
    events = history.read_folder(tmp_path)
    assert [(event["resource"], event["fence"], event["accepted"]) for event in events] == [
        (resource, fence, answer) for (resource, fence), answer in zip(fences, answers, strict=True)
    ]


@asynccontextmanager
async def echo(heard: list[bytes]) -> AsyncIterator[int]:
    """The port of a server that says what it hears."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(100):
                heard.append(data)
                writer.write(data)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def says(streams: Streams, text: bytes) -> bytes:
    """What comes back; nothing from a connection that was dropped."""
    reader, writer = streams
    try:
        writer.write(text)
        return await asyncio.wait_for(reader.read(100), PATIENCE_S)
    except ConnectionError:
        return b""


async def passes(proxy: Proxy, streams: Streams, _: list[bytes]) -> None:
    proxy.order(delay=0.001)
    assert await says(streams, b"a") == b"a"


async def cuts(proxy: Proxy, streams: Streams, heard: list[bytes]) -> None:
    proxy.order(mode="cut")
    assert await says(streams, b"a") == b""
    anew = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await says(anew, b"b") == b""
    anew[1].close()
    assert heard == []


async def holds(proxy: Proxy, streams: Streams, heard: list[bytes]) -> None:
    proxy.order(mode="hold")
    answer = asyncio.ensure_future(says(streams, b"a"))
    _, waiting = await asyncio.wait({answer}, timeout=0.1)
    assert waiting
    assert heard == []
    proxy.order(mode="pass")
    assert await answer == b"a"


async def drops(proxy: Proxy, streams: Streams, heard: list[bytes]) -> None:
    proxy.order(mode="hold")
    answer = asyncio.ensure_future(says(streams, b"a"))
    await asyncio.wait({answer}, timeout=0.1)
    proxy.order(mode="drop")
    assert await answer == b""
    anew = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await says(anew, b"b") == b"b"
    anew[1].close()
    assert heard == [b"b"]


async def is_mute(proxy: Proxy, streams: Streams, heard: list[bytes]) -> None:
    proxy.order(mode="mute")
    assert await says(streams, b"a") == b""
    assert heard == [b"a"]


@pytest.mark.parametrize("story", [passes, cuts, holds, drops, is_mute])
def test_a_proxy(story: Callable[[Proxy, Streams, list[bytes]], Awaitable[None]]) -> None:
    async def run() -> None:
        heard: list[bytes] = []
        async with echo(heard) as port:
            proxy = Proxy()
            proxy.order(upstream=port)
            await proxy.listen()
            streams = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await says(streams, b"first") == b"first"
            heard.clear()
            await story(proxy, streams, heard)
            streams[1].close()
            await proxy.close()
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # connections on both sides end

    asyncio.run(run())
