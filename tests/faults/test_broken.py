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
    "fence": ("none", "fence", "has the fence of"),
    "fence-on-loss": ("flushall", "fence", "whose fence is higher"),
    "deadline": ("none", "revived", "after its last deadline"),
    "two-trips": ("kill-clients", "surprise", "PoolDamaged"),
    "holder": ("none", "overlap", "ms together"),
}
"""Under which nemesis each break is noticed, and by what: the promise, and the words."""


@pytest.mark.parametrize("name", BREAKS)
def test_a_rule_taken_out_is_noticed(name: str, tmp_path: Path) -> None:
    nemesis, promise, words = NOTICED[name]
    found: set[str] = set()
    for time in range(TIMES):
        try:
            outcome = campaign.run("valkey-9.1", nemesis, SECONDS, seed=time, keep=tmp_path, break_=name)
        except Unavailable as reason:
            missing(str(reason))
        faults = outcome.verdict.faults
        if any(finding.promise == promise and words in finding.what for finding in faults):
            return
        found |= {finding.what[:200] for finding in faults}
    pytest.fail(f"{BREAKS[name].what}: noticed {found or 'nothing'} in {SECONDS * TIMES} s")
