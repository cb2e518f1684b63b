"""Puts relet's functions into a server that can run them, so that lapsed leases come back even if nobody asks."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, TypeVar

from relet.client import RAW, Library
from relet.engines import (
    ENGINES,
    Command,
    CommandFlow,
    Deployed,
    Deployment,
    EngineName,
    constant,
    no_engine,
    version_and_hash,
)
from relet.errors import ReletError
from relet.flow import run
from relet.names import DEFAULT_NAMESPACE, check_namespace

__all__ = ["Deployed", "Deployment", "deploy", "deployed", "planned", "survey", "undeploy"]

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
        ReletError: the engine could not run the functions, or a shard of a cluster has not taken them.
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


def deployed(client: Any, namespace: str = DEFAULT_NAMESPACE) -> Deployed | None:
    """What runs in the server now for the pools of ``namespace``; None if nothing does. Changes nothing.

    Raises:
        ValueError: the client is in another database than 0; nothing was sent.
    """
    return survey(client, namespace)[1]


def survey(client: Any, namespace: str = DEFAULT_NAMESPACE) -> tuple[EngineName, Deployed | None]:
    """:func:`deployed`, and which engine the server has."""
    return _run(client, survey_flow(check_namespace(namespace)))


def planned(client: Any, namespace: str = DEFAULT_NAMESPACE) -> tuple[EngineName, list[Command]]:
    """The server's engine, and the commands by which :func:`deploy` would change it. Sends only those that look."""
    commands: list[Command] = []
    deployment = _run(client, _deploy_flow(check_namespace(namespace)), commands)
    return deployment.engine, commands


def deploy_flow(namespace: str) -> CommandFlow[Deployment]:
    """:func:`deploy` without I/O."""
    deployment = yield from _deploy_flow(namespace)
    _, now = yield from survey_flow(namespace)
    if now is not None and now.missing:
        raise ReletError(
            f"{', '.join(now.missing)} did not take the functions for namespace {namespace!r}, the other shards did: "
            f"deploy again once the cluster is well"
        )
    return deployment


def _deploy_flow(namespace: str) -> CommandFlow[Deployment]:
    for engine in ENGINES:
        deployment = yield from engine.deploy(namespace)
        if deployment is not None:
            return deployment
    return no_engine(namespace)


def undeploy_flow(namespace: str) -> CommandFlow[int]:
    """:func:`undeploy` without I/O."""
    for engine in ENGINES:
        removed = yield from engine.undeploy(namespace)
        if removed is not None:
            return removed
    return 0


def survey_flow(namespace: str) -> CommandFlow[tuple[EngineName, Deployed | None]]:
    """:func:`survey` without I/O."""
    for engine in ENGINES:
        found = yield from engine.look(namespace)
        if found is None:
            continue
        running = [version_and_hash(description) for description in found.values() if description]
        if not running:
            return engine.name, None
        text = engine.source(namespace)
        wanted = (constant(text, "VERSION"), constant(text, "HASH"))
        missing = tuple(shard for shard, description in found.items() if not description)
        # Of what differs from shard to shard, tell the one that is not as it should be.
        version, digest = next((each for each in running if each != wanted), wanted)
        current = (version, digest) == wanted and not missing
        return engine.name, Deployed(engine.name, namespace, version, digest, current, missing)
    return "none", None


def check_database(client: Any) -> None:
    """Engines run their functions in database 0, whichever database the event came from."""
    pool = getattr(client, "connection_pool", None)  # a cluster's client has none, and its database is always 0
    database = pool.connection_kwargs.get("db") if pool is not None else 0
    if int(database or 0) != 0:
        raise ValueError(
            f"the server's functions work in database 0 alone, and this client is in database {database}: "
            f"pass a client of database 0, and keep the pools there"
        )


def _run(client: Any, flow: CommandFlow[T], held_back: list[Command] | None = None) -> T:
    """Runs the flow; with ``held_back`` a dry run, which collects there what would change anything."""
    library = Library(client)
    if inspect.iscoroutinefunction(client.execute_command):
        raise TypeError(f"this takes a client for threads, as redis.Redis is, not {client!r}")
    check_database(client)
    return run(flow, partial(_send, client, library, held_back))


def _send(client: Any, library: Library, held_back: list[Command] | None, command: Command) -> Any:
    """The reply, in bytes; of a cluster that of one master, always the same one, unless all are asked."""
    if command.changes and held_back is not None:
        held_back.append(command)
        return b"OK"
    if not hasattr(client, "get_primaries"):
        reply = client.execute_command(*command.words, **RAW)
        return {"": reply} if command.everywhere else reply
    masters = sorted(client.get_primaries(), key=lambda node: str(node.name))
    if not command.everywhere:
        named = [node for node in masters if node.name == command.shard]
        return _ask(client, library, (named or masters)[0], command)
    return {str(node.name): _ask(client, library, node, command) for node in masters}


def _ask(client: Any, library: Library, node: Any, command: Command) -> Any:
    """The reply of one master; an error of its own tells which."""
    try:
        reply = client.execute_command(*command.words, target_nodes=[node], **RAW)
    except library.response_error as error:
        raise type(error)(f"{error} (from shard {node.name})") from error
    return next(iter(reply.values())) if isinstance(reply, dict) and node.name in reply else reply
