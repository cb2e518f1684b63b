"""The functions inside the server: deploy, undeploy."""

from __future__ import annotations

from dataclasses import asdict

import click

from relet.cli import output
from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session


@click.command()
@global_options()
@pass_session
def deploy(session: Session) -> None:
    """Let the server itself take lapsed leases back, with RedisGears.

    Without RedisGears they come back with the next call that looks at their pool.
    """
    from relet.deploy import deploy as register

    deployment = register(session.client(), namespace=session.namespace)
    if session.json:
        output.print_json(asdict(deployment))
    else:
        output.say(deployment.detail)


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
