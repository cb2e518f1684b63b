"""The configuration file of a test server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

# A value is written as it is ("3600 1"); the items of a sequence are quoted, each as one argument.
ConfigValue: TypeAlias = str | int | Sequence[str | int]


def defaults(directory: Path, unix_socket: Path | None, module: Sequence[str], major: int) -> dict[str, ConfigValue]:
    """What every test server begins with; `major` is the first part of its version."""
    settings: dict[str, ConfigValue] = {
        "bind": "127.0.0.1",
        "daemonize": "no",
        "dir": (str(directory),),
        "logfile": "",  # standard output, which lands in the same file as what is printed before logging works
        "save": "",
        "appendonly": "no",
        "repl-diskless-sync-delay": 0,
    }
    if major >= 7:
        settings["shutdown-timeout"] = 0  # do not wait for replicas that lag behind
    if unix_socket:
        settings["unixsocket"] = (str(unix_socket),)
    if module:
        settings["loadmodule"] = module
    return settings


def as_text(settings: Mapping[str, ConfigValue]) -> str:
    """The settings as the lines of redis.conf."""
    return "".join(f"{name} {_as_argument(value)}\n" for name, value in settings.items())


def _as_argument(value: ConfigValue) -> str:
    if isinstance(value, (str, int)):
        return str(value) or '""'
    return " ".join('"' + str(item).replace("\\", "\\\\").replace('"', '\\"') + '"' for item in value)
