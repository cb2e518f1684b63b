"""The command ``relet``: its global options, its subcommands, its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

import click

from relet import __version__
from relet.cli.connection import Session
from relet.cli.errors import BROKEN_PIPE, report
from relet.cli.options import global_options

SECTIONS = {
    "Pools": {
        "add": "resources",
        "remove": "resources",
        "ls": "resources",
        "apply": "apply",
        "pools": "pools",
        "status": "pools",
        "watch": "watch",
        "log": "log",
        "reclaim": "pools",
    },
    "Leases": {"run": "run", "acquire": "leases", "renew": "leases", "release": "leases"},
    "Resources kept aside": {
        "quarantine": "aside",
        "restore": "aside",
        "clean": "clean",
        "drain": "aside",
        "undrain": "aside",
        "policy": "aside",
    },
    "Server": {
        "deploy": "server",
        "undeploy": "server",
        "listen": "listen",
        "metrics": "metrics",
        "doctor": "doctor",
        "demo": "demo",
    },
}
"""Every subcommand, and the module under relet.cli.commands that has it, as a function of the same name."""

MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}


class Commands(click.Group):
    """The subcommands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the name is click's
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in MODULES:
            return None
        module = import_module(f"relet.cli.commands.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(section):
                formatter.write_dl([(name, command.get_short_help_str(80)) for name, command in commands if command])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. Its errors end here: click itself would print some, and hide others."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(_reported(error, ctx.ensure_object(Session)))
        return result


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage, 75 none came free in time, 76 the lease was lost.",
)
@global_options(top=True)
@click.version_option(__version__, prog_name="relet", message="%(prog)s %(version)s")
@click.pass_context
def relet(ctx: click.Context) -> None:
    """Lease named resources from a pool on Redis: take the first free one, use it, give it back.

    The global options may also stand after the command.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def run(arguments: Sequence[str] | None) -> int:
    """Run ``relet``; answers its exit code."""
    _prepare_streams()
    try:
        code = relet.main(arguments, prog_name="relet", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # before the subcommand was known, or while the last line went out
        code = _reported(error, Session())
    return code if isinstance(code, int) else 0


def _reported(error: BaseException, session: Session) -> int:
    code = report(error, session.url, session.is_named)
    if code == BROKEN_PIPE or isinstance(error, OSError):  # what is still buffered cannot be written, and must not fail
        _discard(sys.stdout)
    return code


def _prepare_streams() -> None:
    """Let no character be too much for the terminal's encoding, and no closed stream be an error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _discard(stream: TextIO) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)
