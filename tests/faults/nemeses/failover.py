"""The replica becomes the master: in order, or with the loss of what it had not been told yet."""

from __future__ import annotations

import random
from typing import Any

from .base import LOSS, PAIR, Nemesis


class Switchover(Nemesis):
    name = "switchover"
    does = "FAILOVER: the replica takes over once it has everything"
    group = "servers"
    grounds = (PAIR,)

    def strike(self, arena: Any, rng: random.Random) -> str:  # noqa: ARG002
        old, new = arena.servers
        arena.call(old, "FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 5000)
        arena.wait_for(old, "master_failover_state", "no-failover", "replication")
        if arena.call(old, "ROLE")[0] == b"master":
            return "given up by the server"
        arena.servers.reverse()
        arena.steer()
        arena.call(new, "CONFIG", "REWRITE")
        arena.follow()
        return f"to port {new.port}"


class Failover(Nemesis):
    name = "failover"
    does = (
        "replication held up for up to 0.8 s, then SIGKILL of the master, or a pause from which it comes back as a"
        " second master for up to 0.5 s; the replica is promoted; half of the clients have min_replicas=1"
    )
    promised = "fences only rise; no resource lost; no overlap of leases with min_replicas=1, as they were granted"
    outside = "overlaps and early ends of leases without, and in renewals (they are not waited for)"
    group = "servers"
    grounds = (PAIR,)
    voids = LOSS
    spares_confirmed = True

    def strike(self, arena: Any, rng: random.Random) -> str:
        old, _ = arena.servers
        arena.order("link", mode="hold")
        arena.pause(rng.uniform(0, 0.8))
        comes_back = rng.random() < 0.5
        old.pause() if comes_back else old.kill()
        arena.order("link", mode="drop")
        arena.promote()
        arena.pause(rng.uniform(0, 0.5))
        if comes_back:
            old.resume()
            arena.pause(rng.uniform(0, 0.5))  # two masters; whoever is still connected to the old one asks it
        else:
            arena.restart(old)
        arena.follow()
        return f"to port {arena.servers[0].port}" + (", with two masters for a while" if comes_back else "")


NEMESES = (Switchover, Failover)
