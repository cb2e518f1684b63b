"""RedisGears 1.2: gears/reclaim.py, sent as text, registers itself on the expiry of tracking keys."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

from relet.engines.base import Command, CommandFlow, Deployment, is_unknown_command
from relet.errors import ReletError
from relet.scripts import gears

_CONSTANT = r'^{} = "([^"\n]*)"$'


class Gears1:
    """The engine ``"redisgears-1"``."""

    def deploy(self, namespace: str) -> CommandFlow[Deployment | None]:
        older = yield from _registrations(namespace)
        if older is None:
            return None
        text = source(namespace)
        yield from _execute(text)
        yield from _remove_doubles(namespace)
        version, digest = constant(text, "VERSION"), constant(text, "HASH")
        detail = f"RedisGears 1 takes lapsed leases of namespace {namespace!r} back by itself (version {version})"
        return Deployment("redisgears-1", namespace, detail, version, digest, len(older))

    def undeploy(self, namespace: str) -> CommandFlow[int | None]:
        ours = yield from _registrations(namespace)
        if ours is None:
            return None
        if ours:
            yield from _require_master()
        removed = 0
        for _, identity in ours:
            removed += yield from _unregister(identity)
        return removed


@cache
def source(namespace: str) -> str:
    """The text of gears/reclaim.py for ``namespace``, whose characters (see ``check_namespace``) need no escape."""
    text = (gears() / "reclaim.py").read_text("utf-8")
    changed, count = re.subn(_CONSTANT.format("NAMESPACE"), f'NAMESPACE = "{namespace}"', text, flags=re.MULTILINE)
    if count != 1:
        raise ReletError(f"gears/reclaim.py has {count} lines that set NAMESPACE, not 1: reinstall relet")
    return changed


def constant(text: str, name: str) -> str:
    """The text that reclaim.py gives to ``name``."""
    match = re.search(_CONSTANT.format(name), text, re.MULTILINE)
    if match is None:
        raise ReletError(f"gears/reclaim.py does not set {name}: reinstall relet, or run gears/bundle.py in a checkout")
    return match[1]


def _registrations(namespace: str) -> CommandFlow[list[tuple[str, str]] | None]:
    """(description, id) of each registration for ``namespace``; None on a server without RedisGears 1."""
    try:
        reply = yield Command(("RG.DUMPREGISTRATIONS",))
    except Exception as error:
        if is_unknown_command(error):
            return None
        raise
    ours = []
    for registration in reply:
        fields = registration if isinstance(registration, dict) else _pairs(registration)
        description = _text(fields[b"desc"])
        if description.startswith(f"relet reclaim namespace={namespace} "):
            ours.append((description, _text(fields[b"id"])))
    return ours


def _execute(text: str) -> CommandFlow[None]:
    """Run ``text`` in the server, which answers OK or [results, errors], or an error reply where it raised."""
    try:
        # A shard takes part in registrations only once it was told to look at its cluster. Elsewhere this does nothing.
        yield Command(("RG.REFRESHCLUSTER",), everywhere=True)
        reply = yield Command(("RG.PYEXECUTE", text))
    except Exception as error:
        if type(error).__name__ != "ResponseError":  # no permission, connection lost, …: it says so itself
            raise
        raise ReletError(f"the server could not run gears/reclaim.py: {_raised(str(error))}") from error
    errors = reply[1] if isinstance(reply, list) else []
    if errors:
        raise ReletError(
            f"the server could not run gears/reclaim.py: {'; '.join(_raised(_text(each)) for each in errors)}"
        )


def _remove_doubles(namespace: str) -> CommandFlow[None]:
    """Two clients that deploy in one moment register twice, as neither sees the other's. Both keep the same one."""
    ours = yield from _registrations(namespace)
    for _, identity in sorted(ours or [])[:-1]:
        yield from _unregister(identity)


def _unregister(identity: str) -> CommandFlow[bool]:
    """False if somebody else was faster."""
    try:
        yield Command(("RG.UNREGISTER", identity))
    except Exception as error:
        if "not registered" in str(error):
            return False
        raise
    return True


def _require_master() -> CommandFlow[None]:
    role = yield Command(("ROLE",))
    if role[0] != b"master":
        raise ReletError("this server is a replica: undeploy on its master, whose registrations are replicated")


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _raised(text: str) -> str:
    """What was raised: the last line of the traceback, which comes as the text of a Python list of lines."""
    try:
        lines = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return str(lines[-1]).strip() if isinstance(lines, list) and lines else text
