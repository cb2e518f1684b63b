"""The pool for threads: sends what :mod:`relet.core` thinks of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from relet.asking import Asker, Stripes
from relet.backend import MOVING_PAUSE_S, MOVING_S, Backend
from relet.client import RAW, close, connect, is_async
from relet.clock import monotonic
from relet.confirming import confirm
from relet.core import PAGE, PoolCore, Resources
from relet.events import Event
from relet.flow import Flow, Progress, run
from relet.holding import CleaningBlock, Lease, LeaseBlock
from relet.lane import Aside, lane_of
from relet.line import Ask, Attach, Pause, Unreachable
from relet.model import Grant, Policy, ResourceInfo, Stats, Waiter
from relet.names import DEFAULT_NAMESPACE, check_after
from relet.replicas import Confirm
from relet.requests import Request, Requests
from relet.threads import Renewer, ThreadLine

T = TypeVar("T")

CONNECTIONS = 6
"""How many requests of one pool go out at once over the client that it was handed."""


class Pool(PoolCore[Lease]):
    """A pool of named resources, leased one at a time, on a Redis or Valkey server.

    Args:
        client: any client of redis-py (4.6 and later) or valkey-py, also of a cluster. It is borrowed: the pool never
            closes it, and any number of pools may share it.
        name: the pool's, 1 to 128 characters without braces, colon, white space or control characters.
        ttl: the default time to live of its leases, seconds (0.001 to 366 days).
        namespace: what all its keys begin with.
        owner: who holds its leases, for people to read; by default ``user@host:pid``.
        min_replicas: how many replicas must have a lease before it is granted (renewals and releases are not waited
            for). Where fewer confirm it within a second, or a third of its ttl, it is given back: NotReplicated.

    Making one sends nothing. A Pool may be shared by threads. Errors of the client (connection lost, …) pass through.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        ttl: float = 30,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        owner: str | None = None,
        min_replicas: int = 0,
    ) -> None:
        super().__init__(name, ttl, namespace, owner, min_replicas)
        if is_async(client):
            raise TypeError(
                f"a Pool takes a client for threads; {type(client).__name__} of asyncio is for an AsyncPool"
            )
        self._client = client
        self._backend = backend = Backend(client, self._requests.keys)
        self._lane = lane_of(client, backend.library)
        self._owns_client = False
        self._stripes = Stripes(CONNECTIONS)
        self._asker = Asker(backend, self._requests)
        self._line = ThreadLine(backend, self._requests, self._asker)
        self._renewer = Renewer(self._requests, self._asker)

    @classmethod
    def from_url(
        cls,
        url: str,
        name: str,
        ttl: float = 30,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        owner: str | None = None,
        min_replicas: int = 0,
        **options: Any,
    ) -> Pool:
        """A pool with a client of its own, closed by :meth:`close` or at the end of a ``with`` block.

        Args:
            url: ``redis://``, ``rediss://``, ``unix://`` (a cluster is found by itself: one INFO is sent),
                ``sentinel://HOST,HOST…/MASTER`` (:mod:`relet.sentinel` has the rest of the form), or ``local:`` for a
                server of this user's own, started where it does not run (:mod:`relet.local`).
            options: for the client, as redis-py's ``Redis.from_url`` takes them.
        """
        PoolCore(name, ttl, namespace, owner, min_replicas)  # bad arguments show before anything is sent
        pool = cls(connect(url, **options), name, ttl, namespace=namespace, owner=owner, min_replicas=min_replicas)
        pool._owns_client = True
        return pool

    def try_acquire(self, ttl: float | None = None, *, owner: str | None = None) -> Lease | None:
        """Lease the first free resource, or None if none is free. One round trip."""
        return self._run(self._try_acquire(ttl, owner))

    def acquire(self, ttl: float | None = None, timeout: float | None = None, *, owner: str | None = None) -> Lease:
        """Lease the next free resource; wait for it in line with everybody else who does.

        Args:
            ttl: of the lease, seconds (default: the pool's).
            timeout: how long to wait, seconds; None: for ever, 0: not at all.

        Raises:
            PoolExhausted: none came free in time. Nothing was taken.
        """
        return self._run(self._acquire(ttl, timeout, owner))

    def acquire_many(
        self, count: int, ttl: float | None = None, timeout: float | None = None, *, owner: str | None = None
    ) -> list[Lease]:
        """Lease ``count`` resources (1 to 500), all or none, waiting for them in line like :meth:`acquire`.

        Whoever is first in line for several is not passed over for one behind who wants fewer. One round trip.
        """
        return self._run(self._acquire_many(count, ttl, timeout, owner))

    def release_many(self, leases: Iterable[Lease]) -> None:
        """Give several resources back, in one round trip for up to 250.

        Raises:
            LeaseLost: some of the leases were over already; the others are released.
        """
        self._run(self._release_many(leases))

    def lease(
        self,
        ttl: float | None = None,
        timeout: float | None = None,
        *,
        owner: str | None = None,
        renew: bool = True,
        on_lost: Callable[[Lease], object] | None = None,
    ) -> LeaseBlock:
        """Hold a resource for a ``with`` block: wait for it, renew it in the background, release it at the end.

        Args:
            ttl: how long the lease outlives a crash of this process, seconds (default: the pool's). It is renewed
                every third of that.
            timeout: how long to wait, seconds; None: for ever, 0: not at all.
            renew: False leaves the deadline where it is.
            on_lost: called with the lease, from the renewing thread, as soon as the lease is known to be lost.

        Raises:
            PoolExhausted: none came free in time.
            LeaseLost: at the end of the block, if the lease was lost and the body raised nothing itself.
        """
        return LeaseBlock(self, partial(self._acquire, ttl, timeout, owner), renew, on_lost)

    def renew(self, token: str, ttl: float | None = None) -> None:
        """Move the deadline of a lease to ``ttl`` seconds from now (default: the pool's), for who kept only the token.

        Raises:
            LeaseLost: no lease has that token any more.
        """
        self._run(self._renew(token, ttl))

    def release(self, token: str | None = None, *, resource: str | None = None, force: bool = False) -> bool:
        """Give a resource back, for who kept only the token; or take it from its holder with ``resource``, ``force``.

        Returns:
            True; False if the resource to be taken by force was not leased.

        Raises:
            LeaseLost: no lease has that token any more.
            ResourceUnknown: the pool has no such resource.
        """
        return self._run(self._release(token, resource, force))

    def add(self, *resources: Resources, order: str | None = None, progress: Progress | None = None) -> int:
        """Put resources into the pool; the first call makes the pool.

        Args:
            resources: names, iterables of names, and mappings from name to attributes (a JSON object, or None to leave
                them as they are). Those already there keep their place and their lease.
            order: in which free resources are handed out: ``"rank"`` (as added; the default of a new pool), ``"lru"``
                (longest idle first) or ``"random"``. The pool keeps it; :meth:`set_order` changes it.
            progress: called with the number of names sent so far.

        Returns:
            How many were new, or were to be removed and stay now.

        Raises:
            ReletError: the pool has another order than the one asked for.
        """
        return self._run(self._add(resources, order, progress))

    def remove(self, *resources: Resources, progress: Progress | None = None) -> int:
        """Take resources out of the pool: a free one at once, a leased one when it comes back.

        Returns:
            How many were removed or newly marked.
        """
        return self._run(self._remove(resources, progress))

    def stats(self) -> Stats:
        """Counts of this instant, true without any reclaim having run. All zero where there is no pool yet."""
        return self._run(self._stats())

    def resources(self) -> Iterator[ResourceInfo]:
        """Every resource, in the order in which they were added; read in pages, each page of one instant."""
        rank = 0
        while True:
            rank, page = self._send(self._requests.page(rank, PAGE))
            yield from page
            if not rank:
                return

    def waiters(self, limit: int = 100) -> list[Waiter]:
        """Who waits in line, first come first, as of this instant. One round trip.

        Whoever lost the connection over which it would be told does not show, as it does not count in :meth:`stats`.
        A cleaner that waits (:meth:`cleaning`) stands in no line.

        Args:
            limit: how many at most, 1 to 250; whoever is behind the first 250, dead or alive, is not looked at.
        """
        return self._run(self._waiters(limit))

    def events(self, after: str | float = "0") -> Iterator[Event]:
        """What the pool's log has of lapses, forced releases, adds, removes, quarantines: oldest first, about the last
        2,000 entries.

        Args:
            after: the ``id`` of an event to go on behind it, or a time in seconds since 1970 to begin with.
        """
        last = check_after(after)
        while page := self._send(self._requests.events(last, PAGE)):
            yield from page
            last = page[-1].id

    def order(self) -> str | None:
        """The order in which free resources are handed out; None where there is no pool yet."""
        return self._run(self._order())

    def set_order(self, order: str) -> None:
        """Change the order in which free resources are handed out.

        While it runs, resources go out in a mixture of both orders; if it is cut short, run it again.
        """
        self._run(self._set_order(order))

    def quarantine(self, *resources: str, reason: str = "") -> int:
        """Keep resources aside for whoever cleans or mends them: a free one now, a leased one when it comes back.

        Args:
            reason: for people to read, at most 256 bytes in UTF-8.

        Returns:
            How many are aside now, or will be; those that were already have the new reason, and do not count.

        Raises:
            ResourceUnknown: the pool does not have some of them; the others are kept aside.
        """
        return self._run(self._set_aside("quarantine", resources, reason))

    def restore(self, *resources: str) -> int:
        """Bring resources back from quarantine, uncleaned if need be; what is drained stays so.

        Returns:
            How many were in quarantine, or would have gone there.

        Raises:
            ResourceUnknown: the pool does not have some of them; the others are restored.
        """
        return self._run(self._restore("quarantine", resources))

    def drain(self, *resources: str, reason: str = "") -> int:
        """Like :meth:`quarantine`, but no cleaner gets them either, until :meth:`undrain`."""
        return self._run(self._set_aside("drain", resources, reason))

    def undrain(self, *resources: str) -> int:
        """Bring resources back that were drained; see :meth:`restore`."""
        return self._run(self._restore("drain", resources))

    def cleaning(
        self,
        ttl: float | None = None,
        timeout: float | None = None,
        *,
        owner: str | None = None,
        renew: bool = True,
        on_lost: Callable[[Lease], object] | None = None,
    ) -> CleaningBlock:
        """Hold a resource from quarantine for a ``with`` block, to clean it: that which has been there longest.

        It is free at the end of the block. If the body raises, or the lease lapses (the cleaner crashed) or is taken by
        force, it is in quarantine again. The arguments are those of :meth:`lease`; a cleaner that waits looks twice a
        second.

        Raises:
            PoolExhausted: nothing came into quarantine in time.
        """
        return CleaningBlock(self, partial(self._clean, ttl, timeout, owner), renew, on_lost)

    def policy(self) -> Policy:
        """Where resources go that come back."""
        return self._run(self._policy(None, None))

    def set_policy(self, *, on_lapse: str | None = None, on_release: str | None = None) -> Policy:
        """Say where resources go that come back: ``"free"``, or ``"quarantine"``. The pool keeps it.

        Args:
            on_lapse: after a lease that lapsed; None: as it is.
            on_release: after one that was released; None: as it is. After a forced release either counts.
        """
        return self._run(self._policy(on_lapse, on_release))

    def reclaim(self) -> int:
        """Take all lapsed leases back now, and say how many. Every acquire does so by itself, as far as it needs."""
        return self._run(self._reclaim())

    def destroy(self) -> None:
        """Delete the pool, leased resources included: their holders will find their lease lost."""
        self._run(self._destroy())

    def close(self) -> None:
        """Close the connections that the pool made: its own few, and the client if it is from :meth:`from_url`.

        Leases stay as they are."""
        self._line.close()
        self._asker.close()
        if self._lane is not None:
            self._lane.close()
        if self._owns_client:
            close(self._client)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lease(self, requests: Requests, grant: Grant, token: str, ttl_ms: int, ends_at: float) -> Lease:
        return Lease(self, requests, grant, token, ttl_ms, ends_at)

    def _run(self, flow: Flow[T]) -> T:
        try:
            return run(flow, self._act)
        except Unreachable as lost:
            raise self._requests.told(lost.reason) from None

    def _act(self, effect: Any) -> Any:
        if isinstance(effect, Request):
            return self._send(effect)
        if isinstance(effect, Ask):
            return self._asker.ask(effect.request)
        if isinstance(effect, Attach):
            return self._line.attach()
        if isinstance(effect, Pause):
            return self._line.pause(effect)
        if isinstance(effect, Confirm):
            return confirm(self._backend, effect)
        return self._line.detach()

    def _send(self, request: Request[T]) -> T:
        self._line.rest()
        library = self._backend.library
        stripe = self._stripes[self._stripes.index()]
        patient_until = 0.0
        while True:
            try:
                with (mine := threading.Lock()), stripe.after(mine), stripe.lock:
                    try:
                        reply = self._exchange(*self._backend.command(request, whole=False))
                    except library.no_script:  # the script did not run: sending it whole cannot do anything twice
                        reply = self._exchange(*self._backend.command(request, whole=True))
                if not self._backend.proven:
                    self._backend.succeeded(request)
                return request.decode(reply)
            except library.moving:
                patient_until = patient_until or monotonic() + MOVING_S
                if not self._backend.is_cluster or monotonic() >= patient_until:
                    raise
            except library.response_error as error:
                self._backend.failed()
                explained = self._requests.explain(error)
                if explained is error:
                    raise
                raise explained from error
            except (AttributeError, ValueError) as error:
                self._backend.failed()
                torn = self._backend.torn(error)
                if torn is error:
                    raise
                raise torn from error
            except Exception:
                self._backend.failed()
                raise
            except BaseException:
                self._drop_connections()
                raise
            time.sleep(MOVING_PAUSE_S)

    def _exchange(self, *command: Any) -> Any:
        if self._lane is not None and self._backend.proven:  # the server was well when it was asked last
            try:
                return self._lane.exchange(*command)
            except Aside:
                pass
        return self._client.execute_command(*command, **RAW)

    def _drop_connections(self) -> None:
        """After KeyboardInterrupt and the like: a connection may be back in its pool with its reply still to come."""
        for pool in self._backend.connection_pools():
            try:
                pool.disconnect(inuse_connections=False)
            except TypeError:  # BlockingConnectionPool of redis-py before 5.1
                pool.disconnect()
