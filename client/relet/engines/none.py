"""No engine: lapsed leases come back with the next call that looks at the pool. Told where no engine was found."""

from __future__ import annotations

from relet.engines.base import Deployment


def no_engine(namespace: str) -> Deployment:
    """Says what the server lacks."""
    return Deployment(
        "none",
        namespace,
        f"the server has no RedisGears: lapsed leases of namespace {namespace!r} come back with the next call that "
        f"looks at their pool, not by themselves",
    )
