"""Servers without RedisGears, one of each kind for a module, and a pool on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import redis

from relet import Pool, listening
from tests.helpers import keys_left, missing
from tests.listener.looks import SETTING, Start
from tests.servers import SERVERS, Server, Spec, Unavailable

PLAIN = ["valkey-9.1", "redis-6.2", "redis-7.0", "redis-8.2"]
FAR_S = 3600.0


@pytest.fixture(scope="module", params=PLAIN)
def spec(request: pytest.FixtureRequest) -> Spec:
    return SERVERS[request.param]


@pytest.fixture(scope="module")
def start(spec: Spec) -> Iterator[Start]:
    """Starts servers that a test may break or restart; all end with the module."""
    with ExitStack() as stack:

        def start_one(**config: Any) -> Server:
            try:
                return stack.enter_context(Server.start(spec, **config))
            except Unavailable as reason:
                missing(str(reason))

        yield start_one


@pytest.fixture(scope="module")
def shared(start: Start) -> Server:
    return start()


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client. At the end there must be no key, and notifications are off."""
    with closing(shared.client()) as one:
        yield one
        left = keys_left(one)
        one.flushall()
        one.config_set(SETTING, "")
        assert not left


@pytest.fixture(params=["notifications", "clock"])
def notified(request: pytest.FixtureRequest, client: redis.Redis) -> bool:
    """With expired events, and without."""
    is_on: bool = request.param == "notifications"
    client.config_set(SETTING, "Ex" if is_on else "")
    return is_on


@pytest.fixture
def pool(client: redis.Redis) -> Iterator[Pool]:
    one = Pool(client, "gpu")
    yield one
    one.destroy()


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first search for pools there is none for an hour."""
    monkeypatch.setattr(listening, "LOOK_S", FAR_S)


@pytest.fixture
def no_recheck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between deadlines nobody looks for an hour."""
    monkeypatch.setattr(listening, "RECHECK_S", FAR_S)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert "relet-listener" not in {thread.name for thread in threading.enumerate()}
