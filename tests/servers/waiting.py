"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.01


def wait_until(condition: Callable[[], object], what: str, *, timeout: float = 30.0) -> None:
    """Returns once `condition()` is true. `what` completes "waited in vain for".

    Raises TimeoutError after `timeout` seconds. What `condition` raises passes through.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what} ({timeout:g} s)")
        time.sleep(POLL_S)
