"""A command that lives as long as its lease: run."""

from __future__ import annotations

import logging
from collections.abc import Callable

import click

from relet.cli.connection import DEFAULT_TTL_S, Session
from relet.cli.errors import complain
from relet.cli.options import global_options, pass_session
from relet.names import check_count, check_owner, check_timeout, check_ttl
from relet.pool import Pool

EPILOG = """\b
The command finds in its environment:
  RELET_POOL, RELET_RESOURCE, RELET_FENCE, RELET_TOKEN   what it has
  RELET_ATTR_MEMORY, …   each attribute: text as it is, anything else as JSON
  RELET_RESOURCES        with --count: all names, one a line
  RELET_LEASES           all of it, as a JSON array of objects

The exit code is the command's own, 128 + n if signal n ended it; 75: none came free in time, 76: the lease was lost,
126 and 127: the command cannot be run, or is not there (nothing was leased then).
"""


@click.command(epilog=EPILOG)
@click.argument("pool")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--count", type=int, default=1, show_default=True, metavar="N", help="Lease so many, all or none.")
@click.option(
    "--ttl",
    type=float,
    default=DEFAULT_TTL_S,
    show_default=True,
    metavar="S",
    help="Seconds after which the resource is free again if this machine dies.",
)
@click.option(
    "--timeout", type=float, metavar="S", help="Seconds to wait for a resource; 0: not at all. [default: for ever]"
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 86400),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds from SIGTERM to SIGKILL, when the lease was lost.",
)
@click.option("--owner", metavar="TEXT", help="Who holds it, for people to read. [default: user@host:pid]")
@click.option(
    "--replace",
    is_flag=True,
    help="Put the resource in the place of {} in COMMAND. With --count, an argument that is {} becomes one for each; "
    "inside of an argument, {} becomes a list with commas.",
)
@global_options()
@pass_session
@click.pass_context
def run(
    ctx: click.Context,
    session: Session,
    pool: str,
    command: tuple[str, ...],
    count: int,
    ttl: float,
    timeout: float | None,
    grace: float,
    owner: str | None,
    replace: bool,
) -> None:
    """Wait for a resource of POOL, run COMMAND while it is leased, and give it back.

    The lease is renewed as long as the command runs. Signals reach the command. Should the lease be lost, the command
    gets SIGTERM, and SIGKILL after --grace.
    """
    from relet.running import CannotRun, Job
    from relet.running import run as run_job

    check_ttl(ttl)
    check_timeout(timeout)
    check_count(count)
    if owner is not None:
        check_owner(owner)
    session.check(pool)

    def open_pool() -> Pool:
        return session.existing_pool(pool)

    def say(text: str) -> None:
        complain(text, session.url)

    logging.getLogger("relet").addHandler(_Complaints(say))
    job = Job(command, pool, count, ttl, timeout, grace, owner, replace)
    try:
        ctx.exit(run_job(job, open_pool, say))
    except CannotRun as error:
        say(str(error))
        ctx.exit(error.code)


class _Complaints(logging.Handler):
    """Says why renewals fail. That a lease was lost is said by what ends the command for it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if not str(record.msg).endswith("was lost"):
            self._say(record.getMessage())
