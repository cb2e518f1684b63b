"""The listener goes on, whatever happens to its connections, its servers, the pools and the callback."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
import redis

from relet import Listener, Pool
from tests.helpers import eventually, keys_left, take
from tests.listener.looks import SETTING, Start, all_free, is_settled


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
