"""Every verb of a pool as a flow, its arguments checked before anything is sent. Does no I/O; both drivers run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from relet import tracing
from relet.aside import AsideCore
from relet.clock import lease_end, monotonic
from relet.errors import PoolExhausted
from relet.flow import Flow, Progress
from relet.lease import HeldLease
from relet.model import Stats, Waiter
from relet.names import (
    check_attributes,
    check_count,
    check_limit,
    check_namespace,
    check_order,
    check_owner,
    check_pool,
    check_replicas,
    check_resource,
    check_timeout,
    check_token,
    check_ttl,
    default_owner,
    new_token,
    new_token_for,
    token_of,
)
from relet.observing import Asked, Observer, observed
from relet.replicas import confirmed
from relet.requests import Requests
from relet.waiting import Granted, ask, give_up, wait_in_line

Resources = str | Iterable[str] | Mapping[str, Mapping[str, Any] | None]

CHUNK = 250
"""Names a call of add or remove: about a millisecond of the server's time."""
SWEEP = 250
"""Lapsed leases a call of reclaim: about as long."""
CLEAR = 125
"""Names of each of its sets that a call of destroy clears: again as long."""
PAGE = 250
"""Resources a call when they are listed."""

L = TypeVar("L", bound=HeldLease)
T = TypeVar("T")


class PoolCore(AsideCore[L]):
    """What :class:`relet.Pool` and ``AsyncPool`` share; ``_lease`` is their kind of lease."""

    _observer: Observer | None = None
    """Is told of every call that asks for resources; of all pools (:func:`relet.metrics.instrument`) or of this."""

    def __init__(self, name: str, ttl: float, namespace: str, owner: str | None, min_replicas: int = 0) -> None:
        self._name = check_pool(name)
        self._namespace = check_namespace(namespace)
        self._ttl_ms = check_ttl(ttl)
        self._owner = None if owner is None else check_owner(owner)
        self._min_replicas = check_replicas(min_replicas)
        self._requests = Requests(self._namespace, self._name)

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._name

    @property
    def namespace(self) -> str:
        """What every key of the pool begins with."""
        return self._namespace

    @property
    def ttl(self) -> float:
        """The default time to live of this pool's leases, in seconds."""
        return self._ttl_ms / 1000

    def _lease(self, requests: Requests, grant: Any, token: str, ttl_ms: int, ends_at: float) -> L:
        raise NotImplementedError

    def _asked(self, ttl: float | None, owner: str | None) -> tuple[int, bytes]:
        """The ttl in ms and the owner of a lease that is asked for."""
        ttl_ms = self._ttl_ms if ttl is None else check_ttl(ttl)
        return ttl_ms, (self._owner or default_owner()) if owner is None else check_owner(owner)

    def _try_acquire(self, ttl: float | None, owner: str | None) -> Flow[L | None]:
        if self._observer is None and not tracing.is_on():
            return self._first_free(ttl, owner)
        flow = self._first_free(ttl, owner)
        return self._observed(Asked(self._name, may_wait=False), flow, lambda lease: [lease] if lease else [])

    def _acquire(self, ttl: float | None, timeout: float | None, owner: str | None) -> Flow[L]:
        if self._observer is None and not tracing.is_on():
            return self._next(ttl, timeout, owner)
        asked = Asked(self._name, may_wait=timeout != 0)
        return self._observed(asked, self._next(ttl, timeout, owner, asked), lambda lease: [lease])

    def _acquire_many(self, count: int, ttl: float | None, timeout: float | None, owner: str | None) -> Flow[list[L]]:
        if self._observer is None and not tracing.is_on():
            return self._all_or_none(count, ttl, timeout, owner)
        asked = Asked(self._name, may_wait=timeout != 0)
        return self._observed(asked, self._all_or_none(count, ttl, timeout, owner, asked), list)

    def _observed(self, asked: Asked, flow: Flow[T], leases_of: Callable[[T], list[L]]) -> Flow[T]:
        return observed(asked, self._observer, flow, leases_of, self._take_back)

    def _take_back(self, leases: list[L]) -> Flow[None]:
        if leases:
            yield from give_up(self._requests, leases[0].token, len(leases))

    def _first_free(self, ttl: float | None, owner: str | None) -> Flow[L | None]:
        ttl_ms, named = self._asked(ttl, owner)
        token = new_token()
        grant, asked_at = yield from ask(self._requests, self._requests.acquire(token, ttl_ms, named), token, 1)
        if grant is None:
            return None
        ends_at = lease_end(asked_at, grant.left_ms)
        if self._min_replicas:
            granted = yield from confirmed(self._requests, token, ttl_ms, [(grant, ends_at)], self._min_replicas)
            ((grant, ends_at),) = granted
        return self._lease(self._requests, grant, token, ttl_ms, ends_at)

    def _next(self, ttl: float | None, timeout: float | None, owner: str | None, asked: Asked | None = None) -> Flow[L]:
        if timeout == 0 and check_timeout(timeout) == 0:
            lease = yield from self._first_free(ttl, owner)
            if lease is None:
                raise PoolExhausted(f"no resource of pool {self._name!r} is free")
            return lease
        (lease,) = yield from self._all_or_none(1, ttl, timeout, owner, asked)
        return lease

    def _all_or_none(
        self, count: int, ttl: float | None, timeout: float | None, owner: str | None, asked: Asked | None = None
    ) -> Flow[list[L]]:
        check_count(count)
        ttl_ms, named = self._asked(ttl, owner)
        seconds = check_timeout(timeout)
        ends_at = None if seconds is None else monotonic() + seconds
        while True:
            token = new_token_for(count)
            if seconds == 0:
                granted = yield from self._ask_once(token, count, ttl_ms, named)
            else:
                granted = yield from wait_in_line(self._requests, token, count, ttl_ms, named, ends_at, asked)
            if len(granted) in (0, count):
                break
            yield from give_up(self._requests, token, count)  # before we were told, an operator took some: all or none
        if not granted:
            what = (
                f"no resource of pool {self._name!r}" if count == 1 else f"no {count} resources of pool {self._name!r}"
            )
            free = "is free" if count == 1 else "are free"
            raise PoolExhausted(f"{what} {free}" if seconds == 0 else f"{what} came free within {timeout} s")
        if self._min_replicas:
            granted = yield from confirmed(self._requests, token, ttl_ms, granted, self._min_replicas)
        return [
            self._lease(self._requests, grant, token_of(token, number), ttl_ms, ends_at)
            for number, (grant, ends_at) in enumerate(granted, 1)
        ]

    def _ask_once(self, token: str, count: int, ttl_ms: int, owner: bytes) -> Flow[Granted]:
        request = self._requests.acquire_many(token, ttl_ms, owner, count)
        answer, asked_at = yield from ask(self._requests, request, token, count)
        return [(grant, lease_end(asked_at, grant.left_ms)) for grant in answer] if isinstance(answer, list) else []

    def _release_many(self, leases: Iterable[L]) -> Flow[None]:
        held = [lease for lease in leases if not lease.released]
        lost: list[str] = []
        for start in range(0, len(held), CHUNK):
            chunk = held[start : start + CHUNK]
            answers = yield self._requests.release_many([(lease.token, lease._grant) for lease in chunk])
            for lease, released in zip(chunk, answers, strict=True):
                lease._is_released, lease._is_lost = released, not released
                if not released:
                    lost.append(lease.resource)
        if lost:
            raise self._requests.lost(*lost)

    def _add(self, resources: tuple[Resources, ...], order: str | None, progress: Progress | None) -> Flow[int]:
        if order is not None:
            check_order(order)
        pairs = [
            (check_resource(name), b"" if attributes is None else check_attributes(name, attributes))
            for name, attributes in _named(resources)
        ]
        added = 0
        for start in range(0, max(len(pairs), 1), CHUNK):
            chunk = pairs[start : start + CHUNK]
            added += yield self._requests.add(order, chunk)
            if progress:
                progress(start + len(chunk))
        return added

    def _remove(self, resources: tuple[Resources, ...], progress: Progress | None) -> Flow[int]:
        names = [check_resource(name) for name, _ in _named(resources)]
        removed = 0
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            removed += yield self._requests.remove(chunk)
            if progress:
                progress(start + len(chunk))
        return removed

    def _renew(self, token: str, ttl: float | None) -> Flow[None]:
        check_token(token)
        ttl_ms = self._ttl_ms if ttl is None else check_ttl(ttl)
        (deadline_ms,) = yield self._requests.renew([(token, ttl_ms, None)])
        if deadline_ms is None:
            raise self._requests.lost()

    def _release(self, token: str | None, resource: str | None, force: bool) -> Flow[bool]:
        if (token is None) == (resource is None):
            raise TypeError("release takes a token, or resource=… with force=True")
        if resource is not None:
            encoded = check_resource(resource)
            if not force:
                raise ValueError(f"only the holder of the token releases {resource!r}; an operator passes force=True")
            taken: bool = yield self._requests.force_release(resource, encoded)
            return taken
        check_token(token)
        if force:
            raise ValueError("force=True goes with resource=…: who has the token needs no force")
        assert token is not None
        released = yield self._requests.release(token, None)
        if not released:
            raise self._requests.lost()
        return True

    def _stats(self) -> Flow[Stats]:
        _, stats = yield self._requests.stats()
        return stats  # type: ignore[no-any-return]

    def _waiters(self, limit: int) -> Flow[list[Waiter]]:
        check_limit(limit)
        return (yield self._requests.waiters(limit))  # type: ignore[no-any-return]

    def _order(self) -> Flow[str | None]:
        order, _ = yield self._requests.stats()
        return order or None

    def _set_order(self, order: str) -> Flow[None]:
        check_order(order)
        rank = 0
        while True:
            rank = yield self._requests.reorder(order, rank, CHUNK)
            if not rank:
                return

    def _reclaim(self) -> Flow[int]:
        reclaimed = 0
        swept: int
        while True:
            swept, _ = yield self._requests.reclaim(SWEEP)
            reclaimed += swept
            if swept < SWEEP:
                return reclaimed

    def _destroy(self) -> Flow[None]:
        left = yield self._requests.destroy(True, CLEAR)
        while left:
            left = yield self._requests.destroy(False, CLEAR)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} namespace={self._namespace!r} ttl={self.ttl:g}>"


def _named(groups: tuple[Resources, ...]) -> list[tuple[str, Any]]:
    """(name, attributes or None) pairs from names, iterables of names, and mappings from name to attributes."""
    named: list[tuple[str, Any]] = []
    for group in groups:
        if isinstance(group, Mapping):
            named.extend(group.items())
        elif isinstance(group, (str, bytes, bytearray)) or not isinstance(group, Iterable):
            named.append((group, None))
        else:
            named.extend((name, None) for name in group)
    return named
