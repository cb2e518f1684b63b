"""The process that the user started: it looks like the command from outside."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from socket import socket

from relet.clock import monotonic
from relet.running.inbox import PASSED_ON, Inbox
from relet.running.shared import Shared

ERROR = 1
LOST = 76
BY_TERMINAL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""By what a terminal stops a process: Ctrl-Z, and reading or writing while another group has the terminal."""
HEARING_S = 0.25
_LOOK_S = 0.05


class Front:
    """Passes signals on to the keeper, and stops, goes on and ends with the command. From a ``with`` block.

    If the keeper is killed, or does not get to run, the command ends here, before the deadline that it told last.
    """

    def __init__(self, keeper: int, link: socket, shared: Shared) -> None:
        self._keeper = keeper
        self._link = link
        self._job, self._until, self._terminal, self._complain = shared
        self._inbox = Inbox()
        self._heard = b""
        self._group = 0
        """The command's process group, while it runs."""
        self._warned_at: float | None = None
        self._lends = self._terminal is not None and self._terminal.shared
        self._typed: int | None = None
        """What the command died of that had been typed at the terminal."""

    def __enter__(self) -> Front:
        self._inbox.open(PASSED_ON)
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.close()
        self._link.close()

    def attend(self) -> int:
        """Waits for the end; answers the exit code."""
        while True:
            numbers, readable = self._inbox.wait(self._patience(), self._link)
            for number in numbers:
                self._pass_on(number)
            if readable and not self._listen():
                return self._end()
            if self._patience() == 0:
                return self._replace_keeper()

    def _patience(self) -> float | None:
        """Seconds until the keeper, which renews in good time, is overdue; None while there is nothing to watch."""
        until = self._until.get()
        if not self._group or until is None:
            return None
        now, notice = monotonic(), self._job.notice / 2
        kill_at = until - self._job.margin / 2
        if now < kill_at - notice:
            self._warned_at = None
            return kill_at - notice - now
        if self._warned_at is None:
            self._warned_at = now
            self._to_command(signal.SIGTERM)
            self._to_command(signal.SIGCONT)
        # Where the whole machine slept, the keeper wakes up as late as this process: it shall have its say.
        return max(0.0, max(kill_at, self._warned_at + min(notice, HEARING_S)) - now)

    def _listen(self) -> bool:
        """Reads what the keeper says. False if it has ended."""
        said = self._link.recv(4096)
        *lines, self._heard = (self._heard + said).split(b"\n")
        for line in lines:
            word, _, value = line.decode().partition(" ")
            if word == "started":
                self._group = int(value)
            elif word == "stopped":
                self._stopped(int(value))
            elif word == "ended":
                self._command_ended(int(value))
        return bool(said)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCONT:
            self._go_on()
        elif number == signal.SIGTSTP and not self._group:
            self._stop(number)  # the keeper goes on waiting in line
        else:
            self._to_keeper(number)

    def _stopped(self, number: int) -> None:
        """The command was stopped. At a terminal that stops this job, so that the shell has it back."""
        terminal = self._terminal
        if terminal is None:
            return
        if number in (signal.SIGTTIN, signal.SIGTTOU) and terminal.ours:
            self._lends = True  # it was not given the terminal, and asks for it now
            self._go_on()
            return
        had_it = terminal.take_back(self._group)
        if had_it or number in BY_TERMINAL:
            self._stop(number, whole_group=had_it)
            self._go_on()

    def _stop(self, number: int, whole_group: bool = False) -> None:
        """Stops, and returns when it is continued (or at once, where there is no shell that could do so).

        With the whole group where the rest of it was not asked by the terminal: a script that runs this, a pipeline.
        """
        before = None if number == signal.SIGSTOP else signal.signal(number, signal.SIG_DFL)
        if whole_group:
            os.killpg(os.getpgrp(), number)
        else:
            os.kill(os.getpid(), number)
        if before is not None:
            signal.signal(number, before)
        for other in self._inbox.wait(0)[0]:
            if other != signal.SIGCONT:
                self._pass_on(other)

    def _go_on(self) -> None:
        if self._group:
            if self._terminal is not None and self._lends:
                self._terminal.give(self._group)
            self._to_keeper(signal.SIGCONT)

    def _command_ended(self, status: int) -> None:
        had_it = self._terminal is not None and self._terminal.take_back(self._group)
        self._typed = -status if had_it and -status == signal.SIGINT else None
        self._group = 0

    def _end(self) -> int:
        _, status = os.waitpid(self._keeper, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            if self._group:
                self._end_command()
            self._complain(
                f"the process that held the lease was killed by signal {-code}: the command was ended, and what was "
                f"leased comes back within {self._job.ttl:g} s"
            )
            return ERROR
        if self._typed and code == 128 + self._typed:
            self._die(self._typed)
        return code

    def _end_command(self) -> None:
        """SIGTERM, and SIGKILL after the grace, or before the deadline."""
        until = min(monotonic() + self._job.grace, (self._until.get() or 0.0) - self._job.margin)
        self._to_command(signal.SIGTERM)
        self._to_command(signal.SIGCONT)
        while monotonic() < until and self._to_command(0):
            time.sleep(_LOOK_S)
        self._to_command(signal.SIGKILL)
        if self._terminal is not None:
            self._terminal.take_back(self._group)

    def _replace_keeper(self) -> int:
        """It is stopped, or hangs: the command must not outlive the lease for that."""
        self._to_command(signal.SIGKILL)
        self._to_keeper(signal.SIGKILL)
        os.waitpid(self._keeper, 0)
        if self._terminal is not None:
            self._terminal.take_back(self._group)
        self._complain("the process that held the lease did not run, and the lease was lost: the command was killed")
        return LOST

    def _die(self, number: int) -> None:
        """As if Ctrl-C had reached this group too, which it does where a command has no group of its own: a script that
        runs several of them ends as well."""
        signal.signal(number, signal.SIG_DFL)
        os.killpg(os.getpgrp(), number)

    def _to_keeper(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._keeper, number)  # it is no other process: nobody has waited for it yet

    def _to_command(self, number: int) -> bool:
        """Answers whether anybody was there."""
        try:
            os.killpg(self._group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True
