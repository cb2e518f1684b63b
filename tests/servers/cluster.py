"""A Redis Cluster of servers on this machine, built with plain commands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any

import redis

from .catalogue import Spec
from .config import ConfigValue
from .errors import ServerFailed
from .process import Server
from .waiting import wait_until

SLOTS = 16_384
NODE_TIMEOUT_MS = 2_000
READY_TIMEOUT_S = 60.0
MIGRATE_BATCH = 100
MIGRATE_TIMEOUT_MS = 5_000


class Cluster:
    """Masters that share the slots evenly, each with the same number of replicas. Also a context manager.

    `nodes` are the servers, the masters first; `masters` is how many of them began as masters.
    """

    def __init__(self, nodes: list[Server], masters: int) -> None:
        """Takes servers in cluster mode that know nothing yet. Use `Cluster.start()`."""
        self.nodes = nodes
        self.masters = masters

    @classmethod
    def start(cls, spec: Spec | str, masters: int = 3, *, replicas: int = 0, **config: ConfigValue) -> Cluster:
        """Starts `masters` masters with `replicas` replicas each; returns once every node says that all is well.

        `config` as for `Server.start`; the node timeout is NODE_TIMEOUT_MS unless `cluster_node_timeout` is given.
        Raises Unavailable, ServerFailed, or TimeoutError when the nodes do not find each other.
        """
        settings: dict[str, ConfigValue] = {
            "cluster_enabled": "yes",
            "cluster_node_timeout": NODE_TIMEOUT_MS,
            "cluster_announce_ip": "127.0.0.1",
            **config,
        }
        with ExitStack() as undo:
            nodes = []
            for _ in range(masters * (1 + replicas)):
                node = Server.start(spec, **settings)  # type: ignore[arg-type]
                undo.callback(node.stop)
                nodes.append(node)
            cluster = cls(nodes, masters)
            cluster._join()
            undo.pop_all()
        return cluster

    @property
    def url(self) -> str:
        """The address of the first node."""
        return self.nodes[0].url

    def client(self, **options: Any) -> redis.RedisCluster:
        """A new cluster client, the caller's to close; `options` are redis-py's."""
        return redis.RedisCluster.from_url(self.url, **options)

    def stop(self) -> None:
        """Ends every node. Does no harm when repeated."""
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.stop)

    def node_id(self, index: int) -> str:
        """The cluster's name for `nodes[index]`."""
        return str(self._ask(index, "MYID"))

    def owner(self, slot: int, *, seen_by: int = 0) -> int:
        """The index of the node that serves `slot`, as `nodes[seen_by]` sees it."""
        for first, last, (_, port, *_), *_ in self._ask(seen_by, "SLOTS"):
            if first <= slot <= last:
                return [node.port for node in self.nodes].index(port)
        raise ServerFailed(f"slot {slot} is served by no node")

    def agreed_owner(self, slot: int) -> int:
        """The same, once every node that runs sees it so: an old message may still unsettle one after a move."""
        running = [index for index in range(len(self.nodes)) if self._is_up(index)]
        seen: set[int] = set()

        def agree() -> bool:
            seen.clear()
            seen.update(self.owner(slot, seen_by=index) for index in running)
            return len(seen) == 1

        self._until(agree, f"the nodes to agree on who has slot {slot}")
        return seen.pop()

    def move_slot(self, slot: int, to_index: int) -> None:
        """Moves `slot` and its keys to the master `nodes[to_index]`; returns once every node that runs knows."""
        source = self.agreed_owner(slot)
        if source == to_index:
            return
        self.begin_move(slot, to_index)
        self.move_keys(slot, source, to_index)
        self.finish_move(slot, source, to_index)

    def begin_move(self, slot: int, to_index: int) -> None:
        """The first third of `move_slot`: from here on the owner answers ASK for keys that it does not have."""
        source = self.owner(slot)
        self._ask(to_index, "SETSLOT", slot, "IMPORTING", self.node_id(source))
        self._ask(source, "SETSLOT", slot, "MIGRATING", self.node_id(to_index))

    def move_keys(self, slot: int, source: int, to_index: int) -> None:
        """The second third: the keys, with their remaining time to live, MIGRATE_BATCH at a time."""
        target: list[str | int] = ["127.0.0.1", self.nodes[to_index].port, "", 0, MIGRATE_TIMEOUT_MS]
        if self.nodes[to_index].password:
            target += ["AUTH", self.nodes[to_index].password]
        client: Any
        with closing(self.nodes[source].client()) as client:
            while keys := client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, MIGRATE_BATCH):
                client.execute_command("MIGRATE", *target, "KEYS", *keys)

    def finish_move(self, slot: int, source: int, to_index: int) -> None:
        """The last third: the new owner first, so that the slot is at no moment without one."""
        owner = self.node_id(to_index)
        others = [index for index in range(len(self.nodes)) if index not in (source, to_index) and self._is_up(index)]
        for index in [to_index, source, *(index for index in others if self._is_master(index))]:
            self._ask(index, "SETSLOT", slot, "NODE", owner)
        everyone = [to_index, source, *others]
        self._until(
            lambda: all(self.owner(slot, seen_by=index) == to_index for index in everyone),
            f"slot {slot} to be known as moved",
        )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Cluster {self.nodes[0].spec.name} of {len(self.nodes)} from {self.url}>"

    def _join(self) -> None:
        bounds = [SLOTS * index // self.masters for index in range(self.masters + 1)]
        for index in range(self.masters):
            self._ask(index, "ADDSLOTS", *range(bounds[index], bounds[index + 1]))
        for index, node in enumerate(self.nodes):
            self._ask(index, "SET-CONFIG-EPOCH", index + 1)
            for earlier in range(index):  # every pair, since hearing of each other by gossip takes seconds
                self._ask(earlier, "MEET", "127.0.0.1", node.port)
        everyone = range(len(self.nodes))
        self._until(
            lambda: all(self._info(index)["cluster_known_nodes"] == str(len(self.nodes)) for index in everyone),
            "the nodes to meet",
        )
        self._until(lambda: all(self._knows_all(index) for index in everyone), "the nodes to know each other's slots")
        for index in range(self.masters, len(self.nodes)):
            self._follow(index, self.nodes[index % self.masters], self.node_id(index % self.masters))
        self._until(lambda: all(self._knows_all(index) for index in everyone), "the cluster to be ok")

    def _follow(self, index: int, master: Server, master_id: str) -> None:
        """Makes `nodes[index]` a replica and waits until it is in sync and every node has heard of it."""
        self._ask(index, "REPLICATE", master_id)
        self.nodes[index].wait_in_sync(master)
        node_id = self.node_id(index)
        everyone = range(len(self.nodes))
        self._until(
            lambda: all(_master_of(str(self._ask(seen_by, "NODES")), node_id) == master_id for seen_by in everyone),
            "the nodes to know their replicas",
        )

    def _knows_all(self, index: int) -> bool:
        information = self._info(index)
        return information["cluster_state"] == "ok" and information["cluster_slots_ok"] == str(SLOTS)

    def _info(self, index: int) -> dict[str, str]:
        pairs = (line.split(":", 1) for line in str(self._ask(index, "INFO")).split() if ":" in line)
        return {pair[0]: pair[1] for pair in pairs}

    def _is_up(self, index: int) -> bool:
        return self.nodes[index].running

    def _is_master(self, index: int) -> bool:
        client: Any
        with closing(self.nodes[index].client(decode_responses=True)) as client:
            return bool(client.execute_command("ROLE")[0] == "master")

    def _ask(self, index: int, command: str, *arguments: object) -> Any:
        client: Any
        with closing(self.nodes[index].client(decode_responses=True)) as client:
            return client.execute_command("CLUSTER", command, *arguments)

    def _until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, timeout=READY_TIMEOUT_S)


def _master_of(nodes: str, node_id: str) -> str | None:
    """The fourth field of a node's line in CLUSTER NODES: its master's id, or "-"."""
    for line in nodes.splitlines():
        fields = line.split()
        if fields[0] == node_id:
            return fields[3]
    return None
