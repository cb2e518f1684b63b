"""A request that is sent twice does nothing twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from relet import Lease, LeaseLost, Pool, Stats
from relet.lease import monotonic
from relet.names import new_token
from relet.scripts import script
from tests.helpers import Raw, lapse, lease_all, take, unique
from tests.servers import Server, Spec

STALL_S = 6.0
"""Longer than the 5 s after which redis-py gives up a reply and sends the command again."""


def acquire(pool: Pool, token: str, ttl: float = 60) -> Lease | None:
    """The acquire of ``token``, as the client library sends it, once more each time."""
    asked_at = monotonic()
    grant = pool._send(pool._requests.acquire(token, int(ttl * 1000), b"me"))
    return grant and pool._lease(pool._requests, grant, token, int(ttl * 1000), asked_at + grant.left_ms / 1000)


def release(pool: Pool, lease: Lease) -> bool:
    """The release that ``lease.release`` sends."""
    return pool._send(pool._requests.release(lease.token, lease._grant))


def test_acquire_sent_twice_is_one_lease(pool: Pool, client: redis.Redis) -> None:
    pool.add({"r1": {"a": 1}}, "r2", {"r3": {}})
    for has_attributes in (True, False):
        token = new_token()
        first, again = acquire(pool, token), acquire(pool, token)
        assert first
        assert again
        assert (again.resource, again.fence) == (first.resource, first.fence)
        assert again._grant.deadline_ms == first._grant.deadline_ms
        assert again.attributes == first.attributes == ({"a": 1} if has_attributes else {})
        assert Raw(client, pool).token(first.resource) == token
    assert pool.stats() == Stats(3, 1, 2, 0, 0, 2, 0, 0)


def test_acquire_sent_again_with_nothing_else_free(pool: Pool) -> None:
    pool.add("r1")
    token = new_token()
    first, again = acquire(pool, token), acquire(pool, token)
    assert first
    assert again
    assert again.resource == "r1"
    again.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 1, 1, 0)


def test_acquire_sent_again_after_a_renewal_shows_the_new_deadline(pool: Pool) -> None:
    pool.add("r1")
    token = new_token()
    first = acquire(pool, token, 60)
    assert first
    first.renew(600)
    again = acquire(pool, token, 60)
    assert again
    assert again._grant.deadline_ms == first._grant.deadline_ms
    assert 60 < again.remaining() <= 600


def test_acquire_sent_again_after_its_lease_lapsed_is_a_new_lease(pool: Pool) -> None:
    pool.add("r1")
    token = new_token()
    first = acquire(pool, token, 0.02)
    assert first
    lapse(first)
    again = acquire(pool, token)
    assert again
    assert again.resource == "r1"
    assert again.fence > first.fence
    assert pool.stats() == Stats(1, 0, 1, 0, 0, 2, 0, 1)
    again.renew()
    again.release()
    assert pool.stats() == Stats(1, 1, 0, 0, 0, 2, 1, 1)


def test_acquire_sent_again_after_its_lease_lapsed_and_somebody_else_has_the_resource(pool: Pool) -> None:
    pool.add("r1")
    token = new_token()
    first = acquire(pool, token, 0.02)
    assert first
    lapse(first)
    holder = take(pool)
    assert acquire(pool, token) is None
    pool.add("r2")
    again = acquire(pool, token)
    assert again
    assert again.resource == "r2"
    holder.renew()


def test_release_sent_twice_releases_once(pool: Pool) -> None:
    pool.add("r1", "r2")
    lease, by_token = lease_all(pool, 2)
    assert release(pool, lease) is True
    assert release(pool, lease) is True
    assert pool.release(by_token.token) is True
    assert pool.release(by_token.token) is True
    assert pool.stats() == Stats(2, 2, 0, 0, 0, 2, 2, 0)


def test_release_sent_again_leaves_the_next_holder_alone(pool: Pool) -> None:
    pool.add("r1")
    first = take(pool)
    assert release(pool, first) is True
    second = take(pool)
    assert release(pool, first) is True
    second.renew()
    assert pool.release(second.token) is True
    third = take(pool)
    assert pool.release(second.token) is True
    third.renew()
    assert pool.stats() == Stats(1, 0, 1, 0, 0, 3, 2, 0)


def test_release_after_a_robbery_is_no_resend(pool: Pool) -> None:
    """The same request as a resend, but its holder had lost the lease before."""
    pool.add("r1")
    robbed = take(pool)
    pool.release(resource="r1", force=True)
    for _ in range(2):
        assert release(pool, robbed) is False
        with pytest.raises(LeaseLost):
            pool.release(robbed.token)


def test_force_sent_again_does_not_rob_the_next_holder(pool: Pool) -> None:
    pool.add("r1")
    robbed = take(pool)
    request = pool._requests.force_release("r1", b"r1")
    assert pool._send(request) is True
    holder = take(pool)
    assert pool._send(request) is True
    holder.renew()
    assert pool.stats() == Stats(1, 0, 1, 0, 0, 2, 1, 0)
    with pytest.raises(LeaseLost):
        robbed.release()
    assert pool.release(resource="r1", force=True) is True, "another request is another robbery"
    with pytest.raises(LeaseLost):
        holder.release()


def test_renew_sent_twice(pool: Pool) -> None:
    pool.add("r1")
    lease = take(pool, 10)
    request = pool._requests.renew([(lease.token, 60_000, lease.fence), (new_token(), 60_000, None)])
    (first, nobody), (again, _) = pool._send(request), pool._send(request)
    assert nobody is None
    assert first
    assert again
    assert again >= first
    assert pool.stats().leased == 1


def test_add_and_remove_sent_twice(pool: Pool) -> None:
    add = pool._requests.add(None, [(b"r1", b""), (b"r2", b"")])
    assert (pool._send(add), pool._send(add)) == (2, 0)
    held = take(pool)
    remove = pool._requests.remove([b"r1", b"r2"])
    assert (pool._send(remove), pool._send(remove)) == (2, 0)
    held.release()
    assert pool.stats().total == 0


class Stalled:
    """A server that stands still while clients of redis-py, as they come, wait for it and send again."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self.stack = stack
        self.watcher = stack.enter_context(server.client(socket_timeout=None))
        self.watcher.config_set("slowlog-log-slower-than", 0)  # the slow log is the list of all that was carried out
        self.watcher.config_set("slowlog-max-len", 1000)
        for verb in ("acquire", "release", "renew", "force_release"):
            self.watcher.script_load(script(verb).text)  # else each is sent once more, whole, which would count

    def pool(self) -> Pool:
        client = self.stack.enter_context(redis.Redis(port=self.server.port))
        pool = Pool(client, unique("stalled"))
        self.stack.callback(pool.destroy)
        return pool

    def during(self, *calls: Callable[[], object]) -> list[Any]:
        """Sends the calls at once to the server, which stands still; what became of each."""
        with ThreadPoolExecutor(len(calls)) as threads:
            self.watcher.slowlog_reset()
            self.server.pause()
            began = time.monotonic()
            futures: list[Future[Any]] = [threads.submit(call) for call in calls]
            time.sleep(max(0.0, began + STALL_S - time.monotonic()))
            self.server.resume()
            return [future.exception() or future.result() for future in futures]

    def times_carried_out(self) -> Counter[bytes]:
        """For each argument, how many scripts with it the server carried out."""
        commands = [entry["command"].split(b" ") for entry in self.watcher.slowlog_get(1000)]
        return Counter(word for command in commands if command[0] in (b"EVALSHA", b"EVAL") for word in set(command))


def default_timeout() -> object:
    return redis.Redis().connection_pool.connection_kwargs.get("socket_timeout")


@pytest.mark.skipif(
    default_timeout() is None, reason=f"redis-py {redis.__version__} waits for ever by default: it never sends again"
)
@pytest.mark.parametrize("spec", ["valkey-9.1", "redis-6.2"], indirect=True)
def test_a_server_that_stalls_under_a_client_as_it_comes(spec: Spec) -> None:
    with ExitStack() as stack:
        stalled = Stalled(stack.enter_context(Server.start(spec)), stack)
        pools = acquires, releases, by_token, renews, forced = [stalled.pool() for _ in range(5)]
        for pool in pools:
            pool.add("r1", "r2")
            pool.stats()  # over the connection that is kept: one that had to be made anew would have sent nothing yet
        released, released_by_token, renewed, robbed = (take(pool) for pool in pools[1:])
        before = renewed._grant.deadline_ms

        lease, *others = stalled.during(
            acquires.try_acquire,
            released.release,
            lambda: by_token.release(released_by_token.token),
            lambda: renewed.renew(600),
            lambda: forced.release(resource="r1", force=True),
        )
        assert others == [None, True, None, True]

        carried_out = stalled.times_carried_out()
        for one in (lease, released, released_by_token, renewed):
            assert carried_out[one.token.encode()] == 2, "it was sent again, and the server carried out both"
        assert carried_out[forced._requests.keys.root] == 2

        assert lease.resource == "r1"
        assert acquires.stats() == Stats(2, 1, 1, 0, 0, 1, 0, 0)
        assert releases.stats() == by_token.stats() == forced.stats() == Stats(2, 2, 0, 0, 0, 1, 1, 0)
        assert renews.stats() == Stats(2, 1, 1, 0, 0, 1, 0, 0)
        assert renewed._grant.deadline_ms >= before + 500_000
        lease.release()
        renewed.release()
        with pytest.raises(LeaseLost):
            robbed.release()


@pytest.mark.skipif(
    default_timeout() is None, reason=f"redis-py {redis.__version__} waits for ever by default: it never sends again"
)
@pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)
def test_a_robbery_that_is_sent_again_leaves_who_came_between(spec: Spec) -> None:
    """The next holder's acquire reaches the server after the first sending, before the second."""
    with ExitStack() as stack:
        stalled = Stalled(stack.enter_context(Server.start(spec)), stack)
        forced, released = stalled.pool(), stalled.pool()
        forced.add("r1")
        released.add("r1")
        take(forced)
        lease = take(released)
        patient = stack.enter_context(stalled.server.client(socket_timeout=None))

        def acquire_soon(name: str) -> Lease:
            pool = Pool(patient, name)
            while not (found := pool.try_acquire(60)):
                time.sleep(0.001)
            return found

        _, _, next_forced, next_released = stalled.during(
            lambda: forced.release(resource="r1", force=True),
            lease.release,
            lambda: acquire_soon(forced.name),
            lambda: acquire_soon(released.name),
        )
        carried_out = stalled.times_carried_out()
        assert carried_out[lease.token.encode()] == 2
        next_forced.renew()
        next_released.renew()
        assert forced.stats() == released.stats() == Stats(1, 0, 1, 0, 0, 2, 1, 0)
