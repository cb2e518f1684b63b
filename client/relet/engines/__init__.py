"""The engines that may sit in a server, in the order in which they are asked."""

from __future__ import annotations

from relet.engines.base import Command, CommandFlow, Deployment, Engine
from relet.engines.gears1 import Gears1
from relet.engines.none import no_engine

ENGINES: tuple[Engine, ...] = (Gears1(),)

__all__ = ["ENGINES", "Command", "CommandFlow", "Deployment", "Engine", "no_engine"]
