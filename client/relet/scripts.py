"""The transitions: the Lua under gears/lua, one file a verb, read once with its shared parts put in."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.abc import Traversable

_INCLUDE = re.compile(r"^([ \t]*)-- @include ([\w ]+)$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)


class Script(NamedTuple):
    """A transition as it is sent: its text, and the SHA-1 under which EVALSHA knows it; both also in bytes, which go
    out as they are, whatever encoding the client has."""

    verb: str
    text: str
    sha: str
    text_bytes: bytes
    sha_bytes: bytes


def gears() -> Traversable:
    """The folder gears/: inside the installed package, or in the checkout that an editable install points at."""
    shipped = files("relet") / "_gears"
    if shipped.is_dir():
        return shipped
    checkout = Path(__file__).resolve().parents[2] / "gears"
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(f"relet was installed without its gears/ folder (looked in {shipped} and {checkout})")


@cache
def script(verb: str) -> Script:
    """The transition ``verb`` (``acquire``, ``release``, …), its comments left out: they need not cross the wire."""
    return _script(verb, "")


LOOKING = ("events", "examine", "line", "list", "stats")
"""Verbs that take nothing out of any set: a user who may do no more than look needs no more rights for them."""


@cache
def proving(verb: str) -> Script:
    """The transition, refused as a whole if the user lacks any right (gears/lua/shared/rights.lua says why)."""
    return script(verb) if verb in LOOKING else _script(verb, "-- @include rights\n")


def _script(verb: str, head: str) -> Script:
    folder = gears() / "lua"
    source = head + (folder / f"{verb}.lua").read_text("utf-8")
    text = _COMMENT.sub("", _with_parts(folder, source, set())).strip()
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(verb, text, sha, text.encode(), sha.encode())


def _with_parts(folder: Traversable, text: str, known: set[str]) -> str:
    """Puts each part in once: for good where the line stands at the margin, else for the block in which it stands."""

    def parts(line: re.Match[str]) -> str:
        seen = set(known) if line[1] else known
        texts = []
        for name in line[2].split():
            if name not in seen:
                seen.add(name)
                texts.append(_with_parts(folder, (folder / "shared" / f"{name}.lua").read_text("utf-8"), seen))
        return "".join(texts)

    return _INCLUDE.sub(parts, text)
