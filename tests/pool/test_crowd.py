"""Many processes at once: each is served if there is enough, no resource is in two hands, none is lost.

RELET_TESTS_PAIRS=5000    acquire + release pairs of each process (default: 200)
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
import redis

from relet import Pool, Stats
from tests.helpers import names
from tests.pool import crowd
from tests.servers import Server

CROWD = 16
PAIRS = int(os.environ.get("RELET_TESTS_PAIRS", "200"))

Gather = Callable[..., list[object]]


@pytest.fixture(scope="session")
def everybody() -> Iterator[Gather]:
    """Runs a function in each of the processes at once, and returns what each of them answered."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(CROWD)
    with ProcessPoolExecutor(CROWD, mp_context=context, initializer=crowd.prepare, initargs=(start,)) as processes:

        def gather(function: Callable[..., object], *arguments: object) -> list[object]:
            futures = [processes.submit(function, *arguments) for _ in range(CROWD)]
            return [future.result() for future in futures]

        assert all(gather(crowd.is_ready))
        yield gather


def job(server: Server, pool: Pool, pairs: int = 0) -> crowd.Job:
    return crowd.Job(server.url, pool.name, pairs, f"referee:{pool.name}:")


@pytest.mark.parametrize("order", ["rank", "lru", "random"])
def test_enough_for_all_is_served_to_all_at_the_first_try(
    everybody: Gather, server: Server, make_pool: Callable[..., Pool], order: str
) -> None:
    pool = make_pool()
    pool.add(names(CROWD), order=order)
    answers = everybody(crowd.acquire_once, job(server, pool))
    assert sorted(resource for resource, _ in answers) == names(CROWD)  # type: ignore[misc]
    assert len({fence for _, fence in answers}) == CROWD  # type: ignore[misc]
    assert pool.stats() == Stats(CROWD, 0, CROWD, 0, 0, CROWD, 0, 0)


def test_one_too_few_leaves_one_out(everybody: Gather, server: Server, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    pool.add(names(CROWD - 1))
    answers = everybody(crowd.acquire_once, job(server, pool))
    assert sorted(str(resource) for resource, _ in answers) == ["None", *names(CROWD - 1)]  # type: ignore[misc]


@pytest.mark.parametrize(("resources", "pairs"), [(100, PAIRS), (1, PAIRS)])
def test_no_resource_is_in_two_hands_and_none_is_lost(
    everybody: Gather,
    server: Server,
    client: redis.Redis,
    make_pool: Callable[..., Pool],
    resources: int,
    pairs: int,
) -> None:
    pool = make_pool()
    pool.add(names(resources))
    here = job(server, pool, pairs)
    try:
        outcomes = everybody(crowd.work, here)
        assert [outcome.doubled for outcome in outcomes] == [[]] * CROWD  # type: ignore[attr-defined]
        granted = CROWD * pairs
        assert sum(outcome.grants for outcome in outcomes) == granted  # type: ignore[attr-defined]
        assert pool.stats() == Stats(resources, resources, 0, 0, 0, granted, granted, 0)
        uses = {key.decode().removeprefix(here.referee): client.get(key) for key in client.keys(f"{here.referee}*")}
        assert set(uses.values()) == {b"0"}
        assert set(uses) <= set(names(resources))
    finally:
        for key in client.keys(f"{here.referee}*"):
            client.delete(key)
