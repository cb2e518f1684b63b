"""Leases that replicas have confirmed: what ``min_replicas`` adds to an acquire.

A server answers before its replicas have what it wrote; one that dies then takes the lease with it, and the replica
that is promoted grants the resource again. So the new holder renews its lease, and over the same connection asks the
server to WAIT until enough replicas have that. They take writes in their order: who has the renewal has the grant,
whichever connection that came by. Renewals and releases are not waited for: one that gets lost leaves the lease its
earlier deadline, or leaves the resource leased until its deadline.

It costs a connection and some round trips an acquire, which is why nobody gets it without asking.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from relet.clock import lease_end, monotonic
from relet.errors import NotReplicated
from relet.line import RETRY_S, Pause, Unreachable
from relet.model import Grant
from relet.names import token_of
from relet.requests import Request, Requests
from relet.waiting import Granted, give_up

CONFIRM_S = 1.0
"""Seconds that replicas have, but no more than a third of the ttl."""


class Confirm(NamedTuple):
    """Effect: send the renewal, and WAIT for so many replicas over the same connection; answers the new deadlines, and
    how many replicas there were. Raises Unreachable."""

    renewal: Request[list[int | None]]
    replicas: int
    wait_ms: int


def confirmed(
    requests: Requests, token: str, ttl_ms: int, granted: Granted, replicas: int
) -> Generator[Any, Any, Granted]:
    """The grants as they are once enough replicas have them; else they are given back.

    Raises:
        NotReplicated: too few replicas confirmed in time, or the master was replaced by one that knew nothing of it.
    """
    count = len(granted)
    wait_ms = max(1, min(round(CONFIRM_S * 1000), ttl_ms // 3))
    renewal = requests.renew(
        [(token_of(token, number), ttl_ms, grant.fence) for number, (grant, _) in enumerate(granted, 1)]
    )
    until = monotonic() + wait_ms / 1000
    try:
        while True:
            asked_at = monotonic()
            try:
                deadlines, reached = yield Confirm(renewal, replicas, wait_ms)
                break
            except Unreachable:
                if monotonic() >= until:
                    raise
                yield Pause(None, monotonic() + RETRY_S)
        if reached < replicas or None in deadlines:
            names = ", ".join(repr(grant.resource) for grant, _ in granted)
            raise NotReplicated(_too_few(requests.pool, names, reached, replicas, wait_ms))
    except GeneratorExit:
        raise  # nobody is left who could send: the deadline does it
    except BaseException:
        yield from give_up(requests, token, count)
        raise
    return [
        (_renewed(grant, deadline_ms), lease_end(asked_at, ttl_ms))
        for (grant, _), deadline_ms in zip(granted, deadlines, strict=True)
    ]


def _renewed(grant: Grant, deadline_ms: int) -> Grant:
    return grant._replace(deadline_ms=deadline_ms)


def _too_few(pool: str, names: str, reached: int, replicas: int, wait_ms: int) -> str:
    if reached >= replicas:
        return f"the lease of {names} in pool {pool!r} got lost with its master: acquire again"
    return (
        f"{reached} of {replicas} replicas confirmed the lease of {names} in pool {pool!r} within {wait_ms} ms: it was "
        f"given back. Look whether the replicas run and keep up (INFO replication), or ask for fewer by min_replicas"
    )
