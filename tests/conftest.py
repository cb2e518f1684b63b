"""What all tests share: one running server of each kind, pools that clean up, and a check that no key is left behind.

RELET_TESTS_STRICT=1       a server that any machine can have, and this one has not, is a failure and no skip
RELET_GEARS_MODULE, …      where RedisGears 1.2 is (see docker/); without it the servers that need it are left out
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from hypothesis import settings

from relet import Pool
from tests.helpers import STRICT, keys_left, missing, unique
from tests.servers import SERVERS, Server, Spec, Unavailable, binary
from tests.servers.fetch import GEARS_MODULE

HAS_GEARS = bool(os.environ.get(GEARS_MODULE))
NAMES = tuple(name for name, spec in SERVERS.items() if HAS_GEARS or spec.engine != "redisgears-1")
LEFT_OUT = tuple(name for name in SERVERS if name not in NAMES)

settings.register_profile("relet", deadline=None, print_blob=True)  # a busy machine is no fault of the code
settings.load_profile("relet")

RAN = pytest.StashKey[dict[str, str]]()
"""What became of each server that a test asked for: its version, or why it is not here."""


class Running:
    """The servers of this session, each started when it is first asked for."""

    def __init__(self, ran: dict[str, str]) -> None:
        self._ran = ran
        self._servers: dict[str, Server] = {}
        self._stack = ExitStack()

    def get(self, name: str) -> Server:
        """Raises Unavailable."""
        if name not in self._servers:
            server = self._stack.enter_context(Server.start(name))
            self._servers[name] = server
            with server.client() as client:
                information: dict[str, Any] = client.info("server")  # type: ignore[assignment]
            version = information.get("valkey_version") or information["redis_version"]
            self._ran[name] = f"{name} ({information.get('server_name', 'redis')} {version})"
        return self._servers[name]

    def stop(self) -> None:
        self._stack.close()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RAN] = {}


def pytest_report_header() -> list[str]:
    lines = [f"servers: {', '.join(NAMES)}" + (" (none may be missing)" if STRICT else "")]
    if LEFT_OUT:
        lines.append(f"servers left out: {', '.join(LEFT_OUT)}: {GEARS_MODULE} is not set (see docker/)")
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran = config.stash[RAN]
    if not ran:
        return
    here = [text for name, text in ran.items() if text.startswith(name)]
    terminalreporter.write_line(f"servers that ran: {', '.join(here) or 'none'}")
    for name, reason in ran.items():
        if not reason.startswith(name):
            terminalreporter.write_line(f"SERVER MISSING: {name}: {reason}", yellow=True)
    if LEFT_OUT:
        terminalreporter.write_line(f"servers left out: {', '.join(LEFT_OUT)}: {GEARS_MODULE} is not set")


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """The session's servers by name."""
    servers = Running(request.config.stash[RAN])
    yield servers
    servers.stop()


@pytest.fixture(scope="session", params=NAMES)
def spec(request: pytest.FixtureRequest) -> Spec:
    """Each kind of server, for tests that start one of their own."""
    found = SERVERS[request.param]
    try:
        binary(found)
    except Unavailable as reason:
        request.config.stash[RAN][found.name] = f"missing: {reason}"
        missing(str(reason))
    return found


@pytest.fixture(scope="session")
def server(spec: Spec, running: Running) -> Server:
    """The session's server of each kind. What a test does to it beyond keys, it undoes."""
    return running.get(spec.name)


@pytest.fixture(scope="session")
def every_server(running: Running, request: pytest.FixtureRequest) -> list[Server]:
    """All of them at once."""
    servers = []
    for name in NAMES:
        try:
            servers.append(running.get(name))
        except Unavailable as reason:
            request.config.stash[RAN][name] = f"missing: {reason}"
            if STRICT:
                missing(str(reason))
    if not servers:
        missing("no server can be had")
    return servers


@pytest.fixture(autouse=True)
def no_key_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a key behind, in any database, not even one that is about to expire."""
    used: list[Server] = []
    for name in ("server", "every_server"):
        if name in request.fixturenames:
            value = request.getfixturevalue(name)
            used.extend(value if isinstance(value, list) else [value])
    yield
    for one in used:
        with one.client(single_connection_client=True) as client:
            left = keys_left(client)
            if left:
                client.flushall()
                pytest.fail(f"the test left keys behind on {one.spec.name}: {left[:20]}", pytrace=False)


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A client of the session's server: redis-py as it comes."""
    with server.client() as one:
        yield one


@pytest.fixture
def make_pool(server: Server) -> Iterator[Callable[..., Pool]]:
    """Makes pools with names of their own, destroyed at the end: ``make_pool(client=…, name=…, ttl=…)``."""
    made: list[Pool] = []
    with ExitStack() as stack:

        def make(client: Any = None, name: str | None = None, **options: Any) -> Pool:
            if client is None:
                client = stack.enter_context(server.client())
            made.append(Pool(client, name or unique("pool"), **options))
            return made[-1]

        yield make
        for pool in made:
            pool.destroy()


@pytest.fixture
def pool(client: redis.Redis, make_pool: Callable[..., Pool]) -> Pool:
    """A pool that nobody made yet, its namespace too."""
    return make_pool(client, namespace=unique("ns"))
