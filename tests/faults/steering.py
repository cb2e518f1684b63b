"""Clients as a session has them: of a cluster, through a proxy, or of whichever server is the master now.

A client without a proxy looks up the master's port in the plan's steering file whenever it connects, and drops a
connection to a server that says it is a replica: what a client of Sentinel does, in a few lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.connection import Connection as AsyncConnection
from redis.backoff import NoBackoff
from redis.connection import Connection

from .plan import Plan


class Steered(Connection):
    """A connection to the present master."""

    def __init__(self, steering: Path, **options: Any) -> None:
        self._steering = steering
        super().__init__(**options)

    def _connect(self) -> Any:
        self.port = int(self._steering.read_text())
        return super()._connect()

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)
        except redis.ReadOnlyError as error:
            self.disconnect()
            raise redis.ConnectionError("the master is one no more") from error


class AsyncSteered(AsyncConnection):
    """The same for asyncio."""

    def __init__(self, steering: Path, **options: Any) -> None:
        self._steering = steering
        super().__init__(**options)

    async def _connect(self) -> None:
        self.port = int(self._steering.read_text())
        await super()._connect()

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except redis.ReadOnlyError as error:
            await self.disconnect(nowait=True)
            raise redis.ConnectionError("the master is one no more") from error


def make_client(plan: Plan, *, by_proxy: bool, is_async: bool, resends: bool) -> Any:
    """A client of redis-py; with `resends` it sends again what was not answered, as redis-py does by default.

    In a cluster redis-py always does.
    """
    library: Any = redis.asyncio if is_async else redis
    options: dict[str, Any] = {} if resends else {"socket_timeout": 1.0}
    if plan.is_cluster:
        remap = _through_proxies(plan) if by_proxy else None
        if remap:
            _ask_as_well(remap)
        port = (plan.proxies if by_proxy else plan.ports)[0]
        nodes = [library.cluster.ClusterNode("127.0.0.1", each) for each in plan.ports] if not by_proxy else None
        return library.RedisCluster(
            startup_nodes=nodes, host=None if nodes else "127.0.0.1", port=port, address_remap=remap, **options
        )
    if not resends:
        retry = redis.asyncio.retry.Retry if is_async else redis.retry.Retry
        options["retry"] = retry(NoBackoff(), 0)
    if by_proxy:
        return library.Redis(host="127.0.0.1", port=plan.proxies[0], **options)
    kind = AsyncSteered if is_async else Steered
    connections = library.ConnectionPool(connection_class=kind, steering=plan.steering, host="127.0.0.1", **options)
    return library.Redis.from_pool(connections)


def _through_proxies(plan: Plan) -> Callable[[tuple[str, int]], tuple[str, int]]:
    """From a node's address to that of the proxy before it; a proxy's own stays."""
    proxies = dict(zip(plan.ports, plan.proxies, strict=True))
    return lambda address: (address[0], proxies.get(address[1], address[1]))


def _ask_as_well(remap: Callable[[tuple[str, int]], tuple[str, int]]) -> None:
    """Has this process's redis-py remap the addresses of ASK too: 8.1 forgets it, and then knows no such node."""
    make = redis.exceptions.AskError.__init__

    def made(self: redis.exceptions.AskError, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self.node_addr = self.host, self.port = remap((self.host, self.port))

    redis.exceptions.AskError.__init__ = made  # type: ignore[method-assign]


def operator(plan: Plan, **options: Any) -> Any:
    """A client of the campaign's own, for threads: direct, and never resending beyond what redis-py does anyway."""
    return make_client(plan, by_proxy=False, is_async=False, resends=True, **options)


@contextlib.contextmanager
def operating(plan: Plan) -> Any:
    client = operator(plan)
    try:
        yield client
    finally:
        client.close()
