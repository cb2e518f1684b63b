"""For Python under libfaketime 0.9.10 alone: a time.sleep that works there.

CPython sleeps by clock_nanosleep until a time of CLOCK_MONOTONIC. libfaketime answers that with EINVAL, if it was told
to leave that clock as it is. This file is found by PYTHONPATH: so it comes before anybody has imported time.sleep.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
