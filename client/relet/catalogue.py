"""Which pools a server holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relet.client import RAW, errors_of
from relet.names import DEFAULT_NAMESPACE, check_namespace, check_pool

PAGE = 1000
"""Keys the server looks at per round trip: well under a millisecond of its time."""


def pools(client: Any, namespace: str = DEFAULT_NAMESPACE) -> Iterator[str]:
    """The names of the pools in a namespace, each once, in no particular order.

    Looks through all keys of the server (of every master of a cluster) with SCAN, which blocks nobody but takes its
    time where there are many. A pool that is made or deleted meanwhile may be missed or still be named.

    Args:
        client: any client of redis-py (4.6 and later) or valkey-py, also of a cluster, in bytes or decoding.
    """
    errors_of(client)
    return _pools(client, f"{check_namespace(namespace)}:pool:{{")


def _pools(client: Any, prefix: str) -> Iterator[str]:
    seen: set[str] = set()
    # No character that a namespace may have means anything in a glob, and neither do braces.
    for key in _hashes(client, prefix + "*}"):
        name = _name(key, prefix.encode())
        if name is not None and name not in seen:  # SCAN may return a key twice
            seen.add(name)
            yield name


def _name(key: bytes, prefix: bytes) -> str | None:
    try:
        return check_pool(key[len(prefix) : -1].decode())
    except ValueError:  # somebody else's key: no pool can have that name
        return None


def _hashes(client: Any, pattern: str) -> Iterator[bytes]:
    """Keys of type hash that match, those of a cluster from every master."""
    nodes = [{"target_nodes": node} for node in client.get_primaries()] if hasattr(client, "get_primaries") else [{}]
    for node in nodes:
        cursor = 0
        while True:
            cursors, keys = client.execute_command(
                "SCAN", cursor, "MATCH", pattern, "COUNT", PAGE, "TYPE", "hash", **RAW, **node
            )
            yield from keys
            (cursor,) = map(int, cursors.values() if isinstance(cursors, dict) else [cursors])
            if not cursor:
                break
