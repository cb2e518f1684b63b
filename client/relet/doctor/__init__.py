"""What may be wrong with a server and the pools on it, and how a pool is mended: what ``relet doctor`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from relet.client import Library
from relet.doctor import pool as pools
from relet.doctor import server
from relet.doctor.findings import Finding, error, ok, warn
from relet.errors import ReletError
from relet.names import DEFAULT_NAMESPACE, check_namespace, check_order, check_pool
from relet.pool import Pool

__all__ = ["Finding", "diagnose"]

_NOWHERE = "relet-doctor"
"""A pool that nobody makes: on it a worker's rights are tried."""


def diagnose(
    client: Any,
    names: Iterable[str] = (),
    *,
    namespace: str = DEFAULT_NAMESPACE,
    repair: bool = False,
    order: str | None = None,
) -> Iterator[Finding]:
    """Looks at the server, and at the pools named, or at all pools of the namespace; each finding as it comes.

    Args:
        client: of redis-py or valkey-py, for threads, also of a cluster.
        repair: mends the pools, and looks at them again.
        order: of a pool whose hash is gone; None: by what is left.

    Raises:
        ValueError, TypeError: a name or the order is none; nothing was sent.
    """
    check_namespace(namespace)
    wanted = [check_pool(name) and name for name in names]
    if order is not None:
        check_order(order)
    return _diagnose(client, wanted, namespace, repair, order or "")


def _diagnose(client: Any, names: list[str], namespace: str, repair: bool, order: str) -> Iterator[Finding]:
    refusals = (Library(client).response_error,)
    yield from server.look(client, namespace, refusals)
    yield _rights(client, namespace, refusals)
    wanted = dict.fromkeys(names)
    if not names:
        try:
            wanted = dict.fromkeys(_found(client, namespace))
        except refusals as refused:
            todo = "run it as a user who has +scan, or name the pools"
            yield warn("server", f"which pools there are cannot be seen: {refused}", "", todo)
    for name in wanted:
        with Pool(client, name, namespace=namespace) as pool:
            yield from _of_pool(pool, bool(names), refusals, repair, order)


def _rights(client: Any, namespace: str, refusals: tuple[type[Exception], ...]) -> Finding:
    """Whether this user may do what a worker does: a reclaim of no pool, which first proves every right."""
    try:
        with Pool(client, _NOWHERE, namespace=namespace) as nobody:
            nobody._send(nobody._requests.reclaim(1))
    except ReletError as refused:
        return error("server", str(refused))
    except refusals as refused:
        if "OOM" in str(refused) or "MISCONF" in str(refused):
            return warn("server", f"whether this user has every right cannot be seen: {refused}")
        why = "as this user nothing can be leased from here"
        return error("server", str(refused), why, "gears/README.md of relet lists the least rights")
    return ok("server", "this user may do all that a worker does")


def _found(client: Any, namespace: str) -> list[str]:
    """Every pool of which any key is left: the hash, by which relet.pools knows one, may be what is missing."""
    prefix = f"{namespace}:pool:{{".encode()
    names = set()
    for found in client.scan_iter(match=prefix + b"*}*", count=1000):
        key = found.encode() if isinstance(found, str) else found
        name, brace, rest = key[len(prefix) :].partition(b"}")
        if brace and not rest.startswith(b":destroyed"):
            try:
                names.add(check_pool(name.decode()))
            except ValueError:  # somebody else's key
                continue
    return sorted(names)


def _of_pool(
    pool: Pool, is_named: bool, refusals: tuple[type[Exception], ...], repair: bool, order: str
) -> Iterator[Finding]:
    where = f"pool {pool.name}"
    try:
        if not is_named and not pool._run(pools.look_at(pool._requests)).may_be_one:
            return  # nothing but somebody who waits for it, or what a destroyed pool remembers
        found = pool._run(pools.examine(pool._requests))  # also proves that this user may see what a repair goes by
        if repair:
            yield from pool._run(pools.repair(pool._requests, order))
            found = pool._run(pools.examine(pool._requests))
        yield from found
    except ReletError as reason:
        yield error(where, str(reason))
    except refusals as refused:
        todo = "more rights, if it says NOPERM: gears/README.md of relet lists what the doctor needs"
        what = f"it cannot be {'mended' if repair else 'examined'}: {refused}"
        yield (error if repair else warn)(where, what, "", todo)
