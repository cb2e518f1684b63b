"""What :class:`relet.Pool` hands out: leases, and the blocks that hold one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from relet import tracing
from relet.flow import Flow
from relet.lease import HeldLease
from relet.model import Grant
from relet.renewing import OnLost
from relet.requests import Requests

if TYPE_CHECKING:
    from relet.pool import Pool


class Lease(HeldLease):
    """A lease acquired through a :class:`relet.Pool`. As a context manager it is released at the end of the block."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool, requests: Requests, grant: Grant, token: str, ttl_ms: int, ends_at: float) -> None:
        super().__init__(requests, grant, token, ttl_ms, ends_at)
        self._pool = pool

    def renew(self, ttl: float | None = None) -> None:
        """Move the deadline to ``ttl`` seconds from now (default: the ttl asked for last).

        Raises:
            LeaseLost: the lease is over. Nothing was changed.
        """
        self._pool._run(self._renew(ttl))

    def release(self, *, quarantine: str | None = None) -> None:
        """Give the resource back. Once that is done, doing it again does nothing.

        Args:
            quarantine: give it into quarantine, for this reason: it wants cleaning or mending before anybody uses it.

        Raises:
            LeaseLost: the lease was over already. Nothing of the next holder's was touched.
        """
        self._pool._run(self._release(quarantine))

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._inherited:
            return
        try:
            self.release()
        except Exception:
            if error is None:
                raise  # else the body's own exception goes on: it says more, and the resource comes back by itself


class LeaseBlock:
    """What :meth:`relet.Pool.lease` returns: acquires at the start of a ``with`` block, renews in it, and releases."""

    def __init__(self, pool: Pool, acquire: Callable[[], Flow[Lease]], renew: bool, on_lost: OnLost | None) -> None:
        self._pool = pool
        self._acquire = acquire
        self._renew = renew
        self._on_lost = on_lost
        self._lease: Lease | None = None
        self._span: tracing.Span | None = None

    def __enter__(self) -> Lease:
        if self._lease is not None:
            raise RuntimeError("a lease block holds one lease at a time: call pool.lease() for each")
        self._lease = lease = self._pool._run(self._acquire())
        try:
            self._span = tracing.holding(self._pool.name, lease)
            if self._renew:
                self._pool._renewer.add(lease, self._on_lost)
        except BaseException as error:  # the block is not entered, so nobody will leave it
            self.__exit__(type(error), error, None)
            raise
        return lease

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            self._pool._renewer.discard(lease)
            lease.__exit__(kind, error, at)
        except BaseException as failure:
            error = failure
            raise
        finally:
            if self._span is not None:
                self._span.end(error)
                self._span = None


class CleaningBlock(LeaseBlock):
    """What :meth:`relet.Pool.cleaning` returns: where the body raises, nothing has been cleaned."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None and self._lease is not None and not self._lease._inherited:
            with contextlib.suppress(Exception):  # the body's own exception goes on, and says more
                self._lease.release(quarantine=f"cleaning failed: {type(error).__name__}")
        super().__exit__(kind, error, at)
