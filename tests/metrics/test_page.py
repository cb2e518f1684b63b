"""The page of ``relet metrics``: what it says is what the pools say, and a server that is gone does not hold it up."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from relet import Pool, PoolExhausted
from relet.metrics import PoolsCollector
from tests.command import environment, failed, relet
from tests.helpers import Raw, eventually, lapse, take
from tests.metrics.conftest import Serve
from tests.metrics.page import Samples, named
from tests.servers import Server
from tests.waiting.drivers import ONE_SERVER, TWO_SERVERS

MakePool = Callable[..., Pool]


def of_stats(name: str, pool: Pool) -> Samples:
    """What the page has of a pool, by its own counts."""
    stats = pool.stats()
    return {
        ("relet_pool_up", name): 1,
        ("relet_resources", name, "free"): stats.free,
        ("relet_resources", name, "leased"): stats.leased,
        ("relet_resources", name, "quarantined"): stats.quarantined,
        ("relet_waiting", name): stats.waiting,
        ("relet_granted_total", name): stats.granted,
        ("relet_released_total", name): stats.released,
        ("relet_lapsed_total", name): stats.lapsed,
    }


@TWO_SERVERS
def test_it_says_what_the_pools_say(make_pool: MakePool, namespace: str, serve: Serve) -> None:
    busy, idle = (make_pool(name=name, namespace=namespace) for name in ("busy", "idle"))
    busy.add("a", "b", "c", "d", "e")
    idle.add("x")
    take(busy).release()
    lapse(take(busy, ttl=0.001))
    busy.quarantine("e")
    leases = [take(busy) for _ in range(4)]

    def wait() -> None:
        with suppress(PoolExhausted):
            busy.acquire(timeout=60).release()

    waiter = threading.Thread(target=wait)
    waiter.start()
    try:
        eventually(lambda: busy.stats().waiting == 1, "a waiter in line")
        stats = busy.stats()
        assert (stats.leased, stats.quarantined, stats.waiting) == (4, 1, 1)
        assert (stats.granted, stats.released, stats.lapsed) == (6, 1, 1)
        assert serve().samples() == {("relet_up",): 1, **of_stats("busy", busy), **of_stats("idle", idle)}
    finally:
        busy.release_many(leases)
        waiter.join()


@ONE_SERVER
def test_pools_are_found_anew_at_each_scrape(make_pool: MakePool, namespace: str, serve: Serve) -> None:
    page = serve()
    assert page.samples() == {("relet_up",): 1}
    first, second = (make_pool(name=name, namespace=namespace) for name in ("first", "second"))
    first.add("a")
    assert named(page.samples(), "relet_pool_up") == {("first",)}
    second.add("a")
    first.destroy()
    assert named(page.samples(), "relet_pool_up") == {("second",)}


@ONE_SERVER
def test_named_pools_alone(make_pool: MakePool, namespace: str, serve: Serve) -> None:
    here, other = (make_pool(name=name, namespace=namespace) for name in ("here", "other"))
    here.add("a")
    other.add("a")
    page = serve("here", "nowhere")
    assert page.samples() == {("relet_up",): 1, ("relet_pool_up", "nowhere"): 0, **of_stats("here", here)}


@ONE_SERVER
def test_a_damaged_pool_does_not_hide_the_others(
    client: redis.Redis, make_pool: MakePool, namespace: str, serve: Serve
) -> None:
    damaged, well = (make_pool(name=name, namespace=namespace) for name in ("damaged", "well"))
    damaged.add("a", "b")
    well.add("a")
    key = f"{Raw(client, damaged).root}:free"
    client.delete(key)
    client.set(key, "no sorted set")
    samples = serve().samples()
    client.delete(key)
    assert samples == {("relet_up",): 1, ("relet_pool_up", "damaged"): 0, **of_stats("well", well)}


def test_a_server_that_goes_and_comes_back(namespace: str, serve_at: Serve) -> None:
    with Server.start("valkey-9.1", appendonly="yes", appendfsync="always") as server:
        with Pool.from_url(server.url, "gpu", namespace=namespace) as pool:
            pool.add("a")
        page = serve_at(server.url)
        there = page.samples()
        assert there["relet_up",] == there["relet_pool_up", "gpu"] == 1
        server.pause()
        assert page.samples() == {("relet_up",): 0}, "it is silent"
        server.resume()
        eventually(lambda: page.samples() == there, "it to answer again")
        server.kill()
        assert page.samples() == {("relet_up",): 0}, "it is gone"
        server.restart()
        eventually(lambda: page.samples() == there, "it to be back")
    ended = page.end()
    assert ended.code == 0
    assert [line.partition(" ")[0] for line in ended.err.splitlines()] == ["relet:"], "the silence is no error"


def test_a_server_that_is_not_there_yet(serve_at: Serve) -> None:
    with Server.start("valkey-9.1") as server:
        server.kill()
        page = serve_at(server.url)
        assert page.samples() == {("relet_up",): 0}
        server.restart()
        eventually(lambda: page.samples() == {("relet_up",): 1}, "the server to be seen")
    assert "cannot reach" in page.end().err


def test_scrapes_of_a_silent_server_do_not_pile_up() -> None:
    answers = threading.Event()
    calls = []

    def connect() -> Any:
        calls.append(1)
        answers.wait(60)
        raise ConnectionError("gone after all")

    told: list[Exception] = []
    collector = PoolsCollector(connect, patience=0.01, on_failure=told.append)

    def up() -> float:
        (family,) = collector.collect()
        return family.samples[0].value

    try:
        assert [up() for _ in range(3)] == [0, 0, 0]
        assert len(calls) == 1
    finally:
        answers.set()
    eventually(lambda: len(told) == 1, "the failure to be told")
    eventually(lambda: up() == 0 and len(calls) > 2, "later scrapes to try again")
    assert len(told) == 1, "once is enough"


@ONE_SERVER
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_how_it_ends(serve: Serve, number: int, code: int) -> None:
    page = serve()
    assert page.samples() == {("relet_up",): 1}
    assert page.end(number) == (code, "")


@ONE_SERVER
def test_its_first_line(serve: Serve, namespace: str) -> None:
    assert serve().line.startswith(f"metrics of all pools in namespace {namespace} at http://127.0.0.1:")
    assert serve("a", "b").line.startswith(f"metrics of pools a, b in namespace {namespace} at http://127.0.0.1:")


@ONE_SERVER
def test_a_port_that_is_taken(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = failed(relet("--url", server.url, "metrics", "--port", str(port)), 1)
    assert f"127.0.0.1:{port}" in text
    assert "--port" in text


def test_what_is_wrong_from_the_start() -> None:
    assert "no URL of a server" in failed(relet("--url", "http://x", "metrics", "--port", "0"), 2)
    assert "pool's name" in failed(relet("metrics", "a:b", "--port", "0"), 2)


def test_without_prometheus_client_it_names_the_extra() -> None:
    hidden = (
        "import sys; sys.modules['prometheus_client'] = None; from relet.cli import main; sys.exit(main(['metrics']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, env=environment(), timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "relet: relet metrics needs prometheus_client: pip install 'relet[metrics]'\n"
