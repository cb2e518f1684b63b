"""RedisGears 1.2: gears/reclaim.py, sent as text, registers itself on the expiry of tracking keys."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache

from relet.engines.base import (
    Command,
    CommandFlow,
    Deployment,
    EngineName,
    is_refusal,
    is_unknown_command,
    own,
    pairs,
    text_of,
)
from relet.engines.texts import bound, constant
from relet.errors import ReletError


class Gears1:
    """The engine ``"redisgears-1"``."""

    name: EngineName = "redisgears-1"

    def source(self, namespace: str) -> str:
        return source(namespace)

    def deploy(self, namespace: str) -> CommandFlow[Deployment | None]:
        found = yield from _registrations()
        if found is None:
            return None
        text = source(namespace)
        shard = _fullest(found)
        here = set(_ours(found[shard], namespace))
        for identity, holder in _others(found, namespace, here):
            yield from _unregister(identity, holder)
        yield from _execute(text, shard)
        yield from _remove_doubles(namespace, shard)
        version, digest = constant(text, "VERSION"), constant(text, "HASH")
        detail = f"RedisGears 1 takes lapsed leases of namespace {namespace!r} back by itself (version {version})"
        older = {identity for registrations in found.values() for identity in _ours(registrations, namespace)}
        return Deployment(self.name, namespace, detail, version, digest, len(older))

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        found = yield from _registrations()
        if found is None:
            return None
        ours = _others(found, namespace, set())
        if ours:
            yield from _require_master()
        removed = 0
        for identity, holder in ours:
            removed += yield from _unregister(identity, holder)
        return removed

    def look(self, namespace: str) -> CommandFlow[Mapping[str, str] | None]:
        found = yield from _registrations()
        if found is None:
            return None
        last = {shard: list(_ours(registrations, namespace).values())[-1:] for shard, registrations in found.items()}
        return {shard: descriptions[0] if descriptions else "" for shard, descriptions in last.items()}


@cache
def source(namespace: str) -> str:
    """The text of gears/reclaim.py for ``namespace``."""
    return bound("reclaim.py", namespace)


def _registrations() -> CommandFlow[dict[str, dict[str, str]] | None]:
    """By shard, the description of each registration by its id, whoever made it; None without RedisGears 1."""
    try:
        replies = yield Command(("RG.DUMPREGISTRATIONS",), everywhere=True)
    except Exception as error:
        if is_unknown_command(error):
            return None
        raise
    return {
        shard: {text_of(fields[b"id"]): text_of(fields[b"desc"]) for fields in map(pairs, reply)}
        for shard, reply in replies.items()
    }


def _ours(registrations: Mapping[str, str], namespace: str) -> dict[str, str]:
    return {identity: text for identity, text in registrations.items() if own(text, namespace)}


def _others(found: Mapping[str, Mapping[str, str]], namespace: str, known: set[str]) -> list[tuple[str, str]]:
    """(id, a shard that has it) of each of our registrations that is not among those ``known``."""
    holders: dict[str, str] = {}
    for shard, registrations in found.items():
        for identity in _ours(registrations, namespace):
            if identity not in known:
                holders.setdefault(identity, shard)
    return list(holders.items())


def _fullest(found: Mapping[str, Mapping[str, str]]) -> str:
    """The shard that has the most registrations, the one to register on.

    A shard that lost its own in a restart would give their ids once more, and RedisGears 1.2.13 aborts the shards that
    still have them.
    """
    return max(sorted(found), key=lambda shard: len(found[shard]))


def _execute(text: str, shard: str) -> CommandFlow[None]:
    """Run ``text`` in the server, which answers OK or [results, errors], or an error reply where it raised."""
    try:
        # A shard takes part in registrations only once it was told to look at its cluster. Elsewhere this does nothing.
        yield Command(("RG.REFRESHCLUSTER",), everywhere=True, changes=True)
        reply = yield Command(("RG.PYEXECUTE", text), changes=True, shard=shard)
    except Exception as error:
        if not is_refusal(error):
            raise
        raise ReletError(f"the server could not run gears/reclaim.py: {_raised(str(error))}") from error
    errors = reply[1] if isinstance(reply, list) else []
    if errors:
        raise ReletError(
            f"the server could not run gears/reclaim.py: {'; '.join(_raised(text_of(each)) for each in errors)}"
        )


def _remove_doubles(namespace: str, shard: str) -> CommandFlow[None]:
    """Two clients that deploy in one moment register twice, as neither sees the other's. Both keep the same one."""
    found = yield from _registrations()
    ours = _ours((found or {}).get(shard, {}), namespace)
    for _, identity in sorted((description, identity) for identity, description in ours.items())[:-1]:
        yield from _unregister(identity, shard)


def _unregister(identity: str, shard: str) -> CommandFlow[bool]:
    """False if somebody else was faster."""
    try:
        yield Command(("RG.UNREGISTER", identity), changes=True, shard=shard)
    except Exception as error:
        if "not registered" in str(error):
            return False
        raise
    return True


def _require_master() -> CommandFlow[None]:
    role = yield Command(("ROLE",))
    if role[0] != b"master":
        raise ReletError("this server is a replica: undeploy on its master, whose registrations are replicated")


def _raised(text: str) -> str:
    """What was raised: the last line of the traceback, which comes as the text of a Python list of lines."""
    try:
        lines = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return str(lines[-1]).strip() if isinstance(lines, list) and lines else text
