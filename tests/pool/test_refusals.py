"""What is refused before anything is sent, with the value and the rule in the message."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from relet import Pool
from tests.helpers import Recorder
from tests.servers import Server
from tests.servers.ports import free_port

Call = Callable[[Pool, Any], object]

TTLS: list[tuple[object, type[Exception], str]] = [
    (0, ValueError, "not 0"),
    (-1, ValueError, "not -1"),
    (math.nan, ValueError, "not nan"),
    (math.inf, ValueError, "not inf"),
    (0.0004, ValueError, "not 0.0004"),
    (1e18, ValueError, "not 1e"),
    (366 * 86400 + 1, ValueError, "not 31622401"),
    (10**400, ValueError, "not 1000"),
    (True, TypeError, "not True"),
    ("10", TypeError, "not '10'"),
    (b"10", TypeError, "not b'10'"),
    ([10], TypeError, r"not \[10\]"),
]
TTL_CALLS: dict[str, Call] = {
    "Pool": lambda pool, ttl: Pool(pool._client, "p", ttl),
    "from_url": lambda _, ttl: Pool.from_url(f"redis://127.0.0.1:{free_port()}", "p", ttl),
    "try_acquire": lambda pool, ttl: pool.try_acquire(ttl),
    "acquire": lambda pool, ttl: pool.acquire(ttl, timeout=0),
    "renew": lambda pool, ttl: pool.renew("0" * 32, ttl),
}

RESOURCES: list[tuple[object, type[Exception], str]] = [
    ("", ValueError, "1 to 512 bytes.*not 0: ''"),
    ("a\nb", ValueError, r"control.*'a\\nb'"),
    ("a\0b", ValueError, r"control.*'a\\x00b'"),
    ("a\x7fb", ValueError, r"control.*x7f"),
    ("a\x85b", ValueError, r"control.*x85"),
    ("\x1b[31m", ValueError, r"control.*x1b"),
    ("x" * 513, ValueError, "1 to 512 bytes.*not 513: 'xxx"),
    ("ü" * 256 + "x", ValueError, "1 to 512 bytes.*not 513: 'üüü"),
    ("\ud800", ValueError, "surrogate"),
    (b"r1", TypeError, "text, not b'r1'; decode"),
    (None, TypeError, "text, not None"),
    (7, TypeError, "text, not 7"),
]
RESOURCE_CALLS: dict[str, Call] = {
    "add": lambda pool, name: pool.add(name),
    "add after good ones": lambda pool, name: pool.add([str(i) for i in range(1000)], [name]),
    "add with attributes": lambda pool, name: pool.add({name: {}}),
    "remove": lambda pool, name: pool.remove(name),
    "release": lambda pool, name: pool.release(resource=name, force=True),
}

POOLS: list[tuple[object, type[Exception], str]] = [
    *[(f"a{character}b", ValueError, "no braces, colon, white space") for character in "{}: \t\n\0\u00a0\u2003"],
    ("", ValueError, "1 to 128 characters, not 0"),
    ("x" * 129, ValueError, "1 to 128 characters, not 129"),
    ("\ud800", ValueError, "surrogate"),
    (b"gpu", TypeError, "text, not b'gpu'"),
    (None, TypeError, "text, not None"),
]

NAMESPACES: list[tuple[object, type[Exception], str]] = [
    ("", ValueError, "1 to 64"),
    ("x" * 65, ValueError, "1 to 64"),
    ("a{b}", ValueError, r"a\{b\}"),
    ("a b", ValueError, "a b"),
    ("relet\n", ValueError, "relet"),
    ("ü", ValueError, "ü"),
    (b"relet", TypeError, "text"),
]

OTHERS: dict[str, tuple[Callable[[Pool], object], type[Exception], str]] = {
    "owner bytes": (lambda pool: pool.try_acquire(owner=b"me"), TypeError, "owner.*b'me'"),  # type: ignore[arg-type]
    "owner control": (lambda pool: pool.try_acquire(owner="a\x1bb"), ValueError, "owner.*control.*x1b"),
    "owner newline": (lambda pool: pool.acquire(timeout=0, owner="a\nb"), ValueError, "owner.*control"),
    "owner long": (lambda pool: pool.try_acquire(owner="x" * 257), ValueError, "owner.*256.*257"),
    "owner of the pool": (lambda pool: Pool(pool._client, "p", owner="a\0"), ValueError, "owner.*control"),
    "timeout negative": (lambda pool: pool.acquire(timeout=-1), ValueError, "timeout.*-1"),
    "timeout nan": (lambda pool: pool.acquire(timeout=math.nan), ValueError, "timeout.*nan"),
    "timeout text": (lambda pool: pool.acquire(timeout="1"), TypeError, "timeout.*'1'"),  # type: ignore[arg-type]
    "timeout bool": (lambda pool: pool.acquire(timeout=True), TypeError, "timeout.*True"),
    "order": (lambda pool: pool.add("r1", order="fifo"), ValueError, "rank, lru, random.*'fifo'"),
    "order case": (lambda pool: pool.set_order("LRU"), ValueError, "rank, lru, random.*'LRU'"),
    "order none": (lambda pool: pool.set_order(None), ValueError, "rank.*None"),  # type: ignore[arg-type]
    "limit none at all": (lambda pool: pool.waiters(0), ValueError, "1 to 250.*0"),
    "limit large": (lambda pool: pool.waiters(limit=251), ValueError, "1 to 250.*251"),
    "limit float": (lambda pool: pool.waiters(1.0), TypeError, "limit.*1.0"),  # type: ignore[arg-type]
    "limit bool": (lambda pool: pool.waiters(True), TypeError, "limit.*True"),
    "token short": (lambda pool: pool.renew("abc"), ValueError, "32 hexadecimal.*'abc'"),
    "token case": (lambda pool: pool.release("A" * 32), ValueError, "32 hexadecimal.*'AAA"),
    "token newline": (lambda pool: pool.release("a" * 32 + "\n"), ValueError, "32 hexadecimal"),
    "token bytes": (lambda pool: pool.release(b"a" * 32), TypeError, "token.*b'aaa"),  # type: ignore[arg-type]
    "release of nothing": (lambda pool: pool.release(), TypeError, "token, or resource"),
    "release of both": (lambda pool: pool.release("a" * 32, resource="r1"), TypeError, "token, or resource"),
    "release of another's": (lambda pool: pool.release(resource="r1"), ValueError, "force=True"),
    "release by force and token": (lambda pool: pool.release("a" * 32, force=True), ValueError, "force"),
    "attributes list": (lambda pool: pool.add({"r1": [1]}), TypeError, r"'r1'.*\[1\]"),  # type: ignore[dict-item]
    "attributes key": (lambda pool: pool.add({"r1": {1: 2}}), TypeError, "'r1'.*1"),  # type: ignore[dict-item]
    "attributes nan": (lambda pool: pool.add({"r1": {"a": math.nan}}), ValueError, "'r1'.*JSON"),
    "attributes object": (lambda pool: pool.add({"r1": {"a": object()}}), TypeError, "'r1'.*JSON"),
    "attributes surrogate": (lambda pool: pool.add({"r1": {"a": "\ud800"}}), ValueError, "'r1'"),
    "attributes large": (lambda pool: pool.add({"r1": {"a": "x" * 65536}}), ValueError, "'r1'.*65536"),
    "client": (lambda _: Pool(object(), "p"), TypeError, "redis-py or valkey-py"),
    "url": (lambda _: Pool.from_url(b"redis://", "p"), TypeError, "URL"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def nowhere() -> Pool:
    """A pool whose server is not there: whatever is sent raises redis-py's ConnectionError."""
    return Pool(redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)), "nowhere")


def cases(table: list[tuple[object, type[Exception], str]]) -> Any:
    shown = [f"{ascii(value)[:20]}-{index}" for index, (value, _, _) in enumerate(table)]
    return pytest.mark.parametrize(("value", "error", "message"), table, ids=shown)


def refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.compile(message, re.DOTALL)) as caught:
        call()
    assert isinstance(caught.value, (ValueError, TypeError))


def test_what_is_sent_would_show(nowhere: Pool) -> None:
    """The tests below prove something: this pool cannot send."""
    with pytest.raises(redis.ConnectionError):
        nowhere.try_acquire(1)
    with pytest.raises(redis.ConnectionError):
        nowhere.add("r1")


@pytest.mark.parametrize("call", TTL_CALLS.values(), ids=TTL_CALLS)
@cases(TTLS)
def test_ttl(nowhere: Pool, call: Call, value: object, error: type[Exception], message: str) -> None:
    refused(lambda: call(nowhere, value), error, rf"a ttl is.*{message}")


@pytest.mark.parametrize("call", RESOURCE_CALLS.values(), ids=RESOURCE_CALLS)
@cases(RESOURCES)
def test_resource(nowhere: Pool, call: Call, value: object, error: type[Exception], message: str) -> None:
    if value is None and call is RESOURCE_CALLS["release"]:
        refused(lambda: call(nowhere, value), TypeError, "token, or resource")
    else:
        refused(lambda: call(nowhere, value), error, rf"a resource's name.*{message}")


@cases(POOLS)
def test_pool(nowhere: Pool, value: Any, error: type[Exception], message: str) -> None:
    refused(lambda: Pool(nowhere._client, value), error, rf"a pool's name.*{message}")
    refused(lambda: Pool.from_url(f"redis://127.0.0.1:{free_port()}", value), error, message)


@cases(NAMESPACES)
def test_namespace(nowhere: Pool, value: Any, error: type[Exception], message: str) -> None:
    refused(lambda: Pool(nowhere._client, "p", namespace=value), error, rf"a namespace.*{message}")


@pytest.mark.parametrize("case", OTHERS)
def test_other_arguments(nowhere: Pool, case: str) -> None:
    call, error, message = OTHERS[case]
    refused(lambda: call(nowhere), error, message)


def test_a_timeout_of_any_size_is_a_number(nowhere: Pool) -> None:
    """Never an OverflowError: it is a long wait, or it is refused."""
    with pytest.raises((ValueError, redis.ConnectionError)):
        nowhere.acquire(timeout=10**400)


@pytest.mark.parametrize("ttl", [0.001, 0.0014, 1, 366 * 86400, 366 * 86400.0])
def test_the_bounds_themselves_are_taken(nowhere: Pool, ttl: float) -> None:
    Pool(nowhere._client, "x" * 128, ttl, namespace="n" * 64, owner="ü" * 128)
    with pytest.raises(redis.ConnectionError):
        nowhere.try_acquire(ttl)


@pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True)
def test_the_server_sees_nothing_of_a_refused_call(server: Server, make_pool: Callable[..., Pool]) -> None:
    with Recorder.of(server.url) as client:
        pool = make_pool(client)
        lease_calls = 0
        pool.add("r1")
        lease = pool.acquire(timeout=0)
        client.sent.clear()
        for value, error, _ in TTLS:
            for call in (lease.renew, *(lambda ttl, one=one: one(pool, ttl) for one in TTL_CALLS.values())):
                with pytest.raises(error):
                    call(value)  # type: ignore[operator]
                lease_calls += 1
        for call_other, error, _ in OTHERS.values():
            with pytest.raises(error):
                call_other(pool)
        assert lease_calls
        assert client.sent == []
        assert pool.stats().leased == 1
        assert [args[0] for args in client.sent] == ["EVALSHA"] * len(client.sent), "the recorder does record"
        assert client.sent
