"""A pool with something in every state, and what the doctor says of it."""

from __future__ import annotations

from typing import NamedTuple

import redis

from relet import Lease, Pool
from relet.doctor import Finding
from relet.doctor.pool import examine, repair
from tests.helpers import Raw, lease_all

KEYS = ("", ":resources", ":free", ":leased", ":quarantined", ":leaving", ":held", ":attributes", ":ended", ":log")
SIZE = 9


class Mixed(NamedTuple):
    """Two leases, one of a resource that leaves, one that is held; two aside; three free."""

    plain: Lease
    leaving: Lease
    held: Lease
    others: list[Lease]

    @property
    def live(self) -> list[Lease]:
        return [self.plain, self.leaving, self.held, *self.others]


def mixed(pool: Pool, order: str = "rank") -> Mixed:
    """Makes the pool."""
    pool.add({f"r{number}": {"number": number} for number in range(SIZE)}, order=order)
    plain, leaving, held, other, dirty = lease_all(pool, 5)
    pool.remove(leaving.resource)
    pool.quarantine(held.resource, reason="screen is black")
    dirty.release(quarantine="mud")
    spare = [info.name for info in pool.resources() if info.state == "free"][-1]
    pool.drain(spare, reason="to be moved")
    other.renew(30)  # shortened, which `ended` remembers
    return Mixed(plain, leaving, held, [other])


def examined(pool: Pool) -> list[Finding]:
    """What is wrong: not what is in order."""
    return [finding for finding in pool._run(examine(pool._requests)) if finding.level != "ok"]


def mended(pool: Pool, order: str = "") -> list[str]:
    return [finding.what for finding in pool._run(repair(pool._requests, order))]


def texts(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.level} {finding.what} {finding.todo}" for finding in findings)


def sound(pool: Pool) -> None:
    """Nothing is wrong any more, and a second repair has nothing to do."""
    assert examined(pool) == []
    assert mended(pool) == []


def all_once(pool: Pool, held: list[Lease], total: int) -> set[str]:
    """Grants all that is not held; what can be granted, and to whom, is each resource once. Answers those granted."""
    pool.restore(*(info.name for info in pool.resources() if info.mark == "quarantine" and info.state != "leased"))
    pool.undrain(*(info.name for info in pool.resources() if info.mark == "drain" and info.state != "leased"))
    granted: list[Lease] = []
    while (lease := pool.try_acquire(60)) is not None:
        granted.append(lease)
    names = [lease.resource for lease in [*held, *granted]]
    assert len(names) == len(set(names)), "granted twice"
    assert len(names) == total == pool.stats().total
    fences = [lease.fence for lease in held]
    assert all(lease.fence > fence for lease in granted for fence in fences), "fences rise"
    return {lease.resource for lease in granted}


def root_of(pool: Pool, client: redis.Redis) -> str:
    return Raw(client, pool).root
