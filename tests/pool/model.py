"""A pool in plain Python, with a clock of its own: what the transitions on the server must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESENDS_S = 120
"""How long a release by token alone is remembered at least."""


@dataclass
class Held:
    """One grant."""

    token: str
    name: str
    fence: int
    owner: str
    deadline: int


@dataclass
class Resource:
    rank: int
    attributes: dict[str, Any] = field(default_factory=dict)
    held: Held | None = None
    """The lease, lapsed or not, until somebody takes it back."""
    is_leaving: bool = False


class Model:
    """Answers as the pool must. Times are whole seconds on ``self.now``."""

    def __init__(self) -> None:
        self.now = 0
        self.last_fence = 0
        self.forget()

    def forget(self) -> None:
        """The pool is destroyed."""
        self.order: str | None = None
        self.seq = 0
        self.resources: dict[str, Resource] = {}
        self.granted = self.released = self.lapsed = 0
        self.released_by_token: dict[str, int] = {}
        self.robbed: set[str] = set()

    def is_live(self, held: Held | None) -> bool:
        return held is not None and held.deadline > self.now

    def find(self, token: str) -> Held | None:
        """The live lease of a token."""
        for resource in self.resources.values():
            if resource.held and resource.held.token == token and self.is_live(resource.held):
                return resource.held
        return None

    def is_gone(self, name: str) -> bool:
        """Removed, and its lease lapsed: gone, though its entry may still wait to be swept."""
        resource = self.resources[name]
        return resource.is_leaving and not self.is_live(resource.held)

    def visible(self) -> list[str]:
        """Names in the order in which they were added."""
        found = [name for name in self.resources if not self.is_gone(name)]
        return sorted(found, key=lambda name: self.resources[name].rank)

    def sweep(self, *only: str) -> int:
        """Takes lapsed leases back: all, or those of the given names."""
        swept = 0
        for name in only or list(self.resources):
            held = self.resources[name].held
            if held and not self.is_live(held):
                self.lapsed += 1
                self.end(name)
                swept += 1
        return swept

    def end(self, name: str) -> None:
        self.resources[name].held = None
        if self.resources[name].is_leaving:
            del self.resources[name]

    def add(self, name: str, attributes: dict[str, Any] | None) -> int:
        if name in self.resources and self.is_gone(name):
            self.sweep(name)
        resource = self.resources.get(name)
        if resource is None:
            self.seq += 1
            self.resources[name] = Resource(self.seq, attributes or {})
            return 1
        if attributes is not None:
            resource.attributes = attributes
        was_leaving, resource.is_leaving = resource.is_leaving, False
        return int(was_leaving)

    def remove(self, name: str) -> int:
        if name not in self.resources:
            return 0
        self.sweep(name)
        if name not in self.resources:
            return 0
        if self.resources[name].held is None:
            del self.resources[name]
            return 1
        was_leaving, self.resources[name].is_leaving = self.resources[name].is_leaving, True
        return int(not was_leaving)

    def next(self) -> list[str]:
        """Who may be handed out next, every lapsed one taken back."""
        free = [name for name, resource in self.resources.items() if resource.held is None]
        if self.order == "rank":
            return sorted(free, key=lambda name: self.resources[name].rank)[:1]
        return free

    def grant(self, held: Held) -> None:
        assert held.fence > self.last_fence
        self.last_fence = held.fence
        self.granted += 1
        self.resources[held.name].held = held

    def release(self, held: Held) -> None:
        self.released += 1
        self.end(held.name)

    def free_count(self) -> int:
        return sum(not self.is_live(self.resources[name].held) for name in self.visible())

    def leased_count(self) -> int:
        return sum(self.is_live(resource.held) for resource in self.resources.values())

    def overdue_count(self) -> int:
        return sum(r.held is not None and not self.is_live(r.held) for r in self.resources.values())
