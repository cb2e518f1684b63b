"""How pools stand, and how they stood before."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from relet.cli.waiters import first_in_line
from relet.model import ResourceInfo, Stats, Waiter
from relet.pool import Pool

LISTED = 1000
"""Resources of a pool that a look reads: some pages, a few milliseconds of the server's time."""
REMEMBERED = 300
COUNTED = ("free", "leased", "quarantined", "waiting")
_RANKS = {"leased": 0, "quarantined": 1, "free": 2}


@dataclass
class Look:
    """How one pool stands."""

    stats: Stats
    resources: Sequence[ResourceInfo] = ()
    """Leased ones first, the next to lapse at the top; then those kept aside, then free ones."""
    waiters: Sequence[Waiter] = ()
    """The first in line."""


@dataclass
class Watched:
    """A pool, and what was seen of it."""

    pool: Pool
    look: Look | None = None
    """None before the first one, and while there is no such pool."""
    history: deque[Stats] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def take(self, listed: int = LISTED) -> None:
        """Look at it again, at no more than ``listed`` of its resources."""
        order, stats = self.pool._send(self.pool._requests.stats())
        if not order:
            self.look = None
            self.history.clear()
            return
        self.history.append(stats)
        resources = sorted(islice(self.pool.resources(), listed), key=_rank) if listed else ()
        self.look = Look(stats, resources, first_in_line(self.pool, stats))


def _rank(info: ResourceInfo) -> tuple[int, float]:
    return _RANKS[info.state], info.remaining or 0.0
