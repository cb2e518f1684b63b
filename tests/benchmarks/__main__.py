"""relet beside what you would use instead: one run, in turns, with the figures, tables and plots.

    python -m tests.benchmarks [--quick] [--only SECTION,…] [--server valkey-9.1]

The sections are pairs (one client), crowd (8 clients), doubles (double grants), handoffs (release and lapse to waiter),
asyncio, growth (to 1,000,000 resources, with their memory), waiters and storm (100,000 lapses at once, on a server for
each engine). The whole takes about 15 minutes, --quick two; the first run also makes an environment for each peer, with
pip, in ~/.cache/relet-benchmarks. Each section writes
docker/figures/NAME.md and NAME.svg, and its blocks of the README; --quick writes into a temporary folder unless you say
--out. Needs the extra `benchmarks` (matplotlib).

The other figures have scripts of their own: tests.benchmarks.pairs, handoff, bounds, storm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.servers import SERVERS, Server

from .peers.crew import BARE, PEERS, RELET, Peer
from .report import README, write
from .sections.common import FULL, QUICK, Extent
from .sections.contention import contention
from .sections.handoffs import handoffs
from .sections.scale import growth, waiters
from .sections.storms import storms
from .sections.tasks import tasks
from .sections.throughput import alone, crowd

SECTIONS: dict[str, Callable[..., Any]] = {
    "pairs": alone,
    "crowd": crowd,
    "doubles": contention,
    "handoffs": handoffs,
    "asyncio": tasks,
    "growth": growth,
    "waiters": waiters,
    "storm": storms,
}
FIGURES = README.parent / "docker" / "figures"


def run(
    sections: Sequence[str],
    extent: Extent,
    server_name: str,
    out: Path,
    peers: Sequence[Peer] = PEERS,
    plots: bool = True,
    readme: Path | None = None,
) -> None:
    """Measures and writes; raises what a section raises, after the others' figures are written."""
    with Server.start(server_name) as server, server.client(socket_timeout=120) as client:
        info: Any = client.info("server")
        is_valkey = "valkey_version" in info
        shown = f"Valkey {info['valkey_version']}" if is_valkey else f"Redis {info['redis_version']}"
        for name in sections:
            start = time.monotonic()
            print(f"\n{name}", flush=True)
            section, versions = SECTIONS[name](client, server.url, extent, peers, say)
            write(out, name, section, shown, versions or own_versions(), plots, readme)
            print(f"  {time.monotonic() - start:.0f} s", flush=True)


def say(line: str) -> None:
    print(f"  {line}", flush=True)


def own_versions() -> dict[str, str]:
    from importlib.metadata import version

    return {package: version(package) for package in RELET.counts}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes; figures are rough")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument(
        "--peers", help="only peers whose name has one of these words; relet and SPOP + SADD are always there"
    )
    parser.add_argument("--server", default="valkey-9.1", choices=sorted(SERVERS))
    parser.add_argument("--out", type=Path, help="the folder for tables and plots")
    parser.add_argument("--no-plots", action="store_true", help="tables only, without matplotlib")
    options = parser.parse_args()
    sections = options.only.split(",")
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        parser.error(f"--only: there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    words = options.peers.lower().split(",") if options.peers else [""]
    peers = [peer for peer in PEERS if peer in (RELET, BARE) or any(word in peer.name.lower() for word in words)]
    if not options.no_plots and find_spec("matplotlib") is None:
        parser.error("plots need matplotlib: pip install 'relet[benchmarks]', or give --no-plots")
    usual = not options.quick and not options.peers and options.out is None
    out = options.out or (FIGURES if usual else Path(tempfile.mkdtemp(prefix="relet-benchmarks-")))
    extent = QUICK if options.quick else FULL
    run(sections, extent, options.server, out, peers, not options.no_plots, README if usual else None)
    for name in sections:
        print(f"\n{(out / f'{name}.md').read_text()}")
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
