"""Where a pool's requests go: the server, or the node of a cluster, that has its keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relet.client import Library, plain_options
from relet.line import ANSWER_S, CONNECT_S, Outage, Unreachable
from relet.names import Keys
from relet.requests import Request
from relet.scripts import LOOKING, proving

MOVING_S = 30.0
"""Seconds for which a call is patient with a cluster whose slots move or whose nodes are replaced."""
MOVING_PAUSE_S = 0.05
"""Seconds between two tries meanwhile."""


class Backend:
    """The client that a pool was handed, and what it says of its server."""

    def __init__(self, client: Any, keys: Keys) -> None:
        self.client = client
        self.library = Library(client)
        self.is_cluster = hasattr(client, "nodes_manager")
        self.has_sentinel = hasattr(getattr(client, "connection_pool", None), "sentinel_manager")
        self._root = keys.root
        # While a slot moves, a script could meet some of a pool's keys and miss the others. With a second key, which
        # never exists, the server refuses the whole script (TRYAGAIN, ASK) before it does anything.
        self._keys: tuple[Any, ...] = (2, keys.root, keys.root + b":") if self.is_cluster else (1, keys.root)
        self._tracking = keys.tracking
        self._was_there = False
        self._outage = Outage()
        self.proven = False
        """The user has every right: a script that proves it has succeeded, and nothing has failed since then."""

    def command(self, request: Request[Any], whole: bool) -> tuple[Any, ...]:
        """The request as EVALSHA, or with ``whole`` as EVAL for a server that does not know the script yet."""
        script = request.script if self.proven else proving(request.script.verb)
        verb, body = ("EVAL", script.text_bytes) if whole else ("EVALSHA", script.sha_bytes)
        return (verb, body, *self._keys, self._tracking, *request.arguments)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Raises Unreachable if the server cannot be asked; at once if somebody has just found that it is silent."""
        self._outage.check()
        try:
            with self.library.unreachable():
                yield
        except Unreachable as lost:
            if lost.silent:
                self._outage.begins(lost.reason)
            raise
        self._outage.ends()

    @property
    def may_return(self) -> bool:
        """Another server may soon be the master: whoever waits goes on asking, if there ever was one."""
        return self.has_sentinel and self._was_there

    def succeeded(self, request: Request[Any]) -> None:
        """Says that the server has run the request, while ``proven`` is not set."""
        self._was_there = True
        self.proven = request.script.verb not in LOOKING

    def failed(self) -> None:
        """Says that a request failed: the next may reach a server, or meet rights, that are not the same."""
        self.proven = False

    def torn(self, error: Exception) -> Exception:
        """What an error is that no library means to raise: in a cluster, a lost connection.

        Where one thread or task finds a node away, redis-py (8.1) closes connections that others are just opening.
        Those fail with "'NoneType' object has no attribute 'writelines'", or "I/O operation on closed file".
        """
        return self.library.connection_error("the connection was closed under its user") if self.is_cluster else error

    def node(self) -> object:
        """Which node of the cluster has the pool, as far as the client knows; None without a cluster."""
        return self._node().name if self.is_cluster else None

    def connection(self, timeout: float | None = ANSWER_S) -> Any:
        """A connection like those of the client, but one that gives up in good time: ``timeout`` seconds an answer."""
        kind, like = self._recipe()
        patience: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": min(like.get("socket_connect_timeout") or CONNECT_S, CONNECT_S),
            "health_check_interval": 0,
            "retry_on_timeout": False,
            "retry_on_error": [],
            "retry": None,
        }
        return kind(**{**plain_options(kind, like), **patience})

    def connection_pools(self) -> list[Any]:
        """The connection pools of a client for threads: one, or one a node of a cluster."""
        if not self.is_cluster:
            return [self.client.connection_pool]
        clients = [node.redis_connection for node in self.client.get_nodes()]
        return [client.connection_pool for client in clients if client is not None]

    def refresh(self) -> None:
        """Lets a cluster's client for threads look anew at which node has what."""
        if self.is_cluster:
            with self.library.unreachable():
                self.client.nodes_manager.initialize()

    def _recipe(self) -> tuple[Any, dict[str, Any]]:
        """The class and the arguments of the client's connections to the pool's server."""
        if not self.is_cluster:
            pool = self.client.connection_pool
            return pool.connection_class, pool.connection_kwargs
        node = self._node()
        if hasattr(node, "connection_kwargs"):  # asyncio
            return node.connection_class, node.connection_kwargs
        pool = self.client.get_redis_connection(node).connection_pool
        return pool.connection_class, pool.connection_kwargs

    def _node(self) -> Any:
        return self.client.nodes_manager.get_node_from_slot(self.client.keyslot(self._root))
