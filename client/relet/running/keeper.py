"""The process that holds the lease and the command."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import socket
from types import FrameType

from relet.clock import monotonic
from relet.core import CHUNK
from relet.errors import LeaseLost
from relet.flow import Flow
from relet.holding import Lease
from relet.line import RETRY_S, Ask
from relet.names import check_reason
from relet.pool import Pool
from relet.requests import Requests
from relet.running.child import Child
from relet.running.inbox import ENDING, PASSED_ON, Inbox
from relet.running.preparing import Job, arguments, environment
from relet.running.shared import Shared

LOST = 76
LOOKS = 6
"""How often within a ttl the leases are looked at, and the front is told how long they last."""
SLACK_S = 0.5
"""How long after the end of a grace the front waits before it kills in the keeper's place."""
GIVE_BACK_S = 3.0
"""For how long a server that does not answer is asked to take the leases back."""


class _Interrupted(BaseException):
    """A signal that ends the wait for a lease."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Keeper:
    """Waits for the leases, renews them while the command runs, ends it where it has to, gives them back."""

    def __init__(self, link: socket, shared: Shared) -> None:
        self._link = link
        self._job, self._until, self._terminal, self._complain = shared
        self._front_group = os.getpgid(os.getppid())
        self._inbox = Inbox()
        self._is_waiting = True
        self._is_alone = False
        self._is_lost = False
        self._kill_at: float | None = None
        self._code: int | None = None
        """What to exit with whatever the command does, once it was told to end."""

    def listen(self) -> None:
        """Takes in signals from now on; those that end a process end the wait for the lease."""
        self._inbox.open((*PASSED_ON, signal.SIGCHLD))
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_ending)
        threading.Thread(target=self._watch_front, name="relet-front", daemon=True).start()

    def keep(self, open_pool: Callable[[], Pool]) -> int:
        """Does all of it; answers the exit code.

        Raises:
            PoolExhausted: too few came free in time.
            CannotRun: the command did not start after all.
        """
        try:
            pool = open_pool()
            leases = _acquire(pool, self._job)
            self._is_waiting = False
        except _Interrupted as interrupted:
            return 128 + interrupted.number
        for lease in leases:
            pool._renewer.add(lease, self._on_lost)
        failure: str | None = "it did not run"
        try:
            code = self._run(leases)
            failure = self._failure(code)
        finally:
            is_lost = self._give_back(pool, leases, failure if self._job.cleaning else None)
        return LOST if is_lost else code

    def _run(self, leases: Sequence[Lease]) -> int:
        giver = self._front_group if self._terminal is not None and self._terminal.shared else 0
        child = Child.start(arguments(self._job, leases), environment(self._job, leases), giver)
        self._tell(f"started {child.pid}")
        while child.status is None:
            numbers, _ = self._inbox.wait(self._look(child, leases))
            for number in numbers:
                if number != signal.SIGCHLD:
                    child.send(number)
            stopped_by = child.poll()
            if stopped_by:
                self._tell(f"stopped {stopped_by}")
        self._tell(f"ended {child.status}")
        if self._kill_at is not None:
            child.clear(self._kill_at)
        if self._code is not None:
            return self._code
        return child.status if child.status >= 0 else 128 - child.status

    def _look(self, child: Child, leases: Sequence[Lease]) -> float:
        """Looks whether the command has to end; answers for how many seconds there is nothing more to see."""
        job, now = self._job, monotonic()
        ends_at = now + min(lease.remaining() for lease in leases)
        is_over = self._is_lost or ends_at <= now
        told_at = ends_at - job.margin - job.notice
        if self._code is None and (is_over or now >= told_at):
            self._code = LOST
            self._end(child, now + job.grace if is_over else ends_at - job.margin)
            self._complain(self._why(leases, is_over))
        elif self._is_alone and self._kill_at is None:
            self._end(child, now + job.grace)
        if self._kill_at is None:
            self._until.set(ends_at)
            return max(0.0, min(job.ttl / LOOKS, told_at - now))
        self._until.set(self._kill_at + job.margin + SLACK_S)
        if now < self._kill_at:
            return self._kill_at - now
        child.send(signal.SIGKILL)
        return 1.0

    def _end(self, child: Child, kill_at: float) -> None:
        child.tell_to_end()
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)

    def _why(self, leases: Sequence[Lease], is_over: bool) -> str:
        names = ", ".join(repr(lease.resource) for lease in leases if lease.lost or not is_over)
        what = f"the lease of {names} in pool {self._job.pool!r}"
        if is_over:
            return f"{what} was lost: ending the command ({self._job.grace:g} s from SIGTERM to SIGKILL)"
        return f"{what} cannot be renewed, and nears its deadline: ending the command"

    def _failure(self, code: int) -> str | None:
        """Why the command has not done what it was run for; None if it has. Who is told to end may exit with 0 too."""
        if self._kill_at is not None:
            return "it was told to end"
        return f"exit code {code}" if code else None

    def _give_back(self, pool: Pool, leases: Sequence[Lease], failure: str | None) -> bool:
        """Answers whether any was lost. What cannot be given back now comes back by itself.

        Where a cleaner failed (``failure`` says how), the resource goes back into quarantine.
        """
        for lease in leases:
            pool._renewer.discard(lease)
        until = monotonic() + GIVE_BACK_S
        while True:
            try:
                pool._run(_release(pool._requests, leases) if failure is None else _requeue(pool, leases, failure))
                return False
            except LeaseLost as lost:
                if self._code is None:
                    self._complain(f"while the command ran, {lost}")
                return True
            except Exception as error:
                if monotonic() >= until or self._code is not None:
                    self._complain(f"not given back, so it comes back within {self._job.ttl:g} s: {error}")
                    return False
            time.sleep(RETRY_S)

    def _on_ending(self, number: int, _: FrameType | None) -> None:
        if self._is_waiting:
            raise _Interrupted(number)
        self._inbox.put(number)

    def _on_lost(self, _: Lease) -> None:
        self._is_lost = True
        self._inbox.wake()

    def _watch_front(self) -> None:
        with suppress(OSError):
            self._link.recv(1)  # never sends anything: this ends when it does
        self._is_alone = True
        if self._is_waiting:
            os.kill(os.getpid(), signal.SIGTERM)
        self._inbox.wake()

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # nobody is left to be told
            self._link.sendall(f"{line}\n".encode())


def _acquire(pool: Pool, job: Job) -> list[Lease]:
    if job.cleaning:
        return [pool._run(pool._clean(job.ttl, job.timeout, job.owner))]
    return pool.acquire_many(job.count, job.ttl, job.timeout, owner=job.owner)


def _requeue(pool: Pool, leases: Sequence[Lease], failure: str) -> Flow[None]:
    """Into quarantine again, with as little patience as below."""
    for lease in leases:
        released = yield Ask(pool._requests.set_aside(lease.token, check_reason(f"cleaning failed: {failure}")))
        if not released:
            raise pool._requests.lost(lease.resource)


def _release(requests: Requests, leases: Sequence[Lease]) -> Flow[None]:
    """Like ``Pool.release_many``, but without the patience of the client: the command's exit code waits for this."""
    lost: list[str] = []
    for start in range(0, len(leases), CHUNK):
        chunk = leases[start : start + CHUNK]
        answers = yield Ask(requests.release_many([(lease.token, lease._grant) for lease in chunk]))
        lost += [lease.resource for lease, released in zip(chunk, answers, strict=True) if not released]
    if lost:
        raise requests.lost(*lost)
