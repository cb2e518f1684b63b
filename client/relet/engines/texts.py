"""The files under gears/ that are sent as text: bound to a namespace, and their constants read."""

from __future__ import annotations

import re

from relet.errors import ReletError
from relet.scripts import gears

_CONSTANT = r'^((?:const )?{} = )"([^"\n]*)"(;?)$'
"""As Python and JavaScript write it."""


def bound(file: str, namespace: str) -> str:
    """The text of gears/``file`` for ``namespace``, whose characters (see ``check_namespace``) need no escape."""
    return replaced((gears() / file).read_text("utf-8"), _CONSTANT.format("NAMESPACE"), rf'\1"{namespace}"\3', file)


def replaced(text: str, pattern: str, by: str, file: str) -> str:
    """The text with the one line of ``file`` that fits ``pattern`` written anew."""
    changed, count = re.subn(pattern, by, text, flags=re.MULTILINE)
    if count != 1:
        raise ReletError(f"gears/{file} has {count} lines like {pattern}, not 1: reinstall relet")
    return changed


def constant(text: str, name: str) -> str:
    """The text that a file gives to ``name``."""
    match = re.search(_CONSTANT.format(name), text, re.MULTILINE)
    if match is None:
        raise ReletError(f"a file under gears/ does not set {name}: reinstall relet, or run gears/bundle.py")
    return match[2]
