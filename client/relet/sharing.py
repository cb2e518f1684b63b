"""How tasks ask together: requests of one moment share a connection of the client's, and one write.

A client takes a connection out of its pool for each command, looks whether it is sound, and puts it back when the reply
is read. Here that is done once for as long as there is something to ask: what comes while replies are read goes out
together after them. What does not get through at once goes to the client, with the client's own way of retrying: a
request may be sent twice, as its token makes a resend harmless.

A task that is cancelled leaves its request where it is. The reply is read all the same, so none is taken for another's.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections import deque
from typing import Any

from relet.client import Library
from relet.lane import Aside, most_beside

BATCH = 128
"""Requests in one write, at most."""


class _Entry:
    """One request: ``reply`` is awaited by who sent it, ``late`` by who was cancelled and stays until it is settled."""

    __slots__ = ("carrier", "command", "is_settled", "late", "reply")

    def __init__(self, command: tuple[Any, ...], reply: asyncio.Future[Any]) -> None:
        self.command = command
        self.reply = reply
        self.late: asyncio.Future[None] | None = None
        self.carrier: asyncio.Task[None] | None = None
        self.is_settled = False

    def settle(self, reply: Any = None, error: BaseException | None = None) -> None:
        self.is_settled = True
        if not self.reply.done():
            if error is None:
                self.reply.set_result(reply)
            else:
                self.reply.set_exception(error)
        if self.late is not None and not self.late.done():
            self.late.set_result(None)


class Sharing:
    """The requests of one pool's tasks, on their way over at most ``limit`` connections of the client's."""

    def __init__(self, library: Library, connections: Any, limit: int) -> None:
        self._library = library
        self._connections = connections
        self._limit = limit
        self._retry: Any = None
        # Before redis-py 5.3 it wants to be told the command; since then it warns of it.
        wanted = inspect.signature(connections.get_connection).parameters.get("command_name")
        self._get_arguments = ("EVALSHA",) if wanted and wanted.default is wanted.empty else ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset(None)

    def _reset(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._queue: deque[_Entry] = deque()
        self._carriers: set[asyncio.Task[None]] = set()
        self._attentive: set[asyncio.Task[None]] = set()  # those that look at the queue before they wait for replies

    async def exchange(self, command: tuple[Any, ...], seconds: float | None = None) -> Any:
        """The reply to a command, in bytes; what the server answered is raised.

        Who is cancelled waits until the reply is there, since what it says may be to be undone; a second cancellation
        does not. Raises Aside, or asyncio.TimeoutError if there is no reply within so many ``seconds``.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the last one's connections and tasks went with it
            self._reset(loop)
        entry = _Entry(command, loop.create_future())
        self._queue.append(entry)
        self._see_to_it()
        overdue = None if seconds is None else loop.call_later(seconds, self._give_up, entry)
        try:
            return await entry.reply
        except self._library.timeout as error:
            await self._once_more(error)
            raise Aside from error
        except asyncio.CancelledError:
            if not entry.reply.cancelled():
                entry.reply.exception()  # came in the same moment; now it has been looked at
            elif not entry.is_settled:
                entry.late = loop.create_future()
                await entry.late
            raise
        finally:
            if overdue is not None:
                overdue.cancel()

    def _give_up(self, entry: _Entry) -> None:
        """The server is silent: what was sent loses its connection, and what was not sent never is."""
        if entry.carrier is not None:
            entry.carrier.cancel()
        else:
            self._queue.remove(entry)
        entry.settle(error=asyncio.TimeoutError())

    def _see_to_it(self) -> None:
        if self._queue and not self._attentive and len(self._carriers) < self._limit and self._loop is not None:
            carrier = self._loop.create_task(self._carry())
            self._carriers.add(carrier)
            self._attentive.add(carrier)

    async def _carry(self) -> None:
        """Takes a connection, and carries over it what there is, until there is no more."""
        carrier: Any = asyncio.current_task()
        sent: deque[_Entry] = deque()
        try:
            connection = await self._connections.get_connection(*self._get_arguments)
            self._retry = connection.retry
            try:
                while await self._is_anything_left():
                    self._attentive.discard(carrier)
                    sent.extend(self._queue.popleft() for _ in range(min(BATCH, len(self._queue))))
                    await self._converse(connection, sent, carrier)
                    self._attentive.add(carrier)
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            finally:
                self._attentive.discard(carrier)
                await self._connections.release(connection)
        except BaseException as error:
            is_lost = bool(sent) and isinstance(error, Exception)  # the connection: what was not sent finds another
            for entries in (sent,) if is_lost else (sent, self._queue):
                _send_aside(entries, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._attentive.discard(carrier)
            self._carriers.discard(carrier)
            self._see_to_it()

    async def _is_anything_left(self) -> bool:
        """Looks again after those who just got their reply have had their turn: most have another question."""
        if not self._queue:
            await asyncio.sleep(0)
        return bool(self._queue)

    async def _converse(self, connection: Any, entries: deque[_Entry], carrier: asyncio.Task[None]) -> None:
        """Sends all at once, and settles each as its reply comes. Leaves those that an error keeps from it."""
        packed: list[bytes] = []
        for entry in entries:
            entry.carrier = carrier
            packed += connection.pack_command(*entry.command)
        try:
            await connection.send_packed_command(packed)
            while entries:
                try:
                    reply = await connection.read_response(disable_decoding=True)
                except self._library.response_error as error:
                    entries.popleft().settle(error=error)
                else:
                    entries.popleft().settle(reply)
        except self._library.timeout as error:
            for entry in entries:
                entry.settle(error=copy.copy(error))
            raise

    async def _once_more(self, error: Exception) -> None:
        """Raises the error, unless the client would try again after it."""
        failed = [error]

        async def again() -> None:
            if failed:
                raise failed.pop()

        async def nothing(_: Exception) -> None: ...

        await self._retry.call_with_retry(again, nothing)


def _send_aside(entries: deque[_Entry], error: BaseException) -> None:
    while entries:
        aside = Aside()
        aside.__cause__ = error
        entries.popleft().settle(error=aside)


def sharing_of(client: Any, library: Library) -> Sharing | None:
    """How tasks share the connections of a client; None if the client has ways of its own that this would pass by."""
    pool = getattr(client, "connection_pool", None)
    if pool is None or not library.is_plain(client) or client.single_connection_client:
        return None
    limit = most_beside(pool)
    return Sharing(library, pool, limit) if limit else None
