"""How replicas confirm a lease: the drivers of :class:`relet.replicas.Confirm`, on a connection for it alone.

WAIT counts what its own connection has written, and stops whatever else that connection is asked meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Any

from relet.backend import Backend
from relet.line import ANSWER_S, CONNECT_S
from relet.replicas import Confirm


def confirm(backend: Backend, effect: Confirm) -> tuple[list[int | None], int]:
    """Performs the effect in a thread."""
    renewal, replicas, wait_ms = effect
    with backend.asking():
        connection = backend.connection(timeout=wait_ms / 1000 + ANSWER_S)
        try:
            connection.connect()
            try:
                connection.send_command(*backend.command(renewal, whole=False))
                reply = connection.read_response(disable_decoding=True)
            except backend.library.no_script:
                connection.send_command(*backend.command(renewal, whole=True))
                reply = connection.read_response(disable_decoding=True)
            connection.send_command("WAIT", replicas, wait_ms)
            return renewal.decode(reply), int(connection.read_response())
        finally:
            connection.disconnect()


async def confirm_async(backend: Backend, effect: Confirm) -> tuple[list[int | None], int]:
    """Performs the effect in a task."""
    renewal, replicas, wait_ms = effect

    async def exchange(connection: Any) -> tuple[list[int | None], int]:
        await connection.connect()
        try:
            await connection.send_command(*backend.command(renewal, whole=False))
            reply = await connection.read_response(disable_decoding=True)
        except backend.library.no_script:
            await connection.send_command(*backend.command(renewal, whole=True))
            reply = await connection.read_response(disable_decoding=True)
        await connection.send_command("WAIT", replicas, wait_ms)
        return renewal.decode(reply), int(await connection.read_response())

    with backend.asking():
        connection = backend.connection(timeout=None)
        try:
            return await asyncio.wait_for(exchange(connection), CONNECT_S + wait_ms / 1000 + ANSWER_S)
        finally:
            await connection.disconnect(nowait=True)
