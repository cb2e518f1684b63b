"""RedisGears 2: gears/reclaim.js, a library of its own for each namespace, with a trigger on tracking keys."""

from __future__ import annotations

import re
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
from relet.engines.texts import bound, constant, replaced
from relet.errors import ReletError


class Gears2:
    """The engine ``"redisgears-2"``."""

    name: EngineName = "redisgears-2"

    def source(self, namespace: str) -> str:
        return source(namespace)

    def deploy(self, namespace: str) -> CommandFlow[Deployment | None]:
        older = yield from self.look(namespace)
        if older is None:
            return None
        text = source(namespace)
        yield from _require_master("deploy")
        try:
            # A shard takes part only once it was told to look at its cluster. Elsewhere this does nothing.
            yield Command(("REDISGEARS_2.REFRESHCLUSTER",), everywhere=True, changes=True)
            yield Command(("TFUNCTION", "LOAD", "REPLACE", text), changes=True)
        except Exception as error:
            if not is_refusal(error):
                raise
            raise ReletError(f"the server could not load gears/reclaim.js: {error}") from error
        version, digest = constant(text, "VERSION"), constant(text, "HASH")
        detail = f"RedisGears 2 takes lapsed leases of namespace {namespace!r} back by itself (version {version})"
        return Deployment(self.name, namespace, detail, version, digest, int(any(older.values())))

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        there = yield from self.look(namespace)
        if there is None or not any(there.values()):
            return None if there is None else 0
        yield from _require_master("undeploy")
        try:
            yield Command(("TFUNCTION", "DELETE", library(namespace)), changes=True)
        except Exception as error:
            if "does not exist" in str(error):  # somebody else was faster
                return 0
            raise
        return 1

    def look(self, namespace: str) -> CommandFlow[Mapping[str, str] | None]:
        try:
            replies = yield Command(("TFUNCTION", "LIST", "LIBRARY", library(namespace), "v"), everywhere=True)
        except Exception as error:
            if is_unknown_command(error):
                return None
            raise
        return {shard: _description(reply, namespace) for shard, reply in replies.items()}


def library(namespace: str) -> str:
    """The library's name, which has letters, digits and "_" alone: each namespace gets its own."""
    return "relet_" + re.sub("[^A-Za-z0-9]", lambda other: f"_{ord(other[0]):02x}", namespace)


@cache
def source(namespace: str) -> str:
    """The text of gears/reclaim.js for ``namespace``."""
    text = bound("reclaim.js", namespace)
    return replaced(text, r"^(#!js api_version=1\.0 name=)\w+$", rf"\g<1>{library(namespace)}", "reclaim.js")


def _description(reply: Any, namespace: str) -> str:
    """How the library's trigger describes itself; a library of that name without ours in it is a stranger's."""
    for each in reply:
        for trigger in pairs(each)[b"keyspace_triggers"]:
            description = text_of(pairs(trigger)[b"description"])
            if own(description, namespace):
                return description
    return ""


def _require_master(verb: str) -> CommandFlow[None]:
    role = yield Command(("ROLE",))
    if role[0] != b"master":
        raise ReletError(f"this server is a replica: {verb} on its master, whose functions are replicated")
