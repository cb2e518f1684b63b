"""RedisGears 1.2: gears/reclaim.py, sent as text, registers itself on the expiry of tracking keys."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from typing import Any

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
        older = yield from _registrations(namespace)
        if older is None:
            return None
        text = source(namespace)
        yield from _execute(text)
        yield from _remove_doubles(namespace)
        version, digest = constant(text, "VERSION"), constant(text, "HASH")
        detail = f"RedisGears 1 takes lapsed leases of namespace {namespace!r} back by itself (version {version})"
        return Deployment(self.name, namespace, detail, version, digest, len(older))

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        ours = yield from _registrations(namespace)
        if ours is None:
            return None
        if ours:
            yield from _require_master()
        removed = 0
        for _, identity in ours:
            removed += yield from _unregister(identity)
        return removed

    def look(self, namespace: str) -> CommandFlow[Mapping[str, str] | None]:
        try:
            replies = yield Command(("RG.DUMPREGISTRATIONS",), everywhere=True)
        except Exception as error:
            if is_unknown_command(error):
                return None
            raise
        found = {shard: _ours(reply, namespace) for shard, reply in replies.items()}
        return {shard: ours[-1][0] if ours else "" for shard, ours in found.items()}


@cache
def source(namespace: str) -> str:
    """The text of gears/reclaim.py for ``namespace``."""
    return bound("reclaim.py", namespace)


def _registrations(namespace: str) -> CommandFlow[list[tuple[str, str]] | None]:
    """(description, id) of each registration for ``namespace``; None on a server without RedisGears 1."""
    try:
        reply = yield Command(("RG.DUMPREGISTRATIONS",))
    except Exception as error:
        if is_unknown_command(error):
            return None
        raise
    return _ours(reply, namespace)


def _ours(reply: Any, namespace: str) -> list[tuple[str, str]]:
    found = []
    for registration in reply:
        fields = pairs(registration)
        description = text_of(fields[b"desc"])
        if own(description, namespace):
            found.append((description, text_of(fields[b"id"])))
    return found


def _execute(text: str) -> CommandFlow[None]:
    """Run ``text`` in the server, which answers OK or [results, errors], or an error reply where it raised."""
    try:
        # A shard takes part in registrations only once it was told to look at its cluster. Elsewhere this does nothing.
        yield Command(("RG.REFRESHCLUSTER",), everywhere=True, changes=True)
        reply = yield Command(("RG.PYEXECUTE", text), changes=True)
    except Exception as error:
        if not is_refusal(error):
            raise
        raise ReletError(f"the server could not run gears/reclaim.py: {_raised(str(error))}") from error
    errors = reply[1] if isinstance(reply, list) else []
    if errors:
        raise ReletError(
            f"the server could not run gears/reclaim.py: {'; '.join(_raised(text_of(each)) for each in errors)}"
        )


def _remove_doubles(namespace: str) -> CommandFlow[None]:
    """Two clients that deploy in one moment register twice, as neither sees the other's. Both keep the same one."""
    ours = yield from _registrations(namespace)
    for _, identity in sorted(ours or [])[:-1]:
        yield from _unregister(identity)


def _unregister(identity: str) -> CommandFlow[bool]:
    """False if somebody else was faster."""
    try:
        yield Command(("RG.UNREGISTER", identity), changes=True)
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
