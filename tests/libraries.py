"""Packages from PyPI that tests put first on the path of a Python of their own, each in a folder of the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers import Unavailable
from tests.servers.fetch import _cache_folder as cache_folder
from tests.servers.fetch import _filled as filled

TIMEOUT_S = 600


def library(*requirements: str) -> Path:
    """A folder with the packages (``"redis==4.6.0"``) and what they need, fetched once. Raises Unavailable."""
    label = "-".join(requirements).replace("==", "-")
    home = cache_folder() / f"python{sys.version_info.major}.{sys.version_info.minor}-{label}"
    with filled(home) as (folder, is_new):
        if is_new:
            pip("install", "--target", str(folder), *requirements)
    return home


def pip(*arguments: str, python: str = sys.executable) -> None:
    """Runs pip. Raises Unavailable with its last words."""
    command = [python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check", "--no-input"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"pip {' '.join(arguments)}: {error}") from None
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or result.stderr.splitlines()
        raise Unavailable(f"pip {' '.join(arguments)}: {lines[-1] if lines else result.returncode}")


def environment(*folders: Path) -> dict[str, str]:
    """The environment of a Python that finds ``folders`` before anything else."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**clean, "PYTHONPATH": os.pathsep.join(map(str, folders))}
