"""The drivers of tests/waiting, a registry, and spans that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from tests.helpers import unique
from tests.metrics.page import Page
from tests.servers import Server
from tests.waiting.conftest import driver, pytest_pyfunc_call, world  # noqa: F401  # fixtures and a hook

Serve = Callable[..., Page]
Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def namespace() -> str:
    return unique("metrics")


@pytest.fixture
def serve_at(namespace: str) -> Iterator[Serve]:
    """Starts ``relet metrics`` on a server: ``serve_at(url, "gpu")``."""
    with ExitStack() as stack:

        def start(url: str, *arguments: str) -> Page:
            return stack.enter_context(Page(*arguments, env={"RELET_URL": url, "RELET_NAMESPACE": namespace}))

        yield start


@pytest.fixture
def serve(server: Server, serve_at: Serve) -> Serve:
    """Starts ``relet metrics`` on the session's server: ``serve("gpu")``."""
    return partial(serve_at, server.url)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """This process records spans for as long as the test runs; answers those that have ended, in that order."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    # The API sets a provider once and for all; no other test is to be traced.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield lambda: list(kept.get_finished_spans())
    provider.shutdown()
