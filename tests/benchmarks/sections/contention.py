"""Double grants: more clients than resources, and a referee that counts who is in at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..peers.crew import Peer, crew, together
from .common import TTL_S, Extent, Section, Table, slug


def contention(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Callable[[str], None]) -> Any:
    clients = max(extent.clients)
    size = max(1, clients // 2)
    client.flushall()
    rows = []
    with crew(peers, url, clients, say) as hired:
        for peer in list(hired.workers):
            with hired.excused(peer):
                workers = hired.workers[peer]
                for worker in workers:
                    worker.ask("open", label=f"contended-{slug(peer.name)}", size=size, ttl=TTL_S)
                workers[0].ask("put")
                limit = 1 if peer.named or peer.name.startswith("SPOP") else size
                label = slug(peer.name)
                answers = together(workers, "contend", seconds=extent.contended_s, label=label, limit=limit)
                grants, doubles = (sum(answer[what] for answer in answers) for what in ("grants", "doubles"))
                share = f"{doubles / grants:.2%}" if doubles else "0"
                rows.append([peer.name, f"{grants:,}", f"{doubles:,}", share])
                say(f"{peer.name}: {doubles:,} of {grants:,} grants were double")
        client.flushall()
        notes = [
            f"{clients} clients, {size} resources, {extent.contended_s:g} s each. Double: while somebody has the "
            "resource (where a peer only counts: while as many as there are have one)."
        ]
        notes += [f"{name}: **left out**, {reason}" for name, reason in hired.absent.items()]
        table = Table("grants under contention", ["", "grants", "double", "share"], rows)
        return Section("Double grants", [table], notes), hired.versions
