"""What the sections have in common: how much to measure, and what they hand to the report."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

TTL_S = 300 * 86400.0


class Extent(NamedTuple):
    """How much is measured; ``slot_s`` is for how long a contender works before it is the next one's turn: short, since
    a busy machine changes its speed from second to second, and a share is of the bare pair in the same round."""

    sizes: tuple[int, ...] = (100, 10_000, 100_000)
    alone: tuple[int, ...] = (1_000_000,)  # sizes of relet and the bare pair only
    loads: tuple[float, ...] = (0.0, 0.5, 0.99)
    clients: tuple[int, ...] = (1, 8)
    rounds: int = 21
    slot_s: float = 0.03
    contended_s: float = 2.0
    handoffs: int = 40
    lapses: int = 5
    tasks: tuple[int, ...] = (1, 10, 100)
    growth: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000)
    waiters: tuple[int, ...] = (100, 1_000, 10_000)
    storm: int = 100_000  # leases


FULL = Extent()
QUICK = Extent(
    sizes=(100, 10_000),
    alone=(),
    loads=(0.0, 0.99),
    rounds=3,
    slot_s=0.05,
    contended_s=0.5,
    handoffs=6,
    lapses=1,
    tasks=(1, 10),
    growth=(100, 10_000),
    waiters=(100,),
    storm=10_000,
)
TINY = Extent(
    sizes=(20,),
    alone=(),
    loads=(0.0, 0.5),
    clients=(1, 2),
    rounds=2,
    slot_s=0.01,
    contended_s=0.05,
    handoffs=2,
    lapses=1,
    tasks=(2,),
    growth=(20, 40),
    waiters=(3,),
    storm=100,
)


class Table(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """``plot`` draws on a figure of matplotlib."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    plot: Callable[[Any], None] | None = None


def spread(values: Sequence[float], digits: int = 2) -> str:
    """``median (quartile to quartile)``; the values alone where there are fewer than three."""
    if len(values) < 3:
        return " / ".join(number(value, digits) for value in values) or "–"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{number(middle, digits)} ({number(low, digits)} to {number(high, digits)})"


def number(value: float, digits: int) -> str:
    """With so many digits behind the point, and more where nothing but zeros would be left."""
    text = f"{value:,.{digits}f}"
    return text if value == 0 or float(text.replace(",", "")) >= 10**-digits * 2 else f"{value:.1g}"


def slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
