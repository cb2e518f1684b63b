"""relet with a rule taken out, to see that the campaign notices. Used in client processes alone.

A break edits a copy of gears/lua, and where it has to, a method of the client; nothing is changed for anybody else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import relet.scripts
from relet.lease import HeldLease
from relet.requests import Request
from relet.scripts import script


@dataclass(frozen=True)
class Break:
    """`edits` are (file under gears/lua, text that is there once, text in its stead); `files` come in new."""

    what: str
    edits: tuple[tuple[str, str, str], ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    release: Callable[..., Generator[Any, Any, None]] | None = None

    def apply(self, folder: Path) -> None:
        """Breaks relet in this process. `folder` is for the copy; clients may share it."""
        copy = self.copy(folder)
        relet.scripts.gears = lambda: copy
        script.cache_clear()
        relet.scripts.proving.cache_clear()
        if self.release is not None:
            HeldLease._release = self.release  # type: ignore[assignment, method-assign]

    def copy(self, folder: Path) -> Path:
        """The copy of gears/, made once; the one process that makes it is the first that asks: the campaign's own."""
        if not folder.exists():
            shutil.copytree(str(relet.scripts.gears() / "lua"), folder / "lua")
            for name, old, new in self.edits:
                file = folder / "lua" / name
                text = file.read_text("utf-8")
                if text.count(old) != 1:
                    raise ValueError(
                        f"{name} has {old!r} {text.count(old)} times, not once: mend tests/faults/broken.py"
                    )
                file.write_text(text.replace(old, new), "utf-8")
            for name, text in self.files.items():
                (folder / "lua" / name).write_text(text, "utf-8")
        return folder


# KEYS and ARGV as in release.lua, for one lease. First the lease is ended, then, a round trip later, the resource given
# back: between the two it is in no set.
_TAKE = """
-- @include pool
local held = call('HGET', root, 't:' .. ARGV[2])
local name = held and string.match(held, ' (.*)$')
if not name or not call('ZSCORE', leased, name) then
  return -1
end
call('ZREM', leased, name)
call('DEL', tracking .. name)
return 1
"""
_GIVE = """
-- @include pool
local held = call('HGET', root, 't:' .. ARGV[2])
local home, name = string.match(held or '', '^(%S+) (.*)$')
if name then
  call('ZADD', free, tonumber(home) or 0, name)
  call('HDEL', root, 't:' .. ARGV[2], 'r:' .. name)
end
-- @include hand_off
hand_off(32)
return 1
"""

# KEYS as in release.lua; ARGV 2 is the resource: whoever holds it by now loses it.
_BY_NAME = """
-- @include pool
-- @include sweep
-- @include hand_off
if call('ZSCORE', leased, ARGV[2]) then
  take_back({ ARGV[2] })
  call('HINCRBY', root, 'lapsed', -1)
  call('DEL', tracking .. ARGV[2])
  hand_off(32)
end
return 1
"""


def _in_two(lease: HeldLease, *_: Any, **__: Any) -> Generator[Any, Any, None]:
    for verb in ("release_take", "release_give"):
        if (yield Request(script(verb), (lease.token.encode(),), int)) < 0:
            lease._is_lost = True
            raise lease._requests.lost(lease.resource)
    lease._is_released = True


def _by_name(lease: HeldLease, *_: Any, **__: Any) -> Generator[Any, Any, None]:
    yield Request(script("release_by_name"), (lease.resource.encode(),), int)
    lease._is_released = True


_LOOK = ("tonumber(deadline) > now", "true")
_FENCE = "local function next_fence(stored)\n  return stored or micros\nend\n"
_COUNTED = """
local function next_fence(stored)
  call('HINCRBY', root, 'fence', '1')
  return call('HGET', root, 'fence')
end
"""

BREAKS = {
    "fence": Break(
        "the fence is not raised: each grant has the one that is stored", files={"shared/fence.lua": _FENCE}
    ),
    "fence-on-loss": Break(
        "the fence counts up from what is stored, and takes no heed of the time", files={"shared/fence.lua": _COUNTED}
    ),
    "deadline": Break(
        "renew and release don't look at the deadline",
        edits=(("release.lua", *_LOOK), ("shared/lease.lua", *_LOOK)),
    ),
    "two-trips": Break(
        "a release takes two round trips", files={"release_take.lua": _TAKE, "release_give.lua": _GIVE}, release=_in_two
    ),
    "holder": Break(
        "a release does not look who holds the resource by now",
        files={"release_by_name.lua": _BY_NAME},
        release=_by_name,
    ),
}
