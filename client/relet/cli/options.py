"""The options that every command has."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from relet.cli.connection import DEFAULT_URL, Session
from relet.names import DEFAULT_NAMESPACE

F = TypeVar("F", bound=Callable[..., Any])

URL_HELP = (
    "The server: redis://, rediss://, unix:// or sentinel://, or local: for one of your own, which is started where it "
    f"does not run yet. [env: RELET_URL; default: {DEFAULT_URL}]"
)

pass_session = click.make_pass_decorator(Session)


def global_options(*, top: bool = False, url_help: str = URL_HELP) -> Callable[[F], F]:
    """--url, --namespace and --json, kept in the :class:`Session`; ``top`` marks the command ``relet`` itself.

    A subcommand takes them as well, and what is given there wins. The environment is read at the top alone.
    """
    namespace_help = f"What all keys begin with. [env: RELET_NAMESPACE; default: {DEFAULT_NAMESPACE}]"
    options = [
        click.option("--url", help=url_help, envvar="RELET_URL" if top else None, **_kept(_set_url)),
        click.option(
            "--namespace", help=namespace_help, envvar="RELET_NAMESPACE" if top else None, **_kept(_set_namespace)
        ),
        click.option("--json", help="Print JSON, for programs.", is_flag=True, **_kept(_set_json)),
    ]
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def _kept(callback: Callable[[click.Context, click.Parameter, Any], None]) -> dict[str, Any]:
    return {"callback": callback, "expose_value": False}


def _set_url(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    session = ctx.ensure_object(Session)
    if value is None or parameter.name is None:
        return
    session.url = value
    source = ctx.get_parameter_source(parameter.name)
    session.url_from = "RELET_URL" if source is click.core.ParameterSource.ENVIRONMENT else "--url"


def _set_namespace(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Session).namespace = value


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).json = True
