"""A worker: takes a resource, tells the referee, uses it a little, gives it back. It may be killed at any moment."""

from __future__ import annotations

import os
import random
import time

from relet.client import connect
from relet.demo.crowd import Job
from relet.demo.referee import Referee
from relet.errors import LeaseLost
from relet.holding import Lease
from relet.pool import Pool

USE_S = (0.002, 0.02)
"""The shortest and longest use of a resource."""
NAP_S = 0.01
"""Between two tries where none is free."""
DOZES = 0.001
"""The share of uses in which the worker falls asleep past its deadline."""
RENEWALS = 0.02
"""The share of uses in which it renews its lease half-way."""


class Worker:
    """The loop of one worker, in a process of its own."""

    def __init__(self, job: Job, number: int) -> None:
        self._client = connect(job.url)
        self._pool = Pool(self._client, job.pool, job.ttl, namespace=job.namespace, owner=f"worker-{number}")
        self._referee = Referee(self._client, job.pool)
        self._ttl_ms = round(job.ttl * 1000)
        self._random = random.Random()

    def work(self) -> None:
        """Goes on until it is killed, or the process that started it is gone."""
        parent = os.getppid()
        asked_ms = self._referee.now()
        while os.getppid() == parent:
            lease = self._pool.try_acquire()
            if lease is None:
                time.sleep(NAP_S)
                asked_ms = self._referee.now()
            else:
                asked_ms = self._use(lease, asked_ms)

    def _use(self, lease: Lease, asked_ms: int) -> int:
        """Use the resource and give it back; answers the server's clock as of before the end of the use."""
        entry = self._referee.enter(lease.resource, lease.token, lease.fence, asked_ms + self._ttl_ms)
        certainly_over_ms = entry.at_ms + self._ttl_ms
        chance = self._random.random()
        try:
            if chance < DOZES:
                time.sleep(lease.ttl * 1.1)
            else:
                time.sleep(self._random.uniform(*USE_S))
            if chance > 1 - RENEWALS:
                certainly_over_ms = self._renew(lease)
                time.sleep(self._random.uniform(*USE_S))
            left_ms = self._referee.leave(lease.resource, lease.token)
            lease.release()
        except LeaseLost:
            self._referee.note("told_lost")
            return self._referee.now()
        if left_ms >= certainly_over_ms:
            self._referee.note("revived")
        return left_ms

    def _renew(self, lease: Lease) -> int:
        """Answers when the renewed lease is over for certain, in ms of the server's clock."""
        asked_ms = self._referee.now()
        lease.renew()
        self._referee.extend(lease.resource, lease.token, asked_ms + self._ttl_ms)
        return self._referee.now() + self._ttl_ms
