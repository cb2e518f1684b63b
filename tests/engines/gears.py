"""What the tests of RedisGears 1.2 need: its registrations as data, and the real gears-cli."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.servers import Server, Unavailable
from tests.servers.fetch import _cache_folder, _filled

ROOT = Path(__file__).parents[2]
RECLAIM = ROOT / "gears" / "reclaim.py"
GEARS_CLI = "gears-cli>=1.1,<2"
INSTALL_TIMEOUT_S = 300


@dataclass(frozen=True)
class Registration:
    """One line of RG.DUMPREGISTRATIONS."""

    identity: str
    description: str
    mode: str
    triggered: int
    succeeded: int
    failed: int
    last_error: str


def registrations(client: redis.Redis) -> list[Registration]:
    """What is registered, whoever did it."""
    found = []
    for reply in client.execute_command("RG.DUMPREGISTRATIONS"):
        fields = _pairs(reply)
        data = _pairs(fields["RegistrationData"])
        found.append(
            Registration(
                _text(fields["id"]),
                _text(fields["desc"]),
                _text(data["mode"]),
                data["numTriggered"],
                data["numSuccess"],
                data["numFailures"],
                _text(data["lastError"]),
            )
        )
    return found


def only(client: redis.Redis) -> Registration:
    """The one registration there is; fails where there are more or none."""
    (registration,) = registrations(client)
    return registration


def unregister_all(client: redis.Redis) -> None:
    for registration in registrations(client):
        client.execute_command("RG.UNREGISTER", registration.identity)


def gears_cli(server: Server, file: Path) -> subprocess.CompletedProcess[str]:
    """``gears-cli run FILE`` against ``server``. Raises Unavailable where pip cannot get gears-cli."""
    return subprocess.run(
        [sys.executable, "-m", "gears_cli", "run", "--host", "127.0.0.1", "--port", str(server.port), str(file)],
        env={**os.environ, "PYTHONPATH": str(_gears_cli_folder())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _gears_cli_folder() -> Path:
    """gears-cli with the old redis-py that it pins, in a folder of the cache: it goes into no environment."""
    home = _cache_folder() / f"gears-cli-1-py{sys.version_info.major}.{sys.version_info.minor}"
    with _filled(home) as (folder, is_new):
        if is_new:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
            command += ["--target", str(folder), GEARS_CLI]
            try:
                result = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"pip could not install {GEARS_CLI}: {error}") from None
            if result.returncode:
                reason = (result.stderr.strip().splitlines() or ["it says nothing"])[-1]
                raise Unavailable(f"pip could not install {GEARS_CLI}: {reason}")
    return home


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return {_text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
