"""Pairs a second in one process of asyncio, with few and many tasks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..peers.crew import Peer, crew
from .common import TTL_S, Extent, Section, Table, slug
from .throughput import cell

SIZE = 1_000


def tasks(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Callable[[str], None]) -> Any:
    client.flushall()
    rates: dict[int, dict[Peer, list[float]]] = {count: {} for count in extent.tasks}
    with crew([peer for peer in peers if peer.tasks], url, 1, say) as hired:
        for peer in list(hired.workers):
            with hired.excused(peer):
                hired.workers[peer][0].ask("open", label=f"tasks-{slug(peer.name)}", size=SIZE, ttl=TTL_S)
                hired.workers[peer][0].ask("put")
        for count in extent.tasks:
            for _ in range(extent.rounds):
                for peer in list(hired.workers):
                    with hired.excused(peer):
                        answer = hired.workers[peer][0].ask("tasks", count=count, seconds=extent.slot_s * 2)
                        rates[count].setdefault(peer, []).append(answer["rate"])
            say(f"{count} tasks: {', '.join(f'{p.name} {statistics.median(r):,.0f}' for p, r in rates[count].items())}")
        client.flushall()
        shown = list(hired.workers)
        rows = [[peer.name, *[cell(rates[count], peer) for count in extent.tasks]] for peer in shown]
        head = ["pairs/s", *[f"{count} task{'s' * (count > 1)}" for count in extent.tasks]]
        table = Table(f"{SIZE:,} resources, none leased: median, and share of SPOP + SADD", head, rows)
        notes = [f"{name}: **left out**, {reason}" for name, reason in hired.absent.items()]
        return Section("asyncio", [table], notes, lambda figure: plot(figure, rates, shown)), hired.versions


def plot(figure: Any, rates: dict[int, dict[Peer, list[float]]], peers: Sequence[Peer]) -> None:
    figure.set_size_inches(6, 3)
    axis = figure.subplots()
    for peer in peers:
        axis.plot(list(rates), [statistics.median(rates[count][peer]) for count in rates], "o-", label=peer.name)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("tasks")
    axis.set_ylabel("pairs a second")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
