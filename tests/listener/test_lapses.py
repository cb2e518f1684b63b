"""relet.Listener on servers without RedisGears: whatever lapses is taken back, by events and by its own clock."""

from __future__ import annotations

from contextlib import closing

import pytest
import redis

from relet import Listener, Pool, listening
from relet.names import new_token
from tests.helpers import Raw, eventually, lapse, lease_all, names, take
from tests.listener.looks import SETTING, all_free, free, is_listening, is_settled, lapsed
from tests.servers import Server


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
