"""The masters as a :class:`relet.Listener` sees them: each a connection to ask over, and one that hears of expiries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from relet.backend import Backend
from relet.client import Library
from relet.clock import monotonic
from relet.line import Unreachable
from relet.listening import channel, flags_with_expired
from relet.names import DEFAULT_NAMESPACE, Keys

ANSWER_S = 2.0
"""Seconds after which a server that does not answer counts as lost."""
PING_S = 15.0
"""Seconds between two signs of life asked of the connection that listens, which may be silent for days."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
"""Seconds between two tries to reach a server that was lost: each pause is twice the one before."""

_BY_CLOCK = "lapsed leases come back by the clock, at the nearest deadline or within a second"

Say = Callable[[str, str], object]
"""Takes a subject and what is to be said about it, and says it if it is news. No text: the matter is settled."""


class Station(Backend):
    """A master; ``node`` is the cluster's client's word for it, None without a cluster."""

    def __init__(self, client: Any, node: Any, set_notifications: bool, say: Say) -> None:
        super().__init__(client, Keys(DEFAULT_NAMESPACE, "any"))
        self._at = node
        self._set_notifications = set_notifications
        self._say = say
        self.on = f" on {node.name}" if node is not None else ""
        self._pause = FIRST_PAUSE_S
        self._asks: Any = None
        self._ear: Any = None
        self._ping_at = 0.0
        self._is_pinged = False
        self.away_until = 0.0
        """When to try to reach it again, on this machine's steady clock."""

    def _node(self) -> Any:
        return self._at

    @property
    def is_open(self) -> bool:
        return self._asks is not None

    @property
    def socket(self) -> Any:
        """What can be waited for; None if nobody listens."""
        # Not the library's public interface, but the same in all its versions; can_read waits for one connection only.
        return self._ear._sock if self._ear is not None else None

    def open(self) -> None:
        """Connects, and listens if it may. Raises Unreachable, and whatever else the server says."""
        try:
            with self.library.unreachable():
                self._asks = self.connection(ANSWER_S)
                self._asks.connect()
                self._switch_on()
                self._listen()
        except BaseException:
            self.close()
            raise
        self._pause = FIRST_PAUSE_S

    def lost(self, reason: BaseException) -> None:
        self.close()
        self.away_until = monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        text = " ".join(str(reason).split()).rstrip(".") or type(reason).__name__
        self._say(f"server{self.on}", f"the server{self.on} cannot be asked just now, and is tried again: {text}")

    def close(self) -> None:
        for connection in (self._asks, self._ear):
            if connection is not None:
                with suppress(OSError):
                    connection.disconnect()
        self._asks = self._ear = None

    def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The replies, in bytes, or in place of one the server's error. One round trip. Raises Unreachable."""
        with self.library.unreachable():
            self._asks.send_packed_command(self._asks.pack_commands(commands))
            return [self._reply() for _ in commands]

    def expired(self, until: float) -> list[bytes]:
        """Keys of which it was said that they expired, as far as the words are here: read until then at most."""
        keys: list[bytes] = []
        if self._ear is None:
            return keys
        with self.library.unreachable():
            self._ask_for_a_sign_of_life()
            while self._ear.can_read(0):
                try:
                    kind, *words = self._ear.read_response(disable_decoding=True)
                except self.library.response_error:  # a user who may not PING: a sign of life as well
                    kind = b"pong"
                if kind == b"message":
                    keys.append(words[1])
                else:
                    self._is_pinged = False
                if monotonic() >= until:
                    break
        return keys

    def is_away(self, error: Exception) -> bool:
        """Whether an error in place of a reply says "not now": to be asked again later, and perhaps elsewhere."""
        try:
            with self.library.unreachable():
                raise error
        except Unreachable:
            return True
        except Exception:
            return False

    def _ask_for_a_sign_of_life(self) -> None:
        now = monotonic()
        if now < self._ping_at:
            return
        if self._is_pinged:
            raise TimeoutError("the connection that listens for expired keys is dead")
        self._ear.send_command("PING", check_health=False)
        self._is_pinged, self._ping_at = True, now + PING_S

    def _reply(self) -> Any:
        try:
            return self._asks.read_response(disable_decoding=True)
        except self.library.response_error as error:
            return error

    def _database(self) -> int:
        return 0 if self.is_cluster else int(self._recipe()[1].get("db") or 0)

    def _listen(self) -> None:
        self._ear = self.connection(ANSWER_S)
        self._ear.connect()  # by itself, a connection that Sentinel manages would not ask for the master
        self._ear.send_command("SUBSCRIBE", channel(self._database()))
        subject = f"subscription{self.on}"
        try:
            self._ear.read_response(disable_decoding=True)
        except self.library.response_error as error:
            self._ear.disconnect()
            self._ear = None
            self._say(subject, f"the keyspace notifications{self.on} may not be read ({error}): {_BY_CLOCK}")
            return
        self._say(subject, "")
        self._is_pinged, self._ping_at = False, monotonic() + PING_S

    def _switch_on(self) -> None:
        """Sees whether the server sends notifications; asks for them if that is wanted."""
        subject = f"notifications{self.on}"
        (reply,) = self.ask([("CONFIG", "GET", "notify-keyspace-events")])
        if not isinstance(reply, list) or len(reply) != 2:
            answer = reply if isinstance(reply, Exception) else "no such setting"
            self._say(subject, f"whether keyspace notifications are on{self.on} cannot be seen ({answer}): {_BY_CLOCK}")
            return
        flags = reply[1].decode()
        wanted = flags_with_expired(flags)
        if wanted == flags:
            self._say(subject, "")
            return
        off = f"keyspace notifications are off{self.on} (notify-keyspace-events is {flags!r})"
        if not self._set_notifications:
            hint = f"to have them, set it to {wanted!r}, or let set_notifications=True or --set-notifications do so"
            self._say(subject, f"{off}: {_BY_CLOCK}; {hint}")
            return
        (reply,) = self.ask([("CONFIG", "SET", "notify-keyspace-events", wanted)])
        if isinstance(reply, Exception):
            self._say(subject, f"{off}, and the server refuses to set it ({reply}): {_BY_CLOCK}")
        else:
            self._say(subject, f"notify-keyspace-events{self.on} was {flags!r}, and is {wanted!r} now")


class Stations:
    """The masters there are: one, or those of a cluster as its client knows them, looked up anew after each trouble."""

    def __init__(self, client: Any, set_notifications: bool, say: Say) -> None:
        self._client = client
        self._library = Library(client)
        self._set_notifications = set_notifications
        self._say = say
        self._stations: dict[str, Station] = {}
        self._look_at = 0.0

    def __len__(self) -> int:
        return len(self._stations)

    def __iter__(self) -> Iterator[Station]:
        return iter(list(self._stations.values()))

    def all_open(self) -> dict[str, Station]:
        return {name: station for name, station in self._stations.items() if station.is_open}

    def of(self, backend: Backend) -> Station | None:
        """The master that has a pool; None if none is known to have it just now."""
        try:
            with self._library.unreachable():
                return self._stations.get(str(backend.node() or ""))
        except Unreachable:  # its slot has no node
            return None

    def next_at(self) -> float:
        """When to look up the masters, or to open one, on this machine's steady clock."""
        return min([self._look_at, *(station.away_until for station in self if not station.is_open)])

    def look_again(self, at: float) -> None:
        """Something has changed: look up the masters, at that time or before."""
        self._look_at = min(self._look_at, at)

    def look(self) -> None:
        if monotonic() < self._look_at:
            return
        self._look_at = monotonic() + LONGEST_PAUSE_S  # until it has succeeded
        if not hasattr(self._client, "get_primaries"):
            nodes = {"": None}
        else:
            if self._stations and not self._refresh():
                return
            nodes = {str(node.name): node for node in self._client.get_primaries()}
        for name in [name for name in self._stations if name not in nodes]:
            self._stations.pop(name).close()
        for name, node in nodes.items():
            if name not in self._stations:
                self._stations[name] = Station(self._client, node, self._set_notifications, self._say)
        self._look_at = float("inf")

    def close(self) -> None:
        for station in self:
            station.close()

    def _refresh(self) -> bool:
        try:
            next(iter(self)).refresh()
        except Unreachable:
            return False
        return True
