"""How the tests of the listener see what it does: with a plain client, as relet's own calls would take lapsed leases
back themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import redis

from relet import Pool, listening
from tests.helpers import Raw, eventually, take
from tests.servers import Server

SETTING = "notify-keyspace-events"

Start = Callable[..., Server]
"""Starts a server, which a test may break or restart, with these settings."""


def lapsed(pool: Pool, client: Any) -> int:
    return int(client.hget(Raw(client, pool).root, "lapsed") or 0)


def free(pool: Pool, client: Any) -> int:
    return int(client.zcard(f"{Raw(client, pool).root}:free"))


def all_free(pool: Pool, client: Any, count: int) -> None:
    eventually(lambda: free(pool, client) == count, f"{count} free in {pool.name}")


def connections(client: redis.Redis) -> int:
    """Those of this server's clients but for the asking one."""
    return len(client.client_list()) - 1


def is_listening(client: redis.Redis) -> None:
    """Waits until somebody listens for expired keys."""
    name = listening.channel(0)
    eventually(lambda: dict(client.pubsub_numsub(name))[name.encode()] > 0, "a subscriber")


def is_settled(client: redis.Redis, pool: Pool) -> None:
    """Waits until the listener has come upon the pool, by a lease that it takes back."""
    before = lapsed(pool, client)
    with closing(Pool(client, pool.name)) as own:
        take(own, ttl=0.05)
    eventually(lambda: lapsed(pool, client) == before + 1, "the listener to take a lease back")
