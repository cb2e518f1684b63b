"""Pool and AsyncPool are one interface: the same names, parameters, defaults; only the await is another."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from relet import AsyncLease, AsyncPool, Lease, Pool
from relet.aio import AsyncCleaningBlock, AsyncLeaseBlock
from relet.holding import CleaningBlock, LeaseBlock

PAIRS = [(Pool, AsyncPool), (Lease, AsyncLease)]
AWAITED_ONLY = {"aclose", "__aenter__", "__aexit__"}
"""What only the one for asyncio has."""
AT_ONCE = {"cleaning", "events", "lease", "remaining", "resources"}
"""What is not awaited, but gives something that is, or sends nothing."""


def public(kind: type[Any]) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    plain = getattr(function, "__func__", function)
    return [(p.name, p.kind, p.default) for p in inspect.signature(plain).parameters.values()]


@pytest.mark.parametrize(("kind", "other"), PAIRS, ids=["Pool", "Lease"])
def test_the_same_names_parameters_and_defaults(kind: type[Any], other: type[Any]) -> None:
    ours, theirs = public(kind), public(other)
    assert set(theirs) - set(ours) <= AWAITED_ONLY
    assert set(ours) <= set(theirs)
    for name, member in ours.items():
        assert type(member) is type(theirs[name]), name
        if not isinstance(member, property):
            assert parameters(member) == parameters(theirs[name]), name
    assert parameters(kind.__init__)[:3] == parameters(other.__init__)[:3]


@pytest.mark.parametrize(("kind", "other"), PAIRS, ids=["Pool", "Lease"])
def test_what_is_awaited(kind: type[Any], other: type[Any]) -> None:
    for name, member in public(other).items():
        if isinstance(member, property) or name in AT_ONCE:
            continue
        assert inspect.iscoroutinefunction(getattr(other, name)), name
        assert name in AWAITED_ONLY or not inspect.iscoroutinefunction(getattr(kind, name)), name


def test_all_parameters_of_a_pool() -> None:
    assert parameters(Pool.__init__) == parameters(AsyncPool.__init__)
    assert parameters(Pool.from_url) == parameters(AsyncPool.from_url)


def test_blocks() -> None:
    """A pool, a lease and what ``lease()`` returns are for ``with``, or for ``async with``, never for both."""
    for kind in (Pool, Lease, LeaseBlock, CleaningBlock):
        assert hasattr(kind, "__enter__")
        assert not hasattr(kind, "__aenter__")
    for kind in (AsyncPool, AsyncLease, AsyncLeaseBlock, AsyncCleaningBlock):
        assert hasattr(kind, "__aenter__")
        assert not hasattr(kind, "__enter__")
