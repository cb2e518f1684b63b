"""How threads ask the server: spread over a few locks, and over connections of their own where they may not wait."""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import Any

from relet.backend import Backend
from relet.line import Unreachable
from relet.requests import Request, Requests

CONNECTIONS = 2
"""How many a process uses to ask for its waiters; one more listens."""


class Stripe:
    """A lock that is given in order of arrival: ``with (mine := threading.Lock()), stripe.after(mine), stripe.lock:``

    A plain lock goes to whoever is quickest: of many threads that send one request after the other, some got it half a
    second late. Here each waits for a lock of the one ahead of it. `with` on a lock written in C is the one way of
    waiting that KeyboardInterrupt cannot leak, at whatever point it strikes; what is written in Python (a semaphore, a
    context manager) loses a place now and then. Who is struck down in the queue lets the one behind go on to ``lock``.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._swapping = threading.Lock()
        self._last = threading.Lock()

    def after(self, mine: threading.Lock) -> threading.Lock:
        """The lock of the one ahead; ``mine``, which is held, is that of the next one to come."""
        with self._swapping:
            ahead, self._last = self._last, mine
        return ahead


class Stripes:
    """A few locks among which threads are spread: as many requests go out at once, over as many connections."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._stripes = [Stripe() for _ in range(self._number)]
        self._turns = count()
        self._threads = threading.local()

    def index(self) -> int:
        """The stripe of this thread: threads get one in turn."""
        if self._pid != os.getpid():  # a thread of the parent's may hold a lock, and there is none in a fork's child
            self._reset()
        try:
            return self._threads.index  # type: ignore[no-any-return]
        except AttributeError:
            self._threads.index = index = next(self._turns) % self._number
            return index

    def __getitem__(self, index: int) -> Stripe:
        return self._stripes[index]


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
            stripe = self._stripes[index]
            with (mine := threading.Lock()), stripe.after(mine), stripe.lock, self._backend.asking():
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
