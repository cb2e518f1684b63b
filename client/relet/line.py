"""Waiting in line, without I/O: what the waiters of one process know about a pool, and what they ask of their driver.

One connection a process and pool is told of every grant to its waiters (a pub/sub channel that nobody else listens
to: where it has no receiver, the server passes its waiters over). Nobody polls. The process also keeps its own clock on
the nearest deadline and calls ``attend`` when it comes, so that a lapse is noticed even where nothing announces it, and
every ATTEND_S, so that a place or a message that was lost with a server or a connection is noticed too.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from relet.clock import ServerTime, monotonic
from relet.model import Grant
from relet.names import new_token
from relet.requests import Request, Requests, Standing, decode_grants

ATTEND_S = 2.0
"""Seconds between two looks at the line while nothing happens."""
ANSWER_S = 0.5
"""Seconds after which a server that does not answer a waiter counts as unreachable."""
CONNECT_S = 2.0
"""Seconds to connect in."""
RETRY_S = 0.05
"""Seconds between two tries to reach a server that was lost."""
BATCH = 250
"""Waiters that one call attends to."""


class Unreachable(Exception):
    """The server cannot be asked just now; ``reason`` is what the client library raised.

    ``stalled``: it may answer yet, so that even who has never reached it tries again. ``silent``: it did not answer.
    """

    def __init__(self, reason: BaseException, stalled: bool, silent: bool = False) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.stalled = stalled
        self.silent = silent


class Outage:
    """Remembers for ANSWER_S that the server is silent, so that those who wait don't find out one after another."""

    def __init__(self) -> None:
        self._reason: BaseException = TimeoutError()
        self._until = 0.0

    def check(self) -> None:
        """Raises Unreachable while the server counts as silent."""
        if self._until and monotonic() < self._until:
            raise Unreachable(copy.copy(self._reason), stalled=True)  # one exception is not raised in many threads

    def begins(self, reason: BaseException) -> None:
        self._reason, self._until = reason, monotonic() + ANSWER_S

    def ends(self) -> None:
        self._until = 0.0


class Place:
    """One waiter's place in line. ``outcome`` is what it waits for: grants, or that it has to ask again."""

    __slots__ = ("ask_again", "bell", "count", "grants", "present", "token")

    def __init__(self, token: str, count: int) -> None:
        self.token = token
        self.count = count
        self.grants: list[Grant] | None = None
        self.ask_again = False
        self.bell: Any = None
        """How the driver wakes this waiter."""
        self.present: Any = None
        """How the driver of threads sees whether the waiter is still there."""

    @property
    def decided(self) -> bool:
        return self.ask_again or self.grants is not None


class Ask(NamedTuple):
    """Effect: send the request, and raise Unreachable instead of trying for long.

    Threads have ANSWER_S for the answer, and CONNECT_S to connect where they have to; tasks have ``seconds`` for both.
    """

    request: Request[Any]
    seconds: float = ANSWER_S


class Attach(NamedTuple):
    """Effect: listen on the line's channel; answers the Line. Tasks have ``seconds`` for it."""

    seconds: float = CONNECT_S


class Pause(NamedTuple):
    """Effect: wait until the place is decided, or until a time (of this machine's steady clock, None: for ever)."""

    place: Place | None
    until: float | None


class Detach(NamedTuple):
    """Effect: drop the line's connection, so that the server passes over whom it could not be told about."""


Effect = Request[Any] | Ask | Attach | Pause | Detach


class Line:
    """The waiters of this process for one pool."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.places: dict[str, Place] = {}
        """Those that are not decided yet."""
        self.server_time = ServerTime()
        self.channel = b""
        self._nearest_at: float | None = None
        self._heard_at = 0.0
        self._attended_at = 0.0

    def open(self) -> tuple[bytes, bytes]:
        """The channels to listen on over a new connection. The first is new too: the old one counts as dead."""
        self.channel = self.requests.keys.wake + b":" + new_token().encode()
        self._attended_at = monotonic()
        return self.channel, self.requests.keys.wake

    def join(self, token: str, count: int) -> Place:
        place = self.places.get(token)
        if place is None:
            place = self.places[token] = Place(token, count)
        return place

    def leave(self, token: str) -> None:
        self.places.pop(token, None)

    def broken(self) -> list[Place]:
        """The connection is lost: everybody has to ask again, over a new one."""
        self._nearest_at = None
        return [place for place in list(self.places.values()) if self._decide(place, None)]

    def told(self, standing: Standing, asked_at: float) -> None:
        """An answer of the server's to a request sent at ``asked_at``: when the nearest deadline comes.

        A nearer one that was heard of since then may be news that the answer does not have: they come over different
        connections.
        """
        self.server_time.learn(standing.now_ms, asked_at)
        self._next(standing.nearest_ms, replace=self._heard_at < asked_at)

    def heard(self, channel: bytes, message: bytes) -> list[Place]:
        """A message came; answers who is decided by it."""
        if channel != self.channel:
            self._heard_at = monotonic()
            self._next(int(message.removeprefix(b"next ")), replace=False)
            return []
        token, _, texts = message.partition(b" ")
        place = self.places.get(token.decode())
        return [place] if place and self._decide(place, decode_grants(texts)) else []

    def due_at(self) -> float:
        """When to attend, on this machine's steady clock."""
        at_latest = self._attended_at + ATTEND_S
        return at_latest if self._nearest_at is None else min(at_latest, self._nearest_at)

    def attending(self) -> list[list[Place]]:
        """The waiters to attend to, in batches for one call each."""
        self._attended_at = monotonic()
        self._nearest_at = None
        places = list(self.places.values())
        return [places[start : start + BATCH] for start in range(0, len(places), BATCH)]

    def attend(self, batch: list[Place]) -> Request[tuple[Standing, list[list[Grant] | bool]]]:
        return self.requests.attend([(place.token, place.count) for place in batch])

    def attended(
        self, batch: list[Place], answer: tuple[Standing, list[list[Grant] | bool]], asked_at: float
    ) -> list[Place]:
        """Takes the answer in; answers who is decided by it."""
        standing, states = answer
        self.told(standing, asked_at)
        decided = []
        for place, state in zip(batch, states, strict=True):
            if state is not True and self._decide(place, state or None):
                decided.append(place)
        return decided

    def _next(self, ms: int, replace: bool) -> None:
        at = None if ms < 0 else monotonic() + ms / 1000
        if replace or self._nearest_at is None or (at is not None and at < self._nearest_at):
            self._nearest_at = at

    def _decide(self, place: Place, grants: list[Grant] | None) -> bool:
        """False if it was decided before (a message and an answer may bring the same grant)."""
        if place.decided:
            return False
        self.places.pop(place.token, None)
        place.grants, place.ask_again = grants, grants is None
        return True
