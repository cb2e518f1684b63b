"""A short campaign with every nemesis mixed, the command, and what it says of nemeses.

RELET_TESTS_FAULTS_SECONDS=300    how long each campaign is (default: 8)
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import campaign, children, report
from tests.faults.checker import PROMISES
from tests.faults.nemeses import NEMESES, chosen
from tests.helpers import missing
from tests.servers import Unavailable

SECONDS = float(os.environ.get("RELET_TESTS_FAULTS_SECONDS", "8"))


@pytest.mark.timeout(180 + 2 * SECONDS)
@pytest.mark.parametrize("where", ["valkey-9.1", "redis-7.0", "cluster-valkey-9.1"])
def test_every_promise_is_kept_while_every_nemesis_strikes(where: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    try:
        outcome = campaign.run(where, "all", SECONDS, seed=seed, keep=tmp_path)
    except Unavailable as reason:
        missing(str(reason))
    verdict = outcome.verdict
    kept = outcome.history
    assert verdict.good, f"{report.verdict(verdict)}\n{kept}"
    assert verdict.struck, "no nemesis struck"
    assert verdict.pairs, "no two leases of one resource were held against each other"
    assert verdict.writes[True], "nobody wrote to the register"
    assert kept is not None
    assert campaign.replay(kept) == verdict
    for name, why in outcome.left_out.items():
        print(f"left out: {name}: {why}")


def test_the_command_lists_every_nemesis() -> None:
    command = [sys.executable, "-m", "tests.faults", "--list"]
    listed = subprocess.run(command, cwd=children.ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")] == list(NEMESES)


@pytest.mark.parametrize("nemesis", NEMESES.values(), ids=list(NEMESES))
def test_a_nemesis_says_what_is_outside_the_promise_if_and_only_if_it_voids_one(nemesis: type) -> None:
    assert nemesis.voids <= set(PROMISES)  # type: ignore[attr-defined]
    assert (nemesis.outside == "nothing") == (not nemesis.voids)  # type: ignore[attr-defined]
    assert (nemesis.promised == "everything") == (not nemesis.voids)  # type: ignore[attr-defined]
    assert not nemesis.voids & {"fence", "older"}, "fences are promised under all of them"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("names", "ground"), [("earthquake", "pair"), ("failover", "shards"), ("move-slots", "pair")])
def test_a_nemesis_that_there_is_not(names: str, ground: str) -> None:
    with pytest.raises(ValueError, match=names):
        chosen(names, ground)
