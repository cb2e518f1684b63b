"""The engines that may sit in a server, in the order in which they are asked."""

from __future__ import annotations

from relet.engines.base import Command, CommandFlow, Deployed, Deployment, Engine, EngineName, version_and_hash
from relet.engines.gears1 import Gears1
from relet.engines.gears2 import Gears2
from relet.engines.none import no_engine
from relet.engines.texts import constant

ENGINES: tuple[Engine, ...] = (Gears1(), Gears2())

__all__ = [
    "ENGINES",
    "Command",
    "CommandFlow",
    "Deployed",
    "Deployment",
    "Engine",
    "EngineName",
    "constant",
    "no_engine",
    "version_and_hash",
]
