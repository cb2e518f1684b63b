"""What tests under load share: workers, a referee, and how long the load lasts.

RELET_TESTS_LOAD_S=30    seconds of load (default: 2)
"""

from __future__ import annotations

import os

from relet.clock import monotonic
from tests.waiting.drivers import Driven

LOAD_S = float(os.environ.get("RELET_TESTS_LOAD_S", "2"))


class Referee:
    """Who holds what, by the leases' own promises; shares nothing with relet but this machine's steady clock."""

    def __init__(self) -> None:
        self.fences: list[int] = []
        self.doubled: list[str] = []
        self._ends: dict[str, float] = {}

    def enter(self, lease: Driven) -> None:
        if self._ends.get(lease.resource, 0.0) > monotonic():
            self.doubled.append(repr(lease.real))
        self.extend(lease)
        self.fences.append(lease.fence)

    def extend(self, lease: Driven) -> None:
        """It was renewed."""
        self._ends[lease.resource] = monotonic() + lease.remaining()

    def leave(self, lease: Driven) -> None:
        """Before it is released: whether that arrives or not, nobody relies on it any more."""
        self._ends.pop(lease.resource, None)

    def check(self) -> None:
        assert self.doubled == []
        assert len(self.fences) == len(set(self.fences))
