"""A running pair: its servers, its clients, and its engine, which can be halted and set going again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import redis

from relet import Listener, Pool, deploy, undeploy
from tests.conformance.pairs import Pair
from tests.helpers import Raw, eventually, keys_left, unique
from tests.servers import Cluster, Server
from tests.topology.rights import PASSWORD, USER, documented, documented_for_listeners

SHARDS = 3
NOTIFICATIONS = "notify-keyspace-events"


class Home:
    """The servers of one place, which all engines there share. They keep what they know over a restart."""

    def __init__(self, pair: Pair) -> None:
        config: dict[str, Any] = {"appendonly": "yes"}
        if pair.shape == "rights":
            rights = [*documented(), *documented_for_listeners()]
            config["user"] = (USER, "on", f">{PASSWORD}", "resetchannels", *rights)
        self.cluster = Cluster.start(pair.server, SHARDS, **config) if pair.shape == "cluster" else None
        self.servers = self.cluster.nodes if self.cluster else [Server.start(pair.server, **config)]

    def client(self, **options: Any) -> Any:
        return self.cluster.client(**options) if self.cluster else self.servers[0].client(**options)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class Place:
    """What a test has: pools by the user's client, and a look at the keys that wakes nobody."""

    def __init__(self, pair: Pair, home: Home) -> None:
        self.pair = pair
        self.home = home
        self._stack = ExitStack()
        self.admin = self._stack.enter_context(closing(home.client()))
        as_user = {"username": USER, "password": PASSWORD} if pair.shape == "rights" else {}
        self._options = as_user
        self.client = self.new_client()
        self._listener = Listener(self.new_client(), set_notifications=True) if pair.engine == "listener" else None
        self._pools: list[Pool] = []
        self.start_engine()

    def new_client(self) -> Any:
        """As another process would have it."""
        return self._stack.enter_context(closing(self.home.client(**self._options)))

    def pools(self) -> list[Pool]:
        """A new pool on each shard; one, where there are none."""
        found: dict[int, Pool] = {}
        while len(found) < len(self.home.servers):
            pool = Pool(self.client, unique("pool"))
            found.setdefault(self._index(pool), pool)
        self._pools += found.values()
        return list(found.values())

    def pool(self) -> Pool:
        return self.pools()[-1]

    def same(self, pool: Pool) -> Pool:
        """The pool as another process sees it."""
        return Pool(self.new_client(), pool.name)

    def raw(self, pool: Pool) -> Raw:
        return Raw(self.admin, pool)

    def lapsed(self, pool: Pool) -> int:
        """As counted by those who took leases back."""
        return int(self.admin.hget(self.raw(pool).root, "lapsed") or 0)

    def server_of(self, pool: Pool) -> Server:
        return self.home.servers[self._index(pool)]

    def start_engine(self) -> None:
        if self.pair.deploys:
            deploy(self.admin)
        elif self._listener:
            self._listener.start()

    def stop_engine(self) -> None:
        if self.pair.deploys:
            undeploy(self.admin)
        elif self._listener:
            self._listener.stop()

    @contextmanager
    def without_engine(self) -> Iterator[None]:
        self.stop_engine()
        try:
            yield
        finally:
            self.start_engine()

    def restart(self, server: Server) -> None:
        """Returns once all is as before."""
        server.restart()
        eventually(self._is_well, "the cluster to be well")

    def clean_up(self) -> list[str]:
        """Destroys the test's pools; answers what keys are left."""
        for pool in self._pools:
            pool.destroy()
            pool.close()
        self._pools.clear()
        left: list[str] = []
        for server in self.home.servers:
            with closing(server.client()) as client:
                left += keys_left(client)
                client.flushall()
        return left

    def close(self) -> None:
        self.stop_engine()
        for server in self.home.servers:
            with closing(server.client()) as client:
                client.config_set(NOTIFICATIONS, "")
        self._stack.close()

    def _index(self, pool: Pool) -> int:
        cluster = self.home.cluster
        return cluster.owner(self.admin.keyslot(self.raw(pool).root)) if cluster else 0

    def _is_well(self) -> bool:
        if self.home.cluster is None:
            return True
        for server in self.home.servers:
            with closing(redis.Redis(port=server.port, decode_responses=True)) as client:
                information: Any = client.execute_command("CLUSTER INFO")
                if information["cluster_state"] != "ok":
                    return False
        return True
