"""What is built and installed finds its transitions: from a wheel, from an sdist, and from an editable install."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relet.scripts import script
from tests.helpers import missing
from tests.libraries import environment, library, pip
from tests.servers import Unavailable

ROOT = Path(__file__).parents[2]
REDIS = "redis==8.2.0"
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "*.log")

LOOK = """
import sys
import relet
from relet.scripts import gears, script
print(relet.__file__)
print(gears())
print(script("acquire").sha)
print((gears() / "reclaim.py").is_file(), (gears() / "lua" / "shared" / "pool.lua").is_file())
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with nothing of git's, the sdist of it, and the wheel of that sdist."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT, folder / "sources", ignore=LEFT_OUT)
    (folder / "sources" / ".gitignore").write_text("__pycache__/\n")
    try:
        hatchling = environment(library("hatchling"))
    except Unavailable as reason:
        missing(f"there is no hatchling to build with: {reason}")
    for what, where in (("sdist", folder / "sources"), ("wheel", folder / "sources")):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", what, "--directory", str(folder / "dist")],
            cwd=where,
            env=hatchling,
            check=True,
            capture_output=True,
            timeout=300,
        )
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Path]:
    """A fresh virtual environment's Python."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    yield home / "bin" / "python"
    shutil.rmtree(home)


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def install(python: Path, *what: str) -> None:
    try:
        pip("install", "--no-deps", *what, python=str(python))
    except Unavailable as reason:
        if "hatchling" in str(reason):
            missing(f"pip has no hatchling to build with: {reason}")
        pytest.fail(str(reason))


@pytest.mark.parametrize("kind", ["wheel", "sdist", "editable"])
def test_every_install_has_its_transitions(workshop: Path, python: Path, tmp_path: Path, kind: str) -> None:
    sources = workshop / "sources"
    if kind == "wheel":
        install(python, str(only(workshop / "dist", "relet-*.whl")))
    elif kind == "sdist":
        install(python, str(only(workshop / "dist", "relet-*.tar.gz")))
    else:
        install(python, "--editable", str(sources))
    try:
        env = environment(library(REDIS))
    except Unavailable as reason:
        missing(str(reason))
    result = subprocess.run(
        [str(python), "-W", "error", "-c", LOOK], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    package, gears, sha, has_parts = result.stdout.splitlines()
    home = sources if kind == "editable" else python.parents[1]
    assert Path(package).is_relative_to(home)
    assert Path(gears).is_relative_to(home)
    assert (Path(gears).name == "_gears") is (kind != "editable")
    assert sha == script("acquire").sha
    assert has_parts == "True True"


def test_the_wheel_has_all_of_gears_and_no_more(workshop: Path) -> None:
    with zipfile.ZipFile(only(workshop / "dist", "relet-*.whl")) as wheel:
        packed = {name for name in wheel.namelist() if not name.endswith("/")}
    gears = {f"relet/_gears/{file.relative_to(ROOT / 'gears')}" for file in sources_of(ROOT / "gears")}
    packages = {str(file.relative_to(ROOT / "client")) for file in sources_of(ROOT / "client")}
    assert {name for name in packed if ".dist-info/" not in name} == gears | packages
    assert "relet/py.typed" in packed
    assert any(name.endswith("/LICENSE") for name in packed)


def test_the_sdist_has_all_that_the_tests_need(workshop: Path) -> None:
    with tarfile.open(only(workshop / "dist", "relet-*.tar.gz")) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    for folder in ("client", "gears", "tests"):
        wanted = {str(file.relative_to(ROOT)) for file in sources_of(ROOT / folder)}
        assert wanted <= packed
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= packed


def sources_of(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
