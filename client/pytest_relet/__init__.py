"""pytest plug-in: a resource from a relet pool for a test, or for a worker of pytest-xdist.

::

    def test_flash(relet_lease):                    # one of the configured pool, given back after the test
        flash(relet_lease.resource)

    @pytest.mark.relet("gpu", timeout=600)          # of another pool
    def test_training(relet_lease): ...

    def test_both(relet_acquire):                   # as many as it takes
        phone, printer = relet_acquire("phone"), relet_acquire("printer")

    @pytest.fixture(scope="session")                # one for all tests of a worker
    def board(relet_worker_lease):
        return Board(relet_worker_lease.resource)

Where: ``--relet-url``, ``--relet-namespace``, ``--relet-pool``, ``--relet-ttl``, ``--relet-timeout``, or the ini
options ``relet_url`` and so on. A lease is renewed as long as it is held; a test whose lease is lost fails at once.

A module of its own, outside of the package ``relet``: pytest loads it in every run, and nothing of relet with it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from relet import Lease, Pool

OPTIONS = {
    "url": "the server: a URL as relet takes it, local: too (default: RELET_URL, or redis://localhost:6379/0)",
    "namespace": "what all keys begin with (default: RELET_NAMESPACE, or relet)",
    "pool": "the pool to lease from, where no marker names another",
    "ttl": "seconds after which a resource is free again if this process dies (default: 30)",
    "timeout": "seconds to wait for a resource (default: 300; inf: for ever)",
}
MARK = "relet(pool, *, ttl, timeout): the pool that relet_lease takes its resource from"
MAX_OWNER_BYTES = 256


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("relet", "resources leased from a pool")
    for name, text in OPTIONS.items():
        group.addoption(f"--relet-{name}", metavar=name.upper(), help=text)
        parser.addini(f"relet_{name}", text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


@pytest.fixture
def relet_lease(request: pytest.FixtureRequest, relet_acquire: Callable[..., Lease]) -> Lease:
    """A resource that is this test's alone, from the pool of the marker ``relet``, or of the configuration."""
    mark = request.node.get_closest_marker("relet")
    return relet_acquire(*mark.args, **mark.kwargs) if mark else relet_acquire()


@pytest.fixture
def relet_acquire(request: pytest.FixtureRequest) -> Iterator[Callable[..., Lease]]:
    """Leases a resource until the end of this test: ``relet_acquire(pool, ttl=…, timeout=…)``."""
    with _leasing(request.config, request.node.nodeid) as acquire:
        yield acquire


@pytest.fixture(scope="session")
def relet_worker_lease(request: pytest.FixtureRequest) -> Iterator[Lease]:
    """A resource that is this process's alone until it has run its tests. With pytest-xdist each worker has its own."""
    with _leasing(request.config, os.environ.get("PYTEST_XDIST_WORKER", "all tests"), for_all=True) as acquire:
        yield acquire()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Ends a test as soon as a lease that it uses is lost."""
    guard = item.config.stash.get(GUARD, None)
    if guard is None:
        return (yield)
    with guard.watching("relet_worker_lease" in getattr(item, "fixturenames", ())):
        return (yield)


class Guard:
    """Knows which leases are lost, and strikes the test that uses one down, in the main thread.

    By SIGURG, which means nothing to a program that has no handler for it: one that comes too late harms nobody. Where
    the test's own code has a handler, or tests run in another thread, the test fails when it has run.
    """

    def __init__(self) -> None:
        self._lost: dict[bool, str] = {}
        """What to say, by whether it is about the lease for all tests."""
        self._told: set[bool] = set()
        self._is_armed = False
        self._watches_all = False

    def lost(self, text: str, for_all: bool) -> None:
        """Called by any thread."""
        self._lost[for_all] = text
        if self._is_armed and (self._watches_all or not for_all):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)

    def forget(self, for_all: bool) -> bool:
        """Called where a scope ends; answers whether a test has failed for what was lost of it."""
        self._lost.pop(for_all, None)
        was_told = for_all in self._told
        self._told.discard(for_all)
        return was_told

    @contextmanager
    def watching(self, for_all: bool) -> Iterator[None]:
        """For as long as a test runs; ``for_all`` if it uses the lease for all tests."""
        self._watches_all = for_all
        is_main = threading.current_thread() is threading.main_thread()
        is_armed = is_main and signal.getsignal(signal.SIGURG) in (signal.SIG_DFL, signal.SIG_IGN)
        before = signal.signal(signal.SIGURG, lambda *_: self._fail()) if is_armed else None
        self._is_armed = is_armed
        try:
            self._fail()
            yield
            self._fail()
        finally:
            self._is_armed = False
            if is_armed:
                signal.signal(signal.SIGURG, before)

    def _fail(self) -> None:
        for for_all in (False, True):
            if for_all in self._lost and (self._watches_all or not for_all):
                self._told.add(for_all)
                raise _failed(self._lost[for_all])


GUARD = pytest.StashKey[Guard]()


@contextmanager
def _leasing(config: pytest.Config, what: str, for_all: bool = False) -> Iterator[Callable[..., Lease]]:
    """Gives all back at the end that the function in between leased; fails if anything was lost unnoticed."""
    from relet import LeaseLost

    guard = config.stash.setdefault(GUARD, Guard())

    def on_lost(lease: Lease) -> None:
        guard.lost(f"the lease of {lease.resource!r} was lost while {what} had it", for_all)

    with ExitStack() as pools:
        leases = pools.enter_context(ExitStack())

        def acquire(pool: str | None = None, *, ttl: float | None = None, timeout: float | None = None) -> Lease:
            opened = pools.enter_context(_open(config, pool, ttl))
            return leases.enter_context(_lease(config, opened, timeout, _owner(what), on_lost))

        yield acquire
        try:
            leases.close()
        except LeaseLost as lost:
            if not guard.forget(for_all):
                raise _failed(f"while {what} ran, {lost}") from None
        guard.forget(for_all)


@contextmanager
def _open(config: pytest.Config, name: str | None, ttl: float | None) -> Iterator[Pool]:
    import redis

    from relet import Pool, ReletError

    name = name or _option(config, "pool")
    if not name:
        raise _failed("which pool? Set relet_pool, give --relet-pool, or mark with @pytest.mark.relet(POOL)")
    url = _option(config, "url") or os.environ.get("RELET_URL") or "redis://localhost:6379/0"
    namespace = _option(config, "namespace") or os.environ.get("RELET_NAMESPACE") or "relet"
    try:
        pool = Pool.from_url(url, name, _number(config, "ttl", 30.0) if ttl is None else ttl, namespace=namespace)
        with pool:
            if pool.order() is None:
                raise ReletError(f"there is no pool {name!r} in namespace {namespace!r}; relet add {name} … makes it")
            yield pool
    except (redis.RedisError, ReletError, ValueError, TypeError) as error:
        raise _failed(str(error)) from None


@contextmanager
def _lease(
    config: pytest.Config, pool: Pool, timeout: float | None, owner: str, on_lost: Callable[[Lease], None]
) -> Iterator[Lease]:
    from relet import PoolExhausted

    patience = _number(config, "timeout", 300.0) if timeout is None else timeout
    block: Any = pool.lease(timeout=patience, owner=owner, on_lost=on_lost)
    try:
        lease = block.__enter__()
    except PoolExhausted as error:
        raise _failed(f"{error}; wait for longer with --relet-timeout") from None
    try:
        yield lease
    finally:
        block.__exit__(None, None, None)


def _failed(text: str) -> BaseException:
    """What fails a test with no more than this."""
    error: BaseException = pytest.fail.Exception(f"relet: {text}", pytrace=False)
    return error


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"relet_{name}") or config.getini(f"relet_{name}") or "")


def _number(config: pytest.Config, name: str, default: float) -> float:
    given = _option(config, name)
    try:
        return float(given) if given else default
    except ValueError:
        raise _failed(f"relet_{name} is a number of seconds, not {given!r}") from None


def _owner(what: str) -> str:
    """Who holds it, for people to read: this process, and the test."""
    from relet.names import owner_of

    text = "".join(character if character.isprintable() else "?" for character in f"{owner_of(os.getpid())} {what}")
    return text.encode("utf-8", "replace")[:MAX_OWNER_BYTES].decode("utf-8", "ignore")
