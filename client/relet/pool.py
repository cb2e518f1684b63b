"""The pool for threads: sends what :mod:`relet.core` thinks of."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, TypeVar

from relet.client import RAW, command, connect, errors_of
from relet.core import PAGE, PoolCore, Resources
from relet.flow import Flow, Progress
from relet.lease import HeldLease
from relet.model import Grant, ResourceInfo, Stats
from relet.names import DEFAULT_NAMESPACE
from relet.requests import Request, Requests

T = TypeVar("T")


class Lease(HeldLease):
    """A lease acquired through a :class:`Pool`. As a context manager it is released at the end of the block."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool, requests: Requests, grant: Grant, token: str, ttl_ms: int, asked_at: float) -> None:
        super().__init__(requests, grant, token, ttl_ms, asked_at)
        self._pool = pool

    def renew(self, ttl: float | None = None) -> None:
        """Move the deadline to ``ttl`` seconds from now (default: the ttl asked for last).

        Raises:
            LeaseLost: the lease is over. Nothing was changed.
        """
        self._pool._run(self._renew(ttl))

    def release(self) -> None:
        """Give the resource back. Once that is done, doing it again does nothing.

        Raises:
            LeaseLost: the lease was over already. Nothing of the next holder's was touched.
        """
        self._pool._run(self._release())

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.release()
        except Exception:
            if error is None:
                raise  # else the body's own exception goes on: it says more, and the resource comes back by itself


class Pool(PoolCore[Lease]):
    """A pool of named resources, leased one at a time, on a Redis or Valkey server.

    Args:
        client: any client of redis-py (4.6 and later) or valkey-py, also of a cluster. It is borrowed: the pool never
            closes it, and any number of pools may share it.
        name: the pool's, 1 to 128 characters without braces, colon, white space or control characters.
        ttl: the default time to live of its leases, seconds (0.001 to 366 days).
        namespace: what all its keys begin with.
        owner: who holds its leases, for people to read; by default ``user@host:pid``.

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
    ) -> None:
        super().__init__(name, ttl, namespace, owner)
        errors = errors_of(client)
        self._client = client
        self._no_script: type[Exception] = errors.NoScriptError
        self._response_error: type[Exception] = errors.ResponseError
        self._owns_client = False

    @classmethod
    def from_url(
        cls,
        url: str,
        name: str,
        ttl: float = 30,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        owner: str | None = None,
        **options: Any,
    ) -> Pool:
        """A pool with a client of its own, closed by :meth:`close` or at the end of a ``with`` block.

        Args:
            url: ``redis://``, ``rediss://`` or ``unix://``; a cluster is found by itself (one INFO is sent).
            options: for the client, as redis-py's ``Redis.from_url`` takes them.
        """
        PoolCore(name, ttl, namespace, owner)  # bad arguments show before anything is sent
        pool = cls(connect(url, **options), name, ttl, namespace=namespace, owner=owner)
        pool._owns_client = True
        return pool

    def try_acquire(self, ttl: float | None = None, *, owner: str | None = None) -> Lease | None:
        """Lease the first free resource, or None if none is free. One round trip."""
        return self._run(self._try_acquire(ttl, owner))

    def acquire(self, ttl: float | None = None, timeout: float | None = 0, *, owner: str | None = None) -> Lease:
        """Lease the first free resource.

        Raises:
            PoolExhausted: none is free.
        """
        return self._run(self._acquire(ttl, timeout, owner))

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

    def order(self) -> str | None:
        """The order in which free resources are handed out; None where there is no pool yet."""
        return self._run(self._order())

    def set_order(self, order: str) -> None:
        """Change the order in which free resources are handed out.

        While it runs, resources go out in a mixture of both orders; if it is cut short, run it again.
        """
        self._run(self._set_order(order))

    def reclaim(self) -> int:
        """Take all lapsed leases back now, and say how many. Every acquire does so by itself, as far as it needs."""
        return self._run(self._reclaim())

    def destroy(self) -> None:
        """Delete the pool, leased resources included: their holders will find their lease lost."""
        self._run(self._destroy())

    def close(self) -> None:
        """Close the client if the pool made it (:meth:`from_url`). Leases stay as they are."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lease(self, requests: Requests, grant: Grant, token: str, ttl_ms: int, asked_at: float) -> Lease:
        return Lease(self, requests, grant, token, ttl_ms, asked_at)

    def _run(self, flow: Flow[T]) -> T:
        try:
            request = next(flow)
            while True:
                request = flow.send(self._send(request))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _send(self, request: Request[T]) -> T:
        keys = self._requests.keys
        try:
            try:
                reply = self._client.execute_command(*command(request, keys.root, keys.tracking, False), **RAW)
            except self._no_script:  # the script did not run: sending it whole cannot do anything twice
                reply = self._client.execute_command(*command(request, keys.root, keys.tracking, True), **RAW)
        except self._response_error as error:
            explained = self._requests.explain(error)
            if explained is error:
                raise
            raise explained from error
        return request.decode(reply)
