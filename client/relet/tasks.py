"""How tasks wait: the driver of :mod:`relet.line` over redis.asyncio or valkey.asyncio.

While anybody waits there are two tasks a pool, one that listens and one that keeps the clock; then none.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from relet.backend import Backend
from relet.clock import monotonic
from relet.flow import run_async
from relet.lane import Aside
from relet.lease import HeldLease
from relet.line import Ask, Line, Pause, Place, Unreachable
from relet.renewing import OnLost, Renewals, tell
from relet.requests import Request, Requests
from relet.sharing import sharing_of

T = TypeVar("T")

_log = logging.getLogger("relet")

Send = Callable[[Request[Any]], Awaitable[Any]]


class Background:
    """The tasks that a pool has running, kept from being collected; their errors are looked at."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits ``work``, and lets it come to its end when it is cancelled meanwhile: what was sent gets its reply
        read, and what is given up afterwards is given up after it arrived. A second cancellation does not wait.

        In a task of its own also because redis-py sends by way of `asyncio.wait_for`, which before Python 3.12 now and
        then swallows a cancellation.
        """
        task = self.start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait({task})
            raise


class TaskAsker:
    """Asks the server over the borrowed client, but for no longer than a waiter can wait."""

    def __init__(self, backend: Backend, requests: Requests, send: Send, background: Background) -> None:
        self._backend = backend
        self._library = backend.library
        self._explain = requests.explain
        self._send = send
        self._background = background
        self._sharing = sharing_of(backend.client, backend.library)

    async def shared(self, request: Request[T], seconds: float | None = None) -> T:
        """Asks along with other tasks. Raises Aside, the client's errors, or asyncio.TimeoutError after ``seconds``."""
        if self._sharing is None or not self._backend.proven:  # the server was not well when it was asked last
            raise Aside
        try:
            try:
                reply = await self._sharing.exchange(self._backend.command(request, whole=False), seconds)
            except self._library.no_script:  # the script did not run: sending it whole cannot do anything twice
                reply = await self._sharing.exchange(self._backend.command(request, whole=True), seconds)
        except Aside:
            raise
        except Exception:
            self._backend.failed()
            raise
        return request.decode(reply)

    async def ask(self, ask: Ask) -> Any:
        try:
            try:
                with self._backend.asking():
                    return await self.shared(ask.request, ask.seconds)
            except Aside:
                return await self._background.finish(self._bounded(ask))
        except Unreachable as lost:
            lost.stalled |= self._backend.may_return
            raise
        except self._library.response_error as error:
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error

    async def _bounded(self, ask: Ask) -> Any:
        with self._backend.asking():
            return await asyncio.wait_for(self._sent(ask.request), ask.seconds)

    async def _sent(self, request: Request[Any]) -> Any:
        try:
            return await self._send(request)
        except self._library.connection_error:  # of an old connection: the server had closed it, or is no master now
            return await self._send(request)


class TaskLine:
    """The waiting tasks of one pool."""

    def __init__(
        self,
        backend: Backend,
        requests: Requests,
        asker: TaskAsker,
        background: Background,
    ) -> None:
        self._backend = backend
        self._library = backend.library
        self._asker = asker
        self._background = background
        self._line = Line(requests)
        self._ears: Any = None
        self._ears_at: object = None
        self._attaching = asyncio.Lock()
        self._stir = asyncio.Event()
        self._work: list[asyncio.Task[None]] = []

    async def attach(self, seconds: float) -> Line:
        """Listens, if nobody does yet. Raises Unreachable."""
        async with self._attaching:
            if self._ears is None:
                listening = self._background.start(self._subscribed(seconds))
                try:
                    ears, node = await asyncio.shield(listening)
                except asyncio.CancelledError:
                    listening.add_done_callback(self._hang_up)
                    raise
                self._ears, self._ears_at = ears, node
                self._work = [self._background.start(self._listen(ears)), self._background.start(self._keep_time())]
        return self._line

    async def _subscribed(self, seconds: float) -> tuple[Any, object]:
        """A connection that listens, and the node it leads to. In a task of its own, as before Python 3.12
        `asyncio.wait_for` may swallow a cancellation."""
        with self._backend.asking():
            ears, node = self._backend.connection(timeout=None), self._backend.node()
            try:
                await asyncio.wait_for(self._subscribe(ears, self._line.open()), seconds)
            except BaseException:
                await ears.disconnect(nowait=True)
                raise
        return ears, node

    async def _subscribe(self, ears: Any, channels: tuple[bytes, ...]) -> None:
        await ears.connect()
        await ears.send_command("SUBSCRIBE", *channels)
        for _ in channels:
            await ears.read_response(disable_decoding=True)

    def _hang_up(self, listening: asyncio.Task[tuple[Any, object]]) -> None:
        """Closes the connection that nobody came to use."""
        if not listening.cancelled() and listening.exception() is None:
            self._background.start(listening.result()[0].disconnect(nowait=True))

    async def detach(self) -> None:
        """Stops listening; whoever waits has to ask again. Does not suspend."""
        ears, self._ears = self._ears, None
        work, self._work = self._work, []
        for task in work:
            if task is not asyncio.current_task():
                task.cancel()
        if ears is not None:
            await ears.disconnect(nowait=True)
        for place in self._line.broken():
            _ring(place)

    async def rest(self) -> None:
        """Stops listening if nobody waits. Does not suspend: what its caller has been granted must not get lost."""
        if not self._line.places and self._ears is not None:
            await self.detach()

    async def pause(self, pause: Pause) -> None:
        place, until = pause
        left = None if until is None else max(0.0, until - monotonic())
        if place is None:
            await asyncio.sleep(left or 0)
            return
        place.bell = asyncio.get_running_loop().create_future()
        self._stir.set()
        if not place.decided:
            await asyncio.wait({place.bell}, timeout=left)

    async def _listen(self, ears: Any) -> None:
        try:
            while True:
                with self._library.unreachable():
                    kind, channel, message = await ears.read_response(disable_decoding=True)
                if kind == b"message":
                    for place in self._line.heard(channel, message):
                        _ring(place)
                    if channel != self._line.channel:
                        self._stir.set()
        except Exception:
            if ears is self._ears:
                await self.detach()

    async def _keep_time(self) -> None:
        ears = self._ears
        while ears is self._ears:
            left = self._line.due_at() - monotonic()
            if left > 0:
                await _stirred(self._stir, left)
                continue
            try:
                await self._attend()
            except Exception:  # whatever it is: those who wait ask again, and are told themselves
                await self.detach()

    async def _attend(self) -> None:
        if self._ears_at != self._backend.node():
            raise Unreachable(ConnectionError("the pool has moved to another node"), stalled=True)
        for batch in self._line.attending():
            asked_at = monotonic()
            answer = await self._asker.ask(Ask(self._line.attend(batch)))
            for place in self._line.attended(batch, answer, asked_at):
                _ring(place)


def _ring(place: Place) -> None:
    if place.bell is not None and not place.bell.done():
        place.bell.set_result(None)


class TaskRenewer:
    """Renews a pool's leases from one task, which lives as long as there is a lease to renew."""

    def __init__(self, requests: Requests, asker: TaskAsker, background: Background) -> None:
        self._asker = asker
        self._background = background
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stir = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._renewals = Renewals(requests, self._wake)

    def add(self, lease: HeldLease, on_lost: OnLost | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._renewals.add(lease, on_lost)
        if self._task is None or self._task.done():
            self._task = self._background.start(self._work())

    def discard(self, lease: HeldLease) -> None:
        self._renewals.discard(lease)
        if self._task is not None and self._renewals.next_at() is None:
            self._task.cancel()
            self._task = None

    def _wake(self) -> None:
        """May be called from any thread: a lease is forgotten where the collector finds it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stir.set)

    async def _work(self) -> None:
        while (next_at := self._renewals.next_at()) is not None:
            left = next_at - monotonic()
            if left > 0:
                await _stirred(self._stir, left)
                continue
            for lease, on_lost in await run_async(self._renewals.renew_due(), self._asker.ask):
                answer = tell(lease, on_lost)
                if inspect.isawaitable(answer):
                    self._background.start(_logged(answer, lease))


async def _logged(answer: Awaitable[Any], lease: HeldLease) -> None:
    try:
        await answer
    except Exception:
        _log.exception("on_lost raised for the lease of %r", lease.resource)


async def _stirred(stir: asyncio.Event, seconds: float) -> None:
    """Sleeps until ``stir`` is set, or for so many seconds."""
    stir.clear()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(stir.wait(), seconds)
