"""What a pool's log says: the stream that the transitions write where something happens that people ask about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """One thing that happened to a pool.

    ``kind``: ``lapse`` (a deadline passed), ``force`` (an operator took the resource), ``add``, ``remove``,
    ``quarantine``, ``restore``, ``drain``, ``undrain``, ``policy``. Plain grants and releases are not kept.
    """

    id: str
    """Its place in the log: ``events(after=id)`` goes on behind it. The lapses of one sweep share it."""
    at: float
    """When it was noticed, seconds since 1970 on the server's clock."""
    kind: str
    resources: tuple[str, ...] = ()
    """No more than the first 50, where many were added, removed, … at once."""
    count: int = 1
    """Of how many resources it speaks."""
    owner: str | None = None
    """Who held the resource, if it was taken from somebody."""
    fence: int | None = None
    """Of that lease."""
    held: float | None = None
    """Seconds from the grant until the deadline, or until it was taken."""
    reason: str | None = None


def decode(reply: list[Any]) -> list[Event]:
    """The events in a reply of gears/lua/events.lua."""
    return [
        event for id_, fields in zip(reply[::2], reply[1::2], strict=True) for event in _events(id_.decode(), fields)
    ]


def _events(id_: str, fields: list[bytes]) -> Iterator[Event]:
    texts = [text.decode("utf-8", "replace") for text in fields]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    at_ms, kind = int(id_.partition("-")[0]), pairs[0][1]
    if kind in ("lapse", "force"):
        for resource, facts in pairs[1:]:
            yield _ended(id_, at_ms, kind, resource, facts)
        return
    known = dict(pairs)
    resources = tuple(known.get("resources", "").split("\n")) if "resources" in known else ()
    reason = known.get("reason")
    if kind == "policy":
        reason = f"on_lapse={known['on_lapse']} on_release={known['on_release']}"
    yield Event(id_, at_ms / 1000, kind, resources, int(known.get("count", 0)), reason=reason or None)


def _ended(id_: str, at_ms: int, kind: str, resource: str, facts: str) -> Event:
    until, fence, since, owner = facts.split(" ", 3)
    held = (float(until) - int(since)) / 1000 if int(since) else None
    return Event(id_, at_ms / 1000, kind, (resource,), 1, owner, int(fence) or None, held)
