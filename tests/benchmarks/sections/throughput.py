"""Acquire and release pairs a second, of each contender, and as a share of what a bare SPOP + SADD pair does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..peers.crew import BARE, RELET, Crew, Peer, crew, together
from .common import TTL_S, Extent, Section, Table, slug, spread

Case = tuple[int, int, float]  # clients, resources, share that is leased
Rates = dict[Case, dict[Peer, list[float]]]

TOO_LONG = 4.0
"""A contender that took so many times its due sits out the rest of a case; its spread is over fewer rounds."""


def throughput(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Callable[[str], None]) -> Any:
    with crew(peers, url, max(extent.clients), say) as hired:
        rates: Rates = {}
        for size in extent.sizes:
            measure(client, hired, hired.workers, size, extent, rates, say)
        for size in extent.alone:
            alone = {peer: hired.workers[peer] for peer in (RELET, BARE)}
            measure(client, hired, alone, size, extent, rates, say)
        client.flushall()
        return report(rates, hired, peers), hired.versions


def measure(
    client: redis.Redis,
    hired: Crew,
    workers: dict[Peer, Any],
    size: int,
    extent: Extent,
    rates: Rates,
    say: Callable[[str], None],
) -> None:
    client.flushall()
    for peer in list(workers):
        with hired.excused(peer):
            for worker in workers[peer]:
                worker.ask("open", label=f"pairs-{slug(peer.name)}", size=size, ttl=TTL_S)
            workers[peer][0].ask("put")
    leased = 0
    for load in extent.loads:
        more = min(int(size * load), size - max(extent.clients))  # one free for each client at least
        for peer in list(workers):
            with hired.excused(peer):
                workers[peer][0].ask("lease", start=leased, end=more)
        leased = more
        for clients in extent.clients:
            rates[clients, size, load] = interleaved(hired, workers, clients, extent)
            line = ", ".join(
                f"{p.name} {statistics.median(r):,.0f}" for p, r in rates[clients, size, load].items() if r
            )
            say(f"{size:,} resources, {load:.0%} leased, {clients} clients: {line}")


def interleaved(hired: Crew, workers: dict[Peer, Any], clients: int, extent: Extent) -> dict[Peer, list[float]]:
    rates: dict[Peer, list[float]] = {peer: [] for peer in workers}
    spent = dict.fromkeys(workers, 0.0)
    due = extent.slot_s * extent.rounds
    for number in range(extent.rounds + 1):
        for peer in list(workers):
            if spent[peer] > TOO_LONG * due:
                continue
            with hired.excused(peer):
                warm_up = number == 0
                seconds = extent.slot_s / 5 if warm_up else extent.slot_s
                answers = together(workers[peer][:clients], "pairs", seconds=seconds)
                took = max(answer["seconds"] for answer in answers)
                spent[peer] += took
                if not warm_up or took > TOO_LONG * due:
                    rates[peer].append(sum(answer["rate"] for answer in answers))
    return rates


def shares(rates: dict[Peer, list[float]], peer: Peer, of: Peer = BARE) -> list[float]:
    """Round by round, so that whatever slows the machine down for a while slows both."""
    return [mine / theirs for mine, theirs in zip(rates.get(peer, []), rates[of], strict=False)]


def report(rates: Rates, hired: Crew, peers: Sequence[Peer]) -> Section:
    cases: dict[int, list[Case]] = {}
    for case in rates:
        cases.setdefault(case[0], []).append(case)
    tables = []
    for clients, its in cases.items():
        head = ["pairs/s", *[f"{size:,}, {load:.0%}" for _, size, load in its]]
        rows = [
            [peer.name, *[cell(rates[case], peer) for case in its]] for peer in peers if peer.name not in hired.absent
        ]
        who = "one client" if clients == 1 else f"{clients} clients (processes)"
        tables.append(Table(f"{who}: median, and share of SPOP + SADD with its quartiles", head, rows))
    tables.append(Table("relet against the targets", ["clients", "target", "least", "where", "met"], targets(rates)))
    tables.append(ahead(rates, hired, peers))
    notes = [f"{peer.name}: {peer.note}." for peer in peers if peer.note]
    notes += [f"{name}: **left out**, {reason}" for name, reason in hired.absent.items()]
    notes += [
        "99 % leased is as much of it as leaves one free for each client. What is leased is scattered; locks are tried "
        "in turn from one at random. –: not measured at this size.",
    ]
    return Section("Pairs a second", tables, notes, lambda figure: plot(figure, rates))


def cell(rates: dict[Peer, list[float]], peer: Peer) -> str:
    if not rates.get(peer):
        return "–"
    middle = statistics.median(rates[peer])
    rate = f"{middle:,.0f}" if middle >= 10 else f"{middle:.2g}"
    return rate if peer is BARE else f"{rate}; {spread(shares(rates, peer))}"


def targets(rates: Rates) -> list[list[str]]:
    rows = []
    for clients in sorted({case[0] for case in rates}):
        target = 0.80 if clients == 1 else 0.75
        found = {case: statistics.median(shares(of, RELET)) for case, of in rates.items() if case[0] == clients}
        least = min(found, key=found.__getitem__)
        met = sum(share >= target for share in found.values())
        where = f"{least[1]:,}, {least[2]:.0%} leased"
        rows.append([str(clients), f"{target:.2f}", f"{found[least]:.2f}", where, f"{met} of {len(found)} cases"])
    return rows


def ahead(rates: Rates, hired: Crew, peers: Sequence[Peer]) -> Table:
    """By which factor relet is ahead of each that grants named resources."""
    rows = []
    for peer in peers:
        if not peer.named or peer is RELET or peer.name in hired.absent:
            continue
        factors = {case: statistics.median(shares(of, RELET, peer)) for case, of in rates.items() if of.get(peer)}
        if factors:
            least = min(factors, key=factors.__getitem__)
            where = f"{least[0]} client{'s' * (least[0] > 1)}, {least[1]:,}, {least[2]:.0%}"
            rows.append([peer.name, f"{factors[least]:.2f}", where, f"{max(factors.values()):,.2f}"])
    return Table("how many times as many pairs relet does", ["peer", "least", "where", "most"], rows)


def plot(figure: Any, rates: Rates) -> None:
    size = 10_000 if any(case[1] == 10_000 for case in rates) else next(iter(rates))[1]
    shown = [case for case in rates if case[1] == size]
    counts = sorted({case[0] for case in shown})
    figure.set_size_inches(10, 4)
    axes = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for axis, clients in zip(axes, counts, strict=True):
        its = [case for case in shown if case[0] == clients]
        names = list(rates[its[0]])
        for place, case in enumerate(its):
            where = [row + 0.25 * (place - 1) for row in range(len(names))]
            values = [statistics.median(rates[case][peer]) if rates[case].get(peer) else 0 for peer in names]
            axis.barh(where, values, 0.25, label=f"{case[2]:.0%} leased")
        axis.set_yticks(range(len(names)), [peer.name for peer in names])
        axis.set_xscale("log")
        axis.set_xlabel("pairs a second")
        axis.set_title(f"{size:,} resources, {clients} client{'s' * (clients > 1)}")
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[0].legend(fontsize="small")
