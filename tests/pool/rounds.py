"""The small round that a Python with another client library goes, on each server: run by test_clients.py.

    python rounds.py LIBRARY VERSION with|without URL…

Prints a line for each server and way to ask it, and ends with code 0, or with the error.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from typing import Any


def main(library: str, wanted: str, parser: str, *urls: str) -> None:
    accelerator = {"redis": "hiredis", "valkey": "libvalkey"}[library]
    if parser == "without":
        sys.modules[accelerator] = None  # type: ignore[assignment]
    module: Any = importlib.import_module(library)
    utils: Any = importlib.import_module(f"{library}.utils")
    if parser == "with":
        __import__(accelerator)
    assert version(library) == wanted, (version(library), wanted)
    is_fast = getattr(utils, f"{accelerator.upper()}_AVAILABLE")
    assert is_fast is (parser == "with"), f"{accelerator}: {is_fast}"

    knows_resp3 = library == "valkey" or int(wanted.split(".", maxsplit=1)[0]) >= 5
    for number, url in enumerate(urls):
        for protocol in ({}, {"protocol": 2}, {"protocol": 3}) if knows_resp3 else ({},):
            for decoded in (False, True):
                options = {**protocol, "decode_responses": decoded}
                client = getattr(module, library.capitalize()).from_url(url, **options)
                name = f"round-{number}-{library}-{wanted}-{parser}-{decoded}"
                go_round(client, name)
                client.close()
                print(url, options, flush=True)


def go_round(client: Any, name: str) -> None:
    from relet import LeaseLost, Pool, PoolExhausted

    exceptions = importlib.import_module(f"{type(client).__module__.partition('.')[0]}.exceptions")
    client.script_flush()
    pool = Pool(client, name, ttl=60)
    assert pool.add({"ü 1": {"a": [1]}}, "r2") == 2
    lease = pool.acquire(timeout=0, owner="ann")
    assert (lease.resource, lease.attributes) == ("ü 1", {"a": [1]})
    lease.renew(120)
    pool.renew(lease.token)
    (held, other) = pool.resources()
    assert (held.name, held.state, held.owner, held.fence) == ("ü 1", "leased", "ann", lease.fence)
    assert (other.name, other.state) == ("r2", "free")
    second = pool.try_acquire()
    assert second
    assert second.fence > lease.fence
    assert pool.try_acquire() is None
    fails(PoolExhausted, lambda: pool.acquire(timeout=0))
    fails(LeaseLost, lambda: pool.renew("0" * 32))
    fails(ValueError, lambda: pool.try_acquire(0))
    fails(ValueError, lambda: pool.add("a\nb"))
    lease.release()
    assert pool.release(second.token) is True
    fails(LeaseLost, second.renew)
    third = pool.try_acquire()
    assert third
    assert pool.release(resource="ü 1", force=True) is True
    fails(LeaseLost, third.release)
    pool.set_order("lru")
    assert pool.order() == "lru"
    assert pool.reclaim() == 0
    assert pool.remove("r2") == 1
    stats = pool.stats()
    assert (stats.total, stats.free, stats.granted, stats.released) == (1, 1, 3, 3)
    root = f"relet:pool:{{{name}}}"
    client.set(f"{root}:free", "not a sorted set")
    fails(exceptions.ResponseError, pool.try_acquire)
    client.delete(f"{root}:free")
    pool.destroy()
    assert client.keys("*{" + name + "}*") == []


def fails(error: type[Exception], call: Any) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
