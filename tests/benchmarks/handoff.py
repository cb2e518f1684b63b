"""How soon a waiter has the resource: after a release, and after a lapse.

    python -m tests.benchmarks.handoff [--server valkey-9.1] [--rounds 300] [--foreign 1000000]

Release: one process waits in `acquire`, another releases; beside it, in the same run and in turns, a process that is
subscribed to a channel while another publishes (the least that telling somebody takes), and one that waits for a
`redis.lock.Lock` of redis-py. Times are from just before the call that frees to just after the call that waited, on the
machine's steady clock. Release around the start of a wait: 0 to 2 ms after another process was told to acquire, from
the release until it had the resource. Lapse: from the deadline on the server's clock to the grant, also on the
server's clock, with nobody calling; and the same beside a million foreign keys that have a TTL.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import redis

from relet import Lease, Pool
from tests.servers import SERVERS, Server

POOL = "handoff"


def wait_pool(url: str, pipe: Connection) -> None:
    with redis.Redis.from_url(url) as client:
        pool = Pool(client, POOL, ttl=60)
        while pipe.recv():
            lease = pool.acquire(timeout=30)
            pipe.send(time.monotonic_ns())
            lease.release()
            pipe.send(None)


def wait_channel(url: str, pipe: Connection) -> None:
    with redis.Redis.from_url(url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("bare")
        while pubsub.get_message(timeout=1) is not None:
            pass
        while pipe.recv():
            while pubsub.get_message(timeout=30) is None:
                pass
            pipe.send(time.monotonic_ns())
            pipe.send(None)


def wait_lock(url: str, pipe: Connection) -> None:
    with redis.Redis.from_url(url) as client:
        while pipe.recv():
            lock = client.lock("polled", timeout=60, thread_local=False)
            lock.acquire(blocking=True)
            pipe.send(time.monotonic_ns())
            lock.release()
            pipe.send(None)


class Contender:
    """A process that waits, and how to take and free what it waits for."""

    def __init__(self, url: str, waiter: Callable[[str, Connection], None]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=waiter, args=(url, theirs), daemon=True)
        self.process.start()

    def run(self, take: Callable[[], Any], free: Callable[[Any], Any], pause: float) -> float:
        """µs from the call that frees to the end of the call that waited."""
        held = take()
        self.pipe.send(True)
        time.sleep(pause)  # until it waits; how long changes at which point of a poll the release comes
        start = time.monotonic_ns()
        free(held)
        took = (self.pipe.recv() - start) / 1000
        self.pipe.recv()
        return float(took)

    def end(self) -> None:
        self.pipe.send(False)
        self.process.join()


def released(url: str, client: redis.Redis, rounds: int) -> None:
    pool = Pool(client, POOL, ttl=60)
    pool.add("only")

    def take_lock() -> Any:
        lock = client.lock("polled", timeout=60, thread_local=False)
        lock.acquire()
        return lock

    contenders: dict[str, tuple[Contender, Callable[[], Any], Callable[[Any], Any]]] = {
        "relet": (Contender(url, wait_pool), pool.acquire, lambda lease: lease.release()),
        "PUBLISH": (Contender(url, wait_channel), lambda: None, lambda _: client.publish("bare", "x" * 90)),
        "redis-py Lock": (Contender(url, wait_lock), take_lock, lambda lock: lock.release()),
    }
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 10):
        for name, (contender, take, free) in contenders.items():
            us = contender.run(take, free, 0.01 + 0.1 * (number % 17) / 17)
            if number >= 10:
                took[name].append(us)
    for contender, _, _ in contenders.values():
        contender.end()
    bare = statistics.median(took["PUBLISH"])
    print(f"\nrelease to waiter, {rounds} rounds {'median µs':>16} {'90 %':>9} {'99 %':>9}   of the bare PUBLISH")
    for name, all_us in took.items():
        middle, (*_, most) = statistics.median(all_us), statistics.quantiles(all_us, n=10)
        last = statistics.quantiles(all_us, n=100)[-1]
        print(f"  {name:<32} {middle:>9,.0f} {most:>9,.0f} {last:>9,.0f}   {middle / bare:>8.2f}", flush=True)
    pool.destroy()


def released_at_the_start(url: str, client: redis.Redis, rounds: int) -> None:
    pool = Pool(client, POOL, ttl=60)
    pool.add("only")
    contender = Contender(url, wait_pool)
    pauses = [0.01] * 10 + [0.002 * number / rounds for number in range(rounds)]
    took = [contender.run(pool.acquire, Lease.release, pause) / 1000 for pause in pauses][10:]
    contender.end()
    pool.destroy()
    middle, last = statistics.median(took), statistics.quantiles(took, n=100)[-1]
    print(f"  {middle:>9.2f} {last:>9.2f} {max(took):>9.2f}   served: {len(took):,} of {rounds:,}", flush=True)


def lapsed(client: redis.Redis, rounds: int) -> None:
    pool = Pool(client, POOL, ttl=60)
    pool.add("only")
    late = []
    for _ in range(rounds):
        held = pool.acquire(ttl=0.05)
        waiter = pool.acquire(timeout=10)
        granted_at = waiter.fence / 1000  # a fence is the server's time in µs
        late.append(granted_at - held._grant.deadline_ms)
        waiter.release()
    pool.destroy()
    middle, last = statistics.median(late), statistics.quantiles(late, n=100)[-1]
    print(f"  {middle:>9.2f} {last:>9.2f} {min(late):>9.2f} {max(late):>9.2f}", flush=True)


def foreign_keys(client: redis.Redis, count: int) -> None:
    for start in range(0, count, 10000):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, min(start + 10000, count)):
            pipeline.set(f"foreign:{number}", "x", ex=86400)
        pipeline.execute()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="valkey-9.1", choices=sorted(SERVERS))
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--starts", type=int, default=5000)
    parser.add_argument("--lapses", type=int, default=200)
    parser.add_argument("--foreign", type=int, default=1_000_000)
    options = parser.parse_args()
    with Server.start(SERVERS[options.server]) as server, redis.Redis.from_url(server.url) as client:
        print(f"{options.server}, redis-py {redis.__version__}")
        released(server.url, client, options.rounds)
        print("\nrelease 0 to 2 ms around the start of the wait, ms: median, 99 %, most")
        released_at_the_start(server.url, client, options.starts)
        print(f"\nlapse to waiter, {options.lapses} rounds, ms after the deadline: median, 99 %, least, most")
        lapsed(client, options.lapses)
        foreign_keys(client, options.foreign)
        print(f"  beside {options.foreign:,} keys with a TTL:")
        lapsed(client, options.lapses)


if __name__ == "__main__":
    main()
