"""See it work: demo."""

from __future__ import annotations

import click

from relet.cli.connection import Session
from relet.cli.options import global_options, pass_session


@click.command()
@click.option("--resources", type=int, default=100, show_default=True, help="How many there are to share.")
@click.option("--workers", type=int, default=16, show_default=True, help="How many processes want them.")
@click.option("--seconds", type=float, default=8.0, show_default=True, metavar="S", help="How long it goes on.")
@click.option("--ttl", type=float, default=1.0, show_default=True, metavar="S", help="Seconds until a lease lapses.")
@global_options(url_help="Your own server. [default: one that ends with the demo; RELET_URL does not count here]")
@pass_session
@click.pass_context
def demo(ctx: click.Context, session: Session, resources: int, workers: int, seconds: float, ttl: float) -> None:
    """Watch workers share a pool, die all the time, and lose nothing.

    It runs on a server of its own, unless --url is given.
    """
    from relet.demo import run

    url = None
    if session.url_from == "--url":
        url = session.url
        session.client()  # a wrong URL, or a server that is not there, shows before anything starts
    ctx.exit(run(url, resources, workers, seconds, ttl, session.json, namespace=session.namespace))
