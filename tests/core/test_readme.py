"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import SERVERS, Server, Unavailable

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def block(mark: str) -> str:
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no block marked {mark}"
    return found[1]


def test_the_example_runs() -> None:
    try:
        server = Server.start(SERVERS["valkey-9.1"])
    except Unavailable as reason:
        pytest.skip(f"valkey-9.1: {reason}")
    with server, server.client() as client:
        code = block("example").replace("redis.Redis()", f"redis.Redis(port={server.port})")
        assert code != block("example")
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        first, second = ran.stdout.splitlines()
        assert re.fullmatch(r"gpu-0 \{\} \d{16}", first)
        assert second == ("Stats(total=3, free=3, leased=0, waiting=0, quarantined=0, granted=1, released=1, lapsed=0)")
        client.flushall()


def test_the_first_screen_has_two_commands() -> None:
    screen = "\n".join(README.splitlines()[:30])
    for mark in ("demo", "test"):
        assert block(mark).strip() in screen
        assert len(block(mark).strip().splitlines()) == 1
