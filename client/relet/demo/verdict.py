"""The verdict: what the demo has shown, and what was wrong. Asked when all workers are dead and the ttl has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from relet.demo.referee import Referee
from relet.errors import PoolDamaged
from relet.model import Stats
from relet.pool import Pool

HOLD_S = 120.0
"""How long the leases of the last count last: none lapses while the rest is counted."""


@dataclass
class Verdict:
    """The outcome. ``problems`` are sentences; there are none where all is well."""

    resources: int
    workers: int
    seconds: float
    """From the first worker's start to the last one's death."""
    grants: int = 0
    kills: int = 0
    lapses: int = 0
    late: int = 0
    """Slow workers that were told, rightly, that their lease was over."""
    doubled: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.doubled or self.lost or self.problems)

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def judge(verdict: Verdict, pool: Pool, referee: Referee, resources: Sequence[str]) -> None:
    """Fill the verdict in. Nobody but the caller may be using the pool by now, and every lease must have lapsed."""
    stats = _stats(verdict, pool)
    if stats is not None:
        _at_rest(verdict, stats, referee, len(resources))
    _lease_them_all(verdict, pool, referee, resources)
    tally = referee.tally()
    verdict.doubled = tally.doubled
    verdict.late = tally.told_lost
    if tally.disordered:
        verdict.problems.append(f"{tally.disordered} grants had a fence no higher than that of the grant before")
    if tally.revived:
        verdict.problems.append(f"{tally.revived} releases were accepted after the lease was over")


def _stats(verdict: Verdict, pool: Pool) -> Stats | None:
    try:
        return pool.stats()
    except PoolDamaged as error:
        verdict.problems.append(str(error))
        return None


def _at_rest(verdict: Verdict, stats: Stats, referee: Referee, total: int) -> None:
    """What the pool says of itself must fit what was done to it."""
    verdict.grants = stats.granted
    verdict.lapses = stats.lapsed
    if (stats.total, stats.free, stats.leased) != (total, total, 0):
        verdict.problems.append(
            f"with all workers dead and the ttl over, the pool says total {stats.total}, free {stats.free}, "
            f"leased {stats.leased}; {total}, {total}, 0 would be right"
        )
    tally = referee.tally()
    unseen = stats.granted - tally.entered - tally.late
    if not 0 <= unseen <= verdict.kills:  # a worker may be killed between its grant and its word to the referee
        verdict.problems.append(
            f"the pool counts {stats.granted} grants and the referee {tally.entered + tally.late}; "
            f"{verdict.kills} kills can hide at most as many"
        )


def _lease_them_all(verdict: Verdict, pool: Pool, referee: Referee, resources: Sequence[str]) -> None:
    """Lease everything at once: what does not come is lost, what comes twice is doubled (the referee sees it)."""
    came: Counter[str] = Counter()
    try:
        while came.total() < 2 * len(resources):
            asked_ms = referee.now()
            lease = pool.try_acquire(HOLD_S)
            if lease is None:
                break
            came[lease.resource] += 1
            referee.enter(lease.resource, lease.token, lease.fence, asked_ms + round(HOLD_S * 1000))
    except PoolDamaged as error:
        if str(error) not in verdict.problems:
            verdict.problems.append(str(error))
    verdict.lost = sum(1 for name in resources if name not in came)
    strange = sorted(set(came) - set(resources))
    if strange:
        verdict.problems.append(f"the pool handed out {len(strange)} resources it was never given, like {strange[0]!r}")
