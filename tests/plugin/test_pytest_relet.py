"""The pytest plug-in, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from relet import Pool
from tests.command import environment
from tests.helpers import take, unique
from tests.servers import Server

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

Run = Callable[..., tuple[int, str]]

CROWD = """
import os, time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(12))
def test_alone(relet_lease, number):
    busy = Path(os.environ["FOLDER"])
    mine = busy / relet_lease.resource
    mine.mkdir()  # fails where somebody else has it
    assert len(list(busy.iterdir())) <= 2
    time.sleep(0.05)
    mine.rmdir()
"""

WORKERS = """
import os, time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(8))
def test_it(relet_worker_lease, number):
    name = f"{relet_worker_lease.resource} {os.environ['PYTEST_XDIST_WORKER']}"
    busy = Path(os.environ["FOLDER"])
    (busy / name).touch()
    until = time.monotonic() + 30
    while len(list(busy.iterdir())) < 2:  # so that no worker has done it all before the other begins
        assert time.monotonic() < until
        time.sleep(0.01)
"""


@pytest.fixture
def pool(make_pool: Callable[..., Pool]) -> Pool:
    made = make_pool(name="devices", namespace=unique("plugin"))
    made.add("a", "b")
    return made


@pytest.fixture
def run(server: Server, pool: Pool, tmp_path: Path) -> Run:
    """Runs pytest on a file; answers its exit code and what it printed, each failure once (-rN: where CI is set, pytest
    would repeat them whole in its summary)."""

    def pytest_on(text: str, *options: str, ini: Sequence[str] = ("relet_pool = devices",)) -> tuple[int, str]:
        folder = tmp_path / unique("project")
        (folder / "busy").mkdir(parents=True)
        (folder / "test_it.py").write_text(text)
        (folder / "pytest.ini").write_text("\n".join(["[pytest]", "filterwarnings = error", *ini]) + "\n")
        env = {"RELET_URL": server.url, "RELET_NAMESPACE": pool.namespace, "FOLDER": str(folder / "busy")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rN", "-p", "no:cacheprovider", "--strict-markers", *options],
            cwd=folder,
            env=environment(env),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return pytest_on


def test_four_workers_and_two_resources(run: Run, pool: Pool) -> None:
    code, said = run(CROWD, "-n", "4")
    assert code == 0, said
    assert "12 passed" in said
    stats = pool.stats()
    assert (stats.granted, stats.released, stats.lapsed) == (12, 12, 0)


def test_one_resource_for_each_worker(run: Run, pool: Pool, tmp_path: Path) -> None:
    code, said = run(WORKERS, "-n", "2")
    assert code == 0, said
    pairs = [path.name.split() for path in tmp_path.glob("project-*/busy/*")]
    assert len(pairs) == len({resource for resource, _ in pairs}) == len({worker for _, worker in pairs})
    assert pool.stats().granted == len(pairs)
    assert pool.stats().free == 2


def test_more_workers_than_resources_take_turns(run: Run, pool: Pool) -> None:
    code, said = run(WORKERS, "-n", "3")
    assert code == 0, said
    assert pool.stats().free == 2


def test_a_marker_a_factory_and_the_owner(run: Run, pool: Pool, make_pool: Callable[..., Pool]) -> None:
    other = make_pool(name="other", namespace=pool.namespace)
    other.add({"c": {"memory": 80}})
    test = """
        import pytest

        @pytest.mark.relet("other", ttl=600, timeout=1)
        def test_marked(relet_lease, relet_acquire):
            assert (relet_lease.resource, relet_lease.ttl, relet_lease.attributes) == ("c", 600, {"memory": 80})
            leases = [relet_acquire(), relet_acquire("devices")]
            assert sorted(lease.resource for lease in leases) == ["a", "b"]

        def test_owner(relet_lease):
            import redis, os
            from relet import Pool
            client = redis.Redis.from_url(os.environ["RELET_URL"])
            first, _ = Pool(client, "devices", namespace=os.environ["RELET_NAMESPACE"]).resources()
            client.close()
            assert first.owner.endswith("test_it.py::test_owner")
    """
    code, said = run(_dedented(test))
    assert code == 0, said
    assert other.stats().free + pool.stats().free == 3


def test_the_command_line_wins(run: Run, server: Server, pool: Pool) -> None:
    ini = ["relet_url = redis://localhost:1", "relet_pool = typo", "relet_ttl = never", "relet_timeout = x"]
    options = [
        f"--relet-url={server.url}",
        "--relet-pool=devices",
        "--relet-ttl=7",
        "--relet-timeout=0",
        f"--relet-namespace={pool.namespace}",
    ]
    code, said = run("def test_it(relet_lease): assert relet_lease.ttl == 7\n", *options, ini=ini)
    assert code == 0, said


# What goes wrong


@pytest.mark.parametrize(
    ("ini", "reason"),
    [
        ([], "relet: which pool? Set relet_pool"),
        (["relet_pool = typo"], "relet: there is no pool 'typo' in namespace"),
        (["relet_pool = devices", "relet_url = unix:///nonexistent"], "relet: "),
        (["relet_pool = devices", "relet_url = http://here"], "relet: "),
        (["relet_pool = devices", "relet_ttl = never"], "relet_ttl is a number of seconds, not 'never'"),
        (["relet_pool = devices", "relet_ttl = 0"], "relet: a ttl is"),
    ],
)
def test_a_wrong_configuration_is_one_line(run: Run, ini: list[str], reason: str) -> None:
    code, said = run("def test_it(relet_lease): pass\n", ini=ini)
    assert code == 1, said
    assert "1 error" in said
    assert reason in said
    assert "During handling" not in said
    assert "Traceback" not in said
    assert "request = " not in said


def test_none_came_free(run: Run, pool: Pool) -> None:
    leases = [take(pool), take(pool)]
    code, said = run("def test_it(relet_lease): pass\n", "--relet-timeout=0.2")
    assert code == 1
    assert "relet: no resource of pool 'devices' came free within 0.2 s; wait for longer with --relet-timeout" in said
    pool.release_many(leases)


LOSE = """
import os, time
import pytest, redis
from relet import Pool

def lose(lease):
    with redis.Redis.from_url(os.environ["RELET_URL"]) as client:
        Pool(client, "devices", namespace=os.environ["RELET_NAMESPACE"]).release(resource=lease.resource, force=True)
"""


def test_a_lost_lease_ends_the_test(run: Run) -> None:
    """In the middle of a sleep; the next one has a lease of its own."""
    test = """
        def test_lost(relet_lease):
            lose(relet_lease)
            time.sleep(100)

        def test_next(relet_lease):
            pass
    """
    code, said = run(LOSE + _dedented(test), "--relet-ttl=1")
    assert code == 1
    assert "relet: the lease of 'a' was lost while test_it.py::test_lost had it" in said
    assert "1 failed, 1 passed" in said


def test_a_lease_that_was_lost_and_is_not_noticed_before_the_end(run: Run) -> None:
    code, said = run(LOSE + "\ndef test_lost(relet_lease):\n    lose(relet_lease)\n", "--relet-ttl=600")
    assert code == 1
    assert "relet: while test_it.py::test_lost ran, the lease of 'a' in pool 'devices' is over" in said
    assert "1 passed, 1 error" in said


def test_a_lost_lease_of_the_worker_fails_the_tests_that_use_it(run: Run) -> None:
    test = """
        def test_lost(relet_worker_lease):
            lose(relet_worker_lease)
            time.sleep(100)

        def test_without():
            pass

        def test_with(relet_worker_lease):
            assert False, "this did not get to run"
    """
    code, said = run(LOSE + _dedented(test), "--relet-ttl=1")
    assert code == 1
    assert said.count("relet: the lease of 'a' was lost while all tests had it") == 2
    assert "did not get to run" not in said
    assert "2 failed, 1 passed" in said


def test_a_test_that_handles_the_signal_itself_fails_when_it_has_run(run: Run) -> None:
    test = """
        import signal
        signal.signal(signal.SIGURG, lambda *_: None)

        def test_lost(relet_lease):
            lose(relet_lease)
            while not relet_lease.lost:
                time.sleep(0.01)
    """
    code, said = run(LOSE + _dedented(test), "--relet-ttl=1")
    assert code == 1
    assert "relet: the lease of 'a' was lost while test_it.py::test_lost had it" in said


# What it costs


def test_unused_it_loads_nothing(run: Run) -> None:
    test = "import sys\ndef test_it(): assert not {'relet', 'redis', 'click'} & set(sys.modules)\n"
    code, said = run(test, ini=[])
    assert code == 0, said


def test_it_can_be_seen_and_left_out(run: Run) -> None:
    assert "--relet-pool" in run("", "--help")[1]
    assert "@pytest.mark.relet(pool, *, ttl, timeout)" in run("", "--markers")[1]
    code, said = run("def test_it(relet_lease): pass\n", "-p", "no:relet", ini=[])
    assert (code, "fixture 'relet_lease' not found" in said) == (1, True)


def _dedented(text: str) -> str:
    return text.replace("\n        ", "\n")
