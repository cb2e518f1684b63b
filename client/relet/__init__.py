"""relet: a lease pool on Redis.

>>> import redis
>>> from relet import Pool
>>> pool = Pool(redis.Redis(), "gpu", ttl=30)
>>> pool.add("gpu-0", "gpu-1")
2
>>> with pool.acquire() as lease:
...     print(lease.resource)
gpu-0
"""

from relet.aio import AsyncLease, AsyncPool
from relet.catalogue import pools
from relet.deploy import Deployed, Deployment, deploy, deployed, undeploy
from relet.errors import (
    LeaseLost,
    NotReplicated,
    PoolDamaged,
    PoolExhausted,
    ReletError,
    ResourceUnknown,
    UnsupportedServer,
)
from relet.events import Event
from relet.holding import Lease
from relet.listener import Listener
from relet.model import Policy, ResourceInfo, Stats, Waiter
from relet.pool import Pool

__version__ = "0.1.0"

__all__ = [
    "AsyncLease",
    "AsyncPool",
    "Deployed",
    "Deployment",
    "Event",
    "Lease",
    "LeaseLost",
    "Listener",
    "NotReplicated",
    "Policy",
    "Pool",
    "PoolDamaged",
    "PoolExhausted",
    "ReletError",
    "ResourceInfo",
    "ResourceUnknown",
    "Stats",
    "UnsupportedServer",
    "Waiter",
    "deploy",
    "deployed",
    "pools",
    "undeploy",
]
