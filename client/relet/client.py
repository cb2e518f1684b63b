"""The Redis client that a pool was handed, or made from a URL: redis-py 4.6 and later, or valkey-py."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
import redis.asyncio

from relet.errors import ReletError
from relet.line import Unreachable
from relet.requests import NO_WAIT, READ_ONLY
from relet.sentinel import SCHEME, master, master_async, sentinels_of

RAW: dict[str, Any] = {"NEVER_DECODE": []}
"""redis-py's option for a reply in bytes, whatever ``decode_responses`` and ``encoding`` say."""

LOCAL = "local:"
"""What the URL of the user's own server begins with (:mod:`relet.local`)."""

_SERVER_AWAY = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", NO_WAIT)
"""Errors by which a server says that it cannot answer now, but it or another will."""


class Library:
    """The library that a client comes from: redis-py and valkey-py have the same exceptions under their own names."""

    def __init__(self, client: object) -> None:
        for base in type(client).__mro__:
            name = base.__module__.partition(".")[0]
            if name in ("redis", "valkey"):
                break
        else:
            raise TypeError(f"a pool wants a client of redis-py or valkey-py, not {client!r}")
        self._name = name
        errors = importlib.import_module(f"{name}.exceptions")
        self.no_script: type[Exception] = errors.NoScriptError
        self.response_error: type[Exception] = errors.ResponseError
        self.timeout: type[Exception] = errors.TimeoutError
        self.connection_error: type[Exception] = errors.ConnectionError
        self.authentication: type[Exception] = errors.AuthenticationError
        self.moving: tuple[type[Exception], ...] = (
            errors.TryAgainError,
            errors.AskError,
            errors.ClusterError,
            errors.SlotNotCoveredError,
        )
        """What a cluster answers while a slot moves, or a node is replaced."""

    def is_plain(self, client: Any) -> bool:
        """Whether the client sends commands as its library does, over the library's own kinds of connections.

        False for one of a cluster or a sentinel, for a subclass that does it its own way, and for one that somebody
        watches (tracing replaces ``execute_command``).
        """
        where = f"{self._name}.asyncio" if is_async(client) else self._name
        original = getattr(importlib.import_module(where), "Valkey" if self._name == "valkey" else "Redis")
        for method in ("execute_command", "parse_response"):
            sends = getattr(type(client), method, None)
            if sends is not getattr(original, method) or not inspect.isfunction(sends) or method in vars(client):
                return False
        pool = client.connection_pool
        return all(kind.__module__ == f"{where}.connection" for kind in (type(pool), pool.connection_class))

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Turns what says "not now" into Unreachable; lets every other answer and error pass."""
        try:
            yield
        except (self.authentication, ReletError):  # PoolExhausted is a TimeoutError
            raise
        except self.timeout as error:
            raise Unreachable(error, stalled=True, silent=True) from error
        except (TimeoutError, asyncio.TimeoutError) as error:
            reason = self.timeout("the server did not answer in time")
            raise Unreachable(reason, stalled=True, silent=True) from error
        except self.moving as error:
            raise Unreachable(error, stalled=True) from error
        except (self.connection_error, OSError) as error:
            raise Unreachable(error, stalled=False) from error
        except self.response_error as error:
            text = str(error)
            if text.startswith(_SERVER_AWAY) or READ_ONLY in text or type(error).__name__ == "MasterDownError":
                raise Unreachable(error, stalled=False) from error
            raise


def plain_options(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A client's options for a connection of the class ``kind``, to make one outside of its connection pool."""
    plain = dict(options)
    if _takes(kind, "protocol"):
        plain["protocol"] = 2
    if _takes(kind, "maint_notifications_config"):  # news for the whole pool, of redis-py 7 and later
        plain.pop("maint_notifications_pool_handler", None)
        plain.pop("maint_notifications_config", None)
    return plain


def _takes(kind: Any, option: str) -> bool:
    return any(
        option in inspect.signature(base.__init__).parameters for base in kind.__mro__ if "__init__" in vars(base)
    )


def is_async(client: object) -> bool:
    """Whether the client is one of asyncio; False too for what is no client at all."""
    return any(base.__module__.startswith(("redis.asyncio", "valkey.asyncio")) for base in type(client).__mro__)


async def connect_async(url: str, **options: Any) -> Any:
    """Like :func:`connect`, for asyncio."""
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {url!r}")
    if url.startswith(SCHEME):
        return await master_async(url, options)
    if url.startswith(LOCAL):
        from relet import local

        return await local.connect_async(url, options)
    _check_database(url)
    client = redis.asyncio.Redis.from_url(url, **options)
    try:
        info: Any = await client.info("cluster")
        if not info.get("cluster_enabled"):
            return client
    except BaseException:
        await close_async(client)
        raise
    await close_async(client)
    return redis.asyncio.RedisCluster.from_url(url, **options)


async def close_async(client: Any) -> None:
    """Closes a client, and those by which it finds its master."""
    sentinels = sentinels_of(client)
    for one in (client, *sentinels):
        await (one.aclose if hasattr(one, "aclose") else one.close)()
    if sentinels or _is_local(client):  # else they count as somebody else's (redis-py before 5: the master's)
        await client.connection_pool.disconnect()


def close(client: Any) -> None:
    """Like :func:`close_async`, for threads."""
    sentinels = sentinels_of(client)
    for one in (client, *sentinels):
        one.close()
    if sentinels or _is_local(client):
        client.connection_pool.disconnect()


def connect(url: str, **options: Any) -> redis.Redis:
    """A client for ``url`` (redis://, rediss://, unix://, sentinel://, local:); of a cluster if the server is of one.

    Raises:
        ValueError: it is no URL of a server. The text has nothing of it that may be a password.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {url!r}")
    if url.startswith(SCHEME):
        return master(url, options)
    if url.startswith(LOCAL):
        from relet import local

        return local.connect(url, options)
    _check_database(url)
    client: redis.Redis = redis.Redis.from_url(url, **options)
    try:
        info: Any = client.info("cluster")
        if not info.get("cluster_enabled"):
            return client
    except BaseException:
        client.close()
        raise
    client.close()
    return redis.RedisCluster.from_url(url, **options)  # type: ignore[return-value]


def _is_local(client: Any) -> bool:
    """Its connections are closed along with it: that server ends when it has none."""
    kind = getattr(getattr(client, "connection_pool", None), "connection_class", None)
    return getattr(kind, "__module__", "") == "relet.local.connections"


def _check_database(url: str) -> None:
    """redis-py takes the database 0 where the URL names one that is no number."""
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss") and not re.fullmatch(r"/*\d*/*", unquote(parts.path)):
        raise ValueError(
            f"the database in a {parts.scheme}:// URL is a number, as in {parts.scheme}://HOST/0. (Are the special "
            f"characters of the password percent-encoded?)"
        )
