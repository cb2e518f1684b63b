"""Names and attributes from a file: one name a line, CSV, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from relet.names import check_attributes, check_resource

Names = dict[str, dict[str, Any] | None]
"""Attributes by name; None leaves those of the pool as they are."""

FORMATS = ("lines", "csv", "jsonl")
_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}

_Entry = tuple[int, object, object]
"""Line, name, and attributes or None."""


def read_names(path: str, form: str | None) -> Names:
    """The names in a file, or on standard input with ``-``; ``form`` is by default what the file's ending says.

    Raises:
        click.UsageError: it cannot be read, or a line is wrong; the text says which.
    """
    place = "standard input" if path == "-" else path
    form = form or _ENDINGS.get(Path(path).suffix.lower(), "lines")
    entries = {"lines": _lines, "csv": _csv, "jsonl": _jsonl}[form](_text(path, place), place)
    names: Names = {}
    for line, name, attributes in entries:
        try:
            check_resource(name)
            if attributes is not None:
                check_attributes(str(name), attributes)
        except (TypeError, ValueError) as error:
            raise _wrong(place, line, str(error)) from None
        names[name] = attributes  # type: ignore[index, assignment]  # both were checked just now
    return names


def _text(path: str, place: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"cannot read {place}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _wrong(place, raw.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from None


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty, split at LF or CRLF alone: a name may hold U+2028 and its like."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.removesuffix("\r")


def _lines(text: str, _: str) -> Iterator[_Entry]:
    for number, line in _split(text):
        yield number, line, None


def _csv(text: str, place: str) -> Iterator[_Entry]:
    """A header, then rows; the column ``name``, or else the first, has the name, and the others are attributes."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next((row for row in reader if row), [])
        start = header.index("name") if "name" in header else 0
        others = [title for column, title in enumerate(header) if column != start]
        if "" in others or len(set(others)) < len(others):
            raise _wrong(place, reader.line_num, "every column needs a title of its own")
        for row in reader:
            if not row:
                continue
            if len(row) > len(header):
                raise _wrong(place, reader.line_num, f"{len(row)} cells under {len(header)} titles")
            cells = dict(zip(header, row, strict=False))
            name = cells.pop(header[start], "")
            # An empty cell says that the resource does not have this attribute.
            attributes = {title: cell for title, cell in cells.items() if cell}
            yield reader.line_num, name, attributes if others else None
    except csv.Error as error:
        raise _wrong(place, reader.line_num, f"not CSV: {error}") from None


def _jsonl(text: str, place: str) -> Iterator[_Entry]:
    """An object a line: ``name``, and either ``attributes`` with an object or the attributes themselves."""
    for number, line in _split(text):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _wrong(place, number, f"not JSON: {error}") from None
        if not isinstance(entry, dict) or "name" not in entry:
            raise _wrong(place, number, 'not an object with a "name", as in {"name": "gpu-0", "memory": 80}')
        name = entry.pop("name")
        if not isinstance(entry.get("attributes"), dict):
            yield number, name, entry or None
        elif len(entry) == 1:
            yield number, name, entry["attributes"]
        else:
            raise _wrong(place, number, 'attributes stand either in "attributes" or beside "name", not in both')


def _wrong(place: str, line: int, text: str) -> click.UsageError:
    return click.UsageError(f"{place}:{line}: {text}")
