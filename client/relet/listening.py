"""Listening for lapsed leases, without I/O: which pool is due when, and what an event means.

Three things make a pool due. An expired event of one of its tracking keys, where the server sends such events. The
nearest deadline, which every reclaim answers. And RECHECK_S since the last look: a lease that was made in between may
end sooner than all others, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relet.clock import monotonic
from relet.names import check_pool

RECHECK_S = 1.0
"""Seconds after which a pool is looked at again, whatever its nearest deadline was."""
GAP_S = 0.02
"""Seconds between two looks at one pool, so that what ends in between makes one call and not many."""
AGAIN_S = 1.0
"""Seconds after which a pool that could not be reclaimed is tried again."""
LOOK_S = 5.0
"""Seconds between two searches for new pools, and more where there are many keys:"""
LOOK_SHARE = 50
"""a search that took a second is repeated after 50."""


class Rota:
    """The pools of one namespace, and whose turn it is. With ``only``, just those."""

    def __init__(self, namespace: str, only: Iterable[str] = ()) -> None:
        self._lease_prefix = f"{namespace}:lease:{{".encode()
        self._root_prefix = f"{namespace}:pool:{{".encode()
        self._only = frozenset(only)
        self._turns = {name: _Turn() for name in sorted(self._only)}

    @property
    def pools(self) -> list[str]:
        return list(self._turns)

    def all_due(self) -> None:
        """At the start, and after each reconnect: nobody knows what was missed."""
        now = monotonic()
        for turn in self._turns.values():
            turn.due_at = now

    def due(self) -> list[str]:
        """Whose turn it is, the longest overdue first."""
        now = monotonic()
        return sorted(
            (name for name, turn in self._turns.items() if turn.due_at <= now),
            key=lambda name: self._turns[name].due_at,
        )

    def next_at(self) -> float | None:
        """When the next pool is due, on this machine's steady clock."""
        return min((turn.due_at for turn in self._turns.values()), default=None)

    def heard(self, keys: Iterable[bytes]) -> None:
        """Keys expired: their pools, new ones too, are due, once however many keys there were."""
        for prefix in {_head(key, self._lease_prefix) for key in keys}:
            name = _pool_name(prefix)
            turn = self._join(name) if name is not None else None
            if turn is not None:
                turn.due_at = min(turn.due_at, turn.earliest_at)

    def found(self, roots: Iterable[bytes]) -> None:
        """The search came upon the root keys of pools."""
        for root in roots:
            name = _pool_name(_head(root, self._root_prefix))
            if name is not None:
                self._join(name)

    def searched(self) -> None:
        """The search is over: forgets the pools that it did not find, and that hold no lease."""
        for name, turn in list(self._turns.items()):
            if not turn.found and turn.is_idle and name not in self._only:
                del self._turns[name]
            turn.found = False

    def swept(self, name: str, count: int, left_ms: int) -> int:
        """A reclaim's answer; answers how many came back in all, once no lapsed one is left."""
        turn = self._turns[name]
        now = monotonic()
        turn.trouble = None
        turn.reclaimed += count
        turn.is_idle = left_ms < 0
        if left_ms == 0:
            turn.due_at = turn.earliest_at = now
            return 0
        turn.earliest_at = now + GAP_S
        turn.due_at = now + RECHECK_S
        if left_ms > 0:
            turn.due_at = min(turn.due_at, max(now + left_ms / 1000, turn.earliest_at))
        reclaimed, turn.reclaimed = turn.reclaimed, 0
        return reclaimed

    def failed(self, name: str, trouble: str) -> bool:
        """The pool could not be reclaimed; answers whether this is news."""
        turn = self._turns[name]
        is_news = turn.trouble != trouble
        turn.trouble = trouble
        self.postpone(name, monotonic() + AGAIN_S)
        return is_news

    def postpone(self, name: str, until: float) -> None:
        turn = self._turns[name]
        turn.due_at = turn.earliest_at = until

    def _join(self, name: str) -> _Turn | None:
        turn = self._turns.get(name)
        if turn is None and not self._only:
            turn = self._turns[name] = _Turn()
        if turn is not None:
            turn.found = True
        return turn


class _Turn:
    __slots__ = ("due_at", "earliest_at", "found", "is_idle", "reclaimed", "trouble")

    def __init__(self) -> None:
        self.due_at = self.earliest_at = monotonic()
        self.found = False
        self.is_idle = False
        self.reclaimed = 0
        self.trouble: str | None = None


class Search:
    """The search for new pools: a page of one node's keys at a time, node by node, and then a rest."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._cursor = 0
        self._began_at = 0.0
        self.next_at = monotonic()
        """When the next page is due, on this machine's steady clock."""

    def restart(self) -> None:
        """The server was away, or its nodes are others: begin again, at once."""
        self._nodes = []
        self.next_at = monotonic()

    def page(self, nodes: Sequence[str]) -> tuple[str, int]:
        """The node to ask now, one of ``nodes`` where a search begins, and the cursor to go on from."""
        if not self._nodes:
            self._nodes = list(nodes)
            self._cursor = 0
            self._began_at = monotonic()
        return self._nodes[0], self._cursor

    def turned(self, cursor: int) -> bool:
        """The page's answer; True if it was the last one of the last node."""
        self._cursor = cursor
        if cursor:
            return False
        self._nodes.pop(0)
        if self._nodes:
            return False
        now = monotonic()
        self.next_at = now + max(LOOK_S, LOOK_SHARE * (now - self._began_at))
        return True


def channel(database: int) -> str:
    """Where the server says which keys of a database expired."""
    return f"__keyevent@{database}__:expired"


def flags_with_expired(flags: str) -> str:
    """``notify-keyspace-events`` with what :func:`channel` needs added: itself if nothing is missing.

    E: events go to channels by their name. x: expired events; A stands for it and others.
    """
    missing = "" if "E" in flags else "E"
    if "x" not in flags and "A" not in flags:
        missing += "x"
    return flags + missing


def _head(key: bytes, prefix: bytes) -> bytes:
    """The pool's name in a key; empty if the key is none of relet's."""
    if not key.startswith(prefix):
        return b""
    name, brace, _ = key[len(prefix) :].partition(b"}")
    return name if brace else b""


def _pool_name(encoded: bytes) -> str | None:
    try:
        return check_pool(encoded.decode())
    except ValueError:  # somebody else's key: no pool can have that name
        return None
