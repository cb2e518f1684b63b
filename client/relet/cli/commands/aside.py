"""Resources that are kept aside: quarantine, restore, drain, undrain, policy."""

from __future__ import annotations

from collections.abc import Callable

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session
from relet.names import check_reason
from relet.pool import Pool

WAYS = click.Choice(("free", "quarantine"))
_REASON = click.option("--reason", default="", metavar="TEXT", help="For people to read; relet ls shows it.")
_NAMES = click.argument("names", nargs=-1, required=True, metavar="RESOURCE...")


@click.command()
@click.argument("pool")
@_NAMES
@_REASON
@global_options()
@pass_session
def quarantine(session: Session, pool: str, names: tuple[str, ...], reason: str) -> None:
    """Keep resources of POOL aside until somebody cleans them.

    A free one now, a leased one when it comes back. relet clean takes them from there; relet restore brings them back.
    """
    check_reason(reason)
    _tell(session, pool, names, "quarantined", lambda target: target.quarantine(*names, reason=reason))


@click.command()
@click.argument("pool")
@_NAMES
@global_options()
@pass_session
def restore(session: Session, pool: str, names: tuple[str, ...]) -> None:
    """Bring resources of POOL back from quarantine, uncleaned.

    Also those that would go there when they come back. What is drained stays so.
    """
    _tell(session, pool, names, "restored", lambda target: target.restore(*names))


@click.command()
@click.argument("pool")
@_NAMES
@_REASON
@global_options()
@pass_session
def drain(session: Session, pool: str, names: tuple[str, ...], reason: str) -> None:
    """Keep resources of POOL aside until relet undrain, from cleaners too.

    A free one now, a leased one when it comes back.
    """
    check_reason(reason)
    _tell(session, pool, names, "drained", lambda target: target.drain(*names, reason=reason))


@click.command()
@click.argument("pool")
@_NAMES
@global_options()
@pass_session
def undrain(session: Session, pool: str, names: tuple[str, ...]) -> None:
    """Bring resources of POOL back that were drained."""
    _tell(session, pool, names, "undrained", lambda target: target.undrain(*names))


def _tell(session: Session, pool: str, names: tuple[str, ...], done: str, act: Callable[[Pool], int]) -> None:
    changed = act(session.existing_pool(pool))
    if session.json:
        output.print_json({"pool": pool, done: changed})
        return
    as_before = len(set(names)) - changed
    rest = f"; {as_before} {'was' if as_before == 1 else 'were'} so already" if as_before > 0 else ""
    output.say(f"{done} {output.counted(changed, 'resource')} of pool {pool}{rest}")


@click.command()
@click.argument("pool")
@click.option("--on-lapse", type=WAYS, help="Where a resource goes whose lease lapsed.")
@click.option("--on-release", type=WAYS, help="Where a resource goes that was given back.")
@global_options()
@pass_session
def policy(session: Session, pool: str, on_lapse: str | None, on_release: str | None) -> None:
    """Show, or change, where the resources of POOL go that come back.

    Whatever goes to quarantine is leased to nobody until it was cleaned (relet clean) or restored. After a forced
    release either of the two counts.
    """
    target = session.existing_pool(pool)
    settled = target.set_policy(on_lapse=on_lapse, on_release=on_release) if on_lapse or on_release else target.policy()
    if session.json:
        output.print_json({"pool": pool, "on_lapse": settled.on_lapse, "on_release": settled.on_release})
    else:
        output.print_fields([("on lapse", settled.on_lapse), ("on release", settled.on_release)])
