"""This machine's steady clock, and what it knows of the server's."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where the system has such a clock: a laptop that wakes up knows what it missed."""


def monotonic() -> float:
    """Seconds on this machine's steady clock."""
    return time.clock_gettime(_CLOCK)


class ServerTime:
    """Places times of the server's clock on this machine's, on the early side.

    A request sent at t was answered when the server's clock showed s: so s was at t or later, and s + x at t + x or
    later; less a millisecond, as s is cut to whole ones.
    """

    __slots__ = ("_local_s", "_server_ms")

    def __init__(self) -> None:
        self._server_ms = 0
        self._local_s = 0.0

    def learn(self, server_ms: int, sent_at: float) -> None:
        self._server_ms = server_ms
        self._local_s = sent_at

    def local(self, server_ms: int) -> float:
        """No later than the moment at which the server's clock shows ``server_ms``."""
        return self._local_s + (server_ms - self._server_ms - 1) / 1000


def lease_end(asked_at: float, left_ms: int) -> float:
    """No later than the end of a lease that has ``left_ms``, by the answer to a request sent at ``asked_at``."""
    return asked_at + (left_ms - 1) / 1000  # the server counts in whole milliseconds
