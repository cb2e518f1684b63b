"""Spans around acquire and hold, in a program that records spans; and nothing of them in one that does not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from relet import AsyncPool, LeaseLost, Pool, PoolExhausted
from relet.client import close_async
from tests.command import environment
from tests.helpers import eventually, take, unique
from tests.metrics.conftest import Spans
from tests.servers import Server
from tests.waiting.drivers import ONE_SERVER

MakePool = Callable[..., Pool]


def shown(span: ReadableSpan) -> tuple[str, dict[str, Any], bool]:
    """Name, attributes, and whether it failed."""
    attributes = {key.removeprefix("relet."): value for key, value in (span.attributes or {}).items()}
    return span.name, attributes, span.status.status_code is trace.StatusCode.ERROR


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def below(tracer: trace.Tracer, name: str) -> None:
    tracer.start_span(name).end()


def check_a_block(found: list[ReadableSpan], pool: str, fence: int) -> None:
    """The spans of a block in which one more span was made, with one more after it."""
    acquire, inside, hold, after, outer = found
    assert shown(acquire) == ("relet.acquire", {"pool": pool, "resource": "a", "waited": False}, False)
    assert shown(hold) == ("relet.hold", {"pool": pool, "resource": "a", "fence": fence}, False)
    assert parent_of(acquire) == parent_of(hold) == parent_of(after) == id_of(outer)
    assert parent_of(inside) == id_of(hold)


@ONE_SERVER
def test_a_block_of_threads(pool: Pool, spans: Spans) -> None:
    pool.add("a")
    tracer = trace.get_tracer("test")
    with tracer.start_as_current_span("outer"):
        with pool.lease() as lease:
            below(tracer, "inside")
        below(tracer, "after")
    check_a_block(spans(), pool.name, lease.fence)


@ONE_SERVER
async def test_a_block_of_tasks(server: Server, pool: Pool, spans: Spans) -> None:
    pool.add("a")
    client = redis.asyncio.Redis.from_url(server.url)
    tracer = trace.get_tracer("test")
    theirs = AsyncPool(client, pool.name, namespace=pool.namespace)
    with tracer.start_as_current_span("outer"):
        async with theirs.lease() as lease:
            below(tracer, "inside")
        below(tracer, "after")
    await close_async(client)
    check_a_block(spans(), pool.name, lease.fence)


@ONE_SERVER
def test_every_verb_has_its_span(pool: Pool, spans: Spans) -> None:
    pool.add("a", "b")
    leases = pool.acquire_many(2)
    assert pool.try_acquire() is None
    with pytest.raises(PoolExhausted):
        pool.acquire(timeout=0)
    with pytest.raises(PoolExhausted):
        pool.acquire(timeout=0.01)
    pool.release_many(leases)
    take(pool).release()
    many, none, at_once, in_line, one = [shown(span) for span in spans()]
    assert many == ("relet.acquire", {"pool": pool.name, "resource": ("a", "b"), "waited": False}, False)
    assert none == ("relet.acquire", {"pool": pool.name, "waited": False}, False)
    assert at_once == ("relet.acquire", {"pool": pool.name, "waited": False}, True)
    assert in_line == ("relet.acquire", {"pool": pool.name, "waited": True}, True)
    assert one == ("relet.acquire", {"pool": pool.name, "resource": "a", "waited": False}, False)
    assert trace.get_current_span() is trace.INVALID_SPAN


@ONE_SERVER
def test_a_wait_says_that_it_waited(pool: Pool, spans: Spans) -> None:
    pool.add("a")
    lease = take(pool)
    waiter = threading.Thread(target=lambda: pool.acquire(timeout=60).release())
    waiter.start()
    eventually(lambda: pool.stats().waiting == 1, "a waiter in line")
    lease.release()
    waiter.join()
    assert shown(spans()[-1]) == ("relet.acquire", {"pool": pool.name, "resource": "a", "waited": True}, False)


@ONE_SERVER
def test_a_block_that_fails_says_why(pool: Pool, spans: Spans) -> None:
    pool.add("a")
    with pytest.raises(ZeroDivisionError), pool.lease():
        raise ZeroDivisionError
    with pytest.raises(LeaseLost), pool.lease(renew=False):
        pool.release(resource="a", force=True)
    for span, what in zip(spans()[1::2], ("ZeroDivisionError", "LeaseLost"), strict=True):
        assert span.name == "relet.hold"
        assert span.status.status_code is trace.StatusCode.ERROR
        assert [what in str((event.attributes or {})["exception.type"]) for event in span.events] == [True]


@ONE_SERVER
def test_a_block_left_by_another_thread_changes_nothing_there(
    pool: Pool, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    pool.add("a")
    block = pool.lease()
    entering = threading.Thread(target=block.__enter__)
    entering.start()
    entering.join()
    with trace.get_tracer("test").start_as_current_span("mine") as mine:
        block.__exit__(None, None, None)
        assert trace.get_current_span() is mine
    assert [span.name for span in spans()] == ["relet.acquire", "relet.hold", "mine"]
    assert caplog.text == "", "OpenTelemetry complains of a context that was made elsewhere"


WITHOUT = """
import sys
sys.modules.update({"opentelemetry": None, "prometheus_client": None})
import redis
from relet import Pool
pool = Pool(redis.Redis.from_url(sys.argv[1]), "gpu", namespace=sys.argv[2])
pool.add("a")
with pool.lease() as lease:
    print(lease.resource)
pool.destroy()
"""


@ONE_SERVER
def test_a_program_that_has_neither_package(server: Server, namespace: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, server.url, namespace],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")


@ONE_SERVER
def test_a_program_that_records_nothing_gets_no_span(pool: Pool) -> None:
    """The API is here, and no provider."""
    pool.add("a")
    with pool.lease():
        assert trace.get_current_span() is trace.INVALID_SPAN


WATCHED = """
import runpy
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from relet.metrics import instrument
trace.set_tracer_provider(TracerProvider())
instrument()
runpy.run_module("tests.waiting.interrupts", run_name="__main__")
"""


@ONE_SERVER
def test_random_interrupts_while_all_is_watched(server: Server, make_pool: MakePool) -> None:
    """As tests/waiting does it to a program that nobody watches: see interrupts.py there."""
    name = unique("interrupts")
    pool = make_pool(name=name)
    pool.add("a", "b", "c")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, server.url, name, "150"],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=Path(__file__).parents[2],  # where "-c" finds the tests
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    eventually(lambda: pool.stats().free == 3, "every resource to be free")
