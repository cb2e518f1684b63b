"""How pools stand, as a picture for a terminal. What others stored is text in it, never markup or an escape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from relet.cli.output import attributes_text, counted, duration, note, shown
from relet.cli.waiters import COLUMNS, rows_of
from relet.cli.watching.looks import COUNTED, Look, Watched
from relet.model import ResourceInfo, Waiter

STYLES = {"free": "green", "leased": "yellow", "quarantined": "red", "waiting": "cyan"}
BARS = " ▁▂▃▄▅▆▇█"
FIXED_LINES = 9
"""Of a pool's picture beside its resources: name, counts, the table's head, what is left out, empty lines."""
LEAST_ROWS = 3
WAITERS = 3
"""Of those in line the first so many are shown."""


def picture(pools: Sequence[Watched], width: int, height: int, error: str | None = None) -> RenderableType:
    """All of them below one another, in that many columns and lines where that is possible at all."""
    rows = max(LEAST_ROWS, (height - 1) // max(1, len(pools)) - FIXED_LINES)
    parts: list[RenderableType] = [part for one in pools for part in _pool(one, width, rows)]
    foot = Text("q or Ctrl-C ends it", "dim")
    if error is not None:
        foot.append(f"   {shown(error)}", "bold red")
    foot.truncate(width, overflow="ellipsis")
    return Group(*parts, foot)


def sparkline(counts: Sequence[int], most: int, width: int) -> str:
    """The last ``width`` counts, each as a bar of up to ``most``; only what is 0 is empty."""
    steps = len(BARS) - 1
    return "".join(BARS[min(steps, -(-count * steps // max(1, most)))] for count in counts[-width:])


def _pool(watched: Watched, width: int, rows: int) -> Iterator[RenderableType]:
    name = shown(watched.pool.name)
    if watched.look is None:
        yield Text(f"{name}: there is no such pool yet", "bold")
        yield Text()
        return
    look = watched.look
    yield Text(f"{name}  {counted(look.stats.total, 'resource')}, {look.stats.lapsed} lapses so far", "bold")
    yield _counts(watched, look, max(10, width - 24))
    yield Text()
    line = look.waiters[:WAITERS]
    rows = max(LEAST_ROWS, rows - (len(line) + 2 if line else 0))
    yield _resources(look.resources[:rows])
    yield _more(look.stats.total - min(rows, len(look.resources)))
    if line:
        yield _line(line)
        yield _more(look.stats.waiting - len(line))
    yield Text()


def _more(left_out: int) -> Text:
    return Text(f"and {left_out} more" if left_out > 0 else "", "dim")


def _counts(watched: Watched, look: Look, width: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(no_wrap=True)
    for count in COUNTED:
        past = [getattr(stats, count) for stats in watched.history]
        most = max([*past, 1]) if count == "waiting" else max(stats.total for stats in watched.history)
        style = STYLES[count]
        grid.add_row(
            Text(count), Text(str(getattr(look.stats, count)), style), Text(sparkline(past, most, width), style)
        )
    return grid


def _line(waiters: Sequence[Waiter]) -> Table:
    table = _table([(column.title, column.right, None) for column in COLUMNS], expand=False)
    for cells in rows_of(waiters):
        table.add_row(*map(_cell, cells))
    return table


def _resources(infos: Sequence[ResourceInfo]) -> Table:
    table = _table(
        [
            ("RESOURCE", False, 2),
            ("STATE", False, None),
            ("FOR", True, None),
            ("LEFT", True, None),
            ("OWNER", False, 4),
            ("NOTE", False, 6),
            ("ATTRIBUTES", False, 3),
        ]
    )
    for info in infos:
        table.add_row(
            _cell(info.name),
            Text(info.state, STYLES.get(info.state, "")),
            _cell(duration(info.since)),
            _cell(duration(info.remaining)),
            _cell(info.owner or ""),
            _cell(note(info.mark, info.reason)),
            _cell(attributes_text(info.attributes)),
        )
    return table


def _table(columns: Iterable[tuple[str, bool, int | None]], *, expand: bool = True) -> Table:
    """Without rows; a column is its title, whether it stands at the right, and its share of the width."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=expand)
    for title, right, ratio in columns:
        table.add_column(title, justify="right" if right else "left", ratio=ratio, no_wrap=True, overflow="ellipsis")
    return table


def _cell(text: str) -> Text:
    return Text(shown(text))
