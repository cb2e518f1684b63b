"""Acquire and release pairs a second, of each contender, and as a share of what a bare SPOP + SADD pair does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import redis

from ..peers.crew import BARE, RELET, Crew, Peer, crew, together
from .common import TTL_S, Extent, Section, Table, slug, spread

Say = Callable[[str], None]
Case = tuple[int, float]  # resources, share that is leased
Rates = dict[Case, dict[Peer, list[float]]]

TOO_LONG = 4.0
"""A contender that took so many times its due sits out the rest of a case; its spread is over fewer rounds."""


def alone(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Say) -> Any:
    """One client."""
    return throughput(client, url, extent, peers, say, extent.clients[0])


def crowd(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Say) -> Any:
    """Many clients, each a process."""
    return throughput(client, url, extent, peers, say, extent.clients[-1])


def throughput(client: redis.Redis, url: str, extent: Extent, peers: Sequence[Peer], say: Say, clients: int) -> Any:
    with crew(peers, url, clients, say) as hired:
        rates: Rates = {}
        for size in extent.sizes:
            measure(client, hired, hired.workers, size, extent, rates, say)
        for size in extent.alone:
            both = {peer: hired.workers[peer] for peer in (RELET, BARE)}
            measure(client, hired, both, size, extent, rates, say)
        client.flushall()
        return report(rates, hired, peers, clients), hired.versions


def measure(
    client: redis.Redis,
    hired: Crew,
    workers: dict[Peer, Any],
    size: int,
    extent: Extent,
    rates: Rates,
    say: Say,
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
        rates[size, load] = interleaved(hired, workers, extent)
        line = ", ".join(f"{p.name} {statistics.median(r):,.0f}" for p, r in rates[size, load].items() if r)
        say(f"{size:,} resources, {load:.0%} leased: {line}")


def interleaved(hired: Crew, workers: dict[Peer, Any], extent: Extent) -> dict[Peer, list[float]]:
    rates: dict[Peer, list[float]] = {peer: [] for peer in workers}
    spent = dict.fromkeys(workers, 0.0)
    due = extent.slot_s * extent.rounds
    for number in range(extent.rounds + 1):
        warm_up = number == 0
        seconds = extent.slot_s / 5 if warm_up else extent.slot_s
        found: dict[Peer, list[float]] = {}
        for peer in [BARE, RELET, RELET, BARE, *(peer for peer in workers if peer not in (BARE, RELET))]:
            if peer not in workers or spent[peer] > TOO_LONG * due:
                continue
            with hired.excused(peer):
                answers = together(workers[peer], "pairs", seconds=seconds)
                took = max(answer["seconds"] for answer in answers)
                spent[peer] += took
                if not warm_up or took > TOO_LONG * due:
                    found.setdefault(peer, []).append(sum(answer["rate"] for answer in answers))
        for peer, of_round in found.items():
            rates[peer].append(statistics.mean(of_round))
    return rates


def shares(rates: dict[Peer, list[float]], peer: Peer, of: Peer = BARE) -> list[float]:
    """Round by round, so that whatever slows the machine down for a while slows both; relet has its two turns of a
    round between the bare pair's, so that a machine that grows faster or slower meanwhile favours neither."""
    return [mine / theirs for mine, theirs in zip(rates.get(peer, []), rates[of], strict=False)]


def report(rates: Rates, hired: Crew, peers: Sequence[Peer], clients: int) -> Section:
    tables = [targets(rates, clients), ahead(rates, hired, peers)]
    for size in dict.fromkeys(size for size, _ in rates):
        its = [case for case in rates if case[0] == size]
        head = ["pairs/s, and share of SPOP + SADD", *[f"{load:.0%} leased" for _, load in its]]
        shown = [peer for peer in peers if peer.name not in hired.absent and peer in rates[its[0]]]
        rows = [[peer.name, *[cell(rates[case], peer) for case in its]] for peer in shown]
        tables.append(Table(f"{size:,} resources: medians, quartiles of the share", head, rows))
    notes = [f"{peer.name}: {peer.note}." for peer in peers if peer.note]
    notes += [f"{name}: **left out**, {reason}" for name, reason in hired.absent.items()]
    notes += [
        "99 % leased is as much of it as leaves one free for each of 8 clients. What is leased is scattered; locks are "
        "tried in turn from one at random.",
    ]
    who = "one client" if clients == 1 else f"{clients} clients"
    return Section(f"Pairs a second, {who}", tables, notes, partial(plot, rates=rates, who=who))


def cell(rates: dict[Peer, list[float]], peer: Peer) -> str:
    if not rates.get(peer):
        return "–"
    middle = statistics.median(rates[peer])
    rate = f"{middle:,.0f}" if middle >= 10 else f"{middle:.2g}"
    return rate if peer is BARE else f"{rate}; {spread(shares(rates, peer))}"


def targets(rates: Rates, clients: int) -> Table:
    target = 0.80 if clients == 1 else 0.75
    found = {case: statistics.median(shares(of, RELET)) for case, of in rates.items()}
    least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    met = sum(share >= target for share in found.values())
    row = [f"{clients}", f"{target:.2f}", f"{met} of {len(found)} cases"]
    row += [f"{found[case]:.2f} ({case[0]:,}, {case[1]:.0%})" for case in (least, most)]
    head = ["clients", "target", "met in", "least (resources, leased)", "most"]
    return Table("relet's pairs as a share of SPOP + SADD", head, [row])


def ahead(rates: Rates, hired: Crew, peers: Sequence[Peer]) -> Table:
    """By which factor relet is ahead of each that grants named resources."""
    sizes = list(dict.fromkeys(case[0] for case, of in rates.items() if len(of) > 2 or len(peers) <= 2))
    loads = list(dict.fromkeys(load for _, load in rates))
    cases = [(size, load) for load in loads for size in sizes]
    rows = []
    for peer in peers:
        if peer.named and peer is not RELET and peer.name not in hired.absent:
            rows.append([peer.name, *[factor(rates[case], peer) for case in cases]])
    head = ["times as many", *[f"{size:,}, {load:.0%}" for size, load in cases]]
    return Table("how many times the pairs of each peer that grants named resources relet does", head, rows)


def factor(rates: dict[Peer, list[float]], peer: Peer) -> str:
    if not rates.get(peer):
        return "–"
    value = statistics.median(shares(rates, RELET, peer))
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def plot(figure: Any, rates: Rates, who: str) -> None:
    sizes = list(dict.fromkeys(size for (size, _), of in rates.items() if len(of) > 2)) or [next(iter(rates))[0]]
    figure.set_size_inches(11, 4)
    axes = figure.subplots(1, len(sizes), sharey=True, sharex=True, squeeze=False)[0]
    names = list(rates[next(iter(rates))])
    for axis, size in zip(axes, sizes, strict=True):
        for place, case in enumerate(case for case in rates if case[0] == size):
            where = [row + 0.26 * (place - 1) for row in range(len(names))]
            values = [statistics.median(rates[case][peer]) if rates[case].get(peer) else 0 for peer in names]
            axis.barh(where, values, 0.25, label=f"{case[1]:.0%} leased")
        axis.set_yticks(range(len(names)), [peer.name for peer in names])
        axis.set_xscale("log")
        axis.set_xlim(left=1)
        axis.set_xlabel("pairs a second")
        axis.set_title(f"{size:,} resources, {who}")
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
