"""A lease as its holder sees it: what the leases of both drivers share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from relet.clock import lease_end, monotonic
from relet.flow import Flow
from relet.model import Grant
from relet.names import check_reason, check_ttl
from relet.requests import Requests


class HeldLease:
    """The right to use one resource until a deadline.

    The deadline is the server's. ``remaining`` and ``lost`` are this machine's view of it, on the careful side: time is
    counted from before the request was sent, so the lease is never taken for longer than it is.
    """

    __slots__ = (
        "__weakref__",
        "_ends_at",
        "_grant",
        "_is_lost",
        "_is_released",
        "_on_renewal",
        "_pid",
        "_requests",
        "_token",
        "_ttl_ms",
    )

    def __init__(self, requests: Requests, grant: Grant, token: str, ttl_ms: int, until: float) -> None:
        self._requests = requests
        self._grant = grant
        self._token = token
        self._ttl_ms = ttl_ms
        self._ends_at = until
        self._is_lost = False
        self._is_released = False
        self._pid = os.getpid()
        self._on_renewal: Callable[[], object] | None = None

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self._grant.resource

    @property
    def attributes(self) -> dict[str, Any]:
        """What ``add`` was told about the resource."""
        return self._grant.attributes

    @property
    def token(self) -> str:
        """What proves this lease to the server, in another process too: 128 random bits in hexadecimal. A secret."""
        return self._token

    @property
    def fence(self) -> int:
        """Higher than that of any lease before it in this pool.

        Send it along to the systems that you change while holding the resource, and let them refuse a lower one than
        they have seen: that stops a holder who was asleep past its deadline and does not know it yet.
        """
        return self._grant.fence

    @property
    def ttl(self) -> float:
        """The time to live that was asked for last, in seconds."""
        return self._ttl_ms / 1000

    @property
    def lost(self) -> bool:
        """True once the deadline has passed on this machine's clock, or the server said that the lease is over."""
        return self._is_lost or (not self._is_released and monotonic() >= self._ends_at)

    @property
    def released(self) -> bool:
        """True once ``release`` has succeeded."""
        return self._is_released

    def remaining(self) -> float:
        """Seconds until the deadline, 0 when it has passed or the lease is over. Asks nobody."""
        if self._is_lost or self._is_released:
            return 0.0
        return max(0.0, self._ends_at - monotonic())

    def _renew(self, ttl: float | None) -> Flow[None]:
        ttl_ms = self._ttl_ms if ttl is None else check_ttl(ttl)
        if self._is_released:
            raise self._requests.lost(self.resource)
        asked_at = monotonic()
        (deadline_ms,) = yield self._requests.renew([(self._token, ttl_ms, self.fence)])
        if deadline_ms is None:
            self._is_lost = True
            raise self._requests.lost(self.resource)
        self._renewed(deadline_ms, ttl_ms, asked_at)

    def _renewed(self, deadline_ms: int, ttl_ms: int, asked_at: float) -> None:
        self._grant = self._grant._replace(deadline_ms=deadline_ms)
        self._ends_at = lease_end(asked_at, ttl_ms)
        self._ttl_ms = ttl_ms
        if self._on_renewal is not None:
            self._on_renewal()

    @property
    def _inherited(self) -> bool:
        """True in a fork's child: the lease is its parent's."""
        return self._pid != os.getpid()

    def _release(self, quarantine: str | None = None) -> Flow[None]:
        reason = None if quarantine is None else check_reason(quarantine)
        if self._is_released:
            return
        if self._is_lost:
            raise self._requests.lost(self.resource)
        if reason is None:
            released = yield self._requests.release(self._token, self._grant)
        else:
            released = yield self._requests.set_aside(self._token, reason)
        if not released:
            self._is_lost = True
            raise self._requests.lost(self.resource)
        self._is_released = True

    def __repr__(self) -> str:
        state = "released" if self._is_released else "lost" if self.lost else f"{self.remaining():.3f} s left"
        return f"<{type(self).__name__} {self.resource!r} fence={self.fence} {state}>"
