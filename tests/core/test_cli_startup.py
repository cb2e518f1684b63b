"""The command line without what it needs, and how much it loads."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest

from relet.cli.commands.demo import demo
from relet.demo import run
from tests.command import environment


def python(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    done = python(f"import sys; sys.modules[{missing!r}] = None; from relet.cli import main; sys.exit(main(['pools']))")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "relet: the command line needs click and rich: pip install 'relet[cli]'\n"


def test_the_library_loads_neither_click_nor_rich() -> None:
    assert python("import relet, sys; sys.exit(bool({'click', 'rich'} & set(sys.modules)))").returncode == 0


def test_help_loads_no_rich() -> None:
    program = "import sys; from relet.cli import main; code = main(['--help']); sys.exit(code or 'rich' in sys.modules)"
    assert python(program).returncode == 0


def test_the_demo_command_has_the_defaults_of_the_demo() -> None:
    names = ("resources", "workers", "seconds", "ttl")
    theirs = {name: signature(run).parameters[name].default for name in names}
    assert {option.name: option.default for option in demo.params if option.name in names} == theirs
