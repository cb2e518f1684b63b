"""Judges a history, and nothing but the history.

The promises, by the words that nemeses use for those that do not hold (`voids`):

    overlap   no two leases of one resource are certain at the same time
    fence     of two leases of a pool, the one that was asked for after the other was granted has the higher fence;
              no two have the same
    older     the register never takes a write of an older lease after one of a newer
    refused   the register never refuses a holder whose lease is certain
    early     no holder is told "lost" before the deadline it counts on, unless an operator took the resource
    revived   nothing is renewed or released after its last deadline has passed for certain
    lost      no resource is unknown; at the end each is there, free, and granted exactly once
    surprise  no error but those by which a server, or the lack of one, says "not now"

What breaks one of them is a fault, unless something that voids it falls into the time that it spans: then it is counted
as outside the promise.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .history import Event
from .leases import Lease, Ledger

PROMISES = ("overlap", "fence", "older", "refused", "early", "revived", "lost", "surprise")

# Beginnings of errors, by which a server or a client library says that it cannot be done now.
NOT_NOW = (
    "ConnectionError",
    "TimeoutError",
    "BusyLoadingError",
    "ReadOnlyError",
    "UnsupportedServer: the server that pool",  # "… was asked of is a read-only replica"
    "MasterDownError",
    "NotReplicated",
    "OutOfMemoryError",
    "ClusterDownError",
    "ClusterError",
    "TryAgainError",
    "AskError",
    "MovedError",
    "SlotNotCoveredError",
    "MaxConnectionsError",
    "RedisClusterException",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
    "ResponseError: UNBLOCKED",
    "ResponseError: OOM",
)


@dataclass(frozen=True)
class Finding:
    """Something that breaks a promise; `nemesis` is what excuses it, if anything."""

    promise: str
    at: float
    what: str
    nemesis: str = ""


@dataclass
class Verdict:
    """What was found. `faults` are within the promise, `outside` are not."""

    plan: dict[str, Any]
    faults: list[Finding]
    outside: list[Finding]
    operations: dict[str, dict[str, int]]
    """By verb, by result."""
    leases: int
    pairs: int
    """Leases that were held against another of the same resource."""
    writes: Counter[bool]
    """The register's, by whether it accepted them."""
    late: int
    """Writes that it accepted though the lease was over: nobody had written with a higher fence yet."""
    struck: Counter[str]
    """Faults by nemesis."""

    @property
    def good(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class _Void:
    nemesis: str
    begin: float
    end: float
    promises: frozenset[str]
    spares_confirmed: bool


class _Judge:
    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.ledger = Ledger(events)
        self.voids = [
            _Void(event["nemesis"], event["t"], event["until"], frozenset(event["voids"]), event["spares_confirmed"])
            for event in events
            if event["kind"] == "fault" and event["voids"]
        ]
        self.findings: list[Finding] = []
        self.pairs = 0
        self.late = 0

    def find(self, promise: str, begin: float, end: float, what: str, *, confirmed: bool = False) -> None:
        """Something that spans this time; `confirmed`: it is about leases that replicas had."""
        excuse = ""
        for void in self.voids:
            if promise in void.promises and void.begin <= end and begin <= void.end:
                if confirmed and void.spares_confirmed:
                    continue
                excuse = void.nemesis
                break
        self.findings.append(Finding(promise, end, what, excuse))

    def overlaps(self) -> None:
        for lease, other in _side_by_side(self.ledger.leases):
            self.pairs += 1
            if other.start >= lease.end:
                continue
            begin, end = min(lease.call, other.call), max(lease.start, other.start)
            confirmed = lease.confirmed and other.confirmed and other.start < min(lease.end, lease.granted_end)
            what = (
                f"{_named(lease)} is certain until {lease.end:.4f}, {_named(other)} from {other.start:.4f} on: "
                f"{(min(lease.end, other.end) - other.start) * 1000:.1f} ms together"
            )
            self.find("overlap", begin, end, what, confirmed=confirmed)

    def fences(self) -> None:
        for _, leases in groupby(sorted(self.ledger.leases, key=lambda one: one.pool), key=lambda one: one.pool):
            self._fences_of(list(leases))

    def _fences_of(self, leases: list[Lease]) -> None:
        known: dict[int, Lease] = {}
        for lease in leases:
            other = known.setdefault(lease.fence, lease)
            if other.token != lease.token:
                what = f"{_named(lease)} has the fence of {_named(other)}"
                self.find("fence", min(other.call, lease.call), lease.start, what)
        told = sorted(leases, key=lambda one: one.start)
        highest: Lease | None = None
        index = 0
        for lease in sorted(leases, key=lambda one: one.call):
            while index < len(told) and told[index].start < lease.call:
                if highest is None or told[index].fence > highest.fence:
                    highest = told[index]
                index += 1
            if highest is not None and highest.fence > lease.fence:
                what = f"{_named(lease)} came after {_named(highest)}, whose fence is higher"
                self.find("fence", highest.call, lease.start, what)

    def register(self) -> Counter[bool]:
        newest: dict[tuple[str, str], Lease] = {}
        highest: dict[tuple[str, str], str] = {}  # the token that was written with last
        successors = _Successors(self.ledger.leases)
        writes: Counter[bool] = Counter()
        for event in self.events:
            if event["kind"] != "write":
                continue
            writes[event["accepted"]] += 1
            if event["accepted"]:
                highest[event["pool"], event["resource"]] = event["token"]
            lease = self.ledger.lease(event["token"])
            if lease is None:
                continue  # its holder was killed before it could say what it was granted
            if event["accepted"]:
                self._accepted(event, lease, newest)
                self.late += successors.has_begun(lease, event["t"])
            elif lease.start <= event["t"] < lease.end:
                self._refused(event, lease, self.ledger.lease(highest[event["pool"], event["resource"]]))
        return writes

    def _refused(self, event: Event, lease: Lease, other: Lease | None) -> None:
        """A holder was refused because of somebody else's write with a higher fence."""
        begin, left = lease.call, (lease.end - event["t"]) * 1000
        confirmed = lease.confirmed and event["t"] < lease.granted_end
        if other is not None:
            begin, confirmed = min(begin, other.call), confirmed and other.confirmed
        what = f"a write of {_named(lease)}, {left:.0f} ms before its end, because of {other and _named(other)}"
        self.find("refused", begin, event["t"], what, confirmed=confirmed)

    def _accepted(self, event: Event, lease: Lease, newest: dict[tuple[str, str], Lease]) -> None:
        key = (event["pool"], event["resource"])
        last = newest.get(key)
        if last is not None and lease.start < last.call:
            what = f"a write of {_named(lease)} after one of {_named(last)}, which is newer"
            self.find("older", lease.call, event["t"], what)
        elif last is None or lease.call > last.call:
            newest[key] = lease

    def endings(self) -> None:
        for lease in self.ledger.leases:
            if lease.lost_at is not None and not lease.forced:
                is_granted = lease.confirmed and lease.lost_at < lease.granted_end
                what = f"{_named(lease)} at {lease.lost_at:.4f}, before its deadline"
                self.find("early", lease.call, lease.lost_at, what, confirmed=is_granted)
            for at, how in lease.revived:
                self.find("revived", lease.call, at, f"{_named(lease)}: {how}")

    def surprises(self) -> None:
        for begin, end, verb, error in self.ledger.errors:
            if error.startswith("ResourceUnknown"):  # nobody removes any
                self.find("lost", begin, end, f"{verb}: {error}")
            elif not error.startswith(NOT_NOW):
                self.find("surprise", begin, end, f"{verb}: {error}")
        for event in self.events:
            if event["kind"] == "trouble":
                self.find("surprise", event["t"], event["t"], event["text"])

    def census(self) -> None:
        for event in self.events:
            if event["kind"] != "census":
                continue
            expected, told = sorted(event["expected"]), f"pool {event['pool']}: "
            if "error" in event:
                self.find("lost", event["t"], event["t"], told + event["error"])
            elif event["free"] != len(expected) or event["free_after"] != len(expected):
                what = f"{event['free']} of {len(expected)} were free, then {event['free_after']}"
                self.find("lost", event["t"], event["t"], told + what)
            elif sorted(event["taken"]) != expected:
                self.find("lost", event["t"], event["t"], f"{told}granted {event['taken']}, expected {expected}")


class _Successors:
    """When the next lease of the same resource began."""

    def __init__(self, leases: list[Lease]) -> None:
        self._starts: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for lease in leases:
            self._starts.setdefault((lease.pool, lease.resource), []).append((lease.start, lease.fence))
        for starts in self._starts.values():
            starts.sort()

    def has_begun(self, lease: Lease, at: float) -> bool:
        starts = self._starts[lease.pool, lease.resource]
        index = bisect.bisect_left(starts, (at, 0)) - 1
        return index >= 0 and starts[index][1] > lease.fence


def judge(events: list[Event]) -> Verdict:
    """The verdict on a history, whose events are in the order of their times."""
    one = _Judge(events)
    one.overlaps()
    one.fences()
    writes = one.register()
    one.endings()
    one.surprises()
    one.census()
    operations: dict[str, dict[str, int]] = {}
    for (verb, result), count in sorted(one.ledger.counts.items()):
        operations.setdefault(verb, {})[result] = count
    findings = sorted(one.findings, key=lambda finding: finding.at)
    return Verdict(
        plan=next((event for event in events if event["kind"] == "plan"), {}),
        faults=[finding for finding in findings if not finding.nemesis],
        outside=[finding for finding in findings if finding.nemesis],
        operations=operations,
        leases=len(one.ledger.leases),
        pairs=one.pairs,
        writes=writes,
        late=one.late,
        struck=Counter(event["nemesis"] for event in events if event["kind"] == "fault"),
    )


def _side_by_side(leases: Iterable[Lease]) -> Iterator[tuple[Lease, Lease]]:
    """Each lease with the one before it of the same resource that lasts longest, by their beginnings.

    Only leases that were certain for any time at all.
    """

    def key(lease: Lease) -> tuple[str, str]:
        return lease.pool, lease.resource

    certain = [lease for lease in leases if lease.end > lease.start]
    for _, ones in groupby(sorted(certain, key=lambda lease: (*key(lease), lease.start)), key=key):
        longest: Lease | None = None
        for lease in ones:
            if longest is not None:
                yield longest, lease
            if longest is None or lease.end > longest.end:
                longest = lease


def _named(lease: Lease) -> str:
    return f"{lease.resource}, fence {lease.fence}, of {lease.token[:8]}, asked for at {lease.call:.4f}"


def excuses(findings: Iterable[Finding]) -> dict[str, Counter[str]]:
    """By promise, how many findings each nemesis explains."""
    table: dict[str, Counter[str]] = {}
    for finding in findings:
        table.setdefault(finding.promise, Counter())[finding.nemesis] += 1
    return table
