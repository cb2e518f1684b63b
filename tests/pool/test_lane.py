"""The connections that a pool keeps beside those of its client: for what they save is time alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from relet import Pool
from relet.lane import CONNECTIONS, lane_of
from relet.scripts import script
from tests.helpers import Recorder, eventually, take, unique
from tests.servers import Server


@pytest.fixture
def server(every_server: list[Server]) -> Server:
    return every_server[0]


@pytest.fixture
def watcher(server: Server) -> Iterator[redis.Redis]:
    with server.client() as client:
        yield client


class Warm:
    """A pool whose kept connection is there, and the name by which the server knows its connections."""

    def __init__(self, server: Server, stack: ExitStack, **options: Any) -> None:
        self.name = unique("lane")
        self.client = stack.enter_context(redis.Redis(port=server.port, client_name=self.name, **options))
        self.pool = stack.enter_context(Pool(self.client, self.name))
        stack.callback(lambda: Pool(self.client, self.name).destroy())
        self.pool.add("r1", "r2")
        self.pool.stats()

    def connections(self, watcher: redis.Redis) -> list[str]:
        listed: Any = watcher.client_list()
        return [one["id"] for one in listed if one["name"] == self.name]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_one_connection_is_kept_and_closed_with_the_pool(
    server: Server, watcher: redis.Redis, stack: ExitStack
) -> None:
    warm = Warm(server, stack)
    before = warm.connections(watcher)
    assert len(before) == 2  # the client's own, which sent the first request, and the one that is kept
    for _ in range(20):
        take(warm.pool).release()
    assert warm.connections(watcher) == before
    warm.pool.close()
    eventually(lambda: len(warm.connections(watcher)) == 1, "the kept connection to be closed")
    take(warm.pool).release()  # a closed pool's next request makes a connection anew


def test_pools_of_one_client_share_them(server: Server, watcher: redis.Redis, stack: ExitStack) -> None:
    warm = Warm(server, stack)
    others = [Pool(warm.client, unique("lane")) for _ in range(10)]
    for pool in others:
        pool.add("r")
        take(pool).release()
        pool.destroy()
    assert len(warm.connections(watcher)) == 2


def test_a_crowd_of_threads_has_a_few(server: Server, watcher: redis.Redis, stack: ExitStack) -> None:
    warm = Warm(server, stack)

    def work(_: int) -> None:
        lease = warm.pool.acquire(timeout=30)
        lease.release()

    with ThreadPoolExecutor(40) as threads:
        list(threads.map(work, range(400)))
    own = warm.client.connection_pool._created_connections
    assert len(warm.connections(watcher)) <= CONNECTIONS + own + 3  # three more for those who wait
    assert own <= CONNECTIONS


@pytest.mark.parametrize("verb", ["acquire", "release", "renew", "stats"])
def test_a_killed_connection_goes_unnoticed(verb: str, server: Server, watcher: redis.Redis, stack: ExitStack) -> None:
    warm = Warm(server, stack)
    lease = take(warm.pool)
    for connection in warm.connections(watcher):
        watcher.client_kill_filter(_id=connection)
    if verb == "acquire":
        take(warm.pool).release()
    elif verb == "release":
        assert warm.pool.release(lease.token)
    elif verb == "renew":
        lease.renew()
    assert warm.pool.stats().leased == (0 if verb == "release" else 1)


@pytest.mark.parametrize("retries", [0, 1])
def test_the_clients_own_policy_says_whether_a_request_is_sent_again(
    retries: int, server: Server, watcher: redis.Redis, stack: ExitStack
) -> None:
    retry = Retry(NoBackoff(), retries, supported_errors=(redis.TimeoutError,))
    warm = Warm(server, stack, socket_timeout=0.2, retry=retry)
    watcher.script_load(script("acquire").text)
    watcher.config_set("slowlog-log-slower-than", 0)
    stack.callback(watcher.config_set, "slowlog-log-slower-than", 10_000)
    watcher.slowlog_reset()
    server.pause()
    try:
        with pytest.raises(redis.TimeoutError):
            warm.pool.try_acquire()
    finally:
        server.resume()
    tries = 1 + retries  # over the kept connection, then over the client's; after that it cannot even connect
    eventually(lambda: sent(watcher, warm) == tries, f"{tries} tries")
    assert warm.pool.stats().leased == 1


def sent(watcher: redis.Redis, warm: Warm) -> int:
    root = warm.pool._requests.keys.root
    commands = [entry["command"] for entry in watcher.slowlog_get(1000)]
    return sum(command.startswith(b"EVALSHA") and root in command for command in commands)


def test_a_client_with_ways_of_its_own_is_asked_itself(server: Server, stack: ExitStack) -> None:
    def lane(client: redis.Redis) -> object:
        return lane_of(stack.enter_context(client), Pool(client, "p")._backend.library)

    def traced(*args: Any, **options: Any) -> Any:
        seen.append(args)
        return redis.Redis.execute_command(watched, *args, **options)

    assert lane(redis.Redis(port=server.port))
    assert lane(redis.Redis(port=server.port, max_connections=16))
    assert lane(Recorder(port=server.port)) is None
    assert lane(redis.Redis(port=server.port, max_connections=15)) is None
    assert lane(redis.Redis(port=server.port, single_connection_client=True)) is None
    provider = redis.UsernamePasswordCredentialProvider("default", "")
    assert lane(redis.Redis(port=server.port, credential_provider=provider)) is None

    seen: list[Any] = []
    watched = redis.Redis(port=server.port)
    watched.execute_command = traced  # type: ignore[method-assign]
    assert lane(watched) is None
    with Pool(watched, unique("lane")) as pool:
        pool.add("r")
        take(pool).release()
        pool.destroy()
    assert len(seen) >= 4


def test_a_child_leaves_its_parents_connections_alone(server: Server, watcher: redis.Redis, stack: ExitStack) -> None:
    warm = Warm(server, stack)
    kept = warm.connections(watcher)
    child = os.fork()
    if not child:
        try:
            for _ in range(50):
                take(warm.pool).release()
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(50):
        take(warm.pool).release()
    assert os.waitpid(child, 0)[1] == 0
    assert set(kept) <= set(warm.connections(watcher))
