"""The checker is checked: with a rule of relet's taken out, the campaign must say so within a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import campaign
from tests.faults.broken import BREAKS
from tests.helpers import missing
from tests.servers import Unavailable

SECONDS, TIMES = 3, 12  # most are noticed by the hundred in the first three seconds

NOTICED = {
    "fence": ("none", "fence"),
    "fence-on-loss": ("flushall", "fence"),
    "deadline": ("none", "revived"),
    "two-trips": ("kill-clients", "surprise"),
    "holder": ("none", "overlap"),
}
"""Under which nemesis each break is noticed, and by what."""


@pytest.mark.parametrize("name", BREAKS)
def test_a_rule_taken_out_is_noticed(name: str, tmp_path: Path) -> None:
    nemesis, promise = NOTICED[name]
    found: set[str] = set()
    for time in range(TIMES):
        try:
            outcome = campaign.run("valkey-9.1", nemesis, SECONDS, seed=time, keep=tmp_path, break_=name)
        except Unavailable as reason:
            missing(str(reason))
        found |= {finding.promise for finding in outcome.verdict.faults}
        if promise in found:
            return
    pytest.fail(f"{BREAKS[name].what}: noticed {found or 'nothing'} in {SECONDS * TIMES} s")
