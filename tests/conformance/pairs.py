"""What the suite runs on: a server, or a cluster of three, and who takes lapsed leases back there."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tests.servers import SERVERS

Reclaimer = Literal["none", "listener", "RedisGears 1.2", "RedisGears 2"]

PLAIN = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-9.1")
TWO = ("redis-7.0", "valkey-9.1")
"""Those that stand for the others where the server matters little: one old enough, one new."""


class Pair(NamedTuple):
    """A line and a column of the table."""

    server: str
    engine: Reclaimer
    shape: Literal["", "cluster", "rights"] = ""
    """``cluster``: three shards. ``rights``: pools and listeners as the user that gears/README.md describes."""

    @property
    def place(self) -> str:
        return f"{self.server} {self.shape}".strip()

    @property
    def name(self) -> str:
        return "-".join(part.replace(" ", "") for part in (self.server, self.shape, self.engine) if part)

    @property
    def by_itself(self) -> bool:
        """Whether lapsed leases come back though nobody calls."""
        return self.engine != "none"

    @property
    def deploys(self) -> bool:
        """Whether the engine is inside the server."""
        return self.engine.startswith("RedisGears")


def _pairs() -> list[Pair]:
    plain: list[Pair] = []
    for shape, servers in (("", PLAIN), ("cluster", TWO), ("rights", TWO)):
        plain += [Pair(name, engine, shape) for name in servers for engine in ("none", "listener")]  # type: ignore[arg-type]
    return [
        *plain,
        Pair("redis-stack-7.4", "none"),
        Pair("redis-stack-7.4", "RedisGears 2"),
        Pair("redis-stack-7.4", "RedisGears 2", "cluster"),
        Pair("gears-6.2", "RedisGears 1.2"),
        Pair("gears-7.0", "RedisGears 1.2"),
        Pair("gears-7.0", "RedisGears 1.2", "cluster"),
    ]


PAIRS = _pairs()
assert {pair.server for pair in PAIRS} == set(SERVERS)
