"""Three lists of the rights agree: what the scripts call, what rights.lua tries, what the README gives."""

from __future__ import annotations

import re
from pathlib import Path

from relet.scripts import gears, proving, script
from tests.topology.rights import documented

LUA = Path(str(gears())) / "lua"
RIGHTS_LUA = LUA / "shared" / "rights.lua"
OUTSIDE_SCRIPTS = {"+eval", "+evalsha", "+subscribe", "+info", "+scan"}


DOCTORS = ("examine", "facts", "repair")
"""What they read with goes beyond a worker's rights: gears/README.md names it apart, tests/doctor/ proves it."""


def test_the_scripts_call_what_is_tried_and_no_more() -> None:
    others = (file for file in LUA.rglob("*.lua") if file != RIGHTS_LUA and file.stem not in DOCTORS)
    texts = [file.read_text("utf-8") for file in others]
    called = {command for text in texts for command in re.findall(r"\bcall\(\s*'([A-Z]+)'", text)}
    tried = set(re.findall(r"^ {4}\{ '([A-Z]+)'", RIGHTS_LUA.read_text("utf-8"), re.MULTILINE))
    assert called == tried


def test_the_readme_gives_what_is_tried_and_what_the_client_sends() -> None:
    tried = re.findall(r"^ {4}\{ '([A-Z]+)'", RIGHTS_LUA.read_text("utf-8"), re.MULTILINE)
    inside = {f"+{command.lower()}".replace("+pubsub", "+pubsub|numsub") for command in tried}
    assert set(documented()) == inside | OUTSIDE_SCRIPTS | {"~relet:*", "&relet:wake:*"}


def test_the_proof_comes_before_the_script() -> None:
    proof = proving("acquire")
    assert proof.text.endswith(script("acquire").text)
    assert proof.text.startswith("do\n")
    assert "redis.call" not in proof.text.removesuffix(script("acquire").text)
    assert proving("list") is script("list")
