"""From a history to leases: for each, the time for which it was held for certain.

The answer to an acquire is the moment from which its holder believes in the lease; what it believes in ends with the
call of the release, with the deadline that it counts on (from before it asked), or with an answer that says "lost".
Between the two nobody else may believe in the same resource. What cannot be known for certain is never held against
relet: an operation without an answer may have been done, or not, or be done yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .history import Event

FORCE_LIMIT_S = 30.0
"""How long a forced release that was not answered may still come into force: longer than any fault lasts."""
MS = 0.001
"""The server's clock is cut to whole milliseconds."""


@dataclass
class Lease:
    """Times are those of the history; `end` <= `start`: nothing is certain."""

    pool: str
    resource: str
    token: str
    fence: int
    call: float
    """When it was asked for."""
    start: float
    """When its holder was told."""
    end: float
    """Until when its holder counted on it."""
    granted_end: float
    """The same without renewals."""
    latest: float | None
    """By then its deadline had passed for certain; None: nobody can tell."""
    confirmed: bool
    """By a replica (min_replicas)."""
    renewed: bool
    """In the background."""
    lost_at: float | None = None
    """When its holder was told that it is lost, though it had not counted on that yet."""
    forced: bool = False
    """An operator may have taken it."""
    revived: list[tuple[float, str]] = field(default_factory=list)
    """Operations that were done though its deadline had passed: when each was answered, and which."""


class Ledger:
    """All leases of a history, and what was asked and answered."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.leases: list[Lease] = []
        self.counts: dict[tuple[str, str], int] = {}
        """Operations by verb and result; "none came" for calls without an answer."""
        self.errors: list[tuple[float, float, str, str]] = []
        """Times of the call and of the answer, verb, error."""
        self._by_token: dict[str, Lease] = {}
        self._forces: list[tuple[str, str, float, float]] = []
        calls: dict[str, Event] = {}
        for event in events:
            kind = event["kind"]
            if kind == "call":
                calls[event["id"]] = event
                self._called(event)
            elif kind == "answer":
                self._answered(calls.pop(event["id"]), event)
            elif kind == "held":
                self._held(event)
        for call in calls.values():
            self._answered(call, None)
        for force in self._forces:
            self._cut(*force)

    @property
    def operations(self) -> int:
        return sum(self.counts.values())

    def lease(self, token: str) -> Lease | None:
        return self._by_token.get(token)

    def _called(self, call: Event) -> None:
        """From here on it may be over, whatever the answer."""
        if call["verb"] == "release":
            for lease in self._of(call):
                call.setdefault("ends", {})[lease.token] = lease.end
                lease.end = min(lease.end, call["t"])
        elif call["verb"] == "renew":
            for lease in self._of(call):
                call.setdefault("ends", {})[lease.token] = lease.end
                lease.end = min(lease.end, call["t"] + call["ttl"])  # it may have been for less than there was left
                call["latest"], lease.latest = lease.latest, None

    def _answered(self, call: Event, answer: Event | None) -> None:
        verb, result = call["verb"], answer["result"] if answer else "unanswered"
        self.counts[verb, result] = self.counts.get((verb, result), 0) + 1
        if answer and result == "error":
            self.errors.append((call["t"], answer["t"], verb, answer["error"]))
        handle: dict[str, Callable[[Event, Event | None], None]] = {
            "acquire": self._acquired,
            "renew": self._renewed,
            "release": self._released,
            "force": self._forced,
        }
        if verb in handle:
            handle[verb](call, answer)

    def _acquired(self, call: Event, answer: Event | None) -> None:
        for told in (answer or {}).get("leases", ()):
            assert answer is not None
            lease = Lease(
                call["pool"],
                told["resource"],
                told["token"],
                told["fence"],
                call["t"],
                answer["t"],
                end=told["until"],
                granted_end=told["until"],
                latest=None if call["renewed"] else answer["t"] + call["ttl"] + MS,
                confirmed=call["min_replicas"] > 0,
                renewed=call["renewed"],
            )
            self.leases.append(lease)
            self._by_token[lease.token] = lease

    def _renewed(self, call: Event, answer: Event | None) -> None:
        for lease in self._of(call):
            if answer is None:
                continue
            if answer["result"] == "lost":
                self._lost(lease, call, answer)
            elif answer["result"] == "ok":
                self._revived(lease, call, answer, call["latest"])
                # Of a lease that was over when the answer came, its holder says "no time left", as of the answer.
                lease.end = min(answer["until"], call["t"] + call["ttl"])
                if call["latest"] is not None:  # else an earlier renewal may still come into force
                    lease.latest = answer["t"] + call["ttl"] + MS

    def _released(self, call: Event, answer: Event | None) -> None:
        leases = self._of(call)
        for lease in leases:
            if answer and answer["result"] == "ok":
                self._revived(lease, call, answer, lease.latest)
            elif answer and answer["result"] == "lost" and len(leases) == 1:  # of several, some
                self._lost(lease, call, answer)

    def _revived(self, lease: Lease, call: Event, answer: Event, latest: float | None) -> None:
        if latest is not None and call["t"] > latest:
            lease.revived.append((answer["t"], f"{call['verb']} {call['t'] - latest:.3f} s after its last deadline"))

    def _lost(self, lease: Lease, call: Event, answer: Event) -> None:
        # A renewal for less may have been done, its answer lost, and it sent again after the deadline that it had set.
        counted_on = lease.end if call["verb"] == "renew" else call["ends"][lease.token]
        if answer["t"] < counted_on:
            lease.lost_at = answer["t"]
        lease.end = min(lease.end, answer["t"])

    def _held(self, event: Event) -> None:
        lease = self._by_token.get(event["token"])
        if lease is not None:
            lease.end = max(lease.end, event["until"])

    def _forced(self, call: Event, answer: Event | None) -> None:
        is_known = answer is not None and answer["result"] != "error"
        until = answer["t"] if answer is not None and is_known else call["t"] + FORCE_LIMIT_S
        self._forces.append((call["pool"], call["resource"], call["t"], until))

    def _cut(self, pool: str, resource: str, called: float, until: float) -> None:
        for lease in self.leases:
            is_it = (lease.pool, lease.resource) == (pool, resource)
            if is_it and lease.call <= until and called <= (lease.lost_at or lease.end):
                lease.end = min(lease.end, called)
                lease.forced = True

    def _of(self, call: Event) -> list[Lease]:
        tokens: list[Any] = call.get("tokens") or [call["token"]]
        return [self._by_token[token] for token in tokens if token in self._by_token]
