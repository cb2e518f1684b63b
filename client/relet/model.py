"""What the pool answers: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

State = Literal["free", "leased", "quarantined"]
Mark = Literal["quarantine", "drain", "cleaning", "leaving"]


class Grant(NamedTuple):
    """A lease as the server granted it."""

    resource: str
    fence: int
    deadline_ms: int
    """On the server's clock."""
    left_ms: int
    """Until the deadline, when the server answered."""
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Stats:
    """Counts of one instant. A lapsed lease counts as free (or as quarantined, if that is where the resource goes) and
    as lapsed, whether or not it was reclaimed yet.

    ``total`` = ``free`` + ``leased`` + ``quarantined`` (those that are drained among them);
    ``granted`` = ``released`` + ``lapsed`` + ``leased``. The last three count since the pool was made.
    """

    total: int
    free: int
    leased: int
    waiting: int
    quarantined: int
    granted: int
    released: int
    lapsed: int


@dataclass(frozen=True)
class ResourceInfo:
    """One resource, as :meth:`relet.Pool.resources` shows it.

    ``owner``, ``fence`` and ``remaining`` (seconds until the deadline) are those of the lease, None without one.
    ``token`` is always None: it would let any reader release the lease.
    """

    name: str
    state: State
    attributes: Mapping[str, Any] = field(default_factory=dict)
    owner: str | None = None
    fence: int | None = None
    token: None = None
    remaining: float | None = None
    since: float | None = None
    """Seconds that it has been leased, or kept aside; None where that is not known."""
    mark: Mark | None = None
    """Why it is kept aside, or what becomes of a leased one: ``"quarantine"`` or ``"drain"`` when it comes back,
    ``"leaving"`` the pool then, ``"cleaning"``: its holder cleans it."""
    reason: str | None = None
    """What was said when it was marked so."""


@dataclass(frozen=True)
class Waiter:
    """Who waits in line for a pool, as :meth:`relet.Pool.waiters` shows it. Its token is its own business."""

    owner: str
    count: int
    """How many resources it waits for, all or none."""
    ttl: float
    """Of the leases that it asks for, in seconds."""
    waited: float | None
    """Seconds since it took its place; None where that is not known."""


@dataclass(frozen=True)
class Policy:
    """Where a pool's resources go that come back: ``"free"``, or ``"quarantine"`` for whoever cleans them."""

    on_lapse: str = "free"
    on_release: str = "free"
