"""A client process: a few sessions over one client of redis-py, in threads or in tasks.

    python -m tests.faults.clients PLAN NUMBER INCARNATION

What kind it is follows from its number, so that a campaign has them all: with threads or asyncio; direct or through the
proxy; resending or not; with min_replicas or without, where there is a replica.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import threading
from pathlib import Path
from typing import Any

from relet import AsyncPool, Pool

from . import broken
from .children import die_with_parent
from .crowd import WHERE
from .history import History, now
from .plan import Plan
from .sessions import Session
from .steering import make_client


class Kind:
    """What a client of this number is like."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.is_async = number % 2 == 1
        self.by_proxy = number // 2 % 2 == 0
        self.resends = number % 3 != 2
        self.min_replicas = int(plan.has_replica and number % 4 in (1, 2))

    def client(self, plan: Plan) -> Any:
        return make_client(plan, by_proxy=self.by_proxy, is_async=self.is_async, resends=self.resends)


def main(plan: Plan, number: int, incarnation: int) -> None:
    if plan.broken:
        broken.BREAKS[plan.broken].apply(plan.path / "broken")
    kind = Kind(plan, number)
    history = History(plan.path / f"client-{number}-{incarnation}.jsonl")
    name = f"{number}.{incarnation}"

    def session(index: int, pools: dict[str, Any]) -> Session:
        seed = f"{plan.seed} {name} {index}"
        return Session(plan, f"{name}.{index}", pools, kind.min_replicas, history, seed)

    def is_over() -> bool:
        return now() >= plan.until

    if kind.is_async:
        asyncio.run(_in_tasks(plan, kind, session, is_over))
    else:
        _in_threads(plan, kind, session, is_over)


async def _in_tasks(plan: Plan, kind: Kind, session: Any, is_over: Any) -> None:
    client = kind.client(plan)
    pools = {name: AsyncPool(client, name, min_replicas=kind.min_replicas) for name in plan.pools}
    try:
        if plan.is_cluster:
            await _patiently(client.initialize, is_over)
        await asyncio.gather(*(session(index, pools).run(is_over) for index in range(plan.sessions)))
    finally:
        for pool in pools.values():
            await pool.close()
        await client.aclose()


def _in_threads(plan: Plan, kind: Kind, session: Any, is_over: Any) -> None:
    client = asyncio.run(_patiently(lambda: kind.client(plan), is_over))
    if client is None:
        return
    pools = {name: Pool(client, name, min_replicas=kind.min_replicas) for name in plan.pools}
    threads = [
        threading.Thread(target=lambda index=index: asyncio.run(session(index, pools).run(is_over)))  # type: ignore[misc]
        for index in range(plan.sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pool in pools.values():
        pool.close()
    client.close()


async def _patiently(make: Any, is_over: Any) -> Any:
    """A client of a cluster asks it for its slots when it is made, and it may be away just then."""
    while True:
        try:
            made = make()
            return await made if asyncio.iscoroutine(made) else made
        except Exception:
            if is_over():
                return None
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    die_with_parent()
    faulthandler.register(WHERE)
    main(Plan.load(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
