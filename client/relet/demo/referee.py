"""The referee: watches for two holders of one resource at a time, and trusts nothing that relet says.

It shares no code and no key with relet's scripts; all it has in common with them is the server's clock. What it knows:

- A worker reads the server's clock *before* it asks for a lease. A lease granted after that moment lasts at least until
  that moment + ttl: this is the hold's **promise**, and nobody else may be granted the resource before it is over.
- A worker that is killed never leaves. That is why a hold counts until its promise is over, not until somebody says so,
  and why nobody has to tell the referee of a death.
- A worker that was asleep may arrive when its promise is over already. It is told so and does not count as a holder.

So for each resource there is the set of holds by promise. Whoever comes drops what is over, adds itself, and counts:
anything but exactly 1 is a doubled grant. The promise is never later than relet's own deadline, hence no false alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

KEYS_LIVE_S = 3600
"""The referee's keys go away by themselves, should the demo be killed before it can remove them."""

_CHUNK = 500

# KEYS 1 the resource's holds (sorted set of tokens by promise), 2 the resource's last fence, 3 the tally (hash)
# ARGV 1 token, 2 promise in ms, 3 fence, 4 seconds that the keys live
# -> { the server's ms, how many hold the resource now: 1 is right, 0 means that the promise is over already }
_ENTER = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if tonumber(ARGV[2]) <= now then
  redis.call('HINCRBY', KEYS[3], 'late', 1)
  return { now, 0 }
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local is_new = redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
local holders = redis.call('ZCARD', KEYS[1])
if is_new == 1 then
  redis.call('HINCRBY', KEYS[3], 'entered', 1)
  if holders > 1 then
    redis.call('HINCRBY', KEYS[3], 'doubled', 1)
  end
  local last = redis.call('GET', KEYS[2])
  if last and tonumber(ARGV[3]) <= tonumber(last) then
    redis.call('HINCRBY', KEYS[3], 'disordered', 1)
  end
  redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[4])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[4])
return { now, holders }
"""

# KEYS 1 as above; ARGV 1 token, 2 new promise. A hold that was dropped meanwhile stays dropped.
_EXTEND = "return redis.call('ZADD', KEYS[1], 'XX', ARGV[2], ARGV[1])"

_NOW = """
local clock = redis.call('TIME')
return clock[1] * 1000 + math.floor(clock[2] / 1000)
"""

# KEYS 1 as above; ARGV 1 token -> the server's ms
_LEAVE = f"redis.call('ZREM', KEYS[1], ARGV[1]){_NOW}"


class Entry(NamedTuple):
    """What the referee says to a worker that begins to use a resource."""

    at_ms: int
    """The server's clock."""
    holders: int
    """How many hold the resource now: 1 is right; 0: the promise is over, somebody else may be the holder."""


class Tally(NamedTuple):
    """What the referee has counted."""

    entered: int
    late: int
    """Workers that arrived when their promise was over already."""
    doubled: int
    """Grants of a resource whose holder still had time left."""
    disordered: int
    """Grants with a fence that is not higher than that of the grant before."""
    told_lost: int
    """Slow workers that relet told, rightly, that their lease was over."""
    revived: int
    """Slow workers whose release was accepted though their lease was over for certain."""


class Referee:
    """The referee of one pool, on the server that the pool is on. ``client`` is borrowed."""

    def __init__(self, client: Any, pool: str) -> None:
        self._client = client
        self._root = f"relet-demo:{{{pool}}}"  # the pool's hash tag: in a cluster, the same node and the same clock

    def now(self) -> int:
        """The server's clock, in ms."""
        return int(self._client.eval(_NOW, 1, self._root))

    def enter(self, resource: str, token: str, fence: int, promise_ms: int) -> Entry:
        """A worker was granted ``resource`` and begins to use it."""
        keys = (self._holds(resource), self._fence(resource), f"{self._root}:tally")
        reply = self._client.eval(_ENTER, 3, *keys, token, promise_ms, fence, KEYS_LIVE_S)
        return Entry(*map(int, reply))

    def extend(self, resource: str, token: str, promise_ms: int) -> None:
        """A worker's lease was renewed."""
        self._client.eval(_EXTEND, 1, self._holds(resource), token, promise_ms)

    def leave(self, resource: str, token: str) -> int:
        """A worker stops using ``resource``, and will release it next. Answers the server's clock, in ms."""
        return int(self._client.eval(_LEAVE, 1, self._holds(resource), token))

    def note(self, field: str) -> None:
        """Count one more of a field of :class:`Tally`."""
        self._client.hincrby(f"{self._root}:tally", field, 1)

    def tally(self) -> Tally:
        """The counts so far."""
        values: Sequence[Any] = self._client.hmget(f"{self._root}:tally", list(Tally._fields))
        return Tally(*(int(value or 0) for value in values))

    def clear(self, resources: Iterable[str]) -> None:
        """Remove every key of the referee's."""
        keys = [key for name in resources for key in (self._holds(name), self._fence(name))]
        keys.append(f"{self._root}:tally")
        for start in range(0, len(keys), _CHUNK):
            self._client.delete(*keys[start : start + _CHUNK])

    def _holds(self, resource: str) -> str:
        return f"{self._root}:holds:{resource}"

    def _fence(self, resource: str) -> str:
        return f"{self._root}:fence:{resource}"
