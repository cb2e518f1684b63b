"""What happened, as JSON lines: one file for each process while it happens, one file for all once it is kept.

Every line has `kind` and `t`, seconds of CLOCK_MONOTONIC, which all processes of a machine share. The kinds:

    plan     what was run: pools (name -> resources), server, seed, …
    call     an operation begins: id, verb, pool, and what it was asked with
    answer   it is over: id, result ("ok", "none", "lost", "refused", "error"), and what came back
    held     a lease that is renewed in the background counts on `until` now
    write    the register's own record: pool, resource, fence, token, accepted
    fault    what a nemesis did from `t` to `until`, and which promises do not hold over it (`voids`)
    census   what is left of a pool at the end

A line is written whole, by one system call, before the operation goes on: a process that is killed in the middle of an
operation leaves its call, and no answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]

SUFFIX = ".jsonl"


def now() -> float:
    """Seconds, on the clock of every line."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class History:
    """One process's file. Threads may share it."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, kind: str, at: float | None = None, **fields: Any) -> float:
        """Writes a line, with the time `at` or now, and answers the time."""
        t = now() if at is None else at
        os.write(self._file, (json.dumps({"kind": kind, "t": t, **fields}) + "\n").encode())
        return t

    def close(self) -> None:
        os.close(self._file)


def read(files: Iterable[Path]) -> list[Event]:
    """The lines of all files in the order of their times."""
    events = [event for file in files for event in _lines(file)]
    events.sort(key=lambda event: event["t"])
    return events


def read_folder(folder: Path) -> list[Event]:
    return read(sorted(folder.glob("*" + SUFFIX)))


def keep(events: Iterable[Event], file: Path) -> None:
    """Writes one file, which `read` reads again."""
    with open(file, "w") as out:
        out.writelines(json.dumps(event) + "\n" for event in events)


def _lines(file: Path) -> Iterator[Event]:
    with open(file) as lines:
        for line in lines:
            if line.endswith("\n"):  # whoever was killed may have left half a line
                yield json.loads(line)
