"""Pools as somebody wrote them down: what differs from the pools that are there, and what to do about it.

``check`` reads a document (a mapping, as YAML, TOML or JSON gives it), ``look`` reads a pool, ``plan`` compares the two
and does nothing, ``execute`` does what a plan says. Nothing is taken from a holder: a resource that is to go and is
leased goes when it comes back. Done twice, or by two at once, it is as if done once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relet.flow import Progress, further
from relet.model import Policy
from relet.names import _shown, check_attributes, check_destination, check_order, check_pool, check_resource
from relet.pool import Pool

KEYS = ("order", "on_lapse", "on_release", "resources")

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Definition:
    """How a pool shall be; None leaves that part as it is."""

    pool: str
    order: str | None = None
    on_lapse: str | None = None
    on_release: str | None = None
    resources: Mapping[str, Attributes | None] | None = None
    """Attributes by name; None leaves those that it has."""


@dataclass(frozen=True)
class Current:
    """How a pool is. ``order`` is None where there is none yet."""

    order: str | None = None
    policy: Policy = field(default_factory=Policy)
    attributes: Mapping[str, Attributes] = field(default_factory=dict)
    """Of every resource, by name."""
    leased: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    """Those of the leased ones that go when they come back."""


@dataclass(frozen=True)
class Changed:
    """One thing that shall be another than it is."""

    old: Any
    new: Any


@dataclass(frozen=True)
class Plan:
    """What is to be done about one pool."""

    pool: str
    is_new: bool = False
    settings: Mapping[str, Changed] = field(default_factory=dict)
    """``order``, ``on_lapse``, ``on_release``: those that change."""
    added: Mapping[str, Attributes | None] = field(default_factory=dict)
    attributes: Mapping[str, Changed] = field(default_factory=dict)
    """Of resources that are there, by name."""
    removed: Sequence[str] = ()
    later: Sequence[str] = ()
    """Those of the removed ones that are leased, and go when they come back."""
    extra: Sequence[str] = ()
    """Not in the definition, and left alone."""

    @property
    def is_empty(self) -> bool:
        """Whether all is as it shall be."""
        return not (self.is_new or self.settings or self.size)

    @property
    def size(self) -> int:
        """How many resources change."""
        return len(self.added) + len(self.attributes) + len(self.removed)


def check(document: object, place: str) -> list[Definition]:
    """The definitions in a document; ``place`` is what an error calls it.

    Raises:
        ValueError: something in it is wrong; the text says where, and which value.
    """
    pools = _mapping(document, place, "a mapping with the key pools")
    _known(pools, ("pools",), place)
    if "pools" not in pools:
        raise ValueError(f"{place}: the key pools is missing")
    return [_pool(name, value, place) for name, value in _mapping(pools["pools"], f"{place}: pools").items()]


def _pool(name: object, value: object, place: str) -> Definition:
    _checked(f"{place}: pools", check_pool, name)
    where = f"{place}: pools.{name}"
    entries = _mapping({} if value is None else value, where)
    _known(entries, KEYS, where)
    if entries.get("order") is not None:
        _checked(f"{where}.order", check_order, entries["order"])
    for way in ("on_lapse", "on_release"):
        _checked(where, check_destination, way, entries.get(way))
    resources = entries.get("resources")
    return Definition(
        str(name),
        entries.get("order"),
        entries.get("on_lapse"),
        entries.get("on_release"),
        dict(_resources(resources, f"{where}.resources")) if "resources" in entries else None,
    )


def _resources(value: object, where: str) -> Iterator[tuple[str, Attributes | None]]:
    """A mapping from name to attributes, or a list of names."""
    if isinstance(value, Mapping):
        for name, attributes in value.items():
            _checked(where, check_resource, name)
            if attributes is not None:
                _checked(where, check_attributes, name, attributes)
            yield name, attributes
        return
    if not isinstance(value, list):
        raise ValueError(
            f"{where}: a list of names, or a mapping from name to attributes, is wanted, not {_shown(value)}"
        )
    seen: set[str] = set()
    for number, name in enumerate(value, 1):
        if isinstance(name, Mapping):
            raise ValueError(
                f"{where}: entry {number} is a mapping, {_shown(name)}: where any has attributes, write all "
                f"resources as a mapping from name to attributes"
            )
        _checked(f"{where}: entry {number}", check_resource, name)
        if name in seen:
            raise ValueError(f"{where}: {name!r} stands there twice")
        seen.add(name)
        yield name, None


def _mapping(value: object, where: str, wanted: str = "a mapping") -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: {wanted} is wanted, not {_shown(value)}")
    return value


def _known(entries: Mapping[Any, Any], keys: Sequence[str], where: str) -> None:
    for key in entries:
        if key not in keys:
            raise ValueError(f"{where}: {key!r} is none of the keys {', '.join(keys)}")


def _checked(where: str, check: Any, *values: object) -> None:
    try:
        check(*values)
    except (TypeError, ValueError) as error:
        hint = "; put it in quotes" if check in (check_resource, check_pool) and not isinstance(values[0], str) else ""
        raise ValueError(f"{where}: {error}{hint}") from None


def look(pool: Pool) -> Current:
    """How the pool is now."""
    order = pool.order()
    if order is None:
        return Current()
    infos = list(pool.resources())
    return Current(
        order,
        pool.policy(),
        {info.name: info.attributes for info in infos},
        frozenset(info.name for info in infos if info.state == "leased"),
        frozenset(info.name for info in infos if info.mark == "leaving"),
    )


def plan(definition: Definition, current: Current, prune: bool) -> Plan:
    """What makes the one of the other. Without ``prune`` nothing is removed."""
    is_new = current.order is None
    wanted = definition.resources
    stays = {name: old for name, old in current.attributes.items() if name not in current.leaving}
    extra = [] if wanted is None else [name for name in stays if name not in wanted]
    removed = extra if prune else []
    return Plan(
        definition.pool,
        is_new,
        dict(_settings(definition, current)),
        {name: new for name, new in (wanted or {}).items() if name not in stays},
        {
            name: Changed(stays[name], new)
            for name, new in (wanted or {}).items()
            if name in stays and new is not None and _text(new) != _text(stays[name])
        },
        removed,
        [name for name in removed if name in current.leased],
        [] if prune else extra,
    )


def _settings(definition: Definition, current: Current) -> Iterator[tuple[str, Changed]]:
    pairs = {
        "order": (current.order, definition.order or ("rank" if current.order is None else None)),
        "on_lapse": (current.policy.on_lapse, definition.on_lapse),
        "on_release": (current.policy.on_release, definition.on_release),
    }
    for name, (old, new) in pairs.items():
        if new is not None and new != old:
            yield name, Changed(old, new)


def _text(attributes: Attributes) -> str:
    """As the server keeps them, whatever the order: 1 and true are not the same."""
    return json.dumps(dict(attributes), sort_keys=True)


def execute(plan: Plan, pool: Pool, progress: Progress | None = None) -> None:
    """Do what the plan says. The settings come first, so that they hold for what is added.

    Args:
        progress: called with the number of resources that were changed so far, of ``plan.size``.

    Raises:
        ReletError: somebody else made the pool meanwhile, with another order; what was done so far stays.
    """
    order = plan.settings.get("order")
    if plan.is_new:
        pool.add(order=order.new if order else None)
    elif order:
        pool.set_order(order.new)
    ways = {name: changed.new for name, changed in plan.settings.items() if name != "order"}
    if ways:
        pool.set_policy(**ways)
    given = {**plan.added, **{name: changed.new for name, changed in plan.attributes.items()}}
    if given:
        pool.add(given, progress=progress)
    if plan.removed:
        pool.remove(plan.removed, progress=further(progress, len(given)))
