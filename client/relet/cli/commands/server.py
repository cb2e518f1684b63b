"""The functions inside the server: deploy, undeploy."""

from __future__ import annotations

from dataclasses import asdict

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session


@click.command()
@click.option("--dry-run", is_flag=True, help="Print what would be sent to the server, and change nothing.")
@global_options()
@pass_session
def deploy(session: Session, dry_run: bool) -> None:
    """Let the server itself take lapsed leases back, with RedisGears.

    Without RedisGears they come back with the next call that looks at their pool.
    """
    from relet.deploy import deploy as register

    if dry_run:
        _print_plan(session)
        return
    deployment = register(session.client(), namespace=session.namespace)
    if session.json:
        output.print_json(asdict(deployment))
    else:
        output.say(deployment.detail)


def _print_plan(session: Session) -> None:
    from relet.deploy import planned

    engine, commands = planned(session.client(), namespace=session.namespace)
    if session.json:
        sent = [{"command": command.words, "everywhere": command.everywhere} for command in commands]
        output.print_json({"engine": engine, "namespace": session.namespace, "commands": sent})
        return
    if not commands:
        output.say("nothing would be sent: the server has no RedisGears")
    for command in commands:
        output.say(f"to {'each' if command.everywhere else 'one'} master:")
        for line in " ".join(command.words).splitlines():
            output.say(f"    {line}".rstrip())


@click.command()
@global_options()
@pass_session
def undeploy(session: Session) -> None:
    """Take relet's functions out of the server. Pools and leases stay."""
    from relet.deploy import undeploy as unregister

    removed = unregister(session.client(), namespace=session.namespace)
    if session.json:
        output.print_json({"removed": removed})
    else:
        output.say(f"removed {output.counted(removed, 'registration')}" if removed else "there was nothing to remove")
