"""The flow of a wait: ask, queue up, wait to be told; and leave nothing behind, however it ends."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, TypeVar

from relet.clock import lease_end, monotonic
from relet.line import ANSWER_S, CONNECT_S, RETRY_S, Ask, Attach, Detach, Effect, Line, Pause, Unreachable
from relet.model import Grant
from relet.observing import Asked
from relet.requests import Request, Requests

T = TypeVar("T")

STALE = 7
"""Failures at the first contact that idle connections may explain, a client's and a pool's own."""

Granted = list[tuple[Grant, float]]
"""Grants, each with the time at which it ends on this machine's steady clock, at the latest."""


def wait_in_line(
    requests: Requests,
    token: str,
    count: int,
    ttl_ms: int,
    owner: bytes,
    ends_at: float | None,
    asked: Asked | None = None,
) -> Generator[Effect, Any, Granted]:
    """Acquires ``count`` resources, waiting until ``ends_at`` (None: for ever); answers nothing if the time is up.

    Whatever is thrown in from outside (a cancelled task, KeyboardInterrupt) goes on after the place in line, and what
    was granted meanwhile, is given up. A server that is lost is waited out, once it has answered at all.

    ``asked`` is told if it stands in line.
    """
    wait = _Wait(requests, token, count, ttl_ms, owner, ends_at, asked)
    try:
        while True:
            granted = None
            is_lost = False
            try:
                granted = yield from wait.turn()
            except Unreachable as lost:
                wait.failures += 1  # the first may be of connections that have been closed since they were used last
                is_hopeless = not (wait.reached or lost.stalled) and wait.failures > STALE
                if is_hopeless or (ends_at is not None and monotonic() >= ends_at):
                    raise
                is_lost = True
            if granted is not None:
                return granted
            if is_lost:  # outside of the handler: errors in it would be chained to this one, for as long as it goes on
                wait.seconds = min(wait.seconds * 2, CONNECT_S)  # it may be far away rather than gone
                yield Pause(None, min(monotonic() + RETRY_S, ends_at or math.inf))
    except GeneratorExit:
        raise  # nobody is left who could send: the deadline does it
    except BaseException:
        yield from give_up(requests, token, count)
        raise
    finally:
        if wait.line:
            wait.line.leave(token)


class _Wait:
    def __init__(
        self,
        requests: Requests,
        token: str,
        count: int,
        ttl_ms: int,
        owner: bytes,
        ends_at: float | None,
        asked: Asked | None,
    ) -> None:
        self._requests = requests
        self._token = token
        self._count = count
        self._ttl_ms = ttl_ms
        self._owner = owner
        self._ends_at = ends_at
        self._asked = asked
        self.line: Line | None = None
        self.reached = False
        """The server has answered once."""
        self.failures = 0
        self.seconds = ANSWER_S

    def turn(self) -> Generator[Effect, Any, Granted | None]:
        """Asks once, and waits if it has to; answers None if it is to be asked again."""
        line = None
        if self.reached:  # the first time nobody listens yet: often a resource is free
            self.line = line = yield Attach(self._within(CONNECT_S))
        place = line.join(self._token, self._count) if line else None
        channel = line.channel if line else None
        asked_at = monotonic()
        request = self._requests.acquire_many(self._token, self._ttl_ms, self._owner, self._count, channel)
        answer = yield Ask(request, self._within(self.seconds))
        self.reached, self.seconds = True, ANSWER_S
        if isinstance(answer, list):
            return [(grant, lease_end(asked_at, grant.left_ms)) for grant in answer]
        if line is None or place is None:
            return None
        line.told(answer, asked_at)
        if self._asked is not None:
            self._asked.waited = True
        yield Pause(place, self._ends_at)
        if place.ask_again:
            return None
        grants = place.grants
        if grants is None:  # the time is up; but a grant may be on its way
            grants = yield Ask(self._requests.leave(self._token, self._count, keep=True))
        return [(grant, line.server_time.local(grant.deadline_ms)) for grant in grants]

    def _within(self, seconds: float) -> float:
        """So many, but not much longer than there is left to wait."""
        return seconds if self._ends_at is None else min(seconds, max(0.0, self._ends_at - monotonic()) + ANSWER_S)


def ask(requests: Requests, request: Request[T], token: str, count: int) -> Generator[Effect, Any, tuple[T, float]]:
    """Sends a request for ``count`` leases; the answer, and when it was sent, on this machine's steady clock.

    Whoever is cancelled or interrupted meanwhile may have been granted them: they are given up.
    """
    asked_at = monotonic()
    try:
        answer = yield request
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        yield from give_up(requests, token, count)
        raise
    return answer, asked_at


def give_up(requests: Requests, token: str, count: int) -> Generator[Effect, Any, None]:
    """Gives up the place in line and what was granted; or if the server cannot be told, the connection.

    Raises no error of its own: its caller is about to raise why it is given up.
    """
    try:
        yield Ask(requests.leave(token, count, keep=False))
    except Exception:
        yield Detach()
