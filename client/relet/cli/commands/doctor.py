"""What is wrong with the server or a pool, and mending it: doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.errors import ERROR
from relet.cli.options import global_options, pass_session
from relet.doctor import Finding, diagnose
from relet.names import ORDERS

_STYLES = {"ok": "green", "warn": "yellow", "error": "bold red", "mended": "cyan"}


@click.command()
@click.argument("pools", nargs=-1, metavar="[POOL]...")
@click.option("--repair", is_flag=True, help="Mend what a deleted or damaged key broke, and look again.")
@click.option("--order", type=click.Choice(ORDERS), help="With --repair: of a pool whose hash is gone.")
@global_options()
@pass_session
def doctor(session: Session, pools: tuple[str, ...], repair: bool, order: str | None) -> None:
    """Find what is wrong with the server, and with the POOLs or every pool.

    --repair mends a pool, in use or not: what somebody may still hold stays leased, or goes to quarantine where no
    deadline is left to go by; nothing is granted twice. Exit code 1 if an error is left.
    """
    if order is not None and not repair:
        raise click.UsageError("--order goes with --repair", click.get_current_context())
    levels: set[str] = set()

    def watched() -> Iterator[Finding]:
        for finding in diagnose(session.client(), pools, namespace=session.namespace, repair=repair, order=order):
            levels.add(finding.level)
            yield finding

    if session.json:
        output.print_array(map(asdict, watched()))
    else:
        columns = [output.Column("", styles=_STYLES), output.Column(""), output.Column("")]
        output.print_table(columns, (row for finding in watched() for row in _rows(finding)), header=False)
    if "error" in levels:
        click.get_current_context().exit(ERROR)


def _rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    yield finding.level, finding.where, finding.what
    if finding.why:
        yield "", "", f"why: {finding.why}"
    if finding.todo:
        yield "", "", f"do: {finding.todo}"
