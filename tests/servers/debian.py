"""Debian's redis-server without installing it: apt with folders of its own, then `dpkg -x`.

Works for any user, and where the system's own package lists are empty. Of the system only apt's sources, keys and proxy
settings are used; nothing of it is changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .catalogue import Debian
from .errors import Unavailable

APT_TIMEOUT_S = 600

# The server (Debian ships its file in redis-tools) and, of all that it depends on, the libraries it is linked with.
# The C library and what comes with it must be the system's own: the loader that starts the server is.
_WANTED = re.compile(
    r"redis-(server|tools)$|liblua|lua-"
    r"|lib(atomic|cap2|crypto|gcc-s|gcrypt|gpg-error|jemalloc|lz4|lzf|lzma|ssl|stdc\+\+|systemd|zstd)"
)


def unpack(source: Debian, folder: Path) -> None:
    """Fills `folder` with usr/bin/redis-server and its libraries. Raises Unavailable."""
    for program in ("apt-get", "apt-config", "dpkg"):
        if not shutil.which(program):
            raise Unavailable(f"no redis-server {source.series} on PATH, and no {program} here to get Debian's with")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".apt.") as scratch:
        apt = _Apt(Path(scratch))
        trouble = apt.update()
        try:
            packages = _packages(apt, source)
        except Unavailable as error:
            raise Unavailable(f"{error} ({trouble})" if trouble else str(error)) from None
        apt.run("download", *packages)
        for archive in sorted(apt.downloads.glob("*.deb")):
            _run(["dpkg", "-x", str(archive), str(folder)])


def library_folders(home: Path) -> tuple[Path, ...]:
    """The folders under `home` that hold shared libraries, as Debian places them (lib/x86_64-linux-gnu)."""
    return tuple(sorted({file.parent for lib in ("lib", "usr/lib") for file in home.glob(f"{lib}/*/lib*.so.*")}))


def _packages(apt: _Apt, source: Debian) -> list[str]:
    """The packages to download, once it is sure that their redis-server is of the wanted series."""
    plan = apt.run("install", "--simulate", "--no-install-recommends", "redis-server")
    planned = re.findall(r"^Inst (\S+) \((\S+)", plan, re.MULTILINE)
    version = dict(planned).get("redis-server", "none").split(":")[-1]
    if not version.startswith(f"{source.series}."):
        raise Unavailable(f"no redis-server {source.series} on PATH, and the system's packages have {version}")
    return [name for name, _ in planned if _WANTED.match(name)]


class _Apt:
    """apt-get with its state under `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self.downloads = scratch / "downloads"
        for folder in ("state/lists/partial", "cache/archives/partial", "downloads"):
            (scratch / folder).mkdir(parents=True)
        (scratch / "status").touch()  # nothing is installed: so the plan names every library
        settings = {
            "Dir::State": scratch / "state",
            "Dir::State::lists": scratch / "state/lists",
            "Dir::State::status": scratch / "status",
            "Dir::Cache": scratch / "cache",
            "Dir::Etc::main": "/dev/null",  # hooks of the system's configuration are not ours to run
            "Dir::Etc::parts": "/dev/null",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": 1,
            "Acquire::http::Timeout": 60,
        }
        written = "".join(f'{name} "{value}";\n' for name, value in settings.items())
        configuration = scratch / "apt.conf"
        configuration.write_text(_connection_settings() + written)
        self._environment = {**os.environ, "APT_CONFIG": str(configuration), "LC_ALL": "C"}

    def update(self) -> str:
        """Fetches the package lists. Returns what went wrong: one dead source among many is no reason to give up."""
        try:
            return _first_complaint(_execute(["apt-get", "-qq", "update"], self._environment).stderr)
        except Unavailable as error:
            return str(error)

    def run(self, *arguments: str) -> str:
        return _run(["apt-get", "-qq", *arguments], self._environment, self.downloads)


def _connection_settings() -> str:
    """How the system's apt reaches its sources (proxy, certificates, validity of old lists), as configuration lines."""
    wanted = re.compile(r"Acquire::(https?::|Check-)\S+ \"")
    return "".join(line + "\n" for line in _run(["apt-config", "dump"]).splitlines() if wanted.match(line))


def _run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    result = _execute(command, environment, folder)
    if result.returncode:
        reason = _first_complaint(result.stderr) or f"exit code {result.returncode}"
        raise Unavailable(f"no redis-server on PATH, and {command[0]} failed: {reason}")
    return result.stdout


def _execute(
    command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, check=False, env=environment, cwd=folder, capture_output=True, text=True, timeout=APT_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"no redis-server on PATH, and {command[0]} failed: {error}") from None


def _first_complaint(text: str) -> str:
    """The first error of apt ("E: ..."), else the first line, which may be a warning; empty if there is neither."""
    lines = text.strip().splitlines()
    return next((line for line in lines if line.startswith("E:")), lines[0] if lines else "")
