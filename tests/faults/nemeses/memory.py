"""Memory that is full: refused writes, or keys that go."""

from __future__ import annotations

import random
from typing import Any

from .base import LOSS, Nemesis


class FullMemory(Nemesis):
    name = "full-memory"
    does = "maxmemory far below what is used, with noeviction, for up to 1.5 s"
    group = "servers"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        arena.call(server, "CONFIG", "SET", "maxmemory", 1)
        arena.pause(rng.uniform(0.1, 1.5))
        arena.call(server, "CONFIG", "SET", "maxmemory", 0)
        return f"port {server.port}"


class Eviction(Nemesis):
    name = "eviction"
    does = "the same with allkeys-lru: keys of the pools are evicted; then the pools are destroyed and made anew"
    promised = (
        "fences only rise; damage is told (PoolDamaged) or all of a pool is gone; nothing lost once it is made anew"
    )
    outside = "leases that were evicted: overlaps, early ends"
    group = "servers"
    voids = LOSS | {"surprise"}
    weight = 0.4

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        arena.call(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        used = int(arena.call(server, "INFO", "memory")["used_memory"])
        arena.call(server, "CONFIG", "SET", "maxmemory", used - rng.randrange(2_000, 200_000))
        arena.pause(rng.uniform(0.05, 0.5))
        arena.call(server, "CONFIG", "SET", "maxmemory", 0)
        arena.call(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        arena.add_again(anew=True)
        return f"port {server.port}"


NEMESES = (FullMemory, Eviction)
