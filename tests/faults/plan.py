"""What a campaign runs, as one file that every process of it reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

LONGEST_TTL_S = 1.5
"""The longest ttl that a session asks for: after that much quiet, every lease has come to its end."""
RESOURCES = 4


@dataclass
class Plan:
    """`folder` holds the plan and the histories of all processes.

    `ports` are those of the servers that clients connect to by themselves, `proxies` those of the proxies before them,
    in the same order. In a cluster there is one of each a node; without one, the first of `ports` is replaced at a
    failover, which is told by the file `steering`. `until` is the time on CLOCK_MONOTONIC at which the sessions end.
    """

    folder: str
    server: str
    nemeses: list[str]
    seconds: float
    seed: int
    clients: int
    sessions: int = 3
    pools: dict[str, list[str]] = field(default_factory=dict)
    quiet: str = "quiet"
    is_cluster: bool = False
    has_replica: bool = False
    ports: list[int] = field(default_factory=list)
    proxies: list[int] = field(default_factory=list)
    until: float = 0.0
    broken: str = ""

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def steering(self) -> Path:
        """The file that holds the port of the present master."""
        return self.path / "master"

    @property
    def register(self) -> Path:
        """The register's socket."""
        return self.path / "register.sock"

    @property
    def control(self) -> Path:
        """The proxy's socket for orders."""
        return self.path / "proxy.sock"

    @property
    def file(self) -> Path:
        return self.path / "plan.json"

    def save(self) -> None:
        self.file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> Plan:
        return cls(**json.loads(file.read_text()))
