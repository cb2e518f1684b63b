"""Metrics for Prometheus: what the server says of its pools, and what this process saw of its own waits.

Needs prometheus_client (``pip install 'relet[metrics]'``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from relet.catalogue import pools
from relet.clock import monotonic
from relet.core import PoolCore
from relet.errors import PoolExhausted, ReletError
from relet.model import Stats
from relet.names import DEFAULT_NAMESPACE, check_namespace, check_pool
from relet.observing import Asked
from relet.pool import Pool

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("relet.metrics needs prometheus_client: pip install 'relet[metrics]'") from error

PATIENCE_S = 5.0
"""How long a scrape waits for the server; Prometheus itself waits 10 s for a scrape unless it is told otherwise."""
STATES = ("free", "leased", "quarantined")
BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
"""A grant without a wait takes a round trip; a wait takes as long as others work."""

Counts = dict[str, Stats | None]
"""The counts of each pool, by its name; None where it could not be counted."""


class PoolsCollector(Collector):
    """Asks the server at each scrape, and never for longer than ``patience`` seconds.

    Args:
        connect: answers a client for threads, as a :class:`relet.Pool` takes it. Called at the first scrape, and at
            the next ones while it raises.
        names: the pools; without any, all those of the namespace that there are at each scrape.
        on_failure: called with the error when the server cannot be asked, once until it answers again.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *names: str,
        namespace: str = DEFAULT_NAMESPACE,
        patience: float = PATIENCE_S,
        on_failure: Callable[[Exception], object] | None = None,
    ) -> None:
        self._names = tuple(map(check_pool, names))
        self._namespace = check_namespace(namespace)
        self._connect = connect
        self._patience = patience
        self._on_failure = on_failure
        self._is_down = False
        self._client: Any = None
        self._pools: dict[str, Pool] = {}
        self._looking = threading.Lock()
        self._look: _Look | None = None

    def describe(self) -> Iterable[Metric]:
        """Nothing: to register it asks no server."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """What a scrape gets."""
        counts = self._current().result(self._patience)
        yield GaugeMetricFamily("relet_up", "Whether the server could be asked.", int(counts is not None))
        if counts is not None:
            yield from _families(counts)

    def _current(self) -> _Look:
        """The look that is under way, or a new one: scrapes of a silent server do not pile up."""
        with self._looking:
            if self._look is None or self._look.is_over:
                self._look = _Look(self._count)
            return self._look

    def _count(self) -> Counts | None:
        try:
            counts = self._counted()
        except Exception as error:
            was_down, self._is_down = self._is_down, True
            if self._on_failure is not None and not was_down:
                self._on_failure(error)
            return None
        self._is_down = False
        return counts

    def _counted(self) -> Counts:
        if self._client is None:
            self._client = self._connect()
        names = self._names or sorted(pools(self._client, self._namespace))
        self._pools = {name: self._pools.get(name) or self._pool(name) for name in names}
        return {name: self._stats(pool) for name, pool in self._pools.items()}

    def _pool(self, name: str) -> Pool:
        return Pool(self._client, name, namespace=self._namespace)

    def _stats(self, pool: Pool) -> Stats | None:
        try:
            order, stats = pool._send(pool._requests.stats())
        except (ReletError, pool._backend.library.response_error) as error:
            if isinstance(error, pool._backend.library.connection_error):
                raise
            return None  # of this pool; the others go on
        return stats if order else None


class _Look:
    """One look at the server, in a thread of its own: whatever the client waits for, a scrape need not."""

    def __init__(self, count: Callable[[], Counts | None]) -> None:
        self._count = count
        self._counts: Counts | None = None
        self._thread = threading.Thread(target=self._run, name="relet-metrics", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self, patience: float) -> Counts | None:
        """What was counted; None if the server could not be asked, or not in time."""
        self._thread.join(patience)
        return self._counts

    def _run(self) -> None:
        self._counts = self._count()


def _families(counts: Counts) -> Iterable[Metric]:
    up = GaugeMetricFamily("relet_pool_up", "Whether the pool is there and could be counted.", labels=["pool"])
    resources = GaugeMetricFamily("relet_resources", "Resources by state.", labels=["pool", "state"])
    waiting = GaugeMetricFamily("relet_waiting", "Waiters in line.", labels=["pool"])
    granted = CounterMetricFamily("relet_granted", "Leases granted.", labels=["pool"])
    released = CounterMetricFamily("relet_released", "Leases that were released.", labels=["pool"])
    lapsed = CounterMetricFamily("relet_lapsed", "Leases that lapsed.", labels=["pool"])
    for name, stats in counts.items():
        up.add_metric([name], int(stats is not None))
        if stats is None:
            continue
        for state in STATES:
            resources.add_metric([name, state], getattr(stats, state))
        waiting.add_metric([name], stats.waiting)
        granted.add_metric([name], stats.granted)
        released.add_metric([name], stats.released)
        lapsed.add_metric([name], stats.lapsed)
    return up, resources, waiting, granted, released, lapsed


class Reported:
    """What the calls of this process saw: see :func:`instrument`. Of threads and tasks alike."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._targets: list[Any] = []
        self._seconds = Histogram(
            "relet_wait_seconds",
            "Seconds from asking for a resource to its grant, also where none had to be waited for.",
            ["pool"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._waits = Counter(
            "relet_waits", "Calls that stood in line, by how they ended.", ["pool", "outcome"], registry=registry
        )
        self._handoffs = Counter(
            "relet_handoffs", "Resources that were granted to a call that stood in line.", ["pool"], registry=registry
        )

    def add(self, *observed: PoolCore[Any] | type[PoolCore[Any]]) -> None:
        """Looks on at these pools, too."""
        for target in observed:
            if target not in self._targets:
                target._observer = self
                self._targets.append(target)

    def ended(self, asked: Asked, granted: int, error: BaseException | None) -> None:
        """See :class:`relet.observing.Observer`."""
        if granted and asked.may_wait:
            self._seconds.labels(asked.pool).observe(monotonic() - asked.began_at)
        if asked.waited:
            outcome = "granted" if granted else "exhausted" if isinstance(error, PoolExhausted) else "failed"
            self._waits.labels(asked.pool, outcome).inc()
            if granted:
                self._handoffs.labels(asked.pool).inc(granted)

    def close(self) -> None:
        """Looks on no longer, and takes its metrics out of the registry."""
        while self._targets:
            target = self._targets.pop()
            if vars(target).get("_observer") is self:
                if target is PoolCore:
                    PoolCore._observer = None
                else:
                    del target._observer
        for metric in (self._seconds, self._waits, self._handoffs):
            with suppress(KeyError):
                self._registry.unregister(metric)


def instrument(*observed: PoolCore[Any], registry: CollectorRegistry = REGISTRY) -> Reported:
    """Counts what this process sees of its waits, for its own page of metrics: ``relet_wait_seconds`` (a histogram, of
    ``acquire``, ``acquire_many`` and ``lease``), ``relet_waits_total`` and ``relet_handoffs_total``.

    Args:
        observed: pools, of threads or of asyncio; without any, all pools of this process, those yet to be made too.
        registry: of prometheus_client, where the metrics go. It takes one ``instrument``; ``add`` takes further pools.
    """
    reported = Reported(registry)
    reported.add(*(observed or (PoolCore,)))
    return reported
