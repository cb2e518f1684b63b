"""Who looks on while a resource is asked for: an observer (:mod:`relet.metrics`), a span (:mod:`relet.tracing`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from relet import tracing
from relet.clock import monotonic
from relet.flow import Flow
from relet.lease import HeldLease

L = TypeVar("L", bound=HeldLease)
T = TypeVar("T")


class Asked:
    """One call of ``acquire`` or the like, from its beginning to its end."""

    __slots__ = ("began_at", "may_wait", "pool", "waited")

    def __init__(self, pool: str, may_wait: bool) -> None:
        self.pool = pool
        self.may_wait = may_wait
        self.waited = False
        """It has stood in line. Set by the flow of the wait."""
        self.began_at = monotonic()


class Observer(Protocol):
    """Is told of every call that asks a pool for resources, in the thread or task of the call. Must not raise."""

    def ended(self, asked: Asked, granted: int, error: BaseException | None) -> None:
        """The call ended with so many resources, or with an error (None, too, where ``try_acquire`` found none)."""


def observed(
    asked: Asked,
    observer: Observer | None,
    flow: Flow[T],
    leases_of: Callable[[T], list[L]],
    take_back: Callable[[list[L]], Flow[None]],
) -> Flow[T]:
    """The flow of one call, watched. Interrupted after the grant, it takes back what nobody will come to hold."""
    span = tracing.acquiring(asked.pool)
    leases: list[L] = []
    failure: BaseException | None = None
    try:
        answer = yield from flow
        leases = leases_of(answer)
    except BaseException as error:
        failure = error
        raise
    finally:
        try:
            if observer is not None:
                observer.ended(asked, len(leases), failure)
            if span is not None:
                span.acquired([lease.resource for lease in leases], asked.waited, failure)
        except BaseException:
            yield from take_back(leases)
            raise
    return answer
