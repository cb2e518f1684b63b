"""Connections that are kept from one request to the next, beside those of the client.

A client takes a connection out of its pool for each command, looks whether it is sound, keeps its counts, and puts it
back: that costs more than a third of its time. A lane is for single requests that nothing is wrong with. It is made as
the client makes its own connections, and what does not go through it at once goes to the client, with the client's own
way of retrying: a request may be sent twice, as its token makes a resend harmless.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import Any

from relet.client import Library, plain_options

CONNECTIONS = 6
"""At most so many a client, and no more than a sixteenth of those that it may make itself."""

_lanes: weakref.WeakKeyDictionary[Any, Lane] = weakref.WeakKeyDictionary()


class Aside(Exception):
    """The request is one for the client: the lane is full, or its connection was lost."""


class Lane:
    """The kept connections to one server, of all pools that were handed one client."""

    def __init__(self, library: Library, kind: Any, options: dict[str, Any], limit: int) -> None:
        self._library = library
        self._kind = kind
        self._retry = kind(**options).retry
        self._options = {**options, "retry": None, "retry_on_timeout": False, "retry_on_error": []}
        self._limit = limit
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[Any] = deque()
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()

    def exchange(self, *command: Any) -> Any:
        """The reply to a command, in bytes. Raises Aside, or what the server answered.

        A connection is put back only when its reply has been read: whatever strikes before, even in here, lets go of
        it, and with it of the reply.
        """
        if self._pid != os.getpid():  # a fork's child leaves its parent's connections alone
            self._reset()
        connection = self._take()
        try:
            connection.send_command(*command)
            reply = connection.read_response(disable_decoding=True)
        except self._library.response_error:
            self._idle.append(connection)
            raise
        except self._library.timeout as error:
            connection.disconnect()
            self._once_more(error)
            raise Aside from error
        except (self._library.connection_error, OSError) as error:
            connection.disconnect()
            raise Aside from error
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return reply

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            if len(self._made) >= self._limit:
                raise Aside from None
        connection = self._kind(**self._options)
        try:
            connection.connect()
        except (self._library.connection_error, self._library.timeout, OSError) as error:
            raise Aside from error
        self._made.add(connection)
        return connection

    def _once_more(self, error: Exception) -> None:
        """Raises the error, unless the client would try again after it."""
        failed = [error]

        def again() -> None:
            if failed:
                raise failed.pop()

        self._retry.call_with_retry(again, lambda _: None)

    def close(self) -> None:
        """Closes the idle connections; the next request makes a new one."""
        if self._pid != os.getpid():
            return
        while self._idle:
            self._idle.pop().disconnect()


def lane_of(client: Any, library: Library) -> Lane | None:
    """The lane beside a client for threads; None if the client has ways of its own that a lane would pass by."""
    pool = getattr(client, "connection_pool", None)
    if pool is None or not library.is_plain(client) or getattr(client, "connection", None) is not None:
        return None
    limit = most_beside(pool)
    if not limit or pool.connection_kwargs.get("credential_provider") is not None:
        return None
    lane = _lanes.get(pool)
    if lane is None:
        kind = pool.connection_class
        lane = _lanes[pool] = Lane(library, kind, plain_options(kind, pool.connection_kwargs), limit)
    return lane


def most_beside(pool: Any) -> int:
    """How many connections may be kept busy beside those that the client uses itself: few, where it may make few."""
    return int(min(CONNECTIONS, getattr(pool, "max_connections", 0) // 16))
