"""Taking lapsed leases back from outside the server: listen."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.errors import complain
from relet.cli.options import global_options, pass_session
from relet.listener import Listener


@click.command()
@click.argument("pools", nargs=-1, metavar="[POOL]...")
@click.option(
    "--set-notifications", is_flag=True, help="Let the server send expired events, where its settings do not yet."
)
@global_options()
@pass_session
def listen(session: Session, pools: tuple[str, ...], set_notifications: bool) -> None:
    """Take lapsed leases back as long as this runs, on a server that cannot do so by itself.

    Of the POOLs, or of every pool, also those yet to be made. It goes by the clock, and by the server's expired events
    where there are any. Run as many side by side as you like. Ctrl-C or SIGTERM ends it.
    """
    broken: list[BrokenPipeError] = []

    def tell(pool: str, reclaimed: int) -> None:
        try:
            _print(session, pool, reclaimed)
        except BrokenPipeError as error:
            broken.append(error)
            listener.stop()

    listener = Listener(
        session.client(), *pools, namespace=session.namespace, set_notifications=set_notifications, on_reclaim=tell
    )
    with _ends_by_sigterm(listener), _log_on_stderr(session):
        for pool in pools:
            if session.pool(pool).order() is None:
                complain(f"there is no pool {pool!r} yet", session.url)
        _print_start(session, pools)
        listener.listen()
    if broken:
        raise broken[0]


def _print_start(session: Session, pools: tuple[str, ...]) -> None:
    if session.json:
        output.print_json({"listening": list(pools) or None, "namespace": session.namespace})
    else:
        which = f"{'pool' if len(pools) == 1 else 'pools'} {', '.join(pools)}" if pools else "all pools"
        output.say(f"listening for lapsed leases of {which} in namespace {session.namespace}")
    sys.stdout.flush()


def _print(session: Session, pool: str, reclaimed: int) -> None:
    if session.json:
        output.print_json({"pool": pool, "reclaimed": reclaimed})
    else:
        output.say(f"reclaimed {output.counted(reclaimed, 'lapsed lease')} of pool {pool}")
    sys.stdout.flush()


@contextmanager
def _ends_by_sigterm(listener: Listener) -> Iterator[None]:
    """SIGTERM is how a service is told to end: all is well."""
    before = signal.signal(signal.SIGTERM, lambda *_: listener.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _log_on_stderr(session: Session) -> Iterator[None]:
    class Complaints(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complain(record.getMessage(), session.url)

    log, handler = logging.getLogger("relet"), Complaints(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
