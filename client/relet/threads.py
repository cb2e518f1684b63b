"""How threads wait: the driver of :mod:`relet.line` over the blocking connections of redis-py or valkey-py.

There is no thread in the background. One of the waiting threads, whichever comes first, leads: it listens on the
connection, keeps the clock, and wakes the others with what is theirs. When it is served itself, another takes over.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from relet.asking import Asker
from relet.backend import Backend
from relet.clock import monotonic
from relet.flow import run
from relet.lease import HeldLease
from relet.line import Line, Pause, Place, Unreachable
from relet.renewing import OnLost, Renewals, tell
from relet.requests import Requests

REST_S = 1.0
"""Seconds without a waiter after which nobody needs to listen."""
FOLLOW_S = 1.0
"""Seconds after which a waiter looks whether anybody leads. It is woken before, unless a leader was struck down."""


class ThreadLine:
    """The waiting threads of one pool."""

    def __init__(self, backend: Backend, requests: Requests, asker: Asker) -> None:
        self._backend = backend
        self._library = backend.library
        self._requests = requests
        self._asker = asker
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._line = Line(self._requests)
        self._ears: Any = None
        self._ears_at: object = None
        self._waited_at = 0.0
        self._attaching = threading.Lock()
        self._electing = threading.Lock()
        self._leader: Place | None = None
        self._leading_thread = 0

    def attach(self) -> Line:
        """Listens, if nobody does yet. Raises Unreachable."""
        if self._pid != os.getpid():
            self._reset()
        with self._attaching:
            self._waited_at = monotonic()  # until this waiter has its place in line, too, nobody else stops listening
            if self._ears is None:
                with self._library.unreachable():
                    ears, node = self._backend.connection(), self._backend.node()
                try:
                    with self._backend.asking():
                        channels = self._line.open()
                        ears.connect()
                        ears.send_command("SUBSCRIBE", *channels)
                        for _ in channels:
                            ears.read_response(disable_decoding=True)
                except BaseException:
                    ears.disconnect()
                    raise
                self._ears, self._ears_at = ears, node
        return self._line

    def detach(self) -> None:
        """Stops listening; whoever waits has to ask again."""
        with self._attaching:
            self._hang_up()

    def _hang_up(self) -> None:
        """A connection that another thread reads is shut down, which ends its reading, and closed once it drops it:
        a number of a file that were closed under it could be another connection's by the time it reads."""
        ears, self._ears = self._ears, None
        sock = getattr(ears, "_sock", None)
        if sock is not None and self._is_led() and self._leading_thread != threading.get_ident():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        elif ears is not None:
            ears.disconnect()
        for place in self._line.broken():
            _ring(place)

    def rest(self) -> None:
        """Stops listening if nobody has waited for a while.

        Called when something else is sent, not at the end of a wait: that would keep the waiter from its resource.
        """
        if self._ears is None or not self._is_idle() or self._pid != os.getpid():
            return
        with self._attaching:
            if self._is_idle():
                self._hang_up()

    def _is_idle(self) -> bool:
        return not self._line.places and monotonic() - self._waited_at > REST_S

    def close(self) -> None:
        if self._ears is not None and self._pid == os.getpid():
            self.detach()

    def pause(self, pause: Pause) -> None:
        place, until = pause
        if place is None:
            time.sleep(max(0.0, (until or 0) - monotonic()))
            return
        place.bell, place.present = SimpleQueue(), threading.Lock()
        try:
            with place.present:
                while not place.decided and (until is None or monotonic() < until):
                    if self._is_elected(place):
                        self._lead(place, until)
                    else:
                        _sleep(place, until)
        finally:
            self._waited_at = monotonic()
            self._appoint()

    def _is_elected(self, place: Place) -> bool:
        """True if this thread is to lead: nobody else does."""
        with self._electing:
            if not self._is_led():
                self._leader, self._leading_thread = place, threading.get_ident()
            return self._leader is place

    def _is_led(self) -> bool:
        """Whether the leader is still there, by the lock that it holds: however it ended, it holds that no more."""
        return self._leader is not None and self._leader.present.locked()

    def _lead(self, place: Place, until: float | None) -> None:
        line = self._line
        while not place.decided:
            now = monotonic()
            if until is not None and now >= until:
                return
            try:
                if now >= line.due_at():
                    self._attend()
                else:
                    ends_at = line.due_at() if until is None else min(line.due_at(), until)
                    self._listen(ends_at - now)
            except Unreachable:
                self.detach()
            except BaseException:
                self.detach()  # it may have struck in the middle of a message
                raise

    def _listen(self, seconds: float) -> None:
        ears = self._ears
        if ears is None:
            raise Unreachable(ConnectionError("nobody listens"), stalled=False)
        try:
            with self._library.unreachable():
                if not ears.can_read(seconds):
                    return
                kind, channel, message = ears.read_response(disable_decoding=True)
        except Exception:
            if ears is not self._ears:
                return  # another thread has hung up, and told everybody
            raise
        if kind == b"message":
            for place in self._line.heard(channel, message):
                _ring(place)

    def _attend(self) -> None:
        if self._ears_at != self._backend.node():
            raise Unreachable(ConnectionError("the pool has moved to another node"), stalled=True)
        for batch in self._line.attending():
            asked_at = monotonic()
            answer = self._asker.ask(self._line.attend(batch))
            for place in self._line.attended(batch, answer, asked_at):
                _ring(place)

    def _appoint(self) -> None:
        """Wakes one who waits, to lead from now on, if nobody does."""
        if self._is_led():
            return
        for place in list(self._line.places.values()):
            if place.bell is not None:
                _ring(place)
                return


def _ring(place: Place) -> None:
    if place.bell is not None:
        place.bell.put(None)


def _sleep(place: Place, until: float | None) -> None:
    left = FOLLOW_S if until is None else min(FOLLOW_S, until - monotonic())
    with contextlib.suppress(Empty):
        place.bell.get(timeout=max(0.0, left))


class Renewer:
    """Renews a pool's leases from one thread, which lives as long as there is a lease to renew."""

    def __init__(self, requests: Requests, asker: Asker) -> None:
        self._requests = requests
        self._asker = asker
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._renewals = Renewals(self._requests, partial(self._calls.put, None))

    def add(self, lease: HeldLease, on_lost: OnLost | None) -> None:
        if self._pid != os.getpid():  # a fork's child renews nothing of its parent's
            self._reset()
        self._renewals.add(lease, on_lost)
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # an interrupt may have kept it from starting
                self._thread = threading.Thread(target=self._work, name="relet-renewer", daemon=True)
                self._thread.start()

    def discard(self, lease: HeldLease) -> None:
        if self._pid == os.getpid():
            self._renewals.discard(lease)

    def _work(self) -> None:
        while self._thread is threading.current_thread():
            next_at = self._renewals.next_at()
            if next_at is None:
                with self._starting:
                    if self._renewals.next_at() is None:
                        self._thread = None
                continue
            if next_at > monotonic():
                with contextlib.suppress(Empty):
                    self._calls.get(timeout=max(0.0, next_at - monotonic()))
                continue
            for lease, on_lost in run(self._renewals.renew_due(), lambda ask: self._asker.ask(ask.request)):
                tell(lease, on_lost)
