"""The pool for asyncio: everything that :class:`relet.Pool` does, with ``await``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from relet import tracing
from relet.backend import MOVING_PAUSE_S, MOVING_S, Backend
from relet.client import RAW, close_async, connect_async, is_async
from relet.clock import monotonic
from relet.confirming import confirm_async
from relet.core import PAGE, PoolCore, Resources
from relet.events import Event
from relet.flow import Flow, Progress, run_async
from relet.lane import Aside
from relet.lease import HeldLease
from relet.line import Ask, Attach, Pause, Unreachable
from relet.model import Grant, Policy, ResourceInfo, Stats, Waiter
from relet.names import DEFAULT_NAMESPACE, check_after
from relet.pool import CONNECTIONS
from relet.renewing import OnLost
from relet.replicas import Confirm
from relet.requests import Request, Requests
from relet.tasks import Background, TaskAsker, TaskLine, TaskRenewer

T = TypeVar("T")


class AsyncLease(HeldLease):
    """A lease acquired through an :class:`AsyncPool`; see :class:`relet.Lease`."""

    __slots__ = ("_pool",)

    def __init__(
        self, pool: AsyncPool, requests: Requests, grant: Grant, token: str, ttl_ms: int, ends_at: float
    ) -> None:
        super().__init__(requests, grant, token, ttl_ms, ends_at)
        self._pool = pool

    async def renew(self, ttl: float | None = None) -> None:
        """See :meth:`relet.Lease.renew`."""
        await self._pool._run(self._renew(ttl))

    async def release(self, *, quarantine: str | None = None) -> None:
        """See :meth:`relet.Lease.release`."""
        await self._pool._run(self._release(quarantine))

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._inherited:
            return
        try:
            await self.release()
        except Exception:
            if error is None:
                raise  # else the body's own exception goes on


class AsyncLeaseBlock:
    """What :meth:`AsyncPool.lease` returns; see :class:`relet.holding.LeaseBlock`."""

    def __init__(
        self, pool: AsyncPool, acquire: Callable[[], Flow[AsyncLease]], renew: bool, on_lost: OnLost | None
    ) -> None:
        self._pool = pool
        self._acquire = acquire
        self._renew = renew
        self._on_lost = on_lost
        self._lease: AsyncLease | None = None
        self._span: tracing.Span | None = None

    async def __aenter__(self) -> AsyncLease:
        if self._lease is not None:
            raise RuntimeError("a lease block holds one lease at a time: call pool.lease() for each")
        self._lease = lease = await self._pool._run(self._acquire())
        self._span = tracing.holding(self._pool.name, lease)
        if self._renew:
            self._pool._renewer.add(lease, self._on_lost)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            self._pool._renewer.discard(lease)
            await lease.__aexit__(kind, error, at)
        except BaseException as failure:
            error = failure
            raise
        finally:
            if self._span is not None:
                self._span.end(error)
                self._span = None


class AsyncCleaningBlock(AsyncLeaseBlock):
    """What :meth:`AsyncPool.cleaning` returns: where the body raises, nothing has been cleaned."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is not None and self._lease is not None and not self._lease._inherited:
            with contextlib.suppress(Exception):  # the body's own exception goes on, and says more
                await self._lease.release(quarantine=f"cleaning failed: {type(error).__name__}")
        await super().__aexit__(kind, error, at)


class AsyncPool(PoolCore[AsyncLease]):
    """A pool of named resources, for asyncio; see :class:`relet.Pool`.

    Args:
        client: any client of redis.asyncio or valkey.asyncio, also of a cluster. It is borrowed.

    Cancelling a task at any ``await`` leaves nothing taken: what it had been granted is given back.
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
        if not is_async(client):
            raise TypeError(
                f"an AsyncPool takes a client of asyncio; {type(client).__name__} for threads is for a Pool"
            )
        self._client = client
        self._backend = backend = Backend(client, self._requests.keys)
        self._owns_client = False
        self._permits = asyncio.Semaphore(CONNECTIONS)
        self._background = Background()
        self._asker = TaskAsker(backend, self._requests, self._exchange, self._background)
        self._line = TaskLine(backend, self._requests, self._asker, self._background)
        self._renewer = TaskRenewer(self._requests, self._asker, self._background)

    @classmethod
    async def from_url(
        cls,
        url: str,
        name: str,
        ttl: float = 30,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        owner: str | None = None,
        min_replicas: int = 0,
        **options: Any,
    ) -> AsyncPool:
        """See :meth:`relet.Pool.from_url`. It asks the server: ``pool = await AsyncPool.from_url(…)``."""
        PoolCore(name, ttl, namespace, owner, min_replicas)  # bad arguments show before anything is sent
        pool = cls(
            await connect_async(url, **options), name, ttl, namespace=namespace, owner=owner, min_replicas=min_replicas
        )
        pool._owns_client = True
        return pool

    async def try_acquire(self, ttl: float | None = None, *, owner: str | None = None) -> AsyncLease | None:
        """See :meth:`relet.Pool.try_acquire`."""
        return await self._run(self._try_acquire(ttl, owner))

    async def acquire(
        self, ttl: float | None = None, timeout: float | None = None, *, owner: str | None = None
    ) -> AsyncLease:
        """See :meth:`relet.Pool.acquire`."""
        return await self._run(self._acquire(ttl, timeout, owner))

    async def acquire_many(
        self, count: int, ttl: float | None = None, timeout: float | None = None, *, owner: str | None = None
    ) -> list[AsyncLease]:
        """See :meth:`relet.Pool.acquire_many`."""
        return await self._run(self._acquire_many(count, ttl, timeout, owner))

    async def release_many(self, leases: Iterable[AsyncLease]) -> None:
        """See :meth:`relet.Pool.release_many`."""
        await self._run(self._release_many(leases))

    def lease(
        self,
        ttl: float | None = None,
        timeout: float | None = None,
        *,
        owner: str | None = None,
        renew: bool = True,
        on_lost: Callable[[AsyncLease], object] | None = None,
    ) -> AsyncLeaseBlock:
        """See :meth:`relet.Pool.lease`. ``on_lost`` may be a coroutine function; it runs in a task of its own."""
        return AsyncLeaseBlock(self, partial(self._acquire, ttl, timeout, owner), renew, on_lost)

    async def renew(self, token: str, ttl: float | None = None) -> None:
        """See :meth:`relet.Pool.renew`."""
        await self._run(self._renew(token, ttl))

    async def release(self, token: str | None = None, *, resource: str | None = None, force: bool = False) -> bool:
        """See :meth:`relet.Pool.release`."""
        return await self._run(self._release(token, resource, force))

    async def add(self, *resources: Resources, order: str | None = None, progress: Progress | None = None) -> int:
        """See :meth:`relet.Pool.add`."""
        return await self._run(self._add(resources, order, progress))

    async def remove(self, *resources: Resources, progress: Progress | None = None) -> int:
        """See :meth:`relet.Pool.remove`."""
        return await self._run(self._remove(resources, progress))

    async def stats(self) -> Stats:
        """See :meth:`relet.Pool.stats`."""
        return await self._run(self._stats())

    async def resources(self) -> AsyncIterator[ResourceInfo]:
        """See :meth:`relet.Pool.resources`."""
        rank = 0
        while True:
            rank, page = await self._act(self._requests.page(rank, PAGE))
            for info in page:
                yield info
            if not rank:
                return

    async def waiters(self, limit: int = 100) -> list[Waiter]:
        """See :meth:`relet.Pool.waiters`."""
        return await self._run(self._waiters(limit))

    async def events(self, after: str | float = "0") -> AsyncIterator[Event]:
        """See :meth:`relet.Pool.events`."""
        last = check_after(after)
        while page := await self._act(self._requests.events(last, PAGE)):
            for event in page:
                yield event
            last = page[-1].id

    async def order(self) -> str | None:
        """See :meth:`relet.Pool.order`."""
        return await self._run(self._order())

    async def set_order(self, order: str) -> None:
        """See :meth:`relet.Pool.set_order`."""
        await self._run(self._set_order(order))

    async def quarantine(self, *resources: str, reason: str = "") -> int:
        """See :meth:`relet.Pool.quarantine`."""
        return await self._run(self._set_aside("quarantine", resources, reason))

    async def restore(self, *resources: str) -> int:
        """See :meth:`relet.Pool.restore`."""
        return await self._run(self._restore("quarantine", resources))

    async def drain(self, *resources: str, reason: str = "") -> int:
        """See :meth:`relet.Pool.drain`."""
        return await self._run(self._set_aside("drain", resources, reason))

    async def undrain(self, *resources: str) -> int:
        """See :meth:`relet.Pool.undrain`."""
        return await self._run(self._restore("drain", resources))

    def cleaning(
        self,
        ttl: float | None = None,
        timeout: float | None = None,
        *,
        owner: str | None = None,
        renew: bool = True,
        on_lost: Callable[[AsyncLease], object] | None = None,
    ) -> AsyncCleaningBlock:
        """See :meth:`relet.Pool.cleaning`; used with ``async with``."""
        return AsyncCleaningBlock(self, partial(self._clean, ttl, timeout, owner), renew, on_lost)

    async def policy(self) -> Policy:
        """See :meth:`relet.Pool.policy`."""
        return await self._run(self._policy(None, None))

    async def set_policy(self, *, on_lapse: str | None = None, on_release: str | None = None) -> Policy:
        """See :meth:`relet.Pool.set_policy`."""
        return await self._run(self._policy(on_lapse, on_release))

    async def reclaim(self) -> int:
        """See :meth:`relet.Pool.reclaim`."""
        return await self._run(self._reclaim())

    async def destroy(self) -> None:
        """See :meth:`relet.Pool.destroy`."""
        await self._run(self._destroy())

    async def close(self) -> None:
        """Close the client if the pool made it (:meth:`from_url`). Leases stay as they are."""
        if self._owns_client:
            await close_async(self._client)

    aclose = close

    async def __aenter__(self) -> AsyncPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _lease(self, requests: Requests, grant: Grant, token: str, ttl_ms: int, ends_at: float) -> AsyncLease:
        return AsyncLease(self, requests, grant, token, ttl_ms, ends_at)

    async def _run(self, flow: Flow[T]) -> T:
        try:
            return await run_async(flow, self._act)
        except Unreachable as lost:
            raise self._requests.told(lost.reason) from None
        finally:
            await self._line.rest()

    async def _act(self, effect: Any) -> Any:
        if isinstance(effect, Request):
            return await self._send(effect)
        if isinstance(effect, Ask):
            return await self._asker.ask(effect)
        if isinstance(effect, Attach):
            return await self._line.attach(effect.seconds)
        if isinstance(effect, Pause):
            return await self._line.pause(effect)
        if isinstance(effect, Confirm):
            return await self._background.finish(confirm_async(self._backend, effect))
        return await self._line.detach()

    async def _send(self, request: Request[T]) -> T:
        try:
            try:
                return await self._asker.shared(request)
            except Aside:
                return await self._background.finish(self._exchange(request))
        except self._backend.library.response_error as error:
            explained = self._requests.explain(error)
            if explained is error:
                raise
            raise explained from error

    async def _exchange(self, request: Request[T]) -> T:
        """The answer, or the client's own error."""
        library, send = self._backend.library, self._client.execute_command
        patient_until = 0.0
        while True:
            try:
                async with self._permits:
                    try:
                        reply = await send(*self._backend.command(request, whole=False), **RAW)
                    except library.no_script:  # the script did not run: sending it whole cannot do anything twice
                        reply = await send(*self._backend.command(request, whole=True), **RAW)
                if not self._backend.proven:
                    self._backend.succeeded(request)
                return request.decode(reply)
            except library.moving:
                patient_until = patient_until or monotonic() + MOVING_S
                if not self._backend.is_cluster or monotonic() >= patient_until:
                    raise
            except (AttributeError, ValueError) as error:
                self._backend.failed()
                torn = self._backend.torn(error)
                if torn is error:
                    raise
                raise torn from error
            except Exception:
                self._backend.failed()
                raise
            await asyncio.sleep(MOVING_PAUSE_S)
