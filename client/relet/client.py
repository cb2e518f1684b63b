"""The Redis client that a pool was handed, or made from a URL: redis-py 4.6 and later, or valkey-py."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio

from relet.line import ANSWER_S, CONNECT_S, Unreachable
from relet.requests import Request

RAW: dict[str, Any] = {"NEVER_DECODE": []}
"""redis-py's option for a reply in bytes, whatever ``decode_responses`` and ``encoding`` say."""

_SERVER_AWAY = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "UNBLOCKED")
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
        errors = importlib.import_module(f"{name}.exceptions")
        self.no_script: type[Exception] = errors.NoScriptError
        self.response_error: type[Exception] = errors.ResponseError
        self.timeout: type[Exception] = errors.TimeoutError
        self.connection_error: type[Exception] = errors.ConnectionError
        self.authentication: type[Exception] = errors.AuthenticationError

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Turns what says "not now" into Unreachable; lets every other answer and error pass."""
        try:
            yield
        except self.authentication:
            raise
        except (self.timeout, TimeoutError) as error:
            raise Unreachable(error, stalled=True) from error
        except (self.connection_error, OSError) as error:
            raise Unreachable(error, stalled=False) from error
        except self.response_error as error:
            if str(error).startswith(_SERVER_AWAY) or type(error).__name__ in ("ReadOnlyError", "MasterDownError"):
                raise Unreachable(error, stalled=False) from error
            raise


def command(request: Request[Any], root: bytes, tracking: bytes, whole: bool) -> tuple[Any, ...]:
    """The request as a command: EVALSHA, or with ``whole`` EVAL for a server that does not know the script yet."""
    script = request.script
    verb, body = ("EVAL", script.text_bytes) if whole else ("EVALSHA", script.sha_bytes)
    return (verb, body, 1, root, tracking, *request.arguments)


def own_connection(client: Any, key: bytes, timeout: float | None = ANSWER_S) -> Callable[[], Any]:
    """Makes connections like those of ``client`` to the server that has ``key``, but which give up in good time."""

    def connect() -> Any:
        kind, like = _recipe(client, key)
        options = {
            **like,
            "socket_timeout": timeout,
            "socket_connect_timeout": min(like.get("socket_connect_timeout") or CONNECT_S, CONNECT_S),
            "health_check_interval": 0,
            "retry_on_timeout": False,
            "retry_on_error": [],
            "retry": None,
        }
        if _takes(kind, "protocol"):
            options["protocol"] = 2
        if _takes(kind, "maint_notifications_config"):
            options.pop("maint_notifications_pool_handler", None)
            options.pop("maint_notifications_config", None)
        return kind(**options)

    return connect


def _recipe(client: Any, key: bytes) -> tuple[Any, dict[str, Any]]:
    """The class and the arguments of the client's connections; in a cluster, of those to the node that has ``key``."""
    if hasattr(client, "connection_pool"):
        pool = client.connection_pool
        return pool.connection_class, pool.connection_kwargs
    node = client.nodes_manager.get_node_from_slot(client.keyslot(key))
    if hasattr(node, "connection_kwargs"):  # asyncio
        return node.connection_class, node.connection_kwargs
    pool = client.get_redis_connection(node).connection_pool
    return pool.connection_class, pool.connection_kwargs


def _takes(kind: Any, option: str) -> bool:
    return any(
        option in inspect.signature(base.__init__).parameters for base in kind.__mro__ if "__init__" in vars(base)
    )


async def connect_async(url: str, **options: Any) -> Any:
    """Like :func:`connect`, for asyncio."""
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {url!r}")
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
    await (client.aclose if hasattr(client, "aclose") else client.close)()


def connect(url: str, **options: Any) -> redis.Redis:
    """A client for ``url`` (redis://, rediss://, unix://), of a cluster where the server is part of one."""
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {url!r}")
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
