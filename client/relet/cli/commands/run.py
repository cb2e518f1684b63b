"""A command that lives as long as its lease: run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from relet.cli.connection import DEFAULT_TTL_S, Session
from relet.cli.errors import complain
from relet.cli.options import global_options, pass_session
from relet.names import check_count, check_owner, check_timeout, check_ttl
from relet.pool import Pool

if TYPE_CHECKING:
    from relet.running import Job

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
The command finds in its environment:
  RELET_POOL, RELET_RESOURCE, RELET_FENCE, RELET_TOKEN   what it has
  RELET_ATTR_MEMORY, …   each attribute: text as it is, anything else as JSON
  RELET_RESOURCES        with --count: all names, one a line
  RELET_LEASES           all of it, as a JSON array of objects

The exit code is the command's own, 128 + n if signal n ended it; 75: none came free in time, 76: the lease was lost,
126 and 127: the command cannot be run, or is not there (nothing was leased then).
"""


def job_options(timeout_help: str) -> Callable[[F], F]:
    """The options of a command that lives as long as its lease."""
    options = [
        click.option(
            "--ttl",
            type=float,
            default=DEFAULT_TTL_S,
            show_default=True,
            metavar="S",
            help="Seconds after which the resource comes back if this machine dies.",
        ),
        click.option("--timeout", type=float, metavar="S", help=timeout_help),
        click.option(
            "--grace",
            type=click.FloatRange(0, 86400),
            default=10.0,
            show_default=True,
            metavar="S",
            help="Seconds from SIGTERM to SIGKILL, when the lease was lost.",
        ),
        click.option("--owner", metavar="TEXT", help="Who holds it, for people to read. [default: user@host:pid]"),
        click.option(
            "--replace",
            is_flag=True,
            help="Put the resource in the place of {} in COMMAND. Of several, an argument that is {} becomes one for "
            "each; inside of an argument, {} becomes a list with commas.",
        ),
    ]
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


@click.command(epilog=EPILOG)
@click.argument("pool")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--count", type=int, default=1, show_default=True, metavar="N", help="Lease so many, all or none.")
@job_options("Seconds to wait for a resource; 0: not at all. [default: for ever]")
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
    from relet.running import Job

    start(ctx, session, Job(command, pool, count, ttl, timeout, grace, owner, replace))


def start(ctx: click.Context, session: Session, job: Job) -> None:
    """Check what was asked for, do it, and exit as the command did."""
    from relet.running import CannotRun
    from relet.running import run as run_job

    check_ttl(job.ttl)
    check_timeout(job.timeout)
    check_count(job.count)
    if job.owner is not None:
        check_owner(job.owner)
    session.check(job.pool)

    def open_pool() -> Pool:
        return session.existing_pool(job.pool)

    def say(text: str) -> None:
        complain(text, session.url)

    logging.getLogger("relet").addHandler(_Complaints(say))
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
