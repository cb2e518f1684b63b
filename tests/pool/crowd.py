"""What each process of a crowd does. A module of its own, so that new processes can import it."""

from __future__ import annotations

import time
from contextlib import closing
from multiprocessing.synchronize import Barrier as ProcessBarrier
from typing import NamedTuple

import redis

from relet import Pool

START_TIMEOUT_S = 120

_start: ProcessBarrier


class Job(NamedTuple):
    url: str
    pool: str
    pairs: int
    referee: str
    """Prefix of the referee's counters, one a resource, which know nothing of the pool."""


class Outcome(NamedTuple):
    """What one process saw."""

    grants: int
    doubled: list[str]
    """Resources that somebody else was using."""


def prepare(start: ProcessBarrier) -> None:
    """Run once in each process."""
    global _start  # noqa: PLW0603 (a barrier reaches a process only when it is started)
    _start = start


def is_ready() -> bool:
    """Returns once every process of the crowd is there, so that each of them gets one job of the next batch."""
    _start.wait(START_TIMEOUT_S)
    return True


def acquire_once(job: Job) -> tuple[str | None, int]:
    """One try, in the same moment as everybody else: the resource and the fence."""
    with closing(redis.Redis.from_url(job.url)) as client:
        client.ping()
        pool = Pool(client, job.pool, ttl=300)
        _start.wait(START_TIMEOUT_S)
        lease = pool.try_acquire()
        return (lease.resource, lease.fence) if lease else (None, 0)


def work(job: Job) -> Outcome:
    """Acquires and releases ``job.pairs`` times, and lets the referee count each use."""
    doubled = []
    with closing(redis.Redis.from_url(job.url)) as client:
        pool = Pool(client, job.pool, ttl=300)
        _start.wait(START_TIMEOUT_S)
        for _ in range(job.pairs):
            while not (lease := pool.try_acquire()):
                time.sleep(0.004)
            users = f"{job.referee}{lease.resource}"
            if client.incr(users) != 1:
                doubled.append(lease.resource)
            client.decr(users)
            lease.release()
    return Outcome(job.pairs, doubled)
