"""Pools out of a file: apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.documents import read_document
from relet.cli.options import global_options, pass_session
from relet.definitions import Plan, check, execute, look, plan
from relet.flow import further
from relet.pool import Pool

SHOWN = 20
"""Names of one kind that a plan for people lists."""

EPILOG = """\b
A file:
  pools:
    gpu:
      order: lru               rank (of a new pool), lru or random
      on_lapse: quarantine     where a resource goes that comes back:
      on_release: free         free or quarantine
      resources:               a list of names, or names with attributes
        gpu-0: {memory: 80}
        gpu-1:
"""


@click.command(epilog=EPILOG)
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print the plan, and change nothing.")
@click.option("--prune", is_flag=True, help="Remove the resources of these pools that the file does not have.")
@global_options()
@pass_session
def apply(session: Session, file: str, dry_run: bool, prune: bool) -> None:
    """Make pools as FILE says (.yaml, .toml or .json), and print what changes.

    What FILE does not mention stays as it is, other pools included. Nothing is taken from a holder: a leased resource
    that is to go goes when it comes back. A second run finds nothing to do.
    """
    definitions = check(read_document(file), file)
    pools = [(definition, session.pool(definition.pool)) for definition in definitions]
    plans = [(plan(definition, look(pool), prune), pool) for definition, pool in pools]
    if not session.json:
        for line in _lines([todo for todo, _ in plans]):
            output.say(line)
    if not dry_run:
        _execute(plans, quiet=session.json)
    if session.json:
        output.print_json({"applied": not dry_run, "pools": [_as_json(todo) for todo, _ in plans]})
    elif any(not todo.is_empty for todo, _ in plans):
        output.say("nothing was changed: this is a dry run" if dry_run else "done")


def _execute(plans: Sequence[tuple[Plan, Pool]], quiet: bool) -> None:
    done = 0
    with output.progress(sum(todo.size for todo, _ in plans), "applying", quiet=quiet) as progress:
        for todo, pool in plans:
            execute(todo, pool, further(progress, done))
            done += todo.size


def _lines(plans: Sequence[Plan]) -> Iterator[str]:
    for todo in plans:
        if todo.is_empty:
            yield f"pool {todo.pool}: nothing to do"
        else:
            yield f"pool {todo.pool}{' (new)' if todo.is_new else ''}:"
        for name, changed in todo.settings.items():
            was = "" if changed.old is None else f" (was {changed.old})"
            yield f"  ~ {name} {changed.new}{was}"
        yield from _some("+", (_described(name, new) for name, new in todo.added.items()), len(todo.added))
        yield from _some(
            "~",
            (
                f"{name} {output.attributes_text(changed.new) or '{}'} "
                f"(was {output.attributes_text(changed.old) or '{}'})"
                for name, changed in todo.attributes.items()
            ),
            len(todo.attributes),
        )
        later = set(todo.later)
        yield from _some(
            "-",
            (f"{name}{' (leased: when it comes back)' if name in later else ''}" for name in todo.removed),
            len(todo.removed),
        )
        if todo.extra:
            extra = output.counted(len(todo.extra), "resource")
            yield f"  not in the file, and left alone: {extra} (--prune removes them)"


def _some(sign: str, items: Iterable[str], total: int) -> Iterator[str]:
    for _, item in zip(range(SHOWN), items, strict=False):
        yield f"  {sign} {item}"
    if total > SHOWN:
        yield f"  {sign} … and {total - SHOWN} more"


def _described(name: str, attributes: Any) -> str:
    return f"{name} {output.attributes_text(attributes)}" if attributes else name


def _as_json(todo: Plan) -> dict[str, Any]:
    return {
        "pool": todo.pool,
        "new": todo.is_new,
        "settings": {name: {"old": changed.old, "new": changed.new} for name, changed in todo.settings.items()},
        "added": list(todo.added),
        "attributes": {
            name: {"old": dict(changed.old), "new": dict(changed.new)} for name, changed in todo.attributes.items()
        },
        "removed": list(todo.removed),
        "later": list(todo.later),
        "extra": list(todo.extra),
    }
