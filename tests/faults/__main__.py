"""The command: runs a campaign, or judges a history again.

Exit codes: 0 every promise was kept, 1 one was broken, 2 usage, 3 this machine cannot have the server.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.servers import Unavailable

from . import campaign, report
from .broken import BREAKS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--list", action="store_true", help="show the nemeses, and what is promised under each")
    parser.add_argument("--server", default="valkey-9.1", help="redis-7.0, valkey-9.1, …, cluster-valkey-9.1, …")
    parser.add_argument("--nemesis", default="all", metavar="NAMES", help="names with commas; all; promised; none")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--clients", type=int, default=8, help="processes, of three sessions each")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the history there, also a good one")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="judge a history that was kept")
    parser.add_argument("--break", dest="broken", choices=sorted(BREAKS), help="break relet, to see that it is noticed")
    options = parser.parse_args()
    if options.list:
        print(report.nemeses())
        return 0
    if options.replay:
        verdict = campaign.replay(options.replay)
        print(report.verdict(verdict))
        return int(not verdict.good)
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    try:
        outcome = campaign.run(
            options.server,
            options.nemesis,
            options.seconds,
            seed=seed,
            clients=options.clients,
            keep=options.keep,
            break_=options.broken or "",
        )
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 3
    except ValueError as error:
        parser.error(str(error))
    for name, why in outcome.left_out.items():
        print(f"LEFT OUT: {name}: {why}")
    print(report.verdict(outcome.verdict))
    if outcome.history:
        print(f"history: {outcome.history} (python -m tests.faults --replay {outcome.history})")
    return int(not outcome.verdict.good)


if __name__ == "__main__":
    sys.exit(main())
