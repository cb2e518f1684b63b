"""The benchmark itself, with numbers so small that the figures mean nothing: it runs, and writes what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.__main__ import SECTIONS, main, run
from tests.benchmarks.peers.crew import BARE, RELET, Failed, Peer, crew
from tests.benchmarks.report import show
from tests.benchmarks.sections.common import TINY, Section, Table, spread
from tests.servers import Server

NAIVE = Peer("naive", "adapters:Naive", waits=False)


def cells(page: str, name: str) -> list[list[str]]:
    """The rows of a page's tables that are about ``name``."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] == name]


def test_every_section_runs_and_writes_a_page(tmp_path: Path) -> None:
    run(list(SECTIONS), TINY, "valkey-9.1", tmp_path, [RELET, BARE], plots=False)
    pages = {name: (tmp_path / f"{name}.md").read_text() for name in SECTIONS}
    for name in ("pairs", "crowd", "doubles", "handoffs", "asyncio"):
        assert cells(pages[name], "relet"), name
    assert len(cells(pages["pairs"], "relet")) == len(TINY.sizes)
    assert [row[2:] for row in cells(pages["doubles"], "relet")] == [["0", "0"]]
    assert [row[0] for row in cells(pages["growth"], "40")] == ["40", "40"]
    assert cells(pages["waiters"], "3")
    assert {row[1] for row in cells(pages["storm"], "redis-7.0")} == {"nobody", "listener", "two listeners"}
    assert "left out" not in "".join(page for name, page in pages.items() if name != "storm")  # RedisGears 1.2 may be


def test_a_peer_that_cannot_be_had_is_said_to_be_left_out(tmp_path: Path) -> None:
    broken = Peer("broken", "adapters:NoSuchAdapter")
    run(["doubles"], TINY, "valkey-9.1", tmp_path, [RELET, BARE, broken], plots=False)
    page = (tmp_path / "doubles.md").read_text()
    assert "broken: **left out**, AttributeError" in page
    assert not cells(page, "broken")


def test_the_referee_sees_two_holders_of_one_resource() -> None:
    with Server.start("valkey-9.1") as server, crew([NAIVE], server.url, 1, print) as hired:
        (worker,) = hired.workers[NAIVE]
        worker.ask("open", label="seen", size=1, ttl=60)
        server.client().set("referee:seen:seen:resource-0", 1)  # somebody else is in
        answer = worker.ask("contend", seconds=0.05, label="seen", limit=1)
        assert answer["grants"] == answer["doubles"] > 0


def test_a_worker_that_fails_says_why() -> None:
    with Server.start("valkey-9.1") as server, crew([RELET], server.url, 1, print) as hired:
        (worker,) = hired.workers[RELET]
        with pytest.raises(Failed, match="relet: ValueError: a pool's name"):
            worker.ask("open", label="no:colon", size=1, ttl=60)


def test_the_readme_gets_the_tables_whose_block_it_has(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- figures pairs 2 -->\nold\n<!-- /figures -->\nb\n")
    show(readme, "pairs", Section("", [Table("one", ["x"], []), Table("two", ["y"], [["1"]])]))
    assert readme.read_text() == "a\n<!-- figures pairs 2 -->\n**two**\n\n| y |\n|---|\n| 1 |\n<!-- /figures -->\nb\n"


def test_an_unknown_section_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "pears"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "there is no section 'pears'" in capsys.readouterr().err


def test_a_spread_is_median_and_quartiles() -> None:
    assert spread([3, 1, 2, 4, 5]) == "3.00 (1.50 to 4.50)"
    assert spread([0.001, 0.002]) == "0.001 / 0.002"
