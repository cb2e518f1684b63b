"""Draws the pictures of the README, from real runs: ``python -m tests.pictures [watch] [demo]`` (default: both).

They are docker/pictures/watch.svg and demo.svg. It takes some ten seconds, on servers of its own.
"""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType
from rich.text import Text

import relet.demo
from relet import Pool
from relet.cli.watching.looks import Watched
from relet.cli.watching.picture import picture
from relet.demo.verdict import Verdict
from relet.demo.view import LiveView, Snapshot, verdict_lines
from tests.helpers import eventually
from tests.servers import Server

FOLDER = Path(__file__).parents[1] / "docker" / "pictures"
WIDTH, HEIGHT = 116, 26
FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without the fonts that it would load from elsewhere: any of fixed width does."""


def watch() -> None:
    """A pool with some trouble in it, watched for a while."""
    with Server.start("valkey-9.1") as server, server.client() as client:
        pool = Pool(client, "gpu", owner="train@node-4:2211")
        pool.add({f"gpu-{number}": {"memory": 40 + 40 * (number % 2)} for number in range(16)})
        pool.set_policy(on_lapse="quarantine")
        pool.drain("gpu-15", reason="fan fails, ticket 4711")
        watched = Watched(pool)
        for _ in _busy(pool):
            watched.take()
        with _in_line(server, pool, ("sweep@node-2:871", 12), ("eval@node-9:7790", 1)):
            watched.take()
        _save("watch", "relet watch gpu", [picture([watched], WIDTH, HEIGHT)])
        pool.destroy()
        pool.close()


def _busy(pool: Pool) -> Iterator[None]:
    """Holders come and go; one of them dies."""
    held = []
    for turn in range(64):
        wave = 3 + abs(turn % 24 - 12) * 2 // 3
        while len(held) < wave:
            held.append(pool.acquire(600 + 60 * len(held), 0, owner=f"train@node-{turn % 7}:{2200 + 13 * turn}"))
        while len(held) > wave:
            held.pop(0).release()
        if turn == 20:
            pool.acquire(0.05, 0, owner="eval@node-9:7781")
        if turn == 40:
            pool.quarantine(held[-1].resource, reason="wants a reboot")
        time.sleep(0.05)
        yield


@contextmanager
def _in_line(server: Server, pool: Pool, *waiters: tuple[str, int]) -> Iterator[None]:
    """They wait for so many, until there are enough."""
    with ExitStack() as stack:
        for owner, count in waiters:
            own = stack.enter_context(Pool.from_url(server.url, pool.name))
            before = pool.stats().waiting
            thread = Thread(target=own.acquire_many, args=(count,), kwargs={"owner": owner})
            thread.start()
            stack.callback(thread.join)
            eventually(lambda before=before: pool.stats().waiting > before, "a waiter")  # type: ignore[misc]
            time.sleep(0.7)
        yield
        pool.add(f"spare-{number}" for number in range(sum(count for _, count in waiters)))


def demo() -> None:
    """The demo in the middle of it, and its verdict."""
    view = _Kept()
    with _view_of_the_demo(view):
        relet.demo.run(seconds=6.0)
    _save("demo", "relet demo", view.parts)


class _Kept(LiveView):
    """Draws nowhere; keeps one picture of the middle, and the verdict."""

    def __init__(self) -> None:
        super().__init__()
        self._live.console = Console(file=io.StringIO(), width=WIDTH)
        self.parts: list[RenderableType] = []

    def look(self, snapshot: Snapshot) -> None:
        if snapshot.elapsed < 5.5:
            self.parts = [self._picture(snapshot)]
        else:
            self._rate.of(snapshot)

    def verdict(self, verdict: Verdict) -> None:
        first, *rest = verdict_lines(verdict)
        self.parts += [Text(first, "bold green" if verdict.ok else "bold red"), *map(Text, rest)]


@contextmanager
def _view_of_the_demo(view: LiveView) -> Iterator[None]:
    before = relet.demo.choose
    relet.demo.choose = lambda _: view  # type: ignore[assignment]
    try:
        yield
    finally:
        relet.demo.choose = before


def _save(name: str, title: str, parts: list[RenderableType]) -> None:
    console = Console(record=True, file=io.StringIO(), width=WIDTH, color_system="truecolor", force_terminal=True)
    for part in parts:
        console.print(part)
    FOLDER.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title=title, code_format=FORMAT, unique_id=name)
    (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
    print(f"wrote {FOLDER / name}.svg")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["watch", "demo"]:
        {"watch": watch, "demo": demo}[wanted]()
