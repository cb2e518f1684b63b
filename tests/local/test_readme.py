"""What the README says of local: and of pytest is what happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.command import environment
from tests.core.test_readme import block
from tests.local.conftest import Place


def test_no_server_at_all(place: Place, tmp_path: Path) -> None:
    command = tmp_path / "relet"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m relet "$@"\n')
    command.chmod(0o755)
    env = environment(place.env)
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", block("local")], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "added 2 resources to pool gpu\ntraining on gpu-0\n"


def test_pytest(place: Place, tmp_path: Path) -> None:
    for pool, resource in (("devices", "phone-0"), ("gpu", "gpu-0")):
        assert place.relet("--url", "local:", "add", pool, resource).code == 0
    (tmp_path / "test_it.py").write_text(block("pytest"))
    options = ["-s", "-p", "no:cacheprovider", "--strict-markers", "--relet-url=local:", "--relet-pool=devices"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=environment(place.env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "flashing phone-0" in done.stdout
    assert "training on gpu-0" in done.stdout
