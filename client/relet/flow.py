"""How a flow of round trips is written: a generator that yields effects, gets their answers, and returns a result.

The flow thinks and a driver acts: :class:`relet.pool.Pool` from a thread, :class:`relet.aio.AsyncPool` from a task.
An effect is a :class:`relet.requests.Request` (send it and answer what it means) or one of :mod:`relet.line`.
An error of the driver's is thrown into the flow, which may handle it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

T = TypeVar("T")

Flow = Generator[Any, Any, T]

Progress = Callable[[int], object]
"""Called after each round trip of a long job, with the number of items done so far."""


def further(progress: Progress | None, before: int) -> Progress | None:
    """The progress of a later part of a job, before which so many items were done."""
    return progress and (lambda done: progress(before + done))


def run(flow: Flow[T], act: Callable[[Any], Any]) -> T:
    """Runs a flow whose effects ``act`` performs.

    KeyboardInterrupt may strike between two steps, too: it is thrown into the flow all the same, to clean up.
    """
    try:
        effect = next(flow)
        while True:
            try:
                while True:  # in here also the jump back, at which Python looks for signals
                    effect = flow.send(act(effect))
            except BaseException as error:
                if getgeneratorstate(flow) == GEN_CLOSED:
                    raise
                effect = flow.throw(error)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def run_async(flow: Flow[T], act: Callable[[Any], Awaitable[Any]]) -> T:
    """Runs a flow whose effects ``act`` performs in this task."""
    try:
        effect = next(flow)
        while True:
            try:
                answer = await act(effect)
            except BaseException as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
