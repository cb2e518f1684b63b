"""``relet run``: a command that lives no longer than its lease.

Three processes, each with a group of its own::

    front      the one that the user started: passes signals on, stops with the command, ends as it did
      keeper   its fork: waits in line, renews, starts the command, ends it where it has to, gives back
        command

Front and keeper are joined by a socket, so each knows at once when the other was killed. Without the front, the keeper
ends the command and gives the resource back. Without the keeper, or where the keeper does not get to run, the front
ends the command before the deadline that it was told last. On Linux the kernel kills the command with the keeper, too.
While the front is stopped (Ctrl-Z), the keeper goes on renewing. ``relet clean`` is the same over a pool's quarantine.

::

    front        keeper        the processes
    child        launch        the command: started, watched, ended
    preparing    its environment, and whether there is such a command at all
    terminal     whose terminal it is
    inbox        signals, as something to wait for
    deadline     until when the command may run, as the keeper told the front
    shared       what front and keeper both have
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace

from relet.names import owner_of
from relet.pool import Pool
from relet.running.deadline import Deadline
from relet.running.front import Front
from relet.running.inbox import PASSED_ON
from relet.running.keeper import Keeper
from relet.running.preparing import CannotRun, Job, find
from relet.running.shared import Shared
from relet.running.terminal import Terminal

__all__ = ["CannotRun", "Job", "run"]


def run(job: Job, open_pool: Callable[[], Pool], complain: Callable[[str], object]) -> int:
    """Run a command while its lease lasts; answers the exit code. For the main thread of a program with no other.

    Args:
        open_pool: makes the pool. It is called in the process that holds the lease: until then, nothing may be
            connected, since what two processes share, neither can use.
        complain: takes what is to be said about the lease while the command runs, one line.

    Returns:
        The command's exit code, 128 + n if it died of signal n; 76 if the lease was lost; 128 + n if signal n ended
        the wait for it.

    Raises:
        CannotRun: there is no such command, or it cannot be run. Nothing was leased.
        PoolExhausted: too few came free in time.

    This function returns (or raises) in two processes; the front answers what the keeper's process exits with.
    """
    find(job)
    job = job if job.owner else replace(job, owner=owner_of(os.getpid()))
    terminal = Terminal.of_this_process()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ours, theirs = socket.socketpair()
    shared = Shared(job, Deadline(), terminal, complain)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited; the system would keep no child's exit code
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # none may come before there is somebody to take it
    pid = os.fork()
    if pid:
        theirs.close()
        with Front(pid, ours, shared) as front:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return front.attend()
    ours.close()
    os.setpgid(0, 0)
    keeper = Keeper(theirs, shared)
    keeper.listen()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return keeper.keep(open_pool)
