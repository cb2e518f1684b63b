"""The Redis client that a pool was handed, or made from a URL: redis-py 4.6 and later, or valkey-py."""

from __future__ import annotations

import importlib
from typing import Any

import redis

from relet.requests import Request


def errors_of(client: object) -> Any:
    """The exceptions module of the library that ``client`` comes from (redis-py and valkey-py have one each)."""
    for base in type(client).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("redis", "valkey"):
            return importlib.import_module(f"{library}.exceptions")
    raise TypeError(f"a pool wants a client of redis-py or valkey-py, not {client!r}")


def command(request: Request[Any], root: bytes, tracking: bytes, whole: bool) -> tuple[Any, ...]:
    """The request as a command: EVALSHA, or with ``whole`` EVAL for a server that does not know the script yet."""
    script = request.script
    verb, body = ("EVAL", script.text) if whole else ("EVALSHA", script.sha)
    return (verb, body, 1, root, tracking, *request.arguments)


RAW: dict[str, Any] = {"NEVER_DECODE": []}
"""redis-py's option for a reply in bytes, whatever ``decode_responses`` and ``encoding`` say."""


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
