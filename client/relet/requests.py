"""The thinking part: which script with which arguments, and what its reply means. No I/O happens here.

A :class:`Request` is one round trip. Both drivers (:mod:`relet.pool` for threads, :mod:`relet.aio` for asyncio) send
it and hand the reply to its ``decode``. Flows of several round trips are generators in :mod:`relet.flows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from relet.errors import LeaseLost, PoolDamaged, PoolExhausted, ReletError, ResourceUnknown, UnsupportedServer
from relet.events import Event
from relet.events import decode as decode_events
from relet.model import Grant, Policy, ResourceInfo, Stats, Waiter
from relet.names import Keys, decode_attributes, new_token
from relet.scripts import Script, script

T = TypeVar("T")
Argument = bytes | int
"""Text goes out as UTF-8, whatever encoding the client has."""

LOST = -1
UNKNOWN = -2
TOO_MANY = -3
READ_ONLY = "against a read only replica"
"""What all servers say there; Redis 6.2 puts other words before it, so that redis-py sees no ReadOnlyError."""
NO_WAIT = "WAIT cannot be used with replica"
"""What a replica says to WAIT: it has become one since it took the renewal."""


class Standing(NamedTuple):
    """What a waiter is told."""

    nearest_ms: int
    """Until the nearest deadline: 0 if it has passed, -1 if nothing is leased."""
    now_ms: int
    """On the server's clock."""
    queued: bool


class Request(Generic[T]):
    """One round trip: ``decode`` turns the raw reply into the answer, or raises what it means."""

    __slots__ = ("arguments", "decode", "script")

    def __init__(self, script: Script, arguments: Sequence[Argument], decode: Callable[[Any], T]) -> None:
        self.script = script
        self.arguments = arguments
        self.decode = decode


class Requests:
    """Makes the requests of one pool."""

    def __init__(self, namespace: str, pool: str) -> None:
        self.pool = pool
        self.keys = Keys(namespace, pool)
        self._acquire = script("acquire")
        self._release = script("release")

    def acquire(self, token: str, ttl_ms: int, owner: bytes) -> Request[Grant | None]:
        return Request(self._acquire, (token.encode(), ttl_ms, owner), decode_grant)

    def acquire_many(
        self, token: str, ttl_ms: int, owner: bytes, count: int, channel: bytes | None = None
    ) -> Request[list[Grant] | Standing]:
        """``count`` leases, or a Standing: queued up if a ``channel`` is given, else none is free.

        Raises PoolExhausted if the pool does not have so many resources at all.
        """

        def decode(reply: Any) -> list[Grant] | Standing:
            if reply == TOO_MANY:
                raise PoolExhausted(f"pool {self.pool!r} does not have {count} resources")
            return _grants_or_standing(reply)

        named = (token.encode(), ttl_ms, owner, count)
        arguments = named if channel is None else (*named, channel)
        return Request(self._acquire, arguments, decode)

    def attend(self, waiters: Iterable[tuple[str, int]]) -> Request[tuple[Standing, list[list[Grant] | bool]]]:
        """(token, count) pairs, at most 250; answers for each its grants, True (in the queue) or False (ask again)."""
        return Request(
            script("attend"), [part for token, count in waiters for part in (token.encode(), count)], _attended
        )

    def leave(self, token: str, count: int, keep: bool) -> Request[list[Grant]]:
        """Give up waiting; answers what was granted in the meantime, if it is to be kept."""
        return Request(script("leave"), (token.encode(), count, b"keep" if keep else b"drop"), _grants_or_none)

    def renew(self, leases: Iterable[tuple[str, int, int | None]]) -> Request[list[int | None]]:
        """(token, ttl in ms, fence or None), at most 500; answers for each its new deadline in ms, or None: lost.

        The fence is for who knows it: a token that was sent again too late may have another lease by now.
        """
        arguments: list[Argument] = []
        for token, ttl_ms, fence in leases:
            arguments += (token.encode(), ttl_ms, b"" if fence is None else fence)
        return Request(script("renew"), arguments, _deadlines)

    def release(self, token: str, known: Grant | None) -> Request[bool]:
        """``known`` is what the holder was told last: with it, a resend is recognised at no cost. False: lost."""
        hint = (known.deadline_ms, known.fence) if known else (b"", b"")
        return Request(self._release, (token.encode(), *hint), _is_released)

    def release_many(self, leases: Iterable[tuple[str, Grant]]) -> Request[list[bool]]:
        """At most 250 leases; answers for each whether it was released, False: lost."""
        arguments: list[Argument] = []
        for token, known in leases:
            arguments += (token.encode(), known.deadline_ms, known.fence)
        return Request(self._release, arguments, _are_released)

    def force_release(self, resource: str, encoded: bytes) -> Request[bool]:
        def decode(reply: int) -> bool:
            if reply == UNKNOWN:
                raise ResourceUnknown(f"pool {self.pool!r} has no resource {resource!r}: nothing was released")
            return reply == 1

        return Request(script("force_release"), (encoded, new_token().encode()), decode)

    def set_aside(self, token: str, reason: bytes) -> Request[bool]:
        """Release into quarantine. False: lost."""
        return Request(script("set_aside"), (token.encode(), reason), _is_released)

    def clean(self, token: str, ttl_ms: int, owner: bytes) -> Request[Grant | None]:
        """A lease of what has been in quarantine longest, or None: there is nothing to clean."""
        return Request(script("clean"), (token.encode(), ttl_ms, owner), decode_grant)

    def quarantine(self, kind: str, reason: bytes, resources: Sequence[bytes]) -> Request[list[int]]:
        """At most 250 names; for each 1: aside now, 2: when it comes back, 0: was aside already, UNKNOWN."""
        return Request(script("quarantine"), (kind.encode(), reason, *resources), list)

    def restore(self, kind: str, resources: Sequence[bytes]) -> Request[list[int]]:
        """At most 250 names; for each 1: restored, 0: was not aside for that, UNKNOWN."""
        return Request(script("restore"), (kind.encode(), new_token().encode(), *resources), list)

    def policy(self, on_lapse: str, on_release: str) -> Request[Policy | None]:
        """Changes what is not ""; answers the policy then, or None: there is no such pool."""

        def decode(reply: Any) -> Policy | None:
            return None if reply == UNKNOWN else Policy(*reply.decode().split())

        return Request(script("policy"), (on_lapse.encode(), on_release.encode()), decode)

    def unknown(self, resources: Sequence[str], done: str) -> ResourceUnknown:
        """The error for names that the pool does not have."""
        return ResourceUnknown(
            f"pool {self.pool!r} has no resource {', '.join(map(repr, resources))}: the others, if any, are {done}"
        )

    def missing(self) -> ReletError:
        """The error where there is no pool."""
        return ReletError(f"there is no pool {self.pool!r} yet: make it with add(…)")

    def add(self, order: str | None, resources: Sequence[tuple[bytes, bytes]]) -> Request[int]:
        """(name, attributes as JSON or empty) pairs, at most 500; answers how many were added."""

        def decode(reply: Any) -> int:
            if isinstance(reply, bytes):
                raise ReletError(
                    f"pool {self.pool!r} has the order {reply.split()[1].decode()!r}, not {order!r}: nothing was "
                    f"added. Leave the order out, or change it with set_order({order!r})"
                )
            return int(reply)

        return Request(
            script("add"),
            ((order or "").encode(), new_token().encode(), *(p for pair in resources for p in pair)),
            decode,
        )

    def remove(self, resources: Sequence[bytes]) -> Request[int]:
        """At most 500 names; answers how many were removed or marked."""
        return Request(script("remove"), resources, int)

    def reorder(self, order: str, after: int, count: int) -> Request[int]:
        def decode(reply: int) -> int:
            if reply == UNKNOWN:
                raise ReletError(f"there is no pool {self.pool!r} yet: make it with add(…, order={order!r})")
            return reply

        return Request(script("reorder"), (order.encode(), new_token().encode(), after, count), decode)

    def reclaim(self, limit: int) -> Request[tuple[int, int]]:
        """Answers how many were reclaimed, and the ms until the next deadline (0: passed already, -1: none)."""
        return Request(script("reclaim"), (limit,), _pair)

    def stats(self) -> Request[tuple[str, Stats]]:
        """Answers the pool's order ("" if there is no pool) and its counts."""
        return Request(script("stats"), (), _stats)

    def page(self, after: int, count: int) -> Request[tuple[int, list[ResourceInfo]]]:
        """Answers the rank to go on after (0: done), and resources in the order in which they were added."""
        return Request(script("list"), (after, count), _page)

    def waiters(self, limit: int) -> Request[list[Waiter]]:
        """The first in line, at most 250."""
        return Request(script("line"), (limit,), _waiters)

    def events(self, after: str, count: int) -> Request[list[Event]]:
        """The log's next ``count`` entries, each of one or more events."""
        return Request(script("events"), (after.encode(), count), decode_events)

    def examine(self, part: str, cursor: bytes, count: int) -> Request[list[Any]]:
        """A page of what cannot be, as gears/lua/examine.lua answers it."""
        return Request(script("examine"), (part.encode(), cursor, count), list)

    def repair(self, part: str, cursor: bytes, count: int, order: str) -> Request[list[Any] | None]:
        """Mends a page of it; None: there is no such pool."""
        arguments = (part.encode(), cursor, count, order.encode(), new_token().encode())
        return Request(script("repair"), arguments, lambda reply: None if reply == UNKNOWN else list(reply))

    def destroy(self, first: bool, count: int) -> Request[int]:
        """Answers how many leases are left to clear."""
        return Request(script("destroy"), (count, b"first" if first else b""), int)

    def lost(self, *resources: str) -> LeaseLost:
        """The error for leases that are no longer ours."""
        what = f"the lease of {', '.join(map(repr, resources))}" if resources else "that lease"
        return LeaseLost(
            f"{what} in pool {self.pool!r} is over: it lapsed, was released, or an operator took the resource. "
            f"Somebody else may hold it now; stop using it"
        )

    def told(self, reason: BaseException) -> BaseException:
        """What a caller is told of a server that could not be asked until the time was up."""
        return self.explain(reason) if isinstance(reason, Exception) else reason

    def explain(self, error: Exception) -> Exception:
        """What a server's error means where it is one of relet's; the error itself where it is not."""
        text = str(error)
        if text.startswith("RELETDAMAGED "):
            return PoolDamaged(
                f"pool {self.pool!r} is damaged: {text.removeprefix('RELETDAMAGED ')}. Nothing was granted; "
                f"a key was deleted, evicted or changed by something other than relet. `relet doctor {self.pool} "
                f"--repair` mends it"
            )
        if READ_ONLY in text or NO_WAIT in text:
            return UnsupportedServer(
                f"the server that pool {self.pool!r} was asked of is a read-only replica: nothing was changed. Connect "
                f"to its master (INFO replication names it), or find the master by sentinel://…"
            )
        if "nknown Redis command" in text or "unknown command" in text:
            return UnsupportedServer(f"relet needs Redis 6.2 or later, or Valkey; this server answered: {text}")
        return error


def decode_grant(reply: Any) -> Grant | None:
    if reply == 0:
        return None
    fence, deadline, left, rest = reply.split(b" ", 3)
    name, _, attributes = rest.partition(b"\n")
    return Grant(name.decode(), int(fence), int(deadline), int(left), decode_attributes(attributes))


def decode_grants(reply: bytes) -> list[Grant]:
    grants = [decode_grant(text) for text in reply.split(b"\n\n")]
    return [grant for grant in grants if grant is not None]


def _grants_or_none(reply: Any) -> list[Grant]:
    return [] if reply == 0 else decode_grants(reply)


def _grants_or_standing(reply: Any) -> list[Grant] | Standing:
    if reply == 0:
        return Standing(-1, 0, queued=False)
    if reply.startswith(b"wait "):
        _, nearest, now = reply.split()
        return Standing(int(nearest), int(now), queued=True)
    return decode_grants(reply)


def _attended(reply: list[Any]) -> tuple[Standing, list[list[Grant] | bool]]:
    nearest, now, *states = reply
    return Standing(int(nearest), int(now), queued=True), [
        decode_grants(state) if isinstance(state, bytes) else state == 1 for state in states
    ]


def _deadlines(reply: list[Any]) -> list[int | None]:
    return [None if deadline == LOST else int(deadline) for deadline in reply]


def _is_released(reply: int) -> bool:
    return reply != LOST


def _are_released(reply: int | list[int]) -> list[bool]:
    return [answer != LOST for answer in (reply if isinstance(reply, list) else [reply])]


def _pair(reply: bytes) -> tuple[int, int]:
    first, second = reply.split()
    return int(first), int(second)


def _stats(reply: list[Any]) -> tuple[str, Stats]:
    order, *counts = reply
    return order.decode(), Stats(*map(int, counts))


def _page(reply: list[Any]) -> tuple[int, list[ResourceInfo]]:
    values = iter(reply[1:])
    return int(reply[0]), [_info(*eight) for eight in zip(*[values] * 8, strict=True)]


def _waiters(reply: list[Any]) -> list[Waiter]:
    values = iter(reply)
    return [
        Waiter(owner.decode("utf-8", "replace"), count, ttl / 1000, None if waited < 0 else waited / 1000)
        for count, ttl, waited, owner in zip(*[values] * 4, strict=True)
    ]


def _info(
    name: bytes, attributes: bytes, left: int, fence: bytes, owner: bytes, state: bytes, since: int, mark: bytes
) -> ResourceInfo:
    is_leased = state == b"leased"
    kind, _, reason = mark.decode("utf-8", "replace").partition(" ")
    return ResourceInfo(
        name.decode(),
        state.decode(),  # type: ignore[arg-type]
        decode_attributes(attributes),
        owner=owner.decode("utf-8", "replace") if is_leased else None,
        fence=int(fence) if fence else None,
        remaining=left / 1000 if is_leased else None,
        since=None if since < 0 or state == b"free" else since / 1000,
        mark=kind or None,  # type: ignore[arg-type]
        reason=reason or None,
    )
