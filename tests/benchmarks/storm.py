"""100,000 leases lapse in one instant and nobody calls: when all are free again, and how the server answers meanwhile.

    python -m tests.benchmarks.storm [--leases 100000] [--only TEXT]

A line for each server and engine, each server on its own:

- all free: ms from the deadline, which all leases share, until the last resource is in `free`.
- keys gone: ms until the last tracking key has expired, and with it sent its event.
- PING: one is due each millisecond, from the deadline until both are over. Its latency counts from when it was due, so
  that a stall is in all the PINGs that it held up, not in one.

"nobody" is the server alone, for comparison: what it takes to expire so many keys, and nothing comes back. Listeners
are `relet listen --set-notifications` in processes of their own, on this same machine.

RELET_GEARS_MODULE and RELET_GEARS_PLUGIN add RedisGears 1.2 (see docker/).
"""

from __future__ import annotations

import argparse
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import redis

from relet import Pool, deploy
from tests.command import COMMAND, environment
from tests.helpers import eventually
from tests.lapses import lease_many
from tests.servers import Server, Unavailable

PING_EVERY_S = 0.001
LEAD_S, LEAD_S_EACH = 1.0, 50e-6  # from when the first deadline is set to the deadline; more for each lease
GIVE_UP_S = 120.0
POOL = "storm"
SILENT: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# Moves the deadlines of a page to ARGV 1, those of the tracking keys too.
_SET_DEADLINE = """
local page = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'LIMIT', 0, 1000)
for i = 1, #page do
  redis.call('ZADD', KEYS[1], ARGV[1], page[i])
  redis.call('PEXPIREAT', ARGV[2] .. page[i], ARGV[1])
end
return #page
"""


class Case(NamedTuple):
    server: str
    engine: str
    listeners: int = 0


CASES = (
    Case("redis-6.2", "nobody"),
    Case("redis-7.0", "nobody"),
    Case("redis-stack-7.4", "nobody"),
    Case("gears-6.2", "RedisGears 1.2"),
    Case("gears-7.0", "RedisGears 1.2"),
    Case("redis-stack-7.4", "RedisGears 2"),
    Case("redis-7.0", "listener", 1),
    Case("redis-7.0", "two listeners", 2),
    Case("redis-8.2", "listener", 1),
    Case("valkey-9.1", "listener", 1),
)


class Outcome(NamedTuple):
    """ms."""

    all_free: float
    keys_gone: float
    ping_median: float
    ping_99: float
    ping_longest: float


@contextmanager
def engine_of(case: Case, server: Server, client: redis.Redis) -> Iterator[None]:
    """Whoever takes lapsed leases back, ready to do so."""
    if case.engine.startswith("RedisGears"):
        deploy(client)
    with ExitStack() as stack:
        for _ in range(case.listeners):
            command = [*COMMAND, "--url", server.url, "listen", POOL, "--set-notifications"]
            process = stack.enter_context(subprocess.Popen(command, env=environment(), **SILENT))
            stack.callback(process.terminate)
        channel = "__keyevent@0__:expired"
        eventually(lambda: client.pubsub_numsub(channel)[0][1] == case.listeners, "the listeners")
        yield


def measure(case: Case, count: int) -> Outcome:
    with Server.start(case.server) as server, server.client() as client, engine_of(case, server, client):
        pool = Pool(client, POOL)
        lease_many(client, pool, count)
        others = client.dbsize() - count
        keys = pool._requests.keys
        set_deadline = client.register_script(_SET_DEADLINE)
        seconds, micros = client.time()
        lead_s = LEAD_S + LEAD_S_EACH * count
        deadline_ms = seconds * 1000 + micros // 1000 + int(lead_s * 1000)
        while set_deadline(keys=[keys.root + b":leased"], args=[deadline_ms, keys.tracking]):
            pass
        if time.time() * 1000 > deadline_ms - 100:
            raise SystemExit(f"this machine needs more than {lead_s} s to set {count} deadlines: raise LEAD_S_EACH")
        start = deadline_ms / 1000 - time.time() + time.monotonic()
        with closing(Probe(server)) as probe:
            outcome = watch(probe, keys.root.decode(), start, count, others, case.engine == "nobody")
        stats = pool.stats()
        assert (stats.free, stats.leased, stats.lapsed) == (count, 0, count), stats
        return outcome


class Probe:
    """A connection that sends without waiting for the replies, which come in the order of what was sent."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def send(self, *commands: str) -> None:
        self._socket.sendall("".join(f"{command}\r\n" for command in commands).encode())

    def replies(self, until: float) -> list[bytes]:
        """The lines that have come, as soon as there are any; none if there are none by then."""
        if not select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
            return []
        *lines, self._unread = (self._unread + self._socket.recv(1 << 16)).split(b"\r\n")
        return lines

    def close(self) -> None:
        self._socket.close()


def watch(probe: Probe, root: str, start: float, count: int, others: int, nothing_comes_back: bool) -> Outcome:
    """From ``start``, when the leases lapse, until all is over; ``others`` keys are no tracking keys."""
    free = start if nothing_comes_back else 0.0
    gone = 0.0
    latencies: list[float] = []
    due, sent = start, deque[float]()
    replies: list[bytes] = []
    while sent or not (free and gone):
        now = time.monotonic()
        while due <= now and not (free and gone):
            probe.send("PING", f"ZCARD {root}:free", "DBSIZE")
            sent.append(due)
            due += PING_EVERY_S
        replies += probe.replies(due)
        now = time.monotonic()
        while len(replies) >= 3:
            (_, freed, left), replies = replies[:3], replies[3:]
            latencies.append(now - sent.popleft())
            free = free or (now if int(freed[1:]) == count else 0.0)
            gone = gone or (now if int(left[1:]) <= others + 1 else 0.0)  # `free` may be a key more
        if now - start > GIVE_UP_S:
            raise SystemExit(f"not over after {GIVE_UP_S} s")
    latencies.sort()
    pings = (latencies[len(latencies) * 50 // 100], latencies[len(latencies) * 99 // 100], latencies[-1])
    return Outcome(*(1000 * each for each in (free - start, gone - start, *pings)))


def outcomes(count: int, only: str = "") -> Iterator[tuple[Case, Outcome | str]]:
    """Each case in turn, of those whose line has the text ``only``; why, where one cannot be had here."""
    for case in CASES:
        if only in f"{case.server} {case.engine}":
            try:
                yield case, measure(case, count)
            except Unavailable as reason:
                yield case, str(reason)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--leases", type=int, default=100_000)
    parser.add_argument("--only", default="", help="the cases whose line has this text")
    arguments = parser.parse_args()
    print(f"{arguments.leases:,} leases lapse in one instant; ms")
    print(f"{'server':<16} {'engine':<15} {'all free':>9} {'keys gone':>10} {'PING p50':>9} {'p99':>8} {'longest':>8}")
    for case, found in outcomes(arguments.leases, arguments.only):
        if isinstance(found, str):
            print(f"{case.server:<16} {case.engine:<15} left out: {found}", flush=True)
            continue
        free = "-" if case.engine == "nobody" else f"{found.all_free:.0f}"
        print(
            f"{case.server:<16} {case.engine:<15} {free:>9} {found.keys_gone:>10.0f} "
            f"{found.ping_median:>9.2f} {found.ping_99:>8.1f} {found.ping_longest:>8.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
