"""The transitions against a plain model, whatever happens in whatever order, time passing included.

Time passes by moving every deadline on the server into the past, all else left as it is. The model's clock ticks in
steps of 100 s, so the seconds that a run really takes turn no lease from live to lapsed.
"""

from __future__ import annotations

import os
import random
from typing import Any, cast

import hypothesis.strategies as st
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

import relet.core
import relet.requests
from relet import Lease, LeaseLost, Pool, ResourceInfo, ResourceUnknown, Stats
from relet.lease import monotonic
from tests.helpers import unique
from tests.pool.model import RESENDS_S, Held, Model
from tests.servers import Server

SHIFT = """
local root, tracking, ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local function earlier(key)
  local entries = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    redis.call('ZADD', key, 'XX', string.format('%.0f', entries[i + 1] - ms), entries[i])
  end
  return entries
end
local leased = earlier(root .. ':leased')
earlier(root .. ':leaving')
local ended = earlier(root .. ':ended')
if #ended > 0 then
  redis.call('PEXPIREAT', root .. ':ended', string.format('%.0f', ended[#ended] - ms))
end
for i = 1, #leased, 2 do
  if redis.call('EXISTS', tracking .. leased[i]) == 1 then
    redis.call('PEXPIREAT', tracking .. leased[i], string.format('%.0f', leased[i + 1] - ms))
  end
end
"""

LOOK = """
local root, tracking = KEYS[1], ARGV[1]
local leased = redis.call('ZRANGE', root .. ':leased', 0, -1, 'WITHSCORES')
local signals = {}
for i = 1, #leased, 2 do
  signals[#signals + 1] = { redis.call('GET', tracking .. leased[i]) or '', redis.call('PTTL', tracking .. leased[i]) }
end
local time = redis.call('TIME')
return {
  redis.call('ZRANGE', root .. ':free', 0, -1, 'WITHSCORES'), leased,
  redis.call('ZRANGE', root .. ':resources', 0, -1, 'WITHSCORES'),
  redis.call('ZRANGE', root .. ':leaving', 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', root), signals, time[1] * 1000 + math.floor(time[2] / 1000),
}
"""

EXAMPLES = int(os.environ.get("RELET_TESTS_EXAMPLES", "100"))

NAMES = ["a", "b", "ü x", "{e}"]
RARE = ["flush scripts", "ask as a stranger", "rank", "random"] * 3 + ["destroy", "lose all keys"]
TTLS = st.sampled_from([100, 100, 300, 900])
names = st.sampled_from(NAMES)
some_names = st.lists(names, min_size=1, max_size=2)
attributes = st.sampled_from([None, None, {}, {"a": 1}, {"ü": ["\n"]}])
owners = st.sampled_from(["ann", "", " o w ner ", "ü"])


def pairs(flat: list[Any]) -> dict[str, str]:
    text = [value.decode() for value in flat]
    return dict(zip(text[::2], text[1::2], strict=True))


class PoolMachine(RuleBasedStateMachine):
    """``leases`` are all that were ever granted, whatever became of them."""

    server: Server

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.client: redis.Redis = self.server.client()
        self.pool = Pool(self.client, unique("model"))
        self.root, self.tracking = self.pool._requests.keys.root, self.pool._requests.keys.tracking
        self.model = Model()
        self.granted: dict[str, Lease] = {}
        self.shortened: set[str] = set()

    def teardown(self) -> None:
        self.pool.destroy()
        left = self.client.keys("*")
        self.client.close()
        assert left == []

    def ask(self, token: str, ttl: int, owner: str) -> Lease | None:
        """The acquire of ``token``, sent for the first time or again."""
        asked_at = monotonic()
        grant = self.pool._send(self.pool._requests.acquire(token, ttl * 1000, owner.encode()))
        return grant and self.pool._lease(self.pool._requests, grant, token, ttl * 1000, asked_at + ttl)

    @initialize(is_made=st.sampled_from([True, True, False]), order=st.sampled_from(["rank", "rank", "random"]))
    def begin(self, is_made: bool, order: str) -> None:
        if is_made:
            self.add(dict.fromkeys(NAMES[:3]), order)

    @rule(
        new=st.dictionaries(names, attributes, min_size=1, max_size=3),
        order=st.sampled_from([None, None, "rank", "random"]),
    )
    def add(self, new: dict[str, Any], order: str | None) -> None:
        order = order if self.model.order is None else None
        self.model.order = self.model.order or order or "rank"
        expected = sum(self.model.add(name, more) for name, more in new.items())
        assert self.pool.add(new, order=order) == expected

    @precondition(lambda self: self.model.resources)
    @rule(gone=some_names)
    def remove(self, gone: list[str]) -> None:
        assert self.pool.remove(gone) == sum(self.model.remove(name) for name in gone)

    @precondition(lambda self: self.model.resources)
    @rule(target=leases, ttl=TTLS, owner=owners, count=st.integers(1, 3))
    def acquire(self, ttl: int, owner: str, count: int) -> Any:
        found = [self.granted_or_none(self.pool.try_acquire(ttl, owner=owner), ttl, owner) for _ in range(count)]
        return multiple(*(token for token in found if token))

    def granted_or_none(self, lease: Lease | None, ttl: int, owner: str) -> str | None:
        """Checks the answer to an acquire, writes a new grant into the model, and returns its token."""
        self.model.sweep()
        candidates = self.model.next()
        if lease is None:
            assert candidates == []
            return None
        assert lease.resource in candidates
        assert lease.attributes == self.model.resources[lease.resource].attributes
        self.model.grant(Held(lease.token, lease.resource, lease.fence, owner, self.model.now + ttl))
        self.granted[lease.token] = lease
        return lease.token

    @rule(target=leases, token=leases, ttl=TTLS, owner=owners)
    def acquire_resent(self, token: str, ttl: int, owner: str) -> Any:
        """The same lease while it is held; another once it lapsed, which is no robbery: its fence is higher."""
        held, old = self.model.find(token), self.granted[token]
        if held is None and (old.released or token in self.model.released_by_token or token in self.model.robbed):
            return multiple()  # no client sends an acquire again after it has gone on to something else
        lease = self.ask(token, ttl, owner)
        if held is None:
            granted = self.granted_or_none(lease, ttl, owner)
            return granted or multiple()
        assert lease is not None
        assert (lease.resource, lease.fence) == (held.name, held.fence)
        assert lease.attributes == self.model.resources[held.name].attributes
        assert lease._grant.deadline_ms == old._grant.deadline_ms
        return multiple()

    @rule(token=leases, ttl=TTLS)
    def renew(self, token: str, ttl: int) -> None:
        lease, held = self.granted[token], self.model.find(token)
        if held and not lease.released:
            lease.renew(ttl)
            if self.model.now + ttl < held.deadline:
                self.shortened.add(token)
            held.deadline = self.model.now + ttl
            return
        with pytest.raises(LeaseLost):
            lease.renew(ttl)

    @rule(token=leases, ttl=TTLS)
    def renew_by_token(self, token: str, ttl: int) -> None:
        held = self.model.find(token)
        if held is None:
            with pytest.raises(LeaseLost):
                self.pool.renew(token, ttl)
        elif self.model.now + ttl >= held.deadline:
            self.pool.renew(token, ttl)
            self.granted[token].renew(ttl)
            held.deadline = self.model.now + ttl

    @rule(token=leases, times=st.integers(1, 2))
    def release(self, token: str, times: int) -> None:
        lease, held = self.granted[token], self.model.find(token)
        if held and not lease.released:
            lease.release()
            self.model.release(held)
            if token in self.shortened:  # its holder may know a deadline that is too late, so this is remembered
                self.model.released_by_token[token] = self.model.now + RESENDS_S
            for _ in range(times - 1):  # sent again by the client library
                assert self.pool._send(self.pool._requests.release(token, lease._grant))
        elif lease.released:
            lease.release()
        elif token not in self.model.released_by_token:
            with pytest.raises(LeaseLost):
                lease.release()

    @rule(token=leases, times=st.integers(1, 2))
    def release_by_token(self, token: str, times: int) -> None:
        held = self.model.find(token)
        if held:
            for _ in range(times):
                assert self.pool.release(token) is True
            self.model.release(held)
            self.model.released_by_token[token] = self.model.now + RESENDS_S
        elif token not in self.model.released_by_token:
            with pytest.raises(LeaseLost):
                self.pool.release(token)
        elif self.model.now < self.model.released_by_token[token]:
            assert self.pool.release(token) is True

    @precondition(lambda self: self.model.order)
    @rule(name=names, times=st.integers(1, 2))
    def force_release(self, name: str, times: int) -> None:
        resource = self.model.resources.get(name)
        request = self.pool._requests.force_release(name, name.encode())
        if resource is None:
            with pytest.raises(ResourceUnknown):
                self.pool._send(request)
            return
        held = resource.held
        if self.model.is_live(held):
            for _ in range(times):
                assert self.pool._send(request) is True
            assert held
            self.model.release(held)
            self.model.robbed.add(held.token)
        else:
            assert self.pool._send(request) is False
            self.model.sweep(name)

    @precondition(lambda self: self.model.overdue_count())
    @rule()
    def reclaim(self) -> None:
        assert self.pool.reclaim() == self.model.sweep()

    @precondition(lambda self: self.granted)
    @rule(seconds=st.sampled_from([100, 200, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.client.eval(SHIFT, 1, self.root, self.tracking, seconds * 1000)  # type: ignore[arg-type]
        self.model.now += seconds
        for lease in self.granted.values():
            lease._grant = lease._grant._replace(deadline_ms=lease._grant.deadline_ms - seconds * 1000)
            lease._ends_at -= seconds

    @rule(what=st.sampled_from(RARE))
    def rarely(self, what: str) -> None:
        if what in ("rank", "random") and self.model.order:
            self.pool.set_order(what)
            self.model.order = what
        elif what == "flush scripts":
            self.client.script_flush()
        elif what == "ask as a stranger":
            for call in (self.pool.renew, self.pool.release):
                with pytest.raises(LeaseLost):
                    call(seeded_token())
        elif what in ("destroy", "lose all keys"):
            if what == "lose all keys":
                self.client.flushdb()
            self.pool.destroy()
            self.model.forget()

    @invariant()
    def the_reads_agree(self) -> None:
        model = self.model
        stats = self.pool.stats()
        assert stats == Stats(
            total=len(model.visible()),
            free=model.free_count(),
            leased=model.leased_count(),
            waiting=0,
            quarantined=0,
            granted=model.granted,
            released=model.released,
            lapsed=model.lapsed + model.overdue_count(),
        )
        assert stats.total == stats.free + stats.leased + stats.quarantined
        assert stats.granted == stats.released + stats.lapsed + stats.leased
        assert self.pool.order() == model.order
        found = list(self.pool.resources())
        assert [info.name for info in found] == model.visible()
        for info in found:
            resource = model.resources[info.name]
            if model.is_live(resource.held):
                assert resource.held
                assert info.remaining is not None
                assert resource.held.deadline - model.now - 50 < info.remaining <= resource.held.deadline - model.now
                assert info == ResourceInfo(
                    info.name,
                    "leased",
                    resource.attributes,
                    resource.held.owner,
                    resource.held.fence,
                    None,
                    info.remaining,
                    info.since,
                    "leaving" if resource.is_leaving else None,
                )
                assert info.since is not None
            else:
                assert info == ResourceInfo(info.name, "free", resource.attributes)

    @invariant()
    def the_keys_agree(self) -> None:
        """What lies on the server, lapsed leases that nobody swept yet included."""
        model = self.model
        raw = cast("list[Any]", self.client.eval(LOOK, 1, self.root, self.tracking))  # type: ignore[arg-type]
        free, leased, resources, leaving, fields = (pairs(part) for part in raw[:5])
        assert set(free) == {name for name, resource in model.resources.items() if resource.held is None}
        assert set(leased) == {name for name, resource in model.resources.items() if resource.held}
        assert {name: int(rank) for name, rank in resources.items()} == {n: r.rank for n, r in model.resources.items()}
        assert leaving == {name: leased[name] for name in model.resources if model.resources[name].is_leaving}
        if model.order is None:
            assert fields == {}
            return
        assert int(fields["total"]) == len(resources)
        if model.order == "rank":
            assert free == {name: resources[name] for name in free}
        held = [resource.held for resource in model.resources.values() if resource.held]
        assert {key for key in fields if key[1] == ":"} == (
            {f"t:{one.token}" for one in held} | {f"r:{one.name}" for one in held}
        )
        for one in held:
            home = str(model.resources[one.name].rank) if model.order == "rank" else model.order
            record = fields[f"t:{one.token}"].replace(
                "* ", " ", 1
            )  # the star: its deadline was moved to an earlier one
            assert record == f"{'gone' if one.name in leaving else home} {one.name}"
            token, fence, _, owner = fields[f"r:{one.name}"].split(" ", 3)
            assert (token, int(fence), owner) == (one.token, one.fence, one.owner)
        self.the_signals_agree(leased, raw[5], raw[6])

    def the_signals_agree(self, leased: dict[str, str], signals: list[Any], now_ms: int) -> None:
        """A live lease has its tracking key, which ends with it; a lapsed one has none."""
        for (name, deadline_ms), (token, left_ms) in zip(leased.items(), signals, strict=True):
            held = self.model.resources[name].held
            assert held
            assert int(deadline_ms) == self.granted[held.token]._grant.deadline_ms
            if self.model.is_live(held):
                assert token.decode() == held.token
                assert abs(now_ms + left_ms - int(deadline_ms)) < 50_000
            else:
                assert (token, left_ms) == (b"", -2)


def seeded_token() -> str:
    """From the generator that hypothesis seeds: the order `random` repeats itself when an example is run again."""
    return f"{random.getrandbits(128):032x}"


def test_the_pool_agrees_with_the_model(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (relet.core, relet.requests):
        monkeypatch.setattr(module, "new_token", seeded_token)
    machine = type("PoolMachine", (PoolMachine,), {"server": server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=50,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
