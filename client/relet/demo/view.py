"""What people and programs see of the demo: a live picture, plain lines, or one JSON object at the end."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from relet.demo.verdict import Verdict
from relet.model import Stats

if TYPE_CHECKING:
    from rich.console import Group

LINE_EVERY_S = 1.0
RATE_OVER_S = 1.0
EVENTS_SHOWN = 8
BAR_WIDTH = 50


class Snapshot(NamedTuple):
    """How things stand. ``elapsed`` is in seconds since the first worker's start."""

    elapsed: float
    stats: Stats
    workers: int
    kills: int
    doubled: int


class View:
    """Shows nothing while the demo runs, and the verdict as a JSON object: the view for programs."""

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, text: str) -> None:
        """What is going to happen."""

    def look(self, snapshot: Snapshot) -> None:
        """How things stand, some ten times a second."""

    def event(self, text: str) -> None:
        """Something happened, as it does several times a second."""

    def milestone(self, text: str) -> None:
        """Something happened that everybody should see."""

    def verdict(self, verdict: Verdict) -> None:
        """The end. Called after the view was left."""
        print(json.dumps(verdict.as_dict()), flush=True)


class Rate:
    """Grants a second, over the last second or so."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])

    def of(self, snapshot: Snapshot) -> float:
        """The rate as of this look."""
        self._seen.append((snapshot.elapsed, snapshot.stats.granted))
        while len(self._seen) > 2 and self._seen[1][0] <= snapshot.elapsed - RATE_OVER_S:
            self._seen.popleft()
        (since, before), (until, now) = self._seen[0], self._seen[-1]
        return (now - before) / max(until - since, 0.001)


class PlainView(View):
    """A line about once a second. Single events are too many for lines; the counts say it."""

    def __init__(self) -> None:
        self._rate = Rate()
        self._next_line = 0.0

    def begin(self, text: str) -> None:
        print(text, flush=True)

    def look(self, snapshot: Snapshot) -> None:
        rate = self._rate.of(snapshot)
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_EVERY_S
        stats = snapshot.stats
        print(
            f"{snapshot.elapsed:4.1f} s  free {stats.free:4}  leased {stats.leased:4}  grants {stats.granted:6} "
            f"({rate:5.0f}/s)  kills {snapshot.kills:3}  lapses {stats.lapsed:3}  doubled {snapshot.doubled}",
            flush=True,
        )

    def milestone(self, text: str) -> None:
        print(f"        {text}", flush=True)

    def verdict(self, verdict: Verdict) -> None:
        for line in verdict_lines(verdict):
            print(line, flush=True)


class LiveView(View):
    """A picture that is drawn anew several times a second, for a terminal. Needs rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._rate = Rate()
        self._title = ""
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, text: str) -> None:
        self._title = text

    def look(self, snapshot: Snapshot) -> None:
        self._live.update(self._picture(snapshot), refresh=True)

    def event(self, text: str) -> None:
        self._events.append(text)

    def milestone(self, text: str) -> None:
        self._events.append(text)

    def verdict(self, verdict: Verdict) -> None:
        from rich.text import Text

        first, *rest = verdict_lines(verdict)
        self._console.print(Text(first, "bold green" if verdict.ok else "bold red"))
        for line in rest:
            self._console.print(Text(line))

    def _picture(self, snapshot: Snapshot) -> Group:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        stats = snapshot.stats
        bars = Table.grid(padding=(0, 2))
        for label, count, style in (("free", stats.free, "green"), ("leased", stats.leased, "yellow")):
            bar = ProgressBar(stats.total, count, BAR_WIDTH, complete_style=style, finished_style=style)
            bars.add_row(label, bar, f"{count} of {stats.total}")
        counts = Table.grid(padding=(0, 3))
        numbers: dict[str, Any] = {
            "seconds": f"{snapshot.elapsed:.1f}",
            "workers": snapshot.workers,
            "grants": stats.granted,
            "grants/s": f"{self._rate.of(snapshot):.0f}",
            "kills": snapshot.kills,
            "lapses": stats.lapsed,
            "doubled": Text(str(snapshot.doubled), "bold red" if snapshot.doubled else "green"),
        }
        counts.add_row(*(Text(name, "dim") for name in numbers))
        counts.add_row(*(value if isinstance(value, Text) else str(value) for value in numbers.values()))
        lines = [*self._events, *[""] * (EVENTS_SHOWN - len(self._events))]
        events = Text("\n".join(lines), "dim", no_wrap=True, overflow="ellipsis")
        return Group(Text(self._title, "bold"), Padding(bars, (1, 0)), counts, Padding(events, (1, 0, 1, 0)))


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict for people: first whether all is well, then why."""
    if verdict.ok:
        first = (
            f"OK: {verdict.grants} grants to workers that were killed {verdict.kills} times in {verdict.seconds:g} s; "
            f"none doubled, none lost, all {verdict.resources} resources are there"
        )
    else:
        first = (
            f"FAILED: of {verdict.resources} resources {verdict.lost} are lost, and {verdict.doubled} of "
            f"{verdict.grants} grants are doubled"
        )
    return [
        first,
        f"grants {verdict.grants}   kills {verdict.kills}   lapses {verdict.lapses}   "
        f"slow holders told so {verdict.late}   doubled {verdict.doubled}   lost {verdict.lost}",
        *(f"wrong: {problem}" for problem in verdict.problems),
    ]


def choose(as_json: bool) -> View:
    """The view that fits standard output."""
    if as_json:
        return View()
    if sys.stdout.isatty():
        try:
            return LiveView()
        except ImportError:  # rich comes with relet[cli] only
            pass
    return PlainView()
