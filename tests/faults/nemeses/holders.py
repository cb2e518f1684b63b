"""Clients that die, and clients that sleep past their deadlines."""

from __future__ import annotations

import random
import signal
from typing import Any

from .base import Nemesis


class KillClients(Nemesis):
    name = "kill-clients"
    does = "SIGKILL of a client process in whatever it does; another takes its place"
    group = "holders"

    def strike(self, arena: Any, rng: random.Random) -> str:
        number = rng.randrange(arena.plan.clients)
        arena.crowd.kill(number)
        arena.pause(rng.uniform(0.2, 1))
        return f"client {number}"


class StopClients(Nemesis):
    name = "stop-clients"
    does = "SIGSTOP of a client process for 0.1 to 3 s, its leases of at most 1.5 s among it, then SIGCONT"
    group = "holders"
    weight = 2

    def strike(self, arena: Any, rng: random.Random) -> str:
        count = rng.randrange(1, 3)
        numbers = rng.sample(range(arena.plan.clients), min(count, arena.plan.clients))
        for number in numbers:
            arena.crowd.signal(number, signal.SIGSTOP)
        arena.pause(rng.uniform(0.1, 3))
        for number in numbers:
            arena.crowd.signal(number, signal.SIGCONT)
        return f"clients {numbers}"


NEMESES = (KillClients, StopClients)
