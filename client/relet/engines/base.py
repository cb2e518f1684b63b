"""What an engine is: a way for the server to take lapsed leases back by itself. Does no I/O.

An engine's work is a flow, a generator that yields commands and gets their replies, so that one driver for threads and
one for asyncio can send it. An error of the server's is thrown into the flow.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

EngineName = Literal["redisgears-1", "redisgears-2", "none"]


class Command(NamedTuple):
    """One command, its replies wanted as bytes; with ``everywhere``, for each master of a cluster."""

    words: tuple[str, ...]
    everywhere: bool = False


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


class Engine(Protocol):
    """Asked in turn; one that answers None is not in this server."""

    def deploy(self, namespace: str) -> CommandFlow[Deployment | None]:
        """Register the functions for ``namespace``, in place of older ones."""

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        """Remove them; answers how many registrations there were."""


def is_unknown_command(error: Exception) -> bool:
    """Whether the server answered that it has no such command: its module is not there, or the engine is another."""
    return "unknown command" in str(error).lower()
