"""A pool's consistency: what cannot be in its keys, and how it is mended. Flows of short calls; no I/O here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from relet.doctor.findings import Finding, error, mended, ok, warn
from relet.errors import ReletError
from relet.flow import Flow
from relet.requests import Requests

PAGE = 100
"""Resources a call: some 12 commands each, together a millisecond or two of the server's time."""
PARTS = (":free", ":leased", ":quarantined", ":leaving", ":held", "", ":resources", ":attributes", ":waiters")
"""What is gone through, as gears/lua/examine.lua names it: first what tells most of a resource."""
ROUNDS = 5
"""In a pool that is in use, a resource may move on from a part that is still to come to one that is done."""
SHOWN = 5
"""Names in a finding of many."""

KINDS = {
    "": "hash",
    ":resources": "zset",
    ":free": "zset",
    ":leased": "zset",
    ":quarantined": "zset",
    ":leaving": "zset",
    ":held": "zset",
    ":attributes": "hash",
    ":waiters": "zset",
    ":ended": "zset",
    ":log": "stream",
}


class Fault(NamedTuple):
    """What a page says of one resource, or waiter."""

    name: str
    level: str
    what: str


class Keys(NamedTuple):
    """The pool's keys as such."""

    kinds: dict[str, str]
    sizes: dict[str, int]
    fields: dict[str, str]

    @property
    def wrong(self) -> list[str]:
        """Keys of a type that relet does not write."""
        return [key for key, kind in self.kinds.items() if kind not in ("none", KINDS[key])]

    @property
    def is_there(self) -> bool:
        """Whether there is a pool, be it damaged: one for which somebody waits, and no more, is none."""
        parts = ("resources", "free", "leased", "quarantined", "leaving", "held", "attributes", "log")
        return bool(self.fields.get("order") or any(self.kinds[f":{part}"] != "none" for part in parts))

    @property
    def may_be_one(self) -> bool:
        return self.is_there or bool(self.wrong)


_FIELDS = ("order", "total", "waiting", "seq", "highest", "granted", "lapsed", "attributes", "fence", "doubt")


def look_at(requests: Requests) -> Flow[Keys]:
    """The types and sizes of the pool's keys, and what its hash says of them."""
    reply: list[Any] = yield requests.examine("pool", b"0", PAGE)
    keys, values = reply[: 3 * len(KINDS)], reply[3 * len(KINDS) :]
    names = [name.decode() for name in keys[::3]]
    kinds = [kind.decode() for kind in keys[1::3]]
    fields = dict(zip(_FIELDS, (_text(value) for value in values), strict=False))
    return Keys(dict(zip(names, kinds, strict=True)), dict(zip(names, map(int, keys[2::3]), strict=True)), fields)


def examine(requests: Requests) -> Flow[list[Finding]]:
    """What is wrong with the pool; one finding of ``ok`` if nothing is.

    Raises:
        ReletError: there is no such pool.
    """
    where = f"pool {requests.pool}"
    keys: Keys = yield from look_at(requests)
    root = requests.keys.root.decode()
    if keys.wrong:
        return [
            error(
                where,
                f"{root}{key} is a {keys.kinds[key]}, not a {KINDS[key]}",
                "something other than relet wrote it: calls fail with WRONGTYPE",
                "look at what it holds, then delete or rename it, and run relet doctor --repair",
            )
            for key in keys.wrong
        ]
    if not keys.is_there:
        raise ReletError(f"there is no pool {requests.pool!r}: relet pools lists all")
    faults: set[Fault] = set()
    for part in PARTS:
        faults |= yield from _faults(requests, part)
    again: Keys = yield from look_at(requests)
    found = [*_of_keys(where, root, again), *_of_resources(where, faults)]
    if not any(finding.level == "error" for finding in found):
        found.insert(0, ok(where, f"its {keys.sizes[':resources']} resources are each in exactly one state"))
    return found


def _faults(requests: Requests, part: str) -> Flow[set[Fault]]:
    found: set[Fault] = set()
    cursor = b"0"
    while True:
        cursor, *values = yield requests.examine(part, cursor, PAGE)
        texts = iter([_text(value) for value in values])
        found |= {Fault(*three) for three in zip(texts, texts, texts, strict=True)}
        if cursor == b"0":
            return found


def repair(requests: Requests, order: str = "") -> Flow[list[Finding]]:
    """Mends the pool, and says what was done. ``order``: of a pool whose hash is gone ("": by what is left).

    Raises:
        ReletError: there is no such pool.
    """
    where = f"pool {requests.pool}"
    keys: Keys = yield from look_at(requests)
    if keys.wrong:  # what they hold may be somebody's: deleting it is not for us
        return []
    done: list[tuple[str, str]] = yield from _mend(requests, "pool", order)
    for _ in range(ROUNDS):
        before = len(done)
        for part in PARTS:
            done += yield from _mend(requests, part, order)
        if len(done) == before:
            break
    done += yield from _mend(requests, "end", order)
    return [mended(where, f"{name} {what}".strip()) for name, what in dict.fromkeys(done)]


def _mend(requests: Requests, part: str, order: str) -> Flow[list[tuple[str, str]]]:
    done: list[tuple[str, str]] = []
    cursor = b"0"
    while True:
        reply: list[Any] | None = yield requests.repair(part, cursor, PAGE, order)
        if reply is None:
            raise ReletError(f"there is no pool {requests.pool!r}: relet pools lists all")
        cursor, *values = reply
        texts = iter([_text(value) for value in values])
        done += zip(texts, texts, strict=True)
        if cursor == b"0":
            return done


def _of_keys(where: str, root: str, keys: Keys) -> Iterator[Finding]:
    fields, sizes = keys.fields, keys.sizes
    todo = "relet doctor --repair counts anew"
    if not fields["order"]:
        yield error(
            where,
            f"its hash {root} is gone or has no order" if sizes[""] else f"its hash {root} is gone",
            "the records of its leases were in it, its order, its policies and its counters: every call is refused",
            "relet doctor --repair makes it anew; name the order with --order, and set the policies again",
        )
        return
    if fields["doubt"]:
        yield error(where, "a repair was cut short", "", "run relet doctor --repair again")
    if fields["total"] != str(sizes[":resources"]):
        yield error(
            where, f"{root}:resources holds {sizes[':resources']} of {fields['total'] or '?'} resources", "", todo
        )
    if fields["fence"] and not fields["fence"].isdecimal():
        yield error(where, f"its fence is {fields['fence']!r}", "leases cannot be numbered", todo)
    if int(fields["waiting"] or 0) != sizes[":waiters"]:
        yield error(where, f"{fields['waiting']} are said to wait, {sizes[':waiters']} are in {root}:waiters", "", todo)
    if _number(fields["highest"]) > _number(fields["seq"]):
        yield error(where, "its last rank is lower than one of its resources'", "two could have the same", todo)
    if _number(fields["granted"]) < _number(fields["lapsed"]) + sizes[":leased"]:
        yield error(where, "fewer leases were granted than lapsed and are held", "its counters are wrong", todo)
    if sizes[":attributes"] and not fields["attributes"]:
        yield error(where, "its hash does not say that there are attributes", "leases come without them", todo)
    elif fields["attributes"] and not sizes[":attributes"]:
        yield warn(
            where,
            f"{root}:attributes is gone",
            "all resources that had any were removed, or the key was deleted",
            "in the second case add the resources again with their attributes; --repair takes note",
        )
    if sizes[":resources"] and keys.kinds[":log"] == "none":
        why = "what happened to the pool until now is lost"
        yield warn(where, f"{root}:log is gone", why, "--repair begins it anew")


def _of_resources(where: str, faults: Iterable[Fault]) -> Iterator[Finding]:
    """A finding for each thing that is wrong, with the names of the first few that have it."""
    counts = Counter((fault.level, fault.what) for fault in faults)
    for (level, what), count in sorted(counts.items()):
        names = sorted(fault.name for fault in faults if (fault.level, fault.what) == (level, what))
        more = f" and {count - SHOWN} more" if count > SHOWN else ""
        make = error if level == "error" else warn
        why = "a key was deleted, evicted or changed by something other than relet"
        yield make(where, f"{', '.join(names[:SHOWN])}{more}: {what}", why, "relet doctor --repair mends it")


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
