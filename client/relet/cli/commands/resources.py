"""What is in a pool: add, remove, ls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import reduce
from typing import Any, TypeVar

import click

from relet.cli import output, waiters
from relet.cli.connection import Session
from relet.cli.inputs import FORMATS, Names, read_names
from relet.cli.options import global_options, pass_session
from relet.errors import ReletError
from relet.model import ResourceInfo
from relet.names import ORDERS
from relet.pool import Pool

F = TypeVar("F", bound=Callable[..., Any])

STATES = {"free": "green", "leased": "yellow", "quarantined": "red"}
COLUMNS = (
    output.Column("RESOURCE"),
    output.Column("STATE", styles=STATES),
    output.Column("FOR", right=True),
    output.Column("LEFT", right=True),
    output.Column("FENCE", right=True),
    output.Column("OWNER"),
    output.Column("NOTE"),
    output.Column("ATTRIBUTES"),
)


def takes_names(function: F) -> F:
    """NAME… and --from-file with --format, as arguments ``names``, ``from_file`` and ``form``."""
    options = [
        click.argument("names", nargs=-1, metavar="[NAME]..."),
        click.option("--from-file", metavar="FILE", help="Read names from a file; '-' is standard input."),
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            help="What the file holds. lines: a name a line, as it stands there (spaces and '#' are part of it), empty "
            "lines left out. csv: a header, whose column 'name' (or else the first) has the names; the others are "
            "attributes, and stay text. jsonl: a JSON object a line, such as "
            '{"name": "gpu-0", "memory": 80}. [default: by its ending]',
        ),
    ]
    return reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def _given(names: tuple[str, ...], from_file: str | None, form: str | None) -> Names:
    if form and not from_file:
        raise click.UsageError("--format goes with --from-file")
    return {**(read_names(from_file, form) if from_file else {}), **dict.fromkeys(names)}


@click.command()
@click.argument("pool")
@takes_names
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    help="In which a new pool hands out what is free: as added (the default), longest idle first, or at random.",
)
@click.option("--set-order", type=click.Choice(ORDERS), help="Change the order of a pool that is there already.")
@global_options()
@pass_session
def add(
    session: Session,
    pool: str,
    names: tuple[str, ...],
    from_file: str | None,
    form: str | None,
    order: str | None,
    set_order: str | None,
) -> None:
    """Put resources into POOL, and make the pool if it is new.

    Those already there stay as they are; attributes that are given replace those they had.
    """
    if order and set_order:
        raise click.UsageError("--order is for a new pool, --set-order for one that is there: give one of them")
    if not (names or from_file or order or set_order):
        raise click.UsageError("name the resources to add, or give --from-file")
    given = _given(names, from_file, form)
    target = session.pool(pool)
    if order or set_order:
        _settle_order(target, order, set_order)
    added = 0
    if given or not set_order:
        with output.progress(len(given), "adding", quiet=session.json) as progress:
            added = target.add(given, order=order, progress=progress)
    if session.json:
        output.print_json({"pool": pool, "added": added, **({"order": set_order} if set_order else {})})
        return
    if set_order:
        output.say(f"pool {pool} hands out in the order {set_order} now")
    if given or not set_order:
        known = f"; {len(given) - added} there already" if added < len(given) else ""
        output.say(f"added {output.counted(added, 'resource')} to pool {pool}{known}")


def _settle_order(target: Pool, order: str | None, set_order: str | None) -> None:
    current = target.order()
    if set_order:
        if current is None:
            raise ReletError(f"there is no pool {target.name!r} yet: make it with --order {set_order}")
        target.set_order(set_order)
    elif current not in (None, order):
        raise ReletError(
            f"pool {target.name!r} has the order {current}, not {order}: nothing was added. Leave --order out, or "
            f"change it with --set-order {order}"
        )


@click.command()
@click.argument("pool")
@takes_names
@global_options()
@pass_session
def remove(session: Session, pool: str, names: tuple[str, ...], from_file: str | None, form: str | None) -> None:
    """Take resources out of POOL: a free one at once, a leased one when it comes back."""
    if not (names or from_file):
        raise click.UsageError("name the resources to remove, or give --from-file")
    given = _given(names, from_file, form)
    target = session.existing_pool(pool)
    with output.progress(len(given), "removing", quiet=session.json) as progress:
        removed = target.remove(list(given), progress=progress)
    if session.json:
        output.print_json({"pool": pool, "removed": removed})
        return
    unknown = f"; {len(given) - removed} not there, or on the way out already" if removed < len(given) else ""
    output.say(f"removed {output.counted(removed, 'resource')} from pool {pool} (a leased one goes later){unknown}")


@click.command()
@click.argument("pool")
@click.option("--waiting", is_flag=True, help="List who waits for POOL, and no resources; with --json, too.")
@global_options()
@pass_session
def ls(session: Session, pool: str, waiting: bool) -> None:
    """List the resources of POOL: which are free, and who holds the others until when; below them, who waits.

    FOR: how long it has been leased, kept aside, or waited for. LEFT: until the lease lapses. NOTE: why it is kept
    aside, or what becomes of it when it comes back. COUNT: for how many resources a waiter waits, all or none.

    The first in line is served first; of a longer line the first 100 are listed.
    """
    target = session.existing_pool(pool)
    if session.json:
        output.print_array(waiters.as_json(target.waiters()) if waiting else map(_as_json, target.resources()))
        return
    if not waiting:
        output.print_table(COLUMNS, _rows(target.resources()))
    _print_line(target, gap=not waiting)


def _print_line(pool: Pool, gap: bool) -> None:
    line = pool.waiters(waiters.LISTED)
    if not line:
        return
    if gap:
        print()
    output.print_table(waiters.COLUMNS, waiters.rows_of(line))
    more = pool.stats().waiting - len(line) if len(line) == waiters.LISTED else 0
    if more > 0:
        output.say(f"and {more} more")


def _as_json(info: ResourceInfo) -> dict[str, Any]:
    fields = asdict(info)
    del fields["token"]
    return fields


def _rows(resources: Iterator[ResourceInfo]) -> Iterator[tuple[str, ...]]:
    for info in resources:
        yield (
            info.name,
            info.state,
            output.duration(info.since),
            output.duration(info.remaining),
            "" if info.fence is None else str(info.fence),
            info.owner or "",
            output.note(info.mark, info.reason),
            output.attributes_text(info.attributes),
        )
