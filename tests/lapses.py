"""Many leases that lapse in one instant."""

from __future__ import annotations

import redis

from relet import Pool
from relet.names import new_token
from relet.scripts import script

PIPELINE = 5_000

# Moves every deadline of a page to now, the tracking keys' too, which expire with it.
_END = """
local leased, tracking, time = KEYS[1], ARGV[1], redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local page = redis.call('ZRANGEBYSCORE', leased, '(' .. now, '+inf', 'LIMIT', 0, 1000)
for i = 1, #page do
  redis.call('ZADD', leased, now, page[i])
  redis.call('PEXPIREAT', tracking .. page[i], now)
end
return #page
"""


def lease_many(client: redis.Redis, pool: Pool, count: int, ttl_ms: int = 3_600_000) -> None:
    """Adds ``count`` resources and leases them all, by the acquire that the pool sends, many in one go."""
    pool.add([f"lapse-{number:07}" for number in range(count)])
    client.script_load(script("acquire").text)
    for start in range(0, count, PIPELINE):
        with client.pipeline(transaction=False) as pipeline:
            for _ in range(min(PIPELINE, count - start)):
                request = pool._requests.acquire(new_token(), ttl_ms, b"crowd")
                pipeline.execute_command(*pool._backend.command(request, whole=False))
            assert all(pipeline.execute())


def lapse_together(client: redis.Redis, pool: Pool, count: int) -> None:
    """Leaves ``count`` leases, all overdue, none of them swept; the pool had none before."""
    lease_many(client, pool, count)
    keys = pool._requests.keys
    end = client.register_script(_END)
    while end(keys=[keys.root + b":leased"], args=[keys.tracking]):
        pass
    stats = pool.stats()
    assert stats.leased == 0
    assert stats.lapsed >= count
