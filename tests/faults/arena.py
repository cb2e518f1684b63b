"""Where a campaign takes place: the servers, the proxies before them, the register, the clients.

Two kinds. `Pair`: a master and a replica, which may change places, and a proxy to whichever is the master; the link of
replication has a proxy of its own. `Shards`: a cluster of three masters, a proxy to each.

Every server fsyncs its AOF before it answers, until a nemesis changes that for a while.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import redis

from relet import Pool, PoolDamaged
from tests.servers import Cluster, Server, wait_until

from . import children
from .crowd import Crowd
from .faketime import Clock
from .history import History, now
from .plan import Plan
from .proxy import Control
from .steering import operating

DURABLE = {"appendonly": "yes", "appendfsync": "always", "auto_aof_rewrite_percentage": 0}
SHARDS = 3


class Arena:
    """What nemeses work on. Also a context manager: inside, everything runs, and the pools are there."""

    def __init__(self, plan: Plan, clock: Clock | None) -> None:
        self.plan = plan
        self.clock = clock
        self.servers: list[Server] = []
        self.stopping = threading.Event()
        self.crowd = Crowd(plan)
        self.clock_was_ahead = False
        self._stack = ExitStack()
        self._history = History(plan.path / "nemesis.jsonl")
        self._orders = threading.Lock()

    def __enter__(self) -> Arena:
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self._start_servers()
            self.plan.save()
            self.control = self._start_network()
            self.plan.save()
            self._start("register", self.plan.register)
            with operating(self.plan) as client:
                for name, resources in self.plan.pools.items():
                    with Pool(client, name) as pool:
                        pool.add(resources)
            self._stack.enter_context(self.crowd)
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # what nemeses use

    def order(self, proxy: str, **wanted: Any) -> int:
        with self._orders:
            return self.control.order(proxy, **wanted)

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond the end of the faults."""
        self.stopping.wait(seconds)

    def record(self, nemesis: str, begun: float, what: str, voids: Any, **more: Any) -> None:
        self._history.write("fault", begun, until=now(), nemesis=nemesis, what=what, voids=sorted(voids), **more)

    def census(self, **fields: Any) -> None:
        self._history.write("census", **fields)

    @contextmanager
    def operation(self, verb: str, **fields: Any) -> Iterator[None]:
        """An operator's own operation, as a call and its answer."""
        call = f"operator.{now()}"
        self._history.write("call", id=call, verb=verb, **fields)
        yield
        self._history.write("answer", id=call, result="ok")

    def add_again(self, anew: bool = False) -> None:
        """Puts the resources in again, as an operator would after a loss; `anew` after what is left was deleted."""
        with operating(self.plan) as client:
            for name, resources in self.plan.pools.items():
                with Pool(client, name) as pool:
                    if anew:
                        pool.destroy()
                    try:
                        pool.add(resources)
                    except PoolDamaged:  # somebody's queueing up may have made the hash anew, and eviction taken a part
                        pool.destroy()
                        pool.add(resources)

    def call(self, server: Server, *words: Any) -> Any:
        with self.asking(server) as client:
            return client.execute_command(*words)

    @contextmanager
    def asking(self, server: Server) -> Iterator[Any]:
        with closing(server.client(socket_timeout=10)) as client:
            yield client

    def masters(self) -> list[Server]:
        return self.servers if self.plan.is_cluster else self.servers[:1]

    def wait_for(self, server: Server, field: str, value: Any, section: str) -> None:
        def holds() -> bool:
            with closing(server.client(socket_timeout=10)) as client:
                return bool(client.info(section)[field] == value)  # type: ignore[index]

        wait_until(holds, f"{field} to be {value}", timeout=60)

    def settle(self) -> None:
        """Returns once the servers have found each other again, after a restart."""
        raise NotImplementedError

    # making it

    def _start_servers(self) -> None:
        raise NotImplementedError

    def _start_network(self) -> Control:
        self._start("proxy", self.plan.control)
        return self._stack.enter_context(closing(Control(self.plan.control)))

    def _start(self, module: str, socket: Path) -> None:
        log = self.plan.path / f"{module}.log"
        process = children.start(module, str(self.plan.file), log=log)
        self._stack.callback(children.end, process)
        children.wait_for_socket(process, socket, log)

    @contextmanager
    def _with_clock(self) -> Iterator[None]:
        """Servers that are started meanwhile live by the clock that a nemesis can move."""
        if self.clock is None:
            yield
            return
        before = {name: os.environ.get(name) for name in self.clock.environment}
        os.environ.update(self.clock.environment)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def restart(self, server: Server) -> None:
        with self._with_clock():
            server.restart()


class Pair(Arena):
    """A master, `servers[0]`, and its replica, `servers[1]`."""

    def _start_servers(self) -> None:
        with self._with_clock():
            master = self._stack.enter_context(Server.start(self.plan.server, **DURABLE))  # type: ignore[arg-type]
        self.servers = [master]
        self.plan.ports, self.plan.has_replica = [master.port], True
        self.plan.steering.write_text(str(master.port))

    def _start_network(self) -> Control:
        control = super()._start_network()
        master = self.servers[0]
        self.plan.proxies = [control.order("front0", upstream=master.port)]
        self.link = control.order("link", upstream=master.port)
        with self._with_clock():
            replica = Server.start(self.plan.server, **DURABLE, replicaof=("127.0.0.1", self.link))  # type: ignore[arg-type]
        self.servers.append(self._stack.enter_context(replica))
        replica.wait_in_sync(master)
        return control

    def promote(self) -> None:
        """The replica becomes the master that clients find; the old one is left as it is."""
        self.servers.reverse()
        new = self.servers[0]
        self.call(new, "REPLICAOF", "NO", "ONE")
        self.call(new, "CONFIG", "REWRITE")
        self.steer()

    def steer(self) -> None:
        port = self.servers[0].port
        beside = self.plan.steering.with_suffix(".new")
        beside.write_text(str(port))
        beside.replace(self.plan.steering)
        self.order("front0", upstream=port)
        self.order("link", upstream=port, mode="pass")

    def follow(self) -> None:
        """The old master becomes the new one's replica."""
        old = self.servers[1]
        self.call(old, "REPLICAOF", "127.0.0.1", self.link)
        self.call(old, "CONFIG", "REWRITE")
        old.wait_in_sync(self.servers[0], timeout=60)

    def settle(self) -> None:
        self.servers[1].wait_in_sync(self.servers[0], timeout=60)


class Shards(Arena):
    """A cluster; `servers` are its nodes."""

    def _start_servers(self) -> None:
        with self._with_clock():
            self.cluster = self._stack.enter_context(
                Cluster.start(self.plan.server.removeprefix("cluster-"), SHARDS, **DURABLE)  # type: ignore[arg-type]
            )
        self.servers = self.cluster.nodes
        self.plan.ports, self.plan.is_cluster = [node.port for node in self.servers], True
        self.plan.steering.write_text(str(self.servers[0].port))

    def _start_network(self) -> Control:
        control = super()._start_network()
        self.plan.proxies = [
            control.order(f"front{index}", upstream=node.port) for index, node in enumerate(self.servers)
        ]
        return control

    def settle(self) -> None:
        def is_well() -> bool:
            try:
                states = [self.call(node, "CLUSTER", "INFO") for node in self.servers]
            except redis.RedisError:
                return False
            return all(_field(state, "cluster_state") == "ok" for state in states)

        wait_until(is_well, "the cluster to be well", timeout=60)


def _field(information: Any, name: str) -> str:
    if isinstance(information, dict):
        return str(information[name])
    text = information.decode() if isinstance(information, bytes) else str(information)
    return dict(line.split(":", 1) for line in text.split() if ":" in line)[name]


def make(plan: Plan, clock: Clock | None) -> Arena:
    return (Shards if plan.server.startswith("cluster-") else Pair)(plan, clock)


def dice(plan: Plan, what: str) -> random.Random:
    return random.Random(f"{plan.seed} {what}")
