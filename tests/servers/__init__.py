"""Real Redis servers for the tests: obtained once, started on this machine alone, ended with the test process.

    with Server.start("redis-7.0") as server:
        server.client().ping()

A server that this machine cannot have raises `Unavailable`, whose text is the reason to skip with.
"""

from .catalogue import SERVERS, Spec
from .cluster import Cluster
from .errors import ServerFailed, Unavailable
from .fetch import Binary, binary
from .process import Server
from .waiting import wait_until

__all__ = ["SERVERS", "Binary", "Cluster", "Server", "ServerFailed", "Spec", "Unavailable", "binary", "wait_until"]
