"""What happened to a pool: log."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session
from relet.cli.times import clock, moment, server_time
from relet.events import Event
from relet.pool import Pool

LOOK_S = 0.5
"""Seconds between two looks at the log that is followed."""
NAMED = 5
"""Of many resources that were added, removed, … at once, a line for people names so many."""


@click.command()
@click.argument("pool")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on, until Ctrl-C or SIGTERM.")
@click.option(
    "--since",
    metavar="TIME",
    help="Begin there: a duration before now (90s, 15m, 1h30m), or a date and time like 2030-01-31T14:00.",
)
@global_options()
@pass_session
def log(session: Session, pool: str, follow: bool, since: str | None) -> None:
    """Print what happened to POOL: lapses, resources taken by force, kept aside, added, removed.

    Oldest first; the server keeps about the last 2,000 entries, and none of plain leases and their ends. With --json
    as one array; with --json and --follow, which has no end, as an object a line.
    """
    target = session.existing_pool(pool)
    after: str | float = "0" if since is None else moment(since, server_time(session.client()))
    if follow:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    events = _events(target, after, follow)
    try:
        if session.json and not follow:
            output.print_array(map(_as_json, events))
            return
        for event in events:
            _print(session, event)
    except KeyboardInterrupt:
        if not follow:
            raise


def _events(pool: Pool, after: str | float, follow: bool) -> Iterator[Event]:
    while True:
        for event in pool.events(after):
            yield event
            after = event.id
        if not follow:
            return
        sys.stdout.flush()
        time.sleep(LOOK_S)


def _print(session: Session, event: Event) -> None:
    if session.json:
        output.print_json(_as_json(event))
    else:
        output.say(f"{clock(event.at)}  {event.kind:10}  {_what(event)}")


def _as_json(event: Event) -> dict[str, Any]:
    return {**asdict(event), "resources": list(event.resources)}


def _what(event: Event) -> str:
    """``gpu-0  held 30.0 s by user@host:1``, ``gpu-0, gpu-1 and 98 more: broken fan``."""
    names = ", ".join(event.resources[:NAMED])
    if event.resources and event.count > min(len(event.resources), NAMED):
        names += f" and {event.count - min(len(event.resources), NAMED)} more"
    held = "" if event.held is None else f"held {output.duration(event.held)}"
    owner = f"by {event.owner}" if event.owner else ""
    fence = f"(fence {event.fence})" if event.fence else ""
    text = " ".join(part for part in (held, owner, fence) if part)
    return ": ".join(part for part in ("  ".join(part for part in (names, text) if part), event.reason) if part)
