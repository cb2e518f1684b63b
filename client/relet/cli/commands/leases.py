"""One lease: acquire, renew, release."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from relet.cli import output
from relet.cli.connection import DEFAULT_TTL_S, Session, order_and_stats
from relet.cli.options import global_options, pass_session
from relet.errors import PoolExhausted
from relet.holding import Lease
from relet.names import check_timeout, check_ttl, owner_of
from relet.pool import Pool


@click.command()
@click.argument("pool")
@click.option(
    "--ttl", type=float, default=DEFAULT_TTL_S, show_default=True, metavar="S", help="Seconds until the lease lapses."
)
@click.option(
    "--timeout",
    type=float,
    default=0.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for a resource; 0: not at all, inf: for ever.",
)
@click.option(
    "--owner",
    metavar="TEXT",
    help="Who holds it, for people to read. [default: user@host:pid, of the process that runs relet]",
)
@global_options()
@pass_session
def acquire(session: Session, pool: str, ttl: float, timeout: float, owner: str | None) -> None:
    """Lease the first free resource of POOL, and print it with its token.

    The lease lapses by itself unless it is renewed or released with that token. Exit code 75: none came free in time.
    """
    check_ttl(ttl)
    check_timeout(timeout)
    target = session.pool(pool) if timeout == 0 else session.existing_pool(pool)  # nobody waits for what is misspelt
    lease = _acquire(session, target, ttl, timeout, owner_of(os.getppid()) if owner is None else owner)
    try:
        if session.json:
            output.print_json(_as_json(lease))
        else:
            output.print_fields(_fields(lease))
        sys.stdout.flush()
    except BaseException:
        with suppress(Exception):
            lease.release()  # nobody has seen the token
        raise


def _acquire(session: Session, pool: Pool, ttl: float, timeout: float, owner: str) -> Lease:
    try:
        return pool.acquire(ttl, timeout, owner=owner)
    except PoolExhausted as error:
        order, stats = order_and_stats(pool)
        if order is None:
            raise session.no_pool(pool.name) from error
        if not stats.total:
            raise PoolExhausted(f"pool {pool.name!r} has no resources; relet add {pool.name} … adds some") from error
        raise


def _as_json(lease: Lease) -> dict[str, Any]:
    return {
        "resource": lease.resource,
        "token": lease.token,
        "fence": lease.fence,
        "ttl": lease.ttl,
        "attributes": lease.attributes,
    }


def _fields(lease: Lease) -> list[tuple[str, str]]:
    fields = [
        ("resource", lease.resource),
        ("token", lease.token),
        ("fence", str(lease.fence)),
        ("ttl", f"{lease.ttl:g} s"),
    ]
    if lease.attributes:
        fields.append(("attributes", output.attributes_text(lease.attributes)))
    return fields


@click.command()
@click.argument("pool")
@click.argument("token")
@click.option(
    "--ttl",
    type=float,
    default=DEFAULT_TTL_S,
    show_default=True,
    metavar="S",
    help="Seconds from now until the lease lapses, be that later or sooner than before: the server does not keep the "
    "ttl that the lease was acquired with.",
)
@global_options()
@pass_session
def renew(session: Session, pool: str, token: str, ttl: float) -> None:
    """Let the lease of TOKEN last for --ttl seconds from now. '-' reads the token from standard input.

    Exit code 76: the lease was lost.
    """
    session.pool(pool).renew(_read(token), ttl)
    if session.json:
        output.print_json({"renewed": True, "ttl": ttl})
    else:
        output.say(f"renewed: {ttl:g} s from now")


@click.command()
@click.argument("pool")
@click.argument("token", required=False)
@click.option("--force", metavar="RESOURCE", help="Take this resource from whoever holds it, without a token.")
@global_options()
@pass_session
def release(session: Session, pool: str, token: str | None, force: str | None) -> None:
    """Give back the resource leased with TOKEN. '-' reads the token from standard input.

    Exit code 76: the lease was lost before; nothing of the next holder's was touched.
    """
    if (token is None) == (force is None):
        raise click.UsageError("give the TOKEN of the lease, or --force RESOURCE")
    target = session.pool(pool)
    released = target.release(_read(token)) if token is not None else target.release(resource=force, force=True)
    if session.json:
        output.print_json({"released": released})
    elif force is None:
        output.say("released")
    else:
        output.say(f"took {force} from its holder" if released else f"{force} was not leased: nothing to release")


def _read(token: str) -> str:
    return sys.stdin.readline().strip() if token == "-" else token
