"""The same round under every client library that is served, with and without its parser in C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import relet
from tests.helpers import missing
from tests.libraries import environment, library
from tests.servers import Server, Unavailable

ROUNDS = Path(__file__).with_name("rounds.py")

# Of each major release the last; of the oldest that is served, the first.
VERSIONS = [
    ("redis", "4.6.0", "hiredis==2.4.0"),
    ("redis", "5.3.1", "hiredis==3.2.1"),
    ("redis", "6.4.0", "hiredis==3.2.1"),
    ("redis", "7.4.1", "hiredis==3.3.0"),
    ("redis", "8.2.0", "hiredis==3.5.0"),
    ("valkey", "6.2.0", "libvalkey==4.2.1"),
]


@pytest.mark.parametrize("parser", ["with", "without"])
@pytest.mark.parametrize(("name", "version", "accelerator"), VERSIONS, ids=[f"{n}-{v}" for n, v, _ in VERSIONS])
def test_a_round(name: str, version: str, accelerator: str, parser: str, every_server: list[Server]) -> None:
    try:
        folders = [library(f"{name}=={version}")]
        if name == "valkey":
            folders.append(library("redis==8.2.0"))  # which relet itself imports
        if parser == "with":
            folders.append(library(accelerator))
    except Unavailable as reason:
        missing(str(reason))
    urls = [server.url for server in every_server]
    sources = Path(relet.__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-W", "error", str(ROUNDS), name, version, parser, *urls],
        env=environment(*folders, sources),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    ways = 2 if version.startswith("4.") else 6
    assert len(result.stdout.splitlines()) == ways * len(urls)
