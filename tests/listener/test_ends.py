"""The listener leaves nothing behind, and refuses wrong arguments."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
import redis

from relet import Listener, Pool
from tests.helpers import eventually, take
from tests.listener.looks import connections, free, is_listening
from tests.servers import Server


def test_it_leaves_nothing_behind(shared: Server, client: redis.Redis) -> None:
    with closing(shared.client()) as lent:
        threads, before = set(threading.enumerate()), connections(client)
        listener = Listener(lent)
        for _ in range(3):
            with listener:
                is_listening(client)
                with pytest.raises(RuntimeError, match="listens already"):
                    listener.start()
                with pytest.raises(RuntimeError, match="listens already"):
                    listener.listen()
            assert set(threading.enumerate()) == threads
            eventually(lambda: connections(client) == before, "its connections to go")
            listener.stop()


def test_it_ends_from_within(client: redis.Redis, pool: Pool) -> None:
    pool.add("r")
    take(pool, ttl=0.05)
    listener = Listener(client, on_reclaim=lambda *_: listener.stop())
    listener.listen()
    assert free(pool, client) == 1


def test_wrong_arguments() -> None:
    with closing(redis.Redis()) as client:
        for name in ("", "a:b", "{a}"):
            with pytest.raises(ValueError, match="pool's name"):
                Listener(client, name)
        with pytest.raises(ValueError, match="namespace"):
            Listener(client, namespace="{}")
    with pytest.raises(TypeError, match="redis-py or valkey-py"):
        Listener(object())
    with pytest.raises(TypeError, match="for threads"):
        Listener(redis.asyncio.Redis())
