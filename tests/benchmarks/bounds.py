"""How long a single call keeps the server, by the server's own clock, where there is much to do.

    python -m tests.benchmarks.bounds [--server redis-7.0] [--lapses 100000] [--names 50000]

For each server and each kind of work: how many calls it took, their mean and the longest of them in ms, from INFO
commandstats and SLOWLOG, which time the carrying out of a command alone, without waiting and network. What has to be
free again is checked. Exit code 1 if a call took longer than 5 ms.

Redis and Valkey as their users get them come with jemalloc; the wheels that the suite takes Redis 6.2 and Valkey from
are built with glibc's malloc instead. That one puts small freed chunks aside (its fastbins), and merges 100,000s of
them in the midst of whatever call next asks for a large one. So it is told not to, which other builds do not notice.

On a busy machine the kernel may halt the server in the midst of a call, and the clock goes on: run it again before you
believe a single high figure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import redis

from relet import Pool
from tests.lapses import lapse_together, lease_many
from tests.servers import SERVERS, Server, Unavailable

LIMIT_MS = 5.0
LOGGED_US = 300  # the slow log takes what is slower; less, and it would log, and slow, what goes on inside a script
LOG_ENTRIES = 20_000
POOL = "bounds"
NO_FASTBINS = "glibc.malloc.mxfast=0"


class Timing(NamedTuple):
    work: str
    calls: int
    mean_ms: float
    longest_ms: float  # 0 if all were too quick for the slow log


def timed(client: redis.Redis, work: str, run: Callable[[], object]) -> Timing:
    """Runs, and reads what the server needed for each script."""
    client.slowlog_reset()
    client.config_resetstat()
    run()
    statistics: dict[str, Any] = client.info("commandstats")  # type: ignore[assignment]
    of_scripts = [statistics[key] for key in ("cmdstat_evalsha", "cmdstat_eval") if key in statistics]
    calls = sum(one["calls"] - one.get("failed_calls", 0) for one in of_scripts)
    entries: list[dict[str, Any]] = client.slowlog_get(LOG_ENTRIES)
    took = [entry["duration"] / 1000 for entry in entries if entry["command"].startswith((b"EVALSHA", b"EVAL "))]
    return Timing(work, calls, sum(one["usec"] for one in of_scripts) / 1000 / calls, max(took, default=0))


def lapses(client: redis.Redis, count: int) -> list[Timing]:
    """What the first calls meet that come after ``count`` leases lapsed in one instant."""
    pool = Pool(client, POOL)
    timings = []

    def acquires() -> None:
        for _ in range(500):
            pool.acquire(timeout=0).release()

    def until_free() -> None:
        while client.zcard(f"relet:pool:{{{POOL}}}:leased"):
            pool.acquire(timeout=0).release()

    for work, run in (("reclaim", pool.reclaim), ("acquire + release", acquires), ("until all are free", until_free)):
        if work != "until all are free":
            lapse_together(client, pool, count)
        timings.append(timed(client, f"{count:,} lapsed: {work}", run))
        if work == "reclaim":
            assert pool.stats().free == count == client.zcard(f"relet:pool:{{{POOL}}}:free")
            pool.destroy()
    assert pool.stats().free == count == client.zcard(f"relet:pool:{{{POOL}}}:free")
    timings.append(timed(client, f"{count:,} lapsed: stats", pool.stats))
    pool.destroy()
    lease_many(client, pool, count)
    timings.append(timed(client, f"{count:,} leased: remove", lambda: pool.remove(names("lapse-", count))))
    timings.append(timed(client, f"{count:,} leased: destroy", pool.destroy))
    return timings


def in_order(client: redis.Redis, count: int, order: str) -> list[Timing]:
    pool = Pool(client, POOL)
    plain = names("name-", count)
    timings = [
        timed(client, f"{count:,} names, {order}: add", lambda: pool.add(plain, order=order)),
        timed(client, f"{count:,} names, {order}: list", lambda: list(pool.resources())),
        timed(client, f"{count:,} names, {order}: set_order", lambda: pool.set_order("lru")),
        timed(client, f"{count:,} names, {order}: remove", lambda: pool.remove(plain)),
    ]
    assert pool.stats().total == 0
    pool.destroy()
    return timings


def with_attributes(client: redis.Redis, count: int) -> list[Timing]:
    pool = Pool(client, POOL)
    rich = {name: {"site": "north", "memory": 80} for name in names("name-", count)}
    timings = [
        timed(client, f"{count:,} names, attributes: add", lambda: pool.add(rich)),
        timed(client, f"{count:,} names, attributes: remove", lambda: pool.remove(rich)),
    ]
    pool.destroy()
    return timings


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:07}" for number in range(count)]


def shown(longest_ms: float) -> str:
    return f"{longest_ms:.3f}" if longest_ms else f"< {LOGGED_US / 1000:.3f}"


def measure(name: str, lapsed: int, named: int) -> list[Timing]:
    options: dict[str, Any] = {"slowlog_log_slower_than": LOGGED_US, "slowlog_max_len": LOG_ENTRIES}
    with Server.start(name, **options) as server, server.client(socket_timeout=120) as client:
        orders = [*in_order(client, named, "rank"), *in_order(client, named, "random")]
        return [*lapses(client, lapsed), *orders, *with_attributes(client, named)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", action="append", choices=SERVERS, help="one of these; again for more; default: all")
    parser.add_argument("--lapses", type=int, default=100_000)
    parser.add_argument("--names", type=int, default=50_000)
    arguments = parser.parse_args()
    os.environ.setdefault("GLIBC_TUNABLES", NO_FASTBINS)
    worst = 0.0
    for name in arguments.server or SERVERS:
        try:
            timings = measure(name, arguments.lapses, arguments.names)
        except Unavailable as reason:
            print(f"\n{name}: left out: {reason}", flush=True)
            continue
        print(f"\n{name:<40} {'calls':>7} {'mean ms':>10} {'longest ms':>11}")
        for work, calls, mean, longest in timings:
            over = "  <- over" if longest > LIMIT_MS else ""
            print(f"{work:<40} {calls:>7,} {mean:>10.3f} {shown(longest):>11}{over}")
        sys.stdout.flush()
        worst = max(worst, *(timing.longest_ms for timing in timings))
    print(f"\nThe longest call took {worst:.3f} ms; the limit is {LIMIT_MS:g} ms.")
    return int(worst > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
