"""gears/reclaim.py is one file, fit for Python 3.7, with the very script that the client sends; so is reclaim.js."""

from __future__ import annotations

import ast
import builtins
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relet import __version__
from relet.engines.texts import constant
from relet.scripts import script
from tests.engines.gears import RECLAIM, ROOT

GLOBALS_OF_GEARS = {"GB", "execute", "log"}


def constants(text: str) -> dict[str, Any]:
    """What the file's top level sets to a literal."""
    return {
        node.targets[0].id: node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def bundle(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "gears" / "bundle.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout to change things in."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gears", tmp_path / "gears", ignore=ignored)
    shutil.copytree(ROOT / "client", tmp_path / "client", ignore=ignored)
    return tmp_path


def test_nothing_has_drifted() -> None:
    result = bundle(ROOT, "--check")
    assert result.returncode == 0, result.stderr


def test_the_block_holds_the_script_of_the_client() -> None:
    found = constants(RECLAIM.read_text("utf-8"))
    reclaim = script("reclaim")
    assert (found["SCRIPT"], found["SHA"]) == (reclaim.text, reclaim.sha)
    assert found["VERSION"] == __version__
    assert found["NAMESPACE"] == "relet"


def test_a_changed_script_is_found_and_put_right(copy: Path) -> None:
    for name in ("reclaim", "shared/sweep"):
        file = copy / "gears" / "lua" / f"{name}.lua"
        file.write_text(file.read_text("utf-8") + "\nlocal unused = 1\n", "utf-8")
        before = (copy / "gears" / "reclaim.py").read_text("utf-8")
        result = bundle(copy, "--check")
        assert result.returncode == 1
        assert "SCRIPT does not fit gears/lua/reclaim.lua" in result.stderr
        assert "python gears/bundle.py" in result.stderr
        assert (copy / "gears" / "reclaim.py").read_text("utf-8") == before, "--check changes nothing"
        assert bundle(copy).returncode == 0
        assert "local unused = 1" in (copy / "gears" / "reclaim.py").read_text("utf-8")
        assert bundle(copy, "--check").returncode == 0


def test_a_changed_handler_gets_another_hash(copy: Path) -> None:
    file = copy / "gears" / "reclaim.py"
    before = constants(file.read_text("utf-8"))["HASH"]
    file.write_text(file.read_text("utf-8").replace("ROUNDS = ", "ROUNDS = 1"), "utf-8")
    result = bundle(copy, "--check")
    assert result.returncode == 1
    assert "HASH does not fit" in result.stderr
    assert "SCRIPT" not in result.stderr
    assert bundle(copy).returncode == 0
    assert constants(file.read_text("utf-8"))["HASH"] != before


def test_a_changed_library_gets_another_hash(copy: Path) -> None:
    file = copy / "gears" / "reclaim.js"
    before = constant(file.read_text("utf-8"), "HASH")
    file.write_text(file.read_text("utf-8").replace("ROUNDS = 100", "ROUNDS = 101"), "utf-8")
    result = bundle(copy, "--check")
    assert result.returncode == 1
    assert "reclaim.js: HASH does not fit" in result.stderr
    assert "reclaim.py" not in result.stderr
    assert bundle(copy).returncode == 0
    assert constant(file.read_text("utf-8"), "HASH") != before
    assert constant(file.read_text("utf-8"), "VERSION") == __version__
    assert bundle(copy, "--check").returncode == 0


def test_a_file_without_its_marks_is_left_alone(copy: Path) -> None:
    file = copy / "gears" / "reclaim.py"
    file.write_text(file.read_text("utf-8").replace("# ---- end of", "# end of"), "utf-8")
    before = file.read_text("utf-8")
    result = bundle(copy)
    assert result.returncode == 1
    assert "lost the marks" in result.stderr
    assert file.read_text("utf-8") == before


def test_the_grammar_is_that_of_python_3_7() -> None:
    ast.parse(RECLAIM.read_text("utf-8"), feature_version=(3, 7))


def test_the_file_stands_alone() -> None:
    """It imports the standard library alone, and uses no name but its own, Python's and those of RedisGears."""
    tree = ast.parse(RECLAIM.read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"re", "time"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | imported
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)} - own - set(dir(builtins))
    assert used == GLOBALS_OF_GEARS
