"""Acquire + release pairs beside a bare SPOP + SADD pair and two EVALSHA of `return 1`, interleaved in one run.

    python -m tests.benchmarks.pairs [--server valkey-9.1] [--sizes 100,10000,1000000] [--rounds 15] [--pairs 1000]

The bare pair is the limit: it hands out a name and takes it back, and knows no deadline, owner, fence or order. The two
empty scripts show what two round trips with a script cost before the script does anything. Figures are ratios to the
bare pair within one round, so that a busy machine slows all three alike; the table gives their median and quartiles.
"Server µs" is the server's own time a pair, from INFO commandstats.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import redis

from relet import Pool
from relet.names import new_token
from tests.servers import SERVERS, Server

TTL_S = 300 * 86400
POOL = "pairs"
BARE = "bare:set"


def fill(client: redis.Redis, pool: Pool, size: int, leased: float) -> None:
    """`size` resources of which the share `leased` is leased, and the same in a bare set."""
    names = [f"resource-{number}" for number in range(size)]
    pool.add(names)
    taken = int(size * leased)
    for start in range(0, taken, 5000):
        pipeline = client.pipeline(transaction=False)
        for _ in range(start, min(start + 5000, taken)):
            request = pool._requests.acquire(new_token(), TTL_S * 1000, b"somebody@somewhere:1")
            pipeline.execute_command(*pool._backend.command(request, whole=False))
        pipeline.execute()
    for start in range(taken, size, 5000):
        client.sadd(BARE, *names[start : start + 5000])


def contenders(client: redis.Redis, pool: Pool) -> dict[str, Callable[[], Any]]:
    empty = client.script_load("return 1")

    def relet() -> None:
        pool.acquire(timeout=0).release()

    def bare() -> None:
        client.sadd(BARE, client.spop(BARE))

    def scripts() -> None:
        client.evalsha(empty, 1, BARE)
        client.evalsha(empty, 1, BARE)

    return {"relet": relet, "SPOP + SADD": bare, "2 × return 1": scripts}


def rate(work: Callable[[], Any], pairs: int) -> float:
    start = time.perf_counter()
    for _ in range(pairs):
        work()
    return pairs / (time.perf_counter() - start)


def server_us(client: redis.Redis, work: Callable[[], Any], pairs: int) -> float:
    client.config_resetstat()
    for _ in range(pairs):
        work()
    stats: Any = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "spop", "sadd")) / pairs


def measure(client: redis.Redis, size: int, leased: float, rounds: int, pairs: int) -> None:
    client.flushall()
    pool = Pool(client, POOL, ttl=TTL_S)
    for _ in range(2):  # loads the script: a pool's first one proves its rights as well, and is another
        pool.try_acquire()
    fill(client, pool, size, leased)
    work = contenders(client, pool)
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, pair in work.items():
            rates[name].append(rate(pair, pairs))
    for name, pair in work.items():
        ratios = [mine / bare for mine, bare in zip(rates[name], rates["SPOP + SADD"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{size:>9,} {leased:>6.0%}  {name:<13} {statistics.median(rates[name]):>9,.0f}  "
            f"{middle:>5.2f} ({low:.2f} to {high:.2f})  {server_us(client, pair, pairs):>8.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="valkey-9.1", choices=sorted(SERVERS))
    parser.add_argument("--sizes", default="100,10000,1000000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of each kind a round")
    options = parser.parse_args()
    with Server.start(SERVERS[options.server]) as server, redis.Redis.from_url(server.url) as client:
        print(f"{options.server}, redis-py {redis.__version__}, one client, {options.rounds} rounds of {options.pairs}")
        print(f"{'resources':>9} {'leased':>6}  {'':<13} {'pairs/s':>9}  {'of the bare pair':<20}  {'server µs':>8}")
        for size in map(int, options.sizes.split(",")):
            for leased in (0.0, 0.99):
                measure(client, size, leased, options.rounds, options.pairs)


if __name__ == "__main__":
    main()
