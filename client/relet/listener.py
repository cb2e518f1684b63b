"""Takes lapsed leases back from outside the server: for servers without RedisGears.

:mod:`relet.listening` thinks, :mod:`relet.station` connects, and one thread goes round.
"""

from __future__ import annotations

import inspect
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from relet.backend import Backend
from relet.catalogue import PAGE
from relet.client import Library
from relet.clock import monotonic
from relet.core import SWEEP
from relet.line import Unreachable
from relet.listening import Rota, Search
from relet.names import DEFAULT_NAMESPACE, check_namespace, check_pool
from relet.requests import Requests
from relet.station import Station, Stations

BATCH = 50
"""Pools that one round trip reclaims. They share SWEEP, so that the server is not held up for longer than by one."""
HEAR_S = 0.05
"""Seconds of listening at a time; while anybody is known to have lapsed leases, HEAR_BUSY_S."""
HEAR_BUSY_S = 0.001
MOVED_S = 0.2
"""Seconds between two tries while a pool moves to another node of a cluster."""

OnReclaim = Callable[[str, int], object]

_log = logging.getLogger("relet")


class Listener:
    """Takes lapsed leases back though nobody calls, on a server that cannot do so by itself.

    It looks at its pools at the start, when the server says that a lease's key expired, at the nearest deadline of
    each, at least once a second, and after each reconnect. It needs no notifications: they only make it quicker where
    a lease ends within that second. Any number may run side by side, with RedisGears too: each lapse counts once.

    Args:
        client: any client of redis-py (4.6 and later) or valkey-py for threads, also of a cluster. It is borrowed:
            the listener makes two connections of its own to each master, like those of the client.
        pools: their names; none: all pools of the namespace, also those yet to be made.
        set_notifications: lets it add what it needs to the server's ``notify-keyspace-events``, now and after each
            restart. Nothing that is set there is taken away.
        on_reclaim: called with a pool's name and how many of its lapsed leases came back, from the listening thread.

    As a context manager it runs in a thread of its own; :meth:`listen` runs it in the caller's. What it has to say
    goes to the logger ``relet``. It reconnects for ever, and raises nothing once it runs.
    """

    def __init__(
        self,
        client: Any,
        *pools: str,
        namespace: str = DEFAULT_NAMESPACE,
        set_notifications: bool = False,
        on_reclaim: OnReclaim | None = None,
    ) -> None:
        self._library = Library(client)
        if inspect.iscoroutinefunction(client.execute_command):
            raise TypeError(f"a Listener takes a client for threads, as redis.Redis is, not {client!r}")
        self._client = client
        self._namespace = check_namespace(namespace)
        self._only = tuple(check_pool(name) for name in pools)
        self._set_notifications = set_notifications
        self._on_reclaim = on_reclaim
        self._running = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None
        self._reset()

    def _reset(self) -> None:
        self._rota = Rota(self._namespace, self._only)
        self._search = Search()
        self._stations = Stations(self._client, self._set_notifications, self._say)
        self._places: dict[str, tuple[Backend, Requests]] = {}
        self._said: dict[str, str] = {}

    @property
    def namespace(self) -> str:
        """What every key of its pools begins with."""
        return self._namespace

    def start(self) -> Listener:
        """Listen in a thread, until :meth:`stop`. Returns at once, also where the server cannot be reached yet.

        Raises:
            RuntimeError: it listens already.
        """
        if self._running.locked() or (self._thread is not None and self._thread.is_alive()):
            raise RuntimeError("this Listener listens already")
        self._stopping.clear()
        self._thread = threading.Thread(target=self.listen, name="relet-listener", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening; waits for the thread to end, if there is one. A signal handler may call it."""
        self._stopping.set()
        waker, thread = self._waker, self._thread
        if waker is not None:
            with suppress(OSError):
                waker.send(b"\0")
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            self._thread = None

    def listen(self) -> None:
        """Listen in this thread, until :meth:`stop` is called elsewhere.

        Raises:
            RuntimeError: it listens already.
        """
        if not self._running.acquire(blocking=False):
            raise RuntimeError("this Listener listens already")
        bell, self._waker = socket.socketpair()
        bell.setblocking(False)
        self._waker.setblocking(False)
        try:
            while not self._stopping.is_set():
                self._go_round(bell)
        finally:
            self._stations.close()
            waker, self._waker = self._waker, None
            waker.close()
            bell.close()
            self._reset()
            self._stopping.clear()
            self._running.release()

    def __enter__(self) -> Listener:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        which = ", ".join(map(repr, self._only)) or "all pools"
        return f"<Listener {which} namespace={self._namespace!r}>"

    def _go_round(self, bell: socket.socket) -> None:
        try:
            self._stations.look()
            for station in self._stations:
                self._guarded(station, self._open)
            hear_s = HEAR_BUSY_S if self._sweep() else HEAR_S
            for station in self._stations:
                self._guarded(station, lambda station: self._rota.heard(station.expired(monotonic() + hear_s)))
            self._search_on()
        except Exception as error:
            _log.exception("the listener met an error that it does not know, and goes on")
            for station in self._stations:
                station.lost(error)
        self._rest(bell)

    def _guarded(self, station: Station, act: Callable[[Station], object]) -> None:
        """What a server cannot answer now, it is asked again after a pause, over new connections."""
        try:
            act(station)
        except Unreachable as lost:
            self._lose(station, lost.reason)
        except (self._library.response_error, self._library.connection_error) as error:  # a login refused, …
            self._lose(station, error)

    def _lose(self, station: Station, reason: BaseException) -> None:
        station.lost(reason)
        self._stations.look_again(station.away_until)

    def _open(self, station: Station) -> None:
        if station.is_open or monotonic() < station.away_until:
            return
        station.open()
        if self._said.pop(f"server{station.on}", ""):
            _log.info("the server%s answers again", station.on)
        self._places.clear()  # it may be another server, with other scripts and rights
        self._rota.all_due()
        self._search.restart()

    def _sweep(self) -> bool:
        """Reclaims a batch of what is due on each master; True if there is more."""
        due: dict[Station, list[str]] = {}
        for name in self._rota.due()[: BATCH * len(self._stations)]:
            station = self._stations.of(self._place(name)[0])
            if station is None:
                self._moved(name)
            elif not station.is_open:
                self._rota.postpone(name, station.away_until)
            else:
                due.setdefault(station, []).append(name)
        for station, names in due.items():
            self._guarded(station, partial(self._reclaim, names=names[:BATCH]))
        next_at = self._rota.next_at()
        return next_at is not None and next_at <= monotonic()

    def _reclaim(self, station: Station, names: list[str]) -> None:
        limit = SWEEP // len(names)
        wanted = {name: self._place(name)[1].reclaim(limit) for name in names}
        replies = dict(zip(names, self._ask(station, wanted, whole=False), strict=True))
        unknown = {n: wanted[n] for n in names if isinstance(replies[n], self._library.no_script)}
        replies.update(zip(unknown, self._ask(station, unknown, whole=True), strict=True))
        away: Exception | None = None
        for name, reply in replies.items():
            backend, requests = self._place(name)
            if isinstance(reply, Exception):
                backend.failed()
            elif not backend.proven:
                backend.succeeded(wanted[name])
            if not isinstance(reply, Exception):
                reclaimed = self._rota.swept(name, *wanted[name].decode(reply))
                if reclaimed:
                    self._tell(name, reclaimed)
            elif isinstance(reply, self._library.moving):
                self._moved(name, reply)
            elif station.is_away(reply):
                away = reply
            else:
                self._fail(name, requests.explain(reply))
        if away is not None:
            raise away

    def _ask(self, station: Station, wanted: dict[str, Any], whole: bool) -> list[Any]:
        if not wanted:
            return []
        return station.ask([self._place(name)[0].command(request, whole) for name, request in wanted.items()])

    def _moved(self, name: str, error: Exception | None = None) -> None:
        """The pool is on its way to another master."""
        if error is not None and not self._place(name)[0].is_cluster:
            self._fail(name, error)
            return
        self._stations.look_again(monotonic() + MOVED_S)
        self._rota.postpone(name, monotonic() + MOVED_S)

    def _fail(self, name: str, error: Exception) -> None:
        if self._rota.failed(name, str(error)):
            _log.warning("pool %r could not be reclaimed, and is tried again: %s", name, error)

    def _place(self, name: str) -> tuple[Backend, Requests]:
        place = self._places.get(name)
        if place is None:
            requests = Requests(self._namespace, name)
            place = self._places[name] = Backend(self._client, requests.keys), requests
        return place

    def _search_on(self) -> None:
        """Reads a page of one master's keys, in search of new pools."""
        if self._only or monotonic() < self._search.next_at:
            return
        stations = self._stations.all_open()
        if not stations:
            return
        node, cursor = self._search.page(list(stations))
        if node in stations:
            self._guarded(stations[node], partial(self._read_page, cursor=cursor))
        else:
            self._search.restart()

    def _read_page(self, station: Station, cursor: int) -> None:
        pattern = f"{self._namespace}:pool:{{*}}"
        (reply,) = station.ask([("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE, "TYPE", "hash")])
        if isinstance(reply, Exception):
            self._say("search", f"new pools cannot be found ({reply}): name those to listen to")
            reply = [b"0", []]
        else:
            self._say("search", "")
        self._rota.found(reply[1])
        if self._search.turned(int(reply[0])):
            self._rota.searched()
            self._places = {name: self._places[name] for name in self._rota.pools if name in self._places}

    def _rest(self, bell: socket.socket) -> None:
        """Until something is due, or there is something to hear, or to stop."""
        stations = self._stations.all_open().values()
        times = [self._stations.next_at(), monotonic() + 1.0]
        if stations:
            times.append(self._rota.next_at() or times[0])
            if not self._only:
                times.append(self._search.next_at)
        seconds = min(times) - monotonic()
        if seconds <= 0:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(bell, selectors.EVENT_READ)
            for station in stations:
                if station.socket is not None:
                    selector.register(station.socket, selectors.EVENT_READ)
            selector.select(seconds)
        with suppress(BlockingIOError):
            bell.recv(64)

    def _tell(self, name: str, reclaimed: int) -> None:
        _log.debug("%d lapsed leases of pool %r came back", reclaimed, name)
        if self._on_reclaim is not None:
            try:
                self._on_reclaim(name, reclaimed)
            except Exception:
                _log.exception("on_reclaim raised for pool %r", name)

    def _say(self, subject: str, text: str) -> None:
        if text and self._said.get(subject) != text:
            _log.warning("%s", text)
        self._said[subject] = text
