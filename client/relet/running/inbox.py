"""Signals, as something to wait for beside file descriptors and the clock."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Those by which a process is told to end."""
PASSED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
"""Those that the command gets which ``relet run`` is sent."""


class Inbox:
    """Takes signals in from ``open`` to ``close``; one that was ignored before stays so, here and in the command.

    For the main thread alone. Any thread may call ``wake``.
    """

    def __init__(self) -> None:
        self._came: deque[int] = deque()
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._reader = self._writer = -1

    def open(self, signals: Iterable[signal.Signals]) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in signals:
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self.put)

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reader)
        os.close(self._writer)

    def put(self, number: int, _: object = None) -> None:
        """The handler of every signal that is taken in."""
        self._came.append(number)

    def wake(self) -> None:
        """Ends the wait that is on, or the next one."""
        with suppress(BlockingIOError):  # so full that it will wake anyhow
            os.write(self._writer, b"\0")

    def wait(self, seconds: float | None, *others: Any) -> tuple[list[int], list[Any]]:
        """Waits for signals, for ``others`` to become readable, or for the time to pass; answers the first two."""
        readable: list[Any] = []
        if not self._came:
            readable, _, _ = select.select([self._reader, *others], [], [], seconds)
        with suppress(BlockingIOError):
            while os.read(self._reader, 512):
                pass
        came = [self._came.popleft() for _ in range(len(self._came))]
        return came, [one for one in readable if one != self._reader]
