"""How threads wait: the driver of :mod:`relet.line` over the blocking connections of redis-py or valkey-py.

There is no thread in the background. One of the waiting threads, whichever comes first, leads: it listens on the
connection, keeps the clock, and wakes the others with what is theirs. When it is served itself, another takes over.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from relet.backend import Backend
from relet.clock import monotonic
from relet.flow import run
from relet.lease import HeldLease
from relet.line import Line, Pause, Place, Unreachable
from relet.renewing import OnLost, Renewals, tell
from relet.requests import Request, Requests

CONNECTIONS = 2
"""How many a process uses to ask for its waiters; one more listens."""
REST_S = 1.0
"""Seconds without a waiter after which nobody needs to listen."""
FOLLOW_S = 1.0
"""Seconds after which a waiter looks whether anybody leads. It is woken before, unless a leader was struck down."""


class Stripes:
    """A few locks among which threads are spread: as many requests go out at once, over as many connections.

    `with` on a lock is the one way of waiting that KeyboardInterrupt cannot leak, at whatever point it strikes; a
    semaphore is written in Python, and loses a place now and then.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._locks = [threading.Lock() for _ in range(self._count)]

    def index(self) -> int:
        """The stripe of this thread."""
        if self._pid != os.getpid():  # a thread of the parent's may hold a lock, and there is none in a fork's child
            self._reset()
        return (threading.get_ident() >> 12) % len(self._locks)

    def __getitem__(self, index: int) -> threading.Lock:
        return self._locks[index]


class Asker:
    """Asks the server over connections of its own, with answers in ANSWER_S or never.

    A borrowed client may wait for a stalled server for a minute; whoever waits with a limit may not. A connection that
    anything interrupts is closed, so that no reply is ever left unread for the next one.
    """

    def __init__(self, backend: Backend, requests: Requests) -> None:
        self._backend = backend
        self._library = backend.library
        self._explain = requests.explain
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._stripes = Stripes(CONNECTIONS)
        self._connections: list[Any] = [None] * CONNECTIONS

    def ask(self, request: Request[Any]) -> Any:
        if self._pid != os.getpid():  # a fork's child leaves its parent's connections alone
            self._reset()
        index = self._stripes.index()
        try:
            with self._stripes[index], self._backend.asking():
                reply = self._exchange(index, request)
        except Unreachable as lost:
            self._backend.failed()
            lost.stalled |= self._backend.may_return
            self._backend.refresh()
            raise
        except self._library.response_error as error:
            self._backend.failed()
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error
        if not self._backend.proven:
            self._backend.succeeded(request)
        return request.decode(reply)

    def _exchange(self, index: int, request: Request[Any]) -> Any:
        kept = self._connections[index]
        if kept is not None:
            try:
                return self._sent(index, kept, request)
            except self._library.connection_error:
                pass  # the server had closed it, or is no master any more: there may be one to be found by now
        connection = self._connections[index] = self._backend.connection()
        return self._sent(index, connection, request, is_new=True)

    def _sent(self, index: int, connection: Any, request: Request[Any], is_new: bool = False) -> Any:
        try:
            if is_new:
                connection.connect()  # sending would connect as well, but in redis-py 8 past a sentinel
            try:
                connection.send_command(*self._backend.command(request, whole=False))
                return connection.read_response(disable_decoding=True)
            except self._library.no_script:
                connection.send_command(*self._backend.command(request, whole=True))
                return connection.read_response(disable_decoding=True)
        except BaseException:
            self._connections[index] = None
            connection.disconnect()
            raise

    def close(self) -> None:
        for index, connection in enumerate(self._connections):
            if connection is not None:
                self._connections[index] = None
                connection.disconnect()


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
            ears, self._ears = self._ears, None
            if ears is not None:
                ears.disconnect()
            for place in self._line.broken():
                _ring(place)

    def rest(self) -> None:
        """Stops listening if nobody has waited for a while.

        Called when something else is sent, not at the end of a wait: that would keep the waiter from its resource.
        """
        if (
            self._ears is not None
            and not self._line.places
            and monotonic() - self._waited_at > REST_S
            and self._pid == os.getpid()
        ):
            self.detach()

    def close(self) -> None:
        if self._ears is not None and self._pid == os.getpid():
            self.detach()

    def pause(self, pause: Pause) -> None:
        place, until = pause
        if place is None:
            time.sleep(max(0.0, (until or 0) - monotonic()))
            return
        place.bell = SimpleQueue()
        try:
            while not place.decided and (until is None or monotonic() < until):
                if self._is_elected(place):
                    self._lead(place, until)
                else:
                    _sleep(place, until)
        finally:
            if self._leader is place:
                self._leader = None
            self._waited_at = monotonic()
            self._appoint()

    def _is_elected(self, place: Place) -> bool:
        """True if this thread is to lead: nobody does, or the one who did is no longer in line (struck down by an
        exception before it could say so)."""
        with self._electing:
            leader = self._leader
            is_gone = leader is None or self._line.places.get(leader.token) is not leader
            if is_gone or self._leading_thread == threading.get_ident():  # this thread was struck down as it led before
                self._leader, self._leading_thread = place, threading.get_ident()
        return self._leader is place

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
        except Exception as error:
            if self._ears is ears:
                raise
            # Another thread, which could not give up its place, has closed it meanwhile: whatever that looks like here.
            raise Unreachable(error, stalled=False) from error
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
        """Wakes one who waits, to lead from now on."""
        for place in list(self._line.places.values()):
            if not place.decided and place.bell is not None:
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
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="relet-renewer", daemon=True)
                self._thread.start()

    def discard(self, lease: HeldLease) -> None:
        if self._pid == os.getpid():
            self._renewals.discard(lease)

    def _work(self) -> None:
        while True:
            next_at = self._renewals.next_at()
            if next_at is None:
                with self._starting:
                    if self._renewals.next_at() is None:
                        self._thread = None
                        return
                continue
            if next_at > monotonic():
                with contextlib.suppress(Empty):
                    self._calls.get(timeout=max(0.0, next_at - monotonic()))
                continue
            for lease, on_lost in run(self._renewals.renew_due(), lambda ask: self._asker.ask(ask.request)):
                tell(lease, on_lost)
