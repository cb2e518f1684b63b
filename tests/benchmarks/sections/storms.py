"""A storm: all leases lapse in one instant, and nobody calls. On servers of its own, one for each engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import redis

from ..peers.crew import Peer
from ..storm import Case, Outcome, outcomes
from .common import Extent, Section, Table

HEAD = ["server", "who takes them back", "all free", "all keys expired", "PING: median", "99 %", "longest"]


def storms(_client: redis.Redis, _url: str, extent: Extent, _peers: Sequence[Peer], say: Callable[[str], None]) -> Any:
    measured: list[tuple[Case, Outcome]] = []
    absent: list[str] = []
    for case, found in outcomes(extent.storm):
        name = f"{case.server}, {case.engine}"
        if isinstance(found, str):
            reason = found.removeprefix(f"{case.server}: ")
            absent.append(f"{name}: **left out**, {reason}")
            say(f"{name}: left out: {reason}")
        else:
            measured.append((case, found))
            say(f"{name}: all free after {found.all_free:.0f} ms, longest PING {found.ping_longest:.1f} ms")
    table = Table(f"{extent.storm:,} leases lapse in one instant; ms", HEAD, [row(*each) for each in measured])
    notes = [
        "All free, all keys expired: from the common deadline until the last resource is free, and until the server "
        "has deleted the last tracking key, whose expired event is what RedisGears and the listener go by.",
        "PING: one is due each millisecond until both are over, and its latency counts from when it was due.",
        "nobody: the server alone, for comparison: that is what expiring so many keys takes.",
        *absent,
    ]
    section = Section("A storm of lapses", [table], notes, partial(plot, measured=measured))
    return section, {name: version(name) for name in ("relet", "redis")}


def row(case: Case, found: Outcome) -> list[str]:
    free = "–" if case.engine == "nobody" else f"{found.all_free:,.0f}"
    pings = (found.ping_median, found.ping_99, found.ping_longest)
    return [case.server, case.engine, free, f"{found.keys_gone:,.0f}", *(f"{ping:.1f}" for ping in pings)]


def plot(figure: Any, measured: Sequence[tuple[Case, Outcome]]) -> None:
    figure.set_size_inches(11, 4)
    times, pings = figure.subplots(1, 2, sharey=True)
    names = [f"{case.server}, {case.engine}" for case, _ in measured]
    rows = range(len(names))
    for axis, label, place, values in (
        (times, "all free", -0.2, [found.all_free for _, found in measured]),
        (times, "all keys expired", 0.2, [found.keys_gone for _, found in measured]),
        (pings, "99 %", -0.2, [found.ping_99 for _, found in measured]),
        (pings, "longest", 0.2, [found.ping_longest for _, found in measured]),
    ):
        axis.barh([row + place for row in rows], values, 0.38, label=label)
    for axis, label in ((times, "ms after the deadline"), (pings, "PING meanwhile, ms")):
        axis.set_yticks(list(rows), names)
        axis.set_xlabel(label)
        axis.grid(axis="x", alpha=0.3)
        axis.legend()
    times.invert_yaxis()
