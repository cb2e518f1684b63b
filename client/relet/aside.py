"""The verbs for resources that are kept aside, as flows: quarantine, cleaning, drain. Both drivers run them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from relet.clock import lease_end, monotonic
from relet.errors import PoolExhausted
from relet.flow import Flow
from relet.lease import HeldLease
from relet.line import Pause
from relet.model import Policy
from relet.names import check_destination, check_reason, check_resource, check_timeout, new_token
from relet.requests import UNKNOWN, Request, Requests
from relet.waiting import ask

LOOK_S = 0.5
"""Seconds between two looks of a cleaner that waits: there is nobody in line to be told."""
CHUNK = 250
"""Names a call: about a millisecond of the server's time."""

L = TypeVar("L", bound=HeldLease)


class AsideCore(Generic[L]):
    """A part of :class:`relet.core.PoolCore`."""

    _requests: Requests
    _name: str

    def _asked(self, ttl: float | None, owner: str | None) -> tuple[int, bytes]:
        raise NotImplementedError

    def _lease(self, requests: Requests, grant: Any, token: str, ttl_ms: int, ends_at: float) -> L:
        raise NotImplementedError

    def _set_aside(self, kind: str, resources: tuple[str, ...], reason: str) -> Flow[int]:
        why = check_reason(reason)
        done = yield from self._in_chunks(
            resources, lambda chunk: self._requests.quarantine(kind, why, chunk), "kept aside"
        )
        return done

    def _restore(self, kind: str, resources: tuple[str, ...]) -> Flow[int]:
        done = yield from self._in_chunks(resources, lambda chunk: self._requests.restore(kind, chunk), "restored")
        return done

    def _in_chunks(self, resources: tuple[str, ...], request: Any, done: str) -> Flow[int]:
        names = [check_resource(name) for name in resources]
        changed, unknown = 0, []
        for start in range(0, len(names), CHUNK):
            ask: Request[list[int]] = request(names[start : start + CHUNK])
            answers = yield ask
            changed += sum(answer > 0 for answer in answers)
            unknown += [
                name
                for name, answer in zip(resources[start : start + CHUNK], answers, strict=True)
                if answer == UNKNOWN
            ]
        if unknown:
            raise self._requests.unknown(unknown, done)
        return changed

    def _clean(self, ttl: float | None, timeout: float | None, owner: str | None) -> Flow[L]:
        ttl_ms, named = self._asked(ttl, owner)
        seconds = check_timeout(timeout)
        until = None if seconds is None else monotonic() + seconds
        while True:
            token = new_token()
            grant, asked_at = yield from ask(self._requests, self._requests.clean(token, ttl_ms, named), token, 1)
            if grant is not None:
                return self._lease(self._requests, grant, token, ttl_ms, lease_end(asked_at, grant.left_ms))
            now = monotonic()
            if until is not None and now >= until:
                raise PoolExhausted(f"nothing of pool {self._name!r} is in quarantine")
            yield Pause(None, now + LOOK_S if until is None else min(until, now + LOOK_S))

    def _policy(self, on_lapse: str | None, on_release: str | None) -> Flow[Policy]:
        destinations = check_destination("on_lapse", on_lapse), check_destination("on_release", on_release)
        policy = yield self._requests.policy(*destinations)
        if policy is None:
            if any(destinations):
                raise self._requests.missing()
            return Policy()
        changed: Policy = policy
        return changed
