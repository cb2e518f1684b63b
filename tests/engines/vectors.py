"""What a lapse must do, as data: the pool before, the event, the pool after. Every engine is held to all of it.

A state maps the ends of a pool's keys to their contents: a dict for a hash (field to text) or a sorted set (member to
score), both written as text; "" is the root hash, "lease:r1" the tracking key of r1, a string as (value, expiry in ms).
Text has marks for what differs from run to run:

    <T-30>    ms, the server's clock when the state was made, and so much more or less; <U+5> likewise in µs
    <E+5000>  ms at the event; one event is one moment, so every <E> of a state must mean the same one
    <F+1>     µs at the event, within the millisecond <E>
    <wake>    the channels of those who wait, ns:wake:{pool}

Bytes that are no UTF-8 are written as surrogates, as Python's "surrogateescape" does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Content = Mapping[str, str] | tuple[str, str]
State = Mapping[str, Content]

HASHES = ("", "attributes")
LARGE = 250
"""More leases than any engine takes back in one go."""


@dataclass(frozen=True)
class Vector:
    """One lapse. ``event`` is the resource whose tracking key expires, in ``database``."""

    name: str
    before: State
    after: State
    said: tuple[tuple[str, str], ...] = ()
    """(channel, text) of what is published, in order."""
    listening: tuple[str, ...] = ()
    """The waiting processes that are connected."""
    event: str = "r1"
    pool: str = "gpu"
    database: int = 0


def token(number: int, lease: int = 1) -> str:
    """A token as the client makes it for a request of several."""
    return f"{number:08x}{'5' * 20}{lease:04x}"


def root(total: int, order: str = "rank", **fields: str) -> dict[str, str]:
    """The root's fields."""
    return {"order": order, "total": str(total), "granted": "7", "fence": "1700000000000000", **fields}


def lease(name: str, number: int, home: str = "1") -> dict[str, str]:
    """The two records of a lease in the root."""
    return {f"t:{token(number)}": f"{home} {name}", f"r:{name}": f"{token(number)} 1699999999999999 <T-60000> me"}


def waiter(
    number: int, channel: str, count: int = 1, ttl: int = 5000, owner: str = "who waits", since: str = "<T-9000> "
) -> dict[str, str]:
    return {f"w:{token(number)}": f"{count} {ttl} <wake>:{channel} {since}{owner}"}


def ranks(*names: str) -> dict[str, str]:
    return {name: str(number) for number, name in enumerate(names, 1)}


def _lapse(name: str, order: str, home: str, score: str) -> Vector:
    """r1 lapses and goes home; r2 is free, r3's lease lives on."""
    resources = ranks("r1", "r2", "r3")
    other = {"r2": "2"}
    alive = lease("r3", 3, "3" if home == "1" else home)
    return Vector(
        name,
        {
            "": {**root(3, order), **lease("r1", 0xABCDEF, home), **alive},
            "free": other,
            "leased": {"r1": "<T-30>", "r3": "<T+60000>"},
            "resources": resources,
            "lease:r3": (token(3), "<T+60000>"),
        },
        {
            "": {**root(3, order, lapsed="1"), **alive},
            "free": {**other, "r1": score},
            "leased": {"r3": "<T+60000>"},
            "resources": resources,
            "lease:r3": (token(3), "<T+60000>"),
        },
    )


def _many(count: int) -> Vector:
    """All lapse, in other places of the order than they lapse in."""
    names = [f"r{number}" for number in range(1, count + 1)]
    resources = ranks(*names)
    fields = root(count)
    for number, name in enumerate(names, 1):
        fields |= lease(name, number, str(number))
    return Vector(
        f"{count} lapse at once",
        {"": fields, "leased": {name: f"<T-{2 * count - number * 7 % count}>" for number, name in enumerate(names)}}
        | {"resources": resources},
        {"": root(count, lapsed=str(count)), "free": resources, "resources": resources},
    )


def _served(
    name: str,
    line: Mapping[str, str],
    waiters: Mapping[str, str],
    after: State,
    said: tuple[tuple[str, str], ...],
    *,
    lapsing: int = 1,
    listening: tuple[str, ...] = ("1", "2"),
    extra: State | None = None,
    order: str = "rank",
    **fields: str,
) -> Vector:
    """``lapsing`` resources lapse while others wait. ``after`` gives what differs from an idle pool's state."""
    names = [f"r{number}" for number in range(1, lapsing + 1)]
    resources = ranks(*names)
    held: dict[str, str] = {}
    for number, resource in enumerate(names, 1):
        held |= lease(resource, number, str(number) if order == "rank" else order)
    before = {
        "": {**root(lapsing, order, waiting=str(len(waiters)), **fields), **held, **line},
        "leased": dict.fromkeys(names, "<T-30>"),
        "resources": resources,
        "waiters": waiters,
    }
    return Vector(
        name, {**before, **(extra or {})}, {"resources": resources, **(extra or {}), **after}, said, listening
    )


def _granted(
    number: int, name: str, fence: str, lease_number: int = 1, home: str = "1", owner: str = "who waits"
) -> dict[str, str]:
    own = token(number, lease_number)
    return {f"t:{own}": f"{home} {name}", f"r:{name}": f"{own} {fence} <E+0> {owner}"}


def _one_served(
    name: str, fence_before: str, fence: str, *, order: str = "rank", owner: str = "who waits", since: str = "<T-9000> "
) -> Vector:
    fields = {"waiting": "0", "lapsed": "1", "fence": fence, "granted": "8"}
    granted = _granted(9, "r1", fence, home="1" if order == "rank" else order, owner=owner)
    return _served(
        name,
        waiter(9, "1", owner=owner, since=since),
        {token(9): "1"},
        {
            "": {**root(1, order), **fields, **granted},
            "leased": {"r1": "<E+5000>"},
            "lease:r1": (token(9), "<E+5000>"),
        },
        (("<wake>:1", f"{token(9)} {fence} <E+5000> 5000 r1"),),
        order=order,
        fence=fence_before,
    )


def _queues() -> list[Vector]:
    two = {**waiter(9, "1"), **waiter(10, "2")}
    first = {"leased": {"r1": "<E+5000>"}, "lease:r1": (token(9), "<E+5000>")}
    served_first = {"lapsed": "1", "fence": "<F+0>", "granted": "8"}
    line_of_many = {**waiter(9, "1", 3), **waiter(10, "2")}
    both = {"fence": "<F+1>", "granted": "9", "lapsed": "2", "waiting": "0"}
    leased_both = {"leased": {"r1": "<E+5000>", "r2": "<E+5000>"}}
    return [
        _served(
            "first come, first served",
            two,
            {token(9): "4", token(10): "5"},
            {
                "": {**root(1, waiting="1"), **served_first, **waiter(10, "2"), **_granted(9, "r1", "<F+0>")},
                "waiters": {token(10): "5"},
                **first,
            },
            (("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1"), ("<wake>", "next 5000")),
        ),
        _served(
            "two served by one event",
            two,
            {token(9): "4", token(10): "5"},
            {
                "": {**root(2), **both, **_granted(9, "r1", "<F+0>"), **_granted(10, "r2", "<F+1>", home="2")},
                **leased_both,
                "lease:r1": (token(9), "<E+5000>"),
                "lease:r2": (token(10), "<E+5000>"),
            },
            (
                ("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1"),
                ("<wake>:2", f"{token(10)} <F+1> <E+5000> 5000 r2"),
            ),
            lapsing=2,
        ),
        _served(
            "several for one",
            waiter(9, "1", 2),
            {token(9): "4"},
            {
                "": {**root(2), **both, **_granted(9, "r1", "<F+0>"), **_granted(9, "r2", "<F+1>", 2, "2")},
                **leased_both,
                "lease:r1": (token(9), "<E+5000>"),
                "lease:r2": (token(9, 2), "<E+5000>"),
            },
            (("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1\n\n<F+1> <E+5000> 5000 r2"),),
            lapsing=2,
        ),
        _served(
            "the dead are passed over",
            two | waiter(8, "dead"),
            {token(8): "3", token(9): "4", "no record": "3.5", token(10): "5"},
            {
                "": {**root(1, waiting="1"), **served_first, **waiter(10, "2"), **_granted(9, "r1", "<F+0>")},
                "waiters": {token(10): "5"},
                **first,
            },
            (("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1"), ("<wake>", "next 5000")),
        ),
        _served(
            "a waiter's record that makes no sense",
            two | {f"w:{token(8)}": "several 5000 <wake>:1 <T-9000> who waits"},
            {token(8): "3", token(9): "4", token(10): "5"},
            {
                "": {**root(1, waiting="1"), **served_first, **waiter(10, "2"), **_granted(9, "r1", "<F+0>")},
                "waiters": {token(10): "5"},
                **first,
            },
            (("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1"), ("<wake>", "next 5000")),
        ),
        _served(
            "all who wait are dead",
            waiter(8, "dead"),
            {token(8): "3"},
            {"": {**root(1, waiting="0"), "lapsed": "1"}, "free": {"r1": "1"}},
            (),
        ),
        _served(
            "the first in line wants more than the pool has",
            {**waiter(9, "1", 3), **waiter(10, "2")},
            {token(9): "4", token(10): "5"},
            {
                "": {**root(2), **served_first, "waiting": "0", "lapsed": "2", **_granted(10, "r1", "<F+0>")},
                "free": {"r2": "2"},
                "leased": {"r1": "<E+5000>"},
                "lease:r1": (token(10), "<E+5000>"),
            },
            (("<wake>:2", f"{token(10)} <F+0> <E+5000> 5000 r1"),),
            lapsing=2,
        ),
        Vector(
            "the first in line wants more than there is",
            {
                "": {**root(3, waiting="2"), **lease("r1", 1), **lease("r2", 2, "2"), **line_of_many},
                "leased": {"r1": "<T-30>", "r2": "<T-30>", "r3": "<T+60000>"},
                "resources": ranks("r1", "r2", "r3"),
                "waiters": {token(9): "4", token(10): "5"},
            },
            {
                "": {**root(3, waiting="2", lapsed="2"), **line_of_many},
                "free": {"r1": "1", "r2": "2"},
                "leased": {"r3": "<T+60000>"},
                "resources": ranks("r1", "r2", "r3"),
                "waiters": {token(9): "4", token(10): "5"},
            },
            listening=("1", "2"),
        ),
        _served(
            "too little is left for the second in line",
            {**waiter(9, "1", 2), **waiter(10, "2", 2)},
            {token(9): "4", token(10): "5"},
            {
                "": {
                    **root(3, waiting="1"),
                    **{**both, "waiting": "1", "lapsed": "3"},
                    **waiter(10, "2", 2),
                    **_granted(9, "r1", "<F+0>"),
                    **_granted(9, "r2", "<F+1>", 2, "2"),
                },
                **leased_both,
                "free": {"r3": "3"},
                "lease:r1": (token(9), "<E+5000>"),
                "lease:r2": (token(9, 2), "<E+5000>"),
                "waiters": {token(10): "5"},
            },
            (
                ("<wake>:1", f"{token(9)} <F+0> <E+5000> 5000 r1\n\n<F+1> <E+5000> 5000 r2"),
                ("<wake>", "next 5000"),
            ),
            lapsing=3,
        ),
        _served(
            "attributes are told",
            waiter(9, "1", ttl=100, owner="who waits"),
            {token(9): "1"},
            {
                "": {
                    **root(1, waiting="0", attributes="1"),
                    **served_first,
                    **_granted(9, "r1", "<F+0>"),
                },
                "leased": {"r1": "<E+100>"},
                "lease:r1": (token(9), "<E+100>"),
            },
            (("<wake>:1", f'{token(9)} <F+0> <E+100> 100 r1\n{{"unit":"µm","a":1}}'),),
            extra={"attributes": {"r1": '{"unit":"µm","a":1}'}},
            attributes="1",
        ),
    ]


def _damaged() -> list[Vector]:
    resources = ranks("r1", "r2")
    return [
        Vector(
            "records are missing",
            {"": root(2), "leased": {"r1": "<T-30>", "r2": "<T-20>"}, "resources": resources},
            {"": root(2, lapsed="2"), "free": resources, "resources": resources},
        ),
        Vector(
            "records that make no sense",
            {
                "": {**root(2), **lease("r1", 1, "nonsense"), **lease("r2", 2, "2")},
                "leased": {"r1": "<T-30>", "r2": "<T-20>"},
                "resources": resources,
            },
            {"": root(2, lapsed="2"), "free": resources, "resources": resources},
        ),
        Vector(
            "the order is missing",
            {
                "": {"total": "2", "waiting": "1", **waiter(9, "1")},
                "leased": {"r1": "<T-30>"},
                "resources": resources,
                "waiters": {token(9): "1"},
            },
            {
                "": {"total": "2", "waiting": "1", "lapsed": "1", **waiter(9, "1")},
                "free": {"r1": "1"},
                "resources": resources,
                "waiters": {token(9): "1"},
            },
            listening=("1",),
        ),
        Vector(
            "the hash is missing",
            {"leased": {"r1": "<T-30>", "r2": "<T-20>"}, "resources": resources},
            {"": {"lapsed": "2"}, "free": resources, "resources": resources},
        ),
        Vector(
            "a resource that only `leased` knows",
            {"": root(2), "leased": {"r1": "<T-30>", "r9": "<T-20>"}, "resources": resources},
            {"": root(2, lapsed="2"), "free": {"r1": "1", "r9": "0"}, "resources": resources},
        ),
        Vector(
            "names and owners that are no UTF-8",
            {
                "": {
                    **root(2),
                    **lease("r1", 1),
                    f"t:{token(2)}": "2 \udcff\udc80",
                    "r:\udcff\udc80": f"{token(2)} 1 2 \udcfe",
                },
                "leased": {"r1": "<T-30>", "\udcff\udc80": "<T-20>"},
                "resources": ranks("r1", "\udcff\udc80"),
            },
            {"": root(2, lapsed="2"), "free": ranks("r1", "\udcff\udc80"), "resources": ranks("r1", "\udcff\udc80")},
        ),
        Vector("the pool is gone", {}, {}),
        Vector("the pool is gone but for its hash", {"": root(0)}, {"": root(0)}),
    ]


def _others() -> list[Vector]:
    odd = ["🦊 {x}:y", "}{ é", "a\u00a0b", "x" * 512]
    fields = root(len(odd))
    for number, name in enumerate(odd, 1):
        fields |= lease(name, number, str(number))
    held: State = {
        "": {**root(1), **lease("r1", 1)},
        "leased": {"r1": "<T+60000>"},
        "resources": ranks("r1"),
        "waiters": {token(9): "1"},
    }
    gone = {"": {**root(2), **lease("r1", 1, "gone"), **lease("r2", 2, "2")}}
    return [
        Vector(
            "odd names",
            {"": fields, "leased": dict.fromkeys(odd, "<T-30>"), "resources": ranks(*odd)},
            {"": root(len(odd), lapsed=str(len(odd))), "free": ranks(*odd), "resources": ranks(*odd)},
            event=odd[0],
            pool="Größe-🦊-№1",
        ),
        Vector(
            "one that leaves",
            gone
            | {
                "leased": {"r1": "<T-30>", "r2": "<T-30>"},
                "leaving": {"r1": "<T-30>"},
                "resources": ranks("r1", "r2"),
                "attributes": {"r1": "{}", "r2": "{}"},
            },
            {
                "": {**root(1, lapsed="2")},
                "free": {"r2": "2"},
                "resources": {"r2": "2"},
                "attributes": {"r2": "{}"},
            },
        ),
        Vector("a late event, the resource leased again", held, held),
        *_aside(),
        Vector("an event in another database", held, held, database=1),
    ]


def _aside() -> list[Vector]:
    """What was leased goes into quarantine: by the policy, as it was marked, or because it was to be cleaned."""
    resources = ranks("r1", "r2", "r3")

    def vector(
        name: str, home: str, record: str, kept: str, place: str, policy: str = "", order: str = "rank"
    ) -> Vector:
        """r1 lapses; r2 is in quarantine, and r3 will be."""
        fields = root(3, order, **({"policy": policy} if policy else {}))
        other = {"q:r2": "quarantine <T-500> dirty", "q:r3": "drain 0 broken", **lease("r3", 3, "held")}
        mine = {"q:r1": record} if record else {}
        held = {"r3": "<T+60000>"}
        return Vector(
            name,
            {
                "": {**fields, **other, **mine, **lease("r1", 0xABCDEF, home)},
                "leased": {"r1": "<T-30>", **held},
                "held": {**held, **({"r1": "<T-30>"} if mine else {})},
                "quarantined": {"r2": "<T-500>"},
                "resources": resources,
            },
            {
                "": {**fields, **other, "q:r1": kept, "lapsed": "1"},
                "leased": held,
                "held": held,
                "quarantined": {"r2": "<T-500>", "r1": place},
                "resources": resources,
            },
        )

    return [
        vector("quarantine by policy", "1", "", "quarantine <E+0> lapsed: me", "<E+0>", "lapse "),
        vector(
            "quarantine by policy, lru", "lru*", "", "quarantine <E+0> lapsed: me", "<E+0>", "lapse release ", "lru"
        ),
        vector("marked for quarantine", "held", "quarantine 0 a b ", "quarantine <E+0> a b ", "<E+0>"),
        vector("marked for quarantine, the deadline moved", "held*", "quarantine 0 ", "quarantine <E+0> ", "<E+0>"),
        vector("drained while leased", "held", "drain 0 power", "drain <E+0> power", "inf", "lapse "),
        vector("a cleaner that crashed", "dirty", "quarantine <T-900> mud", "quarantine <E+0> mud", "<E+0>"),
    ]


VECTORS = (
    _lapse("by rank", "rank", "1", "1"),
    _lapse("by rank, the deadline moved", "rank", "1*", "1"),
    _lapse("the longest idle last", "lru", "lru", "<T-30>000"),
    _lapse("at random", "random", "random", str(0xABCDEF)),
    _many(9),
    _many(LARGE),
    *_queues(),
    _one_served("fences follow the clock", "1700000000000000", "<F+0>"),
    _one_served("a fence of fewer digits", "99", "<F+0>"),
    _one_served("a fence above 2^53", "9007199254740993", "9007199254740994"),
    _one_served("a fence near 2^63", "9223372036854775806", "9223372036854775807"),
    _one_served("the clock behind the fence", "<U+3600000000>", "<U+3600000001>"),
    _one_served("served by lru", "1700000000000000", "<F+0>", order="lru"),
    _one_served("a waiter of a client that tells no time", "99", "<F+0>", since=""),
    _one_served("such a waiter, whose owner begins with digits", "99", "<F+0>", since="", owner="12 monkeys"),
    _one_served("a waiter whose owner is a number", "99", "<F+0>", owner="1700000000000 and more"),
    _one_served("a waiter without an owner", "99", "<F+0>", owner=""),
    *_damaged(),
    *_others(),
)
