"""What goes to standard output: tables for people, JSON for programs, and nothing that a terminal would obey.

Names, owners and attributes were stored by anybody. For people, every character that is not printable (escape codes,
marks that turn the direction of writing, odd spaces) is shown as an escape; JSON is plain ASCII.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

PAGE = 500
"""Rows of a table that are laid out together; the rest follows in the widths of the first."""
LONG_JOB = 1000
"""Items from which on a job shows its progress."""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    right: bool = False
    styles: Mapping[str, str] = {}
    """Rich styles for certain cells, by their text."""


def shown(text: str) -> str:
    """The text with everything escaped that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def as_json(value: object) -> str:
    """JSON in ASCII, on one line."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:  # NaN, planted by somebody else: JSON has no such number
        text = json.dumps(_finite(value))
    return text.replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """Attributes for people: compact JSON, or nothing."""
    return json.dumps(attributes, ensure_ascii=False) if attributes else ""


def note(mark: str | None, reason: str | None) -> str:
    """A mark and its reason: ``drain: broken fan``."""
    return ": ".join(text for text in (mark, reason) if text)


def duration(seconds: float | None) -> str:
    """A time for people: two units at most."""
    if seconds is None:
        return ""
    if seconds < 59.95:  # what would round to 60.0 s is a minute
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def counted(number: int, noun: str) -> str:
    """``1 name``, ``2 names``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """A line for people."""
    print(shown(text))


def print_json(value: object) -> None:
    print(as_json(value))


def print_array(values: Iterable[object]) -> None:
    """A JSON array, an element a line, printed as it comes in."""
    separator = "["
    for value in values:
        print(f"{separator}{as_json(value)}", end="")
        separator = ",\n "
    print("[]" if separator == "[" else "]")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """A label and a value a line."""
    print_table([Column(""), Column("")], fields, header=False)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, header: bool = True) -> None:
    """A table: coloured and wrapped on a terminal; elsewhere plain, complete, a line a row."""
    safe = ([shown(cell) for cell in row] for row in rows)
    pages: Iterator[list[list[str]]] = iter(lambda: list(islice(safe, PAGE)), [])
    first = next(pages, [])
    write = _rich_pages if sys.stdout.isatty() else _plain_pages
    write(columns, chain([first], pages), header)


def _plain_pages(columns: Sequence[Column], pages: Iterable[list[list[str]]], header: bool) -> None:
    from rich.cells import cell_len

    widths: list[int] | None = None
    for page in pages:
        lines = [[column.title for column in columns], *page] if header and widths is None else page
        if widths is None:
            widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            padded = []
            for cell, width, column in zip(line, widths, columns, strict=True):
                gap = " " * (width - cell_len(cell))
                padded.append(gap + cell if column.right else cell + gap)
            print("  ".join(padded).rstrip())


def _rich_pages(columns: Sequence[Column], pages: Iterable[list[list[str]]], header: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for page in pages:
        table = Table(box=None, pad_edge=False, show_header=header, header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(
                Text(column.title),
                justify="right" if column.right else "left",
                overflow="fold",
                style="dim" if not header and index == 0 else "",
            )
        for row in page:
            table.add_row(*(Text(cell, column.styles.get(cell, "")) for cell, column in zip(row, columns, strict=True)))
        console.print(table)
        header = False


@contextmanager
def progress(total: int, what: str, *, quiet: bool = False) -> Iterator[Callable[[int], object] | None]:
    """A bar on the terminal for a long job; its callback takes the number of items done so far."""
    if quiet or total < LONG_JOB or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    layout = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*layout, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
