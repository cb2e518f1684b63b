"""Free ports on 127.0.0.1."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel serves outgoing connections (32768 and up), also with BUS_OFFSET added. From
# inside that range a stopped server's port can go to any client, even to the one that is trying to reconnect to it.
LOWEST, HIGHEST = 11_000, 20_999

BUS_OFFSET = 10_000  # a cluster node also listens on its port plus this


def free_port() -> int:
    """A port that nothing is bound to now, nor to its cluster bus port. It may be taken before it is used."""
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST + 1), 1000):
        if _is_free(port) and _is_free(port + BUS_OFFSET):
            return port
    raise OSError(f"no free port found between {LOWEST} and {HIGHEST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
