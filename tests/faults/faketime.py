"""Clocks that are wrong: libfaketime, put under a process by LD_PRELOAD. Debian's package, fetched like its Redis.

Only the wall clock is moved (CLOCK_REALTIME, gettimeofday); the steady ones, which the histories go by, stay.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.servers import Unavailable, debian, fetch

HOUR_S = 3600
NAME = "libfaketime.so.1"
_SLEEPING = Path(__file__).with_name("sleeping")
_STEADY = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


class Clock:
    """A clock for servers that stands in a file, which they look into every second or two."""

    def __init__(self, library: Path, file: Path, server: str) -> None:
        self._file = file
        # Debian's Redis 7.0 has jemalloc as a shared library, which asks for the time before libfaketime can give it,
        # and hangs. With glibc's own allocator put before it, it does not.
        before = "libc_malloc_debug.so.0 " if server.endswith("redis-7.0") else ""
        self.environment = {
            "LD_PRELOAD": before + str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            **_STEADY,
        }
        self.set(0)

    def set(self, seconds: int) -> None:
        """So far from the right time."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{seconds:+d}\n")
        beside.replace(self._file)


def off_by(library: Path, seconds: int) -> dict[str, str]:
    """The environment of a Python process whose clock is off for all its life."""
    path = os.pathsep.join(filter(None, [str(_SLEEPING), os.environ.get("PYTHONPATH")]))
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+d}", "PYTHONPATH": path, **_STEADY}


def library() -> Path:
    """Where libfaketime is, fetched if it is not in the cache yet. Raises Unavailable."""
    home = fetch._cache_folder() / "debian-faketime"
    with fetch._filled(home) as (folder, is_new):
        if is_new:
            _unpack(folder)
    found = sorted(home.glob(f"usr/lib/*/faketime/{NAME}"))
    if not found:
        raise Unavailable(f"Debian's libfaketime has no {NAME}")
    return found[0]


def _unpack(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".apt.") as scratch:
        apt = debian._Apt(Path(scratch))
        apt.update()
        apt.run("download", "libfaketime")
        for archive in apt.downloads.glob("*.deb"):
            debian._run(["dpkg", "-x", str(archive), str(folder)])
