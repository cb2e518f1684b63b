"""A document from a file: YAML, TOML or JSON, by its ending."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from relet.errors import ReletError


def read_document(path: str) -> Any:
    """What the file holds, as mappings, lists and plain values. No key may stand twice in a mapping.

    Raises:
        click.UsageError: it cannot be read, or is wrong; the text says where.
        ReletError: reading it needs a package that is not installed.
    """
    readers = {".yaml": _yaml, ".yml": _yaml, ".toml": _toml, ".json": _json}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        raise click.UsageError(f"{path}: the name of a definition file ends in {', '.join(readers)}")
    try:
        return reader(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def _json(text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in an object")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def _toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            raise _missing("tomli", "TOML") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise _missing("PyYAML", "YAML") from None

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        _refuse_doubles(node, set())
        return None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
    finally:
        loader.dispose()


def _refuse_doubles(node: Any, seen: set[int]) -> None:
    """Of a key that stands twice in a mapping PyYAML takes the last. ``seen`` has the nodes that were looked at."""
    if node is None or id(node) in seen or isinstance(node.value, str):
        return
    seen.add(id(node))
    lines: dict[str, int] = {}
    for child in node.value:
        key, value = child if isinstance(child, tuple) else (None, child)
        if key is not None and isinstance(key.value, str):
            line = key.start_mark.line + 1
            if key.value in lines:
                raise ValueError(f"line {line}: the key {key.value!r} stands in line {lines[key.value]} already")
            lines[key.value] = line
        _refuse_doubles(value, seen)


def _missing(package: str, kind: str) -> ReletError:
    return ReletError(f"{kind} files need {package}: pip install 'relet[cli]'")
