"""Small things that many tests need."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import redis

from relet import Lease, Pool
from tests.servers import wait_until

STRICT = os.environ.get("RELET_TESTS_STRICT") == "1"
_NUMBER = itertools.count(1)


def missing(reason: str) -> NoReturn:
    """Skips, or fails where nothing may be missing."""
    if STRICT:
        pytest.fail(f"RELET_TESTS_STRICT=1, and {reason}", pytrace=False)
    pytest.skip(reason)


def unique(what: str) -> str:
    """A name that no other test of this run has."""
    return f"{what}-{next(_NUMBER)}"


def eventually(condition: Callable[[], object], what: str = "the condition", *, timeout: float = 30.0) -> None:
    """Returns once ``condition()`` is true; TimeoutError after ``timeout`` seconds."""
    wait_until(condition, what, timeout=timeout)


def lapse(lease: Lease) -> None:
    """Waits until the lease has lapsed on the server, whose clock is this machine's, and its tracking key expired."""
    deadline_ms = lease._grant.deadline_ms
    eventually(lambda: int(time.time() * 1000) > deadline_ms, "the lease to lapse")


def keys_left(client: redis.Redis) -> list[str]:
    """Every key of every database, those with a time to live too."""
    left: list[str] = []
    information: dict[str, Any] = client.info("keyspace")  # type: ignore[assignment]
    for database in information:
        client.execute_command("SELECT", database.removeprefix("db"))
        # In the millisecond of its deadline a key is still there, though its lease has lapsed.
        left += [f"{database} {key!r}" for key in client.keys("*") if client.pttl(key) not in (-2, 0)]
    return left


class Recorder(redis.Redis):
    """A real client that keeps what it was told to send."""

    sent: list[tuple[Any, ...]]

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sent.append(args)
        return super().execute_command(*args, **options)

    @classmethod
    def of(cls, url: str) -> Recorder:
        client: Recorder = cls.from_url(url)
        client.sent = []
        return client


class Raw:
    """The keys of a pool as they lie on the server."""

    def __init__(self, client: redis.Redis, pool: Pool) -> None:
        self.client = client
        self.root = f"{pool.namespace}:pool:{{{pool.name}}}"
        self.tracking = f"{pool.namespace}:lease:{{{pool.name}}}:"

    def free(self) -> dict[str, float]:
        """Free resources by score, the next to go first."""
        return {name.decode(): score for name, score in self.client.zrange(f"{self.root}:free", 0, -1, withscores=True)}

    def leased(self) -> dict[str, float]:
        """Leased resources by deadline in ms, lapsed ones too."""
        found = self.client.zrange(f"{self.root}:leased", 0, -1, withscores=True)
        return {name.decode(): score for name, score in found}

    def token(self, resource: str) -> str | None:
        """What the tracking key holds."""
        value: Any = self.client.get(self.tracking + resource)
        return value.decode() if value else None

    def set_fence(self, fence: int) -> None:
        self.client.hset(self.root, "fence", str(fence))


def names(count: int, prefix: str = "r") -> list[str]:
    """``r0000``, ``r0001``, …: their order as text is that of their numbers."""
    return [f"{prefix}{number:04}" for number in range(count)]


def lease_all(pool: Pool, count: int, ttl: float = 60) -> list[Lease]:
    """The next ``count`` leases; fails where one is not granted."""
    leases = [pool.try_acquire(ttl) for _ in range(count)]
    assert all(leases), f"{leases.index(None)} of {count} granted"
    return [lease for lease in leases if lease]


def take(pool: Pool, ttl: float = 60, **options: Any) -> Lease:
    """One lease, which must be granted."""
    lease = pool.try_acquire(ttl, **options)
    assert lease is not None
    return lease
