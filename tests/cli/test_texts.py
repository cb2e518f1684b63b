"""Moments that people write, and bars that they see. Needs no server."""

from __future__ import annotations

import pytest

from relet.cli.times import clock, moment
from relet.cli.watching.picture import BARS, sparkline


def test_moments() -> None:
    assert moment("1h30m", 10_000) == 10_000 - 5400
    assert moment("1.5 s", 10_000) == 9998.5
    assert moment("2d", 10_000) == 0
    assert moment("1970-01-02T00:00:00Z", 0) == 86400
    assert moment("1970-01-02T02:00+02:00", 0) == 86400
    assert clock(moment("2030-01-31T14:00", 0)) == "2030-01-31 14:00:00"
    for wrong in ("", "5", "-5s", "m", "1h x", "0001-01-01T00:00Z"):
        with pytest.raises(ValueError, match="a time is"):
            moment(wrong, 0)


def test_sparklines() -> None:
    assert sparkline([0, 1, 50, 100], 100, 10) == f"{BARS[0]}{BARS[1]}{BARS[4]}{BARS[8]}"
    assert sparkline([1, 2, 3], 3, 2) == sparkline([2, 3], 3, 9)
    assert sparkline([0], 0, 5) == " "
