"""Spans of OpenTelemetry around acquiring and holding, in a program that records any.

``relet.acquire`` has the attributes ``relet.pool``, ``relet.resource`` (of several: a sequence; absent where none was
granted) and ``relet.waited``, whether it stood in line; ``relet.hold``, the block of ``with pool.lease()``, has
``relet.pool``, ``relet.resource`` and ``relet.fence``. What a block does is below its span, and the spans of an
instrumented Redis client are below that of the acquire.

A program that records spans has imported opentelemetry and set a provider. So relet never imports it: where nobody did
both, a look into ``sys.modules`` is all that this costs.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from relet.lease import HeldLease

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_TRACE = "opentelemetry.trace"


class Span:
    """A span that is current from its making to its end."""

    def __init__(self, tracer: Tracer, name: str, attributes: dict[str, Any]) -> None:
        from opentelemetry import context, trace

        self._span = tracer.start_span(name, attributes=attributes)
        self._before = context.attach(trace.set_span_in_context(self._span))

    def acquired(self, resources: list[str], waited: bool, error: BaseException | None) -> None:
        """Ends the span of an acquire."""
        self._span.set_attribute("relet.waited", waited)
        if resources:
            self._span.set_attribute("relet.resource", resources[0] if len(resources) == 1 else resources)
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Ends the span; where it is another thread or task that does so, nothing there is changed."""
        from opentelemetry import context, trace

        if error is not None and not isinstance(error, GeneratorExit):
            self._span.record_exception(error)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self._span.end()
        if trace.get_current_span() is self._span:
            context.detach(self._before)


def is_on() -> bool:
    """Whether this program records spans."""
    return _TRACE in sys.modules and _tracer() is not None


def acquiring(pool: str) -> Span | None:
    """Begins the span of an acquire, if this program records any."""
    tracer = _tracer()
    return None if tracer is None else Span(tracer, "relet.acquire", {"relet.pool": pool})


def holding(pool: str, lease: HeldLease) -> Span | None:
    """Begins the span of a block that holds a lease, if this program records any."""
    tracer = _tracer()
    if tracer is None:
        return None
    attributes = {"relet.pool": pool, "relet.resource": lease.resource, "relet.fence": lease.fence}
    return Span(tracer, "relet.hold", attributes)


def _tracer() -> Tracer | None:
    trace: Any = sys.modules.get(_TRACE)
    if trace is None or getattr(trace, "_TRACER_PROVIDER", trace) is None:  # a short cut: redis-py 8 imports it, too
        return None
    try:
        provider = trace.get_tracer_provider()
        return None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)
    except AttributeError:  # another thread is just importing it
        return None


@lru_cache(maxsize=1)
def _tracer_of(provider: Any) -> Tracer:
    tracer: Tracer = provider.get_tracer("relet")
    return tracer
