"""What a person is told: the table of nemeses, and a verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from .checker import PROMISES, Verdict, excuses
from .nemeses import NEMESES

SHOWN = 10
"""Findings of each kind that are told in full."""


def nemeses() -> str:
    """The table of --list."""
    lines = []
    for name, nemesis in NEMESES.items():
        lines.append(f"{name}  (on {' and '.join(nemesis.grounds)})")
        for head, text in (("does", nemesis.does), ("promised", nemesis.promised), ("outside", nemesis.outside)):
            lines += textwrap.wrap(text, 110, initial_indent=f"    {head + ':':<10}", subsequent_indent=" " * 14)
    return "\n".join(lines)


def verdict(one: Verdict) -> str:
    return "\n".join(_lines(one))


def _lines(one: Verdict) -> Iterator[str]:
    plan = one.plan
    if plan:
        yield f"{plan['server']}, {plan['seconds']:g} s, seed {plan['seed']}, {plan['clients']} clients"
    total = sum(sum(results.values()) for results in one.operations.values())
    yield f"operations: {total}"
    for verb, results in one.operations.items():
        yield f"    {verb:<8} " + ", ".join(f"{count} {result}" for result, count in results.items())
    yield f"leases: {one.leases}; held against the one before: {one.pairs}"
    yield (
        f"register: {one.writes[True]} writes accepted ({one.late} of them late, before the next holder's first), "
        f"{one.writes[False]} refused"
    )
    yield f"faults injected: {sum(one.struck.values())}"
    for name, count in sorted(one.struck.items()):
        yield f"    {name:<22} {count}"
    by_promise = {promise: sum(found.promise == promise for found in one.faults) for promise in PROMISES}
    yield "promises broken: " + ", ".join(f"{promise} {count}" for promise, count in by_promise.items())
    for promise, by_nemesis in excuses(one.outside).items():
        told = ", ".join(f"{nemesis} {count}" for nemesis, count in by_nemesis.items())
        yield f"outside the promise: {promise} {sum(by_nemesis.values())} ({told})"
    for finding in one.faults[:SHOWN]:
        yield f"FAULT {finding.promise}: {finding.what}"
    if len(one.faults) > SHOWN:
        yield f"… and {len(one.faults) - SHOWN} more"
    yield "verdict: " + ("every promise was kept" if one.good else "PROMISES WERE BROKEN")
