"""How pools stand, a line each: for what is no terminal, and for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict

from relet.cli import waiters
from relet.cli.output import as_json, shown
from relet.cli.times import clock
from relet.cli.watching.looks import COUNTED, Watched


def lines(pools: Iterable[Watched], json: bool) -> list[str]:
    """A line for each of the pools."""
    now = time.time()
    if json:
        return [_as_json(one, now) for one in pools]
    return [f"{clock(now)}  {shown(one.pool.name)}  {_counts(one)}" for one in pools]


def _counts(watched: Watched) -> str:
    if watched.look is None:
        return "there is no such pool yet"
    look = watched.look
    counts = {**asdict(look.stats), "waiting": waiters.waiting(look.stats, look.waiters)}
    return "  ".join(f"{name} {counts[name]}" for name in (*COUNTED, "lapsed"))


def _as_json(watched: Watched, now: float) -> str:
    look = watched.look
    counts, line = (None, []) if look is None else (asdict(look.stats), waiters.as_json(look.waiters))
    return as_json({"at": round(now, 3), "pool": watched.pool.name, "stats": counts, "waiters": line})
