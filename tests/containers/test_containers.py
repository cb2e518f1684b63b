"""The images of docker/compose.yaml, started as that file says, each with the short round of round.py.

RELET_TESTS_CONTAINERS=1    no Docker engine is a failure and no skip
RELET_TESTS_CONTAINERS=0    these tests are left out, though an engine may be there
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.containers.compose import JOIN, Service, moved, no_engine, services, shards
from tests.containers.round import play
from tests.helpers import eventually, unique
from tests.servers import SERVERS

WISH = os.environ.get("RELET_TESTS_CONTAINERS", "")
PULLED_S = 120.0  # seconds for a server to be healthy once its image is here

_reason = "RELET_TESTS_CONTAINERS=0" if WISH == "0" else no_engine()
if _reason and WISH == "1":
    pytest.fail(f"RELET_TESTS_CONTAINERS=1, and {_reason}", pytrace=False)
if _reason:
    pytest.skip(f"the images of docker/compose.yaml are not tried: {_reason}", allow_module_level=True)

from testcontainers.compose import DockerCompose  # noqa: E402 - a second to import, and of no use without an engine

SINGLE = [name for name in services() if name in SERVERS]


@contextmanager
def running(names: list[str], folder: Path) -> Iterator[tuple[DockerCompose, dict[int, int]]]:
    """The services in a compose project of their own, healthy; with their ports by those of docker/compose.yaml."""
    document, ports = moved(names)
    document["name"] = unique(f"relet-tests-{os.getpid()}")
    (folder / "compose.yaml").write_text(json.dumps(document))
    # Without its own wait: `up --wait` takes a service that did its work and ended for one that failed.
    project = DockerCompose(folder, compose_file_name="compose.yaml", wait=False)
    try:
        with project:
            for name in names:
                if name != JOIN:
                    eventually(
                        lambda name=name: health(project, name) == "healthy", f"{name} healthy", timeout=PULLED_S
                    )
            yield project, ports
    except Exception:
        logging.getLogger(__name__).error("\n".join(project.get_logs()))
        raise


def health(project: DockerCompose, name: str) -> str | None:
    return project.get_container(name, include_all=True).Health


def port_of(service: Service, ports: dict[int, int]) -> int:
    return ports[service.ports[0][1]]


@pytest.mark.parametrize("name", SINGLE)
def test_the_round_in_a_container(name: str, tmp_path: Path) -> None:
    spec = SERVERS[name]
    with (
        running([name], tmp_path) as (_, ports),
        redis.Redis(host="127.0.0.1", port=port_of(services()[name], ports)) as client,
    ):
        information: Any = client.info("server")
        version = str(information.get("valkey_version") or information["redis_version"])
        # The image with RedisGears 1.2 has the Redis that it was built with, of the same series.
        assert spec.accepts(version) or (spec.engine == "redisgears-1" and version.startswith(f"{spec.name[-3:]}."))
        play(client, spec.engine)


def test_the_round_on_a_cluster_of_containers(tmp_path: Path) -> None:
    names = [*(shard.name for shard in shards()), JOIN]
    with running(names, tmp_path) as (project, ports):
        eventually(lambda: project.get_container(JOIN, include_all=True).State == "exited", "the shards to be joined")
        assert project.get_container(JOIN, include_all=True).ExitCode == 0
        with redis.RedisCluster(host="127.0.0.1", port=port_of(shards()[0], ports)) as client:
            assert len(client.get_primaries()) == len(shards())
            play(client, "redisgears-1")
