"""A process whose main thread gets a SIGINT at a random moment, again and again: run by test_cancel.py.

    python -m tests.waiting.interrupts URL POOL COUNT

Ends with code 0 and the line "all is well", or says what was wrong.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
import traceback
from queue import SimpleQueue
from typing import Any

import redis

from relet import Pool, PoolExhausted

TTL_S = 0.5
GUARD_S = 20.0
LONGEST_S = 0.006

wrong: list[str] = []


def check_echo(client: redis.Redis, number: int) -> None:
    text = f"{threading.get_ident()} {number}".encode()
    answer = client.echo(text)
    if answer != text:
        wrong.append(f"the reply to ECHO {text!r} was {answer!r}")


def acquire(pool: Pool) -> None:
    pool.acquire(timeout=GUARD_S).release()


def try_acquire(pool: Pool) -> None:
    lease = pool.try_acquire()
    if lease:
        lease.renew()
        lease.release()


def hold(pool: Pool) -> None:
    with pool.lease(timeout=GUARD_S):
        time.sleep(0.0005)


def two(pool: Pool) -> None:
    pool.release_many(pool.acquire_many(2, timeout=GUARD_S))


def strike(moments: SimpleQueue[float | None]) -> None:
    while (delay := moments.get()) is not None:
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)


def rival(pool: Pool, client: redis.Redis, stop: threading.Event) -> None:
    """Takes all there is and gives it back, so that the main thread waits; over the same pool and client."""
    number = 0
    while not stop.is_set():
        number += 1
        leases = pool.acquire_many(3, ttl=60, timeout=GUARD_S)
        time.sleep(0.0005)
        pool.release_many(leases)
        check_echo(client, number)


def unraisable(what: Any) -> None:
    """An interrupt that hits a destructor is swallowed by Python."""
    where = getattr(what.object, "__qualname__", repr(what.object))
    module = getattr(what.object, "__module__", "")
    if str(module).startswith("relet"):
        wrong.append(f"{what.exc_value!r} was swallowed in {module}.{where}")
    elif not isinstance(what.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def interrupt(pool: Pool, client: redis.Redis, count: int) -> None:
    dice = random.Random(count)
    moments: SimpleQueue[float | None] = SimpleQueue()
    striker = threading.Thread(target=strike, args=(moments,), daemon=True)
    striker.start()
    for number in range(count):
        verb = dice.choice((acquire, try_acquire, hold, two))
        try:
            moments.put(dice.random() * LONGEST_S)
            until = time.monotonic() + GUARD_S
            while time.monotonic() < until:
                verb(pool)
            wrong.append(f"the interrupt of {verb.__name__} did not come out")
        except KeyboardInterrupt:
            pass
        except Exception:
            wrong.append(f"{verb.__name__} raised this instead of KeyboardInterrupt:\n{traceback.format_exc()}")
        check_echo(client, number)
    moments.put(None)
    striker.join()


def use_it_all(pool: Pool, client: redis.Redis) -> None:
    """More threads than it has permits, connections or locks."""

    def use() -> None:
        for number in range(5):
            pool.acquire(timeout=GUARD_S).release()
            pool.stats()
            check_echo(client, number)
        done.append(1)

    done: list[int] = []
    threads = [threading.Thread(target=use) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    if len(done) != len(threads):
        wrong.append(f"{len(threads) - len(done)} of {len(threads)} threads cannot use the pool any more")


def import_all(pool: Pool) -> None:
    """What redis-py imports when it first connects (and Python's codecs with it, for a host's name).

    An import that is interrupted while another thread needs the same module fails in that thread too, and of an
    encoding Python then remembers for good that there is none. No library can mend that.
    """
    leases = pool.acquire_many(3, ttl=60)
    with contextlib.suppress(PoolExhausted):
        pool.acquire_many(3, timeout=0.01)
    pool.release_many(leases)


def main(url: str, name: str, count: str) -> None:
    sys.unraisablehook = unraisable
    client = redis.Redis.from_url(url)
    pool = Pool(client, name, ttl=TTL_S)
    import_all(pool)
    stop = threading.Event()
    rivals = threading.Thread(target=rival, args=(pool, client, stop))
    rivals.start()
    try:
        interrupt(pool, client, int(count))
    finally:
        stop.set()
    rivals.join(GUARD_S)
    until = time.monotonic() + GUARD_S
    while pool.stats().free < 3:  # what was granted when an interrupt came is back at its deadline
        if time.monotonic() > until:
            wrong.append(f"not every resource came back: {pool.stats()}")
            break
        time.sleep(0.01)
    use_it_all(pool, client)
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.01)
    if threading.active_count() > 1:
        wrong.append(f"threads are left: {threading.enumerate()}")
    pool.close()
    client.close()
    print("\n".join(wrong) or "all is well", flush=True)
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
