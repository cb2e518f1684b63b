"""What one client does, over and over: take resources, use them, give them back, in every way that relet has.

Written once for Pool and AsyncPool. Each operation goes into the history before it is sent and when it is answered.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import redis

from relet import LeaseLost, PoolExhausted, ReletError

from .history import History, now
from .plan import LONGEST_TTL_S, Plan
from .register import Writer

BREATH_S = 0.03
"""After an error: the server may be away, and asking it at full speed helps nobody."""
TRACE = 3000
"""How much of a traceback is kept."""


class _Told(Exception):
    """The operation failed, and the history has it."""


async def _done(value: Any) -> Any:
    """What a Pool answers is here at once, what an AsyncPool answers is awaited."""
    return await value if inspect.isawaitable(value) else value


class Session:
    """One holder of leases. `pools` are relet's, by name; `min_replicas` is what they were made with."""

    def __init__(
        self, plan: Plan, name: str, pools: dict[str, Any], min_replicas: int, history: History, seed: str
    ) -> None:
        self._plan = plan
        self._name = name
        self._pools = pools
        self._min_replicas = min_replicas
        self._history = history
        self._random = random.Random(seed)
        self._writer = Writer(plan.register)
        self._count = 0
        self._busy = [name for name in pools if name != plan.quiet]

    async def run(self, is_over: Callable[[], bool]) -> None:
        ways = (
            (self._try, 25),
            (self._wait, 30),
            (self._several, 8),
            (self._block, 12),
            (self._renew, 12),
            (self._oversleep, 6),
            (self._forget, 2),
            (self._by_token, 4),
            (self._force, 1),
        )
        try:
            while not is_over():
                (way,) = self._random.choices([way for way, _ in ways], [weight for _, weight in ways])
                try:
                    await way()
                except _Told:
                    await asyncio.sleep(BREATH_S)
                except Exception as error:  # a fault of this file
                    self._history.write("trouble", text=_told(error), trace=traceback.format_exc()[-TRACE:])
                    await asyncio.sleep(BREATH_S)
                await asyncio.sleep(self._random.expovariate(200))
        finally:
            await self._writer.close()

    # ways

    async def _try(self) -> None:
        pool, ttl = self._pool(), self._ttl()
        leases = await self._acquire(pool, ttl, lambda: self._pools[pool].try_acquire(ttl))
        for lease in leases:
            await self._use(pool, lease)
            await self._release(pool, lease)

    async def _wait(self) -> None:
        pool, ttl, timeout = self._pool(), self._ttl(), self._random.uniform(0.05, 2)
        for lease in await self._acquire(pool, ttl, lambda: self._pools[pool].acquire(ttl, timeout)):
            await self._use(pool, lease)
            await self._release(pool, lease)

    async def _several(self) -> None:
        pool, ttl, timeout = self._pool(), self._ttl(), self._random.uniform(0, 1)
        leases = await self._acquire(pool, ttl, lambda: self._pools[pool].acquire_many(2, ttl, timeout))
        for lease in leases:
            await self._use(pool, lease)
        if leases:
            tokens = [lease.token for lease in leases]
            await self._asked("release", lambda: self._pools[pool].release_many(leases), pool=pool, tokens=tokens)

    async def _block(self) -> None:
        """Renewed in the background, often for longer than its ttl."""
        pool, ttl, timeout = self._pool(), self._random.uniform(0.3, 0.8), self._random.uniform(0.05, 2)
        block = self._pools[pool].lease(ttl, timeout)
        enter, leave = (
            (block.__aenter__, block.__aexit__) if hasattr(block, "__aenter__") else (block.__enter__, block.__exit__)
        )
        for lease in await self._acquire(pool, ttl, enter, renewed=True):
            for _ in range(self._random.randrange(1, 6)):
                await asyncio.sleep(self._random.uniform(0.01, ttl / 2))
                t = now()
                if lease.lost:
                    break
                self._history.write("held", t, token=lease.token, until=t + lease.remaining())
                await self._write(pool, lease)
            await self._asked("release", lambda: leave(None, None, None), pool=pool, tokens=[lease.token])

    async def _renew(self) -> None:
        pool, ttl = self._pool(), self._ttl()
        for lease in await self._acquire(pool, ttl, lambda: self._pools[pool].try_acquire(ttl)):
            for _ in range(self._random.randrange(1, 4)):
                await asyncio.sleep(self._random.expovariate(30))
                if not await self._renewed(pool, lease, self._ttl()):
                    return
                await self._write(pool, lease)
            await self._release(pool, lease)

    async def _oversleep(self) -> None:
        """Past the deadline, without looking: what a lease cannot prevent, and a fence can."""
        pool, ttl = self._random.choice([self._plan.quiet, self._pool()]), self._random.uniform(0.02, 0.1)
        for lease in await self._acquire(pool, ttl, lambda: self._pools[pool].try_acquire(ttl)):
            await self._write(pool, lease)
            await asyncio.sleep(ttl + self._random.uniform(-0.01, 0.15))
            await self._write(pool, lease)
            if self._random.random() < 0.5:
                with suppress(LeaseLost):
                    await self._renewed(pool, lease, ttl)
            with suppress(LeaseLost):
                await self._release(pool, lease)

    async def _forget(self) -> None:
        pool, ttl = self._pool(), self._random.uniform(0.05, 0.4)
        await self._acquire(pool, ttl, lambda: self._pools[pool].try_acquire(ttl))

    async def _by_token(self) -> None:
        pool, ttl = self._pool(), self._ttl()
        for lease in await self._acquire(pool, ttl, lambda: self._pools[pool].try_acquire(ttl)):
            await self._use(pool, lease)
            release = partial(self._pools[pool].release, lease.token)
            await self._asked("release", release, pool=pool, tokens=[lease.token])

    async def _force(self) -> None:
        pool = self._pool()
        resource = self._random.choice(self._plan.pools[pool])
        await self._asked(
            "force", lambda: self._pools[pool].release(resource=resource, force=True), pool=pool, resource=resource
        )

    # parts of them

    def _pool(self) -> str:
        return self._random.choice(self._busy)

    def _ttl(self) -> float:
        return self._random.choice((0.15, 0.4, 0.8, LONGEST_TTL_S))

    async def _acquire(self, pool: str, ttl: float, ask: Callable[[], Any], renewed: bool = False) -> list[Any]:
        call = self._call("acquire", pool=pool, ttl=ttl, min_replicas=self._min_replicas, renewed=renewed)
        try:
            answer = await _done(ask())
        except PoolExhausted:
            self._answer(call, "none")
            return []
        except Exception as error:
            raise self._failed(call, error) from error
        t = now()  # before the leases are asked how long they have: this process may be stopped in between
        leases = answer if isinstance(answer, list) else [answer] if answer is not None else []
        told = [
            {"resource": lease.resource, "token": lease.token, "fence": lease.fence, "until": t + lease.remaining()}
            for lease in leases
        ]
        self._history.write("answer", t, id=call, result="ok" if leases else "none", leases=told)
        return leases

    async def _use(self, pool: str, lease: Any) -> None:
        for _ in range(self._random.randrange(1, 3)):
            await asyncio.sleep(self._random.expovariate(150))
            if not lease.lost:
                await self._write(pool, lease)

    async def _write(self, pool: str, lease: Any) -> None:
        fields = {"pool": pool, "resource": lease.resource, "fence": lease.fence, "token": lease.token}
        call = self._call("write", **fields)
        accepted = await self._writer.write(**fields)
        self._answer(call, "ok" if accepted else "refused")

    async def _renewed(self, pool: str, lease: Any, ttl: float) -> bool:
        fields = {"pool": pool, "token": lease.token, "ttl": ttl}
        return await self._asked("renew", lambda: lease.renew(ttl), **fields, until=lease.remaining)

    async def _release(self, pool: str, lease: Any) -> None:
        await self._asked("release", lease.release, pool=pool, tokens=[lease.token])

    async def _asked(
        self, verb: str, ask: Callable[[], Any], until: Callable[[], float] | None = None, **fields: Any
    ) -> bool:
        """Whether the answer was "ok"; False if the lease was lost. Other errors are raised."""
        call = self._call(verb, **fields)
        try:
            await _done(ask())
        except LeaseLost:
            self._answer(call, "lost")
            return False
        except Exception as error:
            raise self._failed(call, error) from error
        t = now()
        more = {} if until is None else {"until": t + until()}
        self._history.write("answer", t, id=call, result="ok", **more)
        return True

    def _failed(self, call: str, error: Exception) -> _Told:
        is_usual = isinstance(error, (ReletError, redis.RedisError, ConnectionError))
        more = {} if is_usual else {"trace": traceback.format_exc()[-TRACE:]}
        self._answer(call, "error", error=_told(error), **more)
        return _Told()

    def _call(self, verb: str, **fields: Any) -> str:
        self._count += 1
        call = f"{self._name}.{self._count}"
        self._history.write("call", id=call, verb=verb, **fields)
        return call

    def _answer(self, call: str, result: str, **fields: Any) -> None:
        self._history.write("answer", id=call, result=result, **fields)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
