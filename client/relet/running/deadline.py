"""A time that two processes know, however long either of them was stopped."""

from __future__ import annotations

import mmap
import struct

_TIME = struct.Struct("d")


class Deadline:
    """Written by one process and read by its parent. A stream of messages would fill up while nobody reads it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _TIME.size)  # a fork shares it

    def set(self, at: float) -> None:
        """``at`` is of this machine's steady clock, which is the same for all processes."""
        _TIME.pack_into(self._memory, 0, at)

    def get(self) -> float | None:
        """None before it is set."""
        (at,) = _TIME.unpack_from(self._memory)
        return at or None
