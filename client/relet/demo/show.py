"""The show: a crowd on a pool for some seconds, workers killed all the time, at last all of them at once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from relet.demo.crowd import Crowd
from relet.demo.referee import Referee
from relet.demo.verdict import Verdict, judge
from relet.demo.view import Snapshot, View
from relet.errors import PoolDamaged
from relet.model import ResourceInfo, Stats
from relet.pool import Pool

LOOK_EVERY_S = 0.1
KILL_EVERY_S = 0.25
MOST_WATCHED = 500
"""Up to this many resources, each look lists them all, to tell what became of those that the dead held."""
MOST_FAILED = 50
"""Workers that may end by themselves before the show is cut short; the verdict is bad from the first one on."""


class Orphan(NamedTuple):
    """A lease whose holder was killed."""

    worker: int
    fence: int | None
    killed_at: float


class Show:
    """One run. ``pool`` has the resources and is used by nobody else."""

    def __init__(
        self, pool: Pool, referee: Referee, crowd: Crowd, view: View, resources: Sequence[str], workers: int
    ) -> None:
        self._pool = pool
        self._referee = referee
        self._crowd = crowd
        self._view = view
        self._resources = resources
        self._workers = workers
        self._orphans: dict[str, Orphan] = {}
        self._failures = 0
        self._kills = 0
        self._is_damaged = False
        self._began = time.monotonic()

    def play(self, seconds: float) -> Verdict:
        """The whole show, for about ``seconds`` and one ttl."""
        for _ in range(self._workers):
            self._crowd.start()
        self._began = time.monotonic()
        next_kill = self._began + KILL_EVERY_S
        while time.monotonic() < self._began + seconds and self._failures < MOST_FAILED:
            time.sleep(LOOK_EVERY_S)
            self._hear_of_the_failed()
            for _ in range(self._workers - len(self._crowd.running)):
                self._crowd.start()
            if time.monotonic() >= next_kill:
                next_kill += KILL_EVERY_S
                self._kill_one()
            self._look()
        self._kill_all()
        lasted = time.monotonic() - self._began
        self._wait_for_the_lapses()
        verdict = Verdict(len(self._resources), self._workers, round(lasted, 1), kills=self._kills)
        judge(verdict, self._pool, self._referee, self._resources)
        if self._failures:
            verdict.problems.append(f"{self._failures} workers failed; the last one said: {self._crowd.complaint()}")
        return verdict

    def _kill_one(self) -> None:
        """Kill a worker in mid-use, if one is seen to be, and put a new one in its place."""
        using = [number for number in map(_worker_of, self._list()) if number in self._crowd.running]
        number = random.choice(using or sorted(self._crowd.running))
        if self._crowd.kill(number):
            self._kills += 1
            held = self._mourn({number})
            self._view.event(f"kill -9 worker-{number}, {f'holding {held[0]}' if held else 'between two uses'}")
        self._crowd.start()

    def _kill_all(self) -> None:
        numbers = sorted(self._crowd.running)
        killed = sum([self._crowd.kill(number) for number in numbers])
        self._kills += killed
        held = self._mourn(set(numbers))
        what = f", holding {len(held)} resources" if self._is_watched() else ""
        self._view.milestone(f"kill -9 all {killed} workers at once{what}")
        self._hear_of_the_failed()

    def _mourn(self, numbers: set[int]) -> list[str]:
        """Note what the dead hold, and answer its names."""
        held = [info for info in self._list() if _worker_of(info) in numbers]
        for info in held:
            self._orphans[info.name] = Orphan(_worker_of(info) or 0, info.fence, time.monotonic())
        return [info.name for info in held]

    def _wait_for_the_lapses(self) -> None:
        """Until nothing is leased, or the last possible deadline is over: then the verdict says what is wrong."""
        killed_at = time.monotonic()
        over_ms = self._referee.now() + round(self._pool.ttl * 1000)
        while self._referee.now() < over_ms:
            stats = self._look()
            if stats is not None and stats.leased == 0:
                after = time.monotonic() - killed_at
                self._view.milestone(f"{after:.1f} s later all {stats.free} resources are free again")
                break
            time.sleep(LOOK_EVERY_S / 2)
        self._look()

    def _look(self) -> Stats | None:
        """Show how things stand."""
        infos = {info.name: info for info in self._list()} if self._orphans else {}
        for name, orphan in list(self._orphans.items()):
            info = infos.get(name)
            if info is not None and info.state == "leased" and info.fence == orphan.fence:
                continue
            del self._orphans[name]
            where = "gone" if info is None else f"with {info.owner} now" if info.state == "leased" else "free"
            after = time.monotonic() - orphan.killed_at
            self._view.event(f"{name} is back {after:.1f} s after the end of worker-{orphan.worker}: {where}")
        try:
            stats = self._pool.stats()
        except PoolDamaged as error:
            if not self._is_damaged:
                self._view.milestone(str(error))
            self._is_damaged = True
            return None
        elapsed = time.monotonic() - self._began
        self._view.look(Snapshot(elapsed, stats, len(self._crowd.running), self._kills, self._referee.tally().doubled))
        return stats

    def _hear_of_the_failed(self) -> None:
        failed = self._crowd.ended()
        self._failures += len(failed)
        if failed:
            self._view.milestone(f"{len(failed)} workers failed: {self._crowd.complaint()}")

    def _is_watched(self) -> bool:
        return len(self._resources) <= MOST_WATCHED

    def _list(self) -> list[ResourceInfo]:
        if not self._is_watched():
            return []
        try:
            return list(self._pool.resources())
        except PoolDamaged:
            return []


def _worker_of(info: ResourceInfo) -> int | None:
    prefix, _, number = (info.owner or "").partition("-")
    return int(number) if prefix == "worker" and number.isdigit() else None
