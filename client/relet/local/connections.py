"""Connections of redis-py to the user's own server, which start it where it does not run."""

from __future__ import annotations

import asyncio
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import redis.asyncio.connection
import redis.connection

from relet.local.home import Home

_NOBODY_THERE = (FileNotFoundError, ConnectionRefusedError)


class LocalConnection(redis.connection.UnixDomainSocketConnection):
    """For threads."""

    def __init__(self, home: Home, **options: Any) -> None:
        self._home = home
        super().__init__(**{**options, "path": str(home.state)})  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        try:
            return self._connected()
        except _NOBODY_THERE:
            self._home.start()
        return self._connected()

    def _connected(self) -> socket:
        self.path = self._home.address()
        one = socket(AF_UNIX, SOCK_STREAM)
        try:
            one.settimeout(getattr(self, "socket_connect_timeout", None))  # redis-py before 5 has none here
            one.connect(self.path)
        except BaseException:
            one.close()
            raise
        one.settimeout(self.socket_timeout)
        return one


class AsyncLocalConnection(redis.asyncio.connection.UnixDomainSocketConnection):
    """For asyncio."""

    def __init__(self, home: Home, **options: Any) -> None:
        self._home = home
        super().__init__(**{**options, "path": str(home.state)})

    async def _connect(self) -> None:
        self.path = self._home.address()
        try:
            return await super()._connect()  # type: ignore[no-any-return, no-untyped-call]
        except _NOBODY_THERE:
            await asyncio.to_thread(self._home.start)
        self.path = self._home.address()
        return await super()._connect()  # type: ignore[no-any-return, no-untyped-call]
