"""The command line, ``relet``. It needs click and rich: ``pip install 'relet[cli]'``.

::

    app          the command itself: global options, and which module has which subcommand
    commands/    one module for each family of subcommands, imported when one of them is used
    connection   the server: URL, namespace, pools
    errors       what went wrong, as one line and an exit code
    documents    definition files: YAML, TOML, JSON
    inputs       names and attributes from a file
    times        moments and durations, as people write them
    watching/    what relet watch draws
    output       tables for people, JSON for programs, and nothing that a terminal would obey
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``relet`` with these arguments (default: those of the process); answers the exit code."""
    if find_spec("click") is None or find_spec("rich") is None:
        print("relet: the command line needs click and rich: pip install 'relet[cli]'", file=sys.stderr)
        return 1
    try:
        from relet.cli.app import run
    except KeyboardInterrupt:
        return 130
    return run(arguments)
