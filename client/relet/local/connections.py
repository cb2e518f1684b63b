"""Connections of redis-py to the user's own server, which start it where it does not run."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio.connection
import redis.connection

from relet.local.home import Home

TRIES = 3
"""A server may end between its start and the connection; not again and again."""
_NOBODY_THERE = (FileNotFoundError, ConnectionRefusedError)


class LocalConnection(redis.connection.UnixDomainSocketConnection):
    """For threads."""

    def __init__(self, home: Home, **options: Any) -> None:
        self._home = home
        super().__init__(**{**options, "path": str(home.state)})  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        for _ in range(TRIES):
            self.path = self._home.address()
            try:
                return super()._connect()  # type: ignore[no-untyped-call]
            except _NOBODY_THERE:
                self._home.start()
        self.path = self._home.address()
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncLocalConnection(redis.asyncio.connection.UnixDomainSocketConnection):
    """For asyncio."""

    def __init__(self, home: Home, **options: Any) -> None:
        self._home = home
        super().__init__(**{**options, "path": str(home.state)})

    async def _connect(self) -> None:
        for _ in range(TRIES):
            self.path = self._home.address()
            try:
                return await super()._connect()  # type: ignore[no-any-return, no-untyped-call]
            except _NOBODY_THERE:
                await asyncio.to_thread(self._home.start)
        self.path = self._home.address()
        return await super()._connect()  # type: ignore[no-any-return, no-untyped-call]
