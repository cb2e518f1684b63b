"""A pool, and the command on the server where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from relet import Pool
from tests.cli.runs import Runs
from tests.command import Ended, relet
from tests.helpers import unique
from tests.servers import Server

Command = Callable[..., Ended]


@pytest.fixture
def namespace() -> str:
    return unique("cli")


@pytest.fixture
def pool(make_pool: Callable[..., Pool], namespace: str) -> Pool:
    """The pool `gpu`, which nobody made yet."""
    return make_pool(name="gpu", namespace=namespace)


@pytest.fixture
def run(server: Server, namespace: str) -> Command:
    def command(*arguments: str, **options: Any) -> Ended:
        return relet(*arguments, env={"RELET_URL": server.url, "RELET_NAMESPACE": namespace}, **options)

    return command


@pytest.fixture
def elsewhere(client: redis.Redis) -> Iterator[Callable[[str], str]]:
    """A key of somebody else's, deleted at the end."""
    keys: list[str] = []
    yield lambda key: keys.append(key) or key  # type: ignore[func-returns-value]
    client.delete(*keys)


@pytest.fixture
def runs(server: Server, namespace: str) -> Iterator[Runs]:
    started = Runs({"RELET_URL": server.url, "RELET_NAMESPACE": namespace})
    yield started
    started.close()
