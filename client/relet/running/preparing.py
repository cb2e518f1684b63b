"""What a command is given to run with, and whether there is such a command at all."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relet.errors import ReletError
from relet.lease import HeldLease

NOT_FOUND = 127
NOT_EXECUTABLE = 126
PLACE = "{}"
"""What ``--replace`` replaces."""


class CannotRun(ReletError):
    """The command is not there, or is none; ``code`` is what a shell would exit with."""

    def __init__(self, command: str, code: int, reason: str) -> None:
        super().__init__(f"cannot run {command!r}: {reason}")
        self.code = code


@dataclass(frozen=True)
class Job:
    """What to run, and with which leases."""

    command: Sequence[str]
    pool: str
    count: int = 1
    ttl: float = 30.0
    """Seconds."""
    timeout: float | None = None
    """Seconds to wait for the leases; None: for ever."""
    grace: float = 10.0
    """Seconds from SIGTERM to SIGKILL."""
    owner: str | None = None
    replace: bool = False
    """Put the resource in the place of ``{}``."""
    cleaning: bool = False
    """Lease one from quarantine: it is free after exit code 0, and in quarantine again after any other end."""

    @property
    def margin(self) -> float:
        """Seconds before the deadline of a lease that is not renewed at which the command is killed.

        At the deadline itself the next one is granted the resource, and a busy machine does not kill in an instant.
        """
        return min(self.ttl / 10, 1.0)

    @property
    def notice(self) -> float:
        """Seconds from SIGTERM to SIGKILL in that case."""
        return min(self.grace, self.ttl / 3)


def find(job: Job) -> None:
    """Raises CannotRun if there is no such command. One whose name is yet to be replaced is not looked for."""
    name = job.command[0]
    if job.replace and PLACE in name:
        return
    if not name:
        raise CannotRun(name, NOT_FOUND, "it has no name")
    folders = [""] if "/" in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [path for path in (os.path.join(folder, name) for folder in folders) if os.path.exists(path)]
    if not found:
        where = "no such file" if "/" in name else "not found in PATH"
        raise CannotRun(name, NOT_FOUND, where)
    if not any(os.access(path, os.X_OK) and not os.path.isdir(path) for path in found):
        raise CannotRun(name, NOT_EXECUTABLE, f"{found[0]} is a folder" if os.path.isdir(found[0]) else "no permission")


def not_started(command: str, number: int) -> CannotRun:
    """The error for what the system said when the command was to be started."""
    if number == errno.ENOEXEC:
        reason = "neither a program nor a script that says in its first line (#!) what runs it"
        return CannotRun(command, NOT_EXECUTABLE, reason)
    missing = number in (errno.ENOENT, errno.ENOTDIR)
    return CannotRun(command, NOT_FOUND if missing else NOT_EXECUTABLE, os.strerror(number))


def arguments(job: Job, leases: Sequence[HeldLease]) -> list[bytes]:
    """The command line. An argument that is ``{}`` becomes one for each resource; inside of one, a list with commas."""
    given = [os.fsencode(argument) for argument in job.command]
    if not job.replace:
        return given
    names, place = [lease.resource.encode() for lease in leases], PLACE.encode()
    replaced: list[bytes] = []
    for argument in given:
        replaced.extend(names if argument == place else [argument.replace(place, b",".join(names))])
    return replaced


def environment(job: Job, leases: Sequence[HeldLease]) -> dict[bytes, bytes]:
    """This process's environment with what the leases are, the first in variables of its own."""
    first = leases[0]
    ours = {
        "RELET_POOL": job.pool,
        "RELET_RESOURCE": first.resource,
        "RELET_FENCE": str(first.fence),
        "RELET_TOKEN": first.token,
        "RELET_RESOURCES": "\n".join(lease.resource for lease in leases),
        "RELET_LEASES": json.dumps([_described(lease) for lease in leases]),
        **{attribute_variable(name): _text(value) for name, value in first.attributes.items()},
    }
    inherited = {name: value for name, value in os.environb.items() if not name.startswith(b"RELET_ATTR_")}
    return {**inherited, **{name.encode(): text.encode() for name, text in ours.items()}}


def attribute_variable(name: str) -> str:
    """``RELET_ATTR_CUDA_CORES`` for ``cuda cores``."""
    return "RELET_ATTR_" + re.sub("[^A-Z0-9]", "_", name.upper())


def _text(value: Any) -> str:
    """Text as it is, unless no variable can hold it; anything else as JSON."""
    if isinstance(value, str) and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value):
        return value
    return json.dumps(value)


def _described(lease: HeldLease) -> Mapping[str, Any]:
    return {
        "resource": lease.resource,
        "fence": lease.fence,
        "token": lease.token,
        "attributes": lease.attributes,
    }
