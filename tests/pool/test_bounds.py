"""The work of a single call is bounded, however many leases lapsed or names are given, and repeated calls do it all.

How long the server takes for it is measured by tests/benchmarks/bounds.py.

RELET_TESTS_LAPSES=100000    leases that lapse together (default: 5,000)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import redis

from relet import Pool, Stats
from relet.core import CHUNK, CLEAR, PAGE, SWEEP
from tests.helpers import Raw, Recorder, eventually, names, take
from tests.lapses import lapse_together
from tests.servers import Server

LAPSES = int(os.environ.get("RELET_TESTS_LAPSES", "5000"))
BATCH = 32
"""What an acquire takes back at most."""
NAMES = 50_000

MakePool = Callable[..., Pool]


@pytest.fixture
def recorder(server: Server) -> Iterator[Recorder]:
    with Recorder.of(server.url) as client:
        yield client


def overdue(client: redis.Redis, pool: Pool) -> int:
    return int(client.zcard(f"{Raw(client, pool).root}:leased"))


def calls(recorder: Recorder) -> list[tuple[object, ...]]:
    """The arguments of the scripts sent, after the key and the prefix."""
    return [args[5:] for args in recorder.sent if args[0] == "EVALSHA"]


def test_an_acquire_takes_a_batch_back(pool: Pool, client: redis.Redis) -> None:
    lapse_together(client, pool, LAPSES)
    for number in range(1, 6):
        take(pool)
        assert overdue(client, pool) == LAPSES - number * BATCH + number
        assert pool.stats() == Stats(LAPSES, LAPSES - number, number, 0, 0, LAPSES + number, 0, LAPSES)


def test_acquires_take_all_back_in_time(pool: Pool, client: redis.Redis) -> None:
    lapse_together(client, pool, LAPSES)
    rounds = -(-LAPSES // BATCH)
    for _ in range(rounds):
        take(pool).release()
    assert overdue(client, pool) == 0
    assert pool.stats() == Stats(LAPSES, LAPSES, 0, 0, 0, LAPSES + rounds, rounds, LAPSES)


def test_reclaim_goes_in_batches_until_all_are_back(recorder: Recorder, make_pool: MakePool) -> None:
    pool = make_pool(recorder)
    lapse_together(recorder, pool, LAPSES)
    swept, next_ms = pool._send(pool._requests.reclaim(SWEEP))
    assert (swept, next_ms) == (SWEEP, 0)
    assert overdue(recorder, pool) == LAPSES - SWEEP
    recorder.sent.clear()
    assert pool.reclaim() == LAPSES - SWEEP
    assert len(calls(recorder)) == LAPSES // SWEEP
    assert calls(recorder) == [(SWEEP,)] * len(calls(recorder))
    assert overdue(recorder, pool) == 0
    assert pool.stats() == Stats(LAPSES, LAPSES, 0, 0, 0, LAPSES, 0, LAPSES)


def test_add_and_remove_go_in_batches(recorder: Recorder, make_pool: MakePool) -> None:
    pool = make_pool(recorder)
    many = names(NAMES)
    assert pool.add(many) == NAMES
    assert len(calls(recorder)) == NAMES // CHUNK
    assert max(len(arguments) for arguments in calls(recorder)) == 2 + 2 * CHUNK
    recorder.sent.clear()
    assert sum(1 for _ in pool.resources()) == NAMES
    assert {arguments[1] for arguments in calls(recorder)} == {PAGE}
    recorder.sent.clear()
    assert pool.remove(many) == NAMES
    assert len(calls(recorder)) == NAMES // CHUNK
    assert max(len(arguments) for arguments in calls(recorder)) == CHUNK
    assert pool.stats().total == 0


def test_changing_the_order_and_destroying_go_in_batches(recorder: Recorder, make_pool: MakePool) -> None:
    pool = make_pool(recorder)
    lapse_together(recorder, pool, LAPSES)
    recorder.sent.clear()
    pool.set_order("lru")
    assert len(calls(recorder)) == LAPSES // CHUNK + 1
    assert {arguments[3] for arguments in calls(recorder)} == {CHUNK}
    recorder.sent.clear()
    pool.destroy()
    assert len(calls(recorder)) == LAPSES // CLEAR
    assert {arguments[0] for arguments in calls(recorder)} == {CLEAR}


@pytest.mark.parametrize(("verb", "size"), [("add", 500), ("remove", 500), ("renew", 500), ("list", 1000)])
def test_the_largest_call_that_a_script_is_made_for(pool: Pool, verb: str, size: int) -> None:
    """Lua's own limit on what it unpacks is not met, on any server."""
    encoded = [name.encode() for name in names(size)]
    for start in range(0, size, 500):
        pool._send(pool._requests.add("random", [(name, b"{}") for name in encoded[start : start + 500]]))
    if verb == "remove":
        assert pool._send(pool._requests.remove(encoded)) == size
    elif verb == "renew":
        leases = [take(pool) for _ in encoded]
        renewed = pool._send(pool._requests.renew([(lease.token, 60_000, lease.fence) for lease in leases]))
        assert all(renewed)
    elif verb == "list":
        rank, page = pool._send(pool._requests.page(0, size))
        assert (rank, len(page)) == (size, size)
    assert pool.stats().total == (0 if verb == "remove" else size)


def test_the_largest_sweep_that_a_script_is_made_for(pool: Pool, client: redis.Redis) -> None:
    lapse_together(client, pool, 1000)
    assert pool._send(pool._requests.reclaim(1000))[0] == 1000
    lapse_together(client, pool, 1000)
    left = pool._send(pool._requests.destroy(True, 1000))
    assert left == 0


def test_ends_that_are_remembered_are_forgotten_in_batches(pool: Pool, client: redis.Redis) -> None:
    """What a release by token leaves behind goes away by itself, a bounded part a call."""
    pool.add("r1")
    ended = f"{Raw(client, pool).root}:ended"
    pool.release(take(pool).token)
    client.zadd(ended, {f"d:{number:032x}": 1 for number in range(100)})
    pool.release(take(pool).token)
    assert client.zcard(ended) == 2 + 100 - BATCH
    for _ in range(3):
        pool.release(take(pool).token)
    assert client.zcard(ended) == 5
    assert 0 < client.pttl(ended) <= 120_000
    client.pexpire(ended, 1)
    eventually(lambda: client.exists(ended) == 0)
