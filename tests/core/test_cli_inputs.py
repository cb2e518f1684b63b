"""Reading names and attributes from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from relet.cli.inputs import read_names


def written(folder: Path, ending: str, content: str | bytes) -> str:
    path = folder / f"names{ending}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize(
    ("ending", "content", "names"),
    [
        ("", "gpu-0\ngpu 1\r\n\n# no comment\n  spaced ", ["gpu-0", "gpu 1", "# no comment", "  spaced "]),
        (".txt", "\ufeffgpu-0\n", ["gpu-0"]),
        ("", "one\u2028line\n", ["one\u2028line"]),
        ("", "", []),
        (".csv", "name\ngpu-0\n\ngpu-1\n", ["gpu-0", "gpu-1"]),
        (".csv", "", []),
    ],
)
def test_names_without_attributes(tmp_path: Path, ending: str, content: str, names: list[str]) -> None:
    assert read_names(written(tmp_path, ending, content), None) == dict.fromkeys(names)


@pytest.mark.parametrize(
    ("ending", "content", "expected"),
    [
        (".csv", "host,zone\na,x\nb,\n", {"a": {"zone": "x"}, "b": {}}),
        (".CSV", 'zone,name\nx,"a,""b"""\n', {'a,"b"': {"zone": "x"}}),
        (".csv", "name,serial\na,007\nb\n", {"a": {"serial": "007"}, "b": {}}),
        (".jsonl", '{"name": "a", "memory": 80}\n\n{"name": "b"}\n', {"a": {"memory": 80}, "b": None}),
        (".json", '{"name": "a", "attributes": {"x": [1]}}', {"a": {"x": [1]}}),
        (".ndjson", '{"name": "a", "attributes": {}}', {"a": {}}),
        (".jsonl", '{"name": "a", "attributes": "many"}', {"a": {"attributes": "many"}}),
    ],
)
def test_names_with_attributes(tmp_path: Path, ending: str, content: str, expected: dict[str, Any]) -> None:
    assert read_names(written(tmp_path, ending, content), None) == expected


def test_the_format_given_wins_over_the_ending(tmp_path: Path) -> None:
    assert read_names(written(tmp_path, ".csv", "name,zone\n"), "lines") == {"name,zone": None}


@pytest.mark.parametrize(
    ("ending", "content", "place", "reason"),
    [
        ("", "ok\nbad\tname\n", ":2: ", "control characters"),
        ("", b"ok\nfine\nb\xff\n", ":3: ", "not UTF-8"),
        ("", "x" * 513, ":1: ", "1 to 512 bytes"),
        (".csv", "name,zone\na,b,c\n", ":2: ", "3 cells under 2 titles"),
        (".csv", "name,zone,zone\na,b,c\n", ":1: ", "title of its own"),
        (".csv", "name,\na,b\n", ":1: ", "title of its own"),
        (".csv", 'name\n"a"b\n', ":2: ", "not CSV"),
        (".csv", "zone,name\nx\n", ":2: ", "1 to 512 bytes"),
        (".jsonl", '{"name": "a"}\n{"name": \n', ":2: ", "not JSON"),
        (".jsonl", "[" * 100_000, ":1: ", "not JSON"),
        (".jsonl", '["a"]', ":1: ", "not an object"),
        (".jsonl", '{"title": "a"}', ":1: ", "not an object with a"),
        (".jsonl", '{"name": 7}', ":1: ", "is text, not 7"),
        (".jsonl", '{"name": "\\ud800"}', ":1: ", "lone surrogate"),
        (".jsonl", '{"name": "a", "x": NaN}', ":1: ", "no JSON object"),
        (".jsonl", '{"name": "a", "attributes": {}, "x": 1}', ":1: ", "not in both"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, ending: str, content: str | bytes, place: str, reason: str) -> None:
    path = written(tmp_path, ending, content)
    with pytest.raises(click.UsageError) as caught:
        read_names(path, None)
    assert caught.value.message.startswith(path + place)
    assert reason in caught.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(click.UsageError, match=f"cannot read {path}: "):
            read_names(str(path), None)
