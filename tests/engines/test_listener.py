"""relet.Listener and `relet listen` on servers without RedisGears, beside each other, and beside RedisGears.

These tests look at the keys with a plain client: relet's own calls would take lapsed leases back themselves.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
import redis

from relet import Listener, Pool, deploy, listening
from relet.names import new_token
from tests.command import COMMAND, environment, relet
from tests.engines.gears import only, unregister_all
from tests.helpers import Raw, eventually, keys_left, lapse, lease_all, missing, names, take
from tests.servers import SERVERS, Cluster, Server, Spec, Unavailable

PLAIN = ["valkey-9.1", "redis-6.2", "redis-7.0", "redis-8.2"]
SETTING = "notify-keyspace-events"
FAR_S = 3600.0

Start = Callable[..., Server]


@pytest.fixture(scope="module", params=PLAIN)
def spec(request: pytest.FixtureRequest) -> Spec:
    return SERVERS[request.param]


@pytest.fixture(scope="module")
def start(spec: Spec) -> Iterator[Start]:
    """Starts servers that a test may break or restart; all end with the module."""
    with ExitStack() as stack:

        def start_one(**config: Any) -> Server:
            try:
                return stack.enter_context(Server.start(spec, **config))
            except Unavailable as reason:
                missing(str(reason))

        yield start_one


@pytest.fixture(scope="module")
def shared(start: Start) -> Server:
    return start()


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client. At the end there must be no key, and notifications are off."""
    with closing(shared.client()) as one:
        yield one
        left = keys_left(one)
        one.flushall()
        one.config_set(SETTING, "")
        assert not left


@pytest.fixture(params=["notifications", "clock"])
def notified(request: pytest.FixtureRequest, client: redis.Redis) -> bool:
    """With expired events, and without."""
    is_on: bool = request.param == "notifications"
    client.config_set(SETTING, "Ex" if is_on else "")
    return is_on


@pytest.fixture
def pool(client: redis.Redis) -> Iterator[Pool]:
    one = Pool(client, "gpu")
    yield one
    one.destroy()


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first search for pools there is none for an hour."""
    monkeypatch.setattr(listening, "LOOK_S", FAR_S)


@pytest.fixture
def no_recheck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between deadlines nobody looks for an hour."""
    monkeypatch.setattr(listening, "RECHECK_S", FAR_S)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert "relet-listener" not in {thread.name for thread in threading.enumerate()}


def lapsed(pool: Pool, client: Any) -> int:
    return int(client.hget(Raw(client, pool).root, "lapsed") or 0)


def free(pool: Pool, client: Any) -> int:
    return int(client.zcard(f"{Raw(client, pool).root}:free"))


def all_free(pool: Pool, client: Any, count: int) -> None:
    eventually(lambda: free(pool, client) == count, f"{count} free in {pool.name}")


def connections(client: redis.Redis) -> int:
    """Those of this server's clients but for the asking one."""
    return len(client.client_list()) - 1


def is_listening(client: redis.Redis) -> None:
    """Waits until somebody listens for expired keys."""
    name = listening.channel(0)
    eventually(lambda: dict(client.pubsub_numsub(name))[name.encode()] > 0, "a subscriber")


def is_settled(client: redis.Redis, pool: Pool) -> None:
    """Waits until the listener has come upon the pool, by a lease that it takes back."""
    before = lapsed(pool, client)
    with closing(Pool(client, pool.name)) as own:
        take(own, ttl=0.05)
    eventually(lambda: lapsed(pool, client) == before + 1, "the listener to take a lease back")


# Lapses


@pytest.mark.usefixtures("notified")
def test_a_thousand_lapse_and_nobody_calls(client: redis.Redis, pool: Pool) -> None:
    pool.add(names(1000))
    with Listener(client):
        lease_all(pool, 1000, ttl=0.5)
        all_free(pool, client, 1000)
    assert lapsed(pool, client) == 1000
    assert set(Raw(client, pool).free()) == set(names(1000))


@pytest.mark.usefixtures("notified")
def test_what_lapsed_before_it_came_is_swept_at_the_start(client: redis.Redis, pool: Pool) -> None:
    pool.add("r")
    lapse(take(pool, ttl=0.01))
    assert free(pool, client) == 0
    with Listener(client):
        all_free(pool, client, 1)


@pytest.mark.usefixtures("no_search", "no_recheck")
def test_an_event_tells_of_a_nearer_deadline(client: redis.Redis, pool: Pool) -> None:
    """The listener sleeps until a late deadline; another lease ends before."""
    client.config_set(SETTING, "Ex")
    pool.add("r1", "r2", "r3")
    take(pool, ttl=60)
    with Listener(client):
        is_settled(client, pool)
        take(pool, ttl=0.05)
        all_free(pool, client, 2)


@pytest.mark.usefixtures("no_search")
def test_without_events_it_looks_each_second(client: redis.Redis, pool: Pool) -> None:
    pool.add("r1", "r2", "r3")
    take(pool, ttl=60)
    with Listener(client):
        is_settled(client, pool)
        take(pool, ttl=0.05)
        all_free(pool, client, 2)


@pytest.mark.usefixtures("no_search", "no_recheck")
def test_the_nearest_deadline_is_met_by_the_clock_alone(client: redis.Redis, pool: Pool) -> None:
    pool.add(names(3))
    for ttl in (0.5, 1.2, 1.9):
        take(pool, ttl=ttl)
    with Listener(client, "gpu"):
        all_free(pool, client, 3)
    assert lapsed(pool, client) == 3


@pytest.mark.usefixtures("no_search")
def test_an_event_tells_of_a_new_pool(client: redis.Redis) -> None:
    client.config_set(SETTING, "Ex")
    with Listener(client):
        is_listening(client)
        new = Pool(client, "new")
        new.add("r")
        take(new, ttl=0.05)
        all_free(new, client, 1)
    new.destroy()


def test_a_search_finds_a_new_pool(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LOOK_S", 0.1)
    made = []
    with Listener(client):
        for number in range(3):
            made.append(Pool(client, f"new-{number}"))
            made[-1].add("r")
            take(made[-1], ttl=0.05)
            all_free(made[-1], client, 1)
            client.set("somebody's", "else", px=1)
    for pool in made:
        pool.destroy()


@pytest.mark.usefixtures("notified")
def test_only_the_named_pools(client: redis.Redis, pool: Pool) -> None:
    other = Pool(client, "other")
    for each in (other, pool):
        each.add("r")
        lapse(take(each, ttl=0.01))
    with Listener(client, "gpu", "not-yet"):
        all_free(pool, client, 1)
        late = Pool(client, "not-yet")
        late.add("r")
        take(late, ttl=0.05)
        all_free(late, client, 1)
    assert free(other, client) == 0
    other.destroy()
    late.destroy()


@pytest.mark.usefixtures("notified")
def test_many_pools(client: redis.Redis) -> None:
    """More than one round trip takes, each with more lapsed leases than it can be given there."""
    pools = [Pool(client, f"pool-{number}") for number in range(120)]
    with Listener(client):
        for pool in pools:
            pool.add(names(10))
            lease_all(pool, 10, ttl=0.2)
        for pool in pools:
            all_free(pool, client, 10)
            assert lapsed(pool, client) == 10
    for pool in pools:
        pool.destroy()


@pytest.mark.usefixtures("notified")
def test_who_waits_is_served(client: redis.Redis, pool: Pool) -> None:
    """One that does nothing but listen for its grant: others keep a clock, and would take the lease back themselves."""
    pool.add("r")
    take(pool, ttl=1)
    mine = pool._requests.keys.wake + b":waiter"
    with client.pubsub() as ears:
        ears.subscribe(mine)
        eventually(lambda: ears.get_message(timeout=1), "the subscription")
        token = new_token()
        request = pool._requests.acquire_many(token, 60_000, b"waiter", 1, mine)
        client.eval(request.script.text, 1, pool._requests.keys.root, pool._requests.keys.tracking, *request.arguments)
        with Listener(client):
            message: list[bytes] = []

            def heard() -> bool:
                got = ears.get_message(timeout=0.1)
                message.extend([got["data"]] if got else [])
                return bool(message)

            eventually(heard, "the grant")
    assert message[0].startswith(token.encode())
    assert Raw(client, pool).token("r") == token


@pytest.mark.usefixtures("no_search", "no_recheck")
def test_in_another_database_and_namespace(shared: Server) -> None:
    with closing(redis.Redis(port=shared.port, db=3)) as client:
        client.config_set(SETTING, "Ex")
        pool = Pool(client, "gpu", namespace="lab:lease")
        pool.add("r1", "r2", "r3")
        take(pool, ttl=60)
        with Listener(client, namespace="lab:lease"):
            for count in (1, 2):  # of the second, an event alone can tell
                take(pool, ttl=0.05)
                eventually(lambda count=count: lapsed(pool, client) == count, "the lease to come back")
        pool.destroy()
        client.config_set(SETTING, "")
        eventually(lambda: client.dbsize() == 0, "the last tracking key to expire")


# Side by side


@pytest.mark.usefixtures("notified")
def test_two_side_by_side_count_each_lapse_once(client: redis.Redis, pool: Pool) -> None:
    pool.add(names(1000))
    told: list[tuple[str, int]] = []
    both = [Listener(client, on_reclaim=lambda *words: told.append(words)) for _ in range(2)]
    for lease in lease_all(pool, 1000, ttl=1)[-1:]:
        lapse(lease)
    already = lapsed(pool, client)  # where this machine is slow, by the last acquires
    with both[0], both[1]:
        all_free(pool, client, 1000)
        eventually(lambda: sum(count for _, count in told) == 1000 - already, "all to be told")
        assert {name for name, _ in told} == {"gpu"}
        for done in (2000, 3000):
            lease_all(pool, 1000, ttl=0.6)
            all_free(pool, client, 1000)
            assert lapsed(pool, client) == done
    assert lapsed(pool, client) == 3000
    assert pool.stats().released == 0


@pytest.mark.parametrize("name", ["gears-6.2", "gears-7.0"])
def test_two_and_redisgears_count_each_lapse_once(name: str) -> None:
    try:
        server = Server.start(name, notify_keyspace_events="Ex")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server, closing(server.client()) as client:
        deploy(client)
        pool = Pool(client, "gpu")
        pool.add(names(1000))
        with Listener(client), Listener(client):
            for done in (1000, 2000, 3000):
                lease_all(pool, 1000, ttl=1)
                all_free(pool, client, 1000)
                eventually(lambda done=done: only(client).succeeded >= done, "RedisGears to have had its events")
        assert lapsed(pool, client) == 3000
        assert only(client).failed == 0
        assert pool.stats().released == 0
        pool.destroy()
        unregister_all(client)
        assert not keys_left(client)


# Troubles


def test_it_survives_kills_and_a_script_flush(
    client: redis.Redis, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relet")
    client.config_set(SETTING, "Ex")
    pool.add("r1", "r2")
    with Listener(client):
        is_settled(client, pool)
        for kind in ("normal", "pubsub"):
            client.client_kill_filter(_type=kind, skipme=True)
            client.script_flush()
            is_settled(client, pool)
        eventually(lambda: "answers again" in caplog.text, "the reconnect to be said")
    assert "cannot be asked just now" in caplog.text


@pytest.mark.parametrize("settings", [{"appendonly": "yes"}, {"appendonly": "no"}])
def test_it_survives_a_restart(start: Start, settings: dict[str, str]) -> None:
    """A key that expired while the server was down gives no event, and a setting made at run time is gone."""
    server = start(**settings)
    with closing(server.client()) as client, closing(server.client()) as lent:
        pool = Pool(client, "gpu")
        pool.add("r1", "r2")
        with Listener(lent, set_notifications=True):
            is_settled(client, pool)
            for _ in range(2):
                take(pool, ttl=0.5)
                server.restart(save=settings["appendonly"] == "no")
                all_free(pool, client, 2)
                eventually(lambda: "x" in client.config_get(SETTING)[SETTING], "the notifications to be on again")
                is_settled(client, pool)
        pool.destroy()
        assert not keys_left(client)
    server.stop()


def test_it_waits_for_a_server_that_is_not_there_yet(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = start()
    server.kill()
    with closing(server.client()) as client, Listener(client):
        eventually(lambda: "cannot be asked just now" in caplog.text, "the trouble to be said")
        server.restart()
        pool = Pool(client, "gpu")
        pool.add("r")
        is_settled(client, pool)
        pool.destroy()
    server.stop()


def test_a_stalled_server(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = start()
    with closing(server.client()) as client:
        pool = Pool(client, "gpu")
        pool.add("r")
        with Listener(client):
            is_settled(client, pool)
            server.pause()
            eventually(lambda: "cannot be asked just now" in caplog.text, "the trouble to be said")
            server.resume()
            is_settled(client, pool)
            server.pause()
        server.resume()
        pool.destroy()
    server.stop()


def test_a_damaged_pool_does_not_keep_the_others(
    client: redis.Redis, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Pool(client, "broken")
    for each in (broken, pool):
        each.add("r")
        take(each, ttl=0.05)
    client.delete("relet:pool:{broken}:leased")
    client.set("relet:pool:{broken}:leased", "no sorted set")
    with Listener(client):
        all_free(pool, client, 1)
        eventually(lambda: "'broken' could not be reclaimed" in caplog.text, "the trouble to be said")
        is_settled(client, pool)
    assert caplog.text.count("'broken' could not be reclaimed") == 1
    client.delete("relet:pool:{broken}:leased")
    client.delete(*client.keys("relet:pool:{broken}*"))


def test_a_callback_that_raises_does_not_end_it(
    client: redis.Redis, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str, count: int) -> None:
        raise ValueError(f"no {count} for {name}")

    pool.add("r")
    with Listener(client, on_reclaim=fail):
        is_settled(client, pool)
        is_settled(client, pool)
    assert "no 1 for gpu" in caplog.text


# Notifications


def test_it_says_that_notifications_are_off(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    client.config_set(SETTING, "g$K")
    with Listener(client):
        is_listening(client)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("keyspace notifications are off (notify-keyspace-events is '")
    assert "by the clock" in line
    assert "set_notifications=True" in line
    assert set(client.config_get(SETTING)[SETTING]) == set("g$K"), "it was not asked to change them"


def test_it_says_nothing_where_all_is_well(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    client.config_set(SETTING, "Ex")
    with Listener(client, set_notifications=True):
        is_listening(client)
    assert not caplog.records


@pytest.mark.parametrize(("before", "after"), [("", "Ex"), ("Kg$", "Kg$Ex"), ("KA", "KEA"), ("Ex", "Ex")])
def test_it_adds_what_is_missing_and_drops_nothing(client: redis.Redis, before: str, after: str) -> None:
    client.config_set(SETTING, before)
    with Listener(client, set_notifications=True), Listener(client, set_notifications=True):
        is_listening(client)
    assert set(client.config_get(SETTING)[SETTING]) == set(after)


@contextmanager
def user(client: redis.Redis, shared: Server, *rights: str) -> Iterator[redis.Redis]:
    """A client with every right but some."""
    client.execute_command("ACL", "SETUSER", "worker", "on", "nopass", "~*", "&*", "+@all", *rights)
    try:
        with closing(redis.Redis(port=shared.port, username="worker", password="any")) as one:
            yield one
    finally:
        client.execute_command("ACL", "DELUSER", "worker")


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        (["-config", "+config|get"], "the server refuses to set it"),
        (["-config"], "cannot be seen"),
        (["-subscribe"], "may not be read"),
        (["resetchannels", "&relet:*"], "may not be read"),
        (["-ping"], "was '', and is 'Ex' now"),
    ],
)
def test_what_it_may_not_do_it_does_without(
    client: redis.Redis,
    pool: Pool,
    shared: Server,
    rights: list[str],
    said: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relet.station.PING_S", 0.1)
    pool.add("r1", "r2")
    with user(client, shared, *rights) as worker, Listener(worker, set_notifications=True):
        is_settled(client, pool)
        is_settled(client, pool)
    assert said in caplog.text
    assert "cannot be asked" not in caplog.text


def test_who_may_not_search_names_the_pools(
    client: redis.Redis, pool: Pool, shared: Server, caplog: pytest.LogCaptureFixture
) -> None:
    client.config_set(SETTING, "Ex")
    pool.add("r")
    with user(client, shared, "-scan") as worker:
        with Listener(worker):
            eventually(lambda: "new pools cannot be found" in caplog.text, "the trouble to be said")
        with Listener(worker, "gpu"):
            is_settled(client, pool)


# Starting and ending


def test_it_leaves_nothing_behind(shared: Server, client: redis.Redis) -> None:
    with closing(shared.client()) as lent:
        threads, before = set(threading.enumerate()), connections(client)
        listener = Listener(lent)
        for _ in range(3):
            with listener:
                is_listening(client)
                with pytest.raises(RuntimeError, match="listens already"):
                    listener.start()
                with pytest.raises(RuntimeError, match="listens already"):
                    listener.listen()
            assert set(threading.enumerate()) == threads
            eventually(lambda: connections(client) == before, "its connections to go")
            listener.stop()


def test_it_ends_from_within(client: redis.Redis, pool: Pool) -> None:
    pool.add("r")
    take(pool, ttl=0.05)
    listener = Listener(client, on_reclaim=lambda *_: listener.stop())
    listener.listen()
    assert free(pool, client) == 1


def test_wrong_arguments() -> None:
    with closing(redis.Redis()) as client:
        for name in ("", "a:b", "{a}"):
            with pytest.raises(ValueError, match="pool's name"):
                Listener(client, name)
        with pytest.raises(ValueError, match="namespace"):
            Listener(client, namespace="{}")
    with pytest.raises(TypeError, match="redis-py or valkey-py"):
        Listener(object())
    with pytest.raises(TypeError, match="for threads"):
        Listener(redis.asyncio.Redis())


# Clusters


@pytest.fixture(scope="module", params=["valkey-9.1", "redis-7.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        one = Cluster.start(request.param)
    except Unavailable as reason:
        missing(str(reason))
    with one:
        yield one


@pytest.mark.parametrize("is_on", [True, False], ids=["notifications", "clock"])
def test_a_cluster(cluster: Cluster, is_on: bool, caplog: pytest.LogCaptureFixture) -> None:
    with closing(cluster.client()) as client:
        pools = [Pool(client, f"pool-{number}") for number in range(12)]
        owners = {cluster.owner(client.keyslot(Raw(client, pool).root)) for pool in pools}
        assert owners == {0, 1, 2}
        with Listener(client, set_notifications=is_on):
            for pool in pools:
                pool.add(names(20))
                lease_all(pool, 20, ttl=0.3)
            for pool in pools:
                all_free(pool, client, 20)
                assert lapsed(pool, client) == 20
        for node in cluster.nodes:
            with closing(node.client()) as one:
                assert ("x" in one.config_get(SETTING)[SETTING]) == is_on
                assert f":{node.port}" in caplog.text
                one.config_set(SETTING, "")
        for pool in pools:
            pool.destroy()


def test_a_pool_that_moves_to_another_node(cluster: Cluster) -> None:
    with closing(cluster.client()) as client, closing(cluster.client()) as lent:
        pool = Pool(client, "gpu")
        slot = client.keyslot(Raw(client, pool).root)
        home = cluster.owner(slot)
        pool.add(names(300))
        with Listener(lent):
            for index in ((home + 1) % 3, (home + 2) % 3, home):
                lease_all(pool, 300, ttl=1)
                cluster.move_slot(slot, index)
                all_free(pool, client, 300)
        assert lapsed(pool, client) == 900
        pool.destroy()


# The command


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
