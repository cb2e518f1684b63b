"""Who waits in line, as ``ls``, ``status`` and ``watch`` show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from relet.cli import output
from relet.model import Stats, Waiter
from relet.pool import Pool

LISTED = 100
"""Of a longer line the first so many are shown."""
COLUMNS = (
    output.Column("WAITING"),
    output.Column("COUNT", right=True),
    output.Column("FOR", right=True),
    output.Column("TTL", right=True),
)


def first_in_line(pool: Pool, stats: Stats, limit: int = LISTED) -> list[Waiter]:
    """The first in line; the server is not asked again where these counts have nobody in it."""
    return pool.waiters(limit) if stats.waiting else []


def longest_wait(waiters: Iterable[Waiter]) -> float | None:
    """In seconds; None without waiters, or where it is not known."""
    return max((one.waited for one in waiters if one.waited is not None), default=None)


def waiting(stats: Stats, waiters: Iterable[Waiter]) -> str:
    """How many wait, for people: ``2 (the longest for 1.5 s)``."""
    longest = longest_wait(waiters)
    return str(stats.waiting) + ("" if longest is None else f" (the longest for {output.duration(longest)})")


def rows_of(waiters: Iterable[Waiter]) -> list[tuple[str, ...]]:
    """The cells of a table with these COLUMNS."""
    return [(one.owner, str(one.count), output.duration(one.waited), output.duration(one.ttl)) for one in waiters]


def as_json(waiters: Sequence[Waiter]) -> list[dict[str, Any]]:
    return [asdict(one) for one in waiters]
