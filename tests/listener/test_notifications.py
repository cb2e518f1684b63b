"""What the listener says of expired events, sets, and does without where it may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import redis

from relet import Listener, Pool
from tests.helpers import eventually
from tests.listener.looks import SETTING, is_listening, is_settled
from tests.servers import Server


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
