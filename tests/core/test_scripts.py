"""The transitions as texts: how they are put together, and what their headers promise."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import redis

from relet import requests
from relet.scripts import gears, script

LUA = Path(str(gears())) / "lua"
VERBS = sorted(file.stem for file in LUA.glob("*.lua"))
SHARED = sorted(file.stem for file in (LUA / "shared").glob("*.lua"))
INCLUDE = re.compile(r"^[ \t]*-- @include (\w+)$", re.MULTILINE)


def source(verb: str) -> str:
    return (LUA / f"{verb}.lua").read_text("utf-8")


def test_every_verb_is_used_by_the_client() -> None:
    text = Path(requests.__file__).read_text("utf-8")
    used = set(re.findall(r'script\("(\w+)"\)', text))
    assert used == set(VERBS)


def test_every_shared_part_is_used() -> None:
    texts = [source(verb) for verb in VERBS] + [(LUA / "shared" / f"{part}.lua").read_text("utf-8") for part in SHARED]
    by_the_client = {"rights"}  # see relet.scripts.proving
    assert {part for text in texts for part in INCLUDE.findall(text)} == set(SHARED) - by_the_client


@pytest.mark.parametrize("verb", VERBS)
def test_a_script_is_whole(verb: str) -> None:
    made = script(verb)
    assert made.verb == verb
    assert "@include" not in made.text
    assert not re.search(r"^\s*--", made.text, re.MULTILINE), "comments stay at home"
    assert "local root, tracking = KEYS[1], ARGV[1]" in made.text
    assert made.text == made.text.strip()
    assert made.sha == hashlib.sha1(made.text.encode()).hexdigest()
    assert script(verb) is made


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_but_comments_is_lost(verb: str) -> None:
    made = script(verb).text
    for line in source(verb).splitlines():
        if line.strip() and not line.lstrip().startswith("--"):
            assert line.strip() in made


@pytest.mark.parametrize("verb", VERBS)
def test_a_header_names_every_argument(verb: str) -> None:
    header = "\n".join(line for line in source(verb).splitlines() if line.startswith("--"))
    assert re.search(r"^-- KEYS 1 +the pool's root hash$", header, re.MULTILINE)
    assert re.search(r"^-- ARGV 1 +prefix of the tracking keys$", header, re.MULTILINE)
    assert re.search(r"^-- -> ", header, re.MULTILINE), "what comes back"
    body = "\n".join(line for line in source(verb).splitlines() if not line.lstrip().startswith("--"))
    for number in set(re.findall(r"ARGV\[(\d+)\]", body)):
        assert re.search(rf"^-- (ARGV|    ) {number}\b", header, re.MULTILINE), f"ARGV {number}"
    assert set(re.findall(r"KEYS\[(\d+)\]", script(verb).text)) == {"1"}


def test_only_what_is_bounded_is_unpacked() -> None:
    """Lua gives up at 8,000 values; each of these is a batch, at most 1,000 names and their records."""
    for file in LUA.rglob("*.lua"):
        for unpacked in re.findall(r"unpack\((\w+)\)", file.read_text("utf-8")):
            assert (file.stem, unpacked) in {
                ("destroy", "fields"),
                ("destroy", "names"),
                ("destroy", "sets"),
                ("ended", "old"),
                ("rights", "harmless"),
                ("sweep", "back"),
                ("sweep", "fields"),
                ("sweep", "lapses"),
                ("sweep", "names"),
            }, f"{file.name} unpacks {unpacked}: is it bounded?"


def test_every_script_loads_under_its_sha(client: redis.Redis) -> None:
    for verb in VERBS:
        made = script(verb)
        sha: object = client.script_load(made.text)
        assert (sha.decode() if isinstance(sha, bytes) else sha) == made.sha


def test_an_unknown_verb_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        script("nothing")
