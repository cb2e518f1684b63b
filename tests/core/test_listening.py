"""The thinking part of the listener: which pool is due when, and what an event means."""

from __future__ import annotations

import pytest

from relet import listening
from relet.listening import GAP_S, LOOK_S, RECHECK_S, Rota, Search, channel, flags_with_expired


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still: its time is the only item."""
    now = [1000.0]
    monkeypatch.setattr(listening, "monotonic", lambda: now[0])
    return now


def test_a_named_pool_is_due_at_once_and_again_each_second(clock: list[float]) -> None:
    rota = Rota("relet", ["gpu"])
    assert rota.due() == ["gpu"]
    assert rota.swept("gpu", 0, 60_000) == 0
    assert rota.due() == []
    assert rota.next_at() == clock[0] + RECHECK_S
    clock[0] += RECHECK_S
    assert rota.due() == ["gpu"]


def test_a_pool_is_due_at_its_nearest_deadline(clock: list[float]) -> None:
    rota = Rota("relet", ["gpu"])
    rota.swept("gpu", 0, 300)
    assert rota.next_at() == pytest.approx(clock[0] + 0.3)
    rota.swept("gpu", 0, 1)
    assert rota.next_at() == pytest.approx(clock[0] + GAP_S), "what ends in the next moments is one call"


def test_with_more_to_do_a_pool_stays_due_and_the_sum_is_told_at_the_end(clock: list[float]) -> None:
    rota = Rota("relet", ["gpu"])
    assert rota.swept("gpu", 250, 0) == 0
    assert rota.due() == ["gpu"]
    assert rota.swept("gpu", 7, -1) == 257
    assert rota.due() == []
    clock[0] += RECHECK_S
    assert rota.swept("gpu", 3, -1) == 3


def test_many_events_make_a_pool_due_once(clock: list[float]) -> None:
    rota = Rota("relet")
    rota.heard([b"relet:lease:{gpu}:r%d" % number for number in range(1000)] + [b"relet:lease:{tpu}:a}:{b}"])
    assert sorted(rota.due()) == ["gpu", "tpu"]
    rota.swept("gpu", 0, -1)
    rota.heard([b"relet:lease:{gpu}:r1"])
    assert rota.due() == ["tpu"]
    clock[0] += GAP_S
    assert sorted(rota.due()) == ["gpu", "tpu"]


@pytest.mark.parametrize(
    "key",
    [
        b"relet:lease:",
        b"relet:lease:{}:x",
        b"relet:lease:{a",
        b"relet:lease:{a:b}:x",
        b"relet:lease:{\xff}:x",
        b"other:lease:{gpu}:x",
        b"relet:pool:{gpu}",
        b"relet:leases:{gpu}:x",
    ],
)
def test_other_keys_mean_nothing(key: bytes) -> None:
    rota = Rota("relet")
    rota.heard([key])
    assert rota.pools == []


def test_names_may_be_odd() -> None:
    rota = Rota("a:lease")
    rota.heard(["a:lease:lease:{Größe-🦊}:{b}".encode()])
    assert rota.pools == ["Größe-🦊"]


def test_named_pools_stay_alone() -> None:
    rota = Rota("relet", ["gpu"])
    rota.heard([b"relet:lease:{tpu}:x"])
    rota.found([b"relet:pool:{tpu}"])
    rota.searched()
    assert rota.pools == ["gpu"]


def test_a_pool_that_is_gone_is_forgotten_once_it_holds_no_lease() -> None:
    rota = Rota("relet")
    rota.found([b"relet:pool:{gpu}", b"relet:pool:{tpu}", b"relet:pool:{a b}", b"relet:pool:{gpu"])
    assert sorted(rota.pools) == ["gpu", "tpu"]
    rota.searched()
    assert sorted(rota.pools) == ["gpu", "tpu"]
    rota.swept("gpu", 0, 5000)
    rota.swept("tpu", 0, -1)
    rota.searched()
    assert rota.pools == ["gpu"]
    rota.swept("gpu", 0, -1)
    rota.heard([b"relet:lease:{gpu}:x"])
    rota.searched()
    assert rota.pools == ["gpu"], "it was heard of since the last search"
    rota.searched()
    assert rota.pools == []


def test_trouble_is_news_once(clock: list[float]) -> None:
    rota = Rota("relet", ["gpu"])
    assert rota.failed("gpu", "damaged")
    assert rota.due() == []
    rota.heard([b"relet:lease:{gpu}:x"])
    assert rota.due() == [], "events do not shorten the pause"
    clock[0] += listening.AGAIN_S
    assert rota.due() == ["gpu"]
    assert not rota.failed("gpu", "damaged")
    assert rota.failed("gpu", "full")
    rota.swept("gpu", 0, -1)
    assert rota.failed("gpu", "full")


@pytest.mark.usefixtures("clock")
def test_after_a_reconnect_all_are_due() -> None:
    rota = Rota("relet", ["gpu", "tpu"])
    for name in rota.due():
        rota.swept(name, 0, 60_000)
    assert rota.due() == []
    rota.all_due()
    assert rota.due() == ["gpu", "tpu"]


def test_the_search_goes_from_node_to_node_and_rests(clock: list[float]) -> None:
    search = Search()
    assert search.page(["a", "b"]) == ("a", 0)
    assert not search.turned(17)
    assert search.page(["a", "b"]) == ("a", 17)
    assert not search.turned(0)
    assert search.page(["a", "b"]) == ("b", 0)
    assert search.turned(0)
    assert search.next_at == clock[0] + LOOK_S
    search.page(["a"])
    clock[0] += 1
    assert search.turned(0)
    assert search.next_at == clock[0] + listening.LOOK_SHARE, "many keys are not read all the time"
    search.restart()
    assert search.next_at == clock[0]
    assert search.page(["b"]) == ("b", 0)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [("", "Ex"), ("Ex", "Ex"), ("xE", "xE"), ("AKE", "AKE"), ("AK", "AKE"), ("g$K", "g$KEx"), ("E", "Ex"), ("x", "xE")],
)
def test_flags_are_added_and_none_is_dropped(flags: str, wanted: str) -> None:
    assert flags_with_expired(flags) == wanted


def test_the_channel_is_that_of_the_database() -> None:
    assert channel(3) == "__keyevent@3__:expired"
