"""What an engine is: a way for the server to take lapsed leases back by itself. Does no I/O.

An engine's work is a flow, a generator that yields commands and gets their replies, so that one driver for threads and
one for asyncio can send it. An error of the server's is thrown into the flow.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

EngineName = Literal["redisgears-1", "redisgears-2", "none"]

_DESCRIPTION = re.compile(r"relet reclaim namespace=(\S+) version=(\S*) hash=(\S*)")


class Command(NamedTuple):
    """One command, its reply wanted as bytes."""

    words: tuple[str, ...]
    everywhere: bool = False
    """For each master of a cluster, whose replies come as a dict by the masters' names; of a single server too."""
    changes: bool = False
    """Whether it changes anything: a dry run leaves it out, and goes on as if the answer were OK."""
    shard: str = ""
    """The master of a cluster that it is for, by its name; else it is always the same one."""


CommandFlow = Generator[Command, Any, T]


@dataclass(frozen=True)
class Deployment:
    """What :func:`relet.deploy` did.

    ``version`` and ``hash`` are those of the functions that run in the server now, empty where there is no engine;
    ``replaced`` is how many registrations of earlier deployments made room for them.
    """

    engine: EngineName
    namespace: str
    detail: str
    """A sentence for people."""
    version: str = ""
    hash: str = ""
    replaced: int = 0


@dataclass(frozen=True)
class Deployed:
    """What runs in the server now for a namespace, whoever put it there."""

    engine: EngineName
    namespace: str
    version: str
    hash: str
    current: bool
    """Whether it is what ``deploy`` would put there, on every shard."""
    missing: tuple[str, ...] = ()
    """The shards of a cluster on which nothing runs, as ``host:port``."""


class Engine(Protocol):
    """Asked in turn; one that answers None is not in this server."""

    @property
    def name(self) -> EngineName: ...

    def source(self, namespace: str) -> str:
        """The text that is sent."""

    def deploy(self, namespace: str) -> CommandFlow[Deployment | None]:
        """Register the functions for ``namespace``, in place of older ones."""

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        """Remove them; answers how many registrations there were."""

    def look(self, namespace: str) -> CommandFlow[Mapping[str, str] | None]:
        """By shard, how the functions that run there for ``namespace`` describe themselves; empty if none run."""


def own(description: str, namespace: str) -> bool:
    """Whether a registration that describes itself so is ours, for ``namespace``."""
    match = _DESCRIPTION.match(description)
    return match is not None and match[1] == namespace


def version_and_hash(description: str) -> tuple[str, str]:
    """What a description tells; empty if it is none of ours."""
    match = _DESCRIPTION.match(description)
    return (match[2], match[3]) if match else ("", "")


def is_unknown_command(error: Exception) -> bool:
    """Whether the server answered that it has no such command: its module is not there, or the engine is another."""
    return "unknown command" in str(error).lower()


def is_refusal(error: Exception) -> bool:
    """Whether the server did not like what it was sent. No permission, connection lost, …: those say so themselves."""
    return type(error).__name__ == "ResponseError"


def pairs(reply: Any) -> dict[Any, Any]:
    """A map, which comes as a flat list in RESP2."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
