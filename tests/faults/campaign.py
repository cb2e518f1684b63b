"""One campaign: servers, clients and nemeses, for so many seconds; then what is left is counted, and all is judged."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import redis

from relet import Pool, ReletError
from tests.servers import SERVERS, Unavailable, binary, wait_until

from . import arena, broken, faketime, history
from .checker import Verdict, judge
from .nemeses import NEMESES, Nemesis, chosen
from .nemeses.base import PAIR, SHARDS
from .plan import LONGEST_TTL_S, RESOURCES, Plan

CLUSTER = "cluster-"
TEND_S = 0.05
LAST_SHARE = 0.85
"""After this share of the time a clock may go ahead, where faults that lose data are in the campaign too."""
SETTLE_S = 30.0
_CLOCKS = ("client-clock", "server-clock-behind", "server-clock-ahead")


@dataclass
class Outcome:
    """`history` is the file that was kept, if any."""

    verdict: Verdict
    history: Path | None
    left_out: dict[str, str]
    """Nemeses that this machine cannot have, and why."""


def run(
    server: str,
    nemeses: str,
    seconds: float,
    *,
    seed: int,
    clients: int = 8,
    keep: Path | None = None,
    break_: str = "",
) -> Outcome:
    """Runs a campaign and judges it. The history is kept in `keep` if given, else only if a promise was broken.

    Raises Unavailable, or ValueError for names that there are not.
    """
    is_cluster = server.startswith(CLUSTER)
    spec = server.removeprefix(CLUSTER)
    if spec not in SERVERS:
        raise ValueError(f"there is no server {server!r}: {', '.join(SERVERS)}, each also with {CLUSTER!r} before it")
    binary(SERVERS[spec])
    names = chosen(nemeses, SHARDS if is_cluster else PAIR)
    library, left_out = _clocks(names)
    names = [name for name in names if name not in left_out]
    folder = Path(tempfile.mkdtemp(prefix="relet-faults-"))
    try:
        plan = Plan(str(folder), server, names, seconds, seed, clients, pools=_pools(is_cluster), broken=break_)
        if break_:
            broken.BREAKS[break_].copy(folder / "broken")
        clock = None
        if library and any(name.startswith("server-clock") for name in names):
            clock = faketime.Clock(library, folder / "clock", server)
        events = [_header(plan), *_fight(plan, clock)]
        verdict = judge(events)
        kept = _keep(events, keep, plan) if keep or verdict.faults else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(verdict, kept, left_out)


def replay(file: Path) -> Verdict:
    """Judges a history that was kept."""
    return judge(history.read([file]))


def _clocks(names: list[str]) -> tuple[Path | None, dict[str, str]]:
    if not set(names) & set(_CLOCKS):
        return None, {}
    try:
        return faketime.library(), {}
    except Unavailable as reason:
        return None, {name: str(reason) for name in names if name in _CLOCKS}


def _pools(is_cluster: bool) -> dict[str, list[str]]:
    """Two that are fought for, or in a cluster one a node; and one that is mostly left alone."""
    busy = ["a", "b", "c"] if is_cluster else ["a", "b"]  # {a}, {b} and {c} are on three nodes of three
    return {name: [f"{name}{number}" for number in range(RESOURCES)] for name in [*busy, "quiet"]}


def _header(plan: Plan) -> history.Event:
    fields = ("server", "nemeses", "seconds", "seed", "clients", "sessions", "pools", "broken")
    return {"kind": "plan", "t": 0.0, **{name: getattr(plan, name) for name in fields}}


def _fight(plan: Plan, clock: faketime.Clock | None) -> list[history.Event]:
    with arena.make(plan, clock) as ground:
        plan.until = history.now() + plan.seconds
        plan.save()
        ground.crowd.tend()
        troubles = _strike_until(ground)
        troubles += ground.crowd.finish()
        troubles += ground.crowd.died
        _take_stock(ground)
        events = history.read_folder(plan.path)
    return events + [{"kind": "trouble", "t": history.now(), "text": text} for text in troubles]


def _strike_until(ground: arena.Arena) -> list[str]:
    """Lets the nemeses loose until the time is up; answers what went wrong with them."""
    plan = ground.plan
    troubles: list[str] = []
    kinds = [NEMESES[name]() for name in plan.nemeses]
    groups: dict[str, list[Nemesis]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind)
    threads = [
        threading.Thread(target=_group, args=(ground, group, members, troubles), name=f"nemesis-{group}")
        for group, members in groups.items()
    ]
    for thread in threads:
        thread.start()
    while history.now() < plan.until:
        ground.crowd.tend()
        time.sleep(TEND_S)
    ground.stopping.set()
    for thread in threads:
        thread.join()
    return troubles


def _group(ground: arena.Arena, group: str, members: list[Nemesis], troubles: list[str]) -> None:
    rng = arena.dice(ground.plan, group)
    try:
        ground.pause(rng.uniform(0.1, 0.5))
        while not ground.stopping.is_set():
            nemesis = _next(ground, members, rng)
            if nemesis is not None:
                begun = history.now()
                what = nemesis.strike(ground, rng)
                spares = nemesis.spares_confirmed
                ground.record(nemesis.name, begun, what, nemesis.voids, spares_confirmed=spares)
            ground.pause(rng.uniform(0.1, 1.2))
    except Exception as error:  # a fault of the campaign's own, and no verdict is worth anything then
        traceback.print_exc()
        troubles.append(f"nemesis: {type(error).__name__}: {error}")


def _next(ground: arena.Arena, members: list[Nemesis], rng: random.Random) -> Nemesis | None:
    def may(nemesis: Nemesis) -> bool:
        if nemesis.name == "server-clock-ahead":
            loses = any(NEMESES[name].voids and not name.startswith("server-clock") for name in ground.plan.nemeses)
            return not loses or history.now() > ground.plan.until - ground.plan.seconds * (1 - LAST_SHARE)
        return not (ground.clock_was_ahead and nemesis.voids)

    able = [nemesis for nemesis in members if may(nemesis)]
    return rng.choices(able, [nemesis.weight for nemesis in able])[0] if able else None


def _take_stock(ground: arena.Arena) -> None:
    """Once every lease has come to its end: is each resource there, and free, and to be had once?"""
    for name, expected in ground.plan.pools.items():
        client = ground.masters()[0].client() if not ground.plan.is_cluster else ground.cluster.client()  # type: ignore[attr-defined]
        try:
            with Pool(client, name) as pool:
                ground.census(pool=name, expected=expected, **_count(pool, len(expected)))
        finally:
            client.close()


def _count(pool: Pool, expected: int) -> dict[str, object]:
    try:
        with contextlib.suppress(TimeoutError):  # the census shows it
            wait_until(lambda: pool.stats().leased == 0, "leases to end", timeout=SETTLE_S + LONGEST_TTL_S)
        before = pool.stats()
        leases = [pool.try_acquire(60) for _ in range(expected + 1)]
        taken = [lease.resource for lease in leases if lease]
        pool.release_many([lease for lease in leases if lease])
        after = pool.stats()
    except (ReletError, redis.RedisError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"free": before.free, "total": before.total, "taken": taken, "free_after": after.free}


def _keep(events: list[history.Event], folder: Path | None, plan: Plan) -> Path:
    folder = folder or Path(tempfile.mkdtemp(prefix="relet-faults-kept-"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{plan.server}-{plan.seed}{history.SUFFIX}"
    history.keep(events, file)
    return file
