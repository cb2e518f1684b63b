"""`relet listen`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from relet import Pool
from tests.command import COMMAND, environment, relet
from tests.helpers import lease_all, names, take
from tests.listener.looks import Start, all_free, free
from tests.servers import Server


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "listen", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    guard = threading.Timer(60, process.kill)  # so that reading its output ends, whatever happens
    guard.start()
    with process:
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command(shared: Server, client: redis.Redis, pool: Pool, number: int, code: int) -> None:
    pool.add(names(3))
    lease_all(pool, 3, ttl=0.05)
    with command("--url", shared.url) as process:
        assert line(process) == "listening for lapsed leases of all pools in namespace relet\n"
        assert line(process).startswith("reclaimed ")
        all_free(pool, client, 3)
        ended, _, err = end(process, number)
    assert ended == code
    assert [text for text in err.splitlines() if "Traceback" in text] == []
    assert err.startswith("relet: keyspace notifications are off")
    assert len(err.splitlines()) == 1


def test_the_command_in_json_for_named_pools(shared: Server, pool: Pool) -> None:
    pool.add("r")
    take(pool, ttl=0.01)
    with command("gpu", "gone", "--set-notifications", "--json", "--url", shared.url) as process:
        assert json.loads(line(process)) == {"listening": ["gpu", "gone"], "namespace": "relet"}
        assert json.loads(line(process)) == {"pool": "gpu", "reclaimed": 1}
        code, out, err = end(process, signal.SIGTERM)
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "relet: there is no pool 'gone' yet",
        "relet: notify-keyspace-events was '', and is 'Ex' now",
    ]


def test_the_command_ends_when_nobody_reads_it(shared: Server, client: redis.Redis, pool: Pool) -> None:
    pool.add("r")
    with command("--url", shared.url) as process:
        line(process)
        assert process.stdout is not None
        process.stdout.close()
        take(pool, ttl=0.05)
        assert process.wait(30) == 141
    assert free(pool, client) == 1


def test_the_command_shows_no_password(start: Start) -> None:
    server = start(requirepass="s3cr3t-pw", notify_keyspace_events="Ex")
    url = f"redis://:s3cr3t-pw@127.0.0.1:{server.port}"
    with command("--url", url) as process:
        line(process)
        server.kill()
        assert process.stderr is not None
        said = process.stderr.readline()
        code, out, err = end(process, signal.SIGTERM)
    assert code == 0
    assert "cannot be asked just now" in said
    assert "s3cr3t" not in out + err + said
    server.stop()


def test_the_command_refuses_what_is_wrong() -> None:
    assert relet("listen", "a:b", "--url", f"unix://{os.devnull}").code in (1, 2)
    ended = relet("listen", "--url", "redis://127.0.0.1:1")
    assert (ended.code, ended.out) == (1, "")
    assert "cannot reach" in ended.err
