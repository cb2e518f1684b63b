"""A command that cleans what is in quarantine: clean."""

from __future__ import annotations

import click

from relet.cli.commands.run import job_options, start
from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session

EPILOG = """\b
The command finds RELET_RESOURCE, RELET_ATTR_… and the rest in its environment, as with relet run.

The exit code is the command's own; 75: nothing came into quarantine in time, 76: the lease was lost.
"""


@click.command(epilog=EPILOG)
@click.argument("pool")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@job_options("Seconds to wait for one; 0: not at all. [default: for ever]")
@global_options()
@pass_session
@click.pass_context
def clean(
    ctx: click.Context,
    session: Session,
    pool: str,
    command: tuple[str, ...],
    ttl: float,
    timeout: float | None,
    grace: float,
    owner: str | None,
    replace: bool,
) -> None:
    """Run COMMAND to clean a resource of POOL that is in quarantine.

    It gets the one that has been there longest. That is free afterwards if COMMAND exits with 0. Otherwise it is in
    quarantine again, as it is where the cleaner was killed, or lost its lease.
    """
    from relet.running import Job

    start(ctx, session, Job(command, pool, 1, ttl, timeout, grace, owner, replace, cleaning=True))
