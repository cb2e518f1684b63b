"""Clocks that are an hour off: those of clients, which decide nothing, and the server's, which decides everything."""

from __future__ import annotations

import random
import time
from typing import Any

from relet import Pool
from tests.servers import wait_until

from ..faketime import HOUR_S, library, off_by
from ..plan import LONGEST_TTL_S
from ..steering import operating
from .base import LOSS, Nemesis

NEAR_S = 300
"""A clock within this is on the hour that was set."""


class ClientClock(Nemesis):
    name = "client-clock"
    does = "a client is killed, and the next in its place has a clock that is an hour ahead or behind"
    group = "holders"
    weight = 0.7

    def strike(self, arena: Any, rng: random.Random) -> str:
        number = rng.randrange(arena.plan.clients)
        off = rng.choice((-HOUR_S, HOUR_S))
        arena.crowd.kill(number, off_by(library(), off))
        arena.pause(rng.uniform(0.5, 2))
        return f"client {number} by {off:+d} s"


class _ServerClock(Nemesis):
    group = "servers"
    promised = "fences only rise; no resource lost once the clock is right again"
    outside = "deadlines move along with the clock: overlaps and early ends by any other clock"
    voids = LOSS
    weight = 0.3
    off: int

    def strike(self, arena: Any, rng: random.Random) -> str:
        self._set(arena, self.off)
        arena.pause(rng.uniform(0.5, 2))
        self._set(arena, 0)
        return f"by {self.off:+d} s"

    def _set(self, arena: Any, seconds: int) -> None:
        arena.clock.set(seconds)

        def is_so() -> bool:
            return all(abs(self._off(arena, server) - seconds) < NEAR_S for server in arena.servers)

        wait_until(is_so, f"the servers' clock to be {seconds:+d} s off", timeout=30)
        arena.settle()

    def _off(self, arena: Any, server: Any) -> float:
        told: tuple[int, int] = arena.call(server, "TIME")
        return told[0] - time.time()


class ServerBehind(_ServerClock):
    name = "server-clock-behind"
    does = "the servers' clock goes back an hour, and after up to 2 s forward again"
    off = -HOUR_S


class ServerAhead(_ServerClock):
    name = "server-clock-ahead"
    does = (
        "the servers' clock goes an hour ahead, and after up to 2 s back; an operator then takes by force what is"
        " leased for an hour. If data is lost within that hour, fences are not promised: no such fault comes after it"
    )
    off = HOUR_S
    weight = 0.15

    def strike(self, arena: Any, rng: random.Random) -> str:
        arena.clock_was_ahead = True
        what = super().strike(arena, rng)
        with operating(arena.plan) as client:
            for name in arena.plan.pools:
                with Pool(client, name) as pool:
                    for info in pool.resources():
                        if (info.remaining or 0) > LONGEST_TTL_S:
                            with arena.operation("force", pool=name, resource=info.name):
                                pool.release(resource=info.name, force=True)
        return what


NEMESES = (ClientClock, ServerBehind, ServerAhead)
