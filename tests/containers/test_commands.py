"""The commands of docker/compose.yaml, run without Docker: by real servers of this machine, with the module it has.

What is then left to trust of the file are the images and the paths in them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from tests.containers.compose import JOIN, MODULE_OPTION, Service, moved, services, shards
from tests.containers.round import play
from tests.helpers import eventually, missing
from tests.servers import SERVERS, Server, Unavailable, binary
from tests.servers.fetch import GEARS_MODULE

HAS_GEARS = bool(os.environ.get(GEARS_MODULE))
ENGINE = "redisgears-1" if HAS_GEARS else "none"
PLAIN = "redis-6.2"  # what the image with RedisGears 1.2 is built on
JOIN_TIMEOUT_S = 120


def arguments(service: Service) -> list[str]:
    """The command's, with the files of this machine's module for those of the image; none where it has no module."""
    program, *words = service.without_module
    assert program == "redis-server"
    if service.module and HAS_GEARS:
        words += [MODULE_OPTION, *binary(SERVERS["gears-6.2"]).module]
    return words


@contextmanager
def started(service: Service, port: int | None = None) -> Iterator[Server]:
    """The service's command as a server of this machine."""
    own_port = {} if port is None else {"port": port}
    try:
        server = Server.start(PLAIN, args=arguments(service), **own_port)
    except Unavailable as reason:
        missing(str(reason))
    with server:
        yield server


def has_joined(server: Server) -> bool:
    with server.client(decode_responses=True) as client:
        state: dict[str, str] = client.execute_command("CLUSTER INFO")
    return state["cluster_state"] == "ok" and state["cluster_known_nodes"] == str(len(shards()))


def test_the_command_of_the_single_server_with_redisgears() -> None:
    with started(services()["gears-6.2"]) as server, server.client() as client:
        play(client, ENGINE)


def test_the_commands_of_the_cluster(tmp_path: Path) -> None:
    document, ports = moved([*(shard.name for shard in shards()), JOIN])
    join = document["services"][JOIN]
    try:
        cli = binary(SERVERS["redis-7.0"])
    except Unavailable as reason:
        missing(str(reason))
    environment = {
        **os.environ,
        "PATH": f"{cli.program.parent}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": cli.library_path,
    }
    with ExitStack() as stack:
        servers = []
        for shard, port in zip(shards(), ports.values(), strict=True):
            service = Service(shard.name, document["services"][shard.name])
            assert ["--port", str(port)] == service.words[service.words.index("--port") :][:2]
            servers.append(stack.enter_context(started(service, port)))
        for _ in range(2):  # the second time there is nothing to do
            done = subprocess.run(
                [*join["entrypoint"], *join["command"]],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=JOIN_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            eventually(lambda: all(has_joined(server) for server in servers), "the shards to have joined")
        with redis.RedisCluster(host="127.0.0.1", port=next(iter(ports.values()))) as client:
            assert {node.host for node in client.get_nodes()} == {"127.0.0.1"}
            assert {node.port for node in client.get_primaries()} == set(ports.values())
            play(client, ENGINE)


@pytest.mark.parametrize("name", ["valkey-9.1", "redis-stack-7.4"])
def test_the_round_on_a_server_that_takes_no_command(name: str) -> None:
    spec = SERVERS[name]
    assert services()[name].words == []
    try:
        server = Server.start(spec)
    except Unavailable as reason:
        missing(str(reason))
    with server, server.client() as client:
        play(client, spec.engine)
