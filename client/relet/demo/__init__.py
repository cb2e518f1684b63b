"""``relet demo``: workers on one pool, killed all the time, and a referee that trusts nothing relet says."""

from __future__ import annotations

import math
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from relet.client import connect
from relet.demo.crowd import Crowd, Job
from relet.demo.referee import Referee
from relet.demo.show import KILL_EVERY_S, Show
from relet.demo.view import choose
from relet.embedded import EmbeddedServer
from relet.names import DEFAULT_NAMESPACE, check_ttl
from relet.pool import Pool

MOST_RESOURCES = 10_000
MOST_WORKERS = 200
LONGEST_S = 3600.0
TERMINATED = 128 + signal.SIGTERM


def run(
    url: str | None = None,
    resources: int = 100,
    workers: int = 16,
    seconds: float = 8.0,
    ttl: float = 1.0,
    json: bool = False,
    *,
    namespace: str = DEFAULT_NAMESPACE,
) -> int:
    """Run the demo for about ``seconds`` + ``ttl``, showing it on standard output.

    Args:
        url: the user's own server, where the pool has a name of its own and is gone in the end, with all its keys;
            None starts an embedded one.
        resources: in the pool, at most 10,000.
        workers: processes at a time, at most 200.
        ttl: of the leases, in seconds.
        json: print one JSON object at the end, and nothing else.

    Returns:
        The exit code: 0; 1 if a resource was lost or a grant doubled, or anything else was out of place.

    Raises:
        ReletError: the embedded server is not installed or did not start.
        KeyboardInterrupt: Ctrl-C; everything is cleaned up by then.
    """
    _check("resources", resources, 1, MOST_RESOURCES)
    _check("workers", workers, 1, MOST_WORKERS)
    _check("seconds", seconds, 0.1, LONGEST_S)
    check_ttl(ttl)
    view = choose(json)
    name = f"demo-{secrets.token_hex(4)}"
    devices = [f"device-{number:0{len(str(resources))}}" for number in range(1, resources + 1)]
    with ExitStack() as stack:
        stack.enter_context(_terminable())
        where = f"pool {name} on your server"
        if url is None:
            url = stack.enter_context(EmbeddedServer()).url
            where = "an embedded Valkey"
        client = connect(url)
        stack.callback(client.close)
        pool = Pool(client, name, ttl, namespace=namespace, owner="demo")
        referee = Referee(client, name)
        stack.callback(referee.clear, devices)
        stack.callback(pool.destroy)
        pool.add(devices)
        crowd = stack.enter_context(Crowd(Job(url, name, namespace, ttl)))
        stack.enter_context(view)
        view.begin(
            f"{workers} workers share {resources} resources ({where}); a lease lasts {ttl:g} s; "
            f"{1 / KILL_EVERY_S:g} workers a second die of kill -9"
        )
        verdict = Show(pool, referee, crowd, view, devices, workers).play(seconds)
    view.verdict(verdict)
    return 0 if verdict.ok else 1


def _check(what: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is a number, not {value!r}")
    if not math.isfinite(value) or not least <= value <= most:
        raise ValueError(f"{what} is {least:g} to {most:g}, not {value!r}")


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, workers and keys cleaned up. (Only the main thread may say so.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
