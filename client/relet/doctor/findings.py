"""What the doctor finds, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "error", "mended"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    ``error``: a pool gives wrong answers, or may lose leases. ``warn``: it works, and somebody may be surprised, or it
    could not be seen. ``mended``: what a repair changed.
    """

    level: Level
    where: str
    """``server``, a node of a cluster as ``server host:port``, or ``pool NAME``."""
    what: str
    why: str = ""
    todo: str = ""


def ok(where: str, what: str) -> Finding:
    return Finding("ok", where, what)


def warn(where: str, what: str, why: str = "", todo: str = "") -> Finding:
    return Finding("warn", where, what, why, todo)


def error(where: str, what: str, why: str = "", todo: str = "") -> Finding:
    return Finding("error", where, what, why, todo)


def mended(where: str, what: str) -> Finding:
    return Finding("mended", where, what)
