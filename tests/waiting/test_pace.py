"""When which lease is renewed, and what becomes of it: without a server, with a clock that the test turns."""

from __future__ import annotations

import pytest
import redis

from relet.lease import HeldLease
from relet.line import Unreachable
from relet.model import Grant
from relet.renewing import Renewals
from relet.requests import Requests


def held(requests: Requests, ends_at: float, ttl_ms: int) -> HeldLease:
    return HeldLease(requests, Grant("r1", 1, 0, ttl_ms, {}), "0" * 32, ttl_ms, ends_at)


@pytest.mark.parametrize("ttl_ms", [200, 3_600_000])
def test_a_renewal_that_crosses_one_by_hand(ttl_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a renewal brought is counted with the ttl that it asked for, not with one that was asked for meanwhile."""
    now = 1000.0
    monkeypatch.setattr("relet.renewing.monotonic", lambda: now)
    monkeypatch.setattr("relet.lease.monotonic", lambda: now)
    requests = Requests("relet", "p")
    lease = held(requests, now + 0.2, 600)
    renewals = Renewals(requests, lambda: None)
    renewals.add(lease, None)
    flow = renewals.renew_due()
    next(flow)  # asked for 600 ms
    lease._renewed(5, ttl_ms, now)  # another thread was quicker to be answered, though the server did it before
    with pytest.raises(StopIteration):
        flow.send([600])
    assert lease.remaining() <= 0.6


def test_an_error_is_no_loss_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("relet.renewing.monotonic", lambda: now[0])
    monkeypatch.setattr("relet.lease.monotonic", lambda: now[0])
    requests = Requests("relet", "p")
    lease = held(requests, now[0] + 0.9, 900)
    renewals = Renewals(requests, lambda: None)
    renewals.add(lease, print)
    tries = 0
    while True:
        at = renewals.next_at()
        assert at is not None
        now[0] = max(now[0], at)
        flow = renewals.renew_due()
        try:
            next(flow)
        except StopIteration as stop:
            told = stop.value
            break
        tries += 1
        error: Exception = Unreachable(redis.ConnectionError("gone"), stalled=False)
        with pytest.raises(StopIteration):
            flow.throw(error)
        assert not lease.lost
    assert now[0] == 1000.9
    assert [(lost, callback) for lost, callback in told] == [(lease, print)]
    assert 5 < tries < 50
    assert renewals.next_at() is None
