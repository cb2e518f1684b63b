"""A page of metrics for Prometheus: metrics."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
import redis

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.errors import report
from relet.cli.options import global_options, pass_session
from relet.errors import ReletError


@click.command()
@click.argument("pools", nargs=-1, metavar="[POOL]...")
@click.option("--port", type=click.IntRange(0, 65535), default=9188, show_default=True, help="0: any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@global_options()
@pass_session
def metrics(session: Session, pools: tuple[str, ...], port: int, host: str) -> None:
    """Serve metrics for Prometheus as long as this runs.

    Of the POOLs, or of every pool that there is when it is scraped. While the server cannot be asked, relet_up is 0.
    Ctrl-C or SIGTERM ends it.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from relet.metrics import PoolsCollector
    except ImportError:
        raise ReletError("relet metrics needs prometheus_client: pip install 'relet[metrics]'") from None
    for pool in pools:
        session.check(pool)
    registry = CollectorRegistry()
    collector = PoolsCollector(
        session.client, *pools, namespace=session.namespace, on_failure=lambda error: report(error, session.url)
    )
    registry.register(collector)
    _look_at(session)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:  # a name that cannot be resolved is one as well
        where = "--port" if port else "--host"
        raise ReletError(f"cannot listen on {host}:{port}: {error.strerror or error}; name another {where}") from None
    try:
        with _sigterm() as ended:
            _print_start(session, f"http://{_in_url(host)}:{server.server_port}/metrics", pools)
            ended.wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _look_at(session: Session) -> None:
    """A wrong URL or password ends the command; a server that is not there yet may come."""
    try:
        session.client()
    except redis.AuthenticationError:
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        report(error, session.url, session.is_named)


def _print_start(session: Session, page: str, pools: tuple[str, ...]) -> None:
    if session.json:
        output.print_json({"page": page, "pools": list(pools) or None, "namespace": session.namespace})
    else:
        which = f"{'pool' if len(pools) == 1 else 'pools'} {', '.join(pools)}" if pools else "all pools"
        output.say(f"metrics of {which} in namespace {session.namespace} at {page}")
    sys.stdout.flush()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextmanager
def _sigterm() -> Iterator[threading.Event]:
    """SIGTERM is how a service is told to end: all is well."""
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)
