"""How a flow of round trips is written: a generator that yields effects, gets their answers, and returns a result.

The flow thinks and a driver acts: :class:`relet.pool.Pool` from a thread, :class:`relet.aio.AsyncPool` from a task.
An effect is a :class:`relet.requests.Request` (send it and answer what it means) or one of :mod:`relet.waiting`.
An error of the driver's is thrown into the flow, which may handle it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Flow = Generator[Any, Any, T]

Progress = Callable[[int], object]
"""Called after each round trip of a long job, with the number of items done so far."""
