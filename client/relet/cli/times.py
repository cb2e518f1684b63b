"""Moments and durations, as people write them and read them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

UNITS_S = {"d": 86400, "h": 3600, "m": 60, "min": 60, "s": 1}
_PART = r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*"


def moment(text: str, now: float) -> float:
    """Seconds since 1970: ``now`` less a duration (``90s``, ``1h30m``), or a date and time in ISO 8601.

    A date and time without a zone is of this machine's.

    Raises:
        ValueError: it is neither.
    """
    if re.fullmatch(rf"(?:{_PART})+", text):
        return max(0.0, now - sum(float(number) * UNITS_S[unit] for number, unit in re.findall(_PART, text)))
    try:
        at = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text)).timestamp()
    except (ValueError, OverflowError, OSError):
        at = -1.0
    if at < 0:
        raise ValueError(
            f"a time is a duration such as 90s, 15m or 1h30m, or a date like 2030-01-31T14:00, not {text!r}"
        )
    return at


def server_time(client: Any) -> float:
    """Seconds since 1970 on the server's clock."""
    nodes = {"target_nodes": "random"} if hasattr(client, "get_default_node") else {}
    seconds, micros = client.time(**nodes)
    return float(seconds) + int(micros) / 1e6


def clock(at: float) -> str:
    """Seconds since 1970, as a date and time of this machine's zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
