"""How soon a waiter has the resource: after a release, and after the holder was killed and its lease lapsed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..peers.crew import PUBLISHED, Crew, Failed, Peer, Worker, crew
from .common import TTL_S, Extent, Section, Table, slug

LAPSE_TTL_S = 1.0  # python-redis-lock knows whole seconds
GIVE_UP_S = 8.0


def handoffs(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Callable[[str], None]) -> Any:
    client.flushall()
    with crew([*(peer for peer in peers if peer.waits), PUBLISHED], url, 2, say) as hired:
        released = after_release(hired, extent.handoffs)
        say("; ".join(f"{peer.name} {statistics.median(took):.2f} ms" for peer, took in released.items() if took))
        client.flushall()
        lapsed = after_lapse(hired, url, extent.lapses)
        client.flushall()
        rows = []
        for peer, took in released.items():
            rows.append([peer.name, *figures(took), *figures(lapsed.get(peer, []))])
            say(f"{peer.name}: {', '.join(rows[-1][1:])}")
        head = ["ms", "release: median", "90 %", "most", f"lapse of {LAPSE_TTL_S:g} s: median", "90 %", "most"]
        silent = [peer.name for peer in peers if not peer.waits and peer.name != "SPOP + SADD"]
        notes = [
            "Release: from just before the call that frees to just after the call that waited. Lapse: the holder is "
            "killed; from one ttl after its call had returned until the waiter has it (early by the way of the reply). "
            f"never: not within {GIVE_UP_S - LAPSE_TTL_S:g} s.",
            "Redis-Semaphore takes lapsed ones back at the start of an acquire, not while it waits.",
            f"Without any waiting: {', '.join(silent)}.",
            *[f"{name}: **left out**, {reason}" for name, reason in hired.absent.items()],
        ]
        title = f"{extent.handoffs} releases, {extent.lapses} lapses"
        return Section(
            "Release and lapse to waiter",
            [Table(title, head, rows)],
            notes,
            lambda figure: plot(figure, released, lapsed),
        ), hired.versions


def after_release(hired: Crew, rounds: int) -> dict[Peer, list[float]]:
    """ms, of all contenders in turn."""
    took: dict[Peer, list[float]] = {peer: [] for peer in hired.workers}
    for peer in list(hired.workers):
        with hired.excused(peer):
            for worker in hired.workers[peer]:
                worker.ask("open", label=f"handoff-{slug(peer.name)}", size=1, ttl=60 if peer.waits else TTL_S)
            hired.workers[peer][0].ask("put")
    for number in range(rounds + 2):
        for peer in list(hired.workers):
            with hired.excused(peer):
                holder, waiter = hired.workers[peer]
                if not holder.ask("take")["taken"]:
                    raise Failed(f"{peer.name}: the resource was not free")
                waiter.ask("wait")
                time.sleep(0.02 + 0.1 * (number % 17) / 17)  # until it waits; at another point of a poll each time
                start = holder.ask("give")["at"]
                end = waiter.answer()["at"]
                if peer is not PUBLISHED:
                    waiter.ask("give")
                if number >= 2:
                    took[peer].append((end - start) / 1e6)
    return {peer: values for peer, values in took.items() if peer in hired.workers}


def after_lapse(hired: Crew, url: str, rounds: int) -> dict[Peer, list[float]]:
    """ms, infinite for never; all contenders at once, since nobody does anything but wait."""
    late: dict[Peer, list[float]] = {peer: [] for peer in hired.workers if peer is not PUBLISHED}
    for number in range(rounds):
        due: dict[Peer, float] = {}
        for peer, so_far in late.items():
            if peer not in hired.workers or so_far.count(float("inf")) >= 2:
                continue
            with hired.excused(peer):
                waiter = hired.workers[peer][1]
                details: Any = {"label": f"lapse-{number}-{slug(peer.name)}", "size": 1, "ttl": LAPSE_TTL_S}
                waiter.ask("open", **details)
                waiter.ask("put")
                with Worker(peer, url) as holder:
                    holder.ask("open", **details)
                    due[peer] = holder.ask("take")["at"] / 1e9 + LAPSE_TTL_S
                waiter.ask("wait")
        for peer, at in due.items():
            try:
                end = hired.workers[peer][1].answer(max(0.0, at + GIVE_UP_S - LAPSE_TTL_S - time.monotonic()))["at"]
                late[peer].append(end / 1e6 - at * 1e3)
                hired.workers[peer][1].ask("give")
            except Failed:
                late[peer].append(float("inf"))
                hired.workers[peer][1].end()
                hired.workers[peer][1] = Worker(peer, url)
    return late


def figures(values: Sequence[float]) -> list[str]:
    if not values:
        return ["–"] * 3
    ordered = sorted(values)
    picked = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.9)], ordered[-1])
    return ["never" if value == float("inf") else f"{value:,.2f}" for value in picked]


def plot(figure: Any, released: dict[Peer, list[float]], lapsed: dict[Peer, list[float]]) -> None:
    figure.set_size_inches(10, 3)
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(released)
    for axis, took, title in ((left, released, "release to waiter"), (right, lapsed, "lapse to waiter")):
        middles = [sorted(took[peer])[len(took[peer]) // 2] if took.get(peer) else 0.0 for peer in names]
        never = GIVE_UP_S * 1000
        values = [min(never, max(0.01, value)) if value else 0.0 for value in middles]
        colors = ["tab:red" if value == float("inf") else "tab:blue" for value in middles]
        axis.barh(range(len(names)), values, color=colors)
        axis.set_yticks(range(len(names)), [peer.name for peer in names])
        axis.set_xscale("log")
        axis.set_xlim(left=0.1)
        axis.set_xlabel("ms (median); red: never")
        axis.set_title(title)
        axis.grid(axis="x", alpha=0.3)
    left.invert_yaxis()
