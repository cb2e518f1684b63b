"""The server's part: what of its version, settings and state would surprise somebody who leases from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from relet.client import RAW, Library
from relet.deploy import survey
from relet.doctor.findings import Finding, error, ok, warn
from relet.listening import flags_with_expired

CLOCK_S = 1.0
"""By so much may the server's clock differ from this machine's before it is worth a word."""
NEARLY_FULL = 0.9

Ask = Callable[..., Any]
"""Sends one command to the server that is looked at; the reply is in bytes."""


def look(client: Any, namespace: str, errors: tuple[type[Exception], ...]) -> Iterator[Finding]:
    """Findings about the server, or each master of a cluster. ``errors``: the library's, for what a server refuses."""
    if hasattr(client, "get_primaries"):
        nodes = sorted(client.get_primaries(), key=lambda node: str(node.name))
        asks = [(f"server {node.name}", _asker(client, node)) for node in nodes]
    else:
        asks = [("server", _asker(client, None))]
    for where, ask in asks:
        yield from _of_one(where, ask, errors)
    yield _functions(client, namespace)


def _asker(client: Any, node: Any) -> Ask:
    def ask(*words: Any) -> Any:
        if node is None:
            return client.execute_command(*words, **RAW)
        reply = client.execute_command(*words, target_nodes=[node], **RAW)
        return next(iter(reply.values())) if isinstance(reply, dict) and set(reply) == {node.name} else reply

    return ask


def _of_one(where: str, ask: Ask, errors: tuple[type[Exception], ...]) -> Iterator[Finding]:
    try:
        info = _info(ask("INFO"))
    except errors as refused:
        info = {}
        yield _unseen(where, "its version, role, memory and snapshots", "+info", refused)
    if info:
        yield from (_version(where, info), *_role(where, info), *_saving(where, info))
    settings: dict[str, str | None] = {}
    for name in ("maxmemory", "maxmemory-policy", "save", "appendonly", "notify-keyspace-events"):
        try:
            settings[name] = _setting(ask("CONFIG", "GET", name))
        except errors as refused:
            yield _unseen(where, "its settings", "+config|get", refused)
            break
    if not settings and info:  # INFO tells of the memory, too
        settings = {name: info.get(name.replace("-", "_")) for name in ("maxmemory", "maxmemory-policy")}
    yield from _memory(where, info, settings)
    yield from _persistence(where, settings)
    yield from _notifications(where, settings)
    yield from _clock(where, ask, errors)


def _version(where: str, info: dict[str, str]) -> Finding:
    name = info.get("server_name", "redis").capitalize()
    version = info.get("valkey_version") or info.get("redis_version", "?")
    speaks = info.get("redis_version", "0").split(".")
    if [int(part) for part in speaks[:2] if part.isdecimal()] < [6, 2]:
        return error(where, f"{name} {version}", "relet needs Redis 6.2 or later, or Valkey", "update the server")
    return ok(where, f"{name} {version}")


def _role(where: str, info: dict[str, str]) -> Iterator[Finding]:
    role, replicas = info.get("role", "?"), info.get("connected_slaves", "0")
    if role != "master":
        master = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        yield error(
            where,
            f"it is a replica of {master}",
            "nothing can be leased from a replica, and what it shows may be old",
            "connect to its master, or by sentinel://HOST/MASTER",
        )
        return
    is_cluster = info.get("cluster_enabled") == "1"
    yield ok(where, f"{'a master of a cluster' if is_cluster else 'a master'} with {replicas} replicas")


def _memory(where: str, info: dict[str, str], settings: dict[str, str | None]) -> Iterator[Finding]:
    limit, policy = _number(settings.get("maxmemory")), settings.get("maxmemory-policy")
    if settings.get("maxmemory") is None or policy is None:
        return
    if not limit:
        yield ok(where, "no maxmemory: no key is evicted")
        return
    used = int(info.get("used_memory", 0))
    share = f"{used / limit:.0%} of maxmemory ({limit} bytes) is used"
    if policy.startswith("allkeys-"):
        yield error(
            where,
            f"maxmemory-policy is {policy}: {share}",
            "once it is full, keys of the pools are evicted, and leases and resources with them",
            "CONFIG SET maxmemory-policy noeviction, or give the pools a server of their own",
        )
    elif policy.startswith("volatile-"):
        yield warn(
            where,
            f"maxmemory-policy is {policy}: {share}",
            "once it is full, tracking keys are evicted (lapses are then noticed later; no lease is lost), and what "
            "resends are recognised by",
            "CONFIG SET maxmemory-policy noeviction",
        )
    elif used >= limit * NEARLY_FULL:
        yield (error if used >= limit else warn)(
            where,
            f"the memory is full: {share}" if used >= limit else f"the memory is nearly full: {share}",
            "a full server refuses new resources and most new waiters (OOM); acquire, renew, release and reclaim go on",
            "raise maxmemory, or delete what else is on the server",
        )
    else:
        yield ok(where, f"maxmemory-policy is {policy}: {share}")


def _saving(where: str, info: dict[str, str]) -> Iterator[Finding]:
    if info.get("loading", "0") != "0":
        yield error(where, "it is still loading its data", "it answers nothing until then", "wait")
    failing = [
        what
        for what, field in (
            ("the last snapshot", "rdb_last_bgsave_status"),
            ("the last rewrite of the append-only file", "aof_last_bgrewrite_status"),
            ("the last write to the append-only file", "aof_last_write_status"),
        )
        if info.get(field, "ok") != "ok"
    ]
    if failing:
        yield error(
            where,
            f"{' and '.join(failing)} failed",
            "the server may refuse every write with MISCONF: no acquire, renewal or release",
            "see the server's log: is its directory (CONFIG GET dir) writable, and the disk not full?",
        )


def _persistence(where: str, settings: dict[str, str | None]) -> Iterator[Finding]:
    save, appends = settings.get("save"), settings.get("appendonly")
    if save is None or appends is None:
        return
    if appends == "yes":
        yield ok(where, "its data is kept in an append-only file")
    elif save:
        yield warn(
            where,
            f"its data is kept in snapshots only (save {save})",
            "after a crash it has an old state: leases granted since then are forgotten, and could be granted again",
            "CONFIG SET appendonly yes",
        )
    else:
        yield warn(
            where,
            "nothing is kept on disk",
            "pools and leases are gone after a restart, and what was leased could be leased again once it is added",
            "CONFIG SET appendonly yes, if a restart must not lose them",
        )


def _notifications(where: str, settings: dict[str, str | None]) -> Iterator[Finding]:
    flags = settings.get("notify-keyspace-events")
    if flags is None:
        return
    wanted = flags_with_expired(flags)
    if wanted == flags:
        yield ok(where, "it says which keys expire, as relet listen likes to hear")
    else:
        would = f"(with {wanted!r} it would hear)"
        yield ok(where, f"notify-keyspace-events is {flags!r}: relet listen goes by the clock {would}")


def _clock(where: str, ask: Ask, errors: tuple[type[Exception], ...]) -> Iterator[Finding]:
    before = time.time()
    try:
        seconds, micros = ask("TIME")
    except errors as refused:
        yield _unseen(where, "its clock", "+time", refused)
        return
    after, there = time.time(), int(seconds) + int(micros) / 1e6
    off = there - after if there > after else min(there - before, 0.0)
    if abs(off) > CLOCK_S:
        yield warn(
            where,
            f"its clock is {abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} this machine's",
            "leases go by the server's clock alone, so none is wrong; but times are shown by it",
            "set both by NTP",
        )
    else:
        yield ok(where, "its clock agrees with this machine's")


def _functions(client: Any, namespace: str) -> Finding:
    where, library = "server", Library(client)
    try:
        engine, running = survey(client, namespace)
    except (ValueError, library.response_error) as refused:
        return warn(where, f"whether functions are deployed cannot be seen: {refused}")
    todo = "relet deploy"
    if engine == "none":
        return ok(where, "no RedisGears: lapsed leases come back with the next call, or by relet listen")
    if running is None:
        why = "lapsed leases come back with the next call"
        return warn(where, f"{engine}, but no function is deployed for namespace {namespace!r}", why, todo)
    if running.missing:
        return warn(where, f"no function is deployed on {', '.join(running.missing)}", "", todo)
    if not running.current:
        what = f"the deployed function is not this version's (version {running.version}, hash {running.hash})"
        return warn(where, what, "it may not know what this version writes", todo)
    return ok(where, f"{engine}: the deployed function is current (version {running.version}, hash {running.hash})")


def _unseen(where: str, what: str, right: str, refused: Exception) -> Finding:
    return warn(where, f"{what} cannot be seen: {refused}", "", f"run it as a user who has {right}")


def _info(reply: Any) -> dict[str, str]:
    if isinstance(reply, dict):  # parsed by the library
        return {str(key): str(value) for key, value in reply.items()}
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value for name, colon, value in pairs if colon}


def _setting(reply: Any) -> str | None:
    """The value in a reply of CONFIG GET; None where there is no such setting."""
    values = list(reply.values()) if isinstance(reply, dict) else list(reply)[1:]
    if not values:
        return None
    return values[0].decode("utf-8", "replace") if isinstance(values[0], bytes) else str(values[0])


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
