"""Servers that lose what they have acknowledged: less durable ways of saving, and FLUSHALL."""

from __future__ import annotations

import random
from typing import Any

from tests.servers import Server

from .base import LOSS, Nemesis


class _Loss(Nemesis):
    group = "servers"
    promised = "fences only rise; no resource lost"
    outside = "leases that the server forgot: overlaps, early ends"
    voids = LOSS
    weight = 0.4


class KillEverysec(_Loss):
    name = "kill-server-everysec"
    does = "SIGKILL of a server and a start; AOF with appendfsync everysec"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        arena.call(server, "CONFIG", "SET", "appendfsync", "everysec")
        arena.pause(rng.uniform(0.1, 1.5))
        server.kill()
        arena.restart(server)  # its file says "always"
        arena.settle()
        return f"port {server.port}"


class KillSnapshot(_Loss):
    name = "kill-server-snapshot"
    does = "SIGKILL of a server up to 1 s after its last snapshot, and a start from that"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        _without_aof(arena, server)
        arena.call(server, "SAVE")
        arena.pause(rng.uniform(0.05, 1))
        server.kill()
        arena.restart(server)
        _with_aof(arena, server)
        arena.settle()
        return f"port {server.port}"


class KillNone(_Loss):
    name = "kill-server-none"
    does = "SIGKILL of a server that saves nothing, a start, and the resources added again"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        _without_aof(arena, server)
        arena.pause(rng.uniform(0.05, 0.3))
        server.kill()
        (server.directory / "dump.rdb").unlink(missing_ok=True)  # a replica's sync leaves one
        arena.restart(server)
        arena.settle()
        arena.add_again()
        _with_aof(arena, server)
        return f"port {server.port}"


class FlushAll(_Loss):
    name = "flushall"
    does = "FLUSHALL, and the resources added again"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        arena.call(server, "FLUSHALL")
        arena.add_again()
        return f"port {server.port}"


def _without_aof(arena: Any, server: Server) -> None:
    arena.call(server, "CONFIG", "SET", "appendonly", "no")
    arena.call(server, "CONFIG", "REWRITE")


def _with_aof(arena: Any, server: Server) -> None:
    arena.call(server, "CONFIG", "SET", "appendonly", "yes")
    arena.wait_for(server, "aof_rewrite_in_progress", 0, "persistence")
    arena.wait_for(server, "aof_rewrite_scheduled", 0, "persistence")
    arena.wait_for(server, "aof_enabled", 1, "persistence")
    arena.call(server, "CONFIG", "REWRITE")


NEMESES = (KillEverysec, KillSnapshot, KillNone, FlushAll)
