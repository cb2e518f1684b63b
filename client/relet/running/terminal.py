"""Whose terminal it is. Of the process groups of a session one has the terminal: what is typed goes there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    """The terminal of this process's session, and its process group there."""

    def __init__(self, fd: int, group: int, shared: bool) -> None:
        self._fd = fd
        self._group = group
        self.shared = shared
        """The command gets the terminal when it starts. It does not where something is piped in or out: then another
        of the same pipeline may want it, and the command gets it once it asks."""

    @classmethod
    def of_this_process(cls) -> Terminal | None:
        """None without a terminal."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        return cls(fd, os.getpgrp(), all(os.isatty(stream) for stream in (0, 1, 2)))

    @property
    def ours(self) -> bool:
        """Whether it belongs to the group of the process that was started."""
        return self._owner() == self._group

    def give(self, group: int) -> bool:
        """Gives our terminal to another group. False if it is not ours to give, or nobody is left to take it."""
        return self.ours and self._set(group)

    def take_back(self, group: int) -> bool:
        """Takes it back from that group, if it has it."""
        return self._owner() == group and self._set(self._group)

    def _owner(self) -> int:
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:  # it was hung up
            return -1

    def _set(self, group: int) -> bool:
        try:
            with _not_stopped_for_it():
                os.tcsetpgrp(self._fd, group)
        except OSError:
            return False
        return True


@contextmanager
def _not_stopped_for_it() -> Iterator[None]:
    """Who gives a terminal away that it does not have is stopped by SIGTTOU, unless that is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
