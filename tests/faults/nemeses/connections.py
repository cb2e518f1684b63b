"""Connections that are killed, slow, cut, held up, or lose the answers; scripts that the server forgets."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import redis

from .base import Nemesis


class _Network(Nemesis):
    group = "network"

    def _front(self, arena: Any, rng: random.Random) -> str:
        return f"front{rng.randrange(len(arena.masters()))}"

    def _for_a_while(self, arena: Any, rng: random.Random, longest: float, **wanted: Any) -> str:
        front = self._front(arena, rng)
        arena.order(front, **wanted)
        arena.pause(rng.uniform(0.05, longest))
        arena.order(front, mode="pass", delay=0)
        return front


class SlowNetwork(_Network):
    name = "slow-network"
    does = "the proxies (half of the clients go through them) add 5 to 300 ms to each piece, for up to 2 s"

    def strike(self, arena: Any, rng: random.Random) -> str:
        return self._for_a_while(arena, rng, 2, delay=rng.choice((0.005, 0.05, 0.15)))


class CutNetwork(_Network):
    name = "cut-network"
    does = "a proxy drops its connections and each new one, for up to 2 s"

    def strike(self, arena: Any, rng: random.Random) -> str:
        return self._for_a_while(arena, rng, 2, mode="cut")


class HeldNetwork(_Network):
    name = "held-network"
    does = "a proxy hands nothing on for up to 3 s, and then all of it, or drops it with its connections"

    def strike(self, arena: Any, rng: random.Random) -> str:
        front = self._front(arena, rng)
        arena.order(front, mode="hold")
        arena.pause(rng.uniform(0.1, 3))
        end = rng.choice(("pass", "drop"))
        arena.order(front, mode=end)
        return f"{front}, then {end}"


class LostAnswers(_Network):
    name = "lost-answers"
    does = "a proxy hands requests on and drops the connection in the moment of the answer, for up to 1 s"

    def strike(self, arena: Any, rng: random.Random) -> str:
        return self._for_a_while(arena, rng, 1, mode="mute")


class KillConnections(_Network):
    name = "kill-connections"
    does = "CLIENT KILL of all connections that have sent a script, or of those of waiters"

    def strike(self, arena: Any, rng: random.Random) -> str:
        kind = rng.choice(("normal", "pubsub"))
        killed = 0
        with contextlib.suppress(redis.RedisError), arena.asking(rng.choice(arena.masters())) as client:
            for one in client.client_list(kind):
                # Not those of other nemeses, which are in the middle of something.
                if kind == "pubsub" or one["cmd"].startswith("eval"):
                    killed += bool(client.execute_command("CLIENT", "KILL", "ID", one["id"]))
        return f"{killed} of type {kind}"


class ScriptFlush(_Network):
    name = "script-flush"
    does = "SCRIPT FLUSH: the server forgets every script"

    def strike(self, arena: Any, rng: random.Random) -> str:
        for _ in range(rng.randrange(1, 10)):
            with contextlib.suppress(redis.RedisError):
                arena.call(rng.choice(arena.masters()), "SCRIPT", "FLUSH")
            arena.pause(rng.uniform(0, 0.1))
        return ""


NEMESES = (SlowNetwork, CutNetwork, HeldNetwork, LostAnswers, KillConnections, ScriptFlush)
