"""What breaks things. Each nemesis is a class with what it does, what is promised under it, and what is not."""

from __future__ import annotations

from . import clocks, connections, data, failover, holders, machines, memory, slots
from .base import Nemesis

_ALL: tuple[type[Nemesis], ...] = (
    *holders.NEMESES,
    *connections.NEMESES,
    *machines.NEMESES,
    *data.NEMESES,
    *failover.NEMESES,
    *slots.NEMESES,
    *memory.NEMESES,
    *clocks.NEMESES,
)

NEMESES: dict[str, type[Nemesis]] = {nemesis.name: nemesis for nemesis in _ALL}

__all__ = ["ALL", "NEMESES", "PROMISED", "Nemesis", "chosen"]

ALL, NONE = "all", "none"
PROMISED = "promised"
"""All under which everything is promised."""


def chosen(names: str, ground: str) -> list[str]:
    """The names of a comma-separated list that can be had on this ground ("pair" or "shards").

    Raises ValueError for what there is not, or not there.
    """
    here = [name for name, nemesis in NEMESES.items() if ground in nemesis.grounds]
    if names in (ALL, PROMISED):
        return [name for name in here if names == ALL or not NEMESES[name].voids]
    wanted = [] if names == NONE else names.split(",")
    for name in wanted:
        if name not in NEMESES:
            raise ValueError(f"there is no nemesis {name!r}; --list shows them")
        if name not in here:
            raise ValueError(f"{name!r} needs another server: it is for {' and '.join(NEMESES[name].grounds)}")
    return wanted
