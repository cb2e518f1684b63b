"""No engine: lapsed leases come back with the next call that looks at the pool. Asked where no engine was found."""

from __future__ import annotations

from relet.engines.base import Command, CommandFlow, Deployment, is_unknown_command


def no_engine(namespace: str) -> CommandFlow[Deployment]:
    """Says what the server lacks. Changes nothing."""
    if (yield from _has_gears2()):
        lacks = "the server has RedisGears 2, for which this version of relet has no functions"
    else:
        lacks = "the server has no RedisGears"
    still = "come back with the next call that looks at their pool, not by themselves"
    return Deployment("none", namespace, f"{lacks}: lapsed leases of namespace {namespace!r} {still}")


def _has_gears2() -> CommandFlow[bool]:
    try:
        yield Command(("TFUNCTION", "LIST"))
    except Exception as error:
        if is_unknown_command(error):
            return False
        if type(error).__name__ in ("ResponseError", "NoPermissionError"):
            return True  # it knows the command, though it did not answer
        raise
    return True
