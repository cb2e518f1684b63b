"""Pools as a whole: pools, status, reclaim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import click
import redis

from relet.catalogue import pools as catalogue
from relet.cli import output, waiters
from relet.cli.connection import Session, order_and_stats
from relet.cli.errors import ERROR, report
from relet.cli.options import global_options, pass_session
from relet.errors import ReletError
from relet.model import Stats, Waiter

_NEXT_CALL = "lapsed leases come back at the next call"
COUNTS = [*(field.name for field in fields(Stats)), "longest_wait"]


@click.command()
@global_options()
@pass_session
def pools(session: Session) -> None:
    """List the pools of the namespace."""
    names = sorted(catalogue(session.client(), session.namespace))
    if session.json:
        output.print_array(names)
        return
    for name in names:
        output.say(name)


@click.command()
@click.argument("pool", required=False)
@global_options()
@pass_session
def status(session: Session, pool: str | None) -> None:
    """Count what is free, leased and waited for in POOL, or in every pool.

    A lapsed lease counts as free, whether or not it was reclaimed yet. With --json, waiters has the first 100 in line,
    and longest_wait is in seconds, null without waiters.
    """
    if pool is not None:
        _status_of_one(session, pool)
        _say_what_is_missing(session)
        return
    ctx = click.get_current_context()
    every = _every(session, ctx)
    if session.json:
        output.print_array(every)
    else:
        columns = [output.Column("POOL"), output.Column("ORDER"), *map(_column, COUNTS)]
        output.print_table(columns, (_cells(one) for one in every))
        _say_what_is_missing(session)
    ctx.exit(ctx.meta.get("relet.failed", 0))


def _status_of_one(session: Session, name: str) -> None:
    pool = session.pool(name)
    order, stats = order_and_stats(pool)
    if order is None:
        raise session.no_pool(name)
    line = waiters.first_in_line(pool, stats)
    if session.json:
        output.print_json(_described(name, order, stats, line))
        return
    counts = {
        **{count: str(number) for count, number in asdict(stats).items()},
        "waiting": waiters.waiting(stats, line),
    }
    output.print_fields([("pool", name), ("order", order), *counts.items()])


def _described(name: str, order: str | None, stats: Stats, line: Sequence[Waiter]) -> dict[str, Any]:
    counts = {"pool": name, "order": order, **asdict(stats)}
    return {**counts, "longest_wait": waiters.longest_wait(line), "waiters": waiters.as_json(line)}


def _say_what_is_missing(session: Session) -> None:
    """A last line for people, where the server could take lapsed leases back by itself and was not told to."""
    from relet.deploy import survey

    if session.json:
        return
    try:
        engine, running = survey(session.client(), session.namespace)
    except (ValueError, redis.ResponseError):  # another database than 0, or no permission: it is a hint, no more
        return
    if running is not None and running.missing:
        shards = ", ".join(running.missing)
        output.say(f"no function is deployed for this namespace on {shards}: {_NEXT_CALL} (relet deploy)")
    elif running is None and engine != "none":
        output.say(f"no function is deployed for this namespace: {_NEXT_CALL} (relet deploy)")


def _column(count: str) -> output.Column:
    return output.Column(count.upper().replace("_", " "), right=True)


def _cells(status: Mapping[str, Any]) -> list[str]:
    longest = {"longest_wait": output.duration(status["longest_wait"])}
    return [str(value) for key, value in {**status, **longest}.items() if key != "waiters"]


def _every(session: Session, ctx: click.Context) -> Iterator[dict[str, Any]]:
    """The status of each pool; one that cannot be counted is reported, and the others go on."""
    for name in sorted(catalogue(session.client(), session.namespace)):
        pool = session.pool(name)
        try:
            order, stats = order_and_stats(pool)
            line = waiters.first_in_line(pool, stats)
        except (ReletError, redis.ResponseError) as error:
            report(error, session.url)
            ctx.meta["relet.failed"] = ERROR
            continue
        yield _described(name, order, stats, line)


@click.command()
@click.argument("pool")
@global_options()
@pass_session
def reclaim(session: Session, pool: str) -> None:
    """Take the lapsed leases of POOL back now.

    This is never needed: every acquire does so by itself, as far as it has to.
    """
    reclaimed = session.existing_pool(pool).reclaim()
    if session.json:
        output.print_json({"pool": pool, "reclaimed": reclaimed})
    else:
        output.say(f"reclaimed {output.counted(reclaimed, 'lapsed lease')} of pool {pool}")
