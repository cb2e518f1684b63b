"""Renewing leases in the background, without I/O: which lease when, and what becomes of it.

All of a pool's leases share one clock and, as far as they are due at about the same time, one call.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Generator
from typing import Any

from relet.clock import monotonic
from relet.lease import HeldLease
from relet.line import Ask, Unreachable
from relet.requests import Requests

BATCH = 250
"""Leases that one call renews."""
AGAIN = 0.05
"""Share of the ttl after which a renewal that could not be sent is tried again, at most AGAIN_S."""
AGAIN_S = 1.0

OnLost = Callable[[Any], object]

_log = logging.getLogger("relet")


class Renewals:
    """The leases of one pool that are renewed in the background.

    It knows them weakly: a lease that everybody has forgotten is not renewed, and comes back at its deadline.
    """

    def __init__(self, requests: Requests, wake: Callable[[], object]) -> None:
        self._requests = requests
        self._wake = wake
        self._entries: dict[str, _Entry] = {}

    def add(self, lease: HeldLease, on_lost: OnLost | None) -> None:
        self._entries[lease.token] = _Entry(lease, on_lost, self._forget)
        lease._on_renewal = self._wake  # one by hand may set another pace
        self._wake()

    def discard(self, lease: HeldLease) -> None:
        lease._on_renewal = None
        if self._entries.pop(lease.token, None):
            self._wake()

    def next_at(self) -> float | None:
        """When the next lease is due, on this machine's steady clock; None if there is none."""
        return min((entry.due_at for entry in list(self._entries.values())), default=None)

    def renew_due(self) -> Generator[Ask, Any, list[tuple[HeldLease, OnLost]]]:
        """Renews what is due, and what soon would be; answers whom to tell that their lease is lost."""
        now = monotonic()
        due = []
        told: list[tuple[HeldLease, OnLost]] = []
        for token, entry in list(self._entries.items()):
            lease = entry.lease()
            if lease is None or lease.released:
                self._entries.pop(token, None)
            elif lease.lost:
                self._lose(lease, told)
            elif entry.due_at <= now + lease.ttl / 6:
                due.append((entry, lease, lease._ttl_ms))
        for start in range(0, len(due), BATCH):
            chunk = due[start : start + BATCH]
            asked_at = monotonic()
            try:
                renewal = self._requests.renew([(lease.token, ttl_ms, lease.fence) for _, lease, ttl_ms in chunk])
                deadlines = yield Ask(renewal)
            except Exception as error:  # whatever it is may pass before the deadline
                if not isinstance(error, Unreachable):
                    _log.warning(
                        "leases of pool %r could not be renewed, and are tried again: %s", self._requests.pool, error
                    )
                for entry, lease, _ in chunk:
                    entry.again_at = min(monotonic() + min(lease.ttl * AGAIN, AGAIN_S), lease._ends_at)
                continue
            for (entry, lease, ttl_ms), deadline_ms in zip(chunk, deadlines, strict=True):
                if deadline_ms is not None:
                    entry.again_at = None
                    lease._renewed(deadline_ms, ttl_ms, asked_at)
                elif not lease.released:
                    self._lose(lease, told)
        return told

    def _lose(self, lease: HeldLease, told: list[tuple[HeldLease, OnLost]]) -> None:
        entry = self._entries.pop(lease.token, None)
        if entry is None:
            return  # given back in the meantime
        lease._is_lost = True
        _log.warning("the lease of %r in pool %r was lost", lease.resource, self._requests.pool)
        if entry.on_lost:
            told.append((lease, entry.on_lost))

    def _forget(self, token: str) -> None:
        self._entries.pop(token, None)
        self._wake()


class _Entry:
    __slots__ = ("again_at", "lease", "on_lost")

    def __init__(self, lease: HeldLease, on_lost: OnLost | None, forget: Callable[[str], None]) -> None:
        token = lease.token
        self.lease = weakref.ref(lease, lambda _: forget(token))
        self.on_lost = on_lost
        self.again_at: float | None = None
        """When a renewal that failed is tried again."""

    @property
    def due_at(self) -> float:
        """A third of the ttl after the last renewal; at once for a lease that is forgotten."""
        lease = self.lease()
        if lease is None:
            return 0.0
        return self.again_at if self.again_at is not None else lease._ends_at - lease.ttl * 2 / 3


def tell(lease: HeldLease, on_lost: OnLost) -> object:
    """Calls back, and logs what the callback raises: it must not end the renewing of the others."""
    try:
        return on_lost(lease)
    except Exception:
        _log.exception("on_lost raised for the lease of %r", lease.resource)
        return None
