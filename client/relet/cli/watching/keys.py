"""What is typed while a picture is shown."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    """The keyboard, or nothing where standard input is none."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def wait(self, seconds: float) -> str:
        """Waits for that long, or until something is typed, and answers it; "" for nothing."""
        if self._fd is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._fd], [], [], seconds)[0]:
            return ""
        typed = os.read(self._fd, 64)
        if not typed:  # hung up: there will be no more
            self._fd = None
        return typed.decode("ascii", "replace")


@contextmanager
def keys() -> Iterator[Keys]:
    """A keyboard that gives each key at once, and does not show it; as it was before, in the end."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield Keys(None)
        return
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
