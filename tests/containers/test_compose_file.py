"""docker/compose.yaml is what it says at its head, and names what the suite runs elsewhere. Needs no Docker engine."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import PurePosixPath

import pytest

from tests.containers.compose import FILE, JOIN, ROOT, Service, moved, services, shards
from tests.containers.tools import complaints, compose_client
from tests.servers import SERVERS
from tests.servers.fetch import GEARS_ARGUMENTS

ALL = tuple(services().values())
WATCHING = tuple(services("metrics").values())
"""Prometheus and Grafana, which are no servers of relet's: see test_dashboard.py."""
SERVERS_OF_ALL = tuple(service for service in ALL if service not in WATCHING)
SERVING = tuple(service for service in SERVERS_OF_ALL if service.name != JOIN)
WITH_GEARS_1 = tuple(service for service in ALL if service.image == "redislabs/redisgears")
PROFILES = {"gears", "stack", "redis", "valkey", "cluster", "metrics"}
DATA = {"prometheus": "/prometheus", "grafana": "/var/lib/grafana"}
"""Where the images of those keep what they write."""
CLIENT = "docker compose -f docker/compose.yaml "

each = pytest.mark.parametrize("service", ALL, ids=lambda service: service.name)
each_server = pytest.mark.parametrize("service", SERVERS_OF_ALL, ids=lambda service: service.name)


def head() -> dict[str, set[int]]:
    """What the comment at the file's head promises: each command, with the ports of 127.0.0.1 it is said to bring."""
    comment = FILE.read_text("utf-8").partition("\nname:")[0]
    found = {}
    for line in comment.splitlines():
        command, _, promise = line.removeprefix("#").strip().partition("# ")
        if command.startswith(CLIENT):
            ports = re.findall(r":(\d{4})\b", promise)
            found[command.removeprefix(CLIENT).strip()] = {int(port) for port in ports}
    return found


def test_it_fits_the_schema_of_compose() -> None:
    assert complaints("vendor.compose-spec", FILE) == ""


def test_the_compose_client_takes_it() -> None:
    """It resolves what is inherited, and finds each service and port that these tests find. It asks no engine."""
    command = [*compose_client(), "-f", str(FILE), "--profile", "*", "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    resolved = json.loads(done.stdout)["services"]
    assert set(resolved) == {service.name for service in ALL}
    for service in ALL:
        found = resolved[service.name]
        assert found["image"] == f"{service.image}:{service.tag}"
        assert (found["command"] or []) == service.words
        ports = [(port["host_ip"], int(port["published"]), port["target"]) for port in found.get("ports", [])]
        assert ports == service.ports


@each
def test_the_image_is_pinned(service: Service) -> None:
    assert re.fullmatch(r"v?\d+\.\d+\.\d+(-v\d+)?", service.tag)


@each
def test_a_service_has_one_profile(service: Service) -> None:
    assert len(service.profiles) == 1
    assert PROFILES.issuperset(service.profiles)


def test_each_profile_has_a_service() -> None:
    assert {profile for service in ALL for profile in service.profiles} == PROFILES


@each_server
def test_ports_are_for_this_machine_alone(service: Service) -> None:
    assert {address for address, _, _ in service.ports} <= {"127.0.0.1"}
    shares_network = service.settings.get("network_mode") == f"service:{shards()[0].name}"
    assert bool(service.ports) != shares_network
    assert shares_network or "network_mode" not in service.settings


def test_no_port_is_published_twice() -> None:
    assert set(Counter(outside for service in ALL for _, outside, _ in service.ports).values()) == {1}


@pytest.mark.parametrize("service", SERVING, ids=lambda service: service.name)
def test_a_server_says_when_it_serves(service: Service) -> None:
    check = service.settings["healthcheck"]
    asked, _, wanted = str(check["test"]).partition(" | ")
    program, *words = asked.split()
    assert program == ("valkey-cli" if service.profiles == ["valkey"] else "redis-cli")
    assert words == [
        *(["-p", service.words[service.words.index("--port") + 1]] if "--port" in service.words else []),
        "ping",
    ]
    assert wanted == "grep -q PONG"
    assert {"interval", "timeout", "retries"} <= set(check)


@each
def test_nothing_is_left_on_the_disk(service: Service) -> None:
    assert service.settings["tmpfs"] == ("/data" if service in SERVERS_OF_ALL else DATA[service.name])
    assert all(volume.endswith(":ro") for volume in service.settings.get("volumes", []))
    assert service in WATCHING or "volumes" not in service.settings


@pytest.mark.parametrize("name", [service.name for service in SERVING if service.profiles != ["cluster"]])
def test_a_single_server_is_had_in_one_command(name: str) -> None:
    assert head()[f"up -d --wait {name}"] == {outside for _, outside, _ in services()[name].ports}


def test_the_cluster_is_had_in_one_command() -> None:
    ports = {outside for shard in shards() for _, outside, _ in shard.ports}
    assert head()["--profile cluster up -d"] == ports
    assert all(outside == inside for shard in shards() for _, outside, inside in shard.ports)
    assert {int(shard.words[shard.words.index("--port") + 1]) for shard in shards()} == ports


def test_the_head_promises_nothing_else() -> None:
    singles = {f"up -d --wait {service.name}" for service in SERVING if service.profiles != ["cluster"]}
    assert set(head()) == singles | {"--profile cluster up -d", "--profile metrics up -d", '--profile "*" down'}


def test_the_cluster_is_joined_of_all_its_shards() -> None:
    join = services()[JOIN]
    addresses = {f"127.0.0.1:{shard.words[shard.words.index('--port') + 1]}" for shard in shards()}
    script = join.words[-1].split()
    assert {word for word in script if word.startswith("127.")} == addresses
    assert len(addresses) == 3
    assert set(join.settings["depends_on"]) == {shard.name for shard in shards()}


@pytest.mark.parametrize("service", [one for one in SERVING if one.profiles != ["cluster"]], ids=lambda one: one.name)
def test_a_single_server_is_one_of_the_suite(service: Service) -> None:
    """Its image is of the version that the suite runs elsewhere; for RedisGears 2 and 1.2 the tag counts otherwise."""
    spec = SERVERS[service.name]
    if spec.engine == "none":
        assert spec.accepts(service.tag)
    elif spec.engine == "redisgears-2":
        assert service.tag.split(".")[:2] == spec.version.split(".")[:2]
    else:
        assert service in WITH_GEARS_1


def test_the_suite_has_no_other_server_but_redisgears_on_a_second_redis() -> None:
    assert set(SERVERS) - set(services()) == {"gears-7.0"}


def test_redisgears_1_is_the_same_everywhere() -> None:
    assert {service.name for service in WITH_GEARS_1} == {"gears-6.2", *services("cluster")}
    assert {service.tag for service in WITH_GEARS_1} == {"1.2.5"}
    assert len({tuple(service.module) for service in WITH_GEARS_1 if service.name != JOIN}) == 1


def test_redisgears_1_is_loaded_as_the_suite_loads_it() -> None:
    """The file, then the plugin for Python. What the suite adds says only where its own build has its Python."""
    module, *arguments = services()["gears-6.2"].module
    plugin = next(word for word in arguments if word.startswith("/"))
    asked = [argument.format(plugin=plugin, folder="") for argument in GEARS_ARGUMENTS]
    assert arguments == asked[: len(arguments)]
    assert asked[len(arguments) :: 2] == ["CreateVenv", "PythonInstallationDir"]
    assert PurePosixPath(module).name == "redisgears.so"
    assert PurePosixPath(plugin).name == "gears_python.so"


def test_redisgears_2_is_loaded_by_its_image() -> None:
    assert services()["redis-stack-7.4"].words == []


def test_services_can_be_moved_to_other_ports() -> None:
    names = [*(shard.name for shard in shards()), JOIN]
    document, ports = moved(names)
    text = str(document)
    assert set(ports) == {7001, 7002, 7003}
    assert not set(ports) & set(ports.values())
    assert not re.search(r"\b700[123]\b", text)
    assert set(document["services"]) == set(names)
    assert all(text.count(str(port)) > 3 for port in ports.values())
    again = Service("shard-2", {"profiles": [], **document["services"]["shard-2"]})
    assert again.module == services()["shard-2"].module


def test_it_is_in_the_sdist() -> None:
    assert '"/docker"' in (ROOT / "pyproject.toml").read_text("utf-8")
