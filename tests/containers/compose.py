"""docker/compose.yaml as the tests see it: the one place that says which images and which commands there are."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.containers.tools import has_compose
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker" / "compose.yaml"

MODULE_OPTION = "--loadmodule"
JOIN = "join"
"""The service that makes a cluster of the shards, and ends."""


@dataclass(frozen=True)
class Service:
    """One service, with what it inherits."""

    name: str
    settings: Mapping[str, Any]

    @property
    def image(self) -> str:
        """Without the tag."""
        return str(self.settings["image"]).rpartition(":")[0]

    @property
    def tag(self) -> str:
        return str(self.settings["image"]).rpartition(":")[2]

    @property
    def profiles(self) -> list[str]:
        return list(self.settings["profiles"])

    @property
    def ports(self) -> list[tuple[str, int, int]]:
        """(address, port on this machine, port in the container) of each published port."""
        found = []
        for text in self.settings.get("ports", []):
            address, outside, inside = str(text).split(":")
            found.append((address, int(outside), int(inside)))
        return found

    @property
    def words(self) -> list[str]:
        """The command, as compose splits it."""
        command = self.settings.get("command", [])
        return shlex.split(command) if isinstance(command, str) else list(command)

    @property
    def module(self) -> list[str]:
        """The module that the command loads: its file, then its arguments; empty if it loads none."""
        words = self.words
        return words[words.index(MODULE_OPTION) + 1 :] if MODULE_OPTION in words else []

    @property
    def without_module(self) -> list[str]:
        words = self.words
        return words[: words.index(MODULE_OPTION)] if MODULE_OPTION in words else words


@cache
def document() -> dict[str, Any]:
    """The whole file."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return found


def services(profile: str | None = None) -> dict[str, Service]:
    """The services by name: all of them, or those of one profile."""
    every = {name: Service(name, settings) for name, settings in document()["services"].items()}
    return {name: service for name, service in every.items() if profile in (None, *service.profiles)}


def shards() -> list[Service]:
    """The servers of the cluster, in the order of their ports."""
    return [service for name, service in sorted(services("cluster").items()) if name != JOIN]


def moved(names: Iterable[str]) -> tuple[dict[str, Any], dict[int, int]]:
    """A compose document of these services alone, on ports of this machine that are free.

    A port that is moved outside is moved inside as well where it is the same, for the shards announce it. Returned with
    the new ports by the old ones.
    """
    chosen = {name: services()[name] for name in names}
    ports: dict[int, int] = {}
    for service in chosen.values():
        for _, outside, _ in service.ports:
            while (port := free_port()) in ports.values():
                pass
            ports[outside] = port
    text = json.dumps({"services": {name: dict(service.settings) for name, service in chosen.items()}})
    if ports:
        text = re.sub(rf"\b({'|'.join(map(str, ports))})\b", lambda match: str(ports[int(match[1])]), text)
    made: dict[str, Any] = json.loads(text)
    for settings in made["services"].values():
        del settings["profiles"]  # all that is left is wanted
    return made, ports


def no_engine() -> str:
    """Why no container can be started here; empty if a Docker engine answers.

    Asked in a process of its own: docker-py leaves a socket open where none does.
    """
    ask = "from testcontainers.core.docker_client import DockerClient; DockerClient().client.ping()"
    try:
        asked = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ask], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer within 60 s"
    if asked.returncode:
        lines = asked.stderr.strip().splitlines()
        return f"no Docker engine answers here ({lines[-1][:200] if lines else asked.returncode})"
    return "" if has_compose() else "a Docker engine answers, but there is no command `docker compose`"
