"""One suite for every server and engine, and a table of what became of each at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from relet import Pool
from tests.conformance.pairs import PAIRS, Pair
from tests.conformance.place import Home, Place
from tests.helpers import missing
from tests.servers import SERVERS, Unavailable

Outcomes = dict[Pair, Counter[str]]
OUTCOMES = pytest.StashKey[Outcomes]()
PROPERTY = "conformance pair"
BY_NAME = {pair.name: pair for pair in PAIRS}


@pytest.fixture(scope="session")
def homes() -> Iterator[dict[str, Home]]:
    """Those that run, by place."""
    started: dict[str, Home] = {}
    with ExitStack() as stack:
        yield started
        for home in started.values():
            stack.callback(home.stop)


@pytest.fixture(scope="session", params=PAIRS, ids=[pair.name for pair in PAIRS])
def running(request: pytest.FixtureRequest, homes: dict[str, Home]) -> Iterator[Place]:
    """The pair, with its engine at work. All tests of a pair run in a row."""
    pair: Pair = request.param
    try:
        home = homes.get(pair.place) or homes.setdefault(pair.place, Home(pair))
    except Unavailable as reason:
        if SERVERS[pair.server].engine == "redisgears-1":  # which no machine can get by itself
            pytest.skip(str(reason))
        missing(str(reason))
    one = Place(pair, home)
    yield one
    one.close()


@pytest.fixture
def place(running: Place) -> Iterator[Place]:
    """The same for one test, which leaves no key behind."""
    yield running
    left = running.clean_up()
    assert not left


@pytest.fixture
def pool(place: Place) -> Pool:
    return place.pool()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """So that the report tells its pair, whatever becomes of it."""
    parameters = getattr(item, "callspec", None)
    pair = parameters.params.get("running") if parameters else None
    if isinstance(pair, Pair):
        item.user_properties.append((PROPERTY, pair.name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    outcomes: Outcomes = {}
    for kind in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(kind, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    outcomes.setdefault(BY_NAME[value], Counter())[kind] += 1
    if outcomes:
        terminalreporter.section("conformance: what a user can observe, server by engine")
        for line in table(outcomes):
            terminalreporter.write_line(line)


def table(outcomes: Outcomes) -> list[str]:
    """A line for each place, a column for each engine."""
    places = list(dict.fromkeys(pair.place for pair in PAIRS if pair in outcomes))
    engines = list(dict.fromkeys(pair.engine for pair in PAIRS if pair in outcomes))
    cells = {
        (pair.place, pair.engine): ", ".join(f"{number} {kind}" for kind, number in counted.items())
        for pair, counted in outcomes.items()
    }
    rows = [["", *engines], *([place, *(cells.get((place, engine), "") for engine in engines)] for place in places)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
