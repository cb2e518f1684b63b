"""Pools that move from one node of a cluster to another."""

from __future__ import annotations

import random
import time
from typing import Any

import redis

from .base import SHARDS, Nemesis

TRIES = 20
"""How often an operator goes on with a move that a node was too slow for, or the cluster not well enough."""
PAUSE_S = 0.2


class MoveSlots(Nemesis):
    name = "move-slots"
    does = "the slot of a pool moves to another node, key by key, with pauses of up to 0.3 s in the midst"
    group = "servers"
    grounds = (SHARDS,)
    weight = 3

    def strike(self, arena: Any, rng: random.Random) -> str:
        pool = rng.choice(list(arena.plan.pools))
        slot = int(arena.call(arena.servers[0], "CLUSTER", "KEYSLOT", f"{{{pool}}}"))
        cluster = arena.cluster
        source = cluster.owner(slot)
        target = rng.choice([index for index in range(len(arena.servers)) if index != source])
        cluster.begin_move(slot, target)
        arena.pause(rng.uniform(0, 0.3))
        failed = self._move_keys(arena, slot, source, target)
        arena.pause(rng.uniform(0, 0.3))
        failed += self._move_keys(arena, slot, source, target)  # what was written meanwhile
        cluster.finish_move(slot, source, target)
        return f"slot {slot} of {pool}, from node {source} to {target}" + "".join(f"; {why}" for why in failed)

    def _move_keys(self, arena: Any, slot: int, source: int, target: int) -> list[str]:
        """Answers what went wrong on the way."""
        failed: list[str] = []
        while True:
            try:
                arena.cluster.move_keys(slot, source, target)
                return failed
            except redis.RedisError as error:
                failed.append(str(error))
                if len(failed) == TRIES:
                    raise
                time.sleep(PAUSE_S)


NEMESES = (MoveSlots,)
