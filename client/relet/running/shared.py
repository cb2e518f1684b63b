"""What the front and the keeper both have, from before the fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from relet.running.deadline import Deadline
from relet.running.preparing import Job
from relet.running.terminal import Terminal


class Shared(NamedTuple):
    job: Job
    until: Deadline
    terminal: Terminal | None
    complain: Callable[[str], object]
    """Takes what is to be said about the lease, one line."""
