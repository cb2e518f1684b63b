"""Tests of waiting: ``async def`` tests run in a loop of their own, once for each driver."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from tests.servers import Server
from tests.waiting.drivers import DRIVERS, World, world_of


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """``threads`` (Pool) or ``tasks`` (AsyncPool)."""
    return str(request.param)


@pytest.fixture
def world(driver: str, server: Server) -> World:
    """The session's server under each driver."""
    return world_of(driver, server)


@pytest.fixture
def no_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the line now and then: what is served was told, or kept its own clock."""
    monkeypatch.setattr("relet.line.ATTEND_S", 3600.0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        world = arguments.get("world")
        if isinstance(world, World):
            async with world:
                await pyfuncitem.obj(**arguments)
        else:
            await pyfuncitem.obj(**arguments)

    asyncio.run(run())
    return True
