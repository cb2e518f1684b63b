"""Servers that halt, die and come back, and lose nothing that they have acknowledged."""

from __future__ import annotations

import random
from typing import Any

from .base import Nemesis


class _Server(Nemesis):
    group = "servers"


class StopServer(_Server):
    name = "stop-server"
    does = "SIGSTOP of a server for 0.1 to 3 s, then SIGCONT"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        server.pause()
        arena.pause(rng.uniform(0.1, 3))
        server.resume()
        arena.settle()  # the other nodes of a cluster may have given it up
        return f"port {server.port}"


class RestartServer(_Server):
    name = "restart-server"
    does = "SIGTERM of a server, and a start (AOF)"

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        arena.restart(server)
        arena.settle()
        return f"port {server.port}"


class KillServer(_Server):
    name = "kill-server"
    does = "SIGKILL of a server, away for up to 1 s, and a start; AOF with appendfsync always"
    weight = 2

    def strike(self, arena: Any, rng: random.Random) -> str:
        server = rng.choice(arena.masters())
        server.kill()
        arena.pause(rng.uniform(0, 1))
        arena.restart(server)
        arena.settle()
        return f"port {server.port}"


NEMESES = (StopServer, RestartServer, KillServer)
