"""Puts relet's functions into a server that can run them, so that lapsed leases come back even if nobody asks."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, TypeVar

from relet.client import RAW, Library
from relet.engines import ENGINES, Command, CommandFlow, Deployment, no_engine
from relet.flow import run
from relet.names import DEFAULT_NAMESPACE, check_namespace

__all__ = ["Deployment", "deploy", "undeploy"]

T = TypeVar("T")


def deploy(client: Any, namespace: str = DEFAULT_NAMESPACE) -> Deployment:
    """Register the server-side functions for the pools of ``namespace``. Repeat it as you like: it replaces itself.

    A server without an engine is no error: its leases come back too, with the next call that looks at their pool.

    Args:
        client: of redis-py or valkey-py, for database 0 of a master.

    Returns:
        Which engine answered, and what was done.

    Raises:
        ValueError: the client is in another database than 0; nothing was sent.
        ReletError: the engine could not run the functions.
    """
    return _run(client, deploy_flow(check_namespace(namespace)))


def undeploy(client: Any, namespace: str = DEFAULT_NAMESPACE) -> int:
    """Remove the server-side functions for ``namespace``. Its pools and leases stay as they are.

    Returns:
        How many registrations were removed; 0 if there were none, or there is no engine.

    Raises:
        ValueError: the client is in another database than 0; nothing was sent.
    """
    return _run(client, undeploy_flow(check_namespace(namespace)))


def deploy_flow(namespace: str) -> CommandFlow[Deployment]:
    """:func:`deploy` without I/O."""
    for engine in ENGINES:
        deployment = yield from engine.deploy(namespace)
        if deployment is not None:
            return deployment
    return (yield from no_engine(namespace))


def undeploy_flow(namespace: str) -> CommandFlow[int]:
    """:func:`undeploy` without I/O."""
    for engine in ENGINES:
        removed = yield from engine.undeploy(namespace)
        if removed is not None:
            return removed
    return 0


def check_database(client: Any) -> None:
    """Engines run their functions in database 0, whichever database the event came from."""
    pool = getattr(client, "connection_pool", None)  # a cluster's client has none, and its database is always 0
    database = pool.connection_kwargs.get("db") if pool is not None else 0
    if int(database or 0) != 0:
        raise ValueError(
            f"the server's functions work in database 0 alone, and this client is in database {database}: "
            f"pass a client of database 0, and keep the pools there"
        )


def _run(client: Any, flow: CommandFlow[T]) -> T:
    Library(client)
    if inspect.iscoroutinefunction(client.execute_command):
        raise TypeError(f"this takes a client for threads, as redis.Redis is, not {client!r}")
    check_database(client)
    return run(flow, partial(_send, client))


def _send(client: Any, command: Command) -> Any:
    """The reply, in bytes; of a cluster that of one master, always the same one."""
    if not hasattr(client, "get_primaries"):
        return client.execute_command(*command.words, **RAW)
    masters = sorted(client.get_primaries(), key=lambda node: str(node.name))
    replies = [
        client.execute_command(*command.words, target_nodes=[node], **RAW)
        for node in (masters if command.everywhere else masters[:1])
    ]
    first = replies[0]
    return next(iter(first.values())) if isinstance(first, dict) else first
