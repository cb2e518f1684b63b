"""How pools stand, all the time: watch."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence

import click
import redis

from relet.cli.connection import Session, scrubbed
from relet.cli.errors import complain, explain
from relet.cli.options import global_options, pass_session
from relet.cli.watching.keys import keys
from relet.cli.watching.lines import lines
from relet.cli.watching.looks import Watched


@click.command()
@click.argument("pools", nargs=-1, required=True, metavar="POOL...")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@global_options()
@pass_session
def watch(session: Session, pools: tuple[str, ...], interval: float) -> None:
    """Show who holds what in the POOLs, and how many are free, leased, kept aside and waited for over time.

    On a terminal as a picture that fills it, until q or Ctrl-C. Elsewhere a line a pool and look; with --json, an
    object.
    """
    watched = [Watched(session.existing_pool(name)) for name in dict.fromkeys(pools)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    show = _picture if sys.stdout.isatty() and not session.json else _lines
    try:
        show(session, watched, interval)
    except KeyboardInterrupt:  # which is how it ends
        return


def _picture(session: Session, watched: Sequence[Watched], interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from relet.cli.watching.picture import picture

    console = Console(highlight=False)
    with keys() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            error = _take(session, watched)
            live.update(picture(watched, console.width, console.height, error), refresh=True)
            if "q" in keyboard.wait(interval).lower():
                return


def _lines(session: Session, watched: Sequence[Watched], interval: float) -> None:
    while True:
        error = _take(session, watched, listed=0)
        if error is not None:
            complain(error, session.url)
        else:
            print("\n".join(lines(watched, session.json)), flush=True)
        time.sleep(interval)


def _take(session: Session, watched: Sequence[Watched], **options: int) -> str | None:
    """Look at all of them; answers what is wrong where the server does not answer now, as it may again later."""
    try:
        for one in watched:
            one.take(**options)
    except (redis.ConnectionError, redis.TimeoutError) as error:
        return scrubbed(explain(error, session.url)[1] or "", session.url)
    return None
