"""The checker on small histories made by hand: each promise, broken and just not broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults import history
from tests.faults.checker import Verdict, judge
from tests.faults.history import Event

R = "r1"


class Story:
    """A history in the making. Times are seconds; a lease is asked for a tenth before it is granted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._number = 0

    def write(self, kind: str, t: float, **fields: Any) -> None:
        self.events.append({"kind": kind, "t": t, **fields})

    def operation(self, verb: str, t: float, answered: float | None, result: str = "ok", **fields: Any) -> None:
        answer = {name: fields.pop(name) for name in ("until", "leases", "error") if name in fields}
        self._number += 1
        self.write("call", t, id=str(self._number), verb=verb, pool="p", **fields)
        if answered is not None:
            self.write("answer", answered, id=str(self._number), result=result, **answer)

    def lease(
        self,
        token: str,
        at: float,
        until: float,
        fence: int,
        *,
        resource: str = R,
        min_replicas: int = 0,
        renewed: bool = False,
    ) -> None:
        told = {"resource": resource, "token": token, "fence": fence, "until": until}
        self.operation(
            "acquire",
            at - 0.1,
            at,
            ttl=until - at + 0.1,
            min_replicas=min_replicas,
            renewed=renewed,
            leases=[told],
        )

    def release(self, token: str, t: float, result: str = "ok") -> None:
        self.operation("release", t, t + 0.1, result, tokens=[token])

    def written(self, token: str, t: float, fence: int, accepted: bool = True) -> None:
        self.write("write", t, pool="p", resource=R, fence=fence, token=token, accepted=accepted)

    def fault(self, t: float, until: float, *voids: str, spares_confirmed: bool = False) -> None:
        self.write("fault", t, until=until, nemesis="n", what="", voids=voids, spares_confirmed=spares_confirmed)

    def census(self, **fields: Any) -> None:
        whole = {"expected": [R], "free": 1, "free_after": 1, "taken": [R]}
        self.write("census", 99.0, pool="p", **{**whole, **fields})

    def verdict(self) -> Verdict:
        return judge(sorted(self.events, key=lambda event: event["t"]))

    def broken(self) -> list[str]:
        return [finding.promise for finding in self.verdict().faults]

    def outside(self) -> list[str]:
        return [finding.promise for finding in self.verdict().outside]


@pytest.fixture
def story() -> Story:
    return Story()


def test_leases_one_after_another_are_in_order(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.release("a", 1.5)
    story.lease("b", 1.6, 3.0, 11)
    story.lease("c", 3.1, 4.0, 13)
    story.lease("d", 1.6, 9.0, 12, resource="r2")
    story.census()
    verdict = story.verdict()
    assert verdict.good
    assert (verdict.leases, verdict.pairs) == (4, 2)


def test_two_certain_leases_overlap(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.lease("b", 1.9, 3.0, 11)
    assert story.broken() == ["overlap"]


def test_a_lease_is_certain_no_longer_than_until_its_release_is_called(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.operation("release", 1.5, None, tokens=["a"])  # nobody knows whether it was done
    story.lease("b", 1.6, 3.0, 11)
    assert story.broken() == []


def test_a_lease_overlaps_the_longest_before_it_and_not_only_the_last(story: Story) -> None:
    story.lease("a", 1.0, 9.0, 10)
    story.lease("b", 2.0, 2.5, 11)
    story.lease("c", 3.0, 4.0, 12)
    assert story.broken() == ["overlap", "overlap"]


def test_a_renewal_makes_a_lease_certain_for_longer(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.operation("renew", 1.8, 1.9, token="a", ttl=1.2, until=3.0)
    story.lease("b", 2.5, 3.5, 11)
    assert story.broken() == ["overlap"]


def test_a_renewal_for_less_that_is_not_answered_may_have_been_done(story: Story) -> None:
    story.lease("a", 1.0, 5.0, 10)
    story.operation("renew", 1.5, None, token="a", ttl=0.5)
    story.lease("b", 2.1, 3.0, 11)
    assert story.broken() == []


def test_a_renewal_that_is_answered_after_its_own_deadline_makes_nothing_certain(story: Story) -> None:
    story.lease("a", 1.0, 5.0, 10)
    story.operation("renew", 1.5, 3.0, token="a", ttl=0.5, until=3.0)
    story.lease("b", 2.1, 2.5, 11)
    assert story.broken() == []


def test_a_background_renewal_makes_a_lease_certain_for_longer(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10, renewed=True)
    story.write("held", 1.9, token="a", until=4.0)
    story.lease("b", 3.0, 3.5, 11)
    assert story.broken() == ["overlap"]


@pytest.mark.parametrize("answered", [1.6, None])
def test_what_an_operator_takes_is_certain_no_more(story: Story, answered: float | None) -> None:
    story.lease("a", 1.0, 9.0, 10)
    story.operation("force", 1.5, answered, resource=R)
    story.lease("b", 1.8, 3.0, 11)
    story.release("a", 2.0, "lost")
    assert story.broken() == []


def test_what_spans_a_loss_is_outside_the_promise(story: Story) -> None:
    story.lease("a", 1.0, 3.0, 10)
    story.fault(1.4, 1.6, "overlap")
    story.lease("b", 2.0, 2.5, 11)
    story.lease("c", 2.2, 2.4, 12)
    verdict = story.verdict()
    assert [(finding.promise, finding.nemesis) for finding in verdict.outside] == [("overlap", "n")] * 2
    assert verdict.good


def test_a_loss_before_both_leases_explains_nothing(story: Story) -> None:
    story.fault(0.1, 0.5, "overlap")
    story.lease("a", 1.0, 3.0, 10)
    story.lease("b", 2.0, 2.5, 11)
    assert story.broken() == ["overlap"]


@pytest.mark.parametrize(
    ("first", "second", "renewed", "is_fault"),
    [(1, 1, False, True), (0, 1, False, False), (1, 0, False, False), (1, 1, True, False)],
)
def test_leases_that_replicas_had_survive_a_failover_as_they_were_granted(
    story: Story, first: int, second: int, renewed: bool, is_fault: bool
) -> None:
    until = 2.0 if renewed else 5.0
    story.lease("a", 1.0, until, 10, min_replicas=first)
    if renewed:
        story.operation("renew", 1.1, 1.2, token="a", ttl=3.9, until=5.0)
    story.fault(1.4, 1.6, "overlap", spares_confirmed=True)
    story.lease("b", 3.0, 4.0, 11, min_replicas=second)
    assert story.broken() == ["overlap"] * is_fault
    assert story.outside() == ["overlap"] * (not is_fault)


def test_a_fence_is_repeated(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.lease("b", 1.0, 2.0, 10, resource="r2")
    assert story.broken() == ["fence"]


def test_a_fence_goes_back(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 11)
    story.lease("b", 3.0, 4.0, 10, resource="r2")
    assert story.broken() == ["fence"]


def test_fences_of_what_was_asked_for_at_once_are_in_any_order(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 11)
    story.lease("b", 1.05, 2.0, 10, resource="r2")
    assert story.broken() == []


def test_a_write_of_an_older_lease_after_one_of_a_newer(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 12)
    story.lease("b", 3.0, 4.0, 11)
    story.written("b", 3.1, 11)
    story.written("a", 3.2, 12)
    assert sorted(story.broken()) == ["fence", "older"]


def test_a_late_write_that_is_refused_is_what_fences_are_for(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.lease("b", 3.0, 4.0, 11)
    story.written("a", 3.05, 10)
    story.written("b", 3.1, 11)
    story.written("a", 3.2, 10, accepted=False)
    verdict = story.verdict()
    assert verdict.good
    assert (verdict.writes[True], verdict.writes[False], verdict.late) == (2, 1, 1)


def test_a_holder_is_refused(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.written("x", 1.1, 99)
    story.written("a", 1.5, 10, accepted=False)
    assert story.broken() == ["refused"]


def test_a_holder_is_told_lost_before_its_deadline(story: Story) -> None:
    story.lease("a", 1.0, 5.0, 10)
    story.operation("renew", 2.0, 2.1, "lost", token="a", ttl=1.0)
    assert story.broken() == ["early"]


def test_a_renewal_for_less_that_was_sent_again_may_come_too_late_for_itself(story: Story) -> None:
    story.lease("a", 1.0, 5.0, 10)
    story.operation("renew", 2.0, 3.1, "lost", token="a", ttl=1.0)
    assert story.broken() == []


def test_a_holder_is_told_lost_after_its_deadline(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.release("a", 1.95, "lost")  # answered after the deadline
    assert story.broken() == []


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_what_lapsed_is_revived(story: Story, verb: str) -> None:
    story.lease("a", 1.0, 2.0, 10)  # a ttl of 1.1 from 1.0 on at the latest
    fields: dict[str, Any] = {"tokens": ["a"]} if verb == "release" else {"token": "a", "ttl": 1.0, "until": 3.1}
    story.operation(verb, 2.2, 2.3, **fields)
    assert story.broken() == ["revived"]


def test_a_release_after_a_renewal_that_was_not_answered_may_be_in_time(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.operation("renew", 1.5, None, token="a", ttl=1.0)
    story.release("a", 2.4)
    assert story.broken() == []


@pytest.mark.parametrize(
    "found",
    [{"free": 0}, {"free_after": 0}, {"taken": []}, {"taken": [R, R]}, {"error": "PoolDamaged: …"}],
    ids=str,
)
def test_a_resource_is_lost(story: Story, found: dict[str, Any]) -> None:
    story.census(**found)
    assert story.broken() == ["lost"]


def test_an_error_that_nobody_expects(story: Story) -> None:
    story.operation("acquire", 1.0, 1.1, "error", error="PoolDamaged: pool 'p' is damaged")
    story.operation("acquire", 1.0, 1.1, "error", error="ConnectionError: Connection closed by server.")
    assert story.broken() == ["surprise"]


def test_operations_are_counted_the_unanswered_too(story: Story) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.operation("release", 1.5, None, tokens=["a"])
    assert story.verdict().operations == {"acquire": {"ok": 1}, "release": {"unanswered": 1}}


def test_a_kept_history_is_judged_the_same_and_half_a_line_is_left_out(story: Story, tmp_path: Path) -> None:
    story.lease("a", 1.0, 2.0, 10)
    story.lease("b", 1.9, 3.0, 11)
    file = tmp_path / "kept.jsonl"
    history.keep(story.events, file)
    with open(file, "a") as out:
        out.write('{"kind": "answer", "t"')
    assert judge(history.read([file])).faults == story.verdict().faults
