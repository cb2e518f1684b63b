"""What the tests of RedisGears 2 need: its servers, and its libraries as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import redis

from relet import Pool
from tests.helpers import keys_left, missing
from tests.servers import Server, Unavailable

SERVER = "redis-stack-7.4"
Start = Callable[..., Server]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Starts servers that a test may break or restart; all end with the module."""
    with ExitStack() as stack:

        def start_one(master: Server | None = None, **config: Any) -> Server:
            try:
                one = Server.start_replica_of(master, **config) if master else Server.start(SERVER, **config)
            except Unavailable as reason:
                missing(str(reason))
            return stack.enter_context(one)

        yield start_one


@pytest.fixture(scope="module")
def shared(start: Start) -> Server:
    return start()


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client. At the end there must be no key, and the libraries go."""
    with closing(shared.client()) as one:
        yield one
        left = keys_left(one)
        one.flushall()
        for name in libraries(one):
            one.execute_command("TFUNCTION", "DELETE", name)
        assert not left


@pytest.fixture
def pool(client: redis.Redis) -> Iterator[Pool]:
    one = Pool(client, "gpu")
    yield one
    one.destroy()


def libraries(client: redis.Redis) -> dict[str, dict[str, Any]]:
    """What is loaded, whoever did it: the trigger of each library, by the library's name."""
    found = {}
    for reply in client.execute_command("TFUNCTION", "LIST", "v", NEVER_DECODE=[]):
        fields = _map(reply)
        (trigger,) = fields["keyspace_triggers"] or [{}]
        found[fields["name"].decode()] = _map(trigger)
    return found


def _map(reply: Any) -> dict[str, Any]:
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): value for name, value in pairs}
