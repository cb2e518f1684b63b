"""What all nemeses share."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Literal

PAIR, SHARDS = "pair", "shards"
Group = Literal["holders", "network", "servers"]

LOSS = frozenset({"overlap", "early", "refused", "revived", "lost"})
"""What a loss of acknowledged writes takes away: whoever was granted a lease may find that the server does not know it,
nor the resource, until that is added again. (At the end nothing is excused: no fault is going on then.)"""

KEEPS = "everything"


class Nemesis:
    """One kind of fault. One instance a campaign.

    `voids` are the promises (the checker's categories) that do not hold for what a fault of this kind spans;
    `spares_confirmed`: they do for leases that a replica had confirmed (min_replicas). Nemeses of one group never
    strike at the same time; those of different groups do. `weight` is how often, among its group.
    """

    name: ClassVar[str]
    does: ClassVar[str]
    promised: ClassVar[str] = KEEPS
    outside: ClassVar[str] = "nothing"
    group: ClassVar[Group]
    grounds: ClassVar[tuple[str, ...]] = (PAIR, SHARDS)
    voids: ClassVar[frozenset[str]] = frozenset()
    spares_confirmed: ClassVar[bool] = False
    weight: ClassVar[float] = 1.0

    def strike(self, arena: Any, rng: random.Random) -> str:
        """Does it, and undoes it as far as it must be undone; answers what it was."""
        raise NotImplementedError
