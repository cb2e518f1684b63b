"""What only threads need: locks in order of arrival, and a reader whose connection is hung up by somebody else."""

from __future__ import annotations

import asyncio
import threading

import pytest
import redis

from relet import Lease, Pool
from relet.asking import Stripe, Stripes
from relet.line import Ask, Detach
from relet.requests import Requests
from relet.waiting import wait_in_line
from tests.helpers import eventually, unique
from tests.servers import Server
from tests.waiting.drivers import GUARD_S, ONE_SERVER

# -- interrupts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strike", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("trouble", [LookupError, redis.ResponseError, redis.ConnectionError])
def test_no_error_of_the_cleaning_hides_why(strike: type[BaseException], trouble: type[Exception]) -> None:
    flow = wait_in_line(Requests("relet", "gpu"), "0" * 32, 1, 1000, b"me", None)
    assert isinstance(next(flow), Ask)
    effect = flow.throw(strike())
    assert isinstance(effect, Ask)
    assert effect.request.script.verb == "leave"
    assert isinstance(flow.throw(trouble()), Detach)
    with pytest.raises(strike):
        next(flow)


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_stripe_goes_in_order_of_arrival() -> None:
    stripe, served, asked = Stripe(), [], []

    def ask(number: int) -> None:
        with (mine := threading.Lock()):
            ahead = stripe.after(mine)
            asked.append(number)
            with ahead, stripe.lock:
                served.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    with (mine := threading.Lock()), stripe.after(mine), stripe.lock:
        for number, thread in enumerate(threads, 1):
            thread.start()
            eventually(lambda n=number: len(asked) == n, "it to be in the queue")
        assert served == []
    for thread in threads:
        thread.join(GUARD_S)
    assert served == list(range(20))


def test_who_is_struck_down_in_the_queue_lets_the_next_go_on() -> None:
    stripe = Stripe()
    with pytest.raises(KeyboardInterrupt), (mine := threading.Lock()), stripe.after(mine):
        raise KeyboardInterrupt
    with (mine := threading.Lock()), stripe.after(mine), stripe.lock:
        assert stripe.lock.locked()
    assert not stripe.lock.locked()


def test_threads_are_spread_evenly() -> None:
    stripes, seen = Stripes(6), []
    gate = threading.Barrier(12)

    def look() -> None:
        seen.append((stripes.index(), stripes.index()))
        gate.wait(GUARD_S)  # all live at the same time

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    assert sorted(seen) == [(index, index) for index in range(6) for _ in range(2)]


# -- one connection, many threads --------------------------------------------------------------------------------------


@ONE_SERVER
def test_the_line_is_hung_up_while_others_read(server: Server) -> None:
    """As a thread does that could not be told to leave: nobody sees an error, and everybody is served."""
    with server.client() as client, server.client() as checker:
        pool = Pool(client, unique("hung-up"), ttl=60)
        seen = Pool(checker, pool.name)
        pool.add("r1")
        held = seen.acquire()
        served: list[Lease] = []
        errors: list[Exception] = []

        def wait() -> None:
            try:
                lease = pool.acquire(timeout=GUARD_S)
                served.append(lease)
                lease.release()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        eventually(lambda: seen.stats().waiting == 5, "all to wait")
        for _ in range(200):
            pool._line.detach()
        held.release()
        for thread in threads:
            thread.join(GUARD_S)
        assert errors == []
        assert len(served) == 5
        assert seen.stats().free == 1
        pool.close()
        seen.destroy()
